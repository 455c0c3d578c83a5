"""What is in the tables of a process, without reading them out: rows, time windows, API domains, counters."""

from __future__ import annotations

from dataclasses import dataclass

from rocktools.sources.rocpd.columns import TableReader, exact_integer
from rocktools.sources.rocpd.counters import read_counter_facts
from rocktools.sources.rocpd.facts import int_column
from rocktools.sources.rocpd.schema import ProcessTables
from rocktools.sources.rocpd.strings import read_strings

_SUBJECTS = (
    ("kernel dispatches", "kernel_dispatch", "start", "end"),
    ("host regions", "region", "start", "end"),
    ("memory copies", "memory_copy", "start", "end"),
    ("allocations", "memory_allocate", "start", "end"),
    ("samples", "sample", "timestamp", "timestamp"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Content:
    """Rows of one kind.

    Attributes:
        subject: what the rows are, for people.
        base: base name of their table.
        rows_count: how many.
        first_ns, last_ns: earliest start and latest end, trace clock; None without rows, or without an exact time.
    """

    subject: str
    base: str
    rows_count: int
    first_ns: int | None
    last_ns: int | None


def list_contents(reader: TableReader, process: ProcessTables) -> list[Content]:
    """Rows and time windows of the big tables that exist.

    Raises:
        DamagedFile: SQLite cannot read them.
    """
    found = []
    for subject, base, start, end in _SUBJECTS:
        table = process.tables.get(base)
        if table is None:
            continue
        bounds = f'min("{start}"), max("{end}")' if process.has(base, start, end) else "NULL, NULL"
        count, first, last = reader.rows(f"SELECT count(*), {bounds} FROM {table.quoted}")[0]
        found.append(
            Content(
                subject=subject,
                base=base,
                rows_count=int(count),
                first_ns=exact_integer(first),
                last_ns=exact_integer(last),
            )
        )
    return found


def count_domains(reader: TableReader, process: ProcessTables) -> dict[str, int]:
    """API domain -> host regions; {} where the file does not record domains.

    Raises:
        DamagedFile: SQLite cannot read the tables.
    """
    if not process.has("region", "event_id") or not process.has("event", "id", "category_id"):
        return {}
    region, event = process.tables["region"], process.tables["event"]
    rows = reader.rows(
        f"SELECT event.category_id, count(*) FROM {region.quoted} AS region"
        f" LEFT JOIN {event.quoted} AS event ON event.id = region.event_id GROUP BY event.category_id"
    )
    categories = int_column([category for category, _ in rows])
    names = read_strings(reader, process, categories)
    domains: dict[str, int] = {}
    for key, (_, count) in zip(categories.where_missing(-1).tolist(), rows, strict=True):
        domain = names.get(key) or "(no category)"
        domains[domain] = domains.get(domain, 0) + int(count)
    return dict(sorted(domains.items(), key=lambda item: (-item[1], item[0])))


def count_dispatches_by_agent(reader: TableReader, process: ProcessTables) -> dict[int, int]:
    """Agent id -> kernel dispatches on it.

    Raises:
        DamagedFile: SQLite cannot read the table.
    """
    table = process.tables.get("kernel_dispatch")
    if table is None or not process.has("kernel_dispatch", "agent_id"):
        return {}
    rows = reader.rows(f"SELECT agent_id, count(*) FROM {table.quoted} WHERE agent_id NOT NULL GROUP BY agent_id")
    return {agent: int(count) for agent, count in rows if isinstance(agent, int)}


def count_counter_rows(reader: TableReader, process: ProcessTables) -> dict[str, int]:
    """Counter name -> stored values, for the counters that have any; streaming (SPM) points are not among them.

    Raises:
        DamagedFile: SQLite cannot read the tables.
    """
    if not process.has("pmc_event", "pmc_id"):
        return {}
    values = process.tables["pmc_event"]
    where = " WHERE sample_id IS NULL" if "sample_id" in values.columns else ""
    counts = reader.rows(f"SELECT pmc_id, count(*) FROM {values.quoted}{where} GROUP BY pmc_id")
    facts = read_counter_facts(reader, process)
    totals: dict[str, int] = {}
    for key, count in counts:
        name = facts[key].name if key in facts else f"counter_{key}"
        totals[name] = totals.get(name, 0) + int(count)
    return dict(sorted(totals.items()))
