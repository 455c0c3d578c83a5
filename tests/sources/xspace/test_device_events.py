"""Raw lines of device planes -> DEVICE_EVENTS."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from rocktools.demo.xspace_writer import (
    EventRecord,
    LineRecord,
    PlaneRecord,
    SpaceRecord,
    Unsigned,
    annotation_stats,
    gpu_plane,
    kernel_event,
    write_xspace,
)
from rocktools.errors import DamagedFile
from rocktools.frames import DEVICE_EVENTS, require_frame
from rocktools.sources.xspace.device_events import read_device_events
from rocktools.sources.xspace.opening import open_xspace


def read(folder: Path, *planes: PlaneRecord, columns: list[str] | None = None, **space: Any) -> pd.DataFrame:
    path = write_xspace(folder / "a.pb", SpaceRecord(planes=planes, **space))
    with open_xspace(path) as file:
        return read_device_events([file], run="run1", columns=columns)


def stream(events: Sequence[EventRecord], number: int = 2, **line: Any) -> LineRecord:
    return LineRecord(name=f"Stream #{number}", id=number, events=events, **line)


def test_a_dispatch_with_everything(tmp_path: Path) -> None:
    event = kernel_event(
        "fusion_3",
        offset_ps=1_999,
        duration_ps=2_500,
        correlation_id=44,
        workgroups=(4, 2, 1),
        workgroup_workitems=(64, 2, 1),
        lds_bytes=512,
        scratch_bytes=16,
        annotation=annotation_stats("fusion.3", "jit_step", 17, "jit(step)/jvp(dense)/dot_general"),
    )
    frame = read(tmp_path, gpu_plane(1, [stream([event], timestamp_ns=100)]), hostnames=["node-1"])
    (row,) = frame.to_dict("records")
    assert pd.isna(row.pop("size_bytes"))
    assert row == {
        "run": "run1",
        "host": "node-1",
        "device": "/device:GPU:1",
        "line": "Stream #2",
        "event_index": 0,
        "kind": "kernel",
        "kernel_name": "fusion_3",
        "raw_kernel_name": "fusion_3.kd",
        "start_ns": 101,
        "end_ns": 104,
        "duration_ps": 2_500,
        "program_id": "17",
        "hlo_module": "jit_step",
        "hlo_op": "fusion.3",
        "correlation_id": 44,
        "scope_hint": "jit(step)/jvp(dense)/dot_general",
        "stream_id": 2,
        "grid_workitems_x": 256,
        "grid_workitems_y": 4,
        "grid_workitems_z": 1,
        "workgroup_workitems_x": 64,
        "workgroup_workitems_y": 2,
        "workgroup_workitems_z": 1,
        "lds_bytes": 512,
        "scratch_bytes": 16,
    }


def test_what_an_event_lacks_is_missing_and_not_zero(tmp_path: Path) -> None:
    frame = read(tmp_path, gpu_plane(0, [LineRecord(name="other", events=[EventRecord(name="x")])]))
    row = frame.iloc[0]
    assert row["kind"] == "other"
    for column in DEVICE_EVENTS.columns:
        if column.missing:
            assert pd.isna(row[column.name]), column.name


@pytest.mark.parametrize(
    "stat, details, kind, size_bytes",
    [
        ("memcpy_details", "kind:Unknown size:512 dest:512 async:1", "copy", 512),
        ("Memset_details", "kind:device num_bytes:64", "memset", 64),
        ("memset_details", "kind:device num_bytes:64", "memset", 64),
        ("memalloc_details", "kind:device num_bytes:4096", "memory", 4096),
        ("MemFree_details", "kind:device", "memory", None),
        ("kernel_details", " grid:1,1,1 block:1,1,1", "kernel", None),
    ],
)
def test_kinds_of_events(tmp_path: Path, stat: str, details: str, kind: str, size_bytes: int | None) -> None:
    events = [EventRecord(name="x", stats={stat: details}), EventRecord(name="y", stats={"hlo_op": "dot.1"})]
    frame = read(tmp_path, gpu_plane(0, [stream(events)]))
    assert frame["kind"].tolist() == [kind, "kernel"]
    assert frame["size_bytes"].astype(object).where(frame["size_bytes"].notna(), None).tolist() == [size_bytes, None]


def test_names_are_cleaned_as_in_dispatches_and_held_once(tmp_path: Path) -> None:
    names = ["gemm.kd", "gemm", "gemm [clone .kd]", "_ZN5aiter3fmhaE.kd"]
    frame = read(tmp_path, gpu_plane(0, [stream([EventRecord(name=name) for name in names])]))
    assert frame["raw_kernel_name"].tolist() == names
    assert frame["kernel_name"].tolist() == ["gemm", "gemm", "gemm", "_ZN5aiter3fmhaE"]
    assert len(frame["kernel_name"].cat.categories) == 2


def test_program_ids_are_unsigned_text_whatever_type_they_have(tmp_path: Path) -> None:
    values = [17, Unsigned(17), -1, Unsigned(2**64 - 1), Unsigned(2**63)]
    events = [EventRecord(name="x", stats={"program_id": value}) for value in values]
    frame = read(tmp_path, gpu_plane(0, [stream(events)]))
    largest = str(2**64 - 1)
    assert frame["program_id"].tolist() == ["17", "17", largest, largest, str(2**63)]


def test_scope_hint_is_the_prefix_and_the_name(tmp_path: Path) -> None:
    events = [
        EventRecord(name="x", stats=stats)
        for stats in (
            {"prefix": "jit(f)", "name": "dot"},
            {"name": "dot"},
            {"prefix": "jit(f)"},
            {"name": ""},
            {},
        )
    ]
    frame = read(tmp_path, gpu_plane(0, [stream(events)]))
    assert frame["scope_hint"].astype(object).where(frame["scope_hint"].notna(), None).tolist() == [
        "jit(f)/dot", "dot", "jit(f)", None, None,
    ]  # fmt: skip


def test_rows_are_in_the_order_of_the_frame(tmp_path: Path) -> None:
    def kernels(*starts: int) -> list[EventRecord]:
        return [EventRecord(name="k", offset_ps=1000 * start) for start in starts]

    frame = read(
        tmp_path,
        gpu_plane(10, [stream(kernels(1), 1)]),
        gpu_plane(2, [stream(kernels(5, 2), 10), stream(kernels(3, 5, 5), 9), LineRecord(name="Steps", id=0xDEADBEEF)]),
    )
    rows = frame[["device", "start_ns", "line", "event_index"]].astype({"device": str, "line": str})
    assert list(rows.itertuples(index=False, name=None)) == [
        ("/device:GPU:2", 2, "Stream #10", 1),
        ("/device:GPU:2", 3, "Stream #9", 0),
        ("/device:GPU:2", 5, "Stream #9", 1),
        ("/device:GPU:2", 5, "Stream #9", 2),
        ("/device:GPU:2", 5, "Stream #10", 0),
        ("/device:GPU:10", 1, "Stream #1", 0),
    ]


def test_derived_lines_are_left_out(tmp_path: Path) -> None:
    derived = LineRecord(name="XLA Ops", id=0xDEADBEEF, events=[EventRecord(name="x", duration_ps=9)])
    frame = read(tmp_path, gpu_plane(0, [stream([EventRecord(name="k", duration_ps=1)]), derived]))
    assert frame["duration_ps"].tolist() == [1]


def test_lines_of_a_tpu_that_span_instructions_are_not_kernels(tmp_path: Path) -> None:
    lines = [LineRecord(name=name, events=[EventRecord(name="x")]) for name in ("Steps", "XLA Modules", "XLA Ops")]
    frame = read(tmp_path, PlaneRecord(name="/device:TPU:0", lines=lines))
    assert dict(zip(frame["line"], frame["kind"], strict=True)) == {
        "Steps": "other", "XLA Modules": "other", "XLA Ops": "kernel",
    }  # fmt: skip


def test_aggregated_events_have_no_row_and_positions_stay(tmp_path: Path) -> None:
    events = [EventRecord(name="a", occurrences=5, duration_ps=100), EventRecord(name="b", stats={"hlo_op": "x"})]
    frame = read(tmp_path, gpu_plane(0, [stream(events)]))
    assert frame[["event_index", "kernel_name", "hlo_op"]].values.tolist() == [[1, "b", "x"]]


def test_a_part_of_the_columns(tmp_path: Path) -> None:
    planes = [gpu_plane(0, [stream([kernel_event("k", offset_ps=5, duration_ps=6, correlation_id=1)])])]
    for columns in (["duration_ps"], ["kind"], ["size_bytes"], ["grid_workitems_y", "hlo_op"], []):
        frame = read(tmp_path, *planes, columns=columns)
        assert require_frame(frame, DEVICE_EVENTS, columns) is frame
        assert len(frame) == 1


def test_a_profile_without_devices_has_no_row(tmp_path: Path) -> None:
    for planes in ([], [gpu_plane(0, [])], [gpu_plane(0, [LineRecord(name="Stream #1")])]):
        frame = read(tmp_path, *planes)
        assert require_frame(frame, DEVICE_EVENTS) is frame
        assert len(frame) == 0


def test_profiles_of_several_hosts_are_one_frame(tmp_path: Path) -> None:
    files = []
    for number, host in enumerate(["b", "a", "b"]):
        plane = gpu_plane(0, [stream([EventRecord(name="k", duration_ps=number)])])
        path = write_xspace(tmp_path / f"{number}.pb", SpaceRecord(planes=[plane], hostnames=[host]))
        files.append(open_xspace(path))
    frame = read_device_events(files, run="r")
    assert list(zip(frame["host"], frame["duration_ps"], strict=True)) == [("a", 1), ("b", 0), ("b#2", 2)]


@pytest.mark.parametrize("offset_ps, duration_ps", [(0, -1), (2**62, 1), (-(2**63), 1), (0, 2**63 - 1)])
def test_times_that_cannot_be_are_refused(tmp_path: Path, offset_ps: int, duration_ps: int) -> None:
    event = EventRecord(name="k", offset_ps=offset_ps, duration_ps=duration_ps)
    with pytest.raises(DamagedFile, match="event 0 lasts") as caught:
        read(tmp_path, gpu_plane(0, [stream([event])]))
    assert "line 'Stream #2'" in (caught.value.where or "")
