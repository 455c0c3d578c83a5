"""A compiled program -> what every launch site works on, and how long that takes: a roofline with efficiencies.

FLOPs and bytes are the compiler's estimates, peaks those of the device's file. What share of them a kernel reaches is
made up, by its kind: `EFFICIENCIES` says how much. Nothing here is a measurement.
"""

from __future__ import annotations

import csv
import io
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from types import MappingProxyType

from rocktools.analytic.collectives import sent_bytes
from rocktools.demo.launch_schedule import Schedule, unroll_program
from rocktools.demo.library_kernels import Copies, KernelLaunch, LibraryOptions, choose_kernels
from rocktools.demo.packed_programs import DEVICES_COUNT, ProgramName
from rocktools.devices.device import Device, Level
from rocktools.hlo.arithmetic_kinds import ArithmeticKind, find_arithmetic_kinds
from rocktools.hlo.cost import estimate_cost
from rocktools.hlo.module import HloModule, Instruction
from rocktools.hlo.program import CompiledProgram
from rocktools.hlo.program_summary import collective_kind
from rocktools.hlo.replica_groups import parse_replica_groups
from rocktools.hlo.scopes import ScopePath, op_name_of, parse_op_name
from rocktools.hlo.thunks import Thunk
from rocktools.units import NS_PER_S


class WorkKind(str, Enum):
    """Kinds of work that reach different shares of the peaks."""

    PRODUCT = "product"
    ELEMENTWISE = "elementwise"
    REDUCTION = "reduction"
    FORMATTING = "formatting"
    COPY = "copy"
    COLLECTIVE = "collective"
    FURTHER = "further kernel"

    def __str__(self) -> str:
        return self.value


@dataclass(frozen=True, slots=True, kw_only=True)
class Efficiency:
    """What share of the peaks a kind of work reaches.

    Attributes:
        flop_ratio: of the dense peak of its units and format.
        bytes_ratio: of the bandwidth: of HBM, or of the links for collectives.
        fixed_ns: of every kernel, whatever it does.
        spread_ratio: how much executions differ: standard deviation of the duration's logarithm.
    """

    flop_ratio: float
    bytes_ratio: float
    fixed_ns: float
    spread_ratio: float


EFFICIENCIES: Mapping[WorkKind, Efficiency] = MappingProxyType(
    {
        WorkKind.PRODUCT: Efficiency(flop_ratio=0.40, bytes_ratio=0.60, fixed_ns=3_000, spread_ratio=0.006),
        WorkKind.ELEMENTWISE: Efficiency(flop_ratio=0.35, bytes_ratio=0.72, fixed_ns=2_200, spread_ratio=0.008),
        WorkKind.REDUCTION: Efficiency(flop_ratio=0.30, bytes_ratio=0.58, fixed_ns=2_600, spread_ratio=0.008),
        WorkKind.FORMATTING: Efficiency(flop_ratio=0.30, bytes_ratio=0.50, fixed_ns=2_200, spread_ratio=0.008),
        WorkKind.COPY: Efficiency(flop_ratio=1.0, bytes_ratio=0.80, fixed_ns=2_600, spread_ratio=0.010),
        WorkKind.COLLECTIVE: Efficiency(flop_ratio=1.0, bytes_ratio=0.78, fixed_ns=16_000, spread_ratio=0.015),
        WorkKind.FURTHER: Efficiency(flop_ratio=1.0, bytes_ratio=1.0, fixed_ns=0, spread_ratio=0.02),
    }
)
"""By kind; a kernel's own share differs from it by up to `OWN_SHARE_RATIO`, the same for all kernels of one structure:
it does not change with sizes, nor with the numbers that a compiler gives to names."""

OWN_SHARE_RATIO = 0.15

_FORMATTING = ("transpose", "copy", "convert", "bitcast", "broadcast", "slice", "concatenate", "pad", "reshape")
_NESTED_SCOPES = ("router",)  # router_gate, router_topk, ... are parts of one


@dataclass(frozen=True, slots=True, kw_only=True)
class SiteWork:
    """What one launch site does each time it runs.

    Attributes:
        thunk: of the program.
        kernels: that it launches, in order; the first does the work.
        kind: of its work.
        flop: floating-point operations, transcendental ones aside; 0 where nothing is known.
        transcendental_count: exponentials, logarithms, ...
        arithmetic: units and format of most of its FLOPs; None where it has none.
        read_bytes, written_bytes: as the compiler estimates them.
        payload_bytes: of a collective; 0 elsewhere.
        sent_bytes: what a device must at least send for it; 0 elsewhere.
        collective: `all-gather`, ...; "" elsewhere.
        groups: devices that join it; () elsewhere.
        phase: what its name stack says: forward, backward, rematerialized; "" outside of differentiation.
        component: outermost named scope of the step; "" where it has no name.
        scope: all its named scopes.
        ideal_ns: of the first kernel, when nothing else runs.
    """

    thunk: Thunk
    kernels: tuple[KernelLaunch, ...]
    kind: WorkKind
    flop: int = 0
    transcendental_count: int = 0
    arithmetic: ArithmeticKind | None = None
    read_bytes: int = 0
    written_bytes: int = 0
    payload_bytes: int = 0
    sent_bytes: int = 0
    collective: str = ""
    groups: tuple[tuple[int, ...], ...] = ()
    phase: str = ""
    component: str = ""
    scope: str = ""
    ideal_ns: float = 0.0

    @property
    def is_layout_only(self) -> bool:
        """Whether it only moves what is there to other places."""
        return self.kind is WorkKind.FORMATTING and self.flop == 0 and "transpose" in self.thunk.kernel


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class JobProgram:
    """A program, what one execution of it launches, and what its sites work on, in the order of the schedule's."""

    name: ProgramName
    program: CompiledProgram
    schedule: Schedule
    sites: tuple[SiteWork, ...]
    device: Device


def measure_program(program: CompiledProgram, device: Device, *, name: ProgramName) -> JobProgram:
    """What the program of this name launches and works on, on this device."""
    schedule = unroll_program(program)
    module = program.module
    kinds = find_arithmetic_kinds(module)
    options = LibraryOptions(copies=Copies.BLIT)
    sites = tuple(
        _timed(_site_work(thunk, module, kinds, choose_kernels(thunk, module, options)), device, module)
        for thunk in schedule.sites
    )
    return JobProgram(name=name, program=program, schedule=schedule, sites=sites, device=device)


def read_registers(kernels_csv: str) -> dict[str, tuple[int, int, int]]:
    """Kernel -> VGPRs, AGPRs, SGPRs, of a table of `rocktools aot compile`."""
    rows = csv.DictReader(io.StringIO(kernels_csv))
    return {
        row["kernel_name"]: (int(row["vgpr_count"]), int(row["agpr_count"]), int(row["sgpr_count"]))
        for row in rows
        if row["kernel_name"] and row["vgpr_count"]
    }


def _site_work(
    thunk: Thunk,
    module: HloModule,
    kinds: Mapping[str, ArithmeticKind],
    kernels: Sequence[KernelLaunch],
) -> SiteWork:
    instruction = module.instructions.get(thunk.instruction)
    if instruction is None:
        return SiteWork(thunk=thunk, kernels=tuple(kernels), kind=WorkKind.ELEMENTWISE)
    cost, arithmetic = estimate_cost(module, instruction), kinds.get(instruction.name)
    collective = collective_kind(module, instruction)
    groups = _groups(module, instruction) if collective else ()
    path = _path(module, instruction)
    payload = cost.payload_bytes or 0
    return SiteWork(
        thunk=thunk,
        kernels=tuple(kernels),
        kind=_kind(thunk, collective, arithmetic),
        flop=cost.compute_flop or 0,
        transcendental_count=cost.transcendental_count or 0,
        arithmetic=arithmetic,
        read_bytes=cost.read_bytes or 0,
        written_bytes=cost.written_bytes or 0,
        payload_bytes=payload,
        sent_bytes=(sent_bytes(collective, payload, len(groups[0])) or 0) if groups else 0,
        collective=collective,
        groups=groups,
        phase=_phase(path),
        component=_component(path),
        scope=path.scope if path else "",
    )


def _path(module: HloModule, instruction: Instruction) -> ScopePath | None:
    """Its name stack; of what an asynchronous start wraps that of the start, where it has none of its own."""
    callers = module.callers.get(instruction.computation, ())
    for named in (instruction, *(caller for caller in callers if caller.opcode == "async-start")):
        found = op_name_of(module, named)
        if found is not None:
            return parse_op_name(found.op_name)
    return None


def _groups(module: HloModule, instruction: Instruction) -> tuple[tuple[int, ...], ...]:
    """Devices that join a collective; all of them where nothing else is written."""
    inner = module.computations.get(instruction.called[0]) if instruction.opcode == "async-start" else None
    wrapped = inner.root if inner and inner.root else instruction
    text = wrapped.attributes.get("replica_groups", "")
    found = tuple(tuple(group) for group in parse_replica_groups(text)) if text else ()
    return found or (tuple(range(DEVICES_COUNT)),)


def _kind(thunk: Thunk, collective: str, arithmetic: ArithmeticKind | None) -> WorkKind:
    if collective:
        return WorkKind.COLLECTIVE
    if not thunk.kernel:
        return WorkKind.COPY
    if arithmetic is not None and arithmetic.unit == "matrix":
        return WorkKind.PRODUCT
    heroes = thunk.kernel.removeprefix("wrapped_").removeprefix("loop_").removeprefix("input_")
    if "reduce" in heroes:
        return WorkKind.REDUCTION
    # A fusion is called after what it does; of several, the last one is what its result is laid out by.
    words = [word for word in heroes.split("_") if not word.isdigit() and word != "fusion"]
    return WorkKind.FORMATTING if words and all(word in _FORMATTING for word in words) else WorkKind.ELEMENTWISE


def _phase(path: ScopePath | None) -> str:
    """The phase of a name stack; of merged ones that of a replay, else of the gradient, as a ledger books it."""
    found = {str(phase) for phase in path.phases if phase} if path else set()
    return next((phase for phase in ("rematerialized", "backward", "forward") if phase in found), "")


def _component(path: ScopePath | None) -> str:
    scope = path.scopes[0] if path and path.scopes else ""
    return next((name for name in _NESTED_SCOPES if scope.startswith(f"{name}_")), scope)


def _structure(site: SiteWork, module: HloModule) -> str:
    """What a kernel is made of: operations and layouts, without sizes and names; a collective by its group."""
    if site.collective:
        return f"{site.collective} {len(site.groups[0]) if site.groups else 0}"
    instruction = module.instructions.get(site.thunk.instruction)
    if instruction is None:
        return site.thunk.kernel
    fused = module.computations.get(instruction.called[0]) if instruction.called else None
    parts = fused.instructions if fused else (instruction,)
    return " ".join(f"{each.opcode}{each.shape.minor_to_major}" for each in parts)


def _timed(site: SiteWork, device: Device, module: HloModule) -> SiteWork:
    """The site with the time that its work takes."""
    efficiency = EFFICIENCIES[site.kind]
    chance = zlib.crc32(_structure(site, module).encode()) % 1009 / 1008
    own = 1 + OWN_SHARE_RATIO * (2 * chance - 1)
    if site.kind is WorkKind.COLLECTIVE:
        # The links of a device are shared by the peers of the group, one to each.
        peers = max(len(site.groups[0]) - 1, 1) if site.groups else 1
        rate = device.bandwidth(Level.NETWORK).bytes_per_s * min(peers / (DEVICES_COUNT - 1), 1.0)
        busy_s = site.sent_bytes / (rate * efficiency.bytes_ratio)
    else:
        moved_s = (site.read_bytes + site.written_bytes) / (
            device.bandwidth(Level.HBM).bytes_per_s * efficiency.bytes_ratio
        )
        busy_s = max(moved_s, _arithmetic_s(site, device) / efficiency.flop_ratio)
    ideal_ns = efficiency.fixed_ns + busy_s * NS_PER_S / own
    return replace(site, ideal_ns=ideal_ns)


def _arithmetic_s(site: SiteWork, device: Device) -> float:
    """Seconds at the peak of its units; formats without a peak are calculated in FP32."""
    if site.arithmetic is None or not site.flop:
        return 0.0
    peak = device.find_peak(site.arithmetic.dtype, site.arithmetic.unit) if _has_peak(site.arithmetic) else None
    return site.flop / (peak or device.peak("f32", "vector")).flop_per_s


def _has_peak(arithmetic: ArithmeticKind) -> bool:
    return arithmetic.dtype in ("f64", "f32", "f16", "bf16")
