"""A JAX profile and a rocpd trace of the same program -> links for the dispatches of the trace.

The profile knows the instruction of each of its events; the trace has counters, registers and every step. Their runs
share no id and no clock. What they share is the order in which a device is given kernels, so a dispatch gets the
instruction that the profile has where the same kernels, with the same grids and workgroups, stand around it. How many
steps each side recorded, where it began, and which rows it lost does not matter (see `contexts`). Kernels that only one
side has are left out first: a counter pass may be of a few kernels, and autotuning is in no profile.

All devices of the profile speak for all of the trace. Collectives run beside computation, and when they do differs from
run to run, so they have sequences of their own (see `collective_places`). Counted dispatches may be handed in: what is
compared is order, never time.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from rocktools.correlate.collective_places import StartOrder, choose_by_place, tabulate_places
from rocktools.correlate.contexts import FIRM_REACH, SymbolRows, Vote, narrow, vote
from rocktools.correlate.edges import (
    UNLINKED,
    BoolArray,
    Confidence,
    IntArray,
    Link,
    Method,
    build_dispatch_edges,
    build_link,
    codes_as_in,
    find_edges,
    group_rows,
)
from rocktools.correlate.kernel_families import KernelFamily, family_of
from rocktools.findings import Finding, Severity
from rocktools.frames import EVENT_EDGES, GRID, WORKGROUP

SURE_REACH = 8
SAME_PROGRAM_RATIO = 0.5
GOOD_RATIO = 0.95

_GAP = 8
_GEOMETRY = (*GRID, *WORKGROUP)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ProfileMatch:
    """What a profile says about a trace.

    Attributes:
        edges: DISPATCH_EDGES of all dispatches. Method `annotation`: that of the event which an execution corresponds
            to; certain where `SURE_REACH` kernels before and behind are as in the profile, and its events are certain.
        findings: whether profile and trace look like one program.
        event_ratio: events whose kernel (name, grid, workgroup) the trace has, over all; None where there is none.
        dispatch_ratio: dispatches whose kernel the profile has, over all; None where there is none.
        order_ratio: of the dispatches with enough others around them, those that stand between the same three kernels
            on either side as in the profile; None where no dispatch has.
    """

    edges: pd.DataFrame
    findings: tuple[Finding, ...]
    event_ratio: float | None
    dispatch_ratio: float | None
    order_ratio: float | None


def match_profiles(events: pd.DataFrame, event_edges: pd.DataFrame, dispatches: pd.DataFrame) -> ProfileMatch:
    """The instruction of each dispatch, by a profile of the same program.

    Args:
        events: DEVICE_EVENTS, all columns; kernels are used, and the rest ignored.
        event_edges: EVENT_EDGES of these events.
        dispatches: DISPATCHES or COUNTED_DISPATCHES, all columns.
    """
    kernels = events[(events["kind"] == "kernel").to_numpy(dtype=np.bool_)].reset_index(drop=True)
    symbols = _Symbols.of(kernels, dispatches)
    event_ratio, dispatch_ratio = _ratio(symbols.is_known_common), _ratio(symbols.is_asked_common)
    findings = _check_kernels(symbols, event_ratio, dispatch_ratio)
    links, of, order_ratio = [UNLINKED], np.zeros(len(dispatches), dtype=np.int64), None
    if max(event_ratio or 0.0, dispatch_ratio or 0.0) >= SAME_PROGRAM_RATIO:
        labels = _Labels.of(event_edges, kernels)
        known = _Rows.of(kernels, symbols.known, symbols.is_known_common, ("run", "host", "device"))
        place = [name for name in ("pass", "replay_pass", "run", "process", "agent_id") if name in dispatches.columns]
        asked = _Rows.of(dispatches, symbols.asked, symbols.is_asked_common, place)
        found = vote(known.rows, labels.of_event[known.order], asked.rows, sure_reach=SURE_REACH)
        order_ratio = _order_ratio(found, asked.rows)
        findings += _check_order(order_ratio)
        candidates = _candidates(found, known, asked, labels.of_event[known.order])
        is_trusted = order_ratio is None or order_ratio >= SAME_PROGRAM_RATIO
        links, of[asked.order] = _links(found, candidates, labels, is_trusted=is_trusted)
    return ProfileMatch(
        edges=build_dispatch_edges(dispatches, links, of),
        findings=tuple(findings),
        event_ratio=event_ratio,
        dispatch_ratio=dispatch_ratio,
        order_ratio=order_ratio,
    )


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Symbols:
    """A number for each kernel of events (known) and dispatches (asked), and whether the other side has it."""

    known: IntArray
    asked: IntArray
    has_geometry: bool

    @property
    def is_known_common(self) -> BoolArray:
        return np.isin(self.known, np.unique(self.asked))

    @property
    def is_asked_common(self) -> BoolArray:
        return np.isin(self.asked, np.unique(self.known))

    @classmethod
    def of(cls, kernels: pd.DataFrame, dispatches: pd.DataFrame) -> _Symbols:
        """By name, grid and workgroup; by name alone where profile and trace do not agree about the rest.

        Profiles of command buffers have the geometry of the first kernel for all, and old ones may have none.
        """
        both = [cls._number(kernels, dispatches, has_geometry=has_geometry) for has_geometry in (True, False)]
        exact, named = (max(_ratio(each.is_known_common) or 0.0, _ratio(each.is_asked_common) or 0.0) for each in both)
        return both[0] if exact >= GOOD_RATIO * named else both[1]

    @classmethod
    def _number(cls, kernels: pd.DataFrame, dispatches: pd.DataFrame, *, has_geometry: bool) -> _Symbols:
        names = [
            kernels["kernel_name"].cat.codes.to_numpy().astype(np.int64),
            codes_as_in(kernels["kernel_name"], dispatches["kernel_name"]),
        ]
        columns = [pd.Series(np.concatenate(names))]
        for name in _GEOMETRY if has_geometry else ():
            sizes = [frame[name].fillna(0).to_numpy(dtype=np.int64) for frame in (kernels, dispatches)]
            columns.append(pd.Series(np.concatenate(sizes)))
        of, _ = group_rows(columns)
        return cls(known=of[: len(kernels)], asked=of[len(kernels) :], has_geometry=has_geometry)


def _ratio(is_counted: BoolArray) -> float | None:
    return float(is_counted.mean()) if is_counted.size else None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Labels:
    """A number for each instruction that events are linked with; 0 for events that are not.

    Attributes:
        of_event: of each event.
        names: (program id, instruction) of each number; the first is none's.
        is_certain: of each number: whether all of its events are certain.
    """

    of_event: IntArray
    names: list[tuple[str, str]]
    is_certain: BoolArray

    @classmethod
    def of(cls, edges: pd.DataFrame, events: pd.DataFrame) -> _Labels:
        place = find_edges(edges, events, EVENT_EDGES.key)
        of_edge, example = group_rows([edges["program_id"], edges["instruction"]])
        is_linked = edges["instruction"].notna().to_numpy(dtype=np.bool_)
        of_edge = np.where(is_linked, of_edge + 1, 0)
        is_certain = np.ones(example.size + 1, dtype=np.bool_)
        is_certain[of_edge[(edges["confidence"] != Confidence.CERTAIN.value).to_numpy(dtype=np.bool_)]] = False
        rows = edges[["program_id", "instruction"]].iloc[example].astype("object")
        names = [("", ""), *((str(program), str(name)) for program, name in rows.itertuples(index=False))]
        of_event = np.where(place >= 0, of_edge[place], 0) if len(edges) else np.zeros(len(events), dtype=np.int64)
        return cls(of_event=of_event, names=names, is_certain=is_certain)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Rows:
    """The rows of a frame that have a counterpart.

    Attributes:
        order: their places in the frame, by device and start, the collectives of a device behind its others.
        rows: their symbols in this order.
        starts: the same rows by device and start, collectives among the others.
    """

    order: IntArray
    rows: SymbolRows
    starts: StartOrder

    @classmethod
    def of(cls, frame: pd.DataFrame, symbols: IntArray, is_kept: BoolArray, place: Sequence[str]) -> _Rows:
        start = "start_ns" if "start_ns" in frame.columns else "pass_start_ns"
        number = "event_index" if "event_index" in frame.columns else "dispatch_id"
        names = frame["kernel_name"].cat
        of_name = np.array([family_of(str(name)) is KernelFamily.RCCL for name in names.categories] + [False])
        is_collective = of_name[names.codes.to_numpy()]
        columns = [frame[name].reset_index(drop=True) for name in place]
        columns = [column.fillna(-1).astype("int64") if column.dtype == "Int64" else column for column in columns]
        device, _ = group_rows(columns)
        by_start = np.lexsort((frame[number].to_numpy(), frame[start].to_numpy(), device))
        by_start = by_start[is_kept[by_start]]
        sequence = 2 * device + is_collective
        order = by_start[np.argsort(sequence[by_start], kind="stable")]
        row = np.empty(len(frame), dtype=np.int64)
        row[order] = np.arange(order.size)
        return cls(
            order=order,
            rows=SymbolRows(symbols=symbols[order], sequence=sequence[order]),
            starts=StartOrder(row=row[by_start], device=device[by_start], is_collective=is_collective[by_start]),
        )


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Candidates:
    """What a row may be whose surroundings have several labels.

    Attributes:
        labels: possible ones, with repetitions.
        is_firm: whether enough speaks for them to believe a single one.
    """

    labels: IntArray
    is_firm: bool


def _candidates(found: Vote, known: _Rows, asked: _Rows, labels: IntArray) -> dict[int, _Candidates]:
    near = {row: labels[places] for row, places in narrow(found, known.rows, labels, asked.rows, gap=_GAP).items()}
    firm = np.where(found.is_firm(), found.labels, 0)
    placed = choose_by_place(near, asked.starts, firm, tabulate_places(known.starts, labels))
    return {
        row: _Candidates(labels=placed.get(row, own), is_firm=row in placed or found.reach[row] >= FIRM_REACH)
        for row, own in near.items()
    }


def _order_ratio(found: Vote, asked: SymbolRows) -> float | None:
    """Of rows with others on both sides: how many are surrounded as in the profile; by few, to bear many losses."""
    count, reach = len(asked), FIRM_REACH - 1
    if count <= 2 * reach:
        return None
    middle = np.arange(reach, count - reach)
    is_inside = asked.sequence[middle - reach] == asked.sequence[middle + reach]
    return _ratio(found.reach[middle[is_inside]] >= FIRM_REACH)


def _links(
    found: Vote, candidates: dict[int, _Candidates], labels: _Labels, *, is_trusted: bool
) -> tuple[list[Link], IntArray]:
    """The different links, and the one of each row."""
    firm, sure = found.is_firm() & is_trusted, found.reach >= SURE_REACH
    numbers: dict[tuple[tuple[int, ...], Confidence], int] = {}
    of = np.zeros(found.labels.size, dtype=np.int64)
    links: list[Link] = [UNLINKED]

    def number(of_labels: tuple[int, ...], confidence: Confidence) -> int:
        key = (of_labels, confidence)
        if key not in numbers:
            numbers[key] = len(links)
            names = [labels.names[label] for label in of_labels]
            links.append(build_link(names, method=Method.ANNOTATION, confidence=confidence))
        return numbers[key]

    is_certain = firm & sure & labels.is_certain[np.maximum(found.labels, 0)]
    for confidence, is_own in (
        (Confidence.CERTAIN, is_certain),
        (Confidence.LIKELY, firm & ~is_certain),
        (Confidence.AMBIGUOUS, ~firm),
    ):
        for label in np.unique(found.labels[is_own & (found.labels > 0)]).tolist():
            of[is_own & (found.labels == label)] = number((label,), confidence)
    for row, own in candidates.items():
        values, counts = np.unique(own.labels, return_counts=True)
        ranked = tuple(values[np.argsort(-counts, kind="stable")].tolist())
        linked = tuple(label for label in ranked if label > 0)
        is_likely = is_trusted and len(ranked) == 1 and own.is_firm
        of[row] = number(linked, Confidence.LIKELY if is_likely else Confidence.AMBIGUOUS) if linked else 0
    return links, of


def _check_kernels(symbols: _Symbols, event_ratio: float | None, dispatch_ratio: float | None) -> list[Finding]:
    """Whether both sides have the same kernels."""
    if event_ratio is None or dispatch_ratio is None:
        return []
    best = max(event_ratio, dispatch_ratio)
    numbers = {"event_ratio": event_ratio, "dispatch_ratio": dispatch_ratio}
    shares = f"{100 * event_ratio:.1f} % of the profile's events and {100 * dispatch_ratio:.1f} % of the dispatches"
    findings = []
    if best < SAME_PROGRAM_RATIO:
        findings.append(
            Finding(
                rule="profile-of-another-program",
                severity=Severity.FAULT,
                where="DEVICE_EVENTS, DISPATCHES",
                message=f"{shares} run a kernel that the other side has, too; nothing is linked by the profile",
                numbers=numbers,
                advice="take profile and trace of one compiled program",
            )
        )
    elif best < GOOD_RATIO:
        findings.append(
            Finding(
                rule="profile-differs-in-kernels",
                severity=Severity.WARNING,
                where="DEVICE_EVENTS, DISPATCHES",
                message=f"only {shares} run a kernel that the other side has, too; the profile links no others",
                numbers=numbers,
                advice="take profile and trace of one compiled program",
            )
        )
    if not symbols.has_geometry and best >= GOOD_RATIO:
        findings.append(
            Finding(
                rule="profile-geometry-differs",
                severity=Severity.NOTE,
                where="DEVICE_EVENTS, DISPATCHES",
                message="grids and workgroups of the profile are not those of the trace; kernels are compared by name",
                advice="command buffers (HIP graphs) hide the geometry in profiles; switch them off with "
                "XLA_FLAGS=--xla_gpu_enable_command_buffer=",
            )
        )
    return findings


def _check_order(order_ratio: float | None) -> list[Finding]:
    if order_ratio is None or order_ratio >= SAME_PROGRAM_RATIO:
        return []
    return [
        Finding(
            rule="profile-differs-in-order",
            severity=Severity.FAULT,
            where="DEVICE_EVENTS, DISPATCHES",
            message=f"only {100 * order_ratio:.1f} % of the dispatches have the kernels around them that the profile "
            "has there; the links by the profile are candidates only",
            numbers={"order_ratio": order_ratio},
            advice="take profile and trace of one compiled program",
        )
    ]
