"""A scenario -> a run directory as a job on a node of eight MI355X would have left it, and the truth about it.

    trace/      a rocpd database for each recorded rank        hlo/     what XLA dumped of the program
    pmc/        counter passes of rank 0                       logs/    step times of the job without a profiler
    workload.yaml   how often what must occur                  truth/   what really happened

The program is real. Nothing else is: databases, manifest and tables say that they are simulated.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from rocktools.demo.job_counters import COUNTED_QUANTITIES, PASSES, write_counter_pass
from rocktools.demo.job_database import Registers, process_id, write_rank_database
from rocktools.demo.job_recording import RankRecording, record_rank
from rocktools.demo.job_scenario import Fault, JobScenario
from rocktools.demo.job_simulation import RECOMPILED, RECOMPILED_ID, SimulatedJob, simulate_job
from rocktools.demo.job_steps import JobStep
from rocktools.demo.job_truth import TRUTH_FOLDER, describe_job, write_truth
from rocktools.demo.job_work import JobProgram, measure_program, read_registers
from rocktools.demo.packed_programs import DEVICES_COUNT, SEQUENCE_TOKENS, PackedProgram, read_packed
from rocktools.devices.files import read_device
from rocktools.hlo.dumps import find_dumps, read_program
from rocktools.rundir import (
    HLO_FOLDER,
    LOGS_FOLDER,
    PMC_FOLDER,
    TRACE_FOLDER,
    Manifest,
    create_run_directory,
    hash_files,
    write_manifest,
)
from rocktools.units import NS_PER_S

DEVICE = "MI355X"
WORKLOAD_NAME = "workload.yaml"
STEP_LOG_NAME = "steps.log"
_UNPROFILED_STEPS = 8
_PROFILER_COST_RATIO = 0.012  # what a step takes longer while it is traced


@dataclass(frozen=True, slots=True, kw_only=True)
class DemoTotals:
    """What was written.

    Attributes:
        ranks_count: recorded processes.
        steps_count: recorded steps.
        dispatches_count: of all traces.
        counter_passes_count: counter passes.
        size_bytes: of the whole folder.
        injected: names of what went wrong.
    """

    ranks_count: int
    steps_count: int
    dispatches_count: int
    counter_passes_count: int
    size_bytes: int
    injected: tuple[str, ...]


def write_demo_run(
    run: Path,
    scenario: JobScenario,
    *,
    argv: tuple[str, ...],
    created_utc: str,
    on_progress: Callable[[int, int], None] | None = None,
) -> DemoTotals:
    """Make the run directory `run` (not there yet, or empty).

    Args:
        argv: the command that asks for it, for the manifest.
        created_utc: now, ISO 8601 in UTC.
        on_progress: called with what is done and what there is to do.

    Raises:
        UsageError: something is there already.
    """
    create_run_directory(run)
    for name in (HLO_FOLDER, TRACE_FOLDER, PMC_FOLDER, LOGS_FOLDER, TRUTH_FOLDER):
        (run / name).mkdir()
    packed = read_packed(scenario.program)
    packed.write(run / HLO_FOLDER)
    also = [read_packed(RECOMPILED)] if Fault.RECOMPILE in scenario.faults else []
    for other in also:
        other.write(run / HLO_FOLDER, program_id=RECOMPILED_ID)
    job = simulate_job(_programs(run / HLO_FOLDER, [packed, *also]), scenario)
    registers = [read_registers(one.kernels_csv) for one in (packed, *also)]
    recordings = _write_passes(run, job, registers, on_progress or _tell_nobody)
    (run / WORKLOAD_NAME).write_text(workload_text(packed, scenario), encoding="utf-8")
    (run / LOGS_FOLDER / STEP_LOG_NAME).write_text(step_log(job, packed), encoding="utf-8")
    write_truth(run / TRUTH_FOLDER, job, recordings)
    manifest = Manifest(
        argv=argv,
        created_utc=created_utc,
        is_simulated=True,
        facts=_facts(job, packed),
        files=hash_files(run),
    )
    write_manifest(run, manifest)
    return DemoTotals(
        ranks_count=scenario.ranks_count,
        steps_count=scenario.steps_count,
        dispatches_count=sum(len(recording.dispatches.kernel) for recording in recordings),
        counter_passes_count=len(PASSES),
        size_bytes=sum(path.stat().st_size for path in run.rglob("*") if path.is_file()),
        injected=tuple(each.name for each in job.injections),
    )


def _tell_nobody(done: int, total: int) -> None:
    """For who does not want to know."""


def _write_passes(
    run: Path, job: SimulatedJob, registers: Sequence[Registers], on_progress: Callable[[int, int], None]
) -> list[RankRecording]:
    """The traces of the recorded ranks, and the counter passes. Returns what the traces hold."""
    scenario, recordings = job.scenario, []
    total = scenario.ranks_count + len(PASSES)
    for rank in range(scenario.ranks_count):
        recordings.append(record_rank(job, rank))
        path = run / TRACE_FOLDER / f"rank_{rank}_{process_id(rank)}_results.db"
        write_rank_database(recordings[-1], path, registers=registers, seed=scenario.seed)
        on_progress(rank + 1, total)
    for number, group in enumerate(PASSES):
        (run / PMC_FOLDER / group).mkdir()
        path = run / PMC_FOLDER / group / f"rank_0_{process_id(0) + 1_000 * (number + 1)}_results.db"
        write_counter_pass(job, path, group=group, number=number)
        on_progress(scenario.ranks_count + number + 1, total)
    return recordings


def _programs(folder: Path, packed: list[PackedProgram]) -> list[JobProgram]:
    """The dumped programs, in the order of their ids."""
    device = read_device(DEVICE)
    found = sorted((read_program(dump) for dump in find_dumps(folder)), key=lambda each: int(each.module.label))
    return [measure_program(each, device, name=one.name) for each, one in zip(found, packed, strict=True)]


def _facts(job: SimulatedJob, packed: PackedProgram) -> dict[str, Any]:
    facts, scenario = packed.facts, job.scenario
    return {
        "program": {
            "name": str(packed.name),
            **asdict(facts),
            "versions": dict(packed.versions),
            "origin": "compiled ahead of time for gfx950 from scripts/demo_train_step.py; never run",
        },
        "job": {
            "config": {
                "num_layers": facts.layers,
                "gradient_accumulation_steps": facts.microsteps,
                "per_device_batch_size": facts.sequences_per_device,
                "max_target_length": SEQUENCE_TOKENS,
                "devices_count": DEVICES_COUNT,
            },
            "workload": WORKLOAD_NAME,
            "step_log": f"{LOGS_FOLDER}/{STEP_LOG_NAME}",
        },
        "ranks_count": scenario.ranks_count,
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
        f"steps: {scenario.steps_count}",
        "expectations:",
        "  - {title: wi_0 forward, phase: forward, scope: wi_0, activity: compute}",
        "  - {title: wi_1 forward, phase: forward, scope: wi_1, activity: compute}",
        "  - {title: replayed wi_0, phase: rematerialized, scope: wi_0, activity: compute}",
        "  - {title: expert gradients, phase: backward, component: expert_mlp, collective: reduce-scatter, each: 3}",
    ]
    return "\n".join(lines) + "\n"


def step_log(job: SimulatedJob, packed: PackedProgram) -> str:
    """Step times of the job before it was profiled, as a training framework prints them."""
    facts = packed.facts
    steady = job.times.step_ns[1:] if Fault.WARM_UP_CAPTURE in job.scenario.faults else job.times.step_ns
    usual_s = float(np.median(steady)) / NS_PER_S / (1 + _PROFILER_COST_RATIO)
    rng = np.random.default_rng([job.scenario.seed, 41])
    tokens = facts.microsteps * facts.sequences_per_device * SEQUENCE_TOKENS
    flop = _flop_per_step(job.steps[0])
    first = max(job.scenario.first_step - _UNPROFILED_STEPS, 0)
    lines = ["# Simulated: no hardware produced these numbers."]
    loss = 10.4
    for step in range(first, first + _UNPROFILED_STEPS):
        seconds = usual_s * float(np.exp(rng.normal(0, 0.004)))
        loss -= float(rng.uniform(0.01, 0.05))
        lines.append(
            f"completed step: {step}, seconds: {seconds:.3f}, TFLOP/s/device: {flop / seconds / 1e12:.3f}, "
            f"Tokens/s/device: {tokens / seconds:.3f}, total_weights: {tokens * DEVICES_COUNT}, loss: {loss:.3f}"
        )
    return "\n".join(lines) + "\n"


def _flop_per_step(step: JobStep) -> int:
    """Of one device, as the compiler estimates them."""
    rows = step.rows
    launched = rows.site[(rows.site >= 0) & (rows.kernel_index == 0)]
    counts = np.bincount(launched, minlength=len(step.program.sites)).tolist()
    return sum(site.flop * count for site, count in zip(step.program.sites, counts, strict=True))
