"""What a profiled run wrote to stderr -> findings for the texts that are known, and the result files it announced.

No text proves that a run is good, and most harmful failures print nothing at all: this explains what the check of the
rows finds, and never replaces it.
"""

from __future__ import annotations

import functools
import io
import itertools
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple, TextIO

from rocktools.capture.tool_messages import KNOWN_TEXTS, KnownText
from rocktools.errors import InputError
from rocktools.findings import Finding, Number

_LINE_CHARACTERS = 8192  # a longer line is taken in pieces
_BATCH_LINES = 200
_SHOWN_VALUES = 6
_KEPT_VALUES = 100

# lib/output of rocprofiler-sdk: output_stream.cpp for all formats, generateRocpd.cpp with the UUID. Shown at log level
# error, so not with `--log-level fatal`.
_OPENED = re.compile(r"Opened result file: (?P<path>[^\r\n]+?)(?: \(UUID=(?P<uuid>[0-9A-Fa-f-]+)\))?[ \t]*$")


class OpenedFile(NamedTuple):
    """A result file that rocprofv3 said it opens; whether it was finished is another matter.

    Attributes:
        path: as it was written; where it is relative, to the working directory of the run.
        uuid: of a rocpd database; None for other formats.
    """

    path: Path
    uuid: str | None


def scan_stderr(text: str, where: str) -> list[Finding]:
    """One finding for each known text that occurs, in the order of the table, with the number of its lines.

    Args:
        text: what was written.
        where: the file it comes from, for the findings.
    """
    return _scan(_lines(io.StringIO(text, newline="")), where, KNOWN_TEXTS)


def scan_stderr_file(path: Path, *, texts: Sequence[KnownText] = KNOWN_TEXTS) -> list[Finding]:
    """The same for a file of any size, some hundred lines at a time.

    Args:
        texts: to look for; of several that find something in a line, the first.

    Raises:
        InputError: it cannot be read.
    """
    return _scan(_lines_of_file(path), str(path), texts)


def opened_files(text: str) -> list[OpenedFile]:
    """The result files that were announced, in order; one that was announced twice stands there twice."""
    return _opened(_lines(io.StringIO(text, newline="")))


def opened_files_in_file(path: Path) -> list[OpenedFile]:
    """The same for a file of any size.

    Raises:
        InputError: it cannot be read.
    """
    return _opened(_lines_of_file(path))


def read_tail(path: Path, *, at_most_bytes: int = 1_000_000) -> str:
    """The end of a log as text, from the start of a line on; all of it where it is short.

    Raises:
        InputError: it cannot be read.
    """
    try:
        with path.open("rb") as file:
            start = max(0, file.seek(0, io.SEEK_END) - at_most_bytes)
            file.seek(start)
            text = file.read(at_most_bytes).decode("utf-8", errors="replace")
    except OSError as error:
        raise _unreadable(path, error) from error
    return text if start == 0 else text.partition("\n")[2]


def _lines(stream: TextIO) -> Iterator[str]:
    """Lines with their ends, which may be \\r too: progress bars write it. Long ones in pieces."""
    return iter(functools.partial(stream.readline, _LINE_CHARACTERS), "")


def _lines_of_file(path: Path) -> Iterator[str]:
    try:
        with path.open(encoding="utf-8", errors="replace", newline="") as stream:
            yield from _lines(stream)
    except OSError as error:
        raise _unreadable(path, error) from error


def _unreadable(path: Path, error: OSError) -> InputError:
    return InputError("log-unreadable", f"{path} cannot be read: {error.strerror}")


def _opened(lines: Iterable[str]) -> list[OpenedFile]:
    matches = (_OPENED.search(line.rstrip("\r\n")) for line in lines if "Opened result file" in line)
    return [OpenedFile(Path(match["path"]), match["uuid"]) for match in matches if match]


@dataclass(slots=True)
class _Tally:
    """What one rule has found so far."""

    first_line: int
    lines_count: int = 0
    values: dict[str, dict[str, None]] = field(default_factory=dict)  # ordered sets

    def add(self, values: Mapping[str, tuple[str, ...]]) -> None:
        self.lines_count += 1
        for name, several in values.items():
            kept = self.values.setdefault(name, {})
            for value in several:
                if len(kept) < _KEPT_VALUES:
                    kept.setdefault(value)


def _scan(lines: Iterator[str], where: str, texts: Sequence[KnownText]) -> list[Finding]:
    tallies: dict[str, _Tally] = {}
    line_number = 1
    while batch := list(itertools.islice(lines, _BATCH_LINES)):
        text = "".join(batch)
        rows = [row for row in texts if any(needle in text for needle in row.needles)]
        for line in batch:
            for row in rows:
                if any(needle in line for needle in row.needles) and (match := row.pattern.search(line)):
                    tallies.setdefault(row.rule, _Tally(line_number)).add(row.read_values(match))
                    break
            line_number += line.endswith("\n")  # as editors count
    first = {row.rule: row for row in reversed(texts)}
    order = dict.fromkeys(row.rule for row in texts)
    return [_finding(first[rule], tallies[rule], where) for rule in order if rule in tallies]


def _finding(row: KnownText, tally: _Tally, where: str) -> Finding:
    numbers: dict[str, Number] = {"lines_count": tally.lines_count}
    for name, values in tally.values.items():
        if name.endswith(("_number", "_count")):
            numbers[name] = max(int(value) for value in values)
    shown = {name: _list_values(tuple(tally.values.get(name, ()))) for name in re.findall(r"{(\w+)}", row.message)}
    return Finding(
        rule=row.rule,
        severity=row.severity,
        where=f"{where}, line {tally.first_line}",
        message=row.message.format_map(shown),
        numbers=numbers,
        advice=row.advice,
    )


def _list_values(values: tuple[str, ...]) -> str:
    if not values:
        return "unknown"
    more = f" and {len(values) - _SHOWN_VALUES} more" if len(values) > _SHOWN_VALUES else ""
    return ", ".join(values[:_SHOWN_VALUES]) + more
