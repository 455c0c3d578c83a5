"""Sheets of TraceLens: what is read, and what is refused."""

from __future__ import annotations

from pathlib import Path

import pytest
from crosscheck_tables import TIMELINE_MEAN_NS, timeline_rows, write_sheet

from rocktools.errors import DamagedFile
from rocktools.sources.tracelens_tables import read_tracelens_tables


def test_sheets_are_read_by_their_names_and_others_are_named(tmp_path: Path) -> None:
    write_sheet(tmp_path, "gpu_timeline", timeline_rows(TIMELINE_MEAN_NS))
    write_sheet(tmp_path, "op_gemm", [{"name": "x"}])
    tables = read_tracelens_tables(tmp_path)
    assert [row["type"] for row in tables.sheets["gpu_timeline"]] == list(TIMELINE_MEAN_NS)
    assert tables.others == ("op_gemm.csv",)


@pytest.mark.parametrize(
    "text, message",
    [
        ("type,percent\nbusy_time,1\n", "lacks the column 'time ms'"),
        ("type,time ms\nbusy_time,fast\n", "'fast' under 'time ms' is no number"),
        ("type,time ms\nbusy_time\n", "None under 'time ms' is no number"),
        ("", "lacks the column 'type'"),
    ],
)
def test_sheet_that_is_none_is_refused(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "gpu_timeline.csv").write_text(text)
    with pytest.raises(DamagedFile, match=message):
        read_tracelens_tables(tmp_path)


def test_bytes_that_are_no_text_are_refused(tmp_path: Path) -> None:
    (tmp_path / "gpu_timeline.csv").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(DamagedFile, match="no CSV"):
        read_tracelens_tables(tmp_path)
