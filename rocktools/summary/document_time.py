"""Where the time of the steps went: the ledger, overlap, collectives, gaps.

All are of the steps that count. A `sum` adds durations up, over all devices and steps unless the name says otherwise; a
`union` counts overlaps once. `_per_step` figures are means over the places: one device in one step. Each block says how
its numbers were obtained (`evidence`, and `evidence_of` for the fields that differ); a row with an `evidence` of its
own says it for itself.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from rocktools.evidence import Evidence


@dataclass(frozen=True, slots=True, kw_only=True)
class LedgerRow:
    """One line of a table of the ledger, as `rocktools ledger` prints it: means per device and step.

    Attributes:
        row: title.
        components: that it adds up; None where it is not made of components.
        mean_ns, union_ns: summed and covered time; None where a state stands instead.
        share_ratio: of the table's total; of all time in `cross_cutting`.
        lowest_ns, highest_ns, critical_device: `mean_ns` of the devices with least and most.
        sum_ns: over all devices and steps; mixed_ns, inferred_ns: parts of it that are less sure.
        rows_count: kernels and copies.
        expected_count, found_count: against a workload, where one was given.
        state: what stands there instead of a number: `fused into adjacent work`, ...
        note: what it includes.
        evidence: inferred where any part is; None with a state.
    """

    row: str
    components: str | None
    mean_ns: float | None
    share_ratio: float | None
    union_ns: float | None
    lowest_ns: float | None
    highest_ns: float | None
    critical_device: str | None
    sum_ns: int | None
    mixed_ns: int | None
    inferred_ns: int | None
    rows_count: int | None
    expected_count: int | None
    found_count: int | None
    state: str | None
    note: str | None
    evidence: Evidence | None


@dataclass(frozen=True, slots=True, kw_only=True)
class LedgerTable:
    """One table: phases, forward, backward, rematerialized, model, gradients, cross_cutting; the last row is Total."""

    name: str
    rows: tuple[LedgerRow, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class LedgerBucket:
    """One class, phase and component over all devices and steps: what two runs are compared by.

    Attributes:
        activity: compute, communication or copy; phase, component: as in the ledger.
        sum_ns, rows_count, mixed_ns, inferred_ns: over all places.
        sum_per_step_ns, union_per_step_ns: means over all places; a place without the bucket counts as 0.
        lowest_ns, highest_ns, critical_device: mean sum of the device with least and most.
        series_ns: for each step of `Ledger.series_steps` the mean over devices of the sum.
        evidence: inferred where any part is.
    """

    activity: str
    phase: str
    component: str
    sum_ns: int
    sum_per_step_ns: float
    union_per_step_ns: float
    share_ratio: float
    lowest_ns: float
    highest_ns: float
    critical_device: str
    rows_count: int
    mixed_ns: int
    inferred_ns: int
    series_ns: tuple[float, ...]
    evidence: Evidence


@dataclass(frozen=True, slots=True, kw_only=True)
class LedgerBlock:
    """The ledger: every kernel and copy in exactly one bucket.

    Attributes:
        title: one line for people.
        steps_count, devices_count, places_count: what means are over.
        total_sum_ns: durations of everything; the buckets add up to it exactly.
        total_per_step_ns: that per place.
        series_steps: `run:step_index` of each number of a bucket's series.
        tables: as `rocktools ledger` prints them.
        buckets: the longest first.
    """

    title: str
    steps_count: int
    devices_count: int
    places_count: int
    total_sum_ns: int
    total_per_step_ns: float
    series_steps: tuple[str, ...]
    tables: tuple[LedgerTable, ...]
    buckets: tuple[LedgerBucket, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class OverlapMeans:
    """What ran at once on one device, or on all: means over the steps (and over devices).

    Attributes:
        run, device: which; "" for the mean over all devices.
        steps_count: that the means are of.
        compute_sum_ns, communication_sum_ns, copy_sum_ns: durations added up.
        compute_ns, communication_ns, copy_ns: unions.
        hidden_communication_ns, exposed_communication_ns: under compute, and not: together communication.
        hidden_copy_ns, exposed_copy_ns: under anything, and not.
        busy_ns, idle_ns, span_ns: span = busy + idle; busy = compute + exposed communication + exposed copies.
        step_ns, distance_ns: the window of the step, and the span minus it; None where there are no steps.
    """

    run: str
    device: str
    steps_count: int
    compute_sum_ns: float
    communication_sum_ns: float
    copy_sum_ns: float
    compute_ns: float
    communication_ns: float
    copy_ns: float
    hidden_communication_ns: float
    exposed_communication_ns: float
    hidden_copy_ns: float
    exposed_copy_ns: float
    busy_ns: float
    idle_ns: float
    span_ns: float
    step_ns: float | None
    distance_ns: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class OverlapStep:
    """The same for one device in one step, in whole nanoseconds, as `rocktools overlap` prints it."""

    run: str
    device: str
    step_index: int | None
    compute_ns: int
    communication_ns: int
    copy_ns: int
    hidden_communication_ns: int
    exposed_communication_ns: int
    exposed_copy_ns: int
    busy_ns: int
    idle_ns: int
    span_ns: int
    step_ns: int | None
    distance_ns: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class QuantitySpread:
    """How far devices are apart in one quantity, each with its mean over the steps that all have."""

    run: str
    quantity: str
    devices_count: int
    mean_ns: float
    median_ns: float
    min_ns: float
    max_ns: float
    spread_ns: float
    spread_ratio: float | None
    critical_device: str
    least_device: str


@dataclass(frozen=True, slots=True, kw_only=True)
class OverlapBlock:
    """Unions and intersections on each device, reconciled with the step.

    Attributes:
        mean: over devices and steps.
        devices: of each device.
        spread: between devices; its `critical_device` is the one that the job waits for.
        steps: of each device and step; the first of them, where there are very many.
        steps_total_count: how many there are.
        hidden_ratio: hidden over all communication; None where there is none.
        exposed_ratio, busy_ratio, idle_ratio: of the span.
    """

    evidence: Evidence
    mean: OverlapMeans
    devices: tuple[OverlapMeans, ...]
    spread: tuple[QuantitySpread, ...]
    steps: tuple[OverlapStep, ...]
    steps_total_count: int
    hidden_ratio: float | None
    exposed_ratio: float | None
    busy_ratio: float | None
    idle_ratio: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Collective:
    """One collective of a program, all devices together, as `rocktools collectives` prints it.

    Attributes:
        wait_ns, transfer_ns: of a mean execution: waiting for the last device, and what is left; None where devices
            cannot be matched.
        algorithm_bytes_per_s, bus_bytes_per_s: payload over time, and that times the factor of kind and group.
    """

    run: str
    program_id: str | None
    instruction: str | None
    collective: str | None
    phase: str
    group_count: int | None
    payload_bytes: int | None
    devices_count: int
    rows_count: int
    sum_ns: int
    mean_ns: float
    wait_ns: float | None
    transfer_ns: float | None
    algorithm_bytes_per_s: float | None
    bus_bytes_per_s: float | None
    transfer_bus_bytes_per_s: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class CollectiveKind:
    """One kind of collective in one phase, all devices and steps together."""

    run: str
    collective: str | None
    phase: str
    instructions_count: int
    rows_count: int
    sum_ns: int
    share_ratio: float
    moved_bytes: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ArrivalSkew:
    """One device: how its matched collectives divide into waiting for others and transfer, over all steps."""

    run: str
    device: str
    collectives_count: int
    total_ns: int
    wait_ns: int
    transfer_ns: int
    last_count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class OperationSkew:
    """One collective instruction: how far apart devices arrive, the longest in all first."""

    run: str
    operation_name: str
    collective: str | None
    collectives_count: int
    skew_ns: int
    longest_skew_ns: int
    transfer_ns: int
    last_device: str
    last_count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CollectivesBlock:
    """What was communicated.

    Attributes:
        total_sum_ns: durations of all, over devices and steps.
        operations, kinds: the longest first.
        arrivals, skews: () where devices cannot be matched; `arrivals_reason` says why.
    """

    evidence: Evidence
    evidence_of: Mapping[str, Evidence]
    total_sum_ns: int
    operations: tuple[Collective, ...]
    kinds: tuple[CollectiveKind, ...]
    arrivals: tuple[ArrivalSkew, ...]
    skews: tuple[OperationSkew, ...]
    arrivals_reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class GapBefore:
    """Idle time before one payload, by marker and cause, over devices and steps, as `rocktools gaps` prints it.

    Attributes:
        payload_name: what useful work began with; marker_name: a tiny operation in front of it; None where none.
        cause: host_wait, kernel_wait or unknown.
        scope, phase: of the payload, where it is an instruction.
    """

    run: str
    payload_name: str | None
    marker_name: str | None
    cause: str
    gaps_count: int
    total_ns: int
    mean_ns: float
    longest_ns: int
    scope: str | None
    phase: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class GapCauseTotal:
    """Idle time of one device by cause and place (within a step, or between two)."""

    run: str
    device: str
    is_between_steps: bool
    cause: str
    gaps_count: int
    total_ns: int
    longest_ns: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Gap:
    """One time in which a device did nothing.

    Attributes:
        offset_ns: since the first start on any device.
        launch_lead_ns: how long before its end the call began that launched what ends it.
    """

    run: str
    device: str
    step_index: int | None
    offset_ns: int
    duration_ns: int
    is_between_steps: bool
    cause: str
    launch_lead_ns: int | None
    previous_name: str
    marker_name: str | None
    payload_name: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class GapsBlock:
    """When devices did nothing.

    Attributes:
        gaps_count, total_ns: all, over devices and steps; between_steps_ns: the part between steps.
        before: by payload, the longest in all first; causes: by device; longest: single gaps, the longest first.
        before_total_count: rows that `before` would have without its limit.
    """

    evidence: Evidence
    gaps_count: int
    total_ns: int
    between_steps_ns: int
    before: tuple[GapBefore, ...]
    before_total_count: int
    causes: tuple[GapCauseTotal, ...]
    longest: tuple[Gap, ...]
