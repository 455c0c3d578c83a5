"""Steps from marks, periods and windows, on traces small enough to draw."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
import pytest
from spec_frames import make_agents, make_frame
from timeline_rows import BOOT_NS, make_steps

from rocktools.errors import ContractError, UsageError
from rocktools.frames import DISPATCH_EDGES, DISPATCHES, HOST_CALLS, HOST_EVENTS, RANGES, STEPS, require_frame
from rocktools.timeline.host_windows import HOST_STEPS, annotated_windows, compile_instants, range_windows
from rocktools.timeline.launches import LAUNCHES, launches_of_calls, launches_of_profile
from rocktools.timeline.step_rows import StepSources, assign_steps, step_rows
from rocktools.timeline.steps import StepFindings, StepMethod, StepOptions, StepWindow, find_steps

Row = Mapping[str, Any]


def make_rows(rows: Sequence[Row]) -> pd.DataFrame:
    """Rows of a device timeline; `start` and `end` after boot; numbered launches named by `call`."""
    values = [
        {
            "run": "r",
            "process": "p0",
            "device": "host:gpu0",
            "kernel_name": "k",
            "stream_id": 0,
            "range": None,
            "program_id": None,
            "instruction": None,
            "execution_index": None,
            **row,
            "start_ns": row["start"] + BOOT_NS,
            "end_ns": row["end"] + BOOT_NS,
            "host_call_id": row.get("call"),
        }
        for row in rows
    ]
    frame = pd.DataFrame(values).drop(columns=["start", "end", "call"], errors="ignore")
    texts = ("run", "process", "device", "kernel_name", "range", "program_id", "instruction")
    integers = ("stream_id", "host_call_id", "execution_index")
    return frame.astype({**dict.fromkeys(texts, "category"), **dict.fromkeys(integers, "Int64")})


def make_launches(calls: Sequence[tuple[int, int]], process: str = "p0") -> pd.DataFrame:
    """LAUNCHES: (id, start), each one instant long."""
    return make_frame(
        LAUNCHES,
        [
            {
                "run": "r",
                "process": process,
                "host_call_id": call,
                "name": "hipModuleLaunchKernel",
                "start_ns": start + BOOT_NS,
                "end_ns": start + 1 + BOOT_NS,
            }
            for call, start in calls
        ],
    )


def make_marks(marks: Sequence[tuple[int | None, int, int]], name: str = "train", host: str = "p0") -> pd.DataFrame:
    """HOST_EVENTS: (step number, start, end)."""
    return make_frame(
        HOST_EVENTS,
        [
            {
                "run": "r",
                "host": host,
                "device": "/host:CPU",
                "line": "python",
                "event_index": index,
                "event_name": name,
                "start_ns": start + BOOT_NS,
                "end_ns": end + BOOT_NS,
                "step_number": number,
            }
            for index, (number, start, end) in enumerate(marks)
        ],
    )


def make_ranges(ranges: Sequence[tuple[str, int, int]]) -> pd.DataFrame:
    return make_frame(
        RANGES,
        [
            {
                "run": "r",
                "process": "p0",
                "kind": "range",
                "range_id": index,
                "name": name,
                "thread_id": 1,
                "start_ns": start + BOOT_NS,
                "end_ns": end + BOOT_NS,
            }
            for index, (name, start, end) in enumerate(ranges)
        ],
    )


def windows(found: StepFindings, device: str = "host:gpu0") -> list[tuple[int, int]]:
    own = found.frame[found.frame["device"] == device]
    return list(zip((own["start_ns"] - BOOT_NS).tolist(), (own["end_ns"] - BOOT_NS).tolist(), strict=True))


def rules(found: StepFindings) -> list[str]:
    return [finding.rule for finding in found.findings]


# -------------------------------------------------------------------------------------------- marks carried by launches


def test_step_on_the_device_is_what_its_launches_started() -> None:
    """The device runs behind the host: step 8's kernels run while step 9 is being launched.

    host    [8: L L L ][9: L L L ]
    device        ### ### ### ### ###
    """
    starts = [30, 40, 50, 60, 70, 80]
    rows = make_rows([{"start": s, "end": s + 8, "call": call} for call, s in enumerate(starts)])
    launches = make_launches([(0, 2), (1, 4), (2, 6), (3, 22), (4, 24), (5, 26)])
    found = find_steps(StepSources(rows=rows, launches=launches, host_events=make_marks([(8, 0, 20), (9, 20, 40)])))
    assert windows(found) == [(30, 58), (60, 88)]
    assert found.frame["step_number"].tolist() == [8, 9]
    assert found.frame["step_index"].tolist() == [0, 1]
    assert found.frame["method"].unique().tolist() == ["annotation"]
    assert found.frame["evidence"].unique().tolist() == ["measured"]
    assert (found.host_steps["end_ns"] - BOOT_NS).tolist() == [20, 40]
    require_frame(found.frame, STEPS)
    require_frame(found.host_steps, HOST_STEPS)


def test_launches_before_the_first_mark_and_after_the_last_belong_to_no_step() -> None:
    rows = make_rows([{"start": s, "end": s + 5, "call": call} for call, s in enumerate([0, 30, 60])])
    launches = make_launches([(0, 0), (1, 12), (2, 50)])
    found = find_steps(StepSources(rows=rows, launches=launches, host_events=make_marks([(3, 10, 20)])))
    assert windows(found) == [(30, 35)]
    assert "one-step-only" in rules(found)


def test_step_lasts_until_the_next_where_launches_run_behind_its_mark() -> None:
    """A jitted step returns at once, and another thread launches.

    host  [0]......[1]......
            L L L    L L L
    """
    calls = [1, 4, 6, 11, 14, 16]
    rows = make_rows([{"start": s + 2, "end": s + 3, "call": call} for call, s in enumerate(calls)])
    marks = make_marks([(0, 0, 2), (1, 10, 12)])
    found = find_steps(StepSources(rows=rows, launches=make_launches(list(enumerate(calls))), host_events=marks))
    assert windows(found) == [(3, 9), (13, 19)]
    assert "launches-outside-steps" in rules(found)


def test_steps_of_two_processes_with_one_number_are_one_step() -> None:
    rows = make_rows(
        [
            {"start": 10, "end": 15, "call": 0},
            {"start": 20, "end": 25, "call": 1},
            {"start": 21, "end": 27, "call": 0, "process": "p1", "device": "host:gpu1"},
        ]
    )
    launches = pd.concat([make_launches([(0, 1), (1, 6)]), make_launches([(0, 7)], process="p1")], ignore_index=True)
    marks = pd.concat([make_marks([(5, 0, 5), (6, 5, 9)]), make_marks([(6, 5, 9)], host="p1")], ignore_index=True)
    as_category = dict.fromkeys(("run", "process", "name"), "category")
    found = find_steps(
        StepSources(
            rows=rows,
            launches=launches.astype(as_category),
            host_events=marks.astype(dict.fromkeys(("run", "host", "device", "line", "event_name"), "category")),
        )
    )
    keys = zip(found.frame["device"], found.frame["step_index"], found.frame["step_number"], strict=True)
    assert list(keys) == [("host:gpu0", 0, 5), ("host:gpu0", 1, 6), ("host:gpu1", 1, 6)]
    assert "steps-differ-between-devices" in rules(found)


def test_rows_without_recorded_launches_are_put_where_they_start_and_that_is_said() -> None:
    rows = make_rows([{"start": s, "end": s + 3} for s in (1, 4, 11, 14)])
    found = find_steps(StepSources(rows=rows, host_events=make_marks([(0, 0, 10), (1, 10, 20)])))
    assert windows(found) == [(1, 7), (11, 17)]
    assert found.frame["evidence"].unique().tolist() == ["inferred"]
    assert "steps-carried-by-time" in rules(found)


def test_of_two_annotations_the_one_with_more_steps_counts_unless_one_is_named() -> None:
    marks = pd.concat(
        [make_marks([(0, 0, 10), (1, 10, 20)]), make_marks([(0, 20, 30)], name="eval")], ignore_index=True
    ).astype(dict.fromkeys(("run", "host", "device", "line", "event_name"), "category"))
    assert annotated_windows(marks)["name"].unique().tolist() == ["train"]
    rows = make_rows([{"start": s, "end": s + 3} for s in (1, 11, 21)])
    named = find_steps(StepSources(rows=rows, host_events=marks), StepOptions(pattern="^eval"))
    assert windows(named) == [(21, 24)]


def test_range_open_at_launch_carries_a_step_where_calls_are_not_recorded() -> None:
    rows = make_rows([{"start": 50 + s, "end": 55 + s, "range": name} for s, name in ((0, "step 4"), (10, "step 5"))])
    found = find_steps(StepSources(rows=rows, ranges=make_ranges([("step 4", 0, 5), ("step 5", 5, 10)])))
    assert windows(found) == [(50, 55), (60, 65)]
    assert found.frame["step_number"].tolist() == [4, 5]
    assert found.frame["method"].unique().tolist() == ["range"]


@pytest.mark.parametrize(
    "texts, pattern, numbers",
    [
        pytest.param(["step 1", "step 2"], None, [1, 2], id="numbered"),
        pytest.param(["train_step#7", "load batch 3"], None, [7], id="other-ranges-stay-out"),
        pytest.param(["step", "step"], None, [None, None], id="bare-words"),
        pytest.param(["update-3", "update-4"], r"update-(\d+)", [3, 4], id="named-by-the-user"),
        pytest.param(["forward", "backward"], None, [], id="none"),
    ],
)
def test_ranges_that_name_a_step(texts: list[str], pattern: str | None, numbers: list[int | None]) -> None:
    ranges = make_ranges([(text, 10 * index, 10 * index + 10) for index, text in enumerate(texts)])
    marks = range_windows(ranges, None if pattern is None else re.compile(pattern))
    assert [None if pd.isna(number) else number for number in marks["step_number"]] == numbers


def test_range_inside_of_a_step_that_names_it_too_is_no_step_of_its_own() -> None:
    marks = range_windows(make_ranges([("step 1", 0, 10), ("step 1 forward", 1, 5), ("step 2", 10, 20)]))
    assert marks["name"].tolist() == ["step 1", "step 2"]


# -------------------------------------------------------------------------------------------------------------- periods

STEP = "eababhcdcdopq"


def periodic_rows(text: str, *, device: str = "host:gpu0", shift: int = 0, pause: int = 10) -> list[dict[str, Any]]:
    """A row of 4 ns every 5 ns for each letter; `.` is a pause."""
    rows, now = [], shift
    for letter in text:
        if letter == ".":
            now += pause
            continue
        rows.append({"start": now, "end": now + 4, "kernel_name": letter, "device": device})
        now += 5
    return rows


def test_steps_that_nothing_marks_are_found_by_their_period() -> None:
    text = "op" + ("." + STEP) * 3 + ".eab"
    found = find_steps(StepSources(rows=make_rows(periodic_rows(text))))
    length = 5 * len(STEP) + 10
    assert windows(found)[:3] == [(20 + n * length, 20 + (n + 1) * length) for n in range(3)]
    assert found.frame["is_complete"].tolist() == [True, True, True, False]
    assert len(found.counted) == 3
    assert found.frame["method"].unique().tolist() == ["period"]
    assert {"steps-by-period", "steps-cut"} <= set(rules(found))


def test_devices_begin_their_steps_with_the_same_kernel() -> None:
    """The second device waits longest elsewhere in the step."""
    rows = periodic_rows(("." + STEP) * 4)
    rows += periodic_rows(("eabab" + "..." + "hcdcdopq") * 4, device="host:gpu1", shift=3)
    found = find_steps(StepSources(rows=make_rows(rows)))
    named = make_rows(rows).set_index(["device", "start_ns"])["kernel_name"]
    begins = {
        named[device, start] for device, start in zip(found.frame["device"], found.frame["start_ns"], strict=True)
    }
    assert begins == {"e"}


def test_order_on_other_streams_does_not_disturb_the_period() -> None:
    generator = np.random.default_rng(3)
    rows = periodic_rows(("." + STEP) * 5)
    step = 5 * len(STEP) + 10
    for number in range(5):
        start = 10 + number * step + int(generator.integers(0, 40))
        rows.append({"start": start, "end": start + 9, "kernel_name": "r", "stream_id": 7})
    found = find_steps(StepSources(rows=make_rows(rows)))
    assert [start for start, _ in windows(found)] == [10 + number * step for number in range(5)]


def test_executions_of_the_main_program_are_steps_where_kernels_are_placed() -> None:
    rows = [
        {"start": 0, "end": 2, "program_id": "init", "execution_index": 0},
        {"start": 10, "end": 18, "program_id": "train", "execution_index": 0},
        {"start": 20, "end": 28, "program_id": "train", "execution_index": 0},
        {"start": 40, "end": 48, "program_id": "train", "execution_index": 1},
        {"start": 50, "end": 58, "program_id": "train", "execution_index": 1},
    ]
    found = find_steps(StepSources(rows=make_rows(rows)))
    assert windows(found) == [(10, 40), (40, 58)]


def test_without_a_period_the_whole_trace_counts_and_what_was_tried_is_said() -> None:
    rows = make_rows([{"start": 10 * n, "end": 10 * n + 5, "kernel_name": f"k{n}"} for n in range(9)])
    found = find_steps(StepSources(rows=rows))
    assert windows(found) == [(0, 85)]
    assert found.frame["method"].unique().tolist() == ["whole"]
    finding = next(finding for finding in found.findings if finding.rule == "no-steps-found")
    assert all(method in finding.message for method in ("annotation:", "range:", "period:"))


def test_forced_method_that_finds_nothing_leaves_no_step() -> None:
    rows = make_rows([{"start": 0, "end": 5}])
    found = find_steps(StepSources(rows=rows), StepOptions(method=StepMethod.ANNOTATION))
    assert found.frame.empty
    assert rules(found) == ["no-steps-found"]
    assert found.counted.empty


# -------------------------------------------------------------------------------------------------------------- windows


@pytest.mark.parametrize("is_offset", [False, True])
def test_window_is_taken_as_given(is_offset: bool) -> None:
    rows = make_rows([{"start": 100, "end": 105}, {"start": 120, "end": 125}])
    origin = 0 if is_offset else BOOT_NS + 100
    window = StepWindow(start_ns=10 + origin, end_ns=40 + origin, is_offset=is_offset)
    found = find_steps(StepSources(rows=rows), StepOptions(window=window))
    assert windows(found) == [(110, 140)]
    assert found.frame["evidence"].tolist() == ["declared"]
    assert assign_steps(rows, found.frame).to_numpy(dtype=object).tolist() == [pd.NA, 0]


def test_window_in_which_nothing_runs_is_said() -> None:
    rows = make_rows([{"start": 100, "end": 105}])
    found = find_steps(StepSources(rows=rows), StepOptions(window=StepWindow(start_ns=0, end_ns=9)))
    assert found.frame.empty
    assert "nothing runs from 0 to 9 ns" in found.findings[0].message


def test_what_cannot_be_is_refused() -> None:
    rows = make_rows([{"start": 0, "end": 5}])
    with pytest.raises(UsageError, match="empty-window"):
        StepWindow(start_ns=5, end_ns=5)
    with pytest.raises(UsageError, match="no-window"):
        find_steps(StepSources(rows=rows), StepOptions(method=StepMethod.WINDOW))
    with pytest.raises(UsageError, match="bad-regex"):
        find_steps(StepSources(rows=rows), StepOptions(pattern="("))
    with pytest.raises(ContractError, match="device"):
        find_steps(StepSources(rows=rows.drop(columns="device")))


# ------------------------------------------------------------------------------------- warm-up, cut steps, several runs


def stepped(counts: Sequence[int], durations: Sequence[int] | None = None) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Rows and marks of steps with so many kernels each, one launch per kernel at the time it runs."""
    rows, marks, now = [], [], 0
    for number, count in enumerate(counts):
        length = 10 if durations is None else durations[number]
        marks.append((number, now, now + count * length))
        rows += [{"start": now + i * length, "end": now + i * length + 8, "kernel_name": f"k{i}"} for i in range(count)]
        now += count * length
    return make_rows(rows), make_marks(marks)


@pytest.mark.parametrize(
    "counts, complete",
    [
        pytest.param([20, 20, 20, 20], [1, 1, 1, 1], id="whole"),
        pytest.param([20, 20, 20, 7], [1, 1, 1, 0], id="last-cut"),
        pytest.param([11, 20, 20, 20], [0, 1, 1, 1], id="first-cut"),
        pytest.param([20, 22, 19, 19], [1, 1, 1, 1], id="numbers-that-vary"),
        pytest.param([20, 12], [1, 0], id="two-of-which-one-is-cut"),
        pytest.param([20], [1], id="one"),
    ],
)
def test_step_at_the_edge_with_fewer_kernels_is_cut(counts: list[int], complete: list[int]) -> None:
    rows, marks = stepped(counts)
    found = find_steps(StepSources(rows=rows, host_events=marks))
    assert found.frame["is_complete"].tolist() == [bool(flag) for flag in complete]
    assert found.counted["step_index"].tolist() == [step for step, flag in enumerate(complete) if flag]


def test_first_step_that_autotunes_is_warm_up() -> None:
    rows, marks = stepped([90, 20, 20, 20])
    found = find_steps(StepSources(rows=rows, host_events=marks))
    assert found.frame["is_warmup"].tolist() == [True, False, False, False]
    assert found.counted["step_index"].tolist() == [1, 2, 3]


def test_first_step_that_takes_far_longer_is_warm_up() -> None:
    rows, marks = stepped([20, 20, 20], [50, 10, 10])
    found = find_steps(StepSources(rows=rows, host_events=marks))
    assert found.frame["is_warmup"].tolist() == [True, False, False]


def test_step_in_which_the_host_compiles_is_warm_up_wherever_it_is() -> None:
    rows, marks = stepped([20, 20, 20, 20])
    compiling = make_frame(
        HOST_EVENTS,
        [
            {
                "run": "r",
                "host": "p0",
                "device": "/host:CPU",
                "line": "python",
                "event_index": 90,
                "event_name": "PjRtCApiClient::Compile",
                "start_ns": BOOT_NS + 410,
                "end_ns": BOOT_NS + 420,
            }
        ],
    )
    events = pd.concat([marks, compiling], ignore_index=True)
    events = events.astype(dict.fromkeys(("run", "host", "device", "line", "event_name"), "category"))
    found = find_steps(StepSources(rows=rows, host_events=events))
    assert found.frame["is_warmup"].tolist() == [False, False, True, False]
    assert list(compile_instants(events, None)) == [("r", "p0")]


def test_capture_of_warm_up_only_says_so_and_still_gives_its_steps() -> None:
    rows, marks = stepped([20, 20])
    launches = make_launches([(1, 5), (2, 205)]).assign(name=pd.Categorical(["hipModuleLoadData"] * 2))
    found = find_steps(StepSources(rows=rows, host_events=marks, launches=launches))
    assert found.frame["is_warmup"].tolist() == [True, True]
    assert "only-warmup-steps" in rules(found)
    assert len(found.counted) == 2


def test_runs_are_looked_at_one_by_one() -> None:
    rows, marks = stepped([20, 20, 20])
    other = make_rows([{"start": 0, "end": 5, "run": "s"}])
    both = pd.concat([rows, other], ignore_index=True)
    both = both.astype(dict.fromkeys(("run", "process", "device", "kernel_name"), "category"))
    found = find_steps(StepSources(rows=both, host_events=marks))
    assert found.frame.groupby("run", observed=True)["method"].first().to_dict() == {"r": "annotation", "s": "whole"}
    require_frame(found.frame, STEPS)


def test_step_that_runs_other_kernels_on_another_device_is_noted() -> None:
    rows, marks = stepped([20, 20, 20])
    other = rows[rows["kernel_name"] != "k3"].assign(device="host:gpu1")
    both = pd.concat([rows, other], ignore_index=True).astype({"device": "category", "kernel_name": "category"})
    assert "rows-differ-between-devices" in rules(find_steps(StepSources(rows=both, host_events=marks)))


# ----------------------------------------------------------------------------------------------------------- the pieces


def test_row_belongs_to_the_last_window_that_begins_before_it() -> None:
    """
    step 0  [        )
    step 1       [        )
    rows    x    x  x  x    x
    """
    steps = make_steps([{"step_index": 0, "start": 0, "end": 9}, {"step_index": 1, "start": 5, "end": 14}])
    rows = make_rows([{"start": s, "end": s + 1} for s in (0, 5, 8, 11, 16)])
    assert assign_steps(rows, steps).to_numpy(dtype=object).tolist() == [0, 1, 1, 1, pd.NA]
    assert assign_steps(rows.assign(device=pd.Categorical(["other:gpu0"] * 5)), steps).isna().all()
    assert assign_steps(rows.head(0), steps).size == 0


def test_rows_come_from_dispatches_with_their_device_and_link() -> None:
    dispatches = make_frame(
        DISPATCHES, [{"run": "r", "process": "p0", "dispatch_id": n, "agent_id": 4, "start_ns": n} for n in range(2)]
    )
    agents = make_agents([{"run": "r", "process": "p0", "agent_id": 4, "device": "host:gpu0"}])
    edges = make_frame(
        DISPATCH_EDGES,
        [
            {
                "run": "r",
                "process": "p0",
                "dispatch_id": 1,
                "program_id": "7",
                "instruction": "dot",
                "execution_index": 3,
            }
        ],
    )
    rows = step_rows(dispatches, agents, edges)
    assert rows["device"].tolist() == ["host:gpu0"] * 2
    assert rows["instruction"].isna().tolist() == [True, False]
    assert rows["execution_index"].tolist()[1] == 3


def test_launches_come_from_either_kind_of_trace() -> None:
    calls = make_frame(HOST_CALLS, [{"run": "r", "process": "p0", "host_call_id": 3, "name": "hipLaunchKernel"}])
    assert launches_of_calls(calls)["host_call_id"].tolist() == [3]
    events = make_marks([(None, 5, 9), (None, 6, 7), (None, 8, 9)])
    events["correlation_id"] = pd.array([4, 4, None], dtype="Int64")
    launches = launches_of_profile(events)
    assert launches["host_call_id"].tolist() == [4]
    assert (launches["start_ns"] - BOOT_NS).tolist() == [5]
