"""Plans of fake replays, and batches of them under the stand-in of rocprof-compute."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from fake_replays import write_fake_replay
from standins.compute.install import compute_environment, install_compute, read_calls

from rocktools.batch.document import render_plan
from rocktools.batch.plan import PassSelection
from rocktools.batch.planning import PlanWishes, plan_bundles
from rocktools.batch.state import BatchState, read_state
from rocktools.cli.main import main

ROCKTOOLS = [sys.executable, "-m", "rocktools.cli.main"]
_PATIENCE_S = 60.0


@dataclass(frozen=True, kw_only=True)
class Bench:
    """A folder with a plan, an installed stand-in, and where it keeps its log.

    Attributes:
        folder: of everything; also where commands run.
        plan: file of the plan.
        run: the run directory.
        program: the stand-in.
        calls_folder: of its log.
    """

    folder: Path
    plan: Path
    run: Path
    program: Path
    calls_folder: Path

    def environment(self, faults: str = "", *, passes: int = 3) -> dict[str, str]:
        return compute_environment(self.program, scenario={"passes": passes}, faults=faults, state=self.calls_folder)

    def arguments(self, *options: object) -> list[str]:
        return ["batch", "run", str(self.plan), "-o", str(self.run), *map(str, options)]

    def __call__(self, monkeypatch: pytest.MonkeyPatch, *options: object, faults: str = "", passes: int = 3) -> int:
        """Run it in this process; its exit code."""
        with monkeypatch.context() as patch:
            for name in os.environ:
                patch.delenv(name)
            for name, value in self.environment(faults, passes=passes).items():
                patch.setenv(name, value)
            return main(self.arguments(*options))

    def start(self, *options: object, faults: str = "") -> subprocess.Popen[str]:
        """Start it in a process of its own."""
        return subprocess.Popen(
            [*ROCKTOOLS, *self.arguments(*options)],
            env=self.environment(faults),
            cwd=self.folder,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    @property
    def state(self) -> BatchState:
        return read_state(self.run)

    @property
    def states(self) -> dict[str, str]:
        """Name of a job -> how far it is."""
        return {job.name: job.state.value for job in self.state.jobs}

    def calls(self, mode: str = "profile") -> list[dict[str, Any]]:
        return [call for call in read_calls(self.calls_folder) if call["mode"] == mode]

    def profiled(self) -> list[str]:
        """Names of the workloads in the order of their calls, peaks left out."""
        return [call["slug"] for call in self.calls() if call["slug"] != "peaks"]

    def wait_for_call(self, slug: str) -> None:
        """Until the stand-in has been called for a workload, and this is written down."""
        self.wait_for(lambda states: states.get(slug) == "running" and slug in self.profiled())

    def group_is_gone(self, slug: str) -> bool:
        """Whether nothing lives of the process group of the last call for a workload; what nobody reaps does not."""
        group = self.pid(slug)
        for path in Path("/proc").glob("[0-9]*/stat"):
            try:
                state, _, its_group = path.read_text(errors="replace").rpartition(")")[2].split()[:3]
            except OSError:  # it has ended meanwhile
                continue
            if int(its_group) == group and state not in "ZX":
                return False
        return True

    def pid(self, slug: str) -> int:
        """Of the last call for a workload, and so of its group."""
        pid: int = [call["pid"] for call in self.calls() if call["slug"] == slug][-1]
        return pid

    def wait_for(self, holds: Callable[[dict[str, str]], bool]) -> None:
        """Until the state file says so."""
        until_s = time.monotonic() + _PATIENCE_S
        while time.monotonic() < until_s:
            if (self.run / "state.json").is_file() and holds(self.states):
                return
            time.sleep(0.02)
        raise AssertionError(f"waited in vain: {self.states if self.run.exists() else 'no run'}")


def make_bench(
    folder: Path,
    names: Sequence[str],
    *,
    version: str = "3.7",
    selection: PassSelection | None = None,
) -> Bench:
    """A plan of fake replays of that many kernels, and the stand-in of a release."""
    for name in names:
        write_fake_replay(folder / "replays", name)
    wishes = PlanWishes(
        replays=folder / "replays",
        top=0,
        selection=PassSelection(iterations_count=4, warmups_count=2) if selection is None else selection,
    )
    plan = folder / "plan.yaml"
    plan.write_text(render_plan(plan_bundles(wishes).plan, plan), encoding="utf-8")
    return Bench(
        folder=folder,
        plan=plan,
        run=folder / "batch",
        program=install_compute(folder / "rocm", version=version),
        calls_folder=folder / "calls",
    )


def interrupt(process: subprocess.Popen[str]) -> tuple[int, str, str]:
    """End it as Ctrl-C does; its exit code and output."""
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=_PATIENCE_S)
    return process.returncode, out, err


def results_of(bench: Bench, name: str) -> Path:
    """Folder of the results of a job that is done."""
    last = bench.state.job(name).last
    assert last is not None
    return bench.run / last.results[0]


def read_json(path: Path) -> Any:
    return json.loads(path.read_text(encoding="utf-8"))
