"""Puts the stand-ins into a folder as executables, in the layout of a ROCm installation; what tests call."""

from __future__ import annotations

import os
import shlex
import sys
from pathlib import Path

import rocktools
from standins.versions import RELEASES, ROCPD_IS_DEFAULT

APP = Path(__file__).with_name("app.py")

SCENARIO = "ROCKTOOLS_STANDIN_SCENARIO"
FAULT = "ROCKTOOLS_STANDIN_FAULT"
STATE = "ROCKTOOLS_STANDIN_STATE"


def install_standins(folder: Path, *, version: str) -> Path:
    """Write the three executables and the little that lies beside them.

    Args:
        folder: the ROCm root to make, or its `bin`; it may exist.
        version: release of rocprofiler-sdk, one of versions.RELEASES.

    Returns:
        The folder of the executables, to be put first into PATH.

    Raises:
        KeyError: no such release.
    """
    release = RELEASES[version]
    root = folder.parent if folder.name == "bin" else folder
    bin_folder = root / "bin"
    library = root / "lib" / "rocprofiler-sdk"
    info = root / ".info"
    for each in (bin_folder, library, info):
        each.mkdir(parents=True, exist_ok=True)
    (info / "version").write_text(f"{release.rocm}\n", encoding="utf-8")
    for name in ("librocprofv3-list-avail.so", "librocprofv3-list-avail.so.1"):
        (library / name).touch()
    # Before 1.0 the list of counters was in a script of another name, and rocpd did not exist.
    is_old = release.number < ROCPD_IS_DEFAULT
    names = {"rocprofv3": "rocprofv3", "rocprofv3-avail": "rocprofv3_avail" if is_old else "rocprofv3-avail"}
    for tool, name in names.items() if is_old else {**names, "rocpd": "rocpd"}.items():
        words = [
            sys.executable,
            "-I",
            str(Path(__file__).with_name("main.py")),
            str(Path(rocktools.__file__).parents[1]),
            tool,
            version,
            str(root.absolute()),
        ]
        path = bin_folder / name
        path.write_text(f'#!/bin/sh\nexec {shlex.join(words)} "$@"\n', encoding="utf-8")
        path.chmod(0o755)
    return bin_folder


def app_command(*arguments: str) -> list[str]:
    """The command line of the tiny application (app.py)."""
    return [sys.executable, "-I", str(APP), *arguments]


def standin_environment(
    bin_folder: Path, *, scenario: Path | None = None, faults: str = "", state: Path | None = None
) -> dict[str, str]:
    """This process's environment with the stand-ins first in PATH, and nothing inherited that steers them."""
    environment = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("ROCP", "ROCTX", "ROCKTOOLS_STANDIN_"))
    }
    environment["PATH"] = os.pathsep.join((str(bin_folder), environment.get("PATH", os.defpath)))
    for name, value in ((SCENARIO, scenario), (FAULT, faults), (STATE, state)):
        if value:
            environment[name] = str(value)
    return environment
