"""The table of failure modes is complete, and names only what the stand-ins have."""

from __future__ import annotations

import pytest
from capture.failure_modes import FAILURE_MODES
from standins.faults import FAULTS, parse_faults
from standins.running import Bench, kernel_counts
from standins.scenario import parse_scenario

ACTED = [mode for mode in FAILURE_MODES if mode.is_acted_out]


def test_all_34_are_there_once_and_have_names():
    assert [mode.number for mode in FAILURE_MODES] == list(range(1, 35))
    assert len({mode.name for mode in FAILURE_MODES}) == 34


@pytest.mark.parametrize("mode", FAILURE_MODES, ids=lambda mode: mode.name)
def test_each_is_acted_out_or_says_why_not(mode):
    assert bool(mode.how) is mode.is_acted_out
    assert mode.is_acted_out or (not mode.faults and not mode.scenario)
    assert parse_scenario(mode.scenario) is not None
    for faults in mode.faults:
        assert [fault.name in FAULTS for fault in parse_faults(faults)] == [True]


def test_few_are_not_acted_out():
    assert [mode.number for mode in FAILURE_MODES if not mode.is_acted_out] == [17, 26, 30, 32, 34]


# The two that no fault but a scenario or a command acts out


def test_kernels_in_a_worker(tmp_path):
    [mode] = [mode for mode in ACTED if mode.name == "kernels-in-a-worker"]
    bench = Bench(tmp_path, "1.3.2")
    bench.run("rocprofv3", "--kernel-trace", "-o", "x_%pid%", "--", "true", scenario=dict(mode.scenario))
    [path] = bench.databases()
    assert kernel_counts(path) == {"loop_fusion_3": 12}
    assert path.name != f"x_{bench.calls()[0]['pid']}_results.db"


def test_option_of_another_release(tmp_path):
    bench = Bench(tmp_path, "1.0.0")
    assert "version: 1.4.1" in bench.run("rocprofv3", "--version", faults="reports-version:1.4.1").out
    assert bench.run("rocprofv3", "--hip-event-trace", "--", "true", faults="reports-version:1.4.1").code == 2
