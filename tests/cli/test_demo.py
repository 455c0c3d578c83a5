"""`rocktools demo`: a run that every command reads, that says it is simulated, and that never replaces anything."""

from __future__ import annotations

import json
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from command_line import CommandLine
from rocpd_files import read_sql
from torn_files import look_of, tables_of

from rocktools.cli import demo as demo_command
from rocktools.cli.main import main
from rocktools.demo import job_run
from rocktools.demo.job_scenario import Fault
from rocktools.demo.packed_programs import ProgramName
from rocktools.rundir import read_manifest

FEW = ("--ranks", "2", "--steps", "2")
"""Enough for most questions, in little time."""

PIDS = {0: 41000, 1: 41011}


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("demo") / "first" / "run"
    assert main(["demo", "-o", str(folder), *FEW]) == 0
    return folder


def test_it_has_the_layout_of_a_run(demo: Path) -> None:
    names = {path.relative_to(demo).as_posix() for path in demo.rglob("*") if path.is_file()}
    assert names - {name for name in names if name.startswith("hlo/")} == {
        "logs/steps.log",
        "manifest.json",
        "pmc/flop_and_bytes_1/rank_0_42000_results.db",
        "pmc/flop_and_bytes_2/rank_0_43000_results.db",
        "pmc/flop_and_bytes_3/rank_0_44000_results.db",
        *(f"trace/rank_{rank}_{pid}_results.db" for rank, pid in PIDS.items()),
        *(f"truth/{name}" for name in ("dispatches_0.csv", "dispatches_1.csv", "job.json", "sites.csv")),
        "workload.yaml",
    }


def test_its_manifest_says_simulated_and_knows_every_file(demo: Path) -> None:
    manifest = read_manifest(demo)
    assert manifest.is_simulated is True
    assert manifest.created_utc.endswith("+00:00")
    sha256sum = shutil.which("sha256sum")
    if sha256sum is None:
        pytest.skip("there is no sha256sum to compare with")
    ran = subprocess.run([sha256sum, *manifest.files], cwd=demo, capture_output=True, text=True, check=True)
    assert {line.split()[1]: line.split()[0] for line in ran.stdout.splitlines()} == manifest.files
    files = (path for path in demo.rglob("*") if path.is_file() and path != demo / "manifest.json")
    assert sorted(manifest.files) == sorted(path.relative_to(demo).as_posix() for path in files)


@pytest.mark.parametrize(
    "arguments",
    [
        ["kernels"],
        ["kernels", "--by", "device"],
        ["kernels", "--hlo"],
        ["dispatches"],
        ["dispatches", "--counted"],
        ["info"],
        ["frame", "counter_values"],
        ["frame", "ranges"],
        ["frame", "copies"],
        ["frame", "host_calls"],
        ["link"],
        ["overlap"],
        ["gaps"],
        ["collectives"],
        ["ranks"],
        ["metrics"],
        ["roofline"],
    ],
)
def test_every_command_reads_it_and_says_simulated(demo: Path, run: CommandLine, arguments: list[str]) -> None:
    ran = run(*arguments, demo)
    assert ran.code == 0
    assert ran.out.startswith("SIMULATED: no hardware produced these numbers\n")
    assert "fault" not in ran.err
    assert "no rows" not in ran.out


def test_its_kernels_are_those_of_its_traces_alone(demo: Path, run: CommandLine) -> None:
    rows = run.rows("kernels", demo)
    traces = sorted((demo / "trace").glob("*.db"))
    expected = [
        read_sql(path, 'SELECT count(*), sum("end" - "start") FROM rocpd_kernel_dispatch')[0] for path in traces
    ]
    assert sum(row["dispatches_count"] for row in rows) == sum(count for count, _ in expected)
    assert sum(row["total_ns"] for row in rows) == sum(total_ns for _, total_ns in expected)
    document = run.document("info", demo)
    assert {row["rank"] for row in document["tables"][0]["rows"]} == {0, 1}
    assert document["is_simulated"] is True


def test_its_ledger_has_what_its_workload_expects(demo: Path, run: CommandLine) -> None:
    ran = run("ledger", demo, "--workload", demo / "workload.yaml")
    assert (ran.code, "expectation" in ran.err) == (0, False)


def test_same_seed_same_rows_another_seed_others(demo: Path, run: CommandLine, tmp_path: Path) -> None:
    assert run("demo", "-o", tmp_path / "again", *FEW).code == 0
    assert run("demo", "-o", tmp_path / "other", *FEW, "--seed", 7).code == 0
    for path in sorted(demo.rglob("*.db")):
        name = path.relative_to(demo)
        assert tables_of(tmp_path / "again" / name) == tables_of(path)
        assert tables_of(tmp_path / "other" / name) != tables_of(path)


def test_it_says_what_it_made_and_what_to_try(run: CommandLine, tmp_path: Path) -> None:
    ran = run("demo", "-o", tmp_path / "run", *FEW)
    assert (ran.code, ran.err) == (0, "")
    dispatches = sum(
        read_sql(path, "SELECT count(*) FROM rocpd_kernel_dispatch")[0][0]
        for path in (tmp_path / "run/trace").iterdir()
    )
    assert ran.out.splitlines()[0].startswith(
        f"{tmp_path / 'run'}: simulated run of 2 ranks, 2 steps, {dispatches:,} dispatches, 3 counter passes, "
    )
    assert f"rocktools info {tmp_path / 'run'}; " in ran.out
    assert json.loads((tmp_path / "run" / "manifest.json").read_text(encoding="utf-8"))["schema"] == "rocktools.run/1"


def test_what_to_try_can_be_pasted_whatever_the_path(run: CommandLine, tmp_path: Path) -> None:
    ran = run("demo", "-o", tmp_path / "my run's", "--ranks", 1, "--steps", 1)
    commands = ran.out.partition("next: ")[2].strip().split("; ")
    assert [shlex.split(command)[2] for command in commands] == [str(tmp_path / "my run's")] * 3


def test_what_is_injected_is_said_and_in_the_truth(run: CommandLine, tmp_path: Path) -> None:
    ran = run("demo", "-o", tmp_path / "run", *FEW, "--fault", "straggler", "--fault", "recompile", "--slow", "wi_0=8%")
    assert "  injected: straggler, recompile, slow wi_0\n" in ran.out
    truth = json.loads((tmp_path / "run/truth/job.json").read_text(encoding="utf-8"))
    assert [each["name"] for each in truth["injected"]] == ["straggler", "recompile", "slow wi_0"]
    assert all(each["cost_ns_per_step"] > 0 for each in truth["injected"])
    manifest = read_manifest(tmp_path / "run")
    assert manifest.facts["simulation"]["injected"] == truth["injected"]


def test_the_options_name_every_fault_and_every_program() -> None:
    options = {option.name: option.type for option in demo_command.command.params}
    assert list(options["faults"].choices) == [each.value for each in Fault]
    assert set(demo_command.VARIANTS.values()) == {each.value for each in ProgramName}


def test_folder_that_holds_something_is_refused(run: CommandLine, tmp_path: Path) -> None:
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "notes.txt").write_text("mine")
    (tmp_path / "file").write_text("mine")
    (tmp_path / "dangling").symlink_to(tmp_path / "nowhere")
    before = look_of(tmp_path)
    for name in ("full", "file", "dangling", "file/below"):
        ran = run("demo", "-o", tmp_path / name)
        assert (ran.code, ran.out) == (2, "")
        assert str(tmp_path / name) in ran.err
    assert look_of(tmp_path) == before
    (tmp_path / "empty").mkdir()
    assert run("demo", "-o", tmp_path / "empty", "--ranks", 1, "--steps", 1).code == 0


@pytest.mark.parametrize(
    "options",
    [
        [],
        ["-o", "run", "--seed", "-1"],
        ["-o", "run", "--seed", "x"],
        ["-o", "run", "--ranks", "9"],
        ["-o", "run", "--fault", "gremlins"],
        ["-o", "run", "--slow", "wi_0"],
        ["-o", "run", "--slow", "wi_3=8%"],
        ["-o", "run", "--fault", "recompile", "--steps", "1"],
    ],
)
def test_impossible_options_end_with_2(
    run: CommandLine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: list[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert run("demo", *options).code == 2
    assert list(tmp_path.iterdir()) == []


def test_run_that_did_not_end_has_no_manifest(run: CommandLine, tmp_path: Path, monkeypatch) -> None:
    def interrupted(*arguments: object, **options: object) -> object:
        raise KeyboardInterrupt

    monkeypatch.setattr(job_run, "write_counter_pass", interrupted)
    ran = run("demo", "-o", tmp_path / "run", *FEW)
    assert ran.code == 1
    assert "interrupted" in ran.err
    assert len(list((tmp_path / "run/trace").iterdir())) == 2
    assert not list((tmp_path / "run").rglob("manifest.json*"))


def test_it_works_in_a_process_of_its_own(tmp_path: Path) -> None:
    command = [sys.executable, "-W", "error", "-m", "rocktools.cli.main"]
    made = subprocess.run(
        [*command, "demo", "-o", "run", *FEW], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert (made.returncode, made.stderr) == (0, "")
    ran = subprocess.run([*command, "kernels", "run"], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (ran.returncode, ran.stderr) == (0, "")
    assert ran.stdout.startswith("SIMULATED")
    assert read_manifest(tmp_path / "run").argv[1:] == ("demo", "-o", "run", *FEW)
