"""Options that several commands share, declared once.

A command that prints a table decorates itself with `table_options()` and takes one argument `output`, which it hands on
to `emit_table`. What cannot work is refused here, before the command starts to read anything.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from rocktools.cli.output import TableFormat, TableOutput, require_new_path, require_stdout
from rocktools.errors import UsageError

_Function = Callable[..., Any]
_FORMATS_BY_SUFFIX = {
    "": TableFormat.TABLE,
    ".txt": TableFormat.TABLE,
    ".csv": TableFormat.CSV,
    ".json": TableFormat.JSON,
    ".parquet": TableFormat.PARQUET,
    ".md": TableFormat.MARKDOWN,
}


def table_options(*, top_count: int | None = None) -> Callable[[_Function], _Function]:
    """Adds `--format`, `-o/--output` and, with `top_count`, `--top`; the function gets them as `output: TableOutput`.

    Args:
        top_count: rows of a table on standard output unless `--top` says otherwise; files and other formats get all.
    """

    def decorate(function: _Function) -> _Function:
        @functools.wraps(function)
        def with_output(
            *args: Any, format_name: str | None, output_path: Path | None, top: int | None = None, **options: Any
        ) -> Any:
            table_format = _chosen_format(format_name, output_path)
            if top is None:
                is_shown = table_format is TableFormat.TABLE and output_path is None
                top = top_count if top_count is not None and is_shown else 0
            output = TableOutput(table_format=table_format, path=output_path, top_count=top)
            _require_writable(output)
            return function(*args, output=output, **options)

        decorated: _Function = with_output
        if top_count is not None:
            decorated = _top_option(top_count)(decorated)
        return _format_option(output_option(decorated))

    return decorate


paths_argument = click.argument("paths", metavar="PATH...", nargs=-1, required=True, type=str)


optional_paths_argument = click.argument("paths", metavar="PATH...", nargs=-1, type=str)
"""For commands with an option that may take a value or not, and so may swallow the only path: see `split_hlo`."""

_FIND_HLO = ""  # --hlo without a value
hlo_option = click.option(
    "--hlo",
    "hlo",
    metavar="[FILE]",
    is_flag=False,
    flag_value=_FIND_HLO,
    type=str,
    help="Link dispatches to the compiled program: FILE is what XLA dumped (HLO text or proto with the thunk sequence "
    "beside it, or the folder), or a JAX profile. Without FILE: hlo/ of the run directory, HLO in the profile.",
)


def split_hlo(paths: tuple[str, ...], hlo: str | None) -> tuple[tuple[str, ...], tuple[str, ...] | None]:
    """The paths to read, and the compiled programs that were named: () to look for them, None without --hlo.

    `kernels --hlo run` means that run, though the parser takes it for the value of the option.

    Raises:
        UsageError: no path at all.
    """
    if not paths and hlo:
        paths, hlo = (hlo,), _FIND_HLO
    if not paths:
        raise UsageError(
            "no-files", "no file, folder or pattern was named", hint="PATH comes before --hlo: PATH... [--hlo [FILE]]"
        )
    return paths, None if hlo is None else (hlo,) if hlo else ()


def _split_columns(_context: click.Context, _parameter: click.Parameter, value: str | None) -> tuple[str, ...] | None:
    return tuple(name.strip() for name in value.split(",")) if value else None


columns_option = click.option(
    "--columns",
    metavar="A,B,...",
    callback=_split_columns,
    help="Only these columns, beside those of the key.",
)


def match_option(what: str) -> Callable[[_Function], _Function]:
    """Adds `--match`.

    Args:
        what: the rows whose name is searched: "kernels whose clean name has".
    """
    return click.option(
        "--match",
        metavar="REGEX",
        help=f"Only {what} a match of this Python regex; case-sensitive, unless it begins with (?i).",
    )


def _stdout_is_dash(_context: click.Context, _parameter: click.Parameter, value: Path | None) -> Path | None:
    return None if value == Path("-") else value


output_option = click.option(
    "-o",
    "--output",
    "output_path",
    metavar="FILE",
    type=click.Path(path_type=Path),
    callback=_stdout_is_dash,
    help="Write to this new file; a file that is there already is never overwritten.  [default: standard output]",
)

_format_option = click.option(
    "--format",
    "format_name",
    type=click.Choice([name.value for name in TableFormat]),
    help="What the table is written as.  [default: by --output's suffix (.txt .csv .json .parquet .md), else table]",
)


def _top_option(top_count: int) -> Callable[[_Function], _Function]:
    return click.option(
        "--top",
        metavar="N",
        type=click.IntRange(min=0),
        help=f"Rows to show; 0: all.  [default: {top_count} in a table on standard output, else all]",
    )


def _chosen_format(format_name: str | None, output_path: Path | None) -> TableFormat:
    if format_name is not None:
        return TableFormat(format_name)
    suffix = output_path.suffix.lower() if output_path is not None else ""
    if suffix not in _FORMATS_BY_SUFFIX:
        known = ", ".join(filter(None, _FORMATS_BY_SUFFIX))
        raise UsageError(
            "unknown-suffix",
            f"the suffix {suffix!r} names no format; known are {known}, and no suffix is a text table",
            where=str(output_path),
            hint=f"another name, or --format {'|'.join(name.value for name in TableFormat)}",
        )
    return _FORMATS_BY_SUFFIX[suffix]


def _require_writable(output: TableOutput) -> None:
    """Refuse now what would fail at the end of the command.

    Raises:
        UsageError: the file is there already or cannot be made, or Parquet would go to a terminal.
        RocktoolsError: standard output is closed.
    """
    if output.path is not None:
        require_new_path(output.path)
        return
    require_stdout()
    if output.table_format is TableFormat.PARQUET and _is_terminal():
        raise UsageError(
            "binary-to-terminal", "Parquet is binary and standard output is a terminal", hint="-o FILE.parquet"
        )


def _is_terminal() -> bool:
    return sys.stdout.isatty()
