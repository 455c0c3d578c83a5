"""Overlap and reconciliation against pictures, a bitmap, and the totals of a published attribution."""

from __future__ import annotations

import json
import random
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from timeline_rows import bare_rows, drawn_rows, make_attributed, make_steps

from rocktools.errors import ContractError
from rocktools.frames import UNITLESS_SUFFIXES
from rocktools.timeline.activities import ACTIVITIES
from rocktools.timeline.overlap import (
    BUSY_TIME,
    RECONCILIATION,
    ROW_COLUMNS,
    Convention,
    divide_busy_time,
    overlap_lengths,
    reconcile,
)

NAMES = [str(activity) for activity in ACTIVITIES]


def only_row(frame: pd.DataFrame) -> dict[str, Any]:
    assert len(frame) == 1
    return dict(frame.iloc[0])


def test_reconciliation_looks_as_drawn() -> None:
    """
    0         1
    0123456789012345
    ####...##.......   compute
    ..####....#.....   communication
    .....#....##...#   copy
    """
    pictures = [
        ("compute", "####...##......."),
        ("communication", "..####....#....."),
        ("copy", ".....#....##...#"),
    ]
    rows = make_attributed(drawn_rows(pictures, step_index=3))
    row = only_row(reconcile(rows).frame)
    assert row["step_index"] == 3
    assert row["rows_count"] == 7
    lengths = {name: row[f"{name}_ns"] for name in ("compute", "communication", "copy", "busy", "idle", "span")}
    assert lengths == {"compute": 6, "communication": 5, "copy": 4, "busy": 11, "idle": 5, "span": 16}
    assert (row["hidden_communication_ns"], row["exposed_communication_ns"], row["exposed_compute_ns"]) == (2, 3, 4)
    assert (row["hidden_copy_ns"], row["exposed_copy_ns"], row["all_three_ns"]) == (2, 2, 0)


def test_both_conventions_divide_the_same_span() -> None:
    """
    ######....   compute
    ..######..   communication
    .........#   copy
    """
    rows = make_attributed(
        drawn_rows([("compute", "######...."), ("communication", "..######.."), ("copy", ".........#")], step_index=0)
    )
    divided = divide_busy_time(reconcile(rows).frame).set_index("convention")
    columns = ["compute_ns", "communication_ns", "copy_ns", "idle_ns", "span_ns"]
    assert divided.loc[str(Convention.COMPUTE_FIRST), columns].tolist() == [6, 2, 1, 1, 10]
    assert divided.loc[str(Convention.COMMUNICATION_FIRST), columns].tolist() == [2, 6, 1, 1, 10]


def test_kernels_of_one_class_that_overlap_count_once() -> None:
    """nsys-jax counts a collective behind two overlapping kernels as hidden twice.

    ##########   communication
    ########..   compute
    .########.   compute
    """
    pictures = [("communication", "##########"), ("compute", "########.."), ("compute", ".########.")]
    row = only_row(reconcile(make_attributed(drawn_rows(pictures, step_index=0))).frame)
    assert (row["compute_ns"], row["compute_sum_ns"]) == (9, 16)
    assert (row["hidden_communication_ns"], row["exposed_communication_ns"]) == (9, 1)


def test_busy_device_does_not_hide_an_idle_one() -> None:
    rows = make_attributed(
        [
            *drawn_rows([("compute", "##########")], device="host:gpu0", step_index=0),
            *drawn_rows([("compute", "#........#")], device="host:gpu1", step_index=0),
        ]
    )
    frame = reconcile(rows).frame
    assert frame["device"].tolist() == ["host:gpu0", "host:gpu1"]
    assert frame["idle_ns"].tolist() == [0, 8]


def test_row_belongs_with_all_its_time_to_the_step_it_starts_in() -> None:
    """The communication of step 0 runs on into step 1.

    step       0000011111
    compute    ###..##...
    collective ..#####...
    """
    rows = make_attributed(
        [
            {"start": 0, "end": 3, "step_index": 0},
            {"start": 2, "end": 7, "activity": "communication", "step_index": 0},
            {"start": 5, "end": 7, "step_index": 1},
        ]
    )
    steps = make_steps(
        [{"step_index": 0, "start": 0, "end": 5}, {"step_index": 1, "start": 5, "end": 10}],
    )
    frame = reconcile(rows, steps).frame
    assert frame["span_ns"].tolist() == [7, 2]
    assert frame["step_ns"].tolist() == [5, 5]
    assert frame["distance_ns"].tolist() == [2, -3]


def test_rows_outside_of_every_step_are_left_out_unless_the_whole_trace_is_asked_for() -> None:
    rows = make_attributed([{"start": 0, "end": 2}, {"start": 5, "end": 6, "step_index": 0}])
    assert reconcile(rows).frame["rows_count"].tolist() == [1]
    whole = only_row(reconcile(rows, is_by_step=False).frame)
    assert whole["step_index"] is pd.NA
    assert (whole["rows_count"], whole["span_ns"], whole["idle_ns"]) == (2, 6, 3)


def test_row_that_ends_before_it_starts_gives_no_time_and_a_finding() -> None:
    rows = make_attributed([{"start": 0, "end": 4, "step_index": 0}, {"start": 9, "end": 2, "step_index": 0}])
    found = reconcile(rows)
    assert [finding.rule for finding in found.findings] == ["negative-duration"]
    assert found.frame["span_ns"].tolist() == [4]


def test_nothing_reconciles_to_nothing() -> None:
    assert reconcile(make_attributed([])).frame.empty


def test_unknown_class_is_a_fault_of_ours() -> None:
    with pytest.raises(ContractError, match="activity-unknown"):
        reconcile(make_attributed([{"start": 0, "end": 1, "activity": "thinking", "step_index": 0}]))


def test_missing_column_is_named() -> None:
    rows = make_attributed([]).drop(columns="activity")
    with pytest.raises(ContractError, match="activity"):
        reconcile(rows)


def test_the_named_columns_are_enough() -> None:
    rows = make_attributed([{"start": 0, "end": 4, "step_index": 0}])
    assert reconcile(rows[list(ROW_COLUMNS)]).frame["busy_ns"].tolist() == [4]


def test_numeric_columns_of_results_have_units() -> None:
    for spec in (RECONCILIATION, BUSY_TIME):
        for column in spec.columns:
            assert column.dtype == "category" or column.unit or column.name.endswith(UNITLESS_SUFFIXES), column.name


drawings = st.lists(
    st.tuples(
        st.integers(0, 30),  # start
        st.integers(0, 12),  # length
        st.sampled_from(NAMES),
        st.sampled_from(["host:gpu0", "host:gpu1"]),
        st.sampled_from([None, 0, 1]),
    ),
    max_size=14,
)


@given(drawings)
def test_every_length_equals_the_bitmap(drawing: list[tuple[int, int, str, str, int | None]]) -> None:
    groups = sorted({(row[3], str(row[4])) for row in drawing})
    table = np.array(
        [(s, s + n, NAMES.index(a), groups.index((device, str(step)))) for s, n, a, device, step in drawing],
        dtype=np.int64,
    ).reshape(-1, 4)
    lengths = overlap_lengths(*table.T, len(groups))
    for group, key in enumerate(groups):
        own = [row for row in drawing if (row[3], str(row[4])) == key]
        on = {name: {i for s, n, a, *_ in own if a == name for i in range(s, s + n)} for name in NAMES}
        compute, communication, copy = (on[name] for name in NAMES)
        expected = {
            "compute": compute,
            "communication": communication,
            "copy": copy,
            "hidden_communication": communication & compute,
            "exposed_communication": communication - compute,
            "exposed_compute": compute - communication,
            "hidden_copy": copy & (compute | communication),
            "exposed_copy": copy - compute - communication,
            "all_three": compute & communication & copy,
            "busy": compute | communication | copy,
        }
        assert {name: getattr(lengths, name)[group] for name in expected} == {n: len(on) for n, on in expected.items()}


@settings(max_examples=25)
@given(drawings)
def test_identities_hold_exactly(drawing: list[tuple[int, int, str, str, int | None]]) -> None:
    rows = bare_rows(
        [
            {"start": start, "end": start + length, "activity": activity, "device": device, "step_index": step}
            for start, length, activity, device, step in drawing
        ]
    )
    frame = reconcile(rows).frame
    groups = {(row[3], row[4]) for row in drawing if row[4] is not None}
    assert {(row.device, row.step_index) for row in frame.itertuples()} == groups
    for row in frame.itertuples():
        own = [d for d in drawing if (d[3], d[4]) == (row.device, row.step_index)]
        assert row.span_ns == max(d[0] + d[1] for d in own) - min(d[0] for d in own)
    busy = frame["busy_ns"]
    assert (busy == frame["compute_ns"] + frame["exposed_communication_ns"] + frame["exposed_copy_ns"]).all()
    assert (busy == frame["communication_ns"] + frame["exposed_compute_ns"] + frame["exposed_copy_ns"]).all()
    hidden_and_exposed = frame["hidden_communication_ns"] + frame["exposed_communication_ns"]
    assert (frame["communication_ns"] == hidden_and_exposed).all()
    assert (frame["copy_ns"] == frame["hidden_copy_ns"] + frame["exposed_copy_ns"]).all()
    assert (frame["span_ns"] == busy + frame["idle_ns"]).all()
    divided = divide_busy_time(frame)
    assert len(divided) == 2 * len(frame)
    parts = divided[["compute_ns", "communication_ns", "copy_ns", "idle_ns"]].sum(axis=1)
    assert (parts == divided["span_ns"]).all()


# ------------------------------------------------------------------------------------- the totals of a real attribution

# Mean of eight MI355X, one Mixtral-8x22B step, in seconds, as printed.
PRINTED_S = {
    "compute": 12.128,
    "communication": 14.561,
    "hidden_communication": 5.966,
    "exposed_communication": 8.594,
    "busy": 20.723,
    "span": 20.759,
    "idle": 0.036,
}
ROWS_COUNT = 305


def intervals_of(device: dict[str, Any], seed: int) -> list[tuple[int, int, str]]:
    """At least `ROWS_COUNT` intervals with this device's totals: blocks of each kind in random order.

    Every block is exactly one of: compute alone, communication alone, both at once, idle.
    """
    to_ns = {name: round(device[name] * 1e9) for name in ("compute", "comm", "hidden", "idle")}
    totals = {
        "compute": to_ns["compute"] - to_ns["hidden"],
        "comm": to_ns["comm"] - to_ns["hidden"],
        "both": to_ns["hidden"],
        "idle": to_ns["idle"],
    }
    generator = random.Random(seed)
    blocks = [(kind, part) for kind, total in totals.items() for part in split(total, ROWS_COUNT // 3, generator)]
    generator.shuffle(blocks)
    # Idle time at an edge would not be in the span.
    edges = [block for block in blocks if block[0] == "both"][:2]
    inner = [block for block in blocks if block not in edges]
    rows, now = [], 0
    for kind, length in [edges[0], *inner, edges[1]]:
        classes = {"both": ("compute", "communication"), "compute": ("compute",), "comm": ("communication",)}
        rows += [(now, now + length, activity) for activity in classes.get(kind, ())]
        now += length
    return rows


def split(total: int, parts_count: int, generator: random.Random) -> list[int]:
    cuts = sorted(generator.sample(range(1, total), parts_count - 1))
    return [end - start for start, end in zip([0, *cuts], [*cuts, total], strict=True)]


def test_published_unions_come_out_to_the_printed_digits(shared: Any) -> None:
    path = shared / "data/xplane/reference_attribution/mixtral8x22b_8xMI355X.condensed.json"
    devices = json.loads(path.read_text(encoding="utf-8"))["interval_summary_s"]
    rows = make_attributed(
        [
            {"start": start, "end": end, "activity": activity, "device": f"host:gpu{device['gpu']}", "step_index": 2}
            for device in devices
            for start, end, activity in intervals_of(device, seed=device["gpu"])
        ]
    )
    frame = reconcile(rows).frame
    assert (frame["rows_count"] >= ROWS_COUNT).all()
    means = {name: frame[f"{name}_ns"].mean() / 1e9 for name in PRINTED_S}
    # Printed to 1 ms: each mean may differ by half of that.
    assert means == pytest.approx(PRINTED_S, abs=0.0005)
    per_device = {"compute": "compute", "comm": "communication", "busy": "busy", "span": "span", "idle": "idle"}
    for printed, name in per_device.items():
        exact = [round(device[printed] * 1e9) for device in devices]
        assert frame[f"{name}_ns"].tolist() == exact
    share = frame["hidden_communication_ns"].sum() / frame["communication_ns"].sum()
    assert share == pytest.approx(0.410, abs=0.0005)


def test_rounded_totals_of_one_device_add_up_to_within_their_rounding() -> None:
    """The published means, as if of one device: exposed communication is printed 1 ms lower than they give.

    Three numbers rounded to 1 ms may differ from their exact sum by up to 3 x 0.5 ms.
    """
    device = {"compute": 12.128, "comm": 14.561, "hidden": 5.966, "idle": 0.036}
    blocks = intervals_of(device, seed=1)
    rows = [{"start": start, "end": end, "activity": activity, "step_index": 0} for start, end, activity in blocks]
    row = only_row(reconcile(bare_rows(rows)).frame)
    found = {name: int(row[f"{name}_ns"]) / 1e9 for name in PRINTED_S}
    assert len(rows) >= ROWS_COUNT
    assert found == pytest.approx(PRINTED_S, abs=0.0015)
    assert found["exposed_communication"] == pytest.approx(8.595)


def test_arrays_alone_are_enough_in_any_integer_unit() -> None:
    start, end = np.array([0, 2]), np.array([4, 6])
    lengths = overlap_lengths(start, end, np.array([0, 1]), np.array([1, 1]), 2)
    assert lengths.hidden_communication.tolist() == [0, 2]
    assert lengths.busy.tolist() == [0, 6]
