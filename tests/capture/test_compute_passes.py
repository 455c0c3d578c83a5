"""How often rocprof-compute runs an application: figures of its planner, and what is carried over."""

from __future__ import annotations

import pytest

from rocktools.capture.compute_passes import estimate_passes
from rocktools.capture.compute_versions import ComputeVersion
from rocktools.errors import CaptureError
from rocktools.evidence import Evidence

PLANNED = ComputeVersion(3, 3)
NEWEST = ComputeVersion(3, 10)


# As the planner of August 2025 was seen to plan, the same with ten hash seeds.
@pytest.mark.parametrize(
    "architecture, blocks, runs_count",
    [
        ("gfx950", (), 20),
        ("gfx942", (), 12),
        ("gfx90a", (), 12),
        ("gfx950", ("2",), 6),
        ("gfx950", ("11", "10", "7", "4", "2"), 9),
        ("gfx950", ("10", "11", "16", "17"), 15),
        ("gfx942", ("10", "11", "16", "17"), 9),
        ("gfx950:sramecc+:xnack-", (), 20),
    ],
)
def test_planned_runs_are_those_of_the_planner(architecture, blocks, runs_count):
    estimate = estimate_passes(PLANNED, architecture, blocks=blocks)
    assert (estimate.runs_count, estimate.passes_count) == (runs_count, runs_count)
    assert estimate.evidence is Evidence.DECLARED


def test_a_set_is_one_run_and_a_roofline_three():
    assert estimate_passes(PLANNED, "gfx950", set_name="mem_thruput").runs_count == 1
    assert estimate_passes(PLANNED, "gfx950", is_roofline=True).runs_count == 3


def test_other_releases_carry_the_figure_over_and_say_so():
    estimate = estimate_passes(NEWEST, "gfx950", blocks=("2",))
    assert estimate.runs_count == 6
    assert estimate.evidence is Evidence.INFERRED
    assert "3.10" in estimate.basis
    assert "3.3" in estimate.basis


@pytest.mark.parametrize(
    "blocks, most",
    [(("2.1",), 6), (("2.1.3", "4"), 9), (("17",), 15), (("12",), 20), (("l2",), 20), (("2", "17"), 20)],
)
def test_what_nobody_counted_is_at_most_what_covers_it(blocks, most):
    estimate = estimate_passes(PLANNED, "gfx950", blocks=blocks)
    assert estimate.runs_count == most
    assert estimate.evidence is Evidence.INFERRED
    assert "at most" in estimate.basis


def test_an_architecture_that_nobody_counted_is_taken_for_gfx950_and_says_so():
    estimate = estimate_passes(PLANNED, "gfx1201")
    assert (estimate.runs_count, estimate.evidence) == (20, Evidence.INFERRED)
    assert "gfx1201" in estimate.basis


def test_multiplexing_is_one_run_that_serves_all_passes():
    estimate = estimate_passes(NEWEST, "gfx950", multiplexes=True)
    assert (estimate.runs_count, estimate.passes_count) == (1, 20)
    assert estimate.launches_needed_count == 25  # 20 and a quarter


def test_multiplexing_needs_a_release_that_has_it():
    with pytest.raises(CaptureError, match="compute-no-multiplexing") as caught:
        estimate_passes(ComputeVersion(3, 4), "gfx950", multiplexes=True)
    assert "3.5" in (caught.value.hint or "")
