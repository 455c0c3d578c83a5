"""The catalogue as a whole: names, words, order of findings, and who cannot say."""

from __future__ import annotations

import importlib
import re
import shlex
from dataclasses import fields
from pathlib import Path

import click
import pytest

from rocktools.cli.main import COMMANDS
from rocktools.errors import UsageError
from rocktools.evidence import Evidence
from rocktools.findings import Finding, Severity
from rocktools.rules.catalog import RULES, check_rules, find_rule, findings_frame, silent_frame
from rocktools.rules.description import describe_rule, value_text
from rocktools.rules.inputs import INPUT_MEANINGS, RuleInputs
from rocktools.rules.rule import CannotSay, Rule, RuleFinding, RuleGroup, Threshold
from rocktools.units import unit_of

FOLDER = Path(__file__).resolve().parents[2] / "rocktools" / "rules"


def _rule(name: str, *outcome: tuple[Severity, float | None]) -> Rule:
    def check(inputs: RuleInputs) -> list[RuleFinding]:
        return [
            RuleFinding(finding=Finding(rule=name, severity=severity, where=name, message="m"), explained_ns=explained)
            for severity, explained in outcome
        ]

    return Rule(
        name=name, title="t", group=RuleGroup.FAULT, looks_at="l", signature="s", confirmations=(), fixes=(),
        needs=(), check=check,
    )  # fmt: skip


def test_every_file_with_a_rule_is_in_the_catalogue():
    files = {path.stem for path in FOLDER.glob("*.py") if "\nRULE = Rule(" in path.read_text(encoding="utf-8")}
    assert len(files) == len(RULES) == len({rule.name for rule in RULES})
    modules = {rule.check.__module__.rpartition(".")[2] for rule in RULES}
    assert modules == files


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.name)
def test_words_of_a_rule_are_complete(rule: Rule):
    assert re.fullmatch(r"[a-z]+(-[a-z]+)*", rule.name)
    for text in (rule.title, rule.looks_at, rule.signature):
        assert text.strip() == text
        assert text
    assert rule.confirmations
    assert rule.fixes
    assert set(rule.needs) <= set(INPUT_MEANINGS)
    for each in rule.confirmations:
        first, command, *_ = each.command.split()
        assert first == "rocktools"
        assert command in COMMANDS
    for threshold in rule.thresholds:
        assert unit_of(threshold.name), threshold.name
        assert threshold.source
    text = "\n".join(describe_rule(rule))
    assert rule.title in text
    assert all(len(line) <= 100 for line in text.splitlines())


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.name)
def test_commands_that_confirm_can_be_typed(rule: Rule, tmp_path: Path):
    for each in rule.confirmations:
        words = [str(tmp_path) if word == "RUN" else word for word in shlex.split(each.command)[1:]]
        command = importlib.import_module(COMMANDS[words[0]][0]).command
        context = click.Context(command)
        words = words[1:]
        while isinstance(command, click.Group):
            command = command.get_command(context, words.pop(0))
            assert command is not None, each.command
        if "--help" not in words:
            command.make_context(each.command, words)


def test_every_input_of_the_rules_has_a_meaning_and_is_looked_at():
    names = {field.name for field in fields(RuleInputs)} - {"gpus_count", "absences"}
    assert names == set(INPUT_MEANINGS)
    sources = "".join(path.read_text(encoding="utf-8") for path in FOLDER.glob("*.py"))
    assert [name for name in names if f"inputs.{name}" not in sources] == []


def test_nothing_given_lets_every_rule_say_why_it_cannot():
    report = check_rules(RuleInputs())
    assert report.findings == ()
    assert report.clear == ()
    assert len(report.silent) == len(RULES)
    assert all(silence.reason for silence in report.silent)
    assert len(silent_frame(report)) == len(RULES)


def test_reason_of_an_absent_input_is_passed_on():
    inputs = RuleInputs(absences={"points": "the device is not known"})
    assert find_rule("compute-bound").judge(inputs) == CannotSay(reason="the device is not known")
    assert "matched across devices" in RuleInputs().reason_for("skew")


def test_warnings_come_before_notes_and_more_time_before_less():
    rules = [
        _rule("b", (Severity.NOTE, 900.0), (Severity.WARNING, None)),
        _rule("a", (Severity.WARNING, 10.0), (Severity.WARNING, 300.0), (Severity.FAULT, 1.0)),
    ]
    report = check_rules(RuleInputs(), rules)
    order = [(each.rule.name, each.found.explained_ns) for each in report.findings]
    assert order == [("a", 1.0), ("a", 300.0), ("a", 10.0), ("b", None), ("b", 900.0)]
    frame = findings_frame(report)
    assert frame["rank_index"].tolist() == [0, 1, 2, 3, 4]
    assert frame["share_ratio"].isna().all()  # no step is known
    assert report.plain[0].severity is Severity.FAULT
    assert set(frame["evidence"]) == {str(Evidence.INFERRED)}


def test_unknown_rule_is_told_the_nearest():
    with pytest.raises(UsageError) as raised:
        find_rule("exposed-colective")
    assert "exposed-collective" in str(raised.value)


@pytest.mark.parametrize(
    "name, value, text",
    [
        ("share_ratio", 0.05, "5.0 %"),
        ("times_ratio", 1.9, "1.9 times"),
        ("least_ns", 500_000, "500 µs"),
        ("least_bytes", 1 << 20, "1.049 MB"),
        ("steps_count", 3, "3"),
    ],
)
def test_thresholds_are_written_with_their_unit(name: str, value: float, text: str):
    assert value_text(Threshold(name=name, value=value, meaning="m", source="s")) == text
