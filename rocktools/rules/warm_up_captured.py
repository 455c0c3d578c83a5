"""The recording holds the first steps, which compile and autotune: their times are not those of training."""

from __future__ import annotations

from rocktools.evidence import Evidence
from rocktools.findings import Finding, Severity
from rocktools.rules.inputs import RuleInputs
from rocktools.rules.rule import Confirmation, Outcome, Rule, RuleFinding, RuleGroup, Threshold
from rocktools.rules.step_times import lengths_of
from rocktools.units import format_duration, format_ratio

WARMUP_RATIO = 0.2


def check_warm_up(inputs: RuleInputs) -> Outcome:
    """Steps at the beginning of the recording that are warm-up, and their share of all recorded steps."""
    assert inputs.step_times is not None
    times = inputs.step_times
    lengths = lengths_of(times)
    regular = times[~times["is_warmup"].to_numpy()]
    first = regular.groupby("run", observed=True)["step_index"].min()
    begins = times["run"].astype(str).map({str(run): int(step) for run, step in first.items()})
    is_early = times["is_warmup"].to_numpy() & ~(times["step_index"] > begins.fillna(1 << 60)).to_numpy()
    if not is_early.any():
        return []
    warm_ns, total_ns = float(lengths[is_early].sum()), float(lengths.sum())
    whole = times["is_complete"].to_numpy() & ~times["is_warmup"].to_numpy()
    usual_ns = float(lengths[whole].median()) if whole.any() else 0.0
    excess_ns = max(0.0, warm_ns - usual_ns * int(is_early.sum())) / len(times)
    ratio = warm_ns / total_ns if total_ns else 1.0
    warm_steps = len(times[is_early].drop_duplicates(["run", "step_index"]))
    steps = len(times.drop_duplicates(["run", "step_index"]))
    rest = "nothing else was recorded" if not whole.any() else "they are left out of all means"
    finding = Finding(
        rule="warm-up-captured",
        severity=Severity.WARNING if ratio >= WARMUP_RATIO or not whole.any() else Severity.NOTE,
        where="the first steps",
        message=f"{warm_steps} of {steps} recorded steps are warm-up (compiling, autotuning, loading executables) and "
        f"take {format_ratio(ratio)} of the recorded steps' time, {format_duration(warm_ns / int(is_early.sum()))} "
        f"each; {rest}",
        numbers={
            "warmup_steps_count": warm_steps,
            "steps_count": steps,
            "warmup_ratio": ratio,
            "mean_excess_ns": excess_ns,
        },
        advice="begin to record after at least two steps have run",
    )
    return [RuleFinding(finding=finding, explained_ns=excess_ns, evidence=Evidence.MEASURED)]


RULE = Rule(
    name="warm-up-captured",
    title="Profile during warm-up",
    group=RuleGroup.CAPTURE_QUALITY,
    looks_at="Which of the recorded steps compile, autotune matrix products (hipBLASLt, MIOpen, Triton) or load code "
    "objects, run kernels in numbers that no later step comes near, or take far longer than they.",
    signature="The recording begins with long, irregular steps full of kernels that never come again.",
    confirmations=(
        Confirmation(
            detail="every step with its window and what is warm-up",
            command="rocktools ledger RUN --part steps --all-steps",
        ),
        Confirmation(detail="what a capture would do: which steps it records", command="rocktools doctor"),
    ),
    fixes=(
        "start the profiler after at least two steps, for three to five steps",
        "rocprofv3 with --selected-regions: resume after warm-up, pause behind a synchronisation",
    ),
    thresholds=(
        Threshold(
            name="warmup_ratio",
            value=WARMUP_RATIO,
            meaning="time of warm-up over that of all recorded steps, from which on it is a warning",
            source="rocktools",
        ),
    ),
    needs=("step_times",),
    check=check_warm_up,
)
