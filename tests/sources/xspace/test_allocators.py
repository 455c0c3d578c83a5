"""Allocator events of JAX profiles: peaks by the allocators' own account, of made and of real profiles."""

from __future__ import annotations

from pathlib import Path

import pytest

from rocktools.demo.xspace_writer import EventRecord, LineRecord, PlaneRecord, SpaceRecord, write_xspace
from rocktools.frames import require_frame
from rocktools.sources.xspace.allocators import ALLOCATORS, read_allocators
from rocktools.sources.xspace.opening import open_xspace


def event(name: str, allocator: str, held: int, peak: int, left: int) -> EventRecord:
    stats = {"allocator_name": allocator, "bytes_allocated": held, "peak_bytes_in_use": peak, "bytes_available": left}
    return EventRecord(name=name, offset_ps=0, duration_ps=0, stats=stats)


def written(path: Path, *lines: list[EventRecord]) -> Path:
    records = [LineRecord(id=i, name=f"thread {i}", events=tuple(events)) for i, events in enumerate(lines)]
    write_xspace(path, SpaceRecord(planes=(PlaneRecord(name="/host:CPU", lines=tuple(records)),), hostnames=("h",)))
    return path


def test_threads_of_one_allocator_are_taken_together(tmp_path: Path) -> None:
    """Two threads use GPU_0_bfc; its peak is older than the profile. Held: 10, 30, 20; left: 90, 70, 80."""
    path = written(
        tmp_path / "a.xplane.pb",
        [event("MemoryAllocation", "GPU_0_bfc", 10, 50, 90), event("Other", "GPU_0_bfc", 99, 99, 1)],
        [event("MemoryAllocation", "GPU_0_bfc", 30, 50, 70), event("MemoryDeallocation", "GPU_0_bfc", 20, 50, 80)],
        [event("MemoryAllocation", "GPU_1_bfc", 7, 7, 93)],
    )
    with open_xspace(path) as file:
        frame = require_frame(read_allocators([file], run="r"), ALLOCATORS)
    assert frame.astype({"run": str, "host": str, "allocator": str}).to_numpy().tolist() == [
        ["r", "h", "GPU_0_bfc", 50, 30, 70, 2, 1],
        ["r", "h", "GPU_1_bfc", 7, 7, 93, 1, 0],
    ]


def test_events_without_sizes_say_nothing(tmp_path: Path) -> None:
    bare = EventRecord(name="MemoryAllocation", offset_ps=0, duration_ps=0, stats={"allocator_name": "GPU_0_bfc"})
    with open_xspace(written(tmp_path / "a.xplane.pb", [bare])) as file:
        assert read_allocators([file], run="r").empty


@pytest.mark.conformance
def test_real_profiles_hold_the_peaks_that_jax_reads(shared: Path) -> None:
    """The oracle is jax.profiler.ProfileData: the most of a statistic over the events of that name."""
    profiler = pytest.importorskip("jax.profiler")
    if getattr(profiler, "ProfileData", None) is None:
        pytest.skip("this jax has no reader of profiles")
    path = shared / "data/xplane/jax_conv_minimal_08/tw003.xplane.pb"
    expected: dict[str, int] = {}
    for plane in profiler.ProfileData.from_file(str(path)).planes:
        for line in plane.lines:
            for each in line.events:
                if each.name in ("MemoryAllocation", "MemoryDeallocation"):
                    stats = dict(each.stats)
                    name = str(stats["allocator_name"])
                    expected[name] = max(expected.get(name, 0), int(stats["peak_bytes_in_use"]))
    with open_xspace(path) as file:
        frame = read_allocators([file], run="r")
    assert dict(zip(frame["allocator"].astype(str), frame["peak_bytes"], strict=True)) == expected
    assert int(frame["allocations_count"].sum()) == int(frame["releases_count"].sum()) == 115
