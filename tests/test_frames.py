"""The frame contracts, and the function that keeps them."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from rocktools.errors import ContractError, UsageError
from rocktools.frames import (
    COUNTED_DISPATCHES,
    DISPATCHES,
    DTYPES,
    SPECS,
    UNITLESS,
    UNITLESS_SUFFIXES,
    Column,
    FrameSpec,
    nullable_int64,
    require_frame,
)

ALL_COLUMNS = [
    pytest.param(spec, column, id=f"{spec.name}.{column.name}") for spec in SPECS.values() for column in spec.columns
]
ALL_SPECS = [pytest.param(spec, id=name) for name, spec in SPECS.items()]

SMALL = FrameSpec(
    name="SMALL",
    meaning="A frame of every dtype.",
    key=("run", "small_id"),
    sort=("run", "small_id"),
    columns=(
        Column("run", "category", "label of the run"),
        Column("small_id", "int64", "number of the row"),
        Column("depth_count", "Int64", "how deep it is"),
        Column("loose_count", "Int64", "how loose it is", "nobody looked"),
        Column("share_ratio", "float64", "part of the whole"),
        Column("label", "category", "what it is called", "nameless"),
        Column("is_new", "bool", "whether it is new"),
    ),
)


def small() -> pd.DataFrame:
    """A frame that keeps the contract of SMALL."""
    frame = pd.DataFrame(
        {
            "run": ["a", "a"],
            "small_id": [1, 2],
            "depth_count": [3, 4],
            "loose_count": [5, None],
            "share_ratio": [0.5, 0.5],
            "label": ["x", None],
            "is_new": [True, False],
        }
    )
    return frame.astype({column.name: column.dtype for column in SMALL.columns})


# ---------------------------------------------------------------------------------------------------- what is declared


@pytest.mark.parametrize("spec, column", ALL_COLUMNS)
def test_number_ends_in_a_unit_or_is_listed_as_an_identity(spec: FrameSpec, column: Column) -> None:
    is_identity = column.name in UNITLESS or column.name.endswith(UNITLESS_SUFFIXES)
    is_number = column.dtype in ("int64", "Int64", "float64")
    assert not is_number or (column.unit is not None) != is_identity


@pytest.mark.parametrize("spec, column", ALL_COLUMNS)
def test_column_has_a_meaning(spec: FrameSpec, column: Column) -> None:
    assert len(column.meaning.split()) >= 2


@pytest.mark.parametrize("spec, column", ALL_COLUMNS)
def test_column_has_a_known_dtype(spec: FrameSpec, column: Column) -> None:
    assert column.dtype in DTYPES


@pytest.mark.parametrize("spec, column", ALL_COLUMNS)
def test_dtype_that_has_no_missing_value_is_never_missing(spec: FrameSpec, column: Column) -> None:
    assert not (column.missing and column.dtype in ("int64", "bool"))


@pytest.mark.parametrize("spec, column", ALL_COLUMNS)
def test_instant_is_an_exact_integer(spec: FrameSpec, column: Column) -> None:
    assert column.unit != "ns" or column.dtype in ("int64", "Int64")


@pytest.mark.parametrize("name", sorted(UNITLESS))
def test_listed_identity_is_the_name_of_a_column(name: str) -> None:
    assert any(name in spec.names for spec in SPECS.values())


@pytest.mark.parametrize("spec", ALL_SPECS)
def test_key_and_sort_columns_exist(spec: FrameSpec) -> None:
    assert {*spec.key, *spec.sort} <= set(spec.names)


@pytest.mark.parametrize("spec", ALL_SPECS)
def test_key_starts_with_the_source_of_the_row(spec: FrameSpec) -> None:
    """A process of a trace, a host of a JAX profile, or a compiled program, which several runs may share."""
    owners = (
        ("run", "process"),
        ("run", "host"),
        ("run", "device"),
        ("run", "role"),
        ("run", "program_id"),
        ("program_id", "instruction"),
    )
    assert spec.key[:2] == spec.names[:2]
    assert spec.key[:2] in owners


@pytest.mark.parametrize("spec", ALL_SPECS)
def test_key_is_never_missing_but_where_the_row_is_about_the_whole(spec: FrameSpec) -> None:
    whole = ("replay_pass", "step_index", "ordinal")  # no replay; the whole trace; all executions of a kernel
    assert all(not spec.column(name).missing for name in spec.key if name not in whole)


@pytest.mark.parametrize("spec", ALL_SPECS)
def test_column_names_are_unique(spec: FrameSpec) -> None:
    assert len(set(spec.names)) == len(spec.names)


@pytest.mark.parametrize("spec", ALL_SPECS)
def test_frame_has_a_meaning(spec: FrameSpec) -> None:
    assert spec.meaning.endswith(".")


def test_frames_are_listed_under_their_own_name() -> None:
    assert [spec.name for spec in SPECS.values()] == list(SPECS)


def test_times_of_a_counter_pass_have_names_of_their_own() -> None:
    times = {column.name for spec in SPECS.values() for column in spec.columns if column.unit == "ns"}
    counted = {column.name for column in COUNTED_DISPATCHES.columns if column.unit == "ns"}
    assert counted == {"pass_start_ns", "pass_end_ns"}
    assert {"start_ns", "end_ns"} <= times


def test_same_name_has_the_same_dtype_in_both_kinds_of_dispatches() -> None:
    for name in set(DISPATCHES.names) & set(COUNTED_DISPATCHES.names):
        assert DISPATCHES.column(name).dtype == COUNTED_DISPATCHES.column(name).dtype


# ------------------------------------------------------------------------------------------------- choosing columns


def test_all_columns_are_selected_by_default() -> None:
    assert SMALL.select(None) == SMALL.names


def test_selection_adds_the_key_and_keeps_the_order_of_the_spec() -> None:
    assert SMALL.select(["label", "depth_count"]) == ("run", "small_id", "depth_count", "label")


def test_unknown_column_is_refused_with_the_nearest_name() -> None:
    with pytest.raises(UsageError, match=r"unknown-column.*'depth_cuont'\n.*depth_count"):
        SMALL.select(["depth_cuont"])


def test_unknown_column_that_resembles_none_is_refused_with_all_names() -> None:
    with pytest.raises(UsageError, match="one of run, small_id, depth_count"):
        SMALL.column("zzz")


@pytest.mark.parametrize("spec", ALL_SPECS)
def test_empty_frame_keeps_its_contract(spec: FrameSpec) -> None:
    assert len(require_frame(spec.empty(), spec)) == 0


def test_empty_frame_of_a_subset_keeps_its_contract() -> None:
    assert len(require_frame(DISPATCHES.empty(["start_ns"]), DISPATCHES, ["start_ns"])) == 0


# ------------------------------------------------------------------------------------------------ keeping the contract


def test_frame_that_keeps_its_contract_comes_back_itself() -> None:
    frame = small()
    assert require_frame(frame, SMALL) is frame


def test_subset_of_columns_keeps_the_contract() -> None:
    require_frame(small()[["run", "small_id", "label"]], SMALL, ["label"])


def test_contract_check_changes_nothing() -> None:
    frame = small()
    require_frame(frame, SMALL)
    pd.testing.assert_frame_equal(frame, small())


@pytest.mark.parametrize("column", [column.name for column in SMALL.columns])
def test_missing_column_is_refused(column: str) -> None:
    with pytest.raises(ContractError, match="frame-columns: SMALL must have"):
        require_frame(small().drop(columns=column), SMALL)


def test_unknown_column_in_the_frame_is_refused() -> None:
    with pytest.raises(ContractError, match="frame-columns"):
        require_frame(small().assign(extra_count=1), SMALL)


def test_column_out_of_order_is_refused() -> None:
    with pytest.raises(ContractError, match="frame-columns"):
        require_frame(small()[list(reversed(SMALL.names))], SMALL)


@pytest.mark.parametrize(
    "column, dtype",
    [
        ("small_id", "Int64"),
        ("small_id", "int32"),
        ("small_id", "float64"),
        ("depth_count", "int64"),
        ("share_ratio", "float32"),
        ("run", "object"),
        ("is_new", "Int64"),
    ],
)
def test_other_dtype_is_refused(column: str, dtype: str) -> None:
    with pytest.raises(ContractError, match=f"frame-dtype: SMALL.{column} must be .*, but is {dtype}"):
        require_frame(small().astype({column: dtype}), SMALL)


@pytest.mark.parametrize("column", ["run", "depth_count", "share_ratio"])
def test_missing_value_without_a_reason_is_refused(column: str) -> None:
    frame = small()
    frame.loc[1, column] = None
    with pytest.raises(ContractError, match=f"frame-missing: SMALL.{column}"):
        require_frame(frame, SMALL)


def test_missing_value_with_a_reason_is_accepted() -> None:
    frame = small()
    frame.loc[0, ["loose_count", "label"]] = None
    require_frame(frame, SMALL)


def test_nullable_integers_are_exact_beyond_float() -> None:
    values = nullable_int64(np.array([2**53 + 1, 7]), np.array([False, True]))
    assert str(values.dtype) == "Int64"
    assert values[0] == 2**53 + 1
    assert values[1] is pd.NA
