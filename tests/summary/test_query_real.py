"""Questions to a real MI355X profile, answered as what others measured of the same file says."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from rocktools.summary.build import build_summary
from rocktools.summary.document import Summary
from rocktools.summary.gathered import SummaryOptions
from rocktools.summary.query import answer_question
from rocktools.summary.query_answer import Answer
from rocktools.summary.worksheet import WorksheetOptions, build_run_worksheet
from rocktools.summary.worksheet_document import Column, Field

_FOLDER = "data/xplane"
_FILE = "mi355_te_fused_attn/934987a2fc2f.xplane.pb"


@pytest.fixture(scope="module")
def summary(shared: Path, options: SummaryOptions) -> Summary:
    return build_summary([shared / _FOLDER / _FILE], options)


def ask(summary: Summary, question: str) -> Answer:
    (answer,) = answer_question(summary, question, top_count=0).answers
    return answer


def _expected(shared: Path) -> dict[str, int]:
    intervals = json.loads((shared / _FOLDER / "expected/intervals.json").read_text(encoding="utf-8"))
    (device,) = intervals[_FILE].values()
    found: dict[str, int] = device
    return found


def test_time_of_all_buckets_is_that_of_all_kernels(summary: Summary, shared: Path) -> None:
    """All five steps count; picoseconds of the profile, rounded to nanoseconds for each of 150 events."""
    answer = ask(summary, "where does the time go?")
    total = next(each.value for each in answer.facts if each.name == "total_per_step_ns")
    assert isinstance(total, float)
    assert total * 5 == pytest.approx(_expected(shared)["sum_ps"] / 1000, abs=150)


def test_no_collective_ran_and_compute_dominates(summary: Summary) -> None:
    assert ask(summary, "is communication or compute dominating?").sentences[0].startswith("Compute dominates")
    assert not ask(summary, "which collective is worst?").is_answered
    assert ask(summary, "how much communication is exposed?").sentences[0].startswith("Nothing was communicated")


def test_attention_of_a_library_has_no_verdict_without_counters(summary: Summary) -> None:
    answer = ask(summary, "is attention memory-bound?")
    assert not answer.is_answered
    assert answer.facts == ()
    assert answer.commands[0] == "rocktools pmc --metrics fabric_bytes,total_flop -- CMD"


def test_worksheet_of_a_profile_adds_up_to_its_kernels(shared: Path, options: SummaryOptions) -> None:
    sheet, _ = build_run_worksheet([shared / _FOLDER / _FILE], options, WorksheetOptions())
    sums = [
        cell.value
        for row in sheet.rows
        for cell in row.cells
        if (cell.field, cell.column) == (Field.TIME, Column.HLO) and cell.name.endswith("_sum_per_step_ns")
    ]
    assert sum(float(value) for value in sums if isinstance(value, (int, float))) * 5 == pytest.approx(
        _expected(shared)["sum_ps"] / 1000, abs=150
    )
    assert sheet.device_label.startswith("MI355X")
