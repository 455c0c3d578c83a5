"""Steps of the job and of its devices, from STEPS made by hand."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from timeline_rows import make_steps

from rocktools.evidence import Evidence
from rocktools.summary.build_steps import build_steps
from rocktools.summary.document import Steps
from rocktools.timeline.steps import counted_steps


def _steps(durations: dict[str, list[int]], **changes: Any) -> Steps:
    """Steps one behind the other on each device; `changes` are lists over the steps."""
    rows = []
    for device, lengths in durations.items():
        at = 0
        for index, length in enumerate(lengths):
            more = {name: values[index] for name, values in changes.items()}
            rows.append({"device": device, "step_index": index, "start": at, "end": at + length, **more})
            at += length
    frame = make_steps(rows)
    timed = SimpleNamespace(runs=SimpleNamespace(steps=SimpleNamespace(frame=frame)), steps=counted_steps(frame))
    return build_steps(timed)  # type: ignore[arg-type]


def test_step_of_the_job_lasts_as_long_as_on_its_slowest_device() -> None:
    found = _steps({"n:gpu0": [10, 30, 20], "n:gpu1": [20, 10, 20]})
    assert [each.duration_ns for each in found.series] == [20, 30, 20]
    assert [each.critical_device for each in found.series] == ["n:gpu1", "n:gpu0", "n:gpu0"]
    assert [(each.mean_ns, each.min_ns) for each in found.series] == [(15, 10), (20, 10), (20, 20)]
    assert found.statistics is not None
    assert found.statistics.median_ns == 20
    assert [each.statistics.mean_ns for each in found.devices if each.statistics] == [20, pytest.approx(50 / 3)]


def test_warm_up_and_cut_steps_are_listed_and_do_not_count() -> None:
    found = _steps(
        {"n:gpu0": [90, 10, 12, 5]},
        is_warmup=[True, False, False, False],
        is_complete=[True, True, True, False],
    )
    assert [each.is_counted for each in found.series] == [False, True, True, False]
    assert (found.warmup_steps_count, found.cut_steps_count) == (1, 1)
    assert found.statistics is not None
    assert (found.statistics.samples_count, found.statistics.mean_ns) == (2, 11)


def test_classes_have_their_share_and_the_distance_of_their_steps() -> None:
    lengths = [10, 10, 11, 30, 10, 10, 10, 31, 10, 12, 10, 32]
    classes = ["heavy" if length > 20 else "light" for length in lengths]
    light, heavy = _steps({"n:gpu0": lengths}, step_class=classes).classes
    assert (heavy.name, heavy.steps_count, heavy.fraction_ratio) == ("heavy", 3, 0.25)
    assert heavy.period_steps_count == 4
    assert heavy.representative_step_index == 7
    assert heavy.statistics.median_ns == 31
    assert (light.name, light.steps_count, light.period_steps_count) == ("light", 9, None)


def test_two_distances_are_no_period_yet() -> None:
    """Of two steps there is one distance, which repeats nothing."""
    lengths, classes = [10, 30, 10, 30], ["light", "heavy", "light", "heavy"]
    assert [each.period_steps_count for each in _steps({"n:gpu0": lengths}, step_class=classes).classes] == [None, None]


def test_evidence_is_that_of_the_weakest_window() -> None:
    assert _steps({"n:gpu0": [1, 2]}, evidence=["measured", "inferred"]).evidence is Evidence.INFERRED
