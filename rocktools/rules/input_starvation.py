"""The device waits before each step: the host is still making the batch, or copying it over."""

from __future__ import annotations

import re
from collections import Counter

import numpy as np
import pandas as pd

from rocktools.evidence import Evidence
from rocktools.findings import Finding, Severity
from rocktools.rules.inputs import RuleInputs
from rocktools.rules.rule import CannotSay, Confirmation, Outcome, Rule, RuleFinding, RuleGroup, Threshold
from rocktools.rules.step_times import mean_step_ns
from rocktools.rules.waiting import find_waits
from rocktools.units import format_duration, format_ratio

WAITING_RATIO = 0.05
LEAST_WAIT_NS = 500_000
STEPS_RATIO = 0.5
LEAST_STEPS = 2

_DATA = re.compile(r"(?i)data|input|batch|load(?!ed)|prefetch|decod|tokeni|infeed|device_?put|grain|iterator")


def check_input_wait(inputs: RuleInputs) -> Outcome:
    """Time from the end of a step to the first kernel of the next, in most steps."""
    assert inputs.rows is not None
    assert inputs.step_times is not None
    waits = find_waits(inputs.rows, inputs.step_times)
    if waits.empty:
        return CannotSay(reason="no step that counts has a step before it, so what passes between them is not known")
    step_ns = mean_step_ns(inputs.step_times)
    wait_ns = float(waits["wait_ns"].mean())
    is_long = waits["wait_ns"] >= max(WAITING_RATIO * step_ns, LEAST_WAIT_NS)
    waiting_steps = len(waits[is_long.to_numpy()].drop_duplicates(["run", "step_index"]))
    is_usual = float(is_long.mean()) >= STEPS_RATIO and waiting_steps >= LEAST_STEPS
    if not is_usual or wait_ns < max(WAITING_RATIO * step_ns, LEAST_WAIT_NS):
        return []
    name, host_ns = _busiest(inputs, waits)
    if name is not None:
        told = f"meanwhile {name} ran on the host for {format_duration(host_ns)} a step"
    else:
        told = "what the host did is not known to be the input" if _has_host(inputs) else "the host was not recorded"
    finding = Finding(
        rule="input-starvation",
        severity=Severity.WARNING,
        where="before each step",
        message=f"devices wait {format_duration(wait_ns)} of each step of {format_duration(step_ns)} "
        f"({format_ratio(wait_ns / step_ns)}) for its first kernel, in {int(is_long.sum())} of {len(waits)} "
        f"steps of devices; {told}",
        numbers={
            "wait_ns": wait_ns,
            "step_ns": step_ns,
            "share_ratio": wait_ns / step_ns,
            "waiting_steps_count": int(is_long.sum()),
            "steps_count": len(waits),
            **({} if name is None else {"host_ns": host_ns}),
        },
        advice="prefetch batches to the device, more workers for reading, tokens made in advance",
    )
    return [RuleFinding(finding=finding, explained_ns=wait_ns, evidence=Evidence.MEASURED)]


def _has_host(inputs: RuleInputs) -> bool:
    return inputs.ranges is not None or inputs.host_events is not None or inputs.host_calls is not None


def _busiest(inputs: RuleInputs, waits: pd.DataFrame) -> tuple[str | None, float]:
    """What of the host that has to do with data ran longest while devices waited, and for how long in each step."""
    total: Counter[str] = Counter()
    sources = (
        (inputs.ranges, "name", "process"),
        (inputs.host_events, "event_name", "host"),
        (inputs.host_calls, "name", "process"),
    )
    for frame, column, owner in sources:
        if frame is None or frame.empty:
            continue
        wanted = [name for name in frame[column].cat.categories if _DATA.search(str(name))]
        mine = frame[frame[column].isin(wanted).to_numpy()]
        of = {str(key): group for key, group in mine.groupby(mine[owner].astype(str))}
        for process, start, end in zip(waits["process"], waits["start_ns"], waits["end_ns"], strict=True):
            if process in of:
                events = of[process]
                inside = np.minimum(events["end_ns"], end) - np.maximum(events["start_ns"], start)
                for name, length in inside[inside > 0].groupby(events[column].astype(str)).sum().items():
                    total[str(name)] += int(length)
    if not total:
        return None, 0.0
    name, length = max(total.items(), key=lambda item: (item[1], item[0]))
    return name, length / len(waits)


RULE = Rule(
    name="input-starvation",
    title="Input starvation",
    group=RuleGroup.FAULT,
    looks_at="The time from the end of a step's work on a device to the first kernel of the next step, H2D copies of "
    "the batch included. There is no infeed queue on a GPU: a batch is host memory that is copied over, and a device "
    "without one has nothing to launch.",
    signature="Every step begins with an idle device; the host reads, decodes or copies meanwhile.",
    confirmations=(
        Confirmation(detail="what the gaps end with, and whether the host was late", command="rocktools gaps RUN"),
        Confirmation(detail="ranges of the host around the start of a step", command="rocktools frame ranges RUN"),
        Confirmation(detail="copies from the host, and their sizes", command="rocktools frame copies RUN"),
    ),
    fixes=(
        "prefetch: the next batch is on the device before the step ends",
        "more worker processes for reading and decoding",
        "data that is tokenized and packed in advance",
    ),
    thresholds=(
        Threshold(
            name="waiting_ratio",
            value=WAITING_RATIO,
            meaning="wait before the first kernel over the step",
            source="rocktools; XProf 2.23.1 speaks of input-bound from 10 % on, reading guides from a few percent on",
        ),
        Threshold(
            name="least_wait_ns",
            value=LEAST_WAIT_NS,
            meaning="shorter waits are those of a launch, not of a batch",
            source="rocktools",
        ),
        Threshold(name="steps_ratio", value=STEPS_RATIO, meaning="steps that wait so long", source="rocktools"),
        Threshold(name="least_steps_count", value=LEAST_STEPS, meaning="steps that wait so long", source="rocktools"),
    ),
    needs=("rows", "step_times"),
    check=check_input_wait,
)
