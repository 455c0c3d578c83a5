"""Values of rocprof-compute that cannot be true, by themselves: nothing is cut off or left out, and all are named."""

from __future__ import annotations

import numpy as np
import pandas as pd

from rocktools.findings import Finding, Severity
from rocktools.sources.rocpd.columns import exact_integer
from rocktools.units import count_noun
from rocktools.workspace.compute_results import ComputeResults

SHARES = ("Pct of Peak", "Percent of Peak")
"""Names of values that are percent of a peak, whatever unit their metric has."""
_PERCENT = ("Pct", "Percent")
_ROUNDED_PERCENT = 100.01
_LONGEST_NAME = 60  # in findings


def check_tool_values(results: ComputeResults) -> list[Finding]:
    """Shares above a peak, values below 0, and peaks without a clock."""
    metrics = results.metrics
    is_share = metrics["value_name"].isin(SHARES) | (
        metrics["unit"].isin(_PERCENT) & metrics["value_name"].isin(["Avg", "Value", "Max"])
    )
    above = metrics[is_share.to_numpy(dtype=np.bool_) & (metrics["value"] > _ROUNDED_PERCENT).to_numpy()]
    below = metrics[(metrics["value"] < 0).to_numpy()]
    findings = []
    for where, names, rows in _by_kernel(above):
        largest = float(rows["value"].max())
        findings.append(
            Finding(
                rule="above-peak",
                severity=Severity.WARNING,
                where=where,
                message=f"rocprof-compute has {count_noun(len(names), 'metric')} above 100 %: {_some(names)}; the "
                f"largest is {largest:,.4g} %",
                numbers={"metrics_count": len(names), "largest_ratio": largest / 100},
                advice="counters of different passes, a wrong peak or clock: do not use them",
            )
        )
    for where, names, rows in _by_kernel(below):
        findings.append(
            Finding(
                rule="below-zero",
                severity=Severity.WARNING,
                where=where,
                message=f"rocprof-compute has {count_noun(len(names), 'metric')} below 0: {_some(names)}; the smallest "
                f"is {float(rows['value'].min()):,.4g}",
                numbers={"metrics_count": len(names), "values_count": len(rows)},
                advice="differences of counters that vary from pass to pass: do not use them, or use 3.5 and later",
            )
        )
    return [*findings, *_check_clocks(results)]


def shortened(kernel: str) -> str:
    """A kernel's name for a finding: names of templates are longer than any line."""
    return kernel if len(kernel) <= _LONGEST_NAME else f"{kernel[:_LONGEST_NAME]}..."


def _by_kernel(metrics: pd.DataFrame) -> list[tuple[str, list[str], pd.DataFrame]]:
    """Where, the names of the metrics, and the rows, for each kernel of each workload."""
    named = metrics.astype({"kernel_name": object}).fillna({"kernel_name": "whole workload"})
    groups = named.groupby(["workload", "kernel_name"], observed=True, sort=True)
    return [
        (f"{workload}: {shortened(str(kernel))}", list(dict.fromkeys(rows["metric_name"].astype(str))), rows)
        for (workload, kernel), rows in groups
    ]


def _some(names: list[str]) -> str:
    return f"{', '.join(names[:3])}{', ...' if len(names) > 3 else ''}"


def _check_clocks(results: ComputeResults) -> list[Finding]:
    """Workloads whose description has no highest clock, by which the tool computes its peaks."""
    without = [
        each for each in results.workloads if "max_sclk" in each.facts and not exact_integer(each.facts["max_sclk"])
    ]
    if not without:
        return []
    return [
        Finding(
            rule="tool-clock-missing",
            severity=Severity.NOTE,
            where=str(without[0].path),
            message=f"{count_noun(len(without), 'workload')} without the highest clock of the GPU (max_sclk): peaks of "
            "rocprof-compute that need it are 0, and shares of them have no value",
            numbers={"workloads_count": len(without)},
            advice="rocprof-compute analyze --specs-correction max_sclk:MHZ,max_mclk:MHZ; MI355X: 2400 and 2000",
        )
    ]
