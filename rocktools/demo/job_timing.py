"""All devices of a job, step by step -> when everything was launched, started and ended.

Each process launches for its device, at most a bounded number of kernels ahead; it waits for the step's loss before it
goes on. A stream runs in the order of launch. An asynchronous start waits for what the main stream was given before it,
and the main stream waits where the program says so. A collective begins to transfer when the last member of its group
has arrived, and ends for all of them at once. While the communication stream is busy, kernels of the main stream are
slower. Devices of one row are calculated together; everything else is sequential, as it is on the hardware.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from rocktools.demo.launch_rows import WAIT, LaunchRows

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]

OVERLAP_COST_RATIO = 0.06
"""How much longer a kernel takes while communication runs beside it."""

_LAUNCH_NS = 3_400.0
_ASYNC_LAUNCH_NS = 6_000.0
_EVENT_NS = 900.0
_LAUNCH_TO_START_NS = 4_200.0
_GAP_NS = 320.0
_EVENT_TO_START_NS = 1_100.0
_MOST_AHEAD = 1_024
_COPY_NS = 9_000.0
_SYNCHRONIZE_NS = 11_000.0
_AFTER_STEP_NS = 180_000.0
_EXECUTE_NS = 60_000.0
_SKEW_NS = 40_000.0


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class StepRows:
    """What one step launches on every device, and how long that takes.

    Attributes:
        rows: launches of the program, and waits, in order.
        base_ns: of each row, alone on the device; 0 for waits.
        spread_ratio: how much its executions differ.
        group: of each row, index into `groups`; -1 for what is no collective.
        groups: partitions of the devices: (groups, members).
    """

    rows: LaunchRows
    base_ns: FloatArray
    spread_ratio: FloatArray
    group: IntArray
    groups: tuple[IntArray, ...]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class JobPlan:
    """What the job does beside its program; arrays are (steps, devices) unless said otherwise.

    Attributes:
        load_ns: the host waits for its next batch.
        delay_ns: the host does something else before it launches.
        compile_ns: the host compiles before it launches.
        speed_ratio: how much longer than usual the kernels of a device take.
        row_ratios: for each step: (rows): how much longer each of its rows takes.
        first_collective_ns: (steps): what the first collective of a step takes longer.
    """

    load_ns: FloatArray
    delay_ns: FloatArray
    compile_ns: FloatArray
    speed_ratio: FloatArray
    row_ratios: tuple[FloatArray, ...]
    first_collective_ns: FloatArray

    @property
    def steps_count(self) -> int:
        return len(self.load_ns)

    @property
    def devices_count(self) -> int:
        return int(self.load_ns.shape[1])


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class JobTimes:
    """When everything happened, ns from the start of the job.

    Attributes:
        launch, start, end: for each step: (rows, devices): of every launch; those of waits are the host's only.
        arrive: the same: when the last member of a collective's group had started; the start elsewhere.
        begin, loaded, ready, finish: (steps, devices): of the host: a step begins, its batch is there, it launches
            (behind delays and compilation), the loss is there.
        copies: (steps, devices, 3, 3): launch, start, end of two copies to the device and one from it.
    """

    launch: tuple[FloatArray, ...]
    start: tuple[FloatArray, ...]
    end: tuple[FloatArray, ...]
    arrive: tuple[FloatArray, ...]
    begin: FloatArray
    loaded: FloatArray
    ready: FloatArray
    finish: FloatArray
    copies: FloatArray

    @property
    def step_ns(self) -> FloatArray:
        """(steps): from where the slowest device begins a step to where it begins the next."""
        begins = self.begin.max(axis=1)
        return np.diff(np.append(begins, self.finish[-1].max() + _AFTER_STEP_NS))


def time_job(steps: Sequence[StepRows], plan: JobPlan, *, seed: int) -> JobTimes:
    """When everything happens. The same seed takes the same chances, whatever the plan."""
    steps_count, devices_count = plan.steps_count, plan.devices_count
    rng = np.random.default_rng([seed, 17])
    host = rng.uniform(0, _SKEW_NS, devices_count)
    runs: list[_Step] = []
    begin, loaded, ready, finish = (np.zeros((steps_count, devices_count)) for _ in range(4))
    copies = np.zeros((steps_count, devices_count, 3, 3))
    for number, step in enumerate(steps):
        chance = np.random.default_rng([seed, 19, number])
        begin[number] = host
        loaded[number] = host = host + plan.load_ns[number]
        host = host + plan.delay_ns[number] + plan.compile_ns[number] + _EXECUTE_NS
        ready[number] = host
        host, batch_end = _copy_batch(host, copies[number])
        run = _Step(step, plan, number, chance)
        run.launch_all(host, batch_end)
        runs.append(run)
        device_end = run.free.max(axis=0)
        copies[number, :, 2, 0] = run.host + _EVENT_NS
        copies[number, :, 2, 1] = np.maximum(run.host + _LAUNCH_TO_START_NS, device_end + _EVENT_TO_START_NS)
        copies[number, :, 2, 2] = copies[number, :, 2, 1] + _COPY_NS
        finish[number] = copies[number, :, 2, 2] + _SYNCHRONIZE_NS
        host = finish[number] + _AFTER_STEP_NS * chance.uniform(0.8, 1.2, devices_count)
    return JobTimes(
        launch=tuple(run.launch for run in runs),
        start=tuple(run.start for run in runs),
        end=tuple(run.end for run in runs),
        arrive=tuple(run.arrive for run in runs),
        begin=begin,
        loaded=loaded,
        ready=ready,
        finish=finish,
        copies=copies,
    )


def _copy_batch(host: FloatArray, copies: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Two copies to the device, one behind the other. Returns when the host goes on, and when they have ended."""
    free = host
    for copy in range(2):
        copies[:, copy, 0] = host
        copies[:, copy, 1] = np.maximum(host + _LAUNCH_TO_START_NS, free)
        copies[:, copy, 2] = free = copies[:, copy, 1] + _COPY_NS
        host = host + _ASYNC_LAUNCH_NS
    return host, free


class _Step:
    """One step on all devices; holds what the walk over its rows has found."""

    def __init__(self, step: StepRows, plan: JobPlan, number: int, chance: np.random.Generator) -> None:
        shape = (len(step.rows), plan.devices_count)
        self._step = step
        noise = np.exp(step.spread_ratio[:, None] * chance.normal(0, 1, shape))
        self._duration = (step.base_ns * plan.row_ratios[number])[:, None] * noise
        is_collective = (step.group >= 0)[:, None]
        self._duration = np.where(is_collective, self._duration, self._duration * plan.speed_ratio[number])
        first = np.flatnonzero(step.group >= 0)[:1]
        self._duration[first] += plan.first_collective_ns[number]
        self._gap = chance.exponential(_GAP_NS, shape)
        cost = np.where(step.rows.stream == 0, _LAUNCH_NS, _ASYNC_LAUNCH_NS)[:, None]
        self._cost = cost * np.exp(chance.normal(0, 0.06, shape))
        self.launch, self.start, self.end, self.arrive = (np.zeros(shape) for _ in range(4))
        streams_count = int(step.rows.stream.max(initial=0)) + 1
        self.free = np.zeros((streams_count, plan.devices_count))
        self.host = np.zeros(plan.devices_count)

    def launch_all(self, host: FloatArray, waited: FloatArray) -> None:
        """Launch every row from `host` on; the main stream starts when `waited` has passed."""
        rows, group = self._step.rows, self._step.group.tolist()
        kernels, streams, async_ids = rows.kernel.tolist(), rows.stream.tolist(), rows.async_id.tolist()
        pending: dict[int, FloatArray] = {}
        free = self.free
        for row, kernel in enumerate(kernels):
            if kernel == WAIT:
                waited = np.maximum(waited, pending.pop(async_ids[row], waited))
                self.launch[row] = self.start[row] = self.end[row] = host = host + _EVENT_NS
                continue
            stream = streams[row]
            host = host + self._cost[row]
            if row >= _MOST_AHEAD:
                host = np.maximum(host, self.end[row - _MOST_AHEAD])
            begin = np.maximum(host + _LAUNCH_TO_START_NS, free[stream] + self._gap[row])
            begin = np.maximum(begin, waited if stream == 0 else free[0] + _EVENT_TO_START_NS)
            arrive = begin
            if group[row] >= 0:
                arrive, end = self._transfer(row, begin, self._step.groups[group[row]])
            else:
                end = begin + self._stretched(row, begin, stream)
            free[stream] = end
            if stream:
                pending[async_ids[row]] = end
            self.launch[row], self.start[row], self.end[row], self.arrive[row] = host, begin, end, arrive
        self.host = host

    def _transfer(self, row: int, begin: FloatArray, groups: IntArray) -> tuple[FloatArray, FloatArray]:
        """When the last member of each device's group has arrived, and when the transfer ends."""
        last = begin[groups].max(axis=1)
        took = self._duration[row][groups[:, 0]]
        arrive = np.empty_like(begin)
        end = np.empty_like(begin)
        arrive[groups] = last[:, None]
        end[groups] = (last + took)[:, None]
        return arrive, end + 0.3 * self._gap[row]

    def _stretched(self, row: int, begin: FloatArray, stream: int) -> FloatArray:
        """How long a kernel takes, with the communication that runs beside it."""
        duration: FloatArray = self._duration[row]
        if stream or len(self.free) < 2:
            return duration
        beside = np.maximum(self.free[1:].max(axis=0) - begin, 0.0)
        slow = duration * (1 + OVERLAP_COST_RATIO)
        rest = duration + beside * OVERLAP_COST_RATIO / (1 + OVERLAP_COST_RATIO)
        stretched: FloatArray = np.minimum(slow, rest)
        return stretched
