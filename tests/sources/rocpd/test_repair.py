"""Repaired copies have nothing that the original had not; scrubbed copies have nothing of what was taken out."""

from __future__ import annotations

import random
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest
from rocpd_files import edit, merge_databases, read_sql, rules
from torn_files import PAGE_BYTES, kill_while_writing, leave_log, leaves_of, look_of, tables_of, zero_pages

from rocktools import __version__
from rocktools.demo.rocpd_file import WriterOptions
from rocktools.demo.rocpd_trace import TraceShape, write_trace
from rocktools.demo.rocpd_writer import RocpdWriter
from rocktools.errors import DamagedFile, InputError, RocktoolsError, UnknownFormat, UnsupportedVersion
from rocktools.sources.rocpd.opening import check_header
from rocktools.sources.rocpd.repair import recover_database, scrub_database
from rocktools.sources.rocpd.schema import split_table_name
from rocktools.workspace.workspace import Workspace

SECRET = "hunter2-Zq7"
Tables = dict[str, list[tuple[object, ...]]]


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A trace whose tables have many pages each, and rows that go over several pages."""
    path = tmp_path_factory.mktemp("whole") / "1_results.db"
    shape = TraceShape(
        dispatches_count=600, kernels_count=6, copies_count=20, allocations_count=10, ranges_count=2, agents_count=2
    )
    write_trace(path, shape)
    with closing(sqlite3.connect(path)) as connection:
        table = _table(path, "info_agent")
        connection.execute(f"""UPDATE "{table}" SET extdata = json_set(extdata, '$.caches', hex(zeroblob(9000)))""")
        connection.commit()
    return path


@pytest.fixture
def trace(whole: Path, tmp_path: Path) -> Path:
    """A copy of it in a folder of its own."""
    folder = tmp_path / "out"
    folder.mkdir()
    path = folder / "1_results.db"
    path.write_bytes(whole.read_bytes())
    return path


@pytest.fixture
def target(tmp_path: Path) -> Path:
    return tmp_path / "copy.db"


def _table(path: Path, base: str) -> str:
    [(name,)] = read_sql(path, f"SELECT name FROM sqlite_master WHERE type = 'table' AND name LIKE 'rocpd_{base}_0%'")
    return str(name)


def _without_mark(tables: Tables) -> Tables:
    """The tables of a recovered copy without the row that says so."""
    marks = [(name, row) for name, rows in tables.items() for row in rows if b"rocktools_recovered" in row]
    assert [row[-1] for _, row in marks] == [__version__.encode()] * len(marks)
    assert marks
    return {name: [row for row in rows if (name, row) not in marks] for name, rows in tables.items()}


def _assert_nothing_invented(copy: Path, original: Path) -> int:
    """Every row of the copy is one of the original's, in every value. Returns the number of rows."""
    expected, found = tables_of(original), _without_mark(tables_of(copy))
    for name, rows in found.items():
        if name in expected or rows:
            assert set(rows) <= set(expected[name]), name
            assert [row[0] for row in rows] == sorted({row[0] for row in rows}, key=int), name
    with closing(sqlite3.connect(copy)) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    return sum(map(len, found.values()))


def _says_recovered(copy: Path) -> bool:
    with Workspace.open([copy]) as workspace:
        return "recovered-copy" in rules(workspace.check_health())


# Recovery


def test_sound_file_comes_over_whole_and_says_that_it_was_recovered(trace: Path, target: Path) -> None:
    copy = recover_database(trace, target)
    assert _without_mark(tables_of(target)) == tables_of(trace)
    assert copy.findings == ()
    assert all(table.is_complete for table in copy.tables)
    assert copy.rows_count == sum(map(len, tables_of(trace).values()))
    assert _says_recovered(target)
    objects = "SELECT type, name, sql FROM sqlite_master WHERE name NOT LIKE 'sqlite_%' ORDER BY name"
    assert read_sql(target, objects) == read_sql(trace, objects)


@pytest.mark.parametrize("share", [0.05, 0.12, 0.2, 0.35, 0.5, 0.65, 0.8, 0.95, 0.999])
@pytest.mark.parametrize("into_page", [0, 1_234])
def test_truncated_file_gives_a_part_of_its_rows_and_none_invented(
    whole: Path, trace: Path, target: Path, share: float, into_page: int
) -> None:
    length = int(whole.stat().st_size * share) // PAGE_BYTES * PAGE_BYTES + into_page
    trace.write_bytes(whole.read_bytes()[:length])
    before = look_of(trace.parent)
    if share < 0.2:  # not even the list of tables is there
        with pytest.raises(InputError) as caught:
            recover_database(trace, target)
        assert caught.value.reference == "nothing-recovered"
        assert caught.value.what == "nothing is left in it to recover: not one table of it can be found"
        assert not target.exists()
    else:
        copy = recover_database(trace, target)
        assert copy.rows_count == _assert_nothing_invented(target, whole)
        assert "rows-lost" in rules(copy.findings)
        assert _says_recovered(target)
    assert look_of(trace.parent) == before


def test_most_rows_survive_the_loss_of_the_last_pages(whole: Path, trace: Path, target: Path) -> None:
    trace.write_bytes(whole.read_bytes()[: -3 * PAGE_BYTES])
    recover_database(trace, target)
    kept = _assert_nothing_invented(target, whole)
    assert kept > 0.9 * sum(map(len, tables_of(whole).values()))


def test_every_single_page_may_be_lost(whole: Path, tmp_path: Path) -> None:
    expected = tables_of(whole)
    big = {name: leaves_of(whole, name) for name, rows in expected.items() if len(rows) > 100}
    costs = {page: rows_count for leaves in big.values() for page, rows_count in leaves.items()}
    assert len(costs) > 20
    damaged, target = tmp_path / "damaged.db", tmp_path / "copy.db"
    pages_count = whole.stat().st_size // PAGE_BYTES
    for number in [*range(1, 40), *range(41, pages_count, 7)]:  # the list of tables is at the beginning
        damaged.write_bytes(whole.read_bytes())
        zero_pages(damaged, [number])
        copy = recover_database(damaged, target)
        lost = sum(map(len, expected.values())) - _assert_nothing_invented(target, whole)
        assert lost == costs.get(number, lost), f"page {number}"
        assert copy.findings or not lost
        target.unlink()


@pytest.mark.parametrize("seed", range(8))
def test_several_lost_pages_cost_their_own_rows_only(whole: Path, trace: Path, target: Path, seed: int) -> None:
    expected = tables_of(whole)
    name = max(expected, key=lambda name: len(expected[name]))
    leaves = leaves_of(whole, name)
    lost = random.Random(seed).sample(list(leaves), len(leaves) // 2)
    zero_pages(trace, lost)
    copy = recover_database(trace, target)
    _assert_nothing_invented(target, whole)
    kept = sum(rows_count for page, rows_count in leaves.items() if page not in lost)
    assert len(tables_of(target)[name]) == kept
    assert [finding.where for finding in copy.findings] == [f"{trace}, table {name}"]
    assert [finding.numbers for finding in copy.findings] == [{"rows_count": kept}]


def test_end_of_a_long_value_is_not_filled_up_with_zeros(whole: Path, trace: Path, target: Path) -> None:
    """SQLite itself notices a lost page in the middle of a value, and takes zeros for its end."""
    content = whole.read_bytes()
    ends = [
        at
        for at in range(1, len(content) // PAGE_BYTES)
        if content[at * PAGE_BYTES : at * PAGE_BYTES + 4] == bytes(4) and content[at * PAGE_BYTES + 4] == ord("0")
    ]
    assert ends, "no page is the end of a long value"
    zero_pages(trace, ends)
    copy = recover_database(trace, target)
    _assert_nothing_invented(target, whole)
    [lost] = copy.findings
    assert lost.where == f"{trace}, table {_table(whole, 'info_agent')}"
    assert str(lost).startswith("warning [rows-lost]")


def test_end_of_a_long_value_that_was_cut_off_is_not_filled_up(tmp_path: Path, target: Path) -> None:
    path = tmp_path / "1.db"
    with RocpdWriter(path) as writer:
        writer.dispatch(writer.kernel_symbol("loop_fusion_3"), 100, 200)
        writer.string("x" * 10_000)
    content = path.read_bytes()
    assert content[-PAGE_BYTES : 4 - PAGE_BYTES] == bytes(4), "the last page is not the end of a long value"
    for cut in (1, 2_000, PAGE_BYTES - 1, PAGE_BYTES):
        damaged = tmp_path / f"cut{cut}.db"
        damaged.write_bytes(content[:-cut])
        recover_database(damaged, tmp_path / f"copy{cut}.db")
        _assert_nothing_invented(tmp_path / f"copy{cut}.db", path)


@pytest.mark.parametrize("seed", range(20))
def test_flipped_bytes_end_in_a_sound_copy_or_a_plain_error(whole: Path, trace: Path, target: Path, seed: int) -> None:
    chance = random.Random(seed)
    content = bytearray(whole.read_bytes())
    for _ in range(chance.choice((1, 10, 100, 1_000))):
        content[chance.randrange(100, len(content))] = chance.randrange(256)
    trace.write_bytes(content)
    before = look_of(trace.parent)
    try:
        copy = recover_database(trace, target)
    except InputError:
        assert not target.exists()
    else:
        found = _without_mark(tables_of(target))
        assert sum(map(len, found.values())) == copy.rows_count
        assert copy.rows_count <= sum(map(len, tables_of(whole).values())) + 5
        assert _says_recovered(target)
    assert look_of(trace.parent) == before


def test_search_that_ends_anywhere_does_not_go_on_for_ever(tmp_path: Path, target: Path) -> None:
    """In a damaged tree SQLite may find rows before the one that was asked for, again and again."""
    path = tmp_path / "1.db"
    write_trace(path, TraceShape(dispatches_count=300))
    [(root,)] = read_sql(path, f"SELECT rootpage FROM sqlite_master WHERE name = '{_table(path, 'kernel_dispatch')}'")
    with path.open("r+b") as stream:
        at = (root - 1) * PAGE_BYTES
        stream.seek(at)
        page = bytearray(stream.read(PAGE_BYTES))
        assert page[0] == 5, "the table has one page only"
        cells = int.from_bytes(page[3:5], "big")
        # Every key becomes the largest of one byte, and the children swap places.
        pointers = [page[12 + 2 * cell : 14 + 2 * cell] for cell in range(cells)]
        for cell, pointer in enumerate(reversed(pointers)):
            page[12 + 2 * cell : 14 + 2 * cell] = pointer
        stream.seek(at)
        stream.write(page)
    recover_database(path, target)
    with closing(sqlite3.connect(target)) as connection:
        ids = connection.execute(f'SELECT id FROM "{_table(target, "kernel_dispatch")}"').fetchall()
    assert 0 < len(ids) <= 300


def test_islands_between_lost_pages_and_far_apart_ids_are_found(tmp_path: Path, target: Path) -> None:
    path = tmp_path / "1.db"
    with RocpdWriter(path) as writer:
        kernel = writer.kernel_symbol("loop_fusion_3")
        for number in range(400):
            writer.dispatch(kernel, 100 + number, 101 + number, id=number + 1, dispatch_id=number + 1)
        far = 0x7000_0000_0000_0000
        for number in range(400):
            writer.dispatch(kernel, 900 + number, 901 + number, id=far + number, dispatch_id=far + number)
    name, content = _table(path, "kernel_dispatch"), path.read_bytes()
    leaves = leaves_of(path, name)
    kept = list(leaves)[1], list(leaves)[-4]
    zero_pages(path, set(leaves) - set(kept))
    recover_database(path, target)
    original = tmp_path / "original.db"
    original.write_bytes(content)
    _assert_nothing_invented(target, original)
    assert len(tables_of(target)[name]) == sum(leaves[page] for page in kept)


def test_first_row_that_cannot_be_read_costs_no_other(tmp_path: Path, target: Path) -> None:
    path = tmp_path / "1.db"
    with RocpdWriter(path) as writer:
        writer.dispatch(writer.kernel_symbol("loop_fusion_3"), 100, 200)
        writer.execute(
            f"UPDATE {writer.file.schema.full_name('info_queue')} SET name = hex(zeroblob(9000)) WHERE id = 0"
        )
    content = path.read_bytes()
    pages = [at for at in range(1, len(content) // PAGE_BYTES) if content[at * PAGE_BYTES + 4 :].startswith(b"0" * 99)]
    zero_pages(path, pages[:1])
    recover_database(path, target)
    assert [row[0] for row in tables_of(target)[_table(target, "info_queue")]] == [1]


def test_lost_metadata_do_not_hide_that_it_was_recovered(trace: Path, target: Path) -> None:
    name = _table(trace, "metadata")
    [(root,)] = read_sql(trace, f"SELECT rootpage FROM sqlite_master WHERE name = '{name}'")
    zero_pages(trace, [root - 1])
    copy = recover_database(trace, target)
    assert [(finding.where, finding.numbers) for finding in copy.findings] == [
        (f"{trace}, table {name}", {"rows_count": 0})
    ]
    assert _says_recovered(target)


def test_metadata_table_that_is_not_there_is_made(tmp_path: Path, target: Path) -> None:
    path = tmp_path / "1.db"
    with RocpdWriter(
        path, options=WriterOptions(left_out_tables=frozenset({"metadata"}), is_simulated=False, has_views=False)
    ) as writer:
        writer.dispatch(writer.kernel_symbol("loop_fusion_3"), 100, 200)
    recover_database(path, target)
    assert _says_recovered(target)


def test_merged_database_is_marked_for_each_process_and_for_no_other_suffix(tmp_path: Path, target: Path) -> None:
    paths = []
    for pid in (1, 2):
        paths.append(tmp_path / f"{pid}.db")
        write_trace(paths[-1], TraceShape(dispatches_count=5, pid=pid))
    merged = edit(
        merge_databases(paths, tmp_path / "merged.db"),
        "CREATE TABLE rocpd_event_operation_0191 (id INTEGER PRIMARY KEY)",
    )
    recover_database(merged, target)
    with Workspace.open([target]) as workspace:
        assert len(workspace.loaded) == 2
        assert rules(workspace.check_health()).count("recovered-copy") == 2


def test_damaged_schema_costs_only_what_it_says(whole: Path, trace: Path, target: Path) -> None:
    name = _table(whole, "memory_copy")
    content = whole.read_bytes()
    assert content.count(f'TABLE "{name}"'.encode()) == 1
    trace.write_bytes(content.replace(f'TABLE "{name}"'.encode(), f'TABLE "{name[:-1]}X'.encode() + b"\xff"))
    with pytest.raises(DamagedFile), Workspace.open([trace]):
        pass
    copy = recover_database(trace, target)
    assert _assert_nothing_invented(target, whole) > 1_000
    assert name not in {table.table for table in copy.tables if table.rows_count}


def test_killed_writer_is_rolled_back(whole: Path, trace: Path, target: Path) -> None:
    kill_while_writing(trace)
    before = look_of(trace.parent)
    recover_database(trace, target)
    assert _without_mark(tables_of(target)) == tables_of(whole)
    assert look_of(trace.parent) == before
    assert _says_recovered(target)


def test_journal_that_lost_its_end_still_gives_rows(trace: Path, target: Path) -> None:
    journal = kill_while_writing(trace)
    journal.write_bytes(journal.read_bytes()[: journal.stat().st_size // 2])
    before = look_of(trace.parent)
    recover_database(trace, target)
    assert look_of(trace.parent) == before
    assert _says_recovered(target)


def test_recovery_is_advised_where_there_is_something_to_recover(whole: Path, trace: Path, tmp_path: Path) -> None:
    content, advised = whole.read_bytes(), []
    for length in [50, 100, 4_095, *range(PAGE_BYTES, len(content), 7 * PAGE_BYTES + 100)]:
        trace.write_bytes(content[:length])
        with pytest.raises(DamagedFile) as caught:
            check_header(trace)
        assert "copy it again" in str(caught.value.hint)
        advised.append("rocktools rocpd recover" in str(caught.value.hint))
        assert advised[-1] != ("nothing is left in it" in str(caught.value.hint))
        if advised[-1]:
            assert recover_database(trace, tmp_path / f"{length}.db").rows_count > 0
        else:
            with pytest.raises(DamagedFile, match="nothing is left in it to recover"):
                recover_database(trace, tmp_path / f"{length}.db")
    assert advised == sorted(advised)
    assert set(advised) == {False, True}


def test_write_ahead_log_is_applied(trace: Path, target: Path) -> None:
    leave_log(trace, 'DELETE FROM "rocpd_kernel_dispatch{_}" WHERE id > 10')
    before = look_of(trace.parent)
    recover_database(trace, target)
    assert read_sql(target, f'SELECT count(*) FROM "{_table(target, "kernel_dispatch")}"') == [(10,)]
    assert look_of(trace.parent) == before
    assert not target.with_name("copy.db-wal").exists()


@pytest.mark.parametrize(
    "content, reference",
    [
        (b"", "rocpd-empty"),
        (b"Kernel_Name,Start\n", "not-sqlite"),
        (b"SQLite format 3\x00", "nothing-recovered"),
        (b"SQLite format 3\x00" + bytes(5_000), "nothing-recovered"),
    ],
)
def test_file_without_anything_to_save_is_an_error_and_leaves_no_copy(
    tmp_path: Path, target: Path, content: bytes, reference: str
) -> None:
    path = tmp_path / "1.db"
    path.write_bytes(content)
    with pytest.raises(InputError) as caught:
        recover_database(path, target)
    assert caught.value.reference == reference
    assert str(path) in (caught.value.where or "")
    assert not target.exists()


def test_unfinished_database_with_nothing_but_its_metadata_is_not_called_recovered(
    tmp_path: Path, target: Path
) -> None:
    path = tmp_path / "1.db"
    with RocpdWriter(path) as writer:
        writer.file.execute(f"DELETE FROM {writer.file.schema.full_name('string')}")
    with pytest.raises(DamagedFile) as caught:
        recover_database(path, target)
    assert str(caught.value) == (
        "nothing-recovered: nothing is left in it to recover: no row of any table can be read\n"
        f"  where: {path}\n"
        "  try: copy it again from where it was written; if it is no better there, record again"
    )
    assert not target.exists()


def _write_foreign(path: Path, *statements: str) -> Path:
    with closing(sqlite3.connect(path)) as connection:
        for statement in statements:
            connection.execute(statement)
        connection.commit()
    return path


@pytest.mark.parametrize("make_copy", [recover_database, scrub_database])
def test_formats_of_other_tools_are_refused_by_name(tmp_path: Path, target: Path, make_copy) -> None:
    """What to take out of them is not known, and rocktools could not read the copy."""
    rpd = _write_foreign(
        tmp_path / "a.rpd",
        "CREATE TABLE rocpd_op (id INTEGER PRIMARY KEY, gpuId INTEGER)",
        "CREATE TABLE rocpd_api (id INTEGER PRIMARY KEY, pid INTEGER)",
        "CREATE TABLE rocpd_string (id INTEGER PRIMARY KEY, string TEXT)",
        "INSERT INTO rocpd_string (string) VALUES ('hipMalloc')",
    )
    with pytest.raises(UnknownFormat, match="an rpd trace") as caught:
        make_copy(rpd, target)
    assert caught.value.where == str(rpd)
    other = _write_foreign(tmp_path / "b.db", "CREATE TABLE notes (text TEXT)", "INSERT INTO notes VALUES ('a')")
    with pytest.raises(UnknownFormat):
        make_copy(other, target)
    newer = tmp_path / "c.db"
    write_trace(newer, TraceShape(dispatches_count=5))
    edit(newer, "UPDATE \"rocpd_metadata{_}\" SET value = '4.1.0' WHERE tag = 'schema_version'")
    with pytest.raises(UnsupportedVersion, match=r"4\.1\.0"):
        make_copy(newer, target)
    assert not target.exists()


# Scrubbing


def _plant(path: Path) -> Path:
    """A trace with a secret in every place that scrubbing promises to empty."""
    with RocpdWriter(path) as writer:
        writer.node(machine_id=f"machine-{SECRET}", hostname=f"host-{SECRET}", domain_name=f"dom-{SECRET}")
        writer.process(
            77,
            command=f"python {SECRET}.py",
            environment={"AWS_SECRET": f"env-{SECRET}", "long": f"env-{SECRET}" * 999},
            extdata={"output_path": f"/data/{SECRET}"},
        )
        writer.thread(extdata={"cwd": f"/data/{SECRET}"})
        writer.code_object(uri=f"file:///data/{SECRET}/train#offset=4096&size=10", extdata={"uri": f"file:///{SECRET}"})
        writer.code_object(uri=f"/data/{SECRET}/no-anchor")
        writer.string(f"file:///data/{SECRET}/train#offset=1&size=10")
        writer.string(f"/data/{SECRET}/train.py")
        kernel = writer.kernel_symbol("loop_fusion_3")
        call = writer.region("hipModuleLoad", 50, 60)
        event = writer.event(
            "HIP_RUNTIME_API_EXT",
            call_stack={"frames": [{"filename": f"/data/{SECRET}/a.cpp"}]},
            line_info={"entries": [{"filename": f"/data/{SECRET}/a.cpp"}]},
        )
        for position, kind in enumerate(("char const*", "CHAR*", "std::string", "const char *", "void*")):
            writer.arg(event, "fname", f"/data/{SECRET}", type=kind, position=position, extdata={"text": SECRET})
        writer.arg(event, "ptr", "0x7f10", type="void*", position=9)
        writer.roctx_range("step 1", 40, 400)
        writer.dispatch(kernel, 100, 200, call_id=call, range_name="step 1")
    return path


def test_environment_is_nowhere_in_the_bytes_of_the_copy(tmp_path: Path, target: Path) -> None:
    path = _plant(tmp_path / "1.db")
    assert f"env-{SECRET}".encode() in path.read_bytes()
    copy = scrub_database(path, target)
    assert f"env-{SECRET}".encode() not in target.read_bytes()
    assert b"AWS_SECRET" not in target.read_bytes()
    expected, found = tables_of(path), tables_of(target)
    process = _table(path, "info_process")
    assert {name for name in expected if expected[name] != found[name]} == {process}
    [before], [after] = expected[process], found[process]
    assert [pair for pair in zip(before, after, strict=True) if pair[0] != pair[1]] == [(before[-3], b"{}")]
    assert copy.rows_count == sum(map(len, expected.values()))
    objects = "SELECT type, name, sql FROM sqlite_master WHERE name NOT LIKE 'sqlite_%' ORDER BY name"
    assert read_sql(target, objects) == read_sql(path, objects)


def test_identity_is_nowhere_in_the_bytes_of_the_copy(tmp_path: Path, target: Path) -> None:
    path = _plant(tmp_path / "1.db")
    scrub_database(path, target, hides_identity=True)
    assert SECRET.encode() not in target.read_bytes()
    expected, found = tables_of(path), tables_of(target)
    changed = {name for name in expected if expected[name] != found[name]}
    assert {split_table_name(name)[0] for name in changed} == {  # type: ignore[index]
        "info_node",
        "info_process",
        "info_thread",
        "info_code_object",
        "string",
        "event",
        "arg",
    }
    assert {name: len(rows) for name, rows in expected.items()} == {name: len(rows) for name, rows in found.items()}
    uris = read_sql(target, f'SELECT uri FROM "{_table(target, "info_code_object")}" ORDER BY id')
    assert uris == [("scrubbed#offset=4096&size=10",), (None,)]
    values = read_sql(target, f'SELECT type, value FROM "{_table(target, "arg")}" WHERE value NOT NULL')
    assert values == [("void*", "0x7f10")]


@pytest.mark.parametrize("hides_identity", [False, True])
def test_views_and_times_are_those_of_the_original(tmp_path: Path, target: Path, hides_identity: bool) -> None:
    path = _plant(tmp_path / "1.db")
    scrub_database(path, target, hides_identity=hides_identity)
    for view, columns in (
        ("kernels", '"start", "end", name, region, grid_x, stream_id'),
        ("regions", '"start", "end", name, category'),
        ("code_objects", "load_base"),
        ("top_kernels", "*"),
    ):
        query = f"SELECT {columns} FROM {view}"
        assert read_sql(target, query) == read_sql(path, query) != [], view
    for (view,) in read_sql(path, "SELECT name FROM sqlite_master WHERE type = 'view'"):
        count = f'SELECT count(*) FROM "{view}"'
        assert read_sql(target, count) == read_sql(path, count), view


def test_environment_of_every_process_goes_whatever_its_table_is_called(tmp_path: Path, target: Path) -> None:
    paths = []
    for pid in (1, 2):
        paths.append(tmp_path / f"{pid}.db")
        with RocpdWriter(paths[-1]) as writer:
            writer.process(pid, environment={"KEY": f"{SECRET}-{pid}"})
            writer.dispatch(writer.kernel_symbol("loop_fusion_3"), 100, 200)
    merged = edit(
        merge_databases(paths, tmp_path / "merged.db"),
        "CREATE TABLE kept (id INTEGER PRIMARY KEY, Environment TEXT)",
        f"INSERT INTO kept (Environment) VALUES ('{SECRET}')",
    )
    assert merged.read_bytes().count(SECRET.encode()) >= 3
    scrub_database(merged, target)
    assert SECRET.encode() not in target.read_bytes()


def test_deleted_rows_do_not_travel_along(trace: Path, target: Path) -> None:
    edit(trace, f"UPDATE \"rocpd_info_process{{_}}\" SET environment = '{SECRET * 2_000}'")
    edit(trace, "PRAGMA secure_delete=OFF", "UPDATE \"rocpd_info_process{_}\" SET environment = '{}'")
    assert SECRET.encode() in trace.read_bytes()
    scrub_database(trace, target)
    assert SECRET.encode() not in target.read_bytes()


def test_values_of_every_storage_class_survive(tmp_path: Path, target: Path) -> None:
    path = tmp_path / "1.db"
    with RocpdWriter(path) as writer:
        kernel = writer.kernel_symbol("a\x00b")
        writer.allocation("ALLOC", 1, 2, 2**64 - 1, address=2**63)
        writer.dispatch(kernel, 2**62, 2**62 + 5, id=2**63 - 1, dispatch_id=2**63 - 1)
        table = writer.file.schema.full_name("kernel_dispatch")
        writer.execute(f"UPDATE {table} SET extdata = ?, stream_id = 1.5, queue_id = ?", b"\x00\xff", "no number")
        strings = writer.file.schema.full_name("string")
        writer.execute(f"INSERT INTO {strings} (string) VALUES (CAST(? AS TEXT))", b"caf\xe9 \xff\x00end")
        writer.execute(
            f"INSERT INTO {strings} (string) VALUES (CAST(? AS TEXT))", "\ud800".encode("utf-8", "surrogatepass")
        )
        writer.execute(f"INSERT INTO {strings} (id, string) VALUES (-5, 'below zero')")
        writer.execute(f"INSERT INTO {strings} (string) VALUES (?)", b"blob")
        events = writer.file.schema.full_name("event")
        writer.execute(f"UPDATE {events} SET extdata = '', correlation_id = -9e999")
    expected = tables_of(path)
    kinds = {value for rows in expected.values() for row in rows for value in row[1::2]}
    assert kinds == {b"integer", b"real", b"text", b"blob", b"null"}
    scrub_database(path, target)
    process = _table(path, "info_process")
    assert {**tables_of(target), process: None} == {**expected, process: None}
    recover_database(path, target.with_name("recovered.db"))
    assert _without_mark(tables_of(target.with_name("recovered.db"))) == expected


def test_scrubbing_works_on_other_layouts_of_schema_3(tmp_path: Path, target: Path) -> None:
    path = tmp_path / "1.db"
    write_trace(
        path,
        TraceShape(dispatches_count=9, counters=("SQ_WAVES",), copies_count=1),
        options=WriterOptions(version="3.0.5", has_replay_pass=True),
    )
    scrub_database(path, target, hides_identity=True)
    assert read_sql(target, "SELECT count(*) FROM kernels") == [(9,)]


def test_damaged_file_is_not_scrubbed_but_sent_to_recovery(whole: Path, trace: Path, target: Path) -> None:
    content = whole.read_bytes()
    leaves = [at for at in range(1, len(content) // PAGE_BYTES) if content[at * PAGE_BYTES] == 13]
    zero_pages(trace, leaves[-1:])
    with pytest.raises(DamagedFile) as caught:
        scrub_database(trace, target)
    assert caught.value.reference == "rocpd-malformed"
    assert str(trace) in (caught.value.where or "")
    assert f"rocktools rocpd recover {trace} -o" in (caught.value.hint or "")
    trace.write_bytes(content[:-1])
    with pytest.raises(DamagedFile, match="cut short"):
        scrub_database(trace, target)
    assert not target.exists()


def test_row_that_breaks_its_own_schema_is_called_damage(trace: Path, target: Path) -> None:
    edit(
        trace,
        "PRAGMA writable_schema=ON",
        "UPDATE sqlite_master SET sql = replace(sql, '\"size\" ', '\"size\" ') WHERE name = 'x'",
        "PRAGMA ignore_check_constraints=ON",
        "UPDATE \"rocpd_info_agent{_}\" SET type = 'TPU' WHERE id = 0",
    )
    with pytest.raises(DamagedFile, match="breaks its own schema") as caught:
        scrub_database(trace, target)
    assert "rocpd recover" in (caught.value.hint or "")
    copy = recover_database(trace, target)
    assert [finding.where for finding in copy.findings] == [f"{trace}, table {_table(target, 'info_agent')}"]


def test_scrubbing_in_the_middle_of_a_write_says_so(whole: Path, trace: Path, target: Path) -> None:
    kill_while_writing(trace)
    before = look_of(trace.parent)
    copy = scrub_database(trace, target)
    assert rules(copy.findings) == ["rocpd-hot-journal"]
    assert tables_of(target) == tables_of(whole)
    assert look_of(trace.parent) == before


@pytest.mark.parametrize("make_copy", [recover_database, scrub_database])
def test_file_that_is_being_written_is_not_copied(trace: Path, target: Path, make_copy) -> None:
    script = (
        "import sqlite3, sys\n"
        "connection = sqlite3.connect(sys.argv[1], isolation_level=None)\n"
        "connection.execute('BEGIN IMMEDIATE')\n"
        "print('ready', flush=True)\n"
        "sys.stdin.readline()\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", script, str(trace)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as writer:
        assert writer.stdout is not None
        assert writer.stdout.readline() == "ready\n"
        with pytest.raises(DamagedFile, match=f"still being written by process {writer.pid}"):
            make_copy(trace, target)
        writer.communicate("\n")
    assert not target.exists()


# Writing the copy


@pytest.mark.parametrize("make", ["recover_database", "scrub_database"])
def test_full_disk_is_not_blamed_on_the_file(trace: Path, target: Path, make: str) -> None:
    script = (
        "import resource, signal, sys\n"
        "from pathlib import Path\n"
        "from rocktools.errors import RocktoolsError\n"
        f"from rocktools.sources.rocpd.repair import {make} as make\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "source, target = map(Path, sys.argv[1:])\n"
        "import rocktools.sources.rocpd.repair as repair\n"
        "limit = (65_536, resource.getrlimit(resource.RLIMIT_FSIZE)[1])\n"
        "opened = repair._new_database\n"
        "def limited(target):\n"
        "    resource.setrlimit(resource.RLIMIT_FSIZE, limit)\n"
        "    return opened(target)\n"
        "repair._new_database = limited\n"
        "try:\n"
        "    make(source, target)\n"
        "except RocktoolsError as error:\n"
        "    print(type(error).__name__, error.reference, error.where)\n"
    )
    ran = subprocess.run(
        [sys.executable, "-c", script, str(trace), str(target)], capture_output=True, text=True, check=True
    )
    assert ran.stdout == f"RocktoolsError output-failed {target}\n"
    assert not target.exists()


def test_folder_that_cannot_be_written_to_is_a_plain_error(trace: Path, tmp_path: Path) -> None:
    with pytest.raises(RocktoolsError) as caught:
        scrub_database(trace, tmp_path / "missing" / "copy.db")
    assert caught.value.reference == "output-failed"


@pytest.mark.parametrize("name", ["a b#c?d%41.db", "ümläut.db", b"caf\xe9.db"])
def test_any_name_will_do(trace: Path, tmp_path: Path, name: str | bytes) -> None:
    odd = tmp_path / (name if isinstance(name, str) else name.decode("utf-8", "surrogateescape"))
    odd.write_bytes(trace.read_bytes())
    for number, make_copy in enumerate((recover_database, scrub_database)):
        make_copy(odd, odd.with_name(f"{number}{odd.name}"))
    assert len(list(tmp_path.glob("*.db"))) == 3


# Real files


@pytest.mark.parametrize("name", ["rocprofv3-mi300x.db", "rocprofsys-mi350x.db", "minimal-handmade-v3.db"])
def test_real_files_come_over_whole(shared: Path, tmp_path: Path, name: str) -> None:
    path = shared / "data" / "rocpd" / name
    expected = tables_of(path)
    recover_database(path, tmp_path / "recovered.db")
    assert _without_mark(tables_of(tmp_path / "recovered.db")) == expected
    scrub_database(path, tmp_path / "scrubbed.db")
    found = tables_of(tmp_path / "scrubbed.db")
    assert {split_table_name(table)[0] for table in expected if expected[table] != found[table]} <= {  # type: ignore[index]
        "info_process"
    }
    scrub_database(path, tmp_path / "hidden.db", hides_identity=True)
    content = (tmp_path / "hidden.db").read_bytes()
    for private in (b"/tmp/baseline", b"baseline_profile", b"SHELL", b"hip_memory.cpp", b"test_host", b"./bit_extract"):
        assert private not in content
    for (view,) in read_sql(path, "SELECT name FROM sqlite_master WHERE type = 'view'"):
        count = f'SELECT count(*) FROM "{view}"'
        assert read_sql(tmp_path / "hidden.db", count) == read_sql(path, count)


@pytest.mark.parametrize("name", ["rocprofv3-mi300x.db", "rocprofsys-mi350x.db"])
@pytest.mark.parametrize("share", [0.3, 0.6, 0.9])
def test_real_files_cut_short_give_a_part_of_their_rows(shared: Path, tmp_path: Path, name: str, share: float) -> None:
    original = shared / "data" / "rocpd" / name
    content = original.read_bytes()
    path = tmp_path / name
    path.write_bytes(content[: int(len(content) * share)])
    recover_database(path, tmp_path / "copy.db")
    assert _assert_nothing_invented(tmp_path / "copy.db", original) > 100
