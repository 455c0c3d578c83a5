"""The run directory of a profiled replay -> REPLAY_PROFILE: what counters say of its kernel, and its roofline point.

Times are those of the trace pass of the replay, warm-up left out; counters are those of the counter passes. Every row
says how far the replay is proven to stand for the job's kernel, for without that neither means anything for the job.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from rocktools.attribution.component_map_file import read_shipped_map
from rocktools.errors import InputError, UsageError
from rocktools.evidence import Absence, Evidence, weakest
from rocktools.findings import Finding, Severity
from rocktools.frames import Column, FrameSpec, nullable_int64, require_frame
from rocktools.roofline.points import Roofline
from rocktools.timeline.steps import StepMethod, StepOptions
from rocktools.units import format_duration, format_ratio
from rocktools.workspace.attributed import AttributedRuns, AttributionOptions
from rocktools.workspace.metrics import Metrics, read_metrics
from rocktools.workspace.roofline import RooflineOptions, RunRoofline, build_run_roofline

REPLAY_PROFILE = FrameSpec(
    name="REPLAY_PROFILE",
    meaning="One row per quantity of a replayed kernel: what counters say, then its point under the roofline.",
    key=("device_index", "quantity"),
    sort=(),
    columns=(
        Column("kernel_name", "category", "clean kernel name"),
        Column("proof", "category", "how far the replay is proven to stand for the job's kernel, or `unproven`"),
        Column("device_index", "Int64", "index of the device", "it is about all devices together"),
        Column("quantity", "category", "as `rocktools counters show` explains it, or of the roofline point"),
        Column("value", "float64", "the value, in `unit`", "`absence` says why"),
        Column("unit", "category", "unit of the value"),
        Column("evidence", "category", "where it comes from", "there is no value"),
        Column("executions_count", "int64", "executions that it comes from; 0 where there is none"),
        Column("absence", "category", "why there is no value", "there is one"),
        Column("remark", "category", "what it lacks, what weakens it, or what it says", "nothing"),
    ),
)
POINT_QUANTITIES = ("fabric_bytes", "total_flop")
"""What a point needs of the counters."""

_TIME = "duration"
_POINT = {
    "intensity": ("intensity_flop_per_byte", "FLOP/B"),
    "achieved_flop_rate": ("achieved_flop_per_s", "FLOP/s"),
    "achieved_byte_rate": ("achieved_bytes_per_s", "B/s"),
    "flop_ceiling": ("peak_flop_per_s", "FLOP/s"),
    "byte_ceiling": ("bandwidth_bytes_per_s", "B/s"),
    "roof_ratio": ("roof_ratio", "ratio"),
}
"""Quantity -> column of ROOFLINE, unit."""
# Neither is a doubt here: nothing of a replay is attributed, and its passes run the kernel as often as each needs.
_EXPECTED = frozenset({"no-program-to-attribute", "counted-and-traced-differ"})


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ReplayProfile:
    """A profiled replay.

    Attributes:
        frame: REPLAY_PROFILE.
        sentences: where the point comes from, and what it says; () where there is none.
        evidence: the weakest of the values.
        findings: of the files, of the values, of the point.
        is_simulated: whether any file says that no hardware produced it.
    """

    frame: pd.DataFrame
    sentences: tuple[str, ...]
    evidence: Evidence
    findings: tuple[Finding, ...]
    is_simulated: bool


def build_replay_profile(
    run: Path,
    kernel_name: str,
    *,
    proof: str,
    quantities: Collection[str],
    architecture: str | None,
    warmups_count: int | None,
) -> ReplayProfile:
    """What one kernel did in the passes of a run directory.

    Args:
        run: with a trace pass and counter passes of the replay.
        kernel_name: clean name; other kernels of the replay, such as copies, are left out.
        proof: level of the proof.
        quantities: to show.
        architecture: of devices whose architecture no file tells.
        warmups_count: executions on each device, from the first, that are left out of the times; None: there is no
            trace pass, and so no point.

    Raises:
        UsageError: there is no such quantity.
        InputError: a file cannot be read.
    """
    metrics = read_metrics([run], quantities=list(quantities), architecture=architecture)
    rows = _counted_rows(metrics, kernel_name)
    findings, is_simulated = list(metrics.findings), metrics.is_simulated
    sentences: tuple[str, ...] = ()
    if warmups_count is None:
        rows += _absent_point("a trace pass")
    else:
        built = _point(run, kernel_name, warmups_count)
        if isinstance(built, Finding):
            findings.append(built)
            rows += _absent_point(built.message)
        else:
            findings += [each for each in built.roofline.findings if each not in findings]
            is_simulated |= built.is_simulated
            sentences = _sentences(built.roofline)
            rows += _point_rows(built.roofline)
    frame = _frame([{"kernel_name": kernel_name, "proof": proof, **row} for row in rows])
    found = [Evidence(str(each)) for each in frame["evidence"].dropna().unique()]
    return ReplayProfile(
        frame=frame,
        sentences=sentences,
        evidence=weakest(found[0], *found[1:]) if found else Evidence.COUNTER,
        findings=tuple(each for each in findings if each.rule not in _EXPECTED),
        is_simulated=is_simulated,
    )


def _counted_rows(metrics: Metrics, kernel_name: str) -> list[dict[str, Any]]:
    frame = metrics.frame
    mine = frame[(frame["kernel_name"].astype(str) == kernel_name).to_numpy() & frame["ordinal"].isna().to_numpy()]
    rows = []
    for row in mine.to_dict("records"):
        remarks = [str(row[name]) for name in ("lacking", "doubts") if isinstance(row[name], str)]
        rows.append(
            {
                "device_index": int(row["device_index"]),
                "quantity": str(row["quantity"]),
                "value": row["value"],
                "unit": str(row["unit"]),
                "evidence": _text(row["evidence"]),
                "executions_count": int(row["dispatches_count"]),
                "absence": _text(row["absence"]),
                "remark": "; ".join(remarks) or None,
            }
        )
    return rows


def _point(run: Path, kernel_name: str, warmups_count: int) -> RunRoofline | Finding:
    """The point of the kernel, or why there is none: the counters are worth something without it."""

    def select(runs: AttributedRuns) -> pd.DataFrame:
        rows = runs.rows
        mine = rows[(rows["name"].astype(str) == kernel_name).to_numpy() & (rows["kind"] == "dispatch").to_numpy()]
        mine = mine.sort_values("start_ns", kind="stable")
        number = mine.groupby(["run", "device"], observed=True).cumcount()
        return mine[(number >= warmups_count).to_numpy()].reset_index(drop=True)

    attribution = AttributionOptions(
        component_map=read_shipped_map("plain_jax"), steps=StepOptions(method=StepMethod.WHOLE)
    )
    try:
        return build_run_roofline([run], attribution, RooflineOptions(), select)
    except (InputError, UsageError) as error:
        return Finding(
            rule="no-roofline-point",
            severity=Severity.WARNING,
            where=str(run),
            message=f"the kernel has no point under the roofline: {error.what}",
            advice=error.hint or "",
        )


def _point_rows(roofline: Roofline) -> list[dict[str, Any]]:
    [row] = roofline.points.to_dict("records")
    executions_count = int(row["executions_count"])
    refusal = None if pd.isna(row["refusal"]) else str(row["refusal"])
    rows = [
        _point_row(
            _TIME, row["union_ns"] / executions_count if executions_count else float("nan"), "ns", Evidence.MEASURED,
            executions_count, "mean over the executions after the warm-up",
        )
    ]  # fmt: skip
    by_counters = weakest(Evidence.MEASURED, roofline.origin.flop_evidence, roofline.origin.bytes_evidence)
    bandwidth = roofline.device.bandwidth(roofline.origin.level)
    evidence: Mapping[str, Evidence] = {
        "intensity": by_counters,
        "flop_ceiling": weakest(
            by_counters, Evidence.DECLARED
        ),  # the mix of formats is counted, their peaks are stated
        "byte_ceiling": bandwidth.evidence,
        "roof_ratio": weakest(by_counters, bandwidth.evidence, Evidence.DECLARED),
    }
    remarks = {
        "intensity": roofline.origin.bytes_label,
        "flop_ceiling": None if pd.isna(row["mix"]) else str(row["mix"]),
        "byte_ceiling": f"{bandwidth.name} of {roofline.device.label}",
        "roof_ratio": None if pd.isna(row["bound"]) else _said(str(row["bound"]), str(row["side"])),
    }
    for quantity, (column, unit) in _POINT.items():
        known = evidence.get(quantity, by_counters)
        rows.append(_point_row(quantity, row[column], unit, known, executions_count, remarks.get(quantity), refusal))
    return rows


def _said(bound: str, side: str) -> str:
    if bound == side:
        return f"{bound}-bound"
    return f"bound by neither, nearest to {side}" if bound == "neither" else f"above the {side} roof: no verdict"


def _sentences(roofline: Roofline) -> tuple[str, ...]:
    [row] = roofline.points.to_dict("records")
    if pd.notna(row["refusal"]):
        return (roofline.origin.sentence, f"no point: {row['refusal']}")
    per_execution_ns = row["headroom_ns"] / int(row["executions_count"])
    headroom = f"; {format_duration(per_execution_ns)} of each execution above it" if per_execution_ns > 0 else ""
    verdict = _said(str(row["bound"]), str(row["side"]))
    return (
        roofline.origin.sentence,
        f"{verdict}: the {row['side']} roof explains {format_ratio(row['roof_ratio'])} of the time{headroom}",
    )


def _point_row(
    quantity: str,
    value: float,
    unit: str,
    evidence: Evidence,
    executions_count: int,
    remark: str | None,
    refusal: str | None = None,
) -> dict[str, Any]:
    is_there = value == value
    return {
        "device_index": None,
        "quantity": quantity,
        "value": value,
        "unit": unit,
        "evidence": str(evidence) if is_there else None,
        "executions_count": executions_count if is_there else 0,
        "absence": None if is_there else str(Absence.UNDEFINED),
        "remark": remark if is_there else refusal or "no FLOPs",
    }


def _absent_point(why: str) -> list[dict[str, Any]]:
    units = {_TIME: "ns", **{quantity: unit for quantity, (_, unit) in _POINT.items()}}
    return [
        {
            "device_index": None,
            "quantity": quantity,
            "value": float("nan"),
            "unit": unit,
            "evidence": None,
            "executions_count": 0,
            "absence": str(Absence.NOT_COLLECTED),
            "remark": why,
        }
        for quantity, unit in units.items()
    ]


def _text(value: object) -> str | None:
    return None if pd.isna(value) else str(value)


def _frame(rows: list[dict[str, Any]]) -> pd.DataFrame:
    frame = pd.DataFrame(rows, columns=list(REPLAY_PROFILE.names))
    indices = [row["device_index"] for row in rows]
    made = {
        "device_index": nullable_int64(
            np.array([each or 0 for each in indices], dtype=np.int64), np.array([each is None for each in indices])
        ),
        "value": frame["value"].astype("float64"),
        "executions_count": frame["executions_count"].astype("int64"),
    }
    texts = {name: frame[name].astype(object).astype("category") for name in REPLAY_PROFILE.names if name not in made}
    return require_frame(frame.assign(**made, **texts), REPLAY_PROFILE)
