"""Times of phases and components -> ratios that can be held against published ones.

A ledger that adds up need not be right: work may stand in the wrong row. What helps is a ratio with matched
denominators from elsewhere. Absolute times are never compared across accelerators, sequence lengths or methods of
training. The model's time is forward, backward and replay; communication, loss and optimizer are left out of it.
"""

from __future__ import annotations

from dataclasses import dataclass

from rocktools.errors import UsageError
from rocktools.evidence import Evidence


@dataclass(frozen=True, slots=True, kw_only=True)
class PhaseTimes:
    """Compute of one device in one step, each phase added up.

    Attributes:
        forward_s, backward_s: without rematerialized work.
        replay_s: forward work that runs again in the backward pass.
    """

    forward_s: float
    backward_s: float
    replay_s: float

    def __post_init__(self) -> None:
        if self.forward_s <= 0 or self.backward_s < 0 or self.replay_s < 0:
            raise UsageError("phase-times", "ratios of phases need a forward pass that took time")

    @property
    def model_s(self) -> float:
        return self.forward_s + self.backward_s + self.replay_s

    @property
    def backward_ratio(self) -> float:
        """Backward over forward, without replay. FLOPs alone give 2."""
        return self.backward_s / self.forward_s

    @property
    def backward_and_replay_ratio(self) -> float:
        """All that runs in the backward pass over forward."""
        return (self.backward_s + self.replay_s) / self.forward_s

    @property
    def replay_ratio(self) -> float:
        """Part of the forward pass that runs again, by time."""
        return self.replay_s / self.forward_s


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpertTimes:
    """Compute of one device in one step in the mixture of experts.

    Attributes:
        router_s, dispatch_s, experts_s, combine_s: forward.
        backward_s, replay_s: all four together.
    """

    router_s: float
    dispatch_s: float
    experts_s: float
    combine_s: float
    backward_s: float
    replay_s: float

    @property
    def forward_s(self) -> float:
        return self.router_s + self.dispatch_s + self.experts_s + self.combine_s

    @property
    def total_s(self) -> float:
        return self.forward_s + self.backward_s + self.replay_s

    @property
    def experts_ratio(self) -> float:
        """Matrix products of experts over forward time of the mixture."""
        return self.experts_s / self.forward_s

    def share_of(self, phases: PhaseTimes) -> float:
        """Share of the model's time."""
        return self.total_s / phases.model_s


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedBand:
    """What others measured of a ratio.

    Attributes:
        title: of what.
        lowest, highest, mean: of their runs; None where no mean was published.
        source: where it was published.
        differs: in what their runs are unlike a full pretraining step.
        evidence: of the numbers.
    """

    title: str
    lowest: float
    highest: float
    mean: float | None
    source: str
    differs: str
    evidence: Evidence = Evidence.DECLARED

    def distance(self, value: float) -> float:
        """How far a value is outside of the band: below is negative, inside is 0."""
        return min(value - self.lowest, 0.0) + max(value - self.highest, 0.0)

    def distance_from_mean(self, value: float) -> float | None:
        """Value minus mean; None where there is none."""
        return None if self.mean is None else value - self.mean


_STUDY = "Xia et al., Understanding the Performance and Estimating the Cost of LLM Fine-Tuning, IISWC 2024"
_UNLIKE = "Mixtral 8x7B, QLoRA on one A40, 128 tokens: gradients of few parameters, one device"
MOE_SHARE = PublishedBand(
    title="mixture of experts, share of the model's time",
    lowest=0.876,
    highest=0.920,
    mean=0.903,
    source=f"{_STUDY}, figure 5, sparse Mixtral",
    differs=_UNLIKE,
)
BACKWARD_RATIO = PublishedBand(
    title="backward over forward",
    lowest=1.71,
    highest=1.93,
    mean=None,
    source=f"{_STUDY}, figure 4, sparse Mixtral",
    differs=_UNLIKE,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class UnionTimes:
    """What ran at once on one device, or the means of several; each union counts overlaps once.

    Attributes:
        compute_s, communication_s: time in which either ran.
        both_s: time in which both ran.
        span_s: from the first start to the last end.
    """

    compute_s: float
    communication_s: float
    both_s: float
    span_s: float

    def __post_init__(self) -> None:
        if not 0 <= self.both_s <= min(self.compute_s, self.communication_s):
            raise UsageError("union-times", "an intersection is no longer than either of its unions")

    @property
    def busy_s(self) -> float:
        """Time in which anything ran."""
        return self.compute_s + self.communication_s - self.both_s

    @property
    def exposed_communication_s(self) -> float:
        """Communication without compute."""
        return self.communication_s - self.both_s

    @property
    def hidden_ratio(self) -> float | None:
        """Part of the communication under compute; None where nothing was communicated."""
        return self.both_s / self.communication_s if self.communication_s else None

    @property
    def idle_s(self) -> float:
        """Time in which nothing ran."""
        return self.span_s - self.busy_s
