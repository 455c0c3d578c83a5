"""Classes of durations, and which steps are whole."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rocktools.timeline.device_windows import align_owners, number_steps, window_frame
from rocktools.timeline.step_quality import are_whole, split_classes


def heavy_ones(durations: list[int]) -> list[int] | None:
    found = split_classes(np.array(durations, dtype=np.int64))
    return None if found is None else np.flatnonzero(found).tolist()


@pytest.mark.parametrize(
    "durations, heavy",
    [
        pytest.param([100, 101, 150, 99, 100, 152, 101], [2, 5], id="every-third-is-heavy"),
        pytest.param([100, 100, 100, 100, 100, 100], None, id="all-equal"),
        pytest.param([100, 103, 98, 101, 99, 102, 104, 97], None, id="noise"),
        pytest.param([100, 110, 120, 130, 140, 150, 160], None, id="spread-evenly"),
        pytest.param([100, 101, 99, 100, 102, 300], None, id="one-outlier-is-no-class"),
        pytest.param([100, 101, 150, 151, 99], None, id="too-few-steps"),
        pytest.param([1000, 1001, 1002, 1050, 1051, 1052], None, id="too-near"),
        pytest.param([100, 101, 102, 0, 200, 201, 202], None, id="a-step-without-time"),
        pytest.param([], None, id="none"),
    ],
)
def test_two_classes_only_where_they_are_far_apart(durations: list[int], heavy: list[int] | None) -> None:
    assert heavy_ones(durations) == heavy


@given(
    light=st.lists(st.integers(1000, 1010), min_size=3, max_size=20),
    heavy=st.lists(st.integers(1500, 1515), min_size=3, max_size=20),
    order=st.randoms(use_true_random=False),
)
def test_two_narrow_groups_are_always_told_apart(light: list[int], heavy: list[int], order: object) -> None:
    durations = [*light, *heavy]
    order.shuffle(durations)  # type: ignore[attr-defined]
    found = heavy_ones(durations)
    assert found == [place for place, duration in enumerate(durations) if duration >= 1500]


@given(st.lists(st.integers(1000, 1190), min_size=6, max_size=40))
def test_durations_within_a_fifth_of_each_other_are_one_class(durations: list[int]) -> None:
    assert heavy_ones(durations) is None


@given(st.lists(st.integers(1, 100), max_size=8))
def test_only_edges_are_cut(counts: list[int]) -> None:
    whole = are_whole(np.array(counts, dtype=np.int64), np.zeros(len(counts), dtype=np.bool_))
    assert whole[1:-1].all()


def test_warm_up_is_no_measure_of_a_whole_step() -> None:
    counts, is_warmup = np.array([90, 80, 20, 20]), np.array([True, True, False, False])
    assert are_whole(counts, is_warmup).tolist() == [True, True, True, True]


# ------------------------------------------------------------------------------------------------ numbers across owners


def test_owner_that_saw_fewer_steps_is_moved_to_where_they_were() -> None:
    assert align_owners({"a": [0, 100, 200, 300], "b": [103, 204, 305], "c": [1, 99, 201]}) == {"a": 0, "b": 1, "c": 0}


def test_owner_on_another_clock_keeps_its_order() -> None:
    assert align_owners({"a": [0, 100, 200, 300], "b": [70_000, 70_100, 70_200]}) == {"a": 0, "b": 0}


def test_windows_of_two_owners_on_one_device_are_one_step() -> None:
    windows = window_frame(
        [
            ("r", "p0", "host:gpu0", 0, 5, 10, 20, False),
            ("r", "p1", "host:gpu0", 0, 5, 8, 15, False),
            ("r", "p0", "host:gpu0", 1, 6, 20, 30, False),
            ("r", "p1", "host:gpu0", 1, 6, 21, 33, True),
        ]
    )
    numbered = number_steps(windows)
    assert numbered["start_ns"].tolist() == [8, 20]
    assert numbered["end_ns"].tolist() == [20, 33]
    assert numbered["is_cut"].tolist() == [False, True]
