"""One peak stands for work in several formats."""

from __future__ import annotations

from rocktools.devices.device import find_dtype_family
from rocktools.evidence import Evidence
from rocktools.findings import Finding, Severity
from rocktools.rules.claims import unsaid
from rocktools.rules.inputs import RuleInputs
from rocktools.rules.kernel_work import WorkKind, union_per_step_ns
from rocktools.rules.rule import CannotSay, Confirmation, Outcome, Rule, RuleFinding, RuleGroup, Threshold
from rocktools.rules.step_times import cells_count
from rocktools.timeline.grouping import match_rows
from rocktools.units import format_ratio

OTHER_RATIO = 0.05


def check_formats(inputs: RuleInputs) -> Outcome:
    """Time of matrix products in another format than that of the claimed peak, over that of all of them."""
    assert inputs.claims is not None
    assert inputs.rows is not None
    assert inputs.kernel_work is not None
    assert inputs.step_times is not None
    missing = unsaid(inputs.claims, "utilisation.dtype")
    if missing:
        return CannotSay(reason=missing)
    claimed = find_dtype_family(str(inputs.claims.utilisation.dtype))
    work = inputs.kernel_work
    at = match_rows(inputs.rows, work, ("program_id", "instruction"))
    family = {str(dtype): find_dtype_family(str(dtype)) for dtype in work["dtype"].dropna().unique()}
    families = work["dtype"].astype(object).map(family).reindex(range(-1, len(work))).iloc[1:]
    is_matrix_row = (work["work"] == WorkKind.MATRIX.value).to_numpy() & families.notna().to_numpy()
    cells = cells_count(inputs.step_times)
    is_matrix = (at >= 0) & is_matrix_row[at]
    is_other = is_matrix & (families != claimed).to_numpy()[at]
    matrix_ns, other_ns = (union_per_step_ns(inputs.rows, chosen, cells) for chosen in (is_matrix, is_other))
    if not matrix_ns:
        return CannotSay(reason="no matrix product of a known format ran")
    if other_ns < OTHER_RATIO * matrix_ns:
        return []
    others = sorted({str(families.iloc[place]) for place in set(at[is_other].tolist())})
    finding = Finding(
        rule="one-peak-for-all-formats",
        severity=Severity.WARNING,
        where=inputs.claims.source,
        message=f"utilisation is of the peak of {claimed}, but {format_ratio(other_ns / matrix_ns)} of the time of "
        f"matrix products is in {', '.join(others)}, with other peaks",
        numbers={"other_ns": other_ns, "matrix_ns": matrix_ns, "other_ratio": other_ns / matrix_ns},
        advice="a point for each format, each under its own peak (rocktools roofline)",
    )
    return [RuleFinding(finding=finding, evidence=Evidence.COMPILER_ESTIMATE)]


RULE = Rule(
    name="one-peak-for-all-formats",
    title="One peak for several formats",
    group=RuleGroup.LINT,
    looks_at="The format of the declared peak, against the formats that matrix products of the trace are calculated "
    "in: FP32 products of a router run at a sixteenth of the BF16 peak of an MI355X, FP8 ones at twice.",
    signature="One utilisation for router, experts and FP8 products together.",
    confirmations=(
        Confirmation(
            detail="mix of formats of each point, and its ceilings", command="rocktools roofline RUN --by component"
        ),
    ),
    fixes=("divide each format's FLOPs by its own peak, and add up times, not ratios",),
    thresholds=(Threshold(name="other_ratio", value=OTHER_RATIO, meaning="time in other formats", source="rocktools"),),
    needs=("claims", "rows", "kernel_work", "step_times"),
    check=check_formats,
)
