"""What captures recorded becomes facts; what they did not is missing with a reason; no path of the machine is left."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from rocpd_files import write_counter_pass, write_small_trace

from rocktools.evidence import Absence, Evidence
from rocktools.rundir import Manifest, PassRecord, create_run_directory, write_manifest
from rocktools.summary.build import build_summary
from rocktools.summary.document import Fact, Summary, render_summary
from rocktools.summary.gathered import SummaryOptions

FACTS: Mapping[str, Any] = {
    "host": {"hostname": "node7", "kernel_release": "6.8", "driver_version": "6.14.5", "performance_levels": ["auto"]},
    "tool": {"executable": "rocprofv3", "version": "1.3.2", "rocm_version": "7.14.0"},
    "packages": {"jax": "0.10.2", "jaxlib": "0.10.2", "jax-rocm7-pjrt": "0.10.2"},
    "environment": {"XLA_FLAGS": "--xla_gpu_enable_command_buffer= --xla_a=1"},
}
TRACED = ("rocprofv3", "--runtime-trace", "--output-directory", "/scratch/run/trace", "--output-format", "rocpd", "--",
          "python", "train.py", "dtype=bfloat16")  # fmt: skip


def _run(folder: Path, name: str, facts: Mapping[str, Any] = FACTS) -> Path:
    run = create_run_directory(folder / name)
    (run / "trace").mkdir()
    write_small_trace(run / "trace" / "1_results.db")
    record = PassRecord(
        name="trace",
        kind="trace",
        attempt=1,
        folder="trace",
        argv=TRACED,
        environment_added={"A": "b c"},
        environment_removed=("LD_PRELOAD",),
        is_verified=True,
    )
    argv = ("rocktools", "trace", "-o", "run")
    write_manifest(run, Manifest(argv=argv, created_utc="", is_simulated=True, facts=facts, passes=(record,)))
    return run


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory, options: SummaryOptions) -> Summary:
    return build_summary([_run(tmp_path_factory.mktemp("provenance"), "run")], options)


@pytest.mark.parametrize(
    "name, value",
    [
        ("jax_version", "0.10.2"),
        ("jaxlib_version", "0.10.2"),
        ("jax_plugin_version", "0.10.2"),
        ("rocm_version", "7.14.0"),
        ("driver_version", "6.14.5"),
        ("kernel_version", "6.8"),
        ("rocprofv3_version", "1.3.2"),
        ("host_name", "node7"),
        ("performance_level", "auto"),
        ("xla_flags", "--xla_gpu_enable_command_buffer= --xla_a=1"),
        ("command_buffers", "off"),
        ("argv", "python train.py dtype=bfloat16"),
        # Where it wrote to says nothing about how it profiled.
        ("profiler_options", "--runtime-trace --output-format rocpd"),
        ("environment_added", "'A=b c'"),
        ("environment_removed", "LD_PRELOAD"),
        ("device_arch", "gfx950"),
    ],
)
def test_what_was_recorded_is_a_fact(recorded: Summary, name: str, value: str) -> None:
    fact = recorded.provenance.facts[name]
    assert fact.value == value
    assert fact.evidence in (Evidence.DECLARED, Evidence.MEASURED)
    assert fact.source


@pytest.mark.parametrize("name", ["firmware_version", "container", "engine_clock_hz", "memory_partition"])
def test_what_no_capture_records_is_missing_and_not_a_default(recorded: Summary, name: str) -> None:
    fact = recorded.provenance.facts[name]
    assert fact.value is None
    assert fact.missing is not None
    assert fact.missing.absence is Absence.NOT_COLLECTED


def test_settings_of_the_command_line_are_facts_of_the_job(recorded: Summary) -> None:
    fact = recorded.metadata.job["dtype"]
    assert fact == Fact(value="bfloat16", evidence=Evidence.DECLARED, source="run/manifest.json: argv")


def test_without_a_manifest_the_trace_still_tells_its_command(tmp_path: Path, options: SummaryOptions) -> None:
    facts = build_summary([write_small_trace(tmp_path / "1_results.db")], options).provenance.facts
    assert facts["argv"].value is not None
    assert facts["argv"].evidence is Evidence.MEASURED
    assert facts["jax_version"].missing is not None
    assert "manifest" in facts["jax_version"].missing.reason


def test_of_what_two_runs_have_differently_there_is_no_value(tmp_path: Path, options: SummaryOptions) -> None:
    other = {**FACTS, "packages": {"jax": "0.11.0", "jaxlib": "0.10.2"}}
    runs = [_run(tmp_path, "a"), _run(tmp_path, "b", other)]
    facts = build_summary(runs, options).provenance.facts
    assert facts["jax_version"].missing is not None
    assert facts["jax_version"].missing.absence is Absence.AMBIGUOUS
    assert "0.10.2, 0.11.0" in facts["jax_version"].missing.reason
    assert facts["jaxlib_version"].value == "0.10.2"


def test_counters_that_were_named_are_inputs(tmp_path: Path, options: SummaryOptions) -> None:
    (tmp_path / "elsewhere").mkdir()
    counters = write_counter_pass(tmp_path / "elsewhere" / "2_results.db")
    trace = write_small_trace(tmp_path / "1_results.db")
    for named in (counters, counters.parent):
        inputs = build_summary([trace], replace(options, counters=(named,))).provenance.inputs
        assert {(each.path, each.role) for each in inputs} == {
            ("1_results.db", "trace"),
            ("2_results.db", "counters"),
        }


def test_no_message_names_a_folder_of_the_machine(tmp_path: Path, options: SummaryOptions) -> None:
    run = _run(tmp_path, "run")
    (run / "trace" / "2_results.db").write_bytes(b"SQLite format 3\0 and nothing more")
    (run / "manifest.json").unlink()
    found = build_summary([run], options)
    assert any("2_results.db" in each.where for each in found.quality.findings)
    assert str(tmp_path) not in render_summary(found)
