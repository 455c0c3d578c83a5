"""Work of operations is compared in one unit, or not at all."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest
from summary_documents import any_record

from rocktools.compare.split import split_difference
from rocktools.compare.work import amounts_of
from rocktools.summary.document import Operation


def _operation(**given: Any) -> Operation:
    fields = {"sum_per_step_ns": 100.0, "rows_count": 20, "read_bytes": 6, "written_bytes": 4, "payload_bytes": None}
    return any_record(Operation, Random(0), **{**fields, "compute_flop": 50, **given})


def test_flop_go_before_bytes_and_are_of_a_mean_step():
    before, after = amounts_of(_operation(), _operation(compute_flop=60), (10, 5))
    # 20 executions in 10 places are 2 a step, of 50 FLOP each; 20 in 5 are 4, of 60 each.
    assert (before.executions_count, before.work) == (2, 100)
    assert (after.executions_count, after.work) == (4, 240)


def test_work_that_one_side_counts_in_flop_is_compared_in_bytes():
    before, after = amounts_of(_operation(), _operation(compute_flop=None, sum_per_step_ns=150.0), (10, 10))
    assert before.work == after.work == 20
    assert split_difference(before, after).rate_ns == pytest.approx(50)


def test_where_no_unit_is_known_on_both_sides_there_is_no_work():
    before, after = amounts_of(_operation(read_bytes=None), _operation(compute_flop=None), (10, 10))
    assert before.work is after.work is None
    assert split_difference(before, after).work_ns is None
    new = amounts_of(None, _operation(), (10, 10))
    assert (new[0].time_ns, new[0].work, new[1].work) == (0.0, None, None)
