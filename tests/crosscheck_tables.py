"""A profile of two devices whose figures are known by hand, and tables as other tools write them."""

from __future__ import annotations

import csv
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rocktools.demo.xspace_writer import (
    LineRecord,
    SpaceRecord,
    annotation_stats,
    gpu_plane,
    kernel_event,
    write_xspace,
)

# Device 0: a product in [0, 1000) ns, a collective in [500, 1500), a kernel without an instruction in [2000, 2500).
# Device 1: the product in [0, 3000).
PRODUCT, COLLECTIVE, OTHER = "Cijk_Ailk_MT64.kd", "ncclDevKernel_Generic.kd", "loop_fusion.kd"
TIMELINE_MEAN_NS = {
    "computation_time": 2250,  # (1000 + 500, 3000)
    "exposed_comm_time": 250,  # (500, 0): of the collective's 1000 the product covers 500
    "exposed_memcpy_time": 0,
    "busy_time": 2500,  # (2000, 3000)
    "idle_time": 250,  # (500, 0)
    "total_time": 2750,  # (2500, 3000)
    "total_comm_time": 500,  # (1000, 0)
    "total_memcpy_time": 0,
}
TIMELINE_FIRST_NS = {
    "computation_time": 1500,
    "exposed_comm_time": 500,
    "exposed_memcpy_time": 0,
    "busy_time": 2000,
    "idle_time": 500,
    "total_time": 2500,
    "total_comm_time": 1000,
    "total_memcpy_time": 0,
}


def write_two_devices(path: Path) -> Path:
    def event(name: str, start_ns: int, end_ns: int, number: int, operation: str | None = None) -> Any:
        annotation = None if operation is None else annotation_stats(operation, "jit_step", 7)
        return kernel_event(
            name.removesuffix(".kd"),
            offset_ps=1000 * start_ns,
            duration_ps=1000 * (end_ns - start_ns),
            correlation_id=number,
            annotation=annotation,
        )

    first = [
        LineRecord(
            name="Stream #1(Kernel)",
            id=1,
            timestamp_ns=1_000,
            events=[event(PRODUCT, 0, 1000, 1, "custom-call.1"), event(OTHER, 2000, 2500, 3)],
        ),
        LineRecord(
            name="Stream #2(Kernel)",
            id=2,
            timestamp_ns=1_000,
            events=[event(COLLECTIVE, 500, 1500, 2, "all-reduce.1")],
        ),
    ]
    second = [
        LineRecord(
            name="Stream #1(Kernel)", id=1, timestamp_ns=1_000, events=[event(PRODUCT, 0, 3000, 4, "custom-call.1")]
        )
    ]
    return write_xspace(path, SpaceRecord(planes=[gpu_plane(0, first), gpu_plane(1, second)]))


def chart(rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """A table as xprof hands it to charts."""
    names = list(rows[0]) if rows else []
    return {
        "cols": [{"id": name, "label": name, "type": "string"} for name in names],
        "rows": [{"c": [{"v": row[name]} for name in names]} for row in rows],
    }


def kernel_row(name: str, *, count: int, total_us: float, least_us: float, most_us: float) -> dict[str, Any]:
    return {
        "kernel_name": name,
        "shmem_bytes": 0.0,
        "block_dim": "256,1,1",
        "grid_dim": "1,1,1",
        "op_name": "",
        "occurrences": float(count),
        "total_duration_us": total_us,
        "avg_duration_us": total_us / count,
        "min_duration_us": least_us,
        "max_duration_us": most_us,
    }


KERNELS = (
    kernel_row(PRODUCT, count=2, total_us=4.0, least_us=1.0, most_us=3.0),
    kernel_row(COLLECTIVE, count=1, total_us=1.0, least_us=1.0, most_us=1.0),
    kernel_row(OTHER, count=1, total_us=0.5, least_us=0.5, most_us=0.5),
)


def framework_row(where: str, operation: str, *, count: int, total_us: float, share: float) -> dict[str, Any]:
    return {
        "host_or_device": where,
        "type": "Unknown",
        "operation": operation,
        "occurrences": float(count),
        "total_time": total_us,
        "avg_time": total_us / count if count else 0.0,
        "total_self_time": total_us,
        "device_total_self_time_percent": share,
    }


# The spans are 2.5 and 3 us, the annotated events 4 and 1 us: idle is 0.5 us, though the second device never was, and
# the first was for 0.5 us; the collective and the product run at once, and the last kernel has no instruction.
FRAMEWORK = (
    framework_row("Device", "custom-call.1", count=2, total_us=4.0, share=4 / 5.5),
    framework_row("Device", "all-reduce.1", count=1, total_us=1.0, share=1 / 5.5),
    framework_row("Device", "IDLE", count=0, total_us=0.5, share=0.5 / 5.5),
)


def write_charts(folder: Path, **tables: Sequence[Mapping[str, Any]]) -> Path:
    folder.mkdir(exist_ok=True)
    for name, rows in tables.items():
        (folder / f"{name}.json").write_text(json.dumps(chart(rows)))
    return folder


def write_sheet(folder: Path, name: str, rows: Sequence[Mapping[str, Any]]) -> Path:
    folder.mkdir(exist_ok=True)
    with (folder / f"{name}.csv").open("w", newline="") as stream:
        writer = csv.DictWriter(stream, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    return folder


def timeline_rows(times_ns: Mapping[str, float]) -> list[dict[str, Any]]:
    whole = times_ns["total_time"]
    return [{"type": n, "time ms": t / 1e6, "percent": 100 * t / whole} for n, t in times_ns.items()]
