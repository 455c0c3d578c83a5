"""`rocktools rules`: the catalogue as a list and in words, and the check of files, programs and claims."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from command_line import CommandLine, read_rows
from late_run import WAIT_NS, write_late_trace
from rule_programs import UPDATE
from scoped_run import write_scoped_run

from rocktools.rules.catalog import RULES
from rocktools.rules.rule import RuleGroup


@pytest.fixture(scope="module")
def late(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_late_trace(tmp_path_factory.mktemp("late") / "late.db")


@pytest.fixture(scope="module")
def scoped(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_scoped_run(tmp_path_factory.mktemp("scoped") / "run")


def test_list_has_every_rule_and_those_of_a_group(run: CommandLine) -> None:
    assert [row["rule"] for row in run.rows("rules", "list")] == [rule.name for rule in RULES]
    lints = run.rows("rules", "list", "--group", "lint")
    assert {row["group"] for row in lints} == {"lint"}
    assert len(lints) == sum(rule.group is RuleGroup.LINT for rule in RULES)


def test_show_explains_one_rule(run: CommandLine) -> None:
    text = run("rules", "show", "straggler").out
    for part in ("looks at", "signature", "confirm", "fix", "thresholds", "needs", "rocktools ranks RUN"):
        assert part in text
    ran = run("rules", "show", "stragler")
    assert ran.code == 2
    assert "straggler" in ran.err


def test_late_device_comes_first_with_the_time_that_it_costs(run: CommandLine, late: Path) -> None:
    """Three steps were not found, so that the trace is one: three waits of 200 us."""
    document = run.document("rules", "check", late)
    first = document["found"][0]
    assert (first["rule"], first["where"]) == ("straggler", "simulated-node:gpu1")
    assert first["explained_ns"] == 3 * WAIT_NS
    assert first["share_ratio"] == first["explained_ns"] / document["step_ns"]
    assert document["schema"] == "rocktools.rules/1"
    assert document["is_simulated"] is True
    names = {each["rule"] for each in document["found"]} | set(document["clear"])
    silent = {row["rule"] for table in document["tables"] if table["name"] == "SILENT_RULES" for row in table["rows"]}
    assert names | silent == {rule.name for rule in RULES}
    assert not names & silent


def test_text_is_in_order_with_advice_and_reasons(run: CommandLine, late: Path) -> None:
    text = run("rules", "check", late).out
    assert "1. straggler: simulated-node:gpu1 is late by 600 µs in each step" in text
    assert "   try: look at clocks" in text
    assert "confirm: rocktools ranks RUN" in text
    assert "there are no declared results (--claims FILE)" in text


def test_tables_of_findings_and_of_silent_rules(run: CommandLine, late: Path, tmp_path: Path) -> None:
    for name in ("csv", "json", "parquet"):
        path = tmp_path / f"findings.{name}"
        assert run("rules", "check", late, "--part", "findings", "-o", path).code == 0
        assert next(row["rule"] for row in read_rows(path)) == "straggler"
    silent = run.rows("rules", "check", late, "--part", "silent")
    assert {"recompilation", "data-formatting"} <= {row["rule"] for row in silent}


def test_markdown_and_files_hold_both_tables(run: CommandLine, late: Path, tmp_path: Path) -> None:
    text = run("rules", "check", late, "--format", "markdown").out
    assert "| straggler |" in text
    assert "| recompilation |" in text
    assert "   try:" not in text
    assert run("rules", "check", late, "-o", tmp_path / "rules.txt").code == 0
    assert "recompilation" in (tmp_path / "rules.txt").read_text(encoding="utf-8")


def test_one_rule_only(run: CommandLine, late: Path) -> None:
    document = run.document("rules", "check", late, "--rule", "straggler", "--rule", "data-formatting")
    assert [each["rule"] for each in document["found"]] == ["straggler"]
    assert document["clear"] == []
    assert run("rules", "check", late, "--rule", "nothing").code == 2


def test_run_with_a_program_is_judged_by_phase(run: CommandLine, scoped: Path) -> None:
    document = run.document("rules", "check", scoped)
    found = [each["rule"] for each in document["found"]]
    assert found[0] == "exposed-collective"
    assert {"data-formatting", "input-starvation", "recompilation", "valu-bound-stretch"} <= set(document["clear"])


def test_program_alone_is_judged_for_what_it_says(run: CommandLine, tmp_path: Path) -> None:
    path = tmp_path / "module_0007.jit_update.gfx950_gpu_after_optimizations.txt"
    path.write_text(UPDATE, encoding="utf-8")
    document = run.document("rules", "check", tmp_path)
    assert [each["rule"] for each in document["found"]] == ["missing-donation"]
    assert document["step_ns"] is None
    assert "host-callback" in document["clear"]


def test_claims_are_held_against_each_other_and_the_trace(run: CommandLine, late: Path, tmp_path: Path) -> None:
    claims = tmp_path / "claims.yaml"
    claims.write_text(
        "schema: rocktools.claims/1\nname: result\ntiming: {step_s: 0.00115, samples_count: 1, statistic: median}\n"
        "communication: {exposed_ratio: 0.5}\ncoverage: {ranks_count: 2, ranks_total_count: 8}\n",
        encoding="utf-8",
    )
    document = run.document("rules", "check", late, "--claims", claims)
    found = {each["rule"] for each in document["found"]}
    assert {"one-duration-as-median", "one-rank-only"} <= found
    claims.write_text("schema: rocktools.claims/1\nname: result\ntiming: {step_s: soon}\n", encoding="utf-8")
    ran = run("rules", "check", late, "--claims", claims)
    assert ran.code == 1
    assert "claims.yaml:3" in ran.err


def test_gpu_that_does_not_exist_is_named(run: CommandLine, late: Path) -> None:
    ran = run("rules", "check", late, "--gpu", "MI3")
    assert ran.code == 2
    assert "MI3" in ran.err


def test_nothing_to_read_is_named(run: CommandLine, tmp_path: Path) -> None:
    ran = run("rules", "check", tmp_path / "none")
    assert ran.code == 1
    assert "none" in ran.err
    assert run("rules", "check").code == 2


def test_formats_hold_every_name_in_full(run: CommandLine, scoped: Path) -> None:
    rows = run.rows("rules", "check", scoped, "--part", "findings")
    assert all(row["finding"] and row["rule"] for row in rows)
    assert json.dumps(rows)


@pytest.mark.conformance
@pytest.mark.parametrize(
    "name, expected, unexpected",
    [
        ("mi355_te_fused_attn", {"sync-in-loop"}, {"missing-donation", "input-starvation", "recompilation"}),
        ("jax08_attention", {"host-bound-step"}, {"missing-donation", "straggler"}),
        ("jax_conv_minimal_08", {"input-starvation"}, {"missing-donation", "exposed-collective"}),
        ("cpu_moe", set(), {"exposed-collective", "pipeline-bubble", "one-rank-only", "missing-donation"}),
    ],
)
def test_real_profiles(run: CommandLine, shared: Path, name: str, expected: set[str], unexpected: set[str]) -> None:
    document = run.document("rules", "check", shared / "data" / "xplane" / name)
    found = {each["rule"] for each in document["found"]}
    assert expected <= found
    assert not unexpected & found
