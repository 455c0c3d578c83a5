"""Linked runs -> the tables of `rocktools link`: coverage by method, and kernels that stayed without an instruction."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import pandas as pd

from rocktools.correlate.coverage import COVERAGE, UNLINKED_KERNELS, Coverage, build_coverage
from rocktools.frames import DISPATCH_EDGES, EVENT_EDGES, Column, FrameSpec, require_frame
from rocktools.sources.rocpd.parts import assemble_frame, label_constant
from rocktools.workspace.frame_parts import part_of_frame
from rocktools.workspace.links import LinkedRun

_DISPATCHES = "dispatches"
_WHOSE = (
    Column("run", "category", "label of the run"),
    Column("rows", "category", "`dispatches`, or `host events` where the CPU backend ran the program"),
)
# Beside `dispatches_count` a `dispatches_ratio` could not have a short heading.
_RENAMED = {"dispatches_ratio": "count_ratio"}


def _with_whose(spec: FrameSpec) -> FrameSpec:
    names = tuple(column.name for column in _WHOSE)
    return FrameSpec(
        name=f"LINK_{spec.name}",
        meaning=spec.meaning,
        key=(*names, *spec.key),
        sort=(*names, *spec.sort),
        columns=(
            *_WHOSE,
            *(replace(column, name=_RENAMED.get(column.name, column.name)) for column in spec.columns),
        ),
    )


LINK_COVERAGE = _with_whose(COVERAGE)
LINK_UNLINKED = _with_whose(UNLINKED_KERNELS)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LinkCoverage:
    """Coverage of all runs.

    Attributes:
        coverage: LINK_COVERAGE.
        unlinked: LINK_UNLINKED.
        dispatches_count: of all runs.
        host_events_count: of the CPU backend, with an instruction or not.
        linked_count: those of both that have an instruction.
        programs: names of those that have any of them, the one with most first.
        total_ns: their durations added up.
        linked_ns: of those that have an instruction.
    """

    coverage: pd.DataFrame
    unlinked: pd.DataFrame
    dispatches_count: int
    host_events_count: int
    linked_count: int
    programs: tuple[str, ...]
    total_ns: int
    linked_ns: int

    @property
    def rows_count(self) -> int:
        return self.dispatches_count + self.host_events_count


def cover_runs(runs: Sequence[LinkedRun]) -> LinkCoverage:
    """What the links of the runs cover."""
    found = [(run.run, rows, coverage) for run in runs for rows, coverage in _coverages(run)]
    coverage_parts = [_part(coverage.frame, COVERAGE, run, rows) for run, rows, coverage in found]
    unlinked_parts = [_part(coverage.unlinked, UNLINKED_KERNELS, run, rows) for run, rows, coverage in found]
    each = [coverage for _, _, coverage in found]
    return LinkCoverage(
        coverage=assemble_frame(coverage_parts, LINK_COVERAGE),
        unlinked=assemble_frame(unlinked_parts, LINK_UNLINKED),
        dispatches_count=sum(coverage.dispatches_count for _, rows, coverage in found if rows == _DISPATCHES),
        host_events_count=sum(coverage.dispatches_count for _, rows, coverage in found if rows != _DISPATCHES),
        linked_count=sum(coverage.linked_count for coverage in each),
        programs=_linked_programs(runs),
        total_ns=sum(coverage.total_ns or 0 for coverage in each),
        linked_ns=sum(coverage.linked_ns or 0 for coverage in each),
    )


def _linked_programs(runs: Sequence[LinkedRun]) -> tuple[str, ...]:
    counts: Counter[str] = Counter()
    for run in runs:
        names = {program.program_id: program.name for program in reversed(run.programs)}
        for edges in (run.edges, run.host_edges):
            linked = edges["program_id"][edges["instruction"].notna().to_numpy()]
            for program_id, count in linked.value_counts().items():
                if count:
                    counts[names.get(str(program_id), str(program_id))] += int(count)
    return tuple(name for name, _ in counts.most_common())


def collect_edges(runs: Sequence[LinkedRun]) -> tuple[FrameSpec, pd.DataFrame]:
    """DISPATCH_EDGES of the runs; EVENT_EDGES where the CPU backend alone ran the programs."""
    is_of_host = not any(len(run.edges) for run in runs) and any(len(run.host_edges) for run in runs)
    spec = EVENT_EDGES if is_of_host else DISPATCH_EDGES
    frames = [run.host_edges if is_of_host else run.edges for run in runs]
    return spec, require_frame(assemble_frame([part_of_frame(frame, spec) for frame in frames], spec), spec)


def _coverages(run: LinkedRun) -> Iterator[tuple[str, Coverage]]:
    if len(run.edges):
        yield _DISPATCHES, build_coverage(run.edges, run.dispatches)
    if len(run.host_edges):
        yield "host events", build_coverage(run.host_edges, run.host_events)


def _part(frame: pd.DataFrame, spec: FrameSpec, run: str, rows: str) -> dict[str, object]:
    whose = {"run": label_constant(run, len(frame)), "rows": label_constant(rows, len(frame))}
    return {**whose, **{_RENAMED.get(name, name): column for name, column in part_of_frame(frame, spec).items()}}
