"""`rocktools trace`: a rocprofv3 trace of a job, checked before and after."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from rocktools.cli.capture_options import capture_options, finish_capture
from rocktools.errors import UsageError

if TYPE_CHECKING:
    from rocktools.capture.session import SessionOptions


# After compilation, autotuning and a few steps that settle; three steps show their spread.
_FIRST_STEP, _LAST_STEP = 10, 12


@click.command("trace")
@capture_options
@click.option(
    "--kernel-only", is_flag=True, help="Kernels and copies only: the least disturbance, and no host calls or ranges."
)
@click.option(
    "--selected-regions",
    is_flag=True,
    help="Record only between the resume and pause calls of the job itself (rocktools.capture.roctx).",
)
@click.option("--no-hlo", is_flag=True, help="Do not let XLA write its compiled programs into the run.")
@click.option(
    "--jax-profile",
    type=click.Choice(["maxtext", "levanter"]),
    help=f"Print the flags that make this framework record a JAX profile of steps {_FIRST_STEP} to {_LAST_STEP}.",
)
@click.argument("application", metavar="-- CMD...", nargs=-1, type=click.UNPROCESSED)
def command(
    session_options: SessionOptions,
    dry_run: bool,
    kernel_only: bool,
    selected_regions: bool,
    no_hlo: bool,
    jax_profile: str | None,
    application: tuple[str, ...],
) -> int:
    """Trace a job under rocprofv3: HIP calls, roctx ranges, kernels, copies, RCCL; one database per process.

    The job gets XLA_FLAGS that keep kernels attributable and let XLA write its programs into the run (hlo/). What the
    tool claims is not believed: the databases must exist, be whole and hold dispatches, or the exit code is 1 and the
    manifest says what is missing.

    \b
        rocktools trace -o run -- python train.py steps=14
    """
    from dataclasses import replace

    from rocktools.capture.plan import plan_trace
    from rocktools.capture.preflight import Job
    from rocktools.capture.rocprofv3 import TraceKind, TraceOptions
    from rocktools.capture.session import begin_session

    if jax_profile is not None:
        if application:
            raise UsageError(
                "flags-only",
                "--jax-profile prints flags and runs nothing, for JAX's profiler and rocprofv3 exclude each other",
                hint="leave the command out; add the flags to the job, and run that without rocktools trace",
            )
        from rocktools.capture.frameworks import framework_flags, render_framework_flags

        run = session_options.run.absolute()  # the job may run in another folder
        flags = framework_flags(jax_profile, first=_FIRST_STEP, last=_LAST_STEP, log_dir=run / "xspace")
        click.echo(render_framework_flags(flags))
        return 0
    kind = TraceKind.KERNEL if kernel_only else TraceKind.RUNTIME
    job = Job(
        application=application,
        traces_host=not kernel_only,
        selects_regions=selected_regions,
        wants_attribution=not no_hlo,
        keeps_command_buffers=session_options.keeps_command_buffers,
        given_variables=tuple(session_options.variables),
    )
    session = begin_session(replace(session_options, dumps_hlo=not no_hlo), job)
    options = TraceOptions(kind=kind, has_selected_regions=selected_regions)
    passes = plan_trace(options, application=application, environment=session.environment)
    return finish_capture(session, session.plan(passes), dry_run=dry_run)
