"""What a job was, by its command line and its log; the figures of the Mixtral study."""

from __future__ import annotations

from pathlib import Path

import pytest

from rocktools.evidence import Absence, Evidence
from rocktools.rundir import Manifest, PassRecord
from rocktools.summary.document import JOB_FACTS
from rocktools.summary.job import check_log_matches, job_facts, settings_of_runs
from rocktools.summary.recorded import RecordedRun

ARGV = (
    *("python", "-m", "maxtext.train", "cfg.yml", "per_device_batch_size=4", "gradient_accumulation_steps=2"),
    *("max_target_length=4096", "dtype=bfloat16", "ici_fsdp_parallelism=4", "ici_expert_parallelism=2"),
    *("dcn_data_parallelism=1", "remat_policy=save_dot_with_context_except_mlp", "profiler=", "run_name=a"),
)


def _run(*, argv: tuple[str, ...] = (), traced: tuple[str, ...] | None = None) -> RecordedRun:
    passes = ()
    if traced is not None:
        record = PassRecord(name="trace", kind="trace", attempt=1, folder="trace", argv=traced, is_verified=True)
        passes = (record,)
    manifest = Manifest(argv=argv, created_utc="", is_simulated=True, passes=passes)
    return RecordedRun(label="r", root=Path("r"), manifest=manifest)


def _said(**settings: str) -> dict[str, tuple[str, str]]:
    return {name: (text, "x") for name, text in settings.items()}


def test_settings_are_of_the_job_and_not_of_the_tool() -> None:
    run = _run(argv=("rocktools", "trace", "-o", "steps=9", "--", *ARGV))
    found = settings_of_runs([run])
    assert found["per_device_batch_size"] == ("4", "r/manifest.json: argv")
    assert "steps" not in found
    assert settings_of_runs([_run(traced=("rocprofv3", "--", *ARGV))]).keys() == found.keys()
    assert settings_of_runs([_run(argv=("test",))]) == {}


def test_setting_in_which_runs_differ_is_none() -> None:
    runs = [_run(argv=("x", "--", f"dtype={name}", "steps=4")) for name in ("bfloat16", "float32")]
    assert set(settings_of_runs(runs)) == {"steps"}


def test_batch_and_tokens_of_the_mixtral_study() -> None:
    """4 sequences for each of 8 devices in each of 2 microsteps: 64, and 64 * 4096 = 262,144 tokens."""
    facts = job_facts(settings_of_runs([_run(argv=("x", "--", *ARGV))]), {}, 8)
    assert set(facts) == set(JOB_FACTS)
    assert facts["global_batch_sequences_count"].value == 64
    assert facts["tokens_per_step_count"].value == 262_144
    assert facts["tokens_per_step_count"].evidence is Evidence.DECLARED
    assert facts["mesh"].value == "ici_expert=2 ici_fsdp=4"
    assert facts["remat_policy"].value == "save_dot_with_context_except_mlp"
    assert facts["profiler"].value == ""


def test_resolved_global_batch_is_not_multiplied_by_the_devices_again() -> None:
    said = _said(per_device_batch_size="4", gradient_accumulation_steps="2", global_batch_size_to_train_on="64")
    facts = job_facts({}, said, 8)
    assert facts["global_batch_sequences_count"].value == 64


@pytest.mark.parametrize("missing", ["per_device_batch_size", "gradient_accumulation_steps"])
def test_what_is_not_told_is_not_guessed(missing: str) -> None:
    said = _said(per_device_batch_size="4", gradient_accumulation_steps="2", max_target_length="4096")
    del said[missing]
    facts = job_facts(said, {}, 8)
    for name in ("global_batch_sequences_count", "tokens_per_step_count"):
        assert facts[name].value is None
        assert facts[name].missing is not None
        assert facts[name].missing.absence is Absence.NOT_COLLECTED


def test_log_of_another_job_is_told() -> None:
    job = _said(dtype="bfloat16", per_device_batch_size="4", steps="5", profiler="xplane")
    same = _said(dtype="'bfloat16'", per_device_batch_size="4.0", steps="90", profiler="")
    assert check_log_matches(job, same, "log") == ()
    [finding] = check_log_matches(job, {**same, **_said(dtype="float32")}, "log")
    assert finding.rule == "step-log-of-another-job"
    assert "dtype (bfloat16 and float32)" in finding.message


def test_configuration_has_one_hash_whatever_the_run_is_called() -> None:
    one = job_facts({}, _said(dtype="bfloat16", run_name="a", steps="4"), 8)["config_sha256"]
    other = job_facts({}, _said(dtype="bfloat16", run_name="b", steps="9"), 8)["config_sha256"]
    third = job_facts({}, _said(dtype="float32", run_name="a", steps="4"), 8)["config_sha256"]
    assert one.value == other.value != third.value
