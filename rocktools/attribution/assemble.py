"""ATTRIBUTED rows of the chosen steps -> the whole ledger: buckets, tables, reconciliation, expected counts, doubts."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd

from rocktools.analytic.occurrences import Workload, check_occurrences, sum_counts
from rocktools.attribution.components import ComponentMap
from rocktools.attribution.ledger_document import Ledger
from rocktools.attribution.ledger_measures import LedgerMeasures, measure_ledger
from rocktools.attribution.ledger_tables import build_tables
from rocktools.attribution.phases import BookedPhase
from rocktools.findings import Finding, Severity
from rocktools.timeline.overlap import reconcile
from rocktools.units import format_duration, format_ratio

_MUCH = 0.05  # of all time: an unattributed or inferred share from which on it may mislead


def assemble_ledger(
    rows: pd.DataFrame,
    component_map: ComponentMap,
    *,
    title: str,
    steps: pd.DataFrame | None = None,
    workload: Workload | None = None,
    is_simulated: bool = False,
) -> Ledger:
    """The ledger of these rows.

    Args:
        rows: ATTRIBUTED: of the steps and devices that are looked at, and no others.
        component_map: what the rows were classified by.
        title: one line for people.
        steps: STEPS that the rows are of; None to take the whole trace as one step.
        workload: what is expected; None: nothing.
        is_simulated: whether any of it was made without hardware.
    """
    measures = measure_ledger(rows, component_map, workload=workload, is_by_step=steps is not None)
    reconciliation = reconcile(rows, steps, is_by_step=steps is not None)
    return assemble_measured(
        measures,
        reconciliation.frame,
        component_map,
        title=title,
        steps=steps,
        workload=workload,
        is_simulated=is_simulated,
    )


def assemble_measured(
    measures: LedgerMeasures,
    reconciliation: pd.DataFrame,
    component_map: ComponentMap,
    *,
    title: str,
    steps: pd.DataFrame | None = None,
    workload: Workload | None = None,
    is_simulated: bool = False,
) -> Ledger:
    """The ledger of what was measured; of several ranks, put together, that of all their rows.

    Args:
        measures: of the steps and devices that are looked at.
        reconciliation: RECONCILIATION of the same.
        component_map, title, steps, workload, is_simulated: as in `assemble_ledger`.
    """
    steps_count = 1 if steps is None else None
    occurrences = () if workload is None else sum_counts(measures.counted, workload, steps_count=steps_count)
    total_ns = int(measures.sums["sum_ns"].sum())
    assert int(measures.buckets["sum_ns"].sum()) == total_ns, "a row is in two buckets, or in none"
    findings = [*measures.findings, *_share_findings(measures.sums, total_ns)]
    if workload is not None:
        findings += check_occurrences(occurrences, workload)
    return Ledger(
        title=title,
        is_simulated=is_simulated,
        buckets=measures.buckets,
        tables=build_tables(measures, component_map, occurrences),
        reconciliation=reconciliation,
        steps=steps,
        component_map=component_map,
        occurrences=occurrences,
        findings=findings,
    )


def _share_findings(sums: pd.DataFrame, total_ns: int) -> Sequence[Finding]:
    """How much is mixed, inferred or unattributed, where any is; a warning where it is much."""
    unattributed = sums[(sums["phase"] == BookedPhase.UNATTRIBUTED.value).to_numpy()]
    shares = (
        (
            "mixed-phases",
            sums["mixed_ns"],
            sums["mixed_count"],
            "is in fusions that hold another phase too: it is booked under one of them",
        ),
        (
            "inferred-buckets",
            sums["inferred_ns"],
            sums["inferred_count"],
            "is booked by an enclosing loop, the data flow, or a kernel name",
        ),
        ("unattributed-phase", unattributed["sum_ns"], unattributed["rows_count"], "has no phase"),
    )
    findings = []
    for rule, lengths, counts, what in shares:
        sum_ns = int(lengths.sum())
        if sum_ns == 0:
            continue
        ratio = sum_ns / total_ns
        findings.append(
            Finding(
                rule=rule,
                severity=Severity.WARNING if ratio >= _MUCH and rule != "inferred-buckets" else Severity.NOTE,
                where="ledger",
                message=f"{format_duration(sum_ns)} of {format_duration(total_ns)} ({format_ratio(ratio)}) {what}",
                numbers={"sum_ns": sum_ns, "total_ns": total_ns, "rows_count": int(counts.sum())},
            )
        )
    return findings
