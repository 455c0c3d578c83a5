"""Lines of host planes -> HOST_EVENTS."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest

from rocktools.demo.xspace_writer import (
    HOST_PLANE,
    EventRecord,
    LineRecord,
    PlaneRecord,
    SpaceRecord,
    Unsigned,
    annotation_stats,
    gpu_plane,
    write_xspace,
)
from rocktools.frames import HOST_EVENTS, require_frame
from rocktools.sources.xspace.host_events import read_host_events
from rocktools.sources.xspace.opening import open_xspace


def read(folder: Path, *planes: PlaneRecord, columns: list[str] | None = None) -> pd.DataFrame:
    path = write_xspace(folder / "a.pb", SpaceRecord(planes=planes))
    with open_xspace(path) as file:
        return read_host_events([file], run="r", columns=columns)


def host(*lines: LineRecord) -> PlaneRecord:
    return PlaneRecord(name=HOST_PLANE, lines=lines)


def test_a_call_carries_the_annotation_of_what_it_launched(tmp_path: Path) -> None:
    stats = {"correlation_id": Unsigned(9), **annotation_stats("dot.1", "jit_f", 3)}
    call = EventRecord(name="hipModuleLaunchKernel", offset_ps=1000, duration_ps=2000, stats=stats)
    frame = read(tmp_path, host(LineRecord(name="Host Threads/7", id=7, timestamp_ns=10, events=[call])))
    (row,) = frame.to_dict("records")
    assert pd.isna(row.pop("step_number"))
    assert row == {
        "run": "r",
        "host": "simulated",
        "device": HOST_PLANE,
        "line": "Host Threads/7",
        "event_index": 0,
        "event_name": "hipModuleLaunchKernel",
        "start_ns": 11,
        "end_ns": 13,
        "duration_ps": 2000,
        "program_id": "3",
        "hlo_module": "jit_f",
        "hlo_op": "dot.1",
        "correlation_id": 9,
    }


def test_steps_are_numbered_from_zero(tmp_path: Path) -> None:
    events = [EventRecord(name="train", stats={"_r": 1, "step_num": number}) for number in (0, 1)]
    frame = read(tmp_path, host(LineRecord(name="python", events=[*events, EventRecord(name="f")])))
    assert frame["step_number"].astype(object).where(frame["step_number"].notna(), None).tolist() == [0, 1, None]


def test_threads_are_ordered_by_time_and_thread_ids_are_no_derived_lines(tmp_path: Path) -> None:
    first = LineRecord(name="python", id=0xDEADBEEF + 1, timestamp_ns=5, events=[EventRecord(name="late")])
    second = LineRecord(name="python", id=-7, timestamp_ns=1, events=[EventRecord(name="early")])
    frame = read(tmp_path, host(first, second), gpu_plane(0, []))
    assert frame[["event_name", "line"]].astype(str).values.tolist() == [
        ["early", "python#-7"], ["late", f"python#{0xDEADBEEF + 1}"],
    ]  # fmt: skip


def test_tracers_that_were_not_merged_have_planes_of_their_own(tmp_path: Path) -> None:
    planes = [
        PlaneRecord(name=name, lines=[LineRecord(name="t", events=[EventRecord(name="e")])])
        for name in ("/host:CPU", "/host:ROCTRACER")
    ]
    assert read(tmp_path, *planes)["device"].tolist() == ["/host:CPU", "/host:ROCTRACER"]


@pytest.mark.parametrize("columns", [None, [], ["step_number"], ["event_name", "hlo_op"]])
def test_a_part_of_the_columns_and_no_row(tmp_path: Path, columns: list[str] | None) -> None:
    some = host(LineRecord(name="python", events=[EventRecord(name="e", stats={"hlo_op": "x"})]))
    for planes, count in (([some], 1), ([], 0)):
        frame = read(tmp_path, *planes, columns=columns)
        assert require_frame(frame, HOST_EVENTS, columns) is frame
        assert len(frame) == count
