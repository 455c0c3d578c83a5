"""EXPOSURE and rows -> reductions of gradients behind the backward pass: what began after it, what outlasts it.

The end of the backward pass is the last end of compute of the phases backward and rematerialized in a step. Gradients
are reduced by all-reduce and reduce-scatter. Whether a collective leaves the node is told by its groups: participants
are numbered node by node, as JAX numbers devices, with as many on each node as the trace has GPUs there.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pandas as pd

from rocktools.attribution.collective_rates import find_replica_groups
from rocktools.hlo.module import HloModule
from rocktools.intervals import union_length_by
from rocktools.timeline.activities import Activity
from rocktools.timeline.grouping import codes_of, group_rows, match_rows

TAIL_RATIO = 0.05
HIDDEN_RATIO = 0.5
_KEY = ["run", "device", "step_index"]
_REDUCTIONS = ("all-reduce", "reduce-scatter")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class GradientTail:
    """Reductions of gradients that are exposed behind the backward pass.

    Attributes:
        frame: rows of EXPOSURE with `tail_ns` (exposed behind the backward pass), `behind_ns` (where it begins to be
            behind it), `hidden_ns` (under compute) and `is_after` (whether it began after the backward pass had ended).
    """

    frame: pd.DataFrame

    def sum_ns(self, cells: int, *, is_after: bool) -> float:
        """Exposed time of those that began after, or before, the end of the backward pass; per device and step."""
        return self.of(cells, (self.frame["is_after"] == is_after).to_numpy())

    def of(self, cells: int, is_chosen: npt.NDArray[np.bool_]) -> float:
        """Exposed time of the chosen ones, per device and step; what runs side by side counts once."""
        mine = self.frame[is_chosen]
        groups = group_rows([codes_of(mine[name]) for name in _KEY])
        sums = np.zeros(len(groups), dtype=np.int64)
        np.add.at(sums, groups.of, mine["tail_ns"].to_numpy())
        begins = np.minimum(mine["behind_ns"], mine["end_ns"]).to_numpy()
        unions = union_length_by(begins, mine["end_ns"].to_numpy(), groups.of, len(groups))
        return float(np.minimum(sums, unions).sum()) / cells


def find_gradient_tail(rows: pd.DataFrame, exposure: pd.DataFrame) -> GradientTail | None:
    """The tail; None where no compute is known to be of the backward pass.

    Args:
        rows: ATTRIBUTED of the steps that count.
        exposure: EXPOSURE of the same rows.
    """
    is_backward = rows["phase"].isin(["backward", "rematerialized"]) & (rows["activity"] == Activity.COMPUTE.value)
    ends = rows[is_backward.to_numpy()].groupby(_KEY, observed=True)["end_ns"].max().reset_index()
    if ends.empty:
        return None
    mine = exposure[exposure["collective"].isin(_REDUCTIONS).to_numpy()].reset_index(drop=True)
    at = match_rows(mine, ends, _KEY)
    mine, at = mine[at >= 0].reset_index(drop=True), at[at >= 0]
    over = ends["end_ns"].to_numpy()[at]
    duration = mine["end_ns"] - mine["start_ns"]
    behind_ns = np.maximum(mine["start_ns"], over)
    behind = (mine["end_ns"] - behind_ns).clip(lower=0)
    waited = mine["exposed_wait_ns"].fillna(0).astype("int64")
    tail = np.minimum(behind, (mine["exposed_ns"] - waited).clip(lower=0))
    return GradientTail(
        frame=mine.assign(
            tail_ns=tail,
            behind_ns=behind_ns,
            hidden_ns=duration - mine["exposed_ns"],
            is_after=(mine["start_ns"] >= over).to_numpy(),
        )
    )


def crosses_nodes(programs: Sequence[HloModule], gpus_count: Mapping[str, int]) -> frozenset[tuple[str, str]]:
    """(program, instruction) of collectives whose groups hold devices of several nodes."""
    per_node = set(gpus_count.values())
    if len(per_node) != 1:
        return frozenset()
    gpus = per_node.pop()
    found = set()
    for module in programs:
        counts = [int(module.attributes.get(name, "1")) for name in ("num_partitions", "replica_count")]
        everybody = (tuple(range(max(counts))),)
        groups = find_replica_groups(module)
        for name, instruction in module.instructions.items():
            if instruction.opcode.removesuffix("-start") in _REDUCTIONS:
                members = groups.get(name, everybody)
                if any(len({device // gpus for device in group}) > 1 for group in members):
                    found.add((module.label, name))
    return frozenset(found)
