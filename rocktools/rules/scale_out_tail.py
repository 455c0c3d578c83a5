"""Reductions of gradients that leave the node are exposed behind the backward pass: the NIC is slower than xGMI."""

from __future__ import annotations

import numpy as np

from rocktools.evidence import Evidence
from rocktools.findings import Finding, Severity
from rocktools.rules.gradient_tail import TAIL_RATIO, crosses_nodes, find_gradient_tail
from rocktools.rules.inputs import RuleInputs
from rocktools.rules.rule import CannotSay, Confirmation, Outcome, Rule, RuleFinding, RuleGroup, Threshold
from rocktools.rules.step_times import cells_count, mean_step_ns
from rocktools.units import format_duration, format_ratio, format_si


def check_scale_out(inputs: RuleInputs) -> Outcome:
    """Exposed reductions behind the backward pass whose groups hold devices of several nodes."""
    assert inputs.rows is not None
    assert inputs.exposure is not None
    assert inputs.step_times is not None
    assert inputs.programs is not None
    far = crosses_nodes(inputs.programs, inputs.gpus_count)
    if not far:
        return CannotSay(reason="no reduction is known to leave a node: the program runs on one, or nodes are unlike")
    tail = find_gradient_tail(inputs.rows, inputs.exposure)
    if tail is None:
        return CannotSay(reason="no kernel is known to be of the backward pass")
    cells, step_ns = cells_count(inputs.step_times), mean_step_ns(inputs.step_times)
    keys = zip(tail.frame["program_id"].astype(str), tail.frame["instruction"].astype(str), strict=True)
    is_far = np.array([key in far for key in keys], dtype=np.bool_)
    tail_ns = tail.of(cells, is_far)
    if tail_ns < TAIL_RATIO * step_ns:
        return []
    payloads = tail.frame.loc[is_far, "payload_bytes"]
    moved = None if payloads.isna().any() else float(payloads.sum()) / cells
    told = "" if moved is None else f", with payloads of {format_si(moved, 'B')} a step"
    finding = Finding(
        rule="scale-out-tail",
        severity=Severity.WARNING,
        where="end of the backward pass",
        message=f"{format_duration(tail_ns)} of each step ({format_ratio(tail_ns / step_ns)}) waits behind the "
        f"backward pass for reductions across nodes{told}",
        numbers={
            "tail_ns": tail_ns,
            "step_ns": step_ns,
            "share_ratio": tail_ns / step_ns,
            **({} if moved is None else {"payload_bytes": moved}),
        },
        advice="send earlier buckets during the backward pass; hold the bandwidth against that of the NIC",
    )
    return [RuleFinding(finding=finding, explained_ns=tail_ns, evidence=Evidence.MEASURED)]


RULE = Rule(
    name="scale-out-tail",
    title="Exposed reduction across nodes",
    group=RuleGroup.FAULT,
    looks_at="All-reduces and reduce-scatters whose replica groups hold devices of several nodes, so that gradients go "
    "through the NIC, behind the last backward kernel.",
    signature="A tail of RCCL kernels behind the backward pass that only runs on several nodes have.",
    confirmations=(
        Confirmation(
            detail="bandwidth of the collective, to be held against the NIC", command="rocktools collectives RUN"
        ),
        Confirmation(detail="how much is hidden", command="rocktools overlap RUN"),
    ),
    fixes=(
        "reduce within the node first, and only the sum across nodes",
        "earlier buckets, so that the backward pass hides them",
        "the state of the NIC and of its network",
    ),
    thresholds=(Threshold(name="tail_ratio", value=TAIL_RATIO, meaning="such time over the step", source="rocktools"),),
    needs=("rows", "exposure", "step_times", "programs"),
    check=check_scale_out,
)
