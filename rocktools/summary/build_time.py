"""Booked rows -> the blocks of the ledger and of overlap, by the functions behind their commands."""

from __future__ import annotations

import numpy as np
import pandas as pd

from rocktools.attribution.components import ComponentMap
from rocktools.attribution.ledger_document import Ledger
from rocktools.evidence import Evidence
from rocktools.findings import Finding
from rocktools.summary.document import (
    LedgerBlock,
    LedgerBucket,
    LedgerRow,
    LedgerTable,
    OverlapBlock,
    OverlapMeans,
    OverlapStep,
    QuantitySpread,
)
from rocktools.summary.gathered import Timed
from rocktools.summary.rows import build_rows
from rocktools.timeline.overlap import RECONCILIATION, reconcile
from rocktools.timeline.ranks import compare_devices
from rocktools.workspace.ledger import build_run_ledger

_BUCKET = ["activity", "phase", "component"]
_MEANS = tuple(name for name in OverlapMeans.__dataclass_fields__ if name not in ("run", "device", "steps_count"))


def build_ledger_block(timed: Timed, component_map: ComponentMap) -> tuple[LedgerBlock, tuple[Finding, ...]]:
    """The ledger, and the doubts that it raised."""
    ledger = build_run_ledger(timed.rows, timed.steps, component_map=component_map)
    frame = ledger.buckets
    places = frame[["run", "device", "step_index"]].drop_duplicates()
    total = int(frame["sum_ns"].sum())
    steps = places[["run", "step_index"]].drop_duplicates().sort_values(["run", "step_index"])
    block = LedgerBlock(
        title=ledger.title,
        steps_count=len(steps),
        devices_count=len(places[["run", "device"]].drop_duplicates()),
        places_count=len(places),
        total_sum_ns=total,
        total_per_step_ns=total / len(places) if len(places) else 0.0,
        series_steps=tuple(f"{run}:{step}" for run, step in zip(steps["run"], steps["step_index"], strict=True)),
        tables=_tables(ledger),
        buckets=_buckets(frame, places, steps, total),
    )
    return block, tuple(ledger.findings)


def _tables(ledger: Ledger) -> tuple[LedgerTable, ...]:
    found = []
    for name, rows in ledger.tables.groupby("table", observed=True, sort=False):
        inferred = rows["inferred_ns"].fillna(0) > 0
        evidence = [
            None if is_wordless else Evidence.INFERRED if is_inferred else Evidence.MEASURED
            for is_wordless, is_inferred in zip(rows["mean_ns"].isna(), inferred, strict=True)
        ]
        found.append(LedgerTable(name=str(name), rows=build_rows(LedgerRow, rows, evidence=evidence)))
    return tuple(found)


def _buckets(frame: pd.DataFrame, places: pd.DataFrame, steps: pd.DataFrame, total: int) -> tuple[LedgerBucket, ...]:
    """Buckets over all places, the longest first."""
    of_device = places.groupby(["run", "device"], observed=True).size()
    of_step = places.groupby(["run", "step_index"], observed=True).size()
    step_keys = list(zip(steps["run"], steps["step_index"], strict=True))
    found = []
    for key, rows in frame.groupby(_BUCKET, observed=True, sort=True):
        sums = (rows.groupby(["run", "device"], observed=True)["sum_ns"].sum()).reindex(of_device.index, fill_value=0)
        means = sums / of_device
        devices = [str(device) for _, device in means.index]
        by_step = rows.groupby(["run", "step_index"], observed=True)["sum_ns"].sum()
        inferred_ns = int(rows["inferred_ns"].sum())
        sum_ns = int(rows["sum_ns"].sum())
        found.append(
            LedgerBucket(
                activity=str(key[0]),
                phase=str(key[1]),
                component=str(key[2]),
                sum_ns=sum_ns,
                sum_per_step_ns=sum_ns / len(places),
                union_per_step_ns=int(rows["union_ns"].sum()) / len(places),
                share_ratio=sum_ns / total if total else 0.0,
                lowest_ns=float(means.min()),
                highest_ns=float(means.max()),
                critical_device=devices[int(np.argmax(means.to_numpy()))],
                rows_count=int(rows["rows_count"].sum()),
                mixed_ns=int(rows["mixed_ns"].sum()),
                inferred_ns=inferred_ns,
                series_ns=tuple(float(by_step.get(step, 0)) / float(of_step[step]) for step in step_keys),
                evidence=Evidence.INFERRED if inferred_ns else Evidence.MEASURED,
            )
        )
    return tuple(sorted(found, key=lambda each: (-each.sum_ns, each.activity, each.phase, each.component)))


def build_overlap_block(timed: Timed, *, places_count: int) -> tuple[OverlapBlock, tuple[Finding, ...]]:
    """What ran at once, and the doubts that it raised.

    Args:
        places_count: most devices and steps that are listed one by one.
    """
    reconciled = reconcile(timed.rows, timed.steps)
    frame = reconciled.frame
    compared = compare_devices(frame)
    devices = [
        _means(rows, str(run), str(device))
        for (run, device), rows in frame.groupby(["run", "device"], observed=True, sort=True)
    ]
    mean = _means(frame, "", "")
    listed = frame[list(RECONCILIATION.names)].head(places_count)
    block = OverlapBlock(
        evidence=reconciled.evidence,
        mean=mean,
        devices=tuple(devices),
        spread=build_rows(QuantitySpread, compared.spread),
        steps=build_rows(OverlapStep, listed),
        steps_total_count=len(frame),
        hidden_ratio=_ratio(mean.hidden_communication_ns, mean.communication_ns),
        exposed_ratio=_ratio(mean.exposed_communication_ns, mean.span_ns),
        busy_ratio=_ratio(mean.busy_ns, mean.span_ns),
        idle_ratio=_ratio(mean.idle_ns, mean.span_ns),
    )
    return block, (*reconciled.findings, *compared.findings)


def _means(rows: pd.DataFrame, run: str, device: str) -> OverlapMeans:
    """The mean of each quantity over rows of RECONCILIATION; of windows only where every row has one."""
    means = {
        name: None if bool(rows[name].isna().any()) else float(rows[name].astype("float64").mean()) for name in _MEANS
    }
    steps_count = len(rows[["run", "step_index"]].drop_duplicates())
    return OverlapMeans(run=run, device=device, steps_count=steps_count, **means)  # type: ignore[arg-type]


def _ratio(part: float, whole: float) -> float | None:
    return part / whole if whole else None
