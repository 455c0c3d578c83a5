"""Ranks of a large job for its ledger, made in memory by work that other processes can import."""

from __future__ import annotations

from timeline_rows import make_attributed, make_steps

from rocktools.analytic.occurrences import COUNTED_ROWS, parse_workload
from rocktools.attribution.component_map_file import read_shipped_map
from rocktools.attribution.ledger_measures import BUCKET_SUMS, LINE_UNIONS, measure_ledger
from rocktools.frames import LEDGER, STEPS
from rocktools.timeline.overlap import RECONCILIATION, reconcile
from rocktools.timeline.partial import RankPartial

RANKS_COUNT = 64
MAP = read_shipped_map("maxtext")
WORKLOAD = parse_workload(
    f"""
schema: rocktools.workload/1
name: w
layers: 2
devices: {RANKS_COUNT}
expectations:
  - {{title: experts, phase: forward, component: expert_mlp, activity: compute}}
""",
    source="w.yaml",
)


def measure_simulated_ledger(rank: int) -> RankPartial:
    """Two steps of a rank, eight ranks to a host, each host with a clock of its own; every fifth has work that no other
    has."""
    host, gpu = divmod(rank, 8)
    device = f"node{host}:gpu{gpu}"
    rows, steps = [], []
    for step in range(2):
        base = 1_000_000 * host + 10_000 * step
        common = {"run": "r", "process": f"p{rank}", "device": device, "step_index": step}
        work = [
            ("compute", "forward", "expert_mlp", 0, 900 + rank),
            ("compute", "forward", "expert_mlp", 800, 1700),
            ("compute", "backward", "router", 1500, 2600 - rank),
            ("compute", "backward", "dispatch", 2500, 3100),
            ("communication", "forward", "expert_mlp", 2900 + rank, 4000),
        ]
        if rank % 5 == 0:
            work += [("copy", "unattributed", "unattributed", 3900, 4200), ("compute", "optimizer", "old", 4300, 4400)]
        rows += [
            {"activity": activity, "phase": phase, "component": component, "start": base + start, "end": base + end}
            | common
            for activity, phase, component, start, end in work
        ]
        steps.append({"device": device, "step_index": step, "step_number": step, "start": base, "end": base + 9000})
    frame, windows = make_attributed(rows), make_steps(steps)
    measures = measure_ledger(frame, MAP, workload=WORKLOAD)
    partial = RankPartial(labels=(f"rank{rank}",), frames={})
    for spec, each in (
        (STEPS, windows),
        (RECONCILIATION, reconcile(frame, windows).frame),
        (BUCKET_SUMS, measures.sums),
        (LINE_UNIONS, measures.unions),
        (LEDGER, measures.buckets),
        (COUNTED_ROWS, measures.counted),
    ):
        partial = partial.with_frame(spec, each)
    return partial
