"""The dispatches of one device -> links, in the order that fits the schedule best.

Three orders are possible. `launch`: dispatch ids follow the host's launches, over all streams. `streams`: the main
streams by start, collectives on streams of their own beside them. `start`: everything by start, where streams are
merged into one queue or not known. Ids are tried first: with them nothing has to be guessed about times. Which order
holds is decided by how well the dispatches fit, never by what the tool promises.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

import numpy as np
import numpy.typing as npt

from rocktools.correlate.dispatch_symbols import DispatchTable
from rocktools.correlate.kernel_families import KernelFamily, family_of
from rocktools.correlate.kernel_meanings import KernelSymbol, Meaning, build_meanings
from rocktools.correlate.lane_alignment import AlignmentOptions, Lane
from rocktools.correlate.lane_links import LIKELY, LaneLinks, align_lane
from rocktools.correlate.launch_chain import LaunchGraph, build_launch_graph
from rocktools.correlate.launch_sites import LaunchPlan
from rocktools.findings import Finding, Severity

IntArray = npt.NDArray[np.int64]
BoolArray = npt.NDArray[np.bool_]

_GOOD_FIT = 0.9
_LEAST_FIT = 0.5
_COMMUNICATION_SHARE = 0.98
_MOST_INVERSIONS = 0.02


class Order(Enum):
    """What the order of dispatches was taken from."""

    LAUNCH = "launch"
    START = "start"
    STREAMS = "streams"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Schedules:
    """Everything that devices share.

    Attributes:
        whole: sites of all streams.
        main: sites of the main streams.
        whole_meanings, main_meanings: of the symbols, in those.
        families: of the symbols.
        has_side_streams: whether any site is on a stream of its own.
    """

    whole: LaunchGraph
    main: LaunchGraph
    whole_meanings: Sequence[Meaning]
    main_meanings: Sequence[Meaning]
    families: Sequence[KernelFamily]

    @classmethod
    def of(cls, plans: Sequence[LaunchPlan], symbols: Sequence[KernelSymbol]) -> Schedules:
        """Those of these programs and symbols."""
        whole = build_launch_graph(plans, main_stream_only=False)
        main = build_launch_graph(plans, main_stream_only=True)
        return cls(
            whole=whole,
            main=main,
            whole_meanings=build_meanings(symbols, whole.sites),
            main_meanings=build_meanings(symbols, main.sites),
            families=[family_of(symbol.name) for symbol in symbols],
        )

    @property
    def has_side_streams(self) -> bool:
        return self.main.sites_count < self.whole.sites_count


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LinkedRows:
    """Links of some dispatches of the table, in the order in which they were aligned."""

    rows: IntArray
    links: LaneLinks


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class DeviceLinks:
    """What was found for one device.

    Attributes:
        order: the one that was taken.
        parts: links; each dispatch is in one part.
        fit_ratio: linked dispatches, among all between the first and the last of them.
        lost_count: estimate of the dispatches that the trace lost.
        is_refused: whether the programs do not fit, so that no link may be more than ambiguous.
        findings: about the fit.
    """

    order: Order
    parts: tuple[LinkedRows, ...]
    fit_ratio: float
    lost_count: float
    is_refused: bool
    findings: tuple[Finding, ...]


def align_device(
    schedules: Schedules,
    table: DispatchTable,
    rows: IntArray,
    options: AlignmentOptions,
    *,
    compile_loops: bool,
    where: str,
) -> DeviceLinks:
    """The links of one device.

    Args:
        schedules: of the programs.
        table: all dispatches.
        rows: those of the device.
        options: thresholds and effort.
        compile_loops: use numba.
        where: the device, for messages.
    """
    is_collective = np.array([family is KernelFamily.RCCL for family in schedules.families], dtype=np.bool_)
    collective = is_collective[table.symbol_of[rows]]
    tried: list[tuple[float, Order, LinkedRows]] = []
    for order in (Order.LAUNCH, Order.START):
        key = table.dispatch_id[rows] if order is Order.LAUNCH else table.start_ns[rows]
        chosen = np.argsort(key, kind="stable")
        lane = _lane(schedules, table, rows[chosen], collective[chosen])
        links = align_lane(
            schedules.whole, schedules.whole_meanings, schedules.families, lane, options, compile_loops=compile_loops
        )
        tried.append((_quality(links, collective[chosen]), order, LinkedRows(rows=rows[chosen], links=links)))
        if tried[-1][0] >= _GOOD_FIT:
            break
    _, order, part = max(tried, key=lambda each: each[0])
    fit = part.links.fit_ratio
    is_refused = fit < _LEAST_FIT
    return DeviceLinks(
        order=order,
        parts=(part,),
        fit_ratio=fit,
        lost_count=part.links.lost_count,
        is_refused=is_refused,
        findings=(_mismatch(where, fit, part.links, rows.size),) if is_refused else (),
    )


def _lane(schedules: Schedules, table: DispatchTable, rows: IntArray, collective: BoolArray) -> Lane:
    return Lane(
        symbols=table.symbol_of[rows],
        start_ns=table.start_ns[rows],
        end_ns=table.end_ns[rows],
        is_main=_is_main(table.stream_of[rows], collective),
    )


def _is_main(stream_of: IntArray, collective: BoolArray) -> BoolArray:
    """Whether a dispatch is on a stream that runs more than collectives; by itself, where there is one stream only."""
    count = int(stream_of.max()) + 1 if stream_of.size else 1
    total = np.bincount(stream_of, minlength=count)
    share = np.bincount(stream_of, weights=collective, minlength=count) / np.maximum(total, 1)
    is_side = share > _COMMUNICATION_SHARE
    return ~is_side[stream_of] if is_side.any() else ~collective


def _quality(links: LaneLinks, collective: BoolArray) -> float:
    """How well the order fits: of everything, and of collectives, which suffer first."""
    linked = np.flatnonzero(links.label >= LIKELY)
    if linked.size == 0:
        return 0.0
    span = slice(linked[0], linked[-1] + 1)
    is_linked, is_collective = links.label[span] >= LIKELY, collective[span]
    of_collectives = is_linked[is_collective].mean() if is_collective.any() else 1.0
    return float(min(links.fit_ratio, of_collectives))


def _mismatch(where: str, fit: float, links: LaneLinks, count: int) -> Finding:
    linked_count = int((links.label >= LIKELY).sum())
    return Finding(
        rule="program-does-not-fit",
        severity=Severity.FAULT,
        where=where,
        message=(
            f"only {100 * fit:.0f} % of the dispatches follow the schedule of the program "
            f"({linked_count:,} of {count:,} could be placed): the dump is of another program, or another build of it"
        ),
        numbers={"fit_ratio": fit, "placed_count": linked_count, "dispatches_count": count},
        advice="use the dump that was written by the run that was traced; nothing of this device is linked by it",
    )
