"""DISPATCHES become symbols and arrays: workgroups from work-items, devices, streams."""

from __future__ import annotations

import pandas as pd
import pytest

from rocktools.correlate.dispatch_symbols import build_dispatch_table, number_rows
from rocktools.frames import GRID, WORKGROUP


def make_dispatches(rows: list[dict[str, object]]) -> pd.DataFrame:
    usual = {"run": "r", "process": "p", "agent_id": 4, "kernel_name": "k", "stream_id": 1, "queue_id": 1}
    usual |= dict(zip((*GRID, *WORKGROUP), (256, 1, 1, 64, 1, 1), strict=True))
    full = [
        {**usual, "dispatch_id": number, "start_ns": 100 * number, "end_ns": 100 * number + 50, **row}
        for number, row in enumerate(rows)
    ]
    frame = pd.DataFrame(full)
    integers = dict.fromkeys((*GRID, *WORKGROUP, "stream_id", "queue_id"), "Int64")
    return frame.astype({**integers, **dict.fromkeys(("run", "process", "kernel_name"), "category")})


def test_grids_in_work_items_become_workgroups_rounded_up() -> None:
    table = build_dispatch_table(make_dispatches([{}, {"grid_workitems_x": 257}, {"grid_workitems_y": 3}]))
    assert [symbol.grid_workgroups for symbol in table.symbols] == [(4, 1, 1), (5, 1, 1), (4, 3, 1)]
    assert table.symbol_of.tolist() == [0, 1, 2]


def test_equal_names_and_geometries_are_one_symbol() -> None:
    rows = [{}, {"kernel_name": "other"}, {}, {"workgroup_workitems_x": 128}, {"kernel_name": "other"}]
    table = build_dispatch_table(make_dispatches(rows))
    assert table.symbol_of.tolist() == [0, 1, 0, 2, 1]
    assert [symbol.name for symbol in table.symbols] == ["k", "other", "k"]


def test_a_missing_geometry_is_none() -> None:
    table = build_dispatch_table(make_dispatches([dict.fromkeys(GRID)]))
    assert table.symbols[0].grid_workgroups is None
    narrow = make_dispatches([{}]).drop(columns=[*GRID, *WORKGROUP])
    assert build_dispatch_table(narrow).symbols[0].workgroup_workitems is None


def test_devices_are_run_process_and_agent() -> None:
    rows = [{}, {"agent_id": 5}, {"process": "q"}, {"agent_id": 5}, {"run": "s"}]
    table = build_dispatch_table(make_dispatches(rows))
    assert [(label, rows.tolist()) for label, rows in table.rows_by_device()] == [
        ("r, process p, agent 4", [0]),
        ("r, process p, agent 5", [1, 3]),
        ("r, process q, agent 4", [2]),
        ("s, process p, agent 4", [4]),
    ]


@pytest.mark.parametrize(
    "streams, queues, expected",
    [
        ([7, 9, 7], [1, 1, 1], [0, 1, 0]),
        ([0, 0, 0], [3, 4, 3], [0, 1, 0]),  # streams say nothing, queues do
        ([7, None, 7], [5, 5, 6], [0, 0, 1]),
        ([0, 0, 0], [None, None, None], [0, 0, 0]),
    ],
)
def test_streams_are_taken_from_what_tells_them_apart(
    streams: list[int | None], queues: list[int | None], expected: list[int]
) -> None:
    rows = [{"stream_id": stream, "queue_id": queue} for stream, queue in zip(streams, queues, strict=True)]
    assert build_dispatch_table(make_dispatches(rows)).stream_of.tolist() == expected


def test_times_of_a_counter_pass_are_taken_for_its_order() -> None:
    counted = make_dispatches([{}, {}]).rename(columns={"start_ns": "pass_start_ns", "end_ns": "pass_end_ns"})
    assert build_dispatch_table(counted).start_ns.tolist() == [0, 100]


def test_rows_are_numbered_by_first_appearance() -> None:
    frame = pd.DataFrame({"x": [5, 5, 2, 5], "y": [1, 2, 1, 1]})
    number, first = number_rows([frame["x"].to_numpy(), frame["y"].to_numpy()])
    assert number.tolist() == [0, 1, 2, 0]
    assert first.tolist() == [0, 1, 2]
