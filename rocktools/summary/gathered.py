"""A workspace -> everything that the blocks of a summary are made of, read once; the files may be closed after it."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import pandas as pd

from rocktools.errors import InputError, NothingToRead
from rocktools.evidence import Absence
from rocktools.findings import Finding
from rocktools.rules.catalog import RuleReport, check_rules
from rocktools.sources.xspace.health import check_profile
from rocktools.summary.document import Missing
from rocktools.timeline.grouping import match_rows
from rocktools.timeline.steps import counted_steps
from rocktools.workspace.attributed import AttributedRuns, AttributionOptions, attribute_workspace
from rocktools.workspace.paths import SourceKind, SourcePath
from rocktools.workspace.rule_inputs import build_rule_inputs
from rocktools.workspace.used_device import DeviceOptions
from rocktools.workspace.workspace import Workspace


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """How many rows of the longest tables go into the document; what is left out is counted there."""

    operations_count: int = 1000
    gaps_count: int = 100
    regions_count: int = 2000
    places_count: int = 2000
    quantities_count: int = 20_000
    points_count: int = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class SummaryOptions:
    """What the user may choose.

    Attributes:
        attribution: how rows are booked and steps are found.
        counters: where counter passes are, besides those in the files.
        step_log: log of an unprofiled run of the same job; None: none.
        log_warmup_steps_count: first steps of the log that do not count.
        device: whose ceilings points are held against.
        limits: of tables.
        hashes_inputs: whether files are hashed, which reads all of them.
        generated_at_utc: ISO 8601; None leaves it out, so that two documents of the same files are the same bytes.
    """

    attribution: AttributionOptions
    counters: tuple[str | Path, ...] = ()
    step_log: Path | None = None
    log_warmup_steps_count: int = 5
    device: DeviceOptions = field(default_factory=DeviceOptions)
    limits: Limits = field(default_factory=Limits)
    hashes_inputs: bool = True
    generated_at_utc: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Timed:
    """What ran, and the part of it that counts.

    Attributes:
        runs: everything that ran, booked.
        rows: ATTRIBUTED of the steps that count.
        steps: STEPS that count.
    """

    runs: AttributedRuns
    rows: pd.DataFrame
    steps: pd.DataFrame

    @property
    def places_count(self) -> int:
        """Devices and steps that have a row."""
        return len(self.rows[["run", "device", "step_index"]].drop_duplicates())

    @property
    def devices(self) -> pd.DataFrame:
        """Run and device of everything that counts, each once."""
        return self.rows[["run", "device"]].drop_duplicates(ignore_index=True)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Gathered:
    """What was read.

    Attributes:
        sources: the files.
        processes, agents, profiled_devices, allocations, allocators: frames of the workspace.
        host_calls_count, copies_count, host_events_count: rows of frames that are not kept.
        counted_dispatches_count: of counter passes.
        timed: what ran; Missing where the files have no times.
        rules: what the rules say of it; None where nothing can be judged.
        is_simulated: whether any file says that no hardware produced it.
        findings: of opening, reading, linking and booking.
    """

    sources: tuple[SourcePath, ...]
    processes: pd.DataFrame
    agents: pd.DataFrame
    profiled_devices: pd.DataFrame
    allocations: pd.DataFrame
    allocators: pd.DataFrame
    host_calls_count: int
    copies_count: int
    host_events_count: int
    counted_dispatches_count: int
    timed: Timed | Missing
    rules: RuleReport | None
    is_simulated: bool
    findings: tuple[Finding, ...]

    @property
    def has_profiles(self) -> bool:
        """Whether any of the files is a JAX profile."""
        return any(source.kind is SourceKind.PROFILE for source in self.sources)


def gather(
    paths: Sequence[str | Path], attribution: AttributionOptions, device: DeviceOptions | None = None
) -> Gathered:
    """Everything in the files that the paths name.

    Args:
        device: what the user says of the GPU.

    Raises:
        UsageError: no path was named.
        InputError: no file, or no program that was named, can be read.
    """
    with Workspace.open(paths) as workspace:
        timed = _timed(workspace, attribution)
        calls = workspace.host_calls(["host_call_id"])
        return Gathered(
            sources=workspace.sources(),
            processes=workspace.processes(),
            agents=workspace.agents(),
            profiled_devices=workspace.profiled_devices(),
            allocations=workspace.allocations(),
            allocators=workspace.allocators(),
            host_calls_count=len(calls),
            copies_count=len(workspace.copies()),
            host_events_count=len(workspace.host_events(["event_index"])),
            counted_dispatches_count=len(workspace.counted_dispatches(["kernel_name"])),
            timed=timed,
            rules=_judge(workspace, timed, device),
            is_simulated=workspace.is_simulated,
            findings=(
                *workspace.findings,
                *(() if isinstance(timed, Missing) else timed.runs.findings),
                *_health(workspace),
            ),
        )


def _health(workspace: Workspace) -> list[Finding]:
    """What in the files cannot be trusted; reads much of them."""
    found = workspace.check_health()
    for profile in workspace.profiles:
        with suppress(InputError):  # reading it has told
            found += check_profile(profile.file)
    return found


def _judge(workspace: Workspace, timed: Timed | Missing, device: DeviceOptions | None) -> RuleReport | None:
    """What the rules say; none of them is about threads of a host."""
    if isinstance(timed, Missing) or timed.rows.empty or workspace.dispatches(["kernel_name"]).empty:
        return None
    return check_rules(build_rule_inputs(workspace, timed.runs, timed.rows, timed.steps, device=device).inputs)


def _timed(workspace: Workspace, attribution: AttributionOptions) -> Timed | Missing:
    try:
        runs = attribute_workspace(workspace, attribution)
    except NothingToRead as error:
        if error.reference != "no-traced-dispatches":
            raise
        return Missing(absence=Absence.NOT_COLLECTED, reason=error.what)
    steps = counted_steps(runs.steps.frame)
    is_in = match_rows(runs.rows, steps, ("run", "device", "step_index")) >= 0
    return Timed(runs=runs, rows=runs.rows[is_in].reset_index(drop=True), steps=steps)
