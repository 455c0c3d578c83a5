"""Everything gathered -> what ran, and how much of it was recorded."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd

from rocktools.attribution.phases import BookedPhase
from rocktools.evidence import Evidence
from rocktools.findings import Finding, sort_findings
from rocktools.frames import DISPATCHES
from rocktools.hlo.module import HloModule
from rocktools.summary.document import DeviceFacts, Fact, LinkMethod, Missing, Quality, RunMetadata, TraceOverview
from rocktools.summary.facts import known, unknown
from rocktools.summary.gathered import Gathered, Timed
from rocktools.summary.rows import plain_value
from rocktools.timeline.activities import Activity
from rocktools.timeline.clocks import host_of
from rocktools.timeline.grouping import codes_of, group_rows, match_rows
from rocktools.workspace.paths import SourceKind, SourcePath
from rocktools.workspace.programs import FoundProgram

_FORMATS = {SourceKind.DATABASE: "rocpd", SourceKind.REPLAY_JSON: "rocprofv3_json", SourceKind.PROFILE: "xspace"}


def format_of(source: SourcePath) -> str:
    """The format of a file, as the document calls it."""
    return _FORMATS[source.kind]


def build_metadata(
    gathered: Gathered, job: Mapping[str, Fact], component_map: str, *, is_perfetto: bool = False
) -> RunMetadata:
    """What ran.

    Args:
        job: facts of the job.
        component_map: name of the map that components follow.
        is_perfetto: whether profiles were made of traces in JSON.
    """
    used = _used(gathered)
    timed = gathered.timed
    formats = tuple(sorted({format_of(source) for source in gathered.sources}))
    programs = {f"{each.name} ({each.program_id})" for each in _linked_programs(gathered)}
    return RunMetadata(
        runs=tuple(sorted({source.run for source in gathered.sources})),
        source_formats=("perfetto_json",) if is_perfetto else formats,
        hosts_count=len({host_of(device) for device in used}) or None,
        processes_count=None if isinstance(timed, Missing) else int(timed.rows["process"].nunique()),
        devices_count=len(used) or None,
        devices=_devices(gathered, used),
        programs=tuple(sorted(programs)),
        component_map=component_map,
        job=job,
    )


def devices_fact(gathered: Gathered, logged_count: int | None, log_name: str) -> Fact:
    """How many devices the job ran on: by its own log, or by its program, of which not all may have been recorded."""
    if logged_count is not None:
        return known(logged_count, Evidence.DECLARED, f"{log_name}: Num_devices")
    used = _used(gathered)
    if not used:
        return unknown("no device ran anything")
    compiled_count = max((_devices_of(each.program.module) for each in _linked_programs(gathered)), default=0)
    if compiled_count > len(used):
        return known(compiled_count, Evidence.DECLARED, "devices that the program was compiled for")
    return known(len(used), Evidence.MEASURED, "devices that ran the steps")


def _linked_programs(gathered: Gathered) -> list[FoundProgram]:
    """Programs of which something ran in the steps that count."""
    timed = gathered.timed
    if isinstance(timed, Missing):
        return []
    linked = {str(each) for each in timed.rows["program_id"].dropna().unique()}
    found = [each for programs_of in timed.runs.programs.values() for each in programs_of]
    return [each for each in found if each.program_id in linked]


def _devices_of(module: HloModule) -> int:
    texts = [module.attributes.get(name, "") for name in ("num_partitions", "replica_count")]
    return math.prod(int(text) for text in texts if text.isdecimal())


def _used(gathered: Gathered) -> set[str]:
    timed = gathered.timed
    return set() if isinstance(timed, Missing) else {str(device) for device in timed.rows["device"].unique()}


def _devices(gathered: Gathered, used: set[str]) -> tuple[DeviceFacts, ...]:
    """Each device once, facts as the first process recorded them."""
    profiled = gathered.profiled_devices
    sizes = dict(zip(profiled["device"].astype(str), profiled["memory_bytes"], strict=True))
    found: dict[str, DeviceFacts] = {}
    names = ("device", "kind", "arch", "product", "xcc_count", "cu_count", "max_engine_hz")
    for row in zip(*(gathered.agents[name].astype(object) for name in names), strict=True):
        values = dict(zip(names, (plain_value(each) for each in row), strict=True))
        label = str(values["device"])
        if label not in found:
            size = plain_value(sizes.get(label))
            found[label] = DeviceFacts(**values, memory_bytes=size, is_used=label in used)
    for label in sorted(used - set(found)):
        nothing = dict.fromkeys(("arch", "product", "xcc_count", "cu_count", "max_engine_hz", "memory_bytes"))
        kind = "CPU" if _is_host_only(gathered) else None
        found[label] = DeviceFacts(device=label, kind=kind, is_used=True, **nothing)
    return tuple(found[label] for label in sorted(found))


def build_quality(gathered: Gathered, findings: Sequence[Finding], *, is_truncated: bool = False) -> Quality:
    """How much was recorded, and every doubt.

    Args:
        findings: of all blocks.
        is_truncated: whether an exporter seems to have stopped at its limit.
    """
    timed = gathered.timed
    rows = None if isinstance(timed, Missing) else timed.runs.rows
    has_rows = rows is not None and len(rows) > 0
    has_program = not isinstance(timed, Missing) and any(timed.runs.programs.values())
    is_host = _is_host_only(gathered)
    overview = TraceOverview(
        start_ns=int(rows["start_ns"].min()) if rows is not None and has_rows else None,
        end_ns=int(rows["end_ns"].max()) if rows is not None and has_rows else None,
        dispatches_count=None if rows is None or is_host else int((rows["kind"] == "dispatch").sum()),
        copies_count=None if rows is None else gathered.copies_count,
        host_calls_count=gathered.host_calls_count if len(gathered.processes) else None,
        events_count=gathered.host_events_count if gathered.has_profiles else None,
        streams_count=None if rows is None else len(rows[["run", "process", "device", "stream_id"]].drop_duplicates()),
        linked_ratio=_share(rows, rows["instruction"].notna()) if rows is not None and has_program else None,
        attributed_ratio=_share(rows, _is_attributed(rows)) if rows is not None else None,
        is_host_only=is_host,
        is_truncation_suspected=is_truncated,
        basis="host_thread_duration" if is_host else "exact_device_duration",
    )
    links = () if isinstance(timed, Missing) or not has_program else _links(timed)
    return Quality(overview=overview, findings=tuple(sort_findings(findings)), links=links)


def _links(timed: Timed) -> tuple[LinkMethod, ...]:
    """How kernels, or instructions of the CPU backend, were linked."""
    dispatches, edges = timed.runs.dispatches, timed.runs.edges
    at = match_rows(edges, dispatches, DISPATCHES.key)
    durations = np.maximum((dispatches["end_ns"] - dispatches["start_ns"]).to_numpy(dtype=np.int64), 0)
    groups = group_rows([codes_of(edges["method"]), codes_of(edges["confidence"])])
    sums = np.zeros(len(groups), dtype=np.int64)
    np.add.at(sums, groups.of[at >= 0], durations[at[at >= 0]])
    counts, total = np.bincount(groups.of, minlength=len(groups)), int(durations.sum())
    shown = edges.iloc[groups.example]
    found = [
        LinkMethod(
            method=str(method),
            confidence=str(confidence),
            dispatches_count=int(count),
            total_ns=int(sum_ns),
            time_ratio=int(sum_ns) / total if total else 0.0,
        )
        for method, confidence, count, sum_ns in zip(shown["method"], shown["confidence"], counts, sums, strict=True)
    ]
    return tuple(sorted(found, key=lambda each: (-each.total_ns, each.method, each.confidence)))


def _is_host_only(gathered: Gathered) -> bool:
    """Whether the CPU backend ran everything, or nothing ran at all."""
    if isinstance(gathered.timed, Missing):
        return gathered.counted_dispatches_count == 0
    return any(each.rule == "work-of-the-cpu-backend" for each in gathered.findings)


def _is_attributed(rows: pd.DataFrame) -> pd.Series:
    has_phase = rows["phase"] != BookedPhase.UNATTRIBUTED.value
    return has_phase | (rows["activity"] == Activity.COMMUNICATION.value)


def _share(rows: pd.DataFrame, chosen: pd.Series) -> float | None:
    """Part of the durations of rows that are chosen; None where there is no time."""
    durations = np.maximum((rows["end_ns"] - rows["start_ns"]).to_numpy(dtype=np.int64), 0)
    total = int(durations.sum())
    return int(durations[chosen.to_numpy(dtype=np.bool_)].sum()) / total if total else None
