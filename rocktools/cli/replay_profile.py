"""`rocktools replay profile`: proof, a trace and counter passes of the replay, quantities, and its roofline point."""

from __future__ import annotations

import hashlib
import os
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click

from rocktools.cli.aot import environment_options, stand_in_findings
from rocktools.cli.capture_options import finish_capture, parse_sdk_version
from rocktools.cli.options import table_options
from rocktools.cli.output import TableFormat, TableOutput, emit_findings, emit_table
from rocktools.cli.replay_proofs import compile_replays, write_parts
from rocktools.errors import EXIT_GATE, EXIT_GOOD, CaptureError, MissingExtra, ReplayError, UsageError
from rocktools.findings import Finding, Severity
from rocktools.rundir import PMC_FOLDER

if TYPE_CHECKING:
    from rocktools.capture.counting import CountingRequest, PlannedCounting
    from rocktools.capture.plan import CapturePlan
    from rocktools.capture.session import SessionOptions
    from rocktools.replay.aot_environment import PreparedEnvironment
    from rocktools.replay.prove import Level
    from rocktools.replay.prove_bundle import ReplayModule

_path = click.Path(path_type=Path)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Counting:
    """How a replay is counted, as typed."""

    metrics: str
    in_process: bool
    iterations_count: int
    warmups_count: int
    device: int
    arch: str | None
    tool_path: str | None
    deadline_s: float | None
    force: bool
    resume: bool
    no_trace: bool
    sdk_version: str | None

    @property
    def quantities(self) -> tuple[str, ...]:
        """What was asked for, in its order."""
        return tuple(dict.fromkeys(name for name in self.metrics.replace(",", " ").split() if name))

    @property
    def counted(self) -> tuple[str, ...]:
        """That, and what the point under the roofline needs."""
        from rocktools.workspace.replay_profile import POINT_QUANTITIES

        return tuple(dict.fromkeys((*self.quantities, *(() if self.no_trace else POINT_QUANTITIES))))


@click.command("profile")
@click.argument("folder", metavar="DIR", type=_path)
@click.option("--metrics", metavar="A,B,...", required=True, help="Quantities; `rocktools counters show` lists them.")
@click.option("--passes-in-process", "in_process", is_flag=True,
              help="One run that replays each launch for each group of counters (SDK 1.4.1).")  # fmt: skip
@click.option("--iterations", "iterations_count", metavar="N", type=click.IntRange(min=1), default=3,
              show_default=True, help="Executions that are counted in each pass.")  # fmt: skip
@click.option("--warm-up", "warmups_count", metavar="N", type=click.IntRange(min=0), default=1, show_default=True,
              help="Executions before them; none with --passes-in-process, which would count them.")  # fmt: skip
@click.option("--device", metavar="N", type=click.IntRange(min=0), default=0, show_default=True,
              help="Number of the device, or of the first of several.")  # fmt: skip
@click.option("--arch", metavar="gfxNNN", help="Architecture to pack for.  [default: that of this machine's GPUs]")
@click.option("--job-executable", metavar="PATH", type=_path, help="Of the job, as for `replay prove`.")
@click.option("--target", metavar="NAME", help="Description of the job's device, as for `replay prove`.")
@click.option("--rocprofv3", "tool_path", metavar="PATH", help="The rocprofv3 to run.  [default: searched for]")
@click.option("--sdk-version", metavar="X.Y.Z",
              help="With --dry-run: plan for a rocprofv3 of this SDK version instead of looking for one.")  # fmt: skip
@click.option("--deadline", "deadline_s", metavar="SECONDS", type=click.FloatRange(min=0, min_open=True),
              help="Stop a pass that runs longer.  [default: none]")  # fmt: skip
@click.option("--force", is_flag=True, help="Go on although preflight found a fault.")
@click.option("--resume", is_flag=True, help="Go on with DIR/pmc at the first pass without a verified result.")
@click.option("--no-trace", is_flag=True, help="Counters only: no trace of the replay, and so no roofline point.")
@click.option("--dry-run", is_flag=True, help="Print the passes, and neither compile nor run anything.")
@environment_options
@table_options()
def profile(
    folder: Path,
    job_executable: Path | None,
    target: str | None,
    dry_run: bool,
    prepare: Callable[[], PreparedEnvironment],
    output: TableOutput,
    **options: object,
) -> int:
    """Prove the replay in DIR, trace it, count its kernel, and print what is then known of the kernel.

    The proof in DIR/proof.json counts where there is one; else the replay is compiled and compared with the job, and
    the proof is written there. Where that cannot be done, the replay is unproven and its values say so. One that is
    not a stand-in is not counted. One trace pass gives its times, warm-up left out, and counter passes the rest: bytes
    and FLOPs are always counted, for the point under the roofline. All passes go to DIR/pmc, a run directory that
    `rocktools metrics` and `rocktools roofline` read.

    The exit code is 3 unless the replay stands in for the job's kernel.
    """
    from rocktools.capture.counting import plan_counting
    from rocktools.replay.prove import Level
    from rocktools.replay.prove_bundle import read_replay

    counting = _Counting(**options)  # type: ignore[arg-type]
    if counting.sdk_version is not None and not dry_run:
        raise UsageError("assumed-version", "a version can be assumed for a dry run only", hint="--dry-run")
    replay = read_replay(folder)
    run = folder / PMC_FOLDER
    _require_run(run, resumes=counting.resume)
    planned = plan_counting(_session(run, counting), _request(folder, replay, counting))
    plan = _with_trace(planned, folder, counting)
    if dry_run:
        return finish_capture(planned.session, plan, dry_run=True, findings=planned.findings)
    level, findings = _level(replay, folder / "proof.json", job_executable, target, prepare)
    click.echo(f"{replay.instruction}: {_said(level)}", err=True)
    if level is Level.NOT_A_STAND_IN:
        emit_findings(findings)
        return EXIT_GATE
    code = finish_capture(
        planned.session, plan, dry_run=False, findings=planned.findings, shows_passes=_is_for_people(output)
    )
    if code != EXIT_GOOD:
        emit_findings(findings)
        return code
    _show(run, replay, level, counting, findings, output)
    return EXIT_GOOD if level.is_stand_in else EXIT_GATE


def _require_run(run: Path, *, resumes: bool) -> None:
    """Whether passes may go there.

    Raises:
        UsageError: results lie there already, or there are none to go on with.
    """
    from rocktools.rundir import require_free

    if not resumes:
        require_free(run)
    elif not run.is_dir():
        raise UsageError("nothing-to-resume", "there is no such folder", where=str(run))


def _with_trace(planned: PlannedCounting, folder: Path, counting: _Counting) -> CapturePlan:
    """The counter passes, behind a trace of more executions, which times need and counters do not."""
    from dataclasses import replace

    from rocktools.capture.plan import plan_trace
    from rocktools.capture.rocprofv3 import TraceKind, TraceOptions
    from rocktools.replay.run import ReplayRunOptions, replay_run_argv

    if counting.no_trace:
        return planned.plan
    traced = plan_trace(
        TraceOptions(kind=TraceKind.KERNEL),
        application=replay_run_argv(Path(sys.executable), folder, ReplayRunOptions(device=counting.device)),
        environment=planned.session.environment,
    )
    return replace(planned.plan, passes=(*planned.session.plan(traced).passes, *planned.plan.passes))


def _is_for_people(output: TableOutput) -> bool:
    return output.path is None and output.table_format is TableFormat.TABLE


def _request(folder: Path, replay: ReplayModule, counting: _Counting) -> CountingRequest:
    """The launch that the replay has to make, counted after its warm-up.

    Raises:
        UsageError: the spec does not say which kernel that is, or it is one that cannot be counted.
    """
    from rocktools.capture.counting import CountingRequest
    from rocktools.capture.iterations import Iterations
    from rocktools.capture.kernel_filter import filter_names
    from rocktools.replay.run import ReplayRunOptions, replay_run_argv

    if replay.devices_count > 1:
        raise UsageError(
            "collective-not-counted",
            f"{replay.instruction} runs on {replay.devices_count} devices whose kernels wait for each other, and "
            "counting runs one kernel at a time",
            hint="rocktools trace -- python replay.py in the folder gives its times",
        )
    if not replay.kernel_name:
        raise UsageError(
            "no-kernel-name",
            f"the kernel of {replay.instruction} is not known, so it cannot be chosen for counting",
            hint="rocktools pmc --regex RE with the replay.py of the folder as its command",
        )
    first = 0 if counting.in_process else counting.warmups_count
    ran = ReplayRunOptions(iterations_count=counting.iterations_count, warmups_count=first, device=counting.device)
    names = (replay.kernel_name,)
    return CountingRequest(
        application=tuple(replay_run_argv(Path(sys.executable), folder, ran)),
        kernels=filter_names(names),
        names=names,
        iterations=None
        if counting.in_process
        else Iterations(ranges=((first + 1, first + counting.iterations_count),)),
        counters=(),
        metrics=counting.counted,
        architecture=counting.arch,
        device=counting.device,
        replays_kernels=counting.in_process,
    )


def _session(run: Path, counting: _Counting) -> SessionOptions:
    from datetime import datetime, timezone

    from rocktools.capture.session import SessionOptions

    return SessionOptions(
        run=run,
        environment=dict(os.environ),
        working_directory=Path.cwd(),
        argv=tuple(sys.argv),
        created_utc=datetime.now(timezone.utc).isoformat(timespec="seconds"),
        # In-process replay saves the memory of the process for each launch.
        variables={"XLA_PYTHON_CLIENT_PREALLOCATE": "false"} if counting.in_process else {},
        deadline_s=counting.deadline_s,
        tool_path=counting.tool_path,
        assumed_version=None if counting.sdk_version is None else parse_sdk_version(counting.sdk_version),
        ignores_faults=counting.force,
        resumes=counting.resume,
    )


def _level(
    replay: ReplayModule,
    path: Path,
    job_executable: Path | None,
    target: str | None,
    prepare: Callable[[], PreparedEnvironment],
) -> tuple[Level, list[Finding]]:
    """How far the replay is proven: by the proof that lies there, or by compiling it now."""
    from rocktools.replay.prove import Level
    from rocktools.replay.prove_document import read_proof

    if path.exists():
        proof = read_proof(path)
        if proof.subject["replay"]["program_sha256"] != hashlib.sha256(replay.module).hexdigest():
            return Level.UNPROVEN, [_unproven(path, "its proof is of another program")]
        return proof.level, list(proof.findings)
    try:
        prepared = prepare()
        [(made, job_path, environment)] = compile_replays([replay], job_executable, target, prepared)
    except (CaptureError, MissingExtra, ReplayError, UsageError) as error:
        if isinstance(error, UsageError) and error.reference != "no-target":
            raise
        return Level.UNPROVEN, [_unproven(path, f"{error.what}; {error.hint}" if error.hint else error.what)]
    proof = write_parts(path, replay, [made.part], made, job_path, environment, {"traces": {}, "is_simulated": False})
    return proof.level, [*stand_in_findings(prepared), *proof.findings]


def _unproven(path: Path, why: str) -> Finding:
    return Finding(
        rule="replay-unproven",
        severity=Severity.WARNING,
        where=str(path),
        message=f"nothing proves that the replay launches the job's kernel: {why}",
        advice="rocktools replay prove; until then its counters say nothing certain about the job",
    )


def _said(level: Level) -> str:
    from rocktools.replay.prove_document import meaning_of

    return f"{level} ({meaning_of(level)})"


def _show(
    run: Path, replay: ReplayModule, level: Level, counting: _Counting, findings: list[Finding], output: TableOutput
) -> None:
    from rocktools.cli.replay_profile_table import profile_for_people, profile_table
    from rocktools.replay.run import ReplayRunOptions
    from rocktools.workspace.replay_profile import build_replay_profile

    assert replay.kernel_name is not None
    built = build_replay_profile(
        run,
        replay.kernel_name,
        proof=str(level),
        quantities=counting.counted,
        architecture=counting.arch,
        warmups_count=None if counting.no_trace else ReplayRunOptions().warmups_count,
    )
    title = f"quantities of {replay.kernel_name}, replay {level}"
    is_text = output.table_format is TableFormat.TABLE
    table = profile_for_people(built, title) if is_text else profile_table(built, title)
    found = [*findings, *built.findings]
    emit_table(table, output, findings=found)
    emit_findings(found)
