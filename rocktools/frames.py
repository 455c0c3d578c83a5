"""The frames that pass between layers: columns, dtypes, units and meanings, declared once.

A reader ends with `require_frame`; the column reference in the manual is generated from the same specs. Times are int64
nanoseconds, half-open [start, end), in the clock of the source (CLOCK_BOOTTIME for rocpd: not the epoch, and not shared
between nodes). Ids are unique within one process of one run only, so every key starts with (run, process).

dtypes used here: `int64` never missing; `Int64` pandas' nullable integer, missing is `<NA>`; `float64` (NaN is
missing); `category` strings held once (missing is NaN); `bool`. A frame may be built with a part of its columns, in the
order of the spec; the key columns are always there.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from rocktools.errors import ContractError, UsageError, nearest_names
from rocktools.units import unit_of

DTYPES = ("int64", "Int64", "float64", "category", "bool")


@dataclass(frozen=True, slots=True)
class Column:
    """One column of a frame.

    Attributes:
        name: ends in its unit, unless it is an identifier, a label or a flag.
        dtype: one of `DTYPES`.
        meaning: one sentence.
        missing: why a value may be missing; "" where it never is.
    """

    name: str
    dtype: str
    meaning: str
    missing: str = ""

    @property
    def unit(self) -> str | None:
        return unit_of(self.name)


@dataclass(frozen=True, slots=True, kw_only=True)
class FrameSpec:
    """A frame's contract: its columns in order, the key, and the order of rows."""

    name: str
    meaning: str
    key: tuple[str, ...]
    sort: tuple[str, ...]
    columns: tuple[Column, ...]

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(column.name for column in self.columns)

    def column(self, name: str) -> Column:
        """The column of that name.

        Raises:
            UsageError: there is none; the nearest names are listed.
        """
        for column in self.columns:
            if column.name == name:
                return column
        near = nearest_names(name, self.names)
        raise UsageError(
            "unknown-column",
            f"{self.name} has no column {name!r}",
            hint=f"{', '.join(near)}" if near else f"one of {', '.join(self.names)}",
        )

    def select(self, wanted: Iterable[str] | None) -> tuple[str, ...]:
        """Key columns and `wanted` (None: all), in the order of the spec.

        Raises:
            UsageError: a wanted column does not exist.
        """
        if wanted is None:
            return self.names
        chosen = {self.column(name).name for name in wanted} | set(self.key)
        return tuple(name for name in self.names if name in chosen)

    def empty(self, columns: Iterable[str] | None = None) -> pd.DataFrame:
        """A frame with these columns (None: all) and no row."""
        names = self.select(columns)
        return pd.DataFrame({name: pd.Series([], dtype=self.column(name).dtype) for name in names})


def require_frame(frame: pd.DataFrame, spec: FrameSpec, columns: Sequence[str] | None = None) -> pd.DataFrame:
    """Return `frame` unchanged if it keeps the contract of `spec`, for `columns` (None: all of them).

    Raises:
        ContractError: a column is missing, unknown, out of order or of another dtype, or a value is missing where the
            spec gives no reason for it. That is a fault of rocktools, not of the file.
    """
    expected = spec.select(columns)
    if tuple(frame.columns) != expected:
        raise ContractError(
            "frame-columns", f"{spec.name} must have the columns {expected}, but has {tuple(frame.columns)}"
        )
    for name in expected:
        column = spec.column(name)
        dtype = str(frame[name].dtype)
        if dtype != column.dtype:
            raise ContractError("frame-dtype", f"{spec.name}.{name} must be {column.dtype}, but is {dtype}")
        if not column.missing and column.dtype not in ("int64", "bool") and bool(frame[name].isna().any()):
            raise ContractError("frame-missing", f"{spec.name}.{name} has missing values and gives no reason for them")
    return frame


def nullable_int64(values: np.ndarray, is_missing: np.ndarray) -> pd.array:
    """An `Int64` array from int64 values and a mask of the same length (True: missing)."""
    return pd.arrays.IntegerArray(values.astype(np.int64, copy=False), is_missing.astype(np.bool_, copy=False))


GRID = ("grid_workitems_x", "grid_workitems_y", "grid_workitems_z")
WORKGROUP = ("workgroup_workitems_x", "workgroup_workitems_y", "workgroup_workitems_z")

_RUN = Column("run", "category", "label of the run the row belongs to: the name of the run directory, folder or file")
_PROCESS = Column("process", "category", "label of the profiled process: the suffix of its tables, unique world-wide")
_KEY = (_RUN, _PROCESS)
_NOT_RECORDED = "the database has no such column or value"

_DISPATCH_IDENTITY = (
    Column("agent_id", "int64", "AGENTS row of the device it ran on"),
    Column("kernel_id", "int64", "KERNEL_SYMBOLS row of the kernel; not an identity, one kernel may have several"),
    Column("kernel_name", "category", "clean kernel name: no `.kd`, no ` [clone .kd]`; `kernel_<id>` if nameless"),
    Column("raw_kernel_name", "category", "kernel name as recorded", "the kernel symbol is missing or nameless"),
)
_DISPATCH_PLACE = (
    Column("queue_id", "Int64", "hardware queue", _NOT_RECORDED),
    Column("stream_id", "Int64", "HIP stream; unreliable in some versions of the tool", _NOT_RECORDED),
    Column("thread_id", "Int64", "host thread that launched it, as numbered in the file", _NOT_RECORDED),
    Column(
        "grid_workitems_x",
        "Int64",
        "grid in work-items (not workgroups), x; the whole product where the source gives no y and z",
        _NOT_RECORDED,
    ),
    Column("grid_workitems_y", "Int64", "grid in work-items, y", _NOT_RECORDED),
    Column("grid_workitems_z", "Int64", "grid in work-items, z", _NOT_RECORDED),
    Column(
        "workgroup_workitems_x",
        "Int64",
        "workgroup in work-items, x; the whole product where the source gives no y and z",
        _NOT_RECORDED,
    ),
    Column("workgroup_workitems_y", "Int64", "workgroup in work-items, y", _NOT_RECORDED),
    Column("workgroup_workitems_z", "Int64", "workgroup in work-items, z", _NOT_RECORDED),
    Column("lds_bytes", "Int64", "LDS per workgroup, static and dynamic", _NOT_RECORDED),
    Column("scratch_bytes", "Int64", "private (scratch) memory per work-item", _NOT_RECORDED),
    Column("vgpr_count", "Int64", "architectural vector registers per work-item", _NOT_RECORDED),
    Column("agpr_count", "Int64", "accumulation vector registers per work-item", _NOT_RECORDED),
    Column("sgpr_count", "Int64", "scalar registers per wave", _NOT_RECORDED),
    Column(
        "host_call_id",
        "Int64",
        "HOST_CALLS row of the HIP call that launched it, found by climbing from the innermost traced call",
        "no host call was traced, or none of its ancestors is a HIP call",
    ),
    Column("range", "category", "roctx range that was open at launch", "none was open, or ranges were not recorded"),
    Column("graph_exec_id", "Int64", "HIP graph it was launched by", "not launched by a graph, or schema before 3.0.2"),
    Column("graph_node_id", "Int64", "node of that graph", "not launched by a graph, or schema before 3.0.2"),
)

DISPATCHES = FrameSpec(
    name="DISPATCHES",
    meaning="One row per kernel execution on a device, from a trace (never from a counter pass).",
    key=("run", "process", "dispatch_id"),
    sort=("run", "process", "start_ns", "dispatch_id"),
    columns=(
        *_KEY,
        Column("dispatch_id", "int64", "number of the dispatch within its process"),
        *_DISPATCH_IDENTITY,
        Column("start_ns", "int64", "start on the device, trace clock"),
        Column("end_ns", "int64", "end on the device, trace clock"),
        *_DISPATCH_PLACE,
    ),
)

COUNTED_DISPATCHES = FrameSpec(
    name="COUNTED_DISPATCHES",
    meaning="One row per kernel execution in a counter pass; its times are those of a serialised run, and no timing "
    "function accepts this frame.",
    key=("run", "process", "dispatch_id", "pass", "replay_pass"),
    sort=("run", "process", "pass_start_ns", "dispatch_id"),
    columns=(
        *_KEY,
        Column("dispatch_id", "int64", "number of the dispatch within its process"),
        Column("pass", "category", "label of the counter pass: its folder in the run directory, or the file's name"),
        Column(
            "replay_pass",
            "Int64",
            "number of the kernel replay the row belongs to",
            "not a kernel replay, or the version of the tool does not record it",
        ),
        *_DISPATCH_IDENTITY,
        Column("pass_start_ns", "int64", "start on the device in this pass, trace clock"),
        Column("pass_end_ns", "int64", "end on the device in this pass, trace clock"),
        *_DISPATCH_PLACE,
    ),
)

COUNTER_VALUES = FrameSpec(
    name="COUNTER_VALUES",
    meaning="One row per counter of a counted dispatch, reduced over its hardware instances in all four ways.",
    key=("run", "process", "dispatch_id", "pass", "replay_pass", "counter"),
    sort=("run", "process", "dispatch_id", "replay_pass", "counter"),
    columns=(
        *_KEY,
        Column("dispatch_id", "int64", "number of the dispatch within its process"),
        Column("pass", "category", "label of the counter pass"),
        Column("replay_pass", "Int64", "number of the kernel replay", "not a kernel replay, or not recorded"),
        Column("counter", "category", "name of the counter, as the tool gives it"),
        Column(
            "sum_value", "float64", "sum over hardware instances", "the values of replay passes cannot be told apart"
        ),
        Column("min_value", "float64", "smallest instance", "the source gives the sum only"),
        Column("max_value", "float64", "largest instance", "the source gives the sum only"),
        Column(
            "instances_count",
            "Int64",
            "hardware instances behind the value (1 for a derived counter)",
            "the source gives the sum only",
        ),
    ),
)

HOST_CALLS = FrameSpec(
    name="HOST_CALLS",
    meaning="One row per traced host API call (HIP, HSA, RCCL, ...) or other host region that is not a roctx range.",
    key=("run", "process", "host_call_id"),
    sort=("run", "process", "start_ns", "host_call_id"),
    columns=(
        *_KEY,
        Column("host_call_id", "int64", "number of the region within its process"),
        Column(
            "domain", "category", "API domain, as recorded: HIP_RUNTIME_API, HSA_CORE_API, RCCL_API, ...", _NOT_RECORDED
        ),
        Column("name", "category", "function name"),
        Column("thread_id", "Int64", "host thread, as numbered in the file", _NOT_RECORDED),
        Column("start_ns", "int64", "entry, trace clock"),
        Column("end_ns", "int64", "return, trace clock"),
        Column("stack_id", "Int64", "internal correlation id of the call", _NOT_RECORDED),
        Column(
            "parent_stack_id", "Int64", "internal correlation id of the enclosing call", "outermost, or not recorded"
        ),
    ),
)

RANGES = FrameSpec(
    name="RANGES",
    meaning="One row per roctx range or mark on the host.",
    key=("run", "process", "kind", "range_id"),
    sort=("run", "process", "start_ns", "range_id"),
    columns=(
        *_KEY,
        Column("kind", "category", "`range` (start and end) or `mark` (an instant)"),
        Column("range_id", "int64", "number of the region or sample within its process"),
        Column("name", "category", "message given to roctx"),
        Column("thread_id", "Int64", "host thread, as numbered in the file", _NOT_RECORDED),
        Column("start_ns", "int64", "start, trace clock"),
        Column("end_ns", "int64", "end, trace clock; equal to the start for a mark"),
    ),
)

COPIES = FrameSpec(
    name="COPIES",
    meaning="One row per memory copy, on the device clock.",
    key=("run", "process", "copy_id"),
    sort=("run", "process", "start_ns", "copy_id"),
    columns=(
        *_KEY,
        Column("copy_id", "int64", "number of the copy within its process"),
        Column(
            "kind",
            "category",
            "direction: HOST_TO_DEVICE, DEVICE_TO_HOST, DEVICE_TO_DEVICE, HOST_TO_HOST or as recorded",
        ),
        Column("start_ns", "int64", "start, trace clock"),
        Column("end_ns", "int64", "end, trace clock"),
        Column("size_bytes", "int64", "bytes moved"),
        Column("src_agent_id", "Int64", "AGENTS row it reads from", _NOT_RECORDED),
        Column("dst_agent_id", "Int64", "AGENTS row it writes to", _NOT_RECORDED),
        Column("queue_id", "Int64", "hardware queue", "copies by the DMA engines have none"),
        Column("stream_id", "Int64", "HIP stream", _NOT_RECORDED),
        Column("thread_id", "Int64", "host thread that asked for it", _NOT_RECORDED),
        Column(
            "range", "category", "roctx range that was open at launch", "none was open, or ranges were not recorded"
        ),
        Column("graph_exec_id", "Int64", "HIP graph it was launched by", "not by a graph, or schema before 3.0.2"),
        Column("graph_node_id", "Int64", "node of that graph", "not by a graph, or schema before 3.0.2"),
    ),
)

ALLOCATIONS = FrameSpec(
    name="ALLOCATIONS",
    meaning="One row per allocation or release of device or scratch memory.",
    key=("run", "process", "allocation_id"),
    sort=("run", "process", "start_ns", "allocation_id"),
    columns=(
        *_KEY,
        Column("allocation_id", "int64", "number of the record within its process"),
        Column("kind", "category", "ALLOC, FREE, REALLOC or RECLAIM", _NOT_RECORDED),
        Column("level", "category", "REAL, VIRTUAL or SCRATCH", _NOT_RECORDED),
        Column("start_ns", "int64", "start of the call, trace clock"),
        Column("end_ns", "int64", "end of the call, trace clock"),
        Column("size_bytes", "Int64", "bytes asked for", "a release: its size is not recorded"),
        Column("address", "Int64", "device address", "not recorded, or above 2**63 and stored without its low digits"),
        Column("agent_id", "Int64", "AGENTS row of the device", "a release, or not recorded"),
        Column("queue_id", "Int64", "hardware queue (scratch only)", _NOT_RECORDED),
        Column("stream_id", "Int64", "HIP stream", _NOT_RECORDED),
        Column("thread_id", "Int64", "host thread", _NOT_RECORDED),
    ),
)

SAMPLES = FrameSpec(
    name="SAMPLES",
    meaning="One row per instant on a track that is not a roctx mark: telemetry (clocks, power, memory) and events.",
    key=("run", "process", "sample_id"),
    sort=("run", "process", "time_ns", "sample_id"),
    columns=(
        *_KEY,
        Column("sample_id", "int64", "number of the sample within its process"),
        Column("track", "category", "name of the track", _NOT_RECORDED),
        Column("domain", "category", "category of the event, as recorded", _NOT_RECORDED),
        Column("time_ns", "int64", "instant, trace clock"),
        Column("quantity", "category", "name of the sampled quantity", "an event without a value"),
        Column(
            "value", "float64", "sampled value in `value_unit`", "an event without a value, or 65535 (not available)"
        ),
        Column(
            "value_unit", "category", "unit of the value, as recorded", "an event without a value, or no unit given"
        ),
        Column("agent_id", "Int64", "AGENTS row the value is about", "not about a device"),
        Column("thread_id", "Int64", "host thread", "not tied to a thread"),
    ),
)

AGENTS = FrameSpec(
    name="AGENTS",
    meaning="One row per CPU, GPU or NIC of the node as each process saw it; facts as recorded, none by model name.",
    key=("run", "process", "agent_id"),
    sort=("run", "process", "agent_id"),
    columns=(
        *_KEY,
        Column("agent_id", "int64", "number of the agent within its process"),
        Column(
            "device", "category", "label that is equal for the same device seen by several processes: host:gpu<index>"
        ),
        Column("node_id", "Int64", "node (up to 63 bits)", _NOT_RECORDED),
        Column("kind", "category", "CPU, GPU or NIC", _NOT_RECORDED),
        Column("absolute_index", "Int64", "index among all agents of the node (GPUs come after CPUs)", _NOT_RECORDED),
        Column("type_index", "Int64", "index among the agents of its kind", _NOT_RECORDED),
        Column("arch", "category", "architecture of a GPU (gfx950), model of a CPU", _NOT_RECORDED),
        Column("product", "category", "product name", _NOT_RECORDED),
        Column("xcc_count", "Int64", "accelerator dies (XCDs) in this partition", _NOT_RECORDED),
        Column("cu_count", "Int64", "compute units", _NOT_RECORDED),
        Column("simd_per_cu_count", "Int64", "SIMD units per compute unit", _NOT_RECORDED),
        Column("wave_workitems", "Int64", "work-items per wave", _NOT_RECORDED),
        Column("lds_per_cu_bytes", "Int64", "LDS per compute unit", _NOT_RECORDED),
        Column("max_engine_hz", "Int64", "highest shader clock", _NOT_RECORDED),
    ),
)

PROCESSES = FrameSpec(
    name="PROCESSES",
    meaning="One row per profiled process.",
    key=("run", "process"),
    sort=("run", "process"),
    columns=(
        *_KEY,
        Column("path", "category", "file it was read from"),
        Column("tool", "category", "what wrote the file: rocprofv3, rocprof-sys, rocktools (simulated) or unknown"),
        Column("schema_version", "category", "schema version as written in the file", _NOT_RECORDED),
        Column("content", "category", "`trace`, or `counters` for a counter pass"),
        Column("is_simulated", "bool", "whether the file says that no hardware produced it"),
        Column("pid", "Int64", "operating system's process id", _NOT_RECORDED),
        Column("ppid", "Int64", "process id of its parent", _NOT_RECORDED),
        Column("rank", "Int64", "rank in a multi-process job", "not recorded by the tool and not in the path"),
        Column("node_id", "Int64", "node (up to 63 bits)", _NOT_RECORDED),
        Column("host", "category", "host name", _NOT_RECORDED),
        Column("command", "category", "command line", _NOT_RECORDED),
        Column("start_ns", "Int64", "start of the process, trace clock", "the tool wrote 0 or nothing"),
        Column("end_ns", "Int64", "end of the process, trace clock", "the tool wrote 0 or nothing"),
    ),
)

KERNEL_SYMBOLS = FrameSpec(
    name="KERNEL_SYMBOLS",
    meaning="One row per loaded kernel symbol; the same kernel loaded on eight GPUs has eight.",
    key=("run", "process", "kernel_id"),
    sort=("run", "process", "kernel_id"),
    columns=(
        *_KEY,
        Column("kernel_id", "int64", "number of the symbol within its process"),
        Column("kernel_name", "category", "clean kernel name, as in DISPATCHES"),
        Column("raw_kernel_name", "category", "display name as recorded", "nameless"),
        Column("mangled_name", "category", "symbol in the code object, without `.kd`", _NOT_RECORDED),
        Column("code_object_id", "Int64", "code object it belongs to", _NOT_RECORDED),
        Column("agent_id", "Int64", "AGENTS row the code object was loaded on", _NOT_RECORDED),
        Column("vgpr_count", "Int64", "architectural vector registers per work-item", _NOT_RECORDED),
        Column("agpr_count", "Int64", "accumulation vector registers per work-item", _NOT_RECORDED),
        Column("sgpr_count", "Int64", "scalar registers per wave", _NOT_RECORDED),
        Column("static_lds_bytes", "Int64", "static LDS per workgroup", _NOT_RECORDED),
        Column("static_scratch_bytes", "Int64", "static private memory per work-item", _NOT_RECORDED),
        Column("kernarg_bytes", "Int64", "size of the argument segment", _NOT_RECORDED),
    ),
)

_HOST = Column("host", "category", "name of the host that the plane was recorded on; `host` where the file has none")
_EVENT_KEY = (
    _RUN,
    _HOST,
    Column("device", "category", "plane of the XSpace: `/device:GPU:0`"),
    Column("line", "category", "line of the plane: `Stream #2`; with `#<id>` behind it where two have one name"),
    Column("event_index", "int64", "position of the event in its line"),
)
_NO_STAT = "the event has no such statistic"
_EVENT_TIMES = (
    Column("start_ns", "int64", "start on the clock of the profile, rounded down from picoseconds"),
    Column("end_ns", "int64", "end on the clock of the profile, rounded down from picoseconds"),
    Column("duration_ps", "int64", "exact duration in picoseconds"),
)
_ANNOTATION = (
    Column("program_id", "category", "id of the HLO module, in decimal, as in INSTRUCTIONS", _NO_STAT),
    Column("hlo_module", "category", "name of the HLO module", _NO_STAT),
    Column("hlo_op", "category", "name of the HLO instruction, or of the command buffer, that launched it", _NO_STAT),
    Column("correlation_id", "Int64", "what a device event shares with the host call that launched it", _NO_STAT),
)

DEVICE_EVENTS = FrameSpec(
    name="DEVICE_EVENTS",
    meaning="One row per event of a raw line of a device plane of a JAX profile (XSpace); derived lines are left out.",
    key=("run", "host", "device", "line", "event_index"),
    sort=("run", "host", "device", "start_ns", "line", "event_index"),
    columns=(
        *_EVENT_KEY,
        Column("kind", "category", "`kernel`, `copy`, `memset`, `memory` (allocation, release) or `other`"),
        Column("kernel_name", "category", "name of the event, without `.kd` and ` [clone .kd]`"),
        Column("raw_kernel_name", "category", "name of the event as recorded"),
        *_EVENT_TIMES,
        *_ANNOTATION,
        Column(
            "scope_hint",
            "category",
            "the profiler's `prefix/name`: a common prefix of op_names, not the scope",
            _NO_STAT,
        ),
        Column("stream_id", "Int64", "number in the name of the line", "the line has no number"),
        Column(
            "grid_workitems_x", "Int64", "grid in work-items, x: workgroups of the profile times workgroup", _NO_STAT
        ),
        Column("grid_workitems_y", "Int64", "grid in work-items, y", _NO_STAT),
        Column("grid_workitems_z", "Int64", "grid in work-items, z", _NO_STAT),
        Column("workgroup_workitems_x", "Int64", "workgroup in work-items, x", _NO_STAT),
        Column("workgroup_workitems_y", "Int64", "workgroup in work-items, y", _NO_STAT),
        Column("workgroup_workitems_z", "Int64", "workgroup in work-items, z", _NO_STAT),
        Column("lds_bytes", "Int64", "LDS of a workgroup", _NO_STAT),
        Column("scratch_bytes", "Int64", "private memory of a work-item", _NO_STAT),
        Column("size_bytes", "Int64", "bytes copied, set or allocated", "not a memory event, or not recorded"),
    ),
)

HOST_EVENTS = FrameSpec(
    name="HOST_EVENTS",
    meaning="One row per event of a host thread in a JAX profile (XSpace): annotations, HIP calls, HLO on CPUs.",
    key=("run", "host", "device", "line", "event_index"),
    sort=("run", "host", "device", "start_ns", "line", "event_index"),
    columns=(
        *_EVENT_KEY,
        Column("event_name", "category", "name of the event as recorded"),
        *_EVENT_TIMES,
        *_ANNOTATION,
        Column("step_number", "Int64", "number of the step that the event marks", "not a StepTraceAnnotation"),
    ),
)

PROFILED_DEVICES = FrameSpec(
    name="PROFILED_DEVICES",
    meaning="One row per device plane of a JAX profile (XSpace), also those without events; facts as recorded.",
    key=("run", "host", "device"),
    sort=("run", "host", "device"),
    columns=(
        _RUN,
        _HOST,
        Column("device", "category", "plane of the XSpace: `/device:GPU:0`"),
        Column(
            "arch",
            "category",
            "gfx name: recorded, or from the compute capability (9.4 gfx942, 9.5 gfx950)",
            "neither is recorded",
        ),
        Column("vendor", "category", "vendor as recorded", "not recorded"),
        Column("cu_count", "Int64", "compute units (the profile's core_count)", "not recorded"),
        Column("clock_hz", "Int64", "clock as recorded (the profile's clock_rate)", "not recorded"),
        Column("memory_bytes", "Int64", "device memory", "not recorded"),
        Column(
            "memory_bytes_per_s",
            "Int64",
            "memory bandwidth as recorded: on ROCm half of the data sheet",
            "not recorded",
        ),
        Column("lines_count", "int64", "raw lines with at least one event"),
        Column("events_count", "int64", "events on raw lines"),
        Column("annotated_count", "int64", "of those, the ones that name an HLO instruction"),
        Column("start_ns", "Int64", "start of the first event", "no event"),
        Column("end_ns", "Int64", "end of the last event", "no event"),
        Column("sum_ps", "int64", "durations added up"),
        Column("union_ps", "int64", "time covered by at least one event"),
    ),
)

PROGRAMS = FrameSpec(
    name="PROGRAMS",
    meaning="One row per compiled program of a run: HLO in a JAX profile, or in a folder of XLA dumps.",
    key=("run", "program_id"),
    sort=("run", "program_id"),
    columns=(
        _RUN,
        Column("program_id", "category", "id of the HLO module in decimal, or its name where the source holds no id"),
        Column("hlo_module", "category", "name of the module"),
        Column("instructions_count", "int64", "instructions in all its computations"),
        Column("fusions_count", "int64", "fusion instructions"),
        Column("custom_calls_count", "int64", "custom calls"),
        Column("collectives_count", "int64", "collective operations, each start counted once"),
        Column("thunks_count", "Int64", "thunks of its thunk sequence", "no thunk sequence was found beside it"),
        Column("is_complete", "bool", "whether everything was read"),
        Column("path", "category", "the file it was read from"),
    ),
)

_COUNTED_ELSEWHERE = (
    "no rule for this opcode or target, or counted elsewhere: what is inside of a fusion in the fusion, "
    "a loop in its body"
)
INSTRUCTIONS = FrameSpec(
    name="INSTRUCTIONS",
    meaning="One row per HLO instruction of a compiled program; sizes and costs are the compiler's estimates.",
    key=("program_id", "instruction"),
    sort=("program_id", "computation", "position_index"),
    columns=(
        Column("program_id", "category", "id of the HLO module in decimal, or its name where the source holds no id"),
        Column("instruction", "category", "name of the instruction"),
        Column("computation", "category", "computation it is in"),
        Column("position_index", "int64", "place in that computation; the order of launches where it is scheduled"),
        Column("opcode", "category", "as in HLO text"),
        Column("fusion_kind", "category", "kLoop, kInput, kOutput, kCustom", "not a fusion"),
        Column("shape", "category", "of the result, with layouts"),
        Column("custom_call_target", "category", "what a custom call calls", "not a custom call"),
        Column(
            "op_name", "category", "path of the frontend, its own or that of its fused computation", "neither has one"
        ),
        Column(
            "op_name_origin",
            "category",
            "`instruction`, `fused_root` or `fused_inner`: whose op_name it is",
            "no op_name",
        ),
        Column(
            "scope",
            "category",
            "named scopes of the path: without jit, transforms, phases, loops and the primitive; may be empty",
            "no op_name",
        ),
        Column(
            "phase",
            "category",
            "forward, backward, rematerialized or none of them as the path says",
            "the path says nothing",
        ),
        Column("source_file", "category", "file of the frontend's code", "not recorded"),
        Column("source_line", "Int64", "line in that file", "not recorded"),
        Column(
            "calls_count",
            "Int64",
            "executions in one run of the program: product of the enclosing trip counts",
            "a trip count is unknown, or it is reached through a branch",
        ),
        Column(
            "compute_flop",
            "Int64",
            "floating-point operations of one execution, transcendental ones aside",
            _COUNTED_ELSEWHERE,
        ),
        Column(
            "read_bytes", "Int64", "bytes read by one execution, of each operand what it touches", _COUNTED_ELSEWHERE
        ),
        Column("written_bytes", "Int64", "bytes written by one execution", _COUNTED_ELSEWHERE),
        Column(
            "payload_bytes",
            "Int64",
            "bytes a collective moves per device: the larger of its input and result",
            "not a collective",
        ),
        Column("fingerprint", "category", "the same for the same computation in another compilation, however numbered"),
    ),
)

_LINK = (
    Column("program_id", "category", "program of the instruction", "unlinked"),
    Column("instruction", "category", "the HLO instruction that launched it", "unlinked or ambiguous"),
    Column("method", "category", "`annotation`, `thunk`, `schedule` or `name`; `none` where unlinked"),
    Column("confidence", "category", "`certain`, `likely`, `ambiguous` or `unlinked`"),
    Column(
        "probability_ratio",
        "float64",
        "probability of the instruction by the model of the schedule",
        "no model was used",
    ),
    Column("candidates_count", "int64", "instructions that it may belong to"),
    Column("candidates", "category", "those instructions, most probable first, at most eight", "none, or one only"),
)

DISPATCH_EDGES = FrameSpec(
    name="DISPATCH_EDGES",
    meaning="One row per dispatch: the HLO instruction it belongs to, how that was found, and how sure it is.",
    key=("run", "process", "dispatch_id"),
    sort=("run", "process", "dispatch_id"),
    columns=(
        *_KEY,
        Column("dispatch_id", "int64", "as in DISPATCHES"),
        *_LINK,
        Column("thunk_id", "Int64", "thunk that launched it", "not placed in a thunk sequence"),
        Column(
            "execution_index",
            "Int64",
            "which execution of the program in this trace, from 0",
            "not placed in a thunk sequence",
        ),
        Column(
            "iterations",
            "category",
            "iterations of the enclosing loops from outside in, as `0/17`",
            "outside of loops, or not placed",
        ),
        Column("is_iteration_sure", "bool", "whether execution and iterations can be relied on"),
    ),
)

EVENT_EDGES = FrameSpec(
    name="EVENT_EDGES",
    meaning="One row per event of a JAX profile that could belong to an HLO instruction: which, how found, how sure.",
    key=("run", "host", "device", "line", "event_index"),
    sort=("run", "host", "device", "line", "event_index"),
    columns=(*_EVENT_KEY, *_LINK),
)

_DEVICE = Column("device", "category", "label of the device, as in AGENTS")

STEPS = FrameSpec(
    name="STEPS",
    meaning="One row per step and device: the window that counts as the step there, and how it was found.",
    key=("run", "device", "step_index"),
    sort=("run", "device", "step_index"),
    columns=(
        _RUN,
        _DEVICE,
        Column("step_index", "int64", "position among the steps found in this run, from 0; equal on every device"),
        Column("step_number", "Int64", "the job's own number of the step", "the method gives none"),
        Column("start_ns", "int64", "start of the window, trace clock"),
        Column("end_ns", "int64", "end of the window, trace clock"),
        Column("method", "category", "`annotation`, `range`, `period`, `window` (given by the user) or `whole`"),
        Column("is_complete", "bool", "whether the trace holds the whole step"),
        Column("is_warmup", "bool", "whether it compiles, autotunes, or is the first of its executable"),
        Column("step_class", "category", "`light` or `heavy` where durations fall into two groups", "one group"),
        Column("evidence", "category", "how the window was obtained: measured, declared or inferred"),
    ),
)

ATTRIBUTED = FrameSpec(
    name="ATTRIBUTED",
    meaning="One row per kernel or copy of a trace: the one class, phase and component that its time is booked under.",
    key=("run", "process", "kind", "event_id"),
    sort=("run", "device", "start_ns", "process", "kind", "event_id"),
    columns=(
        *_KEY,
        Column("kind", "category", "`dispatch` (row of DISPATCHES) or `copy` (row of COPIES)"),
        Column("event_id", "int64", "`dispatch_id` or `copy_id` of that row"),
        _DEVICE,
        Column("stream_id", "Int64", "HIP stream", "not recorded"),
        Column("name", "category", "kernel name, or kind of copy"),
        Column("start_ns", "int64", "start on the device, trace clock"),
        Column("end_ns", "int64", "end on the device, trace clock"),
        Column("activity", "category", "`compute`, `communication` or `copy`: each row is in exactly one"),
        Column(
            "phase",
            "category",
            "forward, backward, rematerialized, loss, accumulation, optimizer, input or unattributed",
        ),
        Column("component", "category", "component by the component map; `unattributed` where no rule fits"),
        Column("instruction", "category", "HLO instruction", "unlinked or ambiguous"),
        Column("program_id", "category", "program of the instruction", "unlinked or ambiguous"),
        Column("scope", "category", "scope of the instruction", "no instruction, or it has no op_name"),
        Column("collective", "category", "all-gather, all-reduce, ...", "not a collective, or its kind is unknown"),
        Column("payload_bytes", "Int64", "bytes the collective moves per device", "not a collective, or unknown"),
        Column(
            "gradient",
            "category",
            "of a backward matrix product: `dgrad` (of an activation) or `wgrad` (of a weight)",
            "no backward product, or shapes do not tell",
        ),
        Column("is_mixed", "bool", "whether its fusion holds instructions of another phase too"),
        Column("is_inferred", "bool", "whether phase or component come from the data flow or a kernel name alone"),
        Column("rule", "category", "what decided: the rule's name and, where a map did, its entry"),
        Column("step_index", "Int64", "step it is in (by its start)", "outside of every step"),
    ),
)

LEDGER = FrameSpec(
    name="LEDGER",
    meaning="One row per device, step, class, phase and component that has any time; the sums add up to all of it.",
    key=("run", "device", "step_index", "activity", "phase", "component"),
    sort=("run", "step_index", "device", "activity", "phase", "component"),
    columns=(
        _RUN,
        _DEVICE,
        Column("step_index", "Int64", "step, as in STEPS", "the whole trace is one row"),
        Column("activity", "category", "`compute`, `communication` or `copy`"),
        Column("phase", "category", "as in ATTRIBUTED"),
        Column("component", "category", "as in ATTRIBUTED"),
        Column("sum_ns", "int64", "durations added up"),
        Column("union_ns", "int64", "time covered by at least one row, overlaps counted once"),
        Column("mixed_ns", "int64", "part of `sum_ns` in fusions that hold another phase too"),
        Column("inferred_ns", "int64", "part of `sum_ns` whose phase or component is inferred"),
        Column("rows_count", "int64", "kernels and copies"),
        Column("evidence", "category", "measured; inferred where any of its rows is booked by inference"),
    ),
)

QUANTITIES = FrameSpec(
    name="QUANTITIES",
    meaning="One row per quantity of a counted dispatch, or of all counted dispatches of a kernel: what counters say.",
    key=("run", "role", "device_index", "kernel_name", "ordinal", "quantity"),
    sort=("run", "role", "device_index", "kernel_name", "ordinal", "quantity"),
    columns=(
        _RUN,
        Column("role", "category", "which process of the job: `rank <n>` where ranks are known, else `process <n>`"),
        Column("device_index", "int64", "index of the device among the GPUs of its node"),
        Column("kernel_name", "category", "clean kernel name"),
        Column(
            "ordinal",
            "Int64",
            "how many executions of this kernel by this process on this device, this one included",
            "the row is about all of them: the value is of the mean counters, so that ratios are sum over sum",
        ),
        Column("quantity", "category", "name of the quantity, as `rocktools counters show` explains it"),
        Column("value", "float64", "the value, in `unit`", "`absence` says why"),
        Column("unit", "category", "unit of the value"),
        Column("evidence", "category", "where it comes from", "there is no value"),
        Column("formula_id", "category", "formula that was used: the quantity and its architectures"),
        Column("absence", "category", "why there is no value", "there is one"),
        Column("lacking", "category", "counters or facts that it lacks", "it lacks none"),
        Column("doubts", "category", "what weakens the value: passes or dispatches that were mixed", "nothing does"),
        Column("dispatches_count", "int64", "executions that the value comes from; 0 where there is none"),
        Column("min_value", "float64", "smallest of the executions", "no execution has a value of its own"),
        Column("max_value", "float64", "largest of the executions", "no execution has a value of its own"),
        Column(
            "pass_spread_ratio",
            "float64",
            "largest difference between passes that read the same counter, relative to the larger value",
            "no counter of the formula was read in two passes",
        ),
    ),
)

SPECS = {
    spec.name: spec
    for spec in (
        DISPATCHES,
        COUNTED_DISPATCHES,
        COUNTER_VALUES,
        HOST_CALLS,
        RANGES,
        COPIES,
        ALLOCATIONS,
        SAMPLES,
        AGENTS,
        PROCESSES,
        KERNEL_SYMBOLS,
        DEVICE_EVENTS,
        HOST_EVENTS,
        PROFILED_DEVICES,
        PROGRAMS,
        INSTRUCTIONS,
        DISPATCH_EDGES,
        EVENT_EDGES,
        STEPS,
        ATTRIBUTED,
        LEDGER,
        QUANTITIES,
    )
}

# Numeric columns that are identities, indices or raw values, and so end in no unit.
UNITLESS_SUFFIXES = ("_id", "_index", "_pass", "_value")
UNITLESS = frozenset({"pid", "ppid", "rank", "address", "value", "ordinal", "step_number", "source_line"})
