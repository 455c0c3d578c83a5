"""`rocktools link`: what it says is linked is what the simulator launched; what is not, is named."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from command_line import CommandLine, assert_formats_agree, read_rows
from tiny_program import kernel, write_tiny_dump
from tiny_run import starts_by_instruction, tiny_trace, write_tiny_profile, write_tiny_run, write_tiny_trace
from torn_files import look_of

from rocktools.demo.simulate import SimulatedTrace
from rocktools.workspace.link_coverage import LINK_COVERAGE, LINK_UNLINKED

WIDTHS = (80, 120, 200)


@pytest.fixture(scope="module")
def trace() -> SimulatedTrace:
    return tiny_trace()


@pytest.fixture
def traced(tmp_path: Path, trace: SimulatedTrace) -> Path:
    return write_tiny_run(tmp_path / "run", trace=trace)


@pytest.fixture
def foreign(tmp_path: Path) -> Path:
    """The dump of another program."""
    folder = tmp_path / "foreign"
    folder.mkdir()
    write_tiny_dump(folder, [kernel(f"other.{number}") for number in range(20)])
    return folder


def tables_in(document: dict[str, Any]) -> dict[str, list[dict[str, Any]]]:
    return {table["name"]: table["rows"] for table in document["tables"]}


def total_ns(trace: SimulatedTrace) -> int:
    return int((trace.dispatches["end_ns"] - trace.dispatches["start_ns"]).sum())


def test_coverage_adds_up_to_all_dispatches_and_their_time(
    run: CommandLine, traced: Path, trace: SimulatedTrace
) -> None:
    tables = tables_in(run.document("link", traced))
    assert list(tables) == ["LINK_COVERAGE", "LINK_UNLINKED_KERNELS"]
    coverage = tables["LINK_COVERAGE"]
    assert sum(row["dispatches_count"] for row in coverage) == len(trace.dispatches)
    assert sum(row["total_ns"] for row in coverage) == total_ns(trace)
    assert sum(row["count_ratio"] for row in coverage) == pytest.approx(1)
    assert {row["method"] for row in coverage} == {"thunk", "schedule"}
    assert tables["LINK_UNLINKED_KERNELS"] == []


def test_edges_are_those_of_the_truth(run: CommandLine, traced: Path, trace: SimulatedTrace) -> None:
    truth = dict(zip(trace.truth["dispatch_id"], trace.truth["instruction"], strict=True))
    rows = run.rows("link", traced, "--part", "edges")
    assert {row["dispatch_id"]: row["instruction"] for row in rows} == truth


def test_title_says_how_much_is_linked_and_to_what(run: CommandLine, traced: Path) -> None:
    lines = run("link", traced).out.splitlines()
    assert lines[0] == "SIMULATED: no hardware produced these numbers"
    assert lines[1].startswith("links: 507 of 507 dispatches (100.0 %) have an HLO instruction, ")
    assert lines[1].endswith(" (100.0 %); of jit_tiny")
    assert lines[3].split() == ["method", "confidence", "dispatches", "count", "total", "time"]


def test_where_everything_is_linked_there_is_no_table_of_the_rest(run: CommandLine, traced: Path) -> None:
    out = run("link", traced).out
    assert "without an instruction" not in out
    assert "no rows" not in out


@pytest.mark.parametrize("part", ["coverage", "unlinked", "edges"])
def test_every_part_is_a_table_of_its_own_in_every_format(
    run: CommandLine, tmp_path: Path, trace: SimulatedTrace, foreign: Path, part: str
) -> None:
    bare = write_tiny_trace(tmp_path / "1_results.db", trace)
    name = {"coverage": LINK_COVERAGE.name, "unlinked": LINK_UNLINKED.name, "edges": "DISPATCH_EDGES"}[part]
    document = json.loads(run("link", bare, "--hlo", foreign, "--part", part, "--format", "json").out)
    assert document["name"] == name
    assert document["is_simulated"] is True
    assert document["rows"]
    for suffix in ("csv", "parquet"):
        run("link", bare, "--hlo", foreign, "--part", part, "-o", tmp_path / f"t.{suffix}")
        assert len(read_rows(tmp_path / f"t.{suffix}")) == len(document["rows"])


def test_formats_of_a_linked_run_agree(run: CommandLine, traced: Path, tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    assert_formats_agree(run, tmp_path / "out", "link", traced, "--part", "coverage")


def test_csv_without_a_part_is_the_edges(run: CommandLine, traced: Path, tmp_path: Path) -> None:
    run("link", traced, "-o", tmp_path / "edges.csv")
    assert len(read_rows(tmp_path / "edges.csv")) == 507


# What is not linked


def test_a_program_that_does_not_fit_ends_with_1_and_lists_what_stays_unlinked(
    run: CommandLine, tmp_path: Path, trace: SimulatedTrace, foreign: Path
) -> None:
    bare = write_tiny_trace(tmp_path / "1_results.db", trace)
    ran = run("link", bare, "--hlo", foreign)
    assert ran.code == 1
    assert "fault [program-does-not-fit]" in ran.err
    assert "links: 0 of 507 dispatches (0.0 %) have an HLO instruction, 0 ns of " in ran.out
    assert "without an instruction: 507 of 507 dispatches" in ran.out
    (unlinked,) = [
        table
        for name, table in tables_in(run.document("link", bare, "--hlo", foreign, code=1)).items()
        if "UNLINKED" in name
    ]
    counts = trace.dispatches["kernel_name"].astype(str).value_counts().to_dict()
    assert {row["kernel_name"]: row["dispatches_count"] for row in unlinked} == counts
    # The reasons are sentences: below the table, by number, each with what it is true of.
    for number, reason in enumerate(dict.fromkeys(row["reason"] for row in unlinked), start=1):
        own = [row for row in unlinked if row["reason"] == reason]
        assert f"note: [{number}] {reason}: {sum(row['dispatches_count'] for row in own)} dispatches, " in ran.out
        assert len(re.findall(rf"  \[{number}\]  ", ran.out)) == len(own)


def test_a_run_without_any_program_is_told_what_to_do(run: CommandLine, databases) -> None:
    ran = run("link", databases.trace)
    assert (ran.code, ran.out) == (1, "")
    assert "no-programs: there is no compiled program in the run" in ran.err
    assert "--hlo FILE" in ran.err


# Profiles


def test_a_profile_beside_a_trace_speaks_for_it(run: CommandLine, tmp_path: Path, trace: SimulatedTrace) -> None:
    path = write_tiny_run(tmp_path / "run", trace=trace, profile=tiny_trace(seed=4))
    ran = run("link", path)
    assert "note [profile-beside-trace]" in ran.err
    tables = tables_in(run.document("link", path))
    annotated = [row for row in tables["LINK_COVERAGE"] if row["method"] == "annotation"]
    assert sum(row["dispatches_count"] for row in annotated) > len(trace.dispatches) / 2
    assert sum(row["dispatches_count"] for row in tables["LINK_COVERAGE"]) == len(trace.dispatches)
    edges = run.rows("link", path, "--part", "edges")
    truth = starts_by_instruction(trace)
    assert {name: sum(row["instruction"] == name for row in edges) for name in truth} == truth


def test_hlo_may_be_given_several_times(run: CommandLine, tmp_path: Path, trace: SimulatedTrace, foreign: Path) -> None:
    bare = write_tiny_trace(tmp_path / "1_results.db", trace)
    dump = write_tiny_run(tmp_path / "other", trace=trace) / "hlo"
    profile = write_tiny_profile(foreign / "a.xplane.pb", tiny_trace(seed=4))
    ran = run("link", bare, "--hlo", dump, "--hlo", foreign)
    assert profile.exists()
    assert "507 of 507 dispatches" in ran.out
    assert "annotation" in ran.out


# What is not meant


@pytest.mark.parametrize(
    "arguments, code, words",
    [
        (["TRACE", "--hlo", "TRACE"], 1, ["not-hlo: this is a database (SQLite)", "PATH --hlo [FILE]"]),
        (["TRACE", "--hlo", "NONE"], 1, ["no-such-file"]),
        (["DUMP"], 1, ["no-databases", "a compiled program", "rocktools hlo info", "--hlo FILE"]),
        (["TEXT"], 1, ["not-a-trace: this is a compiled program (HLO)", "rocktools hlo info"]),
        (["NONE"], 1, ["no-such-file"]),
        (["TRACE", "--part", "edge"], 2, ["'edges'"]),
        ([], 2, ["Missing argument 'PATH...'"]),
        (["TRACE", "--hlo"], 2, ["--hlo"]),
    ],
)
def test_what_is_not_meant_is_one_plain_error(
    run: CommandLine, tmp_path: Path, traced: Path, arguments: list[str], code: int, words: list[str]
) -> None:
    (text,) = (traced / "hlo").glob("*_after_optimizations.txt")
    given = {
        "TRACE": traced / "trace" / "1_results.db",
        "NONE": tmp_path / "none",
        "DUMP": traced / "hlo",
        "TEXT": text,
    }
    ran = run("link", *(given.get(argument, argument) for argument in arguments))
    assert (ran.code, ran.out) == (code, "")
    for word in words:
        assert word in ran.err


def test_nothing_of_the_users_changes(run: CommandLine, traced: Path, tmp_path: Path) -> None:
    before = look_of(traced)
    run("link", traced)
    (tmp_path / "mine.json").write_text("mine")
    assert run("link", traced, "-o", tmp_path / "mine.json").code == 2
    assert (tmp_path / "mine.json").read_text() == "mine"
    assert look_of(traced) == before


@pytest.mark.parametrize("width", WIDTHS)
def test_tables_fit_the_terminal(
    run: CommandLine, tmp_path: Path, trace: SimulatedTrace, foreign: Path, monkeypatch: pytest.MonkeyPatch, width: int
) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    bare = write_tiny_trace(tmp_path / "1_results.db", trace)
    for arguments in ((bare, "--hlo", foreign), (bare, "--hlo", foreign, "--part", "edges")):
        lines = run("link", *arguments).out.splitlines()
        table = [line for line in lines if not line.startswith(("links:", "note:", "hidden"))]
        assert max(map(len, table)) <= width
        shown = " ".join(lines)
        assert "method" in shown
        assert "confidence" in shown


# Real files


def test_real_profile_of_an_mi355x(shared: Path, run: CommandLine) -> None:
    ran = run("link", shared / "data" / "xplane" / "mi355_te_fused_attn")
    assert (ran.code, ran.err) == (0, "")
    assert "links: 150 of 150 dispatches (100.0 %) have an HLO instruction, 12.13 ms of 12.13 ms" in ran.out


def test_real_profile_of_the_cpu(shared: Path, run: CommandLine) -> None:
    ran = run("link", shared / "data" / "xplane" / "cpu_moe")
    assert ran.code == 0
    assert "links: 10,248 of 10,248 host events (100.0 %) have an HLO instruction" in ran.out
    assert ran.out.splitlines()[0].endswith("; of jit_train_step")
    assert len(run.rows("link", shared / "data" / "xplane" / "cpu_moe", "--part", "edges")) == 10_248
