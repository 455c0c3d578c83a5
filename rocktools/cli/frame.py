"""`rocktools frame`: any frame of the readers."""

from __future__ import annotations

import click

from rocktools.cli.options import columns_option, paths_argument, table_options
from rocktools.cli.output import TableOutput, emit_findings, emit_table, exit_code_of


@click.command("frame")
@click.argument("name", metavar="FRAME", type=str)
@paths_argument
@columns_option
@table_options(top_count=20)
def command(name: str, paths: tuple[str, ...], columns: tuple[str, ...] | None, output: TableOutput) -> int:
    """Any frame of the readers, whole or by column.

    FRAME is DISPATCHES, COUNTED_DISPATCHES, COUNTER_VALUES, HOST_CALLS, RANGES, COPIES, ALLOCATIONS, SAMPLES, AGENTS,
    PROCESSES or KERNEL_SYMBOLS, in letters of either case. docs/reference/frames.md says what each column means.

    PATHS are rocpd databases (*_results.db), folders, patterns, .rpdb folders or run directories.
    """
    from rocktools.errors import UsageError
    from rocktools.evidence import Evidence
    from rocktools.frames import SPECS
    from rocktools.render.table import table_from_spec
    from rocktools.units import count_noun
    from rocktools.workspace.workspace import Workspace

    wanted = name.upper().replace("-", "_")
    if wanted not in SPECS:
        raise UsageError("unknown-frame", f"there is no frame {name!r}", hint=f"one of {', '.join(SPECS)}")
    spec = SPECS[wanted]
    selected = spec.select(columns)
    with Workspace.open(paths) as workspace:
        frame = workspace.frame(wanted, selected)
        title = f"{wanted}: {count_noun(len(frame), 'row')}"
        evidence = Evidence.COUNTER if wanted == "COUNTER_VALUES" else Evidence.MEASURED
        table = table_from_spec(frame, spec, evidence=evidence, title=title, is_simulated=workspace.is_simulated)
        findings = workspace.findings
        emit_table(table, output, findings=findings)
    emit_findings(findings)
    return exit_code_of(findings)
