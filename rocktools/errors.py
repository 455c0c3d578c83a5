"""Every error rocktools raises on purpose, and the exit code each one ends a command with.

    RocktoolsError                      1
    ├── UsageError                      2   the command line, or the arguments of a call, ask for something impossible
    ├── InputError                      1   a file of the user's cannot be used
    │   ├── UnknownFormat               1   it is something else; what it is, is named
    │   ├── UnsupportedVersion          1   the right format in a version we do not read
    │   ├── DamagedFile                 1   empty, truncated, torn, or still being written
    │   └── NothingToRead               1   readable, but without the rows that were asked for
    ├── CaptureError                    1   something could not be started, or cannot be recorded
    │   ├── ToolNotFound                1   an executable is not where it is looked for
    │   ├── ToolFailed                  1   an executable ran and failed, or gave no answer in time
    │   └── PreflightFailed             1   the machine or its settings would spoil the run; nothing was started
    ├── FormulaError                    1   a formula cannot be parsed, or its units do not fit
    ├── ReplayError                     1   a replay cannot be made, or cannot run
    │   └── CannotExtract               1   the instruction has no replay of its own; what to extract instead is named
    ├── MissingExtra                    1   an optional library is needed; how to install it is named
    └── ContractError                   1   a fault of ours: a frame broke its contract

The library raises; the command line renders. Messages say what happened, where, and what to do next.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable

EXIT_GOOD = 0
EXIT_FAILURE = 1
EXIT_USAGE = 2
EXIT_GATE = 3


class RocktoolsError(Exception):
    """Base of all expected failures.

    Args:
        reference: kebab-case name of the failure, stable across releases, for searching and for scripts.
        what: one sentence, what happened.
        where: file, then table, row, line or byte offset; None where no place is meant.
        hint: what to do next, usually a command to try; None where nothing helps.
    """

    exit_code = EXIT_FAILURE

    def __init__(self, reference: str, what: str, *, where: str | None = None, hint: str | None = None) -> None:
        super().__init__(reference, what)  # both: what unpickles an error calls it with these
        self.reference = reference
        self.what = what
        self.where = where
        self.hint = hint

    def __str__(self) -> str:
        lines = [f"{self.reference}: {self.what}"]
        if self.where:
            lines.append(f"  where: {self.where}")
        if self.hint:
            lines.append(f"  try: {self.hint}")
        return "\n".join(lines)


class UsageError(RocktoolsError):
    exit_code = EXIT_USAGE


class InputError(RocktoolsError):
    pass


class UnknownFormat(InputError):
    pass


class UnsupportedVersion(InputError):
    pass


class DamagedFile(InputError):
    pass


class NothingToRead(InputError):
    pass


class CaptureError(RocktoolsError):
    pass


class ToolNotFound(CaptureError):
    pass


class ToolFailed(CaptureError):
    pass


class PreflightFailed(CaptureError):
    pass


class FormulaError(RocktoolsError):
    pass


class ReplayError(RocktoolsError):
    pass


class CannotExtract(ReplayError):
    pass


class MissingExtra(RocktoolsError):
    pass


class ContractError(RocktoolsError):
    pass


def nearest_names(wanted: str, known: Iterable[str], *, at_most: int = 3) -> list[str]:
    """The names in `known` that look most like `wanted`, best first; empty where none is near."""
    by_lower = {name.lower(): name for name in known}
    return [by_lower[m] for m in difflib.get_close_matches(wanted.lower(), by_lower, n=at_most, cutoff=0.55)]
