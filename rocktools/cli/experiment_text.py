"""Experiments as people read them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from rocktools.units import count_noun, format_duration, format_ratio

if TYPE_CHECKING:
    from rocktools.compare.experiment_document import Experiment, Record
    from rocktools.render.table import Table

_LISTED = {
    "experiment": "name of the experiment",
    "created": "when it was planned, UTC",
    "hypothesis": "why it should help",
    "change": "the one change: the recorded fact, else the words of the plan",
    "prediction": "what was predicted",
    "attempts_count": "records of it",
    "delta_ratio": "measured change of the predicted quantity, last attempt",
    "judgement": "of the prediction, last attempt",
    "decision": "keep, revert or again; planned before there is one",
}
_MOVED = {
    "attempt": "number of the record",
    "kind": "path: a part that adds up to the span of a mean step; bucket: of the ledger",
    "name": "of the part, or bucket",
    "before_ns": "mean of devices and steps before",
    "after_ns": "the same after",
    "delta_ns": "after minus before",
    "verdict": "of the series over steps, corrected for how many were asked",
}


def experiment_lines(experiment: Experiment) -> list[str]:
    """The plan, and every attempt."""
    plan = experiment.plan
    lines = [
        f"{plan.experiment_id}: {plan.hypothesis}",
        f"planned {plan.created_utc}: {plan.change or 'the change is to be told by the summaries'}",
        f"predicted: {plan.prediction.metric} {plan.prediction.text}",
        f"before: {plan.before.path}: {plan.before.title}",
    ]
    for each in experiment.records:
        lines += ["", f"attempt {each.attempt}, {each.recorded_utc}", *record_lines(each)]
    return [*lines, ""]


def record_lines(record: Record) -> list[str]:
    """What one attempt gave."""
    lines = [f"after: {record.after.path}: {record.after.title}"]
    for fact in record.changes:
        also = f", and with it {', '.join(fact.also)}" if fact.also else ""
        lines.append(f"changed: {fact.name}: {_shown(fact.before)} -> {_shown(fact.after)}{also}")
    if not record.changes:
        lines.append(f"changed: {record.change} (nothing that is recorded changed)")
    elif record.change:
        lines.append(f"in words: {record.change}")
    lines += [f"parity ({record.gate}): {reason}" for reason in record.gate_reasons]
    how = f" ({record.correctness_note})" if record.correctness_note else ""
    lines.append(f"outputs: {record.correctness}{how}")
    if record.losses is not None and record.losses.largest_ratio is not None:
        apart = format_ratio(record.losses.largest_ratio)
        lines.append(f"losses: {apart} apart at most in {count_noun(record.losses.steps_count, 'common step')}")
    measured = record.measured
    samples = f"{measured.before_count} and {measured.after_count} steps"
    lines.append(f"result: {record.sentence}; {measured.verdict} ({samples})")
    lines.append(f"prediction: {record.judgement}")
    if record.critical_path:
        first = record.critical_path[0]
        lines.append(
            f"moved most on the path of a step: {first.name.replace('_', ' ')} {_signed(first.delta_ns)} "
            f"({format_duration(first.before_ns)} to {format_duration(first.after_ns)})"
        )
    lines.append(f"decision: {record.decision}{f': {record.note}' if record.note else ''}")
    return lines


def _shown(value: object) -> str:
    return "none" if value is None else str(value)


def _signed(delta_ns: float) -> str:
    return f"{'+' if delta_ns >= 0 else ''}{format_duration(delta_ns)}"


def experiments_table(experiments: Sequence[Experiment], path: str) -> Table:
    """One row for each experiment."""
    import pandas as pd

    from rocktools.evidence import Evidence
    from rocktools.render.table import ColumnKind, Table, table_column

    rows = []
    for each in experiments:
        last = each.records[-1] if each.records else None
        change = each.plan.change if last is None else last.changes[0].name if last.changes else last.change
        rows.append(
            {
                "experiment": each.plan.experiment_id,
                "created": each.plan.created_utc,
                "hypothesis": each.plan.hypothesis,
                "change": change or None,
                "prediction": f"{each.plan.prediction.metric} {each.plan.prediction.text}",
                "attempts_count": len(each.records),
                "delta_ratio": float("nan") if last is None or last.measured.delta_ratio is None
                else last.measured.delta_ratio,
                "judgement": None if last is None else str(last.judgement),
                "decision": each.state,
            }
        )  # fmt: skip
    frame = pd.DataFrame(rows, columns=list(_LISTED)).astype({"attempts_count": "int64", "delta_ratio": "float64"})
    measured = {"delta_ratio": Evidence.MEASURED, "attempts_count": Evidence.MEASURED}
    columns = tuple(
        table_column(
            name,
            meaning,
            evidence=measured.get(name, Evidence.DECLARED),
            dtype=frame[name].dtype,
            kind=ColumnKind.NAME if name in ("hypothesis", "change") else None,
        )
        for name, meaning in _LISTED.items()
    )
    return Table(
        name="experiments",
        title=f"experiments: {len(experiments)} in {path}",
        columns=columns,
        frame=frame,
        is_simulated=any(record.is_simulated for each in experiments for record in each.records),
        optional_columns=("judgement", "prediction", "created"),
    )


def moved_table(experiment: Experiment) -> Table:
    """What moved in each attempt."""
    import pandas as pd

    from rocktools.evidence import Evidence
    from rocktools.render.table import Table, table_column

    rows = [
        (each.attempt, kind, moved.name, moved.before_ns, moved.after_ns, moved.delta_ns, moved.verdict or None)
        for each in experiment.records
        for kind, found in (("path", each.critical_path), ("bucket", each.moved))
        for moved in found
    ]
    frame = pd.DataFrame(rows, columns=list(_MOVED)).astype(
        {"attempt": "int64", "before_ns": "float64", "after_ns": "float64", "delta_ns": "float64"}
    )
    columns = tuple(
        table_column(name, meaning, evidence=Evidence.MEASURED, dtype=frame[name].dtype)
        for name, meaning in _MOVED.items()
    )
    return Table(
        name="moved",
        title=f"{experiment.plan.experiment_id}: what moved on the path of a step, and which buckets",
        columns=columns,
        frame=frame,
        is_simulated=any(each.is_simulated for each in experiment.records),
    )
