"""Damaged databases: every frame and every check ends in a result or in an error of ours, never in anything else.

Mutated copies of small databases, made from a seed: flipped bits, cut ends, zeroed and swapped pages, values of wrong
types, missing columns. What comes out of them is not looked at; that it comes out in time and under control is.
"""

from __future__ import annotations

import random
import sqlite3
from collections import Counter
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
from rocpd_files import write_counter_pass, write_small_trace

from rocktools.demo.rocpd_file import WriterOptions
from rocktools.errors import ContractError, RocktoolsError
from rocktools.workspace.workspace import READ_FRAMES, Workspace

PAGE_BYTES = 4096
MUTANTS_COUNT = 200
ODD_VALUES = (
    "NULL",
    "0",
    "-1",
    "9223372036854775807",
    "-9223372036854775807 - 1",
    "1.5",
    "1.8446744073709552e19",
    "9e999",
    "-9e999",
    "''",
    "'abc'",
    "'12'",
    "x''",
    "x'ff00'",
    "CAST(x'ff41' AS TEXT)",
    '\'{"message": "\\ud800"}\'',
    "zeroblob(10000)",
)


def flip_bits(path: Path, rng: random.Random) -> None:
    whole = bytearray(path.read_bytes())
    for _ in range(rng.choice((1, 4, 40))):
        whole[rng.randrange(len(whole))] ^= 1 << rng.randrange(8)
    path.write_bytes(whole)


def flip_bits_of_the_schema(path: Path, rng: random.Random) -> None:
    whole = bytearray(path.read_bytes())
    for _ in range(rng.choice((1, 4))):
        whole[rng.randrange(100, 8 * PAGE_BYTES)] ^= 1 << rng.randrange(8)
    path.write_bytes(whole)


def cut(path: Path, rng: random.Random) -> None:
    whole = path.read_bytes()
    path.write_bytes(whole[: rng.randrange(len(whole))])


def cut_and_say_so(path: Path, rng: random.Random) -> None:
    """Cut at a page, with a header that knows: only the tree of pages is broken."""
    whole = bytearray(path.read_bytes())
    pages = rng.randrange(1, len(whole) // PAGE_BYTES)
    whole[28:32] = pages.to_bytes(4, "big")
    path.write_bytes(whole[: pages * PAGE_BYTES])


def zero_pages(path: Path, rng: random.Random) -> None:
    whole = bytearray(path.read_bytes())
    for _ in range(rng.choice((1, 3))):
        page = rng.randrange(1, len(whole) // PAGE_BYTES)
        whole[page * PAGE_BYTES : (page + 1) * PAGE_BYTES] = bytes(PAGE_BYTES)
    path.write_bytes(whole)


def swap_pages(path: Path, rng: random.Random) -> None:
    whole = bytearray(path.read_bytes())
    first, second = (rng.randrange(1, len(whole) // PAGE_BYTES) * PAGE_BYTES for _ in range(2))
    one, other = whole[first : first + PAGE_BYTES], whole[second : second + PAGE_BYTES]
    whole[first : first + PAGE_BYTES], whole[second : second + PAGE_BYTES] = other, one
    path.write_bytes(whole)


def put_odd_values(path: Path, rng: random.Random) -> None:
    """Values of every type in every column, as far as the schema lets them in."""
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA synchronous=OFF")
        connection.execute("PRAGMA ignore_check_constraints=ON")
        for _ in range(rng.choice((1, 5, 30))):
            table = rng.choice(tables_of(connection))
            column = rng.choice(connection.execute(f'PRAGMA table_info("{table}")').fetchall())[1]
            where = rng.choice(("", " WHERE rowid % 2 = 0", " WHERE rowid = 1"))
            try:
                connection.execute(f'UPDATE "{table}" SET "{column}" = {rng.choice(ODD_VALUES)}{where}')
            except sqlite3.Error:
                continue
        connection.commit()


def rebuild_tables(path: Path, rng: random.Random) -> None:
    """Tables of hand-made files: without constraints, without some columns, with rows twice, or gone."""
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA synchronous=OFF")
        for (view,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'view'").fetchall():
            connection.execute(f'DROP VIEW "{view}"')
        for table in rng.sample(tables_of(connection), rng.choice((1, 3, 8))):
            columns = [row[1] for row in connection.execute(f'PRAGMA table_info("{table}")')]
            kept = [f'"{column}"' for column in columns if rng.random() > 0.15] or [f'"{columns[0]}"']
            if rng.random() < 0.8:
                twice = f' UNION ALL SELECT {", ".join(kept)} FROM "{table}"' if rng.random() < 0.4 else ""
                connection.execute(f'CREATE TABLE copied AS SELECT {", ".join(kept)} FROM "{table}"{twice}')
                if rng.random() < 0.5:
                    column = rng.choice(kept)
                    connection.execute(f"UPDATE copied SET {column} = {rng.choice(ODD_VALUES)} WHERE rowid % 2 = 1")
            connection.execute(f'DROP TABLE "{table}"')
            if connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'copied'").fetchone():
                connection.execute(f'ALTER TABLE copied RENAME TO "{table}"')
        connection.commit()


def tables_of(connection: sqlite3.Connection) -> list[str]:
    rows = connection.execute("SELECT name FROM sqlite_master WHERE type = 'table' AND name LIKE 'rocpd_%'")
    return [name for (name,) in rows.fetchall()]


def empty(path: Path, rng: random.Random) -> None:
    path.write_bytes(b"")


MUTATIONS: tuple[Callable[[Path, random.Random], None], ...] = (
    flip_bits,
    flip_bits_of_the_schema,
    cut,
    cut_and_say_so,
    zero_pages,
    swap_pages,
    put_odd_values,
    put_odd_values,
    rebuild_tables,
    rebuild_tables,
    empty,
)


def outcome(path: Path, *, accelerate: bool | None) -> str:
    """How reading everything in a file ends: `read`, or the reference of the first error."""
    try:
        workspace = Workspace.open([path], accelerate=accelerate)
    except ContractError:
        raise
    except RocktoolsError as error:
        return error.reference
    first = "read"
    with workspace:
        for build in (*(lambda name=name: workspace.frame(name) for name in READ_FRAMES), workspace.check_health):
            try:
                build()
            except ContractError:
                raise
            except RocktoolsError as error:
                first = error.reference if first == "read" else first
        assert all(str(finding) for finding in workspace.findings)
    return first


def fuzz(original: Path, folder: Path, *, seed: int, count: int) -> Counter[str]:
    whole = original.read_bytes()
    outcomes: Counter[str] = Counter()
    path = folder / "mutant.db"
    for number in range(count):
        rng = random.Random(f"{seed} {number}")
        path.write_bytes(whole)
        mutate = MUTATIONS[number % len(MUTATIONS)]
        mutate(path, rng)
        try:
            outcomes[outcome(path, accelerate=None if number % 2 else False)] += 1
        except Exception as error:
            raise AssertionError(f"{mutate.__name__} number {number} of seed {seed} on {original.name}") from error
    return outcomes


@pytest.mark.parametrize("seed, write", [(1, write_small_trace), (2, write_counter_pass)])
def test_damaged_copies_of_small_databases_end_in_a_result_or_an_error_of_ours(
    tmp_path: Path, seed: int, write: Callable[..., Path]
) -> None:
    options = WriterOptions(version="3.0.5", has_replay_pass=True) if seed == 2 else None
    outcomes = fuzz(write(tmp_path / "original.db", options), tmp_path, seed=seed, count=MUTANTS_COUNT // 2)
    assert outcomes["read"] > 10, "some damage is harmless, or these mutations are too coarse to show anything"
    assert len(outcomes) > 3, "damage of several kinds is told apart"


@pytest.mark.parametrize("name", ["rocprofv3-mi300x.db", "rocprofsys-mi350x.db", "minimal-handmade-v3.db"])
def test_damaged_copies_of_real_files_end_in_a_result_or_an_error_of_ours(
    shared: Path, tmp_path: Path, name: str
) -> None:
    assert fuzz(shared / "data/rocpd" / name, tmp_path, seed=3, count=33).total() == 33
