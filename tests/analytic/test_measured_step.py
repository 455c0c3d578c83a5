"""The times of a step out of a ledger document."""

from __future__ import annotations

import copy
import json

import pytest

from rocktools.analytic.component_rates import ComponentTime
from rocktools.analytic.measured_step import component_times, measured_step, read_ledger_document
from rocktools.errors import InputError, NothingToRead, UnknownFormat


def _row(scale: int) -> dict[str, int]:
    names = {"span": 10, "compute": 6, "compute_sum": 7, "exposed_communication": 2, "exposed_copy": 1, "idle": 1}
    return {f"{name}_ns": value * scale * 10**9 for name, value in names.items()}


DOCUMENT = {
    "schema": "rocktools.ledger/1",
    "is_simulated": True,
    "reconciliation": [_row(1), _row(3)],
    "tables": {
        "phases": [{"row": "Rematerialized forward replay", "mean_ns": 1.5e9}, {"row": "Total", "mean_ns": 9e9}]
    },
}


def test_times_are_means_of_devices_and_steps():
    step = measured_step(DOCUMENT, source="ledger.json", step_s=21.0, input_wait_s=0.5)
    assert (step.span_s, step.compute_s, step.compute_sum_s, step.idle_s) == (20.0, 12.0, 14.0, 2.0)
    assert (step.exposed_communication_s, step.exposed_copy_s, step.replay_s) == (4.0, 2.0, 1.5)
    assert (step.step_s, step.input_wait_s, step.is_simulated) == (21.0, 0.5, True)


def test_replay_is_unknown_without_phases():
    step = measured_step({**DOCUMENT, "tables": {}}, source="ledger.json")
    assert step.replay_s is None


@pytest.mark.parametrize(
    "change, error, words",
    [
        ({"reconciliation": []}, NothingToRead, "no device has any kernel"),
        ({"reconciliation": [{}]}, UnknownFormat, "lacks an entry"),
        ({"reconciliation": None}, NothingToRead, "no device"),
        ({"tables": None}, UnknownFormat, "lacks an entry"),
        ({"reconciliation": [{**_row(1), "idle_ns": "1"}]}, UnknownFormat, "lacks an entry"),
        ({"tables": {"phases": [{"row": "Rematerialized forward replay", "mean_ns": "1"}]}}, UnknownFormat, "entry"),
    ],
)
def test_documents_that_are_none_are_refused(change, error, words):
    with pytest.raises(error, match=words):
        measured_step({**copy.deepcopy(DOCUMENT), **change}, source="ledger.json")


def test_files_that_are_none_are_refused(tmp_path):
    path = tmp_path / "ledger.json"
    with pytest.raises(InputError, match="cannot be read"):
        read_ledger_document(path)
    for text in ("", "[1, 2", "[]", "3", '{"schema": "rocktools.table/1"}'):
        path.write_text(text, encoding="utf-8")
        with pytest.raises(UnknownFormat, match="ledger-file"):
            read_ledger_document(path)
    path.write_bytes(b"\xff\xfe")
    with pytest.raises(UnknownFormat, match="no JSON"):
        read_ledger_document(path)
    path.write_text(json.dumps(DOCUMENT), encoding="utf-8")
    assert read_ledger_document(path) == DOCUMENT


def test_rows_with_components_have_times():
    forward = [
        {"row": "Attention", "components": "attention", "mean_ns": 2e9},
        {"row": "Pre-attention RMSNorm", "components": "pre_attention_norm", "mean_ns": None},
        {"row": "Layer input", "components": None, "mean_ns": None},
        {"row": "Total", "components": None, "mean_ns": 2e9},
    ]
    backward = [{"row": "MoE backward", "components": "router, expert_mlp", "mean_ns": 3e9}]
    found = component_times({**DOCUMENT, "tables": {"forward": forward, "backward": backward}}, source="ledger.json")
    assert found == (
        ComponentTime(phase="forward", title="Attention", components=("attention",), duration_s=2.0),
        ComponentTime(phase="backward", title="MoE backward", components=("router", "expert_mlp"), duration_s=3.0),
    )
    with pytest.raises(UnknownFormat, match="lacks an entry"):
        component_times({**DOCUMENT, "tables": {"forward": [{}]}}, source="ledger.json")
