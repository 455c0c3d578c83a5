"""A path -> read-only connections to the database there, or one plain error; the file itself is never changed.

What a writer that died leaves behind decides how SQLite may open a file (measured with SQLite 3.40 after SIGKILL):

* no `-journal` and no `-wal` beside it: `immutable=1`, which takes no lock, writes nothing, and works on read-only and
  network file systems;
* a `-journal`: opening in place would roll it back *into the user's file*, `immutable=1` would read torn pages. The
  pair is copied to a temporary folder and rolled back there;
* a `-wal`: `immutable=1` would see an empty database, a plain open would create files beside the user's. Copied too;
* somebody holds a write lock: it is still being written, and any lock of ours could make that writer fail. Refused.

SQLite puts journals beside the file that a symbolic link leads to, not beside the link, so they are looked for there.
"""

from __future__ import annotations

import contextlib
import os
import shlex
import shutil
import sqlite3
import stat
import struct
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from urllib.parse import quote

from rocktools.errors import DamagedFile, InputError, UnknownFormat
from rocktools.findings import Finding, Severity
from rocktools.sources.relatives import refuse_relative

MAGIC = b"SQLite format 3\x00"
_HEADER_BYTES = 100
_SMALLEST_PAGE_BYTES = 512
_INTERIOR_TABLE = 5  # first byte of a page of pointers to pages
_SIDECARS = ("-journal", "-wal")
_LONGEST_QUOTE = 200
_SHOWN_START = 40  # characters of a file that is something else

# SQLite's lock bytes lie at 1 GiB: PENDING, RESERVED, then 510 SHARED bytes. In WAL mode writers lock bytes 120-122
# of the -shm file instead.
_LOCK_RANGE_START = 0x40000000
_LOCK_RANGE_BYTES = 512
_SHM_WRITE_LOCK_START = 120
_SHM_WRITE_LOCK_BYTES = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadableDatabase:
    """A database that can be read safely, and what had to be done for that.

    Attributes:
        path: the user's file.
        uri: opens it, or the private copy made of it, for reading only; any SQLite library understands it.
        findings: doubts that this raised.
    """

    path: Path
    uri: str
    findings: tuple[Finding, ...]
    _cleanup: contextlib.ExitStack
    _in_place: Path | None  # the file, absolute, unless a copy is read
    _state: tuple[int, ...]

    def connect(self) -> sqlite3.Connection:
        """A new read-only connection, which the caller closes. It yields tuples.

        Raises:
            InputError: it is not there any more.
            DamagedFile: SQLite cannot read it, or it was written to since it was made readable.
        """
        self.require_unchanged()
        with translate_sqlite_errors(self.path):
            connection = sqlite3.connect(self.uri, uri=True)
            # A name with a byte that is no UTF-8 (a command line cut in the middle) must not cost the whole file.
            connection.text_factory = _decode_text
            try:
                connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
            except BaseException:
                connection.close()
                raise
        return connection

    def require_unchanged(self) -> None:
        """Check that nobody wrote to the file since it was made readable.

        Between two transactions a writer holds no lock, and what is read without locks while it goes on is a mixture.

        Raises: as `connect`.
        """
        if self._in_place is not None and self._state != _file_state(self._in_place):
            raise DamagedFile(
                "rocpd-changed",
                "the file was written to while it was read",
                where=str(self.path),
                hint="wait until the profiled process has ended, and read it again",
            )

    def close(self) -> None:
        """Remove the private copy, if there is one."""
        self._cleanup.close()

    def __enter__(self) -> ReadableDatabase:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def make_readable(path: Path) -> ReadableDatabase:
    """Find out how the SQLite database at `path` can be read; copy it where it must not be opened in place.

    Raises:
        InputError: there is no such file, or the system refuses to read it.
        UnknownFormat: it is not an SQLite database.
        DamagedFile: it is empty, truncated, torn, or still being written.
    """
    check_header(path)
    state = _file_state(path)
    check_writer(path)
    sidecar = find_sidecar(path)
    cleanup = contextlib.ExitStack()
    readable, findings = path, list[Finding]()
    try:
        if sidecar is not None:
            folder = cleanup.enter_context(tempfile.TemporaryDirectory(prefix="rocktools-"))
            readable = copy_with_sidecars(path, Path(folder))
            findings.append(_settle_copy(readable, path, sidecar))
    except BaseException:
        cleanup.close()
        raise
    uri = f"file:{_quote_path(readable.absolute())}?mode=ro&immutable=1"
    return ReadableDatabase(
        path=path,
        uri=uri,
        findings=tuple(findings),
        _cleanup=cleanup,
        _in_place=path.absolute() if sidecar is None else None,
        _state=state,
    )


def _file_state(path: Path) -> tuple[int, ...]:
    try:
        status = path.stat()
    except OSError as error:
        raise InputError(
            "unreadable-file",
            f"it cannot be opened any more: {error.strerror}",
            where=str(path),
            hint="was it moved or deleted meanwhile?",
        ) from error
    return status.st_size, status.st_mtime_ns  # no inode: some network file systems change theirs


def _quote_path(path: Path) -> str:
    """A path in a URI; bytes that are no UTF-8 are kept. What begins with // would name a host without two more."""
    quoted = quote(os.fsencode(path))
    return f"//{quoted}" if quoted.startswith("//") else quoted


def _decode_text(raw: bytes) -> str:
    return raw.decode("utf-8", errors="replace")


def check_header(path: Path) -> None:
    """Check that `path` is an SQLite database, and no shorter than its header says.

    Beside a journal or log the length says nothing: the header may have been written before the pages it counts.

    Raises: as `make_readable`.
    """
    header, size_bytes = read_header(path)
    if find_sidecar(path) is None:
        _check_length(path, header, size_bytes)


def read_header(path: Path) -> tuple[bytes, int]:
    """The first 100 bytes (or less) of an SQLite database, and its size in bytes.

    Raises:
        InputError: there is no such file, or the system refuses to read it.
        UnknownFormat: it is not an SQLite database.
        DamagedFile: it is empty.
    """
    try:
        status = path.stat()
        size_bytes = status.st_size
        if stat.S_ISDIR(status.st_mode):
            raise InputError("rocpd-is-folder", "a database file is needed, and this is a folder", where=str(path))
        if not stat.S_ISREG(status.st_mode):  # a pipe would be waited for, without end
            raise InputError("not-a-file", "a file is needed, and this is a pipe, socket or device", where=str(path))
        with path.open("rb") as stream:
            header = stream.read(_HEADER_BYTES)
    except FileNotFoundError as error:
        raise InputError("no-such-file", "there is no such file", where=str(path)) from error
    except OSError as error:
        raise InputError(
            "unreadable-file", f"the system refuses to read it: {error.strerror}", where=str(path)
        ) from error
    if not header.startswith(MAGIC):
        refuse_relative(path)
    if size_bytes == 0:
        raise DamagedFile(
            "rocpd-empty",
            "the file is empty: the profiled process was killed or failed before the tool wrote its rows",
            where=str(path),
            hint="look into the log of that process; make it exit by itself, since the tool writes at exit",
        )
    if not header.startswith(MAGIC[: len(header)]):
        raise UnknownFormat(
            "not-sqlite",
            f"not an SQLite database, so not a rocpd database (it begins with {_show_start(header)})",
            where=str(path),
            hint="give the *_results.db files of rocprofv3 or rocprof-sys",
        )
    return header, size_bytes


def _show_start(header: bytes) -> str:
    """What a file begins with: its first line if that is text, else some bytes."""
    line = header.decode("utf-8", errors="replace").partition("\n")[0].replace("\t", " ").strip()[:_SHOWN_START]
    if line and line.isprintable() and "\ufffd" not in line:
        return f"the text {line}"
    return f"the bytes {header[:16].hex(' ')}"


def _check_length(path: Path, header: bytes, size_bytes: int) -> None:
    promised_bytes = promised_size_bytes(header)
    if len(header) < _HEADER_BYTES or (promised_bytes is not None and promised_bytes > size_bytes):
        promise = "a database header" if promised_bytes is None else f"{promised_bytes:,} bytes as its header says"
        raise DamagedFile(
            "rocpd-truncated",
            f"the file is cut short: {size_bytes:,} bytes are there, not {promise}",
            where=str(path),
            hint="copy it again"
            + (
                f", or save what is left: rocktools rocpd recover {shlex.quote(str(path))} -o recovered.db"
                if _has_list_of_tables(path, size_bytes)
                else "; nothing is left in it to recover"
            ),
        )


def _has_list_of_tables(path: Path, size_bytes: int) -> bool:
    """Whether a file that was cut short still has a page of the list of its tables; without one no row can be saved."""
    with path.open("rb") as stream:
        header = stream.read(_HEADER_BYTES)
        page_bytes = _page_bytes(header)
        if not _SMALLEST_PAGE_BYTES <= page_bytes <= size_bytes:
            return False
        page = header + stream.read(page_bytes - _HEADER_BYTES)
    if page[_HEADER_BYTES] != _INTERIOR_TABLE:
        return True  # the list is on the first page
    cells_count = int.from_bytes(page[_HEADER_BYTES + 3 : _HEADER_BYTES + 5], "big")
    places = [_HEADER_BYTES + 8]  # the last child; the others are where the pointers behind it lead
    places += [int.from_bytes(page[at : at + 2], "big") for at in range(_HEADER_BYTES + 12, page_bytes, 2)][
        :cells_count
    ]
    children = (int.from_bytes(page[place : place + 4], "big") for place in places)
    return any(1 < child * page_bytes <= size_bytes for child in children)


def promised_size_bytes(header: bytes) -> int | None:
    """The size an SQLite header gives for its file, or None where it gives none (SQLite file format, 1.3.8)."""
    if len(header) < _HEADER_BYTES:
        return None
    changes, pages_count, valid_for = (struct.unpack(">I", header[at : at + 4])[0] for at in (24, 28, 92))
    if pages_count == 0 or changes != valid_for:
        return None
    return int(pages_count) * _page_bytes(header)


def _page_bytes(header: bytes) -> int:
    stored = int.from_bytes(header[16:18], "big")
    return 65536 if stored == 1 else stored


def find_sidecar(path: Path) -> Path | None:
    """The journal or write-ahead log that lies beside a database and has something to say, or None.

    A journal of which the first byte is 0 is what `journal_mode=PERSIST` leaves after each commit.

    Raises:
        InputError: the system refuses to read it.
    """
    for suffix in _SIDECARS:
        sidecar = _beside(path, suffix)
        try:
            with sidecar.open("rb") as stream:
                first = stream.read(1)
        except (FileNotFoundError, IsADirectoryError):
            continue
        except OSError as error:
            raise InputError(
                "unreadable-file",
                f"the system refuses to read what its writer left beside it: {error.strerror}",
                where=str(sidecar),
            ) from error
        if first and (first != b"\0" or suffix != "-journal"):
            return sidecar
    return None


def _beside(path: Path, suffix: str) -> Path:
    target = Path(os.path.realpath(path))
    return target.with_name(target.name + suffix)


def check_writer(path: Path) -> None:
    """Check that no other process is writing the database.

    The locks are asked for, never taken (F_GETLK), so that a running job cannot fail because we looked.

    Raises:
        DamagedFile: a process holds a write lock on it.
    """
    shm = _beside(path, "-shm")
    holder = _write_lock_holder(path, _LOCK_RANGE_START, _LOCK_RANGE_BYTES)
    if holder is None and shm.is_file():
        holder = _write_lock_holder(shm, _SHM_WRITE_LOCK_START, _SHM_WRITE_LOCK_BYTES)
    if holder is not None:
        by = f"process {holder}" if holder > 0 else "a process on another host"
        raise DamagedFile(
            "rocpd-locked",
            f"the file is still being written by {by}",
            where=str(path),
            hint="wait until the profiled process has ended",
        )


def _write_lock_holder(path: Path, start: int, length: int) -> int | None:
    """Process id that holds a write lock in that range of bytes; None where nobody does or the system cannot tell."""
    try:
        import fcntl  # not on Windows
    except ImportError:
        return None
    if sys.platform.startswith("linux"):
        layout, fields = "hhqqi4x", (fcntl.F_RDLCK, 0, start, length, 0)
        kind_at, pid_at = 0, 4
    elif sys.platform == "darwin":
        layout, fields = "qqihh", (start, length, 0, fcntl.F_RDLCK, 0)
        kind_at, pid_at = 3, 2
    else:
        return None
    try:
        with path.open("rb") as stream:
            answer = fcntl.fcntl(stream, fcntl.F_GETLK, struct.pack(layout, *fields))
    except OSError:  # no locks on this file system
        return None
    values = struct.unpack(layout, answer)
    return None if values[kind_at] == fcntl.F_UNLCK else int(values[pid_at])


def copy_with_sidecars(path: Path, folder: Path) -> Path:
    """Copy a database and what lies beside it into `folder`; return the copy's path.

    Raises:
        InputError: the copy fails, usually because the disk is full.
    """
    copy = folder / path.name
    try:
        shutil.copyfile(path, copy)
        for suffix in _SIDECARS:
            sidecar = _beside(path, suffix)
            if sidecar.is_file():
                shutil.copyfile(sidecar, copy.with_name(copy.name + suffix))
    except OSError as error:
        raise InputError(
            "copy-failed",
            f"it was left in the middle of a write, and cannot be copied to be read safely: {error.strerror}",
            where=f"{path} -> {folder}",
            hint="set TMPDIR to a folder with more room",
        ) from error
    return copy


def _settle_copy(copy: Path, path: Path, sidecar: Path) -> Finding:
    """Let SQLite roll the private copy back (or forward, from a write-ahead log), and say so."""
    with translate_sqlite_errors(path), contextlib.closing(sqlite3.connect(copy)) as connection:
        connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
        connection.execute("PRAGMA journal_mode=DELETE").fetchone()
    is_journal = sidecar.name.endswith("-journal")
    return Finding(
        rule="rocpd-hot-journal" if is_journal else "rocpd-write-ahead-log",
        severity=Severity.WARNING,
        where=str(path),
        message=(
            f"it was being written when its process died ({sidecar.name} lies beside it); read from a private copy "
            "that was "
            + ("rolled back to the last complete state, so rows may be missing" if is_journal else "brought up to date")
        ),
        numbers={"sidecar_bytes": sidecar.stat().st_size},
        advice=f"rocktools rocpd recover {shlex.quote(str(path))} -o recovered.db" if is_journal else "",
    )


@contextlib.contextmanager
def translate_sqlite_errors(path: Path, table: str | None = None) -> Iterator[None]:
    """Turn SQLite's own exceptions into ours, naming the file and the table that was being read.

    Raises:
        DamagedFile: SQLite found the file damaged or locked, or the system failed to read it.
        InputError: it is not there any more, or may not be opened.
    """
    where = f"{path}, table {table}" if table else str(path)
    try:
        yield
    except sqlite3.ProgrammingError:  # a fault of ours
        raise
    except UnicodeDecodeError as error:  # of SQLite's message: it quotes what is damaged
        raise _malformed(path, where, "that a part of the schema is no text") from error
    except sqlite3.DatabaseError as error:
        text = str(error).partition("\n")[0][:_LONGEST_QUOTE]  # a damaged view is quoted whole
        if text.startswith("database ") and text.endswith(" locked"):  # `busy` is also a view of rocpd
            raise DamagedFile("rocpd-locked", "the file is in use", where=where, hint="wait for its writer") from error
        if text.startswith("no such"):
            raise DamagedFile(
                "rocpd-columns", f"it is not laid out as rocpd: SQLite says {text!r}", where=where
            ) from error
        if text.startswith("unable to open"):
            raise InputError(
                "unreadable-file",
                "it cannot be opened any more",
                where=where,
                hint="it was there a moment ago: was it moved, deleted or closed meanwhile?",
            ) from error
        if text.startswith("disk I/O error"):
            raise DamagedFile(
                "rocpd-io-error",
                "the system cannot read the file (some network file systems fail this way)",
                where=where,
                hint="copy it to a local disk and read it there",
            ) from error
        raise _malformed(path, where, repr(text)) from error


def _malformed(path: Path, where: str, said: str) -> DamagedFile:
    return DamagedFile(
        "rocpd-malformed",
        f"the database is damaged: SQLite says {said}",
        where=where,
        hint=f"save what is left: rocktools rocpd recover {shlex.quote(str(path))} -o recovered.db",
    )
