"""The ledger of experiments on disk: appended to, read back, and never overwritten."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest
from summary_documents import any_record

from rocktools.compare.experiment_document import PLAN, RECORD, SCHEMA, Plan, Record
from rocktools.compare.experiment_file import append_line, next_id, read_experiments, require_experiment
from rocktools.errors import InputError, UsageError


def _plan(name: str, seed: int = 1) -> Plan:
    return replace(any_record(Plan, Random(seed), schema=SCHEMA, experiment_id=name), kind=PLAN)


def _record(name: str, attempt: int, seed: int = 2) -> Record:
    made = any_record(Record, Random(seed), schema=SCHEMA, experiment_id=name, attempt=attempt)
    return replace(made, kind=RECORD)


@pytest.mark.parametrize("seed", range(10))
def test_what_was_appended_is_read_back(tmp_path: Path, seed: int) -> None:
    path = tmp_path / "experiments.jsonl"
    plans = [_plan("E1", seed), _plan("E2", seed + 100)]
    records = [_record("E1", 1, seed), _record("E2", 1, seed + 1), _record("E1", 2, seed + 2)]
    for entry in (*plans, *records):
        append_line(path, entry)
    found, findings = read_experiments(path)
    assert findings == ()
    assert [each.plan for each in found] == plans
    assert [each.records for each in found] == [(records[0], records[2]), (records[1],)]


def test_earlier_lines_stay_byte_for_byte(tmp_path: Path) -> None:
    path = tmp_path / "experiments.jsonl"
    append_line(path, _plan("E1"))
    before = path.read_bytes()
    append_line(path, _record("E1", 1))
    assert path.read_bytes().startswith(before)
    assert path.read_bytes().count(b"\n") == 2


def test_line_that_was_cut_off_does_not_take_the_next_with_it(tmp_path: Path) -> None:
    path = tmp_path / "experiments.jsonl"
    append_line(path, _plan("E1"))
    path.write_bytes(path.read_bytes() + b'{"schema": "rocktools.exper')
    append_line(path, _plan("E2"))
    found, findings = read_experiments(path)
    assert [each.plan.experiment_id for each in found] == ["E1", "E2"]
    assert [(each.rule, each.where) for each in findings] == [("experiment-line", f"{path}:2")]


@pytest.mark.parametrize(
    "line, why",
    [
        ("garbage", "no JSON"),
        ("[1]", "not rocktools.experiment/1"),
        ('{"schema": "rocktools.experiment/9", "kind": "plan"}', "not rocktools.experiment/1"),
        ('{"schema": "rocktools.experiment/1", "kind": "guess"}', "neither a plan nor a record"),
        ('{"schema": "rocktools.experiment/1", "kind": "plan"}', "a member is missing"),
    ],
)
def test_line_that_is_none_is_named_with_its_number_and_left_out(tmp_path: Path, line: str, why: str) -> None:
    path = tmp_path / "experiments.jsonl"
    path.write_text(f"\n{line}\n", encoding="utf-8")
    append_line(path, _plan("E1"))
    found, (finding,) = read_experiments(path)
    assert [each.plan.experiment_id for each in found] == ["E1"]
    assert finding.where == f"{path}:2"
    assert why in finding.message
    assert str(finding.severity) == "fault"


def test_second_plan_of_a_name_and_record_without_a_plan_are_named(tmp_path: Path) -> None:
    path = tmp_path / "experiments.jsonl"
    for entry in (_record("E1", 1), _plan("E1"), _plan("E1", 9)):
        append_line(path, entry)
    found, findings = read_experiments(path)
    assert [len(each.records) for each in found] == [0]
    assert [each.where for each in findings] == [f"{path}:1", f"{path}:3"]


def test_every_prefix_of_a_file_gives_entries_and_findings_and_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "experiments.jsonl"
    for entry in (_plan("E1"), _record("E1", 1), _plan("E2")):
        append_line(path, entry)
    whole = path.read_bytes()
    for size in range(0, len(whole), 37):
        path.write_bytes(whole[:size])
        found, findings = read_experiments(path)
        lines = [line for line in whole[:size].split(b"\n") if line.strip()]
        assert sum(1 + len(each.records) for each in found) + len(findings) == len(lines)


def test_next_name_is_behind_all_others(tmp_path: Path) -> None:
    path = tmp_path / "experiments.jsonl"
    assert next_id((), ()) == "E1"
    for name in ("E1", "E7", "mine"):
        append_line(path, _plan(name))
    assert next_id(*read_experiments(path)) == "E8"
    path.write_bytes(path.read_bytes() + b"cut\n")
    assert next_id(*read_experiments(path)) == "E9"  # the cut line may have been E8


def test_unknown_name_is_refused_with_those_like_it(tmp_path: Path) -> None:
    path = tmp_path / "experiments.jsonl"
    append_line(path, _plan("E1"))
    with pytest.raises(UsageError) as caught:
        require_experiment(read_experiments(path)[0], "E12")
    assert (caught.value.reference, caught.value.hint) == ("unknown-experiment", "E1")


def test_file_that_is_not_there_is_an_input_error(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot-read"):
        read_experiments(tmp_path / "none.jsonl")
    with pytest.raises(InputError, match="experiment-not-written"):
        append_line(tmp_path / "no" / "folder.jsonl", _plan("E1"))


def test_line_with_half_of_a_character_is_left_out(tmp_path: Path) -> None:
    path = tmp_path / "experiments.jsonl"
    append_line(path, _plan("E1"))
    document = json.loads(path.read_text(encoding="utf-8"))
    path.write_text(json.dumps({**document, "experiment_id": "\ud800"}) + "\n", encoding="utf-8")
    append_line(path, _plan("E2"))
    found, findings = read_experiments(path)
    assert [each.plan.experiment_id for each in found] == ["E2"]
    assert [each.where for each in findings] == [f"{path}:1"]


def test_lines_are_plain_json(tmp_path: Path) -> None:
    path = tmp_path / "experiments.jsonl"
    append_line(path, _record("E1", 1))
    document = json.loads(path.read_text(encoding="utf-8"))
    assert (document["schema"], document["kind"], document["attempt"]) == (SCHEMA, "record", 1)
