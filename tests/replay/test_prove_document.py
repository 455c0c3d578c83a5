"""The file of a proof: its schema, and back."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from rocktools.errors import DamagedFile, UnsupportedVersion, UsageError
from rocktools.replay import prove_document
from rocktools.replay.prove import (
    Durations,
    KernelFacts,
    Level,
    Proof,
    TracedKernel,
    build_proof,
    prove_executables,
    prove_traces,
)
from rocktools.replay.prove_document import build_proof_document, meaning_of, read_proof, write_proof
from rocktools.replay.prove_table import build_comparisons

SCHEMA = Path(prove_document.__file__).with_name("proof.schema.json")


def made_proof() -> Proof:
    kernel = KernelFacts(name="k", kind="kCustomKernel", grid=(1, 2, 3), workgroup_workitems=(64, 1, 1), vgpr_count=4)
    copy = KernelFacts(name="", kind="kCopy")
    traced = TracedKernel(facts=kernel, durations=Durations(median_ns=10.5, iqr_ns=1.0, dispatches_count=3))
    parts = [prove_executables([kernel, copy], [kernel, copy, copy]), prove_traces(traced, traced)]
    return build_proof(parts, {"instruction": "f.1", "job": {"executable": None}})


def test_proof_comes_back_from_its_file(tmp_path):
    proof = made_proof()
    path = write_proof(tmp_path / "proof.json", proof)
    assert read_proof(path) == proof
    assert proof.findings


def test_file_keeps_the_schema(tmp_path):
    jsonschema = pytest.importorskip("jsonschema")
    document = json.loads(write_proof(tmp_path / "proof.json", made_proof()).read_text())
    schema = json.loads(SCHEMA.read_text())
    jsonschema.Draft202012Validator.check_schema(schema)
    jsonschema.validate(document, schema)
    both = [each for part in document["evidence"] for each in part["comparisons"] if each["quantity"] == "grid"]
    assert [(each["job"], each["replay"]) for each in both] == [([1, 2, 3], [1, 2, 3])] * 2


def test_proof_is_never_overwritten(tmp_path):
    write_proof(tmp_path / "proof.json", made_proof())
    with pytest.raises(UsageError):
        write_proof(tmp_path / "proof.json", made_proof())


@pytest.mark.parametrize("change", [{"level": "perfect"}, {"evidence": None}, {"evidence": [{"kind": "trace"}]}])
def test_damaged_proof_is_told(tmp_path, change):
    path = tmp_path / "proof.json"
    path.write_text(json.dumps({**build_proof_document(made_proof()), **change}))
    with pytest.raises(DamagedFile):
        read_proof(path)


def test_other_schema_and_no_json_are_told(tmp_path):
    path = tmp_path / "proof.json"
    path.write_text('{"schema": "rocktools.proof/2"}')
    with pytest.raises(UnsupportedVersion, match=r"rocktools\.proof/2"):
        read_proof(path)
    path.write_text("{")
    with pytest.raises(DamagedFile, match="no JSON"):
        read_proof(path)


def test_every_level_has_a_sentence():
    assert len({meaning_of(level) for level in Level}) == len(Level)


def test_table_has_both_sides_of_every_comparison():
    proof = made_proof()
    frame = build_comparisons([proof])
    assert len(frame) == sum(len(part.comparisons) for part in proof.parts)
    grid = frame[frame["quantity"] == "grid"].iloc[0]
    assert (grid["job"], grid["replay"], grid["verdict"]) == ("1 x 2 x 3", "1 x 2 x 3", "equal")
    assert frame.loc[frame["quantity"] == "median_ns", "job"].item() == "10.5"
