"""`rocktools report`: what it says is what the summary holds, and the summary what the commands print."""

from __future__ import annotations

from pathlib import Path

import pytest
from command_line import CommandLine
from scoped_run import write_scoped_run

from rocktools.render.report_sections import build_report
from rocktools.summary.document import LedgerBlock, OperationsBlock, OverlapBlock, Steps, read_summary
from rocktools.units import format_duration, format_ratio


@pytest.fixture(scope="module")
def run_path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_scoped_run(tmp_path_factory.mktemp("report") / "run", ranks=(0, 1))


@pytest.fixture
def summary_path(run: CommandLine, run_path: Path, tmp_path: Path) -> Path:
    path = tmp_path / "summary.json"
    assert run("summarize", run_path, "--no-time", "-o", path).code == 0
    return path


def test_sections_hold_the_figures_of_the_commands(run: CommandLine, run_path: Path, summary_path: Path) -> None:
    report = build_report(read_summary(summary_path))
    tables = {table.name: table for section in report.sections for table in section.tables}
    for row in run.rows("overlap", run_path):
        shown = tables["overlap"].frame
        mine = shown[shown["device"] == row["device"]]
        steps = [each for each in run.rows("overlap", run_path) if each["device"] == row["device"]]
        for name in ("span_ns", "exposed_communication_ns", "idle_ns"):
            assert mine[name].iloc[0] == pytest.approx(sum(each[name] for each in steps) / len(steps))
    buckets = tables["buckets"].frame
    ledger = run.rows("ledger", run_path, "--part", "buckets")
    places = len({(row["device"], row["step_index"]) for row in ledger})
    assert buckets["sum_per_step_ns"].sum() == pytest.approx(sum(row["sum_ns"] for row in ledger) / places)


def test_the_verdict_says_step_overlap_and_largest_component(summary_path: Path) -> None:
    summary = read_summary(summary_path)
    assert isinstance(summary.steps, Steps)
    assert isinstance(summary.overlap, OverlapBlock)
    assert isinstance(summary.ledger, LedgerBlock)
    first, second, third, *_ = build_report(summary).verdict
    assert summary.steps.statistics is not None
    assert format_duration(summary.steps.statistics.median_ns) in first
    assert "simulated step" in first
    assert format_duration(summary.overlap.mean.exposed_communication_ns) in second
    largest = next(each for each in summary.ledger.buckets if each.component != "unattributed")
    assert f"{largest.component}, {largest.phase}" in third
    assert format_ratio(largest.share_ratio) in third


def test_hot_operations_link_to_their_text(run: CommandLine, summary_path: Path, tmp_path: Path) -> None:
    summary = read_summary(summary_path)
    assert isinstance(summary.operations, OperationsBlock)
    texts = [each.hlo_text for each in summary.operations.operations if each.hlo_text]
    assert texts
    assert all(text.lstrip("ROT ").startswith("%") for text in texts)
    ran = run("report", summary_path, "-o", tmp_path / "page.html")
    assert ran.code == 0
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert 'href="#operation-1"' in page
    assert 'id="operation-1"' in page


def test_markdown_is_the_same_every_time_and_cut_where_it_was_asked(
    run: CommandLine, summary_path: Path, tmp_path: Path
) -> None:
    one = run("report", summary_path)
    assert one.code == 0
    assert one.out == run("report", summary_path).out
    assert "SIMULATED" in one.out
    assert "## Where the step went" in one.out
    short, whole = run("report", summary_path, "--top", 1).out, run("report", summary_path, "--top", 0).out
    assert len(short) < len(one.out) <= len(whole)
    assert "rows are shown" in short
    assert run("report", summary_path, "-o", tmp_path / "report.md").code == 0
    assert (tmp_path / "report.md").read_text(encoding="utf-8") == one.out


def test_a_run_is_summarized_on_the_spot(run: CommandLine, run_path: Path, summary_path: Path) -> None:
    whole = run("report", run_path)
    assert whole.code == 0
    of_summary = run("report", summary_path).out.splitlines()
    # Only the summary of now says when it was made.
    assert whole.out.splitlines()[:-1] == of_summary[:-1]


def test_what_cannot_be_is_refused(run: CommandLine, summary_path: Path, tmp_path: Path) -> None:
    ran = run("report", summary_path, "--html")
    assert ran.code == 2
    assert "-o" in ran.err
    taken = tmp_path / "taken.html"
    taken.write_text("mine", encoding="utf-8")
    assert run("report", summary_path, "-o", taken).code == 2
    assert taken.read_text(encoding="utf-8") == "mine"
    (tmp_path / "other.json").write_text("{}", encoding="utf-8")
    ran = run("report", tmp_path / "other.json")
    assert ran.code == 1
    assert "rocktools summarize" in ran.err
