"""Profiles are known by their first bytes, whatever they are called."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest
from xspace_messages import field

from rocktools.demo.xspace_writer import LineRecord, SpaceRecord, build_xspace, gpu_plane, kernel_event, metadata_plane
from rocktools.sources.xspace.detect import begins_as_xspace, is_xspace

EVENTS = [kernel_event("k", offset_ps=0, duration_ps=1, correlation_id=1)] * 1000
LARGE = build_xspace(SpaceRecord(planes=[gpu_plane(3, [LineRecord(name="Stream #1", events=EVENTS)])]))


@pytest.mark.parametrize(
    "content",
    [
        LARGE,
        build_xspace(SpaceRecord(planes=[metadata_plane({"jit_f(1)": b"proto"})])),
        gzip.compress(LARGE, mtime=0),
        LARGE[:5000],
        field(1, field(2, b"/host:CPU")),
    ],
)
def test_profiles_are_known(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "x").write_bytes(content)
    assert is_xspace(tmp_path / "x")


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\x0a",
        b"SQLite format 3\x00" + bytes(100),
        b"HloModule jit_f, is_scheduled=true\n",
        b'{"traceEvents": []}',
        b"\x1f\x8b",
        gzip.compress(b"{}", mtime=0),
        bytes(100),
        b"\n\n\n\n\n\n",
        # HloProto: a module with a name
        field(1, field(1, b"jit_f") + field(2, b"main")),
        # a plane of another kind of message: its number 1 is no text, but its number 2 is a number
        field(1, field(1, 5) + field(2, 7)),
        field(1, field(2, b"\x00\x01")),
        field(1, field(2, b"")),
        field(4, b"hostname"),
    ],
)
def test_other_files_are_not(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "x").write_bytes(content)
    assert not is_xspace(tmp_path / "x")


def test_what_cannot_be_read_is_none(tmp_path: Path) -> None:
    assert not is_xspace(tmp_path / "absent")
    assert not is_xspace(tmp_path)


def test_any_prefix_has_an_answer() -> None:
    answers = {begins_as_xspace(LARGE[:length]) for length in range(200)}
    assert answers == {True, False}


def test_shared_profiles_and_nothing_else_are_known(shared: Path) -> None:
    files = [path for path in (shared / "data").rglob("*") if path.is_file() and path.stat().st_size < 50_000_000]
    assert {path for path in files if is_xspace(path)} == {path for path in files if path.name.endswith(".xplane.pb")}
