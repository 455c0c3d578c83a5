"""Replays that launch nothing and say so to the stand-ins, for tests of who starts them; proofs of any level."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

from rocktools.replay.prove import Level

SCRIPT = """import argparse
import json
import pathlib

parser = argparse.ArgumentParser()
parser.add_argument("--iterations", type=int, default=20)
parser.add_argument("--warm-up", type=int, default=3)
parser.add_argument("--device", type=int, default=0)
parser.add_argument("--inputs", default="random")
options = parser.parse_args()
spec = json.loads((pathlib.Path(__file__).parent / "spec.json").read_text())
print(f"standin-launch: {options.iterations + options.warm_up} {spec['kernel']}")
print(json.dumps({"schema": "rocktools.replay-run/1", "kernel": spec["kernel"]}))
"""


def write_fake_replay(
    folder: Path,
    instruction: str,
    *,
    kernel: str | None = "",
    kind: str = "kernel",
    devices_count: int = 1,
    level: Level | None = Level.IDENTICAL,
    program_id: str = "7",
    origin_sha256: str = "0" * 64,
) -> Path:
    """A bundle in `folder / instruction`, with what readers of bundles need.

    Args:
        kernel: "" for the instruction's name as XLA would write it; None where nobody knows it.
        level: of the proof beside it; None for no proof.
    """
    target = folder / instruction
    target.mkdir(parents=True)
    module = f"program of {instruction}".encode()
    digest = hashlib.sha256(module).hexdigest()
    spec: dict[str, Any] = {
        "schema": "rocktools.replay/1",
        "instruction": instruction,
        "kernel": instruction.replace(".", "_") if kernel == "" else kernel,
        "kind": kind,
        "devices_count": devices_count,
        "program": {"file": "replay.hlo.pb", "sha256": digest, "module": instruction},
        "launches": [],
        "origin": {"module": "jit_step", "program_id": program_id, "path": "made.hlo.pb", "sha256": origin_sha256},
    }
    (target / "replay.hlo.pb").write_bytes(module)
    (target / "replay.py").write_text(SCRIPT, encoding="utf-8")
    (target / "spec.json").write_text(json.dumps(spec), encoding="utf-8")
    if level is not None:
        write_fake_proof(target, level, digest)
    return target


def write_fake_proof(target: Path, level: Level, program_sha256: str) -> None:
    proof = {
        "schema": "rocktools.proof/1",
        "rocktools_version": "0",
        "level": level.value,
        "meaning": "made",
        "is_stand_in": level.is_stand_in,
        "subject": {"instruction": "made", "replay": {"program_sha256": program_sha256}, "is_simulated": False},
        "evidence": [],
    }
    (target / "proof.json").write_text(json.dumps(proof), encoding="utf-8")
