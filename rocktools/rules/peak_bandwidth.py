"""A lower bound of communication was computed with the peak of a link instead of a measured bandwidth."""

from __future__ import annotations

from rocktools.devices.device import Level
from rocktools.evidence import Evidence
from rocktools.findings import Finding, Severity
from rocktools.rules.claims import unsaid
from rocktools.rules.inputs import RuleInputs
from rocktools.rules.rule import CannotSay, Confirmation, Outcome, Rule, RuleFinding, RuleGroup, Threshold
from rocktools.units import format_si

SAME_RATIO = 0.02


def check_bandwidth(inputs: RuleInputs) -> Outcome:
    """The declared bandwidth against what the vendor states for links."""
    assert inputs.claims is not None
    claim = inputs.claims.communication
    missing = unsaid(inputs.claims, "communication.bandwidth_bytes_per_s")
    if missing:
        return CannotSay(reason=missing)
    assert claim.bandwidth_bytes_per_s is not None
    peak = None if inputs.device is None else inputs.device.find_bandwidth(Level.NETWORK)
    is_peak = (
        peak is not None
        and peak.evidence is Evidence.DECLARED
        and abs(claim.bandwidth_bytes_per_s / peak.bytes_per_s - 1) <= SAME_RATIO
    )
    if claim.bandwidth_source is None and peak is None:
        return CannotSay(reason="the claims do not say communication.bandwidth_source, and no device is known")
    if claim.bandwidth_source != "peak" and not is_peak:
        return []
    told = f", the figure of the vendor for {peak.name}" if is_peak and peak is not None else ""
    finding = Finding(
        rule="peak-bandwidth-in-bound",
        severity=Severity.WARNING,
        where=inputs.claims.source,
        message=f"the bound of communication uses {format_si(claim.bandwidth_bytes_per_s, 'B/s')}{told}: no collective "
        "reaches the peak of its links",
        numbers={"bandwidth_bytes_per_s": claim.bandwidth_bytes_per_s},
        advice="bandwidth measured with rccl-tests for the same kind, size and group (--ceilings takes its output)",
    )
    return [RuleFinding(finding=finding, evidence=Evidence.DECLARED)]


RULE = Rule(
    name="peak-bandwidth-in-bound",
    title="Peak instead of measured bandwidth",
    group=RuleGroup.LINT,
    looks_at="The bandwidth behind a declared bound of communication, where it comes from, and what the vendor states "
    "for xGMI links of the GPU.",
    signature="A lower bound that no run comes near.",
    confirmations=(Confirmation(detail="bus bandwidth that collectives reached", command="rocktools collectives RUN"),),
    fixes=("effective bandwidth, measured for this message size and group",),
    thresholds=(
        Threshold(name="same_ratio", value=SAME_RATIO, meaning="difference to the vendor's figure", source="rocktools"),
    ),
    needs=("claims",),
    check=check_bandwidth,
)
