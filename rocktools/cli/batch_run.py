"""`rocktools batch run`: a plan under rocprof-compute, kernel by kernel, with what came of it."""

from __future__ import annotations

import os
import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from rocktools.cli.output import TableOutput, emit_findings, emit_table
from rocktools.errors import EXIT_FAILURE, EXIT_GOOD, UsageError

if TYPE_CHECKING:
    from rocktools.batch.jobs import Work
    from rocktools.batch.run import BatchReport
    from rocktools.batch.state import BatchState
    from rocktools.capture.compute_command import ComputeTool
    from rocktools.findings import Finding

_path = click.Path(path_type=Path)
_OPTIONAL = ("reason", "passes_count", "attempts_count", "run_s", "launches_count", "what", "kernel_name")


@click.command("run")
@click.argument("plan_path", metavar="PLAN", type=_path)
@click.option("-o", "--output", "run", metavar="DIR", required=True, type=_path, help="The run directory to make.")
@click.option("--resume", is_flag=True, help="Go on in DIR with what is not done; what is done is looked at again.")
@click.option("--devices", metavar="0,1,...",
              help="GPUs, counted among those that are visible: one job at a time on each.  [default: one job at a "
              "time on whatever is visible]")  # fmt: skip
@click.option("--timeout", "deadline_s", metavar="SECONDS", type=click.FloatRange(min=0, min_open=True),
              help="Stop a job that runs longer, all its passes together.  [default: never]")  # fmt: skip
@click.option("--rocprof-compute", "program", metavar="PATH", type=_path,
              help="The rocprof-compute to run.  [default: searched for]")  # fmt: skip
@click.option("--compute-python", metavar="PATH", type=_path,
              help="The Python that has its requirements.  [default: found]")  # fmt: skip
@click.option("--python", metavar="PATH", type=_path,
              help="The Python of the replays, with JAX.  [default: the one that runs rocktools]")  # fmt: skip
@click.option("--no-peaks", "has_peaks", is_flag=True, flag_value=False, default=True,
              help="Do not measure the peaks of the GPU.")  # fmt: skip
@click.option("--no-analysis", "has_analysis", is_flag=True, flag_value=False, default=True,
              help="Do not call `rocprof-compute analyze` at the end.")  # fmt: skip
@click.option("--dry-run", is_flag=True, help="Print exactly what would run, and what it costs; run nothing.")
@click.option("--compute-version", metavar="X.Y",
              help="With --dry-run: plan for this rocprof-compute instead of looking for one.")  # fmt: skip
def run(
    plan_path: Path,
    run: Path,
    resume: bool,
    devices: str | None,
    deadline_s: float | None,
    program: Path | None,
    compute_python: Path | None,
    python: Path | None,
    has_peaks: bool,
    has_analysis: bool,
    dry_run: bool,
    compute_version: str | None,
) -> int:
    """Profile every kernel of PLAN alone, each in a folder of its own, and check that its rows are there.

    The peaks of the GPU are measured once; at the end `rocprof-compute analyze` makes tables of all that is done. What
    fails in a way that passes by itself is tried once more. DIR/state.json knows after every step how far it is.
    Exit code 1 if any job failed or was interrupted; all others are kept.
    """
    from rocktools.batch.document import read_plan
    from rocktools.batch.jobs import Work, check_kernels, check_levels, map_devices, require_commands
    from rocktools.batch.state import STATE_NAME
    from rocktools.capture.compute_versions import check_compute_version
    from rocktools.rundir import require_free

    if compute_version is not None and not dry_run:
        raise UsageError("assumed-version", "--compute-version says what to plan for, and goes with --dry-run")
    if not resume:
        if (run / STATE_NAME).is_file():
            raise UsageError(
                "batch-exists",
                "there is a batch in this folder already",
                where=str(run),
                hint="--resume goes on with it; or name a new folder",
            )
        require_free(run)
    plan = read_plan(plan_path)
    kernels = check_kernels(plan, plan_path)
    work = Work(
        run=run.resolve(),
        plan=plan,
        kernels=kernels,
        tool=_tool(program, compute_python, compute_version),
        python=Path(sys.executable) if python is None else python.absolute(),
        devices=map_devices(_parse_devices(devices), os.environ),
        has_peaks=has_peaks,
        has_analysis=has_analysis,
    )
    doubts = require_commands(work)
    emit_findings([*check_compute_version(work.tool.version), *check_levels(kernels), *(doubts if dry_run else ())])
    if dry_run:
        click.echo(_script(work, resumes=resume), nl=False)
        return EXIT_GOOD
    return _run(work, deadline_s, resumes=resume)


def _tool(program: Path | None, python: Path | None, version: str | None) -> ComputeTool:
    from rocktools.capture.compute_command import ComputeTool
    from rocktools.capture.compute_tool import find_compute_tool
    from rocktools.capture.compute_versions import compute_facts
    from rocktools.cli.batch import parse_compute_version_option

    if version is None:
        return find_compute_tool(os.environ, program=program, python=python)
    assumed = parse_compute_version_option(version)
    compute_facts(assumed)  # a version that nothing is known of is refused
    return ComputeTool(program=program or Path("rocprof-compute"), python=python, version=assumed)


def _parse_devices(text: str | None) -> list[int]:
    words = [word.strip() for word in (text or "").split(",") if word.strip()]
    if not all(word.isdecimal() for word in words) or (text is not None and not words):
        raise UsageError("batch-devices", f"{text!r} names no GPUs", hint="--devices 0,1")
    return [int(word) for word in words]


def _script(work: Work, *, resumes: bool) -> str:
    """What would run, as text; of a batch that goes on, what is left of it."""
    from rocktools.batch.dry_run import render_dry_run
    from rocktools.batch.jobs import list_jobs, plan_digest
    from rocktools.batch.run import recheck, require_same_batch
    from rocktools.batch.state import BatchState, read_state

    if resumes:
        before = read_state(work.run)
        require_same_batch(work, before)
        state, _ = recheck(work, before)
    else:
        state = BatchState(plan_sha256=plan_digest(work), version=str(work.tool.version), jobs=list_jobs(work))
    return render_dry_run(work, state, os.environ)


def _run(work: Work, deadline_s: float | None, *, resumes: bool) -> int:
    from datetime import datetime, timezone

    from rocktools.batch.attempt import RunSettings
    from rocktools.batch.run import prepare_batch, run_batch
    from rocktools.capture.environment import recorded_environment
    from rocktools.cli.progress import BatchProgress

    prepare_batch(work, resumes=resumes)
    tool = work.tool
    facts = {
        "tool": {
            "executable": str(tool.program),
            "python": None if tool.python is None else str(tool.python),
            "version": str(tool.version),
        },
        "replay_python": str(work.python),
        "devices": list(work.devices.values()),
        "environment": recorded_environment(os.environ),
    }
    report = run_batch(
        work,
        RunSettings(environment=dict(os.environ), deadline_s=deadline_s),
        BatchProgress(),
        argv=sys.argv,
        created_utc=datetime.now(timezone.utc).isoformat(timespec="seconds"),
        facts=facts,
    )
    return _show(work.run, report)


def _show(run: Path, report: BatchReport) -> int:
    from rocktools.batch.tables import BATCH_RESULTS, RESULT_EVIDENCE, build_result_rows
    from rocktools.render.table import table_from_spec

    frame = build_result_rows(report.state)
    table = table_from_spec(
        frame.drop(columns=[name for name in frame.columns if frame[name].isna().all()]),
        BATCH_RESULTS,
        evidence=RESULT_EVIDENCE,
        title=_title(report.state),
        is_simulated=False,
        optional_columns=_OPTIONAL,
    )
    emit_table(table, TableOutput())
    emit_findings([*report.findings, *_findings(report.state)])
    quoted = shlex.quote(str(run))
    if report.was_interrupted:
        click.echo(f"interrupted; go on with: rocktools batch run {quoted}/plan.yaml -o {quoted} --resume", err=True)
    elif report.state.is_complete:
        click.echo(f"{run}: complete; next: rocktools batch collect {quoted}", err=True)
    else:
        click.echo(
            f"{run}: not complete; output of all jobs is in {quoted}/logs; repeat what failed with --resume", err=True
        )
    return EXIT_GOOD if report.state.is_complete and not report.was_interrupted else EXIT_FAILURE


def _title(state: BatchState) -> str:
    from rocktools.batch.state import JobState

    done = sum(job.state is JobState.DONE for job in state.kernels)
    return f"batch: {done} of {len(state.kernels)} kernels profiled by rocprof-compute {state.version}"


def _findings(state: BatchState) -> list[Finding]:
    """What the last attempt at each job raised."""
    from rocktools.findings import Finding, Severity

    documents = [document for job in state.jobs if job.last is not None for document in job.last.findings]
    return [Finding(**{**document, "severity": Severity(document["severity"])}) for document in documents]
