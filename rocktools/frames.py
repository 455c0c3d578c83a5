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
    Column("grid_workitems_x", "Int64", "grid in work-items (not workgroups), x", _NOT_RECORDED),
    Column("grid_workitems_y", "Int64", "grid in work-items, y", _NOT_RECORDED),
    Column("grid_workitems_z", "Int64", "grid in work-items, z", _NOT_RECORDED),
    Column("workgroup_workitems_x", "Int64", "workgroup in work-items, x", _NOT_RECORDED),
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
        Column("min_value", "float64", "smallest instance"),
        Column("max_value", "float64", "largest instance"),
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
    )
}

# Numeric columns that are identities, indices or raw values, and so end in no unit.
UNITLESS_SUFFIXES = ("_id", "_index", "_pass", "_value")
UNITLESS = frozenset({"pid", "ppid", "rank", "address", "value"})
