"""Parts: labels and look-ups as dictionaries would give them, and frames put together from many parts."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rocktools.errors import ContractError
from rocktools.frames import RANGES, Column, FrameSpec
from rocktools.sources.rocpd.columns import IntColumn
from rocktools.sources.rocpd.parts import (
    LabelColumn,
    assemble_frame,
    filter_part,
    find_positions,
    identity_columns,
    label_constant,
    label_ids,
    label_values,
    lookup,
    part_length,
    sort_part,
)

# Dense small ids take one way, ids far apart another.
ids = st.one_of(st.integers(-3, 12), st.integers(-(2**63), 2**63 - 1), st.integers(2**62, 2**62 + 5))
missing_ids = st.one_of(ids, st.none())


def ints(values: list[int | None]) -> IntColumn:
    mask = np.array([value is None for value in values], dtype=np.bool_)
    return IntColumn(np.array([value or 0 for value in values], dtype=np.int64), mask if mask.any() else None)


def names_of(label: LabelColumn) -> list[str | None]:
    return [label.names[code] if code >= 0 else None for code in label.codes.tolist()]


def values_of(column: IntColumn) -> list[int | None]:
    return [
        None if gone else value for value, gone in zip(column.values.tolist(), column.missing.tolist(), strict=True)
    ]


# Look-ups


@given(st.sets(ids), st.lists(missing_ids))
def test_positions_are_those_of_a_search_for_each_id(known: set[int], wanted: list[int | None]) -> None:
    ordered = sorted(known)
    expected = [ordered.index(key) if key in known else len(ordered) for key in wanted]
    assert find_positions(np.array(ordered, dtype=np.int64), ints(wanted)).tolist() == expected


@given(st.dictionaries(ids, st.one_of(st.integers(-5, 5), st.none())), st.lists(missing_ids))
def test_look_up_is_that_of_a_dictionary(facts: dict[int, int | None], wanted: list[int | None]) -> None:
    ordered = sorted(facts)
    found = lookup(np.array(ordered, dtype=np.int64), ints([facts[key] for key in ordered]), ints(wanted))
    assert values_of(found) == [facts.get(key) if key is not None else None for key in wanted]


@given(st.dictionaries(ids, st.one_of(st.sampled_from(["a", "b", ""]), st.none())), st.lists(missing_ids))
def test_names_of_ids_are_those_of_a_dictionary(names: dict[int, str | None], wanted: list[int | None]) -> None:
    found = label_ids(ints(wanted), names)
    assert names_of(found) == [names.get(key) if key is not None else None for key in wanted]
    assert len(set(found.names)) == len(found.names)


# Labels


def test_each_text_is_held_once() -> None:
    label = label_values(["a", None, "b", "a"])
    assert label.names == ("a", "b")
    assert label.codes.tolist() == [0, -1, 1, 0]
    assert names_of(label.take(np.array([3, 1]))) == ["a", None]


def test_constant_label_may_be_missing() -> None:
    assert names_of(label_constant("x", 2)) == ["x", "x"]
    assert names_of(label_constant(None, 2)) == [None, None]
    assert len(label_constant("x", 0).codes) == 0


def test_halves_of_utf16_pairs_become_question_marks() -> None:
    """JSON escapes and file names bring them in; neither Arrow nor a terminal takes them."""
    assert label_values(["a\ud800", "a\udc80"]).names == ("a?",)
    assert label_constant("\udc80.db", 1).names == ("?.db",)
    assert label_ids(ints([1]), {1: "\ud800"}).names == ("?",)


# Rows


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), max_size=12))
def test_rows_are_sorted_by_the_first_key_and_then_the_next(rows: list[tuple[int, int]]) -> None:
    part = {
        "a": ints([a for a, _ in rows]),
        "b": ints([b for _, b in rows]),
        "name": label_values([f"{a}{b}" for a, b in rows]),
        "value": np.array([float(a) for a, _ in rows]),
    }
    ordered = sort_part(part, ("a", "absent", "b"))
    assert list(zip(values_of(ordered["a"]), values_of(ordered["b"]), strict=True)) == sorted(rows)
    assert names_of(ordered["name"]) == [f"{a}{b}" for a, b in sorted(rows)]
    assert ordered["value"].tolist() == [float(a) for a, _ in sorted(rows)]


def test_rows_of_one_key_keep_their_order() -> None:
    part = {"a": ints([1, 0, 1, 0]), "n": ints([0, 1, 2, 3])}
    assert values_of(sort_part(part, ("a",))["n"]) == [1, 3, 0, 2]


def test_rows_are_filtered_in_every_kind_of_column() -> None:
    part = {"a": ints([1, None, 3]), "name": label_values(["x", "y", None]), "value": np.array([0.5, 1.5, 2.5])}
    kept = filter_part(part, np.array([False, True, True]))
    assert values_of(kept["a"]) == [None, 3]
    assert names_of(kept["name"]) == ["y", None]
    assert kept["value"].tolist() == [1.5, 2.5]
    assert part_length(kept) == 2


# Frames

SPEC = FrameSpec(
    name="TEST",
    meaning="",
    key=("run", "process"),
    sort=("run",),
    columns=(
        Column("run", "category", ""),
        Column("process", "category", ""),
        Column("row_id", "int64", ""),
        Column("agent_id", "Int64", "", "gone"),
        Column("name", "category", "", "gone"),
        Column("value", "float64", "", "gone"),
        Column("is_good", "bool", ""),
    ),
)


def part_of(run: str, names: list[str | None], agents: list[int | None]) -> dict[str, Any]:
    count = len(names)
    return {
        **identity_columns("p", run, count),
        "row_id": ints(list(range(count))),
        "agent_id": ints(agents),
        "name": label_values(names),
        "value": np.arange(count, dtype=np.float64),
        "is_good": np.ones(count, dtype=np.bool_),
    }


def test_parts_of_different_names_share_one_set_of_categories() -> None:
    frame = assemble_frame([part_of("a", ["x", "y"], [1, None]), part_of("b", ["y", None, "z"], [3, 4, 5])], SPEC)
    assert frame["name"].tolist()[:3] == ["x", "y", "y"]
    assert pd.isna(frame["name"][3])
    assert frame["name"][4] == "z"
    assert sorted(frame["name"].cat.categories) == ["x", "y", "z"]
    assert frame["run"].tolist() == ["a", "a", "b", "b", "b"]
    assert frame["agent_id"].isna().tolist() == [False, True, False, False, False]
    assert [str(dtype) for dtype in frame.dtypes] == [column.dtype for column in SPEC.columns]


def test_no_part_and_parts_without_rows_give_the_same_dtypes() -> None:
    for frame in (assemble_frame([], SPEC), assemble_frame([part_of("a", [], [])], SPEC)):
        assert len(frame) == 0
        assert [str(dtype) for dtype in frame.dtypes] == [column.dtype for column in SPEC.columns]


def test_many_parts_of_many_names_stay_exact() -> None:
    parts = [part_of(f"run{number}", [f"k{number}", f"k{number + 1}"], [number, None]) for number in range(300)]
    frame = assemble_frame(parts, SPEC)
    assert frame["name"].tolist() == [f"k{number + more}" for number in range(300) for more in (0, 1)]
    assert len(frame["name"].cat.categories) == 301


def test_selected_columns_come_in_the_order_of_the_contract() -> None:
    frame = assemble_frame([part_of("a", ["x"], [1])], SPEC, ["value", "row_id"])
    assert list(frame.columns) == ["run", "process", "row_id", "value"]


def test_missing_value_where_the_contract_allows_none_is_a_fault_of_ours() -> None:
    part = {**part_of("a", ["x", "y"], [1, 2]), "row_id": ints([1, None])}
    with pytest.raises(ContractError):
        assemble_frame([part], SPEC)
    with pytest.raises(ContractError):
        assemble_frame([{**part_of("a", ["x"], [1]), "run": label_constant(None, 1)}], SPEC)


def test_frame_of_ranges_takes_a_part_without_rows() -> None:
    part = {**identity_columns("p", "r", 0), "kind": label_constant(None, 0), "name": label_constant(None, 0)}
    part |= dict.fromkeys(("range_id", "thread_id", "start_ns", "end_ns"), ints([]))
    assert assemble_frame([part], RANGES).empty
