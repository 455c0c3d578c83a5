"""A step in the middle of training takes seconds: the host compiles, and the device has nothing to do."""

from __future__ import annotations

import numpy as np
import pandas as pd

from rocktools.evidence import Evidence
from rocktools.findings import Finding, Severity
from rocktools.rules.inputs import RuleInputs
from rocktools.rules.rule import CannotSay, Confirmation, Outcome, Rule, RuleFinding, RuleGroup, Threshold
from rocktools.rules.step_times import lengths_of
from rocktools.timeline.host_windows import compile_instants
from rocktools.units import count_noun, format_duration

LONGER_RATIO = 0.5
IDLE_RATIO = 0.5
OCCASIONAL_RATIO = 1 / 3


def check_recompilation(inputs: RuleInputs) -> Outcome:
    """Steps behind the first regular one that take far longer than the median, with the device idle meanwhile."""
    assert inputs.step_times is not None
    times = inputs.step_times.assign(length_ns=lengths_of(inputs.step_times))
    times = times[times["is_complete"].to_numpy()]
    regular = times[~times["is_warmup"].to_numpy()]
    if len(regular.drop_duplicates(["run", "step_index"])) < 2:
        return CannotSay(reason="fewer than two regular steps were recorded, so none can stand out")
    found = []
    for run, of_run in times.groupby("run", observed=True):
        steady = regular[(regular["run"] == run).to_numpy()]
        if len(steady):
            later = of_run[(of_run["step_index"] > steady["step_index"].min()).to_numpy()]
            found.append(_odd_steps(later, float(steady["length_ns"].median())))
    odd = pd.concat(found, ignore_index=True)
    if odd.empty or len(odd) > OCCASIONAL_RATIO * len(times):
        return []
    compiled = _compiled(inputs, odd)
    steps = sorted({int(step) for step in odd["step_index"]})
    excess_ns = float(odd["excess_ns"].sum()) / len(times)
    worst = odd.loc[odd["excess_ns"].idxmax()]
    if not compiled and inputs.launches is None and inputs.host_events is None:
        how = "nothing was recorded of the host, so whether it compiled is not known"
    else:
        how = (
            f"the host compiled or loaded an executable in {compiled} of them" if compiled else "no compiling was seen"
        )
    finding = Finding(
        rule="recompilation",
        severity=Severity.WARNING if compiled else Severity.NOTE,
        where=f"{worst['run']}, step {int(worst['step_index'])}",
        message=f"in the middle of the trace {count_noun(len(steps), 'step')} ({', '.join(map(str, steps[:6]))}) took "
        f"up to {format_duration(float(worst['excess_ns']))} more than the median, with the device idle for "
        f"{format_duration(float(worst['idle_ns']))}; {how}",
        numbers={
            "odd_steps_count": len(steps),
            "compiled_steps_count": compiled,
            "longest_excess_ns": float(worst["excess_ns"]),
            "mean_excess_ns": excess_ns,
        },
        advice="shapes that do not change: pad the last batch; look for 'Compiling' in the log (JAX_LOG_COMPILES=1)",
    )
    return [RuleFinding(finding=finding, explained_ns=excess_ns, evidence=Evidence.MEASURED)]


def _odd_steps(times: pd.DataFrame, median_ns: float) -> pd.DataFrame:
    """Steps far above the median whose device was idle for most of the excess."""
    excess = times["length_ns"] - median_ns
    idle = times["length_ns"] - times["busy_ns"]
    is_odd = (excess > LONGER_RATIO * median_ns) & (idle >= IDLE_RATIO * excess)
    return times.assign(excess_ns=excess, idle_ns=idle)[is_odd.to_numpy()]


def _compiled(inputs: RuleInputs, odd: pd.DataFrame) -> int:
    """Steps of these in which the host compiled."""
    instants = compile_instants(inputs.host_events, inputs.launches)
    steps = set()
    for run, step, end, length in zip(
        *(odd[name] for name in ("run", "step_index", "end_ns", "length_ns")), strict=True
    ):
        for (owner, _), at in instants.items():
            if owner == str(run) and np.searchsorted(at, end) > np.searchsorted(at, end - length):
                steps.add((str(run), int(step)))
    return len(steps)


RULE = Rule(
    name="recompilation",
    title="Recompilation",
    group=RuleGroup.FAULT,
    looks_at="Steps behind the first regular one: how long each took since the end of the one before, how much of that "
    "the device was busy, and whether the host compiled, autotuned or loaded a code object (`hipModuleLoad`) "
    "meanwhile.",
    signature="Most steps are alike; now and then one takes seconds more, in which no kernel runs.",
    confirmations=(
        Confirmation(
            detail="steps, and which of them are warm-up", command="rocktools ledger RUN --part steps --all-steps"
        ),
        Confirmation(detail="what the host did in the gap", command="rocktools frame host_calls RUN"),
        Confirmation(detail="programs that ran: one for each shape", command="rocktools link RUN"),
    ),
    fixes=(
        "static shapes: pad the last batch, bucket sequence lengths",
        "arguments that change from step to step must not be static for jax.jit",
        "a persistent compilation cache, where new shapes cannot be avoided",
    ),
    thresholds=(
        Threshold(
            name="longer_ratio",
            value=LONGER_RATIO,
            meaning="excess over the median step, relative to it",
            source="rocktools; half of what makes an early step warm-up",
        ),
        Threshold(
            name="idle_ratio",
            value=IDLE_RATIO,
            meaning="share of the excess in which the device was idle",
            source="rocktools",
        ),
        Threshold(
            name="occasional_ratio",
            value=OCCASIONAL_RATIO,
            meaning="steps that stand out, over all, at most",
            source="rocktools: what stands out is rare",
        ),
    ),
    needs=("step_times",),
    check=check_recompilation,
)
