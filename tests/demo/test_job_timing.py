"""When things happen on simulated devices: small steps with times that can be added up by hand."""

from __future__ import annotations

import numpy as np
import pytest

from rocktools.demo.job_timing import OVERLAP_COST_RATIO, JobPlan, JobTimes, StepRows, time_job
from rocktools.demo.launch_rows import WAIT, LaunchRows

PAIRS = np.array([[0, 1], [2, 3]])
DEVICES = 4
MS = 1_000_000.0
SLACK = 40_000.0  # launches, events and gaps of a few rows


def make_step(*rows: tuple[str, float]) -> StepRows:
    """Rows of one step: `main`, `async` or `sync` (collectives on their own or the main stream), `wait`."""
    kinds = [kind for kind, _ in rows]
    count = len(rows)
    none = np.full(count, -1)
    return StepRows(
        rows=LaunchRows(
            kernel=np.array([WAIT if kind == "wait" else 0 for kind in kinds]),
            stream=np.array([int(kind == "async") for kind in kinds]),
            async_id=np.array([7 if kind in ("async", "wait") else -1 for kind in kinds]),
            site=np.zeros(count, dtype=np.int64),
            kernel_index=np.zeros(count, dtype=np.int64),
            step=none,
            iterations=np.zeros((count, 0), dtype=np.int64),
            origin=np.zeros(count, dtype=np.int64),
        ),
        base_ns=np.array([length for _, length in rows]),
        spread_ratio=np.zeros(count),
        group=np.array([0 if kind in ("async", "sync") else -1 for kind in kinds]),
        groups=(PAIRS,),
    )


def make_plan(step: StepRows, steps_count: int = 1, **changes) -> JobPlan:
    shape = (steps_count, DEVICES)
    plan = {
        "load_ns": np.zeros(shape),
        "delay_ns": np.zeros(shape),
        "compile_ns": np.zeros(shape),
        "speed_ratio": np.ones(shape),
        "row_ratios": (np.ones(len(step.rows)),) * steps_count,
        "first_collective_ns": np.zeros(steps_count),
    }
    return JobPlan(**{**plan, **changes})


def run(step: StepRows, steps_count: int = 1, **changes) -> JobTimes:
    return time_job([step] * steps_count, make_plan(step, steps_count, **changes), seed=0)


def busy_ms(times: JobTimes) -> np.ndarray:
    """From the first start to the last end of the step, of each device."""
    return (times.end[0].max(axis=0) - times.start[0][0]) / MS


def test_kernels_of_a_stream_run_one_after_the_other():
    times = run(make_step(("main", 2 * MS), ("main", 3 * MS)))
    assert (times.start[0][1] >= times.end[0][0]).all()
    assert busy_ms(times) == pytest.approx(np.full(DEVICES, 5.0), abs=SLACK / MS)


def test_an_asynchronous_collective_is_hidden_until_the_main_stream_waits():
    hidden = run(make_step(("main", 2 * MS), ("async", 3 * MS), ("main", 5 * MS), ("wait", 0), ("main", 1 * MS)))
    # 3 ms of the kernel beside it are slower.
    stretched = 5 + 3 * OVERLAP_COST_RATIO / (1 + OVERLAP_COST_RATIO)
    assert busy_ms(hidden) == pytest.approx(np.full(DEVICES, 2 + stretched + 1), abs=2 * SLACK / MS)
    exposed = run(make_step(("main", 2 * MS), ("async", 3 * MS), ("wait", 0), ("main", 5 * MS)))
    assert busy_ms(exposed) == pytest.approx(np.full(DEVICES, 2 + 3 + 5), abs=2 * SLACK / MS)


def test_a_collective_that_outlasts_its_cover_is_exposed_by_the_rest():
    times = run(make_step(("async", 9 * MS), ("main", 5 * MS), ("wait", 0), ("main", 1 * MS)))
    assert busy_ms(times) == pytest.approx(np.full(DEVICES, 9 + 1), abs=2 * SLACK / MS)


def test_members_of_a_group_end_together_when_the_last_has_arrived():
    step = make_step(("main", 2 * MS), ("sync", 1 * MS))
    speed = np.array([[1.0, 1.5, 1.0, 1.0]])
    times = run(step, speed_ratio=speed)
    assert times.arrive[0][1][0] == times.arrive[0][1][1] == times.start[0][1].max()
    assert np.ptp(times.end[0][1][:2]) < 1_000
    # The other pair does not wait for it.
    waited = times.arrive[0][1] - times.start[0][1]
    assert waited[0] == pytest.approx(1 * MS, abs=2 * SLACK)
    assert (waited[2:] < 2 * SLACK).all()


def test_a_late_host_makes_its_group_wait():
    delay = np.array([[0.0, 4 * MS, 0.0, 0.0]])
    times = run(make_step(("main", 1 * MS), ("sync", 1 * MS)), delay_ns=delay)
    waited = times.arrive[0][1] - times.start[0][1]
    assert waited[0] == pytest.approx(4 * MS, abs=3 * SLACK)
    assert waited[1] == 0


def test_the_next_step_begins_when_the_loss_is_there():
    times = run(make_step(("main", 2 * MS)), steps_count=3, load_ns=np.full((3, DEVICES), 5 * MS))
    assert (times.begin[1:] > times.finish[:-1]).all()
    assert (times.finish >= [rows.max(axis=0) for rows in times.end]).all()
    assert times.step_ns == pytest.approx(np.full(3, 7 * MS), rel=0.1)
    assert times.loaded - times.begin == pytest.approx(np.full((3, DEVICES), 5 * MS))


def test_compilation_and_the_first_collective_take_their_time_once():
    step = make_step(("main", 1 * MS), ("sync", 1 * MS))
    compiling = np.zeros((2, DEVICES))
    compiling[1] = 50 * MS
    plain = run(step, steps_count=2)
    times = run(step, steps_count=2, compile_ns=compiling, first_collective_ns=np.array([7 * MS, 0]))
    assert times.step_ns - plain.step_ns == pytest.approx([7 * MS, 50 * MS], rel=1e-6)


def test_the_host_is_at_most_so_far_ahead():
    step = make_step(*[("main", 0.1 * MS)] * 1_500)
    times = run(step)
    assert (times.launch[0][1_400] >= times.end[0][1_400 - 1_024]).all()
    assert (times.launch[0][1_000] < times.end[0][900]).all()


def test_the_same_seed_takes_the_same_chances_whatever_the_plan():
    step = make_step(("main", 1 * MS), ("main", 1 * MS))
    step.spread_ratio[:] = 0.1
    first, again = run(step), run(step)
    slower = run(step, row_ratios=(np.full(2, 2.0),))
    assert (first.end[0] == again.end[0]).all()
    durations, doubled = first.end[0] - first.start[0], slower.end[0] - slower.start[0]
    assert doubled == pytest.approx(2 * durations)
    assert np.ptp(durations) > 0
