"""Results of the analytic model as tables of the command line: titles, notes, and what is left out for people."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pandas as pd

    from rocktools.analytic.ceiling_gap import CeilingGap
    from rocktools.analytic.component_rates import ComponentRate
    from rocktools.analytic.lower_bounds import LowerBound
    from rocktools.analytic.rates import Metric
    from rocktools.analytic.step_model import StepModel
    from rocktools.analytic.useful_flop import FlopLedger
    from rocktools.devices.device import Peak
    from rocktools.evidence import Evidence
    from rocktools.frames import FrameSpec
    from rocktools.render.table import Table

_OPTIONAL = ("slots_flop", "traffic_bytes", "note", "evidence", "basis", "default", "sources")


def flop_table(ledger: FlopLedger) -> Table:
    """FLOP_LEDGER; without a column of slots where nothing is said about capacity."""
    from rocktools.analytic.model_tables import FLOP_LEDGER, flop_frame

    frame = flop_frame(ledger)
    if frame["slots_flop"].isna().all():
        frame = frame.drop(columns="slots_flop")
    title = (
        f"{ledger.model.title}: {ledger.useful_flop / 1e15:,.3f} PFLOP in one step of {ledger.tokens_count:,} tokens, "
        f"{ledger.useful_flop_per_token / 1e9:,.3f} GFLOP per token"
    )
    return spec_table(frame, FLOP_LEDGER, title)


def metrics_table(metrics: Sequence[Metric], *, is_for_people: bool) -> Table:
    """MODEL_METRICS; for people what each number is read with stands below the table."""
    from rocktools.analytic.model_tables import MODEL_METRICS, metrics_frame
    from rocktools.evidence import weakest

    frame = metrics_frame(metrics)
    notes = [f"{title}: {text}" for title, text in zip(frame["metric"], frame["read_with"], strict=True)]
    if is_for_people:
        frame = frame[["metric", "shown", "evidence"]]
    evidence = weakest(*(metric.evidence for metric in metrics))
    title = "the step, and what each number is read with"
    return spec_table(frame, MODEL_METRICS, title, notes=notes if is_for_people else (), evidence=evidence)


def floor_table(built: StepModel) -> Table:
    """STEP_FLOOR."""
    from rocktools.analytic.model_tables import STEP_FLOOR, floor_frame
    from rocktools.analytic.step_model import Category
    from rocktools.units import format_duration, format_si

    title = (
        f"{built.model.title} on {built.device.part}, {built.tokens_count:,} tokens, {built.attention} attention: "
        f"{format_duration(built.step_s * 1e9)} at least, {100 * built.mfu_ceiling:.1f} % MFU at most"
    )
    optimizer = 100 * built.flop_share(Category.OPTIMIZER), 100 * built.time_share(Category.OPTIMIZER)
    shards = f" / {built.optimizer_shards} shards" if built.optimizer_shards > 1 else ""
    notes = (
        f"the optimizer{shards} does {optimizer[0]:.2g} % of the FLOPs and takes {optimizer[1]:.2g} % of the time",
        f"{format_si(built.peak.flop_per_s, 'FLOP/s')} {built.peak.sparsity} {built.peak.dtype} ({built.peak.source})",
        f"{format_si(built.bandwidth.bytes_per_s, 'B/s')} {built.bandwidth.name} ({built.bandwidth.source})",
        "operations one after the other, none overlaps; no launch gaps, communication, input or rematerialized work",
    )
    return spec_table(floor_frame(built), STEP_FLOOR, title, notes=notes)


def operations_table(built: StepModel) -> Table:
    """STEP_OPERATIONS."""
    from rocktools.analytic.model_tables import STEP_OPERATIONS, operations_frame

    return spec_table(operations_frame(built), STEP_OPERATIONS, "operations, forward and backward together")


def bounds_table(found: Sequence[LowerBound], measured_s: float | None, floor: StepModel) -> Table:
    """LOWER_BOUNDS; without shares where no step was measured."""
    from rocktools.analytic.model_tables import LOWER_BOUNDS, bounds_frame
    from rocktools.evidence import weakest
    from rocktools.units import format_duration

    frame = bounds_frame(found, measured_s)
    if measured_s is None:
        frame = frame.drop(columns="measured_share_ratio")
    notes = [
        "bounds may overlap and are not added: the longest is the floor",
        f"one operation after the other, each as its roofline allows, the step takes "
        f"{format_duration(floor.step_s * 1e9)}: rocktools model step",
    ]
    if not any(str(bound.kind) == "communication" for bound in found):
        notes.append("no bound of communication: --communication-bytes with a bandwidth that was measured")
    evidence = weakest(*(bound.evidence for bound in found))
    title = f"{floor.model.title} on {floor.device.part}: lower bounds"
    return spec_table(frame, LOWER_BOUNDS, title, notes=notes, evidence=evidence)


def gap_table(gap: CeilingGap, is_simulated: bool) -> Table:
    """CEILING_GAP."""
    from rocktools.analytic.model_tables import CEILING_GAP, gap_frame

    title = f"{100 * gap.mfu_ceiling:.1f} % MFU at most, {100 * gap.mfu:.1f} % measured: where the difference went"
    note = "points of MFU are divided in proportion to time"
    return spec_table(gap_frame(gap), CEILING_GAP, title, notes=[note], is_simulated=is_simulated)


def rates_table(rates: Sequence[ComponentRate], peak: Peak, *, is_simulated: bool) -> Table:
    """COMPONENT_RATES."""
    from rocktools.analytic.model_tables import COMPONENT_RATES, rates_frame
    from rocktools.evidence import weakest
    from rocktools.units import format_si

    stated = format_si(peak.flop_per_s, "FLOP/s")
    title = f"useful FLOP/s of components, against {stated} {peak.sparsity} {peak.dtype}"
    note = "useful FLOPs over summed durations: what is moved or calculated again is in the time only"
    evidence = weakest(peak.evidence, *(rate.evidence for rate in rates))
    return spec_table(
        rates_frame(rates), COMPONENT_RATES, title, notes=[note], evidence=evidence, is_simulated=is_simulated
    )


def conventions_tables(*, flop: object = None, floor: object = None, is_for_people: bool) -> list[Table]:
    """MODEL_CONVENTIONS of useful FLOPs, of the floor under a step, or of both; for people a table of each."""
    from rocktools.analytic.conventions import describe_conventions
    from rocktools.analytic.model_tables import MODEL_CONVENTIONS, conventions_frame

    records = {"useful FLOPs": flop, "step floor": floor}
    described = {of: describe_conventions(record) for of, record in records.items() if record is not None}
    groups = [{of: group} for of, group in described.items()] if is_for_people else [described]
    tables = []
    for group in groups:
        frame = conventions_frame(group)
        changed = frame.loc[frame["setting"].astype(str) != frame["default"].astype(str), "convention"]
        if is_for_people:
            frame = frame.drop(columns=["of", "default"] if changed.empty else ["of"])
        state = f"changed: {', '.join(changed)}" if len(changed) else "all as they are by default"
        tables.append(spec_table(frame, MODEL_CONVENTIONS, f"conventions of the {' and the '.join(group)}, {state}"))
    return tables


def spec_table(
    frame: pd.DataFrame,
    spec: FrameSpec,
    title: str,
    *,
    notes: Sequence[str] = (),
    evidence: Evidence | None = None,
    is_simulated: bool = False,
) -> Table:
    """The table; its evidence is `analytic` unless another is given."""
    from rocktools.evidence import Evidence
    from rocktools.render.table import table_from_spec

    return table_from_spec(
        frame,
        spec,
        evidence=evidence or Evidence.ANALYTIC,
        title=title,
        is_simulated=is_simulated,
        notes=notes,
        optional_columns=_OPTIONAL,
    )
