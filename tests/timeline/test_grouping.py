"""Groups by codes are those that a dictionary of tuples makes."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rocktools.timeline.grouping import codes_of, extent_texts, group_rows

columns = st.integers(0, 20).flatmap(
    lambda rows: st.lists(st.lists(st.integers(0, 4), min_size=rows, max_size=rows), min_size=1, max_size=4)
)


@given(columns)
def test_groups_are_those_of_a_dictionary(parts: list[list[int]]) -> None:
    groups = group_rows([np.array(part, dtype=np.int64) for part in parts])
    rows = list(zip(*parts, strict=True))
    assert len(groups) == len(set(rows))
    first: dict[tuple[int, ...], int] = {}
    for group, row in zip(groups.of.tolist(), rows, strict=True):
        assert first.setdefault(row, group) == group
    assert sorted(first.values()) == list(range(len(groups)))
    for row, group in first.items():
        assert rows[groups.example[group]] == row


@pytest.mark.parametrize("parts_count", [2, 3, 8])
def test_codes_whose_product_does_not_fit_into_64_bits(parts_count: int) -> None:
    part = np.array([0, 2**31, 2**31 - 1, 0, 2**31], dtype=np.int64)
    groups = group_rows([part] * parts_count)
    assert groups.of.tolist() == [0, 1, 2, 0, 1]
    assert [int(part[at]) for at in groups.example] == [0, 2**31, 2**31 - 1]


@pytest.mark.parametrize(
    "column",
    [
        pd.Series(pd.Categorical(["b", None, "a", "b"])),
        pd.Series(pd.array([5, None, -(2**63), 5], dtype="Int64")),
        pd.Series([0.5, np.nan, 1.5, 0.5]),
        pd.Series(["b", None, "a", "b"], dtype=object),
    ],
    ids=lambda column: str(column.dtype),
)
def test_what_is_missing_has_a_code_of_its_own(column: pd.Series) -> None:
    codes = codes_of(column)
    assert codes.dtype == np.int64
    assert codes.min() >= 0
    assert codes[0] == codes[3]
    assert len({codes[0], codes[1], codes[2]}) == 3


def test_category_that_no_row_has_makes_no_difference() -> None:
    column = pd.Series(pd.Categorical(["b", "c"], categories=["a", "b", "c", "d"]))
    assert len(group_rows([codes_of(column)])) == 2


def test_no_rows_are_no_groups() -> None:
    groups = group_rows([np.array([], dtype=np.int64)])
    assert (len(groups), groups.of.tolist(), groups.example.tolist()) == (0, [], [])


def test_extents_say_what_is_missing() -> None:
    x, y, z = (pd.array(values, dtype="Int64") for values in ([1, None, None], [2, 2, None], [3, None, None]))
    assert extent_texts([x, y, z]) == ["1x2x3", "?x2x?", None]
    assert extent_texts([[], [], []]) == []
