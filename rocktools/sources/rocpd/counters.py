"""rocpd_pmc_event -> COUNTER_VALUES: one row per counter of a dispatch, reduced over its hardware instances four ways.

rocprofv3 writes one row per hardware instance and throws the instance's place away; AMD's own view sums them, which is
wrong for clocks. Which of the four reductions is right depends on the counter, and is chosen where its meaning is known
(rocktools.counters), not here.

Three things must not be summed in silence:

* SPM rows (`sample_id` is set) are points of a time series, not totals: left out and counted;
* rows of samples (SMI telemetry of rocprof-sys) belong to SAMPLES, not to a dispatch;
* kernel replay before the `replay_pass` column hangs the rows of all G passes on one event, so that a counter repeated
  in G groups has G times its instances and G times its sum. Seen by counting rows: a hardware block has one number of
  instances, so a raw counter with a multiple of its neighbours' rows was over-counted. Its sum becomes missing.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from rocktools.findings import Finding, Severity
from rocktools.sources.rocpd.columns import Field, IntColumn, TableReader, absent_column, exact_integer
from rocktools.sources.rocpd.dispatches import count_rows
from rocktools.sources.rocpd.facts import read_agents, read_info_rows, text_or_none
from rocktools.sources.rocpd.parts import (
    LabelColumn,
    Part,
    filter_part,
    find_positions,
    identity_columns,
    label_constant,
    label_ids,
    sort_part,
)
from rocktools.sources.rocpd.schema import ProcessTables, Table

_PROBE_ROWS = 1_000
# Of these there is one on each accelerator die.
_BLOCKS_PER_XCC = frozenset({"GRBM", "CPC", "CPF"})
_REDUCED_SUFFIXES = ("_sum", "_avr", "_avg", "_max", "_min")
_INNERMOST_REDUCE = re.compile(r"\breduce\s*\((?:[^()]|\([^()]*\))*\)")
# From here on the ids are those of pseudo-counters of the kernel driver, which a trace can have.
_DRIVER_COUNTERS_FROM = 0x7000_0000_0000_0000


@dataclass(frozen=True, slots=True, kw_only=True)
class CounterFacts:
    """What a process recorded about one counter id; several ids share a name, one for each agent."""

    name: str
    agent_id: int | None
    block: str
    is_derived: bool
    is_reduced: bool  # to one value per dispatch


def is_counter_pass(reader: TableReader, process: ProcessTables) -> bool:
    """Whether counters were collected around the dispatches of a process, which serialises them.

    A pass that asked for counters and got none has serialised times all the same. It is known by their descriptions:
    rocprofv3 describes those that were asked for, while rocprof-sys describes all it knows.

    Raises:
        DamagedFile: SQLite cannot read the tables.
    """
    values, dispatches = process.tables.get("pmc_event"), process.tables.get("kernel_dispatch")
    if values is None or dispatches is None or not process.has("pmc_event", "event_id"):
        return False
    everything = f"SELECT event_id FROM {values.quoted}{_not_spm(values)}"
    if not reader.rows(f"{everything} LIMIT 1"):
        return "upid" not in process.metadata and _describes_counters(reader, process)
    if "event_id" not in dispatches.columns:
        return False
    # The first rows decide almost always; only telemetry with millions of rows needs the second, slower question.
    return any(
        reader.scalar(f"SELECT 1 FROM {dispatches.quoted} WHERE event_id IN ({events}) LIMIT 1") is not None
        for events in (f"{everything} LIMIT {_PROBE_ROWS}", everything)
    )


def _describes_counters(reader: TableReader, process: ProcessTables) -> bool:
    if not process.has("info_pmc", "id"):
        return False
    query = f"SELECT 1 FROM {process.tables['info_pmc'].quoted} WHERE id < {_DRIVER_COUNTERS_FROM} LIMIT 1"
    return reader.scalar(query) is not None


def read_xcc_counts(reader: TableReader, process: ProcessTables) -> dict[int, int]:
    """Agent id -> accelerator dies, of the GPUs whose record tells."""
    agents = read_agents(reader, process, "")
    ids, counts = agents["agent_id"], agents["xcc_count"]
    known = zip(ids.values.tolist(), counts.values.tolist(), counts.missing.tolist(), strict=True)
    return {agent: count for agent, count, is_missing in known if not is_missing}


def read_counter_values(reader: TableReader, process: ProcessTables, run: str, pass_label: str) -> Part:
    """The COUNTER_VALUES rows of a counter pass, in the order of the frame.

    Raises:
        DamagedFile: SQLite cannot read the tables.
    """
    values, dispatches = process.tables["pmc_event"], process.tables["kernel_dispatch"]
    facts = read_counter_facts(reader, process)
    _report_spm(reader, values)
    part = _drop_incomplete(reader, values, _join_dispatches(reader, dispatches, _reduce_instances(reader, values)))
    overcounted = _find_overcounted(part, facts, read_xcc_counts(reader, process))
    _report_overcounted(reader, process, overcounted)
    counters: IntColumn = part["pmc_id"]
    is_overcounted = np.isin(counters.values, sorted(overcounted))
    rows_count = len(counters)
    names: dict[int, str | None] = {key: counter.name for key, counter in facts.items()}
    names.update({key: f"counter_{key}" for key in np.unique(counters.values).tolist() if key not in names})
    part.update(identity_columns(process.label, run, rows_count))
    part["pass"] = label_constant(pass_label, rows_count)
    part["counter"] = label_ids(counters, names)
    part["sum_value"] = np.where(is_overcounted, np.nan, part["sum_value"])
    part["instances_count"] = IntColumn(part["instances_count"].values, is_overcounted)
    del part["pmc_id"]
    return _order_rows(part)


def read_counter_facts(reader: TableReader, process: ProcessTables) -> dict[int, CounterFacts]:
    """Counter id -> name, block, and whether it is computed from others. Never `extdata`: 116 KB in each row."""
    columns = ["id", "name", "agent_id", "block", "is_derived", "expression"]
    return {
        row["id"]: CounterFacts(
            name=text_or_none(row["name"]) or f"counter_{row['id']}",
            agent_id=exact_integer(row["agent_id"]),
            block=text_or_none(row["block"]) or "",
            is_derived=bool(row["is_derived"]) or bool(row["expression"]),
            is_reduced=_is_reduced(row["name"], row["expression"]),
        )
        for row in read_info_rows(reader, process, "info_pmc", columns)
    }


def _is_reduced(name: object, expression: object) -> bool:
    """Whether a derived counter has one value: by its name (X_sum), or because all in its expression is reduced.

    `accumulate(SQ_LEVEL_WAVES, HIGH_RES) / reduce(GRBM_GUI_ACTIVE, max)` has as many values as SQ has instances. Where
    a name in capitals is left outside of reduce(), which may be a raw counter, the answer is no.
    """
    if str(name).endswith(_REDUCED_SUFFIXES):
        return True
    text = str(expression or "")
    if not text:
        return False
    while (shorter := _INNERMOST_REDUCE.sub("1", text)) != text:
        text = shorter
    words = re.findall(r"[A-Za-z_]\w*", text)
    return not any(
        word == "accumulate" or (word.isupper() and not word.endswith(("_NUM", *_REDUCED_SUFFIXES))) for word in words
    )


@dataclass(frozen=True, slots=True)
class _Groups:
    """Values of one (event, counter) put together; one entry for each, the arrays equally long."""

    event_ids: np.ndarray
    pmc_ids: np.ndarray
    sums: np.ndarray
    minima: np.ndarray
    maxima: np.ndarray
    counts: np.ndarray

    def take(self, order: np.ndarray) -> _Groups:
        return _Groups(*(getattr(self, name)[order] for name in self.__slots__))


def _not_spm(values: Table) -> str:
    return " WHERE sample_id IS NULL" if "sample_id" in values.columns else ""


def _report_spm(reader: TableReader, values: Table) -> None:
    if "sample_id" not in values.columns:
        return
    spm_count = int(reader.scalar(f"SELECT count(*) FROM {values.quoted} WHERE sample_id IS NOT NULL"))
    if spm_count:
        reader.findings.append(
            Finding(
                rule="spm-rows-left-out",
                severity=Severity.NOTE,
                where=f"{reader.path}, table {values.name}",
                message=f"{spm_count:,} rows are points of streaming counters (SPM), not totals, and are left out",
                numbers={"spm_rows_count": spm_count},
            )
        )


def _reduce_instances(reader: TableReader, values: Table) -> _Groups:
    """Sum, minimum, maximum and number of the instances of each (event, counter)."""
    events, counters, numbers = reader.keyed_values(values.quoted + _not_spm(values), "event_id", "pmc_id", "value")
    rows = _Groups(events, counters, numbers, numbers, numbers, np.ones(len(numbers), dtype=np.int64))
    # rocprofv3 writes the instances of a counter one after the other, so the first merge leaves little to sort.
    runs = _merge_neighbours(rows)
    return _merge_neighbours(runs.take(np.lexsort((runs.pmc_ids, runs.event_ids))))


def _merge_neighbours(groups: _Groups) -> _Groups:
    """Put neighbours of equal event and counter together."""
    if len(groups.event_ids) == 0:
        return groups
    is_start = np.ones(len(groups.event_ids), dtype=np.bool_)
    for key in (groups.event_ids, groups.pmc_ids):
        is_start[1:] &= key[1:] == key[:-1]
    is_start[1:] = ~is_start[1:]
    starts = np.flatnonzero(is_start)
    return _Groups(
        groups.event_ids[starts],
        groups.pmc_ids[starts],
        np.add.reduceat(groups.sums, starts),
        np.minimum.reduceat(groups.minima, starts),
        np.maximum.reduceat(groups.maxima, starts),
        np.add.reduceat(groups.counts, starts),
    )


def _join_dispatches(reader: TableReader, dispatches: Table, groups: _Groups) -> dict[str, Any]:
    """Put the dispatch behind each group in place of its event; groups without one (telemetry) are left out."""
    id_column = "dispatch_id" if "dispatch_id" in dispatches.columns else "id"
    fields = [Field("event_id", "event_id", is_nullable=True), Field("dispatch_id", id_column)]
    if "replay_pass" in dispatches.columns:
        fields.append(Field("replay_pass", "replay_pass", is_nullable=True))
    columns = reader.ints(dispatches.quoted, fields, rows_count=count_rows(reader, dispatches))
    has_event = ~(columns["event_id"].missing | columns["dispatch_id"].missing)
    events, first = np.unique(columns["event_id"].values[has_event], return_index=True)
    rows = np.flatnonzero(has_event)[first]
    positions = find_positions(events, IntColumn(groups.event_ids))
    is_joined = positions < len(events)
    joined = groups.take(np.flatnonzero(is_joined))
    at = rows[positions[is_joined]]
    return {
        "dispatch_id": columns["dispatch_id"].take(at),
        "replay_pass": columns["replay_pass"].take(at) if "replay_pass" in columns else absent_column(len(at)),
        "pmc_id": IntColumn(joined.pmc_ids),
        "sum_value": joined.sums,
        "min_value": joined.minima,
        "max_value": joined.maxima,
        "instances_count": IntColumn(joined.counts),
    }


def _drop_incomplete(reader: TableReader, values: Table, part: dict[str, Any]) -> dict[str, Any]:
    """The rows of which every instance has a value: the sum of the others would be a number, and too small."""
    is_incomplete = np.isnan(part["min_value"])
    lost = int(is_incomplete.sum())
    if not lost:
        return part
    reader.findings.append(
        Finding(
            rule="counter-without-value",
            severity=Severity.WARNING,
            where=f"{reader.path}, table {values.name}",
            message=f"{lost:,} counters of dispatches lack the value of an instance, and are left out",
            numbers={"lost_count": lost},
        )
    )
    return dict(filter_part(part, ~is_incomplete))


def _find_overcounted(part: dict[str, Any], facts: dict[int, CounterFacts], xcc_counts: Mapping[int, int]) -> set[int]:
    """Counter ids whose rows are a multiple of what their block has instances, or of one for a reduced counter.

    Blocks of which there is one on each accelerator die have as many instances as the device has dies. Of the others
    the number is not recorded, and their counters are compared with each other: a counter that is alone in such a
    block, and a block of which every counter was repeated, are not found.
    """
    counters: IntColumn = part["pmc_id"]
    if len(counters) == 0 or not part["replay_pass"].missing.all():
        return set()
    ids, first = np.unique(counters.values, return_inverse=True)
    instances = part["instances_count"].values
    most = np.zeros(len(ids), dtype=np.int64)
    np.maximum.at(most, first, instances)
    fewest_of_block: dict[tuple[int | None, str], int] = {}
    for key, count in zip(ids.tolist(), most.tolist(), strict=True):
        counter = facts.get(key)
        if counter is not None and counter.block and not counter.is_derived:
            block = (counter.agent_id, counter.block)
            known = count
            if counter.block in _BLOCKS_PER_XCC and counter.agent_id is not None:
                known = xcc_counts.get(counter.agent_id, count)
            fewest_of_block[block] = min(count, known, fewest_of_block.get(block, count))
    overcounted = set()
    for key, count in zip(ids.tolist(), most.tolist(), strict=True):
        counter = facts.get(key)
        if counter is None or (counter.is_derived and not counter.is_reduced):
            continue
        expected = 1 if counter.is_derived else fewest_of_block.get((counter.agent_id, counter.block), count)
        if count > expected and count % expected == 0:
            overcounted.add(key)
    return overcounted


def _report_overcounted(reader: TableReader, process: ProcessTables, overcounted: set[int]) -> None:
    if not overcounted:
        return
    facts = read_counter_facts(reader, process)
    names = sorted({facts[key].name for key in overcounted})
    reader.findings.append(
        Finding(
            rule="replay-overcount",
            severity=Severity.FAULT,
            where=f"{reader.path}, table {process.tables['pmc_event'].name}",
            message=(
                f"{', '.join(names)}: several times the rows that their hardware block has instances, as kernel replay "
                "writes them when a counter is in more than one group; their sums are shown as missing"
            ),
            numbers={"counters_count": len(names)},
            advice="name each counter in one group only, or collect again without kernel replay",
        )
    )


def _order_rows(part: dict[str, Any]) -> Part:
    """Order the rows as the frame wants them: by dispatch, replay pass and counter name."""
    label: LabelColumn = part["counter"]
    rank = np.zeros(len(label.names), dtype=np.int64)
    rank[sorted(range(len(label.names)), key=label.names.__getitem__)] = np.arange(len(label.names))
    keyed = {**part, "_counter_rank": IntColumn(rank[label.codes])}
    ordered = dict(sort_part(keyed, ("dispatch_id", "replay_pass", "_counter_rank")))
    del ordered["_counter_rank"]
    return ordered
