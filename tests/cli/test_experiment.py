"""`rocktools experiment` as people call it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from command_line import CommandLine
from experiment_summaries import made_summary

from rocktools.summary.document import render_summary

SLOW = [1_000_000 + at for at in range(6)]
FAST = [950_000 + at for at in range(6)]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for name, durations, facts in (
        ("before", SLOW, {}),
        ("after", FAST, {"xla_flags": "--a=1 --b=3"}),
        ("two", FAST, {"xla_flags": "--a=2 --b=3"}),
        ("batch", FAST, {"global_batch_sequences_count": 32}),
        ("same run", FAST, {}),
    ):
        summary = made_summary(durations, sha256=f"{len(name)}", **facts)
        (tmp_path / f"{name}.json").write_text(render_summary(summary), encoding="utf-8")
    return tmp_path


@pytest.fixture
def planned(folder: Path, run: CommandLine) -> Path:
    ran = run(
        *("experiment", "new", "--before", "before.json", "--hypothesis", "larger tiles", "--predict", "-4..-6%"),
    )
    assert (ran.code, ran.out.splitlines()[0]) == (0, "experiments.jsonl: E1: larger tiles")
    return folder


KEEP = ("--correctness", "passed", "--check", "loss of 100 steps", "--decision", "keep")


def test_attempt_is_recorded_judged_and_listed(planned: Path, run: CommandLine) -> None:
    ran = run("experiment", "record", "E1", "--after", "after.json", *KEEP)
    assert ran.code == 0
    assert "changed: xla_flags --b: 2 -> 3" in ran.out
    assert "measured -5.0% (1 ms to 950 µs, profiled" in ran.out
    assert "prediction: confirmed" in ran.out
    (row,) = run.rows("experiment", "list")
    assert (row["experiment"], row["attempts_count"], row["judgement"], row["decision"]) == (
        "E1",
        1,
        "confirmed",
        "keep",
    )
    assert row["delta_ratio"] == pytest.approx(-50_000 / 1_000_002.5)
    document = json.loads(run("experiment", "show", "E1", "--format", "json").out)
    assert (document["schema"], len(document["records"])) == ("rocktools.experiment/1", 1)
    assert "outputs: passed (loss of 100 steps)" in run("experiment", "show", "E1").out


def test_several_changes_end_with_3_and_their_names_and_nothing_is_recorded(planned: Path, run: CommandLine) -> None:
    before = (planned / "experiments.jsonl").read_bytes()
    ran = run("experiment", "record", "E1", "--after", "two.json", *KEEP)
    assert (ran.code, ran.out) == (3, "")
    assert "2 changes at once, whose effects cannot be told apart: xla_flags --a, xla_flags --b" in ran.err
    batch = run("experiment", "record", "E1", "--after", "batch.json", *KEEP)
    assert (batch.code, "global_batch_sequences_count differs" in batch.err) == (3, True)
    assert (planned / "experiments.jsonl").read_bytes() == before


def test_no_recorded_change_asks_for_words(planned: Path, run: CommandLine) -> None:
    ran = run("experiment", "record", "E1", "--after", "same run.json", *KEEP)
    assert (ran.code, "nothing that is recorded changed" in ran.err, "--change TEXT" in ran.err) == (2, True, True)
    said = run("experiment", "record", "E1", "--after", "same run.json", *KEEP, "--change", "a new kernel")
    assert (said.code, "a new kernel (nothing that is recorded changed)" in said.out) == (0, True)


def test_unchecked_outputs_are_not_kept(planned: Path, run: CommandLine) -> None:
    ran = run("experiment", "record", "E1", "--after", "after.json", "--decision", "keep")
    assert (ran.code, "correctness was not checked" in ran.err) == (3, True)


def test_line_that_is_damaged_is_named_and_ends_with_1(planned: Path, run: CommandLine) -> None:
    with (planned / "experiments.jsonl").open("a", encoding="utf-8") as stream:
        stream.write("cut")
    ran = run("experiment", "list")
    assert ran.code == 1
    assert "fault [experiment-line] experiments.jsonl:2" in ran.err
    assert run("experiment", "record", "E1", "--after", "after.json", *KEEP).code == 0
    assert len(run.rows("experiment", "list", code=1)) == 1


def test_prediction_without_a_size_and_unknown_names_are_usage_errors(planned: Path, run: CommandLine) -> None:
    ran = run("experiment", "new", "--before", "before.json", "--hypothesis", "h", "--predict", "faster")
    assert (ran.code, "no-prediction" in ran.err) == (2, True)
    ran = run(
        *(
            "experiment",
            "new",
            "--before",
            "before.json",
            "--hypothesis",
            "h",
            "--predict",
            "-5%",
            "--metric",
            "atention",
        ),
    )
    assert (ran.code, "unknown-metric" in ran.err, "attention" in ran.err) == (2, True, True)
    assert run("experiment", "record", "E9", "--after", "after.json", *KEEP).code == 2
    assert run("experiment", "record", "E1", "--after", "after.json", *KEEP, "--allow", "mehs").code == 2
    assert len((planned / "experiments.jsonl").read_text(encoding="utf-8").splitlines()) == 1
