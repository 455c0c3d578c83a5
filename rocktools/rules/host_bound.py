"""The device is idle within steps because the host launches late, in gaps that are no matter of tiny kernels."""

from __future__ import annotations

from rocktools.evidence import Evidence
from rocktools.findings import Finding, Severity
from rocktools.rules.inputs import RuleInputs
from rocktools.rules.rule import CannotSay, Confirmation, Outcome, Rule, RuleFinding, RuleGroup, Threshold
from rocktools.rules.step_times import cells_count, mean_step_ns
from rocktools.timeline.gaps import GapCause
from rocktools.units import count_noun, format_duration, format_ratio

WAITING_RATIO = 0.1
LONG_NS = 50_000


def check_host_waits(inputs: RuleInputs) -> Outcome:
    """Long gaps within steps whose next kernel was launched after the device had run dry."""
    assert inputs.gaps is not None
    assert inputs.step_times is not None
    cells, step_ns = cells_count(inputs.step_times), mean_step_ns(inputs.step_times)
    gaps = inputs.gaps[~inputs.gaps["is_between_steps"].to_numpy()]
    long = gaps[(gaps["duration_ns"] >= LONG_NS).to_numpy()]
    if float(long["duration_ns"].sum()) / cells < WAITING_RATIO * step_ns:
        return []
    if (long["cause"] == GapCause.UNKNOWN.value).all():
        return CannotSay(
            reason="devices are idle within steps, but no call of the host was recorded that could say why"
        )
    late = long[(long["cause"] == GapCause.HOST_WAIT.value).to_numpy()]
    idle_ns = float(late["duration_ns"].sum()) / cells
    if idle_ns < WAITING_RATIO * step_ns:
        return []
    lengths = late.groupby(late["payload_name"].astype(object).fillna("a marker").astype(str))["duration_ns"].sum()
    worst = str(lengths.idxmax())
    finding = Finding(
        rule="host-bound-step",
        severity=Severity.WARNING,
        where=worst,
        message=f"within steps, devices wait {format_duration(idle_ns)} of {format_duration(step_ns)} "
        f"({format_ratio(idle_ns / step_ns)}) for the host to launch, in "
        f"{count_noun(max(1, round(len(late) / cells)), 'gap')} of {format_duration(LONG_NS)} and more; most of it "
        f"before {worst}: {format_duration(float(lengths.max()) / cells)}",
        numbers={
            "idle_ns": idle_ns,
            "step_ns": step_ns,
            "share_ratio": idle_ns / step_ns,
            "gaps_count": len(late),
            "worst_ns": float(lengths.max()) / cells,
        },
        advice="what does Python do there? one jitted step; no conversion or print between the calls of a step",
    )
    return [RuleFinding(finding=finding, explained_ns=idle_ns, evidence=Evidence.MEASURED)]


RULE = Rule(
    name="host-bound-step",
    title="The host is late within steps",
    group=RuleGroup.TRACE_PATTERN,
    looks_at="Gaps of whole devices within steps, longer than a launch takes, and when the call began that launched "
    "what ends them: after the device had gone idle, the host was late.",
    signature="A slow loop in Python shows as gaps between kernels, not as a long kernel.",
    confirmations=(
        Confirmation(detail="every gap, the longest first, with its cause", command="rocktools gaps RUN --by gap"),
        Confirmation(detail="what the host did in it", command="rocktools frame host_calls RUN"),
    ),
    fixes=(
        "everything of a step in one jax.jit",
        "no synchronisation and no reading of results within a step",
        "cores for the process that launches; its NUMA node",
    ),
    thresholds=(
        Threshold(
            name="waiting_ratio",
            value=WAITING_RATIO,
            meaning="such gaps over the step",
            source="XProf 2.23.1: core idle above 10 %",
        ),
        Threshold(name="long_ns", value=LONG_NS, meaning="shortest gap that counts", source="rocktools"),
    ),
    needs=("gaps", "step_times"),
    check=check_host_waits,
)
