"""Results of the analytic model -> frames, one row per component, category, convention, metric, bound or part.

What is not there has a reason in `state`; totals are the last row. Frames carry base units; nothing is rounded here but
FLOPs, which are exact integers in the records and float64 in frames: a step of 405 billion parameters and four million
tokens has more of them than int64 holds.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from rocktools.analytic.ceiling_gap import CeilingGap
from rocktools.analytic.component_rates import ComponentRate
from rocktools.analytic.conventions import Convention
from rocktools.analytic.lower_bounds import LowerBound, longest_bound
from rocktools.analytic.model import Matrix, Transformer
from rocktools.analytic.rates import Metric
from rocktools.analytic.step_model import StepModel
from rocktools.analytic.useful_flop import FlopLedger
from rocktools.frames import Column, FrameSpec, nullable_int64, require_frame
from rocktools.units import format_si

TOTAL = "Total"

MODELS = FrameSpec(
    name="MODELS",
    meaning="One row per model: its dimensions, and the parameters that they give.",
    key=("model",),
    sort=("model",),
    columns=(
        Column("model", "category", "name, as commands take it"),
        Column("title", "category", "what it is called"),
        Column("layers_count", "int64", "all layers"),
        Column("width_count", "int64", "elements of a token's vector between layers"),
        Column("heads_count", "int64", "query heads of a layer"),
        Column("kv_heads_count", "int64", "heads of keys and values"),
        Column("experts_count", "Int64", "experts that a layer chooses from", "no layer has experts"),
        Column("top_k_count", "Int64", "experts that each token is sent to", "no layer has experts"),
        Column("vocabulary_count", "int64", "rows of the embedding"),
        Column("parameters_count", "int64", "all of them, every expert included"),
        Column("active_parameters_count", "int64", "those that one token goes through"),
        Column("sources", "category", "where the dimensions were published"),
    ),
)

MODEL_MATRICES = FrameSpec(
    name="MODEL_MATRICES",
    meaning="One row per weight matrix of a model, alike ones together; the total is that of all parameters.",
    key=("matrix",),
    sort=(),
    columns=(
        Column("matrix", "category", "its name; the total is last"),
        Column("rows_count", "Int64", "width that goes in", "no matrix of products"),
        Column("columns_count", "Int64", "width that comes out", "no matrix of products"),
        Column("matrices_count", "Int64", "how many there are: layers times experts", "no matrix of products"),
        Column("used_count", "Int64", "how many one token goes through", "no matrix of products"),
        Column("weights_count", "int64", "of all of them"),
    ),
)

FLOP_LEDGER = FrameSpec(
    name="FLOP_LEDGER",
    meaning="One row per component of the model: the useful FLOPs of one step of all devices.",
    key=("component",),
    sort=(),
    columns=(
        Column("component", "category", "of the model; the total is last"),
        Column("forward_flop", "float64", "of the forward pass"),
        Column("useful_flop", "float64", "forward times the training factor"),
        Column("share_ratio", "float64", "of the total"),
        Column(
            "slots_flop",
            "float64",
            "what buffers of fixed capacity make of it, padding included",
            "nothing is said about capacity, or it is no expert",
        ),
        Column("basis", "category", "what is multiplied", "the total"),
    ),
)

MODEL_CONVENTIONS = FrameSpec(
    name="MODEL_CONVENTIONS",
    meaning="One row per convention that a result of `rocktools model` rests on.",
    key=("of", "convention"),
    sort=(),
    columns=(
        Column("of", "category", "`useful FLOPs` or `step floor`: the result that it decides"),
        Column("convention", "category", "name, as `--set NAME=VALUE` takes it"),
        Column("setting", "category", "its value"),
        Column("default", "category", "its value where nobody says otherwise"),
        Column("meaning", "category", "what it decides"),
    ),
)

MODEL_METRICS = FrameSpec(
    name="MODEL_METRICS",
    meaning="One row per metric of a step, with what it must be read with.",
    key=("metric",),
    sort=(),
    columns=(
        Column("metric", "category", "what it is"),
        Column("shown", "category", "the value for people"),
        Column("value", "float64", "the value in its unit"),
        Column("unit", "category", "s, token/s, assignment/s, FLOP/s or ratio"),
        Column("evidence", "category", "the weakest of its inputs"),
        Column("read_with", "category", "its denominator, and what else it says nothing without"),
    ),
)

_BACKWARD = "forward and backward"
STEP_FLOOR = FrameSpec(
    name="STEP_FLOOR",
    meaning="One row per category of operations: the least time of a step by the roofline, and its share of FLOPs.",
    key=("category",),
    sort=(),
    columns=(
        Column("category", "category", "group of operations; the total is last"),
        Column("time_s", "float64", f"the longer of arithmetic and traffic of each operation, {_BACKWARD}"),
        Column("time_share_ratio", "float64", "of the step"),
        Column("flop_share_ratio", "float64", "of the FLOPs that the conventions name"),
        Column("total_flop", "float64", _BACKWARD),
        Column("traffic_bytes", "float64", f"with memory, {_BACKWARD}"),
        Column("memory_bound_ratio", "float64", "part of the time in which memory is the longer of the two"),
    ),
)

STEP_OPERATIONS = FrameSpec(
    name="STEP_OPERATIONS",
    meaning="One row per operation of a step: the least time by the roofline.",
    key=("category", "operation"),
    sort=(),
    columns=(
        *STEP_FLOOR.columns[:1],
        Column("operation", "category", "what is calculated or moved"),
        Column("runs_count", "int64", "times that it runs forward"),
        *(STEP_FLOOR.column(name) for name in ("time_s", "time_share_ratio", "total_flop", "traffic_bytes")),
        STEP_FLOOR.column("memory_bound_ratio"),
    ),
)

LOWER_BOUNDS = FrameSpec(
    name="LOWER_BOUNDS",
    meaning="One row per time that a step cannot be shorter than. They may overlap: the longest is the floor, no sum.",
    key=("bound", "of"),
    sort=(),
    columns=(
        Column("bound", "category", "compute, memory or communication"),
        Column("of", "category", "step, kernel or collectives"),
        Column("duration_s", "float64", "the bound"),
        Column("measured_share_ratio", "float64", "of the measured step", "no step was measured"),
        Column("is_longest", "bool", "whether it is the floor"),
        Column("basis", "category", "the numbers that it is made of"),
        Column("evidence", "category", "the weakest of theirs"),
    ),
)

COMPONENT_RATES = FrameSpec(
    name="COMPONENT_RATES",
    meaning="One row per line of a ledger that has useful FLOPs: their rate on one device. No roofline points.",
    key=("phase", "row"),
    sort=(),
    columns=(
        Column("phase", "category", "forward or backward, without rematerialized work"),
        Column("row", "category", "title of the line in the ledger"),
        Column("duration_s", "float64", "summed durations, mean of devices and steps"),
        Column("useful_flop", "float64", "of all devices in one step"),
        Column("useful_flop_per_s", "float64", "of one device"),
        Column("peak_ratio", "float64", "useful rate over the dense peak"),
    ),
)

CEILING_GAP = FrameSpec(
    name="CEILING_GAP",
    meaning="One row per part of a measured step: the floor, and what the time and the MFU above it went to.",
    key=("part",),
    sort=(),
    columns=(
        Column("part", "category", "the floor, where time beyond it went, and the measured step"),
        Column("duration_s", "float64", "mean of devices and steps", "it cannot be told apart: see `state`"),
        Column("step_share_ratio", "float64", "of the measured step", "it cannot be told apart: see `state`"),
        Column(
            "mfu_points_ratio",
            "float64",
            "its part of ceiling minus measured MFU, divided in proportion to time",
            "the floor, the measured step, or it cannot be told apart: see `state`",
        ),
        Column("mfu_ratio", "float64", "of the floor: the ceiling; and of the measured step", "a part of the time"),
        Column("state", "category", "why there is no number", "there is one"),
        Column("note", "category", "what it includes", "the floor, and the measured step"),
        Column("evidence", "category", "of the time"),
    ),
)


def models_frame(models: Sequence[Transformer]) -> pd.DataFrame:
    """MODELS."""
    experts = [model.experts for model in models]
    return _frame(
        MODELS,
        {
            "model": [model.name for model in models],
            "title": [model.title for model in models],
            "layers_count": [model.layers_count for model in models],
            "width_count": [model.width for model in models],
            "heads_count": [model.attention.heads_count for model in models],
            "kv_heads_count": [model.attention.kv_heads_count for model in models],
            "experts_count": [None if each is None else each.count for each in experts],
            "top_k_count": [None if each is None else each.top_k for each in experts],
            "vocabulary_count": [model.vocabulary_count for model in models],
            "parameters_count": [model.parameters_count for model in models],
            "active_parameters_count": [model.active_parameters_count for model in models],
            "sources": ["; ".join(model.sources) for model in models],
        },
    )


def matrices_frame(model: Transformer) -> pd.DataFrame:
    """MODEL_MATRICES."""
    rows: list[tuple[str, Matrix, int, int]] = [
        (f"attention {matrix.name}", matrix, model.layers_count, model.layers_count)
        for matrix in model.attention.matrices
    ]
    if model.mlp_width is not None:
        dense = model.dense_layers_count
        rows += [(f"mlp {matrix.name}", matrix, dense, dense) for matrix in model.feed_forward(model.mlp_width)]
    experts, layers = model.experts, model.expert_layers_count
    if experts is not None:
        rows.append(("router", Matrix(name="", rows_count=model.width, columns_count=experts.count), layers, layers))
        for matrix in model.feed_forward(experts.width):
            rows.append((f"experts {matrix.name}", matrix, layers * experts.count, layers * experts.top_k))
            shared = layers * experts.shared_count
            rows += [(f"shared experts {matrix.name}", matrix, shared, shared)] if shared else []
    head = Matrix(name="", rows_count=model.width, columns_count=model.vocabulary_count)
    rows.append(("output head, tied" if model.is_head_tied else "output head", head, 1, 1))
    others = [("norms", model.norm_weights_count)]
    others += [] if model.is_head_tied else [("input embedding", model.head_weights_count)]
    weights = [*(matrix.weights_count * count for _, matrix, count, _ in rows), *(count for _, count in others)]
    gaps = [None] * (len(others) + 1)
    return _frame(
        MODEL_MATRICES,
        {
            "matrix": [*(name for name, *_ in rows), *(name for name, _ in others), TOTAL],
            "rows_count": [*(matrix.rows_count for _, matrix, *_ in rows), *gaps],
            "columns_count": [*(matrix.columns_count for _, matrix, *_ in rows), *gaps],
            "matrices_count": [*(count for *_, count, _ in rows), *gaps],
            "used_count": [*(used for *_, used in rows), *gaps],
            "weights_count": [*weights, sum(weights)],
        },
    )


def flop_frame(ledger: FlopLedger) -> pd.DataFrame:
    """FLOP_LEDGER."""
    slots = [row.slots_flop for row in ledger.rows]
    total = None
    if any(flop is not None for flop in slots):
        total = sum(row.useful_flop if row.slots_flop is None else row.slots_flop for row in ledger.rows)
    return _frame(
        FLOP_LEDGER,
        {
            "component": [*(row.component for row in ledger.rows), TOTAL],
            "forward_flop": [*(row.forward_flop for row in ledger.rows), sum(row.forward_flop for row in ledger.rows)],
            "useful_flop": [*(row.useful_flop for row in ledger.rows), ledger.useful_flop],
            "share_ratio": [*(row.useful_flop / ledger.useful_flop for row in ledger.rows), 1.0],
            "slots_flop": [*slots, total],
            "basis": [*(row.basis for row in ledger.rows), None],
        },
    )


def conventions_frame(described: Mapping[str, Sequence[Convention]]) -> pd.DataFrame:
    """MODEL_CONVENTIONS.

    Args:
        described: what they are of -> all conventions of that.
    """
    conventions = [each for group in described.values() for each in group]
    return _frame(
        MODEL_CONVENTIONS,
        {
            "of": [of for of, group in described.items() for _ in group],
            "convention": [each.name for each in conventions],
            "setting": [each.value for each in conventions],
            "default": [each.default for each in conventions],
            "meaning": [each.meaning for each in conventions],
        },
    )


def metrics_frame(metrics: Sequence[Metric]) -> pd.DataFrame:
    """MODEL_METRICS."""
    return _frame(
        MODEL_METRICS,
        {
            "metric": [metric.title for metric in metrics],
            "shown": [_shown(metric) for metric in metrics],
            "value": [metric.value for metric in metrics],
            "unit": [metric.unit for metric in metrics],
            "evidence": [str(metric.evidence) for metric in metrics],
            "read_with": [
                "; ".join(
                    f"of {text}" if name == "of" else f"{name.replace('_', ' ')}: {text}"
                    for name, text in metric.reported.items()
                )
                for metric in metrics
            ],
        },
    )


def floor_frame(step: StepModel) -> pd.DataFrame:
    """STEP_FLOOR."""
    rows = step.categories
    whole_s = step.step_s
    memory_s = sum(row.memory_bound_s for row in rows)
    return _frame(
        STEP_FLOOR,
        {
            "category": [*(row.name for row in rows), TOTAL],
            "time_s": [*(row.time_s for row in rows), whole_s],
            "time_share_ratio": [*(step.time_share(row.category) for row in rows), 1.0],
            "flop_share_ratio": [
                *(step.flop_share(row.category) for row in rows),
                sum(step.flop_share(row.category) for row in rows),
            ],
            "total_flop": [*(row.flop for row in rows), sum(row.flop for row in rows)],
            "traffic_bytes": [*(row.traffic_bytes for row in rows), sum(row.traffic_bytes for row in rows)],
            "memory_bound_ratio": [*(row.memory_bound_s / row.time_s for row in rows), memory_s / whole_s],
        },
    )


def operations_frame(step: StepModel) -> pd.DataFrame:
    """STEP_OPERATIONS."""
    rows = step.operations
    return _frame(
        STEP_OPERATIONS,
        {
            "category": [str(row.category) for row in rows],
            "operation": [row.name for row in rows],
            "runs_count": [row.count for row in rows],
            "time_s": [row.time_s for row in rows],
            "time_share_ratio": [row.time_s / step.step_s for row in rows],
            "total_flop": [row.flop for row in rows],
            "traffic_bytes": [row.traffic_bytes for row in rows],
            "memory_bound_ratio": [row.memory_bound_s / row.time_s if row.time_s else 0.0 for row in rows],
        },
    )


def bounds_frame(bounds: Sequence[LowerBound], measured_s: float | None) -> pd.DataFrame:
    """LOWER_BOUNDS.

    Args:
        measured_s: the step; None where none was measured.
    """
    longest = longest_bound(bounds)
    return _frame(
        LOWER_BOUNDS,
        {
            "bound": [str(bound.kind) for bound in bounds],
            "of": [bound.of for bound in bounds],
            "duration_s": [bound.duration_s for bound in bounds],
            "measured_share_ratio": [None if measured_s is None else bound.share_of(measured_s) for bound in bounds],
            "is_longest": [bound is longest for bound in bounds],
            "basis": [bound.basis for bound in bounds],
            "evidence": [str(bound.evidence) for bound in bounds],
        },
    )


def rates_frame(rates: Sequence[ComponentRate]) -> pd.DataFrame:
    """COMPONENT_RATES."""
    return _frame(
        COMPONENT_RATES,
        {
            "phase": [rate.phase for rate in rates],
            "row": [rate.title for rate in rates],
            "duration_s": [rate.duration_s for rate in rates],
            "useful_flop": [rate.useful_flop for rate in rates],
            "useful_flop_per_s": [rate.flop_per_s for rate in rates],
            "peak_ratio": [rate.peak_ratio for rate in rates],
        },
    )


def gap_frame(gap: CeilingGap) -> pd.DataFrame:
    """CEILING_GAP: the floor, the parts, and the measured step, which is their sum."""
    times = [gap.floor_s, *(row.duration_s for row in gap.rows), gap.measured_s]
    return _frame(
        CEILING_GAP,
        {
            "part": ["floor: perfect kernels, nothing else", *(str(row.part) for row in gap.rows), "measured step"],
            "duration_s": times,
            "step_share_ratio": [None if time is None else time / gap.measured_s for time in times],
            "mfu_points_ratio": [None, *(row.mfu_points_ratio for row in gap.rows), None],
            "mfu_ratio": [gap.mfu_ceiling, *(None for _ in gap.rows), gap.mfu],
            "state": [None, *(None if row.absence is None else str(row.absence) for row in gap.rows), None],
            "note": [None, *(row.note for row in gap.rows), None],
            "evidence": ["analytic", *(str(row.evidence) for row in gap.rows), "measured"],
        },
    )


def _shown(metric: Metric) -> str:
    if metric.unit == "ratio":
        return f"{100 * metric.value:.2f} %"
    if metric.unit == "s":
        return f"{metric.value:.3f} s"
    if metric.unit.endswith("FLOP/s"):
        return format_si(metric.value, metric.unit)
    return f"{metric.value:,.1f} {metric.unit}"


def _frame(spec: FrameSpec, values: Mapping[str, Sequence[Any]]) -> pd.DataFrame:
    """The frame of the values, with the dtypes of the spec."""
    columns: dict[str, Any] = {}
    for column in spec.columns:
        given = values[column.name]
        if column.dtype == "category":
            known = sorted({text for text in given if text is not None})
            columns[column.name] = pd.Categorical(given, categories=pd.Index(known, dtype="object"))
        elif column.dtype == "Int64":
            is_missing = np.array([value is None for value in given], dtype=np.bool_)
            numbers = np.array([0 if value is None else value for value in given], dtype=np.int64)
            columns[column.name] = nullable_int64(numbers, is_missing)
        elif column.dtype == "float64":
            numbers = np.array([np.nan if value is None else value for value in given], dtype=np.float64)
            columns[column.name] = numbers
        else:
            columns[column.name] = np.array(given, dtype=column.dtype)
    return require_frame(pd.DataFrame(columns), spec)
