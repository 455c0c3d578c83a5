"""Collectives of several devices: who came late, who waited, and what is not matched."""

from __future__ import annotations

from typing import Any

import pandas as pd
from hypothesis import given, settings
from hypothesis import strategies as st
from timeline_rows import make_attributed

from rocktools.frames import UNITLESS_SUFFIXES
from rocktools.timeline.skew import (
    COLLECTIVE_ARRIVALS,
    COLLECTIVE_SKEW,
    OPERATION_SKEW,
    match_collectives,
    sum_skew,
    sum_skew_by_operation,
)

GPUS = [f"host:gpu{index}" for index in range(4)]


def collective(device: str, start: int, end: int, **given: Any) -> dict[str, Any]:
    defaults = {"activity": "communication", "step_index": 0, "program_id": "7", "instruction": "all-gather-start.1"}
    return {**defaults, "device": device, "start": start, "end": end, **given}


def test_wait_is_until_the_last_arrival_and_the_rest_is_transfer() -> None:
    """
    gpu0  ########
    gpu1  ..######
    gpu2  .....###   the last to come
    gpu3  ...#####
    """
    spans = [(0, 8), (2, 8), (5, 8), (3, 8)]
    rows = [collective(device, *span) for device, span in zip(GPUS, spans, strict=True)]
    frame = match_collectives(make_attributed(rows)).frame
    assert frame["wait_ns"].tolist() == [5, 3, 0, 2]
    assert frame["transfer_ns"].tolist() == [3, 3, 3, 3]
    assert frame["is_last"].tolist() == [False, False, True, False]
    assert frame["devices_count"].unique().tolist() == [4]


def test_executions_of_one_instruction_match_in_order() -> None:
    """The second device is late the first time, the first device the second time."""
    rows = [
        collective("host:gpu0", 0, 10),
        collective("host:gpu1", 4, 10),
        collective("host:gpu0", 27, 30),
        collective("host:gpu1", 20, 30),
    ]
    found = match_collectives(make_attributed(rows)).frame
    assert found["collective_id"].tolist() == [0, 0, 1, 1]
    assert found["occurrence_index"].tolist() == [0, 0, 1, 1]
    assert found["wait_ns"].tolist() == [4, 0, 0, 7]
    sums = sum_skew(found)
    assert sums["collectives_count"].tolist() == [2, 2]
    assert sums["wait_ns"].tolist() == [4, 7]
    assert sums["total_ns"].tolist() == [13, 16]
    assert sums["last_count"].tolist() == [1, 1]


def test_steps_and_programs_are_not_mixed() -> None:
    rows = [
        collective("host:gpu0", 0, 10),
        collective("host:gpu1", 20, 30, step_index=1),
        collective("host:gpu0", 40, 50, program_id="8", step_index=2),
        collective("host:gpu1", 40, 50, program_id="9", step_index=2),
    ]
    assert match_collectives(make_attributed(rows)).frame.empty


def test_rows_outside_of_steps_and_other_work_are_left_out() -> None:
    rows = [
        collective("host:gpu0", 0, 10, step_index=None),
        collective("host:gpu1", 0, 10, step_index=None),
        collective("host:gpu0", 20, 30, activity="compute"),
        collective("host:gpu1", 20, 30, activity="compute"),
    ]
    found = match_collectives(make_attributed(rows))
    assert found.frame.empty
    assert sum_skew(found.frame).empty
    assert sum_skew_by_operation(found.frame).empty


def test_without_a_link_the_kernels_of_one_name_match_in_order() -> None:
    rows = [
        collective(device, start, 9, instruction=None, program_id=None, name="ncclDevKernel_Generic")
        for device, start in (("host:gpu0", 0), ("host:gpu1", 3))
    ]
    found = match_collectives(make_attributed(rows)).frame
    assert found["operation_name"].unique().tolist() == ["ncclDevKernel_Generic"]
    assert found["wait_ns"].tolist() == [3, 0]


def test_operation_that_ran_more_often_on_one_device_is_not_matched_and_that_is_said() -> None:
    rows = [collective("host:gpu0", 0, 5), collective("host:gpu0", 10, 15), collective("host:gpu1", 11, 15)]
    found = match_collectives(make_attributed(rows))
    assert found.frame.empty
    assert [finding.rule for finding in found.findings] == ["collectives-unmatched"]


def test_participants_that_are_never_active_at_once_give_no_wait() -> None:
    """Two groups of two, without a column that says so: gpu0 and gpu1 are through before gpu2 begins."""
    spans = [(0, 5), (1, 5), (7, 12), (9, 12)]
    rows = [collective(device, *span) for device, span in zip(GPUS, spans, strict=True)]
    found = match_collectives(make_attributed(rows))
    assert found.frame["wait_ns"].isna().all()
    assert not found.frame["is_last"].any()
    assert [finding.rule for finding in found.findings] == ["collective-without-overlap"]
    assert sum_skew(found.frame).empty


def test_members_of_one_replica_group_match_where_it_is_known() -> None:
    spans = [(0, 5), (1, 5), (7, 12), (9, 12)]
    rows = make_attributed([collective(device, *span) for device, span in zip(GPUS, spans, strict=True)])
    rows["replica_group"] = pd.Categorical(["0,1", "0,1", "2,3", "2,3"])
    found = match_collectives(rows).frame
    assert found["wait_ns"].tolist() == [1, 0, 2, 0]
    assert found["devices_count"].unique().tolist() == [2]


def test_devices_of_two_hosts_are_matched_within_each_host_only() -> None:
    rows = [
        collective("a:gpu0", 0, 10),
        collective("a:gpu1", 4, 10),
        collective("b:gpu0", 1002, 1010),
        collective("b:gpu1", 1000, 1010),
    ]
    found = match_collectives(make_attributed(rows))
    assert found.frame["wait_ns"].tolist() == [4, 0, 0, 2]
    assert [finding.rule for finding in found.findings] == ["clocks-of-several-hosts"]


def test_skew_is_added_up_by_instruction_over_executions() -> None:
    rows = [
        collective("host:gpu0", 0, 10),
        collective("host:gpu1", 4, 11),
        collective("host:gpu0", 20, 30),
        collective("host:gpu1", 22, 30),
        *[collective(gpu, 50, 60, instruction="all-reduce.3", collective="all-reduce") for gpu in GPUS[:2]],
    ]
    table = sum_skew_by_operation(match_collectives(make_attributed(rows)).frame)
    assert table["operation_name"].tolist() == ["all-gather-start.1", "all-reduce.3"]
    assert table["collectives_count"].tolist() == [2, 1]
    assert table["skew_ns"].tolist() == [6, 0]
    assert table["longest_skew_ns"].tolist() == [4, 0]
    assert table["transfer_ns"].tolist() == [6 + 8, 10]
    assert table["last_device"].tolist() == ["host:gpu1", "host:gpu0"]
    assert table["last_count"].tolist() == [2, 1]
    assert table["collective"].isna().tolist() == [True, False]


def test_numeric_columns_of_results_have_units() -> None:
    for spec in (COLLECTIVE_ARRIVALS, COLLECTIVE_SKEW, OPERATION_SKEW):
        for column in spec.columns:
            is_label = column.dtype in ("category", "bool")
            assert is_label or column.unit or column.name.endswith(UNITLESS_SUFFIXES), column.name


@settings(max_examples=25)
@given(
    st.lists(
        st.tuples(st.lists(st.integers(0, 20), min_size=3, max_size=3), st.integers(21, 40)), min_size=1, max_size=4
    )
)
def test_wait_and_transfer_make_the_duration_and_somebody_is_last(drawing: list[tuple[list[int], int]]) -> None:
    rows = [
        collective(gpu, 100 * number + start, 100 * number + end, instruction="all-to-all.2")
        for number, (starts, end) in enumerate(drawing)
        for gpu, start in zip(GPUS, starts, strict=False)
    ]
    frame = match_collectives(make_attributed(rows)).frame
    assert len(frame) == len(rows)
    assert (frame["wait_ns"] + frame["transfer_ns"] == frame["end_ns"] - frame["start_ns"]).all()
    assert frame.groupby("collective_id")["is_last"].any().all()
    assert (frame.groupby("collective_id")["wait_ns"].min() == 0).all()
