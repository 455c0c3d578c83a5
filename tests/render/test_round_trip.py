"""What is written as CSV, JSON and Parquet reads back equal: exact integers, exact floats, missing stays missing."""

from __future__ import annotations

import csv
import io
import json
import math
import sys
from dataclasses import replace
from pathlib import Path

import jsonschema
import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

import rocktools.render
from rocktools.errors import MissingExtra
from rocktools.evidence import Evidence
from rocktools.findings import Finding, Severity
from rocktools.frames import PROCESSES
from rocktools.render.csv_table import write_csv
from rocktools.render.json_table import write_json
from rocktools.render.parquet_table import write_parquet
from rocktools.render.table import Table, table_column, table_from_spec, top_rows

BOOT_NS = 13_000_000_000_000_001  # above 2**53: a float would lose the last digit
SCHEMA = json.loads((Path(rocktools.render.__file__).parent / "table.schema.json").read_text(encoding="utf-8"))

# No zero character: pandas 2 takes "" and "\0" for one category, whoever writes the file.
texts = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=12) | st.sampled_from(
    [
        "a,b",
        'say "hi"',
        "two\nlines",
        "back\r",
        "\r\n",
        "🚀 fusion",
        "融合",
        "",
        " ",
        "'",
        "NaN",
        "None",
        "%s",
        "\u2028",
    ]
)
int64s = st.integers(min_value=-(2**63), max_value=2**63 - 1)
rows = st.lists(
    st.tuples(int64s, st.none() | int64s, st.none() | st.floats(allow_nan=False), st.none() | texts, st.booleans()),
    max_size=8,
)


def _table(frame: pd.DataFrame, *, is_simulated: bool = False, notes: tuple[str, ...] = ()) -> Table:
    columns = tuple(
        table_column(name, f"meaning of {name}", evidence=Evidence.MEASURED, dtype=frame[name].dtype)
        for name in frame.columns
    )
    return Table(name="test", title="a test", columns=columns, frame=frame, is_simulated=is_simulated, notes=notes)


def _frame(cells: list[tuple[object, ...]]) -> pd.DataFrame:
    """One column of each dtype that frames may have."""
    exact, nullable, real, text, flag = zip(*cells, strict=True) if cells else ((),) * 5
    return pd.DataFrame(
        {
            "start_ns": pd.Series(exact, dtype="int64"),
            "queue_id": pd.array([pd.NA if value is None else value for value in nullable], dtype="Int64"),
            "share_ratio": pd.Series([math.nan if value is None else value for value in real], dtype="float64"),
            "kernel_name": pd.Categorical(text),
            "is_first": pd.Series(flag, dtype="bool"),
        }
    )


def _csv_rows(table: Table) -> list[dict[str, str]]:
    stream = io.StringIO(newline="")
    write_csv(table, stream)
    return list(csv.DictReader(io.StringIO(stream.getvalue(), newline="")))


def _document(table: Table) -> dict[str, object]:
    stream = io.StringIO()
    write_json(table, stream)
    document = json.loads(stream.getvalue())
    jsonschema.validate(document, SCHEMA)
    return document


@given(rows)
def test_json_reads_back_equal(cells):
    document = _document(_table(_frame(cells)))
    assert [tuple(row.values()) for row in document["rows"]] == cells
    assert all(type(row["start_ns"]) is int for row in document["rows"])


@given(rows)
def test_csv_reads_back_equal(cells):
    def read(row: dict[str, str]) -> tuple[object, ...]:
        return (
            int(row["start_ns"]),
            int(row["queue_id"]) if row["queue_id"] else None,
            float(row["share_ratio"]) if row["share_ratio"] else None,
            row["kernel_name"] or None,
            row["is_first"] == "True",
        )

    # CSV has one empty field for an empty text and a missing one.
    expected = [(exact, nullable, real, text or None, flag) for exact, nullable, real, text, flag in cells]
    assert [read(row) for row in _csv_rows(_table(_frame(cells)))] == expected


@given(rows)
def test_parquet_reads_back_equal(cells):
    parquet = pytest.importorskip("pyarrow.parquet")
    stream = io.BytesIO()
    write_parquet(_table(_frame(cells)), stream)
    columns = parquet.read_table(io.BytesIO(stream.getvalue())).to_pydict()
    # A NaN of a float64 column is its missing value; Parquet keeps it as null.
    assert list(zip(*columns.values(), strict=True)) == cells


@pytest.mark.parametrize(
    "missing",
    [
        pd.array([pd.NA], dtype="Int64"),
        pd.array([pd.NA], dtype="Float64"),
        pd.array([pd.NA], dtype="boolean"),
        pd.array([pd.NA], dtype="string"),
        np.array([np.nan]),
        np.array([None], dtype=object),
        np.array([pd.NA], dtype=object),
        np.array([np.nan], dtype=object),
        pd.Categorical([None], categories=["a"]),
        pd.Categorical([None]),
    ],
    ids=lambda array: str(array.dtype),
)
def test_missing_is_null_in_json_and_empty_in_csv_and_never_zero(missing):
    table = _table(pd.DataFrame({"dispatch_id": [1], "sum_ns": missing}))
    assert _document(table)["rows"] == [{"dispatch_id": 1, "sum_ns": None}]
    assert _csv_rows(table)[0]["sum_ns"] == ""


@pytest.mark.parametrize("dtype", ["int64", "Int64"])
def test_integers_beside_a_gap_stay_exact(dtype):
    numbers = [BOOT_NS, 2**63 - 1, -(2**63), 0]
    values = pd.array([*numbers, pd.NA], dtype="Int64") if dtype == "Int64" else np.array(numbers)
    table = _table(pd.DataFrame({"start_ns": values}))
    expected = [*numbers, None] if dtype == "Int64" else numbers
    assert [row["start_ns"] for row in _document(table)["rows"]] == expected
    assert [row["start_ns"] for row in _csv_rows(table)] == ["" if n is None else str(n) for n in expected]


def test_values_of_other_dtypes_are_plain():
    cells = [np.int64(BOOT_NS), 1.5, "text", True, Evidence.MEASURED, ("a", 1), None]
    values = np.empty(len(cells), dtype=object)
    values[:] = cells
    table = _table(pd.DataFrame({"value": values}))
    assert [row["value"] for row in _document(table)["rows"]] == [
        BOOT_NS,
        1.5,
        "text",
        True,
        "measured",
        "('a', 1)",
        None,
    ]
    assert [row["value"] for row in _csv_rows(table)] == [
        str(BOOT_NS),
        "1.5",
        "text",
        "True",
        "measured",
        "('a', 1)",
        "",
    ]


def test_categories_that_are_numbers_stay_numbers():
    table = _table(pd.DataFrame({"group": pd.Categorical([BOOT_NS, None, 3])}))
    assert [row["group"] for row in _document(table)["rows"]] == [BOOT_NS, None, 3]


def test_infinite_floats_read_back_infinite():
    table = _table(pd.DataFrame({"share_ratio": [math.inf, -math.inf]}))
    assert [row["share_ratio"] for row in _document(table)["rows"]] == [math.inf, -math.inf]
    stream = io.StringIO()
    write_json(table, stream)
    assert "Infinity" not in stream.getvalue()


def test_json_tells_what_the_columns_mean():
    table = _table(pd.DataFrame({"sum_ns": range(5), "100% name": "x"}), is_simulated=True, notes=("a note",))
    document = _document(top_rows(table, 2))
    assert document.pop("rows") == [{"sum_ns": 0, "100% name": "x"}, {"sum_ns": 1, "100% name": "x"}]
    assert document == {
        "schema": "rocktools.table/1",
        "name": "test",
        "title": "a test",
        "is_simulated": True,
        "columns": [
            {"name": "sum_ns", "unit": "ns", "meaning": "meaning of sum_ns", "evidence": "measured"},
            {"name": "100% name", "unit": None, "meaning": "meaning of 100% name", "evidence": "measured"},
        ],
        "rows_count": 5,
        "cut_rows_count": 3,
        "notes": ["a note"],
    }


def test_json_has_findings_where_somebody_looked_for_them():
    table = _table(pd.DataFrame({"sum_ns": [1]}))
    assert "findings" not in _document(table)
    assert _document(replace(table, findings=()))["findings"] == []
    finding = Finding(
        rule="unreadable-file", severity=Severity.FAULT, where="a.db", message="2 files", numbers={"files_count": 2}
    )
    assert _document(replace(table, findings=(finding,)))["findings"] == [
        {
            "rule": "unreadable-file",
            "severity": "fault",
            "where": "a.db",
            "message": "2 files",
            "numbers": {"files_count": 2},
            "advice": "",
        }
    ]


def test_parquet_has_findings_too():
    parquet = pytest.importorskip("pyarrow.parquet")
    finding = Finding(rule="doubt", severity=Severity.NOTE, where="a.db", message="it is so")
    stream = io.BytesIO()
    write_parquet(replace(_table(pd.DataFrame({"sum_ns": [1]})), findings=(finding,)), stream)
    metadata = parquet.read_schema(io.BytesIO(stream.getvalue())).metadata
    assert json.loads(metadata[b"rocktools.table"])["findings"] == [finding.as_dict()]


def test_schema_refuses_findings_that_lack_something():
    document = _document(_table(pd.DataFrame({"sum_ns": [1]})))
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({**document, "findings": [{"rule": "doubt"}]}, SCHEMA)


def test_schema_refuses_a_document_that_lost_something():
    document = _document(_table(pd.DataFrame({"sum_ns": [1]})))
    for member in list(document):
        less = {name: value for name, value in document.items() if name != member}
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate(less, SCHEMA)


def test_schema_lists_every_kind_of_evidence():
    listed = SCHEMA["properties"]["columns"]["items"]["properties"]["evidence"]["enum"]
    assert listed == [evidence.value for evidence in Evidence]


def test_csv_says_in_every_row_what_it_is():
    rows_read = _csv_rows(_table(pd.DataFrame({"sum_ns": [1, 2]}), is_simulated=True))
    assert [list(row) for row in rows_read] == [["sum_ns", "evidence", "is_simulated"]] * 2
    assert [list(row.values()) for row in rows_read] == [["1", "measured", "True"], ["2", "measured", "True"]]


def test_csv_keeps_a_frames_own_columns_of_these_names():
    frame = pd.DataFrame({"evidence": ["inferred"], "is_simulated": [True]})
    assert _csv_rows(_table(frame)) == [{"evidence": "inferred", "is_simulated": "True"}]


def test_csv_lines_end_as_rfc_4180_asks():
    stream = io.StringIO(newline="")
    write_csv(_table(pd.DataFrame({"kernel_name": ['a,"b"\nc'], "sum_ns": [1]})), stream)
    assert stream.getvalue() == 'kernel_name,sum_ns,evidence,is_simulated\r\n"a,""b""\nc",1,measured,False\r\n'


def test_empty_tables_have_their_columns():
    table = table_from_spec(
        PROCESSES.empty(), PROCESSES, evidence=Evidence.DECLARED, title="nothing", is_simulated=False
    )
    assert _document(table)["rows"] == []
    stream = io.StringIO()
    write_csv(table, stream)
    assert stream.getvalue() == ",".join([*PROCESSES.names, "evidence"]) + "\r\n"


def test_chunks_are_joined_without_a_seam(monkeypatch):
    monkeypatch.setattr("rocktools.render.json_table._CHUNK_ROWS", 3)
    monkeypatch.setattr("rocktools.render.csv_table._CHUNK_ROWS", 3)
    table = _table(pd.DataFrame({"sum_ns": range(10), "kernel_name": pd.Categorical(list("abcdefghij"))}))
    assert [row["sum_ns"] for row in _document(table)["rows"]] == list(range(10))
    assert [row["kernel_name"] for row in _csv_rows(table)] == list("abcdefghij")


def test_parquet_carries_the_meaning_of_the_columns():
    parquet = pytest.importorskip("pyarrow.parquet")
    stream = io.BytesIO()
    frame = pd.DataFrame({"sum_ns": [1, 2], "kernel_name": pd.Categorical(["a", None])})
    write_parquet(top_rows(_table(frame, is_simulated=True), 1), stream)
    schema = parquet.read_schema(io.BytesIO(stream.getvalue()))
    assert json.loads(schema.metadata[b"rocktools.table"]) == {
        "schema": "rocktools.table/1",
        "name": "test",
        "title": "a test",
        "is_simulated": True,
        "rows_count": 2,
        "cut_rows_count": 1,
        "notes": [],
    }
    described = {key: value for key, value in schema.field("sum_ns").metadata.items() if not key.startswith(b"PARQUET")}
    assert described == {b"meaning": b"meaning of sum_ns", b"unit": b"ns", b"evidence": b"measured"}
    assert b"unit" not in schema.field("kernel_name").metadata


def test_parquet_without_pyarrow_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(MissingExtra) as caught:
        write_parquet(_table(pd.DataFrame({"sum_ns": [1]})), io.BytesIO())
    assert str(caught.value) == (
        "missing-extra: --format parquet needs pyarrow, which is not installed\n  try: pip install 'rocktools[parquet]'"
    )
