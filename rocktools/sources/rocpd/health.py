"""What in the tables of one process cannot be trusted, as findings.

Each check is one function from tables to findings. They read much of the file, so they run when asked for (`rocktools
info`), not on every load; what loading itself stumbles over is reported there.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence

import numpy as np

from rocktools.errors import DamagedFile
from rocktools.findings import Finding, Severity
from rocktools.sources.rocpd.columns import Field, IntColumn, TableReader
from rocktools.sources.rocpd.contents import list_contents
from rocktools.sources.rocpd.counters import read_counter_values
from rocktools.sources.rocpd.dispatches import read_dispatches
from rocktools.sources.rocpd.parts import LabelColumn
from rocktools.sources.rocpd.schema import RECOVERED_TAG, ProcessTables, Table, quote_name
from rocktools.sources.rocpd.visibility import check_visibility
from rocktools.units import count_noun

# GPU and CPU time stamps of one event chain may be out of order by this much without meaning anything: the tool shifts
# times it finds impossible, and up to 209 µs of skew have been reported.
CLOCK_NOISE_NS = 250_000
# More than this between every launch and its kernel is no queueing: the two clocks differ.
_CLOCK_OFFSET_NS = 1_000_000_000

_TIME_COLUMNS = {
    "kernel_dispatch": ("start", "end", "dispatch_id", "agent_id", "kernel_id", "queue_id"),
    "region": ("start", "end"),
    "memory_copy": ("start", "end", "size"),
    "memory_allocate": ("start", "end"),
    "sample": ("timestamp",),
}
_RARE = re.compile(r"^SQ_INSTS_|_ATOMIC")  # what a program may have none of
_SHOWN_COUNTERS = 4


def check_process(reader: TableReader, process: ProcessTables, *, is_counter_pass: bool) -> list[Finding]:
    """All checks.

    Raises:
        DamagedFile: SQLite cannot read the tables.
    """
    return [
        *check_completeness(reader, process),
        *check_storage(reader, process),
        *check_times(reader, process),
        *check_dispatch_ids(reader, process),
        *check_queues(reader, process, is_counter_pass=is_counter_pass),
        *check_launches(reader, process),
        *check_symbols(reader, process),
        *check_counters(reader, process, is_counter_pass=is_counter_pass),
        *check_visibility(reader, process),
        *check_privacy(reader, process),
    ]


def check_completeness(reader: TableReader, process: ProcessTables) -> list[Finding]:
    """Tables that are missing, rows that must be there and are not, and what a repair left its mark on."""
    findings = check_recovered(process)
    if process.missing_tables:
        listed = ", ".join(process.missing_tables)
        findings.append(
            _finding(
                process,
                "tables-missing",
                Severity.NOTE,
                f"{len(process.missing_tables)} tables of schema 3 are missing: {listed}",
                missing_count=len(process.missing_tables),
            )
        )
    rows = {content.base: content.rows_count for content in list_contents(reader, process)}
    if any(rows.values()):
        others = [base for base, count in rows.items() if count and base != "kernel_dispatch"]
        if not rows.get("kernel_dispatch"):
            findings.append(
                _finding(
                    process,
                    "no-dispatches",
                    Severity.WARNING,
                    f"there is no kernel dispatch, but there are rows of {', '.join(others)}",
                    "was kernel tracing on, did the process use a GPU, and does this ROCm know the device?",
                )
            )
        return findings
    has_process = process.has("info_process") and reader.scalar(
        f"SELECT count(*) FROM {process.tables['info_process'].quoted}"
    )
    what = "it has no rows of any kind" if has_process else "it has tables but not even the row of its process"
    advice = (
        "the process ended before anything was recorded, or nothing was asked to be traced"
        if has_process
        else "the tool failed while it wrote (2025 versions did on ';' in the command line); look into its log"
    )
    findings.append(_finding(process, "nothing-recorded", Severity.FAULT, what, advice))
    return findings


def check_recovered(process: ProcessTables) -> list[Finding]:
    """Whether a repair left its mark. Costs nothing, so it is asked on every opening."""
    if RECOVERED_TAG not in process.metadata:
        return []
    return [
        _finding(
            process,
            "recovered-copy",
            Severity.WARNING,
            "this is a repaired copy; rows may be missing from it",
            "take counts and sums for the least that there was",
        )
    ]


def check_storage(reader: TableReader, process: ProcessTables) -> list[Finding]:
    """Times and ids that are not stored as integers; fractions would be cut off silently by a fast reader."""
    findings = []
    for base, columns in _TIME_COLUMNS.items():
        table = process.tables.get(base)
        present = [name for name in columns if table is not None and name in table.columns]
        if table is None or not present:
            continue
        counts = ", ".join(f"total(typeof({quote_name(name)}) NOT IN ('integer', 'null'))" for name in present)
        fractions = ", ".join(
            f"total(typeof({quote_name(name)}) = 'real' AND {quote_name(name)} <> round({quote_name(name)}))"
            for name in present
        )
        row = reader.rows(f"SELECT {counts}, {fractions} FROM {table.quoted}")[0]
        for position, name in enumerate(present):
            other, fractional = int(row[position]), int(row[position + len(present)])
            if other:
                findings.append(
                    _finding(
                        process,
                        "not-integers",
                        Severity.FAULT if fractional else Severity.WARNING,
                        f"{other:,} values of {base}.{name} are not integers, {fractional:,} of them fractions",
                        "the writer was not rocprofv3 or rocprof-sys, or the file was edited",
                        other_count=other,
                        fraction_count=fractional,
                    )
                )
    return findings


def check_times(reader: TableReader, process: ProcessTables) -> list[Finding]:
    """Rows that end before they start, or that were never given a time."""
    findings = []
    for base in _TIME_COLUMNS:
        if not process.has(base, "start", "end"):
            continue
        table = process.tables[base]
        # Of integers only: what is stored otherwise is reported elsewhere, and may be infinite.
        row = reader.rows(
            'SELECT count(*), total("end" < "start"), total("start" = 0), max("start" - "end")'
            f""" FROM {table.quoted} WHERE typeof("start") = 'integer' AND typeof("end") = 'integer'"""
        )[0]
        rows_count, negative, zero = (int(value) for value in row[:3])
        if negative:
            findings.append(
                _finding(
                    process,
                    "negative-duration",
                    Severity.WARNING,
                    f"{negative:,} of {rows_count:,} rows of {base} end before they start, by up to {int(row[3]):,} ns",
                    "they are counted, and give no time",
                    negative_count=negative,
                    largest_ns=int(row[3]),
                )
            )
        if zero:
            findings.append(
                _finding(
                    process,
                    "no-start-time",
                    Severity.WARNING,
                    f"{zero:,} of {rows_count:,} rows of {base} start at 0, which means that no time was recorded",
                    "leave them out of time windows",
                    zero_count=zero,
                )
            )
    return findings


def check_dispatch_ids(reader: TableReader, process: ProcessTables) -> list[Finding]:
    """Dispatch ids that are not unique (kernel replay has one row for each pass, which its column tells apart)."""
    if not process.has("kernel_dispatch", "dispatch_id"):
        return []
    table = process.tables["kernel_dispatch"]
    key = "dispatch_id, replay_pass" if "replay_pass" in table.columns else "dispatch_id"
    repeated = int(
        reader.scalar(
            f"SELECT total(n - 1) FROM (SELECT count(*) AS n FROM {table.quoted} GROUP BY {key} HAVING n > 1)"
        )
    )
    if not repeated:
        return []
    return [
        _finding(
            process,
            "duplicate-dispatch-ids",
            Severity.WARNING,
            f"{repeated:,} dispatches repeat the id of another one",
            "each is counted; joins by dispatch id are ambiguous",
            repeated_count=repeated,
        )
    ]


def check_queues(reader: TableReader, process: ProcessTables, *, is_counter_pass: bool) -> list[Finding]:
    """Overlap on one queue (firmware inaccuracy, usually under a microsecond) and stream ids that cannot be true."""
    wanted = ("start", "end", "agent_id", "queue_id")
    if not process.has("kernel_dispatch", *wanted):
        return []
    rows = read_dispatches(reader, process, "", ["start_ns", "end_ns", "agent_id", "queue_id", "stream_id"])
    start, end = rows["start_ns"].values, rows["end_ns"].values
    if len(start) < 2:
        return []
    agent, queue = rows["agent_id"].values, rows["queue_id"].where_missing(-1)
    order = np.lexsort((start, queue, agent))
    is_same = (agent[order][1:] == agent[order][:-1]) & (queue[order][1:] == queue[order][:-1])
    overlap = np.where(is_same, end[order][:-1] - start[order][1:], 0)
    count, largest = int((overlap > 0).sum()), int(overlap.max(initial=0))
    findings = []
    if count:
        is_noise = largest <= CLOCK_NOISE_NS
        findings.append(
            _finding(
                process,
                "overlap-on-queue",
                Severity.NOTE if is_noise else Severity.WARNING,
                f"{count_noun(count, 'overlap')} of neighbours on one queue, up to {largest:,} ns",
                "inaccuracy of the time stamps" if is_noise else "sums of durations count this time twice; use unions",
                overlaps_count=count,
                largest_ns=largest,
            )
        )
    streams = np.unique(rows["stream_id"].where_missing(-1))
    if len(streams) == 1 and not is_counter_pass and _queues_overlap(start, end, agent, queue):
        findings.append(
            _finding(
                process,
                "one-stream-several-queues",
                Severity.WARNING,
                f"every dispatch says stream {int(streams[0])}, but several queues of one device run at the same time",
                "stream ids of this file mean nothing (a known fault of some versions); group by queue",
            )
        )
    return findings


def _queues_overlap(start: np.ndarray, end: np.ndarray, agent: np.ndarray, queue: np.ndarray) -> bool:
    """Whether, on some agent, dispatches of two queues overlap by more than clock noise."""
    order = np.lexsort((start, agent))
    agents, queues = agent[order], queue[order]
    is_neighbour = (agents[1:] == agents[:-1]) & (queues[1:] != queues[:-1])
    overlap = np.minimum(end[order][:-1], end[order][1:]) - start[order][1:]
    return bool((is_neighbour & (overlap > CLOCK_NOISE_NS)).any())


def check_launches(reader: TableReader, process: ProcessTables) -> list[Finding]:
    """Dispatches without a host launch although host calls were traced, and clocks that disagree."""
    region, event = process.tables.get("region"), process.tables.get("event")
    if region is None or event is None or not process.has("region", "id", "start"):
        return []
    if not process.has("kernel_dispatch", "start"):
        return []
    rows = read_dispatches(reader, process, "", ["start_ns", "host_call_id"])
    launches: IntColumn = rows["host_call_id"]
    has_launch = ~launches.missing
    total, linked = len(launches), int(has_launch.sum())
    if total == 0 or linked == 0:
        return []  # no host call was traced, or none of HIP: info shows the domains
    findings = []
    if linked < total:
        findings.append(
            _finding(
                process,
                "dispatches-without-launch",
                Severity.NOTE,
                f"{total - linked:,} of {total:,} dispatches have no traced HIP call that launched them",
                unlinked_count=total - linked,
                dispatches_count=total,
            )
        )
    calls = reader.ints(region.quoted, [Field("id", "id"), Field("start", '"start"')])
    order = np.argsort(calls["id"].values, kind="stable")
    at = order[np.searchsorted(calls["id"].values[order], launches.values[has_launch])]
    delay = rows["start_ns"].values[has_launch] - calls["start"].values[at]
    shortest = int(delay.min())
    if shortest < -CLOCK_NOISE_NS or shortest > _CLOCK_OFFSET_NS:
        findings.append(
            _finding(
                process,
                "host-and-device-clocks-differ",
                Severity.WARNING,
                f"the shortest time from a launch to its kernel is {shortest:,} ns",
                "host and device rows are on different clocks; do not subtract one from the other",
                shortest_ns=shortest,
            )
        )
    return findings


def check_symbols(reader: TableReader, process: ProcessTables) -> list[Finding]:
    """Dispatches whose kernel has no symbol, so no name."""
    if not process.has("kernel_dispatch", "kernel_id") or not process.has("info_kernel_symbol", "id"):
        return []
    dispatches, symbols = (process.tables[base].quoted for base in ("kernel_dispatch", "info_kernel_symbol"))
    nameless = int(
        reader.scalar(f"SELECT count(*) FROM {dispatches} WHERE kernel_id NOT IN (SELECT id FROM {symbols})")
    )
    if not nameless:
        return []
    return [
        _finding(
            process,
            "kernels-without-symbol",
            Severity.WARNING,
            f"{nameless:,} dispatches are of kernels that the file does not name; they are shown as kernel_<id>",
            nameless_count=nameless,
        )
    ]


def check_counters(reader: TableReader, process: ProcessTables, *, is_counter_pass: bool) -> list[Finding]:
    """Counters that are zero throughout, or that some of the counted dispatches lack, or all of them."""
    if not is_counter_pass:
        return []
    part = read_counter_values(reader, process, "", "")
    label: LabelColumn = part["counter"]
    dispatch_ids: np.ndarray = part["dispatch_id"].values
    counted = len(np.unique(dispatch_ids))
    if not counted:
        return [
            _finding(
                process,
                "no-counter-values",
                Severity.FAULT,
                "counters were asked for, and no dispatch has a value of any",
                "look into the log of the tool; some counters cannot be collected together, or not on this device",
            )
        ]
    is_zero = (part["min_value"] == 0) & (part["max_value"] == 0)
    findings = []
    unused: list[str] = []
    counting_blocks = {
        name.partition("_")[0] for code, name in enumerate(label.names) if not is_zero[label.codes == code].all()
    }
    for code, name in sorted(enumerate(label.names), key=lambda pair: pair[1]):
        is_this = label.codes == code
        recorded = len(np.unique(dispatch_ids[is_this]))  # kernel replay repeats a dispatch in several passes
        is_rare = _RARE.search(name) is not None and name.partition("_")[0] in counting_blocks
        if recorded and is_zero[is_this].all() and is_rare:
            unused.append(name)
        elif recorded and is_zero[is_this].all():
            findings.append(
                _finding(
                    process,
                    "counter-all-zero",
                    Severity.WARNING,
                    f"{name} is 0 in all {recorded:,} dispatches",
                    "some counters stay 0 in a low power state, or are not wired on this device",
                    dispatches_count=recorded,
                )
            )
        if 0 < recorded < counted:
            findings.append(
                _finding(
                    process,
                    "counter-missing-for-dispatches",
                    Severity.WARNING,
                    f"{name} was recorded for {recorded:,} of {counted:,} counted dispatches",
                    "values that are missing stay missing; they are not 0",
                    recorded_count=recorded,
                    dispatches_count=counted,
                )
            )
    return [*findings, *_unused_counters(process, unused)]


def _unused_counters(process: ProcessTables, names: Sequence[str]) -> list[Finding]:
    """Counters of which a program may have none, in one finding."""
    if not names:
        return []
    shown = ", ".join(names[:_SHOWN_COUNTERS]) + (", ..." if len(names) > _SHOWN_COUNTERS else "")
    return [
        _finding(
            process,
            "instructions-not-executed",
            Severity.NOTE,
            f"{count_noun(len(names), 'counter')} of instructions or atomics count nothing in any dispatch, and "
            f"others of their blocks do: {shown}",
            "a program in one format has no instructions of the others; if it should have, count them alone",
            counters_count=len(names),
        )
    ]


def check_privacy(reader: TableReader, process: ProcessTables) -> list[Finding]:
    """Whether the file carries the environment of the job (SQLite measures and counts; the text is not fetched)."""
    if not process.has("info_process", "environment"):
        return []
    table = process.tables["info_process"]
    if not reader.scalar(f"SELECT count(*) FROM {table.quoted} WHERE length(environment) > 2"):
        return []
    count = _count_variables(reader, table)
    return [
        _finding(
            process,
            "environment-inside",
            Severity.NOTE,
            f"the file holds {'the environment' if count is None else count_noun(count, 'environment variable')}"
            " of the job, which may include secrets",
            f"before you share it: rocktools rocpd scrub {shlex.quote(str(process.path))} -o scrubbed.db",
            **({} if count is None else {"variables_count": count}),
        )
    ]


def _count_variables(reader: TableReader, table: Table) -> int | None:
    """Variables in the environments of a table; None where one is not the JSON object that tools write."""
    try:
        [(count, others)] = reader.rows(
            "SELECT sum(n), count(*) - count(n) FROM (SELECT CASE WHEN NOT json_valid(environment) THEN NULL"
            " WHEN json_type(environment) = 'object' THEN (SELECT count(*) FROM json_each(environment)) END AS n"
            f" FROM {table.quoted} WHERE length(environment) > 2)"
        )
    except DamagedFile:  # the length could be read: this is an SQLite without JSON
        return None
    return int(count) if count and not others else None


def _finding(
    process: ProcessTables, rule: str, severity: Severity, message: str, advice: str = "", **numbers: int
) -> Finding:
    return Finding(
        rule=rule, severity=severity, where=str(process.path), message=message, numbers=numbers, advice=advice
    )
