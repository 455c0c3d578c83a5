"""The dispatches of one device -> links, in the order that fits the schedule best.

Three orders are possible. `launch`: dispatch ids follow the host's launches, over all streams. `streams`: the main
streams by start, collectives on streams of their own beside them. `start`: everything by start, where streams are
merged into one queue or not known. Ids are tried first: with them nothing has to be guessed about times. Which order
holds is decided by how well the dispatches fit, never by what the tool promises.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import Enum

import numpy as np

from rocktools.correlate.alignment_checks import check_order, check_side_streams, describe_misfit, find_misfits
from rocktools.correlate.arrays import BoolArray, IntArray
from rocktools.correlate.communication_windows import SideLinks, align_side_streams
from rocktools.correlate.dispatch_symbols import DispatchTable
from rocktools.correlate.kernel_families import KernelFamily, family_of
from rocktools.correlate.kernel_meanings import KernelSymbol, Meaning, build_meanings, only_sites
from rocktools.correlate.lane_alignment import AlignmentOptions, Lane
from rocktools.correlate.lane_links import LIKELY, LaneLinks, align_lane
from rocktools.correlate.launch_chain import LaunchGraph, build_launch_graph
from rocktools.correlate.launch_sites import LaunchPlan
from rocktools.findings import Finding

_GOOD_FIT = 0.9
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

    def by_stream(self) -> list[Meaning]:
        """Meanings of the symbols on main streams; then those of the same on streams of their own."""
        is_side = np.array([bool(site.stream) for site in self.whole.sites], dtype=np.bool_)
        on_main = [only_sites(meaning, ~is_side) for meaning in self.whole_meanings]
        return [*on_main, *(only_sites(meaning, is_side) for meaning in self.whole_meanings)]

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
        misfits: programs that do not fit, so that no link to them may be more than ambiguous.
        findings: about the fit.
    """

    order: Order
    parts: tuple[LinkedRows, ...]
    fit_ratio: float
    lost_count: float
    misfits: frozenset[int]
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
    device = _Device(schedules=schedules, table=table, options=options, compile_loops=compile_loops)
    tried: list[_Reading] = []
    for order in _orders(device, rows):
        tried.append(device.read_streams(rows) if order is Order.STREAMS else device.read_as_one(rows, order))
        if tried[-1].quality >= _GOOD_FIT:
            break
    best = max(tried, key=lambda each: each.quality)
    fit, lost = best.parts[0].links.fit_ratio, best.parts[0].links.lost_count
    main_links = best.parts[0].links
    misfits = find_misfits(main_links)
    findings = [describe_misfit(main_links, program, ratio, where) for program, ratio in misfits.items()]
    if not misfits:
        findings += check_order(main_links, where)
        findings += [] if best.side is None else check_side_streams(best.side, where)
    return DeviceLinks(
        order=best.order,
        parts=best.parts,
        fit_ratio=fit,
        lost_count=lost,
        misfits=frozenset(misfits),
        findings=tuple(findings),
    )


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Reading:
    """The links in one order, and how good that order looks."""

    order: Order
    quality: float
    parts: tuple[LinkedRows, ...]
    side: SideLinks | None = None


def _orders(device: _Device, rows: IntArray) -> list[Order]:
    """The orders worth trying, the most telling first."""
    collective = device.is_collective(rows)
    has_side = device.schedules.has_side_streams and bool(_is_side(device.table.stream_of[rows], collective).any())
    orders = [Order.STREAMS if has_side else Order.START]
    return [Order.LAUNCH, *orders] if _ids_follow_streams(device.table, rows) else orders


def _ids_follow_streams(table: DispatchTable, rows: IntArray) -> bool:
    """Whether ids grow with starts within each stream, as they do if they follow launches: streams are in order."""
    order = np.lexsort((table.dispatch_id[rows], table.stream_of[rows]))
    stream, start = table.stream_of[rows][order], table.start_ns[rows][order]
    is_same = stream[1:] == stream[:-1]
    is_back = (np.diff(start) < 0) & is_same
    return float(is_back.sum()) <= _MOST_INVERSIONS * max(int(is_same.sum()), 1)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Device:
    """What all readings of a device need."""

    schedules: Schedules
    table: DispatchTable
    options: AlignmentOptions
    compile_loops: bool

    def is_collective(self, rows: IntArray) -> BoolArray:
        families = np.array([family is KernelFamily.RCCL for family in self.schedules.families], dtype=np.bool_)
        return families[self.table.symbol_of[rows]]

    def lane(self, rows: IntArray) -> Lane:
        collective = self.is_collective(rows)
        is_side = _is_side(self.table.stream_of[rows], collective)
        return Lane(
            symbols=self.table.symbol_of[rows],
            start_ns=self.table.start_ns[rows],
            end_ns=self.table.end_ns[rows],
            # On merged streams, a collective may be one that runs beside the others, and tells of no pause.
            is_main=~is_side if is_side.any() else ~collective,
        )

    def read_as_one(self, rows: IntArray, order: Order) -> _Reading:
        """All streams in one order."""
        key = self.table.dispatch_id if order is Order.LAUNCH else self.table.start_ns
        rows = rows[np.argsort(key[rows], kind="stable")]
        lane = self.lane(rows)
        meanings, families = self.schedules.whole_meanings, self.schedules.families
        is_side = _is_side(self.table.stream_of[rows], self.is_collective(rows))
        if is_side.any() and self.schedules.has_side_streams:
            # What is on a stream of its own is another symbol: it means the sites on such streams only.
            lane = replace(lane, symbols=lane.symbols + len(meanings) * is_side)
            meanings = self.schedules.by_stream()
            families = [*families, *families]
        links = align_lane(
            self.schedules.whole, meanings, families, lane, self.options, compile_loops=self.compile_loops
        )
        rows = rows[links.order]
        quality = _quality(links, self.is_collective(rows))
        return _Reading(order=order, quality=quality, parts=(LinkedRows(rows=rows, links=links),))

    def read_streams(self, rows: IntArray) -> _Reading:
        """The main streams in the order of starts, and the others beside them."""
        rows = rows[np.argsort(self.table.start_ns[rows], kind="stable")]
        is_side = _is_side(self.table.stream_of[rows], self.is_collective(rows))
        main_rows, side_rows = rows[~is_side], rows[is_side]
        main, side = self.lane(main_rows).on_main(), self.lane(side_rows)
        links = align_lane(
            self.schedules.main,
            self.schedules.main_meanings,
            self.schedules.families,
            main,
            self.options,
            compile_loops=self.compile_loops,
        )
        main, main_rows = main.part(links.order), main_rows[links.order]
        found = align_side_streams(
            self.schedules.whole, main, links, side, self.options, compile_loops=self.compile_loops
        )
        return _Reading(
            order=Order.STREAMS,
            quality=min(_quality(links, self.is_collective(main_rows)), 1 - found.missed_ratio),
            parts=(LinkedRows(rows=main_rows, links=links), LinkedRows(rows=side_rows, links=found.links)),
            side=found,
        )


def _is_side(stream_of: IntArray, collective: BoolArray) -> BoolArray:
    """Whether a dispatch is on a stream that runs collectives only; none is, where all streams are of that kind."""
    count = int(stream_of.max()) + 1 if stream_of.size else 1
    total = np.bincount(stream_of, minlength=count)
    share = np.bincount(stream_of, weights=collective, minlength=count) / np.maximum(total, 1)
    is_side = share > _COMMUNICATION_SHARE
    if is_side[total > 0].all():
        is_side[:] = False
    return np.asarray(is_side[stream_of])


def _quality(links: LaneLinks, collective: BoolArray) -> float:
    """How well the order fits: of everything, and of collectives, which suffer first."""
    linked = np.flatnonzero(links.label >= LIKELY)
    if linked.size == 0:
        return 0.0
    span = slice(linked[0], linked[-1] + 1)
    is_linked, is_collective = links.label[span] >= LIKELY, collective[span]
    of_collectives = is_linked[is_collective].mean() if is_collective.any() else 1.0
    return float(min(links.fit_ratio, of_collectives))
