"""The command to profile -> words that every rocprof-compute hands over unchanged, and a script for those that are not.

Releases before 3.10 join the words with blanks and split them again, so quotes and blanks are lost. Plain words go as
they are. For others a script of ours stands in the workload's folder:

* `python [flags] script arguments` becomes `python [flags] run-SLUG.py`, which runs the script in the same process;
* anything else becomes `run-SLUG.sh`, which is replaced by the command. 3.5 and 3.6 were seen to abort with shell
  scripts, so there a finding says it.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from rocktools.errors import UsageError

# Words that come through unchanged whether they are joined with blanks, split again, or handed to a shell.
_PLAIN = re.compile(r"[A-Za-z0-9_@+=:,./-]+")
_PYTHON = re.compile(r"python[0-9.]*")
# Flags of Python without a value. With some of them the folder of the script is no place to import from.
_FLAGS = re.compile(r"-[bBdEiIOPqsSuvx]+")
_ISOLATED = frozenset("IP")


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandFile:
    """A file that has to be there before a command is started: executable, new, written as it is."""

    path: Path
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ApplicationWords:
    """What stands behind `--`.

    Attributes:
        words: plain ones.
        files: the script that they start; empty where there is none.
        is_shell: whether it is one of the shell.
    """

    words: tuple[str, ...]
    files: tuple[CommandFile, ...] = ()
    is_shell: bool = False


def application_words(folder: Path, slug: str, application: Sequence[str]) -> ApplicationWords:
    """Words for an application that runs in `folder`.

    Raises:
        UsageError: there is none, or its program is not named by its full path.
    """
    _require_application(application)
    if _are_plain(application):
        return ApplicationWords(words=tuple(application))
    flags_count = sum(1 for _ in _leading_flags(application))
    script = application[flags_count + 1 :]
    head = tuple(application[: flags_count + 1])
    is_python = _PYTHON.fullmatch(Path(application[0]).name) is not None
    if is_python and script and not script[0].startswith("-") and _are_plain(head):
        file = CommandFile(path=folder / f"run-{slug}.py", text=_python_text(head[1:], script))
        return ApplicationWords(words=(*head, _name_of(file.path)), files=(file,))
    # exec: the process that the profiler watches becomes the application.
    file = CommandFile(path=folder / f"run-{slug}.sh", text=f"#!/bin/sh\nexec {shlex.join(application)}\n")
    return ApplicationWords(words=(_name_of(file.path),), files=(file,), is_shell=True)


def _leading_flags(application: Sequence[str]) -> list[str]:
    flags = []
    for word in application[1:]:
        if not _FLAGS.fullmatch(word):
            break
        flags.append(word)
    return flags


def _python_text(flags: Sequence[str], script: Sequence[str]) -> str:
    """A script that becomes another one, with its arguments: `__main__` and all."""
    is_isolated = any(_ISOLATED & set(flag) for flag in flags)
    lines = ["import runpy", "import sys", "", f"sys.argv = {list(script)!a}"]
    if not is_isolated:
        lines.append(f"sys.path[0] = {str(Path(script[0]).parent)!a}")
    return "\n".join([*lines, f'runpy.run_path({script[0]!a}, run_name="__main__")', ""])


def _name_of(path: Path) -> str:
    """A path in plain words: the tool runs in its folder."""
    return str(path) if _are_plain([str(path)]) else f"./{path.name}"


def _are_plain(words: Sequence[str]) -> bool:
    return all(_PLAIN.fullmatch(word) for word in words)


def _require_application(application: Sequence[str]) -> None:
    if not application:
        raise UsageError("compute-no-application", "there is no application to profile")
    if not Path(application[0]).is_absolute():
        raise UsageError(
            "compute-application-relative",
            f"{application[0]} is no absolute path: rocprof-compute runs in another folder, under another Python",
            hint="name the program, or the interpreter of the replay, by its full path",
        )
