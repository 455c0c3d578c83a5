"""Measured ceilings: three kinds of files, what is kept of them, and doubts about them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rocktools.devices.ceilings import apply_ceilings, parse_ceilings, read_ceilings
from rocktools.devices.collective_tests import parse_collective_test
from rocktools.devices.files import read_device
from rocktools.errors import InputError
from rocktools.evidence import Evidence

MINE = """schema: rocktools.ceilings/1
source: gemm sweep of 3 May
device: MI355X
partition: SPX
flop_per_s:
  matrix: {bf16: 1.7e15, f8: 3_400_000_000_000_000}
bytes_per_s: {hbm: 6.2e12, network: 390e9}
"""
# The header of rocprof-compute with its two spellings; GB/s and GFLOP/s.
CSV = """device,HBMBw,HBMBwLow,hbmBwHigh,MALLBw,L2Bw,LDSBw,FP32Flops,MFMABF16Flops,MFMAF8Flops,MFMAI8Ops,MFMAFI8OpsLow
0,6200,6100,6300,8500,34500,54000,150000,616000,2450000,0,0
1,6250,6100,6300,8400,34400,54000,150000,617000,2440000,,
"""
SWEEP = """# Collective test starting: all_reduce_perf
# nThread 1 nGpus 8 minBytes 1024 maxBytes 1073741824
#  Rank  0 Group  0 Pid 11 on node device  0 [0000:05:00] AMD Instinct MI355X
#  Rank  1 Group  0 Pid 11 on node device  1 [0000:15:00] AMD Instinct MI355X
#                                                              out-of-place                       in-place
#       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw   busbw #wrong
#        (B)    (elements)                               (us)  (GB/s)  (GB/s)            (us)  (GB/s)  (GB/s)
        1024           256     float     sum      -1    20.00    0.05    0.09      0    19.00    0.05    0.09      0
node:12:34 [0] NCCL INFO comm 0x1 rank 0 - Destroy COMPLETE
    16777216       4194304     float     sum      -1    120.0  139.81  244.67      0    118.0  142.18  248.82      0
 0: 1073741824     268435456     float     sum      -1   5000.0  214.75  375.81      0   5100.0  210.54  368.44      0
  2147483648     536870912     float     sum      -1   1.0  999.75  999.81      7   5100.0  210.54  368.44      0
# Out of bounds values : 1 FAILED
# Avg bus bandwidth    : 206.33
"""


def test_yaml_figures_go_before_those_of_the_vendor():
    device, findings = apply_ceilings(read_device("MI355X"), parse_ceilings(MINE, source="f.yaml"))
    assert findings == ()
    assert device.peak("bf16").flop_per_s == 1.7e15
    assert device.peak("bf16").evidence is Evidence.MEASURED
    assert "gemm sweep of 3 May" in device.peak("bf16").source
    assert device.peak("f16").evidence is Evidence.DECLARED
    assert (device.bandwidth("hbm").bytes_per_s, device.bandwidth("network").bytes_per_s) == (6.2e12, 390e9)
    assert device.ridge("bf16") == pytest.approx(1.7e15 / 6.2e12)


@pytest.mark.parametrize("part, partition", [("MI350X", "SPX"), ("MI355X", "CPX")])
def test_ceilings_of_another_part_or_partition_are_refused(part, partition):
    with pytest.raises(InputError, match="ceilings-of-another-device"):
        apply_ceilings(read_device(part, partition=partition), parse_ceilings(MINE, source="f.yaml"))


def test_csv_gives_the_largest_of_the_devices_in_base_units():
    ceilings = parse_ceilings(CSV, source="roofline.csv")
    peaks = {(str(peak.unit), peak.dtype): peak.flop_per_s for peak in ceilings.peaks}
    assert peaks == {("matrix", "bf16"): 617e12, ("matrix", "f8"): 2450e12, ("vector", "f32"): 150e12}
    bandwidths = {str(each.level): each.bytes_per_s for each in ceilings.bandwidths}
    assert bandwidths == {"hbm": 6250e9, "fabric_cache": 8500e9, "l2": 34500e9, "lds": 54000e9}
    assert ceilings.peaks[0].source == "rocprof-compute, roofline.csv, largest of 2 devices"


def test_benchmark_that_did_not_fill_the_units_is_doubted():
    _, findings = apply_ceilings(read_device("MI355X"), parse_ceilings(CSV, source="roofline.csv"))
    assert [finding.rule for finding in findings] == ["ceiling-far-below-peak"]
    assert "matrix bf16 is 24.5 % of what is stated" in findings[0].message


def test_ceiling_above_the_peak_is_doubted():
    text = MINE.replace("1.7e15", "2.6e15")
    _, findings = apply_ceilings(read_device("MI355X"), parse_ceilings(text, source="f.yaml"))
    assert [finding.rule for finding in findings] == ["ceiling-above-peak"]


def test_merged_column_of_some_versions_is_both_formats():
    peaks = parse_ceilings("devID,MFMA_FLOPs_F6F4\n0,5663000\n", source="f").peaks
    assert [(peak.dtype, peak.flop_per_s) for peak in peaks] == [("f6", 5663e12), ("f4", 5663e12)]


def test_sweep_gives_its_best_bus_bandwidth_and_leaves_wrong_results_out():
    [bandwidth] = parse_ceilings(SWEEP, source="all_reduce.txt").bandwidths
    assert bandwidth.bytes_per_s == pytest.approx(375.81e9)
    assert bandwidth.name == "all-reduce of 2"
    assert bandwidth.note == "bus bandwidth at 1,073,741,824 bytes"


def test_sweep_is_looked_up_by_size():
    sweep = parse_collective_test(SWEEP, source="f")
    assert [row.size_bytes for row in sweep.sizes] == [1024, 16777216, 1073741824]
    looked_up = [sweep.bus_bytes_per_s(size) / 1e9 for size in (1, 1024, 1025, 2**30, 2**40)]
    assert looked_up == pytest.approx([0.09, 0.09, 248.82, 375.81, 375.81])


BAD = [
    ("", "empty or binary"),
    ("\0\1", "empty or binary"),
    ("schema: other/1\n", "other/1"),
    ("schema: rocktools.ceilings/1\nsource: me\n", "gives no ceiling"),
    (MINE.replace("6.2e12", "fast"), "must be a rate above 0"),
    (MINE.replace("6.2e12", "-1"), "must be a rate above 0"),
    (MINE.replace("6.2e12", "yes"), "must be a rate above 0"),
    (MINE.replace("bf16", "bf15"), "unknown key 'bf15'"),
    ("device,HBMBw\n0,fast\n", "'fast' is no number"),
    ("device,HBMBw\n", "no measured ceiling"),
    ("device,HBMBw\n0,0\n", "no measured ceiling"),
    ("# size count type redop root time algbw busbw #wrong\n", "gives no bandwidth"),
]


@pytest.mark.parametrize("text, message", BAD)
def test_bad_files_end_in_one_clear_error(text, message):
    with pytest.raises(InputError, match=message) as raised:
        parse_ceilings(text, source="mine")
    assert str(raised.value.where).startswith("mine")


@given(st.sampled_from([MINE, CSV, SWEEP]), st.integers(0, 1500))
def test_every_beginning_of_a_file_is_read_or_refused(text, length):
    try:
        ceilings = parse_ceilings(text[:length], source="mine")
    except InputError:
        return
    assert ceilings.peaks or ceilings.bandwidths


def test_missing_file_is_named(tmp_path):
    with pytest.raises(InputError, match="cannot be read"):
        read_ceilings(tmp_path / "none.yaml")
