"""Four devices that do the same but for one thing: the tree must name the device and that thing."""

from __future__ import annotations

import itertools
from typing import Any

import pandas as pd
import pytest
from timeline_rows import make_attributed

from rocktools.timeline.late_rank import LOOK_AT, LateCause, LateRanks, backward_compute, find_late_ranks
from rocktools.timeline.overlap import reconcile
from rocktools.timeline.skew import match_collectives, sum_skew

STEP_NS = 10_000
LATE_NS = 1_000


def step_rows(device: str, step: int, **odd: int) -> list[dict[str, Any]]:
    """Forward, backward, then a collective that ends for all at 9,000 ns; `odd` is what this device does differently.

    begins, backward, idle: longer by that; kernels: backward in that many more kernels; ends: the collective later.
    """
    base = 2 * STEP_NS * step
    now = base + odd.get("begins", 0)
    rows: list[dict[str, Any]] = [{"start": now, "end": now + 2000, "phase": "forward"}]
    now += 2000 + odd.get("idle", 0)
    end = now + 4000 + odd.get("backward", 0)
    pieces = 10 + odd.get("kernels", 0)
    edges = [now + (end - now) * piece // pieces for piece in range(pieces + 1)]
    rows += [{"start": a, "end": b, "phase": "backward"} for a, b in itertools.pairwise(edges)]
    collective = {"activity": "communication", "instruction": "all-reduce.1", "program_id": "7", "phase": "backward"}
    rows.append({"start": end, "end": base + 9000 + odd.get("ends", 0), **collective})
    return [{**row, "device": device, "step_index": step} for row in rows]


def judge(odd: dict[str, int], *, hosts: int = 1) -> LateRanks:
    rows = []
    for host in range(hosts):
        for gpu in range(4):
            for step in range(3):
                rows += step_rows(f"node{host}:gpu{gpu}", step, **(odd if gpu == 2 else {}))
    frame = make_attributed(rows)
    return find_late_ranks(reconcile(frame).frame, sum_skew(match_collectives(frame).frame), backward_compute(frame))


@pytest.mark.parametrize(
    "odd, cause, asked",
    [
        pytest.param({}, LateCause.NONE_LATE, 2, id="all-alike"),
        pytest.param({"begins": LATE_NS}, LateCause.LATE_INPUT, 2, id="late-input"),
        pytest.param({"backward": LATE_NS}, LateCause.SLOWER_COMPUTE, 3, id="slower-kernels"),
        pytest.param({"backward": LATE_NS, "kernels": 5}, LateCause.EXTRA_WORK, 3, id="more-kernels"),
        pytest.param({"idle": LATE_NS}, LateCause.IDLE_WITHIN_STEP, 4, id="late-host"),
        pytest.param({"ends": LATE_NS}, LateCause.LONGER_TRANSFER, 2, id="longer-transfer"),
    ],
)
def test_the_one_difference_is_named(odd: dict[str, int], cause: LateCause, asked: int) -> None:
    (verdict,) = judge(odd).verdicts
    assert verdict.cause is cause
    assert verdict.device == (None if cause is LateCause.NONE_LATE else "node0:gpu2")
    assert len(verdict.branches) == asked
    assert verdict.branches[-1].is_yes is (cause is not LateCause.NONE_LATE)
    if cause not in (LateCause.NONE_LATE, LateCause.LONGER_TRANSFER):
        assert verdict.lateness_ns == LATE_NS
        assert verdict.branches[-1].value_ns == LATE_NS
        assert verdict.branches[-1].limit_ns == LATE_NS / 2
    assert verdict.advice == LOOK_AT[cause]


def test_longer_backward_is_told_apart_where_phases_are_known() -> None:
    (verdict,) = judge({"backward": LATE_NS}).verdicts
    assert verdict.backward_excess_ns == LATE_NS
    frame = make_attributed([row for gpu in range(2) for row in step_rows(f"n:gpu{gpu}", 0, backward=600 * gpu)])
    (unknown,) = find_late_ranks(reconcile(frame).frame, sum_skew(match_collectives(frame).frame)).verdicts
    assert (unknown.device, unknown.backward_excess_ns) == ("n:gpu1", None)


def test_lateness_of_many_small_parts_stays_unexplained() -> None:
    (verdict,) = judge({"begins": 400, "backward": 400, "idle": 400}).verdicts
    assert verdict.cause is LateCause.UNEXPLAINED
    assert verdict.device == "node0:gpu2"
    assert [branch.is_yes for branch in verdict.branches] == [True, False, False, False]


def test_lateness_below_a_hundredth_of_the_step_is_none() -> None:
    (verdict,) = judge({"begins": 80}).verdicts
    assert verdict.cause is LateCause.NONE_LATE


def test_hosts_are_judged_one_by_one_since_their_clocks_differ() -> None:
    found = judge({"begins": LATE_NS}, hosts=2)
    assert [(verdict.host, verdict.device) for verdict in found.verdicts] == [
        ("node0", "node0:gpu2"),
        ("node1", "node1:gpu2"),
    ]
    assert [finding.rule for finding in found.findings] == ["clocks-of-several-hosts"]


def test_without_collectives_nobody_can_be_called_late_and_that_is_said() -> None:
    rows = [row for gpu in range(2) for row in step_rows(f"n:gpu{gpu}", 0) if row.get("activity") != "communication"]
    frame = make_attributed(rows)
    found = find_late_ranks(reconcile(frame).frame, sum_skew(match_collectives(frame).frame), backward_compute(frame))
    assert found.verdicts == ()
    assert [finding.rule for finding in found.findings] == ["no-collective-matched"]


def test_one_device_has_nobody_to_be_late_for() -> None:
    frame = make_attributed(step_rows("n:gpu0", 0))
    assert find_late_ranks(reconcile(frame).frame, sum_skew(match_collectives(frame).frame)) == LateRanks(
        verdicts=(), findings=()
    )


def test_backward_compute_is_a_union_and_includes_what_is_run_again() -> None:
    """
    ####......   backward
    ..####....   rematerialized
    ......##..   forward
    """
    rows = [
        {"start": 0, "end": 4, "phase": "backward", "step_index": 0},
        {"start": 2, "end": 6, "phase": "rematerialized", "step_index": 0},
        {"start": 6, "end": 8, "phase": "forward", "step_index": 0},
        {"start": 8, "end": 9, "phase": "backward", "step_index": 0, "activity": "communication"},
    ]
    assert backward_compute(make_attributed(rows))["backward_ns"].tolist() == [6]
    assert isinstance(backward_compute(make_attributed([])), pd.DataFrame)
