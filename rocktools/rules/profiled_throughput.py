"""Throughput was taken from a run with a profiler in it."""

from __future__ import annotations

from rocktools.evidence import Evidence
from rocktools.findings import Finding, Severity
from rocktools.rules.inputs import RuleInputs
from rocktools.rules.rule import CannotSay, Confirmation, Outcome, Rule, RuleFinding, RuleGroup


def check_profiled(inputs: RuleInputs) -> Outcome:
    """Whether the run behind a declared throughput was profiled."""
    assert inputs.claims is not None
    claim = inputs.claims.timing
    if claim.tokens_per_s is None and claim.step_s is None:
        return CannotSay(reason="the claims say no step time and no throughput")
    if claim.is_profiled is None:
        return CannotSay(reason="the claims do not say timing.is_profiled")
    if not claim.is_profiled:
        return []
    finding = Finding(
        rule="throughput-of-profiled-run",
        severity=Severity.WARNING,
        where=inputs.claims.source,
        message="throughput is of a run under a profiler, which explains performance and perturbs it",
        numbers={
            **({} if claim.step_s is None else {"step_s": claim.step_s}),
            **({} if claim.tokens_per_s is None else {"tokens_per_s": claim.tokens_per_s}),
        },
        advice="the same configuration again without a profiler; both step times side by side",
    )
    return [RuleFinding(finding=finding, evidence=Evidence.DECLARED)]


RULE = Rule(
    name="throughput-of-profiled-run",
    title="Throughput of a profiled run",
    group=RuleGroup.LINT,
    looks_at="Whether a profiler (rocprofv3, the JAX profiler, counters) ran while a declared step time was taken.",
    signature="The step time of a report is that of its trace.",
    confirmations=(Confirmation(detail="what recorded the files", command="rocktools info RUN"),),
    fixes=("final throughput from an identical run without any profiler",),
    needs=("claims",),
    check=check_profiled,
)
