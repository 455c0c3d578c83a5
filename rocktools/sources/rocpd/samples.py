"""Instants on tracks: telemetry and events -> SAMPLES. (roctx marks are samples too, and go to RANGES.)"""

from __future__ import annotations

from typing import Any

import numpy as np

from rocktools.findings import Finding, Severity
from rocktools.frames import SAMPLES
from rocktools.sources.rocpd.columns import Field, IntColumn, TableReader, absent_column
from rocktools.sources.rocpd.dispatches import count_rows, drop_unusable_rows, read_recorded_columns
from rocktools.sources.rocpd.events import has_category, read_event_columns, roctx_categories
from rocktools.sources.rocpd.facts import int_column, read_info_rows, text_or_none
from rocktools.sources.rocpd.parts import (
    Part,
    filter_part,
    identity_columns,
    label_constant,
    label_ids,
    lookup,
    sort_part,
)
from rocktools.sources.rocpd.schema import ProcessTables
from rocktools.sources.rocpd.strings import read_strings

# The value amd-smi gives for "not available" in 16-bit metrics.
_NOT_AVAILABLE = 65_535.0


def read_samples(reader: TableReader, process: ProcessTables, run: str) -> Part:
    """The SAMPLES rows of a process with a sample table: all but roctx marks, with a value where there is one.

    Raises:
        DamagedFile: SQLite cannot read the tables, or they lack a column that no sample can do without.
    """
    samples = read_sample_columns(reader, process)
    part = dict(samples)
    values = _pair_sample_values(reader, process, part["sample_id"], part["event_id"])
    part.update(values)
    part = dict(filter_part(part, ~has_category(samples, roctx_categories(reader, process))))
    name_ids, categories = part.pop("name_id"), part.pop("category_id")
    part["track"] = label_ids(name_ids, read_strings(reader, process, name_ids))
    part["domain"] = label_ids(categories, read_strings(reader, process, categories))
    part.update(identity_columns(process.label, run, len(part["sample_id"])))
    return sort_part({name: part[name] for name in SAMPLES.names}, ("time_ns", "sample_id"))


def read_sample_columns(reader: TableReader, process: ProcessTables) -> Part:
    """Every sample with its event, category, track name and thread, in stored order.

    Raises: as `read_samples`.
    """
    table = process.tables["sample"]
    rows_count = count_rows(reader, table)
    recorded = {"sample_id": "id", "time_ns": "timestamp", "event_id": "event_id", "track_id": "track_id"}
    part: dict[str, Any] = read_recorded_columns(reader, table, recorded, ("sample_id", "time_ns"), rows_count)
    part.update(read_event_columns(reader, process, "sample", {"category_id": "category_id"}, rows_count))
    tracks = read_info_rows(reader, process, "track", ["id", "tid", "name_id"])
    track_ids = np.array([row["id"] for row in tracks], dtype=np.int64)
    for name, column in (("thread_id", "tid"), ("name_id", "name_id")):
        fact = int_column([row[column] for row in tracks])
        part[name] = lookup(track_ids, fact, part["track_id"])
    return drop_unusable_rows(reader, part, ("sample_id", "time_ns"), table)


def _pair_sample_values(
    reader: TableReader, process: ProcessTables, sample_ids: IntColumn, event_ids: IntColumn
) -> dict[str, Any]:
    """The telemetry value of each sample: rocprof-sys writes, for one event, as many samples as values, in one order.

    Where the two numbers differ for an event, its samples have no value and a finding says so.
    """
    rows_count = len(sample_ids)
    nothing = {
        "quantity": label_constant(None, rows_count),
        "value_unit": label_constant(None, rows_count),
        "value": np.full(rows_count, np.nan),
        "agent_id": absent_column(rows_count),
    }
    table = process.tables.get("pmc_event")
    if table is None or rows_count == 0 or not process.has("pmc_event", "id", "event_id", "pmc_id", "value"):
        return nothing
    # Points of streaming counters (SPM) hang on samples too, many on one.
    from_sql = table.in_order + (" WHERE sample_id IS NULL" if "sample_id" in table.columns else "")
    fields = [Field("id", "id"), Field("event_id", "event_id", is_nullable=True), Field("pmc_id", "pmc_id")]
    keys = reader.ints(from_sql, fields)
    is_wanted = np.isin(keys["event_id"].values, event_ids.values[~event_ids.missing]) & ~keys["event_id"].missing
    if not is_wanted.any():
        return nothing
    value_rows = np.flatnonzero(is_wanted)
    value_rows = value_rows[np.lexsort((keys["id"].values[value_rows], keys["event_id"].values[value_rows]))]
    sample_rows = np.flatnonzero(~event_ids.missing & np.isin(event_ids.values, keys["event_id"].values[value_rows]))
    sample_rows = sample_rows[np.lexsort((sample_ids.values[sample_rows], event_ids.values[sample_rows]))]
    value_rows, sample_rows = _keep_even_events(
        reader, process, keys["event_id"].values[value_rows], event_ids.values[sample_rows], value_rows, sample_rows
    )
    _, _, numbers = reader.keyed_values(from_sql, "event_id", "pmc_id", "value")
    return _spread_values(
        reader, process, rows_count, sample_rows, keys["pmc_id"].values[value_rows], numbers[value_rows]
    )


def _keep_even_events(
    reader: TableReader,
    process: ProcessTables,
    value_events: np.ndarray,
    sample_events: np.ndarray,
    value_rows: np.ndarray,
    sample_rows: np.ndarray,
) -> tuple[np.ndarray, np.ndarray]:
    events, value_counts = np.unique(value_events, return_counts=True)
    sample_counts = np.unique(sample_events, return_counts=True)[1]
    uneven = events[value_counts != sample_counts]
    if len(uneven):
        lost = int(np.isin(sample_events, uneven).sum())
        reader.findings.append(
            Finding(
                rule="samples-without-values",
                severity=Severity.WARNING,
                where=f"{reader.path}, table {process.tables['sample'].name}",
                message=f"{lost:,} samples share events with another number of values, and are shown without a value",
                numbers={"samples_count": lost, "events_count": len(uneven)},
            )
        )
    return value_rows[~np.isin(value_events, uneven)], sample_rows[~np.isin(sample_events, uneven)]


def _spread_values(
    reader: TableReader,
    process: ProcessTables,
    rows_count: int,
    sample_rows: np.ndarray,
    pmc_ids: np.ndarray,
    numbers: np.ndarray,
) -> dict[str, Any]:
    facts = read_info_rows(reader, process, "info_pmc", ["id", "name", "units", "agent_id"])
    names = {row["id"]: text_or_none(row["name"]) for row in facts}
    units = {row["id"]: text_or_none(row["units"]) for row in facts}
    fact_ids = np.array([row["id"] for row in facts], dtype=np.int64)
    all_ids = np.zeros(rows_count, dtype=np.int64)
    is_missing = np.ones(rows_count, dtype=np.bool_)
    all_ids[sample_rows], is_missing[sample_rows] = pmc_ids, False
    ids = IntColumn(all_ids, is_missing)
    values = np.full(rows_count, np.nan)
    values[sample_rows] = np.where(numbers == _NOT_AVAILABLE, np.nan, numbers)
    return {
        "quantity": label_ids(ids, names),
        "value_unit": label_ids(ids, units),
        "value": values,
        "agent_id": lookup(fact_ids, int_column([row["agent_id"] for row in facts]), ids),
    }
