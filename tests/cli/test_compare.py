"""`rocktools compare`, `track` and `history` on simulated jobs in which the difference is known."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from xml.etree import ElementTree

import pytest
from command_line import CommandLine

from rocktools.cli.main import main

_SIZE = ("--ranks", "1", "--steps", "7")
_VARIANTS = {
    "before": ("--seed", "1"),
    "again": ("--seed", "2"),
    "slower": ("--seed", "3", "--slow", "wi_0=8%"),
    "more_work": ("--seed", "4", "--variant", "wide-experts"),
    "more_often": ("--seed", "5", "--variant", "split-attention"),
    "other_batch": ("--seed", "6", "--variant", "small-batch"),
}


@pytest.fixture(scope="module")
def summary(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """Name of a variant -> the summary of a run of it."""
    folder = tmp_path_factory.mktemp("compared")

    def get(name: str) -> Path:
        path = folder / f"{name}.json"
        if not path.exists():
            assert main(["demo", "-o", str(folder / name), *_SIZE, *_VARIANTS[name]]) == 0
            log = folder / name / "logs" / "steps.log"
            assert main(["summarize", str(folder / name), "--step-log", str(log), "-o", str(path)]) == 0
        return path

    return get


def test_two_runs_of_one_job_pass(run: CommandLine, summary: Callable[[str], Path]) -> None:
    ran = run("track", summary("before"), summary("again"))
    assert ran.code == 0
    assert "pass: " in ran.out
    assert "SIMULATED" in ran.out
    same = run("track", summary("before"), summary("before"))
    assert same.code == 0
    assert "the very same files" in same.err


@pytest.mark.parametrize(
    ("name", "named", "cause"),
    [
        ("slower", "wi_0", "time"),
        ("more_work", "expert_mlp", "work"),
        ("more_often", "attention", "count"),
    ],
)
def test_a_planted_regression_fails_is_named_and_has_its_cause(
    run: CommandLine, summary: Callable[[str], Path], name: str, named: str, cause: str
) -> None:
    document = run.document("track", summary("before"), summary(name), code=3)
    assert document["state"] == "fail"
    places = [c for c in document["checks"] if c["name"] in ("component", "scope") and c["state"] == "fail"]
    of_named = [check for check in places if named in check["subject"]]
    assert of_named
    computed = [check for check in of_named if "communication" not in check["subject"]]
    assert {check["cause"] for check in computed} == {cause}


def test_what_was_planted_is_found_in_its_size(run: CommandLine, summary: Callable[[str], Path]) -> None:
    rows = run.rows("compare", summary("before"), summary("slower"), "--part", "operations")
    slowed = [row for row in rows if "wi_0" in (row["scope"] or "") and "gemm_fusion" in row["after_name"]]
    assert slowed
    assert all(row["matched_by"] == "fingerprint" for row in slowed)
    # 8 % were planted; the jitter of seven steps is well below one percent.
    assert all(row["delta_ratio"] == pytest.approx(0.08, abs=0.01) for row in slowed if row["before_ns"] > 1e6)


def test_another_batch_is_stopped_and_may_be_allowed(run: CommandLine, summary: Callable[[str], Path]) -> None:
    ran = run("compare", summary("before"), summary("other_batch"))
    assert ran.code == 3
    assert "per_device_batch_sequences_count differs: 4 before, 2 after" in ran.err
    assert "steps, " not in ran.out
    assert "components" not in ran.out
    names = ("global_batch_sequences_count", "per_device_batch_sequences_count", "tokens_per_step_count")
    allowed = [word for name in names for word in ("--allow", name)]
    ran = run("compare", summary("before"), summary("other_batch"), *allowed)
    assert ran.code == 0
    assert "do not calculate alike" in ran.err
    assert run("track", summary("before"), summary("other_batch")).code == 3


def test_unknown_facts_and_empty_parts_are_usage_errors(run: CommandLine, summary: Callable[[str], Path]) -> None:
    ran = run("compare", summary("before"), summary("again"), "--allow", "global_batch")
    assert ran.code == 2
    assert "global_batch_sequences_count" in ran.err


def test_documents_formats_and_tables_agree(run: CommandLine, summary: Callable[[str], Path], tmp_path: Path) -> None:
    document = run.document("compare", summary("before"), summary("slower"))
    assert document["schema"] == "rocktools.comparison/1"
    rows = run.rows("compare", summary("before"), summary("slower"), "--part", "components")
    deltas = {(each["component"], each["phase"], each["activity"]): each for each in document["buckets"]}
    for row in rows:
        delta = deltas[row["component"], row["phase"], row["activity"]]
        assert row["delta_ns"] == delta["delta_ns"]
        split = delta["split"]
        parts = [split["count_ns"], split["work_ns"] or 0.0, split["rate_ns"]]
        assert sum(parts) == pytest.approx(delta["delta_ns"], abs=1.0)
    assert run("compare", summary("before"), summary("slower"), "-o", tmp_path / "all.md").code == 0
    assert "named scopes" in (tmp_path / "all.md").read_text(encoding="utf-8")


def test_the_first_line_is_what_an_engineer_wants_to_know(
    run: CommandLine, summary: Callable[[str], Path], tmp_path: Path
) -> None:
    first = run("compare", summary("before"), summary("slower")).out.splitlines()[0]
    assert first.startswith("slower by ")
    assert "expert_mlp, backward +" in first
    assert "more time for the same work, most in gemm_fusion_dot" in first
    assert first == run.document("compare", summary("before"), summary("slower"))["verdict"]
    assert run("compare", summary("before"), summary("again")).out.startswith("no difference of the step beyond chance")
    # Attention was divided into twice as many launches: neither their number nor their work alone made the difference,
    # and what the step waits for is no kernel's time.
    divided = run("compare", summary("before"), summary("more_often")).out.splitlines()[0]
    assert "the largest part is exposed communication" in divided
    assert "the same work in more executions" in divided
    closed = run("compare", summary("before"), summary("other_batch")).out.splitlines()[0]
    assert closed.startswith("not comparable: global_batch_sequences_count differs: 64 before, 32 after")
    page = tmp_path / "page.html"
    assert run("compare", summary("before"), summary("slower"), "--html", page).code == 0
    text = page.read_text(encoding="utf-8")
    assert "SIMULATED" in text
    assert first[1:] in text.replace("&gt;", ">")
    assert run("compare", summary("before"), summary("slower"), "--html", page).code == 2


def test_long_values_are_cut_for_people_and_whole_for_programs(
    run: CommandLine, summary: Callable[[str], Path]
) -> None:
    whole = {row["name"]: row for row in run.rows("compare", summary("before"), summary("again"), "--part", "parity")}
    assert len(whole["inputs_sha256"]["before"]) == 64
    lines = run("compare", summary("before"), summary("again"), "--part", "parity").out.splitlines()
    cut = next(line for line in lines if line.startswith("inputs_sha256"))
    assert whole["inputs_sha256"]["before"] not in cut
    assert whole["inputs_sha256"]["before"][:20] + "…" in cut


def test_history_and_junit_keep_what_was_found(
    run: CommandLine, summary: Callable[[str], Path], tmp_path: Path
) -> None:
    history, junit = tmp_path / "history.jsonl", tmp_path / "checks.xml"
    run("track", summary("before"), summary("again"), "--history", history, "--label", "nothing")
    ran = run("track", summary("before"), summary("slower"), "--history", history, "--label", "try", "--junit", junit)
    assert ran.code == 3
    lines = [json.loads(line) for line in history.read_text(encoding="utf-8").splitlines()]
    assert [line["label"] for line in lines] == ["nothing", "try"]
    assert [line["state"] for line in lines] == ["pass", "fail"]
    suite = ElementTree.parse(junit).getroot()
    assert int(suite.attrib["failures"]) == len(suite.findall("testcase/failure")) > 0
    assert "wi_0" in suite.findall("testcase/failure")[0].attrib["message"]
    rows = run.rows("history", history)
    assert [row["label"] for row in rows] == ["nothing", "try"]
    assert rows[0]["drift_ratio"] == 0
    assert rows[1]["drift_ratio"] == pytest.approx(rows[1]["after_ns"] / rows[0]["after_ns"] - 1)
    with history.open("a", encoding="utf-8") as stream:
        stream.write('{"schema": "rocktools.history/1"}\nno json\n')
    ran = run("history", history)
    assert ran.code == 0
    assert f"{history}:3" in ran.err
    assert f"{history}:4" in ran.err
    (tmp_path / "other").write_text("x\n", encoding="utf-8")
    assert run("history", tmp_path / "other").code == 1


def test_thresholds_of_a_file_are_those_that_count(
    run: CommandLine, summary: Callable[[str], Path], tmp_path: Path
) -> None:
    path = tmp_path / "limits.yaml"
    path.write_text(
        "schema: rocktools.thresholds/1\nscope: {}\ncomponent: {}\nstep_median: {fail_ratio: 0.001}\n",
        encoding="utf-8",
    )
    document = run.document("track", summary("before"), summary("slower"), "--thresholds", path, code=3)
    assert [check["name"] for check in document["checks"] if check["state"] == "fail"] == ["step_median"]
    path.write_text("schema: rocktools.thresholds/1\nscope: {fail: 0.1}\n", encoding="utf-8")
    ran = run("track", summary("before"), summary("slower"), "--thresholds", path)
    assert ran.code == 1
    assert f"{path}:2" in ran.err
    assert "fail_ratio" in ran.err


def test_few_steps_warn_instead_of_failing(run: CommandLine, tmp_path: Path) -> None:
    for name, options in (("a", ()), ("b", ("--slow", "wi_0=40%"))):
        assert run("demo", "-o", tmp_path / name, "--ranks", 1, "--steps", 3, *options).code == 0
    ran = run("track", tmp_path / "a", tmp_path / "b")
    assert ran.code == 0
    assert "warn" in ran.out
    assert "5 on each side are the least" in ran.out
