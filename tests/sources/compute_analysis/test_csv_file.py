"""CSV files as tables: every prefix of a good one gives its first rows, or is refused; packed is as good as not."""

from __future__ import annotations

import csv
import gzip
import io
import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rocktools.errors import DamagedFile, InputError
from rocktools.sources.compute_analysis.csv_file import read_csv_file

CELLS = st.text(st.characters(codec="utf-8", exclude_characters="\r\0\x1a", exclude_categories=("Cs",)), max_size=8)
TABLES = st.integers(1, 4).flatmap(
    lambda width: st.lists(st.lists(CELLS, min_size=width, max_size=width), min_size=1, max_size=4)
)


def as_text(rows: list[list[str]]) -> str:
    stream = io.StringIO()
    csv.writer(stream, quoting=csv.QUOTE_ALL, lineterminator="\n").writerows(rows)
    return stream.getvalue()


def read(content: bytes):
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "t.csv"
        path.write_bytes(content)
        return read_csv_file(path)


@settings(max_examples=30, deadline=None)
@given(rows=TABLES, is_packed=st.booleans())
def test_what_was_written_is_read(rows, is_packed):
    rows[0][0] = rows[0][0].removeprefix("\ufeff")
    content = as_text(rows).encode()
    file = read(gzip.compress(content, mtime=0) if is_packed else content)
    assert list(file.header) == [name.strip() for name in rows[0]]
    assert [list(row) for row in file.rows] == rows[1:]
    assert file.findings == ()


@settings(max_examples=30, deadline=None)
@given(rows=TABLES, share=st.floats(0, 1))
def test_a_prefix_gives_the_first_rows_or_an_input_error(rows, share):
    rows[0][0] = rows[0][0].removeprefix("\ufeff")
    content = as_text(rows).encode()
    cut = content[: int(share * len(content))]
    try:
        file = read(cut)
    except InputError:
        return
    assert [list(row) for row in file.rows] == rows[1 : 1 + len(file.rows)]


def test_a_last_line_without_an_end_is_left_out_and_told():
    file = read(b"a,b\n1,2\n3,4")
    assert file.rows == (("1", "2"),)
    assert [finding.rule for finding in file.findings] == ["csv-cut-off"]


@pytest.mark.parametrize(
    "content", [b"", b"a,b\n1\n", b"a\n\xff\xfe\n", gzip.compress(b"a,b\n1,2\n" * 99, mtime=0)[:-9], b'a,b\n"1,2\n']
)
def test_what_is_no_table_is_refused(content):
    with pytest.raises(DamagedFile):
        read(content)


def test_of_columns_with_one_name_the_first_is_taken():
    assert read(b"a,a\n1,2\n").records() == [{"a": "1"}]
