"""`rocktools ledger`: tables that add up, every format, chosen steps and devices, expected counts, many files."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import jsonschema
import pytest
from command_line import CommandLine, assert_formats_agree
from mixtral_program import mixtral_program
from scoped_run import LAYERS, MICROSTEPS, WORKLOAD, rank_trace, scoped_text, write_scoped_run

from rocktools.attribution.ledger_document import SCHEMA_FILE
from rocktools.demo.scenario import Scenario
from rocktools.demo.simulate import simulate
from rocktools.demo.simulated_database import write_simulated_trace
from rocktools.frames import LEDGER

PER_STEP = MICROSTEPS * LAYERS


@pytest.fixture(scope="module")
def run_path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_scoped_run(tmp_path_factory.mktemp("ledger") / "run", devices_count=2)


@pytest.fixture(scope="module")
def job(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_scoped_run(tmp_path_factory.mktemp("ledger") / "job", ranks=range(2))


@pytest.fixture
def workload(tmp_path: Path) -> Path:
    path = tmp_path / "workload.yaml"
    path.write_text(WORKLOAD.replace("DEVICES", "2"), encoding="utf-8")
    return path


def lines_of(document: dict, table: str) -> dict[str, dict]:
    return {line["row"]: line for line in document["tables"][table]}


def test_document_keeps_the_schema_and_counts_every_dispatch_once(run: CommandLine, run_path: Path) -> None:
    document = run.document("ledger", run_path)
    jsonschema.validate(document, json.loads(SCHEMA_FILE.read_text(encoding="utf-8")))
    trace = rank_trace(0, devices_count=2).dispatches
    total_ns = int((trace["end_ns"] - trace["start_ns"]).sum())
    assert document["total_sum_ns"] == total_ns == lines_of(document, "phases")["Total"]["sum_ns"]
    assert sum(bucket["rows_count"] for bucket in document["buckets"]) == len(trace)
    for row in document["reconciliation"]:
        assert row["busy_ns"] == row["compute_ns"] + row["exposed_communication_ns"] + row["exposed_copy_ns"]
        assert row["communication_ns"] == row["hidden_communication_ns"] + row["exposed_communication_ns"]
        assert row["span_ns"] == row["busy_ns"] + row["idle_ns"]


def test_rows_are_booked_where_their_name_stacks_say(run: CommandLine, run_path: Path) -> None:
    document = run.document("ledger", run_path)
    places = 2 * 3  # devices, steps
    counts = {name: line["rows_count"] for name, line in lines_of(document, "phases").items()}
    assert counts["Rematerialized forward replay"] == places * PER_STEP
    assert counts["Input"] == places
    assert counts["Unattributed work"] == 0
    forward = {name: line["rows_count"] for name, line in lines_of(document, "forward").items()}
    assert (forward["Expert MLP"], forward["Router and top-k selection"]) == (places * PER_STEP,) * 2
    assert forward["Embedding"] == places
    assert lines_of(document, "forward")["Pre-attention RMSNorm"]["state"] == "fused into adjacent work"


def test_tables_for_people_leave_out_what_says_nothing(run: CommandLine, run_path: Path) -> None:
    text = run("ledger", run_path).out
    assert text.startswith("SIMULATED: no hardware produced these numbers\nledger: 3 steps (by period) on 2 devices")
    assert "exposed communication" in text.splitlines()[1]
    assert "forward, by component" in text
    assert "backward matrix products" not in text  # no product is split in this program
    assert "_ns" not in text
    assert "expected" not in text
    assert "Total" in text


@pytest.mark.parametrize("width", [80, 120, 200])
def test_tables_fit_or_say_what_they_hide(
    run: CommandLine, run_path: Path, monkeypatch: pytest.MonkeyPatch, width: int
) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    monkeypatch.setattr("sys.stdout.isatty", lambda: True, raising=False)
    for text in run("ledger", run_path).out.split("\n\n"):
        for line in text.splitlines():
            if "  " in line and not line.startswith(("evidence", "hidden", "ledger")):
                assert len(line) <= width, line


def test_formats_of_the_buckets_agree(run: CommandLine, run_path: Path, tmp_path: Path) -> None:
    rows = assert_formats_agree(run, tmp_path, "ledger", run_path, "--part", "buckets")
    assert set(LEDGER.names) <= set(rows[0])
    csv_rows = list(csv.DictReader(io.StringIO(run("ledger", run_path, "--format", "csv").out)))
    assert [int(row["sum_ns"]) for row in csv_rows] == [row["sum_ns"] for row in rows]


@pytest.mark.parametrize("part", ["tables", "reconciliation", "steps"])
def test_each_part_is_a_table_of_its_own(run: CommandLine, run_path: Path, tmp_path: Path, part: str) -> None:
    assert assert_formats_agree(run, tmp_path, "ledger", run_path, "--part", part)


def test_one_step_and_one_device_are_chosen(run: CommandLine, run_path: Path) -> None:
    whole = run.document("ledger", run_path)
    device = whole["devices"][1]
    chosen = run.document("ledger", run_path, "--step", 1, "--device", device)
    assert (chosen["devices"], chosen["places_count"]) == ([device], 1)
    assert chosen["buckets"] == [
        bucket for bucket in whole["buckets"] if bucket["device"] == device and bucket["step_index"] == 1
    ]


def test_window_is_the_only_step(run: CommandLine, run_path: Path) -> None:
    document = run.document("ledger", run_path, "--window", "+0us:+500us")
    assert [step["method"] for step in document["steps"]] == ["window", "window"]
    whole = run.document("ledger", run_path, "--steps", "whole")
    assert {step["method"] for step in whole["steps"]} == {"whole"}
    assert document["total_sum_ns"] < whole["total_sum_ns"]


@pytest.mark.parametrize(
    "arguments, expected",
    [
        (["--step", 9], ("unknown-step", "steps: 0 to 2")),
        (["--device", "node0:gpu7"], ("unknown-device", "node0:gpu0")),
        (["--window", "1s"], ("bad-window", "+1.5s:+2s")),
        (["--window", "+5us:7us"], ("bad-window", "START:END")),
        (["--window", "+5us:+2us"], ("empty-window", "give the start first")),
        (["--components", "maxtest"], ("maxtest", "maxtext")),
        (["--step-pattern", "("], ("bad-regex", "(")),
        (["--jobs", 0], ("--jobs", "x>=1")),
        (["--part", "phases"], ("--part", "tables")),
        (["--workload", "nowhere.yaml"], ("nowhere.yaml", "")),
    ],
)
def test_wrong_values_are_named(run: CommandLine, run_path: Path, arguments, expected) -> None:
    ran = run("ledger", run_path, *arguments)
    assert ran.code in (1, 2)
    assert ran.out == ""
    for text in expected:
        assert text in ran.err


def test_mistake_in_a_component_map_is_named_with_its_line(run: CommandLine, run_path: Path, tmp_path: Path) -> None:
    path = tmp_path / "components.yaml"
    path.write_text(
        "schema: rocktools.components/1\nname: mine\ntitle: Mine\nsource: me\ncomponents:\n"
        "  mlp: {title: MLP}\nrules:\n  - {component: mpl, segments: [wi_0]}\n",
        encoding="utf-8",
    )
    ran = run("ledger", run_path, "--components", path)
    assert ran.code == 1
    assert f"{path}:8" in ran.err
    assert "mpl" in ran.err


def test_map_of_ones_own_names_the_rows(run: CommandLine, run_path: Path, tmp_path: Path) -> None:
    path = tmp_path / "components.yaml"
    path.write_text(
        "schema: rocktools.components/1\nname: mine\ntitle: Mine\nsource: me\ncomponents:\n"
        "  up: {title: Up projection}\nrules:\n  - {component: up, segments: [wi_0]}\nfallbacks: []\ntables: {}\n",
        encoding="utf-8",
    )
    document = run.document("ledger", run_path, "--components", path)
    assert document["component_map"] == {"name": "mine", "source": "components.yaml"}
    assert lines_of(document, "forward")["Up projection"]["rows_count"] == 2 * 3 * PER_STEP


def test_counts_that_are_met_pass_and_others_fail_with_code_3(run: CommandLine, run_path: Path, workload: Path) -> None:
    document = run.document("ledger", run_path, "--workload", workload)
    assert all(each["is_met"] for each in document["occurrences"])
    assert lines_of(document, "forward")["Expert MLP"]["found_count"] == 2 * 3 * PER_STEP
    workload.write_text(workload.read_text().replace(f"layers: {LAYERS}", f"layers: {LAYERS + 1}"), encoding="utf-8")
    ran = run("ledger", run_path, "--workload", workload)
    assert ran.code == 3
    assert "occurrence-mismatch" in ran.err
    line = next(line for line in ran.out.splitlines() if line.startswith("Expert MLP"))
    assert line.split()[-1] == "failed"


def test_output_file_is_new_and_whole(run: CommandLine, run_path: Path, tmp_path: Path) -> None:
    path = tmp_path / "ledger.json"
    ran = run("ledger", run_path, "-o", path)
    assert (ran.code, ran.out) == (0, "")
    assert json.loads(path.read_text(encoding="utf-8"))["schema"] == "rocktools.ledger/1"
    assert run("ledger", run_path, "-o", path).code == 2


def test_several_files_give_the_same_in_one_process_and_in_several(run: CommandLine, job: Path, workload: Path) -> None:
    here = run.document("ledger", job, "--workload", workload)
    assert run.document("ledger", job, "--workload", workload, "--jobs", 2) == here
    assert here["devices"] == ["node0:gpu0", "node1:gpu0"]
    assert all(each["is_met"] for each in here["occurrences"])


def test_one_file_measured_as_a_rank_gives_what_it_gives_by_itself(run: CommandLine, run_path: Path) -> None:
    assert run.document("ledger", run_path, "--jobs", 2) == run.document("ledger", run_path)


def test_broken_rank_is_named_and_the_others_are_counted(run: CommandLine, tmp_path: Path) -> None:
    job = write_scoped_run(tmp_path / "job", ranks=range(2))
    torn = job / "trace" / "rank_1_results.db"
    torn.write_bytes(torn.read_bytes()[:3000])
    document = run.document("ledger", job, code=1)
    assert document["devices"] == ["node0:gpu0"]
    (missing,) = (finding for finding in document["findings"] if finding["rule"] == "rank-missing")
    assert "rank_1_results.db" in missing["where"]


def test_without_a_program_communication_is_told_by_names_and_the_rest_stays_open(
    run: CommandLine, run_path: Path
) -> None:
    database = next((run_path / "trace").glob("*.db"))
    alone = run_path.parent / "alone_results.db"
    alone.write_bytes(database.read_bytes())
    ran = run("ledger", alone)
    assert ran.code == 0
    assert "no-program-to-attribute" in ran.err
    assert "100.0 %" in next(line for line in ran.out.splitlines() if line.startswith("Total"))
    named = run.document("ledger", alone, "--hlo", run_path / "hlo", "--steps", "whole")
    assert named["total_sum_ns"] == run.document("ledger", alone, "--steps", "whole")["total_sum_ns"]
    assert lines_of(named, "phases")["Unattributed work"]["rows_count"] == 0


def test_counter_pass_has_no_ledger(run: CommandLine, databases) -> None:
    ran = run("ledger", databases.counters)
    assert ran.code == 1
    assert "no-traced-dispatches" in ran.err


def test_names_of_the_test_program_are_in_its_text() -> None:
    assert scoped_text().count("op_name=") == 14


@pytest.mark.parametrize("components", ["plain_jax", "maxtext"])
def test_real_profile_of_attention(run: CommandLine, shared: Path, components: str) -> None:
    """INDEX.md of the data: 150 GPU events; 5 steps of 30 kernels."""
    document = run.document("ledger", shared / "data/xplane/mi355_te_fused_attn", "--components", components)
    assert document["places_count"] == 5
    assert sum(bucket["rows_count"] for bucket in document["buckets"]) == 150
    phases = lines_of(document, "phases")
    assert phases["Total"]["sum_ns"] == document["total_sum_ns"]
    assert lines_of(document, "forward")["Attention"]["rows_count"] == 20


def test_profile_of_the_cpu_backend_is_a_ledger_of_threads(run: CommandLine, shared: Path) -> None:
    """10,248 events of instructions in three marked steps; 60 of them are loops, which last as long as their inside."""
    ran = run("ledger", shared / "data/xplane/cpu_moe", "--components", "plain_jax", "--format", "json")
    document = json.loads(ran.out)
    assert ran.code == 0
    assert sum(bucket["rows_count"] for bucket in document["buckets"]) == 10_248 - 60
    assert [step["step_number"] for step in document["steps"]] == [0, 1, 2]
    assert {"work-of-the-cpu-backend", "mixed-phases"} <= {finding["rule"] for finding in document["findings"]}


MIXTRAL_WORKLOAD = """
schema: rocktools.workload/1
name: mixtral
layers: LAYERS
microsteps: 2
devices: 1
expectations:
  - {title: wi_0 forward, phase: forward, scope: wi_0, activity: compute}
"""


@pytest.fixture(scope="module")
def mixtral(shared: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("mixtral") / "1_results.db"
    scenario = Scenario(steps_count=2, warm_up_dispatches_count=0, other_runs_count=0)
    write_simulated_trace(simulate(mixtral_program(shared, "triton"), scenario), path)
    return path


@pytest.mark.parametrize("layers, code", [(56, 0), (55, 3)])
def test_112_forward_projections_pass_and_another_count_fails(
    run: CommandLine, shared: Path, mixtral: Path, tmp_path: Path, layers: int, code: int
) -> None:
    """56 scanned layers in two microsteps."""
    workload = tmp_path / "w.yaml"
    workload.write_text(MIXTRAL_WORKLOAD.replace("LAYERS", str(layers)), encoding="utf-8")
    hlo = shared / "data/hlo/gfx950-mixtral-8x22b/triton"
    document = run.document("ledger", mixtral, "--hlo", hlo, "--workload", workload, code=code)
    (occurrence,) = document["occurrences"]
    assert set(occurrence["found"].values()) == {2 * 112}
    assert occurrence["is_met"] == (code == 0)
