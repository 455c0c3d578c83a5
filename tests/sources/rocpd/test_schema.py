"""Which processes are in a database, which tables each has, and which databases are refused under which name."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from rocpd_files import drop_views, edit, merge_databases, open_process, read_sql, write_small_trace

from rocktools import __version__
from rocktools.demo.rocpd_file import WriterOptions
from rocktools.demo.rocpd_schema import VERSIONS
from rocktools.errors import DamagedFile, RocktoolsError, UnknownFormat, UnsupportedVersion
from rocktools.sources.rocpd.columns import TableReader
from rocktools.sources.rocpd.dispatches import read_dispatches
from rocktools.sources.rocpd.opening import make_readable
from rocktools.sources.rocpd.schema import BASE_TABLES, ProcessTables, parse_extdata, quote_name, read_processes

GUID = "0000091e-2236-7236-be77-fa10e27b82e6"
OTHER_GUID = "0000091f-0000-7000-b000-000000000002"


def processes_of(path: Path) -> tuple[ProcessTables, ...]:
    with make_readable(path) as database, TableReader(database, accelerate=False) as reader:
        return read_processes(reader)


def refusal(path: Path) -> RocktoolsError:
    with pytest.raises(RocktoolsError) as caught:
        processes_of(path)
    assert caught.value.where == str(path)
    return caught.value


def sqlite_file(path: Path, *statements: str) -> Path:
    with closing(sqlite3.connect(path)) as connection:
        for statement in statements:
            connection.execute(statement)
        connection.commit()
    return path


# What is read


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("has_replay_pass", [False, True])
def test_every_version_of_schema_3_gives_one_process_with_its_tables(
    tmp_path: Path, version: str, has_replay_pass: bool
) -> None:
    options = WriterOptions(version=version, has_replay_pass=has_replay_pass, guid=GUID)
    [process] = processes_of(write_small_trace(tmp_path / "t.db", options))
    assert process.suffix == "_0000091e_2236_7236_be77_fa10e27b82e6"
    assert process.label == GUID
    assert process.schema_version == version
    assert process.missing_tables == ()
    assert process.has("kernel_dispatch", "replay_pass") == has_replay_pass
    assert process.has("kernel_dispatch", "graph_exec_id", "graph_node_id") == (version >= "3.0.2")
    assert process.has("pmc_event", "sample_id") == (version >= "3.0.3")
    assert process.metadata["rocktools_simulated"] == __version__
    assert process.is_simulated


def test_columns_say_their_type_and_whether_they_can_be_null(tmp_path: Path) -> None:
    [process] = processes_of(write_small_trace(tmp_path / "t.db"))
    columns = process.tables["kernel_dispatch"].columns
    assert [columns[name].is_nullable for name in ("id", "start", "tid")] == [False, False, True]
    assert [columns[name].declared_type for name in ("id", "start", "guid")] == ["INTEGER", "BIGINT", "TEXT"]


def test_merged_database_holds_each_process_with_its_own_tables(tmp_path: Path) -> None:
    paths = [
        write_small_trace(tmp_path / f"{guid}.db", WriterOptions(guid=guid, version=version))
        for guid, version in ((GUID, "3"), (OTHER_GUID, "3"))
    ]
    merged = merge_databases(paths, tmp_path / "merged.db")
    assert read_sql(merged, "SELECT count(*) FROM rocpd_kernel_dispatch") == [(10,)]
    processes = processes_of(merged)
    assert [process.label for process in processes] == [GUID, OTHER_GUID]
    for process in processes:
        assert process.missing_tables == ()
        assert all(table.name == f"rocpd_{base}{process.suffix}" for base, table in process.tables.items())
        assert process.metadata["guid"] == process.label


def test_merged_database_may_mix_versions(tmp_path: Path) -> None:
    old = write_small_trace(tmp_path / "old.db", WriterOptions(guid=GUID, version="3", has_views=False))
    new = write_small_trace(tmp_path / "new.db", WriterOptions(guid=OTHER_GUID, version="3.0.5", has_views=False))
    first, second = processes_of(merge_databases([old, new], tmp_path / "merged.db"))
    assert (first.schema_version, second.schema_version) == ("3", "3.0.5")
    assert "graph_launch" not in first.tables
    assert "graph_launch" in second.tables


def test_table_whose_base_begins_like_another_is_neither_its_table_nor_a_process(tmp_path: Path) -> None:
    """A draft of 3.0.3 had rocpd_event_operation; AMD's merge takes it for rocpd_event of a process `operation_...`."""
    path = write_small_trace(tmp_path / "t.db", WriterOptions(guid=GUID))
    edit(path, 'CREATE TABLE "rocpd_event_operation{_}" (id INTEGER PRIMARY KEY, event_id INTEGER)')
    [process] = processes_of(path)
    assert process.tables["event"].name == f"rocpd_event{process.suffix}"
    assert process.tables["event_operation"].name == f"rocpd_event_operation{process.suffix}"


def test_metadata_view_is_not_needed(tmp_path: Path) -> None:
    path = drop_views(write_small_trace(tmp_path / "t.db", WriterOptions(guid=GUID)))
    assert [process.label for process in processes_of(path)] == [GUID]


@pytest.mark.parametrize("statement", ["DROP TABLE", "DELETE FROM"])
def test_suffix_comes_from_the_table_names_where_metadata_are_missing(tmp_path: Path, statement: str) -> None:
    path = drop_views(write_small_trace(tmp_path / "t.db", WriterOptions(guid=GUID)))
    edit(path, f'{statement} "rocpd_metadata{{_}}"')
    [process] = processes_of(path)
    assert (process.label, process.schema_version, process.is_simulated) == (GUID, None, False)
    assert process.missing_tables == (("metadata",) if statement == "DROP TABLE" else ())


def test_metadata_of_other_columns_are_no_metadata(tmp_path: Path) -> None:
    path = drop_views(write_small_trace(tmp_path / "t.db", WriterOptions(guid=GUID)))
    edit(path, 'ALTER TABLE "rocpd_metadata{_}" RENAME COLUMN tag TO "key"')
    [process] = processes_of(path)
    assert process.metadata == {}


@pytest.mark.parametrize("suffix, label", [("0123abcd", "0123abcd"), ("", "trace"), ("_x", "x")])
def test_suffix_may_lack_its_underscore_or_be_empty(tmp_path: Path, suffix: str, label: str) -> None:
    path = sqlite_file(
        tmp_path / "trace.db",
        f"CREATE TABLE rocpd_metadata{suffix} (tag TEXT, value TEXT)",
        f"CREATE TABLE rocpd_info_thread{suffix} (id INTEGER PRIMARY KEY)",
        f"CREATE TABLE rocpd_kernel_dispatch{suffix} (id INTEGER PRIMARY KEY, start BIGINT)",
        f"INSERT INTO rocpd_metadata{suffix} VALUES ('schema_version', '3'), ('uuid', '{suffix}'), ('empty', NULL)",
    )
    [process] = processes_of(path)
    assert (process.suffix, process.label) == (suffix, label)
    assert sorted(process.tables) == ["info_thread", "kernel_dispatch", "metadata"]
    assert "string" in process.missing_tables
    assert process.metadata == {"schema_version": "3", "uuid": suffix}


def test_names_with_quotes_are_quoted(tmp_path: Path) -> None:
    assert quote_name('a"b') == '"a""b"'
    path = sqlite_file(
        tmp_path / "t.db", 'CREATE TABLE "rocpd_kernel_dispatch_a""b; --" (id INTEGER PRIMARY KEY, x INT)'
    )
    [process] = processes_of(path)
    assert process.has("kernel_dispatch", "id", "x")


# What is refused, and under which name


@pytest.mark.parametrize(
    "statements, reference, tool",
    [
        (
            ["CREATE TABLE rocpd_op (id)", "CREATE TABLE rocpd_api (id)", "CREATE TABLE rocpd_string (id)"],
            "rpd",
            "rocmProf",
        ),
        (['CREATE TABLE KERN ("Index", KernelName)'], "rocprof-v1", "rocprof (version 1"),
        (["CREATE TABLE OPS (gpu_id)", "CREATE TABLE HIP (x)"], "rocprof-v1", "rocprof (version 1"),
        (["CREATE TABLE compute_metadata (x)"], "rocprof-compute", "rocprof-compute"),
        (["CREATE TABLE StringIds (id)", "CREATE TABLE TARGET_INFO_GPU (id)"], "nsight", "Nsight"),
    ],
)
def test_database_of_another_profiler_is_refused_by_name(
    tmp_path: Path, statements: list[str], reference: str, tool: str
) -> None:
    error = refusal(sqlite_file(tmp_path / "t.db", *statements))
    assert isinstance(error, UnknownFormat)
    assert error.reference == f"not-rocpd-{reference}"
    assert tool in error.what
    assert error.hint


def test_database_of_something_else_is_refused_with_its_tables(tmp_path: Path) -> None:
    error = refusal(sqlite_file(tmp_path / "t.db", *(f"CREATE TABLE {name} (x)" for name in "gfbecad")))
    assert isinstance(error, UnknownFormat)
    assert error.what == "an SQLite database, but not of rocpd: its tables are a, b, c, d, e, ..."


def test_database_without_any_table_is_the_work_of_a_process_that_died(tmp_path: Path) -> None:
    error = refusal(sqlite_file(tmp_path / "t.db", "PRAGMA user_version = 1"))
    assert isinstance(error, DamagedFile)
    assert error.reference == "rocpd-no-tables"
    assert "died before it wrote its first row" in error.what


def test_views_without_tables_are_no_database(tmp_path: Path) -> None:
    error = refusal(sqlite_file(tmp_path / "t.db", "CREATE VIEW rocpd_event AS SELECT * FROM rocpd_event_x"))
    assert (error.reference, error.what) == ("rocpd-no-tables", "it has rocpd's views but none of its tables")


@pytest.mark.parametrize(
    "statements",
    [
        ["INSERT INTO rocpd_metadata{_} (tag, value) VALUES ('compression', 'lz4-frame-v1')"],
        ["CREATE TABLE rocpd_info_blob_schema{_} (id INTEGER PRIMARY KEY)"],
    ],
)
def test_compressed_columns_are_refused(tmp_path: Path, statements: list[str]) -> None:
    error = refusal(edit(write_small_trace(tmp_path / "t.db"), *statements))
    assert isinstance(error, UnsupportedVersion)
    assert error.reference == "rocpd-compressed"


@pytest.mark.parametrize("version", ["4", "4.1.0", "5.0.0", "2"])
def test_other_major_versions_are_refused_with_their_number(tmp_path: Path, version: str) -> None:
    path = write_small_trace(tmp_path / "t.db")
    edit(path, f"UPDATE rocpd_metadata{{_}} SET value = '{version}' WHERE tag = 'schema_version'")
    error = refusal(path)
    assert isinstance(error, UnsupportedVersion)
    assert error.what == f"rocpd schema version {version}; rocktools reads version 3 (3 to 3.0.5)"


def test_layout_of_version_4_that_says_3_is_refused(tmp_path: Path) -> None:
    path = edit(
        write_small_trace(tmp_path / "t.db"), "ALTER TABLE rocpd_kernel_dispatch{_} ADD COLUMN track_id INTEGER"
    )
    error = refusal(path)
    assert isinstance(error, UnsupportedVersion)
    assert "3, but with the layout of 4" in error.what


def test_version_is_judged_by_columns_where_no_number_is_given(tmp_path: Path) -> None:
    path = write_small_trace(tmp_path / "t.db")
    edit(path, "UPDATE rocpd_metadata{_} SET value = 'next' WHERE tag = 'schema_version'")
    with open_process(path) as (reader, process):
        assert len(read_dispatches(reader, process, "run", ["start_ns"])["start_ns"]) == 5
    edit(path, "ALTER TABLE rocpd_kernel_dispatch{_} ADD COLUMN track_id INTEGER")
    assert refusal(path).reference == "rocpd-version"


# extdata


@pytest.mark.parametrize(
    "text, expected",
    [
        ('{"a": 1}', {"a": 1}),
        ("{}", {}),
        ("", {}),
        ("''", {}),
        ("[1]", {}),
        ('{"a": ', {}),
        (None, {}),
        (b'{"a": 1}', {}),
        ('{"a":' * 100_000, {}),
        ('{"a": ' + "9" * 10_000 + "}", {}),
    ],
)
def test_extdata_is_an_object_or_nothing(text: object, expected: dict[str, object]) -> None:
    assert parse_extdata(text) == expected


# The real files


@pytest.mark.parametrize(
    "name, label, version",
    [
        ("rocprofv3-mi300x.db", "0000091e-2236-7236-be77-fa10e27b82e6", "3"),
        ("rocprofsys-mi350x.db", "3224963d0bd2e790224c3b2186eb8bd0", "3"),
    ],
)
def test_real_files_have_one_process_and_every_table(shared: Path, name: str, label: str, version: str) -> None:
    [process] = processes_of(shared / "data/rocpd" / name)
    assert (process.label, process.schema_version, process.missing_tables) == (label, version, ())
    assert set(process.tables) == set(BASE_TABLES)
    assert not process.is_simulated


def test_hand_made_file_has_a_suffix_without_underscore(shared: Path) -> None:
    [process] = processes_of(shared / "data/rocpd/minimal-handmade-v3.db")
    assert process.suffix
    assert not process.suffix.startswith("_")
    assert process.missing_tables == ("info_pmc", "info_code_object", "event", "arg", "pmc_event", "memory_allocate")


@pytest.mark.parametrize(
    "name, reference",
    [
        ("not-rocpd-rpd-matmul.rpd", "not-rocpd-rpd"),
        ("not-rocpd-rocprofv1-kern.db", "not-rocpd-rocprof-v1"),
        ("rocprof-compute-analysis.db", "not-rocpd-rocprof-compute"),
    ],
)
def test_real_files_of_other_formats_are_refused_by_name(shared: Path, name: str, reference: str) -> None:
    assert refusal(shared / "data/rocpd" / name).reference == reference
