"""Fewer devices were looked at than take part."""

from __future__ import annotations

from rocktools.evidence import Evidence
from rocktools.findings import Finding, Severity
from rocktools.rules.inputs import RuleInputs
from rocktools.rules.rule import CannotSay, Confirmation, Outcome, Rule, RuleFinding, RuleGroup
from rocktools.units import count_noun


def check_coverage(inputs: RuleInputs) -> Outcome:
    """Devices in the trace, or ranks by the claims, against the participants of the program or the ranks of the job."""
    traced, all_of = inputs.devices_count, inputs.participants_count
    source = "the program was compiled for"
    claims = inputs.claims
    if claims is not None and claims.coverage.ranks_count is not None and claims.coverage.ranks_total_count is not None:
        traced, all_of, source = claims.coverage.ranks_count, claims.coverage.ranks_total_count, "the job has"
    if traced is None or all_of is None:
        return CannotSay(
            reason="how many devices take part is not known: there is no program with num_partitions, and no claim"
        )
    if traced >= all_of:
        return []
    finding = Finding(
        rule="one-rank-only",
        severity=Severity.WARNING,
        where="coverage",
        message=f"{count_noun(traced, 'device')} of {all_of} that {source}: a straggler, uneven loads and waiting for "
        "others cannot be seen, and look like slow communication",
        numbers={"devices_count": traced, "participants_count": all_of},
        advice="trace every rank of at least one node; worst device and spread beside every mean",
    )
    return [RuleFinding(finding=finding, evidence=Evidence.MEASURED)]


RULE = Rule(
    name="one-rank-only",
    title="Not all ranks were looked at",
    group=RuleGroup.CAPTURE_QUALITY,
    looks_at="The number of GPUs with a kernel in the trace, and `num_partitions` of the compiled program; or the "
    "ranks of a declared result.",
    signature="One trace of a job of many ranks.",
    confirmations=(
        Confirmation(detail="devices and processes in the files", command="rocktools info RUN"),
        Confirmation(detail="how devices differ", command="rocktools ranks RUN"),
    ),
    fixes=("name the traces of all ranks together", "capture all ranks over the same steps"),
    needs=(),
    check=check_coverage,
)
