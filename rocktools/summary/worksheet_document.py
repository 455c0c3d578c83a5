"""The shape of a component worksheet: `rocktools.worksheet/1`.

One row for each component and phase. A row answers ten questions, each of them twice: by what the compiler and the JAX
profiler say (`profile_hlo`), and by what the ROCm tools say (`rocm`). An answer is one or several cells; a cell has a
value with its evidence, or a state that says why it has none. No cell is left out, and none is 0 for want of knowing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from types import MappingProxyType
from typing import Any

from rocktools.evidence import Evidence
from rocktools.summary.document import Missing, Value
from rocktools.summary.document_json import to_plain

SCHEMA = "rocktools.worksheet/1"


class Field(str, Enum):
    """The questions, in order."""

    SCOPE = "scope_and_hlo_ids"
    SHAPES = "shapes_and_dtype"
    OCCURRENCES = "occurrences"
    TIME = "device_time"
    USEFUL_FLOP = "useful_flop"
    EXECUTED_FLOP = "executed_flop"
    HBM_BYTES = "hbm_bytes"
    COMMUNICATION_BYTES = "communication_bytes"
    INTENSITY = "arithmetic_intensity"
    EFFICIENCY = "roofline_efficiency"

    def __str__(self) -> str:
        return self.value


class Column(str, Enum):
    """Whose answer it is."""

    HLO = "profile_hlo"
    ROCM = "rocm"

    def __str__(self) -> str:
        return self.value


FIELD_TITLES: Mapping[Field, str] = MappingProxyType(
    {
        Field.SCOPE: "Scope and HLO ids",
        Field.SHAPES: "Local shapes and dtype",
        Field.OCCURRENCES: "Occurrences",
        Field.TIME: "Device time",
        Field.USEFUL_FLOP: "Useful FLOPs",
        Field.EXECUTED_FLOP: "Executed FLOPs",
        Field.HBM_BYTES: "HBM bytes",
        Field.COMMUNICATION_BYTES: "Communication bytes",
        Field.INTENSITY: "Arithmetic intensity",
        Field.EFFICIENCY: "Roofline efficiency",
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class WorksheetCell:
    """One answer, or part of one.

    Attributes:
        field, column: what is asked, and of whom.
        name: of the value, with its unit; that of the field where there is none.
        value: None with a state.
        unit: of the value; "" where it has none.
        evidence: how it was obtained; None with a state.
        state: why there is no value: `fused into adjacent work`, `not_collected`, ...; "" where there is one.
        note: what the value is of, or what would give one.
    """

    field: Field
    column: Column
    name: str
    value: Value
    unit: str
    evidence: Evidence | None
    state: str
    note: str


@dataclass(frozen=True, slots=True, kw_only=True)
class WorksheetRow:
    """One component in one phase.

    Attributes:
        component, phase: as in the ledger.
        title: for people.
        state: of the whole row where it has no time of its own; "" otherwise.
        cells: at least one of each field and column.
    """

    component: str
    phase: str
    title: str
    state: str
    cells: tuple[WorksheetCell, ...]

    def find(self, field: Field, column: Column, name: str) -> WorksheetCell | None:
        """One cell of the row."""
        for cell in self.cells:
            if (cell.field, cell.column, cell.name) == (field, column, name):
                return cell
        return None


@dataclass(frozen=True, slots=True, kw_only=True)
class Timing:
    """Steps of a matched run without a profiler: what throughput may be made of.

    Attributes:
        path: of the log.
        step_ns, statistic, samples_count: the time; of one sample the statistic is `sample`, and not a median.
        iqr_ns, spread_ratio, min_ns, max_ns: how far samples differ; None of one sample.
        warmup_steps_count, profiled_steps_count: of the log, left out.
        tokens_per_s, tokens_per_device_per_s: None with `throughput_reason`.
        profiled_step_ns: median of the traced steps, beside it; difference_ratio: over the unprofiled one, minus one.
    """

    path: str
    step_ns: float
    statistic: str
    samples_count: int
    iqr_ns: float | None
    spread_ratio: float | None
    min_ns: float | None
    max_ns: float | None
    warmup_steps_count: int
    profiled_steps_count: int
    tokens_per_s: float | None
    tokens_per_device_per_s: float | None
    throughput_reason: str
    profiled_step_ns: float | None
    difference_ratio: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """The one step on one device that dispatch ids and timestamps are of: a complete step on the critical device.

    Attributes:
        device: with most busy time; step_index: whose duration is next to the median; step_number: the job's own.
    """

    run: str
    device: str
    step_index: int
    step_number: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Worksheet:
    """All rows, and what they are of.

    Attributes:
        schema: `SCHEMA`.
        title: of the summary; inputs_sha256: of its files.
        is_simulated: whether any of it was made without hardware.
        basis: `run` where traces were at hand, `summary` where only a summary was.
        devices_count, steps_count, places_count: what means are over; a place is one device in one step.
        place: of dispatch ids and timestamps; Missing where only a summary was at hand.
        device_label: whose peaks and bandwidths; "" where they are not known.
        useful: model, convention and tokens of useful FLOPs; Missing where no model was named.
        timing: of the matched unprofiled run.
        rows: by phase, the longest first.
        unmet: expectations of the workload that are not met on every device.
        notes: what holds for all rows.
    """

    schema: str
    title: str
    inputs_sha256: str | None
    is_simulated: bool
    basis: str
    devices_count: int
    steps_count: int
    places_count: int
    place: Place | Missing
    device_label: str
    useful: UsefulBasis | Missing
    timing: Timing | Missing
    rows: tuple[WorksheetRow, ...]
    unmet: tuple[str, ...]
    notes: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class UsefulBasis:
    """What useful FLOPs are of.

    Attributes:
        model: name; convention: what counts.
        tokens_count: of one update, all devices; sequence_tokens: of a sequence; devices_count: that share them.
        useful_flop: of one update, all components.
        peak_flop_per_s: dense, of the format of the products; None where the device is not known.
        dtype: that format.
        tokens_source: where tokens were read.
    """

    model: str
    convention: str
    tokens_count: int
    sequence_tokens: int
    devices_count: int
    useful_flop: int
    peak_flop_per_s: float | None
    dtype: str
    tokens_source: str


def worksheet_json(worksheet: Worksheet) -> dict[str, Any]:
    """The document as plain values."""
    plain: dict[str, Any] = to_plain(worksheet)
    return plain
