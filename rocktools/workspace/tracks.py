"""Booked runs -> everything that a timeline viewer shows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from rocktools.errors import RocktoolsError
from rocktools.findings import Finding, Severity
from rocktools.timeline.grouping import IntArray, match_rows
from rocktools.timeline.tracks import TrackBuilder, TrackSet
from rocktools.workspace.attributed import AttributedRuns
from rocktools.workspace.device_tracks import DeviceRows, add_devices
from rocktools.workspace.estimated_work import By, row_names
from rocktools.workspace.host_tracks import HostCalls, add_hosts, number_flows
from rocktools.workspace.metrics import read_metrics
from rocktools.workspace.roofline import RooflineOptions, Source, build_roofline_of
from rocktools.workspace.workspace import Workspace

_SIMULATED = "SIMULATED "
_POINT = ("roof_ratio", "bound", "intensity_flop_per_byte", "achieved_flop_per_s", "achieved_bytes_per_s", "evidence")


@dataclass(frozen=True, slots=True, kw_only=True)
class TrackOptions:
    """What the user may choose.

    Attributes:
        calls: which calls of the host are shown.
        counters: where the counter passes are; () for none.
        window_ns: only what the host did in it; None: all.
    """

    calls: HostCalls = HostCalls.ALL
    counters: tuple[str | Path, ...] = ()
    window_ns: tuple[int, int] | None = None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class RunTracks:
    """The picture, and what is to be said of it."""

    tracks: TrackSet
    findings: tuple[Finding, ...]
    is_simulated: bool


def build_tracks(
    workspace: Workspace, runs: AttributedRuns, rows: pd.DataFrame, steps: pd.DataFrame, options: TrackOptions
) -> RunTracks:
    """Tracks of every device and every process.

    Args:
        rows: of ATTRIBUTED, those that are shown.
        steps: STEPS, those that are shown.

    Raises:
        UsageError: a counter pass that was named is none.
        InputError: one cannot be read.
    """
    rows = rows.reset_index(drop=True)
    facts, is_counted_simulated, of_counters = _counted(rows, options.counters)
    efficiency, of_points = _efficiency(workspace, runs, rows, options)
    is_simulated = workspace.is_simulated or is_counted_simulated
    prefix = _SIMULATED if is_simulated else ""
    with_calls = runs.with_host_calls(rows)
    flows = number_flows(with_calls)
    builder = TrackBuilder()
    devices = DeviceRows(
        rows=rows,
        dispatches=runs.dispatches,
        edges=runs.edges,
        steps=steps,
        flows=flows,
        kernel_facts={**facts, **efficiency},
    )
    add_devices(builder, devices, prefix=prefix)
    add_hosts(builder, workspace, with_calls, flows, calls=options.calls, window_ns=options.window_ns, prefix=prefix)
    _add_samples(builder, workspace, options.window_ns, prefix)
    return RunTracks(tracks=builder.build(), findings=(*of_counters, *of_points), is_simulated=is_simulated)


def _counted(
    rows: pd.DataFrame, counters: Sequence[str | Path]
) -> tuple[dict[str, pd.Series], bool, tuple[Finding, ...]]:
    """`counted.QUANTITY` of each row: the mean over the counted executions of its kernel."""
    if not counters:
        return {}, False, ()
    metrics = read_metrics(counters)
    known = metrics.frame[metrics.frame["value"].notna().to_numpy()]
    means = known.groupby(["quantity", "kernel_name"], observed=True, sort=True)["value"].mean()
    found = {}
    for quantity in means.index.get_level_values(0).unique():
        by_kernel = means.loc[quantity]
        found[f"counted.{quantity}"] = _by_name(rows["name"], by_kernel)
    return found, metrics.is_simulated, metrics.findings


def _efficiency(
    workspace: Workspace, runs: AttributedRuns, rows: pd.DataFrame, options: TrackOptions
) -> tuple[dict[str, pd.Series], tuple[Finding, ...]]:
    """`roofline.*` of each row: by counters of its kernel, else by the estimate of its instruction.

    Where no roofline can be drawn the picture goes without, and it is said why.
    """
    by = By.KERNEL if options.counters else By.INSTRUCTION
    chosen = RooflineOptions(
        by=by, source=Source.COUNTERS if options.counters else Source.ESTIMATE, counters=options.counters
    )
    try:
        roofline = build_roofline_of(workspace, runs, rows, chosen).roofline
    except RocktoolsError as error:
        return {}, (_no_roofline(error),)
    names = row_names(rows, by)
    points = roofline.points.assign(name=roofline.points["name"].astype(object))
    found = {}
    at = _places(rows["run"], names, points)
    for name in _POINT:
        column = points[name]
        taken = column.array.take(at, allow_fill=True)
        found[f"roofline.{name}"] = pd.Series(taken)
    return found, roofline.findings


def _places(run: pd.Series, names: pd.Series, points: pd.DataFrame) -> IntArray:
    keys = pd.DataFrame({"run": run.array, "name": names.array})
    return match_rows(keys, points, ("run", "name"))


def _by_name(names: pd.Series, values: pd.Series) -> pd.Series:
    return names.astype(object).map(values.to_dict()).astype("float64")


def _no_roofline(error: RocktoolsError) -> Finding:
    return Finding(
        rule="no-roofline-in-picture",
        severity=Severity.NOTE,
        where=error.where or "",
        message=f"slices have no roofline: {error.what}",
        advice=error.hint or "",
    )


def _add_samples(builder: TrackBuilder, workspace: Workspace, window_ns: tuple[int, int] | None, prefix: str) -> None:
    """A track of values for each thing that was sampled."""
    samples = workspace.samples()
    samples = samples[samples["value"].notna().to_numpy()]
    if window_ns is not None:
        samples = samples[samples["time_ns"].between(*window_ns, inclusive="left").to_numpy()]
    if samples.empty:
        return
    group = builder.add_track(f"{prefix}samples")
    for names, part in samples.groupby(["track", "quantity", "value_unit"], observed=True, sort=True, dropna=False):
        track, quantity, unit = (None if pd.isna(each) else str(each) for each in names)
        words = [track] if track and quantity and quantity in track else [track, quantity]
        title = ", ".join(each for each in words if each) or "value"
        builder.add_values(title, group, unit or "value", part["time_ns"].to_numpy(dtype=np.int64), part["value"])
