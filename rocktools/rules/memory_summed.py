"""Device memory was added up over devices: whether a shard fits is a question of one device."""

from __future__ import annotations

from rocktools.devices.device import Device
from rocktools.devices.files import read_device
from rocktools.errors import RocktoolsError
from rocktools.evidence import Evidence
from rocktools.findings import Finding, Severity
from rocktools.rules.claims import unsaid
from rocktools.rules.inputs import RuleInputs
from rocktools.rules.rule import CannotSay, Confirmation, Outcome, Rule, RuleFinding, RuleGroup
from rocktools.units import format_si


def check_memory_sum(inputs: RuleInputs) -> Outcome:
    """Memory that is said to be a sum, or is more than one device has."""
    assert inputs.claims is not None
    claim = inputs.claims.memory
    missing = unsaid(inputs.claims, "memory.used_bytes")
    if missing:
        return CannotSay(reason=missing)
    assert claim.used_bytes is not None
    device = _device(inputs)
    is_too_much = device is not None and claim.used_bytes > device.memory_bytes
    if claim.over_devices != "sum" and not is_too_much:
        if claim.over_devices is None and device is None:
            return CannotSay(reason="the claims say neither memory.over_devices nor memory.part")
        return []
    beside = "" if device is None else f"; one {device.part} has {format_si(device.memory_bytes, 'B')}"
    finding = Finding(
        rule="memory-summed",
        severity=Severity.WARNING,
        where=inputs.claims.source,
        message=f"{format_si(claim.used_bytes, 'B')} of memory are "
        f"{'said to be a sum over devices' if claim.over_devices == 'sum' else 'more than one device has'}{beside}",
        numbers={
            "used_bytes": claim.used_bytes,
            **({} if device is None else {"memory_bytes": device.memory_bytes}),
        },
        advice="report the device with most, and which it is",
    )
    return [RuleFinding(finding=finding, evidence=Evidence.DECLARED)]


def _device(inputs: RuleInputs) -> Device | None:
    assert inputs.claims is not None
    part = inputs.claims.memory.part
    if part is None:
        return inputs.device
    try:
        return read_device(part)
    except RocktoolsError:
        return inputs.device


RULE = Rule(
    name="memory-summed",
    title="Memory summed over devices",
    group=RuleGroup.LINT,
    looks_at="A declared amount of HBM, what it is over devices, and the memory of one GPU.",
    signature="A footprint beyond 288 GB, or one that grows with the number of GPUs.",
    confirmations=(
        Confirmation(detail="the most that each device held", command="rocktools memory RUN --part devices"),
    ),
    fixes=("the maximum per device, with the device's name",),
    needs=("claims",),
    check=check_memory_sum,
)
