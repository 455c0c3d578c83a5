"""Pages of damaged files: what was lost cannot be read, and what tells pages apart is what SQLite itself would find."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from torn_files import PAGE_BYTES, leaves_of, zero_pages

from rocktools.sources.rocpd.pages import LOST, drop_lost_schema_pages, mark_lost_pages, read_separators


def make_database(path: Path, *rowids: int, page_bytes: int = PAGE_BYTES, tables_count: int = 1) -> Path:
    """Tables t0, t1, ... of rows of about 100 bytes; the first has these rowids."""
    with closing(sqlite3.connect(path)) as connection:
        connection.execute(f"PRAGMA page_size={page_bytes}")
        for number in range(tables_count):
            connection.execute(f"CREATE TABLE t{number} (id INTEGER PRIMARY KEY, text TEXT /* {'x' * 500} */)")
        connection.executemany("INSERT INTO t0 VALUES (?, ?)", [(rowid, "x" * 100) for rowid in rowids])
        connection.commit()
    return path


def root_of(path: Path, table: str) -> int:
    with closing(sqlite3.connect(path)) as connection:
        [(root,)] = connection.execute("SELECT rootpage FROM sqlite_master WHERE name = ?", (table,))
    return int(root)


def last_rowids(path: Path, table: str) -> list[int]:
    """The last rowid of every leaf but the last, by counting rows page after page."""
    with closing(sqlite3.connect(path)) as connection:
        rowids = [rowid for (rowid,) in connection.execute(f"SELECT rowid FROM {table} ORDER BY rowid")]
    ends, at = [], 0
    for rows_count in leaves_of(path, table).values():
        at += rows_count
        ends.append(rowids[at - 1])
    return ends[:-1]


@pytest.mark.parametrize(
    "rowids",
    [
        range(3_000),
        range(-1_500, 1_500),
        range(2**63 - 2_000, 2**63),
        range(-(2**63), -(2**63) + 2_000),
        [*range(500), *range(0x7000_0000_0000_0000, 0x7000_0000_0000_0000 + 500)],
        [2**exponent for exponent in range(62)],
    ],
    ids=["small", "around 0", "largest", "smallest", "far apart", "powers of 2"],
)
def test_separators_are_the_last_rowids_of_the_pages(tmp_path: Path, rowids: range) -> None:
    path = make_database(tmp_path / "a.db", *rowids)
    assert read_separators(path, root_of(path, "t0")) == last_rowids(path, "t0")


def test_separators_of_a_tree_of_three_levels(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE t0 (id INTEGER PRIMARY KEY, text TEXT)")
        connection.executemany("INSERT INTO t0 VALUES (?, ?)", [(rowid, "x" * 3_000) for rowid in range(1_500)])
        connection.commit()
    assert read_separators(path, root_of(path, "t0")) == list(range(1_499))


@pytest.mark.parametrize("root", [-1, 0, 1, 10**9, 2**40])
def test_root_that_is_none_has_no_separators(tmp_path: Path, root: int) -> None:
    assert read_separators(make_database(tmp_path / "a.db", *range(10)), root) == []


def test_pages_that_lead_to_each_other_do_not_go_on_for_ever(tmp_path: Path) -> None:
    path = make_database(tmp_path / "a.db", *range(3_000))
    root = root_of(path, "t0")
    content = bytearray(path.read_bytes())
    at = (root - 1) * PAGE_BYTES
    for cell in range(int.from_bytes(content[at + 3 : at + 5], "big")):
        pointer = int.from_bytes(content[at + 12 + 2 * cell : at + 14 + 2 * cell], "big")
        content[at + pointer : at + pointer + 4] = root.to_bytes(4, "big")
    path.write_bytes(content)
    assert len(read_separators(path, root)) > 10
    drop_lost_schema_pages(path)


@pytest.mark.parametrize("content", [b"", b"SQLite format 3\x00", bytes(100), bytes(5_000), b"\xff" * 5_000])
def test_what_is_no_database_is_left_as_it_is(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "a.db"
    path.write_bytes(content)
    assert mark_lost_pages(path) is False
    assert drop_lost_schema_pages(path) is False
    assert read_separators(path, 1) == []
    assert len(path.read_bytes()) <= len(content)


@pytest.mark.parametrize("page_bytes", [512, 4096, 65536])
def test_pages_of_zeros_are_marked_and_no_other(tmp_path: Path, page_bytes: int) -> None:
    path = make_database(tmp_path / "a.db", *range(3_000), page_bytes=page_bytes)
    before = path.read_bytes()
    assert mark_lost_pages(path) is False
    assert path.read_bytes() == before
    damaged = before[: 2 * page_bytes] + bytes(page_bytes) + before[3 * page_bytes :]
    path.write_bytes(damaged)
    assert mark_lost_pages(path) is True
    assert path.read_bytes() == before[: 2 * page_bytes] + LOST * page_bytes + before[3 * page_bytes :]


@pytest.mark.parametrize("cut_bytes", [1, 100, PAGE_BYTES - 1, PAGE_BYTES, PAGE_BYTES + 1])
def test_header_of_a_file_that_was_cut_gets_the_pages_that_are_there(tmp_path: Path, cut_bytes: int) -> None:
    path = make_database(tmp_path / "a.db", *range(3_000))
    whole = path.read_bytes()
    path.write_bytes(whole[:-cut_bytes])
    mark_lost_pages(path)
    content = path.read_bytes()
    pages_count = (len(whole) - cut_bytes) // PAGE_BYTES
    assert len(content) == pages_count * PAGE_BYTES
    assert int.from_bytes(content[28:32], "big") == pages_count
    with closing(sqlite3.connect(path)) as connection, pytest.raises(sqlite3.DatabaseError, match="malformed"):
        connection.execute("SELECT sum(length(text)) FROM t0").fetchone()


@pytest.mark.parametrize("position", [0, 1, 5, -2, -1])
def test_tables_behind_a_lost_page_of_the_schema_are_known(tmp_path: Path, position: int) -> None:
    path = make_database(tmp_path / "a.db", *range(10), tables_count=60)
    leaves = leaves_of(path, "t0")
    assert len(leaves) == 1
    pages = _schema_leaves(path)
    zero_pages(path, [pages[position]])
    assert drop_lost_schema_pages(path) is True
    assert drop_lost_schema_pages(path) is False
    with closing(sqlite3.connect(path)) as connection:
        names = [name for (name,) in connection.execute("SELECT name FROM sqlite_master")]
    assert 40 < len(names) < 60


def test_schema_of_which_nothing_is_left_stays_unreadable(tmp_path: Path) -> None:
    path = make_database(tmp_path / "a.db", *range(10), tables_count=60)
    zero_pages(path, _schema_leaves(path))
    assert drop_lost_schema_pages(path) is False


def _schema_leaves(path: Path) -> list[int]:
    """Leaf pages of sqlite_master, numbered from 0: its root is page 1, behind the header of the file."""
    content = path.read_bytes()
    assert content[100] == 5
    cells_count = int.from_bytes(content[103:105], "big")
    pointers = [int.from_bytes(content[112 + 2 * cell : 114 + 2 * cell], "big") for cell in range(cells_count)]
    pages = [int.from_bytes(content[pointer : pointer + 4], "big") - 1 for pointer in pointers]
    return [*pages, int.from_bytes(content[108:112], "big") - 1]
