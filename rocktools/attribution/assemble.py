"""ATTRIBUTED rows of the chosen steps -> the whole ledger: buckets, tables, reconciliation, expected counts, doubts."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd

from rocktools.analytic.occurrences import Workload, check_occurrences, count_occurrences
from rocktools.attribution.components import ComponentMap
from rocktools.attribution.ledger import (
    BookedRows,
    book_rows,
    build_ledger,
    ledger_sets,
    sum_buckets,
    unite_buckets,
)
from rocktools.attribution.ledger_document import Ledger
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
    is_by_step = steps is not None
    booked = book_rows(rows, is_by_step=is_by_step)
    kept = rows.iloc[booked.kept]
    occurrences = () if workload is None else count_occurrences(kept, workload, steps_count=None if is_by_step else 1)
    sums, unions = sum_buckets(booked), unite_buckets(booked, ledger_sets(booked))
    buckets = build_ledger(booked, sums, unions)
    total_ns = int((booked.end_ns - booked.start_ns).sum())
    assert int(buckets["sum_ns"].sum()) == total_ns, "a row is in two buckets, or in none"
    reconciliation = reconcile(rows, steps, is_by_step=is_by_step)
    findings = [*booked.findings, *_share_findings(booked, total_ns)]
    if workload is not None:
        findings += check_occurrences(occurrences, workload)
    return Ledger(
        title=title,
        is_simulated=is_simulated,
        booked=booked,
        buckets=buckets,
        tables=build_tables(booked, component_map, occurrences, sums, unions),
        reconciliation=reconciliation.frame,
        steps=steps,
        component_map=component_map,
        occurrences=occurrences,
        findings=findings,
    )


def _share_findings(booked: BookedRows, total_ns: int) -> Sequence[Finding]:
    """How much is mixed, inferred or unattributed, where any is; a warning where it is much."""
    durations = booked.end_ns - booked.start_ns
    unattributed = np.array(
        [phase == BookedPhase.UNATTRIBUTED.value for _, phase, *_ in booked.buckets], dtype=np.bool_
    )
    is_unattributed = unattributed[booked.bucket] if len(booked.buckets) else np.zeros(0, dtype=np.bool_)
    shares = (
        ("mixed-phases", booked.is_mixed, "is in fusions that hold another phase too: it is booked under one of them"),
        (
            "inferred-buckets",
            booked.is_inferred,
            "is booked by an enclosing loop, the data flow, or a kernel name",
        ),
        ("unattributed-phase", is_unattributed, "has no phase"),
    )
    findings = []
    for rule, chosen, what in shares:
        sum_ns = int(durations[chosen].sum())
        if sum_ns == 0:
            continue
        ratio = sum_ns / total_ns
        findings.append(
            Finding(
                rule=rule,
                severity=Severity.WARNING if ratio >= _MUCH and rule != "inferred-buckets" else Severity.NOTE,
                where="ledger",
                message=f"{format_duration(sum_ns)} of {format_duration(total_ns)} ({format_ratio(ratio)}) {what}",
                numbers={"sum_ns": sum_ns, "total_ns": total_ns, "rows_count": int(chosen.sum())},
            )
        )
    return findings
