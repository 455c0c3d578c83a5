"""Replays compiled and compared with their job, and the file of a proof: what the commands of `replay` share."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rocktools.cli.progress import tell_compiled

if TYPE_CHECKING:
    from rocktools.replay.aot_environment import PreparedEnvironment
    from rocktools.replay.prove import Part, Proof
    from rocktools.replay.prove_bundle import AheadOfTime, ReplayModule


def compile_replays(
    replays: Sequence[ReplayModule], job_executable: Path | None, target: str | None, prepared: PreparedEnvironment
) -> list[Any]:
    """Each replay compiled, with the path of its job's executable and what compiled it; all of a job together."""
    from rocktools.replay.aot_program import plugin_version, read_compiled_folder
    from rocktools.replay.executable import read_executable
    from rocktools.replay.prove_bundle import find_job_executable, find_targets, prove_ahead_of_time

    environment = {
        "plugin": str(prepared.environment.plugin),
        "plugin_version": plugin_version(),
        "stand_ins": list(prepared.stand_in_libraries),
    }
    if job_executable is not None and job_executable.is_dir():  # of `aot compile`
        job_executable = read_compiled_folder(job_executable).executable
    by_job: dict[Path | None, list[int]] = {}
    for place, replay in enumerate(replays):
        by_job.setdefault(job_executable or find_job_executable(replay), []).append(place)
    made: list[Any] = [None] * len(replays)
    for path, places in by_job.items():
        job = None if path is None else read_executable(path)
        chosen = [replays[place] for place in places]
        targets = find_targets(job, chosen[0], target)
        results = prove_ahead_of_time(chosen, job, targets, prepared.environment, on_progress=tell_compiled)
        for place, result in zip(places, results, strict=True):
            made[place] = (result, path, environment)
    return made


def write_parts(
    path: Path,
    replay: ReplayModule,
    parts: Sequence[Part],
    made: AheadOfTime | None,
    job_path: Path | None,
    environment: dict[str, Any],
    remarks: dict[str, Any],
) -> Proof:
    """The proof of parts, written to a new file."""
    from rocktools.replay.prove import build_proof
    from rocktools.replay.prove_bundle import build_subject
    from rocktools.replay.prove_document import write_proof

    proof = build_proof(parts, {**build_subject(made, replay, job_path, environment), **remarks})
    write_proof(path, proof)
    return proof
