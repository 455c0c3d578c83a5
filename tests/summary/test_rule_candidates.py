"""Faults that rules find stand first among what a summary suggests, with the time that they explain."""

from __future__ import annotations

from pathlib import Path

import pytest
from command_line import CommandLine

from rocktools.evidence import Evidence
from rocktools.findings import Finding, Severity
from rocktools.render.report_verdict import verdict_of
from rocktools.rules.catalog import RULES, RankedFinding, RuleReport, find_rule
from rocktools.rules.rule import RuleFinding
from rocktools.summary.document import Candidate, CandidateEvidence, read_summary
from rocktools.summary.rule_candidates import SAME_CANDIDATES, doubts_of, with_rules


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> CommandLine:
    return CommandLine(capsys)


def _own(name: str, saved_ns: float | None) -> Candidate:
    evidence = CandidateEvidence(name="x_ratio", value=0.5, block="overlap", evidence=Evidence.MEASURED)
    return Candidate(
        candidate_id=name,
        title=name,
        rationale="why",
        subject="",
        most_saved_ns=saved_ns,
        evidence=(evidence,),
        suggestions=("do it",),
    )


def _ranked(name: str, severity: Severity, explained_ns: float | None) -> RankedFinding:
    finding = Finding(
        rule=name, severity=severity, where="gpu1", message="it is slow", numbers={"late_ns": 7}, advice="look"
    )
    return RankedFinding(
        rule=find_rule(name),
        found=RuleFinding(finding=finding, explained_ns=explained_ns, evidence=Evidence.MEASURED),
        share_ratio=None,
    )


def _report(*found: RankedFinding) -> RuleReport:
    return RuleReport(findings=found, silent=(), clear=(), step_ns=100.0)


def test_faults_come_first_and_what_they_say_is_not_said_twice() -> None:
    own = (_own("speed-up-operation", 90.0), _own("balance-devices", 80.0), _own("attribute-first", None))
    found = with_rules(own, _report(_ranked("straggler", Severity.WARNING, 50.0)))
    assert [each.candidate_id for each in found] == ["straggler", "speed-up-operation", "attribute-first"]
    first = found[0]
    assert first.most_saved_ns == 50.0
    assert first.rationale == "It is slow."
    assert first.subject == "gpu1"
    assert [(each.name, each.value, each.block) for each in first.evidence] == [("late_ns", 7, "rules")]
    assert first.suggestions[0] == "look"
    assert set(find_rule("straggler").fixes) <= set(first.suggestions)


def test_notes_are_ranked_by_what_they_explain_and_lints_are_no_candidates() -> None:
    lint = next(rule for rule in RULES if rule.group.value == "lint")
    notes = (
        _ranked("sync-in-loop", Severity.NOTE, 85.0),
        _ranked("memory-bound", Severity.NOTE, None) if _is_rule("memory-bound") else None,
        _ranked(lint.name, Severity.WARNING, 99.0),
    )
    found = with_rules((_own("a", 90.0), _own("b", 80.0)), _report(*(each for each in notes if each)))
    assert [each.candidate_id for each in found] == ["a", "sync-in-loop", "b"]


def _is_rule(name: str) -> bool:
    return any(rule.name == name for rule in RULES)


def test_a_doubt_about_the_recording_is_a_doubt_and_nothing_to_try() -> None:
    report = _report(
        _ranked("warm-up-captured", Severity.WARNING, 60.0), _ranked("one-rank-only", Severity.WARNING, None)
    )
    found = with_rules((_own("a", 90.0),), report)
    assert [each.candidate_id for each in found] == ["warm-up-captured", "a"]
    assert [each.rule for each in doubts_of(report)] == ["one-rank-only"]
    assert doubts_of(None) == []


def test_without_a_report_the_numbers_alone_speak() -> None:
    own = (_own("a", 1.0),)
    assert with_rules(own, None) == own


def test_every_rule_that_replaces_a_candidate_exists() -> None:
    assert [name for name in SAME_CANDIDATES if not _is_rule(name)] == []


@pytest.mark.slow
def test_an_injected_fault_is_the_first_that_a_report_names(run: CommandLine, tmp_path: Path) -> None:
    options = ("--ranks", 2, "--steps", 4, "--fault", "input-starvation")
    assert run("demo", "-o", tmp_path / "run", *options).code == 0
    assert run("summarize", tmp_path / "run", "-o", tmp_path / "run.json").code == 0
    summary = read_summary(tmp_path / "run.json")
    assert summary.candidates[0].candidate_id == "input-starvation"
    assert "First to look at: Input starvation" in verdict_of(summary)[-1]
