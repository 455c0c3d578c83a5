"""What in a JAX profile cannot be trusted, or is not there: findings, with the numbers they rest on."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from rocktools.findings import Finding, Number, Severity, sort_findings
from rocktools.sources.xspace.hlo_protos import has_hlo_protos
from rocktools.sources.xspace.opening import XSpaceFile
from rocktools.sources.xspace.plane import Line
from rocktools.sources.xspace.raw_lines import device_planes, has_instructions, host_planes, is_derived, raw_lines

_COMMAND_BUFFER = "command_buffer"
# Threads of HIP calls, as XLA's tracer names them.
_CALLING_THREAD = "Host Threads/"
_LAUNCH = "Launch"
# `--xla_gpu_rocm_max_trace_events`: calls beyond it are dropped with their kernels, and only a log says so.
_EVENTS_CAP = 4 * 1024 * 1024
_NEAR_CAP = _EVENTS_CAP * 99 // 100
_MUCH_RATIO = 0.05
_SHOWN = 3


def check_profile(file: XSpaceFile) -> list[Finding]:
    """All doubts about a profile, heaviest first.

    Raises:
        DamagedFile: the profile is damaged.
    """
    launched = _add_up_devices(file)
    calls = _read_calls(file)
    findings = [
        *_check_messages(file),
        *_check_content(file, launched),
        *_check_annotation(file, launched),
        *_check_graphs(file, launched),
        *_check_drops(file, launched, calls),
    ]
    return sort_findings(findings)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Launched:
    """What was recorded on devices, added up.

    Attributes:
        is_kernel, is_annotated, is_in_graph: of each event.
        correlation_id: 0 where an event has none.
    """

    devices_count: int
    derived_count: int
    aggregated_count: int
    duration_ps: np.ndarray
    is_kernel: np.ndarray
    is_annotated: np.ndarray
    is_in_graph: np.ndarray
    correlation_id: np.ndarray


def _add_up_devices(file: XSpaceFile) -> _Launched:
    planes = [plane for _, plane in device_planes(file.planes)]
    derived_count = sum(is_derived(line) for plane in planes for line in plane.lines)
    pieces: dict[str, list[np.ndarray]] = {
        "duration_ps": [np.zeros(0, dtype=np.int64)],
        "is_kernel": [np.zeros(0, dtype=np.bool_)],
        "is_annotated": [np.zeros(0, dtype=np.bool_)],
        "is_in_graph": [np.zeros(0, dtype=np.bool_)],
        "correlation_id": [np.zeros(0, dtype=np.int64)],
    }
    aggregated_count = 0
    for line in (line for plane in planes for _, line in raw_lines(plane) if has_instructions(line)):
        events = line.events(["hlo_op", "correlation_id", "kernel_details"])
        instructions = events.stat("hlo_op").labels()
        is_graph = np.array([*(name.startswith(_COMMAND_BUFFER) for name in instructions.names), False])
        pieces["duration_ps"].append(events.duration_ps)
        pieces["is_kernel"].append(events.stat("kernel_details").is_present)
        pieces["is_annotated"].append(instructions.codes >= 0)
        pieces["is_in_graph"].append(is_graph[instructions.codes])
        pieces["correlation_id"].append(events.stat("correlation_id").integers().where_missing(0))
        aggregated_count += int((events.occurrences >= 0).sum())
    return _Launched(
        devices_count=len(planes),
        derived_count=derived_count,
        aggregated_count=aggregated_count,
        **{name: np.concatenate(arrays) for name, arrays in pieces.items()},
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Calls:
    """HIP calls on the host.

    Attributes:
        count: all of them.
        launched_ids: correlation ids of those that launch kernels.
        annotated_count: events of any thread that name an HLO instruction.
    """

    count: int
    launched_ids: np.ndarray
    annotated_count: int


def _read_calls(file: XSpaceFile) -> _Calls:
    count = annotated_count = 0
    launched = [np.zeros(0, dtype=np.int64)]
    for line in _host_lines(file):
        events = line.events(["correlation_id", "hlo_op"])
        annotated_count += int(events.stat("hlo_op").is_present.sum())
        if line.name.startswith(_CALLING_THREAD):
            count += len(events)
            names = events.names()
            is_launch = np.array([_LAUNCH in name for name in names.names])[names.codes]
            ids = events.stat("correlation_id").integers()
            launched.append(ids.values[is_launch & ~ids.missing])
    return _Calls(count=count, launched_ids=np.concatenate(launched), annotated_count=annotated_count)


def _host_lines(file: XSpaceFile) -> Iterator[Line]:
    for _, plane in host_planes(file.planes):
        yield from (line for _, line in raw_lines(plane))


def _check_messages(file: XSpaceFile) -> list[Finding]:
    """What the profiler itself wrote about the profile."""
    findings = [
        _finding(file, "profiler-error", Severity.WARNING, f"the profiler says: {text.strip()}")
        for text in file.errors[:_SHOWN]
    ]
    findings += [
        _finding(file, "profiler-warning", Severity.NOTE, f"the profiler says: {text.strip()}")
        for text in file.warnings[:_SHOWN]
    ]
    left_count = max(len(file.errors) - _SHOWN, 0) + max(len(file.warnings) - _SHOWN, 0)
    if left_count:
        findings.append(
            _finding(
                file,
                "profiler-messages",
                Severity.NOTE,
                f"the profiler says {left_count:,} things more",
                messages_count=left_count,
            )
        )
    return findings


def _check_content(file: XSpaceFile, launched: _Launched) -> list[Finding]:
    findings = []
    if not launched.devices_count:
        findings.append(
            _finding(
                file,
                "no-device-plane",
                Severity.WARNING,
                "the profile has no plane of a GPU: it was made on the CPU backend, or the device tracer did not run",
                "look for errors of the ROCm tracer in the log of the job",
            )
        )
    elif not len(launched.duration_ps):
        findings.append(
            _finding(
                file,
                "no-device-events",
                Severity.WARNING,
                f"none of the {launched.devices_count:,} planes of GPUs holds an event",
                "check that work ran while the profile was taken, and that no other profiler held the devices",
                devices_count=launched.devices_count,
            )
        )
    if not has_hlo_protos(file.planes):
        findings.append(
            _finding(
                file,
                "no-hlo-protos",
                Severity.WARNING,
                "the profile holds no HLO protos, so its annotations name instructions that nothing describes",
                "profile with ProfileOptions.enable_hlo_proto, or give the XLA dump of the program",
            )
        )
    if launched.derived_count:
        findings.append(
            _finding(
                file,
                "derived-lines",
                Severity.NOTE,
                f"{launched.derived_count:,} lines were added by a converter and are left out: they count gaps as work",
                derived_lines_count=launched.derived_count,
            )
        )
    if launched.aggregated_count:
        findings.append(
            _finding(
                file,
                "aggregated-events",
                Severity.WARNING,
                f"{launched.aggregated_count:,} events stand for several each, have no place in time, and are left out",
                aggregated_events_count=launched.aggregated_count,
            )
        )
    return findings


def _check_annotation(file: XSpaceFile, launched: _Launched) -> list[Finding]:
    """Kernels that no HLO instruction is named for."""
    is_unnamed = launched.is_kernel & ~launched.is_annotated
    count, kernels_count = int(is_unnamed.sum()), int(launched.is_kernel.sum())
    if not count:
        return []
    unnamed_ps = int(launched.duration_ps[is_unnamed].sum())
    ratio = unnamed_ps / max(int(launched.duration_ps[launched.is_kernel].sum()), 1)
    return [
        _finding(
            file,
            "kernels-without-annotation",
            Severity.WARNING if ratio > _MUCH_RATIO else Severity.NOTE,
            f"{count:,} of {kernels_count:,} kernels name no HLO instruction ({100 * ratio:.1f} % of kernel time)",
            "they are linked by name and place only",
            kernels_count=kernels_count,
            unannotated_count=count,
            unannotated_time_ratio=ratio,
        )
    ]


def _check_graphs(file: XSpaceFile, launched: _Launched) -> list[Finding]:
    """Kernels that were launched as command buffers (HIP graphs), which hide what each of them is."""
    count = int(launched.is_in_graph.sum())
    ids = launched.correlation_id[launched.is_kernel & (launched.correlation_id != 0)]
    ids.sort()  # not numpy.unique: on large arrays its hash table takes ten times as long
    first = np.flatnonzero(np.append(True, ids[1:] != ids[:-1])[: len(ids)])
    times = np.diff(np.append(first, len(ids)))
    shared_count = int(times[times > 1].sum())
    # A launch of a library may be two kernels, but seldom is.
    if not count and shared_count <= _MUCH_RATIO * len(ids):
        return []
    ps = int(launched.duration_ps[launched.is_in_graph].sum())
    ratio = ps / max(int(launched.duration_ps[launched.is_kernel].sum()), 1)
    return [
        _finding(
            file,
            "command-buffers",
            Severity.WARNING,
            f"{count:,} kernels ({100 * ratio:.1f} % of kernel time) name a command buffer in place of an instruction, "
            f"and {shared_count:,} share a launch with others and show the geometry of its first kernel",
            "profile with XLA_FLAGS=--xla_gpu_enable_command_buffer= (empty) to see single instructions",
            kernels_in_graphs_count=count,
            graph_time_ratio=ratio,
            sharing_kernels_count=shared_count,
            launches_count=len(times),
        )
    ]


def _check_drops(file: XSpaceFile, launched: _Launched, calls: _Calls) -> list[Finding]:
    """Signs that the profiler dropped events, which it does not write into the file."""
    findings = []
    recorded = max(len(launched.duration_ps), calls.count)
    if _NEAR_CAP <= recorded <= _EVENTS_CAP:
        findings.append(
            _finding(
                file,
                "events-at-cap",
                Severity.FAULT,
                f"{recorded:,} events are just what the tracer keeps ({_EVENTS_CAP:,}): the rest of the run is missing",
                "profile fewer steps, or raise --xla_gpu_rocm_max_trace_events",
                events_count=recorded,
                cap_count=_EVENTS_CAP,
            )
        )
    recorded_ids = np.sort(np.append(launched.correlation_id, 0))
    places = np.searchsorted(recorded_ids, calls.launched_ids, side="right") - 1
    lost_count = int((recorded_ids[places] != calls.launched_ids).sum())
    if launched.devices_count and lost_count:
        findings.append(
            _finding(
                file,
                "launches-without-kernel",
                Severity.WARNING,
                f"{lost_count:,} of {len(calls.launched_ids):,} kernel launches have no event on a device",
                "their kernels were dropped, or ran after the profile was stopped",
                launches_without_kernel_count=lost_count,
            )
        )
    return findings


def _finding(
    file: XSpaceFile, rule: str, severity: Severity, message: str, advice: str = "", **numbers: Number
) -> Finding:
    return Finding(rule=rule, severity=severity, where=str(file.path), message=message, numbers=numbers, advice=advice)
