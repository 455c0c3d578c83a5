"""Partial results of ranks: merged they are what all rows at once give, in any order and grouping."""

from __future__ import annotations

import pickle
import random
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pandas as pd
import pytest
from timeline_rows import make_attributed, make_steps

from rocktools.errors import ContractError
from rocktools.findings import Finding, Severity
from rocktools.frames import STEPS, FrameSpec
from rocktools.timeline.gaps import GAP_TOTALS, find_gaps, total_gaps
from rocktools.timeline.overlap import RECONCILIATION, reconcile
from rocktools.timeline.partial import (
    COMMUNICATION_ROWS,
    RankPartial,
    check_devices,
    compare_ranks,
    measure_rank,
    merge_partials,
    renumber_steps,
)

STEP_NS = 1000


def rank_rows(rank: int, steps: Sequence[int], *, first: int = 0) -> list[dict[str, Any]]:
    """One rank, one device; the steps with these numbers, which it numbers from 0 itself."""
    rows = []
    for index, number in enumerate(steps):
        base = number * STEP_NS
        common = {"device": f"host:gpu{rank}", "process": f"p{rank}", "step_index": index + first}
        rows += [
            {"start": base, "end": base + 300 + rank, **common},
            {"start": base + 350, "end": base + 600, "phase": "backward", **common},
            {
                "start": base + 500 + rank,
                "end": base + 900,
                "activity": "communication",
                "instruction": "all-reduce.1",
                "program_id": "7",
                **common,
            },
        ]
    return rows


def rank_steps(rank: int, steps: Sequence[int], *, numbered: bool = True, cut: Sequence[int] = ()) -> pd.DataFrame:
    return make_steps(
        [
            {
                "device": f"host:gpu{rank}",
                "step_index": index,
                "step_number": number if numbered else None,
                "start": number * STEP_NS,
                "end": number * STEP_NS + 900,
                "is_complete": number not in cut,
                "method": "annotation",
            }
            for index, number in enumerate(steps)
        ]
    )


def rank_partial(rank: int, steps: Sequence[int], **given: Any) -> RankPartial:
    return measure_rank(f"rank{rank}", make_attributed(rank_rows(rank, steps)), rank_steps(rank, steps, **given))


def contents(partial: RankPartial) -> dict[str, list[list[str]]]:
    return {name: held.frame.astype(str).to_numpy().tolist() for name, held in partial.frames.items()}


def test_merged_partials_equal_what_all_rows_at_once_give() -> None:
    merged = merge_partials([rank_partial(rank, [10, 11, 12]) for rank in (2, 0, 1)])
    rows = make_attributed([row for rank in range(3) for row in rank_rows(rank, [10, 11, 12])])
    steps = pd.concat([rank_steps(rank, [10, 11, 12]) for rank in range(3)], ignore_index=True)
    steps = steps.astype({"device": "category", "run": "category"})
    pd.testing.assert_frame_equal(merged[RECONCILIATION], reconcile(rows, steps).frame)
    pd.testing.assert_frame_equal(merged[GAP_TOTALS], total_gaps(find_gaps(rows).frame))
    assert merged.labels == ("rank0", "rank1", "rank2")
    assert len(merged[COMMUNICATION_ROWS]) == 9


def test_order_and_grouping_do_not_matter() -> None:
    order = random.Random(5)
    partials = [rank_partial(rank, [4, 5]) for rank in range(4)]
    whole = contents(merge_partials(partials))
    for cut in (1, 2, 3):
        order.shuffle(partials)
        grouped = merge_partials([merge_partials(partials[:cut]), merge_partials(partials[cut:])])
        assert contents(grouped) == whole
        assert grouped.labels == ("rank0", "rank1", "rank2", "rank3")


def test_partial_can_be_pickled() -> None:
    partial = rank_partial(0, [1, 2])
    again = pickle.loads(pickle.dumps(partial))
    assert contents(again) == contents(partial)
    assert contents(merge_partials([again])) == contents(merge_partials([partial]))


@pytest.mark.parametrize("numbered", [True, False])
def test_steps_mean_the_same_on_all_ranks_after_renumbering(numbered: bool) -> None:
    """Rank 1 began to record one step later: its first step is the second of the others."""
    merged = merge_partials(
        [
            rank_partial(0, [10, 11, 12, 13], numbered=numbered),
            rank_partial(1, [11, 12, 13], numbered=numbered),
            rank_partial(2, [10, 11, 12, 13], numbered=numbered),
        ]
    )
    renumbered = renumber_steps(merged)
    steps = renumbered[STEPS]
    assert steps.loc[steps["device"] == "host:gpu1", "step_index"].tolist() == [1, 2, 3]
    for spec in (RECONCILIATION, COMMUNICATION_ROWS):
        frame = renumbered[spec]
        assert sorted(set(frame.loc[frame["device"] == "host:gpu1", "step_index"])) == [1, 2, 3]
    compared = compare_ranks(renumbered)
    assert compared.devices.means["steps_count"].tolist() == [3, 3, 3]
    assert compared.collectives.frame["devices_count"].max() == 3


def test_step_that_is_cut_on_one_rank_counts_on_none() -> None:
    merged = merge_partials([rank_partial(0, [1, 2, 3]), rank_partial(1, [1, 2, 3], cut=[3])])
    compared = compare_ranks(renumber_steps(merged))
    assert sorted(set(compared.steps["step_index"])) == [0, 1]
    assert sorted(set(compared.reconciliation["step_index"])) == [0, 1]


def test_warm_up_of_one_rank_is_warm_up_of_all() -> None:
    warm = rank_steps(0, [1, 2]).assign(is_warmup=[True, False])
    partial = measure_rank("rank0", make_attributed(rank_rows(0, [1, 2])), warm)
    steps = renumber_steps(merge_partials([partial, rank_partial(1, [1, 2])]))[STEPS]
    assert steps.groupby("step_index")["is_warmup"].all().tolist() == [True, False]


def test_classes_of_steps_are_judged_over_all_ranks() -> None:
    numbers = list(range(8))
    steps = rank_steps(0, numbers)
    steps["end_ns"] = steps["start_ns"] + [100, 101, 150, 100, 99, 151, 100, 101]
    partial = measure_rank("rank0", make_attributed(rank_rows(0, numbers)), steps)
    judged = renumber_steps(partial)[STEPS]
    assert judged["step_class"].tolist() == ["light", "light", "heavy", "light", "light", "heavy", "light", "light"]


def test_device_of_two_ranks_is_a_fault() -> None:
    other = replace(rank_partial(0, [1, 2]), labels=("again",))
    merged = renumber_steps(merge_partials([rank_partial(0, [1, 2]), other]))
    assert [(finding.rule, finding.severity) for finding in check_devices(merged)] == [
        ("device-in-several-ranks", Severity.FAULT)
    ]
    assert check_devices(rank_partial(0, [1])) == ()


def test_findings_are_kept_once() -> None:
    finding = Finding(rule="r", severity=Severity.NOTE, where="w", message="m")
    partials = [replace(rank_partial(rank, [1]), findings=(finding,)) for rank in range(2)]
    assert merge_partials(partials).findings == (finding,)


def test_frames_of_others_travel_along() -> None:
    spec = FrameSpec(
        name="EXTRA", meaning="One row per device.", key=("device",), sort=("device",), columns=STEPS.columns[1:2]
    )
    partials = [
        rank_partial(rank, [1]).with_frame(spec, pd.DataFrame({"device": pd.Categorical([f"host:gpu{rank}"])}))
        for rank in (1, 0)
    ]
    merged = merge_partials(partials)
    assert merged[spec]["device"].tolist() == ["host:gpu0", "host:gpu1"]
    other = replace(spec, meaning="Another.")
    with pytest.raises(ContractError, match="partial-specs"):
        merge_partials([partials[0], rank_partial(2, [1]).with_frame(other, partials[1][spec])])


def test_nothing_merges_to_nothing() -> None:
    empty = merge_partials([])
    assert empty.labels == ()
    compared = compare_ranks(renumber_steps(empty))
    assert compared.steps.empty
    assert compared.late.verdicts == ()
