"""Two tables of HLO operations of MaxText on MI300X: rows with a token of a phase land there, the rest stays open."""

from __future__ import annotations

import csv
from collections import Counter

import pytest

from rocktools.attribution.classify import classify_op_name
from rocktools.attribution.component_map_file import read_shipped_map
from rocktools.hlo.program_summary import COLLECTIVES

# Rows of each table by the token in their path, counted with grep: rematted_computation, else transpose(jvp, else jvp(.
COUNTS = {
    "maxtext-ch6-bf16": {"forward": 57, "backward": 58, "rematerialized": 12, "unattributed": 144 + 69},
    "maxtext-ep-mixtral-ex8": {"forward": 76, "backward": 74, "rematerialized": 38, "unattributed": 152 + 81},
}
TOKENS = (("rematted_computation", "rematerialized"), ("transpose(jvp", "backward"), ("jvp(", "forward"))


def _token(path: str) -> str:
    return next((phase for token, phase in TOKENS if token in path), "unattributed")


@pytest.fixture(scope="module", params=sorted(COUNTS))
def table(request, shared):
    path = shared / "data/xplane/maxtext_mi300x_opstats" / f"{request.param}.hlo_ops.csv"
    with path.open(encoding="utf-8", newline="") as stream:
        rows = list(csv.DictReader(stream))
    component_map = read_shipped_map("maxtext")
    buckets = []
    for row in rows:
        kind = row["category"].removesuffix("-start")
        collective = kind if kind in COLLECTIVES else ""
        op_name = row["provenance"].removesuffix(":")  # the profiler appends a colon and the type of the operation
        buckets.append(classify_op_name(op_name, component_map, opcode=row["category"], collective=collective))
    return request.param, rows, buckets


def test_every_row_is_where_its_token_says(table):
    name, rows, buckets = table
    assert [bucket.phase.value for bucket in buckets] == [_token(row["provenance"]) for row in rows]
    assert Counter(bucket.phase.value for bucket in buckets) == COUNTS[name]
    assert not any(bucket.is_inferred for bucket in buckets)


def test_collectives_are_communication_and_nothing_else_is(table):
    _, rows, buckets = table
    for row, bucket in zip(rows, buckets, strict=True):
        is_collective = row["category"].removesuffix("-start") in COLLECTIVES
        assert (bucket.activity.value == "communication") == is_collective
        assert (bucket.collective is not None) == is_collective


def test_all_time_with_a_phase_has_a_component_but_merged_collectives(table):
    _, rows, buckets = table
    open_rows = [
        row["name"]
        for row, bucket in zip(rows, buckets, strict=True)
        if bucket.component == "unattributed"
        and bucket.phase.value != "unattributed"
        and bucket.activity.value == "compute"
    ]
    time_ps = {row["name"]: int(row["self_time_ps"]) for row in rows}
    compute_ps = sum(
        int(row["self_time_ps"])
        for row, bucket in zip(rows, buckets, strict=True)
        if bucket.phase.value != "unattributed" and bucket.activity.value == "compute"
    )
    assert sum(time_ps[name] for name in open_rows) < 0.02 * compute_ps


def test_merged_paths_of_two_phases_are_mixed(table):
    name, rows, buckets = table
    mixed = [row["provenance"] for row, bucket in zip(rows, buckets, strict=True) if bucket.is_mixed]
    assert all("(" in path.rpartition("/checkpoint/")[2] for path in mixed)
    assert len(mixed) == (1 if name == "maxtext-ep-mixtral-ex8" else 0)
