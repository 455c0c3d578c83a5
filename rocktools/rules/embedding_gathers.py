"""The embedding takes a noticeable share of the step: its look-up, or the scatter of its gradient, is a slow gather."""

from __future__ import annotations

import re

import numpy as np
import numpy.typing as npt
import pandas as pd

from rocktools.evidence import Evidence
from rocktools.findings import Finding, Severity
from rocktools.rules.inputs import RuleInputs
from rocktools.rules.kernel_work import WorkKind, union_per_step_ns, work_of_rows
from rocktools.rules.rule import CannotSay, Confirmation, Outcome, Rule, RuleFinding, RuleGroup, Threshold
from rocktools.rules.step_times import cells_count, mean_step_ns
from rocktools.timeline.activities import operation_names
from rocktools.units import format_duration, format_ratio

EMBEDDING_RATIO = 0.05
_EMBEDDING = re.compile(r"(?i)embed")


def check_embedding(inputs: RuleInputs) -> Outcome:
    """Share of a step in gathers and scatters of the embedding, by component or scope."""
    assert inputs.rows is not None
    assert inputs.step_times is not None
    assert inputs.kernel_work is not None
    rows, cells, step_ns = inputs.rows, cells_count(inputs.step_times), mean_step_ns(inputs.step_times)
    is_embedding = _says(rows, "component") | _says(rows, "scope")
    if not is_embedding.any():
        return CannotSay(reason="no kernel is known to be of an embedding")
    is_mine = is_embedding & (work_of_rows(rows, inputs.kernel_work) == WorkKind.GATHER.value).to_numpy()
    gather_ns = union_per_step_ns(rows, is_mine, cells)
    if gather_ns < EMBEDDING_RATIO * step_ns:
        return []
    names = operation_names(rows)
    lengths = (rows["end_ns"] - rows["start_ns"])[is_mine].groupby(names.codes[is_mine]).sum()
    worst = names.texts[int(lengths.idxmax())]
    finding = Finding(
        rule="embedding-gathers",
        severity=Severity.WARNING,
        where=worst,
        message=f"gathers and scatters of the embedding take {format_duration(gather_ns)} of each step "
        f"({format_ratio(gather_ns / step_ns)}), most of it in {worst}: "
        f"{format_duration(float(lengths.max()) / cells)}",
        numbers={"gather_ns": gather_ns, "step_ns": step_ns, "share_ratio": gather_ns / step_ns},
        advice="is the table sharded over the vocabulary? sort indices before the scatter, or use a one-hot product",
    )
    return [RuleFinding(finding=finding, explained_ns=gather_ns, evidence=Evidence.MEASURED)]


def _says(rows: pd.DataFrame, column: str) -> npt.NDArray[np.bool_]:
    """Which rows name an embedding in a column of labels."""
    wanted = [text for text in rows[column].cat.categories if _EMBEDDING.search(str(text))]
    return np.asarray(rows[column].isin(wanted), dtype=np.bool_)


RULE = Rule(
    name="embedding-gathers",
    title="Embedding as gathers",
    group=RuleGroup.FAULT,
    looks_at="Kernels of the embedding (by component or scope) whose fusion holds a `gather` or `scatter`: they read "
    "rows of the table from HBM one by one, and add up gradients with atomics.",
    signature="The embedding, at 0.4 % of the forward pass in a large model, takes several percent.",
    confirmations=(
        Confirmation(detail="the embedding, forward and backward", command="rocktools ledger RUN"),
        Confirmation(detail="bytes that it moves, against HBM", command="rocktools roofline RUN --by instruction"),
    ),
    fixes=(
        "shard the table so that each device looks up its own rows",
        "a one-hot matrix product for small vocabularies, sorted indices for the scatter",
    ),
    thresholds=(
        Threshold(
            name="embedding_ratio", value=EMBEDDING_RATIO, meaning="such kernels over the step", source="rocktools"
        ),
    ),
    needs=("rows", "step_times", "kernel_work"),
    check=check_embedding,
)
