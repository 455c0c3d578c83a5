"""Opening a database: whatever its writer left behind, the right rows or one plain error, and nothing changed."""

from __future__ import annotations

import os
import shlex
import signal
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest
from rocpd_files import edit, read_sql, write_small_trace

from rocktools.errors import DamagedFile, InputError, UnknownFormat
from rocktools.findings import Severity
from rocktools.sources.rocpd.columns import Field, TableReader
from rocktools.sources.rocpd.opening import (
    find_sidecar,
    make_readable,
    promised_size_bytes,
    translate_sqlite_errors,
)

_HEADER_BYTES = 100

# Writes to the database it is given, prints "ready" in the middle, and goes on when a line comes.
_WRITER = """
import sqlite3, sys
path, begin, *statements = sys.argv[1:]
connection = sqlite3.connect(path, isolation_level=None)
for statement in begin.split(";"):
    connection.execute(statement)
for statement in statements:
    connection.execute(statement)
print("ready", flush=True)
sys.stdin.readline()
connection.execute("COMMIT")
connection.close()
print("committed", flush=True)
"""
# A hundred thousand rows through a cache of ten pages: SQLite must write uncommitted pages into the file.
_SPILL = """
INSERT INTO bulk WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 100000) SELECT i, 'new' FROM n
"""


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    folder = tmp_path / "out"
    folder.mkdir()
    return write_small_trace(folder / "1_results.db")


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder that private copies go to."""
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    return folder


def contents(folder: Path) -> dict[str, tuple[bytes, int]]:
    """Every file of a folder with its bytes and its time of change."""
    return {path.name: (path.read_bytes(), path.stat().st_mtime_ns) for path in folder.iterdir()}


def dispatches_count(path: Path) -> int:
    """Dispatches of a database, read as the readers do."""
    with make_readable(path) as database, closing(database.connect()) as connection:
        [(name,)] = connection.execute("SELECT name FROM sqlite_master WHERE name LIKE 'rocpd_kernel_dispatch_%'")
        return int(connection.execute(f'SELECT count(*) FROM "{name}"').fetchone()[0])


class Writer:
    """A process that has begun to write to a database and waits."""

    def __init__(self, path: Path, begin: str, *statements: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", _WRITER, str(path), begin, *statements],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self._line() == "ready"

    def _line(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline().strip()

    def commit(self) -> str:
        """Let it go on; what it says then."""
        assert self.process.stdin is not None
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        return self._line()

    def kill(self) -> None:
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()
        for stream in (self.process.stdin, self.process.stdout):
            if stream is not None:
                stream.close()


@pytest.fixture
def start_writer() -> Iterator[Callable[..., Writer]]:
    writers: list[Writer] = []

    def start(path: Path, begin: str, *statements: str) -> Writer:
        writers.append(Writer(path, begin, *statements))
        return writers[-1]

    yield start
    for writer in writers:
        writer.kill()


# What is no database


def test_path_without_a_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError) as caught:
        make_readable(tmp_path / "gone.db")
    assert caught.value.reference == "no-such-file"
    assert caught.value.where == str(tmp_path / "gone.db")
    assert list(tmp_path.iterdir()) == []


def test_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError) as caught:
        make_readable(tmp_path)
    assert caught.value.reference == "rocpd-is-folder"


def test_pipe_is_refused_and_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.db")
    with pytest.raises(InputError) as caught:
        make_readable(tmp_path / "pipe.db")
    assert caught.value.reference == "not-a-file"


def test_broken_link_is_a_missing_file(tmp_path: Path) -> None:
    (tmp_path / "link.db").symlink_to(tmp_path / "gone.db")
    with pytest.raises(InputError) as caught:
        make_readable(tmp_path / "link.db")
    assert caught.value.reference == "no-such-file"


def test_empty_file_says_that_the_process_died_before_its_rows(tmp_path: Path) -> None:
    path = tmp_path / "1_results.db"
    path.touch()
    with pytest.raises(DamagedFile) as caught:
        make_readable(path)
    assert str(caught.value) == (
        "rocpd-empty: the file is empty: the profiled process was killed or failed before the tool wrote its rows\n"
        f"  where: {path}\n"
        "  try: look into the log of that process; make it exit by itself, since the tool writes at exit"
    )


def test_text_is_named_by_its_first_bytes(tmp_path: Path) -> None:
    path = tmp_path / "trace.db"
    path.write_text("Kernel_Name,Start\n")
    with pytest.raises(UnknownFormat) as caught:
        make_readable(path)
    assert caught.value.reference == "not-sqlite"
    assert caught.value.what.endswith("(it begins with the text Kernel_Name,Start)")


@pytest.mark.parametrize(
    "content, shown",
    [
        (b"one\ttwo\r\nthree", "the text one two"),
        ("é".encode() * 60, f"the text {'é' * 40}"),
        (b"\x1f\x8b\x08\x00rest", "the bytes 1f 8b 08 00 72 65 73 74"),
        (b"\n\nx", "the bytes 0a 0a 78"),
    ],
)
def test_start_of_what_is_no_database_is_shown_as_text_or_bytes(tmp_path: Path, content: bytes, shown: str) -> None:
    path = tmp_path / "trace.db"
    path.write_bytes(content)
    with pytest.raises(UnknownFormat) as caught:
        make_readable(path)
    assert caught.value.what.endswith(f"(it begins with {shown})")


@pytest.mark.parametrize(
    "name, reference",
    [
        ("1_results.json", "not-rocpd-json"),
        ("1_kernel_trace.csv", "not-rocpd-csv"),
        ("1.otf2", "not-rocpd-timeline"),
    ],
)
def test_output_of_other_kinds_is_refused_by_name(tmp_path: Path, name: str, reference: str) -> None:
    path = tmp_path / name
    for content in (b"", b"Kernel_Name,Start\n"):
        path.write_bytes(content)
        with pytest.raises(UnknownFormat) as caught:
            make_readable(path)
        assert caught.value.reference == reference
        assert "rocktools trace" in str(caught.value.hint)


def test_database_is_read_whatever_its_name(tmp_path: Path) -> None:
    assert dispatches_count(write_small_trace(tmp_path / "1_kernel_trace.csv")) == 5


# What is cut short


@pytest.mark.parametrize("length", [1, 5, 15, 16, 50, 99, 100, 4095, 4096, 4097, 20_000])
def test_start_of_a_database_is_called_truncated_with_both_lengths(trace: Path, length: int) -> None:
    whole = trace.read_bytes()
    trace.write_bytes(whole[:length])
    with pytest.raises(DamagedFile) as caught:
        make_readable(trace)
    assert caught.value.reference == "rocpd-truncated"
    assert f"{length:,} bytes are there" in caught.value.what
    assert length < _HEADER_BYTES or f"{len(whole):,} bytes" in caught.value.what
    assert str(caught.value.hint).startswith("copy it again")


def test_advised_command_can_be_pasted_whatever_the_path(tmp_path: Path) -> None:
    path = write_small_trace(tmp_path / "it's cut [1].db")
    path.write_bytes(path.read_bytes()[:-5_000])
    with pytest.raises(DamagedFile) as caught:
        make_readable(path)
    command = str(caught.value.hint).partition(": ")[2]
    assert shlex.split(command) == ["rocktools", "rocpd", "recover", str(path), "-o", "recovered.db"]


def test_every_prefix_of_a_database_is_refused(trace: Path) -> None:
    whole = trace.read_bytes()
    for length in [*range(130), *range(130, len(whole), 1_021), len(whole) - 1]:
        trace.write_bytes(whole[:length])
        with pytest.raises(DamagedFile):
            make_readable(trace)


def test_header_that_promises_more_pages_than_there_are_is_truncated(trace: Path) -> None:
    header = bytearray(trace.read_bytes())
    pages_count = int.from_bytes(header[28:32], "big")
    header[28:32] = (pages_count + 7).to_bytes(4, "big")
    trace.write_bytes(header)
    with pytest.raises(DamagedFile) as caught:
        make_readable(trace)
    assert f"{(pages_count + 7) * 4096:,} bytes as its header says" in caught.value.what


def test_header_of_an_old_writer_gives_no_size(trace: Path) -> None:
    """Writers before SQLite 3.7 leave the version-valid-for number behind, and then the size means nothing."""
    header = bytearray(trace.read_bytes())
    header[92:96] = bytes(4)
    header[28:32] = (10**6).to_bytes(4, "big")
    trace.write_bytes(header)
    assert promised_size_bytes(bytes(header[:_HEADER_BYTES])) is None
    assert dispatches_count(trace) == 5


def test_page_size_of_65536_is_written_as_1() -> None:
    header = bytearray(_HEADER_BYTES)
    header[16:18] = b"\x00\x01"
    header[28:32] = (3).to_bytes(4, "big")
    assert promised_size_bytes(bytes(header)) == 3 * 65_536


def test_page_damaged_in_the_middle_is_an_error_with_the_table(tmp_path: Path) -> None:
    path = write_small_trace(tmp_path / "1_results.db")
    edit(path, *_fill("rocpd_kernel_dispatch{_}", 2_000))
    with closing(sqlite3.connect(path)) as connection:
        [(name, root)] = connection.execute(
            "SELECT name, rootpage FROM sqlite_master WHERE name LIKE 'rocpd_kernel_dispatch_%'"
        )
    damaged = bytearray(path.read_bytes())
    damaged[(root - 1) * 4096 : root * 4096] = b"\xff" * 4096
    path.write_bytes(damaged)
    # Counting already fails; where it does not, because the number of rows was known, the reading does.
    for accelerate, rows_count in ((None, None), (False, None), (False, 2_005)):
        with make_readable(path) as database, TableReader(database, accelerate=accelerate) as reader:
            with pytest.raises(DamagedFile) as caught:
                reader.ints(f'"{name}"', [Field("start", '"start"')], rows_count=rows_count)
            assert caught.value.reference == "rocpd-malformed"
            assert name in str(caught.value.where)
            with pytest.raises(DamagedFile):
                reader.rows(f'SELECT * FROM "{name}"')


def _fill(table: str, count: int) -> list[str]:
    columns = 'nid, pid, agent_id, kernel_id, queue_id, stream_id, start, "end", workgroup_size_x, workgroup_size_y'
    columns += ", workgroup_size_z, grid_size_x, grid_size_y, grid_size_z"
    return [
        f"INSERT INTO {table} (dispatch_id, {columns}) WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n"
        f" WHERE i < {count}) SELECT i + 100, {columns} FROM n, {table} WHERE id = 1"
    ]


# What a dead writer left beside it


def kill_mid_transaction(path: Path, start_writer: Callable[..., Writer]) -> None:
    edit(path, "CREATE TABLE bulk (i INTEGER, text TEXT)", "INSERT INTO bulk VALUES (0, 'old')")
    [(name,)] = read_sql(path, "SELECT name FROM sqlite_master WHERE name LIKE 'rocpd_kernel_dispatch_%'")
    writer = start_writer(path, "PRAGMA cache_size=10;BEGIN", f'DELETE FROM "{name}"', "DELETE FROM bulk", _SPILL)
    writer.kill()
    assert path.with_name(f"{path.name}-journal").stat().st_size > 0


def test_hot_journal_is_rolled_back_in_a_private_copy(
    trace: Path, temporary: Path, start_writer: Callable[..., Writer]
) -> None:
    kill_mid_transaction(trace, start_writer)
    before = contents(trace.parent)
    assert b"new" in before[trace.name][0], "the file is torn, or this test shows nothing"
    with make_readable(trace) as database:
        with closing(database.connect()) as connection:
            assert connection.execute("SELECT * FROM bulk").fetchall() == [(0, "old")]
        [finding] = database.findings
        assert len(list(temporary.iterdir())) == 1
    assert (finding.rule, finding.severity) == ("rocpd-hot-journal", Severity.WARNING)
    assert finding.numbers == {"sidecar_bytes": len(before[f"{trace.name}-journal"][0])}
    assert "rocktools rocpd recover" in finding.advice
    assert dispatches_count(trace) == 5
    assert contents(trace.parent) == before
    assert list(temporary.iterdir()) == []


def test_journal_is_found_where_a_link_leads(
    trace: Path, tmp_path: Path, temporary: Path, start_writer: Callable[..., Writer]
) -> None:
    kill_mid_transaction(trace, start_writer)
    link = tmp_path / "link.db"
    link.symlink_to(trace)
    with make_readable(link) as database, closing(database.connect()) as connection:
        assert connection.execute("SELECT * FROM bulk").fetchall() == [(0, "old")]
    assert find_sidecar(link) == trace.with_name(f"{trace.name}-journal")


def test_write_ahead_log_is_applied_in_a_private_copy(
    trace: Path, temporary: Path, start_writer: Callable[..., Writer]
) -> None:
    writer = start_writer(
        trace, "PRAGMA journal_mode=WAL;BEGIN", "CREATE TABLE late (i INTEGER)", "INSERT INTO late VALUES (42)"
    )
    writer.commit()  # its last connection takes the log away, so another one leaves it
    writer = start_writer(trace, "BEGIN", "INSERT INTO late VALUES (43)", "COMMIT", "BEGIN")
    writer.kill()
    before = contents(trace.parent)
    assert before[f"{trace.name}-wal"][0] != b""
    with make_readable(trace) as database, closing(database.connect()) as connection:
        assert connection.execute("SELECT i FROM late").fetchall() == [(42,), (43,)]
        assert [finding.rule for finding in database.findings] == ["rocpd-write-ahead-log"]
    assert contents(trace.parent) == before
    assert list(temporary.iterdir()) == []


def test_empty_and_spent_journals_are_not_hot(trace: Path) -> None:
    """`journal_mode=TRUNCATE` leaves an empty file after each commit, PERSIST one whose header is zeroed."""
    journal = trace.with_name(f"{trace.name}-journal")
    for left in (b"", bytes(512), bytes(28) + b"pages of before"):
        journal.write_bytes(left)
        before = contents(trace.parent)
        with make_readable(trace) as database:
            assert database.findings == ()
        assert dispatches_count(trace) == 5
        assert contents(trace.parent) == before


def test_journal_of_the_very_first_transaction_leaves_no_tables(tmp_path: Path, temporary: Path) -> None:
    """Rolled back, the database has no page at all; that is for the readers of its tables to say."""
    path = tmp_path / "1_results.db"
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE t (i)")
    journal = bytearray(512)
    journal[:28] = (
        b"\xd9\xd5\x05\xf9\x20\xa1\x63\xd7" + bytes(12) + (512).to_bytes(4, "big") + (4096).to_bytes(4, "big")
    )
    path.with_name(f"{path.name}-journal").write_bytes(journal)
    with make_readable(path) as database, closing(database.connect()) as connection:
        assert connection.execute("SELECT count(*) FROM sqlite_master").fetchone() == (0,)


def test_copy_that_cannot_be_made_is_an_error_and_leaves_nothing(
    trace: Path, temporary: Path, start_writer: Callable[..., Writer], monkeypatch: pytest.MonkeyPatch
) -> None:
    kill_mid_transaction(trace, start_writer)

    def refuse(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("shutil.copyfile", refuse)
    with pytest.raises(InputError) as caught:
        make_readable(trace)
    assert caught.value.reference == "copy-failed"
    assert "No space left on device" in caught.value.what
    assert "TMPDIR" in str(caught.value.hint)
    assert list(temporary.iterdir()) == []


def test_journal_and_database_that_do_not_go_together_end_in_an_error(trace: Path, temporary: Path) -> None:
    journal = trace.with_name(f"{trace.name}-journal")
    journal.write_bytes(b"\xd9\xd5\x05\xf9\x20\xa1\x63\xd7" + b"\xff" * 4_000)
    trace.write_bytes(trace.read_bytes()[:2_000])
    with pytest.raises(DamagedFile):
        make_readable(trace)
    assert list(temporary.iterdir()) == []


# What is still being written


@pytest.mark.parametrize("begin", ["BEGIN IMMEDIATE", "BEGIN EXCLUSIVE"])
def test_database_under_a_write_lock_is_refused_and_its_writer_not_disturbed(
    trace: Path, start_writer: Callable[..., Writer], begin: str
) -> None:
    edit(trace, "CREATE TABLE late (i INTEGER)")
    writer = start_writer(trace, begin, "INSERT INTO late VALUES (1)")
    for _ in range(3):
        with pytest.raises(DamagedFile) as caught:
            make_readable(trace)
        assert caught.value.reference == "rocpd-locked"
        assert f"process {writer.process.pid}" in caught.value.what
    assert writer.commit() == "committed"
    assert read_sql(trace, "SELECT i FROM late") == [(1,)]
    assert dispatches_count(trace) == 5


def test_write_ahead_log_that_is_being_written_is_refused(trace: Path, start_writer: Callable[..., Writer]) -> None:
    edit(trace, "CREATE TABLE late (i INTEGER)")
    writer = start_writer(trace, "PRAGMA journal_mode=WAL;BEGIN IMMEDIATE", "INSERT INTO late VALUES (1)")
    with pytest.raises(DamagedFile) as caught:
        make_readable(trace)
    assert caught.value.reference == "rocpd-locked"
    assert f"process {writer.process.pid}" in caught.value.what
    assert writer.commit() == "committed"


def test_reader_elsewhere_is_no_writer(trace: Path, start_writer: Callable[..., Writer]) -> None:
    start_writer(trace, "BEGIN", "SELECT count(*) FROM sqlite_master")
    assert dispatches_count(trace) == 5


# Where it lies and what it is called


def test_write_ahead_log_mode_without_a_log_creates_nothing(trace: Path) -> None:
    """A plain open would create a `-shm` file beside it, or fail in a folder that is read-only."""
    edit(trace, "PRAGMA journal_mode=WAL")
    assert not trace.with_name(f"{trace.name}-wal").exists()
    before = contents(trace.parent)
    trace.chmod(0o444)
    trace.parent.chmod(0o555)
    try:
        assert dispatches_count(trace) == 5
        assert contents(trace.parent) == before
    finally:
        trace.parent.chmod(0o755)


@pytest.mark.parametrize(
    "name",
    ["with space.db", "what?.db", "a#b.db", "100%25.db", "réseau-日本.db", "a&mode=rw.db", "'quoted\".db", ";.db"],
)
@pytest.mark.parametrize("accelerate", [False, None])
def test_any_name_can_be_read(tmp_path: Path, name: str, accelerate: bool | None) -> None:
    folder = tmp_path / name.removesuffix(".db")
    folder.mkdir()
    path = write_small_trace(folder / name)
    before = contents(folder)
    with make_readable(path) as database, TableReader(database, accelerate=accelerate) as reader:
        assert reader.ints("sqlite_master", [Field("rootpage", "rootpage")])["rootpage"].values.any()
    assert contents(folder) == before


def test_name_that_is_no_utf8_can_be_read(trace: Path) -> None:
    path = Path(os.fsdecode(os.fsencode(trace.parent) + b"/caf\xe9.db"))
    try:
        trace.rename(path)
    except OSError:
        pytest.skip("this file system takes UTF-8 names only")
    assert dispatches_count(path) == 5


def test_two_leading_slashes_name_no_host(trace: Path) -> None:
    assert dispatches_count(Path(f"/{trace}")) == 5


def test_relative_path_stays_valid_when_the_working_folder_changes(
    trace: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(trace.parent)
    with make_readable(Path(trace.name)) as database:
        monkeypatch.chdir(tmp_path)
        with closing(database.connect()) as connection:
            assert connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0] > 20


def test_link_is_read_through(trace: Path, tmp_path: Path) -> None:
    (tmp_path / "link.db").symlink_to(trace)
    assert dispatches_count(tmp_path / "link.db") == 5


def test_connection_refuses_to_write(trace: Path) -> None:
    with make_readable(trace) as database, closing(database.connect()) as connection:
        with pytest.raises(sqlite3.OperationalError):
            connection.execute("CREATE TABLE t (i)")
        with pytest.raises(sqlite3.OperationalError):
            connection.execute("PRAGMA user_version = 7")


def test_text_that_is_no_utf8_does_not_cost_the_file(trace: Path) -> None:
    edit(trace, "UPDATE rocpd_info_process{_} SET command = CAST(x'70796874686f6e20e9' AS TEXT)")
    with make_readable(trace) as database, closing(database.connect()) as connection:
        [(name,)] = connection.execute("SELECT name FROM sqlite_master WHERE name LIKE 'rocpd_info_process_%'")
        assert connection.execute(f'SELECT command FROM "{name}"').fetchall() == [("pyhthon \ufffd",)]


def test_file_that_went_away_is_not_called_damaged(trace: Path) -> None:
    database = make_readable(trace)
    trace.unlink()
    with pytest.raises(InputError) as caught:
        database.connect()
    assert caught.value.reference == "unreadable-file"


def test_file_that_is_written_to_between_two_transactions_of_its_writer_is_no_result(trace: Path) -> None:
    """No lock is held then; what is read is a mixture of before and after."""
    with make_readable(trace) as database:
        reader = TableReader(database, accelerate=False)
        with pytest.raises(DamagedFile) as caught, reader:
            edit(trace, "CREATE TABLE late (i INTEGER)")
        assert caught.value.reference == "rocpd-changed"
        with pytest.raises(DamagedFile):
            database.connect()


# SQLite's words in ours


@pytest.mark.parametrize(
    "text, reference",
    [
        ("database is locked", "rocpd-locked"),
        ("disk I/O error", "rocpd-io-error"),
        ("unable to open database file", "unreadable-file"),
        ("database table is locked", "rocpd-locked"),
        ("no such column: start", "rocpd-columns"),
        ("database disk image is malformed", "rocpd-malformed"),
        ("malformed database schema (busy) - is locked", "rocpd-malformed"),
        ("file is not a database", "rocpd-malformed"),
    ],
)
def test_errors_of_sqlite_are_translated_with_the_file_and_the_table(text: str, reference: str) -> None:
    with pytest.raises(InputError) as caught, translate_sqlite_errors(Path("x.db"), "rocpd_event"):
        raise sqlite3.OperationalError(text)
    assert caught.value.reference == reference
    assert caught.value.where == "x.db, table rocpd_event"
    assert isinstance(caught.value.__cause__, sqlite3.OperationalError)


def test_damaged_view_is_not_quoted_whole() -> None:
    with pytest.raises(DamagedFile) as caught, translate_sqlite_errors(Path("x.db")):
        raise sqlite3.DatabaseError("malformed database schema (top) - near SELECT\n" + "SELECT " * 500)
    assert caught.value.what.endswith("'malformed database schema (top) - near SELECT'")


def test_errors_of_ours_pass_through_the_translation() -> None:
    with pytest.raises(KeyError), translate_sqlite_errors(Path("x.db")):
        raise KeyError("ours")
