"""What was gathered -> a roofline of mean launches, under the ceilings that were measured with it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from rocktools.batch.collect import Gathered
from rocktools.batch.gathered_tables import FORMATS, KernelValues
from rocktools.evidence import weakest
from rocktools.findings import Finding, Severity
from rocktools.units import count_noun
from rocktools.workspace.compute_roofline import ComputeRoofline, LaunchWork, build_compute_roofline
from rocktools.workspace.tool_doubts import shortened
from rocktools.workspace.used_device import DeviceOptions

_WHOLE_RATIO = 0.02  # by which the formats may miss the total
_TURNED_RATIO = 0.25  # up to which they are scaled to it


@dataclass(frozen=True, slots=True, kw_only=True)
class CollectedRooflineOptions:
    """What the user may choose.

    Attributes:
        level: `hbm`, `l2` or `lds`.
        part, partition: of the device; None: by what the files say.
        ceilings: files with measured figures; (): those beside the results.
    """

    level: str = "hbm"
    part: str | None = None
    partition: str | None = None
    ceilings: tuple[Path, ...] = ()


def build_collected_roofline(gathered: Gathered, options: CollectedRooflineOptions) -> ComputeRoofline:
    """Points of the kernels that have FLOPs, bytes and a time of a trace.

    Raises:
        NothingToRead: no kernel has all three.
        InputError: the device cannot be told, or a file of ceilings cannot be used.
        UsageError: the part or partition does not exist, or is not what the files say.
    """
    launches = [launch for kernel in gathered.values if (launch := _launch(kernel, options.level)) is not None]
    known = [launch for launch in launches if _has_formats(launch)]
    device = DeviceOptions(
        part=options.part, partition=options.partition, ceilings=options.ceilings or gathered.ceilings
    )
    built = build_compute_roofline(known, gathered.results, device, options.level)
    if len(known) == len(launches):
        return built
    finding = Finding(
        rule="formats-not-counted",
        severity=Severity.WARNING,
        where=shortened(next(launch.kernel for launch in launches if not _has_formats(launch))),
        message=f"{count_noun(len(launches) - len(known), 'kernel')} of {len(launches)} left out of the roofline: the "
        "FLOPs of single formats do not add up to all FLOPs",
        numbers={"kernels_count": len(launches) - len(known)},
        advice="profile all blocks of the tool",
    )
    return replace(built, findings=(*built.findings, finding))


def _has_formats(launch: LaunchWork) -> bool:
    return abs(sum(launch.flop.values()) - launch.total_flop) <= _WHOLE_RATIO * launch.total_flop


def _launch(kernel: KernelValues, level: str) -> LaunchWork | None:
    total, moved = kernel.together(("total_flop",)), kernel.moved(level)
    if total is None or moved is None or kernel.time is None:
        return None
    flop = {key: kernel.value(name) for name, key in FORMATS.items() if kernel.value(name) > 0}
    parts = sum(flop.values())
    # Rates that were turned back are all too large by one factor, where launches took different times.
    if parts and total.value and abs(parts / total.value - 1) <= _TURNED_RATIO:
        flop = {key: value * total.value / parts for key, value in flop.items()}
    return LaunchWork(
        workload=kernel.workload,
        kernel=kernel.kernel,
        mean_ns=kernel.time.mean_ns,
        moved_bytes=moved.value,
        total_flop=total.value,
        flop=flop,
        evidence=weakest(total.evidence, moved.evidence),
    )
