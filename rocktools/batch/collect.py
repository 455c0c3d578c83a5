"""Results of rocprof-compute, wherever they are -> what is known of each kernel: the call behind `batch collect`."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from rocktools.batch.batch_folders import BatchPlaces, find_places
from rocktools.batch.gathered_tables import KernelValues, build_kernel_rows, build_points, kernel_values
from rocktools.batch.kernel_times import TracedTimes, read_times, time_of
from rocktools.errors import NothingToRead, UsageError
from rocktools.findings import Finding, Severity
from rocktools.units import count_noun
from rocktools.workspace.compute_quantities import ComputeQuantities, build_compute_quantities
from rocktools.workspace.compute_results import ComputeResults, read_compute_results
from rocktools.workspace.tool_doubts import SHARES, shortened


@dataclass(frozen=True, slots=True, kw_only=True)
class GatherOptions:
    """What the user may choose.

    Attributes:
        traces: of the job or of the replays, for times.
        match: only kernels whose clean name has a match of this regex.
        tool_version: of results that do not say theirs.
        mixes_passes: whether our formulas give ratios also where their counters come from different passes.
    """

    traces: tuple[str | Path, ...] = ()
    match: str | None = None
    tool_version: str | None = None
    mixes_passes: bool = False


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Gathered:
    """What is known of all kernels.

    Attributes:
        results: as they were read.
        values: of each kernel, the one that takes most time first.
        kernels: BATCH_KERNELS.
        points: BATCH_POINTS.
        quantities: COMPUTE_QUANTITIES, in the same order.
        built: what the quantities come from.
        ceilings: files with measured ceilings.
        findings: doubts about everything.
        is_simulated: whether any of it was made without hardware.
    """

    results: ComputeResults
    values: tuple[KernelValues, ...]
    kernels: pd.DataFrame
    points: pd.DataFrame
    quantities: pd.DataFrame
    built: ComputeQuantities
    ceilings: tuple[Path, ...]
    findings: tuple[Finding, ...]
    is_simulated: bool


def gather(arguments: Sequence[str | Path], options: GatherOptions | None = None) -> Gathered:
    """Everything in batches, workloads, analysis databases and folders of CSV files.

    Raises:
        UsageError: nothing was named, or the regex or version is none.
        InputError: a file cannot be read.
        NothingToRead: there is no result, or no kernel matches.
    """
    chosen = options or GatherOptions()
    pattern = _pattern(chosen.match)
    places = find_places(arguments)
    results = read_compute_results(
        places.paths,
        find_version=places.version_of,
        find_prefix=places.prefix_of,
        tool_version=chosen.tool_version,
        mixes_passes=chosen.mixes_passes,
        skipped=places.skipped,
    )
    traced = read_times(chosen.traces)
    built = build_compute_quantities(results)
    values = _values(built, places, traced, pattern)
    kept = {(each.workload, each.kernel) for each in values}
    findings = (*places.findings, *results.findings, *built.findings, *traced.findings)
    return Gathered(
        results=results,
        values=values,
        kernels=build_kernel_rows(values),
        points=build_points(values),
        quantities=_in_order(built.frame, [(each.workload, each.kernel) for each in values]),
        built=built,
        ceilings=(*places.ceilings, *results.ceilings),
        findings=(*findings, *_check_times(values, traced, bool(chosen.traces)), *_unknown_versions(results, kept)),
        is_simulated=places.is_simulated or traced.is_simulated,
    )


def keep_metrics(gathered: Gathered, pattern: str | None) -> pd.DataFrame:
    """COMPUTE_METRICS of the kernels that were gathered, and of whole workloads: values as the tool has them.

    Only a share of a peak has another unit: the tool's table has one for each metric, which is that of the peak.

    Args:
        pattern: only metrics whose name or id has a match of this regex; None: all.

    Raises:
        UsageError: the pattern is not a regex.
        NothingToRead: nothing matches.
    """
    metrics = gathered.results.metrics
    kernels = {each.kernel for each in gathered.values}
    is_kept = (metrics["kernel_name"].isna() | metrics["kernel_name"].isin(kernels)).to_numpy(copy=True)
    if pattern is not None:
        compiled = _pattern(pattern)
        assert compiled is not None
        known = {
            (name, key): compiled.search(str(name)) is not None or compiled.fullmatch(str(key)) is not None
            for name, key in set(zip(metrics["metric_name"], metrics["metric_id"].astype(object), strict=True))
        }
        pairs = zip(metrics["metric_name"], metrics["metric_id"].astype(object), strict=True)
        is_kept &= [known.get((name, key), False) for name, key in pairs]
    if not is_kept.any():
        raise NothingToRead(
            "no-metric-matched",
            "there is no value of the tool"
            + ("" if pattern is None else f" of a metric whose name or id has a match of the regex {pattern!r}"),
            hint="raw counters have none: rocprof-compute analyze --output-format db makes them; names are as in its "
            "tables: 'L2-Fabric Read BW', 2.1.24",
        )
    kept = metrics[is_kept].reset_index(drop=True)
    is_share = kept["value_name"].isin(SHARES)
    return kept.assign(unit=kept["unit"].astype(object).mask(is_share, "%").astype("category"))


def _pattern(text: str | None) -> re.Pattern[str] | None:
    try:
        return None if text is None else re.compile(text)
    except re.error as error:
        raise UsageError("bad-regex", f"{text!r} is not a regex: {error}") from error


def _values(
    built: ComputeQuantities, places: BatchPlaces, traced: TracedTimes, pattern: re.Pattern[str] | None
) -> tuple[KernelValues, ...]:
    found = []
    for (workload, kernel), rows in built.frame.groupby(["workload", "kernel_name"], observed=True, sort=True):
        if pattern is not None and pattern.search(str(kernel)) is None:
            continue
        planned = places.planned.get(str(workload))
        # A replay may start other kernels, which the plan says nothing of.
        mine = planned if planned is not None and planned.kernel in ("", str(kernel)) else None
        time = time_of(str(kernel), traced, mine)
        hides_lines = (str(workload), str(kernel)) in built.hidden
        found.append(kernel_values(rows, time=time, planned=mine, hides_lines=hides_lines))
    if not found:
        raise NothingToRead(
            "no-kernel-matched",
            "no profiled kernel has values" if pattern is None else f"no kernel has a match of {pattern.pattern!r}",
            hint="the regex is case-sensitive; without --match all are shown" if pattern is not None else None,
        )
    return tuple(sorted(found, key=_taken_ns, reverse=True))


def _taken_ns(kernel: KernelValues) -> float:
    return kernel.time.mean_ns * kernel.time.launches_count if kernel.time is not None else 0.0


def _in_order(frame: pd.DataFrame, keys: Sequence[tuple[str, str]]) -> pd.DataFrame:
    """The rows of these kernels, in their order."""
    groups = {
        (str(workload), str(kernel)): rows
        for (workload, kernel), rows in frame.groupby(["workload", "kernel_name"], observed=True, sort=False)
    }
    return pd.concat([groups[key] for key in keys], ignore_index=True)


def _check_times(values: Sequence[KernelValues], traced: TracedTimes, is_traced: bool) -> list[Finding]:
    """Kernels that no named trace has."""
    without = [each.kernel for each in values if each.time is None]
    if not is_traced or not without:
        return []
    return [
        Finding(
            rule="kernel-not-in-trace",
            severity=Severity.WARNING,
            where=shortened(without[0]),
            message=f"{count_noun(len(without), 'kernel')} of {len(values)} is in none of the traces that were named, "
            "and has no rate" if len(without) == 1 else
            f"{count_noun(len(without), 'kernel')} of {len(values)} are in none of the traces that were named, and "
            "have no rate",
            numbers={"kernels_count": len(without), "traced_kernels_count": len(traced.by_kernel)},
            advice="names are compared exactly: is it the trace of the same program?",
        )
    ]  # fmt: skip


def _unknown_versions(results: ComputeResults, kept: set[tuple[str, str]]) -> list[Finding]:
    """Workloads of which nobody knows the version: what the tool computed there may mean either."""
    labels = {workload for workload, _ in kept}
    unknown = [
        each
        for each in results.workloads
        if each.version.text is None and each.version.is_since((3, 7)) is None and each.label in labels
    ]
    if not unknown or results.metrics.empty:
        return []
    return [
        Finding(
            rule="tool-version-unknown",
            severity=Severity.NOTE,
            where=str(unknown[0].path),
            message=f"nothing says which version made {count_noun(len(unknown), 'workload')}; before 3.7 the tool "
            "counted lines of L1 and L2 otherwise",
            numbers={"workloads_count": len(unknown)},
            advice="--tool-version says it",
        )
    ]
