"""Three lower bounds: what each is made of, and that nothing adds them."""

from __future__ import annotations

import pytest

from rocktools.analytic.lower_bounds import (
    communication_bound,
    compute_bound,
    effective_bandwidth,
    longest_bound,
    memory_bound,
)
from rocktools.devices.files import read_device
from rocktools.errors import UsageError
from rocktools.evidence import Evidence

MI355X = read_device("MI355X")
HBM, LINKS = MI355X.bandwidth("hbm"), MI355X.bandwidth("network")
MEASURED = effective_bandwidth(300e9, source="rccl-tests")
PEAK = MI355X.peak("bf16")


def test_each_bound_is_its_formula():
    assert compute_bound(16 * 10**18, devices_count=8, peak=PEAK).duration_s == 2e18 / 2.5165824e15
    assert memory_bound(24e12, bandwidth=HBM).duration_s == 3.0
    assert communication_bound(600e9, bandwidth=MEASURED, fixed_s=0.5).duration_s == 2.5


def test_evidence_is_the_weakest_of_the_inputs():
    assert compute_bound(1, devices_count=1, peak=PEAK).evidence is Evidence.DECLARED
    assert communication_bound(1, bandwidth=MEASURED).evidence is Evidence.ANALYTIC
    assert communication_bound(1, bandwidth=MEASURED, evidence=Evidence.MEASURED).evidence is Evidence.MEASURED


def test_bandwidth_that_links_could_have_is_refused():
    with pytest.raises(UsageError, match="bandwidth-not-measured") as raised:
        communication_bound(1e9, bandwidth=LINKS)
    assert "rccl-tests" in str(raised.value)
    with pytest.raises(UsageError, match="bandwidth-not-measured"):
        communication_bound(1e9, bandwidth=HBM)
    with pytest.raises(UsageError, match="bandwidth-of-another-level"):
        memory_bound(1e9, bandwidth=MEASURED)


def test_bounds_overlap_so_the_longest_is_the_floor():
    bounds = [
        compute_bound(8 * 10**15, devices_count=8, peak=PEAK),
        memory_bound(16e12, bandwidth=HBM),
        communication_bound(300e9, bandwidth=MEASURED),
    ]
    assert longest_bound(bounds) is bounds[1]
    assert longest_bound(bounds).duration_s == 2.0 < sum(bound.duration_s for bound in bounds)
    assert longest_bound(bounds).share_of(4.0) == 0.5
    with pytest.raises(UsageError, match="no-bounds"):
        longest_bound([])


@pytest.mark.parametrize(
    "make",
    [
        lambda: compute_bound(0, devices_count=8, peak=PEAK),
        lambda: compute_bound(1, devices_count=0, peak=PEAK),
        lambda: memory_bound(-1.0, bandwidth=HBM),
        lambda: memory_bound(float("nan"), bandwidth=HBM),
        lambda: communication_bound(1.0, bandwidth=MEASURED, fixed_s=-1.0),
        lambda: communication_bound(1.0, bandwidth=MEASURED, fixed_s=float("nan")),
        lambda: effective_bandwidth(0.0, source="nobody"),
    ],
)
def test_numbers_that_cannot_be_are_refused(make):
    with pytest.raises(UsageError, match="bound-input"):
        make()
