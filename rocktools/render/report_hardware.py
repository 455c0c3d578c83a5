"""A summary -> the sections about the hardware: rooflines, counters, memory."""

from __future__ import annotations

from rocktools.evidence import Evidence
from rocktools.render.report import Figure, Section, Shown, absent_section, record_table
from rocktools.render.report_charts import roofline_figure
from rocktools.render.table import Table
from rocktools.summary.document import CountersBlock, MemoryBlock, Missing, RooflineTable, Summary
from rocktools.units import format_si

_POINTS = (
    Shown("name", "kernel, instruction or component"),
    Shown("bound", "what explains the time"),
    Shown("roof_ratio", "share of the time that the roof explains"),
    Shown("union_ns", "time covered, devices and steps added up"),
    Shown("headroom_ns", "time above the bound"),
    Shown("achieved_flop_per_s", "FLOPs over time"),
    Shown("achieved_bytes_per_s", "bytes over time"),
    Shown("intensity_flop_per_byte", "FLOPs over bytes"),
    Shown("peak_flop_per_s", "ceiling of arithmetic"),
    Shown("peak_ratio", "achieved over that"),
    Shown("bandwidth_ratio", "achieved over the ceiling of traffic"),
    Shown("mix", "formats that were calculated in"),
    Shown("covered_ratio", "share of its durations with known cost"),
    Shown("executions_count", "executions"),
    Shown("refusal", "why there is no point"),
    Shown("evidence", "the weakest of FLOPs and bytes"),
)


def roofline_section(summary: Summary) -> Section:
    """Points under ceilings: a picture and a table of each kind."""
    anchor, heading = "roofline", "Rooflines"
    block = summary.roofline
    if isinstance(block, Missing):
        return absent_section(anchor, heading, block)
    figures: list[Figure] = []
    tables: list[Table] = []
    for table in block.tables:
        figure = roofline_figure(table)
        if figure is not None:
            figures.append(figure)
        tables.append(_points_table(table, summary))
    paragraphs = tuple(f"No points by {kind}: {reason}." for kind, reason in block.reasons.items())
    return Section(anchor=anchor, heading=heading, paragraphs=paragraphs, figures=tuple(figures), tables=tuple(tables))


def _points_table(table: RooflineTable, summary: Summary) -> Table:
    return record_table(
        f"roofline-{table.by}-{table.level}",
        f"By {table.by}, bytes at {table.level}, ceilings of {table.device}",
        table.points,
        _POINTS,
        evidence=table.bytes_evidence,
        is_simulated=summary.is_simulated,
        notes=(table.source,),
        cut_rows_count=table.left_out_count,
    )


def counters_section(summary: Summary) -> Section:
    """What counters say, with the proof of each replay."""
    anchor, heading = "counters", "Counters"
    block = summary.counters
    if isinstance(block, Missing):
        return absent_section(anchor, heading, block)
    table = record_table(
        "counters",
        "Quantities of counted kernels",
        block.quantities,
        (
            Shown("kernel_name", "kernel"),
            Shown("quantity", "what was counted"),
            Shown("value", "mean over its counted executions", lambda each: _shown(each.value, each.unit)),
            Shown("origin", "the job, or a replay"),
            Shown("proof", "how far the replay is proven to be the job's kernel"),
            Shown("dispatches_count", "counted executions"),
            Shown("pass_spread_ratio", "how far passes are apart"),
            Shown("doubts", "what is odd"),
            Shown("formula_id", "formula"),
            Shown("evidence", "how it was obtained"),
        ),
        evidence=Evidence.COUNTER,
        is_simulated=summary.is_simulated,
        cut_rows_count=block.left_out_count,
    )
    absent = record_table(
        "absent-quantities",
        "What has no value, and why",
        block.absent,
        (
            Shown("quantity", "what was not counted"),
            Shown("absence", "why"),
            Shown("lacking", "counters that are not there"),
            Shown("kernels_count", "for how many kernels"),
            Shown("origin", "the job, or a replay"),
            Shown("formula_id", "formula"),
        ),
        evidence=Evidence.COUNTER,
        is_simulated=summary.is_simulated,
    )
    tables = (table, absent) if block.absent else (table,)
    return Section(anchor=anchor, heading=heading, paragraphs=(_counted(block),), tables=tables)


def _counted(block: CountersBlock) -> str:
    return (
        f"{block.passes_count} passes of {block.kernels_count} kernels. Passes run one kernel at a time: none of their "
        "times is here."
    )


def _shown(value: float | None, unit: str) -> str | None:
    return None if value is None else format_si(value, unit).strip()


def memory_section(summary: Summary) -> Section:
    """What programs reserve and what was allocated."""
    anchor, heading = "memory", "Memory"
    block = summary.memory
    if isinstance(block, Missing):
        return absent_section(anchor, heading, block)
    found = [
        record_table(
            name,
            title,
            records,
            columns,
            evidence=block.evidence_of.get(name, block.evidence),
            is_simulated=summary.is_simulated,
        )
        for name, title, records, columns in (
            ("programs", "What programs reserve on each device", block.programs, _PROGRAMS),
            ("live", "What is live where most is", block.live, _LIVE),
            ("high-water", "The most that allocations held at once", block.devices, _HIGH_WATER),
            ("allocators", "What XLA's allocators say", block.allocators, _ALLOCATORS),
        )
    ]
    tables = tuple(table for table in found if len(table.frame))
    return Section(anchor=anchor, heading=heading, paragraphs=_most(block), tables=tables)


_PROGRAMS = (
    Shown("program", "compiled program"),
    *(
        Shown(f"{name}_bytes", f"{name} buffers")
        for name in ("total", "argument", "output", "alias", "temporary", "constant", "live")
    ),
    Shown("peak_instruction", "where most is live"),
)
_LIVE = (
    Shown("instruction", "HLO instruction"),
    Shown("size_bytes", "its value"),
    Shown("kind", "what it is"),
    Shown("shape", "of the value"),
    Shown("scope", "named scopes"),
)
_HIGH_WATER = (
    Shown("device", "label of the device"),
    Shown("allocated_bytes", "at once"),
    Shown("reserved_bytes", "by programs"),
    Shown("unreleased_bytes", "never released in the trace"),
    Shown("allocations_count", "allocations"),
)
_ALLOCATORS = (
    Shown("host", "host"),
    Shown("allocator", "allocator"),
    Shown("peak_bytes", "the most at once"),
    Shown("least_available_bytes", "the least that was left"),
)


def _most(block: MemoryBlock) -> tuple[str, ...]:
    if block.highest_bytes is None:
        return ("Sizes are those of one device, the fullest one.",)
    return (f"The most on any device: {format_si(block.highest_bytes, 'B')}, on {block.critical_device}.",)
