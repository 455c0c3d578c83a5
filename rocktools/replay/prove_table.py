"""The comparisons of a proof as a frame, for people: a row for each quantity, both sides as text."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pandas as pd

from rocktools.frames import Column, FrameSpec, require_frame
from rocktools.replay.prove import Proof

_NOT_SAID = "this side does not say"

PROOF_COMPARISONS = FrameSpec(
    name="PROOF_COMPARISONS",
    meaning="One row for each quantity that a proof compares.",
    key=("comparison_index",),
    sort=("comparison_index",),
    columns=(
        Column("comparison_index", "int64", "place in the proof, from 0"),
        Column("instruction", "category", "HLO instruction of the job"),
        Column("level", "category", "of the proof: identical, equivalent, similar, not-a-stand-in, unproven"),
        Column("evidence", "category", "executable, trace or counters"),
        Column("kernel_name", "category", "kernel of the job, or kind of the launch"),
        Column("quantity", "category", "what is compared"),
        Column("job", "category", "the job's value", _NOT_SAID),
        Column("replay", "category", "the replay's value", _NOT_SAID),
        Column("verdict", "category", "equal, different or unknown"),
        Column("note", "category", "what difference is allowed", "none is"),
    ),
)


def build_comparisons(proofs: Iterable[Proof]) -> pd.DataFrame:
    """PROOF_COMPARISONS of proofs."""
    rows = [
        {
            "instruction": str(proof.subject.get("instruction", "")),
            "level": proof.level.value,
            "evidence": part.evidence.value,
            "kernel_name": each.kernel,
            "quantity": each.quantity,
            "job": _text(each.job),
            "replay": _text(each.replay),
            "verdict": each.verdict.value,
            "note": each.note or None,
        }
        for proof in proofs
        for part in proof.parts
        for each in part.comparisons
    ]
    frame = pd.DataFrame(rows, columns=[name for name in PROOF_COMPARISONS.names if name != "comparison_index"])
    frame.insert(0, "comparison_index", range(len(frame)))
    dtypes = {column.name: column.dtype for column in PROOF_COMPARISONS.columns}
    return require_frame(frame.astype(dtypes), PROOF_COMPARISONS)


def _text(value: Any) -> str | None:
    if value is None:
        return None
    if isinstance(value, tuple):
        return " x ".join(str(size) for size in value)
    return f"{value:g}" if isinstance(value, float) else str(value)
