"""The timing window holds compilation or autotuning, or does not end where the device did."""

from __future__ import annotations

from rocktools.evidence import Evidence
from rocktools.findings import Finding, Severity
from rocktools.rules.inputs import RuleInputs
from rocktools.rules.rule import CannotSay, Confirmation, Outcome, Rule, RuleFinding, RuleGroup, Threshold

LEAST_FIRST_STEP = 2


def check_window(inputs: RuleInputs) -> Outcome:
    """Where the timing window begins, what is in it, and whether the device was waited for at its ends."""
    assert inputs.claims is not None
    claim = inputs.claims.timing
    said = (claim.includes_compile, claim.first_step_index, claim.is_synchronized)
    if all(each is None for each in said):
        return CannotSay(
            reason="the claims do not say timing.includes_compile, timing.first_step_index or timing.is_synchronized"
        )
    wrong = []
    if claim.includes_compile:
        wrong.append("it includes compilation")
    elif claim.first_step_index is not None and claim.first_step_index < LEAST_FIRST_STEP:
        wrong.append(f"it begins with step {claim.first_step_index}, which compiles and autotunes")
    if claim.is_synchronized is False:
        wrong.append("the device was not waited for at its ends")
    if not wrong:
        return []
    finding = Finding(
        rule="compile-in-timing",
        severity=Severity.WARNING,
        where=inputs.claims.source,
        message=f"the timing window is not that of training steps: {' and '.join(wrong)}",
        numbers={
            **({} if claim.first_step_index is None else {"first_step_count": claim.first_step_index}),
            **({} if claim.step_s is None else {"step_s": claim.step_s}),
        },
        advice="compile and autotune before; jax.block_until_ready at both ends of the window",
    )
    return [RuleFinding(finding=finding, evidence=Evidence.DECLARED)]


RULE = Rule(
    name="compile-in-timing",
    title="Compilation in the timing window",
    group=RuleGroup.LINT,
    looks_at="The first timed step, and whether a declared step time includes compilation or lacks synchronisation. "
    "Launches are asynchronous on a GPU: without a wait a window measures the host.",
    signature="A mean far above the median; or steps that seem to take no time.",
    confirmations=(
        Confirmation(
            detail="which recorded steps are warm-up", command="rocktools ledger RUN --part steps --all-steps"
        ),
    ),
    fixes=("two steps before the window, a wait at both of its ends",),
    thresholds=(
        Threshold(
            name="first_step_count", value=LEAST_FIRST_STEP, meaning="steps before the window", source="rocktools"
        ),
    ),
    needs=("claims",),
    check=check_window,
)
