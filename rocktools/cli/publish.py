"""`rocktools publish`: a summary as an artifact of Weights & Biases."""

from __future__ import annotations

from pathlib import Path

import click

from rocktools.cli.output import TableFormat, TableOutput, emit_document, require_stdout
from rocktools.errors import EXIT_GOOD

_file = click.Path(path_type=Path)


@click.command("publish")
@click.argument("path", metavar="SUMMARY", type=_file)
@click.option("--report", metavar="FILE", type=_file, help="A report that goes along, from `rocktools report -o FILE`.")
@click.option("-p", "--project", metavar="NAME", required=True, help="Project of W&B.")
@click.option("--entity", metavar="NAME", help="User or team.  [default: the client's own]")
@click.option("--name", metavar="NAME", help="Of the artifact.  [default: the runs of the summary]")
@click.option(
    "--alias",
    "aliases",
    metavar="ALIAS",
    multiple=True,
    help="Besides its version; may be repeated.  [default: latest]",
)
@click.option("--dry-run", "is_dry", is_flag=True, help="Print what would be uploaded, and upload nothing.")
def command(
    path: Path,
    report: Path | None,
    project: str,
    entity: str | None,
    name: str | None,
    aliases: tuple[str, ...],
    is_dry: bool,
) -> int:
    """Upload a summary to Weights & Biases, as an artifact of type profile_summary.

    SUMMARY is what `rocktools summarize -o FILE.json` wrote. The artifact holds it as summary.json, the report if one
    is named, and metadata to search by: device, versions, job, step times. `rocktools summarize --artifact
    ENTITY/PROJECT/NAME:ALIAS` reads it again.

    The client does the talking, with its own login (`wandb login`): pip install 'rocktools[wandb]'. --dry-run needs
    none. A summary holds host names, command lines and flags of the job: look at it before you share it.
    """
    from rocktools.summary.artifact import plan_artifact, upload_artifact
    from rocktools.summary.document import read_summary

    require_stdout()
    plan = plan_artifact(
        read_summary(path), path, report=report, project=project, entity=entity, name=name, aliases=aliases
    )
    if is_dry:
        emit_document(plan.as_dict(), TableOutput(table_format=TableFormat.JSON))
        return EXIT_GOOD
    click.echo(f"{upload_artifact(plan)}: {plan.description}")
    return EXIT_GOOD
