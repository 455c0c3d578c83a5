"""How often schedule alignment is right: simulated traces of real compiled programs, whose truth is hidden from it.

Run as `scripts/bench accuracy`. The programs are folders of XLA dumps: those under ROCKTOOLS_SHARED, or --dump FOLDER.
Everything is simulated (rocktools.demo.simulate); nothing here says how the method does on hardware.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import numpy as np
import pandas as pd

from rocktools.correlate.lane_alignment import AlignmentOptions
from rocktools.correlate.schedule import Alignment, align_dispatches
from rocktools.demo.library_kernels import Copies
from rocktools.demo.scenario import Lanes, Scenario
from rocktools.demo.simulate import SimulatedTrace, simulate
from rocktools.hlo.dumps import read_program
from rocktools.hlo.program import CompiledProgram

SHARED_DUMPS = ("data/hlo/gfx950-mixtral-8x22b/triton", "data/hlo/gfx950-mixtral-8x22b/blaslt")

_EVERYTHING = Scenario(
    steps_count=2,
    loss_ratio=0.05,
    substituted_kernels_count=1,
    foreign_ratio=0.02,
    cut_first_ratio=0.3,
    cut_last_ratio=0.1,
)

SCENARIOS: Mapping[str, Scenario] = {
    "clean": Scenario(),
    "1 % lost": Scenario(loss_ratio=0.01),
    "5 % lost": Scenario(loss_ratio=0.05),
    "20 % lost": Scenario(loss_ratio=0.20),
    "500 lost in a row, twice": Scenario(bursts_count=2),
    "a kernel substituted": Scenario(substituted_kernels_count=1),
    "3 substituted, 1 % lost": Scenario(substituted_kernels_count=3, loss_ratio=0.01),
    "2 % foreign": Scenario(foreign_ratio=0.02),
    "cut steps": Scenario(cut_first_ratio=0.37, cut_last_ratio=0.41),
    "cut steps, 5 % lost": Scenario(cut_first_ratio=0.37, cut_last_ratio=0.41, loss_ratio=0.05),
    "ids exchanged": Scenario(swapped_ids_ratio=0.1),
    "times exchanged": Scenario(swapped_times_ratio=0.01),
    "merged queue": Scenario(lanes=Lanes.MERGED_QUEUE, has_stream_ids=False),
    "merged queue, 5 % lost": Scenario(lanes=Lanes.MERGED_QUEUE, has_stream_ids=False, loss_ratio=0.05),
    "one stream": Scenario(lanes=Lanes.ONE_STREAM, loss_ratio=0.01),
    "no stream ids": Scenario(has_stream_ids=False, loss_ratio=0.01),
    "counter pass": Scenario(is_serialised=True, loss_ratio=0.01),
    "clock of side streams 50 us ahead": Scenario(communication_skew_ns=50_000, loss_ratio=0.01),
    "all-to-all of 2 kernels": Scenario(all_to_all_kernels_count=2, loss_ratio=0.01),
    "all copies by kernels": Scenario(copies=Copies.BLIT, loss_ratio=0.01),
    "no copies by kernels": Scenario(copies=Copies.DMA, loss_ratio=0.01),
    "everything at once": replace(_EVERYTHING, has_stream_ids=True),
    "everything at once, merged queue": replace(_EVERYTHING, lanes=Lanes.MERGED_QUEUE, has_stream_ids=False),
    "2 devices": Scenario(devices_count=2, steps_count=2, loss_ratio=0.01),
}
"""Of three steps each, with a warm-up and another executable, where nothing else is said."""

ORDERS = ("ids", "starts", "starts, queues")
"""What the trace has: ids in the order of launch; or ids in the order of starts; or, besides, no stream ids."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Score:
    """Counts over one or several traces; ratios are of the program's own dispatches unless they say otherwise."""

    own_count: int
    linked_count: int
    certain_count: int
    ambiguous_count: int
    wrong_linked_count: int
    wrong_certain_count: int
    placed_count: int
    wrong_place_count: int
    foreign_linked_count: int
    held_count: int

    def __add__(self, other: Score) -> Score:
        return Score(**{name: value + asdict(other)[name] for name, value in asdict(self).items()})


def score_alignment(trace: SimulatedTrace, alignment: Alignment) -> Score:
    """How the links compare with the truth."""
    truth = trace.truth.assign(
        **{name: trace.dispatches[name].astype(str).to_numpy() for name in ("run", "process")},
    )
    edges = alignment.edges.astype({"run": str, "process": str})
    rows = truth.merge(edges, on=["run", "process", "dispatch_id"], suffixes=("_true", ""), validate="one_to_one")
    is_own = (rows["origin"] == "program").to_numpy()
    confidence = rows["confidence"].astype(str).to_numpy()
    is_linked = np.isin(confidence, ("certain", "likely"))
    true, found = _texts(rows["instruction_true"]), _texts(rows["instruction"])
    is_right = is_own & (true == found)
    is_placed = is_right & is_linked & rows["is_iteration_sure"].to_numpy()
    step = rows["execution_index_true"].to_numpy(dtype=np.int64, na_value=-1)
    base = step[is_own].min() if is_own.any() else 0
    same_step = step - base == rows["execution_index"].to_numpy(dtype=np.int64, na_value=-1)
    is_place_right = same_step & (_texts(rows["iterations_true"]) == _texts(rows["iterations"]))
    is_ambiguous = confidence == "ambiguous"
    candidates = _texts(rows["candidates"])
    held = [name in text.split(", ") for name, text in zip(true[is_ambiguous], candidates[is_ambiguous], strict=True)]
    return Score(
        own_count=int(is_own.sum()),
        linked_count=int((is_linked & is_own).sum()),
        certain_count=int((confidence == "certain").sum()),
        ambiguous_count=int(is_ambiguous.sum()),
        wrong_linked_count=int((is_linked & ~is_right).sum()),
        wrong_certain_count=int(((confidence == "certain") & ~is_right).sum()),
        placed_count=int(is_placed.sum()),
        wrong_place_count=int((is_placed & ~is_place_right).sum()),
        foreign_linked_count=int((is_linked & ~is_own).sum()),
        held_count=int(sum(held)),
    )


def _texts(column: pd.Series) -> np.ndarray:
    return column.astype(object).where(column.notna(), "").to_numpy()


def with_order(trace: SimulatedTrace, order: str) -> SimulatedTrace:
    """The same trace, told by a tool that numbers dispatches otherwise."""
    if order == "ids":
        return trace
    # Rows are in the order of starts; ids then count in that order, so they say nothing new.
    ids = np.arange(1, len(trace.dispatches) + 1)
    dispatches, truth = trace.dispatches.assign(dispatch_id=ids), trace.truth.assign(dispatch_id=ids)
    if order == "starts, queues":
        dispatches = dispatches.assign(stream_id=dispatches["stream_id"] * 0)
    return replace(trace, dispatches=dispatches, truth=truth)


def seeded(scenario: Scenario, seeds: Sequence[int]) -> Iterator[Scenario]:
    for seed in seeds:
        yield replace(scenario, seed=seed)


def render_row(name: str, score: Score, orders: set[str], seconds: float) -> str:
    def percent(part: int, whole: int) -> str:
        return f"{100 * part / whole:.3f}" if whole else "-"

    own = score.own_count
    cells = [
        percent(score.linked_count, own),
        percent(score.certain_count, own),
        f"{score.wrong_certain_count} of {score.certain_count:,}",
        f"{score.wrong_linked_count - score.wrong_certain_count}",
        percent(score.ambiguous_count, own),
        percent(score.held_count, score.ambiguous_count),
        f"{score.foreign_linked_count}",
        percent(score.placed_count, score.linked_count),
        f"{score.wrong_place_count}",
        "/".join(sorted(orders)),
        f"{seconds:.1f}",
    ]
    return f"| {name} | " + " | ".join(cells) + " |"


HEADER = (
    "| scenario | linked % | certain % | wrong certain | wrong likely | ambiguous % | truth among candidates % | "
    "strangers linked | places sure % | wrong places | order | s |\n|---" + "|---" * 11 + "|"
)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="scripts/bench accuracy", description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--dump", type=Path, action="append", help="folder with the dump of a program; may be repeated")
    parser.add_argument("--seeds", type=int, default=1, help="seeds of each scenario (default 1)")
    parser.add_argument("--first-seed", type=int, default=1000, help="the first of them (default 1000)")
    parser.add_argument(
        "--only", default="", help="only scenarios with one of these texts in their names; separated by semicolons"
    )
    parser.add_argument("--order", choices=ORDERS, default="ids", help="what dispatch ids and streams tell")
    parser.add_argument("--no-numba", action="store_true", help="numpy alone")
    options = parser.parse_args(arguments)
    shared = os.environ.get("ROCKTOOLS_SHARED")
    dumps = options.dump or [Path(shared) / name for name in SHARED_DUMPS if shared]
    if not dumps:
        print("bench: no --dump, and ROCKTOOLS_SHARED is not set", file=sys.stderr)
        return 2
    alignment_options = AlignmentOptions(compile_loops=False if options.no_numba else None)
    seeds = range(options.first_seed, options.first_seed + options.seeds)
    for dump in dumps:
        program = read_program(dump)
        print(f"\n{dump.name}: {options.seeds} seeds each, simulated; order of ids: {options.order}\n\n{HEADER}")
        for name, scenario in SCENARIOS.items():
            if not any(text in name for text in options.only.split(";")):
                continue
            total, orders, seconds = None, set(), 0.0
            for each in seeded(scenario, seeds):
                trace = with_order(simulate(program, each), options.order)
                begin = time.perf_counter()
                alignment = align_dispatches(trace.dispatches, program, alignment_options)
                seconds += time.perf_counter() - begin
                score = score_alignment(trace, alignment)
                total = score if total is None else total + score
                orders |= {device.order for device in alignment.devices}
            if total is not None:
                print(render_row(name, total, orders, seconds), flush=True)
    programs = {dump.name: read_program(dump) for dump in dumps}
    for traced in programs:
        for given in programs:
            if traced != given and not options.only:
                print(render_wrong_dump(programs, traced, given))
    return 0


def render_wrong_dump(programs: Mapping[str, CompiledProgram], traced: str, given: str) -> str:
    """What is said about a trace of one program and the dump of another."""
    alignment = align_dispatches(simulate(programs[traced]).dispatches, programs[given])
    counts = alignment.edges["confidence"].value_counts().to_dict()
    rules = ", ".join(finding.rule for finding in alignment.findings)
    return f"\ntrace of {traced}, dump of {given}: {counts}; {rules}"


if __name__ == "__main__":
    sys.exit(main())
