"""The host waits for the device at the end of every step before it launches the next: `block_until_ready` in the "
"loop."""

from __future__ import annotations

import re

import numpy as np
import pandas as pd

from rocktools.evidence import Evidence
from rocktools.findings import Finding, Severity
from rocktools.rules.inputs import RuleInputs
from rocktools.rules.rule import CannotSay, Confirmation, Outcome, Rule, RuleFinding, RuleGroup, Threshold
from rocktools.rules.step_times import mean_step_ns
from rocktools.rules.waiting import find_waits
from rocktools.units import format_duration, format_ratio

STEPS_RATIO = 0.8
WAITING_RATIO = 0.005
LEAST_STEPS = 2

_SYNC = re.compile(r"(?i)^hip(?:Device|Stream|Event)Synchronize|block_?until_?ready|BlockHostUntilReady|Array.*Await")
_LAUNCH = re.compile(r"(?i)^hip(?:Ext)?(?:Module|Graph|Cooperative)?Launch")


def check_synchronisation(inputs: RuleInputs) -> Outcome:
    """Calls of the launching thread that begin within a step and return behind its last kernel, step after step."""
    assert inputs.rows is not None
    assert inputs.step_times is not None
    calls = _synchronisations(inputs)
    if calls is None:
        return CannotSay(reason="no call of the host was recorded, so whether it waited is not known")
    waits = find_waits(inputs.rows, inputs.step_times)
    if len(waits) < LEAST_STEPS:
        return CannotSay(reason="fewer than two steps follow another one, so a habit cannot be told from an accident")
    step_ns = mean_step_ns(inputs.step_times)
    by_process = {str(process): own for process, own in calls.groupby("process")}
    is_synchronized = np.array(
        [
            process in by_process and _is_waiting(by_process[process], start, end)
            for process, start, end in zip(waits["process"], waits["start_ns"], waits["end_ns"], strict=True)
        ],
        dtype=np.bool_,
    )
    wait_ns = float(waits["wait_ns"][is_synchronized].sum()) / len(waits)
    if is_synchronized.mean() < STEPS_RATIO or wait_ns < WAITING_RATIO * step_ns:
        return []
    finding = Finding(
        rule="sync-in-loop",
        severity=Severity.NOTE,
        where="end of each step",
        message=f"in {int(is_synchronized.sum())} of {len(waits)} steps the host waited until the device had ended the "
        f"step before, and only then launched the next: the device idles {format_duration(wait_ns)} of each step "
        f"({format_ratio(wait_ns / step_ns)})",
        numbers={
            "synchronized_steps_count": int(is_synchronized.sum()),
            "steps_count": len(waits),
            "wait_ns": wait_ns,
            "step_ns": step_ns,
        },
        advice="block only at both ends of the timing window; fetch metrics of an older step",
    )
    return [RuleFinding(finding=finding, explained_ns=wait_ns, evidence=Evidence.MEASURED)]


def _is_waiting(calls: pd.DataFrame, start: int, end: int) -> bool:
    """Whether a call is under way when a step ends, and returns before the first kernel of the next."""
    return bool(((calls["start_ns"] < start) & (calls["end_ns"] >= start) & (calls["end_ns"] <= end)).any())


def _synchronisations(inputs: RuleInputs) -> pd.DataFrame | None:
    """Process, start and end of waiting calls of threads that launch; None where no calls were recorded at all."""
    parts = []
    for frame, name, thread, owner in (
        (inputs.host_calls, "name", "thread_id", "process"),
        (inputs.host_events, "event_name", "line", "host"),
    ):
        if frame is None or frame.empty:
            continue
        texts = frame[name].cat.categories
        waiting = frame[frame[name].isin([text for text in texts if _SYNC.search(str(text))]).to_numpy()]
        launching = frame[frame[name].isin([text for text in texts if _LAUNCH.search(str(text))]).to_numpy()]
        threads = set(zip(launching[owner].astype(str), launching[thread].astype(str), strict=True))
        keys = zip(waiting[owner].astype(str), waiting[thread].astype(str), strict=True)
        is_launching = np.array([key in threads for key in keys], dtype=np.bool_)
        is_hip = waiting[name].astype(str).str.startswith("hip").to_numpy(dtype=np.bool_)
        ours = waiting[is_launching | ~is_hip]
        parts.append(ours[["start_ns", "end_ns"]].assign(process=ours[owner].astype(str)))
    return pd.concat(parts, ignore_index=True) if parts else None


RULE = Rule(
    name="sync-in-loop",
    title="Synchronisation in the loop",
    group=RuleGroup.FAULT,
    looks_at="Calls that wait (`hipStreamSynchronize`, `hipDeviceSynchronize`, `hipEventSynchronize`, "
    "`block_until_ready`) of the threads that launch: whether one is under way when a step ends, and returns before "
    "the next begins. The time until the first kernel is then launch latency that nothing hides.",
    signature="The host is never ahead of the device; each step begins with a gap.",
    confirmations=(
        Confirmation(detail="gaps between steps, and that the host was late", command="rocktools gaps RUN --by cause"),
        Confirmation(detail="the calls themselves", command="rocktools frame host_calls RUN"),
    ),
    fixes=(
        "`block_until_ready` once, behind the last timed step",
        "no `float(loss)` and no print of a result in every step",
    ),
    thresholds=(
        Threshold(name="steps_ratio", value=STEPS_RATIO, meaning="steps that begin so", source="rocktools"),
        Threshold(
            name="waiting_ratio", value=WAITING_RATIO, meaning="idle time behind it over the step", source="rocktools"
        ),
    ),
    needs=("rows", "step_times"),
    check=check_synchronisation,
)
