"""One event or instruction of attributed runs, explained; what cannot be meant is named."""

from __future__ import annotations

from pathlib import Path

import pytest
from scoped_run import NAMES, write_scoped_run

from rocktools.attribution.component_map_file import read_shipped_map
from rocktools.demo.rocpd_trace import TraceShape, write_trace
from rocktools.errors import UsageError
from rocktools.workspace.attributed import AttributedRuns, AttributionOptions, attribute_workspace
from rocktools.workspace.explaining import explain_event, explain_named_instruction
from rocktools.workspace.workspace import Workspace

OPTIONS = AttributionOptions(component_map=read_shipped_map())


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> AttributedRuns:
    job = write_scoped_run(tmp_path_factory.mktemp("explaining") / "job", ranks=range(2))
    with Workspace.open([job]) as workspace:
        return attribute_workspace(workspace, OPTIONS)


def test_a_dispatch_of_one_of_several_processes_is_explained(runs: AttributedRuns) -> None:
    row = runs.rows[(runs.rows["instruction"] == "wrapped_convert.2").to_numpy()].iloc[0]
    lines = explain_event(runs, "dispatch", int(row["event_id"]), process=str(row["process"]))
    assert lines[0].startswith(f"dispatch {row['event_id']} on {row['device']}: ")
    assert NAMES["wrapped_convert.2"] in "\n".join(lines)
    assert lines[-1] == "booked as compute, phase optimizer, component optimizer"


def test_an_instruction_is_explained_in_every_program_that_has_it(runs: AttributedRuns) -> None:
    lines = explain_named_instruction(runs, "all-to-all.1")
    assert lines[0] == "run job, program 7"
    assert lines[-1].strip() == "booked as communication, phase forward, component dispatch"


@pytest.mark.parametrize(
    "kind, number, process, reference, hint",
    [
        ("dispatch", 1, None, "several-events", "--process LABEL"),
        ("dispatch", 0, None, "unknown-event", "ids go from 1 to"),
        ("copy", 1, None, "unknown-event", "there is no copy at all"),
        ("dispatch", 1, "nobody", "unknown-process", "-"),
    ],
)
def test_what_cannot_be_meant_is_named(runs: AttributedRuns, kind, number, process, reference, hint) -> None:
    with pytest.raises(UsageError) as caught:
        explain_event(runs, kind, number, process=process)
    assert caught.value.reference == reference
    assert hint in (caught.value.hint or "")


def test_unknown_instruction_lists_near_names(runs: AttributedRuns) -> None:
    with pytest.raises(UsageError) as caught:
        explain_named_instruction(runs, "all-to-all.2")
    assert "all-to-all.1" in (caught.value.hint or "")


def test_a_recorded_copy_is_explained(tmp_path: Path) -> None:
    write_trace(tmp_path / "1_results.db", TraceShape(dispatches_count=20, copies_count=3))
    with Workspace.open([tmp_path]) as workspace:
        runs = attribute_workspace(workspace, OPTIONS)
    lines = explain_event(runs, "copy", 1)
    assert lines[0].startswith("copy 1 on ")
    assert lines[-1] == "booked as copy, phase unattributed, component unattributed"
