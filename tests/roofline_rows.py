"""Work for rooflines, written by hand: rows of ROOFLINE_WORK, and a device of round numbers."""

from __future__ import annotations

import pandas as pd

from rocktools.devices.device import Bandwidth, Device, Level, Peak, Sparsity, Unit
from rocktools.evidence import Evidence
from rocktools.frames import require_frame
from rocktools.roofline.work import WORK, WorkOrigin

ORIGIN = WorkOrigin(
    level=Level.HBM,
    flop_evidence=Evidence.COMPILER_ESTIMATE,
    bytes_evidence=Evidence.COMPILER_ESTIMATE,
    bytes_label="by hand",
)


def round_device(*, peaks: dict[tuple[str, str], float] | None = None, bytes_per_s: float = 1e9, **more) -> Device:
    """1 FLOP per ns in bf16 matrix, a tenth in f32 vector, 1 byte per ns: the ridge of bf16 is at 1 FLOP/B."""
    rates = peaks or {("matrix", "bf16"): 1e9, ("vector", "f32"): 1e8}
    facts = {
        "part": "ROUND", "title": "Round part", "architecture": "gfx0", "partition": "SPX", "memory_partition": "NPS1",
        "xcd_count": 1, "cu_count": 1, "clock_hz": 10**9, "simd_per_cu_count": 4, "l2_channels_count": 1,
        "lds_per_cu_bytes": 1, "l2_bytes": 1, "memory_bytes": 1,
    }  # fmt: skip
    return Device(
        **{**facts, **more},
        peaks=tuple(
            Peak(
                dtype=dtype, unit=Unit(unit), sparsity=Sparsity.DENSE, flop_per_s=rate, evidence=Evidence.DECLARED,
                source="made up for a test",
            )
            for (unit, dtype), rate in rates.items()
        ),
        bandwidths=tuple(
            Bandwidth(level=level, name=str(level), bytes_per_s=rate, evidence=Evidence.DECLARED, source="made up")
            for level, rate in ((Level.HBM, bytes_per_s), (Level.NETWORK, bytes_per_s / 10))
        ),
    )  # fmt: skip


def work_rows(*rows: dict) -> pd.DataFrame:
    """ROOFLINE_WORK; what a row does not say is one execution of 100 ns in bf16 on matrix units of one device."""
    usual = {
        "run": "r", "device": "gpu0", "name": "k", "start_ns": 0, "end_ns": 100, "unit": "matrix", "dtype": "bf16",
        "compute_flop": None, "moved_bytes": None, "is_counted": True, "is_certain": True, "is_execution": True,
    }  # fmt: skip
    frame = pd.DataFrame([{**usual, **row} for row in rows])
    for column in WORK.columns:
        frame[column.name] = frame[column.name].astype(column.dtype)
    return require_frame(frame[list(WORK.names)], WORK)
