"""Ceilings that a user measured -> figures that go before those of the vendor.

Three kinds of files, told apart by what is in them: YAML (`rocktools.ceilings/1`), roofline.csv of rocprof-compute, and
what rccl-tests or nccl-tests print. A file may speak of several levels, or of one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rocktools.devices.collective_tests import looks_like_collective_test, parse_collective_test
from rocktools.devices.device import DTYPES, Bandwidth, Device, Level, Peak, Sparsity, Unit
from rocktools.devices.roofline_csv import looks_like_roofline_csv, parse_roofline_csv
from rocktools.errors import InputError, UnknownFormat
from rocktools.evidence import Evidence
from rocktools.findings import Finding, Severity
from rocktools.yaml_file import Place, YamlFile, parse_yaml

SCHEMA = "rocktools.ceilings/1"
_REFERENCE = "ceilings-file"
# A micro-benchmark below this share of the vendor's figure did not saturate its unit (BF16 of rocprof-compute on
# gfx950 gave a quarter: ROCm/rocm-systems#3948); above the other, figure or partition are not those of this device.
_LOW_RATIO = 0.4
_HIGH_RATIO = 1.02


@dataclass(frozen=True, slots=True, kw_only=True)
class Ceilings:
    """What a file gives.

    Attributes:
        peaks, bandwidths: measured figures.
        device: name of the part they are of; None where the file does not say.
        partition: compute partition; None where the file does not say.
        source: the file.
    """

    peaks: tuple[Peak, ...]
    bandwidths: tuple[Bandwidth, ...]
    source: str
    device: str | None = None
    partition: str | None = None


def read_ceilings(path: Path) -> Ceilings:
    """The measured ceilings of a file.

    Raises:
        InputError: the file cannot be read, or is none of the three kinds.
    """
    try:
        text = path.read_text(encoding="utf-8", errors="replace")
    except OSError as error:
        raise InputError(_REFERENCE, f"the file cannot be read: {error.strerror or error}", where=str(path)) from error
    return parse_ceilings(text, source=str(path))


def parse_ceilings(text: str, *, source: str) -> Ceilings:
    """The measured ceilings of a text.

    Raises:
        InputError: it is none of the three kinds, or one with a mistake in it.
    """
    if looks_like_collective_test(text):
        test = parse_collective_test(text, source=source)
        return Ceilings(peaks=(), bandwidths=(test.bandwidth(),), source=source)
    if looks_like_roofline_csv(text):
        peaks, bandwidths = parse_roofline_csv(text, source=source)
        return Ceilings(peaks=peaks, bandwidths=bandwidths, source=source)
    if not text.strip() or "\0" in text:
        raise UnknownFormat(_REFERENCE, "the file is empty or binary, and holds no ceilings", where=source)
    return _build(parse_yaml(text, source=source, reference=_REFERENCE))


def apply_ceilings(device: Device, ceilings: Ceilings) -> tuple[Device, tuple[Finding, ...]]:
    """The device with these figures before its own, and what is doubtful about them.

    Raises:
        InputError: the file says that it is of another part or partition.
    """
    for name, said, is_of in (
        ("part", ceilings.device, device.part),
        ("partition", ceilings.partition, device.partition),
    ):
        if said is not None and said.upper() != is_of.upper():
            raise InputError(
                "ceilings-of-another-device",
                f"the ceilings are of {name} {said}, and the device is {device.label}",
                where=ceilings.source,
                hint=f"ceilings of {device.label}, or --part and --partition",
            )
    figures: tuple[Peak | Bandwidth, ...] = (*ceilings.peaks, *ceilings.bandwidths)
    doubts = [_compare(figure, device, ceilings.source) for figure in figures]
    findings = [doubt for doubt in doubts if doubt is not None]
    return device.with_figures(ceilings.peaks, ceilings.bandwidths), tuple(findings)


def _compare(measured: Peak | Bandwidth, device: Device, source: str) -> Finding | None:
    """A doubt about a figure that is far from the vendor's."""
    if isinstance(measured, Peak):
        stated = device.find_peak(measured.dtype, measured.unit, measured.sparsity)
        known = None if stated is None else stated.flop_per_s
        value, what = measured.flop_per_s, f"{measured.unit} {measured.dtype}"
    else:
        bandwidth = device.find_bandwidth(measured.level)
        known = None if bandwidth is None else bandwidth.bytes_per_s
        value, what = measured.bytes_per_s, str(measured.level)
    if known is None:
        return None
    ratio = value / known
    if _LOW_RATIO <= ratio <= _HIGH_RATIO or (ratio < _LOW_RATIO and isinstance(measured, Bandwidth)):
        return None
    is_low = ratio < _LOW_RATIO
    return Finding(
        rule="ceiling-far-below-peak" if is_low else "ceiling-above-peak",
        severity=Severity.WARNING,
        where=source,
        message=f"the measured ceiling of {what} is {100 * ratio:.1f} % of what is stated for {device.label}",
        numbers={"measured_value": value, "stated_value": known, "ratio": ratio},
        advice="the benchmark did not fill the units: leave the figure out"
        if is_low
        else "it was measured on another part or partition, or counts something else",
    )


def _build(file: YamlFile) -> Ceilings:
    file.require_schema(_REFERENCE, SCHEMA)
    optional = ("device", "partition", "flop_per_s", "bytes_per_s")
    top = file.require_mapping(_REFERENCE, (), file.value, required=("schema", "source"), optional=optional)
    source = f"{file.require_text(_REFERENCE, ('source',), top['source'])} ({file.source})"
    units = file.require_mapping(_REFERENCE, ("flop_per_s",), top.get("flop_per_s", {}), optional=("matrix", "vector"))
    peaks = [
        Peak(
            dtype=dtype,
            unit=Unit(unit),
            sparsity=Sparsity.DENSE,
            flop_per_s=_positive(file, ("flop_per_s", unit, dtype), value),
            evidence=Evidence.MEASURED,
            source=source,
        )
        for unit, values in units.items()
        for dtype, value in file.require_mapping(_REFERENCE, ("flop_per_s", unit), values, optional=DTYPES).items()
    ]
    levels: Mapping[str, Any] = file.require_mapping(
        _REFERENCE, ("bytes_per_s",), top.get("bytes_per_s", {}), optional=tuple(map(str, Level))
    )
    bandwidths = [
        Bandwidth(
            level=Level(level),
            name=str(level),
            bytes_per_s=_positive(file, ("bytes_per_s", level), value),
            evidence=Evidence.MEASURED,
            source=source,
        )
        for level, value in levels.items()
    ]
    if not peaks and not bandwidths:
        raise file.complaint(_REFERENCE, (), "the file gives no ceiling", "flop_per_s: or bytes_per_s:")
    return Ceilings(
        peaks=tuple(peaks),
        bandwidths=tuple(bandwidths),
        source=file.source,
        device=_text(file, top, "device"),
        partition=_text(file, top, "partition"),
    )


def _text(file: YamlFile, top: Mapping[str, Any], key: str) -> str | None:
    return file.require_text(_REFERENCE, (key,), top[key]) if key in top else None


def _positive(file: YamlFile, place: Place, value: Any) -> float:
    """A rate. YAML reads 6.2e12 as a text, since it asks for a sign in the exponent: that is meant as a number."""
    try:
        number = float(value) if not isinstance(value, bool) else float("nan")
    except (TypeError, ValueError):
        number = float("nan")
    if not 0 < number < float("inf"):
        raise file.complaint(_REFERENCE, place, f"must be a rate above 0, but is {value!r}")
    return number
