"""Derived lines are told from recorded ones, planes and lines get labels that are unique."""

from __future__ import annotations

from pathlib import Path

import pytest

from rocktools.demo.xspace_writer import EventRecord, LineRecord, PlaneRecord, SpaceRecord, write_xspace
from rocktools.sources.xspace.opening import open_xspace
from rocktools.sources.xspace.plane import Plane
from rocktools.sources.xspace.raw_lines import device_planes, host_planes, is_derived, raw_lines, stream_number

EVENTS = [EventRecord(name="e", duration_ps=1)]


def planes_of(folder: Path, *planes: PlaneRecord) -> tuple[Plane, ...]:
    return open_xspace(write_xspace(folder / "a.pb", SpaceRecord(planes=planes))).planes


def line(name: str, line_id: int = 1) -> LineRecord:
    return LineRecord(name=name, id=line_id, events=EVENTS)


@pytest.mark.parametrize(
    "plane, name, line_id, expected",
    [
        ("/device:GPU:0", "Stream #2", 2, False),
        ("/device:GPU:0", "Stream #17(Kernel)", 17, False),
        # Queue handles may be any number.
        ("/device:GPU:0", "Stream #140236813598720", 140236813598720, False),
        ("/device:GPU:0", "XLA Ops", 0xDEADBEEF + 5, True),
        ("/device:GPU:0", "Steps", 1, True),
        ("/device:GPU:0", "Launch Stats", 0xDEADBEF5, True),
        ("/device:GPU:0", "XLA Ops - from #2", 7, True),
        ("/device:GPU:0", "Something new", 0xDEADBEEF, True),
        ("/device:GPU:0", "Something new", 5, False),
        # Recorded on TPUs under the same names; thread ids of hosts may be any number.
        ("/device:TPU:0", "XLA Ops", 3, False),
        ("/device:TPU:0", "Steps", 0xDEADBEEF, False),
        ("/host:CPU", "python", 2432684652766261206, False),
        ("/host:CPU", "python", -1472503042444199177, False),
    ],
)
def test_lines_that_a_converter_added(tmp_path: Path, plane: str, name: str, line_id: int, expected: bool) -> None:
    found = planes_of(tmp_path, PlaneRecord(name=plane, lines=[line(name, line_id)]))[0]
    assert is_derived(found.lines[0]) is expected
    assert [label for label, _ in raw_lines(found)] == ([] if expected else [name])


def test_lines_are_labelled_and_ordered_and_empty_ones_left_out(tmp_path: Path) -> None:
    lines = [line("Stream #10", 10), line("Stream #2", 2), line("python", 7), line("python", 8), line("python", 8)]
    (plane, *_) = planes_of(tmp_path, PlaneRecord(name="/device:GPU:0", lines=[*lines, LineRecord(name="empty")]))
    assert [label for label, _ in raw_lines(plane)] == [
        "Stream #2", "Stream #10", "python#7", "python#8", "python#8#2",
    ]  # fmt: skip


def test_planes_of_devices_and_hosts(tmp_path: Path) -> None:
    names = ["/device:GPU:10", "/host:CPU", "/device:GPU:2", "/device:CUSTOM:Megascale Trace", "/device:TPU:0"]
    planes = planes_of(
        tmp_path, *(PlaneRecord(name=name, lines=[line("x")]) for name in [*names, "/device:GPU:2"]),
        PlaneRecord(name="/host:metadata"),
    )  # fmt: skip
    assert [label for label, _ in device_planes(planes)] == [
        "/device:GPU:2#1", "/device:GPU:2#2", "/device:GPU:10", "/device:TPU:0",
    ]  # fmt: skip
    assert [label for label, _ in host_planes(planes)] == ["/host:CPU"]


@pytest.mark.parametrize(
    "name, number", [("Stream #2", 2), ("Stream #17(Kernel)", 17), ("XLA Ops", None), ("Host Threads/7", None)]
)
def test_the_number_of_a_stream_is_in_its_name(tmp_path: Path, name: str, number: int | None) -> None:
    (plane, *_) = planes_of(tmp_path, PlaneRecord(name="/device:GPU:0", lines=[line(name)]))
    assert stream_number(plane.lines[0]) == number
