"""Whole made-up traces, thousands or millions of dispatches: from a shape and a seed to a finished rocpd database.

The same shape gives the same rows (under one version of numpy). Times are int64 ns near 1.5e14, as CLOCK_BOOTTIME of a
node that has been up for two days. What happens when is in rocpd_schedule, the rows are in rocpd_trace_rows.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from rocktools.demo.rocpd_defaults import PID, START_NS
from rocktools.demo.rocpd_file import WriterOptions, make_guid
from rocktools.demo.rocpd_kernels import Kernels, make_kernels
from rocktools.demo.rocpd_schedule import Launches, no_launches, schedule_copies, schedule_dispatches
from rocktools.demo.rocpd_trace_rows import CounterSet, Segment, TraceRows
from rocktools.demo.rocpd_writer import RocpdWriter
from rocktools.errors import UsageError

# A segment is what is in memory at once.
_SEGMENT_DISPATCHES = 200_000
_SEGMENT_VALUES = 1_600_000
_BETWEEN_SEGMENTS_NS = 200_000
_BEFORE_FIRST_NS = 1_000_000
_RANGE_AHEAD_NS = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceShape:
    """How large a made-up trace is, and what is in it.

    Attributes:
        dispatches_count: kernel executions, all devices together.
        kernels_count: different kernels; every device loads its own symbol of each.
        agents_count: GPUs that the process uses.
        idle_agents_count: GPUs of the node that come before them, and that other processes use.
        queues_count: hardware queues per GPU.
        streams_count: HIP streams of the process, beside the default stream.
        has_host_calls: whether launch, copy and allocation calls were traced. Without them stack ids are still counted.
        copies_count: memory copies.
        allocations_count: allocation records: the first half ALLOC, the rest FREE.
        ranges_count: roctx ranges `step 0`, `step 1`, ... that share the dispatches evenly.
        counters: names of counters read for every dispatch; a counted trace runs one dispatch per GPU at a time.
        instances_count: hardware instances of a counter that is not derived (`_sum`, `_max`, `_avr` have one).
        seed: of all chance, and with `pid` of the guid: traces to be read together need different ones.
        start_ns: start of the process, trace clock.
        pid: process id.

    Raises:
        UsageError: a count is negative, or one that must not be is zero.
    """

    dispatches_count: int
    kernels_count: int = 40
    agents_count: int = 1
    idle_agents_count: int = 0
    queues_count: int = 4
    streams_count: int = 4
    has_host_calls: bool = True
    copies_count: int = 0
    allocations_count: int = 0
    ranges_count: int = 0
    counters: tuple[str, ...] = ()
    instances_count: int = 8
    seed: int = 0
    start_ns: int = START_NS
    pid: int = PID

    def __post_init__(self) -> None:
        positive = ("kernels_count", "agents_count", "queues_count", "streams_count", "instances_count")
        for name in self.__slots__:
            value = getattr(self, name)
            least = 1 if name in positive else 0
            if name.endswith("_count") and value < least:
                raise UsageError("trace-shape", f"{name} must be at least {least}, but is {value}")


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceTotals:
    """What `write_trace` wrote.

    Attributes:
        dispatches_count: dispatches.
        dispatches_ns: sum of their durations.
        host_calls_count: host calls, roctx ranges not included.
        copies_count: copies.
        copies_bytes: bytes they moved.
        allocations_count: allocation records.
        ranges_count: roctx ranges.
        counter_rows_count: rows of counter values, one per hardware instance.
        start_ns, end_ns: of the process.
    """

    dispatches_count: int = 0
    dispatches_ns: int = 0
    host_calls_count: int = 0
    copies_count: int = 0
    copies_bytes: int = 0
    allocations_count: int = 0
    ranges_count: int = 0
    counter_rows_count: int = 0
    start_ns: int = 0
    end_ns: int = 0


def write_trace(path: Path | str, shape: TraceShape, *, options: WriterOptions | None = None) -> TraceTotals:
    """Write a made-up trace.

    Args:
        path: target; must not exist, its folder must. It appears when it is finished.
        shape: what is in it.
        options: kind of file; tables cannot be left out. The guid follows seed and pid unless given.

    Raises:
        UsageError: the target exists, its folder does not, or options ask for something impossible.
        RocktoolsError: the file cannot be written.
    """
    options = options or WriterOptions()
    if options.left_out_tables:
        raise UsageError("trace-tables", "a whole trace has all tables; write single rows with RocpdWriter")
    if options.guid is None:
        options = replace(options, guid=make_guid(f"{shape.seed} {shape.pid}", start_ns=shape.start_ns))
    with RocpdWriter(path, options=options) as writer:
        rows = TraceRows(
            writer,
            pid=shape.pid,
            agents_count=shape.agents_count,
            idle_agents_count=shape.idle_agents_count,
            has_host_calls=shape.has_host_calls,
        )
        return _write_rows(rows, shape)


def _write_rows(rows: TraceRows, shape: TraceShape) -> TraceTotals:
    """All rows of the trace, in the order of time."""
    rng = np.random.default_rng(shape.seed)
    kernels = make_kernels(shape.kernels_count, rng)
    counters = CounterSet(
        names=shape.counters,
        instances_count=shape.instances_count,
        scale=rng.integers(1_000, 1_000_000, (shape.kernels_count, len(shape.counters))),
    )
    sizes_bytes = 1 << rng.integers(12, 29, shape.copies_count)
    rows.write_places(shape.start_ns, queues_count=shape.queues_count, streams_count=shape.streams_count)
    rows.write_kernels(kernels)
    rows.write_counters(counters)

    allocations = np.arange(shape.allocations_count)
    half = (len(allocations) + 1) // 2
    now_ns = rows.write_allocations("ALLOC", allocations[:half], shape.start_ns + _BEFORE_FIRST_NS)
    dispatches_ns = 0
    copies = 0
    for number, counts in enumerate(_steps(shape)):
        step = rows.open_range(f"step {number}", now_ns - _RANGE_AHEAD_NS) if shape.ranges_count else None
        for dispatches_count, copies_count in counts:
            segment = _segment(
                shape, kernels, dispatches_count, sizes_bytes[copies : copies + copies_count], now_ns, rng
            )
            copies += copies_count
            dispatches_ns += segment.dispatches_ns
            rows.write_segment(segment, kernels, counters, range_name=step.text if step else "")
            now_ns = segment.end_ns + _BETWEEN_SEGMENTS_NS
        if step:
            rows.close_range(step, now_ns - _BETWEEN_SEGMENTS_NS // 2)
    now_ns = rows.write_allocations("FREE", allocations[half:], now_ns)
    rows.close_process(now_ns)
    calls_count = shape.dispatches_count + shape.copies_count + shape.allocations_count
    return TraceTotals(
        dispatches_count=shape.dispatches_count,
        dispatches_ns=dispatches_ns,
        host_calls_count=calls_count if shape.has_host_calls else 0,
        copies_count=shape.copies_count,
        copies_bytes=int(sizes_bytes.sum()),
        allocations_count=shape.allocations_count,
        ranges_count=shape.ranges_count,
        counter_rows_count=shape.dispatches_count * counters.rows_per_dispatch,
        start_ns=shape.start_ns,
        end_ns=now_ns,
    )


def _steps(shape: TraceShape) -> list[list[tuple[int, int]]]:
    """Dispatches and copies of each segment of each step."""
    per_dispatch = max(len(shape.counters) * shape.instances_count, 1)
    largest = max(min(_SEGMENT_DISPATCHES, _SEGMENT_VALUES // per_dispatch), 1)
    steps_count = max(shape.ranges_count, 1)
    steps = zip(_shares(shape.dispatches_count, steps_count), _shares(shape.copies_count, steps_count), strict=True)
    return [
        list(zip(_shares(dispatches, parts), _shares(copies, parts), strict=True))
        for dispatches, copies in steps
        for parts in [max(-(-dispatches // largest), 1)]
    ]


def _shares(total: int, parts: int) -> list[int]:
    """`total` cut into `parts` that differ by at most one."""
    edges = [total * part // parts for part in range(parts + 1)]
    return [after - before for before, after in itertools.pairwise(edges)]


def _segment(
    shape: TraceShape,
    kernels: Kernels,
    dispatches_count: int,
    sizes_bytes: np.ndarray,
    now_ns: int,
    rng: np.random.Generator,
) -> Segment:
    """One segment whose earliest call starts at `now_ns`."""
    dispatches = no_launches()
    if dispatches_count:
        dispatches = schedule_dispatches(
            dispatches_count,
            agents_count=shape.agents_count,
            queues_count=shape.queues_count,
            is_serial=bool(shape.counters),
            kernels=kernels,
            rng=rng,
        )
    copies = no_launches()
    if len(sizes_bytes):
        span_ns = int(dispatches.end_ns.max()) if dispatches_count else 1_000_000 * len(sizes_bytes)
        copies = schedule_copies(sizes_bytes, span_ns=span_ns, agents_count=shape.agents_count, rng=rng)
    earliest_ns = min((int(each.call_start_ns.min()) for each in (dispatches, copies) if len(each.what)), default=0)
    return Segment(
        dispatches=dispatches.shifted(now_ns - earliest_ns),
        streams=_streams(dispatches, shape, rng),
        copies=copies.shifted(now_ns - earliest_ns),
        sizes_bytes=sizes_bytes,
        start_ns=now_ns,
    )


def _streams(dispatches: Launches, shape: TraceShape, rng: np.random.Generator) -> np.ndarray:
    """A stream number from 0 per dispatch; a queue serves every queues_count-th stream."""
    per_queue = np.maximum(-(-(shape.streams_count - dispatches.queue_index) // shape.queues_count), 1)
    turn = (rng.random(len(dispatches.what)) * per_queue).astype(np.int64)
    streams: np.ndarray = (dispatches.queue_index + shape.queues_count * turn) % shape.streams_count
    return streams
