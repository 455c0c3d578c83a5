"""Time in which a row ran alone, against counting instants one by one."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from rocktools.summary.exclusive import exclusive_lengths

_ROWS = st.lists(st.tuples(st.integers(0, 20), st.integers(0, 8), st.integers(0, 2)), max_size=12)


def _exclusive(rows: list[tuple[int, int, int]]) -> list[int]:
    start, length, device = (np.array(column, dtype=np.int64) for column in zip(*rows, strict=True))
    return exclusive_lengths(start, start + length, device).tolist()


@given(_ROWS.filter(bool))
def test_a_row_has_the_instants_that_no_other_of_its_device_has(rows: list[tuple[int, int, int]]) -> None:
    instants = [{(device, at) for at in range(start, start + length)} for start, length, device in rows]
    expected = [
        len(mine - set().union(*(others for place, others in enumerate(instants) if place != number)))
        for number, mine in enumerate(instants)
    ]
    assert _exclusive(rows) == expected


def test_of_no_row_there_is_nothing() -> None:
    nothing = np.zeros(0, dtype=np.int64)
    assert exclusive_lengths(nothing, nothing, nothing).size == 0


def test_times_since_boot_lose_no_nanosecond() -> None:
    """Beyond 2**53 a float would."""
    boot = 2**60
    start = np.array([boot, boot + 1], dtype=np.int64)
    end = np.array([boot + 4, boot + 2], dtype=np.int64)
    assert exclusive_lengths(start, end, np.zeros(2, dtype=np.int64)).tolist() == [3, 0]
