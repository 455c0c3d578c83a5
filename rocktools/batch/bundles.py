"""Replays on disk, and whether rocprof-compute may profile them alone: the reason where it may not.

A bundle that is there is used as it is; one that is missing is taken out of the compiled program. What is told as the
job's must be proven to be the job's, so that a replay without a proof is refused unless the user says otherwise.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from enum import Enum
from pathlib import Path
from typing import Any

from rocktools import __version__
from rocktools.errors import CannotExtract, InputError, RocktoolsError
from rocktools.findings import Finding, Severity
from rocktools.replay.emit import folder_name, write_bundle
from rocktools.replay.extract import JobProgram, Replay, build_job_program, build_replay
from rocktools.replay.proto_edit import parse_text_program
from rocktools.replay.prove import Level
from rocktools.replay.prove_bundle import read_replay
from rocktools.replay.prove_document import PROOF_NAME, read_proof
from rocktools.replay.refusals import ReplayKind
from rocktools.replay.select import Selection
from rocktools.rundir import load_json
from rocktools.workspace.extraction import read_program_content
from rocktools.workspace.programs import FoundProgram

SPEC_NAME = "spec.json"


class Refused(str, Enum):
    """Why a kernel is not profiled alone, where the reason is not one of extraction."""

    COLLECTIVE = "collective"
    COPY = "copy"
    NO_KERNEL_NAME = "no-kernel-name"
    NOT_A_STAND_IN = "not-a-stand-in"
    UNPROVEN = "unproven"

    def __str__(self) -> str:
        return self.value


# Reason -> why, and what to do instead.
_REASONS: Mapping[Refused, tuple[str, str]] = {
    Refused.COLLECTIVE: (
        "it waits for other devices, and counter passes run one device's kernels one by one: ranks may wait for ever, "
        "and what is counted is the waiting",
        "rocktools collectives says how fast it was",
    ),
    Refused.COPY: (
        "a copy engine or the runtime copies the memory, and no kernel of the job has counters",
        "rocktools dispatches and rocktools frame copies have its time",
    ),
    Refused.NO_KERNEL_NAME: (
        "nobody knows what its kernel is called, so it cannot be chosen among others",
        "put it under `kernels` with the `kernel` that a trace shows",
    ),
    Refused.NOT_A_STAND_IN: (
        "its proof says that it launches something else than the job: its counters say nothing about the job",
        "extract it from the dump of the very job, with the same versions",
    ),
    Refused.UNPROVEN: (
        "nothing proves that it launches the job's kernel",
        "rocktools replay prove (library calls: by traces of both), then plan again; or --allow-unproven",
    ),
}
_UNDECIDED_HINT = (
    "its proof decides nothing: put proof.json away and prove it by the job's executable (rocktools replay prove "
    "--job-executable) or by traces of both; or --allow-unproven"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """Why a kernel is left out.

    Attributes:
        reason: kebab-case name: one of `Refused`, or the reference of the error that extraction ended in.
        why: in a sentence.
        hint: what to do instead; "" where nothing helps.
    """

    reason: str
    why: str
    hint: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Bundle:
    """A replay on disk.

    Attributes:
        folder: where it is.
        instruction: of the job.
        program_id: of the job's program; "" where the spec says none.
        kernel: symbol of the job's kernel; "" where it is not known.
        kind: what launches it.
        devices_count: that it runs on.
        program_sha256: of the replay's program.
        origin_sha256: of the program it was taken from.
        level: of its proof; UNPROVEN where there is none.
        has_proof: whether there is one, of this program.
        findings: doubts about the proof.
    """

    folder: Path
    instruction: str
    program_id: str
    kernel: str
    kind: ReplayKind
    devices_count: int
    program_sha256: str
    origin_sha256: str
    level: Level
    has_proof: bool = False
    findings: tuple[Finding, ...] = ()


def build_job(found: FoundProgram) -> JobProgram:
    """A program that was found, ready to take instructions out of.

    Raises:
        InputError: it cannot be read again.
    """
    content = read_program_content(found)
    data = content.proto if content.proto is not None else parse_text_program(content.text, str(found.path))
    return build_job_program(
        found.program, data, str(found.path), versions=content.versions, xla_flags=content.xla_flags
    )


def read_bundle(folder: Path) -> Bundle:
    """The replay in a folder, with the level of the proof beside it.

    Raises:
        InputError: it is no replay, or is damaged, or its proof cannot be read.
    """
    replay = read_replay(folder)  # program and spec belong together
    spec = load_json(folder / SPEC_NAME)
    origin = replay.origin or {}
    digest = hashlib.sha256(replay.module).hexdigest()
    level, findings = _level(folder / PROOF_NAME, digest)
    has_proof = level is not None
    try:
        kind = ReplayKind(spec["kind"])
    except (KeyError, ValueError) as error:
        raise InputError("replay-spec", f"the kind of the replay is not known: {error}", where=str(folder)) from error
    return Bundle(
        folder=folder,
        instruction=replay.instruction,
        program_id=str(origin.get("program_id") or ""),
        kernel=replay.kernel_name,
        kind=kind,
        devices_count=replay.devices_count,
        program_sha256=digest,
        origin_sha256=str(origin.get("sha256") or ""),
        level=Level.UNPROVEN if level is None else level,
        has_proof=has_proof,
        findings=findings,
    )


def find_bundles(folder: Path) -> tuple[list[Bundle], list[Finding]]:
    """The replays in the folders of a folder, by name; those that cannot be read are named.

    Args:
        folder: need not be there.
    """
    bundles, findings = [], []
    for path in _bundle_folders(folder):
        try:
            bundles.append(read_bundle(path))
        except RocktoolsError as error:
            findings.append(
                Finding(
                    rule="bundle-unreadable",
                    severity=Severity.WARNING,
                    where=error.where or str(path),
                    message=f"the replay is left out: {error.what}",
                    advice=error.hint or "",
                )
            )
    return bundles, findings


def extract_bundle(job: JobProgram, selection: Selection, folder: Path) -> tuple[Bundle | None, Replay]:
    """Take an instruction out of its job into a new folder below `folder`; what cannot be profiled is not written.

    Raises:
        CannotExtract: it has no replay.
        InputError: the folder cannot be written.
    """
    replay = build_replay(job, selection, rocktools_version=__version__)
    if judge_kind(ReplayKind(replay.spec["kind"]), int(replay.spec["devices_count"])) is not None:
        return None, replay
    target = _free_folder(folder, folder_name(selection.instruction.name))
    folder.mkdir(parents=True, exist_ok=True)
    write_bundle(replay, target)
    return read_bundle(target), replay


def judge_kind(kind: ReplayKind, devices_count: int) -> Refusal | None:
    """Why nothing of this kind is profiled alone; None where it may be."""
    if kind is ReplayKind.COLLECTIVE or devices_count > 1:
        return build_refusal(Refused.COLLECTIVE)
    return build_refusal(Refused.COPY) if kind is ReplayKind.COPY else None


def judge_bundle(bundle: Bundle, kernel: str, *, allows_unproven: bool) -> Refusal | None:
    """Why a bundle is not profiled; None where it is.

    Args:
        kernel: to be profiled; "" where nobody knows it.
        allows_unproven: whether a replay without a proof is taken all the same.
    """
    refusal = judge_kind(bundle.kind, bundle.devices_count)
    if refusal is not None:
        return refusal
    if bundle.level is Level.NOT_A_STAND_IN:
        return build_refusal(Refused.NOT_A_STAND_IN)
    if not kernel:
        return build_refusal(Refused.NO_KERNEL_NAME)
    if not bundle.level.is_stand_in and not allows_unproven:
        refusal = build_refusal(Refused.UNPROVEN)
        return replace(refusal, hint=_UNDECIDED_HINT) if bundle.has_proof else refusal
    return None


def build_refusal(reason: Refused) -> Refusal:
    """One of ours, with its texts."""
    why, hint = _REASONS[reason]
    return Refusal(reason=reason.value, why=why, hint=hint)


def refusal_of_error(error: CannotExtract) -> Refusal:
    """What extraction says."""
    return Refusal(reason=error.reference, why=error.what, hint=error.hint or "")


def same_program(bundle: Bundle, job: JobProgram) -> bool:
    """Whether a bundle was taken out of this very program."""
    return bundle.origin_sha256 == hashlib.sha256(job.proto.data).hexdigest()


def _bundle_folders(folder: Path) -> Iterator[Path]:
    if not folder.is_dir():
        return
    for path in sorted(folder.iterdir()):
        if (path / SPEC_NAME).is_file() and not path.name.startswith("."):
            yield path


def _free_folder(folder: Path, name: str) -> Path:
    """A folder that is not there yet: `name`, or with a number behind it."""
    target, number = folder / name, 1
    while target.exists():
        number += 1
        target = folder / f"{name}-{number}"
    return target


def _level(path: Path, program_sha256: str) -> tuple[Level | None, tuple[Finding, ...]]:
    """What a proof says of a program; None where there is no proof of it."""
    if not path.is_file():
        return None, ()
    proof = read_proof(path)
    subject: Any = proof.subject.get("replay")
    if not isinstance(subject, Mapping) or subject.get("program_sha256") != program_sha256:
        return None, (
            Finding(
                rule="proof-of-another-program",
                severity=Severity.WARNING,
                where=str(path),
                message="the proof is of another program than the one beside it, so that the replay is unproven",
                advice="rocktools replay prove -o another file, or remove the old proof first",
            ),
        )
    return proof.level, ()
