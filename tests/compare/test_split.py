"""A difference divided into executions, work and time: the parts add up, and pure causes are pure."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rocktools.compare.split import Amount, split_difference

_SIZE = st.floats(1e-3, 1e9)


def _amount(time_ns: float, count: float, work: float | None) -> Amount:
    return Amount(time_ns=time_ns, executions_count=count, work=work)


@given(_SIZE, _SIZE, _SIZE, _SIZE, _SIZE, _SIZE)
def test_parts_add_up_and_going_back_undoes_them(t0, n0, w0, t1, n1, w1):
    before, after = _amount(t0, n0, w0), _amount(t1, n1, w1)
    there, back = split_difference(before, after), split_difference(after, before)
    assert there.work_ns is not None
    assert back.work_ns is not None
    assert there.count_ns + there.work_ns + there.rate_ns == pytest.approx(t1 - t0, rel=1e-6, abs=1e-6 * max(t0, t1))
    for one, other in ((there.count_ns, back.count_ns), (there.work_ns, back.work_ns), (there.rate_ns, back.rate_ns)):
        assert one == pytest.approx(-other, rel=1e-6, abs=1e-6 * max(t0, t1))


@pytest.mark.parametrize(
    ("factor_count", "factor_work", "factor_rate", "cause"),
    [(1.08, 1, 1, "count"), (1, 1.08, 1, "work"), (1, 1, 1.08, "time")],
)
def test_a_pure_cause_takes_all_of_it(factor_count, factor_work, factor_rate, cause):
    # 100 executions of 5 FLOP at 2 ns each FLOP: 1,000 ns; one factor of eight percent: 80 ns.
    count, work = 100 * factor_count, 500 * factor_count * factor_work
    after = _amount(2 * factor_rate * work, count, work)
    split = split_difference(_amount(1000, 100, 500), after)
    assert split.cause == cause
    parts = {"count": split.count_ns, "work": split.work_ns, "time": split.rate_ns}
    assert parts.pop(cause) == pytest.approx(80)
    assert all(value == pytest.approx(0, abs=1e-9) for value in parts.values())


def test_twice_as_often_and_half_as_long_cancel():
    # T = n w r: 10 * 4 * 1 and 20 * 2 * 1. By hand: L(40, 40) = 40, ln 2 and -ln 2.
    split = split_difference(_amount(40, 10, 40), _amount(40, 20, 40))
    assert split.count_ns == pytest.approx(40 * math.log(2))
    assert split.work_ns == pytest.approx(-40 * math.log(2))
    assert split.rate_ns == pytest.approx(0, abs=1e-12)
    assert split.cause == "none"


def test_without_known_work_time_and_work_stay_one():
    split = split_difference(_amount(100, 10, None), _amount(150, 10, 7))
    assert split.work_ns is None
    assert split.count_ns == 0
    assert split.rate_ns == 50
    assert split.cause == "time or work"


def test_what_one_side_lacks_is_new_or_gone():
    assert split_difference(_amount(0, 0, None), _amount(5, 1, None)).cause == "new"
    assert split_difference(_amount(5, 1, 2), _amount(0, 0, None)).cause == "gone"
    assert split_difference(_amount(0, 0, None), _amount(0, 0, None)).cause == "none"
