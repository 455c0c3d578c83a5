"""A simulated job -> what the profiler of one rank recorded: calls, dispatches, copies, ranges.

A process launches everything on one thread, as JAX does where it has one device. Rows are numbered as rocprofv3 does:
stack ids count in the order of calls and ranges, dispatch ids in the order of launches.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from rocktools.demo.job_simulation import SimulatedJob
from rocktools.demo.job_timing import FloatArray, IntArray
from rocktools.demo.launch_rows import WAIT, Origin
from rocktools.demo.library_kernels import COPY_NAME, FILL_NAME, KernelLaunch
from rocktools.demo.packed_programs import PROGRAMS, SEQUENCE_TOKENS
from rocktools.demo.rocpd_defaults import START_NS
from rocktools.demo.strange_kernels import autotuning_kernels

JOB_START_NS = START_NS + 2_500_000_000
"""When the first recorded step begins, trace clock: processes have started before."""

LOADING = "load_batch"
"""Range in which the host waits for its next batch."""

AUTOTUNED_COUNT = 96
TOKEN_BYTES = 4
_NO_FUNCTION = -1
_ALLOCATED_BEFORE_NS = 900_000_000
_CALL_NS, _SHORT_CALL_NS, _LOAD_CALL_NS = 2_400, 500, 2_600_000
_AUTOTUNE_SHARE = 0.25  # of the time that compilation takes, at its end

LAUNCH, LAUNCH_LIBRARY, COPY, FILL, RECORD, WAIT_EVENT, SYNCHRONIZE, LOAD, ALLOCATE = CALL_NAMES = (
    "hipModuleLaunchKernel", "hipExtLaunchKernel", "hipMemcpyAsync", "hipMemsetAsync", "hipEventRecord",
    "hipStreamWaitEvent", "hipStreamSynchronize", "hipModuleLoadData", "hipMalloc",
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Calls:
    """Host calls in the order of their start: function (index into `CALL_NAMES`), start, end, stack id."""

    function: IntArray
    start_ns: IntArray
    end_ns: IntArray
    stack_id: IntArray


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Dispatches:
    """Dispatches in the order of launch.

    Attributes:
        stack_id: of the call.
        kernel: index into the recording's kernels.
        program: index of the program that was running.
        stream: 0 is the main stream.
        start_ns, end_ns, arrive_ns: trace clock; the last is when the last member of a collective had started.
        step: index of the recorded step.
        site, kernel_index, iterations, origin: as in LaunchRows.
    """

    stack_id: IntArray
    kernel: IntArray
    program: IntArray
    stream: IntArray
    start_ns: IntArray
    end_ns: IntArray
    arrive_ns: IntArray
    step: IntArray
    site: IntArray
    kernel_index: IntArray
    iterations: IntArray
    origin: IntArray


@dataclass(frozen=True, slots=True, kw_only=True)
class CopyRecord:
    """One copy between host and device."""

    kind: str
    stack_id: int
    start_ns: int
    end_ns: int
    size_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RangeRecord:
    """One roctx range."""

    text: str
    stack_id: int
    start_ns: int
    end_ns: int


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class RankRecording:
    """What was recorded of one rank.

    Attributes:
        rank: of the process; its device is the GPU of that number.
        kernels: by number.
        calls, dispatches, copies, ranges: what happened.
        allocated: stack id and time of the one allocation that holds everything.
        end_ns: when the process ended.
    """

    rank: int
    kernels: tuple[KernelLaunch, ...]
    calls: Calls
    dispatches: Dispatches
    copies: tuple[CopyRecord, ...]
    ranges: tuple[RangeRecord, ...]
    allocated: tuple[int, int]
    end_ns: int


class _Tape:
    """Collects calls and ranges, in any order. A place on it stands for the stack id until all is there."""

    def __init__(self) -> None:
        self._functions: list[IntArray] = []
        self._starts: list[IntArray] = []
        self._ends: list[IntArray] = []
        self._count = 0

    def calls(self, function: IntArray | int, start_ns: FloatArray, end_ns: FloatArray) -> IntArray:
        """Add calls of a function, or of one each. Returns their places."""
        places = self._count + np.arange(len(start_ns))
        start = start_ns.astype(np.int64)
        self._functions.append(np.broadcast_to(np.asarray(function, dtype=np.int64), start.shape))
        self._starts.append(start)
        self._ends.append(np.maximum(end_ns.astype(np.int64), start + 1))
        self._count += len(start)
        return places

    def call(self, function: str, start_ns: float, end_ns: float) -> int:
        """Add one call. Returns its place."""
        return int(self.calls(CALL_NAMES.index(function), np.array([start_ns]), np.array([end_ns]))[0])

    def range(self, text: str, start_ns: float, end_ns: float) -> RangeRecord:
        """Add a range; its stack id is its place."""
        place = int(self.calls(_NO_FUNCTION, np.array([start_ns]), np.array([end_ns]))[0])
        return RangeRecord(text=text, stack_id=place, start_ns=int(start_ns), end_ns=int(end_ns))

    def read(self) -> tuple[Calls, IntArray]:
        """The calls, and the stack id of each place: they count in the order of start, outer ones first."""
        function, start, end = (np.concatenate(each) for each in (self._functions, self._starts, self._ends))
        order = np.lexsort((-end, start))
        stack = np.empty(self._count, dtype=np.int64)
        stack[order] = 1 + np.arange(self._count)
        kept = order[function[order] != _NO_FUNCTION]
        calls = Calls(function=function[kept], start_ns=start[kept], end_ns=end[kept], stack_id=stack[kept])
        return calls, stack


def record_rank(job: SimulatedJob, rank: int) -> RankRecording:
    """What the profiler of this rank recorded."""
    tape, kernels = _Tape(), list(job.kernels)
    tuning = _numbers(autotuning_kernels([kernel for kernel in kernels if not kernel.ending.startswith(" ")]), kernels)
    allocated_ns = JOB_START_NS - _ALLOCATED_BEFORE_NS
    allocated = tape.call(ALLOCATE, allocated_ns, allocated_ns + 400_000)
    parts: list[Dispatches] = []
    copies: list[CopyRecord] = []
    ranges: list[RangeRecord] = []
    for step in range(job.plan.steps_count):
        times = _step_times(job, rank, step)
        ranges.append(tape.range(f"step {job.first_step + step}", times.begin, times.finish))
        ranges.append(tape.range(LOADING, times.begin + 900, times.loaded))
        if job.plan.compile_ns[step, rank] > 0:
            parts.append(_compile(tape, job, times, tuning))
        parts.append(_launches(tape, job, times))
        copies += _copies(tape, job, times)
    calls, stack = tape.read()
    return RankRecording(
        rank=rank,
        kernels=tuple(kernels),
        calls=calls,
        dispatches=_numbered(parts, stack),
        copies=tuple(replace(each, stack_id=int(stack[each.stack_id])) for each in copies),
        ranges=tuple(replace(each, stack_id=int(stack[each.stack_id])) for each in ranges),
        allocated=(int(stack[allocated]), allocated_ns),
        end_ns=int(calls.end_ns.max()) + 400_000_000,
    )


def _numbers(added: Sequence[KernelLaunch], kernels: list[KernelLaunch]) -> IntArray:
    """The numbers of kernels, which are added to the list where they are not in it."""
    numbers = {kernel: number for number, kernel in enumerate(kernels)}
    found = [numbers.setdefault(kernel, len(numbers)) for kernel in added]
    kernels += list(numbers)[len(kernels) :]
    return np.array(found, dtype=np.int64)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _StepTimes:
    """The times of one step of one rank, on the trace clock; as in JobTimes."""

    step: int
    rank: int
    begin: float
    loaded: float
    ready: float
    finish: float
    launch: FloatArray
    start: FloatArray
    end: FloatArray
    arrive: FloatArray
    copies: FloatArray


def _step_times(job: SimulatedJob, rank: int, step: int) -> _StepTimes:
    times = job.times
    return _StepTimes(
        step=step,
        rank=rank,
        begin=float(times.begin[step, rank]) + JOB_START_NS,
        loaded=float(times.loaded[step, rank]) + JOB_START_NS,
        ready=float(times.ready[step, rank]) + JOB_START_NS,
        finish=float(times.finish[step, rank]) + JOB_START_NS,
        launch=times.launch[step][:, rank] + JOB_START_NS,
        start=times.start[step][:, rank] + JOB_START_NS,
        end=times.end[step][:, rank] + JOB_START_NS,
        arrive=times.arrive[step][:, rank] + JOB_START_NS,
        copies=times.copies[step, rank] + JOB_START_NS,
    )


def _compile(tape: _Tape, job: SimulatedJob, times: _StepTimes, tuning: IntArray) -> Dispatches:
    """Autotuning, which runs candidates one after the other, and the module that is loaded in the end."""
    total = float(job.plan.compile_ns[times.step, times.rank])
    rng = np.random.default_rng([job.scenario.seed, 29, times.step, times.rank])
    tape.call(LOAD, times.ready - _LOAD_CALL_NS - 40_000, times.ready - 40_000)
    begins = times.ready - total * _AUTOTUNE_SHARE + np.linspace(0, 0.9, AUTOTUNED_COUNT) * total * _AUTOTUNE_SHARE
    took = rng.uniform(0.2, 0.8, AUTOTUNED_COUNT) * total * _AUTOTUNE_SHARE / AUTOTUNED_COUNT * 0.5
    places = tape.calls(CALL_NAMES.index(LAUNCH), begins - _CALL_NS, begins)
    tape.calls(CALL_NAMES.index(SYNCHRONIZE), begins + 500, begins + took + 9_000)
    none = np.full(AUTOTUNED_COUNT, -1)
    zero = np.zeros(AUTOTUNED_COUNT, dtype=np.int64)
    start = (begins + 4_000).astype(np.int64)
    return Dispatches(
        stack_id=places, kernel=rng.choice(tuning, AUTOTUNED_COUNT), program=zero, stream=zero, start_ns=start,
        end_ns=start + took.astype(np.int64), arrive_ns=start, step=np.full(AUTOTUNED_COUNT, times.step), site=none,
        kernel_index=none, iterations=np.full((AUTOTUNED_COUNT, job.steps[times.step].rows.iterations.shape[1]), -1),
        origin=np.full(AUTOTUNED_COUNT, int(Origin.WARM_UP)),
    )  # fmt: skip


def _launches(tape: _Tape, job: SimulatedJob, times: _StepTimes) -> Dispatches:
    """What the program launches in one step, and the events between its streams."""
    step = job.steps[times.step]
    rows = step.rows
    is_wait = rows.kernel == WAIT
    tape.calls(CALL_NAMES.index(WAIT_EVENT), times.launch[is_wait] - _SHORT_CALL_NS, times.launch[is_wait])
    begins = (rows.stream > 0) & (rows.kernel_index == 0) & ~is_wait
    for function, before in ((RECORD, 4_600), (WAIT_EVENT, 3_700)):
        at = times.launch[begins] - before
        tape.calls(CALL_NAMES.index(function), at, at + _SHORT_CALL_NS)
    kept = np.flatnonzero(~is_wait)
    mine = rows.taken(kept)
    functions = np.array([CALL_NAMES.index(_function(kernel)) for kernel in job.kernels])[mine.kernel]
    places = tape.calls(functions, times.launch[kept] - _CALL_NS, times.launch[kept])
    start = times.start[kept].astype(np.int64)
    return Dispatches(
        stack_id=places, kernel=mine.kernel, program=np.full(len(mine), step.number), stream=mine.stream,
        start_ns=start, end_ns=np.maximum(times.end[kept].astype(np.int64), start + 1),
        arrive_ns=times.arrive[kept].astype(np.int64),
        step=np.full(len(mine), times.step), site=step.first_site + mine.site, kernel_index=mine.kernel_index,
        iterations=mine.iterations, origin=mine.origin,
    )  # fmt: skip


def _function(kernel: KernelLaunch) -> str:
    """The call that launches a kernel."""
    if kernel.name == COPY_NAME:
        return COPY
    if kernel.name == FILL_NAME:
        return FILL
    return LAUNCH_LIBRARY if kernel.ending.startswith(" ") else LAUNCH


def _copies(tape: _Tape, job: SimulatedJob, times: _StepTimes) -> list[CopyRecord]:
    """The batch to the device, and the loss from it, for which the host waits; stack ids are places."""
    facts = PROGRAMS[job.steps[times.step].program.name]
    batch = facts.microsteps * facts.sequences_per_device * SEQUENCE_TOKENS * TOKEN_BYTES
    kinds = (("HOST_TO_DEVICE", batch), ("HOST_TO_DEVICE", batch), ("DEVICE_TO_HOST", 4))
    found = []
    for (kind, size), (launch, start, end) in zip(kinds, times.copies.tolist(), strict=True):
        place = tape.call(COPY, launch, launch + _CALL_NS)
        found.append(CopyRecord(kind=kind, stack_id=place, start_ns=int(start), end_ns=int(end), size_bytes=size))
    tape.call(SYNCHRONIZE, times.copies[2, 0] + _CALL_NS + 300, times.finish - 500)
    return found


def _numbered(parts: Sequence[Dispatches], stack: IntArray) -> Dispatches:
    """All of them in the order of their calls, with stack ids for places."""
    names = Dispatches.__slots__
    columns = {name: np.concatenate([getattr(part, name) for part in parts]) for name in names}
    columns["stack_id"] = stack[columns["stack_id"]]
    order = np.argsort(columns["stack_id"], kind="stable")
    return Dispatches(**{name: column[order] for name, column in columns.items()})
