"""Booked rows and counters -> points under ceilings, by the functions behind `rocktools roofline`."""

from __future__ import annotations

import pandas as pd

from rocktools.devices.device import Device, Level
from rocktools.errors import RocktoolsError
from rocktools.evidence import Absence
from rocktools.findings import Finding
from rocktools.roofline.points import Roofline, build_roofline
from rocktools.roofline.work import WorkOrigin
from rocktools.summary.document import Missing, RooflineBlock, RooflinePoint, RooflineTable
from rocktools.summary.gathered import Gathered, Timed
from rocktools.summary.rows import build_rows
from rocktools.workspace.counted_work import lay_on_trace, quantities_of
from rocktools.workspace.estimated_work import By, estimate_work
from rocktools.workspace.metrics import Metrics
from rocktools.workspace.used_device import DeviceOptions, choose_device

_TABLES = (
    (By.COMPONENT, Level.HBM),
    (By.INSTRUCTION, Level.HBM),
    (By.KERNEL, Level.HBM),
    (By.COMPONENT, Level.NETWORK),
)


def build_roofline_block(
    gathered: Gathered, timed: Timed, metrics: Metrics | None, options: DeviceOptions, *, limit: int
) -> tuple[RooflineBlock | Missing, tuple[Finding, ...]]:
    """Points of components, instructions and kernels; FLOPs and bytes by counters where the job was counted.

    Args:
        metrics: of counter passes of the job; None: the compiled program tells FLOPs and bytes.
        limit: most points of a table.
    """
    try:
        device, doubts = choose_device(gathered.agents, timed.devices, options)
    except RocktoolsError as error:
        is_ambiguous = error.reference in ("device-ambiguous", "devices-differ")
        absence = Absence.AMBIGUOUS if is_ambiguous else Absence.NOT_COLLECTED
        return Missing(absence=absence, reason=error.what), ()
    tables: list[RooflineTable] = []
    reasons: dict[str, str] = {}
    findings = list(doubts)
    for by, level in _TABLES:
        try:
            work, origin, more = _work(timed, metrics, by, level)
            built = build_roofline(work, device, origin)
        except RocktoolsError as error:
            reasons[f"{by.value} {level.value}"] = error.what
            continue
        tables.append(_table(built, device, by, limit))
        findings += (*more, *built.findings)
    if not tables:
        return Missing(absence=Absence.NOT_COLLECTED, reason="; ".join(dict.fromkeys(reasons.values()))), ()
    return RooflineBlock(tables=tuple(tables), reasons=reasons), tuple(findings)


def _work(
    timed: Timed, metrics: Metrics | None, by: By, level: Level
) -> tuple[pd.DataFrame, WorkOrigin, tuple[Finding, ...]]:
    if metrics is not None and level is not Level.NETWORK:
        wanted = metrics.frame[metrics.frame["quantity"].isin(quantities_of(level)).to_numpy()]
        return lay_on_trace(wanted.reset_index(drop=True), timed.rows, level=level, by=by)
    return (*estimate_work(timed.runs, timed.rows, level=level, by=by), ())


def _table(built: Roofline, device: Device, by: By, limit: int) -> RooflineTable:
    bandwidth = device.bandwidth(built.origin.level)
    return RooflineTable(
        by=by.value,
        level=built.origin.level.value,
        device=device.label,
        bandwidth_name=bandwidth.name,
        bandwidth_evidence=bandwidth.evidence,
        source=built.origin.sentence,
        flop_evidence=built.origin.flop_evidence,
        bytes_evidence=built.origin.bytes_evidence,
        points=build_rows(RooflinePoint, built.points.head(limit)),
        left_out_count=max(0, len(built.points) - limit),
    )
