"""Profiles from records, read back by jax's own reader: what rocktools reads must not depend on its own writer."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any

import pytest

from rocktools.demo.xspace_writer import (
    SIMULATED_STAT,
    EventRecord,
    InlineText,
    LineRecord,
    PlaneRecord,
    SpaceRecord,
    Unsigned,
    build_plane,
    build_xspace,
    environment_plane,
    gpu_plane,
    kernel_event,
    metadata_plane,
    write_xspace,
)


def read(path: Path) -> dict[str, Any]:
    profiler = pytest.importorskip("jax.profiler")
    return {plane.name: plane for plane in profiler.ProfileData.from_file(str(path)).planes}


def test_jax_reads_events_and_statistics_of_all_types(tmp_path: Path) -> None:
    stats = {"a": 1.5, "b": Unsigned(2**64 - 1), "c": -7, "d": InlineText("written"), "f": "referred"}
    line = LineRecord(
        name="python",
        id=-5,
        timestamp_ns=1000,
        events=[EventRecord(name="e", offset_ps=2000, duration_ps=1000, stats=stats)],
    )
    planes = [PlaneRecord(name="/host:CPU", id=7, lines=[line], stats={"vendor": InlineText("AMD")})]
    (found,) = read(write_xspace(tmp_path / "a.pb", SpaceRecord(planes=planes)))["/host:CPU"].lines
    (event,) = found.events
    assert (found.name, event.name, event.start_ns, event.duration_ns) == ("python", "e", 1002.0, 1.0)
    assert dict(event.stats) == {"a": 1.5, "b": 2**64 - 1, "c": -7, "d": "written", "f": "referred"}


def test_every_profile_says_that_it_is_simulated(tmp_path: Path) -> None:
    for planes in ([], [environment_plane(start_ns=5)], [PlaneRecord(name="Task Environment")]):
        stats = dict(read(write_xspace(tmp_path / "a.pb", SpaceRecord(planes=planes)))["Task Environment"].stats)
        assert stats[SIMULATED_STAT] == 1


def test_equal_records_give_equal_bytes() -> None:
    planes = [gpu_plane(0, [LineRecord(name="Stream #1", events=[EventRecord(name=name) for name in "abc"])])]
    assert build_xspace(SpaceRecord(planes=planes)) == build_xspace(SpaceRecord(planes=planes))


def test_a_packed_profile_unpacks_to_the_same(tmp_path: Path) -> None:
    space = SpaceRecord(planes=[metadata_plane({"jit_f(1)": b"proto"})])
    assert gzip.decompress(write_xspace(tmp_path / "a.pb.gz", space).read_bytes()) == build_xspace(space)


def test_names_are_interned_and_given_keys_are_kept() -> None:
    from rocktools.sources.xspace.messages import build_plane_facts

    events = [kernel_event("k", offset_ps=0, duration_ps=1, correlation_id=1)] * 3
    record = PlaneRecord(
        name="p", lines=[LineRecord(name="l", events=events)], event_keys={"other": 2}, stat_keys={"kernel_details": 90}
    )
    facts: Any = build_plane_facts()()
    facts.ParseFromString(build_plane(record))
    assert {metadata.name: key for key, metadata in facts.event_metadata.items()} == {b"other": 2, b"k.kd": 3}
    names = {metadata.name: key for key, metadata in facts.stat_metadata.items()}
    assert names[b"kernel_details"] == 90
    assert len(names) == 3
