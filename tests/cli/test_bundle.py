"""`rocktools bundle`: everything in one folder, made again elsewhere byte for byte; what is wrong with one is named."""

from __future__ import annotations

import hashlib
import json
import shutil
from importlib import resources
from pathlib import Path

import pytest
from command_line import CommandLine
from rocpd_files import write_small_trace
from scoped_run import write_scoped_run
from torn_files import look_of

from rocktools.cli.main import COMMANDS
from rocktools.demo.rocpd_writer import RocpdWriter
from rocktools.summary.bundle_commands import TABLES
from rocktools.summary.bundle_document import read_bundle
from rocktools.summary.bundle_inputs import Scrub, SideRequest, copy_inputs, sensitive_facts

SECRET = "hunter2-Zq7"


@pytest.fixture(scope="module")
def run_path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run with an output of the job, which no command reads."""
    path = write_scoped_run(tmp_path_factory.mktemp("bundle") / "mine")
    (path / "logs").mkdir()
    (path / "logs" / "stdout.txt").write_text(SECRET)
    return path


@pytest.fixture(scope="module")
def made(run_path: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A bundle of it with a few tables, which no test changes."""
    from rocktools.cli.main import main

    folder = tmp_path_factory.mktemp("bundle") / "bundle"
    names = ("processes", "kernels", "ledger", "metrics")
    assert main(["bundle", str(run_path), "-o", str(folder), *(w for n in names for w in ("--table", n))]) == 0
    return folder


@pytest.fixture
def copied(made: Path, tmp_path: Path) -> Path:
    """A copy of the bundle at another place."""
    return Path(shutil.copytree(made, tmp_path / "elsewhere" / "renamed"))


def write_trace_with_secret(path: Path) -> Path:
    with RocpdWriter(path) as writer:
        writer.process(300, environment={"TOKEN": SECRET, "LANG": "C"}, command="python train.py")
        kernel = writer.kernel_symbol("loop_fusion_3")
        writer.dispatch(kernel, 1_000, 2_000)
    return path


def hold(folder: Path, text: str) -> list[str]:
    """The files that have the text in them."""
    return [path.name for path in sorted(folder.rglob("*")) if path.is_file() and text.encode() in path.read_bytes()]


# What is in it


def test_every_table_is_of_a_command_there_is() -> None:
    assert {command[0] for command, _ in TABLES.values()} <= set(COMMANDS)


def test_all_that_commands_read_is_in_it_and_hashed(run_path: Path, made: Path) -> None:
    bundle = read_bundle(made)
    on_disk = {p.relative_to(made).as_posix() for p in made.rglob("*") if p.is_file()} - {"bundle.json"}
    assert {each.path for each in bundle.files} == on_disk
    for each in bundle.files:
        assert hashlib.sha256((made / each.path).read_bytes()).hexdigest() == each.sha256
    inputs = {each.path.removeprefix("inputs/run/mine/") for each in bundle.files if each.role == "input"}
    of_run = {p.relative_to(run_path).as_posix() for p in run_path.rglob("*") if p.is_file()}
    assert inputs == of_run - {"logs/stdout.txt"}
    assert bundle.sides[0].left_out == ("mine/logs/: 1 file that no command reads",)
    assert hold(made, SECRET) == []


def test_tables_are_those_of_the_run_itself(run: CommandLine, run_path: Path, made: Path, tmp_path: Path) -> None:
    """The copies give what the originals give: nothing that a command reads was left out."""
    for name in ("kernels", "ledger"):
        assert run(name, run_path, "-o", tmp_path / f"{name}.csv").code == 0
        assert (tmp_path / f"{name}.csv").read_bytes() == (made / f"tables/run/{name}.csv").read_bytes()
    assert run("summarize", run_path, "--no-time", "-o", tmp_path / "summary.json").code == 0
    assert (tmp_path / "summary.json").read_bytes() == (made / "run.summary.json").read_bytes()


def test_commands_of_the_manifest_work_in_the_folder(
    run: CommandLine, copied: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(copied)
    for output in read_bundle(copied).outputs:
        *words, option, target = output.command[1:]
        assert option == "-o"
        assert run(*words, "-o", f"again.{target.replace('/', '.')}").code == output.exit_code
        if output.reason is None:
            assert Path(f"again.{target.replace('/', '.')}").read_bytes() == Path(target).read_bytes()


def test_table_that_cannot_be_made_has_a_reason(made: Path) -> None:
    absent = [each for each in read_bundle(made).outputs if each.reason is not None]
    assert [(each.path, each.exit_code) for each in absent] == [("tables/run/metrics.csv", 1)]
    assert "no-counted-dispatches" in str(absent[0].reason)
    assert "(no tables/run/metrics.csv: no-counted-dispatches" in (made / "README.md").read_text()


def test_simulated_input_marks_it(made: Path) -> None:
    assert read_bundle(made).is_simulated
    assert "SIMULATED" in (made / "README.md").read_text()


# Made again


def test_copy_elsewhere_is_made_again_byte_for_byte(run: CommandLine, copied: Path) -> None:
    before = look_of(copied)
    ran = run("bundle", "--verify", copied)
    assert (ran.code, ran.out) == (0, f"{copied}: 6 of 6 made again elsewhere, byte for byte\n")
    assert look_of(copied) == before


def test_table_that_comes_out_otherwise_is_named(run: CommandLine, copied: Path) -> None:
    """One digit of one table, with its hash set right."""
    path = copied / "tables/run/ledger.csv"
    path.write_bytes(path.read_bytes().replace(b"1", b"2", 1))
    manifest = json.loads((copied / "bundle.json").read_text())
    for each in manifest["files"]:
        if each["path"] == "tables/run/ledger.csv":
            each["sha256"] = hashlib.sha256(path.read_bytes()).hexdigest()
    (copied / "bundle.json").write_text(json.dumps(manifest))
    ran = run("bundle", "--verify", copied)
    assert ran.code == 3
    assert "5 of 6 made again" in ran.out
    assert "differs: tables/run/ledger.csv (rocktools ledger inputs/run/mine --format csv" in ran.err
    assert "changed or missing" not in ran.err


def test_files_that_are_changed_or_missing_are_named(run: CommandLine, copied: Path) -> None:
    (copied / "run.report.md").write_text("mine")
    (copied / "inputs/run/mine/manifest.json").unlink()
    ran = run("bundle", "--verify", copied)
    assert ran.code == 3
    assert "changed or missing: run.report.md" in ran.err
    assert "changed or missing: inputs/run/mine/manifest.json" in ran.err


def test_other_versions_are_told_where_something_differs(run: CommandLine, copied: Path) -> None:
    manifest = json.loads((copied / "bundle.json").read_text())
    manifest["versions"]["pandas"] = "1.0"
    (copied / "bundle.json").write_text(json.dumps(manifest))
    (copied / "tables/run/kernels.csv").unlink()
    assert "other versions may round differently: pandas 1.0, here" in run("bundle", "--verify", copied).err


# Inputs of other kinds


def test_single_file_a_pattern_and_a_folder_keep_their_labels(run: CommandLine, tmp_path: Path) -> None:
    (tmp_path / "a/b").mkdir(parents=True)
    (tmp_path / "c").mkdir()
    write_small_trace(tmp_path / "1_results.db")
    write_small_trace(tmp_path / "a/b/2_results.db")
    write_small_trace(tmp_path / "c/3_results.db")
    paths = (tmp_path / "1_results.db", f"{tmp_path}/a/*/2_results.db", tmp_path / "c")
    ran = run("bundle", *paths, "-o", tmp_path / "out", "--table", "contents")
    assert ran.code == 0, ran.err
    assert run("info", *paths, "--part", "contents", "-o", tmp_path / "direct.csv").code == 0
    assert (tmp_path / "direct.csv").read_bytes() == (tmp_path / "out/tables/run/contents.csv").read_bytes()


def test_what_cannot_be_found_is_named_and_goes_along(run: CommandLine, run_path: Path, tmp_path: Path) -> None:
    """A trace alone, its program elsewhere, a map of one's own, a log and a device: as `ledger` has it with them."""
    trace = shutil.copy(run_path / "trace/rank_0_results.db", tmp_path / "1_results.db")
    hlo = tmp_path / "dump"
    shutil.copytree(run_path / "hlo", hlo)
    dump = next(hlo.glob("*after_optimizations.txt"))
    components = tmp_path / "mine.yaml"
    components.write_text((resources.files("rocktools") / "attribution/component_maps/plain_jax.yaml").read_text())
    log = tmp_path / "log.csv"
    log.write_text("step,seconds\n" + "".join(f"{step},0.5\n" for step in range(8)))
    options = ("--hlo", dump, "--components", components)
    bundled = (*options, "--step-log", log, "--part", "MI355X", "--partition", "SPX")
    ran = run("bundle", trace, "-o", tmp_path / "out", *bundled, "--table", "ledger", "--table", "roofline")
    assert ran.code == 0, ran.err
    assert run("ledger", trace, *options, "-o", tmp_path / "ledger.csv").code == 0
    assert (tmp_path / "ledger.csv").read_bytes() == (tmp_path / "out/tables/run/ledger.csv").read_bytes()
    summary = json.loads((tmp_path / "out/run.summary.json").read_text())
    assert summary["step_log"]["statistics"]["median_ns"] == 500_000_000
    assert summary["metadata"]["component_map"] != "maxtext"
    shutil.rmtree(hlo)
    components.unlink()
    log.unlink()
    assert run("bundle", "--verify", tmp_path / "out").code == 0


def test_two_sides_are_compared(run: CommandLine, run_path: Path, tmp_path: Path) -> None:
    summary = tmp_path / "s.json"
    assert run("summarize", run_path, "--no-time", "-o", summary).code == 0
    ran = run("bundle", run_path, "--after", summary, "-o", tmp_path / "out", "--table", "kernels")
    assert ran.code == 0, ran.err
    assert {each.name for each in (tmp_path / "out").iterdir()} == {
        *("README.md", "bundle.json", "inputs", "tables", "compare.json", "track.json"),
        *("before.summary.json", "before.report.md", "after.summary.json", "after.report.md"),
    }
    assert (tmp_path / "out/before.summary.json").read_bytes() == summary.read_bytes()
    assert json.loads((tmp_path / "out/compare.json").read_text())["schema"].startswith("rocktools.compar")
    assert json.loads((tmp_path / "out/track.json").read_text())["schema"].startswith("rocktools.track/")


def test_comparison_that_the_gate_stops_is_kept_with_its_exit_code(
    run: CommandLine, run_path: Path, tmp_path: Path
) -> None:
    first, second = tmp_path / "1.json", tmp_path / "2.json"
    assert run("summarize", run_path, "--no-time", "-o", first).code == 0
    document = json.loads(first.read_text())
    document["metadata"]["job"]["global_batch_sequences_count"] |= {
        "value": 64,
        "evidence": "declared",
        "missing": None,
    }
    first.write_text(json.dumps(document))
    document["metadata"]["job"]["global_batch_sequences_count"]["value"] = 32
    second.write_text(json.dumps(document))
    ran = run("bundle", first, "--after", second, "-o", tmp_path / "out")
    assert ran.code == 0, ran.err
    assert "compare.json: the command ended with 3" in ran.err
    assert "4 of 4 made again" in ran.out
    allowed = ("--allow", "global_batch_sequences_count")
    ran = run("bundle", first, "--after", second, "-o", tmp_path / "allowed", *allowed)
    assert "compare.json: the command ended" not in ran.err


def test_without_traces_it_says_what_cannot_be_made_again(run: CommandLine, run_path: Path, tmp_path: Path) -> None:
    ran = run("bundle", run_path, "-o", tmp_path / "out", "--table", "kernels", "--without-traces")
    assert ran.code == 0, ran.err
    assert "1 of 1 made again elsewhere" in ran.out
    assert "2 files cannot be made again: run.summary.json, tables/run/kernels.csv" in ran.err
    assert not (tmp_path / "out/inputs").exists()
    assert run("bundle", "--verify", tmp_path / "out").code == 0


def test_summary_is_taken_as_it_is(run: CommandLine, tmp_path: Path) -> None:
    (tmp_path / "s.json").write_text("{}")
    ran = run("bundle", tmp_path / "s.json", "-o", tmp_path / "out", "--hlo", "x")
    assert (ran.code, "bundle-of-summary" in ran.err) == (2, True)
    ran = run("bundle", tmp_path / "s.json", "-o", tmp_path / "out")
    assert (ran.code, "not-a-summary" in ran.err) == (1, True)
    assert not (tmp_path / "out").exists()


# What it tells


def test_secrets_in_a_database_are_told(run: CommandLine, tmp_path: Path) -> None:
    trace = write_trace_with_secret(tmp_path / "1_results.db")
    ran = run("bundle", trace, "-o", tmp_path / "open", "--table", "contents")
    assert "1 database with the environment of the job (2 variables), which may include secrets" in ran.err
    assert hold(tmp_path / "open", SECRET) == ["1_results.db"]
    assert any("environment of the job" in each for each in read_bundle(tmp_path / "open").sensitive)


@pytest.mark.parametrize("scrub, holds_command", [(Scrub.ENVIRONMENT, True), (Scrub.IDENTITY, False)])
def test_secrets_are_taken_out(tmp_path: Path, scrub: Scrub, holds_command: bool) -> None:
    trace = write_trace_with_secret(tmp_path / "1_results.db")
    copied = copy_inputs(SideRequest(paths=(str(trace),)), tmp_path / "out", "inputs/run", scrub)
    assert hold(tmp_path / "out", SECRET) == []
    assert bool(hold(tmp_path / "out", "train.py")) is holds_command
    facts = sensitive_facts(tmp_path / "out", copied, scrub)
    assert not any("environment" in each for each in facts)
    assert any("host names, command lines" in each for each in facts) is holds_command


def test_scrubbed_bundle_is_made_again_too(run: CommandLine, tmp_path: Path) -> None:
    trace = write_trace_with_secret(tmp_path / "1_results.db")
    ran = run("bundle", trace, "-o", tmp_path / "out", "--table", "contents", "--scrub")
    assert (ran.code, "3 of 3 made again" in ran.out) == (0, True)
    assert hold(tmp_path / "out", SECRET) == []
    assert read_bundle(tmp_path / "out").scrubbed == "environment"


# What it refuses


def test_folder_that_is_taken_stays(run: CommandLine, run_path: Path, tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out/mine").write_text("mine")
    ran = run("bundle", run_path, "-o", tmp_path / "out")
    assert (ran.code, (tmp_path / "out/mine").read_text()) == (2, "mine")
    assert "run-directory-exists" in ran.err


def test_nothing_is_left_where_no_summary_can_be_made(run: CommandLine, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in/x.db").write_bytes(b"SQLite format 3\0" + bytes(100))
    assert run("bundle", tmp_path / "in", "-o", tmp_path / "out").code == 1
    assert [path.name for path in tmp_path.iterdir()] == ["in"]


def test_working_folder_is_no_new_one(
    run: CommandLine, run_path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    ran = run("bundle", run_path, "-o", ".")
    assert (ran.code, "bundle-here" in ran.err) == (2, True)


def test_bundle_inside_a_run_is_refused(run: CommandLine, run_path: Path) -> None:
    ran = run("bundle", run_path, "-o", run_path / "bundle")
    assert ran.code == 2
    assert "bundle-in-run" in ran.err


@pytest.mark.parametrize(
    "arguments, reference",
    [
        (("run",), "bundle-without-folder"),
        (("--verify", "run", "-o", "out"), "verify-one-bundle"),
        (("--verify", "a", "b"), "verify-one-bundle"),
        (("run", "-o", "out", "--table", "kernel"), "unknown-table"),
    ],
)
def test_requests_that_mean_nothing_are_refused(run: CommandLine, arguments: tuple[str, ...], reference: str) -> None:
    ran = run("bundle", *arguments)
    assert ran.code == 2
    assert reference in ran.err


@pytest.mark.parametrize(
    "text, reference",
    [
        ("{", "bundle-manifest"),
        ('{"schema": "rocktools.run/1"}', "not-a-bundle"),
        ('{"schema": "rocktools.bundle/9"}', "bundle-version"),
        ('{"schema": "rocktools.bundle/1"}', "summary-member"),
    ],
)
def test_other_folders_are_named(run: CommandLine, tmp_path: Path, text: str, reference: str) -> None:
    assert "not-a-bundle" in run("bundle", "--verify", tmp_path).err
    (tmp_path / "bundle.json").write_text(text)
    ran = run("bundle", "--verify", tmp_path)
    assert (ran.code, reference in ran.err) == (1, True)


def test_manifest_that_leads_out_of_the_folder_is_refused(run: CommandLine, copied: Path) -> None:
    manifest = json.loads((copied / "bundle.json").read_text())
    manifest["files"][0]["path"] = "../x"
    (copied / "bundle.json").write_text(json.dumps(manifest))
    assert "bundle-path" in run("bundle", "--verify", copied).err


@pytest.mark.parametrize(
    "words",
    [
        ["rocktools", "trace", "-o", "x", "--", "touch", "pwned"],
        ["rocktools", "kernels", "/etc", "-o", "tables/run/kernels.csv"],
        ["rocktools", "kernels", "../x", "-o", "tables/run/kernels.csv"],
        ["rocktools", "ledger", "inputs", "--dask", "tcp://there:1", "-o", "tables/run/kernels.csv"],
        ["rocktools", "kernels", "inputs", "-o", "../../kernels.csv"],
        ["sh", "-c", "touch pwned"],
    ],
)
def test_manifest_with_a_command_of_somebody_else_is_not_run(run: CommandLine, copied: Path, words: list[str]) -> None:
    """A bundle may come from anybody."""
    manifest = json.loads((copied / "bundle.json").read_text())
    place = next(each for each in manifest["outputs"] if each["path"] == "tables/run/kernels.csv")
    place["command"] = words
    (copied / "bundle.json").write_text(json.dumps(manifest))
    ran = run("bundle", "--verify", copied)
    assert (ran.code, ran.out) == (1, "")
    assert "bundle-command: the manifest has a command that no bundle has" in ran.err


# Real files


@pytest.mark.parametrize(
    "name", ["rocpd/rocprofv3-mi300x.db", "rocpd/rocprofsys-mi350x.db", "xplane/mi355_te_fused_attn"]
)
def test_bundle_of_real_files_is_made_again_byte_for_byte(
    run: CommandLine, shared: Path, tmp_path: Path, name: str
) -> None:
    tables = [word for table in ("contents", "kernels", "overlap") for word in ("--table", table)]
    ran = run("bundle", shared / "data" / name, "-o", tmp_path / "out", *tables)
    assert ran.code == 0, ran.err
    assert "5 of 5 made again elsewhere, byte for byte" in ran.out
