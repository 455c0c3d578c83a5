"""A summary -> the shape of Marin's `profile_summary.v1`, for those whose scripts read that one.

Names of members are Marin's; durations are microseconds there. What we know better stays true in the coarser shape:
times are of the steps that count; shares are of the spans of the devices, so that communication that compute hides is
in `communication` and not in `compute`, as in Marin's global breakdown; `stall` is time in which a device did nothing.
The first name in the path of a region is its phase. What Marin has and we do not know is null. What was simulated, and
what is absent, is in `quality_warnings`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any

from rocktools.summary.document import (
    Candidate,
    CollectivesBlock,
    Fact,
    GapsBlock,
    Missing,
    Operation,
    OperationsBlock,
    OverlapBlock,
    RegionsBlock,
    Statistics,
    StepClass,
    Steps,
    Summary,
)
from rocktools.summary.statistics import describe_durations

SCHEMA_VERSION = "profile_summary.v1"
HOT_OPERATIONS_COUNT = 25
_NS_PER_US = 1_000
_LISTED_COUNT = 20
_NUMBERING = re.compile(r"(?:\.\d+)+$")
_SOURCE_FORMATS = {"perfetto_json": "perfetto_trace_json", "xspace": "xplane_pb"}

Json = dict[str, Any]


def marin_document(summary: Summary, *, hot_operations_count: int = HOT_OPERATIONS_COUNT) -> Json:
    """The document, members in alphabetical order.

    Args:
        hot_operations_count: longest operations that are listed.
    """
    operations = _or_none(summary.operations)
    listed = () if operations is None else operations.operations[:hot_operations_count]
    document = {
        "schema_version": SCHEMA_VERSION,
        "generated_at_utc": summary.generated_at_utc or "",
        "source_format": _source_format(summary),
        "source_path": _first([each.path for each in summary.provenance.inputs if each.role != "manifest"]),
        "run_metadata": _run_metadata(summary),
        "trace_overview": _trace_overview(summary),
        "trace_provenance": _trace_provenance(summary, operations),
        "step_time": _step_time(_or_none(summary.steps)),
        "time_breakdown": _time_breakdown(_or_none(summary.overlap), summary.quality.overview.basis),
        "hot_ops": [_hot_op(each) for each in listed],
        "semantic_families": _families(summary, operations),
        "communication_ops": _communication(_or_none(summary.collectives)),
        "gap_before_ops": _gaps(_or_none(summary.gaps)),
        "hierarchical_regions": _regions(_or_none(summary.regions)),
        "gap_region_contexts": _contexts(_or_none(summary.gaps)),
        "optimization_candidates": [_candidate(each) for each in summary.candidates],
    }
    sorted_document: Json = _sorted(document)
    return sorted_document


def _or_none(block: Any) -> Any:
    return None if isinstance(block, Missing) else block


def _us(duration_ns: float | None) -> float | None:
    return None if duration_ns is None else duration_ns / _NS_PER_US


def _first(values: Iterable[str]) -> str:
    return next(iter(values), "")


def _source_format(summary: Summary) -> str:
    """Marin's name where it has one; of several formats, and of databases, ours."""
    formats = summary.metadata.source_formats
    return _SOURCE_FORMATS.get(formats[0], formats[0]) if len(formats) == 1 else "+".join(formats)


def _text(fact: Fact) -> str | None:
    return None if fact.value is None else str(fact.value)


def _run_metadata(summary: Summary) -> Json:
    job, metadata, facts = summary.metadata.job, summary.metadata, summary.provenance.facts
    return {
        "run_path": None,
        "run_id": _text(job["run_name"]) or _first(metadata.runs) or None,
        "artifact_ref": None,
        "artifact_name": None,
        "hardware_type": _text(facts["device_product"]) or _text(job["hardware"]),
        "mesh_or_topology": _text(job["mesh"]),
        "git_sha": _text(job["git_sha"]),
        "config_hash": _text(job["config_sha256"]),
        "num_devices": metadata.devices_count,
        "num_hosts": metadata.hosts_count,
    }


def _trace_overview(summary: Summary) -> Json:
    overview = summary.quality.overview
    counts = (overview.dispatches_count, overview.copies_count, overview.host_calls_count, overview.events_count)
    complete = sum(count or 0 for count in counts)
    warnings = [f"{each.rule}: {each.message}" for each in summary.quality.findings if each.severity.value != "note"]
    if summary.is_simulated:
        warnings.insert(0, "simulated: no hardware produced these times")
    for name in ("ledger", "collectives", "gaps", "regions"):
        block = getattr(summary, name)
        warnings += [f"no {name}: {block.reason}"] if isinstance(block, Missing) else []
    # That shape has whole numbers here, and no way to leave one out.
    unknown = {"num_processes": summary.metadata.processes_count, "num_threads": overview.streams_count}
    unknown["num_events_total"] = None if all(count is None for count in counts) else complete
    warnings += [f"{name} is not known, and 0 stands for it" for name, count in unknown.items() if count is None]
    return {
        "display_time_unit": "ns",
        "num_events_total": complete,
        "num_complete_events": complete,
        "num_processes": summary.metadata.processes_count or 0,
        "num_threads": overview.streams_count or 0,
        "profile_start_ts": _us(overview.start_ns),
        "profile_end_ts": _us(overview.end_ns),
        "duration_basis": overview.basis,
        "suspected_truncation": overview.is_truncation_suspected,
        "quality_warnings": warnings,
    }


def _trace_provenance(summary: Summary, operations: OperationsBlock | None) -> Json:
    files = () if operations is None else (each.source_file for each in operations.operations)
    return {
        "trace_sha256": summary.provenance.inputs_sha256,
        "run_ids": list(summary.metadata.runs[:_LISTED_COUNT]),
        "source_file_hints": list(dict.fromkeys(each for each in files if each))[:_LISTED_COUNT],
    }


def _statistics(statistics: Statistics | None) -> Json:
    """Of no sample, a count of 0 and nothing else."""
    if statistics is None:
        return {"count": 0, **dict.fromkeys(("mean", "median", "p90", "min", "max"))}
    return {
        "count": statistics.samples_count,
        "mean": _us(statistics.mean_ns),
        "median": _us(statistics.median_ns),
        "p90": _us(statistics.p90_ns),
        "min": _us(statistics.min_ns),
        "max": _us(statistics.max_ns),
    }


def _step_time(steps: Steps | None) -> Json:
    every = [] if steps is None else [each.duration_ns for each in steps.series]
    return {
        "warmup_steps_ignored": 0 if steps is None else steps.warmup_steps_count,
        "all_steps": _statistics(describe_durations(every)),
        "steady_state_steps": _statistics(None if steps is None else steps.statistics),
        "classes": [] if steps is None else [_step_class(each, steps) for each in steps.classes],
    }


def _step_class(step_class: StepClass, steps: Steps) -> Json:
    index = step_class.representative_step_index
    durations = [each.duration_ns for each in steps.series if each.step_index == index]
    return {
        "name": step_class.name,
        "count": step_class.steps_count,
        "fraction_of_steady": step_class.fraction_ratio,
        "duration_stats": _statistics(step_class.statistics),
        "representative_step": index,
        "representative_duration": _us(durations[0] if durations else None),
        "periodicity": step_class.period_steps_count,
    }


def _time_breakdown(overlap: OverlapBlock | None, basis: str) -> Json:
    """The span of all devices and steps; where both run, it is communication."""
    parts = dict.fromkeys(("compute", "communication", "host", "stall", "other"), 0.0)
    if overlap is not None:
        for each in overlap.devices:
            count = each.steps_count / _NS_PER_US
            parts["communication"] += each.communication_ns * count
            parts["compute"] += (each.busy_ns - each.communication_ns - each.exposed_copy_ns) * count
            parts["stall"] += each.idle_ns * count
            parts["other"] += each.exposed_copy_ns * count
    total = sum(parts.values())
    shares = {
        name: {"total_duration": value, "share_of_total": value / total if total else 0.0}
        for name, value in parts.items()
    }
    return {"duration_basis": basis, "total_duration": total, **shares}


def _hot_op(operation: Operation) -> Json:
    return {
        "name": operation.name,
        "canonical_name": _NUMBERING.sub("", operation.name),
        "category": operation.activity,
        "count": operation.rows_count,
        "total_duration": _us(operation.sum_ns),
        "exclusive_duration": _us(operation.exclusive_ns),
        "avg_duration": _us(operation.mean_ns),
        "shape_signature": operation.shape,
        "source_file": _source(operation),
        "tf_op_path": operation.op_name,
        "flop_proxy_per_invocation": None if operation.compute_flop is None else float(operation.compute_flop),
    }


def _source(operation: Operation) -> str | None:
    if operation.source_file is None or operation.source_line is None:
        return operation.source_file
    return f"{operation.source_file}:{operation.source_line}"


def _families(summary: Summary, operations: OperationsBlock | None) -> list[Json]:
    if isinstance(summary.families, Missing):
        return []
    found = []
    for each in summary.families.families:
        flop = each.compute_flop or None
        found.append(
            {
                "family": each.family,
                "count": each.rows_count,
                "total_duration": _us(each.sum_ns),
                "exclusive_duration": _us(each.exclusive_ns),
                "share_of_total": each.share_ratio,
                "avg_duration": _us(each.sum_ns / each.rows_count),
                "avg_exclusive_duration": _us(each.exclusive_ns / each.rows_count),
                "example_op": each.example_operation,
                "dominant_shape_signature": each.dominant_shape,
                "flop_proxy_total": None if flop is None else float(flop),
                "time_per_flop_proxy": None if flop is None else each.sum_ns / _NS_PER_US / flop,
            }
        )
    return found


def _communication(collectives: CollectivesBlock | None) -> list[Json]:
    if collectives is None:
        return []
    sums: dict[str, tuple[int, int]] = {}
    for each in collectives.kinds:
        count, total = sums.get(each.collective or "unknown", (0, 0))
        sums[each.collective or "unknown"] = (count + each.rows_count, total + each.sum_ns)
    return [
        {"collective": name, "count": count, "total_duration": _us(total), "avg_duration": _us(total / count)}
        for name, (count, total) in sorted(sums.items(), key=lambda item: (-item[1][1], item[0]))
    ]


def _gaps(gaps: GapsBlock | None) -> list[Json]:
    """By the operation that ends the gap, as Marin names it: the marker where there is one."""
    return [
        {
            "name": each.marker_name or each.payload_name or "unknown",
            "count": each.gaps_count,
            "total_gap_duration": _us(each.total_ns),
            "max_gap_duration": _us(each.longest_ns),
            "avg_gap_duration": _us(each.mean_ns),
            "payload_op": each.payload_name,
            "marker_op": each.marker_name,
        }
        for each in (() if gaps is None else gaps.before)
    ]


def _contexts(gaps: GapsBlock | None) -> list[Json]:
    return [
        {
            "op_name": each.payload_name or each.marker_name or "unknown",
            "region_path": _path(each.phase or "unattributed", tuple((each.scope or "").split("/"))),
            "count": each.gaps_count,
            "total_gap_duration": _us(each.total_ns),
            "avg_gap_duration": _us(each.mean_ns),
        }
        for each in (() if gaps is None else gaps.before)
        if each.scope
    ]


def _regions(regions: RegionsBlock | None) -> list[Json]:
    return [
        {
            "path": _path(each.phase, each.path),
            "depth": each.depth_count + 1,
            "count": each.rows_count,
            "inclusive_duration": _us(each.inclusive_ns),
            "exclusive_duration": _us(each.exclusive_ns),
        }
        for each in (() if regions is None else regions.regions)
    ]


def _path(phase: str, scopes: Sequence[str]) -> str:
    return "=>".join([phase, *(each for each in scopes if each)])


def _candidate(candidate: Candidate) -> Json:
    evidence = [f"{each.name} = {each.value} ({each.evidence}, {each.block})" for each in candidate.evidence]
    return {
        "candidate_id": candidate.candidate_id,
        "title": f"{candidate.title}: {candidate.subject}" if candidate.subject else candidate.title,
        "rationale": candidate.rationale,
        "evidence": evidence,
        "suggestions": list(candidate.suggestions),
    }


def _sorted(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _sorted(value[name]) for name in sorted(value)}
    return [_sorted(each) for each in value] if isinstance(value, list) else value
