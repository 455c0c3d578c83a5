"""roofline.csv of rocprof-compute -> measured ceilings.

One row per device; columns `X, XLow, XHigh`, whose spelling differs between versions (`hbmBwHigh`, `MFMAFI8OpsLow`,
first column `device` or `devID`), in GB/s and GFLOP/s. Versions from 3.0 to 3.10. Several devices: the largest value
counts, since a ceiling is what hardware of the kind was seen to reach.
"""

from __future__ import annotations

import csv
import io
import math

from rocktools.devices.device import Bandwidth, Level, Peak, Sparsity, Unit
from rocktools.errors import DamagedFile, NothingToRead
from rocktools.evidence import Evidence

_GIGA = 1e9
_IDS = ("device", "devid")
_LEVELS = {
    "hbmbw": Level.HBM,
    "mallbw": Level.FABRIC_CACHE,
    "l2bw": Level.L2,
    "l1bw": Level.L1,
    "ldsbw": Level.LDS,
}
_MATRIX = {
    "mfmaf64flops": ("f64",),
    "mfmaf32flops": ("f32",),
    "mfmaf16flops": ("f16",),
    "mfmabf16flops": ("bf16",),
    "mfmaf8flops": ("f8",),
    "mfmaf6flops": ("f6",),
    "mfmaf4flops": ("f4",),
    "mfma_flops_f6f4": ("f6", "f4"),
    "mfmai8ops": ("s8",),
}
_VECTOR = {"fp64flops": "f64", "fp32flops": "f32", "fp16flops": "f16", "bf16flops": "bf16"}


def looks_like_roofline_csv(text: str) -> bool:
    """Whether the first line names a device and at least one ceiling."""
    names = {name.strip().lower() for name in text.partition("\n")[0].split(",")}
    return not names.isdisjoint(_IDS) and not names.isdisjoint((*_LEVELS, *_MATRIX, *_VECTOR))


def parse_roofline_csv(text: str, *, source: str) -> tuple[tuple[Peak, ...], tuple[Bandwidth, ...]]:
    """Peaks and bandwidths, of every device the largest; zeros and gaps are no measurements.

    Raises:
        DamagedFile: a value is no number.
        NothingToRead: there is no row, or nothing was measured.
    """
    rows = [
        {(name or "").strip().lower(): value for name, value in row.items() if isinstance(value, str)}
        for row in csv.DictReader(io.StringIO(text))
    ]
    largest: dict[str, float] = {}
    for number, row in enumerate(rows, start=2):
        for name in (*_LEVELS, *_MATRIX, *_VECTOR):
            value = _number(row.get(name, ""), f"{source}:{number}: {name}")
            if value > 0:
                largest[name] = max(largest.get(name, 0.0), value)
    if not largest:
        raise NothingToRead("roofline-csv-empty", "the file holds no measured ceiling", where=source)
    said = f"rocprof-compute, {source}" + (f", largest of {len(rows)} devices" if len(rows) > 1 else "")
    matrix = [(dtype, Unit.MATRIX, name) for name, dtypes in _MATRIX.items() for dtype in dtypes]
    vector = [(dtype, Unit.VECTOR, name) for name, dtype in _VECTOR.items()]
    peaks = tuple(
        Peak(
            dtype=dtype,
            unit=unit,
            sparsity=Sparsity.DENSE,
            flop_per_s=largest[name] * _GIGA,
            evidence=Evidence.MEASURED,
            source=said,
        )
        for dtype, unit, name in (*matrix, *vector)
        if name in largest
    )
    bandwidths = tuple(
        Bandwidth(
            level=level,
            name=str(level),
            bytes_per_s=largest[name] * _GIGA,
            evidence=Evidence.MEASURED,
            source=said,
        )
        for name, level in _LEVELS.items()
        if name in largest
    )
    return peaks, bandwidths


def _number(text: str, where: str) -> float:
    """0 for a gap."""
    if not text.strip():
        return 0.0
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise DamagedFile("roofline-csv-number", f"{text!r} is no number", where=where)
    return value
