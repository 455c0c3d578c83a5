"""Rows of a whole made-up trace in bulk: from schedules (int64 arrays) to tables; ids go on from call to call.

Events are numbered in the order things ended, as rocprofv3 writes its buffers, dispatches in the order of launch; both
are appended, so a table scan sees dispatches in the order of their ids, which is not the order of their starts.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from rocktools.demo.rocpd_defaults import CALL_CATEGORY, NODE_ID, RANGE_CATEGORY, is_derived_counter
from rocktools.demo.rocpd_kernels import Kernels
from rocktools.demo.rocpd_schedule import Launches
from rocktools.demo.rocpd_writer import RocpdWriter

_CPUS_COUNT = 2
_COPY_KINDS = ("HOST_TO_DEVICE", "DEVICE_TO_HOST", "DEVICE_TO_DEVICE")
_ADDRESS = 0x7F10_0000_0000
_ALLOCATION_CALL_NS = 15_000
_ALLOCATION_EVERY_NS = 20_000
_WAVE_WORKITEMS = 64
_CYCLES_PER_NS = 2.4


@dataclass(frozen=True, slots=True, kw_only=True)
class Segment:
    """A stretch of the trace that shares no time with the next.

    Attributes:
        dispatches: in order of launch.
        streams: stream number from 0 of each dispatch.
        copies: in order of launch.
        sizes_bytes: of each copy.
        start_ns: of the earliest call.
    """

    dispatches: Launches
    streams: np.ndarray
    copies: Launches
    sizes_bytes: np.ndarray
    start_ns: int

    @property
    def dispatches_ns(self) -> int:
        """Sum of the dispatches' durations."""
        return int((self.dispatches.end_ns - self.dispatches.start_ns).sum())

    @property
    def end_ns(self) -> int:
        """When the last thing ends."""
        ends = [each for launches in (self.dispatches, self.copies) for each in (launches.end_ns, launches.call_end_ns)]
        return max((int(each.max()) for each in ends if len(each)), default=self.start_ns)


@dataclass(frozen=True, slots=True, kw_only=True)
class CounterSet:
    """Counters read for every dispatch.

    Attributes:
        names: in the order the rows come.
        instances_count: hardware instances of a counter that is not derived; a derived one has one value.
        scale: (kernels, counters) int64, the value on instance 0 of a counter without a meaning here.
    """

    names: tuple[str, ...]
    instances_count: int
    scale: np.ndarray

    def instances(self, name: str) -> int:
        """How many values a dispatch has of this counter."""
        return 1 if is_derived_counter(name) else self.instances_count

    @property
    def rows_per_dispatch(self) -> int:
        """Values of all counters together."""
        return sum(map(self.instances, self.names))

    def values(self, number: int, dispatches: Launches, kernels: Kernels) -> np.ndarray:
        """Values of one counter, (dispatches, instances) float64.

        SQ_WAVES is the number of waves, spread evenly; GRBM_* are cycles of the dispatch's time on each instance; any
        other is `scale` plus the number of the instance.
        """
        name = self.names[number]
        count = self.instances(name)
        instance = np.arange(count)
        if name in ("SQ_WAVES", "SQ_WAVES_sum"):
            waves = -(-kernels.grid_workitems[dispatches.what] // _WAVE_WORKITEMS)
            found = (waves[:, None] + count - 1 - instance) // count
        elif name.startswith("GRBM_"):
            cycles = ((dispatches.end_ns - dispatches.start_ns) * _CYCLES_PER_NS).astype(np.int64)
            found = np.repeat(cycles[:, None], count, axis=1)
        else:
            found = self.scale[dispatches.what, number][:, None] + instance
        values: np.ndarray = found.astype(np.float64)
        return values


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenRange:
    """A roctx range that has begun."""

    text: str
    range_id: int
    start_ns: int


class TraceRows:
    """Writes the rows of one trace; launch calls on one thread per device, all others on the main thread."""

    def __init__(
        self, writer: RocpdWriter, *, pid: int, agents_count: int, idle_agents_count: int, has_host_calls: bool
    ) -> None:
        self._writer = writer
        self._file = writer.file
        self._pid = pid
        self._agents_count = agents_count
        self._idle_agents_count = idle_agents_count
        self._first_agent = _CPUS_COUNT + idle_agents_count
        self._has_host_calls = has_host_calls
        self._kernels_count = 0
        self._queues_count = 0
        self._pmc_ids = np.zeros((agents_count, 0), dtype=np.int64)
        self._last_event = 0
        self._last_stack = 0
        self._last_dispatch = 0

    def write_places(self, start_ns: int, *, queues_count: int, streams_count: int) -> None:
        """Node, process, threads, CPUs and GPUs, queues and streams."""
        writer = self._writer
        writer.process(self._pid, init=start_ns, start=start_ns)
        for thread in range(1 + self._agents_count):
            writer.thread(self._pid + thread)
        for kind in ["CPU"] * _CPUS_COUNT + ["GPU"] * (self._idle_agents_count + self._agents_count):
            writer.agent(kind)
        for _ in range(self._agents_count * queues_count):
            writer.queue()
        for _ in range(streams_count):
            writer.stream()
        self._queues_count = queues_count

    def close_process(self, end_ns: int) -> None:
        """Say when the process ended."""
        table = self._file.schema.full_name("info_process")
        self._writer.execute(f'UPDATE {table} SET fini = ?, "end" = ?', end_ns, end_ns)

    def write_kernels(self, kernels: Kernels) -> None:
        """A code object per device, with a symbol of every kernel."""
        self._kernels_count = len(kernels.names)
        for agent in range(self._agents_count):
            code_object = self._writer.code_object(agent_id=self._first_agent + agent)
            for kernel, (name, mangled) in enumerate(zip(kernels.names, kernels.mangled, strict=True)):
                self._writer.kernel_symbol(
                    name,
                    kernel_name=f"{mangled}.kd",
                    code_object_id=code_object,
                    group_segment_size=kernels.lds_bytes[kernel],
                    private_segment_size=kernels.scratch_bytes[kernel],
                    arch_vgpr_count=kernels.vgpr_count[kernel],
                    accum_vgpr_count=kernels.agpr_count[kernel],
                    sgpr_count=kernels.sgpr_count[kernel],
                )

    def write_counters(self, counters: CounterSet) -> None:
        """A description of every counter per device."""
        # The tool's handles carry the agent in their upper bits.
        ids = [
            [
                self._writer.counter_info(name, id=(agent << 32) + number + 1, agent_id=agent)
                for number, name in enumerate(counters.names)
            ]
            for agent in range(self._first_agent, self._first_agent + self._agents_count)
        ]
        self._pmc_ids = np.array(ids, dtype=np.int64)

    def open_range(self, text: str, start_ns: int) -> OpenRange:
        """Begin a roctx range; what is launched from here on has a larger stack id."""
        self._last_stack += 1
        return OpenRange(text=text, range_id=self._last_stack, start_ns=start_ns)

    def close_range(self, opened: OpenRange, end_ns: int) -> None:
        """End a roctx range and write it."""
        self._last_event = self._writer.event(RANGE_CATEGORY, stack_id=opened.range_id, message=opened.text)
        self._writer.roctx_range(opened.text, opened.start_ns, end_ns, id=opened.range_id, event_id=self._last_event)

    def write_allocations(self, kind: str, numbers: np.ndarray, start_ns: int) -> int:
        """Allocations or releases, one call after the other. Returns when the last has ended."""
        count = len(numbers)
        if not count:
            return start_ns
        is_alloc = kind == "ALLOC"
        call = start_ns + _ALLOCATION_EVERY_NS * np.arange(count)
        thread = np.full(count, self._pid)
        function = np.full(count, self._writer.string("hipMalloc" if is_alloc else "hipFree"))
        stack = self._write_calls(function, thread, call, call + _ALLOCATION_CALL_NS)
        self._file.insert_many(
            "memory_allocate",
            {
                "start": call + 2_000,
                "end": call + 12_000,
                "address": _ADDRESS + (numbers << 24),
                "event_id": self._write_events("MEMORY_ALLOCATION", stack, call),
                "agent_id": self._first_agent + numbers % self._agents_count if is_alloc else None,
                "size": 1 << 20 + numbers % 4 if is_alloc else 0,
                "nid": NODE_ID,
                "pid": self._pid,
                "tid": self._pid,
                "type": kind,
                "level": "REAL",
                "queue_id": 0,
                "stream_id": 0,
            },
        )
        return int(call[-1]) + _ALLOCATION_EVERY_NS

    def write_segment(self, segment: Segment, kernels: Kernels, counters: CounterSet, *, range_name: str) -> None:
        """Calls, dispatches, copies and counter values of a segment, launched inside the range of that name."""
        dispatches, copies = segment.dispatches, segment.copies
        counts = [len(dispatches.what), len(copies.what)]
        functions = [self._writer.string(name) for name in ("hipModuleLaunchKernel", "hipMemcpyAsync")]
        stack = self._write_calls(
            np.repeat(functions, counts),
            np.concatenate((self._pid + 1 + dispatches.agent_index, np.full(counts[1], self._pid))),
            np.concatenate((dispatches.call_start_ns, copies.call_start_ns)),
            np.concatenate((dispatches.call_end_ns, copies.call_end_ns)),
        )
        event = self._write_dispatches(segment, kernels, stack[: counts[0]], range_name)
        if counters.names:
            self._write_counter_values(dispatches, kernels, counters, event)
        self._write_copies(segment, stack[counts[0] :])

    def _write_calls(
        self, function: np.ndarray, thread: np.ndarray, start_ns: np.ndarray, end_ns: np.ndarray
    ) -> np.ndarray:
        """Host calls, if they are traced. Returns their stack ids, which count in order of start either way."""
        count = len(start_ns)
        order = np.argsort(start_ns, kind="stable")
        stack = np.empty(count, dtype=np.int64)
        stack[order] = self._last_stack + 1 + np.arange(count)
        self._last_stack += count
        if self._has_host_calls:
            event = self._write_events(CALL_CATEGORY, stack, end_ns, has_parent=False)
            columns = {
                "id": stack,
                "tid": thread,
                "start": start_ns,
                "end": end_ns,
                "name_id": function,
                "event_id": event,
            }
            sorted_columns = {name: column[order] for name, column in columns.items()}
            self._file.insert_many("region", {**sorted_columns, "nid": NODE_ID, "pid": self._pid})
        return stack

    def _write_events(
        self, category: str, stack: np.ndarray, end_ns: np.ndarray, *, has_parent: bool = True
    ) -> np.ndarray:
        """One event per stack id, numbered in the order of `end_ns`. Returns their ids, in the order of `stack`."""
        order = np.argsort(end_ns, kind="stable")
        rows = self._last_event + 1 + np.arange(len(stack))
        self._last_event += len(stack)
        columns = {"id": rows, "stack_id": stack[order]}
        if has_parent:
            # rocprofv3 writes the launching call into both columns.
            columns["parent_stack_id"] = columns["stack_id"]
        rest = {"category_id": self._writer.string(category), "correlation_id": 0}
        if not has_parent:
            rest["parent_stack_id"] = 0
        self._file.insert_many("event", {**columns, **rest})
        event = np.empty(len(stack), dtype=np.int64)
        event[order] = rows
        return event

    def _write_dispatches(self, segment: Segment, kernels: Kernels, stack: np.ndarray, range_name: str) -> np.ndarray:
        """Dispatches of a segment. Returns the ids of their events."""
        dispatches = segment.dispatches
        agent, kernel = dispatches.agent_index, dispatches.what
        event = self._write_events("KERNEL_DISPATCH", stack, dispatches.end_ns)
        row = self._last_dispatch + 1 + np.arange(len(kernel))
        self._last_dispatch += len(kernel)
        self._file.insert_many(
            "kernel_dispatch",
            {
                "id": row,
                "tid": self._pid + 1 + agent,
                "agent_id": self._first_agent + agent,
                "kernel_id": 1 + agent * self._kernels_count + kernel,
                "dispatch_id": row,
                "queue_id": 1 + agent * self._queues_count + dispatches.queue_index,
                "stream_id": 1 + segment.streams,
                "start": dispatches.start_ns,
                "end": dispatches.end_ns,
                "private_segment_size": kernels.scratch_bytes[kernel],
                "group_segment_size": kernels.lds_bytes[kernel],
                "workgroup_size_x": kernels.workgroup_workitems[kernel],
                "grid_size_x": kernels.grid_workitems[kernel],
                "event_id": event,
                **{f"{what}_size_{axis}": 1 for what in ("workgroup", "grid") for axis in "yz"},
                "nid": NODE_ID,
                "pid": self._pid,
                "region_name_id": self._writer.string(range_name),
            },
        )
        return event

    def _write_counter_values(
        self, dispatches: Launches, kernels: Kernels, counters: CounterSet, event: np.ndarray
    ) -> None:
        """Counter values, dispatch by dispatch in the order they ended."""
        instances = [counters.instances(name) for name in counters.names]
        values = np.hstack([counters.values(number, dispatches, kernels) for number in range(len(instances))])
        pmc = np.repeat(self._pmc_ids[dispatches.agent_index], instances, axis=1)
        order = np.argsort(event)
        self._file.insert_many(
            "pmc_event",
            {
                "event_id": np.repeat(event[order], sum(instances)),
                "pmc_id": pmc[order].ravel(),
                "value": values[order].ravel(),
            },
        )

    def _write_copies(self, segment: Segment, stack: np.ndarray) -> None:
        copies = segment.copies
        kind = copies.what % len(_COPY_KINDS)
        names = np.array([self._writer.string(f"MEMORY_COPY_{name}") for name in _COPY_KINDS])
        device = self._first_agent + copies.agent_index
        self._file.insert_many(
            "memory_copy",
            {
                "start": copies.start_ns,
                "end": copies.end_ns,
                "name_id": names[kind],
                "dst_agent_id": np.where(kind == 1, 0, device),
                "src_agent_id": np.where(kind == 0, 0, device),
                "size": segment.sizes_bytes,
                "event_id": self._write_events("MEMORY_COPY", stack, copies.end_ns),
                "dst_address": _ADDRESS,
                "src_address": 2 * _ADDRESS,
                "stream_id": 0,
                "nid": NODE_ID,
                "pid": self._pid,
                "tid": self._pid,
            },
        )
