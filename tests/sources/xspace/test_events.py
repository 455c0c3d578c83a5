"""Events of a line as columns."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rocktools.demo.xspace_writer import (
    EventRecord,
    InlineText,
    LineRecord,
    PlaneRecord,
    SpaceRecord,
    Stats,
    Unsigned,
    write_xspace,
)
from rocktools.sources.xspace import event_decoder
from rocktools.sources.xspace.event_block import distinct_values
from rocktools.sources.xspace.events import Events
from rocktools.sources.xspace.opening import open_xspace
from rocktools.sources.xspace.stat_columns import factorize


def events_of(
    folder: Path,
    events: Sequence[EventRecord],
    *,
    timestamp_ns: int = 0,
    event_stats: Mapping[str, Stats] | None = None,
    stat_keys: Mapping[str, int] | None = None,
    stats: list[str] | None = None,
) -> Events:
    plane = PlaneRecord(
        name="/host:CPU",
        lines=[LineRecord(name="thread", events=events, timestamp_ns=timestamp_ns)],
        event_stats=event_stats or {},
        stat_keys=stat_keys or {},
    )
    path = write_xspace(folder / "a.pb", SpaceRecord(planes=[plane]))
    return open_xspace(path).planes[0].lines[0].events(stats)


def test_times_are_whole_nanoseconds_rounded_down_and_picoseconds_are_kept(tmp_path: Path) -> None:
    events = events_of(
        tmp_path,
        [EventRecord(name="a", offset_ps=1999, duration_ps=1), EventRecord(name="b", offset_ps=-1, duration_ps=1001)],
        timestamp_ns=10,
    )
    assert events.start_ns.tolist() == [11, 9]
    assert events.end_ns.tolist() == [12, 11]
    assert events.duration_ps.tolist() == [1, 1001]


def test_an_epoch_of_nanoseconds_does_not_overflow(tmp_path: Path) -> None:
    start = 1_779_266_702_889_805_563
    events = events_of(tmp_path, [EventRecord(name="a", offset_ps=1000, duration_ps=2000)], timestamp_ns=start)
    assert (events.start_ns.tolist(), events.end_ns.tolist()) == ([start + 1], [start + 3])


def test_a_statistic_may_change_its_type_from_event_to_event(tmp_path: Path) -> None:
    values = [0.5, 3, Unsigned(2**63), "text", InlineText("text"), InlineText("other"), b"raw", None]
    events = events_of(
        tmp_path, [EventRecord(name="a", stats={} if value is None else {"x": value}) for value in values]
    )
    column = events.stat("x")
    assert column.values() == [0.5, 3, 2**63, "text", "text", "other", b"raw", None]
    labels = column.labels()
    assert [labels.names[code] if code >= 0 else None for code in labels.codes] == [
        "0.5", "3", str(2**63), "text", "text", "other", None, None,
    ]  # fmt: skip
    integers = column.integers()
    assert integers.missing.tolist() == [True, False, True, True, True, True, True, True]
    assert integers.values[1] == 3
    floats = column.floats()
    assert floats[:3].tolist() == [0.5, 3.0, 2.0**63]
    assert all(map(math.isnan, floats[3:]))


def test_statistics_of_event_metadata_hold_where_the_event_has_none(tmp_path: Path) -> None:
    events = events_of(
        tmp_path,
        [
            EventRecord(name="dot", stats={"flops": 5}),
            EventRecord(name="dot"),
            EventRecord(name="add"),
            EventRecord(name="dot", stats={"category": "own"}),
        ],
        event_stats={"dot": {"flops": 7, "category": InlineText("convolution"), "ratio": 0.5}},
    )
    assert events.stat("flops").values() == [5, 7, None, 7]
    assert events.stat("category").values() == ["convolution", "convolution", None, "own"]
    assert events.stat("ratio").values() == [0.5, 0.5, None, 0.5]
    only = events_of(tmp_path, [EventRecord(name="dot")], event_stats={"dot": {"a": 1, "b": 2}}, stats=["b"])
    assert only.stat_names == ("b",)


def test_keys_may_be_any_number(tmp_path: Path) -> None:
    keys = {"x": -(2**63), "y": 2**63 - 1, "text": 2**40}
    events = events_of(tmp_path, [EventRecord(name="a", stats={"x": "text", "y": 1})], stat_keys=keys)
    assert events.stat("x").values() == ["text"]
    assert events.stat("y").values() == [1]


def test_a_reference_to_nothing_is_an_empty_text(tmp_path: Path) -> None:
    events = events_of(tmp_path, [EventRecord(name="a", stats={"x": "text"})])
    broken = events.stat("x")
    object.__setattr__(broken, "texts", {})
    assert broken.values() == [""]


def test_names_are_held_once(tmp_path: Path) -> None:
    events = events_of(tmp_path, [EventRecord(name=name) for name in ("b", "a", "b", "")])
    names = events.names()
    assert [names.names[code] for code in names.codes] == ["b", "a", "b", ""]
    assert len(names.names) == 3


def test_aggregated_events_are_marked(tmp_path: Path) -> None:
    events = events_of(tmp_path, [EventRecord(name="a", occurrences=5, duration_ps=100), EventRecord(name="a")])
    assert events.occurrences.tolist() == [5, -1]


def test_many_blocks_give_the_same_columns_as_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    records = [
        EventRecord(
            name=f"e{number % 5}", offset_ps=number, stats={"even": number} if number % 2 == 0 else {"odd": "x"}
        )
        for number in range(60)
    ] + [EventRecord(name="last", stats={"seldom": 1.0})]
    whole = events_of(tmp_path, records)
    monkeypatch.setattr(event_decoder, "BLOCK_BYTES", 100)
    pieces = events_of(tmp_path, records)
    assert pieces.stat_names == whole.stat_names
    for name in whole.stat_names:
        assert pieces.stat(name).values() == whole.stat(name).values()
    assert pieces.offset_ps.tolist() == [*range(60), 0]


def test_a_line_without_events_has_empty_columns(tmp_path: Path) -> None:
    events = events_of(tmp_path, [])
    assert (len(events), events.stat_names, events.names().names) == (0, (), ())
    assert events.stat("x").labels().codes.tolist() == []
    assert events.start_ns.tolist() == []


@given(st.lists(st.one_of(st.integers(-5, 5), st.integers(-(2**63), 2**63 - 1))))
def test_factorize_is_the_inverse_of_looking_up(values: list[int]) -> None:
    array = np.array(values, dtype=np.int64)
    distinct, inverse = factorize(array)
    assert distinct[inverse].tolist() == values
    assert distinct.tolist() == sorted(set(values)) == distinct_values(array).tolist()
