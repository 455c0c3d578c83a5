"""`rocktools summarize`: documents in both shapes, logs, traces in JSON, and what it refuses."""

from __future__ import annotations

import json
from pathlib import Path

import jsonschema
import pytest
from command_line import CommandLine
from rocpd_files import write_small_trace
from scoped_run import write_scoped_run
from tiny_run import tiny_trace, write_tiny_profile
from trace_json import trace_document, write_trace_json

from rocktools.summary.document import SCHEMA_FILE, read_summary


@pytest.fixture(scope="module")
def run_path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_scoped_run(tmp_path_factory.mktemp("summarize") / "run")


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    return write_small_trace(tmp_path / "1_results.db")


def test_document_goes_into_a_new_file_and_reads_back(run: CommandLine, run_path: Path, tmp_path: Path) -> None:
    path = tmp_path / "summary.json"
    ran = run("summarize", run_path, "-o", path)
    assert ran.code == 0
    assert ran.out == ""
    assert "wrote" in ran.err
    document = json.loads(path.read_text(encoding="utf-8"))
    jsonschema.validate(document, json.loads(SCHEMA_FILE.read_text(encoding="utf-8")))
    assert read_summary(path).metadata.runs == ("run",)
    assert document["generated_at_utc"] is not None
    again = run("summarize", run_path, "-o", path)
    assert again.code == 2
    assert "output-exists" in again.err


def test_without_the_time_two_documents_are_the_same_bytes(run: CommandLine, trace: Path) -> None:
    first = run("summarize", "--no-time", trace)
    assert first.out == run("summarize", "--no-time", trace).out
    assert json.loads(first.out)["generated_at_utc"] is None


def test_shape_of_marin(run: CommandLine, trace: Path) -> None:
    document = json.loads(run("summarize", "--schema", "marin", trace).out)
    assert document["schema_version"] == "profile_summary.v1"
    assert list(document) == sorted(document)


def test_throughput_comes_from_the_log_alone(run: CommandLine, trace: Path, tmp_path: Path) -> None:
    log = tmp_path / "train.log"
    lines = [
        "Config param per_device_batch_size: 4.0",
        "Config param global_batch_size_to_train_on: 64",
        "Config param max_target_length: 4096",
        "Config param profiler: ",
        "Num_devices: 8, shape (4, 2)",
        *(
            f"completed step: {step}, seconds: {seconds}, loss: 1"
            for step, seconds in enumerate((90, 30, 20.599, 20.599))
        ),
    ]
    log.write_text("\n".join(lines), encoding="utf-8")
    document = json.loads(run("summarize", trace, "--step-log", log, "--log-warmup", 2).out)
    assert document["step_log"]["statistic"] == "median"
    assert document["throughput"]["tokens_per_step_count"]["value"] == 262_144
    assert document["throughput"]["tokens_per_device_per_s"]["value"] == pytest.approx(1590.757, abs=5e-4)
    assert document["provenance"]["inputs"][-1]["role"] == "step_log"
    without = json.loads(run("summarize", trace).out)
    assert without["throughput"] == without["step_log"]
    assert without["throughput"]["absence"] == "not_collected"


def test_trace_in_json_stands_for_a_profile_that_is_not_there(run: CommandLine, tmp_path: Path) -> None:
    profile = write_tiny_profile(tmp_path / "node7.xplane.pb", tiny_trace())
    document, _ = trace_document(profile)
    folder = tmp_path / "old" / "plugins" / "profile" / "1"
    write_trace_json(folder / "node7.trace.json.gz", document)
    write_trace_json(folder / "perfetto_trace.json.gz", document)
    theirs = json.loads(run("summarize", profile).out)
    ours = json.loads(run("summarize", tmp_path / "old").out)
    assert ours["metadata"]["source_formats"] == ["perfetto_json"]
    [source] = ours["provenance"]["inputs"]
    assert (source["path"], source["role"]) == ("node7.trace.json.gz", "perfetto_json")
    assert ours["ledger"]["total_sum_ns"] == theirs["ledger"]["total_sum_ns"]
    assert ours["overlap"]["mean"]["busy_ns"] == theirs["overlap"]["mean"]["busy_ns"]


def test_profile_is_preferred_to_the_trace_in_json_beside_it(run: CommandLine, tmp_path: Path) -> None:
    profile = write_tiny_profile(tmp_path / "node7.xplane.pb", tiny_trace())
    write_trace_json(tmp_path / "node7.trace.json.gz", trace_document(profile)[0])
    assert json.loads(run("summarize", tmp_path).out)["metadata"]["source_formats"] == ["xspace"]


def test_selections_that_a_summary_is_not_of_are_refused(run: CommandLine, trace: Path) -> None:
    for option in (("--device", "x"), ("--step", "1"), ("--all-steps",)):
        ran = run("summarize", trace, *option)
        assert ran.code == 2
        assert "summary-of-all" in ran.err


def test_files_that_cannot_be_read_end_in_one_message(run: CommandLine, trace: Path, tmp_path: Path) -> None:
    (tmp_path / "bad.trace.json").write_text("no json", encoding="utf-8")
    (tmp_path / "bad.log").write_text("no steps", encoding="utf-8")
    for arguments, reference in (
        (("none.db",), "no-such-file"),
        ((tmp_path / "bad.trace.json",), "not-a-perfetto-json"),
        ((trace, "--step-log", tmp_path / "bad.log"), "no-steps-in-log"),
        ((trace, "--step-log", tmp_path / "none.log"), "cannot-read"),
    ):
        ran = run("summarize", *arguments)
        assert ran.code == 1
        assert ran.out == ""
        assert reference in ran.err


def test_inputs_stay_as_they_were(run: CommandLine, trace: Path) -> None:
    before = {path: path.stat().st_mtime_ns for path in trace.parent.iterdir()}
    run("summarize", trace.parent)
    assert {path: path.stat().st_mtime_ns for path in trace.parent.iterdir()} == before


def test_a_batch_for_each_device_is_that_of_all_devices_of_the_program(run: CommandLine, tmp_path: Path) -> None:
    # One rank of eight was recorded, and nothing tells the global batch: 4 sequences x 2 microsteps x 8 devices.
    job = tmp_path / "job"
    assert run("demo", "-o", job, "--ranks", 1, "--steps", 2).code == 0
    manifest = job / "manifest.json"
    text = manifest.read_text(encoding="utf-8")
    assert "global_batch_size_to_train_on=64" in text
    manifest.write_text(
        text.replace("global_batch_size_to_train_on=64", "enable_checkpointing=false"), encoding="utf-8"
    )
    metadata = json.loads(run("summarize", job, "--no-hashes").out)["metadata"]
    assert metadata["devices_count"] == 1
    assert metadata["job"]["global_batch_sequences_count"]["value"] == 64
    assert metadata["job"]["global_batch_sequences_count"]["evidence"] == "declared"
