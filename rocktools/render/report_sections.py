"""A summary -> a report: steps, the ledger, overlap, idle time, what to try; and all sections together."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from rocktools.evidence import Evidence
from rocktools.render.report import Detail, Figure, Report, Section, Shown, absent_section, record_table
from rocktools.render.report_charts import course_figure, ledger_figure, overlap_figure, steps_figure
from rocktools.render.report_facts import findings_section, provenance_section
from rocktools.render.report_hardware import counters_section, memory_section, roofline_section
from rocktools.render.report_operations import (
    collectives_section,
    families_section,
    operations_section,
    regions_section,
)
from rocktools.render.report_verdict import verdict_of
from rocktools.render.table import Table
from rocktools.summary.document import Candidate, LedgerTable, Missing, Statistics, Steps, Summary
from rocktools.units import count_noun, format_duration, format_ratio

_STAMP = "SIMULATED: "  # stands above the title already


def build_report(summary: Summary) -> Report:
    """The report of a summary. The same summary gives the same report."""
    sections = (
        _candidates_section(summary),
        _steps_section(summary),
        _ledger_section(summary),
        _overlap_section(summary),
        operations_section(summary),
        families_section(summary),
        regions_section(summary),
        collectives_section(summary),
        _gaps_section(summary),
        roofline_section(summary),
        counters_section(summary),
        memory_section(summary),
        findings_section(summary),
        provenance_section(summary),
    )
    made = "" if summary.generated_at_utc is None else f", {summary.generated_at_utc}"
    return Report(
        title=summary.title.removeprefix(_STAMP),
        is_simulated=summary.is_simulated,
        verdict=verdict_of(summary),
        sections=sections,
        footer=f"Made by rocktools {summary.rocktools_version}{made} from {_inputs(summary)}.",
    )


def _inputs(summary: Summary) -> str:
    inputs = summary.provenance.inputs
    shown = ", ".join(each.path for each in inputs[:4])
    return shown if len(inputs) <= 4 else f"{shown} and {len(inputs) - 4} more"


def _candidates_section(summary: Summary) -> Section:
    anchor, heading = "candidates", "What to try"
    if not summary.candidates:
        return Section(anchor=anchor, heading=heading, absence="no number stands out enough to suggest something")
    columns = (
        Shown("title", "what it is about"),
        Shown("subject", "operation, component, collective or device", lambda each: each.subject or None),
        Shown("most_saved_ns", "what a step would gain at most, if the cause vanished", evidence=Evidence.INFERRED),
        Shown("rationale", "why"),
    )
    table = record_table(
        "candidates",
        "Each with the numbers that suggest it",
        summary.candidates,
        columns,
        evidence=Evidence.INFERRED,
        is_simulated=summary.is_simulated,
    )
    details = tuple(
        Detail(
            anchor=f"candidate-{place}",
            title=each.title if not each.subject else f"{each.title}: {each.subject}",
            lines=(("numbers", _numbers_of(each)), *(("try", text) for text in each.suggestions)),
        )
        for place, each in enumerate(summary.candidates, start=1)
    )
    return Section(anchor=anchor, heading=heading, tables=(table,), details=details, linked_table="candidates")


def _numbers_of(candidate: Candidate) -> str:
    parts = []
    for each in candidate.evidence:
        value = f"{each.value:.6g}" if isinstance(each.value, float) else f"{each.value}"
        against = "" if each.threshold is None else f" (threshold {each.threshold:.6g})"
        parts.append(f"{each.name} {value}{against}, {each.evidence}")
    return "; ".join(parts)


_STATISTICS = (
    Shown("what", "of what"),
    *(Shown(f"{name}_ns", f"{name} of the durations", None) for name in ("median", "mean", "min", "max", "p90", "iqr")),
    Shown("samples_count", "steps"),
    Shown("spread_ratio", "interquartile range over median"),
)


class _Row:
    """Statistics with a name, as one record."""

    def __init__(self, what: str, statistics: Statistics) -> None:
        self.what = what
        for name in Statistics.__slots__:
            setattr(self, name, getattr(statistics, name))


def _steps_section(summary: Summary) -> Section:
    anchor, heading = "steps", "Steps"
    steps = summary.steps
    rows, paragraphs = [], []
    figures: list[Figure | None] = []
    if isinstance(steps, Missing):
        paragraphs.append(f"No steps in the trace: {steps.reason}.")
    else:
        paragraphs.append(
            f"Found by {steps.method}; {count_noun(steps.warmup_steps_count, 'warm-up step')} and "
            f"{count_noun(steps.cut_steps_count, 'cut step')} are not counted. They were profiled: no throughput is "
            "made of them."
        )
        rows += _steps_rows(steps)
        figures = [
            steps_figure(steps),
            course_figure(steps, summary.gaps, summary.quality.overview.start_ns),
        ]
    log = summary.step_log
    if isinstance(log, Missing):
        paragraphs.append(f"No unprofiled steps: {log.reason}.")
    else:
        single = " One sample is no median." if log.is_single_sample else ""
        paragraphs.append(f"Unprofiled steps are those of {log.path} ({log.format}), by the host's clock.{single}")
        if log.statistics is not None:
            rows.append(_Row("unprofiled, by the log", log.statistics))
    table = record_table(
        "steps",
        "Durations",
        rows,
        _STATISTICS,
        evidence=Evidence.MEASURED if isinstance(steps, Missing) else steps.evidence,
        is_simulated=summary.is_simulated,
    )
    return Section(
        anchor=anchor,
        heading=heading,
        paragraphs=tuple(paragraphs),
        figures=_there(figures),
        tables=(table,) if rows else (),
    )


def _steps_rows(steps: Steps) -> list[_Row]:
    rows = [] if steps.statistics is None else [_Row("job, slowest device", steps.statistics)]
    for found in steps.classes if len(steps.classes) > 1 else ():
        rows.append(_Row(f"class {found.name}, {format_ratio(found.fraction_ratio)} of the steps", found.statistics))
    rows += [_Row(f"device {each.device}", each.statistics) for each in steps.devices if each.statistics is not None]
    return rows


_LEDGER = (
    Shown("row", "line of the ledger"),
    Shown("mean_ns", "summed durations, mean over devices and steps"),
    Shown("share_ratio", "share of the table's total"),
    Shown("union_ns", "time covered, overlaps counted once"),
    Shown("lowest_ns", "mean of the device with least"),
    Shown("highest_ns", "mean of the device with most"),
    Shown("critical_device", "the device with most"),
    Shown("rows_count", "kernels and copies"),
    Shown("expected_count", "what the workload says"),
    Shown("state", "what stands there instead of a number"),
    Shown("components", "that it adds up"),
    Shown("note", "what it includes"),
    Shown("evidence", "how it was obtained"),
)


def _ledger_section(summary: Summary) -> Section:
    anchor, heading = "ledger", "Where the step went"
    ledger = summary.ledger
    if isinstance(ledger, Missing):
        return absent_section(anchor, heading, ledger)
    tables = [_ledger_table(table, summary) for table in ledger.tables if table.rows]
    buckets = record_table(
        "buckets",
        "Every class, phase and component; together they are all kernel time",
        ledger.buckets,
        (
            Shown("component", "part of the model"),
            Shown("phase", "part of the step"),
            Shown("activity", "class of work"),
            Shown("sum_per_step_ns", "summed durations, mean over devices and steps"),
            Shown("union_per_step_ns", "time covered, mean over devices and steps"),
            Shown("share_ratio", "share of all kernel time"),
            Shown("lowest_ns", "mean of the device with least"),
            Shown("highest_ns", "mean of the device with most"),
            Shown("critical_device", "the device with most"),
            Shown("rows_count", "kernels and copies"),
            Shown("evidence", "how it was obtained"),
        ),
        evidence=_weakest(bucket.evidence for bucket in ledger.buckets),
        is_simulated=summary.is_simulated,
    )
    paragraph = (
        f"{ledger.title}. Every kernel and copy is in exactly one row: {format_duration(ledger.total_per_step_ns)} a "
        "step on each device."
    )
    return Section(
        anchor=anchor,
        heading=heading,
        paragraphs=(paragraph,),
        figures=_there([ledger_figure(ledger)]),
        tables=(*tables, buckets),
    )


def _ledger_table(table: LedgerTable, summary: Summary) -> Table:
    evidence = _weakest(row.evidence for row in table.rows if row.evidence is not None)
    title = table.name.replace("_", " ").capitalize()
    return record_table(
        f"ledger-{table.name}", title, table.rows, _LEDGER, evidence=evidence, is_simulated=summary.is_simulated
    )


def _weakest(evidences: Iterable[Evidence]) -> Evidence:
    found = list(evidences)
    order = list(Evidence)
    return max(found, key=order.index) if found else Evidence.INFERRED


def _overlap_section(summary: Summary) -> Section:
    anchor, heading = "overlap", "What ran at once"
    overlap = summary.overlap
    if isinstance(overlap, Missing):
        return absent_section(anchor, heading, overlap)
    columns = [Shown("device", "label of the device", lambda each: each.device or "mean of all")]
    columns += [
        Shown(f"{name}_ns", meaning)
        for name, meaning in (
            ("span", "from the first start to the last end"),
            ("busy", "in which anything ran"),
            ("compute", "in which a compute kernel ran"),
            ("communication", "in which a collective ran"),
            ("hidden_communication", "collectives under compute"),
            ("exposed_communication", "collectives without compute"),
            ("exposed_copy", "copies alone"),
            ("idle", "in which nothing ran"),
            ("step", "window of the step"),
            ("distance", "span minus window"),
        )
    ]
    devices = record_table(
        "overlap",
        "Unions and intersections of a mean step",
        (overlap.mean, *overlap.devices),
        columns,
        evidence=overlap.evidence,
        is_simulated=summary.is_simulated,
    )
    spread = record_table(
        "spread",
        "How far devices are apart",
        overlap.spread,
        (
            Shown("quantity", "what is compared"),
            Shown("mean_ns", "over devices"),
            Shown("min_ns", "least"),
            Shown("max_ns", "most"),
            Shown("spread_ns", "most minus least"),
            Shown("spread_ratio", "that over the mean"),
            Shown("critical_device", "the device with most"),
            Shown("least_device", "the device with least"),
        ),
        evidence=overlap.evidence,
        is_simulated=summary.is_simulated,
    )
    tables = (devices, spread) if overlap.spread else (devices,)
    text = "span = busy + idle; busy = compute + exposed communication + exposed copies; every device on its own."
    return Section(
        anchor=anchor, heading=heading, paragraphs=(text,), figures=(overlap_figure(overlap),), tables=tables
    )


def _gaps_section(summary: Summary) -> Section:
    anchor, heading = "gaps", "Idle time"
    gaps = summary.gaps
    if isinstance(gaps, Missing):
        return absent_section(anchor, heading, gaps)
    before = record_table(
        "gaps",
        "Idle time by what ended it",
        gaps.before,
        (
            Shown("payload_name", "what useful work began with"),
            Shown("cause", "host_wait: launched after the device was free; kernel_wait: before"),
            Shown("total_ns", "over devices and steps"),
            Shown("gaps_count", "how many"),
            Shown("mean_ns", "of one"),
            Shown("longest_ns", "of one"),
            Shown("marker_name", "a tiny operation in front of it"),
            Shown("phase", "of the payload"),
            Shown("scope", "of the payload"),
        ),
        evidence=gaps.evidence,
        is_simulated=summary.is_simulated,
        cut_rows_count=gaps.before_total_count - len(gaps.before),
    )
    text = (
        f"{count_noun(gaps.gaps_count, 'gap')}, {format_duration(gaps.total_ns)} over devices and steps; "
        f"{format_duration(gaps.between_steps_ns)} of it between steps."
    )
    return Section(anchor=anchor, heading=heading, paragraphs=(text,), tables=(before,))


def _there(figures: Sequence[Figure | None]) -> tuple[Figure, ...]:
    return tuple(figure for figure in figures if figure is not None)
