"""What a command puts out: its table on standard output or in a new file, findings on standard error."""

from __future__ import annotations

import io
import json
import os
import shlex
import shutil
import stat
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, TextIO

import click

from rocktools.errors import EXIT_FAILURE, EXIT_GOOD, RocktoolsError, UsageError
from rocktools.findings import Finding, Severity, has_fault, sort_findings
from rocktools.units import count_noun

if TYPE_CHECKING:
    from rocktools.render.table import Table

_WIDTH_CELLS = 160  # of a table that goes to a file or a pipe
_FINDINGS_PER_RULE = 3


class TableFormat(str, Enum):
    """What a table is written as."""

    TABLE = "table"
    CSV = "csv"
    JSON = "json"
    PARQUET = "parquet"
    MARKDOWN = "markdown"

    def __str__(self) -> str:
        return self.value


@dataclass(frozen=True, slots=True, kw_only=True)
class TableOutput:
    """How and where a command writes its table.

    Attributes:
        table_format: what it is written as.
        path: the file, not there yet; None: standard output.
        top_count: rows to write, from the first; 0: all.
    """

    table_format: TableFormat = TableFormat.TABLE
    path: Path | None = None
    top_count: int = 0


def emit_table(table: Table, output: TableOutput, *, findings: Iterable[Finding] | None = None) -> None:
    """Write the table in the chosen format to the chosen place.

    Args:
        findings: of the command, for the formats that have a place for them; None: it looks for none.

    Raises:
        UsageError: the file is there by now, or cannot be made.
        RocktoolsError: the file could not be written to its end; nothing of it is left.
        MissingExtra: the format needs a library that is not installed.
    """
    from rocktools.render.table import top_rows

    table = top_rows(table, output.top_count)
    if findings is not None:
        table = replace(table, findings=tuple(sort_findings(findings)))
    with _opened(output) as stream:
        _write_table(table, output, stream)
    _say_what_was_cut(table, output)
    _say_what_was_written(output, count_noun(len(table.frame), "row"))


def emit_tables(
    tables: Sequence[Table], output: TableOutput, *, schema: str, head: Mapping[str, object], preface: str = ""
) -> None:
    """Write several tables to one place: one after the other as text or Markdown, or as one JSON document.

    Args:
        schema: name and version of the JSON document.
        head: what stands before the tables in it.
        preface: what stands before them as text and Markdown, with the end of its last line.

    Raises:
        UsageError: the file is there by now, or cannot be made; or the format holds one table only.
        RocktoolsError: the file could not be written to its end; nothing of it is left.
    """
    from rocktools.render.json_table import write_json_tables
    from rocktools.render.markdown import render_markdown
    from rocktools.render.text import render_text

    if output.table_format in (TableFormat.CSV, TableFormat.PARQUET):
        raise UsageError("one-table-format", f"{output.table_format} holds one table; these are {len(tables)}")
    with _opened(output) as stream, _as_text(stream) as text_stream:
        if output.table_format is TableFormat.JSON:
            write_json_tables(tables, text_stream, schema=schema, head=head)
        elif output.table_format is TableFormat.MARKDOWN:
            text_stream.write(preface + "\n".join(map(render_markdown, tables)))
        else:
            text_stream.write(preface)
            width, is_whole = _width_cells(output), not _is_for_a_screen(output)
            texts = [render_text(table, width=width, is_whole=is_whole, other_format="json") for table in tables]
            text_stream.write("\n".join(texts))
    rows_count = sum(len(table.frame) for table in tables)
    _say_what_was_written(output, f"{count_noun(len(tables), 'table')}, {count_noun(rows_count, 'row')}")


def emit_document(document: Mapping[str, object], output: TableOutput) -> None:
    """Write one JSON document.

    Raises:
        UsageError: the file is there by now, or cannot be made.
        RocktoolsError: the file could not be written to its end; nothing of it is left.
    """
    with _opened(output) as stream, _as_text(stream) as text_stream:
        json.dump(document, text_stream, ensure_ascii=False, indent=1)
        text_stream.write("\n")
    _say_what_was_written(output, str(document.get("schema", "a document")))


@contextmanager
def _opened(output: TableOutput) -> Iterator[BinaryIO]:
    """The place to write to: standard output, a device, or a new file that appears when it is whole."""
    if output.path is None:
        with _failure_told("standard output"), _buffered_stdout() as stream:
            yield stream
    elif _is_device(output.path):
        with _failure_told(str(output.path)), output.path.open("wb") as stream:
            yield stream
    else:
        with new_file(output.path) as partial, partial.open("wb") as stream:
            yield stream


@contextmanager
def _as_text(stream: BinaryIO) -> Iterator[TextIO]:
    """The stream for text. Lone surrogates, from names that are not UTF-8, are spelled out; JSON turns them back."""
    text_stream = io.TextIOWrapper(stream, encoding="utf-8", errors="backslashreplace", newline="")
    try:
        yield text_stream
        text_stream.flush()
    finally:
        text_stream.detach()


def emit_findings(findings: Iterable[Finding], *, at_most: int = _FINDINGS_PER_RULE) -> None:
    """Findings on standard error, heaviest first, then how many there were of each severity.

    Args:
        at_most: shown of one rule; the others are counted.
    """
    ordered = sort_findings(findings)
    if not ordered:
        return
    groups: dict[tuple[Severity, str], list[Finding]] = {}
    for finding in ordered:
        groups.setdefault((finding.severity, finding.rule), []).append(finding)
    for (_, rule), group in groups.items():
        for finding in group[:at_most]:
            click.echo(str(finding), err=True)
        if len(group) > at_most:
            click.echo(f"... and {len(group) - at_most} more of [{rule}]", err=True)
    counts = Counter(finding.severity for finding in ordered)
    summary = ", ".join(f"{count} {severity}{'s' if count > 1 else ''}" for severity, count in counts.items())
    click.echo(f"findings: {summary}", err=True)


def exit_code_of(findings: Iterable[Finding]) -> int:
    """1 where a finding is a fault (a named file could not be read, rows had to be left out), else 0."""
    return EXIT_FAILURE if has_fault(findings) else EXIT_GOOD


@contextmanager
def new_file(path: Path) -> Iterator[Path]:
    """A temporary path beside `path` to write to; it becomes `path` at the end, and is removed if anything fails.

    Raises:
        UsageError: `path` is there already (a device or pipe, which would be replaced, included) or cannot be made.
        RocktoolsError: writing failed (disk full, ...).
    """
    require_new_path(path)
    if _is_device(path):
        raise UsageError("output-is-device", "the output must be a file, but is a device or pipe", where=str(path))
    partial = path.with_name(f".{path.name}.{os.getpid()}.partial")
    try:
        with _failure_told(str(path)):
            yield partial
            require_new_path(path)  # it may have appeared in the meantime
            partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)


@contextmanager
def _failure_told(where: str) -> Iterator[None]:
    """Turns a failed write (disk full, no permission) into our error; a closed pipe stays what it is."""
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        raise RocktoolsError("output-failed", f"could not write: {error.strerror or error}", where=where) from error


def require_new_path(path: Path) -> None:
    """Refuse a path at which no new file can be made. Devices and named pipes are written to, not replaced.

    Raises:
        UsageError: something is there already, or the folder is not.
    """
    if path.is_dir():
        raise UsageError("output-is-folder", "the output must be a file, but is a folder", where=str(path))
    is_dangling_link = path.is_symlink() and not path.exists()
    if path.is_file() or is_dangling_link:
        raise UsageError(
            "output-exists",
            "the file is there already, and results are never overwritten",
            where=str(path),
            hint="another name, or remove the file first",
        )
    if not path.parent.is_dir():
        raise UsageError(
            "output-folder-missing",
            "the folder of the output does not exist",
            where=str(path.parent),
            hint=f"mkdir -p {shlex.quote(str(path.parent))}",
        )


def require_stdout() -> None:
    """Refuse to write to standard output where whoever started us has closed it (`>&-`).

    Raises:
        RocktoolsError: it is closed.
    """
    # The interpreter has no stream then, which the types of `sys` do not say.
    if sys.stdout is None:
        raise RocktoolsError(
            "output-closed", "standard output is closed", hint="-o FILE, or leave standard output open"
        )


@contextmanager
def _buffered_stdout() -> Iterator[BinaryIO]:
    """Standard output for bytes. With PYTHONUNBUFFERED it is a raw file, whose writes may end halfway, in silence."""
    require_stdout()
    raw = sys.stdout.buffer
    if not isinstance(raw, io.RawIOBase):
        yield raw
        return
    buffered = io.BufferedWriter(raw)
    try:
        yield buffered
    finally:
        buffered.detach()


def _is_device(path: Path) -> bool:
    """Whether it takes what is written to it, as /dev/stdout or a named pipe does, and cannot be overwritten."""
    return path.exists() and not path.is_file() and not path.is_dir()


def _write_table(table: Table, output: TableOutput, stream: BinaryIO) -> None:
    from rocktools.render.csv_table import write_csv
    from rocktools.render.json_table import write_json
    from rocktools.render.markdown import render_markdown
    from rocktools.render.parquet_table import write_parquet
    from rocktools.render.text import render_text

    if output.table_format is TableFormat.PARQUET:
        whole = io.BytesIO()  # Parquet asks for positions, which a pipe has not
        write_parquet(table, whole)
        stream.write(whole.getbuffer())
        stream.flush()
        return
    with _as_text(stream) as text_stream:
        if output.table_format is TableFormat.CSV:
            write_csv(table, text_stream)
        elif output.table_format is TableFormat.JSON:
            write_json(table, text_stream)
        elif output.table_format is TableFormat.MARKDOWN:
            text_stream.write(render_markdown(table))
        else:
            is_whole = not _is_for_a_screen(output)
            text_stream.write(render_text(table, width=_width_cells(output), is_whole=is_whole))


def _width_cells(output: TableOutput) -> int:
    """The width of the terminal, or `_WIDTH_CELLS` where the table goes elsewhere; COLUMNS goes before both."""
    if output.path is not None and "COLUMNS" not in os.environ:
        return _WIDTH_CELLS
    return shutil.get_terminal_size((_WIDTH_CELLS, 0)).columns


def _is_for_a_screen(output: TableOutput) -> bool:
    """Whether somebody looks at it in the width that we know of, and can ask again for what did not fit."""
    if output.path is not None:
        return False
    return sys.stdout.isatty() or ("COLUMNS" in os.environ and not _is_redirected_to_a_file())


def _is_redirected_to_a_file() -> bool:
    try:
        return stat.S_ISREG(os.fstat(sys.stdout.fileno()).st_mode)
    except OSError:
        return False  # it is no stream of the system, as in tests


def _say_what_was_written(output: TableOutput, what: str) -> None:
    if output.path is not None:
        click.echo(f"wrote {output.path}: {what}", err=True)


def _say_what_was_cut(table: Table, output: TableOutput) -> None:
    """CSV has no place for it; a table and the other formats say it themselves."""
    if table.cut_rows_count and output.table_format is TableFormat.CSV:
        click.echo(f"cut: {len(table.frame):,} of {table.rows_count:,} rows written; --top 0 writes all", err=True)
