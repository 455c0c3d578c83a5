"""A workspace and what is asked of it -> points under ceilings. The one call behind `rocktools roofline`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

import pandas as pd

from rocktools.devices.device import Level
from rocktools.errors import UsageError, nearest_names
from rocktools.findings import Finding
from rocktools.roofline.points import PointOptions, Roofline, build_roofline
from rocktools.workspace.attributed import AttributedRuns, AttributionOptions, attribute_workspace
from rocktools.workspace.estimated_work import By, estimate_work
from rocktools.workspace.used_device import DeviceOptions, choose_device
from rocktools.workspace.workspace import Workspace

SelectRows = Callable[[AttributedRuns], pd.DataFrame]
"""Which rows of ATTRIBUTED count: those of the steps and devices that were asked for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RooflineOptions:
    """What the user may choose.

    Attributes:
        level: where bytes are counted.
        by: what a point is of.
        component: only rows of this component; None: all.
        device: whose ceilings.
        points: formats and sparsity.
    """

    level: Level = Level.HBM
    by: By = By.KERNEL
    component: str | None = None
    device: DeviceOptions = field(default_factory=DeviceOptions)
    points: PointOptions = field(default_factory=PointOptions)


def build_estimated_roofline(
    workspace: Workspace, attribution: AttributionOptions, options: RooflineOptions, select_rows: SelectRows
) -> Roofline:
    """Points by the times of the traces and the estimates of the compiled program.

    Raises:
        UsageError: what is asked for does not exist, or is not what the files say.
        InputError: the device cannot be told, or a named file cannot be read.
        NothingToRead: there is no dispatch, or none with an instruction.
    """
    runs = attribute_workspace(workspace, attribution)
    rows = select_rows(runs)
    device, doubts = choose_device(workspace.agents(), rows, options.device)
    if options.component is not None:
        rows = _of_component(rows, options.component)
    work, origin = estimate_work(runs, rows, level=options.level, by=options.by)
    roofline = build_roofline(work, device, origin, options.points)
    findings: tuple[Finding, ...] = (*workspace.findings, *runs.findings, *doubts, *roofline.findings)
    return replace(roofline, findings=findings)


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
