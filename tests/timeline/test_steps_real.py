"""Steps of real profiles that nothing marks: all their events are so many times the same kernels."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from rocktools.timeline.step_rows import StepSources, assign_steps, step_rows
from rocktools.timeline.steps import find_steps
from rocktools.workspace.workspace import Workspace


@pytest.mark.parametrize(
    "profile, steps_count, rows_count",
    [
        # 150 events: the forward and the backward program of fused attention, each five times.
        pytest.param("mi355_te_fused_attn", 5, 30, id="mi355x-fused-attention"),
        # 105 events on two streams.
        pytest.param("jax08_attention", 3, 35, id="mi300x-attention"),
    ],
)
def test_repetitions_of_real_profiles_are_its_steps(
    shared: Path, profile: str, steps_count: int, rows_count: int
) -> None:
    with Workspace.open([shared / "data/xplane" / profile]) as workspace:
        rows = step_rows(workspace.dispatches(), workspace.agents())
    found = find_steps(StepSources(rows=rows))
    assert found.frame["is_complete"].all()
    step = assign_steps(rows, found.frame)
    counts = np.bincount(step[~step.isna()].to_numpy(dtype=np.int64))
    assert counts.tolist() == [rows_count] * steps_count
    assert len(rows) == steps_count * rows_count
    per_step = rows.assign(step=step).groupby("step", observed=True)["kernel_name"]
    assert len({tuple(sorted(map(str, names))) for _, names in per_step}) == 1
