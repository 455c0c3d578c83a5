"""The examples in README.md and docs/tasks/: found, run one after the other in a new folder, compared, renewed.

In a block marked `console`, a line that begins with `$ ` is a command, and the lines below it are what it prints:
results, then findings. `$ echo $?` below a command shows its exit code, which is 0 where nothing is shown. A line `...`
stands for any number of lines. A command without any output below it is only run. Commands of rocktools, and the few
of `SHELL_COMMANDS` that prepare files for them, are run; others, such as those that need a GPU, are not. Blocks marked
`python` are run in between, in the same folder.
"""

from __future__ import annotations

import contextlib
import io
import os
import shlex
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

WIDTH_CELLS = 120  # of the tables in the examples
SHELL_COMMANDS = ("cp", "head", "ls", "mkdir", "touch")
ANY_LINES = "..."
_FENCE = "```"


@dataclass(slots=True)
class Example:
    """A command of rocktools or of the shell, or a block of Python.

    Attributes:
        language: `console` or `python`.
        line: where it begins in the document, from 1.
        text: the command, or the code.
        output: what the document says it prints; `output_line` is the first of these lines.
        exit_code: what the document says.
    """

    language: str
    line: int
    text: str
    output: list[str] = field(default_factory=list)
    exit_code: int = 0

    @property
    def is_rocktools(self) -> bool:
        return self.language == "console" and shlex.split(self.text)[:1] == ["rocktools"]

    @property
    def is_run(self) -> bool:
        return self.language == "python" or self.is_rocktools or shlex.split(self.text)[0] in SHELL_COMMANDS


def parse_examples(document: str) -> list[Example]:
    """The examples of a document, in their order."""
    examples: list[Example] = []
    language = ""
    for number, line in enumerate(document.splitlines(), start=1):
        if line.startswith(_FENCE):
            language = "" if language else line.removeprefix(_FENCE).strip() or "text"
            if language == "python":
                examples.append(Example(language, number + 1, ""))
        elif language == "python":
            examples[-1].text += f"{line}\n"
        elif language == "console" and line.startswith("$ "):
            examples.append(Example(language, number, line.removeprefix("$ ")))
        elif language == "console":
            examples[-1].output.append(line)
    return _with_exit_codes(examples)


def _with_exit_codes(examples: Sequence[Example]) -> list[Example]:
    kept: list[Example] = []
    for example in examples:
        if example.text == "echo $?":
            kept[-1].exit_code = int(example.output[0])
        else:
            kept.append(example)
    return kept


def run_example(example: Example, folder: Path) -> tuple[list[str], int]:
    """Run it in `folder`; the lines it prints, and its exit code."""
    if example.language == "python":
        with _in_folder(folder) as printed:
            exec(compile(example.text, f"line {example.line} of the document", "exec"), {"__name__": "example"})
        return printed(), 0
    if example.is_rocktools:
        from rocktools.cli.main import main

        arguments = shlex.split(example.text)
        with _in_folder(folder) as printed:
            sys.argv = arguments
            exit_code = main(arguments[1:])
        return printed(), exit_code
    ran = subprocess.run(["bash", "-c", example.text], cwd=folder, capture_output=True, text=True, check=False)
    return (ran.stdout + ran.stderr).splitlines(), ran.returncode


@contextlib.contextmanager
def _in_folder(folder: Path) -> Iterator[Printed]:
    """Run what is inside in `folder`, tables `WIDTH_CELLS` wide; gives a function that says what it printed."""
    streams = [io.TextIOWrapper(io.BytesIO(), encoding="utf-8") for _ in range(2)]
    before = (sys.stdout, sys.stderr, sys.argv, os.environ.get("COLUMNS"), Path.cwd())
    sys.stdout, sys.stderr = streams
    os.environ["COLUMNS"] = str(WIDTH_CELLS)
    os.chdir(folder)
    try:
        yield Printed(streams)
    finally:
        sys.stdout, sys.stderr, sys.argv, columns, old_folder = before
        os.chdir(old_folder)
        if columns is None:
            del os.environ["COLUMNS"]
        else:
            os.environ["COLUMNS"] = columns


class Printed:
    """What was printed: standard output, then standard error."""

    def __init__(self, streams: Sequence[io.TextIOWrapper]) -> None:
        self._streams = streams

    def __call__(self) -> list[str]:
        texts = []
        for stream in self._streams:
            stream.flush()
            buffer = stream.buffer
            assert isinstance(buffer, io.BytesIO)
            texts.append(buffer.getvalue().decode("utf-8"))
        return [line.rstrip() for line in "".join(texts).splitlines()]


def matches(expected: Sequence[str], printed: Sequence[str]) -> bool:
    """Whether the lines are the expected ones, `...` standing for any number of lines; blank lines at the end aside."""
    expected, printed = _without_blank_end(expected), _without_blank_end(printed)
    if not expected:
        return not printed
    first, *others = expected
    if first == ANY_LINES:
        return any(matches(others, printed[skipped:]) for skipped in range(len(printed) + 1))
    return bool(printed) and first == printed[0] and matches(others, printed[1:])


def _without_blank_end(lines: Sequence[str]) -> Sequence[str]:
    end = len(lines)
    while end and not lines[end - 1].strip():
        end -= 1
    return lines[:end]


def renewed(document: str, folder: Path) -> tuple[str, list[str]]:
    """The document with what its examples print now, and complaints about what cannot be renewed."""
    lines = document.splitlines()
    complaints = []
    shift = 0
    for example in parse_examples(document):
        if not example.is_run:
            continue
        printed, exit_code = run_example(example, folder)
        where = f"line {example.line}: {example.text.splitlines()[0]}"
        if exit_code != example.exit_code:
            complaints.append(f"{where}: ended with {exit_code}, not with {example.exit_code}")
        if example.language != "console" or not _without_blank_end(example.output):
            continue
        if matches(example.output, printed):
            continue
        if ANY_LINES in example.output:
            complaints.append(f"{where}: prints something else now, and has lines left out: renew it by hand")
            continue
        first = example.line + shift
        last = first + len(_without_blank_end(example.output))
        lines[first:last] = _without_blank_end(printed)
        shift += len(_without_blank_end(printed)) - (last - first)
    return "\n".join(lines) + "\n", complaints
