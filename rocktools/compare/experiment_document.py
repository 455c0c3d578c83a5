"""The ledger of experiments: `rocktools.experiment/1`, one line of JSON for each plan and each record.

An experiment begins with a plan (hypothesis, one change, a prediction with direction and size, and the summary it
starts from) and gets a record for each attempt (the summary after it, what really changed, whether outputs are still
right, the median result, what moved, and the decision). Lines are appended and never changed.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from rocktools.summary.document import Value

SCHEMA = "rocktools.experiment/1"
PLAN, RECORD = "plan", "record"


class Decision(str, Enum):
    """What follows from an attempt."""

    KEEP = "keep"
    REVERT = "revert"
    AGAIN = "again"

    def __str__(self) -> str:
        return self.value


class Correctness(str, Enum):
    """Whether the outputs are still right."""

    PASSED = "passed"
    FAILED = "failed"
    NOT_CHECKED = "not checked"

    def __str__(self) -> str:
        return self.value


class Judgement(str, Enum):
    """How a prediction stands to what was measured."""

    CONFIRMED = "confirmed"
    SMALLER = "right direction, smaller"
    LARGER = "right direction, larger"
    REFUTED = "refuted"
    NOT_CONFIRMED = "not confirmed"  # no significant difference
    CANNOT_SAY = "cannot say"

    def __str__(self) -> str:
        return self.value


@dataclass(frozen=True, slots=True, kw_only=True)
class Side:
    """One summary.

    Attributes:
        path: as it was named.
        title: of the summary; inputs_sha256: of its files, None where they were not hashed.
    """

    path: str
    title: str
    inputs_sha256: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Prediction:
    """What is expected of one quantity of a step.

    Attributes:
        metric: `step`, a part of it (`exposed_communication`, ...), or `component[/phase[/activity]]`.
        low_ratio, high_ratio: between which its relative change is expected; below 0 is less time.
        text: as it was typed.
    """

    metric: str
    low_ratio: float
    high_ratio: float
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What is to be tried.

    Attributes:
        experiment_id: E1, E2, ...: the next in the file.
        created_utc: ISO 8601.
        hypothesis: why it should help; change: the one thing that is changed, "" where the summaries must tell.
    """

    schema: str
    kind: str
    experiment_id: str
    created_utc: str
    hypothesis: str
    change: str
    prediction: Prediction
    before: Side


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangedFact:
    """One change that provenance or the job's configuration shows.

    Attributes:
        name: of the fact; one flag of several is `xla_flags --flag`.
        before, after: values; None where it is not there.
        also: facts that change with it and are not counted for themselves.
    """

    name: str
    before: Value
    after: Value
    also: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Moved:
    """One part of a mean step on both sides; `verdict` is "" where there is no series to judge by."""

    name: str
    before_ns: float
    after_ns: float
    delta_ns: float
    verdict: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """The predicted quantity, measured on both sides: medians of series over steps.

    Attributes:
        basis: `unprofiled` where both sides have a log and steps were asked for, else `profiled`.
        low_ratio, high_ratio, probability: as of a comparison; None where nothing can be said.
        verdict: slower, faster, not significant, cannot say; reason: why it cannot.
    """

    metric: str
    basis: str
    before_ns: float | None
    after_ns: float | None
    delta_ratio: float | None
    low_ratio: float | None
    high_ratio: float | None
    probability: float | None
    before_count: int
    after_count: int
    verdict: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Losses:
    """Losses that both logs print for the same steps: how far they are apart at most."""

    steps_count: int
    largest_ratio: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """One attempt.

    Attributes:
        attempt: from 1.
        gate: of the parity check; gate_reasons: why it is not open.
        changes: what provenance shows; () where the change is only said.
        change: what was changed, in words.
        correctness, correctness_note: whether outputs are right, and how that was checked.
        losses: of both logs; None without them.
        measured: the predicted quantity; judgement and sentence: of the prediction.
        critical_path: parts of the span of a mean step, whose deltas add up to that of the span.
        moved: buckets of the ledger that moved most.
        decision, note: of the user.
    """

    schema: str
    kind: str
    experiment_id: str
    attempt: int
    recorded_utc: str
    before: Side
    after: Side
    gate: str
    gate_reasons: tuple[str, ...]
    changes: tuple[ChangedFact, ...]
    change: str
    correctness: Correctness
    correctness_note: str
    losses: Losses | None
    measured: Measured
    judgement: Judgement
    sentence: str
    critical_path: tuple[Moved, ...]
    moved: tuple[Moved, ...]
    decision: Decision
    note: str
    is_simulated: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Experiment:
    """A plan and its records, the first attempt first."""

    plan: Plan
    records: tuple[Record, ...]

    @property
    def state(self) -> str:
        """The last decision; `planned` before there is one."""
        return str(self.records[-1].decision) if self.records else "planned"
