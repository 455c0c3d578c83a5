"""Kernels were launched by HIP graphs, and nothing says which instruction each belongs to."""

from __future__ import annotations

from rocktools.evidence import Evidence
from rocktools.findings import Finding, Severity
from rocktools.frames import Column, FrameSpec
from rocktools.rules.inputs import RuleInputs
from rocktools.rules.rule import CannotSay, Confirmation, Outcome, Rule, RuleFinding, RuleGroup, Threshold
from rocktools.units import format_ratio

HIDDEN_RATIO = 0.05

GRAPH_LAUNCHES = FrameSpec(
    name="GRAPH_LAUNCHES",
    meaning="One row per device: time of kernels that command buffers launched, and of those that no instruction has.",
    key=("run", "device"),
    sort=("run", "device"),
    columns=(
        Column("run", "category", "label of the run"),
        Column("device", "category", "label of the device, as in AGENTS"),
        Column("graph_ns", "int64", "durations of kernels that a HIP graph launched"),
        Column("hidden_ns", "int64", "part of `graph_ns` without an instruction"),
        Column("total_ns", "int64", "durations of all kernels"),
    ),
)


def check_command_buffers(inputs: RuleInputs) -> Outcome:
    """Share of kernel time that graphs launched and that is linked to no instruction."""
    assert inputs.graph_launches is not None
    graph_ns, hidden_ns, total_ns = (
        int(inputs.graph_launches[name].sum()) for name in ("graph_ns", "hidden_ns", "total_ns")
    )
    if total_ns == 0:
        return CannotSay(reason="no kernel ran")
    if hidden_ns < HIDDEN_RATIO * total_ns:
        return []
    finding = Finding(
        rule="command-buffers-hide-names",
        severity=Severity.WARNING,
        where="kernels of HIP graphs",
        message=f"{format_ratio(graph_ns / total_ns)} of kernel time was launched by command buffers, and "
        f"{format_ratio(hidden_ns / total_ns)} of it all has no instruction: phases and components are missing there",
        numbers={"graph_ns": graph_ns, "hidden_ns": hidden_ns, "total_ns": total_ns},
        advice="for a readable profile XLA_FLAGS=--xla_gpu_enable_command_buffer= (nothing behind the sign); time "
        "throughput with them on",
    )
    return [RuleFinding(finding=finding, evidence=Evidence.MEASURED)]


RULE = Rule(
    name="command-buffers-hide-names",
    title="Command buffers hide names",
    group=RuleGroup.CAPTURE_QUALITY,
    looks_at="Kernels with a HIP graph behind them (rocprofv3 records its id; a JAX profile names `command_buffer` in "
    "place of the instruction), and whether they could be linked to the program all the same.",
    signature="Large parts of a step bear the name `command_buffer`, or no name stack at all.",
    confirmations=(
        Confirmation(detail="how much of the time is linked, and by which method", command="rocktools link RUN"),
    ),
    fixes=(
        "a second run for reading, with command buffers off; never compare its throughput",
        "the dump of the program with its thunk sequence (`--hlo`), by which most kernels are found again",
    ),
    thresholds=(
        Threshold(
            name="hidden_ratio", value=HIDDEN_RATIO, meaning="such kernels over all kernel time", source="rocktools"
        ),
    ),
    needs=("graph_launches",),
    check=check_command_buffers,
)
