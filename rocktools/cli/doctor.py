"""`rocktools doctor`: what would make a capture on this machine fail or mislead."""

from __future__ import annotations

import os
from pathlib import Path

import click

from rocktools.cli.options import table_options
from rocktools.cli.output import TableOutput, emit_findings, emit_table, exit_code_of


@click.command("doctor")
@click.option("--rocprofv3", "tool_path", metavar="PATH", help="The rocprofv3 to look at.  [default: searched for]")
@click.option(
    "--run",
    metavar="DIR",
    type=click.Path(path_type=Path),
    default=Path(),
    help="Where runs would be written.  [default: here]",
)
@table_options()
@click.argument("application", metavar="[-- CMD...]", nargs=-1, type=click.UNPROCESSED)
def command(tool_path: str | None, run: Path, application: tuple[str, ...], output: TableOutput) -> int:
    """What would make a capture on this machine fail or mislead.

    Looks for rocprofv3 and its version, the GPUs and who may use them, permission to count, room on the disk, a second
    ROCm, variables of other profilers, and settings of XLA; with CMD also at the job. Nothing is started but
    `rocprofv3 --version` and `--help`. Exit code 1 on a fault.
    """
    from rocktools.capture.preflight import Job
    from rocktools.capture.survey import take_survey
    from rocktools.cli.check_table import checks_table

    survey = take_survey(
        environment=dict(os.environ), run=run, job=Job(application=tuple(application)), tool_path=tool_path
    )
    emit_table(checks_table(survey.checks), output)
    emit_findings(survey.findings)
    return exit_code_of(survey.findings)
