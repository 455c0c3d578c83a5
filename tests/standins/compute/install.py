"""Puts the stand-in into the layout of a ROCm installation; what tests call."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from standins.compute.releases import RELEASES

SCENARIO = "ROCKTOOLS_STANDIN_COMPUTE_SCENARIO"
FAULT = "ROCKTOOLS_STANDIN_COMPUTE_FAULT"
STATE = "ROCKTOOLS_STANDIN_COMPUTE_STATE"


def install_compute(root: Path, *, version: str, interpreter: str = f"{sys.executable} -IS") -> Path:
    """Write `bin/rocprof-compute` below a ROCm root.

    Args:
        version: one of releases.RELEASES.
        interpreter: for its first line; `/usr/bin/env python3` is what the real ones have. Without site it starts fast.

    Raises:
        KeyError: no such release.
    """
    release = RELEASES[version]
    program = root / "bin" / "rocprof-compute"
    program.parent.mkdir(parents=True, exist_ok=True)
    tests = Path(__file__).resolve().parents[2]
    program.write_text(
        f"#!{interpreter}\n"
        "import sys\n"
        f"sys.path.insert(0, {str(tests)!r})\n"
        "from standins.compute.main import main\n"
        f"main(sys.argv[1:], {release.name!r})\n",
        encoding="utf-8",
    )
    program.chmod(0o755)
    return program


def compute_environment(
    program: Path, *, scenario: Mapping[str, Any] | None = None, faults: str = "", state: Path | None = None
) -> dict[str, str]:
    """This process's environment with the stand-in in PATH and ROCM_PATH; a scenario needs a state folder."""
    environment = {
        name: value for name, value in os.environ.items() if not name.startswith(("ROCP", "ROCKTOOLS_STAND"))
    }
    environment["PATH"] = os.pathsep.join((str(program.parent), environment.get("PATH", os.defpath)))
    environment["ROCM_PATH"] = str(program.parent.parent)
    if state is not None:
        state.mkdir(parents=True, exist_ok=True)
        environment[STATE] = str(state)
    if scenario is not None:
        assert state is not None, "a scenario is a file in the state folder"
        path = state / "scenario.json"
        path.write_text(json.dumps(scenario), encoding="utf-8")
        environment[SCENARIO] = str(path)
    if faults:
        environment[FAULT] = faults
    return environment


def read_calls(state: Path) -> list[dict[str, Any]]:
    """The log of calls."""
    path = state / "calls.jsonl"
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()] if path.exists() else []
