"""Device planes -> PROFILED_DEVICES."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from rocktools.demo.xspace_writer import (
    EventRecord,
    InlineText,
    LineRecord,
    PlaneRecord,
    SpaceRecord,
    Stats,
    Unsigned,
    gpu_plane,
    write_xspace,
)
from rocktools.errors import DamagedFile
from rocktools.frames import PROFILED_DEVICES
from rocktools.sources.xspace.opening import open_xspace
from rocktools.sources.xspace.profiled_devices import read_profiled_devices


def read(folder: Path, *planes: PlaneRecord) -> list[dict[str, Any]]:
    path = write_xspace(folder / "a.pb", SpaceRecord(planes=planes))
    with open_xspace(path) as file:
        frame = read_profiled_devices([file], run="r")
    return [
        {name: None if pd.isna(value) else value for name, value in row.items()} for row in frame.to_dict("records")
    ]


def test_facts_and_activity_of_a_gpu(tmp_path: Path) -> None:
    # Picoseconds on one clock: [5000, 9000) and [8500, 9500) on two lines; 500 ps are covered twice.
    first = LineRecord(
        name="Stream #1",
        timestamp_ns=4,
        events=[EventRecord(name="a", offset_ps=1000, duration_ps=4000, stats={"hlo_op": "x"})],
    )
    second = LineRecord(
        name="Stream #2", timestamp_ns=8, events=[EventRecord(name="b", offset_ps=500, duration_ps=1000)]
    )
    derived = LineRecord(name="XLA Ops", id=0xDEADBEEF, events=[EventRecord(name="x", duration_ps=10**9)])
    (row,) = read(tmp_path, gpu_plane(3, [first, second, derived]))
    assert row == {
        "run": "r",
        "host": "simulated",
        "device": "/device:GPU:3",
        "arch": "gfx950",
        "vendor": "AMD",
        "cu_count": 256,
        "clock_hz": 2_400_000_000,
        "memory_bytes": 309_220_868_096,
        "memory_bytes_per_s": 4_096_000_000_000,
        "lines_count": 2,
        "events_count": 2,
        "annotated_count": 1,
        "start_ns": 5,
        "end_ns": 9,
        "sum_ps": 5000,
        "union_ps": 4500,
    }


def test_a_device_without_events_or_facts_has_a_row_of_its_own(tmp_path: Path) -> None:
    (row,) = read(tmp_path, gpu_plane(1, [], stats={}))
    assert (row["events_count"], row["sum_ps"], row["union_ps"]) == (0, 0, 0)
    assert [name for name, value in row.items() if value is None] == [
        column.name for column in PROFILED_DEVICES.columns if column.missing
    ]


@pytest.mark.parametrize(
    "stats, arch",
    [
        ({"device_vendor": InlineText("AMD"), "compute_cap_major": 9, "compute_cap_minor": 4}, "gfx942"),
        ({"device_vendor": InlineText("AMD"), "compute_cap_major": 9, "compute_cap_minor": 0}, None),
        ({"device_vendor": InlineText("Nvidia"), "compute_cap_major": 9, "compute_cap_minor": 4}, None),
        ({"gpu_device_name": InlineText("gfx1250"), "compute_cap_major": 9, "compute_cap_minor": 4}, "gfx1250"),
        ({"device_vendor": InlineText("AMD")}, None),
        ({"compute_cap_major": 9, "compute_cap_minor": 5}, None),
    ],
)
def test_architecture_is_recorded_or_follows_from_the_capability(
    tmp_path: Path, stats: Stats, arch: str | None
) -> None:
    assert read(tmp_path, gpu_plane(0, [], stats=stats))[0]["arch"] == arch


def test_facts_that_cannot_be_are_missing(tmp_path: Path) -> None:
    stats: Stats = {"core_count": 0, "clock_rate": "fast", "memory_size": Unsigned(2**64 - 1), "memory_bandwidth": -5}
    (row,) = read(tmp_path, gpu_plane(0, [], stats=stats))
    assert [row[name] for name in ("cu_count", "clock_hz", "memory_bytes", "memory_bytes_per_s")] == [None] * 4


def test_lines_that_span_others_are_not_added_up(tmp_path: Path) -> None:
    lines = [LineRecord(name=name, events=[EventRecord(name="x", duration_ps=5000)]) for name in ("Steps", "XLA Ops")]
    (row,) = read(tmp_path, PlaneRecord(name="/device:TPU:0", lines=lines))
    assert (row["lines_count"], row["sum_ps"]) == (2, 5000)


def test_lines_of_two_clocks_are_refused(tmp_path: Path) -> None:
    lines = [
        LineRecord(name=f"Stream #{number}", timestamp_ns=start, events=[EventRecord(name="x", duration_ps=1)])
        for number, start in enumerate([0, 2**62])
    ]
    with pytest.raises(DamagedFile, match="starts at"):
        read(tmp_path, gpu_plane(0, lines))
