"""A trace simulated from a compiled program, with the hidden truth: DISPATCHES as a run of it would leave them.

Nothing here was measured. The thunk sequence says what is launched and in which order; what libraries launch, how long
things take, and what goes wrong is made up (see library_kernels, simulated_timing, trace_damage). What finds the
instruction of a dispatch again must not share code with this, so nothing of `correlate` is used.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd

from rocktools.demo.launch_rows import (
    WAIT,
    LaunchRows,
    Origin,
    join_rows,
    mix_rows,
    program_rows,
    strange_rows,
)
from rocktools.demo.launch_schedule import Schedule, unroll_program
from rocktools.demo.library_kernels import KernelLaunch, LibraryOptions, choose_kernels
from rocktools.demo.scenario import Lanes, Scenario
from rocktools.demo.simulated_frames import DeviceTrace, build_dispatches, build_truth
from rocktools.demo.simulated_timing import time_launches
from rocktools.demo.strange_kernels import autotuning_kernels, foreign_kernels, other_executable_kernels
from rocktools.demo.trace_damage import (
    find_kept,
    find_recorded,
    skew_streams,
    swap_neighbours_across_streams,
    swap_neighbours_in_time,
)
from rocktools.errors import UsageError
from rocktools.hlo.program import CompiledProgram

_DEVICE_OFFSET_NS = 50_000
_FIRST_LAUNCH_NS = 2_000_000
_SUBSTITUTE_SUFFIX = "__autotuned_v2"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SimulatedTrace:
    """What a run of a program left behind, and what really happened.

    Attributes:
        dispatches: DISPATCHES. Dispatch ids count in the order of launch, lost ones included.
        truth: one row per row of `dispatches`, in its order (see `simulated_frames.build_truth`).
        scenario: what was simulated.
        substituted: names of the generated kernels that the run had under another name.
        launched_count: dispatches that ran; the difference to the rows was lost or is outside of what was recorded.
    """

    dispatches: pd.DataFrame
    truth: pd.DataFrame
    scenario: Scenario
    substituted: tuple[str, ...]
    launched_count: int


class _KernelTable:
    """Kernels by number; equal launches share one."""

    def __init__(self) -> None:
        self.kernels: dict[KernelLaunch, int] = {}

    def numbers(self, kernels: Sequence[KernelLaunch]) -> np.ndarray:
        found = [self.kernels.setdefault(kernel, len(self.kernels)) for kernel in kernels]
        return np.array(found, dtype=np.int64)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Cast:
    """Everything that can be launched, as numbers of kernels."""

    schedule: Schedule
    site_kernels: list[np.ndarray]
    warm_up: np.ndarray
    other: np.ndarray
    foreign: np.ndarray


def simulate(program: CompiledProgram, scenario: Scenario | None = None) -> SimulatedTrace:
    """A trace of `program` under `scenario`.

    Args:
        program: with a thunk sequence.
        scenario: what is run and what goes wrong; None takes the default.

    Raises:
        UsageError: the program has no thunk sequence.
    """
    scenario = scenario or Scenario()
    if program.thunks is None:
        raise UsageError(
            "no-thunk-sequence",
            "a program can be simulated only with its thunk sequence",
            where=program.module.source,
            hint="XLA writes *.thunk_sequence.txt with --xla_dump_to=FOLDER",
        )
    rng = np.random.default_rng(scenario.seed)
    schedule = unroll_program(program, unknown_trips_count=scenario.unknown_trips_count, rng=rng)
    options = LibraryOptions(
        copies=scenario.copies,
        is_k_split=scenario.is_k_split,
        has_sort_merges=scenario.has_sort_merges,
        all_to_all_kernels_count=scenario.all_to_all_kernels_count,
        symbol_ending=scenario.symbol_ending,
    )
    launches = [choose_kernels(thunk, program.module, options) for thunk in schedule.sites]
    generated = [
        kernels[0] for thunk, kernels in zip(schedule.sites, launches, strict=True) if thunk.kernel and kernels
    ]
    substituted = _choose_substituted(generated, scenario.substituted_kernels_count, rng)
    table = _KernelTable()
    cast = _Cast(
        schedule=schedule,
        site_kernels=[table.numbers([_substitute(one, substituted) for one in kernels]) for kernels in launches],
        warm_up=table.numbers(autotuning_kernels(generated)),
        other=table.numbers(other_executable_kernels(generated)),
        foreign=table.numbers(foreign_kernels()),
    )
    kernels = tuple(table.kernels)
    devices = [_run_device(cast, kernels, scenario, device) for device in range(scenario.devices_count)]
    launched = sum(len(device.rows) for device in devices)
    recorded = _record(_number(devices, scenario), scenario)
    dispatches, order = build_dispatches(recorded, kernels, scenario)
    truth = build_truth(recorded, schedule, program.module.label, order)
    return SimulatedTrace(
        dispatches=dispatches,
        truth=truth,
        scenario=scenario,
        substituted=substituted,
        launched_count=launched,
    )


def _choose_substituted(generated: Sequence[KernelLaunch], count: int, rng: np.random.Generator) -> tuple[str, ...]:
    names = sorted({kernel.name for kernel in generated})
    if not names:
        return ()
    chosen = rng.choice(len(names), min(count, len(names)), replace=False)
    return tuple(names[index] for index in sorted(chosen.tolist()))


def _substitute(kernel: KernelLaunch, substituted: tuple[str, ...]) -> KernelLaunch:
    """The kernel, or what ran in its place: half the workgroups, under another name."""
    if kernel.name not in substituted:
        return kernel
    x, y, z = kernel.grid_workitems
    width = kernel.workgroup_workitems[0]
    return replace(
        kernel, name=kernel.name + _SUBSTITUTE_SUFFIX, grid_workitems=(max(x // width // 2, 1) * width, y, z)
    )


def _run_device(cast: _Cast, kernels: tuple[KernelLaunch, ...], scenario: Scenario, device: int) -> DeviceTrace:
    """Everything that ran on one device, waits left out."""
    rng = np.random.default_rng([scenario.seed, device])
    rows = _compose(cast, scenario, rng)
    if scenario.lanes is Lanes.ONE_STREAM:
        rows = replace(rows, stream=np.zeros_like(rows.stream))
    is_wait = rows.kernel == WAIT
    typical_ns = np.array([kernel.typical_ns for kernel in kernels])[rows.kernel]
    spread = np.array([kernel.spread_ratio for kernel in kernels])[rows.kernel]
    duration_ns = np.where(is_wait, 0.0, typical_ns * np.exp(spread * rng.normal(0, 1, len(rows))))
    times = time_launches(
        rows,
        duration_ns,
        first_ns=scenario.start_ns + _FIRST_LAUNCH_NS + device * _DEVICE_OFFSET_NS,
        is_serialised=scenario.is_serialised,
        is_queue_merged=scenario.lanes is Lanes.MERGED_QUEUE,
        rng=rng,
    )
    return DeviceTrace(device=device, rows=rows, times=times, dispatch_id=np.zeros(len(rows), dtype=np.int64)).taken(
        ~is_wait
    )


def _compose(cast: _Cast, scenario: Scenario, rng: np.random.Generator) -> LaunchRows:
    """What one device is given, in order."""
    loops_count = cast.schedule.iterations.shape[1]
    warm_up = rng.choice(cast.warm_up, scenario.warm_up_dispatches_count)
    other = strange_rows(cast.other, Origin.OTHER_EXECUTABLE, loops_count=loops_count)
    parts = [strange_rows(warm_up, Origin.WARM_UP, loops_count=loops_count)]
    parts += [other] * scenario.other_runs_count
    site_kernels = [kernels.tolist() for kernels in cast.site_kernels]
    step_rows = program_rows(cast.schedule, site_kernels, step=0)
    for step in range(scenario.steps_count):
        rows = replace(step_rows, step=np.full(len(step_rows), step))
        if scenario.foreign_ratio:
            count = int(rng.binomial(len(rows), scenario.foreign_ratio))
            foreign = strange_rows(rng.choice(cast.foreign, count), Origin.FOREIGN, loops_count=loops_count)
            rows = mix_rows(rows, foreign, np.sort(rng.integers(0, max(len(rows), 1), count)))
        parts.append(rows)
        parts += [other] * min(scenario.other_runs_count, 1)
    return join_rows(parts)


def _number(devices: list[DeviceTrace], scenario: Scenario) -> list[DeviceTrace]:
    """The same with dispatch ids: from 1, in the order of launch over all devices."""
    launch_ns = np.concatenate([device.times.launch_ns for device in devices])
    ids = np.empty(len(launch_ns), dtype=np.int64)
    ids[np.argsort(launch_ns, kind="stable")] = np.arange(1, len(launch_ns) + 1)
    edges = np.cumsum([len(device.rows) for device in devices])[:-1]
    return [replace(device, dispatch_id=own) for device, own in zip(devices, np.split(ids, edges), strict=True)]


def _record(devices: list[DeviceTrace], scenario: Scenario) -> list[DeviceTrace]:
    """What was recorded, damage included."""
    recorded = []
    for device in devices:
        rng = np.random.default_rng([scenario.seed, device.device, 1])
        rows = device.rows
        times = swap_neighbours_in_time(rows, device.times, scenario.swapped_times_ratio, rng)
        times = skew_streams(rows, times, scenario.communication_skew_ns)
        ids = swap_neighbours_across_streams(device.dispatch_id, rows, scenario.swapped_ids_ratio, rng)
        kept = find_kept(
            rows,
            times,
            loss_ratio=scenario.loss_ratio,
            bursts_count=scenario.bursts_count,
            burst_dispatches_count=scenario.burst_dispatches_count,
            rng=rng,
        )
        kept &= find_recorded(
            rows, times, cut_first_ratio=scenario.cut_first_ratio, cut_last_ratio=scenario.cut_last_ratio
        )
        recorded.append(replace(device, times=times, dispatch_id=ids).taken(kept))
    return recorded
