"""How devices differ -> which of them is late, and which of a few explanations the numbers support.

The rank that the others wait for at collectives waits least itself. Then, in this order, each with the numbers it
rests on: did it begin the step late (data path, host)? did it compute longer, and if so with more kernels (extra work)
or with slower ones (throttling, other shapes, a slow device)? did it stand idle within the step (its host was late)?
Where nobody is late but the transfers of one rank take longer, it is placement or contention. What explains less than
half of the lateness explains nothing, and "unexplained" is an answer.

A rule on means over steps: a rank that is late in one step of many is not found. Instants are compared within a host.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

import numpy as np
import numpy.typing as npt
import pandas as pd

from rocktools.evidence import Evidence
from rocktools.findings import Finding, Severity
from rocktools.frames import Column, FrameSpec, require_frame
from rocktools.intervals import union_length_by
from rocktools.timeline.activities import Activity, labels_column, time_rows
from rocktools.timeline.clocks import check_clocks, host_of
from rocktools.timeline.ranks import common_steps

LATE_RATIO = 0.01
"""Share of a step by which a rank must be late, or its transfers longer, to be worth a verdict."""

EXPLAINED_RATIO = 0.5
"""Share of the lateness that an explanation must account for."""

MORE_ROWS_RATIO = 0.01
"""Share by which a rank must run more kernels than the others for its longer compute to be extra work."""


BACKWARD_COMPUTE = FrameSpec(
    name="BACKWARD_COMPUTE",
    meaning="One row per device and step: how long compute of the backward pass ran, overlaps counted once.",
    key=("run", "device", "step_index"),
    sort=("run", "device", "step_index"),
    columns=(
        Column("run", "category", "label of the run"),
        Column("device", "category", "label of the device, as in AGENTS"),
        Column("step_index", "int64", "step, as in STEPS"),
        Column("backward_ns", "int64", "union of compute in the phases backward and rematerialized"),
    ),
)


class LateCause(str, Enum):
    """What the numbers say about the rank that is late."""

    NONE_LATE = "none_late"
    LATE_INPUT = "late_input"
    EXTRA_WORK = "extra_work"
    SLOWER_COMPUTE = "slower_compute"
    IDLE_WITHIN_STEP = "idle_within_step"
    LONGER_TRANSFER = "longer_transfer"
    UNEXPLAINED = "unexplained"

    def __str__(self) -> str:
        return self.value


LOOK_AT = {
    LateCause.NONE_LATE: "the step itself: ranks are even",
    LateCause.LATE_INPUT: "the data path and the host work before the step of this rank",
    LateCause.EXTRA_WORK: "shapes and extra work on this rank: expert load, padding, uneven layers",
    LateCause.SLOWER_COMPUTE: "clocks, power and temperature of this device, and the shapes of its kernels",
    LateCause.IDLE_WITHIN_STEP: "the host of this rank: launches that come late (rocktools gaps)",
    LateCause.LONGER_TRANSFER: "placement of this rank, and what else uses its links",
    LateCause.UNEXPLAINED: "both traces side by side: none of the usual causes accounts for it",
}
"""Where to look next, per cause."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Branch:
    """One question of the tree.

    Attributes:
        question: in words.
        value_ns: what was found, mean over the steps.
        limit_ns: what it was compared with.
        is_yes: whether the value reaches the limit.
    """

    question: str
    value_ns: float
    limit_ns: float
    is_yes: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class LateRank:
    """The verdict for one host of a run.

    Attributes:
        run, host: whose devices were compared.
        device: the one that is late, or whose transfers are longer; None where none is.
        cause: what the numbers say.
        lateness_ns: how much longer than it the others wait at collectives, mean over the steps (median of the others).
        step_ns: mean span of a step, which limits are shares of.
        backward_excess_ns: how much longer its backward compute takes than the others'; None where phases are unknown.
        branches: the questions that were asked, in order.
        evidence: inferred: a rule of thumb on measured numbers.
    """

    run: str
    host: str
    device: str | None
    cause: LateCause
    lateness_ns: float
    step_ns: float
    backward_excess_ns: float | None
    branches: tuple[Branch, ...]
    evidence: Evidence = Evidence.INFERRED

    @property
    def advice(self) -> str:
        """Where to look next."""
        return LOOK_AT[self.cause]


@dataclass(frozen=True, slots=True, kw_only=True)
class LateRanks:
    """A verdict for each host with several devices, and caveats."""

    verdicts: tuple[LateRank, ...]
    findings: tuple[Finding, ...]


def find_late_ranks(
    reconciliation: pd.DataFrame, skew: pd.DataFrame, backward: pd.DataFrame | None = None
) -> LateRanks:
    """Which device of each host is late, and why.

    Args:
        reconciliation: RECONCILIATION by step, of the steps that count.
        skew: COLLECTIVE_SKEW of the same steps.
        backward: `backward_compute` of the same steps; None: phases are unknown.
    """
    common = common_steps(reconciliation)
    if common.empty:
        return LateRanks(verdicts=(), findings=())
    means = _means(common, skew, backward)
    verdicts: list[LateRank] = []
    findings = list(check_clocks(common["device"].astype(str).unique()))
    for (run, host), own in means.groupby(["run", "host"], observed=True, sort=True):
        if len(own) < 2:
            continue
        if bool(own["wait_ns"].isna().all()):
            findings.append(_nothing_matched(str(run), str(host), len(own)))
        else:
            verdicts.append(_judge(str(run), str(host), own.reset_index(drop=True)))
    return LateRanks(verdicts=tuple(verdicts), findings=tuple(findings))


def backward_compute(rows: pd.DataFrame) -> pd.DataFrame:
    """BACKWARD_COMPUTE of the rows that are in a step.

    Args:
        rows: ATTRIBUTED, at least run, device, step_index, start_ns, end_ns, activity, phase.
    """
    is_backward = rows["phase"].isin(["backward", "rematerialized"]) & (rows["activity"] == str(Activity.COMPUTE))
    keys = ["run", "device", "step_index"]
    timed = time_rows(rows, keys, is_wanted=(is_backward & rows["step_index"].notna()).to_numpy())
    frame = rows.iloc[timed.kept[timed.groups.example]][keys].reset_index(drop=True)
    lengths = union_length_by(timed.start_ns, timed.end_ns, timed.groups.of, len(timed.groups))
    frame = frame.assign(run=labels_column(frame["run"]), device=labels_column(frame["device"]), backward_ns=lengths)
    frame = frame.astype({"step_index": "int64"}).sort_values(keys, ignore_index=True)
    return require_frame(frame, BACKWARD_COMPUTE)


def _means(common: pd.DataFrame, skew: pd.DataFrame, backward: pd.DataFrame | None) -> pd.DataFrame:
    """One row per device: means over the steps of what the tree asks about, NaN where it is not known."""
    plain = common.astype({"run": "object", "device": "object", "step_index": "int64"})
    plain = plain.assign(host=[host_of(device) for device in plain["device"]])
    first = plain.groupby(["run", "host", "step_index"])["start_ns"].transform("min")
    plain = plain.assign(begins_late_ns=plain["start_ns"] - first)
    keys = ["run", "device", "step_index"]
    tables = {"wait_ns": skew, "transfer_ns": skew, "backward_ns": backward}
    for name, table in tables.items():
        if table is None or table.empty:
            plain[name] = np.nan
            continue
        other = table[[*keys, name]].astype({"run": "object", "device": "object", "step_index": "int64"})
        plain = plain.merge(other, on=keys, how="left")
    wanted = ["rows_count", "begins_late_ns", "compute_ns", "idle_ns", "span_ns", *tables]
    return plain.groupby(["run", "host", "device"])[wanted].mean().reset_index()


def _judge(run: str, host: str, means: pd.DataFrame) -> LateRank:
    step_ns = float(means["span_ns"].mean())
    limit = LATE_RATIO * step_ns
    late, lateness_ns = _latest(means)
    branches = [_ask("do the others wait for one rank at collectives?", lateness_ns, limit)]
    if not branches[0].is_yes:
        return _judge_transfer(run, host, means, lateness_ns, branches)
    half = EXPLAINED_RATIO * lateness_ns
    excess = {name: _excess(means, name, late) for name in ("begins_late_ns", "compute_ns", "idle_ns", "backward_ns")}
    more_rows = _excess(means, "rows_count", late) / max(float(means["rows_count"].median()), 1.0)
    questions = (
        ("did it begin the step later than the others?", "begins_late_ns", LateCause.LATE_INPUT),
        (
            "did it compute longer?",
            "compute_ns",
            LateCause.EXTRA_WORK if more_rows >= MORE_ROWS_RATIO else LateCause.SLOWER_COMPUTE,
        ),
        ("was it idle longer within the step?", "idle_ns", LateCause.IDLE_WITHIN_STEP),
    )
    cause = LateCause.UNEXPLAINED
    for question, name, answer in questions:
        branches.append(_ask(question, excess[name], half))
        if branches[-1].is_yes:
            cause = answer
            break
    return LateRank(
        run=run,
        host=host,
        device=str(means["device"].iloc[late]),
        cause=cause,
        lateness_ns=lateness_ns,
        step_ns=step_ns,
        backward_excess_ns=None if np.isnan(excess["backward_ns"]) else excess["backward_ns"],
        branches=tuple(branches),
    )


def _judge_transfer(
    run: str, host: str, means: pd.DataFrame, lateness_ns: float, branches: Sequence[Branch]
) -> LateRank:
    """Nobody is late: are the transfers of one rank longer than those of the others?"""
    step_ns = float(means["span_ns"].mean())
    transfer = means["transfer_ns"].to_numpy(dtype=np.float64)
    longest = int(np.nanargmax(transfer))
    branch = _ask("do its transfers take longer?", _excess(means, "transfer_ns", longest), LATE_RATIO * step_ns)
    return LateRank(
        run=run,
        host=host,
        device=str(means["device"].iloc[longest]) if branch.is_yes else None,
        cause=LateCause.LONGER_TRANSFER if branch.is_yes else LateCause.NONE_LATE,
        lateness_ns=lateness_ns,
        step_ns=step_ns,
        backward_excess_ns=None,
        branches=(*branches, branch),
    )


def _latest(means: pd.DataFrame) -> tuple[int, float]:
    """The device that waits least at collectives, and how much longer the others wait."""
    late = int(np.nanargmin(means["wait_ns"].to_numpy(dtype=np.float64)))
    return late, -_excess(means, "wait_ns", late)


def _excess(means: pd.DataFrame, name: str, device: int) -> float:
    """How much more of a quantity the device has than the median of the others; NaN where it is not known."""
    values: npt.NDArray[np.float64] = means[name].to_numpy(dtype=np.float64)
    others = np.delete(values, device)
    others = others[np.isfinite(others)]
    return float(values[device] - np.median(others)) if others.size else float("nan")


def _nothing_matched(run: str, host: str, devices_count: int) -> Finding:
    return Finding(
        rule="no-collective-matched",
        severity=Severity.NOTE,
        where=f"{run}, {host}",
        message=f"no collective was matched across the {devices_count} devices of {host}, so which of them is late "
        "cannot be told",
        numbers={"devices_count": devices_count},
    )


def _ask(question: str, value_ns: float, limit_ns: float) -> Branch:
    return Branch(question=question, value_ns=value_ns, limit_ns=limit_ns, is_yes=bool(value_ns >= limit_ns))
