"""The list of dispatches: labels, offsets and extents of each row, for frames made by hand."""

from __future__ import annotations

from typing import Any

import pandas as pd
import pytest

from rocktools.errors import UsageError
from rocktools.frames import AGENTS, COUNTED_DISPATCHES, DISPATCHES, FrameSpec, require_frame
from rocktools.timeline.dispatch_list import (
    COUNTED_DISPATCH_LIST,
    DISPATCH_LIST,
    compile_match,
    list_counted_dispatches,
    list_dispatches,
    select_dispatches,
)

BOOT_NS = 13_000_000_000_000_000  # beyond 2**53: floats would lose nanoseconds


def _frame(spec: FrameSpec, rows: list[dict[str, Any]]) -> pd.DataFrame:
    """A frame of the spec; what a row does not give is missing, or 0 where nothing may be."""
    columns = {}
    for column in spec.columns:
        values = [row.get(column.name) for row in rows]
        if column.dtype == "int64":
            values = [0 if value is None else value for value in values]
        columns[column.name] = pd.Series(values, dtype=column.dtype)
    return require_frame(pd.DataFrame(columns), spec)


def _dispatches(*rows: dict[str, Any]) -> pd.DataFrame:
    defaults = {"run": "run", "process": "a", "agent_id": 2, "kernel_name": "fusion", "start_ns": 0, "end_ns": 0}
    return _frame(DISPATCHES, [{**defaults, "dispatch_id": number, **row} for number, row in enumerate(rows)])


def _agents(*rows: tuple[str, int, str]) -> pd.DataFrame:
    return _frame(
        AGENTS,
        [
            {"run": "run", "process": process, "agent_id": agent_id, "device": device, "kind": "GPU"}
            for process, agent_id, device in rows
        ],
    )


AGENTS_OF_TWO = _agents(("a", 2, "host:gpu0"), ("b", 5, "host:gpu0"), ("b", 6, "host:gpu1"))


def test_offsets_and_durations_are_exact_and_of_each_process() -> None:
    listed = list_dispatches(
        _dispatches(
            {"start_ns": BOOT_NS + 7, "end_ns": BOOT_NS + 8},
            {"start_ns": BOOT_NS + 1, "end_ns": BOOT_NS + 1},
            {"start_ns": BOOT_NS + 9, "end_ns": BOOT_NS + 3},
            {"process": "b", "start_ns": 5, "end_ns": 50},
        ),
        AGENTS_OF_TWO,
    )
    require_frame(listed, DISPATCH_LIST)
    assert listed["offset_ns"].tolist() == [6, 0, 8, 0]
    assert listed["duration_ns"].tolist() == [1, 0, -6, 45]
    assert listed["start_ns"].tolist() == [BOOT_NS + 7, BOOT_NS + 1, BOOT_NS + 9, 5]


def test_one_device_of_two_processes_has_one_label() -> None:
    listed = list_dispatches(
        _dispatches({}, {"process": "b", "agent_id": 5}, {"process": "b", "agent_id": 6}), AGENTS_OF_TWO
    )
    assert listed["device"].tolist() == ["host:gpu0", "host:gpu0", "host:gpu1"]


def test_agent_that_is_not_listed_gets_a_label_of_its_own() -> None:
    listed = list_dispatches(_dispatches({}, {"agent_id": 9}, {"agent_id": 8}, {"agent_id": 9}), AGENTS_OF_TWO)
    assert listed["device"].tolist() == ["host:gpu0", "a:agent9", "a:agent8", "a:agent9"]


@pytest.mark.parametrize(
    "extent, text",
    [
        ((1024, 1, 1), "1024x1x1"),
        ((1024, None, 1), "1024x?x1"),
        ((None, None, None), None),
        ((0, 2**40, 5), f"0x{2**40}x5"),
    ],
)
def test_extents_are_texts_and_missing_where_nothing_is_known(extent: tuple[int | None, ...], text: str | None) -> None:
    names = [f"{what}_workitems_{axis}" for what in ("grid", "workgroup") for axis in "xyz"]
    listed = list_dispatches(_dispatches(dict(zip(names, extent * 2, strict=True)), {}), AGENTS_OF_TWO)
    for name in ("grid_workitems", "workgroup_workitems"):
        first, second = listed[name].tolist()
        assert pd.isna(second)
        assert first == text or (text is None and pd.isna(first))


def test_rows_keep_their_order_and_the_frame_is_not_changed() -> None:
    rows = _dispatches({"start_ns": 9}, {"start_ns": 3}, {"start_ns": 6})
    before = rows.copy()
    listed = list_dispatches(rows, AGENTS_OF_TWO)
    assert listed["dispatch_id"].tolist() == [0, 1, 2]
    pd.testing.assert_frame_equal(rows, before)
    pd.testing.assert_frame_equal(listed[list(DISPATCHES.names)], before)


def test_no_dispatch_gives_a_list_without_rows() -> None:
    require_frame(list_dispatches(DISPATCHES.empty(), AGENTS.empty()), DISPATCH_LIST)
    require_frame(list_counted_dispatches(COUNTED_DISPATCHES.empty(), AGENTS_OF_TWO), COUNTED_DISPATCH_LIST)
    assert len(list_dispatches(DISPATCHES.empty(), AGENTS_OF_TWO)) == 0


def test_counted_dispatches_have_labels_and_no_time_but_their_own() -> None:
    rows = _frame(
        COUNTED_DISPATCHES,
        [
            {
                "run": "run",
                "process": "a",
                "dispatch_id": 1,
                "pass": "pass_1",
                "agent_id": 2,
                "kernel_name": "fusion",
                "pass_start_ns": 5,
                "pass_end_ns": 9,
            }
        ],
    )
    listed = list_counted_dispatches(rows, AGENTS_OF_TWO)
    assert listed["device"].tolist() == ["host:gpu0"]
    times = [name for name in listed.columns if name.endswith("_ns")]
    assert times == ["pass_start_ns", "pass_end_ns"]
    assert not {"duration_ns", "offset_ns"} & set(COUNTED_DISPATCH_LIST.names)


# Selection


@pytest.fixture
def listed() -> pd.DataFrame:
    names = ["loop_fusion", "input_reduce_fusion", "Cijk_(x)", "loop_fusion"]
    rows = [{"kernel_name": name, "process": "b", "agent_id": 5 + (number % 2)} for number, name in enumerate(names)]
    return list_dispatches(_dispatches(*rows), AGENTS_OF_TWO)


@pytest.mark.parametrize(
    "match, ids",
    [
        (None, [0, 1, 2, 3]),
        ("fusion", [0, 1, 3]),
        ("^fusion", []),
        ("fusion$", [0, 1, 3]),
        (r"\(x\)", [2]),
        ("(?i)cijk", [2]),
        ("", [0, 1, 2, 3]),
    ],
)
def test_match_searches_the_clean_name(listed: pd.DataFrame, match: str | None, ids: list[int]) -> None:
    assert select_dispatches(listed, match=match)["dispatch_id"].tolist() == ids


def test_device_is_exact(listed: pd.DataFrame) -> None:
    assert select_dispatches(listed, device="host:gpu1")["dispatch_id"].tolist() == [1, 3]
    both = select_dispatches(listed, match="reduce|Cijk", device="host:gpu1")
    assert both["dispatch_id"].tolist() == [1]


def test_device_of_which_the_match_left_nothing_gives_no_rows(listed: pd.DataFrame) -> None:
    assert select_dispatches(listed, match="Cijk", device="host:gpu1").empty


@pytest.mark.parametrize("device", ["gpu0", "host:gpu", "host:gpu2", "HOST:GPU0", ""])
def test_unknown_device_is_a_usage_error_with_near_ones(listed: pd.DataFrame, device: str) -> None:
    with pytest.raises(UsageError) as caught:
        select_dispatches(listed, device=device)
    assert caught.value.reference == "unknown-device"
    assert repr(device) in caught.value.what
    assert "host:gpu0" in str(caught.value.hint)


@pytest.mark.parametrize("match", ["(", "[a", "*x", "(?P<a>x)(?P<a>y)", "a{2,1}", "\\"])
def test_what_is_no_regular_expression_is_a_usage_error(listed: pd.DataFrame, match: str) -> None:
    with pytest.raises(UsageError) as caught:
        select_dispatches(listed, match=match)
    assert caught.value.reference == "bad-regex"
    assert repr(match) in caught.value.what


def test_good_regular_expression_is_compiled() -> None:
    assert compile_match("a+").search("caat") is not None
