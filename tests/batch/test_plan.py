"""What a batch costs, with the arithmetic, and what workloads may be called."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rocktools.batch.plan import (
    Passes,
    PassSelection,
    PlannedKernel,
    estimate_batch,
    is_workload_name,
    parse_passes,
    workload_name,
)
from rocktools.capture.compute_versions import ComputeVersion
from rocktools.errors import CaptureError, UsageError
from rocktools.evidence import Evidence

KERNELS = [
    PlannedKernel(name="a", replay=Path("/r/a"), kernel="a", total_ns=4_000_000_000, dispatches_count=4),
    PlannedKernel(name="b", replay=Path("/r/b"), kernel="b", total_ns=500_000_000, dispatches_count=1),
    PlannedKernel(name="c", replay=Path("/r/c"), kernel="c"),
]


@pytest.mark.parametrize(
    "text, passes, blocks, set_name, iterations_count",
    [
        ("all", Passes.ALL, (), None, 10),
        ("multiplexing", Passes.MULTIPLEXING, (), None, 60),
        ("blocks:2,4.1", Passes.BLOCKS, ("2", "4.1"), None, 10),
        ("set:mem_thruput", Passes.SET, (), "mem_thruput", 10),
    ],
)
def test_passes_are_understood(text, passes, blocks, set_name, iterations_count):
    found = parse_passes(text)
    assert (found.passes, found.blocks, found.set_name) == (passes, blocks, set_name)
    assert found.iterations_count == iterations_count


@pytest.mark.parametrize("text", ["", "some", "blocks", "blocks:", "set:", "set:a,b", "all:2", "blocks:2;rm", "set:-x"])
def test_passes_that_are_none_are_refused(text):
    with pytest.raises(UsageError, match="bad-passes"):
        parse_passes(text)


def test_cost_is_runs_times_start_up_and_launches_and_analysis():
    """3 kernels x 20 runs + 3 runs for peaks = 63 runs of 20 s; launches of 1 s and 0.5 s, 12 a run, in 20 runs each:
    20 x 12 x 1.5 s = 360 s; analysis 3 x 15 s."""
    found = estimate_batch(KERNELS, PassSelection(), version=ComputeVersion(3, 3), start_up_s=20.0)
    assert found.runs_count == 63
    assert found.duration_s == 63 * 20 + 360 + 45
    assert found.evidence is Evidence.INFERRED
    assert any("20 s from the start" in text for text in found.assumptions)
    assert any("no time where no trace has one" in text for text in found.assumptions)
    assert found.cost_text == "about 63 runs and 28 min on one GPU"


def test_multiplexing_is_one_run_a_kernel_and_newer_tools_need_none_for_peaks():
    found = estimate_batch(KERNELS, parse_passes("multiplexing"), version=ComputeVersion(3, 7), start_up_s=10.0)
    assert (found.runs_count, found.passes_count) == (3, 20)
    assert found.duration_s == 3 * 10 + 62 * 1.5 + 45


def test_blocks_and_sets_cost_what_the_planner_says():
    version = ComputeVersion(3, 3)
    assert estimate_batch(KERNELS[:1], parse_passes("blocks:2"), version=version).runs_count == 6 + 3
    assert estimate_batch(KERNELS[:1], parse_passes("set:mem_thruput"), version=version).runs_count == 1 + 3


def test_multiplexing_is_refused_for_a_tool_without_it():
    with pytest.raises(CaptureError, match="compute-no-multiplexing"):
        estimate_batch(KERNELS, parse_passes("multiplexing"), version=ComputeVersion(3, 4))


@pytest.mark.parametrize(
    "text, name",
    [
        ("loop_add_fusion.3", "loop_add_fusion_3"),
        ("../../etc", "etc"),
        ("void f<int>(a, b)", "void_f_int_a_b"),
        ("-k", "k"),
        ("peaks", "peaks-2"),
        ("analysis", "analysis-2"),
        ("", "kernel"),
        ("x" * 300, "x" * 100),
    ],
)
def test_workloads_have_plain_names(text, name):
    assert workload_name(text) == name


def test_names_that_are_taken_get_a_number():
    assert workload_name("a.b", ["a_b", "a_b-2"]) == "a_b-3"


@given(st.text(max_size=150), st.lists(st.text(max_size=5), max_size=5))
def test_every_made_name_is_one_that_every_release_takes(text, taken):
    name = workload_name(text, taken)
    assert is_workload_name(name)
    assert name not in taken
