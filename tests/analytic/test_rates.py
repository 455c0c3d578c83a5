"""Rates come with their denominators or not at all; step times and profiled steps are doubted where they should be."""

from __future__ import annotations

from dataclasses import replace

import pytest

from rocktools.analytic.model_file import read_model
from rocktools.analytic.rates import (
    ONE_SAMPLE,
    REQUIRED,
    Metric,
    MetricKind,
    StepTime,
    mfu_if,
    step_metrics,
    useful_rate,
)
from rocktools.analytic.step_checks import check_profiled_step, check_step_time
from rocktools.analytic.useful_flop import build_flop_ledger
from rocktools.devices.files import read_device
from rocktools.errors import UsageError
from rocktools.evidence import Evidence
from rocktools.findings import Severity

MI355X = read_device("MI355X")
MEDIAN = StepTime(
    duration_s=2.0, statistic="median", samples_count=5, spread_s=0.1, warmup_count=3, is_profiled=False, source="log"
)
ONE = replace(MEDIAN, statistic=ONE_SAMPLE, samples_count=1, spread_s=None)


def _metrics(step=MEDIAN, *, model="mixtral-8x7b", **given):
    ledger = build_flop_ledger(read_model(model), tokens_count=8192, sequence_tokens=4096)
    given = {"peak": MI355X.peak("bf16"), "devices_count": 4, "dtype": "bf16", "padding": "none"} | given
    return {metric.title: metric for metric in step_metrics(step, ledger, **given)}


@pytest.mark.parametrize("kind", MetricKind)
def test_a_metric_without_any_of_its_fields_is_refused(kind):
    given = dict.fromkeys(REQUIRED[kind], "said")
    fields = {"kind": kind, "title": "t", "value": 1.0, "unit": "s", "evidence": Evidence.MEASURED}
    assert Metric(**fields, reported=given).value == 1.0
    for name in given:
        for lacking in ({key: text for key, text in given.items() if key != name}, given | {name: " "}):
            with pytest.raises(UsageError, match=f"says nothing of {name}"):
                Metric(**fields, reported=lacking)


def test_tokens_are_input_tokens_and_assignments_are_told_apart():
    found = _metrics()
    assert found["tokens/s, all devices"].value == 8192 / 2.0
    assert found["tokens/s/device"].value == 8192 / 2.0 / 4
    assert found["expert assignments/s, all devices"].value == 2 * 8192 / 2.0
    assert found["expert assignments/s, all devices"].unit == "assignment/s"
    assert "expert assignments/s, all devices" not in _metrics(model="llama-3-8b")


def test_utilization_is_useful_flop_over_devices_time_and_peak():
    """Of dense weights 6 x 7,504,658,432 and of the causal core 6 x 32 x 4096 x 4096 FLOP per token."""
    useful = 8192 * 6 * (7_504_658_432 + 32 * 4096 * 4096)
    found = _metrics(model="llama-3-8b")
    assert found["useful FLOP/s/device"].value == useful / 4 / 2.0
    assert found["MFU"].value == useful / (4 * 2.0 * 2.5165824e15)
    assert found["MFU"].evidence is Evidence.DECLARED  # the peak is the vendor's
    assert "dense bf16" in found["MFU"].reported["dtype_peak"]


def test_throughput_of_a_profiled_step_is_refused():
    with pytest.raises(UsageError, match="throughput-from-profile"):
        _metrics(replace(MEDIAN, is_profiled=True))


@pytest.mark.parametrize(
    "peak, dtype",
    [
        (MI355X.peak("f8"), "bf16"),
        (MI355X.peak("bf16", sparsity="2:4"), "bf16"),
        (MI355X.peak("bf16"), "f8e4m3fn"),
    ],
)
def test_a_peak_of_another_format_or_of_sparse_operands_is_refused(peak, dtype):
    with pytest.raises(UsageError, match="peak-of-another-format"):
        _metrics(peak=peak, dtype=dtype)
    assert _metrics(peak=MI355X.peak("f8"), dtype="f8e4m3fn")["MFU"].value < _metrics()["MFU"].value


def test_no_device_is_no_denominator():
    with pytest.raises(UsageError, match="devices-count"):
        _metrics(devices_count=0)


@pytest.mark.parametrize(
    "change, words",
    [
        ({"samples_count": 1}, "1 sample cannot be called 'median'"),
        ({"statistic": ONE_SAMPLE}, "5 samples cannot be called 'one sample'"),
        ({"duration_s": 0.0}, "was not measured"),
        ({"duration_s": float("nan")}, "was not measured"),
        ({"samples_count": 0}, "was not measured"),
        ({"spread_s": float("nan")}, "was not measured"),
    ],
)
def test_step_times_that_are_none_are_refused(change, words):
    with pytest.raises(UsageError, match=words):
        replace(MEDIAN, **change)


@pytest.mark.parametrize(
    "step, rules",
    [
        (MEDIAN, []),
        (ONE, ["one-step-sample"]),
        (replace(MEDIAN, spread_s=None), ["step-without-spread"]),
        (replace(ONE, warmup_count=None), ["one-step-sample", "step-without-warmup"]),
    ],
)
def test_what_a_step_time_lacks_is_found(step, rules):
    assert [finding.rule for finding in check_step_time(step)] == rules


def test_one_sample_says_that_it_has_no_spread():
    reported = _metrics(ONE)["step time"].reported
    assert reported["statistic"] == "one sample"
    assert "no estimate of variance" in reported["spread"]


@pytest.mark.parametrize(
    "unprofiled_s, neighbours_s, rules",
    [
        (20.599, (), []),
        (None, (20.824, 20.811), ["profiled-step-unlike-neighbours"]),  # 1.02 % faster
        (None, (20.7, 20.6), []),
        (19.0, (), ["profiled-step-perturbed"]),
        (None, (), []),
    ],
)
def test_profiled_steps_that_explain_nothing_else_are_found(unprofiled_s, neighbours_s, rules):
    found = check_profiled_step(20.605, unprofiled_s=unprofiled_s, neighbours_s=neighbours_s)
    assert [finding.rule for finding in found.findings] == rules
    assert (found.difference_ratio is None) == (unprofiled_s is None)
    assert (found.neighbours_ratio is None) == (not neighbours_s)


def test_a_profiled_step_that_is_faster_weighs_more_than_one_that_is_slower():
    faster, slower = (check_profiled_step(time_s, neighbours_s=(1.0,)).findings[0] for time_s in (0.9, 1.1))
    assert (faster.severity, slower.severity) == (Severity.WARNING, Severity.NOTE)
    assert "10.00 % faster" in faster.message


def test_hiding_all_under_the_longest_is_no_better_than_the_longest():
    peak = MI355X.peak("bf16")
    alone = [mfu_if(10**18, devices_count=8, peak=peak, durations_s=(time_s,)) for time_s in (1.0, 3.0)]
    both = mfu_if(10**18, devices_count=8, peak=peak, durations_s=(1.0, 3.0))
    assert both == min(alone) == useful_rate(10**18, devices_count=8, duration_s=3.0) / peak.flop_per_s
