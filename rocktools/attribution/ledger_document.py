"""A ledger as one JSON document (schema `rocktools.ledger/1`, ledger.schema.json beside this file).

Everything that the tables are made of is in it: buckets per device and step, table lines, reconciliation, expected
counts, findings. Numbers are exact where they are integers, null where there is none, and carry their unit in the name.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from rocktools.analytic.occurrences import Occurrence
from rocktools.attribution.components import ComponentMap
from rocktools.findings import Finding, sort_findings

SCHEMA = "rocktools.ledger/1"
SCHEMA_FILE = Path(__file__).resolve().parent / "ledger.schema.json"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Ledger:
    """One ledger with everything that belongs to it.

    Attributes:
        title: one line for people.
        is_simulated: whether any of it was made without hardware.
        buckets: LEDGER.
        tables: LEDGER_ROWS.
        reconciliation: RECONCILIATION of the same rows.
        steps: STEPS that the rows are of; None where the whole trace is one.
        component_map: what the rows were classified by.
        occurrences: what a workload expects; () where none was given.
        findings: doubts.
    """

    title: str
    is_simulated: bool
    buckets: pd.DataFrame
    tables: pd.DataFrame
    reconciliation: pd.DataFrame
    steps: pd.DataFrame | None
    component_map: ComponentMap
    occurrences: Sequence[Occurrence] = ()
    findings: Sequence[Finding] = ()

    @property
    def has_failed(self) -> bool:
        """Whether an expected count misses."""
        return not all(each.is_met for each in self.occurrences)


def ledger_document(ledger: Ledger, *, rocktools_version: str) -> dict[str, Any]:
    """The document, ready for `json.dumps`.

    Args:
        rocktools_version: of the program that writes it.
    """
    places = ledger.buckets[["run", "device", "step_index"]].drop_duplicates()
    return {
        "schema": SCHEMA,
        "rocktools_version": rocktools_version,
        "title": ledger.title,
        "is_simulated": ledger.is_simulated,
        "component_map": {"name": ledger.component_map.name, "source": Path(ledger.component_map.source).name},
        "devices": sorted({str(device) for device in places["device"]}),
        "places_count": len(places),
        "total_sum_ns": int(ledger.buckets["sum_ns"].sum()),
        "steps": [] if ledger.steps is None else _records(ledger.steps),
        "tables": {
            str(name): _records(rows.drop(columns="table"))
            for name, rows in ledger.tables.groupby("table", observed=True, sort=False)
        },
        "buckets": _records(ledger.buckets),
        "reconciliation": _records(ledger.reconciliation),
        "occurrences": [_occurrence(each) for each in ledger.occurrences],
        "findings": [finding.as_dict() for finding in sort_findings(ledger.findings)],
    }


def _occurrence(occurrence: Occurrence) -> dict[str, Any]:
    return {
        "title": occurrence.expectation.title,
        "expected_per_device_count": occurrence.expected_per_device_count,
        "expected_count": occurrence.expected_count,
        "found_count": occurrence.found_count,
        "found": dict(sorted(occurrence.found.items())),
        "is_met": occurrence.is_met,
    }


def _records(frame: pd.DataFrame) -> list[Mapping[str, Any]]:
    names = [str(name) for name in frame.columns]
    columns = [[_plain(value) for value in frame[name].tolist()] for name in names]
    return [dict(zip(names, values, strict=True)) for values in zip(*columns, strict=True)]


def _plain(value: Any) -> Any:
    if value is None or value is pd.NA or (isinstance(value, float) and math.isnan(value)):
        return None
    return value.item() if isinstance(value, np.generic) else value
