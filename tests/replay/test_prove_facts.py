"""Frames of traces and counters -> what a proof compares."""

from __future__ import annotations

import pandas as pd
import pytest

from rocktools.errors import NothingToRead
from rocktools.replay.executable import ExecutableThunk
from rocktools.replay.prove_facts import counters_by_pass, facts_of_dispatches, facts_of_thunks


def dispatches(durations_ns, **columns) -> pd.DataFrame:
    count = len(durations_ns)
    starts = [1000 * number for number in range(count)]
    given = {
        "run": ["r"] * count, "process": ["1"] * count, "kernel_name": ["k"] * count, "start_ns": starts,
        "end_ns": [start + duration for start, duration in zip(starts, durations_ns, strict=True)],
        "grid_workitems_x": 256, "grid_workitems_y": 1, "grid_workitems_z": 1, "workgroup_workitems_x": 64,
        "workgroup_workitems_y": 1, "workgroup_workitems_z": 1, "lds_bytes": 512, "scratch_bytes": 0,
        "vgpr_count": 40, "agpr_count": 0, "sgpr_count": 16, **columns,
    }  # fmt: skip
    return pd.DataFrame(given)


def test_median_and_quartiles_are_of_the_kernel_alone():
    frame = pd.concat([dispatches([100, 300, 200, 400, 500]), dispatches([9000], kernel_name=["other"])])
    traced = facts_of_dispatches(frame, kernel_name="k")
    # Of 100 to 500: quartiles 200 and 400.
    assert (traced.durations.median_ns, traced.durations.iqr_ns, traced.durations.dispatches_count) == (300, 200, 5)
    assert (traced.facts.grid, traced.facts.workgroup_workitems) == ((256, 1, 1), (64, 1, 1))
    assert (traced.facts.vgpr_count, traced.facts.lds_bytes, traced.facts.code_sha256) == (40, 512, "")


def test_warm_up_is_left_out_in_each_process():
    frame = dispatches([900, 100, 900, 100], process=["1", "1", "2", "2"])
    traced = facts_of_dispatches(frame, kernel_name="k", warmups_count=1)
    assert (traced.durations.median_ns, traced.durations.dispatches_count) == (100, 2)


def test_kernel_that_is_not_there_is_told():
    with pytest.raises(NothingToRead, match="no dispatch of 'absent'"):
        facts_of_dispatches(dispatches([1]), kernel_name="absent")
    with pytest.raises(NothingToRead, match="more than 2 times"):
        facts_of_dispatches(dispatches([1, 1]), kernel_name="k", warmups_count=2)


def test_what_dispatches_do_not_agree_on_is_not_said():
    frame = dispatches([1, 1], grid_workitems_x=[256, 512], vgpr_count=pd.array([40, None], dtype="Int64"))
    traced = facts_of_dispatches(frame, kernel_name="k")
    assert (traced.facts.grid, traced.facts.vgpr_count) == ((), None)


def test_counters_come_by_pass():
    key = {"run": ["r"] * 4, "process": ["1"] * 4, "dispatch_id": [1, 2, 1, 2], "pass": ["a", "a", "b", "b"],
           "replay_pass": pd.array([None] * 4, dtype="Int64")}  # fmt: skip
    counted = pd.DataFrame({**key, "kernel_name": ["k", "other", "k", "other"]})
    values = pd.DataFrame({**key, "counter": ["SQ_WAVES"] * 4, "sum_value": [4.0, 9.0, 5.0, 9.0]})
    assert counters_by_pass(counted, values, kernel_name="k") == {"SQ_WAVES": [4.0, 5.0]}


def test_thunks_that_launch_nothing_are_left_out():
    thunks = [ExecutableThunk(thunk_id=1, kind=kind, instruction="i") for kind in ("kWhile", "kCopy", "kAsyncDone")]
    assert [facts.kind for facts in facts_of_thunks(thunks)] == ["kCopy"]
