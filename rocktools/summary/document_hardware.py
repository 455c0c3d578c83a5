"""What the hardware did: counters, roofline points, memory; and what the numbers suggest to try."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from rocktools.evidence import Absence, Evidence
from rocktools.summary.document_facts import Value


@dataclass(frozen=True, slots=True, kw_only=True)
class CounterQuantity:
    """One quantity of one counted kernel, as `rocktools metrics` prints it.

    Attributes:
        origin: `job`, or `replay:<name>`: a script that runs one kernel alone.
        proof: level to which a replay is proven the job's kernel; `unproven`; None for the job itself.
        kernel_name, role, device_index: what was counted.
        quantity, value, unit, formula_id: value is None with its absence.
        evidence, absence: one of them.
        lacking, doubts: which counters are not there, and what is odd.
        dispatches_count, min_value, max_value, pass_spread_ratio: how many it is of, and how far they differ.
    """

    run: str
    origin: str
    proof: str | None
    kernel_name: str
    role: str
    device_index: int
    quantity: str
    value: float | None
    unit: str
    formula_id: str
    evidence: Evidence | None
    absence: Absence | None
    lacking: str | None
    doubts: str | None
    dispatches_count: int
    min_value: float | None
    max_value: float | None
    pass_spread_ratio: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class AbsentQuantity:
    """One quantity that kernels have no value of for one reason.

    Attributes:
        origin: as for quantities that are there.
        lacking: which counters are not there; None where that is not the reason.
        kernels_count: for how many kernels that is so.
    """

    origin: str
    quantity: str
    formula_id: str
    absence: Absence
    lacking: str | None
    kernels_count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CountersBlock:
    """Quantities of counter passes. None of them is a time: passes are serialised.

    Attributes:
        passes_count, kernels_count: that were counted.
        quantities: those that have a value.
        left_out_count: such quantities beyond the limit.
        absent: those that have none, by reason.
    """

    passes_count: int
    kernels_count: int
    quantities: tuple[CounterQuantity, ...]
    left_out_count: int
    absent: tuple[AbsentQuantity, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class RooflinePoint:
    """One point under its ceilings, as `rocktools roofline` prints it.

    Attributes:
        bound: memory-bound, compute-bound, ...; side: of the ridge; refusal: why there is no point.
        roof_ratio, peak_ratio, bandwidth_ratio: achieved over what is possible.
        headroom_ns: time above the bound.
    """

    run: str
    name: str
    mix: str | None
    union_ns: int
    sum_ns: int
    covered_ratio: float | None
    certain_ratio: float | None
    executions_count: int
    devices_count: int
    compute_flop: int | None
    moved_bytes: int | None
    intensity_flop_per_byte: float | None
    achieved_flop_per_s: float | None
    achieved_bytes_per_s: float | None
    peak_flop_per_s: float | None
    bandwidth_bytes_per_s: float
    ridge_flop_per_byte: float | None
    roof_flop_per_s: float | None
    peak_ratio: float | None
    bandwidth_ratio: float | None
    roof_ratio: float | None
    compute_bound_ns: float | None
    traffic_bound_ns: float | None
    headroom_ns: float | None
    side: str | None
    bound: str | None
    evidence: Evidence | None
    refusal: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class RooflineTable:
    """Points of one kind.

    Attributes:
        by: kernel, instruction or component; level: where bytes are counted.
        device: whose ceilings; bandwidth_name, bandwidth_evidence: which one, and how it is known.
        source: where FLOPs and bytes come from, in a sentence.
        flop_evidence, bytes_evidence: of them; times are measured.
        points: the longest first; left_out_count: beyond the limit.
    """

    by: str
    level: str
    device: str
    bandwidth_name: str
    bandwidth_evidence: Evidence
    source: str
    flop_evidence: Evidence
    bytes_evidence: Evidence
    points: tuple[RooflinePoint, ...]
    left_out_count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RooflineBlock:
    """Tables of points; `reasons` says of each kind that is not there why: `component hbm` -> sentence."""

    tables: tuple[RooflineTable, ...]
    reasons: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgramReserve:
    """What one program reserves on each device, by its buffer assignment."""

    program: str
    total_bytes: int
    argument_bytes: int
    output_bytes: int
    alias_bytes: int
    temporary_bytes: int
    constant_bytes: int
    live_bytes: int | None
    held_bytes: int | None
    peak_instruction: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveValue:
    """One value that is live when the largest program holds most temporaries."""

    program: str
    size_bytes: int
    kind: str
    instruction: str
    shape: str
    scope: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceHighWater:
    """The most memory that allocations of the trace held at one time on one device."""

    run: str
    device: str
    allocated_bytes: int
    allocations_count: int
    unreleased_bytes: int
    reserved_bytes: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class AllocatorPeak:
    """What one of XLA's allocators says of itself in a JAX profile."""

    run: str
    host: str
    allocator: str
    peak_bytes: int
    most_allocated_bytes: int
    least_available_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryBlock:
    """Memory of one device; over devices the most counts, never the sum.

    Attributes:
        evidence, evidence_of: measured for allocations; compiler_estimate for programs, live values and what is
            reserved.
        highest_bytes, critical_device: the most that was allocated anywhere; None without a trace of allocations.
    """

    evidence: Evidence
    evidence_of: Mapping[str, Evidence]
    highest_bytes: int | None
    critical_device: str | None
    programs: tuple[ProgramReserve, ...]
    live: tuple[LiveValue, ...]
    devices: tuple[DeviceHighWater, ...]
    allocators: tuple[AllocatorPeak, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class CandidateEvidence:
    """One number that a candidate rests on.

    Attributes:
        name: with its unit.
        value: the number, or a name.
        block: of this document, where it stands; `rules` for what a rule measured, which stands nowhere else.
        evidence: how it was obtained.
        threshold: that it was held against; None where it was not.
    """

    name: str
    value: Value
    block: str
    evidence: Evidence
    threshold: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """Something to try, with the numbers that say so.

    Attributes:
        candidate_id: kebab-case, stable.
        title, rationale: for people.
        subject: operation, component, collective or device that it is about; "" for the whole step.
        most_saved_ns: what a step would gain at most, if the cause vanished; None where that cannot be told.
        evidence: the numbers; never empty.
        suggestions: what to do, the cheapest first.
    """

    candidate_id: str
    title: str
    rationale: str
    subject: str
    most_saved_ns: float | None
    evidence: tuple[CandidateEvidence, ...]
    suggestions: tuple[str, ...]
