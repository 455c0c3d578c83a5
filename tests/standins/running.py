"""Running a stand-in and looking at what it left, for the tests of the stand-ins themselves."""

from __future__ import annotations

import json
import sqlite3
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from standins.install import install_standins, standin_environment

_PATIENCE_S = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """How a run ended: code (negative: signal) and both streams."""

    code: int
    out: str
    err: str


class Bench:
    """Stand-ins of one release in a folder, run in that folder.

    Args:
        folder: an empty folder.
        version: release of rocprofiler-sdk.
    """

    def __init__(self, folder: Path, version: str) -> None:
        self.folder = folder
        self.state = folder / "state"
        self.state.mkdir()
        self.bin_folder = install_standins(folder / "rocm", version=version)
        self.work = folder / "work"
        self.work.mkdir()

    def environment(self, *, scenario: dict[str, Any] | None = None, faults: str = "", **extra: str) -> dict[str, str]:
        """The environment of a run."""
        path = None
        if scenario is not None:
            path = self.folder / "scenario.json"
            path.write_text(json.dumps(scenario), encoding="utf-8")
        environment = standin_environment(self.bin_folder, scenario=path, faults=faults, state=self.state)
        return {**environment, **extra}

    def run(self, *command: str, scenario: dict[str, Any] | None = None, faults: str = "", **extra: str) -> Ended:
        """Run one of the executables to its end."""
        ended = subprocess.run(
            command,
            cwd=self.work,
            env=self.environment(scenario=scenario, faults=faults, **extra),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=_PATIENCE_S,
            check=False,
        )
        return Ended(code=ended.returncode, out=ended.stdout, err=ended.stderr)

    def files(self) -> list[str]:
        """Every file in the working folder, in order, with digits for pids left as they are."""
        return sorted(str(path.relative_to(self.work)) for path in self.work.rglob("*") if path.is_file())

    def databases(self) -> list[Path]:
        """Every database in the working folder."""
        return sorted(self.work.rglob("*.db"))

    def calls(self) -> list[dict[str, Any]]:
        """The log of calls and runs."""
        path = self.state / "calls.jsonl"
        return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()] if path.exists() else []


def query(path: Path, sql: str) -> list[tuple[Any, ...]]:
    """Rows of a query on a database that must not change."""
    with closing(sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True)) as connection:
        return connection.execute(sql).fetchall()


def kernel_counts(path: Path) -> dict[str, int]:
    """Kernel -> dispatches."""
    return dict(query(path, "SELECT name, count(*) FROM kernels GROUP BY name"))


def counter_rows(path: Path) -> dict[str, tuple[int, float]]:
    """Counter -> rows, and their sum."""
    sql = (
        "SELECT p.name, count(*), total(e.value) FROM rocpd_pmc_event e JOIN rocpd_info_pmc p ON p.id = e.pmc_id "
        "GROUP BY p.name"
    )
    return {name: (rows, total) for name, rows, total in query(path, sql)}


def announced(text: str) -> Iterator[str]:
    """Paths of the lines that say what was written."""
    mark = "] Opened result file: "
    for line in text.splitlines():
        if mark in line:
            yield line.partition(mark)[2].partition(" (UUID=")[0]


def option_value(words: Sequence[str], option: str) -> str:
    """The word after `option`."""
    return words[list(words).index(option) + 1]
