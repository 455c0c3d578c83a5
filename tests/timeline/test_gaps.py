"""Gaps in drawn timelines: where they are, what ends them, and why."""

from __future__ import annotations

from typing import Any

import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from spec_frames import make_frame
from timeline_rows import BOOT_NS, bare_rows, drawn_rows, make_attributed

from rocktools.frames import UNITLESS_SUFFIXES
from rocktools.timeline.gaps import GAP_TOTALS, GAPS, GAPS_BEFORE, MARKER, find_gaps, gaps_before, total_gaps
from rocktools.timeline.launches import LAUNCHES
from rocktools.timeline.overlap import reconcile


def intervals(frame: pd.DataFrame) -> list[tuple[int, int]]:
    return list(zip((frame["start_ns"] - BOOT_NS).tolist(), (frame["end_ns"] - BOOT_NS).tolist(), strict=True))


def with_calls(rows: list[dict[str, Any]], calls: list[int | None]) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Rows, each launched by a call that begins at that time (None: not recorded), and LAUNCHES."""
    frame = make_attributed(rows)
    frame["host_call_id"] = pd.array([None if call is None else n for n, call in enumerate(calls)], dtype="Int64")
    launches = make_frame(
        LAUNCHES,
        [
            {"run": "r", "process": "p0", "host_call_id": n, "start_ns": call + BOOT_NS, "end_ns": call + BOOT_NS}
            for n, call in enumerate(calls)
            if call is not None
        ],
    )
    return frame, launches


def test_gap_is_where_nothing_of_any_class_runs() -> None:
    """
    ####......##....   compute
    ..###...........   communication
    ......#.......##   copy
    """
    pictures = [("compute", "####......##...."), ("communication", "..###..........."), ("copy", "......#.......##")]
    frame = find_gaps(make_attributed(drawn_rows(pictures))).frame
    assert intervals(frame) == [(5, 6), (7, 10), (12, 14)]
    assert frame["duration_ns"].tolist() == [1, 3, 2]
    assert frame["cause"].unique().tolist() == ["unknown"]


def test_devices_have_gaps_of_their_own() -> None:
    rows = [
        *drawn_rows([("compute", "##..##")], device="host:gpu0"),
        *drawn_rows([("compute", "#....#")], device="host:gpu1"),
    ]
    frame = find_gaps(make_attributed(rows)).frame
    assert frame["device"].tolist() == ["host:gpu0", "host:gpu1"]
    assert intervals(frame) == [(2, 4), (1, 5)]


def test_cause_is_read_from_the_call_that_launched_what_ends_the_gap() -> None:
    """
    row   ####...####...####...###...###
    call  0   5      9          22: after its row   none
    """
    rows = [{"start": start, "end": end} for start, end in [(0, 4), (7, 11), (14, 18), (21, 24), (27, 30)]]
    frame, launches = with_calls(rows, [0, 5, 9, 22, None])
    found = find_gaps(frame, launches)
    assert found.frame["cause"].tolist() == ["host_wait", "kernel_wait", "unknown", "unknown"]
    assert found.frame["launch_lead_ns"].to_numpy(dtype=object).tolist() == [2, 5, -1, pd.NA]
    assert [finding.rule for finding in found.findings] == ["launch-after-start"]


def test_call_that_begins_as_the_device_runs_dry_is_late() -> None:
    frame, launches = with_calls([{"start": 0, "end": 4}, {"start": 7, "end": 9}], [0, 4])
    assert find_gaps(frame, launches).frame["cause"].tolist() == ["host_wait"]


def test_payload_is_the_first_row_behind_the_gap_that_does_work() -> None:
    rows = [
        {"start": 0, "end": 4, "instruction": "dot.1"},
        {"start": 10, "end": 11, "instruction": "iota.7"},
        {"start": 11, "end": 12, "instruction": "wrapped_broadcast"},
        {"start": 12, "end": 30, "instruction": "dot.2"},
        {"start": 40, "end": 50, "name": "gemm"},
        {"start": 60, "end": 61, "name": "__amd_rocclr_fillBufferAligned"},
        {"start": 65, "end": 80, "name": "gemm"},
    ]
    frame = find_gaps(make_attributed(rows)).frame
    names = frame[["previous_name", "marker_name", "payload_name"]].astype("object")
    assert names.where(names.notna(), None).to_numpy().tolist() == [
        ["dot.1", "iota.7", "dot.2"],
        ["dot.2", None, "gemm"],
        # Behind the fill there is another gap: what it was for is not known.
        ["gemm", "__amd_rocclr_fillBufferAligned", None],
        ["__amd_rocclr_fillBufferAligned", None, "gemm"],
    ]


def test_payload_is_not_looked_for_beyond_eight_rows_or_on_another_device() -> None:
    tiny = [{"start": 10 + n, "end": 11 + n, "instruction": f"iota.{n}"} for n in range(9)]
    far = [{"start": 0, "end": 4, "instruction": "dot"}, *tiny, {"start": 19, "end": 25, "instruction": "dot"}]
    assert find_gaps(make_attributed(far)).frame["payload_name"].isna().all()
    last = [
        {"start": 0, "end": 4},
        {"start": 9, "end": 10, "instruction": "iota"},
        {"start": 9, "device": "h:gpu1", "end": 12},
    ]
    assert find_gaps(make_attributed(last)).frame["payload_name"].isna().all()


def test_long_broadcast_is_work() -> None:
    rows = [{"start": 0, "end": 4}, {"start": 10, "end": 90_000, "instruction": "broadcast.3"}]
    frame = find_gaps(make_attributed(rows)).frame
    assert frame["marker_name"].isna().all()
    assert frame["payload_name"].tolist() == ["broadcast.3"]


@pytest.mark.parametrize(
    "name, is_marker",
    [
        ("iota.12", True),
        ("wrapped_iota", True),
        ("loop_broadcast_fusion.3", True),
        ("broadcast_iota_fusion", True),
        ("copy-start.1", True),
        ("__amd_rocclr_fillBufferAligned", True),
        ("loop_multiply_broadcast_fusion", False),
        ("input_add_reduce_fusion", False),
        ("Cijk_Ailk_Bljk", False),
        ("all-gather-start.2", False),
    ],
)
def test_markers_are_known_by_their_whole_name(name: str, is_marker: bool) -> None:
    assert (MARKER.search(name) is not None) is is_marker


def test_gap_belongs_to_the_step_of_the_row_that_ends_it() -> None:
    rows = [
        {"start": 0, "end": 4, "step_index": 0},
        {"start": 6, "end": 8, "step_index": 0},
        {"start": 18, "end": 20, "step_index": 1},
        {"start": 25, "end": 26},
    ]
    frame = find_gaps(make_attributed(rows)).frame
    assert frame["step_index"].to_numpy(dtype=object).tolist() == [0, 1, pd.NA]
    assert frame["is_between_steps"].tolist() == [False, True, True]
    totals = total_gaps(frame)
    assert totals["total_ns"].tolist() == [2, 10, 5]
    assert totals["is_between_steps"].tolist() == [False, True, True]


def test_idle_time_is_added_up_by_what_it_was_before() -> None:
    rows = [{"start": 10 * n, "end": 10 * n + 4 + n % 2, "instruction": f"dot.{n % 2}"} for n in range(5)]
    before = gaps_before(find_gaps(make_attributed(rows)).frame)
    assert before["payload_name"].tolist() == ["dot.1", "dot.0"]
    assert before["total_ns"].tolist() == [12, 10]
    assert before["gaps_count"].tolist() == [2, 2]
    assert before["mean_ns"].tolist() == [6.0, 5.0]


def test_shortest_gap_to_list_can_be_chosen() -> None:
    frame = make_attributed(drawn_rows([("compute", "#.#...#")]))
    assert intervals(find_gaps(frame, at_least_ns=2).frame) == [(3, 6)]


def test_nothing_has_no_gaps() -> None:
    found = find_gaps(make_attributed([])).frame
    assert found.empty
    assert total_gaps(found).empty
    assert gaps_before(found).empty
    assert find_gaps(make_attributed([{"start": 0, "end": 4}])).frame.empty


def test_numeric_columns_of_results_have_units() -> None:
    for spec in (GAPS, GAP_TOTALS, GAPS_BEFORE):
        for column in spec.columns:
            is_label = column.dtype in ("category", "bool")
            assert is_label or column.unit or column.name.endswith(UNITLESS_SUFFIXES), column.name


drawings = st.lists(
    st.tuples(st.integers(0, 60), st.integers(0, 9), st.sampled_from(["host:gpu0", "host:gpu1"])), max_size=14
)


@settings(max_examples=25)
@given(drawings)
def test_gaps_are_what_is_left_of_the_span(drawing: list[tuple[int, int, str]]) -> None:
    rows = bare_rows([{"start": start, "end": start + length, "device": device} for start, length, device in drawing])
    frame = find_gaps(rows).frame
    for device in ("host:gpu0", "host:gpu1"):
        own = [(start, start + length) for start, length, of in drawing if of == device and length]
        busy = {instant for start, end in own for instant in range(start, end)}
        idle = set(range(min(busy), max(busy) + 1)) - busy if busy else set()
        found = intervals(frame[frame["device"] == device])
        assert {instant for start, end in found for instant in range(start, end)} == idle
        assert all(start < end for start, end in found)


@settings(max_examples=25)
@given(st.lists(st.tuples(st.integers(0, 5), st.integers(1, 9)), min_size=1, max_size=14), st.integers(1, 4))
def test_gaps_within_steps_add_up_to_the_idle_time_of_the_step(pieces: list[tuple[int, int]], per_step: int) -> None:
    """Steps one behind the other: of each, all that is idle is gaps within it, and nothing is lost in between."""
    rows, now = [], 0
    for number, (pause, length) in enumerate(pieces):
        now += pause
        rows.append({"start": now, "end": now + length, "step_index": number // per_step})
        now += length
    frame = bare_rows(rows)
    totals = total_gaps(find_gaps(frame).frame)
    within = totals[~totals["is_between_steps"]].groupby("step_index")["total_ns"].sum()
    for step in reconcile(frame).frame.itertuples():
        assert step.idle_ns == within.get(step.step_index, 0)
    span = rows[-1]["end"] - rows[0]["start"]
    assert totals["total_ns"].sum() == span - sum(length for _, length in pieces)
