"""Peaks of the shipped parts: every derived figure again from units, rate and clock, and the published digits."""

from __future__ import annotations

import json
from pathlib import Path

import jsonschema
import pytest
import yaml

import rocktools.devices
from rocktools.devices.device import Device, Level, Sparsity, Unit, dtype_family, find_dtype_family
from rocktools.devices.files import read_device, read_nics, read_part, read_part_file, shipped_parts
from rocktools.errors import InputError, UnsupportedVersion, UsageError
from rocktools.evidence import Evidence

FOLDER = Path(rocktools.devices.__file__).parent
AMD = ("MI300A", "MI300X", "MI325X", "MI350X", "MI355X")

# Vendor's tables, not our files: XCDs, compute units of each, MHz.
UNITS = {
    "MI355X": (8, 32, 2400),
    "MI350X": (8, 32, 2200),
    "MI300X": (8, 38, 2100),
    "MI325X": (8, 38, 2100),
    "MI300A": (6, 38, 2100),
}
# FLOP per compute unit and cycle, dense.
CDNA3 = {
    ("matrix", "f64"): 256, ("matrix", "f32"): 256, ("matrix", "tf32"): 1024, ("matrix", "f16"): 2048,
    ("matrix", "bf16"): 2048, ("matrix", "f8"): 4096, ("matrix", "s8"): 4096,
    ("vector", "f64"): 128, ("vector", "f32"): 256, ("vector", "f16"): 256, ("vector", "bf16"): 256,
}  # fmt: skip
CDNA4 = {
    ("matrix", "f64"): 128, ("matrix", "f32"): 256, ("matrix", "f16"): 4096, ("matrix", "bf16"): 4096,
    ("matrix", "f8"): 8192, ("matrix", "s8"): 8192, ("matrix", "f6"): 16384, ("matrix", "f4"): 16384,
    ("vector", "f64"): 128, ("vector", "f32"): 256, ("vector", "f16"): 256, ("vector", "bf16"): 256,
}  # fmt: skip

# TFLOP/s as AMD prints them.
PUBLISHED = [
    ("MI355X", "matrix", "bf16", "dense", 2516.58), ("MI355X", "matrix", "bf16", "2:4", 5033.16),
    ("MI355X", "matrix", "f8", "dense", 5033.16), ("MI355X", "matrix", "f8", "2:4", 10066.33),
    ("MI355X", "matrix", "f4", "dense", 10066.33), ("MI355X", "matrix", "f64", "dense", 78.64),
    ("MI355X", "vector", "f32", "dense", 157.29), ("MI350X", "matrix", "bf16", "dense", 2306.87),
    ("MI350X", "matrix", "f6", "dense", 9227.47), ("MI350X", "vector", "f64", "dense", 72.09),
    ("MI300X", "matrix", "bf16", "dense", 1307.44), ("MI300X", "matrix", "f8", "2:4", 5229.77),
    ("MI300X", "matrix", "tf32", "dense", 653.72), ("MI300X", "matrix", "f64", "dense", 163.43),
    ("MI325X", "vector", "f64", "dense", 81.72), ("MI300A", "matrix", "bf16", "dense", 980.58),
    ("MI300A", "matrix", "f64", "dense", 122.57), ("H100-SXM", "matrix", "bf16", "dense", 989.0),
]  # fmt: skip


@pytest.mark.parametrize("part", AMD)
def test_every_derived_peak_is_units_times_rate_times_clock(part):
    xcds, cus, mhz = UNITS[part]
    rates = CDNA4 if part.startswith("MI35") else CDNA3
    device = read_device(part)
    assert (device.xcd_count, device.cu_count, device.clock_hz) == (xcds, xcds * cus, mhz * 10**6)
    dense = {(str(p.unit), p.dtype): p.flop_per_s for p in device.peaks if p.sparsity is Sparsity.DENSE}
    assert dense == {key: xcds * cus * mhz * 10**6 * rate for key, rate in rates.items()}
    sparse = {(str(p.unit), p.dtype): p.flop_per_s for p in device.peaks if p.sparsity is Sparsity.STRUCTURED}
    halved = {"tf32", "f16", "bf16", "f8", "s8"}
    assert sparse == {key: 2 * rate for key, rate in dense.items() if key[0] == "matrix" and key[1] in halved}


@pytest.mark.parametrize("part, unit, dtype, sparsity, tera", PUBLISHED)
def test_peaks_have_the_published_digits(part, unit, dtype, sparsity, tera):
    assert read_device(part).peak(dtype, unit, sparsity).flop_per_s / 1e12 == pytest.approx(tera, abs=0.006)


def test_mi355x_in_spx_has_the_digits_of_the_guide():
    device = read_device("MI355X", partition="SPX")
    assert f"{device.peak('bf16').flop_per_s / 1e15:.4f}" == "2.5166"
    assert device.bandwidth("hbm").bytes_per_s == 8e12
    assert f"{device.ridge('bf16'):.1f}" == "314.6"
    assert (f"{device.ridge('f8'):.0f}", f"{device.ridge('f4'):.0f}") == ("629", "1258")


RIDGES = [("MI350X", "bf16", 288.4), ("MI350X", "f8", 576.7), ("MI300X", "bf16", 245.5), ("MI300X", "f8", 491.1),
          ("MI325X", "bf16", 217.9), ("H100-SXM", "bf16", 295.2)]  # fmt: skip


@pytest.mark.parametrize("part, dtype, ridge", RIDGES)
def test_ridges(part, dtype, ridge):
    assert read_device(part).ridge(dtype) == pytest.approx(ridge, abs=0.06)


# TB/s: 128 bytes per cycle of each of 16 L2 channels of an XCD, or of each compute unit.
CACHES = [("MI355X", "l2", 39.32), ("MI355X", "lds", 78.64), ("MI350X", "l2", 36.04), ("MI300X", "l2", 34.41),
          ("MI300X", "lds", 81.72), ("MI300X", "fabric_cache", 17.20), ("MI300A", "l2", 25.80)]  # fmt: skip


@pytest.mark.parametrize("part, level, tera", CACHES)
def test_bandwidths_of_caches(part, level, tera):
    assert read_device(part).bandwidth(level).bytes_per_s / 1e12 == pytest.approx(tera, abs=0.006)


def test_published_example_part_has_its_two_figures():
    device = read_device("H100-SXM")
    assert (device.peak("bf16").flop_per_s, device.bandwidth("hbm").bytes_per_s) == (989e12, 3.35e12)


@pytest.mark.parametrize("partition, divisor", [("SPX", 1), ("DPX", 2), ("QPX", 4), ("CPX", 8)])
def test_compute_l2_and_lds_go_with_the_partition_and_memory_is_shared(partition, divisor):
    whole, device = read_device("MI355X"), read_device("MI355X", partition=partition)
    assert device.cu_count * divisor == 256
    for peak in device.peaks:
        assert peak.flop_per_s * divisor == whole.peak(peak.dtype, peak.unit, peak.sparsity).flop_per_s
    for level in (Level.L2, Level.LDS):
        assert device.bandwidth(level).bytes_per_s * divisor == whole.bandwidth(level).bytes_per_s
    memory = device.bandwidth(Level.HBM)
    assert (memory.bytes_per_s, memory.sharing_count) == (8e12, divisor)
    assert ("shared" in memory.note) is (divisor > 1)


def test_memory_goes_with_its_domains():
    device = read_device("MI300X", partition="CPX", memory_partition="NPS4")
    memory = device.bandwidth("hbm")
    assert (memory.bytes_per_s, memory.sharing_count, device.memory_bytes) == (5.325e12 / 4, 2, 48_000_000_000)
    assert device.peak("bf16").flop_per_s == 1307.4432e12 / 8


def test_impossible_and_unknown_partitions_are_refused():
    with pytest.raises(UsageError, match="impossible-partition"):
        read_device("MI355X", partition="SPX", memory_partition="NPS2")
    with pytest.raises(UsageError, match="one of: SPX, DPX, QPX, CPX"):
        read_device("MI355X", partition="TPX")
    with pytest.raises(UsageError, match="NPS1, NPS2"):
        read_device("MI355X", partition="CPX", memory_partition="NPS4")


def test_missing_peaks_are_refused_and_never_another_one():
    device = read_device("MI355X")
    assert device.find_peak("tf32") is None
    with pytest.raises(UsageError, match="no dense matrix peak of tf32"):
        device.peak("tf32")
    with pytest.raises(UsageError, match="no 2:4 matrix peak of f4"):
        device.peak("f4", sparsity="2:4")
    with pytest.raises(UsageError, match="no bandwidth of fabric_cache is published"):
        device.bandwidth("fabric_cache")


def test_unknown_part_names_the_nearest():
    with pytest.raises(UsageError, match="MI355X"):
        read_device("MI355")


def test_name_in_any_case_is_found():
    assert read_device("mi355x") == read_device("MI355X")


@pytest.mark.parametrize("part", shipped_parts())
def test_every_figure_has_a_source(part):
    device = read_device(part)
    for figure in (*device.peaks, *device.bandwidths):
        assert len(figure.source) > 20
        assert figure.evidence is Evidence.DECLARED


def test_network_cards_move_an_eighth_of_their_bits():
    assert {name: card.bytes_per_s for name, card in read_nics().items()} == {
        "200g": 25e9, "400g": 50e9, "800g": 100e9,
    }  # fmt: skip


DTYPES = [
    ("bf16", "bf16"), ("f8e4m3fn", "f8"), ("f8e5m2fnuz", "f8"), ("fp8", "f8"), ("FP16", "f16"), ("float32", "f32"),
    ("f4e2m1fn", "f4"), ("f6e3m2fn", "f6"), ("int8", "s8"), ("xf32", "tf32"), ("pred", None), ("s32", None),
]  # fmt: skip


@pytest.mark.parametrize("name, family", DTYPES)
def test_formats_are_told_by_any_of_their_names(name, family):
    assert find_dtype_family(name) == family


def test_unknown_format_is_refused():
    with pytest.raises(UsageError, match="bf16"):
        dtype_family("bf15")


@pytest.mark.parametrize("path", sorted((FOLDER / "parts").glob("*.yaml")), ids=lambda path: path.stem)
def test_files_keep_the_schema(path):
    schema = json.loads((FOLDER / "device.schema.json").read_text(encoding="utf-8"))
    jsonschema.validate(yaml.safe_load(path.read_text(encoding="utf-8")), schema)
    assert read_part(path.stem).name == path.stem


MINE = """schema: rocktools.device/1
part: MINE
title: A part of mine
architecture: mine
xcd_count: 2
cu_per_xcd_count: 4
clock_hz: 1_000_000_000
sources: {bench: measured by me}
memory: {capacity_bytes: 1000, bytes_per_s: 100, source: bench}
peaks:
  matrix:
    bf16: {flop_per_s: 800, source: bench}
partitions: {WHOLE: 2, HALF: 1}
memory_partitions: {NPS1: 1}
"""
MISTAKES = [
    ("schema: rocktools.device/1", "schema: other/1", UnsupportedVersion, "other/1"),
    ("source: bench}\npeaks", "}\npeaks", InputError, "'source' is missing"),
    ("bf16: {flop_per_s: 800, source: bench}", "bf16: {flop_per_s: 800, source: heard}", InputError, "'heard' is not"),
    ("flop_per_s: 800", "flop_per_s: fast", InputError, "must be an integer"),
    ("bf16:", "bf15:", InputError, "unknown key 'bf15'"),
    ("HALF: 1", "HALF: 3", InputError, "3 does not divide the 2 XCDs"),
    ("peaks:\n  matrix:\n    bf16: {flop_per_s: 800, source: bench}\n", "", InputError, "nothing is known of"),
    ("xcd_count: 2\n", "", InputError, "'xcd_count' is missing"),
]


def _mine(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "mine.yaml"
    path.write_text(text, encoding="utf-8")
    return path


def test_file_of_the_users_is_a_device(tmp_path):
    device: Device = read_device(str(_mine(tmp_path, MINE)), partition="HALF")
    assert (device.peak("bf16", Unit.MATRIX).flop_per_s, device.cu_count) == (400, 4)
    assert device.bandwidth("hbm").sharing_count == 2


@pytest.mark.parametrize("old, new, error, message", MISTAKES)
def test_mistakes_are_named_with_their_line(old, new, error, message, tmp_path):
    assert old in MINE
    with pytest.raises(error, match=message) as raised:
        read_part_file(_mine(tmp_path, MINE.replace(old, new)))
    assert "mine.yaml:" in str(raised.value.where)
