"""Traces in JSON: the same events as in the profile, limits of exporters, and what is no such trace."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pandas as pd
import pytest
from tiny_run import tiny_trace, write_tiny_profile
from trace_json import complete_event, small_document, trace_document, write_trace_json

from rocktools.errors import DamagedFile, InputError, NothingToRead, UnknownFormat
from rocktools.sources import perfetto_json
from rocktools.sources.perfetto_json import convert_perfetto_json, host_name_of, is_near_cap, is_perfetto_json
from rocktools.sources.xspace.device_events import read_device_events
from rocktools.sources.xspace.host_events import read_host_events
from rocktools.sources.xspace.opening import open_xspace

_KEY = ["run", "host", "device", "line", "event_index"]


def _frames(profile: Path) -> tuple[pd.DataFrame, pd.DataFrame]:
    file = open_xspace(profile)
    frames = read_device_events([file], run="r"), read_host_events([file], run="r")
    file.close()
    return frames


def _assert_same(profile: Path, folder: Path) -> None:
    """Every column of every event but the host's name, times up to their origin."""
    document, origin_ns = trace_document(profile)
    made = folder / "made.xplane.pb"
    convert_perfetto_json(write_trace_json(folder / "h.trace.json.gz", document), made)
    for ours, theirs in zip(_frames(made), _frames(profile), strict=True):
        moved = theirs.assign(start_ns=theirs["start_ns"] - origin_ns, end_ns=theirs["end_ns"] - origin_ns)
        texts = [frame.drop(columns=[*_KEY, "duration_ps"]).astype(object) for frame in (ours, moved)]
        order = [["start_ns", "end_ns", *(name for name in texts[0] if name.endswith(("name", "op")))]] * 2
        ordered = [
            each.sort_values(names, kind="stable", ignore_index=True) for each, names in zip(texts, order, strict=True)
        ]
        pd.testing.assert_frame_equal(*ordered)
        assert ours["duration_ps"].sum() == theirs["duration_ps"].sum()


def test_events_are_those_of_the_profile(tmp_path: Path) -> None:
    _assert_same(write_tiny_profile(tmp_path / "p.xplane.pb", tiny_trace()), tmp_path)


@pytest.mark.parametrize("name", ["mi355_te_fused_attn", "jax08_attention", "jax_conv_minimal_08"])
def test_events_are_those_of_real_profiles(shared: Path, tmp_path: Path, name: str) -> None:
    [profile] = (shared / "data/xplane" / name).glob("*.xplane.pb")
    _assert_same(profile, tmp_path)


def test_what_a_trace_held_is_counted(tmp_path: Path) -> None:
    document = small_document(4)
    document["traceEvents"].insert(3, {"ph": "i", "pid": 1, "tid": 5, "ts": 1, "name": "instant"})
    document["traceEvents"].insert(3, {"ph": "X", "pid": 1, "tid": 6, "ts": float("nan"), "name": "nowhere"})
    found = convert_perfetto_json(write_trace_json(tmp_path / "x.trace.json", document), tmp_path / "x.xplane.pb")
    assert (found.complete_count, found.others_count) == (4, 2)
    assert (found.processes_count, found.threads_count) == (1, 1)
    assert not found.is_truncation_suspected
    assert found.findings == ()


def test_document_may_be_the_list_itself(tmp_path: Path) -> None:
    path = write_trace_json(tmp_path / "x.trace.json", small_document()["traceEvents"])
    assert convert_perfetto_json(path, tmp_path / "x.xplane.pb").complete_count == 3


@pytest.mark.parametrize(
    "count, is_near",
    [(0, False), (989_999, False), (990_000, True), (1_000_000, True), (1_000_900, True), (1_010_000, False),
     (4_900_000, False), (4_999_999, True), (5_000_000, True), (6_000_000, False)],
)  # fmt: skip
def test_counts_at_the_limits_of_exporters_and_close_to_them_are_suspicious(count: int, is_near: bool) -> None:
    assert is_near_cap(count) is is_near


def test_trace_at_the_limit_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With a limit of ours: a million events would take the test a while."""
    monkeypatch.setattr(perfetto_json, "EVENT_CAPS", (200,))
    path = write_trace_json(tmp_path / "x.trace.json.gz", small_document(199))
    found = convert_perfetto_json(path, tmp_path / "x.xplane.pb")
    assert found.is_truncation_suspected
    [finding] = found.findings
    assert finding.rule == "perfetto-event-cap"
    assert finding.numbers == {"events_count": 199, "cap_count": 200}
    assert "xplane.pb" in finding.advice


def test_text_that_is_read_in_many_pieces_loses_no_event(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(perfetto_json, "_PIECE_BYTES", 13)
    path = write_trace_json(tmp_path / "x.trace.json", small_document(50))
    assert convert_perfetto_json(path, tmp_path / "x.xplane.pb").complete_count == 50


def test_every_prefix_gives_whole_events_or_an_input_error(tmp_path: Path) -> None:
    text = json.dumps(small_document(5))
    path = tmp_path / "x.trace.json"
    read = set()
    for length in range(0, len(text), 11):
        path.write_text(text[:length], encoding="utf-8")
        try:
            found = convert_perfetto_json(path, tmp_path / "x.xplane.pb")
        except InputError:
            continue
        assert found.is_cut
        assert [each.rule for each in found.findings] == ["perfetto-json-cut"]
        read.add(found.complete_count)
    assert read == {1, 2, 3, 4, 5}


def test_packed_file_that_is_cut_gives_what_is_there(tmp_path: Path) -> None:
    path = tmp_path / "x.trace.json.gz"
    content = gzip.compress(json.dumps(small_document(3000)).encode())
    path.write_bytes(content[: len(content) // 2])
    found = convert_perfetto_json(path, tmp_path / "x.xplane.pb")
    assert 0 < found.complete_count < 3000
    assert found.is_cut
    path.write_bytes(content[:15])
    with pytest.raises(InputError):
        convert_perfetto_json(path, tmp_path / "x.xplane.pb")


@pytest.mark.parametrize(
    "document, error, reference",
    [
        ({"no": "events"}, UnknownFormat, "not-a-perfetto-json"),
        ("text", UnknownFormat, "not-a-perfetto-json"),
        ({"traceEvents": [complete_event(1)]}, UnknownFormat, "not-a-jax-trace"),
        ({"traceEvents": small_document()["traceEvents"][:2]}, NothingToRead, "no-events-in-trace"),
    ],
)
def test_what_is_no_trace_of_jax_is_refused(
    tmp_path: Path, document: object, error: type[InputError], reference: str
) -> None:
    with pytest.raises(error) as caught:
        convert_perfetto_json(write_trace_json(tmp_path / "x.trace.json", document), tmp_path / "x.xplane.pb")
    assert caught.value.reference == reference


def test_event_that_never_ends_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(perfetto_json, "_LONGEST_CHARACTERS", 1000)
    monkeypatch.setattr(perfetto_json, "_PIECE_BYTES", 100)
    path = tmp_path / "x.trace.json"
    path.write_text('{"traceEvents": [{"ph": ' + "x" * 5000 + "]}", encoding="utf-8")
    with pytest.raises(DamagedFile, match="perfetto-json"):
        convert_perfetto_json(path, tmp_path / "x.xplane.pb")


@pytest.mark.parametrize(
    "name, is_trace, host",
    [
        ("perfetto_trace.json.gz", True, "host"),
        ("node7.trace.json.gz", True, "node7"),
        ("node7.trace.json", True, "node7"),
        ("summary.json", False, "summary.json"),
    ],
)
def test_files_are_known_by_their_names(name: str, is_trace: bool, host: str) -> None:
    assert is_perfetto_json(Path(name)) is is_trace
    assert host_name_of(Path(name)) == host
