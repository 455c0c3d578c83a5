"""Texts and facts beside the recordings of a simulated job: command line, log, workload, facts of the manifest.

Settings have the names of MaxText, so that what reads a real job's log and command line reads this one's, too.
"""

from __future__ import annotations

import shlex
from dataclasses import asdict
from typing import Any

import numpy as np

from rocktools.demo.job_counters import COUNTED_QUANTITIES
from rocktools.demo.job_scenario import Fault, JobScenario
from rocktools.demo.job_simulation import SimulatedJob
from rocktools.demo.job_steps import JobStep
from rocktools.demo.job_truth import describe_job
from rocktools.demo.packed_programs import DEVICES_COUNT, SEQUENCE_TOKENS, PackedProgram
from rocktools.rundir import LOGS_FOLDER, TRACE_FOLDER, PassRecord
from rocktools.units import NS_PER_S

WORKLOAD_NAME = "workload.yaml"
STEP_LOG_NAME = "steps.log"
XLA_FLAGS = "--xla_gpu_enable_command_buffer="

_UNPROFILED_STEPS = 16
_COMPILE_S = 23.4
_PROFILER_COST_RATIO = 0.012  # what a step takes longer while it is traced
_FIRST_LOSS = 10.4
_PACKAGES = {"plugin": "jax-rocm7-pjrt"}
_EXPERT_GROUP = 2


def job_settings(packed: PackedProgram) -> dict[str, str]:
    """The configuration of the job, by MaxText's names."""
    facts = packed.facts
    sequences = facts.sequences_per_device * facts.microsteps * DEVICES_COUNT
    settings: dict[str, object] = {
        "run_name": "demo",
        "model_name": "mixtral-8x22b",
        "base_num_decoder_layers": facts.layers,
        "base_moe_mlp_dim": facts.intermediate,
        "per_device_batch_size": facts.sequences_per_device,
        "gradient_accumulation_steps": facts.microsteps,
        "global_batch_size_to_train_on": sequences,
        "max_target_length": SEQUENCE_TOKENS,
        "dtype": "bfloat16",
        "weight_dtype": "bfloat16",
        "remat_policy": "full",
        "attention": "dot_product",
        "attention_query_parts": facts.query_parts,
        "opt_type": "adamw",
        "dataset_type": "synthetic",
        "hardware": "gpu",
        "ici_fsdp_parallelism": DEVICES_COUNT // _EXPERT_GROUP,
        "ici_expert_parallelism": _EXPERT_GROUP,
    }
    return {name: str(value) for name, value in settings.items()}


def job_argv(packed: PackedProgram) -> tuple[str, ...]:
    """The command line that such a job would have."""
    return ("python", "train.py", *(f"{name}={value}" for name, value in job_settings(packed).items()))


def trace_pass(packed: PackedProgram, scenario: JobScenario) -> PassRecord:
    """The pass that would have left the traces. It was not made, and says so."""
    return PassRecord(
        name="trace",
        kind="trace",
        attempt=1,
        folder=TRACE_FOLDER,
        argv=("rocprofv3", "--runtime-trace", "--marker-trace", "--output-format", "rocpd", "--", *job_argv(packed)),
        environment_added={"XLA_FLAGS": XLA_FLAGS},
        outcome="simulated: nothing was run",
        facts={"steps_count": scenario.steps_count},
    )


def manifest_facts(job: SimulatedJob, packed: PackedProgram) -> dict[str, Any]:
    """What the manifest says of program, job and simulation."""
    return {
        "program": {
            "name": str(packed.name),
            **asdict(packed.facts),
            "versions": dict(packed.versions),
            "origin": "compiled ahead of time for gfx950 from scripts/demo_train_step.py; never run",
        },
        "job": {
            "command": shlex.join(job_argv(packed)),
            "settings": job_settings(packed),
            "workload": WORKLOAD_NAME,
            "step_log": f"{LOGS_FOLDER}/{STEP_LOG_NAME}",
        },
        "packages": {_PACKAGES.get(name, name): version for name, version in packed.versions.items()},
        "ranks_count": job.scenario.ranks_count,
        "metrics": list(COUNTED_QUANTITIES),
        "simulation": describe_job(job),
    }


def workload_text(packed: PackedProgram, scenario: JobScenario) -> str:
    """What a step must contain, for `rocktools ledger --workload`: the devices are those that were recorded."""
    facts = packed.facts
    lines = [
        "# Of a simulated job. What each device must run in one step.",
        "schema: rocktools.workload/1",
        f'name: "{facts.title}"',
        f"layers: {facts.layers}",
        f"microsteps: {facts.microsteps}",
        f"devices: {scenario.ranks_count}",
        "expectations:",
        "  - {title: wi_0 forward, phase: forward, scope: wi_0, activity: compute}",
        "  - {title: wi_1 forward, phase: forward, scope: wi_1, activity: compute}",
        "  - {title: replayed wi_0, phase: rematerialized, scope: wi_0, activity: compute}",
        "  - {title: expert gradients, phase: backward, component: expert_mlp, collective: reduce-scatter, each: 3}",
    ]
    return "\n".join(lines) + "\n"


def step_log(job: SimulatedJob, packed: PackedProgram) -> str:
    """What the job printed when it ran without a profiler: its configuration, and its first steps."""
    settings, facts = job_settings(packed), packed.facts
    usual_s = _usual_step_ns(job) / NS_PER_S / (1 + _PROFILER_COST_RATIO)
    tokens = facts.microsteps * facts.sequences_per_device * SEQUENCE_TOKENS
    flop = _useful_flop(job.steps[0])
    rng = np.random.default_rng([job.scenario.seed, 41])
    lines = [
        "# Simulated: no hardware produced these numbers.",
        *(f"System Information: {name} Version: {packed.versions[name.lower()]}" for name in ("Jax", "Jaxlib")),
        f"Num_devices: {DEVICES_COUNT}, shape ({DEVICES_COUNT // _EXPERT_GROUP}, {_EXPERT_GROUP})",
        *(f"Config param {name}: {value}" for name, value in settings.items()),
    ]
    loss = _FIRST_LOSS
    for step in range(_UNPROFILED_STEPS):
        seconds = usual_s * float(np.exp(rng.normal(0, 0.004))) + (_COMPILE_S if step == 0 else 0)
        loss -= float(rng.uniform(0.01, 0.05))
        lines.append(
            f"completed step: {step}, seconds: {seconds:.3f}, TFLOP/s/device: {flop / seconds / 1e12:.3f}, "
            f"Tokens/s/device: {tokens / seconds:.3f}, total_weights: {tokens * DEVICES_COUNT}, loss: {loss:.3f}"
        )
    return "\n".join(lines) + "\n"


def _usual_step_ns(job: SimulatedJob) -> float:
    """Of the steps that run the job's own program, the warm ones."""
    is_usual = [step.number == 0 for step in job.steps]
    if Fault.WARM_UP_CAPTURE in job.scenario.faults:
        is_usual[0] = len(is_usual) == 1
    return float(np.median(job.times.step_ns[np.array(is_usual)]))


def _useful_flop(step: JobStep) -> int:
    """Of one device and step, as the compiler estimates them, without what is calculated again."""
    rows = step.rows
    launched = rows.site[(rows.site >= 0) & (rows.kernel_index == 0)]
    counts = np.bincount(launched, minlength=len(step.program.sites)).tolist()
    sites = zip(step.program.sites, counts, strict=True)
    return sum(site.flop * count for site, count in sites if site.phase != "rematerialized")
