"""Which failures of a run are worth a second try, and which are not: a table with the reasons.

A try costs minutes, and one that fails the same way again costs them for nothing. What a second try cannot change, or
what waits for somebody to mend it, is not tried again; nor is what is not in the table.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

TRIES_COUNT = 2
"""How often a job is tried by one command, if its failure is one of those that pass."""


@dataclass(frozen=True, slots=True)
class Flakiness:
    """Whether a failure may pass by itself, and why we think so."""

    is_flaky: bool
    why: str


# Reason of an attempt -> whether to try again.
FLAKINESS: Mapping[str, Flakiness] = {
    "timed-out": Flakiness(False, "it would take as long again: give it more time"),
    "interrupted": Flakiness(False, "the user wanted it to end"),
    "killed": Flakiness(False, "it is taken up by --resume, not by a retry"),
    "compute-run-failed": Flakiness(
        True, "profilers and drivers crash now and then; most such runs pass the next time"
    ),
    "compute-run-unfinished": Flakiness(True, "whatever ended it is not known to come again"),
    "compute-no-results": Flakiness(
        True, "nothing was written though the tool was content: seen after a crash at exit"
    ),
    "compute-file-damaged": Flakiness(True, "a file was cut off while it was written"),
    "compute-pass-missing": Flakiness(True, "one run of the application left no output, and the others did"),
    "compute-kernel-missing-in-pass": Flakiness(
        True, "the kernel ran in the other passes: the profiler lost it in one"
    ),
    "compute-kernel-dropped": Flakiness(True, "the join of the passes dropped it because one of them lacks it"),
    "compute-launches-differ": Flakiness(True, "a replay launches the same each time: the profiler lost some of them"),
    "compute-launches-fewer": Flakiness(True, "a replay launches the same each time: the profiler lost some of them"),
    "compute-partial-rows": Flakiness(True, "ids of dispatches were shifted in one pass by something else that ran"),
    "compute-nan-rows": Flakiness(
        True, "values are missing where the counters were read: buffers overflow now and then"
    ),
    "compute-counters-missing": Flakiness(True, "a pass is there without some of its counters"),
    "compute-folder-wiped": Flakiness(True, "something emptied the folder; the next try has one of its own"),
    "compute-files-changed": Flakiness(True, "something else wrote into the folder; the next try has one of its own"),
    "compute-several-folders": Flakiness(False, "ranks or several GPU models write a folder each, every time"),
    "compute-no-data": Flakiness(False, "the replay launched nothing that was seen: it will not the next time"),
    "compute-kernel-missing": Flakiness(False, "kernels are there, and not this one: its name is another one"),
    "compute-no-plan": Flakiness(False, "the tool planned no pass: its options leave nothing to count"),
    "compute-no-peaks": Flakiness(True, "the benchmark needs the GPU for itself, and may have shared it"),
    "analysis-failed": Flakiness(False, "analyze reads files, and does the same with them each time"),
    "analysis-empty": Flakiness(False, "analyze reads files, and does the same with them each time"),
}


def is_retried(reason: str, tries_count: int) -> bool:
    """Whether a job is tried again by the same command.

    Args:
        reason: of the failure.
        tries_count: that this command has made.
    """
    known = FLAKINESS.get(reason)
    return known is not None and known.is_flaky and tries_count < TRIES_COUNT
