"""Work for many ranks that other processes can import."""

from __future__ import annotations

import os

from timeline_rows import make_attributed, make_steps

from rocktools.errors import DamagedFile
from rocktools.timeline.partial import RankPartial, measure_rank

STEPS_COUNT = 3
STEP_NS = 10_000


def square(number: int) -> int:
    """The square; 3 is damaged, 5 kills the process that looks at it, 7 is a fault of the program."""
    if number == 3:
        raise DamagedFile("torn-file", "the file ends in the middle", where="rank3.db", hint="record it again")
    if number == 5:
        os._exit(9)
    if number == 7:
        raise ZeroDivisionError("a fault of ours")
    return number * number


def measure_simulated_rank(rank: int) -> RankPartial:
    """One of many simulated ranks, eight to a host; rank 13 is late, rank 20 cannot be read."""
    if rank == 20:
        raise DamagedFile("torn-file", "the file ends in the middle", where="rank20.db")
    host, gpu = divmod(rank, 8)
    device = f"node{host}:gpu{gpu}"
    late = 800 if rank == 13 else 0
    clock = 1_000_000 * host
    rows, steps = [], []
    for step in range(STEPS_COUNT):
        base = clock + step * STEP_NS
        common = {"run": "r", "process": f"p{rank}", "device": device, "step_index": step}
        rows += [
            {"start": base + rank, "end": base + 3000 + late, "phase": "forward", **common},
            {"start": base + 3100 + late, "end": base + 6000 + late, "phase": "backward", **common},
            {
                "start": base + 6000 + late,
                "end": base + 8000,
                "activity": "communication",
                "instruction": "all-reduce.1",
                "program_id": "7",
                **common,
            },
        ]
        steps.append({"device": device, "step_index": step, "step_number": step + 5, "start": base, "end": base + 9000})
    return measure_rank(f"rank{rank}", make_attributed(rows), make_steps(steps))
