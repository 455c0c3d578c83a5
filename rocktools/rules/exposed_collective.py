"""Communication that nothing hides: the device waits for a collective while its MFMA units stand still."""

from __future__ import annotations

import pandas as pd

from rocktools.evidence import Evidence
from rocktools.findings import Finding, Severity
from rocktools.rules.inputs import RuleInputs
from rocktools.rules.rank_lateness import is_partly_traced
from rocktools.rules.rule import Confirmation, Outcome, Rule, RuleFinding, RuleGroup, Threshold
from rocktools.rules.step_times import cells_count, mean_step_ns
from rocktools.timeline.activities import operation_names
from rocktools.units import format_duration, format_ratio, format_si

EXPOSED_RATIO = 0.2


def check_exposed_collectives(inputs: RuleInputs) -> Outcome:
    """Share of a step in which collectives transfer and no compute runs; waiting for a late rank is left out."""
    assert inputs.exposure is not None
    assert inputs.step_times is not None
    assert inputs.reconciliation is not None
    exposed = inputs.exposure
    cells, step_ns = cells_count(inputs.step_times), mean_step_ns(inputs.step_times)
    total_ns = float(inputs.reconciliation["exposed_communication_ns"].sum()) / cells
    summed_ns, waited_ns = float(exposed["exposed_ns"].sum()), float(exposed["exposed_wait_ns"].fillna(0).sum())
    if not summed_ns:
        return []
    # Collectives that run side by side are exposed together: the union is divided as their sums are.
    transfer_ns = total_ns * (summed_ns - waited_ns) / summed_ns
    if transfer_ns < EXPOSED_RATIO * step_ns:
        return []
    worst = _worst(exposed)
    communication_ns = float(inputs.reconciliation["communication_ns"].sum()) / cells
    numbers = {
        "exposed_transfer_ns": transfer_ns,
        "exposed_wait_ns": total_ns - transfer_ns,
        "communication_ns": communication_ns,
        "step_ns": step_ns,
        "share_ratio": transfer_ns / step_ns,
        "worst_exposed_ns": worst.exposed_ns / cells,
        **({} if worst.payload_bytes is None else {"worst_payload_bytes": worst.payload_bytes}),
    }
    partly = "; part of it may be waiting for ranks that were not traced" if is_partly_traced(inputs) else ""
    size = "" if worst.payload_bytes is None else f" of {format_si(worst.payload_bytes, 'B')}"
    finding = Finding(
        rule="exposed-collective",
        severity=Severity.WARNING,
        where=worst.name,
        message=f"{format_duration(transfer_ns)} of each step of {format_duration(step_ns)} "
        f"({format_ratio(transfer_ns / step_ns)}) is communication with idle MFMA units, of "
        f"{format_duration(communication_ns)} in all; most of it in {worst.name}, {worst.kind}{size}: "
        f"{format_duration(worst.exposed_ns / cells)}{partly}",
        numbers=numbers,
        advice="overlap it (latency-hiding scheduler), give each device more work per transfer, or map the axis anew",
    )
    return [RuleFinding(finding=finding, explained_ns=transfer_ns, evidence=Evidence.MEASURED)]


class _Worst:
    """The collective with most exposed transfer."""

    def __init__(self, rows: pd.DataFrame, name: str) -> None:
        self.name = name
        self.exposed_ns = float((rows["exposed_ns"] - rows["exposed_wait_ns"].fillna(0)).sum())
        kind, phase, payload = (rows[column].iloc[0] for column in ("collective", "phase", "payload_bytes"))
        self.kind = f"{'a collective' if pd.isna(kind) else kind} in the phase {phase}"
        self.payload_bytes = None if pd.isna(payload) else int(payload)


def _worst(exposed: pd.DataFrame) -> _Worst:
    names = operation_names(exposed)
    own_ns = exposed["exposed_ns"] - exposed["exposed_wait_ns"].fillna(0).astype("int64")
    sums = own_ns.groupby(names.codes).sum().sort_values(ascending=False, kind="stable")
    code = int(sums.index[0])
    return _Worst(exposed[names.codes == code], names.texts[code])


RULE = Rule(
    name="exposed-collective",
    title="Exposed collective",
    group=RuleGroup.FAULT,
    looks_at="Time in which an RCCL kernel runs and no compute kernel does, so that the MFMA units of the device are "
    "idle while data crosses xGMI or the NIC. What a device waits for a rank that comes late is counted apart, and is "
    "not held against the network.",
    signature="Between the start and the end of an all-gather, reduce-scatter, all-reduce or all-to-all no other "
    "stream of the device is busy, in step after step.",
    confirmations=(
        Confirmation(
            detail="how much of communication is hidden and exposed in each step", command="rocktools overlap RUN"
        ),
        Confirmation(
            detail="payload, group and bandwidth of each collective: is it slow, or only not hidden?",
            command="rocktools collectives RUN",
        ),
        Confirmation(detail="whose work it is, by phase and component", command="rocktools ledger RUN"),
    ),
    fixes=(
        "let XLA hide it: the latency-hiding scheduler and asynchronous collectives",
        "more tokens per device, so that there is more compute to hide it under",
        "fewer or smaller transfers: another mesh axis for this dimension, larger groups within a node",
    ),
    thresholds=(
        Threshold(
            name="exposed_ratio",
            value=EXPOSED_RATIO,
            meaning="exposed transfer over the step",
            source="Marin profile_summary names stalls from 20 % on; a mixture of experts whose all-to-all is not "
            "asynchronous exposes some 15 % without any fault",
        ),
    ),
    needs=("step_times", "reconciliation", "exposure"),
    check=check_exposed_collectives,
)
