from __future__ import annotations

import pytest

from rocktools.hlo.text_reader import parse_hlo_text
from rocktools.replay.comparators import SortKey, find_sort_keys
from rocktools.replay.readable_literals import NotTranslatable

TWO = """  a0 = f32[] parameter(0)
  b0 = f32[] parameter(1)
  a1 = s32[] parameter(2)
  b1 = s32[] parameter(3)
"""


def _keys(lines: str):
    module = parse_hlo_text(f"HloModule made\n\nENTRY order {{\n{lines}\n}}\n", "made")
    assert module.is_complete, module.findings
    assert module.entry is not None
    return find_sort_keys(module.entry, {})


@pytest.mark.parametrize(
    "lines, expected",
    [
        ("ROOT r = pred[] compare(a0, b0), direction=LT", (SortKey(0, False),)),
        ("ROOT r = pred[] compare(a0, b0), direction=GT", (SortKey(0, True),)),
        ("ROOT r = pred[] compare(b0, a0), direction=LT", (SortKey(0, True),)),
        ("ROOT r = pred[] compare(a1, b1), direction=LT", (SortKey(1, False),)),
        (
            """less = pred[] compare(a0, b0), direction=LT
  same = pred[] compare(a0, b0), direction=EQ
  next = pred[] compare(a1, b1), direction=GT
  both = pred[] and(same, next)
  ROOT r = pred[] or(less, both)""",
            (SortKey(0, False), SortKey(1, True)),
        ),
        (
            """first = pred[] compare(a1, b1), direction=LT
  other = pred[] compare(b1, a1), direction=LT
  same = pred[] compare(first, other), direction=EQ
  next = pred[] compare(a0, b0), direction=GT
  ROOT r = pred[] select(same, next, first)""",
            (SortKey(1, False), SortKey(0, True)),
        ),
    ],
)
def test_keys_are_found_however_the_order_is_written(lines, expected):
    assert _keys(TWO + "  " + lines) == expected


@pytest.mark.parametrize(
    "lines, reason",
    [
        ("ROOT r = pred[] compare(a0, b0), direction=LE", "no order by keys"),
        ("ROOT r = pred[] compare(a0, b0), direction=NE", "no order by keys"),
        ("s = f32[] sine(a0)\n  ROOT r = pred[] compare(s, b0), direction=LT", "the instruction sine"),
    ],
)
def test_what_is_no_order_is_refused(lines, reason):
    with pytest.raises(NotTranslatable, match=reason):
        _keys(TWO + "  " + lines)
