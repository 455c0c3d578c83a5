"""RECONCILIATION of several devices -> how they differ: each device's means, and the spread of each quantity.

Devices are compared over the steps that all of them have, so that a device with a cut step does not look fast. Times
across devices are never added up; what the job waits for is its critical device, the one with the most of a quantity.
Instants are not compared here, so hosts with different clocks may be.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from rocktools.evidence import Evidence
from rocktools.findings import Finding, Severity
from rocktools.frames import Column, FrameSpec, require_frame
from rocktools.timeline.activities import labels_column

_RUN = Column("run", "category", "label of the run")
_DEVICE = Column("device", "category", "label of the device, as in AGENTS")

QUANTITIES = {
    "busy_ns": "time in which anything ran",
    "compute_ns": "time in which compute ran",
    "communication_ns": "time in which communication ran",
    "exposed_communication_ns": "communication without compute (compute_first)",
    "exposed_copy_ns": "copies without compute and communication",
    "idle_ns": "time within the span in which nothing ran",
    "span_ns": "from the first start to the last end",
}
"""What is compared, and what it means; each is a column of RECONCILIATION."""

DEVICE_MEANS = FrameSpec(
    name="DEVICE_MEANS",
    meaning="One row per device: the mean of each quantity over the steps that all devices of the run have.",
    key=("run", "device"),
    sort=("run", "device"),
    columns=(
        _RUN,
        _DEVICE,
        Column("steps_count", "int64", "steps the means are of"),
        Column("rows_count", "float64", "kernels and copies, mean over the steps"),
        *(Column(name, "float64", f"{meaning}, mean over the steps") for name, meaning in QUANTITIES.items()),
    ),
)

DEVICE_SPREAD = FrameSpec(
    name="DEVICE_SPREAD",
    meaning="One row per quantity: how far devices are apart, each device taken with its mean over the steps.",
    key=("run", "quantity"),
    sort=("run", "quantity"),
    columns=(
        _RUN,
        Column("quantity", "category", "name of the column of DEVICE_MEANS, without its unit"),
        Column("devices_count", "int64", "devices"),
        Column("mean_ns", "float64", "mean over the devices"),
        Column("median_ns", "float64", "median over the devices"),
        Column("min_ns", "float64", "least"),
        Column("max_ns", "float64", "most"),
        Column("spread_ns", "float64", "most minus least"),
        Column("spread_ratio", "float64", "`spread_ns` over the mean", "the mean is 0"),
        Column("critical_device", "category", "device with the most; the first label of equals"),
        Column("least_device", "category", "device with the least; the first label of equals"),
    ),
)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class DeviceComparison:
    """How devices differ.

    Attributes:
        means: DEVICE_MEANS.
        spread: DEVICE_SPREAD.
        findings: doubts.
        evidence: of every value.
    """

    means: pd.DataFrame
    spread: pd.DataFrame
    findings: tuple[Finding, ...]
    evidence: Evidence = Evidence.MEASURED


def compare_devices(reconciliation: pd.DataFrame) -> DeviceComparison:
    """Means and spread of the devices of each run.

    Args:
        reconciliation: RECONCILIATION by step, of the steps that count; or of the whole trace.
    """
    common = common_steps(reconciliation)
    if common.empty:
        findings = _no_common_step(reconciliation)
        return DeviceComparison(means=DEVICE_MEANS.empty(), spread=DEVICE_SPREAD.empty(), findings=findings)
    grouped = common.groupby(["run", "device"], observed=True)
    means = grouped[["rows_count", *QUANTITIES]].mean().astype("float64")
    means.insert(0, "steps_count", grouped.size().astype("int64"))
    means = means.reset_index()
    means = means.assign(**{name: labels_column(means[name]) for name in ("run", "device")})
    means = means.sort_values(list(DEVICE_MEANS.sort), ignore_index=True)[list(DEVICE_MEANS.names)]
    findings = _no_common_step(reconciliation[~reconciliation["run"].isin(common["run"])])
    return DeviceComparison(means=require_frame(means, DEVICE_MEANS), spread=_spread(means), findings=findings)


def common_steps(reconciliation: pd.DataFrame) -> pd.DataFrame:
    """The rows of RECONCILIATION whose step is there on every device of its run."""
    steps = reconciliation["step_index"].fillna(-1).astype("int64")
    keyed = reconciliation.assign(step_key=steps)
    of_run = keyed.groupby("run", observed=True)["device"].nunique()
    of_step = keyed.groupby(["run", "step_key"], observed=True)["device"].transform("nunique")
    everywhere = of_step.to_numpy() == keyed["run"].map(of_run).astype("int64").to_numpy()
    return reconciliation[everywhere].reset_index(drop=True)


def _spread(means: pd.DataFrame) -> pd.DataFrame:
    rows: list[dict[str, Any]] = []
    for run, of_run in means.groupby("run", observed=True):
        devices = of_run["device"].astype(str).to_numpy()
        for name in QUANTITIES:
            values = of_run[name].to_numpy()
            mean = float(values.mean())
            least, most = float(values.min()), float(values.max())
            rows.append(
                {
                    "run": run,
                    "quantity": name.removesuffix("_ns"),
                    "devices_count": len(values),
                    "mean_ns": mean,
                    "median_ns": float(np.median(values)),
                    "min_ns": least,
                    "max_ns": most,
                    "spread_ns": most - least,
                    "spread_ratio": (most - least) / mean if mean else np.nan,
                    "critical_device": devices[int(np.argmax(values))],
                    "least_device": devices[int(np.argmin(values))],
                }
            )
    labels = [column.name for column in DEVICE_SPREAD.columns if column.dtype == "category"]
    frame = pd.DataFrame(rows)
    frame = frame.assign(**{name: labels_column(frame[name]) for name in labels})
    return require_frame(frame.sort_values(list(DEVICE_SPREAD.sort), ignore_index=True), DEVICE_SPREAD)


def _no_common_step(reconciliation: pd.DataFrame) -> tuple[Finding, ...]:
    if reconciliation.empty:
        return ()
    devices_count = int(reconciliation["device"].nunique())
    return (
        Finding(
            rule="no-common-step",
            severity=Severity.WARNING,
            where="steps",
            message=f"no step is there on all {devices_count} devices, so they cannot be compared",
            numbers={"devices_count": devices_count},
            advice="capture all ranks over the same steps, or compare the whole trace",
        ),
    )
