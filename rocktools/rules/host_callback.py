"""The program calls Python on the host in the middle of a step: `io_callback`, `debug.print`, `pure_callback`."""

from __future__ import annotations

import re

import numpy as np

from rocktools.evidence import Evidence
from rocktools.findings import Finding, Severity
from rocktools.hlo.call_graph import count_calls
from rocktools.intervals import covered_length, union
from rocktools.rules.inputs import RuleInputs
from rocktools.rules.kernel_work import WorkKind
from rocktools.rules.rule import Confirmation, Outcome, Rule, RuleFinding, RuleGroup
from rocktools.rules.step_times import cells_count
from rocktools.units import count_noun, format_duration

_EVENT = re.compile(r"(?i)(?:io|debug|pure|host|python)_?callback")


def check_callbacks(inputs: RuleInputs) -> Outcome:
    """Callbacks in the programs that ran, and the idle time that they were seen to cost."""
    assert inputs.programs is not None
    assert inputs.kernel_work is not None
    work = inputs.kernel_work[(inputs.kernel_work["work"] == WorkKind.CALLBACK.value).to_numpy()]
    found = []
    idle_ns = _idle_ns(inputs)
    for module in inputs.programs:
        names = [str(name) for name in work.loc[(work["program_id"] == module.label).to_numpy(), "instruction"]]
        if not names:
            continue
        calls = count_calls(module)
        known = [calls.get(name) for name in names]
        often = sum(count for count in known if count is not None)
        cost = "" if idle_ns is None else f"; devices were idle for {format_duration(idle_ns)} of each step meanwhile"
        finding = Finding(
            rule="host-callback",
            severity=Severity.WARNING,
            where=f"{module.name}, {names[0]}",
            message=f"{count_noun(len(names), 'instruction')} of the program, {names[0]} for one, call Python on the "
            f"host, {often} times in each run at least: the device waits for the host each time{cost}",
            numbers={
                "callbacks_count": len(names),
                "executions_count": often,
                **({} if idle_ns is None else {"idle_ns": idle_ns}),
            },
            advice="take prints and callbacks out of the step, or make them once in many steps",
        )
        found.append(RuleFinding(finding=finding, explained_ns=idle_ns, evidence=Evidence.COMPILER_ESTIMATE))
    return found


def _idle_ns(inputs: RuleInputs) -> float | None:
    """Idle time of devices within steps in which a callback ran on the host, per device and step; None: not known."""
    gaps, events = inputs.gaps, inputs.host_events
    if gaps is None or events is None or inputs.step_times is None:
        return None
    wanted = [name for name in events["event_name"].cat.categories if _EVENT.search(str(name))]
    mine = events[events["event_name"].isin(wanted).to_numpy()]
    if mine.empty:
        return None
    running = union(mine["start_ns"].to_numpy(), mine["end_ns"].to_numpy())
    idle = covered_length(gaps["start_ns"].to_numpy(), gaps["end_ns"].to_numpy(), running)
    return float(np.sum(idle)) / cells_count(inputs.step_times)


RULE = Rule(
    name="host-callback",
    title="Host callbacks",
    group=RuleGroup.FAULT,
    looks_at="Custom calls of the compiled program that run Python on the host (`xla_python_gpu_callback`, "
    "`xla_ffi_python_gpu_callback`): the values go over by D2H copies, and the stream waits until the host has "
    "answered.",
    signature="Gaps of about 100 ms at the same place of every step, with a small copy to the host in front.",
    confirmations=(
        Confirmation(detail="the instruction, its scope and source line", command="rocktools hlo grep RUN callback"),
        Confirmation(detail="what the gaps of a step begin and end with", command="rocktools gaps RUN --by gap"),
    ),
    fixes=(
        "no `jax.debug.print` and no `io_callback` in the step that is timed",
        "return the values and print them outside, or every hundredth step only",
    ),
    needs=("programs", "kernel_work"),
    check=check_callbacks,
)
