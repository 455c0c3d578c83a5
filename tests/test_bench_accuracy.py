"""scripts/bench accuracy runs on any dump, and counts what is right and what is not."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tiny_program import write_tiny_dump

SCRIPT = Path(__file__).resolve().parents[1] / "scripts" / "bench_accuracy.py"


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {name: value for name, value in os.environ.items() if name != "ROCKTOOLS_SHARED"}
    command = [sys.executable, str(SCRIPT), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, env=environment)


def test_scenarios_of_a_dump_are_scored(tmp_path: Path) -> None:
    write_tiny_dump(tmp_path)
    done = run("--dump", str(tmp_path), "--only", "clean;1 % lost", "--seeds", "2", "--no-numba")
    assert done.returncode == 0, done.stderr
    rows = [
        [cell.strip() for cell in line.split("|")[1:-1]] for line in done.stdout.splitlines() if line.startswith("|")
    ]
    header, _, *scored = rows
    named = [dict(zip(header, row, strict=True)) for row in scored]
    assert [row["scenario"] for row in named][:2] == ["clean", "1 % lost"]
    assert all(row["wrong certain"].startswith("0 of ") for row in named)
    assert float(named[0]["linked %"]) > 95


def test_without_a_dump_nothing_is_measured() -> None:
    done = run()
    assert done.returncode == 2
    assert "ROCKTOOLS_SHARED is not set" in done.stderr
