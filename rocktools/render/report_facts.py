"""A summary -> the sections about itself: doubts, and what a comparison must know."""

from __future__ import annotations

from collections.abc import Mapping

from rocktools.evidence import Evidence
from rocktools.render.report import Section, Shown, record_table
from rocktools.render.table import Table
from rocktools.summary.document import Fact, Summary
from rocktools.units import format_count, format_ratio

_FACT = (
    Shown("name", "what it is", lambda item: item[0]),
    Shown("value", "value, its unit in the name", lambda item: None if item[1].value is None else str(item[1].value)),
    Shown("source", "where it was read", lambda item: item[1].source or None),
    Shown("evidence", "how it was obtained", lambda item: item[1].evidence),
    Shown("missing", "why it is not known", lambda item: None if item[1].missing is None else item[1].missing.reason),
)


def findings_section(summary: Summary) -> Section:
    """Every doubt, heaviest first."""
    findings = summary.quality.findings
    overview = summary.quality.overview
    counts = {
        "dispatches": overview.dispatches_count,
        "copies": overview.copies_count,
        "host calls": overview.host_calls_count,
        "events": overview.events_count,
    }
    recorded = ", ".join(f"{format_count(count)} {name}" for name, count in counts.items() if count)
    said = [f"Recorded: {recorded or 'nothing'}."]
    if overview.linked_ratio is not None:
        said.append(f"{format_ratio(overview.linked_ratio)} of the kernel time has its HLO instruction.")
    if overview.is_host_only:
        said.append("Nothing ran on a GPU in it.")
    if overview.is_truncation_suspected:
        said.append("The file stops where exporters stop: it may be cut.")
    if not findings:
        said.append("No doubts were raised.")
    table = record_table(
        "findings",
        "Doubts, heaviest first",
        findings,
        (
            Shown("severity", "fault: cannot be trusted; warning: may mislead; note: the numbers stand"),
            Shown("rule", "what was checked"),
            Shown("message", "what was found"),
            Shown("where", "file or row"),
            Shown("advice", "what to do"),
        ),
        evidence=Evidence.MEASURED,
        is_simulated=summary.is_simulated,
    )
    return Section(
        anchor="findings",
        heading="How far to trust it",
        paragraphs=(" ".join(said),),
        tables=(table,) if findings else (),
    )


def provenance_section(summary: Summary) -> Section:
    """The job, versions and flags, and the files."""
    inputs = record_table(
        "inputs",
        "Files",
        summary.provenance.inputs,
        (
            Shown("path", "below what was named"),
            Shown("role", "what it is"),
            Shown("format", "as the reader calls it"),
            Shown("size_bytes", "of the file"),
            Shown("sha256", "of the file"),
        ),
        evidence=Evidence.MEASURED,
        is_simulated=summary.is_simulated,
    )
    devices = record_table(
        "devices",
        "Devices",
        summary.metadata.devices,
        (
            Shown("device", "label"),
            Shown("arch", "architecture"),
            Shown("product", "as recorded"),
            Shown("xcc_count", "dies"),
            Shown("cu_count", "compute units"),
            Shown("max_engine_hz", "clock"),
            Shown("is_used", "whether anything ran on it"),
        ),
        evidence=Evidence.DECLARED,
        is_simulated=summary.is_simulated,
    )
    return Section(
        anchor="provenance",
        heading="What it was made from",
        tables=(
            _facts("job", "The job", summary.metadata.job, summary),
            _facts("facts", "Versions, flags and options", summary.provenance.facts, summary),
            devices,
            inputs,
        ),
    )


def _facts(name: str, title: str, facts: Mapping[str, Fact], summary: Summary) -> Table:
    return record_table(
        name, title, list(facts.items()), _FACT, evidence=Evidence.DECLARED, is_simulated=summary.is_simulated
    )
