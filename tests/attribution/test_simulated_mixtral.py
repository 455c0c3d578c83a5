"""A simulated step of Mixtral-8x22B on two devices: counts by layers and microsteps, and a ledger that closes."""

from __future__ import annotations

import pandas as pd
import pytest
from mixtral_program import mixtral_program
from spec_frames import make_agents

from rocktools.analytic.occurrences import count_occurrences, parse_workload
from rocktools.attribution.assemble import assemble_ledger
from rocktools.attribution.attribute import attribute_dispatches
from rocktools.attribution.classify import classify_instructions
from rocktools.attribution.component_map_file import read_shipped_map
from rocktools.demo.scenario import Scenario
from rocktools.demo.simulate import simulate

WORKLOAD = parse_workload(
    """
schema: rocktools.workload/1
name: mixtral-8x22b, simulated on two devices
layers: 56
microsteps: 2
devices: 2
steps: 1
expectations:
  - {title: wi_0 forward, phase: forward, scope: wi_0, activity: compute}
  - {title: wi_1 forward, phase: forward, scope: wi_1, activity: compute}
  - {title: expert weight gradients, phase: backward, component: expert_mlp, collective: reduce-scatter, each: 3}
  - {title: head forward, phase: forward, scope: lm_head, kernel: "^gemm", times: [microsteps], each: 4}
""",
    source="w.yaml",
)


@pytest.fixture(scope="module")
def attributed(shared) -> pd.DataFrame:
    program = mixtral_program(shared, "triton")
    trace = simulate(program, Scenario(steps_count=1, devices_count=2))
    rows = trace.dispatches
    truth = trace.truth.set_index("dispatch_id")["instruction"].reindex(rows["dispatch_id"])
    edges = pd.DataFrame(
        {
            **{name: rows[name] for name in ("run", "process", "dispatch_id")},
            "program_id": pd.Categorical(["1"] * len(rows)),
            "instruction": pd.Categorical(truth.to_numpy()),
            "candidates": pd.Categorical([None] * len(rows), categories=[]),
            "candidates_count": 1,
        }
    )
    place = {"run": str(rows["run"].iloc[0]), "process": str(rows["process"].iloc[0])}
    agents = make_agents(
        [{**place, "agent_id": int(i), "device": f"h:gpu{i}", "kind": "GPU"} for i in rows["agent_id"].unique()]
    )
    classified = {"1": classify_instructions(program.module, read_shipped_map("maxtext"))}
    return attribute_dispatches(rows, edges, agents, classified)


def test_each_forward_projection_runs_112_times_on_each_gpu(attributed):
    found = {each.expectation.title: each for each in count_occurrences(attributed, WORKLOAD)}
    assert found["wi_0 forward"].expected_per_device_count == 112
    assert {title: (set(each.found.values()), each.is_met) for title, each in found.items()} == {
        "wi_0 forward": ({112}, True),
        "wi_1 forward": ({112}, True),
        "expert weight gradients": ({336}, True),
        "head forward": ({8}, True),
    }


def test_one_dispatch_less_fails_its_row(attributed):
    is_wi_0 = attributed["scope"].astype(str).str.startswith("wi_0/") & (attributed["phase"] == "forward")
    is_wi_0 &= attributed["activity"] == "compute"
    ledger = assemble_ledger(
        attributed.drop(index=attributed.index[is_wi_0][0]), read_shipped_map("maxtext"), title="t", workload=WORKLOAD
    )
    assert ledger.has_failed
    assert [finding.where.partition(": ")[2] for finding in ledger.findings if finding.severity.value == "fault"] == [
        "wi_0 forward"
    ]


def test_the_ledger_of_a_whole_step_closes(attributed):
    ledger = assemble_ledger(attributed, read_shipped_map("maxtext"), title="t", workload=WORKLOAD)
    assert not ledger.has_failed
    total_ns = int((attributed["end_ns"] - attributed["start_ns"]).sum())
    tables = ledger.tables.set_index(["table", "row"])["sum_ns"]
    assert int(tables["phases", "Total"]) == total_ns == int(ledger.buckets["sum_ns"].sum())
    for name, row in (
        ("forward", "Forward model compute"),
        ("backward", "Backward gradient compute"),
        ("rematerialized", "Rematerialized forward replay"),
    ):
        assert tables[name, "Total"] == tables["phases", row]
    assert tables["gradients", "Total"] == tables["backward", "Total"]
    model = tables["forward", "Total"] + tables["backward", "Total"] + tables["rematerialized", "Total"]
    assert tables["model", "Total"] == model
    assert tables["cross_cutting", "Forward collectives"] > 0
