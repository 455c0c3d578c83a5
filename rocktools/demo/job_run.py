"""A scenario -> a run directory as a job on a node of eight MI355X would have left it, and the truth about it.

    trace/      a rocpd database for each recorded rank        hlo/     what XLA dumped of the program
    pmc/        counter passes of rank 0                       logs/    step times of the job without a profiler
    workload.yaml   how often what must occur                  truth/   what really happened

The program is real. Nothing else is: databases, manifest and tables say that they are simulated.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from rocktools.demo.job_counters import PASSES, write_counter_pass
from rocktools.demo.job_database import Registers, process_id, write_rank_database
from rocktools.demo.job_documents import (
    STEP_LOG_NAME,
    WORKLOAD_NAME,
    manifest_facts,
    step_log,
    trace_pass,
    workload_text,
)
from rocktools.demo.job_recording import RankRecording, record_rank
from rocktools.demo.job_scenario import Fault, JobScenario
from rocktools.demo.job_simulation import RECOMPILED, RECOMPILED_ID, SimulatedJob, simulate_job
from rocktools.demo.job_truth import TRUTH_FOLDER, write_truth
from rocktools.demo.job_work import JobProgram, measure_program, read_registers
from rocktools.demo.packed_programs import PackedProgram, read_packed
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

DEVICE = "MI355X"


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
        facts=manifest_facts(job, packed),
        files=hash_files(run),
        passes=(trace_pass(packed, scenario),),
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
