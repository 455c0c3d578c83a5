"""A step that was measured and the floor under it -> what the difference went to, as far as that can be told.

    measured = floor + launch gaps + exposed communication + input + kernels below their roofline

Exposed communication and copies, and idle time, come from a reconciled timeline, in which they do not overlap each
other. Compute that is left over beyond the floor is kernels below their roofs, and work that the model has not:
rematerialized forward passes above all, which are told apart where the compute kernels do not overlap. Idle time is
launch gaps or waiting for input; without a cause of each gap it stays one number that says so. Points of MFU are
divided in proportion to time: MFU is a ratio, and what one part costs depends on whether the others are there.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from rocktools.errors import UsageError
from rocktools.evidence import Absence, Evidence
from rocktools.findings import Finding, Severity

_SERIAL_RATIO = 0.001  # compute kernels whose sum is above their union by less than this run one after the other

_OFF_RATIO = 0.002  # printed times are rounded


class GapPart(str, Enum):
    """Where time beyond the floor goes."""

    LAUNCH = "launch gaps"
    COMMUNICATION = "exposed communication"
    INPUT = "input"
    IDLE = "launch gaps and input, not told apart"
    REPLAY = "rematerialized forward work"
    KERNELS = "kernels below their roofline, and work that the model has not"
    OUTSIDE = "outside of the device timeline"

    def __str__(self) -> str:
        return self.value


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredStep:
    """Means per device of one step; times of one device timeline, which add up to its span.

    Attributes:
        span_s: from the first start to the last end.
        compute_s: union of compute kernels.
        compute_sum_s: their durations added up.
        exposed_communication_s: communication without compute.
        exposed_copy_s: copies without either.
        idle_s: time in which nothing ran.
        replay_s: rematerialized forward compute added up; None where phases are not known.
        input_wait_s: part of idle time that was spent waiting for input; None where that is not known.
        step_s: the synchronized step, by a log; None: the span.
        is_simulated: whether any of it was made without hardware.
    """

    span_s: float
    compute_s: float
    compute_sum_s: float
    exposed_communication_s: float
    exposed_copy_s: float
    idle_s: float
    replay_s: float | None = None
    input_wait_s: float | None = None
    step_s: float | None = None
    is_simulated: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class GapRow:
    """One part of the difference.

    Attributes:
        part: where the time went.
        duration_s: how long; None where it cannot be told.
        mfu_points_ratio: its part of ceiling minus measured MFU; None where its time cannot be told.
        absence: why there is no number; None where there is one.
        note: what it includes.
        evidence: of the time.
    """

    part: GapPart
    duration_s: float | None
    mfu_points_ratio: float | None
    absence: Absence | None
    note: str
    evidence: Evidence


@dataclass(frozen=True, slots=True, kw_only=True)
class CeilingGap:
    """Ceiling minus measured.

    Attributes:
        floor_s: of the step model.
        measured_s: the step.
        mfu_ceiling, mfu: with the floor, and measured; of the same numerator.
        rows: parts; their times add up to `measured_s - floor_s`.
        findings: doubts.
    """

    floor_s: float
    measured_s: float
    mfu_ceiling: float
    mfu: float
    rows: tuple[GapRow, ...]
    findings: tuple[Finding, ...]


def split_ceiling_gap(measured: MeasuredStep, *, floor_s: float, mfu_ceiling: float, where: str = "step") -> CeilingGap:
    """What the time of a step beyond its floor went to.

    Args:
        measured: means of the devices.
        floor_s: roofline time of the step on one device.
        mfu_ceiling: utilization that the floor allows.
        where: whose step it is, for findings.

    Raises:
        UsageError: the measured times do not add up to the span, or one is negative.
    """
    _require_whole(measured)
    total_s = measured.span_s if measured.step_s is None else measured.step_s
    mfu = mfu_ceiling * floor_s / total_s
    times = _times(measured, floor_s, total_s)
    above_s = total_s - floor_s
    rows = tuple(_row(part, time, note, above_s, mfu_ceiling - mfu) for part, time, note in times)
    return CeilingGap(
        floor_s=floor_s,
        measured_s=total_s,
        mfu_ceiling=mfu_ceiling,
        mfu=mfu,
        rows=rows,
        findings=_doubts(measured, floor_s, total_s, where),
    )


_Time = tuple[GapPart, float | None, str]


def _times(measured: MeasuredStep, floor_s: float, total_s: float) -> list[_Time]:
    """Each part with its time; what cannot be told apart is one of them, and its members have none."""
    exposed = measured.exposed_communication_s
    if measured.input_wait_s is None:
        idle: list[_Time] = [
            (GapPart.LAUNCH, None, "in the idle time below: its gaps have no cause"),
            (GapPart.COMMUNICATION, exposed, "without compute beside it"),
            (GapPart.INPUT, measured.exposed_copy_s, "copies with nothing beside them; waiting is in the idle time"),
            (GapPart.IDLE, measured.idle_s, "time in which the device did nothing"),
        ]
    else:
        waiting = measured.input_wait_s + measured.exposed_copy_s
        idle = [
            (GapPart.LAUNCH, measured.idle_s - measured.input_wait_s, "idle time that is no waiting for input"),
            (GapPart.COMMUNICATION, exposed, "without compute beside it"),
            (GapPart.INPUT, waiting, "waiting for input, and copies with nothing beside them"),
        ]
    return [*idle, *_compute_times(measured, floor_s), *_outside(measured, total_s)]


def _compute_times(measured: MeasuredStep, floor_s: float) -> list[_Time]:
    beyond_s = measured.compute_s - floor_s
    is_serial = measured.compute_sum_s - measured.compute_s <= _SERIAL_RATIO * measured.compute_s
    if measured.replay_s is None or not is_serial:
        why = "phases are not known" if measured.replay_s is None else "compute kernels overlap each other"
        return [
            (GapPart.REPLAY, None, f"in the row below: {why}"),
            (GapPart.KERNELS, beyond_s, "compute beyond the floor"),
        ]
    return [
        (GapPart.REPLAY, measured.replay_s, "forward work that runs again in the backward pass"),
        (GapPart.KERNELS, beyond_s - measured.replay_s, "compute beyond the floor, without the replay"),
    ]


def _outside(measured: MeasuredStep, total_s: float) -> list[_Time]:
    if measured.step_s is None:
        return []
    return [(GapPart.OUTSIDE, total_s - measured.span_s, "step by the log minus span of the device's events")]


def _row(part: GapPart, time_s: float | None, note: str, above_s: float, points: float) -> GapRow:
    return GapRow(
        part=part,
        duration_s=time_s,
        mfu_points_ratio=None if time_s is None or above_s == 0 else points * time_s / above_s,
        absence=Absence.AMBIGUOUS if time_s is None else None,
        note=note,
        evidence=Evidence.ANALYTIC if part is GapPart.KERNELS else Evidence.MEASURED,
    )


def _require_whole(measured: MeasuredStep) -> None:
    parts = (measured.compute_s, measured.exposed_communication_s, measured.exposed_copy_s, measured.idle_s)
    names = "compute + exposed communication + exposed copies + idle"
    is_whole = min(parts) >= 0 < measured.span_s and abs(sum(parts) - measured.span_s) <= _OFF_RATIO * measured.span_s
    if not is_whole:  # so that what is no number is not whole either
        raise UsageError(
            "step-does-not-add-up",
            f"{names} are {sum(parts):.6g} s, and the span is {measured.span_s:.6g} s",
            hint="the RECONCILIATION of one device and step: `rocktools overlap`",
        )
    if measured.input_wait_s is not None and not 0 <= measured.input_wait_s <= measured.idle_s:
        raise UsageError(
            "input-above-idle",
            f"{measured.input_wait_s:.6g} s of waiting for input are no part of {measured.idle_s:.6g} s of idle time",
        )


def _doubts(measured: MeasuredStep, floor_s: float, total_s: float, where: str) -> tuple[Finding, ...]:
    found = []
    if measured.compute_s < floor_s:
        found.append(
            Finding(
                rule="compute-below-floor",
                severity=Severity.WARNING,
                where=where,
                message=f"compute kernels cover {measured.compute_s:.4g} s, less than the {floor_s:.4g} s that they "
                "take at least by the model",
                numbers={"compute_s": measured.compute_s, "floor_s": floor_s},
                advice="the model is not that of this step: tokens of one device, optimizer shards, conventions",
            )
        )
    if measured.step_s is not None and total_s < measured.span_s:
        found.append(
            Finding(
                rule="step-shorter-than-span",
                severity=Severity.NOTE,
                where=where,
                message=f"the step took {total_s:.4g} s by the log, and the events of the device cover "
                f"{measured.span_s:.4g} s",
                numbers={"step_s": total_s, "span_s": measured.span_s},
                advice="the two have different boundaries; shares of the timeline are those of its span",
            )
        )
    return tuple(found)
