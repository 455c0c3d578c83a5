"""What `rocktools compare` says, as one document: `rocktools.comparison/1`.

Every delta is after minus before. Times of buckets and operations are means over devices and steps.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass

from rocktools.compare.parity import Parity
from rocktools.compare.significance import Difference, Verdict
from rocktools.compare.split import Split

SCHEMA = "rocktools.comparison/1"


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassDelta:
    """Steps of one class (light, heavy); a side without it has None."""

    name: str
    before_count: int
    after_count: int
    difference: Difference | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareDelta:
    """One part of the span of a mean device and step.

    Attributes:
        name: busy, compute, exposed_communication, ...; `compute_spread` is the most compute of a device minus the
            least.
        before_ns, after_ns: its time.
        before_ratio, after_ratio, delta_ratio: of the span; the delta is a difference of ratios.
    """

    name: str
    before_ns: float
    after_ns: float
    before_ratio: float
    after_ratio: float
    delta_ratio: float


@dataclass(frozen=True, slots=True, kw_only=True)
class BucketDelta:
    """One class, phase and component on both sides.

    Attributes:
        activity, phase, component: which.
        before_ns, after_ns, delta_ns: summed durations, means over steps; 0 where a side has none, for then it took no
            time.
        delta_ratio: over before; None where that is 0.
        delta_of_step_ratio: `delta_ns` over the mean span of a step before.
        before_count, after_count: executions.
        work_unit: FLOP, B, or "" where work is not known on both sides.
        split: what the delta is made of.
        difference: of the series over steps; None where a side has none.
        probability: that chance parts any bucket that was asked, and is no farther apart, as far; None: not asked.
        verdict: by this probability.
    """

    activity: str
    phase: str
    component: str
    before_ns: float
    after_ns: float
    delta_ns: float
    delta_ratio: float | None
    delta_of_step_ratio: float | None
    before_count: float
    after_count: float
    work_unit: str
    split: Split
    difference: Difference | None
    probability: float | None
    verdict: Verdict

    @property
    def steady_ns(self) -> float:
        """The change of the median over steps, which single steps do not make; of the mean, where there are none."""
        return self.delta_ns if self.difference is None else self.difference.delta_ns

    @property
    def steady_of_step_ratio(self) -> float | None:
        """`steady_ns` over the mean span of a step before."""
        if self.delta_of_step_ratio is None or not self.delta_ns:
            return self.delta_of_step_ratio
        return self.delta_of_step_ratio * self.steady_ns / self.delta_ns

    @property
    def label(self) -> str:
        """For people: `wi_0, forward` or `wi_0, forward, communication`."""
        kind = "" if self.activity == "compute" else f", {self.activity}"
        return f"{self.component}, {self.phase}{kind}"


@dataclass(frozen=True, slots=True, kw_only=True)
class OperationDelta:
    """One operation on both sides.

    Attributes:
        name_before, name_after: None where a side does not have it, or does not list it.
        state: matched, new, gone; `not listed before`, `not listed after` where that side's list is cut.
        matched_by: fingerprint, scope, kernel, name; "" where it is not matched.
        activity, scope, phase, component: of the side that has it, after before before.
        before_ns, after_ns, delta_ns, delta_ratio: exclusive time; None where it is not known.
        before_count, after_count: executions.
        split: what the delta of the summed durations is made of; None where a side is not known.
    """

    name_before: str | None
    name_after: str | None
    state: str
    matched_by: str
    activity: str
    scope: str | None
    phase: str
    component: str
    before_ns: float | None
    after_ns: float | None
    delta_ns: float | None
    delta_ratio: float | None
    before_count: float | None
    after_count: float | None
    split: Split | None


@dataclass(frozen=True, slots=True, kw_only=True)
class RegionDelta:
    """One named scope in one phase, without what is in scopes inside of it.

    Attributes:
        before_ns, after_ns, delta_ns, delta_ratio: summed durations of a mean device and step.
        delta_of_step_ratio: `delta_ns` over the mean span of a step before.
        before_count, after_count: executions.
        work_unit: FLOP, B, or "" where work is not known on both sides.
        split: what the delta is made of.
        components: of the operations in it; a scope has no series of its own, its components have.
    """

    phase: str
    path: tuple[str, ...]
    before_ns: float
    after_ns: float
    delta_ns: float
    delta_ratio: float | None
    delta_of_step_ratio: float | None
    before_count: float
    after_count: float
    work_unit: str
    split: Split
    components: tuple[str, ...]

    @property
    def label(self) -> str:
        """For people: `decoder/mlp/wi_0, forward`."""
        return f"{'/'.join(self.path) or 'no scope'}, {self.phase}"


@dataclass(frozen=True, slots=True, kw_only=True)
class FamilyDelta:
    """One kind of work, with its rate: time for the same work.

    Attributes:
        before_ns, after_ns: exclusive time of a mean device and step.
        time_ratio, work_ratio, efficiency_ratio: after over before; efficiency is work over time. None where the FLOPs
            of a side are not known for nearly all of its time.
    """

    family: str
    before_ns: float | None
    after_ns: float | None
    time_ratio: float | None
    work_ratio: float | None
    efficiency_ratio: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """Two runs.

    Attributes:
        schema: `SCHEMA`.
        verdict: the sentence that stands first.
        before, after: titles of the summaries.
        is_simulated: whether either is.
        parity: whether they may be compared; where the gate is closed, nothing below is there.
        basis: what steps are: `profiled`, or `unprofiled` where both have a log.
        steps: of all steps that count; None where a side has none.
        tail: of their 90th percentiles; None where a side has no steps.
        between: of the time from the end of a step in the trace to the start of the next; None where a side has none.
        classes, shares, buckets, operations, regions, families: the largest change first.
        reasons: what is missing from the comparison, and why.
        uncovered: what may have changed without being seen.
    """

    schema: str
    verdict: str
    before: str
    after: str
    is_simulated: bool
    parity: Parity
    basis: str
    steps: Difference | None
    tail: Difference | None
    between: Difference | None
    classes: tuple[ClassDelta, ...]
    shares: tuple[ShareDelta, ...]
    buckets: tuple[BucketDelta, ...]
    operations: tuple[OperationDelta, ...]
    regions: tuple[RegionDelta, ...]
    families: tuple[FamilyDelta, ...]
    reasons: tuple[str, ...]
    uncovered: tuple[str, ...]


def render_comparison(comparison: Comparison) -> str:
    """The document as JSON text."""
    return json.dumps(asdict(comparison), indent=2, ensure_ascii=False, allow_nan=False) + "\n"
