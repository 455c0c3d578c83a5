"""A result as a table: a frame, and for every column what it means, its unit and its evidence.

The same `Table` becomes text, CSV, JSON or Parquet (one module each). Cells keep base units and exact values; scaling
and shortening are for people and belong to the text. This module knows nothing of files, terminals or options.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum

import pandas as pd

from rocktools.errors import ContractError
from rocktools.evidence import Evidence, weakest
from rocktools.findings import Finding
from rocktools.frames import FrameSpec
from rocktools.render.values import is_number_dtype
from rocktools.units import unit_of


class ColumnKind(str, Enum):
    """How a cell is written for people."""

    DURATION = "duration"  # scaled: 10.92 µs
    INSTANT = "instant"  # exact integer nanoseconds
    BYTES = "bytes"  # scaled: 4.194 MB
    QUANTITY = "quantity"  # scaled, with the column's unit: 2.517 PFLOP/s
    COUNT = "count"  # exact, thousands separated
    RATIO = "ratio"  # percent
    NUMBER = "number"  # a value without a unit of its own: exact if whole, else six digits
    IDENTIFIER = "identifier"  # exact, never shortened
    NAME = "name"  # long text, may be shortened in the middle
    TEXT = "text"  # never shortened

    def __str__(self) -> str:
        return self.value


_INSTANTS = frozenset({"start_ns", "end_ns", "time_ns", "pass_start_ns", "pass_end_ns", "peak_ns"})
# Sizes that are powers of two and are compared with limits of the hardware: exact, since 131.1 kB hides 128 KiB.
_EXACT_SIZES = frozenset(
    {"lds_bytes", "scratch_bytes", "static_lds_bytes", "static_scratch_bytes", "kernarg_bytes", "lds_per_cu_bytes"}
)
_LONG_TEXTS = frozenset({"command", "path", "range", "scope", "shape", "candidates", "source_file"})
_KIND_OF_UNIT = {
    "ns": ColumnKind.DURATION,
    "ps": ColumnKind.DURATION,
    "s": ColumnKind.DURATION,
    "B": ColumnKind.BYTES,
    "count": ColumnKind.COUNT,
    "cycles": ColumnKind.COUNT,
    "work-items": ColumnKind.COUNT,
    "workgroups": ColumnKind.COUNT,
    "ratio": ColumnKind.RATIO,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class TableColumn:
    """One column of a result.

    Attributes:
        name: the frame's column, unit included.
        meaning: one sentence.
        unit: as in `units.SUFFIXES`; None where the values have none.
        kind: how a cell is written for people.
        evidence: where the values come from.
    """

    name: str
    meaning: str
    unit: str | None
    kind: ColumnKind
    evidence: Evidence


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Table:
    """A result with everything its reader must know.

    Attributes:
        name: what the rows are, as in the frame specs or the name of the command.
        title: one line for people.
        columns: one per column of `frame`, in its order.
        frame: the rows, in the order in which they are to be read.
        is_simulated: whether any of it was made without hardware.
        cut_rows_count: rows that were left out at the end.
        notes: sentences that belong to the table.
        optional_columns: names of columns that the text may leave out where it is too wide, the most important first.
        findings: doubts about what the rows come from; None: nobody looked for any.
    """

    name: str
    title: str
    columns: tuple[TableColumn, ...]
    frame: pd.DataFrame
    is_simulated: bool
    cut_rows_count: int = 0
    notes: tuple[str, ...] = ()
    optional_columns: tuple[str, ...] = ()
    findings: tuple[Finding, ...] | None = None

    def __post_init__(self) -> None:
        declared = [column.name for column in self.columns]
        if declared != list(self.frame.columns):
            raise ContractError(
                "table-columns", f"table {self.name} declares {declared}, but its frame has {list(self.frame.columns)}"
            )
        if len(set(declared)) != len(declared):
            raise ContractError("table-columns", f"table {self.name} has two columns of one name: {declared}")

    @property
    def rows_count(self) -> int:
        """Rows shown and cut together."""
        return len(self.frame) + self.cut_rows_count


def table_column(
    name: str, meaning: str, *, evidence: Evidence, dtype: object = "int64", kind: ColumnKind | None = None
) -> TableColumn:
    """A column whose unit follows from its name, and whose kind follows from name and dtype unless it is given.

    Args:
        dtype: the frame column's dtype; tells numbers from texts where the name has no unit.
    """
    return TableColumn(
        name=name, meaning=meaning, unit=unit_of(name), kind=kind or _kind_of(name, dtype), evidence=evidence
    )


def table_from_spec(
    frame: pd.DataFrame,
    spec: FrameSpec,
    *,
    evidence: Evidence | Mapping[str, Evidence],
    title: str,
    is_simulated: bool,
    notes: Sequence[str] = (),
    optional_columns: Sequence[str] = (),
) -> Table:
    """The table of a frame that keeps the contract of `spec`, with all or some of its columns.

    Args:
        evidence: of all columns, or of each by name.
        title: one line for people.
        optional_columns: what the text may leave out, the most important first; names that the frame lacks do no harm.

    Raises:
        UsageError: the frame has a column that the spec has not.
    """
    columns = []
    for name in frame.columns:
        column = spec.column(name)
        of_column = evidence if isinstance(evidence, Evidence) else evidence[name]
        columns.append(table_column(name, column.meaning, evidence=of_column, dtype=column.dtype))
    return Table(
        name=spec.name,
        title=title,
        columns=tuple(columns),
        frame=frame,
        is_simulated=is_simulated,
        notes=tuple(notes),
        optional_columns=tuple(optional_columns),
    )


def top_rows(table: Table, rows_count: int) -> Table:
    """The table with its first `rows_count` rows (0: all of them), the others counted as cut."""
    if rows_count == 0 or rows_count >= len(table.frame):
        return table
    cut_rows_count = table.cut_rows_count + len(table.frame) - rows_count
    return replace(table, frame=table.frame.iloc[:rows_count], cut_rows_count=cut_rows_count)


def table_evidence(table: Table) -> Evidence:
    """The weakest evidence of its columns."""
    return weakest(*(column.evidence for column in table.columns))


def _kind_of(name: str, dtype: object) -> ColumnKind:
    if name in _INSTANTS:
        return ColumnKind.INSTANT
    if not is_number_dtype(dtype):
        is_long = name in _LONG_TEXTS or name == "name" or name.endswith("_name")
        return ColumnKind.NAME if is_long else ColumnKind.TEXT
    if name in _EXACT_SIZES:
        return ColumnKind.COUNT
    unit = unit_of(name)
    if unit is not None:
        return _KIND_OF_UNIT.get(unit, ColumnKind.QUANTITY)
    is_value = name == "value" or name.endswith("_value") or pd.api.types.is_float_dtype(dtype)
    return ColumnKind.NUMBER if is_value else ColumnKind.IDENTIFIER
