"""Options -> runs of the application: which counters each collects, and into which folder it writes.

Releases differ most here. Before repeated `--pmc` meant passes, the last one won and the others were dropped; later
each is a run of its own in `pass_1`, `pass_2`, ... One run without a folder of its own replaces the launcher (exec), so
that its exit code is the application's; several run one after the other as children.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from standins.input_files import is_text_input, merge_job, read_jobs
from standins.versions import REPEATED_PMC_IS_PASSES, SdkVersion


@dataclass(frozen=True, slots=True, kw_only=True)
class Pass:
    """One run of the application.

    Attributes:
        options: option values of this run.
        counters: words of its one group, as given; None where no counters are asked for.
        groups: several groups of one run (kernel replay, or `pmc_groups` of an input file).
        interval: targeted dispatches before the next of `groups`; None for replay.
        folder: below the output directory; empty for none.
    """

    options: argparse.Namespace
    counters: tuple[str, ...] | None = None
    groups: tuple[tuple[str, ...], ...] = ()
    interval: int | None = None
    folder: str = ""


def is_kernel_replay(options: argparse.Namespace) -> bool:
    """Whether the groups are collected by running each dispatch again."""
    return getattr(options, "replay_mode", None) == "kernel"


def command_line_groups(options: argparse.Namespace, version: SdkVersion) -> list[tuple[str, ...]]:
    """The groups that `--pmc` gives; a bare `--pmc` gives an empty one, which counts for nothing."""
    given = getattr(options, "pmc", None)
    if given is None:
        return []
    groups = given if version >= REPEATED_PMC_IS_PASSES else [given]
    return [tuple(group) for group in groups if group]


def build_passes(options: argparse.Namespace, version: SdkVersion) -> list[Pass]:
    """The runs that a command line asks for; none where an input file has no job that would run.

    Raises:
        RuntimeError: an input file contradicts the command line.
    """
    groups = command_line_groups(options, version)
    if options.input:
        return _passes_with_file(options, groups, Path(options.input), version)
    if is_kernel_replay(options) and groups:
        return [Pass(options=options, groups=tuple(groups))]
    if len(groups) > 1:
        return [
            Pass(options=options, counters=group, folder=f"pass_{number}")
            for number, group in enumerate(groups, start=1)
        ]
    return [Pass(options=options, counters=groups[0] if groups else None)]


def _passes_with_file(
    options: argparse.Namespace, groups: list[tuple[str, ...]], path: Path, version: SdkVersion
) -> list[Pass]:
    jobs = read_jobs(path, version)
    word = "pmc" if is_text_input(path, version) else "pass"
    if len(jobs) == 1 and not jobs[0].get("pmc") and len(groups) <= 1:
        return [_job_pass(options, jobs[0], groups[0] if groups else None, "")]
    passes = [
        Pass(options=options, counters=group, folder=f"pass_{number}") for number, group in enumerate(groups, start=1)
    ]
    for job in jobs:
        # Later releases drop a job without `pmc`, whatever else it asks for.
        if version < REPEATED_PMC_IS_PASSES or job.get("pmc"):
            passes.append(_job_pass(options, job, None, f"{word}_{len(passes) + 1}"))
    return passes


def _job_pass(options: argparse.Namespace, job: dict[str, Any], counters: tuple[str, ...] | None, folder: str) -> Pass:
    merged = merge_job(options, job)
    given = job.get("pmc")
    return Pass(
        options=merged,
        counters=counters if given is None else tuple(given),  # a string falls into its characters
        groups=tuple(tuple(group) for group in job.get("pmc_groups", ())),
        interval=job.get("pmc_group_interval", 1),
        folder=folder,
    )
