"""`rocktools worksheet`: each component in each phase, by the compiler and the profiler, and by the ROCm tools."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click

from rocktools.cli.attribution_options import LedgerRequest, attribution_options, ledger_options
from rocktools.cli.options import table_options
from rocktools.cli.output import TableFormat, TableOutput, emit_document, emit_findings, emit_table, emit_tables
from rocktools.errors import EXIT_GATE, EXIT_GOOD, UsageError

if TYPE_CHECKING:
    from rocktools.analytic.occurrences import Workload
    from rocktools.findings import Finding
    from rocktools.render.table import Table
    from rocktools.summary.worksheet import WorksheetOptions
    from rocktools.summary.worksheet_document import Worksheet

_BLOCKS = 6  # of a worksheet on standard output


@dataclass(frozen=True, slots=True, kw_only=True)
class _Log:
    """What the run is read with: the log of a matched unprofiled run, counters, the part."""

    step_log: Path | None
    warmup: int
    counters: tuple[str, ...]
    part: str | None
    partition: str | None


@click.command("worksheet")
@ledger_options
@click.option("--component", "names", metavar="C", multiple=True, help="Only this component; may be repeated.")
@click.option("--phase", "phases", metavar="P", multiple=True, help="Only this phase; may be repeated.")
@click.option("--model", metavar="MODEL", help="Whose useful FLOPs: as in `rocktools model list`, or a YAML file.")
@click.option("--tokens", metavar="N", type=click.IntRange(min=1), help="Tokens of one update.  [default: of the log]")
@click.option(
    "--sequence", metavar="N", type=click.IntRange(min=1), help="Tokens of a sequence.  [default: of the log]"
)
@click.option(
    "--devices", metavar="N", type=click.IntRange(min=1), help="That share an update.  [default: those found]"
)
@click.option("--convention", default="maxtext", show_default=True, help="What counts as useful, as in `model flops`.")
@click.option("--dtype", default="bf16", show_default=True, help="Format of the products, for the peak.")
@click.option("--workload", metavar="FILE", type=click.Path(path_type=Path), help="What must occur how often.")
@click.option(
    "--step-log",
    metavar="FILE",
    type=click.Path(path_type=Path),
    help="Step times of the same job without a profiler, as `rocktools summarize` takes them.",
)
@click.option(
    "--log-warmup",
    metavar="N",
    type=click.IntRange(min=0),
    default=5,
    show_default=True,
    help="First steps of that log that do not count.",
)
@click.option("--counters", metavar="PATH", multiple=True, help="Where counter passes are, if not among PATHS.")
@click.option("--part", metavar="PART", help="Ceilings of this part, as in `rocktools roofline`.")
@click.option("--partition", metavar="MODE", help="Compute partition: SPX, DPX, QPX, CPX.  [default: as recorded]")
@table_options(top_count=_BLOCKS)
def command(
    request: LedgerRequest,
    names: tuple[str, ...],
    phases: tuple[str, ...],
    model: str | None,
    tokens: int | None,
    sequence: int | None,
    devices: int | None,
    convention: str,
    dtype: str,
    workload: Path | None,
    step_log: Path | None,
    log_warmup: int,
    counters: tuple[str, ...],
    part: str | None,
    partition: str | None,
    output: TableOutput,
) -> int:
    """The component worksheet: what each component in each phase is, costs and reaches, from two sources side by side.

    Scope and HLO ids, shapes, occurrences, device time, useful and executed FLOPs, HBM and communication bytes,
    intensity and roofline efficiency: by the compiled program and the JAX profile, and by the ROCm trace and counters.
    Every cell has its evidence, or says why it is empty. Throughput is of the unprofiled run alone.

    PATHS are a run directory, traces and profiles; or one summary, which lacks dispatches, and says so. Where
    something does not occur as often as a workload says, the exit code is 3.
    """
    from rocktools.summary.worksheet import WorksheetOptions
    from rocktools.summary.worksheet_document import worksheet_json
    from rocktools.summary.worksheet_useful import UsefulRequest

    useful = None
    if model is not None:
        useful = UsefulRequest(
            model=model,
            tokens_count=tokens,
            sequence_tokens=sequence,
            devices_count=devices,
            convention=convention,
            dtype=dtype,
        )
    options = WorksheetOptions(components=names, phases=phases, useful=useful, workload=_workload(workload))
    log = _Log(step_log=step_log, warmup=log_warmup, counters=counters, part=part, partition=partition)
    worksheet, findings = _build(request, log, options)
    if output.table_format is TableFormat.JSON:
        emit_document(worksheet_json(worksheet), output)
    elif output.table_format in (TableFormat.CSV, TableFormat.PARQUET):
        emit_table(_long_table(worksheet), output, findings=findings)
    else:
        _emit_blocks(worksheet, output)
    emit_findings(findings)
    for title in worksheet.unmet:
        click.echo(f"occurrences: {title}: not as often as the workload expects", err=True)
    return EXIT_GATE if worksheet.unmet else EXIT_GOOD


def _workload(path: Path | None) -> Workload | None:
    from rocktools.analytic.occurrences import read_workload

    return None if path is None else read_workload(path)


def _build(request: LedgerRequest, log: _Log, options: WorksheetOptions) -> tuple[Worksheet, tuple[Finding, ...]]:
    from rocktools.summary.document import read_summary
    from rocktools.summary.gathered import SummaryOptions
    from rocktools.summary.worksheet import build_run_worksheet, build_summary_worksheet
    from rocktools.workspace.used_device import DeviceOptions

    if request.device is not None or request.steps or request.has_all_steps:
        raise UsageError(
            "worksheet-of-all",
            "a worksheet is of all devices and the steps that count: --device, --step and --all-steps are not for it",
            hint="rocktools ledger takes them; --window START:END chooses other steps",
        )
    if len(request.paths) == 1 and Path(request.paths[0]).suffix.lower() == ".json":
        if log.step_log is not None or log.counters or log.part is not None or log.partition is not None:
            raise UsageError(
                "summary-is-made",
                "--step-log, --counters, --part belong to the making of a summary, which this one has behind it",
                hint="rocktools summarize RUN --step-log LOG --counters PATH -o FILE.json",
            )
        return build_summary_worksheet(read_summary(Path(request.paths[0])), options), ()
    chosen = SummaryOptions(
        attribution=attribution_options(request),
        counters=log.counters,
        step_log=log.step_log,
        log_warmup_steps_count=log.warmup,
        device=DeviceOptions(part=log.part, partition=log.partition),
    )
    return build_run_worksheet(request.paths, chosen, options)


def _emit_blocks(worksheet: Worksheet, output: TableOutput) -> None:
    """One table for each row, those with most time of each phase first, and what they are of."""
    from dataclasses import replace

    from rocktools.cli.worksheet_text import block_table, preface_text

    rows = [row for row in worksheet.rows if not row.state]
    worded = [row for row in worksheet.rows if row.state]
    shown = rows[: output.top_count] if output.top_count else rows
    lines = [preface_text(worksheet)]
    if worded:
        lines += [f"{row.title}: {row.state}" for row in worded]
        lines.append("")
    if len(shown) < len(rows):
        names = ", ".join(row.title for row in rows[len(shown) :][:12])
        lines += [
            f"cut: {len(shown)} of {len(rows)} shown; --top 0 shows all, --component and --phase some: {names}",
            "",
        ]
    tables: Sequence[Table] = [block_table(worksheet, row) for row in shown]
    emit_tables(
        tables, replace(output, top_count=0), schema="rocktools.worksheet/1", head={}, preface="\n".join(lines) + "\n"
    )


def _long_table(worksheet: Worksheet) -> Table:
    from rocktools.cli.worksheet_text import long_table

    return long_table(worksheet)
