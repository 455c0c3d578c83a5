"""`rocktools explain`: why a dispatch, or an instruction, is booked where it is."""

from __future__ import annotations

import click

from rocktools.cli.attribution_options import LedgerRequest, attribution_options, ledger_options
from rocktools.cli.output import emit_findings, exit_code_of
from rocktools.cli.progress import working
from rocktools.errors import UsageError


@click.command("explain")
@ledger_options
@click.option(
    "--event", metavar="K", type=int, help="A dispatch, by its dispatch_id as `rocktools dispatches` lists it."
)
@click.option("--copy", metavar="K", type=int, help="A copy, by its copy_id.")
@click.option("--instruction", metavar="NAME", help="An HLO instruction of one of the programs.")
@click.option("--process", metavar="LABEL", help="The process that the event is of, where several have the number.")
def command(
    request: LedgerRequest, event: int | None, copy: int | None, instruction: str | None, process: str | None
) -> int:
    """Why a kernel, a copy or an instruction is booked under its phase and component.

    The link of the kernel to its instruction, the name stack, every rule that spoke on the way, and the bucket.

    PATHS are rocpd databases (*_results.db), JAX profiles (*.xplane.pb), folders, patterns or run directories.
    """
    from rocktools.workspace.attributed import attribute_workspace
    from rocktools.workspace.explaining import explain_event, explain_named_instruction
    from rocktools.workspace.workspace import Workspace

    asked = [value for value in (event, copy, instruction) if value is not None]
    if len(asked) != 1:
        raise UsageError("nothing-to-explain", "one of --event, --copy and --instruction is needed")
    with Workspace.open(request.paths) as workspace:
        with working("linking and attributing"):
            runs = attribute_workspace(workspace, attribution_options(request))
        findings = [*workspace.findings, *runs.findings]
    if instruction is not None:
        lines = explain_named_instruction(runs, instruction.removeprefix("%"))
    else:
        kind, number = ("dispatch", event) if event is not None else ("copy", copy)
        assert number is not None
        lines = explain_event(runs, kind, number, process=process)
    click.echo("\n".join(lines))
    emit_findings(findings)
    return exit_code_of(findings)
