"""Databases as crashes leave them (killed in a transaction, a log not applied, pages lost), and plain reads of them."""

from __future__ import annotations

import hashlib
import shutil
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Iterable
from contextlib import closing
from pathlib import Path

PAGE_BYTES = 4096

# Rows through a cache of two pages: SQLite must write uncommitted pages into the file, and is killed before it commits.
_KILLED_WRITER = """
import os, signal, sqlite3, sys
connection = sqlite3.connect(sys.argv[1], isolation_level=None)
connection.execute("PRAGMA cache_size=2")
connection.execute("BEGIN")
for table in sys.argv[2:]:
    connection.execute(f'UPDATE "{table}" SET guid = guid || hex(randomblob(16))')
os.kill(os.getpid(), signal.SIGKILL)
"""


def kill_while_writing(path: Path) -> Path:
    """Kill a process in the middle of a transaction that changes every guid; the hot journal stays beside the file."""
    with closing(sqlite3.connect(path)) as connection:
        names = [
            name
            for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall()
            if any(row[1] == "guid" for row in connection.execute(f'PRAGMA table_info("{name}")'))
        ]
    before = path.read_bytes()
    ran = subprocess.run([sys.executable, "-c", _KILLED_WRITER, str(path), *names], check=False)
    assert ran.returncode == -signal.SIGKILL
    journal = path.with_name(f"{path.name}-journal")
    assert journal.stat().st_size > 0
    assert path.read_bytes() != before, "nothing was spilled: the file is not torn"
    return journal


def leave_log(path: Path, *statements: str) -> Path:
    """Run statements in write-ahead mode and leave their log beside the file, as a killed writer does.

    `{_}` in a statement is the suffix of the tables.
    """
    with closing(sqlite3.connect(path)) as connection:
        row = connection.execute("SELECT name FROM sqlite_master WHERE name LIKE 'rocpd_event_%'").fetchone()
        suffix = row[0].removeprefix("rocpd_event")
        connection.execute("PRAGMA journal_mode=WAL").fetchone()
        connection.execute("PRAGMA wal_autocheckpoint=0")
        for statement in statements:
            connection.execute(statement.replace("{_}", suffix))
        connection.commit()
        for suffix in ("", "-wal"):  # the last connection would apply the log and remove it
            shutil.copyfile(f"{path}{suffix}", f"{path}.kept{suffix}")
    for suffix in ("", "-wal"):
        Path(f"{path}.kept{suffix}").replace(f"{path}{suffix}")
    return path.with_name(f"{path.name}-wal")


def zero_pages(path: Path, numbers: Iterable[int]) -> Path:
    """Overwrite pages, numbered from 0, with zeros."""
    with path.open("r+b") as stream:
        for number in numbers:
            stream.seek(number * PAGE_BYTES)
            stream.write(bytes(PAGE_BYTES))
    return path


def leaves_of(path: Path, table: str) -> dict[int, int]:
    """Leaf page of a table, numbered from 0 -> rows on it, in the order of rowids (SQLite file format, 1.6)."""
    with closing(sqlite3.connect(path)) as connection:
        [(root,)] = connection.execute("SELECT rootpage FROM sqlite_master WHERE name = ?", (table,))
    content = path.read_bytes()
    leaves: dict[int, int] = {}

    def visit(page: int) -> None:
        at = page * PAGE_BYTES
        cells = int.from_bytes(content[at + 3 : at + 5], "big")
        if content[at] == 13:
            leaves[page] = cells
            return
        assert content[at] == 5, "not a page of a table"
        for cell in range(cells):
            pointer = int.from_bytes(content[at + 12 + 2 * cell : at + 14 + 2 * cell], "big")
            visit(int.from_bytes(content[at + pointer : at + pointer + 4], "big") - 1)
        visit(int.from_bytes(content[at + 8 : at + 12], "big") - 1)

    visit(root - 1)
    return leaves


def look_of(folder: Path) -> dict[str, tuple[str, int, int]]:
    """Every file below a folder: the sha256 of its bytes, its size, its time of change."""
    return {
        path.relative_to(folder).as_posix(): (
            hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else "",
            path.lstat().st_size,
            path.lstat().st_mtime_ns,
        )
        for path in sorted(folder.rglob("*"))
    }


def tables_of(path: Path) -> dict[str, list[tuple[object, ...]]]:
    """Table -> its rows: rowid, then storage class and value (of a text its bytes) of each column, by SQLite alone."""
    with closing(sqlite3.connect(path)) as connection:
        connection.text_factory = bytes
        rows = {}
        for (stored,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall():
            name = stored.decode()
            if not name.startswith("sqlite_"):
                columns = [row[1].decode() for row in connection.execute(f'PRAGMA table_info("{name}")')]
                values = ", ".join(f'typeof("{column}"), "{column}"' for column in columns)
                rows[name] = connection.execute(
                    f'SELECT rowid, {values} FROM "{name}" NOT INDEXED ORDER BY rowid'
                ).fetchall()
    return rows
