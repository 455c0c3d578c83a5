"""`scripts/quickstart`: the whole chain on a simulated run, ending in files to open and commands that work."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parents[1]
BASH = shutil.which("bash")


def _checkout(folder: Path) -> Path:
    """What the script needs of the repository, with the environment of these tests."""
    environment = Path(sys.prefix)
    if BASH is None or not (environment / "bin/activate").is_file() or not (environment / "bin/rocktools").is_file():
        pytest.skip("rocktools is not installed into a virtual environment here")
    checkout = folder / "a checkout"  # with a space in its path
    (checkout / ".venv").mkdir(parents=True)
    (checkout / ".venv/bin").symlink_to(environment / "bin")
    (checkout / "scripts").symlink_to(REPOSITORY / "scripts")
    shutil.copy(REPOSITORY / "pyproject.toml", checkout)
    return checkout


def _run(checkout: Path, arguments: str, *, path: str = "/usr/bin:/bin") -> subprocess.CompletedProcess[str]:
    command = f"cksum <pyproject.toml >.venv/installed-core && scripts/quickstart {arguments}"
    assert BASH is not None
    return subprocess.run(
        [BASH, "-c", command],
        cwd=checkout,
        env={**os.environ, "PATH": path},
        capture_output=True,
        text=True,
        check=False,
    )


def test_every_step_leaves_its_answer_and_the_end_names_a_page_and_a_trace(tmp_path: Path) -> None:
    checkout = _checkout(tmp_path)
    ran = _run(checkout, "--small")
    assert ran.returncode == 0, ran.stderr
    [results] = (checkout / "quickstart-results").iterdir()
    steps = [line.split() for line in ran.stdout.splitlines() if " s  " in line]
    assert len(steps) >= 14
    for _, _, *words in steps:
        assert (results / words[-1]).stat().st_size > 0 or words[-1].startswith("summarize")
    assert "All of it is SIMULATED" in ran.stdout
    assert "unproven" in ran.stdout
    named = [line.split(": ")[1].strip() for line in ran.stdout.splitlines() if line.startswith("Open ")]
    page, trace = map(Path, named)
    assert (page.parent, page.name, trace.name) == (results, "report.html", "run.pftrace")
    assert page.read_text(encoding="utf-8").startswith("<!doctype html>")
    assert trace.stat().st_size > 100_000
    assert "wi_0" in (results / "compare.txt").read_text(encoding="utf-8")
    commands = [line for line in ran.stdout.split("Go on in this shell")[1].splitlines() if line.startswith("  ")]
    assert len(commands) == 4
    assert BASH is not None
    after = subprocess.run(
        [BASH, "-ec", "\n".join(["PATH=/usr/bin:/bin", *commands, "command -v rocktools"])],
        cwd=tmp_path, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert after.returncode == 0, after.stderr
    assert after.stdout.startswith("SIMULATED")


def test_a_step_that_fails_is_named_and_ends_it(tmp_path: Path) -> None:
    checkout = _checkout(tmp_path)
    (checkout / ".venv/bin").unlink()
    (checkout / ".venv/bin").mkdir()
    (checkout / ".venv/bin/python").symlink_to(sys.executable)
    program = checkout / ".venv/bin/rocktools"
    program.write_text('#!/bin/sh\n[ "$1" != kernels ] || { echo "it broke" >&2; exit 7; }\n', encoding="utf-8")
    program.chmod(0o755)
    ran = _run(checkout, "--small")
    assert ran.returncode == 7
    assert "the step 'which kernels took the time, by instruction' failed with exit code 7" in ran.stderr
    assert "it broke" in ran.stderr
    assert "Open in a browser" not in ran.stdout


def test_options_are_told_and_unknown_ones_refused(tmp_path: Path) -> None:
    checkout = _checkout(tmp_path)
    ran = _run(checkout, "--help")
    assert (ran.returncode, ran.stderr) == (0, "")
    assert all(option in ran.stdout for option in ("--small", "--with-aot"))
    ran = _run(checkout, "--fast")
    assert ran.returncode == 2
    assert ran.stderr == "scripts/quickstart: there is no option --fast; --small and --with-aot are\n"
    assert not (checkout / "quickstart-results").exists()
