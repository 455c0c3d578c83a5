"""Verdicts on late ranks and compute of each device -> who is late, by how much, and whether experts are the reason.

Where collectives were matched, the verdicts of `timeline.late_rank` hold. Elsewhere (one GPU of each node, clocks that
cannot be compared) a device is late whose compute is longer than the median of the others: nobody saw them wait, so it
is inferred.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np
import pandas as pd

from rocktools.intervals import union_length_by
from rocktools.rules.inputs import RuleInputs
from rocktools.rules.step_times import mean_step_ns
from rocktools.timeline.activities import Activity
from rocktools.timeline.clocks import host_of
from rocktools.timeline.grouping import codes_of, group_rows
from rocktools.timeline.late_rank import LateCause
from rocktools.timeline.ranks import common_steps
from rocktools.units import format_duration, format_ratio

STRAGGLER_RATIO = 0.03
EXPERT_SHARE_RATIO = 0.5
OTHERS_ALIKE_RATIO = 0.5

_EXPERT = re.compile(r"(?i)expert|moe")
_COMPUTING = (LateCause.EXTRA_WORK, LateCause.SLOWER_COMPUTE, LateCause.UNEXPLAINED)


@dataclass(frozen=True, slots=True, kw_only=True)
class Lateness:
    """One device that the others wait for.

    Attributes:
        run, device: which one.
        lateness_ns: how much longer than it the others wait in each step, or how much longer it computes.
        cost_ns: part of that which no compute of the others hides.
        cause: what the numbers say.
        is_matched: whether the others were seen waiting.
        expert_excess_ns, other_excess_ns: how much longer it computes in components of experts, and elsewhere.
        is_of_experts: whether experts make up the excess, and the rest of its work is like that of the others.
    """

    run: str
    device: str
    lateness_ns: float
    cost_ns: float
    cause: LateCause
    is_matched: bool
    expert_excess_ns: float
    other_excess_ns: float
    is_of_experts: bool


def lateness_text(late: Lateness, step_ns: float) -> str:
    """Who is late, by how much of a step, and how much of that costs."""
    return (
        f"{late.device} is late by {format_duration(late.lateness_ns)} in each step of {format_duration(step_ns)}, "
        f"{format_duration(late.cost_ns)} of it with nothing to hide it under ({format_ratio(late.cost_ns / step_ns)})"
    )


def lateness_numbers(late: Lateness, step_ns: float) -> dict[str, int | float]:
    """The numbers of a late device that findings cite."""
    return {
        "lateness_ns": late.lateness_ns,
        "cost_ns": late.cost_ns,
        "step_ns": step_ns,
        "share_ratio": late.cost_ns / step_ns,
        "expert_excess_ns": late.expert_excess_ns,
        "other_excess_ns": late.other_excess_ns,
    }


def find_lateness(inputs: RuleInputs) -> list[Lateness]:
    """Every device that is late by more than the limit; `reconciliation`, `rows` and `step_times` must be there."""
    assert inputs.reconciliation is not None
    assert inputs.step_times is not None
    assert inputs.rows is not None
    limit_ns = STRAGGLER_RATIO * mean_step_ns(inputs.step_times)
    verdicts = () if inputs.late_ranks is None else inputs.late_ranks.verdicts
    found = [
        _explained(inputs, verdict.run, verdict.device, verdict.lateness_ns, verdict.cause, is_matched=True)
        for verdict in verdicts
        if verdict.device is not None and verdict.cause is not LateCause.LONGER_TRANSFER
    ]
    if not verdicts:
        common = common_steps(inputs.reconciliation)
        for run, own in common.groupby("run", observed=True):
            means = own.groupby(own["device"].astype(str))["compute_ns"].mean()
            if len(means) > 1:
                device = str(means.idxmax())
                excess = float(means.max() - means.drop(device).median())
                found.append(_explained(inputs, str(run), device, excess, LateCause.SLOWER_COMPUTE, is_matched=False))
    return [each for each in found if each.cost_ns >= limit_ns]


def is_partly_traced(inputs: RuleInputs) -> bool:
    """Whether some participants of the program ran nothing in the trace, so that waiting for them is not seen."""
    counts = (inputs.devices_count, inputs.participants_count)
    return counts[0] is not None and counts[1] is not None and counts[0] < counts[1]


def _explained(
    inputs: RuleInputs, run: str, device: str, lateness_ns: float, cause: LateCause, *, is_matched: bool
) -> Lateness:
    expert, other = (_excess(inputs, run, device, is_expert) for is_expert in (True, False))
    total = expert.excess_ns + other.excess_ns
    is_of_experts = (
        cause in _COMPUTING
        and expert.excess_ns >= EXPERT_SHARE_RATIO * max(total, lateness_ns)
        and other.ratio <= OTHERS_ALIKE_RATIO * expert.ratio
    )
    return Lateness(
        run=run,
        device=device,
        lateness_ns=lateness_ns,
        cost_ns=min(lateness_ns, _exposed_wait(inputs, run, device)) if is_matched else lateness_ns,
        cause=cause,
        is_matched=is_matched,
        expert_excess_ns=expert.excess_ns,
        other_excess_ns=other.excess_ns,
        is_of_experts=bool(is_of_experts),
    )


def _exposed_wait(inputs: RuleInputs, run: str, device: str) -> float:
    """How much longer than a device the others on its host wait at collectives with nothing beside it, in each step.

    Collectives that run side by side are waited for together, and count once.
    """
    assert inputs.exposure is not None
    host = host_of(device)
    is_near = (inputs.exposure["run"] == run) & inputs.exposure["device"].map(lambda label: host_of(str(label)) == host)
    mine = inputs.exposure[is_near.to_numpy(dtype=np.bool_)]
    waits = mine["exposed_wait_ns"].fillna(0).to_numpy(dtype=np.int64)
    groups = group_rows([codes_of(mine[name]) for name in ("device", "step_index")])
    sums = np.zeros(len(groups), dtype=np.int64)
    np.add.at(sums, groups.of, waits)
    starts = mine["start_ns"].to_numpy()
    ends = np.where(waits > 0, mine["end_ns"].to_numpy(), starts)
    unions = union_length_by(starts, ends, groups.of, len(groups))
    each = mine.iloc[groups.example]["device"].astype(str).to_numpy()
    means = pd.Series(np.minimum(sums, unions)).groupby(each).mean()
    others = means.drop(device, errors="ignore")
    return float(np.median(others) - means.get(device, 0.0)) if len(others) else 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class _Excess:
    """How much longer a device takes than the median of the others, per step; and relative to that median."""

    excess_ns: float
    ratio: float


def _excess(inputs: RuleInputs, run: str, device: str, is_expert: bool) -> _Excess:
    rows = inputs.rows
    assert rows is not None
    wanted = [name for name in rows["component"].cat.categories if bool(_EXPERT.search(str(name))) == is_expert]
    is_mine = (rows["run"] == run) & (rows["activity"] == Activity.COMPUTE.value) & rows["component"].isin(wanted)
    mine = rows[is_mine.to_numpy()]
    steps = rows.loc[(rows["run"] == run).to_numpy(), ["device", "step_index"]].drop_duplicates()
    count = steps["device"].astype(str).value_counts()
    sums = (mine["end_ns"] - mine["start_ns"]).groupby(mine["device"].astype(str)).sum()
    means: pd.Series = (sums / count).fillna(0.0)
    others = means.drop(device, errors="ignore")
    if device not in means or others.empty:
        return _Excess(excess_ns=0.0, ratio=0.0)
    usual = float(np.median(others))
    excess = float(means[device]) - usual
    return _Excess(excess_ns=excess, ratio=excess / usual if usual else float("inf") if excess > 0 else 0.0)
