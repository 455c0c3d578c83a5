"""Attributed rows of a workspace -> one ledger with its tables, its reconciliation and what a workload expects."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pandas as pd

from rocktools.analytic.occurrences import Workload
from rocktools.attribution.assemble import assemble_ledger
from rocktools.attribution.components import ComponentMap
from rocktools.attribution.ledger_document import Ledger
from rocktools.findings import Finding
from rocktools.timeline.overlap import reconcile
from rocktools.units import count_noun, format_duration


def build_run_ledger(
    rows: pd.DataFrame,
    steps: pd.DataFrame,
    *,
    component_map: ComponentMap,
    workload: Workload | None = None,
    findings: Sequence[Finding] = (),
    is_simulated: bool = False,
) -> Ledger:
    """The ledger of rows that are all in steps.

    Args:
        rows: ATTRIBUTED, of the steps that count.
        steps: STEPS, those that count.
        workload: what must be found how often; None: nothing is known.
        findings: what the rows raised so far.
        is_simulated: whether any of it was made without hardware.
    """
    title = _title(steps, reconcile(rows, steps).frame)
    ledger = assemble_ledger(
        rows, component_map, title=title, steps=steps, workload=workload, is_simulated=is_simulated
    )
    return replace(ledger, findings=_unique([*findings, *ledger.findings]))


def _steps_count(steps: pd.DataFrame) -> int:
    """Different steps; devices that take part in one step are one."""
    return len(steps[["run", "step_index"]].drop_duplicates())


def _unique(findings: Sequence[Finding]) -> tuple[Finding, ...]:
    found: list[Finding] = []
    for finding in findings:
        if finding not in found:
            found.append(finding)
    return tuple(found)


def _title(steps: pd.DataFrame, reconciliation: pd.DataFrame) -> str:
    """What the ledger is of, and the two figures that it must be read with."""
    devices = reconciliation["device"].nunique()
    methods = ", ".join(sorted({str(name) for name in steps["method"].unique()}))
    head = f"ledger: {count_noun(_steps_count(steps), 'step')} (by {methods}) on {count_noun(devices, 'device')}"
    if reconciliation.empty:
        return head
    busy, span = reconciliation["busy_ns"].mean(), reconciliation["span_ns"].mean()
    exposed = reconciliation["exposed_communication_ns"].mean()
    return (
        f"{head}; per device and step: span {format_duration(span)}, busy {format_duration(busy)}, "
        f"exposed communication {format_duration(exposed)}"
    )
