"""A difference in time -> how much of it is more executions, more work in each, and more time for the same work.

    time = executions * (work / executions) * (time / work)

The logarithmic mean divides the difference of such a product so that the parts add up to it exactly and no factor goes
before another (the additive LMDI decomposition of energy statistics). Where work is not known on both sides, the last
two factors are one: time of an execution.
"""

from __future__ import annotations

import math
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Amount:
    """One side.

    Attributes:
        time_ns: in all.
        executions_count: how many, in all; a mean over steps need not be whole.
        work: FLOPs or bytes in all; None where not all of it is known.
    """

    time_ns: float
    executions_count: float
    work: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Split:
    """What a difference is made of; the parts add up to it.

    Attributes:
        count_ns: by more or fewer executions.
        work_ns: by more or less work in each; None where work is not known.
        rate_ns: by more or less time for the same work; with `work_ns` None: for one execution, whatever it does.
        cause: `count`, `work` or `time`: the part with the larger share in the direction of the difference;
            `time or work` where they cannot be told apart; `new` or `gone` where one side has none; `none`.
            Where work was divided over more executions or fewer (`is_divided`), the part of them that points in the
            direction of the difference: what each of the three does alone cannot be seen then.
    """

    count_ns: float
    work_ns: float | None
    rate_ns: float
    cause: str

    @property
    def is_divided(self) -> bool:
        """Whether more executions do less work each, or fewer do more, so that little but the number changed."""
        if self.work_ns is None or self.count_ns * self.work_ns >= 0:
            return False
        return abs(self.count_ns + self.work_ns) < _CANCELLED_RATIO * max(abs(self.count_ns), abs(self.work_ns))


_CANCELLED_RATIO = 0.25
_EQUAL = 1e-9


def split_difference(before: Amount, after: Amount) -> Split:
    """The parts of `after.time_ns - before.time_ns`."""
    delta = after.time_ns - before.time_ns
    if before.time_ns <= 0 or before.executions_count <= 0:
        return Split(count_ns=delta, work_ns=None, rate_ns=0.0, cause="new" if delta else "none")
    if after.time_ns <= 0 or after.executions_count <= 0:
        return Split(count_ns=delta, work_ns=None, rate_ns=0.0, cause="gone")
    weight = _logarithmic_mean(before.time_ns, after.time_ns)
    count = weight * math.log(after.executions_count / before.executions_count)
    if not before.work or not after.work or before.work < 0 or after.work < 0:
        return _judged(delta, count, None, delta - count)
    of_each = (after.work / after.executions_count) / (before.work / before.executions_count)
    work = weight * math.log(of_each)
    return _judged(delta, count, work, delta - count - work)


def _judged(delta: float, count: float, work: float | None, rate: float) -> Split:
    parts = {"count": count, "time" if work is not None else "time or work": rate}
    if work is not None:
        parts["work"] = work
    cause = max(parts, key=lambda name: parts[name] * math.copysign(1.0, delta)) if delta else "none"
    return Split(count_ns=count, work_ns=work, rate_ns=rate, cause=cause)


def _logarithmic_mean(one: float, other: float) -> float:
    if abs(one - other) <= _EQUAL * max(one, other):
        return (one + other) / 2
    return (other - one) / math.log(other / one)
