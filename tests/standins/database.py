"""A process's records as a rocpd database, through the project's own writer: the rows the real tool would write.

The file does not say that it is simulated, because a real one does not; only the stand-ins may do that.
"""

from __future__ import annotations

import os
import shlex
import signal
import socket
import sqlite3
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from rocktools.demo.rocpd_file import WriterOptions
from rocktools.demo.rocpd_writer import RocpdWriter
from standins.timeline import Dispatch, dispatch_values
from standins.tool import Aborts, Records, Run

_CPUS_COUNT = 2
_NAMES = {"gfx942": "AMD Instinct MI300X", "gfx950": "AMD Instinct MI355X"}
_MI300X_EXTDATA = {
    "type": 2,
    "simd_count": 1216,
    "lds_size_in_kb": 64,
    "wave_front_size": 64,
    "num_xcc": 8,
    "cu_count": 304,
    "simd_per_cu": 4,
    "gfx_target_version": 90402,
    "max_engine_clk_fcompute": 2100,
    "name": "gfx942",
    "product_name": "AMD Instinct MI300X",
}


def write_database(path: Path, run: Run, records: Records) -> None:
    """Write the file; an existing one is deleted first, as the tool does. Faults of databases happen here."""
    path.unlink(missing_ok=True)
    if "empty-db" in run.faults:
        path.touch()
        return
    assert run.config.release.schema is not None, "this release has no rocpd"
    options = WriterOptions(version=run.config.release.schema, guid=run.guid, is_simulated=False)
    with RocpdWriter(path, options=options) as writer:
        _write_node(writer)
        if "partial-db" not in run.faults:
            _DatabaseRows(writer, run, records).write()
    if "truncated-db" in run.faults:
        os.truncate(path, path.stat().st_size // 2)
    if "hot-journal" in run.faults:
        _leave_hot_journal(path)


def _write_node(writer: RocpdWriter) -> None:
    writer.node(hostname=socket.gethostname(), release=os.uname().release, system_name="Linux")


class _DatabaseRows:
    """Writes the rows of one process."""

    def __init__(self, writer: RocpdWriter, run: Run, records: Records) -> None:
        self._writer = writer
        self._run = run
        self._config = run.config
        self._records = records
        self._kernel_ids: dict[tuple[int, int], int] = {}
        self._queues: dict[int, int] = {}
        self._streams: dict[int, int] = {}
        self._pmc_ids: dict[tuple[int, str], int] = {}
        self._calls: dict[int, int] = {}

    def write(self) -> None:
        """All rows."""
        self._write_places()
        self._write_symbols()
        self._write_counters()
        self._write_host()
        events = self._write_dispatches()
        self._write_values(events)
        self._write_copies()

    def _write_places(self) -> None:
        writer, facts = self._writer, self._run.facts
        writer.process(
            facts.pid,
            ppid=facts.ppid,
            init=self._run.start_ns,
            start=self._run.start_ns,
            fini=self._run.end_ns,
            end=self._run.end_ns,
            command=shlex.join(facts.command),
            environment=dict(facts.environment),
        )
        writer.thread(facts.pid)
        for _ in range(_CPUS_COUNT):
            writer.agent("CPU")
        for number in range(self._run.scenario.agents_count):
            product = _NAMES[self._run.scenario.architecture]
            other = {"extdata": _MI300X_EXTDATA} if self._run.scenario.architecture == "gfx942" else {}
            writer.agent(
                "GPU",
                id=_CPUS_COUNT + number,
                name=self._run.scenario.architecture,
                product_name=product,
                user_name=product,
                **other,
            )
        for agent in self._records.agents:
            self._queues[agent], self._streams[agent] = writer.queue(), writer.stream()

    def _write_symbols(self) -> None:
        """A code object for each GPU, with a symbol of every kernel: all that were loaded, whether they ran or not."""
        for agent in self._records.agents:
            code_object = self._writer.code_object(agent_id=_CPUS_COUNT + agent)
            for index, kernel in enumerate(self._run.scenario.kernels):
                self._kernel_ids[index, agent] = self._writer.kernel_symbol(
                    kernel.name,
                    kernel_name=f"{kernel.symbol}.kd",
                    display_name=self._config.format_name(kernel),
                    code_object_id=code_object,
                    group_segment_size=kernel.lds_bytes,
                )

    def _write_counters(self) -> None:
        """The tool describes every counter of every GPU, collected or not; a trace has none."""
        for agent in self._records.agents:
            for number, counter in enumerate(self._records.known.values(), start=1):
                self._pmc_ids[agent, counter.name] = self._writer.counter_info(
                    counter.name,
                    id=(agent << 32) + number,
                    agent_id=_CPUS_COUNT + agent,
                    block=counter.block,
                    expression=counter.expression,
                    is_constant=int(counter.is_constant),
                    is_derived=int(not counter.block and not counter.is_constant),
                    description=f"{counter.name} of a stand-in",
                )

    def _write_host(self) -> None:
        """Launch calls, roctx ranges and RCCL calls, as far as they are traced."""
        launched = self._records.launched
        traces = self._config.traces
        if "HIP_RUNTIME_API" in traces:
            graphs: dict[int, int] = {}
            for each in launched:
                is_graph = each.kernel.launched_by == "hipGraphLaunch"
                if is_graph and each.round in graphs:
                    self._calls[each.number] = graphs[each.round]
                    continue
                call = self._writer.region(each.kernel.launched_by, each.call_start_ns, each.call_end_ns)
                self._calls[each.number] = call
                if is_graph:
                    graphs[each.round] = call
        if "MARKER_API" in traces:
            for message, (start_ns, end_ns) in self._spans().items():
                self._writer.roctx_range(message, start_ns, end_ns)
        if "RCCL_API" in traces and launched:
            for calls in self._run.scenario.rccl_calls:
                for number in range(calls.count):
                    start_ns = launched[number * len(launched) // calls.count].call_start_ns - 3_000
                    self._writer.region(calls.name, start_ns, start_ns + 2_000, category="RCCL_API")

    def _spans(self) -> dict[str, tuple[int, int]]:
        """Start and end of each roctx range."""
        spans = {}
        for each in self._run.scenario.ranges:
            first, last = each.rounds
            inside = [dispatch for dispatch in self._records.launched if first <= dispatch.round <= last]
            if inside:
                start_ns = min(dispatch.call_start_ns for dispatch in inside) - 1_000
                spans[each.message] = (start_ns, max(dispatch.end_ns for dispatch in inside) + 1_000)
        return spans

    def _range_of(self, dispatch: Dispatch) -> str:
        if "MARKER_API" not in self._config.traces:
            return ""
        inside = [each for each in self._run.scenario.ranges if each.rounds[0] <= dispatch.round <= each.rounds[1]]
        return inside[-1].message if inside else ""

    def _write_dispatches(self) -> dict[int, int]:
        """Rows of dispatches. Returns dispatch id -> event id."""
        events: dict[int, int] = {}
        times = 2 if "duplicate-dispatches" in self._run.faults else 1
        row = 0
        for each in self._records.dispatches:
            for _ in range(times):
                row += 1
                stack = self._calls.get(each.number) or self._writer.next_stack_id()
                event = self._writer.event("KERNEL_DISPATCH", stack_id=stack, parent_stack_id=stack)
                events.setdefault(each.number, event)
                self._write_dispatch(each, event, row if times > 1 else each.number)
        return events

    def _write_dispatch(self, each: Dispatch, event: int, row: int) -> None:
        self._writer.dispatch(
            self._kernel_ids[each.kernel_index, each.agent_index],
            each.start_ns,
            each.end_ns,
            range_name=self._range_of(each),
            id=row,
            dispatch_id=each.number,
            event_id=event,
            agent_id=_CPUS_COUNT + each.agent_index,
            queue_id=self._queues[each.agent_index],
            stream_id=self._streams[each.agent_index],
            group_segment_size=each.kernel.lds_bytes,
            **dict(zip(("grid_size_x", "grid_size_y", "grid_size_z"), each.grid, strict=True)),
            **dict(zip(("workgroup_size_x", "workgroup_size_y", "workgroup_size_z"), each.workgroup, strict=True)),
        )

    def _write_values(self, events: dict[int, int]) -> None:
        """One row per hardware instance. The passes of kernel replay all land on the first one's event."""
        times = 1
        if "replay-collapse" in self._run.faults:
            times = int(self._run.faults.argument("replay-collapse", "2"))
        for each in self._records.counted:
            if each.dispatch.number not in events:
                # A region or period gated the trace and not the counters, and the writer looks each one up.
                raise Aborts("terminate called after throwing an instance of 'std::out_of_range'", is_exception=True)
            for counter in each.counters:
                values = dispatch_values(counter, each.dispatch, self._run.scenario, self._run.faults) * times
                self._writer.file.insert_many(
                    "pmc_event",
                    {
                        "event_id": events[each.dispatch.number],
                        "pmc_id": self._pmc_ids[each.dispatch.agent_index, counter.name],
                        "value": np.array(values),
                    },
                )

    def _write_copies(self) -> None:
        if "MEMORY_COPY" not in self._config.traces or not self._records.agents:
            return
        agent = _CPUS_COUNT + self._records.agents[0]
        now_ns = self._run.start_ns + 100_000
        for copy in self._run.scenario.copies:
            source, _, target = copy.kind.partition("_TO_")
            for _ in range(copy.count):
                call = None
                if "HIP_RUNTIME_API" in self._config.traces:
                    call = self._writer.region("hipMemcpyAsync", now_ns - 3_000, now_ns - 1_000)
                self._writer.copy(
                    copy.kind,
                    now_ns,
                    now_ns + copy.duration_ns,
                    copy.size_bytes,
                    call_id=call,
                    src_agent_id=agent if source == "DEVICE" else 0,
                    dst_agent_id=agent if target == "DEVICE" else 0,
                )
                now_ns += copy.duration_ns + 5_000


_WRITE_AND_DIE = """
import os, signal, sqlite3, sys
connection = sqlite3.connect(sys.argv[1], isolation_level=None)
connection.execute("PRAGMA cache_size=5")
table = sys.argv[2]
connection.execute("BEGIN")
for number in range(500):
    connection.execute(f'INSERT INTO "{table}" (string) VALUES (?)', (f"half written {number} " + "x" * 400,))
os.kill(os.getpid(), signal.SIGKILL)
"""


def _leave_hot_journal(path: Path) -> None:
    """Begin a transaction that reaches the file, in a process that is killed: SQLite's own journal stays."""
    connection = sqlite3.connect(path)
    [(table,)] = connection.execute("SELECT name FROM sqlite_master WHERE name GLOB 'rocpd_string_*'").fetchall()
    connection.close()
    command: Sequence[str] = [sys.executable, "-I", "-S", "-c", _WRITE_AND_DIE, str(path), table]
    ended = subprocess.run(command, check=False)
    assert ended.returncode == -signal.SIGKILL, "the half write did not happen"
