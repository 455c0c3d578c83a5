"""A workspace and what is asked of it -> points under ceilings. The one call behind `rocktools roofline`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from pathlib import Path

import pandas as pd

from rocktools.devices.device import Level
from rocktools.errors import UsageError, nearest_names
from rocktools.findings import Finding
from rocktools.roofline.points import PointOptions, Roofline, build_roofline
from rocktools.roofline.work import pass_times_refused
from rocktools.workspace.attributed import AttributedRuns, AttributionOptions, attribute_workspace
from rocktools.workspace.counted_work import lay_on_passes, lay_on_trace, quantities_of
from rocktools.workspace.estimated_work import By, estimate_work
from rocktools.workspace.metrics import read_metrics
from rocktools.workspace.used_device import DeviceOptions, choose_device
from rocktools.workspace.workspace import Workspace

SelectRows = Callable[[AttributedRuns], pd.DataFrame]
"""Which rows of ATTRIBUTED count: those of the steps and devices that were asked for."""


class Source(str, Enum):
    """Where FLOPs and bytes come from."""

    COUNTERS = "counters"
    ESTIMATE = "estimate"

    def __str__(self) -> str:
        return self.value


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class RunRoofline:
    """Points, and whether any of it was made without hardware."""

    roofline: Roofline
    is_simulated: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class RooflineOptions:
    """What the user may choose.

    Attributes:
        level: where bytes are counted.
        by: what a point is of.
        component: only rows of this component; None: all.
        source: of FLOPs and bytes; None: counters where there are some.
        counters: where counter passes are; (): in the same files.
        is_pass_time_allowed: whether times may be those of the counter passes.
        device: whose ceilings.
        points: formats and sparsity.
    """

    level: Level = Level.HBM
    by: By = By.KERNEL
    component: str | None = None
    source: Source | None = None
    counters: tuple[str | Path, ...] = ()
    is_pass_time_allowed: bool = False
    device: DeviceOptions = field(default_factory=DeviceOptions)
    points: PointOptions = field(default_factory=PointOptions)


def build_run_roofline(
    paths: Sequence[str | Path], attribution: AttributionOptions, options: RooflineOptions, select_rows: SelectRows
) -> RunRoofline:
    """Points by the times of the traces; FLOPs and bytes by counters or by the compiled program.

    Raises:
        UsageError: what is asked for does not exist, or is not what the files say; or times would be of a counter pass.
        InputError: the device cannot be told, or a named file cannot be read.
        NothingToRead: there is no dispatch, or none of known cost.
    """
    if options.is_pass_time_allowed:
        return _of_passes(options.counters or tuple(paths), options)
    with Workspace.open(paths) as workspace:
        has_passes = len(workspace.counted_dispatches(["kernel_name"])) > 0
        if has_passes and not len(workspace.dispatches(["kernel_name"])):
            raise pass_times_refused()
        if has_passes and not options.counters:
            options = replace(options, counters=tuple(paths))
        runs = attribute_workspace(workspace, attribution)
        built = build_roofline_of(workspace, runs, select_rows(runs), options)
        found = (*workspace.findings, *runs.findings, *built.roofline.findings)
    return replace(built, roofline=replace(built.roofline, findings=found))


def build_roofline_of(
    workspace: Workspace, runs: AttributedRuns, rows: pd.DataFrame, options: RooflineOptions
) -> RunRoofline:
    """Points of rows that are booked already.

    Args:
        rows: of ATTRIBUTED, those that count.
        options: `counters` names every counter pass that may be used.

    Returns:
        Findings are those of the points, not of the workspace and the booking.

    Raises:
        UsageError, InputError, NothingToRead: as `build_run_roofline`.
    """
    is_simulated = workspace.is_simulated
    device, doubts = choose_device(workspace.agents(), rows, options.device)
    if options.component is not None:
        rows = _of_component(rows, options.component)
    source = options.source or (
        Source.COUNTERS if options.counters and options.level is not Level.NETWORK else Source.ESTIMATE
    )
    more: tuple[Finding, ...] = ()
    if source is Source.COUNTERS:
        if not options.counters:
            raise UsageError(
                "no-counters-for-roofline",
                "there is no counter pass in the files",
                hint="--counters PATH names counter passes elsewhere; --source estimate needs none",
            )
        metrics = read_metrics(options.counters, quantities=quantities_of(options.level))
        is_simulated = is_simulated or metrics.is_simulated
        work, origin, more = lay_on_trace(metrics.frame, rows, level=options.level, by=options.by)
        more = (*metrics.findings, *more)
    else:
        work, origin = estimate_work(runs, rows, level=options.level, by=options.by)
    roofline = build_roofline(work, device, origin, options.points)
    found = (*doubts, *more, *roofline.findings)
    return RunRoofline(roofline=replace(roofline, findings=found), is_simulated=is_simulated)


def _of_passes(paths: Sequence[str | Path], options: RooflineOptions) -> RunRoofline:
    """Points of kernels with the times of counter passes, because that was asked for."""
    if options.by is not By.KERNEL or options.component is not None:
        raise UsageError("passes-by-kernel", "counter passes know kernels only", hint="--by kernel")
    metrics = read_metrics(paths, quantities=quantities_of(options.level))
    work, origin = lay_on_passes(metrics.frame, metrics.counted, level=options.level)
    device, doubts = choose_device(metrics.counted.agents, work, options.device)
    roofline = build_roofline(work, device, origin, options.points)
    found = (*metrics.findings, *doubts, *roofline.findings)
    return RunRoofline(roofline=replace(roofline, findings=found), is_simulated=metrics.is_simulated)


def _of_component(rows: pd.DataFrame, name: str) -> pd.DataFrame:
    """The rows of one component.

    Raises:
        UsageError: no row has it.
    """
    known = sorted({str(each) for each in rows["component"].unique()})
    if name not in known:
        near = nearest_names(name, known)
        raise UsageError("unknown-component", f"nothing is of the component {name!r}", hint=", ".join(near or known))
    return rows[(rows["component"] == name).to_numpy()].reset_index(drop=True)
