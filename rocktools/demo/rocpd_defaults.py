"""What rocprofv3 writes about nodes, processes, agents, kernels and counters when nothing special is wanted.

Pure functions from a few facts to the columns of one row; rocpd_writer and rocpd_trace put them into tables.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from rocktools.demo.rocpd_file import Value

NODE_ID = 0x5EED_0001
PID = 4242
# CLOCK_BOOTTIME of a node that has been up for 42 hours, as in the recorded files.
START_NS = 150_000_000_000_000

CALL_CATEGORY = "HIP_RUNTIME_API_EXT"
RANGE_CATEGORY = "MARKER_CORE_RANGE_API"
RANGE_FUNCTION = "roctxThreadRangeA"

# What an MI355X says of itself (rocprofiler_agent_t as JSON, the fields readers use); from a recorded MI350X, with the
# MI355X's device id and shader clock. Clocks in MHz.
MI355X_EXTDATA: Mapping[str, object] = MappingProxyType(
    {
        "type": 2,
        "simd_count": 1024,
        "max_waves_per_simd": 8,
        "lds_size_in_kb": 160,
        "wave_front_size": 64,
        "num_xcc": 8,
        "cu_count": 256,
        "array_count": 32,
        "num_shader_banks": 32,
        "simd_per_cu": 4,
        "gfx_target_version": 90500,
        "vendor_id": 4098,
        "device_id": 30115,
        "max_engine_clk_fcompute": 2400,
        "max_waves_per_cu": 32,
        "name": "gfx950",
        "product_name": "AMD Instinct MI355X",
    }
)
_CPU_EXTDATA: Mapping[str, object] = MappingProxyType(
    {"type": 1, "cpu_cores_count": 64, "num_xcc": 1, "cu_count": 64, "simd_per_cu": 0, "max_engine_clk_fcompute": 0}
)
_CPU_NAME = "Simulated 64-Core Processor"
_NODE_HASH = 0x5EED_0001_5EED_0001
_ADDRESSES = 0x7F00_0000_0000


def node_columns() -> dict[str, Value]:
    """The node; its id is 32 bits, its hash 63."""
    return {
        "id": NODE_ID,
        "hash": _NODE_HASH,
        "machine_id": f"{_NODE_HASH:032x}",
        "system_name": "Linux",
        "hostname": "simulated-node",
        "release": "6.8.0-simulated",
        "version": "#1 SMP",
        "hardware_name": "x86_64",
        "domain_name": "(none)",
    }


def process_columns(pid: int) -> dict[str, Value]:
    """A process of one second; its id is the operating system's."""
    return {
        "id": pid,
        "ppid": pid - 1,
        "pid": pid,
        "init": START_NS,
        "fini": START_NS + 1_000_000_000,
        "start": START_NS,
        "end": START_NS + 1_000_000_000,
        "command": "python train.py",
        "environment": "{}",
    }


def agent_columns(kind: str, index: int, type_index: int) -> dict[str, Value]:
    """An agent: an MI355X where `kind` is GPU. Its id is `index`, its number among all agents."""
    is_gpu = kind == "GPU"
    product = "AMD Instinct MI355X" if is_gpu else _CPU_NAME
    return {
        "id": index,
        "type": kind,
        "absolute_index": index,
        "logical_index": index,
        "type_index": type_index,
        "uuid": 30115 if is_gpu else 0,
        "name": "gfx950" if is_gpu else _CPU_NAME,
        "model_name": "ip discovery" if is_gpu else "",
        "vendor_name": "AMD" if is_gpu else "CPU",
        "product_name": product,
        "user_name": product,
        "extdata": MI355X_EXTDATA if is_gpu else _CPU_EXTDATA,
    }


def code_object_columns(row_id: int, pid: int) -> dict[str, Value]:
    """A code object in memory; the tool leaves storage_type NULL and says it in extdata."""
    base = _ADDRESSES + row_id * 0x10_0000
    return {
        "id": row_id,
        "uri": f"memory://{pid}#offset=0x{row_id:x}000&size=32768",
        "load_base": base,
        "load_size": 36864,
        "load_delta": base,
        "extdata": {
            "size": 88,
            "code_object_id": row_id,
            "storage_type": 2,
            "memory_base": 0x1000 * row_id,
            "memory_size": 32768,
        },
    }


def kernel_symbol_columns(name: str, kernel_id: int) -> dict[str, Value]:
    """A kernel symbol; `name` is what people read, without `.kd`."""
    return {
        "id": kernel_id,
        "kernel_name": f"{name}.kd",
        "display_name": name,
        "kernel_object": _ADDRESSES + kernel_id * 64,
        "kernarg_segment_size": 64,
        "kernarg_segment_alignment": 16,
        "group_segment_size": 0,
        "private_segment_size": 0,
        "sgpr_count": 32,
        "arch_vgpr_count": 32,
        "accum_vgpr_count": 0,
        "extdata": {
            "size": 88,
            "kernel_id": kernel_id,
            "kernel_code_entry_byte_offset": 4096,
            "kernel_address": {"handle": _ADDRESSES + kernel_id * 0x1000},
            "formatted_kernel_name": name,
            "demangled_kernel_name": f"{name} [clone .kd]",
            "truncated_kernel_name": name.partition("(")[0],
        },
    }


def is_derived_counter(name: str) -> bool:
    """Whether the tool computes this counter from others (one value per dispatch instead of one per instance)."""
    return name.endswith(("_sum", "_max", "_avr"))


def counter_columns(name: str) -> dict[str, Value]:
    """The description of a counter."""
    raw, _, reduction = name.rpartition("_")
    is_derived = is_derived_counter(name)
    return {
        "target_arch": "GPU",
        "event_code": 0,
        "instance_id": 0,
        "name": name,
        "symbol": name,
        "description": f"{name} (simulated)",
        "component": "rocprofiler-sdk",
        "value_type": "ABS",
        "block": "" if is_derived else name.split("_")[0],
        "expression": f"reduce({raw},{reduction})" if is_derived else "",
        "is_constant": 0,
        "is_derived": int(is_derived),
    }
