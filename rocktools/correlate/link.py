"""Dispatches and the programs at hand -> one link for each dispatch, by the best method that there is for it.

In this order: what a JAX profile of the same program says, where one was matched; the thunk sequence and the order of
launches; the name of the kernel, for what is left. A name says least where a schedule is known: a dispatch that the
schedule has no place for is likely none of the program's, whatever it is called. So names of such a program only give
candidates, and names of a program in whose schedule nothing found a place give nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import pandas as pd

from rocktools.correlate.edges import (
    UNLINKED,
    Confidence,
    build_dispatch_edges,
    choose_edges,
    confidence_ranks,
    require_same_rows,
)
from rocktools.correlate.names import check_name_links, link_by_name
from rocktools.correlate.schedule import align_programs
from rocktools.findings import Finding, Severity
from rocktools.frames import DISPATCH_EDGES
from rocktools.hlo.program import CompiledProgram

_UNLINKED_RANK = list(Confidence).index(Confidence.UNLINKED)


class Alignment(Protocol):
    """What an aligner returns: DISPATCH_EDGES of all dispatches, and what it doubts."""

    @property
    def edges(self) -> pd.DataFrame: ...

    @property
    def findings(self) -> Sequence[Finding]: ...


Align = Callable[[pd.DataFrame, Sequence[CompiledProgram]], Alignment]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class DispatchLinks:
    """What dispatches belong to.

    Attributes:
        edges: DISPATCH_EDGES, one row per dispatch.
        findings: doubts about the links.
    """

    edges: pd.DataFrame
    findings: tuple[Finding, ...]


def link_dispatches(
    dispatches: pd.DataFrame,
    programs: Sequence[CompiledProgram],
    *,
    align: Align = align_programs,
    profile_edges: pd.DataFrame | None = None,
) -> DispatchLinks:
    """The HLO instruction of each dispatch, with method and confidence.

    Args:
        dispatches: DISPATCHES or COUNTED_DISPATCHES, all columns. Of the latter, times only serve as an order; of the
            replays of a dispatch, the first is looked at.
        programs: that the dispatches may belong to, each once.
        align: places dispatches in the schedules of programs that have a thunk sequence.
        profile_edges: DISPATCH_EDGES of the same dispatches, from a JAX profile of the same program; None without one.
    """
    findings: list[Finding] = []
    dispatches = _as_dispatches(dispatches)
    edges = _unlinked(dispatches) if profile_edges is None else profile_edges
    scheduled = [program for program in programs if program.thunks is not None]
    if scheduled and bool((confidence_ranks(edges) > 0).any()):
        alignment = align(dispatches, scheduled)
        require_same_rows(edges, alignment.edges)
        findings += [*alignment.findings, *_check_agreement(edges, alignment.edges)]
        is_surer = confidence_ranks(alignment.edges) < confidence_ranks(edges)
        edges = choose_edges(edges, alignment.edges, is_surer)
    placed = set(edges["program_id"][edges["instruction"].notna().to_numpy()].astype("object"))
    for modules, at_most in (
        ([program.module for program in programs if program.thunks is None], Confidence.LIKELY),
        ([program.module for program in scheduled if program.module.label in placed], Confidence.AMBIGUOUS),
    ):
        is_left = confidence_ranks(edges) == _UNLINKED_RANK
        if modules and bool(is_left.any()):
            named, _ = link_by_name(dispatches, modules, at_most=at_most)
            edges = choose_edges(edges, named, is_left)
    findings += check_name_links(edges, where="DISPATCHES")
    return DispatchLinks(edges=edges, findings=tuple(findings))


def _as_dispatches(rows: pd.DataFrame) -> pd.DataFrame:
    """One row per dispatch, with its times under the names of DISPATCHES."""
    if "start_ns" in rows.columns:
        return rows
    first = rows[~rows.duplicated(list(DISPATCH_EDGES.key)).to_numpy(dtype=np.bool_)].reset_index(drop=True)
    return first.rename(columns={"pass_start_ns": "start_ns", "pass_end_ns": "end_ns"})


def _unlinked(dispatches: pd.DataFrame) -> pd.DataFrame:
    return build_dispatch_edges(dispatches, [UNLINKED], np.zeros(len(dispatches), dtype=np.int64))


def _check_agreement(profiled: pd.DataFrame, aligned: pd.DataFrame) -> list[Finding]:
    """A warning where both say an instruction, and not the same.

    Programs are not compared: one that was read from text has its name for an id, and the profile's a number.
    """
    first, second = (edges["instruction"].astype("object") for edges in (profiled, aligned))
    is_both = (first.notna() & second.notna()).to_numpy(dtype=np.bool_)
    is_other = is_both & (first != second).to_numpy(dtype=np.bool_)
    other_count, both_count = int(is_other.sum()), int(is_both.sum())
    if other_count == 0:
        return []
    place = int(np.flatnonzero(is_other)[0])
    return [
        Finding(
            rule="profile-and-schedule-disagree",
            severity=Severity.WARNING,
            where=f"DISPATCHES, dispatch {profiled['dispatch_id'].iloc[place]} is the first",
            message=f"of {both_count:,} dispatches that both profile and schedule link, {other_count:,} have another "
            f"instruction in each: {first.iloc[place]} and {second.iloc[place]}",
            numbers={"disagreeing_count": other_count, "both_count": both_count},
            advice="profile, trace and dump must be of one compilation",
        )
    ]
