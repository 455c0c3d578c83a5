"""What lies beside the demo's recordings, read by what reads a real job's."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from rocktools.analytic.occurrences import read_workload
from rocktools.demo.job_documents import job_settings
from rocktools.demo.packed_programs import ProgramName, read_packed
from rocktools.rundir import read_manifest
from rocktools.sources.step_log import read_step_log

# The sizes of scripts/demo_train_step.py: products of one token in a layer, the head's aside.
HIDDEN, INTERMEDIATE, HEADS, KEYS, SEQUENCE, VOCABULARY, CAPACITY_RATIO = 6144, 16384, 6144, 1024, 4096, 32768, 2.5
LAYERS, TOKENS, DEVICES = 4, 2 * 4 * 4096, 8


def test_the_step_log_is_one_of_maxtext_with_the_settings_of_the_job(demo_run: Path, packed) -> None:
    log = read_step_log(demo_run / "logs" / "steps.log")
    assert len(log.steps) == 16
    assert {each.tokens_count for each in log.steps} == {TOKENS * DEVICES}
    truth = json.loads((demo_run / "truth" / "job.json").read_text(encoding="utf-8"))
    warm = sorted(each.duration_ns for each in log.steps[1:])
    # Tracing costs a little.
    assert 0.95 < warm[len(warm) // 2] / min(truth["step_ns"]) < 1.0
    assert log.steps[0].duration_ns > 10 * warm[0]
    text = (demo_run / "logs" / "steps.log").read_text(encoding="utf-8")
    assert all(f"Config param {name}: {value}\n" in text for name, value in job_settings(packed).items())


def test_its_flop_are_those_of_forward_and_backward(demo_run: Path) -> None:
    """By hand: three times those of the forward products, gradients of both operands included."""
    log = read_step_log(demo_run / "logs" / "steps.log")
    projections = 2 * HIDDEN * (HEADS + KEYS + KEYS + HEADS)
    attention = 2 * 2 * SEQUENCE * HEADS  # all keys are multiplied, seen or not
    experts = 3 * 2 * HIDDEN * INTERMEDIATE * CAPACITY_RATIO
    places = 2 * 2 * int(SEQUENCE * CAPACITY_RATIO) * HIDDEN  # to the experts and back, as products with masks
    by_hand = 3 * TOKENS * (LAYERS * (projections + attention + experts + places) + 2 * HIDDEN * VOCABULARY)
    for step in log.steps[1:]:
        assert step.flop_per_device_per_s is not None
        assert step.flop_per_device_per_s * step.duration_ns / 1e9 == pytest.approx(by_hand, rel=0.05)


def test_the_workload_is_one_that_ledgers_take(demo_run: Path) -> None:
    workload = read_workload(demo_run / "workload.yaml")
    assert (workload.layers, workload.microsteps, workload.devices) == (4, 2, 2)
    assert len(workload.expectations) == 4


def test_the_manifest_names_program_settings_and_what_was_not_run(demo_run: Path, packed) -> None:
    manifest = read_manifest(demo_run)
    assert manifest.facts["job"]["settings"] == job_settings(packed)
    assert manifest.facts["program"]["layers"] == 4
    (trace,) = manifest.passes
    assert "per_device_batch_size=4" in trace.argv
    assert (trace.outcome, trace.is_verified) == ("simulated: nothing was run", False)


def test_variants_differ_in_the_settings_that_they_change_and_no_others(packed) -> None:
    base = job_settings(packed)
    changed = {
        name: {key for key, value in job_settings(read_packed(name)).items() if value != base[key]}
        for name in ProgramName
    }
    assert changed == {
        ProgramName.SHORT: set(),
        ProgramName.SMALL_BATCH: {"per_device_batch_size", "global_batch_size_to_train_on"},
        ProgramName.WIDE_EXPERTS: {"base_moe_mlp_dim"},
        ProgramName.SPLIT_ATTENTION: {"attention_query_parts"},
        ProgramName.FULL: {"base_num_decoder_layers"},
    }
