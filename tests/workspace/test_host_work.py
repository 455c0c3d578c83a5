"""Profiles of the CPU backend: instructions that threads ran are rows of a ledger, loops around them are not."""

from __future__ import annotations

from pathlib import Path

import pytest
from rocpd_files import rules
from scoped_run import scoped_text
from tiny_program import STEM
from tiny_run import PROGRAM_ID

from rocktools.attribution.component_map_file import read_shipped_map
from rocktools.demo.xspace_writer import (
    EventRecord,
    LineRecord,
    PlaneRecord,
    SpaceRecord,
    annotation_stats,
    write_xspace,
)
from rocktools.errors import NothingToRead
from rocktools.frames import ATTRIBUTED, DISPATCHES, require_frame
from rocktools.timeline.overlap import reconcile
from rocktools.workspace.attributed import AttributedRuns, AttributionOptions, attribute_workspace
from rocktools.workspace.workspace import Workspace

US = 1_000_000  # ps


def event(instruction: str, start_us: int, length_us: int) -> EventRecord:
    return EventRecord(
        name=instruction,
        offset_ps=start_us * US,
        duration_ps=length_us * US,
        stats=annotation_stats(instruction, "jit_tiny", PROGRAM_ID),
    )


def write_cpu_profile(path: Path) -> Path:
    """Two marked steps; in each a loop of 8 us, and in it two instructions side by side on two threads."""
    marks, first, second = [], [], []
    for step in range(2):
        begin = 20 * step
        marks.append(
            EventRecord(name="train", offset_ps=begin * US, duration_ps=15 * US, stats={"step_num": step, "_r": 1})
        )
        first += [event("while.2", begin + 1, 8), event("gemm_fusion_dot.1", begin + 2, 4)]
        second += [event("loop_multiply_fusion.1", begin + 3, 6), event("wrapped_convert.2", begin + 10, 1)]
    lines = [
        LineRecord(name="python", id=1, timestamp_ns=1000, events=marks),
        LineRecord(name="tf_XLAEigen/1", id=2, timestamp_ns=1000, events=first),
        LineRecord(name="tf_XLAEigen/2", id=3, timestamp_ns=1000, events=second),
    ]
    return write_xspace(path, SpaceRecord(planes=[PlaneRecord(name="/host:CPU", lines=lines)], hostnames=["h"]))


@pytest.fixture
def runs(tmp_path: Path) -> AttributedRuns:
    text = tmp_path / f"{STEM}_after_optimizations.txt"
    text.write_text(scoped_text(), encoding="utf-8")
    profile = write_cpu_profile(tmp_path / "a.xplane.pb")
    with Workspace.open([profile]) as workspace:
        return attribute_workspace(workspace, AttributionOptions(component_map=read_shipped_map(), hlo=(text,)))


def test_each_instruction_is_a_row_but_for_the_loop_around_them(runs: AttributedRuns) -> None:
    rows = require_frame(runs.rows, ATTRIBUTED)
    require_frame(runs.dispatches, DISPATCHES)
    found = zip(rows["instruction"], rows["phase"], rows["component"], rows["step_index"], strict=True)
    assert sorted(found, key=lambda row: (row[3], row[0])) == [
        (instruction, phase, component, step)
        for step in range(2)
        for instruction, phase, component in (
            ("gemm_fusion_dot.1", "forward", "expert_mlp"),
            ("loop_multiply_fusion.1", "backward", "expert_mlp"),
            ("wrapped_convert.2", "optimizer", "optimizer"),
        )
    ]
    assert set(rows["device"]) == {"h:cpu"}


def test_sums_are_time_of_threads_and_unions_time_of_the_clock(runs: AttributedRuns) -> None:
    frame = reconcile(runs.rows, runs.steps.frame).frame
    assert frame["compute_sum_ns"].tolist() == [11_000, 11_000]
    assert frame["busy_ns"].tolist() == [8_000, 8_000]  # 2 to 9 us and 10 to 11 us


def test_steps_are_those_that_are_marked_and_nothing_had_to_be_carried(runs: AttributedRuns) -> None:
    assert runs.steps.frame["method"].tolist() == ["annotation", "annotation"]
    assert runs.steps.frame["step_number"].tolist() == [0, 1]
    assert "work-of-the-cpu-backend" in rules(runs.findings)
    assert "steps-carried-by-time" not in rules(runs.findings)


def test_profile_without_any_instruction_has_nothing_to_book(tmp_path: Path) -> None:
    plane = PlaneRecord(name="/host:CPU", lines=[LineRecord(name="python", events=[EventRecord(name="f")])])
    path = write_xspace(tmp_path / "a.xplane.pb", SpaceRecord(planes=[plane]))
    with Workspace.open([path]) as workspace, pytest.raises(NothingToRead, match="no-traced-dispatches"):
        attribute_workspace(workspace, AttributionOptions(component_map=read_shipped_map()))
