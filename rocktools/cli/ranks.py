"""`rocktools ranks`: the devices of a job side by side, and which one is late, and why."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from rocktools.cli.attribution_options import LedgerRequest, attribution_options, ledger_options, worker_options
from rocktools.cli.options import table_options
from rocktools.cli.output import (
    TableFormat,
    TableOutput,
    emit_findings,
    emit_table,
    emit_tables,
    exit_code_of,
)
from rocktools.cli.progress import tell_files_done

if TYPE_CHECKING:
    import pandas as pd

    from rocktools.frames import FrameSpec
    from rocktools.render.table import Table
    from rocktools.timeline.late_rank import LateRank
    from rocktools.timeline.partial import RankComparison
    from rocktools.workspace.many_ranks import Workers

_SCHEMA = "rocktools.ranks/1"
_PARTS = ("devices", "spread", "skew", "operations", "collectives")
_TITLES = {
    "devices": "devices, mean over the steps that all have",
    "spread": "how far devices are apart",
    "skew": "collectives of each device and step: waiting for the last to arrive, and the transfer itself",
    "operations": "collectives, the most skew first",
    "collectives": "every collective on every device",
}
_OPTIONAL = (
    *("busy_ns", "exposed_communication_ns", "compute_ns", "spread_ns", "wait_ns", "transfer_ns", "last_count"),
    *("critical_device", "spread_ratio", "skew_ns", "idle_ns", "span_ns", "communication_ns", "collectives_count"),
)


@click.command("ranks")
@ledger_options
@worker_options
@click.option(
    "--part", type=click.Choice(_PARTS), help="One part only, as a table of its own.  [default: all but collectives]"
)
@table_options(top_count=20)
def command(request: LedgerRequest, workers: Workers, part: str | None, output: TableOutput) -> int:
    """The devices of a job side by side: time by activity, spread, critical device, arrival at collectives.

    A collective ends when all have sent: its time on a device is waiting for the last one to arrive, and the transfer.
    A verdict per node says which device is late, by which numbers, and where to look. Each file is measured by itself;
    one that cannot be read is named, and the others are compared all the same.

    PATHS are rocpd databases (*_results.db), JAX profiles (*.xplane.pb), folders, patterns or run directories.
    """
    from rocktools.timeline.partial import compare_ranks
    from rocktools.workspace.rank_files import measure_rank_files

    measured = measure_rank_files(request.paths, attribution_options(request), workers, tell_files_done)
    compared, is_simulated = compare_ranks(measured.partial), measured.partial.is_simulated
    findings = [*measured.findings, *(each for each in compared.findings if each not in measured.findings)]
    if part is not None or output.table_format in (TableFormat.CSV, TableFormat.PARQUET):
        emit_table(_table(compared, part or "devices", is_simulated=is_simulated), output, findings=findings)
    else:
        from rocktools.render.table import top_rows

        is_text = output.table_format is TableFormat.TABLE
        tables = [
            top_rows(_table(compared, name, is_simulated=is_simulated, is_for_people=is_text), output.top_count)
            for name in _PARTS[:-1]
        ]
        head = {
            "verdicts": [_verdict_record(verdict) for verdict in compared.late.verdicts],
            "findings": [finding.as_dict() for finding in findings],
        }
        emit_tables([table for table in tables if len(table.frame)], output, schema=_SCHEMA, head=head)
        if output.table_format is TableFormat.TABLE:
            for verdict in compared.late.verdicts:
                click.echo("\n".join(_verdict_lines(verdict)))
    emit_findings(findings)
    return exit_code_of(findings)


def _table(compared: RankComparison, part: str, *, is_simulated: bool, is_for_people: bool = False) -> Table:
    from rocktools.evidence import Evidence
    from rocktools.render.table import table_from_spec

    spec, frame = _frame(compared, part)
    is_matched = part in ("skew", "operations", "collectives")
    hidden = {"run"} if frame["run"].nunique() < 2 else set()
    if is_for_people and part == "spread":
        # One device is not apart from any; the distance in time is that of the two columns beside it.
        frame, hidden = frame[frame["devices_count"] > 1], hidden | {"spread_ns"}
    shown = [name for name in frame.columns if name not in hidden]
    return table_from_spec(
        frame[shown],
        spec,
        evidence=Evidence.INFERRED if is_matched else Evidence.MEASURED,
        title=_TITLES[part],
        is_simulated=is_simulated,
        optional_columns=_OPTIONAL,
    )


def _frame(compared: RankComparison, part: str) -> tuple[FrameSpec, pd.DataFrame]:
    from rocktools.timeline.ranks import DEVICE_MEANS, DEVICE_SPREAD
    from rocktools.timeline.skew import COLLECTIVE_ARRIVALS, COLLECTIVE_SKEW, OPERATION_SKEW, sum_skew_by_operation

    if part == "devices":
        return DEVICE_MEANS, compared.devices.means
    if part == "spread":
        return DEVICE_SPREAD, compared.devices.spread
    if part == "skew":
        return COLLECTIVE_SKEW, compared.skew
    if part == "operations":
        return OPERATION_SKEW, sum_skew_by_operation(compared.collectives.frame)
    return COLLECTIVE_ARRIVALS, compared.collectives.frame


def _verdict_lines(verdict: LateRank) -> list[str]:
    """The verdict with the questions that led to it."""
    from rocktools.units import format_duration

    who = verdict.device or "no device"
    lines = [
        f"{verdict.host}: {who} is late ({verdict.cause}), the others wait {format_duration(verdict.lateness_ns)} "
        f"per step of {format_duration(verdict.step_ns)}"
        if verdict.device is not None
        else f"{verdict.host}: no device is late, in steps of {format_duration(verdict.step_ns)}"
    ]
    lines += [
        f"  {branch.question} {'yes' if branch.is_yes else 'no'}: {format_duration(branch.value_ns)}, "
        f"limit {format_duration(branch.limit_ns)}"
        for branch in verdict.branches
    ]
    return [*lines, f"  look at {verdict.advice}", f"  evidence: {verdict.evidence}"]


def _verdict_record(verdict: LateRank) -> dict[str, object]:
    return {
        "run": verdict.run,
        "host": verdict.host,
        "device": verdict.device,
        "cause": str(verdict.cause),
        "lateness_ns": verdict.lateness_ns,
        "step_ns": verdict.step_ns,
        "backward_excess_ns": verdict.backward_excess_ns,
        "branches": [
            {
                "question": branch.question,
                "value_ns": branch.value_ns,
                "limit_ns": branch.limit_ns,
                "is_yes": branch.is_yes,
            }
            for branch in verdict.branches
        ],
        "advice": verdict.advice,
        "evidence": str(verdict.evidence),
    }
