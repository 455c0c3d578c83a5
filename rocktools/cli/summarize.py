"""`rocktools summarize`: one run as one JSON document, with the evidence of every number."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from rocktools.cli.artifact_option import artifact_option
from rocktools.cli.attribution_options import LedgerRequest, attribution_options, ledger_options
from rocktools.cli.options import output_option
from rocktools.cli.output import (
    TableFormat,
    TableOutput,
    emit_document,
    emit_findings,
    exit_code_of,
    require_new_path,
    require_stdout,
)
from rocktools.cli.progress import working
from rocktools.errors import UsageError

if TYPE_CHECKING:
    from rocktools.summary.gathered import SummaryOptions


@click.command("summarize")
@artifact_option
@ledger_options
@click.option(
    "--step-log",
    metavar="FILE",
    type=click.Path(path_type=Path),
    help="Step times of the same job run without a profiler: a log of MaxText, or a CSV file with step and seconds. "
    "Throughput is made of these alone.",
)
@click.option(
    "--log-warmup",
    metavar="N",
    type=click.IntRange(min=0),
    default=5,
    show_default=True,
    help="First steps of that log that do not count.",
)
@click.option(
    "--counters",
    metavar="PATH",
    multiple=True,
    help="Where the counter passes are, if not among PATHS; anything that `rocktools metrics` reads.",
)
@click.option("--part", metavar="PART", help="Ceilings of this part, as in `rocktools roofline`.")
@click.option("--partition", metavar="MODE", help="Compute partition: SPX, DPX, QPX, CPX.  [default: as recorded]")
@click.option(
    "--schema",
    type=click.Choice(["rocktools", "marin"]),
    default="rocktools",
    show_default=True,
    help="rocktools.summary/1, or the shape of Marin's profile_summary.v1 with durations in microseconds.",
)
@click.option("--no-hashes", is_flag=True, help="Do not hash the files, which reads all of them once more.")
@click.option("--no-time", is_flag=True, help="Leave out when it was made: the same files then give the same bytes.")
@output_option
def command(
    request: LedgerRequest,
    step_log: Path | None,
    log_warmup: int,
    counters: tuple[str, ...],
    part: str | None,
    partition: str | None,
    schema: str,
    no_hashes: bool,
    no_time: bool,
    output_path: Path | None,
) -> int:
    """One run as one JSON document: what it was, how far it can be trusted, and every number of the other commands.

    Steps, ledger, overlap, operations by exclusive time with their fingerprints, kinds of work, collectives, gaps,
    scopes, counters, roofline, memory, and what to try next. A block whose inputs are not there says why. It is what
    `rocktools query`, `report` and `compare` read.

    PATHS are rocpd databases (*_results.db), JAX profiles (*.xplane.pb), folders, patterns or run directories. Where
    there is no profile, a trace in JSON that JAX exported (*.trace.json.gz) is read instead.
    """
    from rocktools.summary.build import build_summary
    from rocktools.summary.document import summary_document
    from rocktools.summary.marin import marin_document

    if output_path is None:
        require_stdout()
    else:
        require_new_path(output_path)
    if request.device is not None or request.steps or request.has_all_steps:
        raise UsageError(
            "summary-of-all",
            "a summary is of all devices and of the steps that count: --device, --step and --all-steps are not for it",
            hint="rocktools ledger takes them; --window START:END chooses other steps",
        )
    options = _options(request, step_log, log_warmup, counters, (part, partition), (no_hashes, no_time))
    with working("summarizing"):
        summary = build_summary(request.paths, options)
    document = marin_document(summary) if schema == "marin" else summary_document(summary)
    emit_document(document, TableOutput(table_format=TableFormat.JSON, path=output_path))
    emit_findings(summary.quality.findings)
    return exit_code_of(summary.quality.findings)


def _options(
    request: LedgerRequest,
    step_log: Path | None,
    log_warmup: int,
    counters: tuple[str, ...],
    device: tuple[str | None, str | None],
    without: tuple[bool, bool],
) -> SummaryOptions:
    from datetime import datetime, timezone

    from rocktools.summary.gathered import SummaryOptions
    from rocktools.workspace.used_device import DeviceOptions

    no_hashes, no_time = without
    return SummaryOptions(
        attribution=attribution_options(request),
        counters=counters,
        step_log=step_log,
        log_warmup_steps_count=log_warmup,
        device=DeviceOptions(part=device[0], partition=device[1]),
        hashes_inputs=not no_hashes,
        generated_at_utc=None if no_time else datetime.now(timezone.utc).isoformat(timespec="seconds"),
    )
