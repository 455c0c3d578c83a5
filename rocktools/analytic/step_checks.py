"""Step times -> doubts about them: too few samples, and a profiled step that is not like the steps it is to explain."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rocktools.analytic.rates import StepTime
from rocktools.findings import Finding, Severity
from rocktools.units import count_noun

PERTURBED_RATIO = 0.05
"""From this difference on, a profile explains another step than the one that was timed."""
UNLIKE_RATIO = 0.01
"""From this difference on, a profiled step is not like those beside it. A profiler makes steps slower, never faster."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProfiledStep:
    """A profiled step beside others.

    Attributes:
        difference_ratio: profiled minus unprofiled, over unprofiled; None where there is no unprofiled step.
        neighbours_ratio: profiled minus the mean of the steps beside it, over that mean; None where there are none.
        findings: doubts.
    """

    difference_ratio: float | None
    neighbours_ratio: float | None
    findings: tuple[Finding, ...]


def check_step_time(step: StepTime) -> tuple[Finding, ...]:
    """What a step time lacks to be a stable one."""
    found = []
    if step.samples_count == 1:
        found.append(_lacking(step, "one-step-sample", "one step was timed, which says nothing of how much steps vary"))
    elif step.spread_s is None:
        message = f"the {step.statistic} of {step.samples_count} steps has no spread"
        found.append(_lacking(step, "step-without-spread", message))
    if step.warmup_count is None:
        message = "it is not stated how many steps were left out as warm-up"
        found.append(_lacking(step, "step-without-warmup", message))
    return tuple(found)


def _lacking(step: StepTime, rule: str, message: str) -> Finding:
    return Finding(
        rule=rule,
        severity=Severity.WARNING,
        where=step.source,
        message=message,
        numbers={"samples_count": step.samples_count, "duration_s": step.duration_s},
        advice="time several updates after compilation and warm-up, and give median and spread",
    )


def check_profiled_step(
    profiled_s: float, *, unprofiled_s: float | None = None, neighbours_s: Sequence[float] = (), where: str = "profile"
) -> ProfiledStep:
    """Whether a profiled step may explain others.

    Args:
        unprofiled_s: an identical step without a profiler.
        neighbours_s: steps of the same run before and after it.
        where: whose step it is, for findings.
    """
    mean_s = sum(neighbours_s) / len(neighbours_s) if neighbours_s else None
    difference = None if unprofiled_s is None else profiled_s / unprofiled_s - 1
    neighbours = None if mean_s is None else profiled_s / mean_s - 1
    findings = []
    if difference is not None and unprofiled_s is not None and abs(difference) > PERTURBED_RATIO:
        findings.append(
            Finding(
                rule="profiled-step-perturbed",
                severity=Severity.WARNING,
                where=where,
                message=f"the profiled step took {profiled_s:.3f} s and the unprofiled one {unprofiled_s:.3f} s, "
                f"{100 * difference:+.1f} %",
                numbers={"profiled_s": profiled_s, "unprofiled_s": unprofiled_s},
                advice="shares of this profile may not be those of the unprofiled step",
            )
        )
    if neighbours is not None and mean_s is not None and abs(neighbours) > UNLIKE_RATIO:
        what = "slower" if neighbours > 0 else "faster"
        findings.append(
            Finding(
                rule="profiled-step-unlike-neighbours",
                severity=Severity.NOTE if neighbours > 0 else Severity.WARNING,
                where=where,
                message=f"the profiled step took {profiled_s:.3f} s and the {count_noun(len(neighbours_s), 'step')} "
                f"beside it {mean_s:.3f} s, so that it is {100 * abs(neighbours):.2f} % {what}",
                numbers={"profiled_s": profiled_s, "neighbours_mean_s": mean_s, "steps_count": len(neighbours_s)},
                advice="one step is no typical step: profile several",
            )
        )
    return ProfiledStep(difference_ratio=difference, neighbours_ratio=neighbours, findings=tuple(findings))
