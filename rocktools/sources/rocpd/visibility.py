"""Rows that are in the base tables but that the stock views do not show.

The data views of rocpd are chains of inner joins, so a row whose thread, event, name or queue is missing disappears
without a word: `samples` of a real rocprof-sys file shows none of 880. rocktools reads the base tables and loses
nothing; this module says what other tools lose, and why. The conditions are those of the views of schema 3, restated
here; the tests compare the counts with the views themselves.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rocktools.findings import Finding, Severity
from rocktools.sources.rocpd.columns import TableReader
from rocktools.sources.rocpd.schema import ProcessTables


@dataclass(frozen=True, slots=True)
class _Join:
    """One inner join of a view: rows are dropped unless `table.id` equals `key` (a column of an earlier alias)."""

    alias: str
    table: str
    key: str
    lacking: str

    @property
    def source(self) -> str:
        return self.key.split(".")[0]


@dataclass(frozen=True, slots=True)
class _View:
    name: str
    base: str
    joins: tuple[_Join, ...]


_EVENT = _Join("event", "event", "main.event_id", "no event")
_THREAD = _Join("thread", "info_thread", "main.tid", "no thread")
_PROCESS = _Join("process", "info_process", "main.pid", "no process")
_NAME = _Join("name", "string", "main.name_id", "no name")

_VIEWS = (
    _View(
        "kernels",
        "kernel_dispatch",
        (
            _Join("agent", "info_agent", "main.agent_id", "no agent"),
            _EVENT,
            _Join("region", "string", "main.region_name_id", "no range name"),
            _Join("symbol", "info_kernel_symbol", "main.kernel_id", "no kernel symbol"),
            _Join("queue", "info_queue", "main.queue_id", "no queue"),
            _Join("process", "info_process", "queue.pid", "no process behind their queue"),
            _THREAD,
        ),
    ),
    _View("regions", "region", (_EVENT, _NAME, _PROCESS, _THREAD)),
    _View(
        "samples",
        "sample",
        (
            _Join("track", "track", "main.track_id", "no track"),
            _EVENT,
            _Join("process", "info_process", "track.pid", "no process behind their track"),
            _Join("thread", "info_thread", "track.tid", "no thread behind their track"),
        ),
    ),
    _View(
        "memory_copies",
        "memory_copy",
        (
            _NAME,
            _Join("destination", "info_agent", "main.dst_agent_id", "no destination agent"),
            _Join("source", "info_agent", "main.src_agent_id", "no source agent"),
            _EVENT,
            _PROCESS,
            _THREAD,
        ),
    ),
    _View("memory_allocations", "memory_allocate", (_EVENT, _PROCESS, _THREAD)),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Visibility:
    """What one stock view shows of its base table.

    Attributes:
        view: name of the view.
        rows_count: rows of the base table.
        visible_count: rows that the view shows.
        lacking: reason -> rows that lack that; a row can lack several things.
    """

    view: str
    rows_count: int
    visible_count: int
    lacking: dict[str, int]


def measure_visibility(reader: TableReader, process: ProcessTables) -> list[Visibility]:
    """For each stock view whose tables are all there: how many rows it shows.

    Raises:
        DamagedFile: SQLite cannot read the tables.
    """
    return [
        _measure(reader, process, view)
        for view in _VIEWS
        if view.base in process.tables and all(join.table in process.tables for join in view.joins)
    ]


def check_visibility(reader: TableReader, process: ProcessTables) -> list[Finding]:
    """A note for each stock view that hides rows.

    Raises:
        DamagedFile: SQLite cannot read the tables.
    """
    findings = []
    for measured in measure_visibility(reader, process):
        hidden = measured.rows_count - measured.visible_count
        if hidden:
            reasons = ", ".join(f"{count:,} have {reason}" for reason, count in measured.lacking.items() if count)
            findings.append(
                Finding(
                    rule="rows-hidden-by-view",
                    severity=Severity.NOTE,
                    where=f"{process.path}, view {measured.view}",
                    message=f"the view shows {measured.visible_count:,} of {measured.rows_count:,} rows: {reasons}",
                    numbers={"rows_count": measured.rows_count, "visible_count": measured.visible_count},
                    advice="rocktools reads the base tables and counts them; tools that use the views do not",
                )
            )
    return findings


def _measure(reader: TableReader, process: ProcessTables, view: _View) -> Visibility:
    base = process.tables[view.base]
    if not all(_has_key(process, view, join) for join in view.joins):
        rows_count = int(reader.scalar(f"SELECT count(*) FROM {base.quoted}"))
        return Visibility(view=view.name, rows_count=rows_count, visible_count=rows_count, lacking={})
    joins = " ".join(
        f"LEFT JOIN {process.tables[join.table].quoted} AS {join.alias} ON {join.alias}.id = {join.key}"
        f" AND {join.alias}.guid = {join.source}.guid"
        for join in view.joins
    )
    lacking = ", ".join(f"total({join.alias}.id IS NULL)" for join in view.joins)
    is_visible = " AND ".join(f"{join.alias}.id IS NOT NULL" for join in view.joins)
    row = reader.rows(f"SELECT count(*), total({is_visible}), {lacking} FROM {base.quoted} AS main {joins}")[0]
    counts = [int(count) for count in row]
    reasons = dict(zip((join.lacking for join in view.joins), counts[2:], strict=True))
    # Whoever has no queue has no process behind it either: once is enough.
    dependent = {join.lacking: _reason_of(view.joins, join.source) for join in view.joins if join.source != "main"}
    return Visibility(
        view=view.name,
        rows_count=counts[0],
        visible_count=counts[1],
        lacking={reason: count - reasons.get(dependent.get(reason, ""), 0) for reason, count in reasons.items()},
    )


def _reason_of(joins: Sequence[_Join], alias: str) -> str:
    return next(join.lacking for join in joins if join.alias == alias)


def _has_key(process: ProcessTables, view: _View, join: _Join) -> bool:
    """Whether the tables have the columns of a join; hand-made files lack some, and then have no such view either."""
    tables = {"main": view.base, **{other.alias: other.table for other in view.joins}}
    column = join.key.split(".")[1]
    return process.has(tables[join.source], column, "guid") and process.has(join.table, "id", "guid")
