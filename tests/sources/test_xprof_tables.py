"""Tables of xprof: what is read, under which names, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from crosscheck_tables import KERNELS, chart, write_charts

from rocktools.errors import DamagedFile
from rocktools.sources.xprof_tables import read_xprof_tables


def test_rows_are_named_by_column_ids(tmp_path: Path) -> None:
    tables = read_xprof_tables(write_charts(tmp_path, kernel_stats=KERNELS))
    assert tables.tables["kernel_stats"] == (KERNELS,)


def test_names_may_have_words_around_them(tmp_path: Path) -> None:
    (tmp_path / "host7.hlo_stats.json").write_text(json.dumps(chart(KERNELS)))
    (tmp_path / "overview_page.json").write_text("{}")
    tables = read_xprof_tables(tmp_path)
    assert list(tables.tables) == ["hlo_stats"]
    assert tables.others == ("overview_page.json",)


def test_list_of_tables_is_several_parts(tmp_path: Path) -> None:
    (tmp_path / "framework_op_stats.json").write_text(json.dumps([chart(KERNELS), chart(KERNELS[:1])]))
    assert read_xprof_tables(tmp_path).tables["framework_op_stats"] == (KERNELS, KERNELS[:1])


def test_empty_cells_are_none(tmp_path: Path) -> None:
    document = {"cols": [{"id": "a"}, {"id": "b"}], "rows": [{"c": [None, {"f": "x"}]}]}
    (tmp_path / "hlo_stats.json").write_text(json.dumps(document))
    assert read_xprof_tables(tmp_path).tables["hlo_stats"] == (({"a": None, "b": None},),)


@pytest.mark.parametrize(
    "text",
    ["{", "[1]", "{}", '{"cols": [], "rows": [{"c": [1]}]}', '{"cols": [{"id": "a"}], "rows": [{"c": [7]}]}', "null"],
)
def test_what_is_no_table_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "hlo_stats.json").write_text(text)
    with pytest.raises(DamagedFile, match="xprof-table"):
        read_xprof_tables(tmp_path)


def test_two_tables_of_one_name_are_refused(tmp_path: Path) -> None:
    for host in ("a", "b"):
        (tmp_path / f"{host}.hlo_stats.json").write_text(json.dumps(chart(KERNELS)))
    with pytest.raises(DamagedFile, match="two-tables"):
        read_xprof_tables(tmp_path)
