"""The section of scripts/bench about schedule alignment: dispatches linked per second, for whole train steps.

Traces of twelve steps with 1 % of the dispatches lost are simulated from real dumps, those under ROCKTOOLS_SHARED;
without them the section is left out. numpy alone and numba must give the same number of links.
"""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from bench_rocpd import Bench, Target, say

DUMPS = {
    "triton": "data/hlo/gfx950-mixtral-8x22b/triton",
    "blaslt": "data/hlo/gfx950-mixtral-8x22b/blaslt",
}
NUMPY = "alignment, numpy"
COMPILED = "alignment, numba"

_STEPS_COUNT = 12
_QUICK_STEPS_COUNT = 3
_LOSS_RATIO = 0.01
_WARM_COUNT = 3_000


def bench_align(bench: Bench, *, is_quick: bool) -> list[Target]:
    """Measure; the promise is a rate, which stands in the table, and no ratio to another method."""
    shared = os.environ.get("ROCKTOOLS_SHARED")
    folders = {name: Path(shared) / path for name, path in DUMPS.items()} if shared else {}
    for name, folder in folders.items():
        if not folder.is_dir():
            say(f"no dump at {folder}")
            continue
        steps_count = _QUICK_STEPS_COUNT if is_quick else _STEPS_COUNT
        task = {"files": [], "dump": str(folder), "steps_count": steps_count}
        subject = f"alignment of {steps_count} steps, {name}"
        bench.measure("align", subject, "align", NUMPY, {**task, "compile_loops": False})
        if importlib.util.find_spec("numba") is not None:
            bench.measure("align", subject, "align", COMPILED, {**task, "compile_loops": True})
    return []


def align_task(task: dict[str, Any]) -> Callable[[], tuple[int, float]]:
    """What is measured: from DISPATCHES to DISPATCH_EDGES; the result is dispatches and links."""
    from rocktools.correlate.lane_alignment import AlignmentOptions
    from rocktools.correlate.schedule import align_dispatches
    from rocktools.demo.scenario import Scenario
    from rocktools.demo.simulate import simulate
    from rocktools.hlo.dumps import read_program

    program = read_program(Path(task["dump"]))
    scenario = Scenario(steps_count=task["steps_count"], loss_ratio=_LOSS_RATIO, seed=9)
    dispatches = simulate(program, scenario).dispatches
    options = AlignmentOptions(compile_loops=task["compile_loops"])
    align_dispatches(dispatches.head(_WARM_COUNT), program, options)

    def run() -> tuple[int, float]:
        edges = align_dispatches(dispatches, program, options).edges
        return len(edges), int(edges["instruction"].notna().sum())

    return run
