"""Measures that rules share: periods of steps, exposure, work of kernels, claimed tokens."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rule_programs import STEP, UPDATE
from rule_timeline import declared, program, repeated, timeline
from timeline_rows import make_attributed

from rocktools.rules.exposure import measure_exposure
from rocktools.rules.kernel_work import build_kernel_work, union_per_step_ns
from rocktools.rules.step_times import cells_count, lengths_of, mean_step_ns
from rocktools.rules.token_count import claimed_tokens
from rocktools.timeline.skew import match_collectives


def test_a_step_lasts_from_the_end_of_the_one_before():
    """Steps end at 90, 190, 290; the first has nothing before it and lasts its own 80."""
    times = timeline(repeated([{"start": 10, "end": 90}], period=100, steps=3)).step_times
    assert times is not None
    assert lengths_of(times).tolist() == [80, 100, 100]
    assert mean_step_ns(times) == 100
    assert cells_count(times) == 3


def test_a_step_behind_one_that_is_missing_has_no_period():
    rows = [row for row in repeated([{"start": 0, "end": 90}], period=100, steps=4) if row["step_index"] != 1]
    times = timeline(rows).step_times
    assert times is not None
    assert times["period_ns"].isna().tolist() == [True, True, False]


def test_steps_that_do_not_count_keep_their_length_and_leave_the_mean():
    rows = repeated([{"start": 0, "end": 90}], period=100, steps=4)
    late = [{**row, "start": row["start"] + 500, "end": row["end"] + 500} for row in rows[1:]]
    times = timeline([rows[0], *late], warmup={0, 1}).step_times
    assert times is not None
    assert lengths_of(times).tolist() == [90, 600, 100, 100]
    assert mean_step_ns(times) == 100


_ACTIVITIES = ("compute", "communication", "copy")


@settings(max_examples=60)
@given(
    st.lists(
        st.tuples(st.sampled_from(_ACTIVITIES), st.integers(0, 40), st.integers(1, 20), st.integers(0, 1)),
        min_size=1,
        max_size=8,
    )
)
def test_exposure_is_what_a_bitmap_of_compute_leaves(drawn: list[tuple[str, int, int, int]]):
    rows = [
        {"activity": kind, "start": start, "end": start + length, "device": f"host:gpu{gpu}", "step_index": 0}
        for kind, start, length, gpu in drawn
    ]
    frame = make_attributed(rows)
    exposure = measure_exposure(frame, match_collectives(frame).frame)
    base = int(frame["start_ns"].min())
    for gpu in ("host:gpu0", "host:gpu1"):
        is_busy = np.zeros(200, dtype=bool)
        mine = frame[(frame["device"] == gpu).to_numpy() & (frame["activity"] == "compute").to_numpy()]
        for start, end in zip(mine["start_ns"] - base, mine["end_ns"] - base, strict=True):
            is_busy[start:end] = True
        for _, row in exposure[(exposure["device"] == gpu).to_numpy()].iterrows():
            inside = ~is_busy[row["start_ns"] - base : row["end_ns"] - base]
            assert row["exposed_ns"] == int(inside.sum())
            if row["exposed_wait_ns"] is not None and str(row["exposed_wait_ns"]) != "<NA>":
                assert 0 <= row["exposed_wait_ns"] <= row["exposed_ns"]


def test_work_of_instructions_is_what_their_fusion_holds():
    work = build_kernel_work([program(STEP), program(STEP)]).set_index("instruction")["work"].astype(str)
    assert work.to_dict() == {
        "exp.1": "vector",
        "loop_transpose_fusion.1": "formatting",
        "loop_transpose_fusion.2": "vector",
        "loop_gather_fusion.1": "gather",
        "dot.1": "matrix",
    }


def test_union_per_step_counts_overlaps_once():
    rows = [{"start": 0, "end": 60}, {"start": 40, "end": 80}, {"start": 90, "end": 100, "component": "other"}]
    frame = timeline(repeated(rows, period=100, steps=2)).rows
    assert frame is not None
    assert union_per_step_ns(frame, np.ones(len(frame), dtype=bool), 2) == 90
    assert union_per_step_ns(frame, (frame["component"] == "other").to_numpy(), 2) == 10


def test_claimed_tokens_are_said_or_computed():
    assert claimed_tokens(declared("batch: {tokens_per_update_count: 262144}")) == 262144
    # 12,725.9 tokens per second for 20.599 s.
    assert claimed_tokens(declared("timing: {tokens_per_s: 12725.9, step_s: 20.599}")) == pytest.approx(
        262_141, rel=1e-5
    )
    assert claimed_tokens(declared("timing: {step_s: 20.599}")) is None


def test_optimizers_are_vector_work():
    assert build_kernel_work([program(UPDATE)])["work"].astype(str).tolist() == ["vector"]
