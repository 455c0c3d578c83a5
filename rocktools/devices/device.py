"""One logical device: what it can calculate and move per second, each figure with its source.

A device is a part in a partition (see `part`). Figures are the vendor's (evidence `declared`), or the user's own
measurements (`measured`), which go first. Nothing here knows a part by name, and code holds no peak.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from enum import Enum

from rocktools.errors import UsageError, nearest_names
from rocktools.evidence import Evidence


class Unit(str, Enum):
    """Which of the two kinds of arithmetic units."""

    MATRIX = "matrix"
    VECTOR = "vector"

    def __str__(self) -> str:
        return self.value


class Sparsity(str, Enum):
    """Whether operands keep the 2:4 pattern that lets matrix units skip half of the products."""

    DENSE = "dense"
    STRUCTURED = "2:4"

    def __str__(self) -> str:
        return self.value


class Level(str, Enum):
    """Where bytes are counted."""

    HBM = "hbm"
    FABRIC_CACHE = "fabric_cache"  # memory-side: MALL, Infinity Cache
    L2 = "l2"
    L1 = "l1"
    LDS = "lds"
    NETWORK = "network"

    def __str__(self) -> str:
        return self.value


DTYPES = ("f64", "f32", "tf32", "f16", "bf16", "f8", "s8", "f6", "f4")
"""Formats that peaks are stated for, by HLO's names without the variants of f8, f6 and f4."""
_OTHER_NAMES = {"xf32": "tf32", "i8": "s8", "int8": "s8", "u8": "s8", "half": "f16", "bfloat16": "bf16"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Peak:
    """A rate of arithmetic.

    Attributes:
        dtype: one of `DTYPES`.
        unit: which units.
        sparsity: of the operands.
        flop_per_s: the rate, of integers too.
        evidence: `declared` by the vendor, or `measured`.
        source: document, or the file of a measurement.
        note: what to know about it; "" where there is nothing.
    """

    dtype: str
    unit: Unit
    sparsity: Sparsity
    flop_per_s: float
    evidence: Evidence
    source: str
    note: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Bandwidth:
    """How many bytes per second a level moves, for this device.

    Attributes:
        level: which one.
        name: of the level for people: `HBM3E`, `xgmi, 7 links`.
        bytes_per_s: the rate; of links in one direction.
        evidence: `declared` by the vendor, or `measured`.
        source: document, or the file of a measurement.
        note: what to know about it; "" where there is nothing.
        sharing_count: logical devices that have it together, this one included.
    """

    level: Level
    name: str
    bytes_per_s: float
    evidence: Evidence
    source: str
    note: str = ""
    sharing_count: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Device:
    """A logical device.

    Attributes:
        part: name of the part, as in `read_device`.
        title: with the vendor.
        architecture: gfx950, ...
        partition: compute partition: SPX, DPX, ...
        memory_partition: NPS1, ...
        xcd_count, cu_count, simd_per_cu_count, l2_channels_count: of this logical device.
        clock_hz: highest shader clock, which the peaks are computed with.
        lds_per_cu_bytes, l2_bytes: sizes; None where no source says.
        memory_bytes: what it can reach of the package's memory.
        peaks: measured ones first.
        bandwidths: measured ones first.
    """

    part: str
    title: str
    architecture: str
    partition: str
    memory_partition: str
    xcd_count: int
    cu_count: int
    clock_hz: int
    simd_per_cu_count: int | None
    l2_channels_count: int | None
    lds_per_cu_bytes: int | None
    l2_bytes: int | None
    memory_bytes: int
    peaks: tuple[Peak, ...]
    bandwidths: tuple[Bandwidth, ...]

    @property
    def label(self) -> str:
        """Part and partition: `MI355X SPX/NPS1`."""
        return f"{self.part} {self.partition}/{self.memory_partition}"

    def find_peak(
        self, dtype: str, unit: Unit | str = Unit.MATRIX, sparsity: Sparsity | str = Sparsity.DENSE
    ) -> Peak | None:
        """The peak; measured, where there is a measurement; None where the device has no such units."""
        wanted = (dtype_family(dtype), Unit(unit), Sparsity(sparsity))
        return next((peak for peak in self.peaks if (peak.dtype, peak.unit, peak.sparsity) == wanted), None)

    def peak(self, dtype: str, unit: Unit | str = Unit.MATRIX, sparsity: Sparsity | str = Sparsity.DENSE) -> Peak:
        """The peak; measured, where there is a measurement.

        Raises:
            UsageError: the device has no such units.
        """
        found = self.find_peak(dtype, unit, sparsity)
        if found is None:
            has = [peak.dtype for peak in self.peaks if peak.unit is Unit(unit) and peak.sparsity is Sparsity(sparsity)]
            raise UsageError(
                "no-such-peak",
                f"{self.part} has no {Sparsity(sparsity)} {Unit(unit)} peak of {dtype}",
                hint=f"it has {', '.join(dict.fromkeys(has)) or 'none of these'}",
            )
        return found

    def find_bandwidth(self, level: Level | str) -> Bandwidth | None:
        """The bandwidth; measured, where there is a measurement; None where nobody has published one."""
        return next((each for each in self.bandwidths if each.level is Level(level)), None)

    def bandwidth(self, level: Level | str) -> Bandwidth:
        """The bandwidth; measured, where there is a measurement.

        Raises:
            UsageError: no figure is known.
        """
        found = self.find_bandwidth(level)
        if found is None:
            raise UsageError(
                "no-such-bandwidth",
                f"no bandwidth of {Level(level)} is published for {self.part}",
                hint="measure it, and give the figure with --ceilings FILE",
            )
        return found

    def ridge(self, dtype: str, level: Level | str = Level.HBM, unit: Unit | str = Unit.MATRIX) -> float:
        """FLOP per byte at which the dense peak meets the bandwidth of a level.

        Raises:
            UsageError: the device lacks one of the two.
        """
        return self.peak(dtype, unit).flop_per_s / self.bandwidth(level).bytes_per_s

    def with_figures(self, peaks: tuple[Peak, ...] = (), bandwidths: tuple[Bandwidth, ...] = ()) -> Device:
        """The same device with figures that go before its own."""
        return replace(self, peaks=(*peaks, *self.peaks), bandwidths=(*bandwidths, *self.bandwidths))


def dtype_family(name: str) -> str:
    """The format that a peak is stated for: `f8e4m3fn`, `fp8` and `F8` are f8.

    Raises:
        UsageError: no peak is stated for it.
    """
    found = find_dtype_family(name)
    if found is None:
        near = nearest_names(name, DTYPES) or DTYPES
        raise UsageError("unknown-dtype", f"no peak is stated for {name!r}", hint=f"one of: {', '.join(near)}")
    return found


def find_dtype_family(name: str) -> str | None:
    """The format that a peak is stated for; None where none is."""
    short = re.sub(r"^(fp|float)(?=\d)", "f", name.strip().lower())
    short = _OTHER_NAMES.get(short, short)
    if short in DTYPES:
        return short
    variant = re.fullmatch(r"(f[468])e\d+m\d+\w*", short)
    return variant[1] if variant else None
