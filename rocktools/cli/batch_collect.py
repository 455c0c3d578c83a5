"""`rocktools batch collect` and `rocktools batch compare`: what profiled kernels are known by, and what changed."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click

from rocktools.cli.options import match_option, table_options
from rocktools.cli.output import TableFormat, TableOutput, emit_findings, emit_table, exit_code_of
from rocktools.cli.pictures import draw_roofline, picture_option
from rocktools.cli.progress import working
from rocktools.errors import UsageError

if TYPE_CHECKING:
    import pandas as pd

    from rocktools.batch.collect import Gathered, GatherOptions
    from rocktools.batch.compare_batches import BatchComparison
    from rocktools.evidence import Evidence
    from rocktools.frames import FrameSpec
    from rocktools.render.table import Table
    from rocktools.workspace.compute_roofline import ComputeRoofline

_KERNELS_SHOWN = (
    *("kernel_name", "proof", "tool_version", "traced_mean_ns", "compute_flop", "fabric_read_bytes"),
    *("fabric_write_bytes", "l2_bytes", "lds_moved_bytes", "fabric_flop_per_byte", "achieved_flop_per_s"),
    *("fabric_bytes_per_s", "occupancy_ratio", "mfma_ratio", "valu_ratio", "l2_hit_ratio", "dependency_wait_ratio"),
    *("issue_wait_ratio", "mix", "evidence", "absent_count"),
)
_KERNELS_OPTIONAL = (
    *("traced_mean_ns", "fabric_flop_per_byte", "achieved_flop_per_s", "fabric_bytes_per_s", "compute_flop"),
    *("fabric_read_bytes", "fabric_write_bytes", "evidence", "proof", "tool_version", "occupancy_ratio", "mfma_ratio"),
    *("valu_ratio", "l2_hit_ratio", "l2_bytes", "lds_moved_bytes", "dependency_wait_ratio", "issue_wait_ratio", "mix"),
    "absent_count",
)
_POINTS_SHOWN = (
    *("kernel_name", "level", "compute_flop", "moved_bytes", "intensity_flop_per_byte", "achieved_flop_per_s"),
    *("achieved_bytes_per_s", "traced_mean_ns", "tool_flop_per_byte", "tool_version", "source", "evidence"),
    *("rate_absence", "absence"),
)
_POINTS_OPTIONAL = (
    *("intensity_flop_per_byte", "achieved_flop_per_s", "achieved_bytes_per_s", "evidence", "compute_flop"),
    *("moved_bytes", "tool_flop_per_byte", "tool_version", "source", "traced_mean_ns", "absence", "rate_absence"),
)
_METRICS_SHOWN = ("kernel_name", "metric_id", "metric_name", "table_name", "value_name", "value", "unit", "absence")
_METRICS_OPTIONAL = ("value", "unit", "value_name", "metric_id", "table_name", "absence")
_QUANTITIES_SHOWN = (
    *("kernel_name", "quantity", "value", "unit", "source", "evidence", "tool_value", "difference_ratio", "reason"),
    *("absence", "doubts", "tool_metric"),
)
_QUANTITIES_OPTIONAL = (
    *("value", "unit", "tool_value", "difference_ratio", "evidence", "source", "reason", "absence", "tool_metric"),
    "doubts",
)
_CHANGES_OPTIONAL = (
    *("before_value", "after_value", "unit", "change_ratio", "evidence", "matched_by", "refusal", "change_value"),
    "other_kernel_name",
)
_STATED = frozenset({"workload", "kernel_name", "instruction", "proof", "tool_version", "source", "time_source",
                     "level", "quantity", "unit", "rate_absence", "absence"})  # fmt: skip
_WORDS_OF_PARTS = {
    "kernels": "a row for each kernel",
    "quantities": "every quantity, ours and the tool's, with the reason of a difference",
    "points": "roofline points of each kernel at each memory level",
    "metrics": "the tool's own values, by name",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class CollectRequest:
    """What the command line says about what to gather.

    Attributes:
        traces, match, tool_version, mix_passes: as `GatherOptions` has them.
    """

    traces: tuple[str, ...]
    match: str | None
    tool_version: str | None
    mix_passes: bool

    def options(self) -> GatherOptions:
        """The same for the library."""
        from rocktools.batch.collect import GatherOptions

        return GatherOptions(
            traces=self.traces, match=self.match, tool_version=self.tool_version, mixes_passes=self.mix_passes
        )


_trace_option = click.option(
    "--trace",
    "traces",
    metavar="PATH",
    multiple=True,
    help="A trace of the job or of the replays, for times and rates; may be repeated. Counter passes have no times.",
)
_tool_version_option = click.option(
    "--tool-version", metavar="VERSION", help="Of rocprof-compute, where the files do not say: 3.5."
)
_mix_passes_option = click.option(
    "--mix-passes",
    is_flag=True,
    help="Give ratios also where their counters come from different passes; they are marked, and may be far off.",
)


@click.command("collect")
@click.argument("paths", metavar="PATH...", nargs=-1, required=True, type=str)
@click.option(
    "--part",
    type=click.Choice(list(_WORDS_OF_PARTS)),
    default=None,
    help="; ".join(f"{name}: {words}" for name, words in _WORDS_OF_PARTS.items()) + ".  [default: kernels]",
)
@click.option("--metric", metavar="REGEX", help="Only metrics of the tool whose name or id matches; --part metrics.")
@_trace_option
@match_option("kernels whose clean name has")
@_tool_version_option
@_mix_passes_option
@click.option(
    "--level", type=click.Choice(["hbm", "l2", "lds"]), default="hbm", show_default=True, help="Of a picture."
)
@click.option("--device-part", metavar="PART", help="Ceilings of a picture are those of this part, or of a YAML file.")
@click.option(
    "--ceilings",
    metavar="FILE",
    multiple=True,
    type=click.Path(path_type=Path),
    help="Measured ceilings of a picture.  [default: those beside the results]",
)
@picture_option
@table_options(top_count=40)
def collect(
    paths: tuple[str, ...],
    part: str | None,
    metric: str | None,
    traces: tuple[str, ...],
    match: str | None,
    tool_version: str | None,
    mix_passes: bool,
    level: str,
    device_part: str | None,
    ceilings: tuple[Path, ...],
    picture: Path | None,
    output: TableOutput,
) -> int:
    """Gather what rocprof-compute says of kernels into one table and one roofline.

    Raw counters go through our own formulas; where there are none, the tool's values stand in. Both are shown where
    both are (--part quantities). -o FILE.md writes Markdown; -o FILE.svg or FILE.png draws the roofline, which needs
    times: those of a trace.

    PATHS are folders of `rocktools batch run`, workloads, analysis databases, folders of --save-dfs or of CSV views.
    """
    from rocktools.batch.collect import gather

    if metric is not None and part not in (None, "metrics"):
        raise UsageError("metric-of-other-part", f"--metric chooses among --part metrics, and not among {part}")
    request = CollectRequest(traces=traces, match=match, tool_version=tool_version, mix_passes=mix_passes)
    with working("gathering"):
        gathered = gather(paths, request.options())
    findings = gathered.findings
    if picture is not None:
        built = _roofline(gathered, level, device_part, ceilings)
        findings = (*findings, *built.findings)
        draw_roofline(built.roofline, picture, is_simulated=gathered.is_simulated)
    else:
        table = _table(gathered, part or ("metrics" if metric else "kernels"), metric, output)
        emit_table(table, output, findings=findings)
    emit_findings(findings)
    return exit_code_of(findings)


@click.command("compare")
@click.argument("before", metavar="A", type=str)
@click.argument("after", metavar="B", type=str)
@click.option("--trace-a", "before_traces", metavar="PATH", multiple=True, help="A trace of A, for times.")
@click.option("--trace-b", "after_traces", metavar="PATH", multiple=True, help="A trace of B, for times.")
@click.option("--quantity", "quantities", metavar="A,B,...", help="Only these quantities.")
@match_option("kernels whose clean name has")
@click.option(
    "--tool-version", metavar="VERSION", help="Of rocprof-compute, where the files of either do not say: 3.5."
)
@_mix_passes_option
@table_options(top_count=60)
def compare(
    before: str,
    after: str,
    before_traces: tuple[str, ...],
    after_traces: tuple[str, ...],
    quantities: str | None,
    match: str | None,
    tool_version: str | None,
    mix_passes: bool,
    output: TableOutput,
) -> int:
    """What changed for each kernel from A to B: every quantity with both values.

    A and B are what `rocktools batch collect` takes. Kernels that only one side has are listed; values that mean
    different things, as those of different versions of rocprof-compute may, are shown and not subtracted.
    """
    from rocktools.batch.collect import gather
    from rocktools.batch.compare_batches import compare_gathered

    requests = [
        CollectRequest(traces=traces, match=match, tool_version=tool_version, mix_passes=mix_passes)
        for traces in (before_traces, after_traces)
    ]
    first, second = (gather([path], request.options()) for path, request in zip((before, after), requests, strict=True))
    wanted = None if quantities is None else [name.strip() for name in quantities.split(",")]
    comparison = compare_gathered(first, second, quantities=wanted)
    findings = (*first.findings, *second.findings, *comparison.findings)
    emit_table(_changes_table(comparison, output), output, findings=findings)
    emit_findings(findings)
    return exit_code_of(findings)


def _roofline(gathered: Gathered, level: str, part: str | None, ceilings: tuple[Path, ...]) -> ComputeRoofline:
    from rocktools.batch.collected_roofline import CollectedRooflineOptions, build_collected_roofline

    options = CollectedRooflineOptions(level=level, part=part, ceilings=ceilings)
    return build_collected_roofline(gathered, options)


def _table(gathered: Gathered, part: str, metric: str | None, output: TableOutput) -> Table:
    from rocktools.batch.collect import keep_metrics
    from rocktools.batch.gathered_tables import BATCH_KERNELS, BATCH_POINTS
    from rocktools.sources.compute_analysis.results import COMPUTE_METRICS
    from rocktools.units import count_noun
    from rocktools.workspace.compute_quantities import COMPUTE_QUANTITIES

    what = f"{count_noun(len(gathered.values), 'kernel')} under rocprof-compute"
    if part == "metrics":
        frame = keep_metrics(gathered, metric)
        title = f"{what}: {count_noun(len(frame), 'value')} of the tool; its rates are by the time of counter passes"
        return _shown(frame, COMPUTE_METRICS, _METRICS_SHOWN, _METRICS_OPTIONAL, title, gathered, output)
    if part == "points":
        title = f"{what}: roofline points of a mean launch"
        return _shown(gathered.points, BATCH_POINTS, _POINTS_SHOWN, _POINTS_OPTIONAL, title, gathered, output)
    if part == "quantities":
        frame = gathered.quantities
        if output.table_format is TableFormat.TABLE:
            frame = frame[(frame["value"].notna() | frame["tool_value"].notna()).to_numpy()]
        title = f"{what}: {count_noun(int(frame['value'].notna().sum()), 'value')} of quantities of a mean launch"
        return _shown(frame, COMPUTE_QUANTITIES, _QUANTITIES_SHOWN, _QUANTITIES_OPTIONAL, title, gathered, output)
    return _shown(gathered.kernels, BATCH_KERNELS, _KERNELS_SHOWN, _KERNELS_OPTIONAL, what, gathered, output)


def _shown(
    frame: pd.DataFrame,
    spec: FrameSpec,
    shown: tuple[str, ...],
    optional: tuple[str, ...],
    title: str,
    gathered: Gathered,
    output: TableOutput,
) -> Table:
    """The table; for people without columns that say nothing, and with labels of workloads only where they help."""
    from rocktools.evidence import Evidence
    from rocktools.render.table import table_from_spec

    names = list(spec.names)
    if output.table_format in (TableFormat.TABLE, TableFormat.MARKDOWN):
        has_twins = gathered.kernels["kernel_name"].duplicated().any()
        names = [name for name in shown if not frame[name].isna().all()]
        names = ["workload", *names] if has_twins else names
    evidence = {name: Evidence.DECLARED if name in _STATED else Evidence.INFERRED for name in names}
    evidence |= {name: Evidence.MEASURED for name in names if name == "traced_mean_ns"}
    evidence |= {name: _weakest_of(frame) for name in names if evidence[name] is Evidence.INFERRED}
    return table_from_spec(
        frame[names].reset_index(drop=True),
        spec,
        evidence=evidence,
        title=title,
        is_simulated=gathered.is_simulated,
        notes=_notes(gathered),
        optional_columns=optional,
    )


def _weakest_of(frame: pd.DataFrame) -> Evidence:
    """The weakest evidence of the rows; rocprof-compute's own values carry none, and are as good as inferred."""
    from rocktools.evidence import Evidence, weakest

    if "evidence" not in frame:
        return Evidence.INFERRED
    found = [Evidence(str(each)) for each in frame["evidence"].dropna().unique()]
    return weakest(Evidence.COUNTER, *found)


def _notes(gathered: Gathered) -> tuple[str, ...]:
    """Versions, replays without a proof, and where rates are missing."""
    versions = sorted({each.tool_version for each in gathered.values})
    notes = [f"rocprof-compute {', '.join(versions)}"]
    unproven = sum(each.planned is not None and not each.planned.level.is_stand_in for each in gathered.values)
    if unproven:
        notes.append(f"unproven: {unproven} of these replays may not stand for the kernel of the job")
    without = sum(each.time is None for each in gathered.values)
    if without:
        notes.append(f"no rates for {without} of them: no trace has their time, and that of a counter pass is none")
    return tuple(notes)


def _changes_table(comparison: BatchComparison, output: TableOutput) -> Table:
    from rocktools.batch.compare_batches import BATCH_CHANGES
    from rocktools.render.table import table_from_spec
    from rocktools.units import count_noun

    frame = comparison.frame
    names, notes = list(BATCH_CHANGES.names), list[str]()
    if output.table_format in (TableFormat.TABLE, TableFormat.MARKDOWN):
        frame, notes = _what_changed(frame)
        names = [name for name in names if name != "workload" and not frame[name].isna().all()]
    evidence = _weakest_of(frame)
    return table_from_spec(
        frame[names],
        BATCH_CHANGES,
        evidence=evidence,
        title=f"changes of {count_noun(comparison.matched_count, 'kernel')}: {count_noun(len(frame), 'row')}",
        is_simulated=comparison.is_simulated,
        notes=notes,
        optional_columns=_CHANGES_OPTIONAL,
    )


def _what_changed(frame: pd.DataFrame) -> tuple[pd.DataFrame, list[str]]:
    """The rows that people look for: changes, and kernels of one side, each once; what was left out is told."""
    is_alone = frame["matched_by"].isin(["before_only", "after_only"]).to_numpy()
    is_first = ~frame.duplicated(["kernel_name", "workload", "matched_by"]).to_numpy()
    has_both = (frame["before_value"].notna() & frame["after_value"].notna()).to_numpy()
    is_same = has_both & (frame["before_value"] == frame["after_value"]).to_numpy()
    is_shown = (is_alone & is_first) | (~is_alone & has_both & ~is_same)
    one_sided = int((~is_alone & ~has_both).sum())
    notes = [
        f"the same in both: {int(is_same.sum())}; with a value on one side only: {one_sided}; --format csv has all"
    ]
    shown = frame[is_shown].reset_index(drop=True)
    # One row says that such a kernel is alone; which quantity comes first says nothing.
    one_row = shown["matched_by"].isin(["before_only", "after_only"]).to_numpy()
    values = ["quantity", "unit", "before_value", "after_value", "refusal"]
    return shown.assign(**{name: shown[name].mask(one_row) for name in values}), notes
