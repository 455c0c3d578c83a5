"""From files to what rules look at: every fault of the demo is found first, and a clean run has none of them."""

from __future__ import annotations

import json
from pathlib import Path

import pandas as pd
import pytest
from scoped_run import write_scoped_run

from rocktools.attribution.component_map_file import read_shipped_map
from rocktools.demo.job_run import write_demo_run
from rocktools.demo.job_scenario import Fault, JobScenario
from rocktools.errors import InputError
from rocktools.rules.catalog import RuleReport, check_rules
from rocktools.rules.inputs import RuleInputs
from rocktools.timeline.grouping import match_rows
from rocktools.timeline.overlap import reconcile
from rocktools.workspace.attributed import AttributionOptions, attribute_workspace
from rocktools.workspace.rule_inputs import build_program_inputs, build_rule_inputs
from rocktools.workspace.workspace import Workspace

# Fault -> the rule that must come first, and how many of the eight ranks show it.
FAULTS = {
    Fault.EXPOSED_COLLECTIVE: ("exposed-collective", 1),
    Fault.STRAGGLER: ("straggler", 3),
    Fault.INPUT_STARVATION: ("input-starvation", 1),
    Fault.RECOMPILE: ("recompilation", 1),
    Fault.FORMATTING_TAX: ("data-formatting", 1),
    Fault.WARM_UP_CAPTURE: ("warm-up-captured", 1),
    Fault.LATE_RANK: ("straggler", 3),
}
_KEY = ("run", "device", "step_index")


def read_inputs(run: Path) -> RuleInputs:
    with Workspace.open([run]) as workspace:
        runs = attribute_workspace(workspace, AttributionOptions(component_map=read_shipped_map("maxtext")))
        steps = runs.steps.counted
        rows = runs.rows[match_rows(runs.rows, steps, _KEY) >= 0].reset_index(drop=True)
        return build_rule_inputs(workspace, runs, rows, steps).inputs


def demo_report(folder: Path, *faults: Fault, ranks: int) -> RuleReport:
    steps = 4 if Fault.RECOMPILE in faults else 3
    scenario = JobScenario(ranks_count=ranks, steps_count=steps, faults=frozenset(faults))
    write_demo_run(folder / "run", scenario, argv=("demo",), created_utc="2026-01-01T00:00:00+00:00")
    return check_rules(read_inputs(folder / "run"))


@pytest.mark.slow
@pytest.mark.parametrize("fault", FAULTS, ids=str)
def test_injected_fault_comes_first(tmp_path: Path, fault: Fault) -> None:
    rule, ranks = FAULTS[fault]
    report = demo_report(tmp_path, fault, ranks=ranks)
    first = report.findings[0]
    assert first.rule.name == rule
    truth = json.loads((tmp_path / "run" / "truth" / "job.json").read_text(encoding="utf-8"))
    cost_ns = truth["injected"][0]["cost_ns_per_step"]
    assert first.found.explained_ns is not None
    # What the demo says that it cost the job. Rules see more where there is some of the kind without the fault, less
    # where it began before the trace, and of a compiler only the host of the one rank.
    tolerance = 0.1 if fault in {Fault.STRAGGLER, Fault.INPUT_STARVATION, Fault.LATE_RANK} else 1.0
    assert first.found.explained_ns == pytest.approx(cost_ns, rel=tolerance)


@pytest.mark.slow
def test_clean_run_has_none_of_the_faults(tmp_path: Path) -> None:
    report = demo_report(tmp_path, ranks=3)
    found = {each.rule.name for each in report.findings}
    assert found == {"one-rank-only"}  # three of eight were recorded
    assert {rule for rule, _ in FAULTS.values()} <= {rule.name for rule in report.clear}


@pytest.fixture(scope="module")
def scoped(tmp_path_factory: pytest.TempPathFactory) -> RuleInputs:
    return read_inputs(write_scoped_run(tmp_path_factory.mktemp("scoped") / "run"))


def test_inputs_of_a_run_with_a_program_are_all_there(scoped: RuleInputs) -> None:
    lacking = {name for name in RuleInputs.__dataclass_fields__ if getattr(scoped, name) is None}
    # A rocprofv3 trace has no events of a JAX profile, and no roctx range marks anything here; nothing is declared.
    assert lacking - {"participants_count"} == {"host_events", "ranges", "claims", "assignments"}
    assert "--claims" in scoped.reason_for("claims")


def test_frames_agree_with_each_other(scoped: RuleInputs) -> None:
    assert scoped.rows is not None
    assert scoped.reconciliation is not None
    assert scoped.exposure is not None
    assert scoped.step_times is not None
    exposed = scoped.exposure.groupby("step_index")["exposed_ns"].sum()
    union = scoped.reconciliation.set_index("step_index")["exposed_communication_ns"]
    assert (exposed >= union).all()  # side by side, exposed together: sums are not below unions
    again = reconcile(scoped.rows).frame
    assert again["exposed_communication_ns"].tolist() == scoped.reconciliation["exposed_communication_ns"].tolist()
    assert len(scoped.step_times) >= len(scoped.reconciliation)


def test_missing_path_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(InputError):
        build_program_inputs([tmp_path / "none"], None, reason="no trace")


def test_threads_of_a_host_are_judged_by_no_rule_about_devices(tmp_path: Path) -> None:
    job = write_scoped_run(tmp_path / "job")
    with Workspace.open([job]) as workspace:
        runs = attribute_workspace(workspace, AttributionOptions(component_map=read_shipped_map("maxtext")))
        rows = runs.rows.assign(device=pd.Categorical(["host0:cpu"] * len(runs.rows)))
        report = check_rules(build_rule_inputs(workspace, runs, rows, runs.steps.counted).inputs)
    reasons = {each.rule.name: each.reason for each in report.silent}
    for name in ("exposed-collective", "input-starvation", "straggler", "host-bound-step"):
        assert reasons[name] == "no GPU ran anything: times are of threads of a host"
    assert {str(each.rule.group) for each in report.findings} <= {"capture-quality"}
