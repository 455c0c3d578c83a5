"""Options that every capturing command shares, and what they become."""

from __future__ import annotations

import functools
import os
import shlex
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from rocktools.errors import UsageError

if TYPE_CHECKING:
    from rocktools.capture.collect import CaptureReport
    from rocktools.capture.plan import CapturePlan
    from rocktools.capture.session import Session
    from rocktools.findings import Finding

_Function = Callable[..., Any]

_OPTIONS = (
    click.option(
        "-o",
        "--output",
        "run",
        metavar="DIR",
        type=click.Path(path_type=Path),
        help="The run directory to make.  [default: rocktools-<time> here]",
    ),
    click.option("--dry-run", is_flag=True, help="Print exactly what would run, pass by pass, and run nothing."),
    click.option(
        "--resume", is_flag=True, help="Go on with the capture in DIR at the first pass without a verified result."
    ),
    click.option(
        "--deadline",
        "deadline_s",
        metavar="SECONDS",
        type=click.FloatRange(min=0, min_open=True),
        help="Stop a pass that runs longer.  [default: none]",
    ),
    click.option(
        "--grace",
        "grace_s",
        metavar="SECONDS",
        type=click.FloatRange(min=0),
        default=120.0,
        show_default=True,
        help="How long a stopped pass may take to write its databases.",
    ),
    click.option(
        "--env",
        "variables",
        metavar="NAME=VALUE",
        multiple=True,
        help="A variable for the job; may be repeated.",
    ),
    click.option(
        "--processes",
        "processes_count",
        type=click.IntRange(min=1),
        metavar="N",
        help="Processes of the job that use a GPU: a pass that has fewer fails.  [default: not checked]",
    ),
    click.option(
        "--command-buffers",
        type=click.Choice(["off", "keep"]),
        default="off",
        show_default=True,
        help="XLA command buffers (HIP graphs) hide which HLO a kernel belongs to.",
    ),
    click.option("--rocprofv3", "tool_path", metavar="PATH", help="The rocprofv3 to run.  [default: searched for]"),
    click.option(
        "--sdk-version",
        metavar="X.Y.Z",
        help="With --dry-run: plan for a rocprofv3 of this SDK version instead of looking for one.",
    ),
    click.option("--force", is_flag=True, help="Go on although preflight found a fault."),
)


def capture_options(function: _Function) -> _Function:
    """Adds the options; the function gets them as `session_options: SessionOptions` and `dry_run`."""

    @functools.wraps(function)
    def with_session(
        *args: Any,
        run: Path | None,
        dry_run: bool,
        resume: bool,
        deadline_s: float | None,
        grace_s: float,
        variables: tuple[str, ...],
        processes_count: int | None,
        command_buffers: str,
        tool_path: str | None,
        sdk_version: str | None,
        force: bool,
        **options: Any,
    ) -> Any:
        from datetime import datetime, timezone

        from rocktools.capture.session import SessionOptions
        from rocktools.rundir import require_free

        if resume and run is None:
            raise UsageError("resume-without-run", "which capture goes on must be said", hint="-o DIR")
        if run is not None and not resume:
            require_free(run)
        elif run is not None and not run.is_dir():
            raise UsageError("nothing-to-resume", "there is no such folder", where=str(run))
        if not options["application"] and not options.get("jax_profile"):
            raise UsageError("no-application", "there is no command to run", hint="-- CMD... at the end")
        if sdk_version is not None and not dry_run:
            raise UsageError("assumed-version", "a version can be assumed for a dry run only", hint="--dry-run")
        now = datetime.now(timezone.utc)
        session_options = SessionOptions(
            run=run if run is not None else Path(f"rocktools-{now.strftime('%Y%m%dT%H%M%SZ')}"),
            environment=dict(os.environ),
            working_directory=Path.cwd(),
            argv=tuple(sys.argv),
            created_utc=now.isoformat(timespec="seconds"),
            variables=_parse_variables(variables),
            deadline_s=deadline_s,
            grace_s=grace_s,
            tool_path=tool_path,
            assumed_version=None if sdk_version is None else parse_sdk_version(sdk_version),
            keeps_command_buffers=command_buffers == "keep",
            ignores_faults=force,
            resumes=resume,
            processes_count=processes_count,
        )
        return function(*args, session_options=session_options, dry_run=dry_run, **options)

    decorated: _Function = with_session
    for option in reversed(_OPTIONS):
        decorated = option(decorated)
    return decorated


def _parse_variables(texts: tuple[str, ...]) -> dict[str, str]:
    variables = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals or not name:
            raise UsageError("bad-variable", f"{text!r} is no NAME=VALUE")
        variables[name] = value
    return variables


def parse_sdk_version(text: str) -> Any:
    """X.Y or X.Y.Z as a version of the SDK.

    Raises:
        UsageError: it is none.
    """
    from rocktools.capture.versions import SdkVersion

    numbers = text.split(".")
    if not 2 <= len(numbers) <= 3 or not all(number.isdecimal() for number in numbers):
        raise UsageError("bad-version", f"{text!r} is no version of the SDK", hint="1.3.2")
    return SdkVersion(*(int(number) for number in numbers))


def finish_capture(
    session: Session,
    plan: CapturePlan,
    *,
    dry_run: bool,
    findings: tuple[Finding, ...] = (),
    shows_passes: bool = True,
) -> int:
    """Print the plan, or run it and show what came of it; the exit code.

    Args:
        shows_passes: whether the passes are listed on standard output, if all went well.
    """
    from rocktools.cli.output import TableOutput, emit_findings, emit_table, exit_code_of
    from rocktools.errors import EXIT_FAILURE, EXIT_GOOD

    found = (*session.survey.findings, *findings)
    if dry_run:
        click.echo(session.render(plan), nl=False)
        emit_findings(found)
        return exit_code_of(found) if session.options.assumed_version is None else EXIT_GOOD
    emit_findings(found)
    report = _run(session, plan, findings)
    from rocktools.cli.check_table import records_table

    if shows_passes or not report.is_complete:
        emit_table(records_table(report.records), TableOutput())
    emit_findings(report.findings)
    run = session.options.run
    quoted = shlex.quote(str(run))
    if report.was_interrupted:
        click.echo(f"interrupted; go on with the same command and --resume -o {quoted}", err=True)
    elif report.is_complete:
        click.echo(f"{run}: complete; next: rocktools info {quoted}", err=True)
    else:
        click.echo(
            f"{run}: not complete; logs are in {run}/logs; after mending go on with --resume -o {quoted}", err=True
        )
    return EXIT_GOOD if report.is_complete else EXIT_FAILURE


def _run(session: Session, plan: CapturePlan, findings: tuple[Finding, ...]) -> CaptureReport:
    from rocktools.cli.progress import PassProgress

    with PassProgress(deadline_s=session.options.deadline_s) as progress:
        return session.execute(plan, progress, findings=findings)
