"""Columns of a table derived from frame specs, and cutting."""

from __future__ import annotations

import pandas as pd
import pytest

from rocktools.errors import ContractError, UsageError
from rocktools.evidence import Evidence
from rocktools.frames import AGENTS, DISPATCHES, PROCESSES, SAMPLES, SPECS
from rocktools.render.table import ColumnKind, Table, table_column, table_evidence, table_from_spec, top_rows


def _table(frame: pd.DataFrame, *, evidence: Evidence = Evidence.MEASURED) -> Table:
    columns = tuple(
        table_column(name, "a column", evidence=evidence, dtype=frame[name].dtype) for name in frame.columns
    )
    return Table(name="test", title="a test", columns=columns, frame=frame, is_simulated=False)


def test_every_spec_becomes_a_table_with_its_columns_units_and_meanings():
    for spec in SPECS.values():
        table = table_from_spec(spec.empty(), spec, evidence=Evidence.MEASURED, title=spec.meaning, is_simulated=False)
        assert [column.name for column in table.columns] == list(spec.names)
        assert [column.unit for column in table.columns] == [column.unit for column in spec.columns]
        assert [column.meaning for column in table.columns] == [column.meaning for column in spec.columns]


@pytest.mark.parametrize(
    "spec, name, kind",
    [
        (DISPATCHES, "start_ns", ColumnKind.INSTANT),
        (SAMPLES, "time_ns", ColumnKind.INSTANT),
        (DISPATCHES, "lds_bytes", ColumnKind.COUNT),
        (DISPATCHES, "grid_workitems_x", ColumnKind.COUNT),
        (DISPATCHES, "vgpr_count", ColumnKind.COUNT),
        (DISPATCHES, "dispatch_id", ColumnKind.IDENTIFIER),
        (DISPATCHES, "kernel_name", ColumnKind.NAME),
        (DISPATCHES, "range", ColumnKind.NAME),
        (DISPATCHES, "run", ColumnKind.TEXT),
        (AGENTS, "max_engine_hz", ColumnKind.QUANTITY),
        (AGENTS, "type_index", ColumnKind.IDENTIFIER),
        (SAMPLES, "value", ColumnKind.NUMBER),
        (PROCESSES, "is_simulated", ColumnKind.TEXT),
        (PROCESSES, "path", ColumnKind.NAME),
    ],
)
def test_kind_follows_from_name_and_dtype(spec, name, kind):
    table = table_from_spec(spec.empty(), spec, evidence=Evidence.MEASURED, title="", is_simulated=False)
    assert {column.name: column.kind for column in table.columns}[name] is kind


@pytest.mark.parametrize(
    "name, dtype, kind",
    [
        ("sum_ns", "int64", ColumnKind.DURATION),
        ("mean_ns", "float64", ColumnKind.DURATION),
        ("span_s", "float64", ColumnKind.DURATION),
        ("share_ratio", "float64", ColumnKind.RATIO),
        ("peak_flop_per_s", "float64", ColumnKind.QUANTITY),
        ("kernel_name", "object", ColumnKind.NAME),
        ("phase", "object", ColumnKind.TEXT),
    ],
)
def test_kind_of_columns_that_no_spec_declares(name, dtype, kind):
    assert table_column(name, "a column", evidence=Evidence.MEASURED, dtype=dtype).kind is kind


def test_evidence_may_be_given_per_column_and_the_weakest_stands_for_the_table():
    frame = AGENTS.empty(["arch"])
    evidence = dict.fromkeys(frame.columns, Evidence.MEASURED) | {"arch": Evidence.INFERRED}
    table = table_from_spec(frame, AGENTS, evidence=evidence, title="", is_simulated=False)
    assert {column.name: column.evidence for column in table.columns} == evidence
    assert table_evidence(table) is Evidence.INFERRED


def test_column_that_the_spec_lacks_is_refused():
    frame = AGENTS.empty().assign(colour=1)
    with pytest.raises(UsageError, match="AGENTS has no column 'colour'"):
        table_from_spec(frame, AGENTS, evidence=Evidence.MEASURED, title="", is_simulated=False)


def test_columns_that_differ_from_the_frame_are_our_fault():
    table = _table(pd.DataFrame({"sum_ns": [1]}))
    with pytest.raises(ContractError, match="declares"):
        Table(name="test", title="", columns=table.columns, frame=pd.DataFrame({"x": [1]}), is_simulated=False)


def test_two_columns_of_one_name_are_our_fault():
    column = _table(pd.DataFrame({"sum_ns": [1]})).columns[0]
    frame = pd.DataFrame([[1, 2]], columns=["sum_ns", "sum_ns"])
    with pytest.raises(ContractError, match="two columns of one name"):
        Table(name="test", title="", columns=(column, column), frame=frame, is_simulated=False)


@pytest.mark.parametrize("rows_count, shown, cut", [(0, 5, 0), (2, 2, 3), (5, 5, 0), (9, 5, 0)])
def test_top_rows_count_what_they_cut(rows_count, shown, cut):
    table = top_rows(_table(pd.DataFrame({"sum_ns": range(5)})), rows_count)
    assert (len(table.frame), table.cut_rows_count, table.rows_count) == (shown, cut, 5)


def test_cutting_twice_adds_up():
    table = top_rows(top_rows(_table(pd.DataFrame({"sum_ns": range(5)})), 4), 1)
    assert (len(table.frame), table.cut_rows_count) == (1, 4)
