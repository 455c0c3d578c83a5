"""What the time of the steps was spent on: HLO instructions, kinds of work, named scopes.

All are of the steps that count. Besides the sum and the union there is `exclusive` time: time in which nothing else ran
on the device. `_per_step` figures are means over the places: one device in one step.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from rocktools.evidence import Evidence


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """One HLO instruction in one class of work, with all its executions; or one kernel or kind of copy without one.

    Attributes:
        run, program_id, instruction: which; instruction is None for a kernel that no instruction is known of.
        name: the instruction, or else the kernel or the kind of copy.
        fingerprint: of what the instruction computes: the same after fusions were renumbered.
        opcode, fusion_kind, custom_call_target, shape: of the instruction.
        scope: named scopes, wrappers removed; op_name: as compiled, wrappers included.
        activity, phase, component, gradient, collective: as in the ledger; of several phases the one with most time.
        kernel_names: clean names, the longest time first; at most eight.
        kernels_count: different kernels.
        devices_count: that ran it.
        rows_count: executions on all devices.
        sum_ns, union_ns, exclusive_ns: added up over devices and steps; within a device overlaps counted once, and
            the part in which nothing else ran there.
        sum_per_step_ns, exclusive_per_step_ns: per place.
        share_ratio: `sum_ns` of all operations' sum; exclusive_share_ratio: of all exclusive time.
        mean_ns, shortest_ns, longest_ns: of one execution.
        compute_flop, read_bytes, written_bytes, payload_bytes: of one execution, by the compiler.
        executions_count: of the instruction, which may launch several kernels; None where costs are unknown.
        executed_flop, moved_bytes: that many times the cost of one; moved is read and written.
        source_file, source_line: of the model's code.
        is_inferred: phase or component of any execution is.
        hlo_text: the instruction, and what it computes; of the longest operations only, and cut where it is long.
    """

    run: str
    program_id: str | None
    instruction: str | None
    name: str
    fingerprint: str | None
    opcode: str | None
    fusion_kind: str | None
    custom_call_target: str | None
    shape: str | None
    scope: str | None
    op_name: str | None
    activity: str
    phase: str
    component: str
    gradient: str | None
    collective: str | None
    kernel_names: tuple[str, ...]
    kernels_count: int
    devices_count: int
    rows_count: int
    sum_ns: int
    union_ns: int
    exclusive_ns: int
    sum_per_step_ns: float
    exclusive_per_step_ns: float
    share_ratio: float
    exclusive_share_ratio: float
    mean_ns: float
    shortest_ns: int
    longest_ns: int
    compute_flop: int | None
    read_bytes: int | None
    written_bytes: int | None
    payload_bytes: int | None
    executions_count: int | None
    executed_flop: int | None
    moved_bytes: int | None
    source_file: str | None
    source_line: int | None
    is_inferred: bool
    hlo_text: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RestOfOperations:
    """What was left out of a list, so that it still adds up."""

    operations_count: int
    rows_count: int
    sum_ns: int
    exclusive_ns: int


@dataclass(frozen=True, slots=True, kw_only=True)
class OperationsBlock:
    """Operations by exclusive time, the longest first.

    Attributes:
        places_count: devices and steps that per-step figures are means over.
        operations_count: how many there are, with those left out.
        total_sum_ns, total_exclusive_ns: of all of them.
        evidence, evidence_of: of times and counts; of sizes and costs.
        operations: the longest.
        rest: the others; None where there are none.
    """

    places_count: int
    operations_count: int
    total_sum_ns: int
    total_exclusive_ns: int
    evidence: Evidence
    evidence_of: Mapping[str, Evidence]
    operations: tuple[Operation, ...]
    rest: RestOfOperations | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Family:
    """All operations of one kind of work.

    Attributes:
        family: attention, moe, dense_mlp, norm, loss, optimizer, ...; rule: by which it was told for most of its time.
        operations_count, rows_count: in it.
        sum_ns, union_ns, exclusive_ns: as for operations.
        share_ratio: of all operations' sum.
        compute_flop, moved_bytes: over all executions, by the compiler; None where that of no operation is known.
        work_covered_ratio: part of `sum_ns` whose FLOPs are known.
        flop_per_s: `compute_flop` over the sum of the operations whose FLOPs are known; ns_per_gflop: its inverse.
        example_operation: the one with most exclusive time.
        dominant_shape: of the operation with most time.
    """

    family: str
    rule: str
    operations_count: int
    rows_count: int
    sum_ns: int
    union_ns: int
    exclusive_ns: int
    share_ratio: float
    compute_flop: int | None
    moved_bytes: int | None
    work_covered_ratio: float
    flop_per_s: float | None
    ns_per_gflop: float | None
    example_operation: str
    dominant_shape: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class FamiliesBlock:
    """Semantic families of all operations, the longest first; together they are all operations."""

    evidence: Evidence
    evidence_of: Mapping[str, Evidence]
    families: tuple[Family, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Region:
    """One named scope in one phase. The split into forward, backward and rematerialized is kept: it is the phase.

    Attributes:
        phase: of the ledger; communication and copies are booked with the phase of their name stack.
        path: scope names from the outermost; () holds what has no scope.
        depth_count: names in `path`.
        inclusive_ns, exclusive_ns: summed durations with and without what is in scopes inside of it, over all places.
        inclusive_per_step_ns, exclusive_per_step_ns: per place.
        communication_ns: part of `inclusive_ns` that is communication.
        rows_count: kernels and copies, inclusive.
    """

    phase: str
    path: tuple[str, ...]
    depth_count: int
    rows_count: int
    inclusive_ns: int
    exclusive_ns: int
    inclusive_per_step_ns: float
    exclusive_per_step_ns: float
    communication_ns: int
    is_inferred: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class RegionsBlock:
    """The scope hierarchy, parents before children, siblings by inclusive time; exclusive times add up to all time."""

    evidence: Evidence
    total_sum_ns: int
    regions: tuple[Region, ...]
    left_out_count: int
