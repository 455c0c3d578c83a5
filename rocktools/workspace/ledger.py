"""Attributed rows of a workspace -> one ledger with its tables, its reconciliation and what a workload expects."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pandas as pd

from rocktools.analytic.occurrences import COUNTED_ROWS, Workload
from rocktools.attribution.assemble import assemble_ledger, assemble_measured
from rocktools.attribution.components import ComponentMap
from rocktools.attribution.ledger import Place
from rocktools.attribution.ledger_document import Ledger
from rocktools.attribution.ledger_measures import BUCKET_SUMS, LINE_UNIONS, LedgerMeasures
from rocktools.findings import Finding
from rocktools.frames import LEDGER
from rocktools.timeline.grouping import match_rows
from rocktools.timeline.overlap import RECONCILIATION
from rocktools.timeline.partial import RankPartial, check_devices
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
    ledger = assemble_ledger(rows, component_map, title="", steps=steps, workload=workload, is_simulated=is_simulated)
    title = _title(steps, ledger.reconciliation)
    return replace(ledger, title=title, findings=_unique([*findings, *ledger.findings]))


def build_ranks_ledger(
    partial: RankPartial,
    steps: pd.DataFrame,
    *,
    component_map: ComponentMap,
    workload: Workload | None = None,
    findings: Sequence[Finding] = (),
) -> Ledger:
    """The ledger of ranks that were measured one by one: that of all their rows at once.

    Args:
        partial: of `measure_ledger_file`, merged and renumbered.
        steps: STEPS, those that count.
        component_map, workload, findings: as in `build_run_ledger`.
    """
    measures = LedgerMeasures(
        sums=partial[BUCKET_SUMS], unions=partial[LINE_UNIONS], buckets=partial[LEDGER], counted=partial[COUNTED_ROWS]
    )
    keys = zip(steps["run"], steps["device"], steps["step_index"], strict=True)
    places = frozenset(Place(run=str(run), device=str(device), step_index=int(step)) for run, device, step in keys)
    reconciliation = partial[RECONCILIATION]
    is_chosen = match_rows(reconciliation, steps, ("run", "device", "step_index")) >= 0
    reconciliation = reconciliation[is_chosen].reset_index(drop=True)
    ledger = assemble_measured(
        measures.only(places),
        reconciliation,
        component_map,
        title=_title(steps, reconciliation),
        steps=steps,
        workload=workload,
        is_simulated=partial.is_simulated,
    )
    return replace(ledger, findings=_unique([*findings, *check_devices(partial), *ledger.findings]))


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
