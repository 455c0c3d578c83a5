"""Two summaries and a plan -> the record of an attempt, or why there can be none.

What is refused is not recorded: another amount of work that nobody allowed, more than one change, the very same files
on both sides, another `before` than the plan's, and a change that is kept without a check of the outputs.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from rocktools.compare.compare import compare_summaries
from rocktools.compare.comparison import Comparison
from rocktools.compare.experiment_change import changes_of
from rocktools.compare.experiment_document import (
    PLAN,
    RECORD,
    SCHEMA,
    ChangedFact,
    Correctness,
    Decision,
    Experiment,
    Losses,
    Moved,
    Plan,
    Prediction,
    Record,
    Side,
)
from rocktools.compare.experiment_prediction import judge_prediction, measure, require_metric
from rocktools.compare.parity import FactKind, Gate, Parity, ParityState
from rocktools.summary.document import Missing, StepLog, Summary

_PATH_PARTS = ("compute", "exposed_communication", "exposed_copy", "idle")
_MOVED_COUNT = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """What the user says of an attempt.

    Attributes:
        before_path, after_path: of the summaries, as they were named.
        change: what was changed, in words; "" leaves that of the plan.
        allowed: facts of the work that may differ: they are the change then.
        correctness, correctness_note: whether outputs are right, and how that was checked.
        decision, note: what follows.
        recorded_utc: ISO 8601.
    """

    before_path: str
    after_path: str
    change: str
    allowed: Collection[str]
    correctness: Correctness
    correctness_note: str
    decision: Decision
    note: str
    recorded_utc: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """Why an attempt is not recorded.

    Attributes:
        reasons: a sentence each.
        is_usage: whether something was left out of the command, and no gate is closed.
    """

    reasons: tuple[str, ...]
    is_usage: bool = False


def build_plan(
    summary: Summary,
    path: str,
    *,
    experiment_id: str,
    created_utc: str,
    hypothesis: str,
    change: str,
    prediction: Prediction,
) -> Plan:
    """The plan of an experiment that starts from a summary.

    Raises:
        UsageError: the summary does not have what is predicted.
    """
    require_metric(summary, prediction.metric)
    return Plan(
        schema=SCHEMA,
        kind=PLAN,
        experiment_id=experiment_id,
        created_utc=created_utc,
        hypothesis=hypothesis,
        change=change,
        prediction=prediction,
        before=side_of(summary, path),
    )


def side_of(summary: Summary, path: str) -> Side:
    """What is kept of a summary."""
    return Side(path=path, title=summary.title, inputs_sha256=summary.provenance.inputs_sha256)


def build_record(experiment: Experiment, before: Summary, after: Summary, attempt: Attempt) -> Record | Refusal:
    """The record of an attempt, or why there is none."""
    plan = experiment.plan
    comparison = compare_summaries(before, after, allowed=attempt.allowed)
    changes = changes_of(comparison.parity)
    change = attempt.change or plan.change
    refusal = _refusal(plan, before, comparison, changes, change, attempt)
    if refusal is not None:
        return refusal
    measured = measure(before, after, comparison, plan.prediction.metric)
    judgement, sentence = judge_prediction(plan.prediction, measured)
    return Record(
        schema=SCHEMA,
        kind=RECORD,
        experiment_id=plan.experiment_id,
        attempt=len(experiment.records) + 1,
        recorded_utc=attempt.recorded_utc,
        before=side_of(before, attempt.before_path),
        after=side_of(after, attempt.after_path),
        gate=str(comparison.parity.gate),
        gate_reasons=(*comparison.parity.reasons, *_other_work(comparison.parity)),
        changes=changes,
        change=change,
        correctness=attempt.correctness,
        correctness_note=attempt.correctness_note,
        losses=_losses(before.step_log, after.step_log),
        measured=measured,
        judgement=judgement,
        sentence=sentence,
        critical_path=_critical_path(comparison),
        moved=_moved(comparison),
        decision=attempt.decision,
        note=attempt.note,
        is_simulated=comparison.is_simulated,
    )


def _refusal(
    plan: Plan,
    before: Summary,
    comparison: Comparison,
    changes: tuple[ChangedFact, ...],
    change: str,
    attempt: Attempt,
) -> Refusal | None:
    parity = comparison.parity
    found = before.provenance.inputs_sha256
    if plan.before.inputs_sha256 is not None and found != plan.before.inputs_sha256:
        return Refusal(
            reasons=(
                f"the summary before is not that of the plan: its files have another hash than {plan.before.path}",
            )
        )
    if parity.is_same_input:
        return Refusal(reasons=("both sides are made from the very same files",))
    if parity.gate is Gate.CLOSED:
        return Refusal(reasons=parity.reasons)
    if len(changes) > 1:
        names = ", ".join(each.name for each in changes)
        return Refusal(
            reasons=(f"{len(changes)} changes at once, whose effects cannot be told apart: {names}; one at a time",)
        )
    if not changes and not change:
        return Refusal(
            reasons=("nothing that is recorded changed: say what did (--change TEXT)",),
            is_usage=True,
        )
    if attempt.decision is Decision.KEEP and attempt.correctness is not Correctness.PASSED:
        state = "failed" if attempt.correctness is Correctness.FAILED else "was not checked"
        return Refusal(reasons=(f"a change is kept only after its outputs were found right; correctness {state}",))
    return None


def _other_work(parity: Parity) -> list[str]:
    """What was allowed to differ although it is the work itself: times then say nothing of the same work."""
    return [
        f"{row.name} differs, as was allowed: times are of different work, tokens per second may be compared"
        for row in parity.rows
        if row.state is ParityState.ALLOWED and row.kind is FactKind.WORK
    ]


def _losses(before: StepLog | Missing, after: StepLog | Missing) -> Losses | None:
    """How far the losses of the same steps are apart, where both logs print them."""
    if isinstance(before, Missing) or isinstance(after, Missing):
        return None
    sides = [{each.step_number: each.loss for each in log.steps if each.loss is not None} for log in (before, after)]
    common = sorted(sides[0].keys() & sides[1].keys())
    if not common:
        return None
    apart = [abs(sides[1][step] - sides[0][step]) / abs(sides[0][step]) for step in common if sides[0][step]]
    return Losses(steps_count=len(common), largest_ratio=max(apart) if apart else None)


def _critical_path(comparison: Comparison) -> tuple[Moved, ...]:
    """Parts that add up to the span of a mean step; the largest change first."""
    found = [
        Moved(
            name=each.name,
            before_ns=each.before_ns,
            after_ns=each.after_ns,
            delta_ns=each.after_ns - each.before_ns,
            verdict="",
        )
        for each in comparison.shares
        if each.name in _PATH_PARTS
    ]
    return tuple(sorted(found, key=lambda each: (-abs(each.delta_ns), each.name)))


def _moved(comparison: Comparison) -> tuple[Moved, ...]:
    """Buckets of the ledger that moved most."""
    return tuple(
        Moved(
            name=each.label,
            before_ns=each.before_ns,
            after_ns=each.after_ns,
            delta_ns=each.delta_ns,
            verdict=str(each.verdict),
        )
        for each in comparison.buckets[:_MOVED_COUNT]
        if each.delta_ns
    )


def advice_of(record: Record) -> str:
    """What the numbers suggest, whatever was decided; "" where they suggest nothing else."""
    verdict = record.measured.verdict
    if record.correctness is Correctness.FAILED:
        suggested = Decision.REVERT
    elif verdict == "faster" and record.correctness is Correctness.PASSED:
        suggested = Decision.KEEP
    elif verdict == "slower":
        suggested = Decision.REVERT
    elif verdict in ("not significant", "cannot say"):
        suggested = Decision.AGAIN
    else:
        return ""
    why = "with more steps" if suggested is Decision.AGAIN else f"{record.measured.metric} is {verdict}"
    return "" if suggested is record.decision else f"the numbers suggest: {suggested} ({why})"
