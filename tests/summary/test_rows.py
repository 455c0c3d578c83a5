"""Rows of frames as dataclasses: plain Python values, missing ones None, numbers as their hints say."""

from __future__ import annotations

from dataclasses import dataclass

import pandas as pd

from rocktools.evidence import Evidence
from rocktools.summary.rows import build_rows, plain_value


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    name: str | None
    count: int | None
    share_ratio: float
    evidence: Evidence | None
    flag: bool


FRAME = pd.DataFrame(
    {
        "name": pd.Categorical(["a", None]),
        "count": pd.array([2**62, None], dtype="Int64"),
        "share_ratio": pd.Series([1, 2], dtype="int64"),
        "evidence": pd.Categorical(["measured", None]),
        "flag": [True, False],
        "not_wanted": [0, 0],
    }
)


def test_values_are_plain_and_of_the_hinted_type() -> None:
    first, second = build_rows(Row, FRAME)
    assert first == Row(name="a", count=2**62, share_ratio=1.0, evidence=Evidence.MEASURED, flag=True)
    assert second == Row(name=None, count=None, share_ratio=2.0, evidence=None, flag=False)
    assert {type(first.count), type(first.flag)} == {int, bool}
    assert isinstance(first.share_ratio, float)


def test_fields_that_the_frame_lacks_are_given_beside_it() -> None:
    found = build_rows(Row, FRAME.drop(columns="name"), name=["x", "y"])
    assert [each.name for each in found] == ["x", "y"]


def test_of_no_row_there_is_none() -> None:
    assert build_rows(Row, FRAME.head(0)) == ()


def test_missing_values_of_every_kind_are_none() -> None:
    assert [plain_value(value) for value in (None, pd.NA, float("nan"))] == [None, None, None]
    assert plain_value(0) == 0
