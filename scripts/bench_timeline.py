"""The section of scripts/bench about device timelines: from five million dispatches in memory to a ledger and gaps.

One device, ten steps, kernels on one stream with a pause before every second one, collectives and copies beside them;
a host call and an instruction for each. Nothing else does the same, so there is no ratio: times are reported, memory
has a budget.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from bench_rocpd import Bench, Target, run_method, say, subject_of

WHOLE = "steps, buckets, ledger, gaps"
TASKS = {
    "overlap": "overlap by step",
    "steps": "steps by period",
    "gaps": "gaps with causes",
    "attribute": "every dispatch in its bucket",
    "ledger": "tables of the ledger",
    "whole": WHOLE,
}

_STEPS_COUNT = 10
_ROWS_COUNT = 5_000_000
_QUICK_ROWS_COUNT = 200_000
_BUDGET_BYTES = 4_000_000_000

RANK = "ledger of one rank"
_RANK_COUNT = 500_000
_QUICK_RANK_COUNT = 20_000
_WORKER_BYTES = 250_000_000


def bench_timeline(bench: Bench, *, is_quick: bool) -> list[Target]:
    """Measure, and say what was promised."""
    rows_count = _QUICK_ROWS_COUNT if is_quick else _ROWS_COUNT
    subject = subject_of(rows_count, "rows of a device")
    for task, label in TASKS.items():
        given = {"files": [], "rows_count": rows_count, "task": task}
        bench.measure("timeline", f"{subject}: {task}", "timeline", label, given, repeats=1)
    remark = f"promised for {_ROWS_COUNT:,}" if is_quick else ""
    whole = f"{subject}: whole"
    rank_subject, file_bytes = _measure_rank(bench, _QUICK_RANK_COUNT if is_quick else _RANK_COUNT)
    budget = _WORKER_BYTES + 5 * file_bytes
    return [
        Target("timeline in 4 GB", whole, remark, WHOLE, "", 1.0, is_memory=True, budget_bytes=_BUDGET_BYTES),
        Target("250 MB + 5 files", rank_subject, "", RANK, "", 1.0, is_memory=True, budget_bytes=budget),
    ]


def _measure_rank(bench: Bench, dispatches_count: int) -> tuple[str, int]:
    """Measure what a worker does with the file of one rank; the subject, and the size of the file."""
    path = bench.folder / "rank_results.db"
    say(f"writing {path.name}")
    shape = {"dispatches_count": dispatches_count, "ranges_count": 10, "copies_count": 1000, "kernels_count": 400}
    if run_method("write_trace", {"files": [str(path)], "shape": shape}) is None:
        raise SystemExit(f"bench: could not write {path.name}")
    file_bytes = path.stat().st_size
    subject = f"rank of {subject_of(dispatches_count, 'dispatches')} ({file_bytes / 1e6:.0f} MB)"
    bench.measure("timeline", subject, "rank", RANK, {"files": [str(path)]}, repeats=1)
    path.unlink()
    return subject, file_bytes


def rank_task(task: dict[str, Any]) -> Callable[[], tuple[int, float]]:
    """What a worker measures of one file for the ledger of many ranks."""

    def run() -> tuple[int, float]:
        from rocktools.attribution.component_map_file import read_shipped_map
        from rocktools.frames import LEDGER
        from rocktools.workspace.attributed import AttributionOptions
        from rocktools.workspace.paths import find_sources
        from rocktools.workspace.rank_files import RankFile, measure_ledger_file

        options = AttributionOptions(component_map=read_shipped_map())
        partial = measure_ledger_file(RankFile(sources=find_sources(task["files"]), options=options))
        ledger = LEDGER.empty() if partial is None else partial[LEDGER]
        return int(ledger["rows_count"].sum()), int(ledger["sum_ns"].sum())

    return run


def timeline_task(task: dict[str, Any]) -> Callable[[], tuple[int, float]]:
    """What is measured, on rows that are made before the clock starts; the result is rows and nanoseconds."""
    from rocktools.attribution.assemble import assemble_ledger
    from rocktools.attribution.attribute import attribute_dispatches
    from rocktools.attribution.component_map_file import read_shipped_map
    from rocktools.timeline.gaps import find_gaps, total_gaps
    from rocktools.timeline.overlap import reconcile
    from rocktools.timeline.step_rows import StepSources, assign_steps
    from rocktools.timeline.steps import counted_steps, find_steps

    wanted = task["task"]
    rows, launches = make_timeline(task["rows_count"])
    sources = StepSources(rows=rows.rename(columns={"name": "kernel_name"}), launches=launches)
    component_map = read_shipped_map()
    given = make_links(rows, component_map) if wanted in ("attribute", "ledger", "whole") else None
    steps = None if wanted in ("steps", "whole") else counted_steps(find_steps(sources).frame)
    if wanted in ("overlap", "gaps"):
        rows["step_index"] = assign_steps(rows, steps)
    booked = attribute_dispatches(*given, steps=steps) if wanted == "ledger" else None
    calls = rows["host_call_id"].array

    def run() -> tuple[int, float]:
        found = counted_steps(find_steps(sources).frame) if steps is None else steps
        if wanted == "steps":
            return len(rows), len(found)
        if wanted == "overlap":
            return len(rows), int(reconcile(rows).frame["busy_ns"].sum())
        if wanted == "gaps":
            return len(rows), int(total_gaps(find_gaps(rows, launches).frame)["total_ns"].sum())
        attributed = attribute_dispatches(*given, steps=found) if booked is None else booked
        if wanted == "attribute":
            return len(attributed), int(attributed["step_index"].notna().sum())
        ledger = assemble_ledger(attributed, component_map, title="", steps=found)
        total = int(ledger.buckets["sum_ns"].sum())
        if wanted == "whole":
            attributed["host_call_id"] = calls
            total += int(total_gaps(find_gaps(attributed, launches).frame)["total_ns"].sum())
        return len(attributed), total

    return run


def make_links(rows: Any, component_map: Any) -> tuple[Any, Any, Any, Any]:
    """DISPATCHES, DISPATCH_EDGES and AGENTS of the rows, and the buckets of an instruction for each kernel."""
    import itertools

    import numpy as np
    import pandas as pd

    from rocktools.attribution.classify import Bucket
    from rocktools.attribution.phases import BookedPhase
    from rocktools.timeline.activities import Activity

    count = len(rows)
    key = {"run": rows["run"], "process": rows["process"], "dispatch_id": np.arange(count)}
    agent = {"agent_id": np.full(count, 1, dtype=np.int64), "stream_id": pd.array(np.zeros(count, np.int64), "Int64")}
    times = {"kernel_name": rows["name"], "start_ns": rows["start_ns"], "end_ns": rows["end_ns"]}
    none = np.zeros(count, dtype=np.int64)
    links = {
        "program_id": pd.Categorical.from_codes(none, ["1"]),
        "instruction": rows["name"],
        "candidates": pd.Categorical.from_codes(none - 1, []),
        "candidates_count": none + 1,
    }
    agents = pd.DataFrame({"run": ["r"], "process": ["p"], "agent_id": [1], "device": ["host:gpu0"], "kind": ["GPU"]})
    activities = (Activity.COMMUNICATION, Activity.COMPUTE, Activity.COMPUTE, Activity.COMPUTE)
    phases = (BookedPhase.FORWARD, BookedPhase.BACKWARD, BookedPhase.REMATERIALIZED, BookedPhase.OPTIMIZER)
    kinds = itertools.cycle(itertools.product(activities, phases, component_map.components))
    buckets = {
        str(name): Bucket(activity=activity, phase=phase, component=component, rule="made up")
        for name, (activity, phase, component) in zip(rows["name"].cat.categories, kinds, strict=False)
    }
    return pd.DataFrame({**key, **agent, **times}), pd.DataFrame({**key, **links}), agents, {"1": buckets}


def make_timeline(rows_count: int) -> tuple[Any, Any]:
    """The columns of ATTRIBUTED that are needed, and LAUNCHES."""
    import numpy as np
    import pandas as pd

    generator = np.random.default_rng(7)
    per_step = rows_count // _STEPS_COUNT
    names_count = min(1000, per_step // 4)
    # A head and a tail that a step runs once, and layers in between.
    layers = np.resize(np.arange(names_count // 2, names_count), per_step - names_count // 2)
    kinds = np.tile(np.concatenate([np.arange(names_count // 2), layers]), _STEPS_COUNT)
    count = kinds.size
    durations = generator.integers(1_000, 6_000, count)
    pauses = np.where(np.arange(count) % 2 == 0, 400, 0)
    pauses[::per_step] = 50_000
    ends = np.cumsum(durations + pauses) + 13_000_000_000_000_000
    starts = ends - durations
    activity = np.resize([1, 1, 1, 1, 1, 1, 1, 0, 1, 2], count)
    # What is no compute runs on beside the next kernels.
    ends = np.where(activity == 1, ends, ends + 9_000)
    none = np.zeros(count, dtype=np.int64)
    run, process, device = (pd.Categorical.from_codes(none, [label]) for label in ("r", "p", "host:gpu0"))
    names = pd.Categorical.from_codes(kinds, [f"kernel_{number}" for number in range(names_count)])
    calls = np.arange(count)
    rows = pd.DataFrame(
        {
            "run": run,
            "process": process,
            "device": device,
            "name": names,
            "instruction": pd.Categorical.from_codes(none - 1, []),
            "start_ns": starts,
            "end_ns": ends,
            "activity": pd.Categorical.from_codes(activity, ["communication", "compute", "copy"]),
            "host_call_id": pd.array(calls, dtype="Int64"),
        }
    )
    launched = {"start_ns": starts - 2_000, "end_ns": starts - 1_000}
    launches = pd.DataFrame({"run": run, "process": process, "host_call_id": calls, "name": names, **launched})
    return rows, launches
