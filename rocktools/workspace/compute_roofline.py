"""Points of kernels that were profiled alone, and their times in a trace -> points under the ceilings of their device.

Each point is one launch: its counted work, over the mean time of a launch in the job. The device is told by what the
results say of it; ceilings that were measured on it, in roofline.csv or in an analysis database, go first.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import pandas as pd

from rocktools.devices.ceilings import Ceilings, apply_ceilings
from rocktools.devices.device import Level
from rocktools.devices.roofline_csv import parse_roofline_csv
from rocktools.errors import InputError, NothingToRead
from rocktools.evidence import Evidence, weakest
from rocktools.findings import Finding
from rocktools.frames import require_frame
from rocktools.roofline.points import Roofline, build_roofline
from rocktools.roofline.work import WORK, WorkOrigin
from rocktools.sources.rocpd.columns import exact_integer
from rocktools.workspace.compute_results import ComputeResults
from rocktools.workspace.used_device import DeviceOptions, choose_device

_DEVICE = "gpu"
_HZ_PER_MHZ = 1_000_000
_FACTS = ("arch", "xcc_count", "cu_count", "max_engine_hz", "product")
_LABELS = {
    Level.HBM: "fabric, >= HBM: what the memory-side cache serves is in it",
    Level.L2: "between L2 and the vector caches",
    Level.LDS: "LDS",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class LaunchWork:
    """What a mean launch of a kernel does.

    Attributes:
        workload, kernel: which.
        mean_ns: its time in a trace.
        moved_bytes: through the level.
        total_flop: all of its floating-point operations.
        flop: (unit, format) -> those of that format, which add up to the total.
        evidence: of FLOPs and bytes.
    """

    workload: str
    kernel: str
    mean_ns: float
    moved_bytes: float
    total_flop: float
    flop: Mapping[tuple[str, str], float] = field(default_factory=dict)
    evidence: Evidence


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ComputeRoofline:
    """Points under ceilings, and what is doubtful about the device, the ceilings or the points."""

    roofline: Roofline
    findings: tuple[Finding, ...]


def build_compute_roofline(
    launches: Sequence[LaunchWork], results: ComputeResults, options: DeviceOptions, level_name: str
) -> ComputeRoofline:
    """The points of kernels.

    Args:
        launches: those with a time.
        level_name: `hbm`, `l2` or `lds`: where their bytes were counted.

    Raises:
        NothingToRead: there is none.
        InputError: the device cannot be told, or a file of ceilings cannot be used.
        UsageError: the part or partition that was named does not exist, or is not what the files say.
    """
    if not launches:
        raise NothingToRead(
            "no-times-for-roofline",
            "no kernel has FLOPs, bytes and a time: those of counter passes are none",
            hint="--trace PATH names a trace of the job or of the replays; --part points shows intensities",
        )
    level = Level(level_name)
    rows = [row for launch in launches for row in _work_rows(launch)]
    columns = {name: [row.get(name) for row in rows] for name in WORK.names}
    work = pd.DataFrame(columns).astype({column.name: column.dtype for column in WORK.columns})
    work = work.sort_values(list(WORK.sort), kind="stable", ignore_index=True)
    labels = {launch.workload for launch in launches}
    device, doubts = choose_device(_agents(results, labels), _used(labels), options)
    findings: list[Finding] = [*doubts]
    if not options.ceilings:
        for ceilings in _measured(results, labels):
            try:
                device, more = apply_ceilings(device, ceilings)
            except InputError:
                continue  # of another partition than the one that was asked for
            findings += more
    evidence = weakest(*(launch.evidence for launch in launches))
    origin = WorkOrigin(level=level, flop_evidence=evidence, bytes_evidence=evidence, bytes_label=_LABELS[level])
    roofline = build_roofline(require_frame(work, WORK), device, origin)
    return ComputeRoofline(roofline=roofline, findings=(*findings, *roofline.findings))


def _work_rows(launch: LaunchWork) -> Iterable[dict[str, object]]:
    """One execution, and one row more for each format."""
    end_ns = max(1, round(launch.mean_ns))
    base = {"run": launch.workload, "device": _DEVICE, "name": launch.kernel, "start_ns": 0, "is_counted": True,
            "is_certain": True}  # fmt: skip
    yield {
        **base, "end_ns": end_ns, "unit": None, "dtype": None, "compute_flop": 0,
        "moved_bytes": round(launch.moved_bytes), "is_execution": True,
    }  # fmt: skip
    for (unit, dtype), flop in launch.flop.items():
        if flop > 0:
            yield {
                **base, "end_ns": 0, "unit": unit, "dtype": dtype, "compute_flop": round(flop), "moved_bytes": None,
                "is_execution": False,
            }  # fmt: skip


def _used(labels: Iterable[str]) -> pd.DataFrame:
    return pd.DataFrame([{"run": label, "device": _DEVICE} for label in sorted(labels)])


def _agents(results: ComputeResults, labels: Iterable[str]) -> pd.DataFrame:
    """What is known of the GPU of each workload: by raw counters where there are some, else by what the tool noted."""
    rows: list[dict[str, object]] = []
    for label in sorted(labels):
        row: dict[str, object] = {"run": label, "device": _DEVICE, "kind": "GPU"}
        counted = results.agents[(results.agents["run"] == label).to_numpy()] if len(results.agents) else ()
        if len(counted):
            first = counted.iloc[0]  # type: ignore[union-attr]
            rows.append({**row, **{name: first[name] for name in _FACTS}})
            continue
        facts = results.workload(label).facts
        clock = exact_integer(facts.get("max_sclk", ""))
        rows.append(
            {
                **row,
                "arch": facts.get("gpu_arch"),
                "xcc_count": exact_integer(facts.get("num_xcd", "")) or None,
                "cu_count": exact_integer(facts.get("cu_per_gpu", "")) or None,
                "max_engine_hz": clock * _HZ_PER_MHZ if clock else None,
                "product": facts.get("gpu_model"),
            }
        )
    return pd.DataFrame(rows).astype(object).where(lambda frame: frame.notna(), np.nan)


def _measured(results: ComputeResults, labels: Iterable[str]) -> list[Ceilings]:
    """Ceilings that stand in analysis databases, in the columns of roofline.csv."""
    found = []
    for label in sorted(labels):
        figures = results.workload(label).ceilings
        if not figures:
            continue
        text = f"device,{','.join(figures)}\n0,{','.join(map(repr, figures.values()))}\n"
        source = str(results.workload(label).path)
        try:
            peaks, bandwidths = parse_roofline_csv(text, source=source)
        except InputError:
            continue
        found.append(Ceilings(peaks=peaks, bandwidths=bandwidths, source=source))
    return found
