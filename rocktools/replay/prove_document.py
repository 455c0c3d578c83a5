"""A proof as a JSON file (schema rocktools.proof/1, `proof.schema.json` beside this module), and back."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from rocktools import __version__
from rocktools.errors import DamagedFile, UnsupportedVersion
from rocktools.findings import Finding, Severity
from rocktools.replay.prove import Comparison, EvidenceKind, Level, Part, Proof, Verdict
from rocktools.rundir import load_json, require_free, write_json_file

PROOF_SCHEMA = "rocktools.proof/1"
PROOF_NAME = "proof.json"
_MEANINGS = {
    Level.IDENTICAL: "machine code, launch and shared memory are the same as the job's",
    Level.EQUIVALENT: "name, launch, registers and memory are the same as the job's",
    Level.SIMILAR: "the name is the job's, and the duration is within tolerance",
    Level.NOT_A_STAND_IN: "job and replay differ; counters of the replay say nothing about the job",
    Level.UNPROVEN: "nothing contradicts the replay, and nothing proves it",
}


def meaning_of(level: Level) -> str:
    """The level in a sentence."""
    return _MEANINGS[level]


def build_proof_document(proof: Proof) -> dict[str, Any]:
    """The proof as plain values."""
    return {
        "schema": PROOF_SCHEMA,
        "rocktools_version": __version__,
        "level": proof.level.value,
        "meaning": meaning_of(proof.level),
        "is_stand_in": proof.level.is_stand_in,
        "subject": json.loads(json.dumps(dict(proof.subject))),
        "evidence": [
            {
                "kind": part.evidence.value,
                "level": part.level.value,
                "comparisons": [_plain(each) for each in part.comparisons],
                "findings": [finding.as_dict() for finding in part.findings],
            }
            for part in proof.parts
        ],
    }


def write_proof(path: Path, proof: Proof) -> Path:
    """Write the proof; a file that is there stays.

    Raises:
        UsageError: it is there.
    """
    require_free(path)
    return write_json_file(path, build_proof_document(proof))


def read_proof(path: Path) -> Proof:
    """The proof in a file.

    Raises:
        InputError: there is none, or it is no JSON.
        UnsupportedVersion: it keeps another schema.
        DamagedFile: it lacks something.
    """
    try:
        document = load_json(path)
    except ValueError as error:
        raise DamagedFile("proof-damaged", f"the file is no JSON: {error}", where=str(path)) from error
    schema = document.get("schema") if isinstance(document, dict) else None
    if schema != PROOF_SCHEMA:
        raise UnsupportedVersion(
            "proof-schema", f"the file keeps {schema}, and {PROOF_SCHEMA} is read", where=str(path)
        )
    try:
        return Proof(
            level=Level(document["level"]),
            parts=tuple(_part(each) for each in document["evidence"]),
            subject=dict(document["subject"]),
        )
    except (KeyError, TypeError, ValueError) as error:
        raise DamagedFile(
            "proof-damaged", f"the proof lacks something, or has it wrong: {error}", where=str(path)
        ) from error


def _plain(comparison: Comparison) -> dict[str, Any]:
    plain = {key: value for key, value in asdict(comparison).items() if key != "evidence"}
    for side in ("job", "replay"):
        if isinstance(plain[side], tuple):
            plain[side] = list(plain[side])
    plain["verdict"] = comparison.verdict.value
    return plain


def _part(plain: Mapping[str, Any]) -> Part:
    kind = EvidenceKind(plain["kind"])
    return Part(
        evidence=kind,
        level=Level(plain["level"]),
        comparisons=tuple(_comparison(kind, each) for each in plain["comparisons"]),
        findings=tuple(_finding(each) for each in plain["findings"]),
    )


def _comparison(kind: EvidenceKind, plain: Mapping[str, Any]) -> Comparison:
    return Comparison(
        evidence=kind,
        kernel=str(plain["kernel"]),
        quantity=str(plain["quantity"]),
        job=_side(plain["job"]),
        replay=_side(plain["replay"]),
        verdict=Verdict(plain["verdict"]),
        note=str(plain["note"]),
    )


def _side(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


def _finding(plain: Mapping[str, Any]) -> Finding:
    return Finding(**{**plain, "severity": Severity(plain["severity"])})
