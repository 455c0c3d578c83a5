"""Utilisation was divided by a peak that is not the dense peak of the format, part and partition that ran."""

from __future__ import annotations

from rocktools.devices.device import Device, Sparsity, Unit, dtype_family
from rocktools.devices.files import read_device
from rocktools.errors import RocktoolsError
from rocktools.evidence import Evidence
from rocktools.findings import Finding, Severity
from rocktools.rules.claims import unsaid
from rocktools.rules.inputs import RuleInputs
from rocktools.rules.rule import CannotSay, Confirmation, Outcome, Rule, RuleFinding, RuleGroup, Threshold
from rocktools.units import format_si

SAME_RATIO = 0.02


def check_peak(inputs: RuleInputs) -> Outcome:
    """The claimed peak against those of the device in its partition."""
    assert inputs.claims is not None
    claim = inputs.claims.utilisation
    missing = unsaid(inputs.claims, "utilisation.peak_flop_per_s", "utilisation.dtype")
    if missing:
        return CannotSay(reason=missing)
    assert claim.peak_flop_per_s is not None
    assert claim.dtype is not None
    device = inputs.device
    try:
        device = read_device(claim.part) if device is None and claim.part is not None else device
        family = dtype_family(claim.dtype)
    except RocktoolsError as error:
        return CannotSay(reason=error.what)
    if device is None:
        return CannotSay(reason="neither the files nor the claims (utilisation.part) say which GPU it is")
    sparsity = Sparsity(claim.sparsity or Sparsity.DENSE)
    right = device.find_peak(family, Unit.MATRIX, sparsity)
    if right is None or abs(claim.peak_flop_per_s / right.flop_per_s - 1) <= SAME_RATIO:
        return (
            [] if right is not None else CannotSay(reason=f"{device.label} has no {sparsity} matrix peak of {family}")
        )
    other = _whose(device, claim.peak_flop_per_s, family)
    told = f", but that of {other}" if other else ""
    finding = Finding(
        rule="peak-of-another-format",
        severity=Severity.WARNING,
        where=inputs.claims.source,
        message=f"utilisation is of a peak of {format_si(claim.peak_flop_per_s, 'FLOP/s')}, which is not the "
        f"{sparsity} {family} peak of {device.label}, {format_si(right.flop_per_s, 'FLOP/s')}{told}",
        numbers={"claimed_peak_flop_per_s": claim.peak_flop_per_s, "peak_flop_per_s": right.flop_per_s},
        advice="divide by the dense peak of the format that the kernels use, in the partition that ran",
    )
    return [RuleFinding(finding=finding, evidence=Evidence.DECLARED)]


def _whose(device: Device, flop_per_s: float, family: str) -> str:
    """Which peaks of the device the figure is, those of the same format first; "" where it is none of them."""
    same = [peak for peak in device.peaks if abs(flop_per_s / peak.flop_per_s - 1) <= SAME_RATIO]
    names = [f"{peak.sparsity} {peak.dtype}" for peak in sorted(same, key=lambda peak: peak.dtype != family)]
    return " and ".join(list(dict.fromkeys(names))[:3])


RULE = Rule(
    name="peak-of-another-format",
    title="Utilisation by another peak",
    group=RuleGroup.LINT,
    looks_at="The declared peak, format and sparsity, against the peaks of the GPU in its partition (SPX, CPX, ...): "
    "those of the MFMA units differ by format, and 2:4 sparsity doubles them on paper only.",
    signature="An MFU of half of what it should be, or twice as much.",
    confirmations=(
        Confirmation(detail="peaks of the part, with their sources", command="rocktools devices show MI355X"),
    ),
    fixes=("the dense BF16 peak for BF16 training; sparse and FP8 peaks only for kernels that use them",),
    thresholds=(
        Threshold(name="same_ratio", value=SAME_RATIO, meaning="difference of figures of one peak", source="rocktools"),
    ),
    needs=("claims",),
    check=check_peak,
)
