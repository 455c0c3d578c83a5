"""Almost the whole forward pass runs again within the backward pass."""

from __future__ import annotations

from rocktools.evidence import Evidence
from rocktools.findings import Finding, Severity
from rocktools.rules.inputs import RuleInputs
from rocktools.rules.kernel_work import WorkKind, union_per_step_ns, work_of_rows
from rocktools.rules.rule import CannotSay, Confirmation, Outcome, Rule, RuleFinding, RuleGroup, Threshold
from rocktools.rules.step_times import cells_count, mean_step_ns
from rocktools.timeline.activities import Activity
from rocktools.units import format_duration, format_ratio

REPLAYED_RATIO = 0.8
STEP_RATIO = 0.02


def check_rematerialization(inputs: RuleInputs) -> Outcome:
    """Compute of the phase rematerialized against compute of the phase forward, of matrix products above all."""
    assert inputs.rows is not None
    assert inputs.step_times is not None
    assert inputs.kernel_work is not None
    rows, cells, step_ns = inputs.rows, cells_count(inputs.step_times), mean_step_ns(inputs.step_times)
    is_compute = (rows["activity"] == Activity.COMPUTE.value).to_numpy()
    is_forward, is_replay = (is_compute & (rows["phase"] == name).to_numpy() for name in ("forward", "rematerialized"))
    if not is_forward.any():
        return CannotSay(reason="no kernel is known to be of the forward pass")
    is_matrix = (work_of_rows(rows, inputs.kernel_work) == WorkKind.MATRIX.value).to_numpy()
    forward_ns, replay_ns = (union_per_step_ns(rows, chosen, cells) for chosen in (is_forward, is_replay))
    products_ns = union_per_step_ns(rows, is_forward & is_matrix, cells)
    replayed_ns = union_per_step_ns(rows, is_replay & is_matrix, cells)
    ratio = replay_ns / forward_ns if forward_ns else 0.0
    matrix_ratio = replayed_ns / products_ns if products_ns else ratio
    if min(ratio, matrix_ratio) < REPLAYED_RATIO or replay_ns < STEP_RATIO * step_ns:
        return []
    finding = Finding(
        rule="full-rematerialization",
        severity=Severity.NOTE,
        where="backward",
        message=f"{format_duration(replay_ns)} of each step ({format_ratio(replay_ns / step_ns)}) runs the forward "
        f"pass again: {format_ratio(ratio)} of its {format_duration(forward_ns)}, and {format_ratio(matrix_ratio)} of "
        "its matrix products",
        numbers={
            "rematerialized_ns": replay_ns,
            "forward_ns": forward_ns,
            "replayed_ratio": ratio,
            "replayed_products_ratio": matrix_ratio,
            "step_ns": step_ns,
        },
        advice="if the policy was to save more than the inputs of layers, it does not: look at jax.checkpoint's policy",
    )
    return [RuleFinding(finding=finding, explained_ns=replay_ns, evidence=Evidence.MEASURED)]


RULE = Rule(
    name="full-rematerialization",
    title="Full rematerialization",
    group=RuleGroup.FAULT,
    looks_at="Compute of kernels whose name stack holds `rematted_computation`, against that of the forward pass. With "
    "a policy that saves the results of matrix products, few MFMA kernels run again; when nearly all do, the policy "
    "saved nothing. It is a note: no file says which policy was meant.",
    signature="The backward pass holds the kernels of the forward pass once more, in the same order and with about the "
    "same time; the step executes far more FLOPs than 6 for each parameter and token.",
    confirmations=(
        Confirmation(detail="replayed time by component, beside the forward pass", command="rocktools ledger RUN"),
        Confirmation(detail="FLOPs of the program by kind of instruction", command="rocktools hlo info RUN"),
    ),
    fixes=(
        "a policy that saves what is dear to compute: `save_dot_with_context_except_mlp`, `checkpoint_dots`",
        "offload saved values to host memory, where HBM is short",
    ),
    thresholds=(
        Threshold(
            name="replayed_ratio",
            value=REPLAYED_RATIO,
            meaning="replayed compute, and replayed matrix products, over those of the forward pass",
            source="rocktools: about the total of the forward pass",
        ),
        Threshold(name="step_ratio", value=STEP_RATIO, meaning="replay over the step", source="rocktools"),
    ),
    needs=("rows", "step_times", "kernel_work"),
    check=check_rematerialization,
)
