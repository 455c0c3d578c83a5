"""What the rules found -> candidates of a summary: faults first, then what the numbers alone suggest.

A rule looks at single rows and at the program, where the numbers of a summary are sums; where both speak of one thing,
the rule does.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rocktools.evidence import Evidence
from rocktools.findings import Finding, Severity
from rocktools.rules.catalog import RankedFinding, RuleReport
from rocktools.rules.rule import RuleGroup
from rocktools.summary.document import Candidate, CandidateEvidence

# Rule -> the candidate that says the same by sums.
SAME_CANDIDATES: Mapping[str, str] = {
    "exposed-collective": "hide-communication",
    "exposed-copies": "hide-copies",
    "straggler": "balance-devices",
    "expert-imbalance": "balance-devices",
    "input-starvation": "fill-idle-time",
    "host-bound-step": "fill-idle-time",
    "full-rematerialization": "rematerialize-less",
    "data-formatting": "format-less",
    "last-at-every-collective": "arrive-together",
    "recompilation": "steady-steps",
}
_FAULTS = (Severity.FAULT, Severity.WARNING)


def with_rules(candidates: Sequence[Candidate], report: RuleReport | None) -> tuple[Candidate, ...]:
    """All candidates, the faults that rules found first; each once.

    Args:
        candidates: by the numbers of the summary, in their order.
        report: None where nothing could be judged.
    """
    if report is None:
        return tuple(candidates)
    found = [each for each in report.findings if each.rule.group is not RuleGroup.LINT and not _is_doubt(each)]
    faults = [_candidate(each) for each in found if each.found.finding.severity in _FAULTS]
    notes = [_candidate(each) for each in found if each.found.finding.severity not in _FAULTS]
    told = {SAME_CANDIDATES.get(each.rule.name) for each in found if each.found.finding.severity in _FAULTS}
    rest = [each for each in candidates if each.candidate_id not in told]
    rest += [each for each in notes if each.most_saved_ns is not None]
    rest.sort(key=lambda each: -(each.most_saved_ns or 0.0))
    return (*faults, *rest)


def doubts_of(report: RuleReport | None) -> list[Finding]:
    """What rules say of the recording that costs no time: to be read with all numbers, and nothing to try."""
    return [] if report is None else [each.found.finding for each in report.findings if _is_doubt(each)]


def _is_doubt(ranked: RankedFinding) -> bool:
    return ranked.rule.group is RuleGroup.CAPTURE_QUALITY and ranked.found.explained_ns is None


def _candidate(ranked: RankedFinding) -> Candidate:
    finding, rule = ranked.found.finding, ranked.rule
    limits = {threshold.name: threshold.value for threshold in rule.thresholds}
    numbers = [
        CandidateEvidence(
            name=name,
            value=value,
            block="rules",
            evidence=ranked.found.evidence if name.endswith("_ns") else Evidence.MEASURED,
            threshold=limits.get(name),
        )
        for name, value in finding.numbers.items()
    ]
    return Candidate(
        candidate_id=rule.name,
        title=rule.title,
        rationale=f"{finding.message[:1].upper()}{finding.message[1:]}.",
        subject=finding.where,
        most_saved_ns=ranked.found.explained_ns,
        evidence=tuple(numbers),
        suggestions=(*filter(None, [finding.advice]), *rule.fixes),
    )
