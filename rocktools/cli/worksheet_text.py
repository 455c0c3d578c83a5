"""A worksheet as people read it: a block for each component and phase; and in the long form, for CSV and Parquet."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from rocktools.cli.answer_tables import format_fact
from rocktools.units import count_noun, format_duration, format_ratio, format_si

if TYPE_CHECKING:
    from rocktools.render.table import Table
    from rocktools.summary.worksheet_document import Timing, Worksheet, WorksheetCell, WorksheetRow

_LONG_COLUMNS = {
    "component": "component by the component map",
    "phase": "phase of the ledger",
    "field": "what is asked of it",
    "source_column": "whose answer it is: profile_hlo or rocm",
    "value_name": "name of the value, with its unit",
    "value": "the value, whole, as text; empty with a state",
    "unit": "of the value",
    "evidence": "how it was obtained",
    "state": "why there is no value",
    "note": "what the value is of, or what would give one",
}


def preface_text(worksheet: Worksheet) -> str:
    """What all blocks are of: steps and devices, the matched timing, useful FLOPs."""
    from rocktools.summary.document import Missing

    lines = [f"worksheet: {worksheet.title}", ""]
    places = f"{count_noun(worksheet.devices_count, 'device')}, {count_noun(worksheet.steps_count, 'step')}"
    lines.append(f"means are over {places} that count ({worksheet.places_count} places); made of a {worksheet.basis}")
    place = worksheet.place
    if isinstance(place, Missing):
        lines.append(f"dispatches: {place.reason}")
    else:
        number = place.step_index if place.step_number is None else place.step_number
        lines.append(f"dispatches and timestamps are of step {number} on {place.device}, which is busy longest")
    lines.append(f"ceilings: {worksheet.device_label or 'unknown'}")
    timing = worksheet.timing
    if isinstance(timing, Missing):
        lines.append(f"unprofiled timing: {timing.reason}; no throughput")
    else:
        lines += _timing_lines(timing)
    useful = worksheet.useful
    if isinstance(useful, Missing):
        lines.append(f"useful FLOPs: {useful.reason}")
    else:
        lines.append(
            f"useful FLOPs: {useful.model}, convention {useful.convention}, {useful.tokens_count:,} tokens of an "
            f"update ({useful.tokens_source}), {count_noun(useful.devices_count, 'device')}: "
            f"{format_si(useful.useful_flop, 'FLOP')}"
        )
    return "\n".join([*lines, *worksheet.notes, ""])


def _timing_lines(timing: Timing) -> list[str]:
    if timing.samples_count == 1:
        spread = "one sample, which is no median and has no spread"
    else:
        iqr = "" if timing.iqr_ns is None else f", IQR {format_duration(timing.iqr_ns)}"
        ratio = "" if timing.spread_ratio is None else f" ({format_ratio(timing.spread_ratio)})"
        spread = f"{timing.statistic} of {count_noun(timing.samples_count, 'sample')}{iqr}{ratio}"
    left = f"{timing.warmup_steps_count} warm-up and {timing.profiled_steps_count} profiled steps left out"
    lines = [f"unprofiled timing: {format_duration(timing.step_ns)} a step: {spread}; {left} ({timing.path})"]
    if timing.tokens_per_device_per_s is None:
        lines.append(f"throughput: not known: {timing.throughput_reason}")
    else:
        whole = "" if timing.tokens_per_s is None else f"{timing.tokens_per_s:,.1f} tokens/s, "
        lines.append(f"throughput: {whole}{timing.tokens_per_device_per_s:,.1f} tokens/s on each device, unprofiled")
    if timing.profiled_step_ns is not None and timing.difference_ratio is not None:
        lines.append(
            f"profiled step beside it: {format_duration(timing.profiled_step_ns)}, "
            f"{format_ratio(timing.difference_ratio)} from the unprofiled one"
        )
    return lines


def block_table(worksheet: Worksheet, row: WorksheetRow) -> Table:
    """One row of the worksheet: a line for each value, both columns side by side."""
    import pandas as pd

    from rocktools.evidence import Evidence, weakest
    from rocktools.render.table import ColumnKind, Table, table_column
    from rocktools.summary.worksheet_document import FIELD_TITLES, Column, Field

    lines: list[tuple[str, str, str, str]] = []
    for field in Field:
        mine = [cell for cell in row.cells if cell.field is field]
        title = FIELD_TITLES[field]
        for name in dict.fromkeys(cell.name for cell in mine):
            hlo, rocm = (
                _side(cell for cell in mine if (cell.column, cell.name) == (column, name))
                for column in (Column.HLO, Column.ROCM)
            )
            lines.append((title, "" if name == field.value else name, hlo, rocm))
            title = ""
    frame = pd.DataFrame(lines, columns=["question", "value", "profile_hlo", "rocm"], dtype=object)
    known = [cell.evidence for cell in row.cells if cell.evidence is not None]
    evidence = weakest(*known) if known else Evidence.DECLARED
    meanings = {
        "question": "what is asked of the component",
        "value": "name of the value",
        "profile_hlo": "by the compiled program and the JAX profile, with evidence",
        "rocm": "by the trace and counters of ROCm, with evidence",
    }
    columns = [
        table_column(
            name,
            meaning,
            evidence=evidence,
            dtype=object,
            kind=ColumnKind.NAME if name in ("profile_hlo", "rocm") else ColumnKind.TEXT,
        )
        for name, meaning in meanings.items()
    ]
    return Table(
        name="worksheet",
        title=row.title,
        columns=tuple(columns),
        frame=frame,
        is_simulated=worksheet.is_simulated,
        notes=tuple(dict.fromkeys(f"{cell.state}: {cell.note}" for cell in row.cells if cell.state and cell.note)),
    )


def _side(cells: Iterable[WorksheetCell]) -> str:
    """What one column says under one name."""
    return "; ".join(_cell_text(cell) for cell in cells)


def _cell_text(cell: WorksheetCell) -> str:
    if cell.state:
        return cell.state
    shown = format_fact(cell.name, cell.value)
    if cell.name in ("first_start_ns", "last_end_ns"):
        shown = f"{cell.value}"
    if cell.name == "expected_per_step_count":
        return f"{shown} [{cell.evidence}] {cell.note}"
    return f"{shown} [{cell.evidence}]"


def long_table(worksheet: Worksheet) -> Table:
    """One line for each cell."""
    import pandas as pd

    from rocktools.evidence import Evidence
    from rocktools.render.table import ColumnKind, Table, table_column

    lines = [
        (
            row.component,
            row.phase,
            cell.field.value,
            cell.column.value,
            cell.name,
            None if cell.value is None else str(cell.value),
            cell.unit or None,
            None if cell.evidence is None else cell.evidence.value,
            cell.state or None,
            cell.note or None,
        )
        for row in worksheet.rows
        for cell in row.cells
    ]
    frame = pd.DataFrame(lines, columns=list(_LONG_COLUMNS), dtype=object)
    columns = tuple(
        table_column(name, meaning, evidence=Evidence.DECLARED, dtype=object, kind=ColumnKind.TEXT)
        for name, meaning in _LONG_COLUMNS.items()
    )
    return Table(
        name="worksheet_cells",
        title=f"worksheet: {worksheet.title}",
        columns=columns,
        frame=frame,
        is_simulated=worksheet.is_simulated,
    )
