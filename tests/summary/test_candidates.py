"""What numbers suggest: thresholds are passed and not passed, and every candidate cites the number that passed."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from rocktools.evidence import Absence
from rocktools.summary import candidates
from rocktools.summary.candidates import Blocks, find_candidates
from rocktools.summary.document import (
    ArrivalSkew,
    Candidate,
    CollectivesBlock,
    FamiliesBlock,
    LedgerBlock,
    Missing,
    OperationsBlock,
    OverlapBlock,
    RooflineBlock,
    Steps,
    Summary,
)
from rocktools.summary.statistics import describe_durations

NOTHING = Missing(absence=Absence.NOT_COLLECTED, reason="test")
EMPTY: dict[str, Any] = dict.fromkeys(Blocks.__dataclass_fields__, NOTHING)


def _found(**blocks: Any) -> dict[str, Candidate]:
    return {each.candidate_id: each for each in find_candidates(Blocks(**{**EMPTY, **blocks}))}


def _overlap(summary: Summary, **changes: Any) -> OverlapBlock:
    assert isinstance(summary.overlap, OverlapBlock)
    quiet = replace(summary.overlap, exposed_ratio=0.0, idle_ratio=0.0, spread=())
    mean = replace(quiet.mean, exposed_copy_ns=changes.pop("exposed_copy_ns", 0.0))
    return replace(quiet, mean=mean, **changes)


def test_nothing_suggests_nothing(scoped_summary: Summary) -> None:
    assert find_candidates(Blocks(**EMPTY)) == ()
    assert _found(overlap=_overlap(scoped_summary)) == {}


@pytest.mark.parametrize(
    "changes, candidate_id",
    [
        ({"exposed_ratio": candidates.EXPOSED_RATIO}, "hide-communication"),
        ({"idle_ratio": candidates.IDLE_RATIO}, "fill-idle-time"),
    ],
)
def test_share_of_the_span_at_its_threshold_is_told_and_below_it_is_not(
    scoped_summary: Summary, changes: dict[str, float], candidate_id: str
) -> None:
    [name] = changes
    assert set(_found(overlap=_overlap(scoped_summary, **changes))) == {candidate_id}
    assert _found(overlap=_overlap(scoped_summary, **{name: changes[name] * 0.99})) == {}


def test_exposed_copies_are_told(scoped_summary: Summary) -> None:
    span = _overlap(scoped_summary).mean.span_ns
    found = _found(overlap=_overlap(scoped_summary, exposed_copy_ns=0.04 * span))
    assert found["hide-copies"].most_saved_ns == pytest.approx(0.04 * span)
    assert "hide-copies" not in _found(overlap=_overlap(scoped_summary, exposed_copy_ns=0.02 * span))


def test_device_that_computes_longest_is_named(scoped_summary: Summary) -> None:
    assert isinstance(scoped_summary.overlap, OverlapBlock)
    [compute] = [each for each in scoped_summary.overlap.spread if each.quantity == "compute"]
    uneven = replace(compute, spread_ratio=0.2, max_ns=120.0, mean_ns=110.0, critical_device="node0:gpu1")
    found = _found(overlap=_overlap(scoped_summary, spread=(uneven,)))
    assert found["balance-devices"].subject == "node0:gpu1"
    assert found["balance-devices"].most_saved_ns == 10.0


def test_worst_collective_is_the_subject_of_exposed_communication(scoped_summary: Summary) -> None:
    found = _found(overlap=_overlap(scoped_summary, exposed_ratio=0.5), operations=scoped_summary.operations)
    assert found["hide-communication"].subject == "all-to-all.1"


def test_cause_of_idle_time_is_cited(scoped_summary: Summary) -> None:
    found = _found(overlap=_overlap(scoped_summary, idle_ratio=0.5), gaps=scoped_summary.gaps)
    cited = {each.name: each.value for each in found["fill-idle-time"].evidence}
    assert cited["main_cause"] == "kernel_wait"
    assert cited["idle_of_span_ratio"] == 0.5


def test_rematerialized_and_unattributed_time_is_told(scoped_summary: Summary) -> None:
    ledger = scoped_summary.ledger
    assert isinstance(ledger, LedgerBlock)
    assert "attribute-first" not in _found(ledger=ledger)
    first, *others = ledger.buckets
    for phase, candidate_id in (("rematerialized", "rematerialize-less"), ("unattributed", "attribute-first")):
        changed = replace(first, activity="compute", phase=phase, component="wi")
        found = _found(ledger=replace(ledger, buckets=(changed, *others)))
        assert candidate_id in found
        assert found[candidate_id].subject in ("wi", "unattributed")


def test_one_operation_with_much_of_the_time_is_told(scoped_summary: Summary) -> None:
    assert isinstance(scoped_summary.operations, OperationsBlock)
    operations = scoped_summary.operations.operations
    [heavy] = [each for each in operations if each.name == "custom-call.2"]
    block = replace(scoped_summary.operations, operations=(heavy,))
    assert _found(operations=block)["speed-up-operation"].subject == "custom-call.2"
    light = replace(heavy, exclusive_share_ratio=candidates.OPERATION_RATIO * 0.99)
    assert _found(operations=replace(block, operations=(light,))) == {}
    # A collective's time is no kernel's to be made faster.
    assert _found(operations=replace(block, operations=(replace(heavy, activity="communication"),))) == {}


def test_layout_work_is_told(scoped_summary: Summary) -> None:
    assert isinstance(scoped_summary.families, FamiliesBlock)
    family = replace(scoped_summary.families.families[0], family="layout", share_ratio=candidates.LAYOUT_RATIO)
    block = replace(scoped_summary.families, families=(family,))
    assert "format-less" in _found(families=block, operations=scoped_summary.operations)
    other = replace(block, families=(replace(family, family="attention"),))
    assert "format-less" not in _found(families=other, operations=scoped_summary.operations)


def test_device_that_others_wait_for_is_named(scoped_summary: Summary) -> None:
    assert isinstance(scoped_summary.collectives, CollectivesBlock)
    arrivals = tuple(
        ArrivalSkew(run="r", device=name, collectives_count=9, total_ns=100, wait_ns=wait, transfer_ns=100 - wait,
                    last_count=last)
        for name, wait, last in (("a", 60, 1), ("b", 0, 8))
    )  # fmt: skip
    found = _found(collectives=replace(scoped_summary.collectives, arrivals=arrivals))
    assert found["arrive-together"].subject == "b"
    even = tuple(replace(each, wait_ns=10) for each in arrivals)
    assert _found(collectives=replace(scoped_summary.collectives, arrivals=even)) == {}


def test_component_far_below_its_roof_is_told_for_one_step(scoped_summary: Summary) -> None:
    assert isinstance(scoped_summary.roofline, RooflineBlock)
    found = _found(roofline=scoped_summary.roofline, overlap=_overlap(scoped_summary))
    [table] = [each for each in scoped_summary.roofline.tables if (each.by, each.level) == ("component", "hbm")]
    [point] = [each for each in table.points if each.name == found["reach-the-roof"].subject]
    assert point.headroom_ns is not None
    assert found["reach-the-roof"].most_saved_ns == pytest.approx(point.headroom_ns / 6)  # 3 steps on 2 devices


def test_steps_with_a_long_tail_are_told(scoped_summary: Summary) -> None:
    assert isinstance(scoped_summary.steps, Steps)
    tailed = replace(scoped_summary.steps, statistics=describe_durations([10, 10, 10, 20, 20]))
    assert "steady-steps" in _found(steps=tailed)
    assert _found(steps=replace(tailed, statistics=describe_durations([10, 20, 20]))) == {}
    assert _found(steps=replace(tailed, statistics=describe_durations([10, 10, 10, 11]))) == {}


def test_every_candidate_cites_its_numbers_and_what_could_gain_most_comes_first(scoped_summary: Summary) -> None:
    gains = [each.most_saved_ns or 0.0 for each in scoped_summary.candidates]
    assert gains == sorted(gains, reverse=True)
    by_numbers = [each for each in scoped_summary.candidates if {one.block for one in each.evidence} != {"rules"}]
    assert by_numbers
    for each in by_numbers:
        assert each.suggestions
        passed = [one for one in each.evidence if one.threshold is not None]
        assert passed
        assert all(isinstance(one.value, (int, float)) and one.value >= one.threshold for one in passed)
        assert {one.block for one in each.evidence} <= set(Summary.__dataclass_fields__)
