"""`rocktools query` as people and scripts call it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from command_line import CommandLine
from scoped_run import write_scoped_run


@pytest.fixture(scope="module")
def run_directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_scoped_run(tmp_path_factory.mktemp("query") / "run", devices_count=2)


@pytest.fixture
def summary(run_directory: Path, run: CommandLine) -> Path:
    path = run_directory.parent / "run.json"
    if not path.exists():
        assert run("summarize", run_directory, "-o", path).code == 0
    return path


def test_answer_is_sentences_numbers_and_tables_and_says_that_it_is_simulated(run: CommandLine, summary: Path) -> None:
    ran = run("query", summary, "is wi_0 forward memory-bound?")
    assert ran.code == 0
    lines = ran.out.splitlines()
    assert lines[0].startswith("SIMULATED: run: 3 steps on 2 devices")
    assert lines[2] == "No: wi_0, forward is bound by neither memory nor compute."
    assert "numbers of the answer: bound" in ran.out
    assert "/roofline/tables/" in ran.out


def test_run_directory_is_summarised_on_the_spot(run: CommandLine, summary: Path, run_directory: Path) -> None:
    question = "where does the time go?"
    assert run("query", run_directory, question).out == run("query", summary, question).out


def test_json_is_the_document(run: CommandLine, summary: Path, tmp_path: Path) -> None:
    question = "Is comm or compute dominating? Which collective is worst?"
    ran = run("query", summary, question, "--json")
    document = json.loads(ran.out)
    assert (ran.code, document["schema"]) == (0, "rocktools.answer/1")
    assert [each["intent"] for each in document["answers"]] == ["compute_or_communication", "collectives"]
    assert run("query", summary, question, "--format", "json").out == ran.out
    assert run("query", summary, question, "-o", tmp_path / "answer.json").code == 0
    assert (tmp_path / "answer.json").read_text(encoding="utf-8") == ran.out


def test_csv_has_the_table_that_was_chosen(run: CommandLine, summary: Path) -> None:
    question = "top 2 ops"
    several = run("query", summary, question, "--format", "csv")
    assert (several.code, several.out) == (2, "")
    assert "--table numbers | operations" in several.err
    ran = run("query", summary, question, "--format", "csv", "--table", "operations")
    assert ran.code == 0
    assert len(ran.out.splitlines()) == 3
    unknown = run("query", summary, question, "--table", "nothing")
    assert (unknown.code, "no-such-table" in unknown.err) == (2, True)


def test_top_limits_rows_of_every_table(run: CommandLine, summary: Path) -> None:
    document = json.loads(run("query", summary, "where does the time go?", "--top", "1", "--json").out)
    (table,) = document["answers"][0]["tables"]
    assert (len(table["rows"]), table["cut_rows_count"]) == (1, 17)


def test_question_that_is_not_understood_is_a_usage_error_before_anything_is_read(run: CommandLine) -> None:
    ran = run("query", "no/such/file.json", "sing a song")
    assert (ran.code, ran.out) == (2, "")
    assert "unknown-question" in ran.err
    assert "is NAME [forward|backward] memory-bound?" in ran.err


def test_what_cannot_be_answered_ends_with_1_and_says_what_to_do(run: CommandLine, summary: Path) -> None:
    ran = run("query", summary, "how many tokens per second?")
    assert ran.code == 1
    assert "try: rocktools summarize RUN --step-log LOG" in ran.out


def test_other_documents_are_refused_by_name(run: CommandLine, tmp_path: Path) -> None:
    (tmp_path / "marin.json").write_text('{"schema_version": "profile_summary.v1"}', encoding="utf-8")
    ran = run("query", tmp_path / "marin.json", "what changed?")
    assert ran.code == 1
    assert "this is a profile_summary.v1, not a summary" in ran.err
