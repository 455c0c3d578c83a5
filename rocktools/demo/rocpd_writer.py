"""Rows of a rocpd database as rocprofv3 would write them: from what happened (a dispatch, a copy) to table rows.

For tests, stand-ins and small simulations that want to say one thing per line; millions of rows go through
rocpd_trace. Every method takes `**columns`: columns of its table by name, which win over what the method would write,
`None` for NULL and ids without a row included. What a row needs and nobody gave is made on the way: a node, a process
with its default queue and stream, a thread, a CPU and a GPU.

How rocprofv3 numbers things, and so does this: node id 32 bits, process id = pid, thread id = tid, agent id = absolute
index (CPUs first), dispatch id = row id, region id = stack id (its internal correlation id). A dispatch's event has the
stack id of the innermost traced call, in both columns; the call's own event has the enclosing call's as its parent.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType

from rocktools.demo.rocpd_defaults import (
    CALL_CATEGORY,
    PID,
    RANGE_CATEGORY,
    RANGE_FUNCTION,
    agent_columns,
    code_object_columns,
    counter_columns,
    kernel_symbol_columns,
    node_columns,
    process_columns,
)
from rocktools.demo.rocpd_file import RocpdFile, Value, WriterOptions
from rocktools.errors import UsageError

_AGENT_KINDS = {"HOST": "CPU", "DEVICE": "GPU"}


class RocpdWriter:
    """Writes one rocpd database, row by row; a context manager (see RocpdFile for what happens at its end).

    Args:
        path: target; must not exist, its folder must.
        options: kind of file.
    """

    def __init__(self, path: Path | str, *, options: WriterOptions | None = None) -> None:
        self.file = RocpdFile(path, options or WriterOptions())
        self._last_ids: Counter[str] = Counter()
        self._first_ids: dict[str, int] = {}
        self._agents: Counter[str] = Counter()
        self._last_stack_id = 0
        self._dispatch_events: dict[int | None, Value] = {}

    def __enter__(self) -> RocpdWriter:
        """Create the file under a temporary name.

        Raises:
            UsageError: the target exists, its folder does not, or the options ask for something impossible.
        """
        self.file.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.file.__exit__(kind, error, trace)

    def insert(self, table_base: str, /, **columns: Value) -> int:
        """Write one row of any table and return its id.

        Args:
            table_base: table, without `rocpd_` and suffix.
            columns: values by column; the schema's defaults for the others.

        Raises:
            UsageError: no such table or column, or a NOT NULL, CHECK or UNIQUE rule of the schema refuses the row.
        """
        row_id = self.file.insert(table_base, columns)
        self._last_ids[table_base] = max(self._last_ids[table_base], row_id)
        return row_id

    def execute(self, sql: str, *values: Value) -> None:
        """Run one SQL statement, to damage a file in ways that rows cannot.

        Raises:
            RocktoolsError: SQLite refuses it.
        """
        self.file.execute(sql, values)

    def string(self, text: str) -> int:
        """Id of `text` in the string pool; it is added on first use."""
        return self.file.string_id(text)

    def next_stack_id(self) -> int:
        """A fresh internal correlation id."""
        self._last_stack_id += 1
        return self._last_stack_id

    # Where things ran

    def node(self, **columns: Value) -> int:
        """Write a node. Returns its id."""
        return self._info("info_node", {**node_columns(), **columns})

    def process(self, pid: int = PID, **columns: Value) -> int:
        """Write a process and, as the tool always does, its default queue and stream (id 0). Returns its id."""
        process_id = self._info("info_process", {**process_columns(pid), "nid": self._node(), **columns})
        for base, name in (("info_queue", "Default Queue"), ("info_stream", "Default Stream")):
            if self.file.has_table(base) and base not in self._first_ids:
                self._info(base, {"id": 0, "nid": self._node(), "pid": process_id, "name": name})
        return process_id

    def thread(self, tid: int | None = None, **columns: Value) -> int:
        """Write a host thread; `tid` None is the process's main thread first, then the next number. Returns its id."""
        owner = self._owner()
        process_id = self._process()
        if tid is None:
            tid = max(self._last_ids["info_thread"] + 1, process_id)
        return self._info("info_thread", {"id": tid, **owner, "ppid": process_id - 1, "tid": tid, **columns})

    def agent(self, kind: str = "GPU", **columns: Value) -> int:
        """Write an agent of the node: kind CPU, GPU (an MI355X) or, since 3.0.1, NIC. Returns its id."""
        defaults = agent_columns(kind, self._agents.total(), self._agents[kind])
        agent_id = self._info("info_agent", {**defaults, **self._owner(), **columns})
        self._agents[kind] += 1
        self._first_ids.setdefault(kind, agent_id)
        return agent_id

    def queue(self, **columns: Value) -> int:
        """Write a hardware queue beside the default one. Returns its id."""
        return self._numbered_place("info_queue", "Queue", columns)

    def stream(self, **columns: Value) -> int:
        """Write a HIP stream beside the default one. Returns its id."""
        return self._numbered_place("info_stream", "Stream", columns)

    # What was loaded

    def code_object(self, **columns: Value) -> int:
        """Write a code object on the first GPU. Returns its id."""
        defaults = code_object_columns(self._last_ids["info_code_object"] + 1, self._process())
        return self._info("info_code_object", {**defaults, **self._owner(), "agent_id": self._agent("GPU"), **columns})

    def kernel_symbol(self, name: str, **columns: Value) -> int:
        """Write a kernel symbol; `name` is what people read, without `.kd`. Returns its id, the kernel id."""
        defaults = kernel_symbol_columns(name, self._last_ids["info_kernel_symbol"] + 1)
        if "code_object_id" not in columns:
            defaults["code_object_id"] = self._first("info_code_object", self.code_object)
        return self._info("info_kernel_symbol", {**defaults, **self._owner(), **columns})

    def counter_info(self, name: str, **columns: Value) -> int:
        """Write the description of a counter of the first GPU. Returns its id, the pmc id."""
        return self._info(
            "info_pmc", {**counter_columns(name), **self._owner(), "agent_id": self._agent("GPU"), **columns}
        )

    # What happened on the host

    def event(
        self,
        category: str,
        *,
        stack_id: int = 0,
        parent_stack_id: int = 0,
        message: str | None = None,
        **columns: Value,
    ) -> int:
        """Write an event; `message` is a roctx text. Returns its id."""
        defaults: dict[str, Value] = {
            "category_id": self._name(category),
            "stack_id": stack_id,
            "parent_stack_id": parent_stack_id,
            "correlation_id": 0,
            "extdata": "{}" if message is None else {"message": message},
        }
        return self.insert("event", **{**defaults, **columns})

    def arg(self, event_id: int, name: str, value: str, *, position: int = 0, **columns: Value) -> int:
        """Write an argument of an API call. Returns its id."""
        defaults: dict[str, Value] = {"event_id": event_id, "position": position, "name": name, "value": value}
        return self.insert("arg", **{"type": "unsigned long", **defaults, **columns})

    def region(
        self,
        name: str,
        start_ns: int,
        end_ns: int,
        *,
        category: str = CALL_CATEGORY,
        parent_id: int = 0,
        message: str | None = None,
        **columns: Value,
    ) -> int:
        """Write a host call, or any other host region. Returns its id, which is its stack id.

        Args:
            name: function.
            start_ns: entry, trace clock.
            end_ns: return, trace clock.
            category: API domain: HIP_RUNTIME_API_EXT, HIP_COMPILER_API_EXT, HSA_CORE_API, RCCL_API, ...
            parent_id: id of the enclosing call; 0 where there is none.
            message: roctx text.
            columns: columns of rocpd_region to write otherwise.
        """
        return self._region(name, (start_ns, end_ns), (category, parent_id, message), columns)

    def roctx_range(self, message: str, start_ns: int, end_ns: int, **columns: Value) -> int:
        """Write a roctx push/pop range. Returns its region id. The text is in the event; the name is the function."""
        return self._region(RANGE_FUNCTION, (start_ns, end_ns), (RANGE_CATEGORY, 0, message), columns)

    def roctx_mark(self, message: str, time_ns: int, **columns: Value) -> int:
        """Write a roctx mark, which is a sample. Returns its id."""
        if "event_id" not in columns:
            columns["event_id"] = self._event(RANGE_CATEGORY, self.next_stack_id(), 0, message)
        return self.insert("sample", **{"track_id": self.track("roctxMarkA"), "timestamp": time_ns, **columns})

    def track(self, name: str, **columns: Value) -> int:
        """Write a lane for samples, on the first thread. Returns its id."""
        return self.insert("track", **{**self._where_on_host(), "name_id": self._name(name), **columns})

    def sample(self, track_id: int, time_ns: int, **columns: Value) -> int:
        """Write an instant on a track; without an event unless `event_id` is given. Returns its id."""
        return self.insert("sample", **{"track_id": track_id, "timestamp": time_ns, **columns})

    # What happened on the device

    def dispatch(
        self,
        kernel_id: int,
        start_ns: int,
        end_ns: int,
        *,
        call_id: int | None = None,
        range_name: str = "",
        **columns: Value,
    ) -> int:
        """Write a kernel execution on the first GPU and its first own queue. Returns its row id.

        Args:
            kernel_id: kernel symbol.
            start_ns: start, trace clock.
            end_ns: end, trace clock.
            call_id: region id of the innermost traced call; None where no call was traced: the stack id is then a
                fresh one without a region.
            range_name: roctx range that was open at launch.
            columns: columns of rocpd_kernel_dispatch to write otherwise.
        """
        dispatch_id = columns.get("dispatch_id", columns.get("id", self._last_ids["kernel_dispatch"] + 1))
        if "event_id" not in columns:
            columns["event_id"] = self._device_event("KERNEL_DISPATCH", call_id)
        defaults: dict[str, Value] = {
            "id": dispatch_id,
            "dispatch_id": dispatch_id,
            **self._where_on_device(start_ns, end_ns),
            "kernel_id": kernel_id,
            "private_segment_size": 0,
            "group_segment_size": 0,
            **{f"{what}_size_{axis}": 1 for what in ("workgroup", "grid") for axis in "yz"},
            "workgroup_size_x": 256,
            "grid_size_x": 65536,
            "region_name_id": self._name(range_name),
        }
        if "queue_id" not in columns:
            defaults["queue_id"] = self._own_queue()
        row_id = self.insert("kernel_dispatch", **{**defaults, **columns})
        self._dispatch_events[row_id] = columns["event_id"]
        return row_id

    def copy(
        self, kind: str, start_ns: int, end_ns: int, size_bytes: int, *, call_id: int | None = None, **columns: Value
    ) -> int:
        """Write a memory copy. Queue and range are NULL, as the tool leaves them. Returns its id.

        Args:
            kind: HOST_TO_DEVICE, DEVICE_TO_HOST, DEVICE_TO_DEVICE or HOST_TO_HOST.
            start_ns: start, trace clock.
            end_ns: end, trace clock.
            size_bytes: bytes moved.
            call_id: as in `dispatch`.
            columns: columns of rocpd_memory_copy to write otherwise.
        """
        source, _, target = kind.partition("_TO_")
        if "event_id" not in columns:
            columns["event_id"] = self._device_event("MEMORY_COPY", call_id)
        defaults = {
            **self._where_on_device(start_ns, end_ns),
            "name_id": self._name(f"MEMORY_COPY_{kind}"),
            "dst_agent_id": self._agent(_AGENT_KINDS.get(target, "GPU")),
            "dst_address": 0x7F10_0000_0000,
            "src_agent_id": self._agent(_AGENT_KINDS.get(source, "GPU")),
            "src_address": 0x7F20_0000_0000,
            "size": size_bytes,
        }
        del defaults["agent_id"]
        return self.insert("memory_copy", **{**defaults, **columns})

    def allocation(
        self, kind: str, start_ns: int, end_ns: int, size_bytes: int, *, call_id: int | None = None, **columns: Value
    ) -> int:
        """Write an allocation. A FREE has neither size nor agent, as in files of before mid-2026. Returns its id.

        Args:
            kind: ALLOC, FREE, REALLOC or RECLAIM.
            start_ns: start of the call, trace clock.
            end_ns: end of the call, trace clock.
            size_bytes: bytes asked for.
            call_id: as in `dispatch`.
            columns: columns of rocpd_memory_allocate to write otherwise.
        """
        if "event_id" not in columns:
            columns["event_id"] = self._device_event("MEMORY_ALLOCATION", call_id)
        defaults = {
            **self._where_on_device(start_ns, end_ns),
            "type": kind,
            "level": "REAL",
            "address": 0x7F10_0000_0000,
            "size": size_bytes,
            "queue_id": 0,
        }
        if kind == "FREE":
            defaults.update(agent_id=None, size=0)
        return self.insert("memory_allocate", **{**defaults, **columns})

    def counter_value(self, pmc_id: int, value: float, *, dispatch_id: int | None = None, **columns: Value) -> int:
        """Write one hardware instance's value of a counter; one row per instance and dispatch. Returns its id.

        Args:
            pmc_id: counter.
            value: as read.
            dispatch_id: row id of a dispatch of this writer, whose event the value belongs to; or give `event_id`.
            columns: columns of rocpd_pmc_event to write otherwise.

        Raises:
            UsageError: neither is given, or no such dispatch was written.
        """
        if "event_id" not in columns:
            if dispatch_id not in self._dispatch_events:
                raise UsageError("rocpd-no-such-dispatch", f"no dispatch {dispatch_id} was written before this value")
            columns["event_id"] = self._dispatch_events[dispatch_id]
        return self.insert("pmc_event", **{"pmc_id": pmc_id, "value": value, **columns})

    # What a row needs and nobody gave

    def _info(self, base: str, columns: Mapping[str, Value]) -> int:
        row_id = self.insert(base, **columns)
        self._first_ids.setdefault(base, row_id)
        return row_id

    def _numbered_place(self, base: str, word: str, columns: Mapping[str, Value]) -> int:
        owner = self._owner()
        number = self._last_ids[base]
        row_id = self.insert(base, **{"id": number + 1, **owner, "name": f"{word} {number}", **columns})
        self._first_ids.setdefault(f"own {base}", row_id)
        return row_id

    def _first(self, base: str, make: Callable[[], int]) -> int:
        """Id of the first row of `base`; made by `make` if there is none, 1 if the file has no such table."""
        if base in self._first_ids:
            return self._first_ids[base]
        return make() if self.file.has_table(base) else 1

    def _name(self, text: str) -> int:
        return self.string(text) if self.file.has_table("string") else 1

    def _node(self) -> int:
        return self._first("info_node", self.node)

    def _process(self) -> int:
        return self._first("info_process", self.process)

    def _owner(self) -> dict[str, Value]:
        return {"nid": self._node(), "pid": self._process()}

    def _agent(self, kind: str) -> int:
        if kind == "GPU" and "CPU" not in self._first_ids and "GPU" not in self._first_ids:
            self._agent("CPU")
        if kind in self._first_ids or not self.file.has_table("info_agent"):
            return self._first_ids.get(kind, 0)
        return self.agent(kind)

    def _own_queue(self) -> int:
        known = self._first_ids.get("own info_queue")
        if known is not None or not self.file.has_table("info_queue"):
            return known or 1
        return self.queue()

    def _where_on_host(self) -> dict[str, Value]:
        return {**self._owner(), "tid": self._first("info_thread", self.thread)}

    def _where_on_device(self, start_ns: int, end_ns: int) -> dict[str, Value]:
        span: dict[str, Value] = {"agent_id": self._agent("GPU"), "stream_id": 0, "start": start_ns, "end": end_ns}
        return {**self._where_on_host(), **span}

    def _region(
        self, name: str, span_ns: tuple[int, int], event: tuple[str, int, str | None], columns: dict[str, Value]
    ) -> int:
        """A region and its event, given as category, parent's stack id and roctx text."""
        wanted = columns.get("id")
        region_id = wanted if isinstance(wanted, int) else self.next_stack_id()
        self._last_stack_id = max(self._last_stack_id, region_id)
        category, parent_id, message = event
        if "event_id" not in columns:
            columns["event_id"] = self._event(category, region_id, parent_id, message)
        start_ns, end_ns = span_ns
        span: dict[str, Value] = {"id": region_id, "start": start_ns, "end": end_ns, "name_id": self._name(name)}
        return self.insert("region", **{**self._where_on_host(), **span, **columns})

    def _event(self, category: str, stack_id: int, parent_id: int, message: str | None) -> int | None:
        if not self.file.has_table("event"):
            return None
        return self.event(category, stack_id=stack_id, parent_stack_id=parent_id, message=message)

    def _device_event(self, category: str, call_id: int | None) -> int | None:
        stack_id = self.next_stack_id() if call_id is None else call_id
        return self._event(category, stack_id, stack_id, None)
