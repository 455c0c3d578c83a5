"""The whole ledger, and its document against the schema."""

from __future__ import annotations

import json

import jsonschema
import pytest
from timeline_rows import make_attributed, make_steps

from rocktools.analytic.occurrences import parse_workload
from rocktools.attribution.assemble import assemble_ledger
from rocktools.attribution.component_map_file import read_shipped_map
from rocktools.attribution.ledger_document import SCHEMA_FILE, ledger_document
from rocktools.attribution.ledger_tables import LEDGER_ROWS
from rocktools.frames import LEDGER, STEPS

WORKLOAD = """
schema: rocktools.workload/1
name: w
layers: 2
devices: 2
expectations:
  - {title: experts, phase: forward, component: expert_mlp}
"""
MAP = read_shipped_map("maxtext")


def _rows(**given):
    return make_attributed(
        [
            {"device": f"gpu{device}", "step_index": step, "component": "expert_mlp"}
            | {"start": 100 * step + 10 * i, "end": 100 * step + 10 * i + 6}
            | given
            for device in range(2)
            for step in range(3)
            for i in range(2)
        ]
    )


def _steps():
    windows = [{"step_index": i, "start": 100 * i, "end": 100 * i + 50} for i in range(3)]
    return make_steps([window | {"device": f"gpu{device}"} for device in range(2) for window in windows])


def _document(ledger):
    document = json.loads(json.dumps(ledger_document(ledger, rocktools_version="0")))
    jsonschema.validate(document, json.loads(SCHEMA_FILE.read_text(encoding="utf-8")))
    return document


@pytest.mark.parametrize("steps, places", [(True, 6), (False, 2)])
def test_document_keeps_its_schema_and_adds_up(steps, places):
    ledger = assemble_ledger(_rows(), MAP, title="t", steps=_steps() if steps else None)
    document = _document(ledger)
    assert document["places_count"] == places
    assert document["total_sum_ns"] == 72 == sum(bucket["sum_ns"] for bucket in document["buckets"])
    assert document["tables"]["phases"][-1]["sum_ns"] == 72
    assert document["devices"] == ["gpu0", "gpu1"]
    distances = {row["distance_ns"] for row in document["reconciliation"]}
    assert distances == ({16 - 50} if steps else {None})


def test_expected_counts_are_of_all_steps_and_a_miss_fails_the_ledger():
    workload = parse_workload(WORKLOAD, source="w.yaml")
    good = assemble_ledger(_rows(), MAP, title="t", steps=_steps(), workload=workload)
    assert not good.has_failed
    assert _document(good)["occurrences"][0] == {
        "title": "experts",
        "expected_per_device_count": 6,
        "expected_count": 12,
        "found_count": 12,
        "found": {"gpu0": 6, "gpu1": 6},
        "is_met": True,
    }
    bad = assemble_ledger(_rows().iloc[1:], MAP, title="t", steps=_steps(), workload=workload)
    assert bad.has_failed
    assert "occurrence-mismatch" in {finding["rule"] for finding in _document(bad)["findings"]}


@pytest.mark.parametrize(
    "given, rule, severity",
    [
        ({"is_mixed": True}, "mixed-phases", "warning"),
        ({"is_inferred": True}, "inferred-buckets", "note"),
        ({"phase": "unattributed"}, "unattributed-phase", "warning"),
    ],
)
def test_what_is_mixed_inferred_or_unattributed_is_found(given, rule, severity):
    ledger = assemble_ledger(_rows(**given), MAP, title="t")
    (finding,) = ledger.findings
    assert (finding.rule, finding.severity.value) == (rule, severity)
    assert finding.numbers["sum_ns"] == finding.numbers["total_ns"] == 72


def test_an_empty_trace_is_a_ledger_of_zeros():
    ledger = assemble_ledger(_rows().iloc[:0], MAP, title="t")
    document = _document(ledger)
    assert (document["total_sum_ns"], document["buckets"], document["places_count"]) == (0, [], 0)


def test_schema_has_the_columns_of_the_frames():
    schema = json.loads(SCHEMA_FILE.read_text(encoding="utf-8"))["$defs"]
    for name, spec, left_out in (("line", LEDGER_ROWS, {"table"}), ("bucket", LEDGER, set()), ("step", STEPS, set())):
        assert set(schema[name]["properties"]) == set(spec.names) - left_out
        for column in spec.columns:
            if column.name not in left_out:
                assert schema[name]["properties"][column.name]["description"] == column.meaning
