"""Much of a step is vector work: softmax, norms, routing and other elementwise kernels, while the MFMA units idle."""

from __future__ import annotations

from rocktools.evidence import Evidence
from rocktools.findings import Finding, Severity
from rocktools.rules.inputs import RuleInputs
from rocktools.rules.kernel_work import WorkKind, union_per_step_ns, work_of_rows
from rocktools.rules.rule import CannotSay, Confirmation, Outcome, Rule, RuleFinding, RuleGroup, Threshold
from rocktools.rules.step_times import cells_count, mean_step_ns
from rocktools.timeline.activities import Activity
from rocktools.units import format_duration, format_ratio

VECTOR_RATIO = 0.3
KNOWN_RATIO = 0.5


def check_vector_work(inputs: RuleInputs) -> Outcome:
    """Share of a step in which only kernels without a matrix product run."""
    assert inputs.rows is not None
    assert inputs.step_times is not None
    assert inputs.kernel_work is not None
    rows, cells, step_ns = inputs.rows, cells_count(inputs.step_times), mean_step_ns(inputs.step_times)
    is_compute = (rows["activity"] == Activity.COMPUTE.value).to_numpy()
    work = work_of_rows(rows, inputs.kernel_work)
    compute_ns = union_per_step_ns(rows, is_compute, cells)
    known_ns = union_per_step_ns(rows, is_compute & work.notna().to_numpy(), cells)
    if known_ns < KNOWN_RATIO * compute_ns or not compute_ns:
        return CannotSay(
            reason=f"only {format_ratio(known_ns / compute_ns if compute_ns else 0.0)} of compute is of kernels whose "
            "instruction is known"
        )
    is_matrix = is_compute & (work == WorkKind.MATRIX.value).to_numpy()
    is_vector = is_compute & (work == WorkKind.VECTOR.value).to_numpy()
    matrix_ns = union_per_step_ns(rows, is_matrix, cells)
    vector_ns = union_per_step_ns(rows, is_matrix | is_vector, cells) - matrix_ns
    if vector_ns < VECTOR_RATIO * step_ns:
        return []
    by_component = (
        (rows["end_ns"] - rows["start_ns"])[is_vector].groupby(rows["component"].astype(str)[is_vector]).sum()
    )
    worst = str(by_component.idxmax())
    finding = Finding(
        rule="valu-bound-stretch",
        severity=Severity.WARNING,
        where=worst,
        message=f"{format_duration(vector_ns)} of each step ({format_ratio(vector_ns / step_ns)}) is vector work with "
        f"no matrix product beside it, against {format_duration(matrix_ns)} of matrix products; most of it in {worst}: "
        f"{format_duration(float(by_component.max()) / cells)}",
        numbers={
            "vector_ns": vector_ns,
            "matrix_ns": matrix_ns,
            "step_ns": step_ns,
            "share_ratio": vector_ns / step_ns,
            "worst_ns": float(by_component.max()) / cells,
        },
        advice="fuse it into its neighbours (a Pallas or Triton kernel) if it is hot, or accept it if it is small",
    )
    return [RuleFinding(finding=finding, explained_ns=vector_ns, evidence=Evidence.MEASURED)]


RULE = Rule(
    name="valu-bound-stretch",
    title="VALU-bound stretch",
    group=RuleGroup.FAULT,
    looks_at="Compute kernels by what their instruction calculates: matrix products run on the MFMA units, everything "
    "else on the VALU, whose FP32 peak is about a sixteenth of the dense BF16 peak of the MFMA units of an MI355X. "
    "Time in which a matrix product runs beside it is not counted, nor is formatting or gathering.",
    signature="Stretches of `loop_*_fusion` and `input_reduce_fusion` between few matrix products: softmax, norms, "
    "routing, optimizer.",
    confirmations=(
        Confirmation(detail="time by component: which of them is it?", command="rocktools ledger RUN"),
        Confirmation(
            detail="whether these kernels are bound by HBM", command="rocktools roofline RUN --by instruction"
        ),
        Confirmation(detail="share of cycles in which the VALU issues", command="rocktools metrics RUN"),
    ),
    fixes=(
        "fuse elementwise work and reductions into the matrix product before them",
        "fused attention instead of a softmax through HBM",
        "accept it where it is a small share of a layer",
    ),
    thresholds=(
        Threshold(
            name="vector_ratio",
            value=VECTOR_RATIO,
            meaning="vector work without matrix products beside it, over the step",
            source="rocktools; XProf 2.23.1 has 30 % for other categories that are no matrix products",
        ),
        Threshold(
            name="known_ratio",
            value=KNOWN_RATIO,
            meaning="share of compute whose instruction must be known",
            source="rocktools",
        ),
    ),
    needs=("rows", "step_times", "kernel_work"),
    check=check_vector_work,
)
