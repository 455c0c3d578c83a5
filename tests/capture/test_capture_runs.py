"""Whole captures through the command line, against the stand-ins: what is run, what is believed, what is kept."""

from __future__ import annotations

import csv
import io
import json
import os
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from standins.install import APP, FAULT, SCENARIO, STATE, install_standins

from rocktools.capture.run_lock import find_holders
from rocktools.cli.main import main
from rocktools.rundir import PassRecord, read_manifest, read_pass_records
from rocktools.workspace.workspace import Workspace

JOB = ["--", sys.executable, str(APP)]
COUNTERS = "SQ_WAVES,GRBM_GUI_ACTIVE"
# Seven counters of TCC, of which four fit at once.
TWO_GROUPS = "SQ_WAVES,TCC_HIT_sum,TCC_MISS_sum,TCC_EA0_RDREQ_sum,TCC_EA0_WRREQ_sum,TCC_REQ_sum,TCC_READ_sum"


@pytest.fixture(scope="module")
def tools(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return install_standins(tmp_path_factory.mktemp("rocm") / "bin", version="1.3.2")


@pytest.fixture(autouse=True)
def machine(tools: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A working directory of its own, and the stand-ins first in PATH."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", f"{tools}{os.pathsep}{os.environ['PATH']}")
    (tmp_path / "state").mkdir()
    monkeypatch.setenv(STATE, str(tmp_path / "state"))
    for name in (FAULT, SCENARIO, "XLA_FLAGS"):
        monkeypatch.delenv(name, raising=False)


def trace(*options: str) -> int:
    return main(["trace", "--force", "-o", "run", *options, *JOB])


def pmc(*options: str, counters: str = COUNTERS) -> int:
    chosen = ["--kernel", "loop_fusion_3", "--iterations", "3-4", "--counters", counters]
    return main(["pmc", "--force", "-o", "run", *chosen, *options, *JOB])


def rules(name: str | None = None) -> set[str]:
    """Rules of the findings in the records of a pass, or of all passes."""
    records = [record for record in read_pass_records(Path("run")) if name in (None, record.name)]
    return {str(finding["rule"]) for record in records for finding in record.findings}


def listing(folder: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def test_a_trace_that_holds_dispatches_is_verified() -> None:
    assert trace() == 0
    (record,) = read_pass_records(Path("run"))
    assert record.is_verified
    assert [database.dispatches_count for database in record.databases] == [48]


def test_the_manifest_says_what_ran_and_on_what() -> None:
    trace()
    manifest = read_manifest(Path("run"))
    assert manifest.facts["tool"]["version"] == "1.3.2"
    assert manifest.passes[0].argv[1:3] == ("--runtime-trace", "--rccl-trace")
    assert set(manifest.files) == {database.path for database in manifest.passes[0].databases}
    assert manifest.facts["host"]["hostname"]


def test_secrets_of_the_environment_are_in_no_file_of_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_API_TOKEN", "hunter2-secret")
    monkeypatch.setenv("NCCL_AUTH_TOKEN", "hunter3-secret")
    trace("--env", "WANDB_API_KEY=hunter4-secret")
    ours = list(Path("run").rglob("*.json"))
    assert ours
    assert not [path for path in ours if b"hunter" in path.read_bytes()]


def test_secrets_of_the_command_line_are_in_no_file_of_ours(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("job.py").write_text(
        "import json, os, sys\n"
        "open('seen.json', 'w').write(json.dumps([sys.argv[1:], os.environ['WANDB_API_KEY']]))\n"
        f"os.execv(sys.executable, [sys.executable, {str(APP)!r}])\n"
    )
    arguments = ["--api_key=hunter5", "--token", "hunter6", "https://hunter7@github.com"]
    job = ["--", sys.executable, "job.py", *arguments]
    command = ["trace", "--force", "-o", "run", "--env", "WANDB_API_KEY=hunter8", *job]
    monkeypatch.setattr(sys, "argv", ["rocktools", *command])
    main([*command[:1], "--dry-run", *command[1:]])
    assert "hunter" not in capsys.readouterr().out
    assert main(command) == 0
    assert main([*command[:1], "--resume", *command[1:]]) == 0
    assert json.loads(Path("seen.json").read_text()) == [arguments, "hunter8"]
    ours = list(Path("run").rglob("*.json"))
    assert len(ours) >= 4
    assert not [path for path in ours if b"hunter" in path.read_bytes()]
    assert read_manifest(Path("run")).argv[6] == "WANDB_API_KEY=[redacted]"


def test_a_refusal_that_repeats_a_secret_is_redacted(
    tools: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    refusing = install_standins(tmp_path / "other" / "bin", version="1.3.2")
    (refusing / "rocprofv3").rename(refusing / "real")
    script = 'echo "rocprofv3: error: unrecognized arguments: --api_key=hunter9" >&2; exit 2'
    (refusing / "rocprofv3").write_text(
        f'#!/bin/sh\nfor word; do case "$word" in --runtime-trace) {script};; esac; done\nexec {refusing}/real "$@"\n'
    )
    (refusing / "rocprofv3").chmod(0o755)
    assert trace("--rocprofv3", str(refusing / "rocprofv3")) == 1
    (record,) = read_pass_records(Path("run"))
    assert "unrecognized arguments: --api_key=[redacted]" in record.outcome
    assert not [path for path in Path("run").rglob("*.json") if b"hunter" in path.read_bytes()]


def flags_of(record: PassRecord) -> list[str]:
    return record.environment_added["XLA_FLAGS"].split()


def test_every_attempt_has_a_folder_for_its_programs(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv(FAULT, "exit-code:3")
    assert trace() == 1
    monkeypatch.delenv(FAULT)
    capsys.readouterr()
    trace("--resume", "--dry-run")
    script = capsys.readouterr().out
    assert trace("--resume") == 0
    first, second = read_pass_records(Path("run"))
    hlo = Path("run").absolute() / "hlo"
    assert f"--xla_dump_to={hlo}" in flags_of(first)
    assert f"--xla_dump_to={hlo}/attempt_2" in flags_of(second)
    assert "# pass 1 of 1: trace, attempt 2\n" in script
    assert shlex.quote(f"XLA_FLAGS={second.environment_added['XLA_FLAGS']}").strip("'") in script.replace("'", "")
    assert shlex.join(second.argv) in script


def test_a_dry_run_of_what_is_left_leaves_verified_passes_out(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv(FAULT, "missing-counter@2")
    pmc(counters=TWO_GROUPS)
    monkeypatch.delenv(FAULT)
    before = listing(Path("run"))
    capsys.readouterr()
    pmc("--resume", "--dry-run", counters=TWO_GROUPS)
    lines = capsys.readouterr().out.splitlines()
    assert listing(Path("run")) == before
    assert lines[:2] == [
        "# pass 1 of 2: pmc/counters_1 is verified and does not run again",
        "# pass 2 of 2: pmc/counters_2, attempt 2",
    ]
    pmc("--resume", counters=TWO_GROUPS)
    assert lines[-1].endswith(shlex.join(read_pass_records(Path("run"))[-1].argv))
    capsys.readouterr()
    assert pmc("--resume", "--dry-run", counters="SQ_WAVES") == 2
    assert "another-capture" in capsys.readouterr().err


def test_resuming_keeps_what_the_first_command_was_and_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(FAULT, "exit-code:3")
    # Found by the first preflight only.
    monkeypatch.setenv("ROCPROF_OUTPUT_FORMAT", "csv")
    monkeypatch.setattr(sys, "argv", ["rocktools", "first"])
    trace()
    first = read_manifest(Path("run"))
    monkeypatch.delenv(FAULT)
    monkeypatch.delenv("ROCPROF_OUTPUT_FORMAT")
    monkeypatch.setattr(sys, "argv", ["rocktools", "second"])
    assert trace("--resume") == 0
    manifest = read_manifest(Path("run"))
    assert (manifest.argv, manifest.created_utc) == (("rocktools", "first"), first.created_utc)
    assert [command.argv[1] for command in manifest.captures] == ["first", "second"]
    assert manifest.captures[0] == first.captures[0]
    for name in ("preflight", "findings"):
        assert first.facts[name]
        assert [finding for finding in first.facts[name] if finding not in manifest.facts[name]] == []
    gone = [one for one in first.facts["preflight"] if one not in manifest.captures[1].findings]
    assert gone, "the second preflight should have found less"


@pytest.mark.parametrize("content", [b"", b"[]", b"1", b"\xff", b'{"schema": 1' + b"0" * 5_000 + b"}", b"[" * 100_000])
def test_a_broken_plan_is_a_plain_error(content: bytes, capsys: pytest.CaptureFixture[str]) -> None:
    trace()
    Path("run/plan.json").write_bytes(content)
    assert trace("--resume") == 1
    assert "plan-damaged" in capsys.readouterr().err


def test_what_the_user_gives_for_the_job_wins(capsys: pytest.CaptureFixture[str]) -> None:
    given = "--xla_dump_to=/elsewhere --xla_gpu_enable_command_buffer=FUSION"
    trace("--env", "JAX_ENABLE_COMPILATION_CACHE=true", "--env", f"XLA_FLAGS={given}")
    (record,) = read_pass_records(Path("run"))
    assert record.environment_added["JAX_ENABLE_COMPILATION_CACHE"] == "true"
    assert set(given.split()) <= set(flags_of(record))
    assert len([flag for flag in flags_of(record) if flag.startswith(("--xla_dump_to", "--xla_gpu_enable"))]) == 2
    assert "xla-dump-behind-cache" in capsys.readouterr().err


def test_the_job_gets_its_variables_and_none_of_another_profiler(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ROCPROF_KERNEL_TRACE", "1")
    monkeypatch.setenv("ROCPROFILER_METRICS_PATH", "/elsewhere")
    seen = Path("seen.json")
    code = main(["trace", "--force", "-o", "run", "--env", "STEPS=3", *JOB, "--record", str(seen)])
    assert code == 0
    environment = json.loads(seen.read_text())["environment"]
    assert environment["STEPS"] == "3"
    assert "--xla_gpu_enable_command_buffer= " in environment["XLA_FLAGS"] + " "
    assert "ROCPROFILER_METRICS_PATH" not in environment
    assert environment["ROCPROF_TMPDIR"].endswith("run/spill/trace.1")


def test_counters_that_do_not_fit_together_are_two_passes_of_the_same_executions() -> None:
    assert pmc(counters=TWO_GROUPS) == 0
    records = read_pass_records(Path("run"))
    assert [record.name for record in records] == ["pmc/counters_1", "pmc/counters_2"]
    assert {record.facts["groups_confirmed_by"] for record in records} == {"rocprofv3-avail pmc-check"}
    asked = {counter for record in records for counter in record.facts["counters"]}
    assert asked == set(TWO_GROUPS.split(","))


def test_without_avail_the_table_alone_speaks_for_the_groups(
    tools: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    alone = install_standins(tmp_path / "other" / "bin", version="1.3.2")
    (alone / "rocprofv3-avail").unlink()
    monkeypatch.setenv("PATH", f"{alone}{os.pathsep}{os.environ['PATH']}")
    assert pmc() == 0
    assert read_pass_records(Path("run"))[0].facts["groups_confirmed_by"] == "table"


def test_a_group_that_the_tool_refuses_is_split(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv(FAULT, "small-block:TCC=2")
    assert pmc(counters="TCC_HIT_sum,TCC_EA0_RDREQ_sum,TCC_EA0_WRREQ_sum,TCC_READ_sum") == 0
    assert "group-refused-by-tool" in capsys.readouterr().err
    assert len(read_pass_records(Path("run"))) == 2


def test_a_dry_run_starts_nothing_and_writes_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    main(["trace", "--force", "--dry-run", "-o", "run", *JOB])
    assert not Path("run").exists()
    assert shlex.join([sys.executable, str(APP)]) in capsys.readouterr().out


def test_what_a_dry_run_prints_is_what_runs(capsys: pytest.CaptureFixture[str]) -> None:
    pmc("--dry-run", counters=TWO_GROUPS)
    printed = [shlex.split(line) for line in capsys.readouterr().out.splitlines() if line.startswith("env ")]
    pmc(counters=TWO_GROUPS)
    for words, record in zip(printed, read_pass_records(Path("run")), strict=True):
        command = words[next(at for at, word in enumerate(words) if word.endswith("rocprofv3")) :]
        assert tuple(command) == record.argv
        assert set(words) >= {f"{name}={value}" for name, value in record.environment_added.items()}


def test_an_existing_folder_is_never_written_to(capsys: pytest.CaptureFixture[str]) -> None:
    Path("run").mkdir()
    Path("run/mine.txt").write_text("mine")
    assert trace() == 2
    assert listing(Path("run")) == {"run/mine.txt": b"mine"}
    assert "run-directory-exists" in capsys.readouterr().err


def test_a_capture_resumes_at_the_first_pass_that_is_not_verified(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(FAULT, "missing-counter@2")
    assert pmc(counters=TWO_GROUPS) == 1
    before = listing(Path("run"))
    monkeypatch.delenv(FAULT)
    assert pmc("--resume", counters=TWO_GROUPS) == 0
    records = read_pass_records(Path("run"))
    assert [(record.name, record.attempt, record.is_verified) for record in records] == [
        ("pmc/counters_1", 1, True),
        ("pmc/counters_2", 1, False),
        ("pmc/counters_2", 2, True),
    ]
    after = listing(Path("run"))
    assert {path for path in before if after.get(path) != before[path]} == {"run/manifest.json"}


def test_a_capture_whose_process_was_killed_resumes(tools: Path, capsys: pytest.CaptureFixture[str]) -> None:
    options = ["pmc", "--force", "-o", "run", "--kernel", "loop_fusion_3", "--counters", TWO_GROUPS]
    command = [sys.executable, "-m", "rocktools.cli.main", *options, *JOB]
    # The second pass hangs, and we are killed while it does.
    child = subprocess.Popen(
        command, env={**os.environ, FAULT: "hang@2"}, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    deadline = time.monotonic() + 30
    while not Path("run/logs/pmc.counters_2.1.stderr").exists():
        assert time.monotonic() < deadline, "the second pass never began"
        time.sleep(0.05)
    child.send_signal(signal.SIGKILL)
    child.wait()
    before = listing(Path("run"))
    resume = [*options[:3], "run", "--resume", *options[4:], *JOB]
    # The job lives on; nothing is started beside it.
    assert main(resume) == 2
    assert "run-in-use" in capsys.readouterr().err
    for pid in find_holders(Path("run/plan.json")):
        os.kill(pid, signal.SIGKILL)
    while find_holders(Path("run/plan.json")):
        time.sleep(0.05)
    assert main(resume) == 0
    verified = [record for record in read_pass_records(Path("run")) if record.is_verified]
    assert [record.name for record in verified] == ["pmc/counters_1", "pmc/counters_2"]
    assert verified[1].attempt == 2
    # The command that was killed wrote no manifest, and yet is the first one of it.
    assert read_manifest(Path("run")).argv[1:] == tuple(command[3:])
    assert set(before) <= set(listing(Path("run")))


def test_resuming_under_other_circumstances_is_refused_once_there_is_something_to_compare(
    tools: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("HIP_VISIBLE_DEVICES", "0")
    monkeypatch.setenv(FAULT, "missing-counter@1")
    assert pmc(counters=TWO_GROUPS) == 1
    monkeypatch.setenv(FAULT, "missing-counter@3")  # of all starts: the second pass
    monkeypatch.setenv("HIP_VISIBLE_DEVICES", "1")  # nothing is verified yet
    assert pmc("--resume", counters=TWO_GROUPS) == 1
    monkeypatch.delenv(FAULT)
    monkeypatch.setenv("HIP_VISIBLE_DEVICES", "3")
    before = listing(Path("run"))
    capsys.readouterr()
    for extra in ((), ("--dry-run",)):
        assert pmc("--resume", *extra, counters=TWO_GROUPS) == 2
        assert "HIP_VISIBLE_DEVICES was 1, is 3" in capsys.readouterr().err
    assert listing(Path("run")) == before
    monkeypatch.setenv("HIP_VISIBLE_DEVICES", "1")
    assert pmc("--resume", counters=TWO_GROUPS) == 0


@pytest.mark.parametrize("is_moved", [True, False])
def test_a_trace_whose_databases_changed_is_not_called_complete(
    is_moved: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    trace()
    [database] = Path("run/trace").glob("*.db")
    if is_moved:
        database.rename("elsewhere.db")
    else:
        database.write_bytes(database.read_bytes() + b"0")
    assert trace("--resume") == 1
    assert "verified-pass-changed" in capsys.readouterr().err


def test_passes_that_do_not_agree_are_repeated_on_resume(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(FAULT, "other-geometry@2")
    assert pmc(counters=TWO_GROUPS) == 1
    facts = read_manifest(Path("run")).facts
    assert facts["is_complete"] is False
    assert [finding["rule"] for finding in facts["differences"]] == ["passes-differ-in-geometry"]
    with Workspace.open(["run"]) as workspace:
        assert "passes-differ-in-geometry" in [finding.rule for finding in workspace.findings]
    monkeypatch.delenv(FAULT)
    assert pmc("--resume", counters=TWO_GROUPS) == 0
    assert [(record.name, record.attempt) for record in read_pass_records(Path("run"))] == [
        ("pmc/counters_1", 1),
        ("pmc/counters_2", 1),
        ("pmc/counters_2", 2),
    ]
    facts = read_manifest(Path("run")).facts
    assert (facts["is_complete"], facts["differences"]) == (True, [])
    with Workspace.open(["run"]) as workspace:
        rules_found = [finding.rule for finding in workspace.findings]
        assert "passes-differ-in-geometry" not in rules_found
        assert "pass-not-verified" in rules_found  # the attempt that was repeated
        assert sorted(workspace.counted_dispatches()["pass"].unique()) == ["counters_1", "counters_2"]
        assert len(workspace.processes()) == 2


@pytest.mark.parametrize("is_dropped", [True, False])
def test_a_worker_that_left_nothing_is_a_fault_where_their_number_is_known(
    is_dropped: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    Path("scenario.json").write_text(json.dumps({"processes_count": 2, "agents_count": 2}))
    monkeypatch.setenv(SCENARIO, str(Path("scenario.json").absolute()))
    if is_dropped:
        monkeypatch.setenv(FAULT, "dropped-process")
    assert trace("--processes", "2") == int(is_dropped)
    assert ("processes-missing" in rules()) is is_dropped


def test_resuming_with_other_options_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    pmc()
    assert pmc("--resume", counters="SQ_WAVES") == 2
    assert "another-capture" in capsys.readouterr().err


def test_resuming_where_there_is_nothing_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert trace("--resume") == 2
    assert "nothing-to-resume" in capsys.readouterr().err


def test_a_complete_capture_that_is_resumed_runs_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    pmc()
    before = listing(Path("run"))
    assert pmc("--resume") == 0
    assert {path for path, bytes_ in listing(Path("run")).items() if before.get(path) != bytes_} == {
        "run/manifest.json",
        "run/commands/2.json",
    }


def test_a_verified_database_that_changed_is_not_believed_again(capsys: pytest.CaptureFixture[str]) -> None:
    pmc()
    (database,) = Path("run/pmc").rglob("*.db")
    with database.open("ab") as stream:
        stream.write(b"\0" * 4096)
    assert pmc("--resume") == 1
    assert "verified-pass-changed" in capsys.readouterr().err


def test_ctrl_c_ends_cleanly_and_says_how_to_go_on(tools: Path) -> None:
    command = [sys.executable, "-m", "rocktools.cli.main", "trace", "--force", "--grace", "5", "-o", "run", *JOB]
    child = subprocess.Popen(
        command, env={**os.environ, FAULT: "hang"}, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    deadline = time.monotonic() + 30
    while not Path("run/logs/trace.1.stderr").exists():
        assert time.monotonic() < deadline, "the pass never began"
        time.sleep(0.05)
    time.sleep(0.5)
    child.send_signal(signal.SIGINT)
    _, stderr = child.communicate(timeout=60)
    assert child.returncode == 1
    assert "--resume" in stderr
    assert "Traceback" not in stderr
    (record,) = read_pass_records(Path("run"))
    assert not record.is_verified


def test_a_pass_that_runs_too_long_is_stopped_and_said_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(FAULT, "hang")
    assert trace("--deadline", "2", "--grace", "3") == 1
    assert "pass-ended-in-timeout" in rules()


def test_kernel_only_asks_for_kernels_and_copies() -> None:
    assert trace("--kernel-only") == 0
    (record,) = read_pass_records(Path("run"))
    assert {"--kernel-trace", "--memory-copy-trace"} <= set(record.argv)
    assert "--runtime-trace" not in record.argv


def test_passes_that_count_different_executions_are_not_complete(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(FAULT, "other-geometry@2")
    assert pmc(counters=TWO_GROUPS) == 1
    found = {finding["rule"] for finding in read_manifest(Path("run")).facts["findings"]}
    assert "passes-differ-in-geometry" in found


def test_dispatch_ids_that_differ_between_passes_do_not_matter(monkeypatch: pytest.MonkeyPatch) -> None:
    Path("scenario.json").write_text(json.dumps({"dispatch_id_offset": 1000}))
    monkeypatch.setenv(SCENARIO, str(Path("scenario.json").absolute()))
    assert pmc(counters=TWO_GROUPS) == 0


def count_quantities(quantities: str, *options: str) -> int:
    chosen = ["--kernel", "loop_fusion_3", "--iterations", "3-4", "--metrics", quantities]
    return main(["pmc", "--force", "-o", "run", *chosen, *options, *JOB])


def test_metrics_ask_for_the_counters_of_their_formulas(capsys: pytest.CaptureFixture[str]) -> None:
    assert count_quantities("fabric_read_bytes", "--arch", "gfx950", "--dry-run", "--counters", "SQ_WAVES") == 1
    printed = capsys.readouterr().out
    assert "# pass 1 of 1" in printed
    for size in ("128B", "64B", "32B"):
        assert f"TCC_EA0_RDREQ_{size}_sum" in printed
    assert "SQ_WAVES" in printed


def test_what_a_formula_reads_in_one_pass_stays_together() -> None:
    """Occupancy needs SQ_WAVE_CYCLES and GRBM_GUI_ACTIVE of one pass, whatever else fills the passes."""
    assert count_quantities("total_flop,occupancy,fabric_bytes") == 0
    groups = [set(record.facts["counters"]) for record in read_pass_records(Path("run"))]
    assert len(groups) > 1
    for together in (
        {"SQ_WAVE_CYCLES", "GRBM_GUI_ACTIVE"},
        {"TCC_EA0_WRREQ_sum", "TCC_EA0_WRREQ_64B_sum"},
    ):
        assert any(together <= group for group in groups)


def test_quantities_that_were_asked_for_have_values(capsys: pytest.CaptureFixture[str]) -> None:
    count_quantities("total_flop,occupancy,fabric_bytes")
    capsys.readouterr()
    main(["metrics", "run", "--quantity", "total_flop,occupancy,fabric_bytes", "--absent", "--format", "csv"])
    rows = list(csv.DictReader(io.StringIO(capsys.readouterr().out)))
    assert {row["quantity"] for row in rows} == {"total_flop", "occupancy", "fabric_bytes"}
    assert all(float(row["value"]) > 0 and not row["doubts"] for row in rows)


def test_kernels_must_be_chosen_in_exactly_one_way(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["pmc", "--force", "--counters", "SQ_WAVES", *JOB]) == 2
    assert main(["pmc", "--force", "--kernel", "a", "--regex", "b", "--counters", "SQ_WAVES", *JOB]) == 2
    assert capsys.readouterr().err.count("which-kernels") == 2


def test_preflight_faults_stop_a_capture_before_anything_starts(capsys: pytest.CaptureFixture[str]) -> None:
    if Path("/dev/kfd").exists():
        pytest.skip("this machine has an AMD GPU, so preflight finds nothing")
    assert main(["trace", "-o", "run", *JOB]) == 1
    assert "preflight-failed" in capsys.readouterr().err
    assert not Path("run").exists()


def test_databases_of_failed_passes_are_left_out_of_the_run(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv(FAULT, "missing-counter@2")
    pmc(counters=TWO_GROUPS)
    monkeypatch.delenv(FAULT)
    pmc("--resume", counters=TWO_GROUPS)
    capsys.readouterr()
    assert main(["dispatches", "--counted", "run", "--format", "csv"]) == 0
    captured = capsys.readouterr()
    assert len(captured.out.splitlines()) == 1 + 2 * 2
    assert "pass-not-verified" in captured.err


def test_a_run_without_a_verified_pass_gives_no_numbers(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv(FAULT, "exit-code:3")
    trace()
    assert main(["kernels", "run"]) == 1
    assert "nothing-verified" in capsys.readouterr().err
    (database,) = Path("run/trace").rglob("*.db")
    assert main(["kernels", str(database)]) == 0
