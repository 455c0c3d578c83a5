"""The recording of a rank -> a rocpd database as rocprofv3 leaves one, but for saying that it is simulated."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from rocktools.demo.job_recording import CALL_NAMES, LOADING, Dispatches, RankRecording
from rocktools.demo.job_timing import IntArray
from rocktools.demo.library_kernels import KernelLaunch
from rocktools.demo.packed_programs import DEVICES_COUNT
from rocktools.demo.rocpd_defaults import CALL_CATEGORY, NODE_ID, RANGE_CATEGORY, RANGE_FUNCTION, START_NS
from rocktools.demo.rocpd_file import WriterOptions, make_guid
from rocktools.demo.rocpd_writer import RocpdWriter

CPUS_COUNT = 2
FIRST_PID = 41_000
_ALLOCATED_BYTES = 216_000_000_000
_DEFAULT_REGISTERS = (128, 0, 96)

Registers = Mapping[str, tuple[int, int, int]]
"""Kernel -> VGPRs, AGPRs, SGPRs."""


def process_id(rank: int) -> int:
    """Process id of a rank."""
    return FIRST_PID + 11 * rank


def write_rank_database(recording: RankRecording, path: Path, *, registers: Sequence[Registers], seed: int) -> None:
    """Write the trace of a rank.

    Args:
        path: target; must not exist, its folder must.
        registers: of the kernels of each program; others get made-up ones.
        seed: of the job; with the rank it makes the label of the process.
    """
    pid = process_id(recording.rank)
    guid = make_guid(f"demo {seed} {pid} {recording.end_ns}", start_ns=START_NS + recording.rank * 3_000_000)
    with RocpdWriter(path, options=WriterOptions(guid=guid)) as writer:
        rows = _Rows(writer, recording.rank)
        rows.write_places(recording.end_ns, streams_count=int(recording.dispatches.stream.max(initial=0)) + 1)
        symbols = rows.write_kernels(recording, registers)
        rows.write_calls(recording)
        rows.write_dispatches(recording, symbols)
        rows.write_copies(recording)


class _Rows:
    """Writes the rows of one database; holds the next event id."""

    def __init__(self, writer: RocpdWriter, rank: int) -> None:
        self._writer = writer
        self._file = writer.file
        self._pid = process_id(rank)
        self._agent = CPUS_COUNT + rank
        self._last_event = 0
        self._place = {"nid": NODE_ID, "pid": self._pid, "tid": self._pid}

    def write_places(self, end_ns: int, *, streams_count: int) -> None:
        """Process, thread, all agents of the node, and a queue for every stream."""
        start_ns = START_NS + (self._pid - FIRST_PID) * 40_000
        self._writer.process(
            self._pid, init=start_ns, start=start_ns, fini=end_ns, end=end_ns, command="python train.py"
        )
        self._writer.thread(self._pid)
        for kind in ["CPU"] * CPUS_COUNT + ["GPU"] * DEVICES_COUNT:
            self._writer.agent(kind)
        for _ in range(streams_count):
            self._writer.queue()
            self._writer.stream()

    def write_kernels(self, recording: RankRecording, registers: Sequence[Registers]) -> IntArray:
        """Code objects of libraries and of every program that ran. Returns kernel ids: (programs, kernels)."""
        libraries = self._writer.code_object(agent_id=self._agent)
        ids = np.zeros((1 + int(recording.dispatches.program.max()), len(recording.kernels)), dtype=np.int64)
        by_name: dict[tuple[int, str], int] = {}
        for program, of_program in zip(range(len(ids)), registers, strict=False):
            code_object = self._writer.code_object(agent_id=self._agent)
            for number, kernel in enumerate(recording.kernels):
                place = code_object if kernel.name in of_program else libraries
                key = (place, kernel.name + kernel.ending)
                if key not in by_name:
                    by_name[key] = self._symbol(kernel, place, of_program.get(kernel.name, _DEFAULT_REGISTERS))
                ids[program, number] = by_name[key]
        return ids

    def _symbol(self, kernel: KernelLaunch, code_object: int, registers: tuple[int, int, int]) -> int:
        vgpr_count, agpr_count, sgpr_count = registers
        return self._writer.kernel_symbol(
            kernel.name,
            display_name=kernel.name + kernel.ending,
            code_object_id=code_object,
            group_segment_size=kernel.lds_bytes,
            arch_vgpr_count=vgpr_count,
            accum_vgpr_count=agpr_count,
            sgpr_count=sgpr_count,
        )

    def write_calls(self, recording: RankRecording) -> None:
        """Host calls, ranges, and the one allocation."""
        calls = recording.calls
        names = np.array([self._writer.string(name) for name in CALL_NAMES])
        event = self._events(CALL_CATEGORY, calls.stack_id, calls.end_ns, has_parent=False)
        self._file.insert_many(
            "region",
            {
                "id": calls.stack_id, "start": calls.start_ns, "end": calls.end_ns, "name_id": names[calls.function],
                "event_id": event, **self._place,
            },
        )  # fmt: skip
        for each in recording.ranges:
            self._last_event = self._writer.event(RANGE_CATEGORY, stack_id=each.stack_id, message=each.text)
            self._writer.insert(
                "region",
                id=each.stack_id, start=each.start_ns, end=each.end_ns, event_id=self._last_event,
                name_id=self._writer.string(RANGE_FUNCTION), **self._place,
            )  # fmt: skip
        stack_id, start_ns = recording.allocated
        self._last_event = self._writer.event("MEMORY_ALLOCATION", stack_id=stack_id, parent_stack_id=stack_id)
        self._writer.allocation(
            "ALLOC", start_ns + 3_000, start_ns + 300_000, _ALLOCATED_BYTES, agent_id=self._agent,
            event_id=self._last_event, **self._place,
        )  # fmt: skip

    def write_dispatches(self, recording: RankRecording, symbols: IntArray) -> None:
        """Dispatches in the order of launch."""
        mine: Dispatches = recording.dispatches
        kernels = recording.kernels
        grid = np.array([kernel.grid_workitems for kernel in kernels])[mine.kernel]
        workgroup = np.array([kernel.workgroup_workitems for kernel in kernels])[mine.kernel]
        steps = [each.text for each in recording.ranges if each.text != LOADING]
        texts = np.array([self._writer.string(text) for text in steps])
        row = 1 + np.arange(len(mine.kernel))
        self._file.insert_many(
            "kernel_dispatch",
            {
                "id": row,
                "dispatch_id": row,
                "kernel_id": symbols[mine.program, mine.kernel],
                "queue_id": 1 + mine.stream,
                "stream_id": 1 + mine.stream,
                "start": mine.start_ns,
                "end": mine.end_ns,
                "group_segment_size": np.array([kernel.lds_bytes for kernel in kernels])[mine.kernel],
                **{f"grid_size_{axis}": grid[:, number] for number, axis in enumerate("xyz")},
                **{f"workgroup_size_{axis}": workgroup[:, number] for number, axis in enumerate("xyz")},
                "event_id": self._events("KERNEL_DISPATCH", mine.stack_id, mine.end_ns, has_parent=True),
                "region_name_id": texts[mine.step],
                "private_segment_size": 0,
                "agent_id": self._agent,
                **self._place,
            },
        )

    def write_copies(self, recording: RankRecording) -> None:
        """Copies between host and device."""
        for each in recording.copies:
            self._last_event = self._writer.event("MEMORY_COPY", stack_id=each.stack_id, parent_stack_id=each.stack_id)
            to_device = each.kind == "HOST_TO_DEVICE"
            self._writer.copy(
                each.kind, each.start_ns, each.end_ns, each.size_bytes, event_id=self._last_event, stream_id=1,
                dst_agent_id=self._agent if to_device else 0, src_agent_id=0 if to_device else self._agent,
                **self._place,
            )  # fmt: skip

    def _events(self, category: str, stack_id: IntArray, end_ns: IntArray, *, has_parent: bool) -> IntArray:
        """One event per stack id, numbered in the order things ended. Returns their ids."""
        order = np.argsort(end_ns, kind="stable")
        rows = self._last_event + 1 + np.arange(len(stack_id))
        self._last_event += len(stack_id)
        self._file.insert_many(
            "event",
            {
                "id": rows, "stack_id": stack_id[order], "parent_stack_id": stack_id[order] if has_parent else 0,
                "category_id": self._writer.string(category), "correlation_id": 0,
            },
        )  # fmt: skip
        event = np.empty(len(stack_id), dtype=np.int64)
        event[order] = rows
        return event
