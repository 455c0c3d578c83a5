"""Misbehaviour on demand: `ROCKTOOLS_STANDIN_FAULT=name[:argument][@where],...`.

`@where` limits a fault to some runs of the application: a number is the run (1 is the first; over several calls of
rocprofv3 they are counted in ROCKTOOLS_STANDIN_STATE), a counter's name is every run that collects it, `pmc` is every
run that collects any, `trace` every run that collects none. A name that does not exist ends the stand-in with code 99,
so that no test passes by a slip.
"""

from __future__ import annotations

import sys
from collections.abc import Collection
from dataclasses import dataclass

# Name -> what it does. An argument in brackets is optional.
FAULTS = {
    # Counters
    "unknown-counter": "[NAME, else the last of the group]: the device does not have it; a warning, exit code 0",
    "over-full": "[hang]: the group counts as too large: SIGABRT at the first counted dispatch, or a hang instead",
    "small-block": "BLOCK=N: this block of the device has fewer slots; rocprofv3-avail knows",
    "zero-counters": "[NAME, else all]: every value is 0",
    "missing-counter": "[NAME, else the last of the group]: no rows of it, and no warning",
    "replay-collapse": "[TIMES, else 2]: the rows of every counter are there several times, on one dispatch",
    "replay-once": "kernel replay gives up on every dispatch: only the first group is collected",
    # Kernels and dispatches
    "no-kernel": "no kernel is selected, so there are no records and no file",
    "missing-kernel": "[NAME, else the first]: its dispatches are not there",
    "extra-dispatch": "[NAME, else the first]: one more dispatch of it, at the end",
    "other-geometry": "[NAME, else the first]: its dispatches have twice the grid",
    "duplicate-dispatches": "every dispatch is there twice, under one id",
    "outlier": "one dispatch lasts a million times as long, and its cycle counters say so",
    "inverted-timestamps": "one dispatch ends before it starts",
    "lost-graph-kernels": "[RATIO, else 0.65]: this part of the dispatches is not there, as after graph launches",
    "calls-only": "host calls are there, kernels are not",
    # Processes
    "same-file": "two processes write under one pid (and so one name, even with %pid%): the last one wins",
    "dropped-process": "the last process writes nothing; with one process in the scenario there are two",
    "orphan": "[SECONDS, else 60]: a child process lives on after the end",
    # Databases
    "partial-db": "tables and the row of the node, nothing else",
    "truncated-db": "the file is cut in half",
    "hot-journal": "killed (SIGKILL) in the middle of a write: the journal stays beside the file",
    "empty-db": "a file of no bytes",
    "unannounced": "files are written, but no line on stderr says so",
    "announced-only": "the line is there, the file is not",
    # How it ends
    "hang": "[collectives]: it never ends; SIGINT and SIGTERM end it, with half of the records written; with "
    "`collectives` only where one is counted",
    "hang-ignoring-sigint": "as hang, but only SIGTERM ends it",
    "hang-ignoring-all": "only SIGKILL ends it",
    "exit-code": "CODE: the application ends with this code",
    "segfault": "[graphs]: SIGSEGV, nothing is written; with `graphs` only where XLA's command buffers are on",
    "abort": "SIGABRT in the application, nothing is written",
    "killed": "SIGKILL, as by the kernel when memory is short",
    "crash-at-output": "[hip]: double free while files are written: SIGABRT; with `hip` SIGSEGV, if HIP is traced",
    "slow-finalise": "SECONDS: between the application's end and the files; signals wait",
    "stale-spill": "the file of unsaved records stays behind",
    # Texts
    "perfmon-warning": "the device could not be locked for profiling",
    "caught-signal": "a worker was ended by signal 15 before it was done",
    "comgr-conflict": "two copies of LLVM in one process: an error, then a hang",
    "munmap": "[pipe]: the ring buffer cannot be unmapped: SIGABRT; with `pipe` only where stdout is one",
    "spm-loss": "streamed counters were lost",
    # The other executables
    "avail-missing-lib": "rocprofv3-avail: its library is there under another name only (OSError)",
    "avail-crash": "rocprofv3-avail: SIGSEGV",
    "avail-empty": "rocprofv3-avail: prints nothing, exit code 0",
    "avail-hang": "rocprofv3-avail: never ends",
    "avail-slow": "SECONDS: rocprofv3-avail takes this long",
    "rocpd-import-error": "rocpd: no module for this interpreter (ImportError)",
    "rocpd-nothing": "rocpd: says that it is done, and has written nothing",
    "reports-version": "VERSION: rocprofv3 --version names another release than the options are of",
    "version-fails": "rocprofv3 --version: exit code 1",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """One fault: name, argument (empty for none), and where (empty for everywhere)."""

    name: str
    argument: str
    where: str


class Faults:
    """The faults of one application run.

    Args:
        faults: those that were asked for.
        run: number of the run, from 1.
        counters: counters of the run.
    """

    def __init__(self, faults: Collection[Fault], *, run: int = 1, counters: Collection[str] = ()) -> None:
        self._active = {
            fault.name: fault.argument for fault in faults if _is_meant(fault.where, run=run, counters=counters)
        }

    def __contains__(self, name: str) -> bool:
        if name not in FAULTS:
            raise KeyError(name)
        return name in self._active

    def argument(self, name: str, default: str = "") -> str:
        """The fault's argument, or `default`."""
        return self._active.get(name, "") or default

    def any_of(self, *names: str) -> bool:
        """Whether one of these is active."""
        return any(name in self for name in names)


def _is_meant(where: str, *, run: int, counters: Collection[str]) -> bool:
    if not where:
        return True
    if where in ("pmc", "trace"):
        return bool(counters) == (where == "pmc")
    return int(where) == run if where.isdigit() else where in counters


def parse_faults(text: str) -> tuple[Fault, ...]:
    """The faults of the variable; ends the process with code 99 where a name is unknown."""
    faults = []
    for word in filter(None, (part.strip() for part in text.split(","))):
        rest, _, where = word.partition("@")
        name, _, argument = rest.partition(":")
        if name not in FAULTS:
            print(f"stand-in: no fault is called {name!r}", file=sys.stderr)
            sys.exit(99)
        faults.append(Fault(name=name, argument=argument, where=where))
    return tuple(faults)
