"""A path -> an open profile: its outline, its facts, and one plain error where it is damaged."""

from __future__ import annotations

import gzip
import os
from pathlib import Path

import pytest
from xspace_messages import field

from rocktools.demo.xspace_writer import (
    EventRecord,
    InlineText,
    LineRecord,
    PlaneRecord,
    SpaceRecord,
    Unsigned,
    build_xspace,
    environment_plane,
    gpu_plane,
    kernel_event,
    write_xspace,
)
from rocktools.errors import DamagedFile, InputError
from rocktools.sources.xspace.opening import open_xspace

KERNEL = kernel_event("fusion", offset_ps=1500, duration_ps=2500, correlation_id=4)
STREAM = LineRecord(name="Stream #2", id=2, timestamp_ns=5000, events=[KERNEL], duration_ps=77, display_name="main")
SMALL = SpaceRecord(
    planes=[gpu_plane(0, [STREAM]), environment_plane(start_ns=1000, stop_ns=3000)],
    hostnames=["node-1"],
    errors=["no counters"],
    warnings=["slow"],
)


def test_outline_of_a_profile(tmp_path: Path) -> None:
    with open_xspace(write_xspace(tmp_path / "a.xplane.pb", SMALL)) as profile:
        assert [plane.name for plane in profile.planes] == ["/device:GPU:0", "Task Environment"]
        assert (profile.host, profile.hostnames) == ("node-1", ("node-1",))
        assert (profile.errors, profile.warnings) == (("no counters",), ("slow",))
        assert (profile.profile_start_ns, profile.profile_end_ns) == (1000, 3000)
        assert profile.is_simulated
        assert profile.size_bytes == (tmp_path / "a.xplane.pb").stat().st_size
        plane = profile.planes[0]
        assert (plane.id, plane.stats["device_vendor"], plane.stats["clock_rate"]) == (0, "AMD", 2_400_000)
        (line,) = plane.lines
        assert (line.id, line.name, line.timestamp_ns, line.has_events) == (2, "Stream #2", 5000, True)
        # These are written behind the events.
        assert (line.display_name, line.duration_ps, line.display_id) == ("main", 77, 0)


def test_a_packed_profile_is_read_by_its_content(tmp_path: Path) -> None:
    packed = write_xspace(tmp_path / "a.xplane.pb.gz", SMALL)
    renamed = packed.rename(tmp_path / "b.xplane.pb")
    assert renamed.read_bytes().startswith(b"\x1f\x8b")
    with open_xspace(renamed) as profile:
        assert profile.planes[0].lines[0].events().duration_ps.tolist() == [2500]


@pytest.mark.parametrize("hostnames, host", [([], "host"), (["a"], "a"), (["a", "b"], "a+b"), ([""], "host")])
def test_the_label_of_a_host(tmp_path: Path, hostnames: list[str], host: str) -> None:
    space = SpaceRecord(planes=[], hostnames=hostnames)
    with open_xspace(write_xspace(tmp_path / "a.pb", space)) as profile:
        assert profile.host == host


def test_a_profile_without_an_environment_has_no_epoch_and_is_not_simulated(tmp_path: Path) -> None:
    path = tmp_path / "a.pb"
    path.write_bytes(field(1, field(2, b"/device:GPU:0")))
    with open_xspace(path) as profile:
        assert profile.profile_start_ns is None
        assert not profile.is_simulated
        assert profile.host == "host"


def test_statistics_of_all_types(tmp_path: Path) -> None:
    stats = {"a": 1.5, "b": Unsigned(2**64 - 1), "c": -7, "d": InlineText("é"), "e": b"\x00\xff", "f": "referred"}
    line = LineRecord(name="x", events=[EventRecord(name="e", stats=stats), EventRecord(name="none")])
    plane = PlaneRecord(name="/host:CPU", lines=[line], stats=stats)
    with open_xspace(write_xspace(tmp_path / "a.pb", SpaceRecord(planes=[plane]))) as profile:
        found = profile.planes[0]
        expected = {"a": 1.5, "b": 2**64 - 1, "c": -7, "d": "é", "e": b"\x00\xff", "f": "referred"}
        assert dict(found.stats) == expected
        events = found.lines[0].events()
        assert {name: events.stat(name).values() for name in events.stat_names} == {
            name: [value, None] for name, value in expected.items()
        }
        assert events.stat("g").values() == [None, None]
        assert found.lines[0].events(["c", "g"]).stat_names == ("c",)


def test_texts_that_are_no_utf8_cost_only_themselves(tmp_path: Path) -> None:
    metadata = field(4, field(1, 1) + field(2, field(1, 1) + field(2, b"ker\xffnel\x00")))
    path = tmp_path / "a.pb"
    path.write_bytes(field(1, field(2, b"/device:GPU:0") + field(3, field(4, field(1, 1))) + metadata))
    with open_xspace(path) as profile:
        assert profile.planes[0].lines[0].events().names().names == ("ker\ufffdnel\ufffd",)


def test_a_line_whose_head_comes_behind_its_events(tmp_path: Path) -> None:
    line = field(4, field(1, 1) + field(2, 3000)) + field(3, 50) + field(2, b"Stream #9") + field(1, 9)
    path = tmp_path / "a.pb"
    path.write_bytes(field(1, field(3, line) + field(2, b"/device:GPU:0")))
    with open_xspace(path) as profile:
        (found,) = profile.planes[0].lines
        assert (found.id, found.name, found.timestamp_ns) == (9, "Stream #9", 50)
        assert found.events().start_ns.tolist() == [53]


def test_two_profiles_of_one_after_the_other_are_one(tmp_path: Path) -> None:
    path = tmp_path / "a.pb"
    path.write_bytes(build_xspace(SMALL) * 2)
    with open_xspace(path) as profile:
        assert len(profile.planes) == 4


@pytest.mark.parametrize(
    "content, reference, what",
    [
        (b"", "xspace-empty", "empty"),
        (b"\x1f\x8b", "xspace-gzip", "cut off"),
        (gzip.compress(b"", mtime=0), "xspace-empty", "holds nothing"),
        (gzip.compress(build_xspace(SMALL), mtime=0)[:-9], "xspace-gzip", "cut off"),
        (gzip.compress(b"\x0a\x7fab", mtime=0), "xspace-damaged", "claims 127 bytes where its message has 2 left"),
        (b"\x0a\x7fab", "xspace-damaged", "claims 127 bytes where its message has 2 left"),
        (b"not a profile", "xspace-damaged", "cut off or damaged"),
    ],
)
def test_what_is_no_whole_profile_is_refused(tmp_path: Path, content: bytes, reference: str, what: str) -> None:
    path = tmp_path / "a.xplane.pb"
    path.write_bytes(content)
    with pytest.raises(DamagedFile, match=what) as caught:
        open_xspace(path)
    assert caught.value.reference == reference
    assert str(path) in (caught.value.where or "")


def test_places_in_a_packed_profile_are_told_as_such(tmp_path: Path) -> None:
    path = tmp_path / "a.gz"
    path.write_bytes(gzip.compress(build_xspace(SMALL) + b"\x0a\x7f"))
    with pytest.raises(DamagedFile) as caught:
        open_xspace(path)
    assert f"byte of the unpacked content {len(build_xspace(SMALL))}" in (caught.value.where or "")


def test_a_damaged_event_is_told_with_byte_plane_and_line(tmp_path: Path) -> None:
    content = build_xspace(SMALL)
    place = content.index(b"\x10" + b"\xdc\x0b")  # the offset of 1500 ps
    path = tmp_path / "a.pb"
    path.write_bytes(content[:place] + b"\x13" + content[place + 1 :])
    with open_xspace(path) as profile, pytest.raises(DamagedFile) as caught:
        profile.planes[0].lines[0].events()
    assert caught.value.where == f"{path}, byte {place}, plane '/device:GPU:0', line 'Stream #2' (id 2)"


def test_damaged_metadata_is_told_with_its_plane(tmp_path: Path) -> None:
    path = tmp_path / "a.pb"
    path.write_bytes(field(1, field(2, b"/device:GPU:0") + field(5, b"\x0b")))
    with open_xspace(path) as profile, pytest.raises(DamagedFile, match="names or statistics") as caught:
        _ = profile.planes[0].facts
    assert "plane '/device:GPU:0'" in (caught.value.where or "")


def test_every_prefix_of_a_profile_ends_in_a_result_or_in_one_error(tmp_path: Path) -> None:
    content = build_xspace(SMALL)
    path = tmp_path / "a.pb"
    whole = 0
    for length in range(1, len(content)):
        path.write_bytes(content[:length])
        try:
            with open_xspace(path) as profile:
                for plane in profile.planes:
                    _ = plane.facts, [line.events() for line in plane.lines]
        except DamagedFile:
            continue
        whole += 1
    assert whole <= len(SMALL.planes) + 3, "only a cut between two fields of the outermost message goes unnoticed"


@pytest.mark.parametrize("kind", ["absent", "folder", "pipe"])
def test_what_is_no_file_is_refused(tmp_path: Path, kind: str) -> None:
    path = tmp_path / kind
    if kind == "folder":
        path.mkdir()
    elif kind == "pipe":
        os.mkfifo(path)
    with pytest.raises(InputError) as caught:
        open_xspace(path)
    assert not isinstance(caught.value, DamagedFile)


def test_the_compiled_decoder_is_used_when_asked_for(tmp_path: Path) -> None:
    pytest.importorskip("numba")
    with open_xspace(write_xspace(tmp_path / "a.pb", SMALL), accelerate=True) as profile:
        assert type(profile.planes[0].lines[0].decoder).__name__ == "CompiledDecoder"
        assert profile.planes[0].lines[0].events().duration_ps.tolist() == [2500]


def test_columns_outlive_the_file(tmp_path: Path) -> None:
    with open_xspace(write_xspace(tmp_path / "a.pb", SMALL)) as profile:
        events = profile.planes[0].lines[0].events()
    assert events.start_ns.tolist() == [5001]
    assert events.stat("kernel_details").labels().names[0].startswith(" grid:")
