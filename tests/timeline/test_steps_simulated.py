"""Steps of simulated runs of a real compiled train step, in which the truth of every dispatch is known."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from rocktools.demo.scenario import Scenario
from rocktools.demo.simulate import simulate
from rocktools.hlo.dumps import read_program
from rocktools.timeline.step_rows import StepSources
from rocktools.timeline.steps import find_steps

MIXTRAL = "data/hlo/gfx950-mixtral-8x22b/triton"


@pytest.mark.parametrize(
    "scenario",
    [
        pytest.param(Scenario(), id="clean"),
        pytest.param(Scenario(steps_count=4, warm_up_dispatches_count=3000, other_runs_count=3), id="autotuning"),
        pytest.param(Scenario(steps_count=4, loss_ratio=0.0002), id="lost-records"),
        pytest.param(Scenario(devices_count=2, foreign_ratio=0.001), id="kernels-of-others"),
    ],
)
def test_executions_of_a_real_program_are_found_by_their_period(shared: Path, scenario: Scenario) -> None:
    """Each step begins after the last kernel of the execution before, and no later than its own first kernel.

    Between executions there are a few kernels of another program, which may be counted to either side.
    """
    trace = simulate(read_program(shared / MIXTRAL), scenario)
    dispatches = trace.dispatches
    names = ["run", "process", "kernel_name", "start_ns", "end_ns", "stream_id"]
    device = pd.Categorical("host:gpu" + dispatches["agent_id"].astype(str))
    found = find_steps(StepSources(rows=dispatches[names].assign(device=device))).frame
    execution = trace.truth["execution_index"].fillna(-1).to_numpy(dtype=np.int64)
    for label in device.categories:
        windows = found[(found["device"] == label) & found["is_complete"]]
        assert len(windows) == scenario.steps_count
        for number, begin in enumerate(windows["start_ns"]):
            mine = (device == label) & (execution == number)
            before = (device == label) & (execution >= 0) & (execution < number)
            assert begin <= dispatches.loc[mine, "start_ns"].min()
            assert begin > dispatches.loc[before, "start_ns"].max() if before.any() else True


def test_layers_of_a_single_execution_are_no_steps(shared: Path) -> None:
    dispatches = simulate(read_program(shared / MIXTRAL), Scenario(steps_count=1)).dispatches
    names = ["run", "process", "kernel_name", "start_ns", "end_ns", "stream_id"]
    rows = dispatches[names].assign(device=pd.Categorical(["host:gpu0"] * len(dispatches)))
    assert find_steps(StepSources(rows=rows)).frame["method"].tolist() == ["whole"]
