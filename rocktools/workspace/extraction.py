"""What taking a kernel out of a job needs of its files: the proto of a program, how it was made, what took most time.

Protos are handed on as bytes: replays are made by who may import them.
"""

from __future__ import annotations

import gzip
import zlib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from rocktools.errors import DamagedFile, InputError, NothingToRead
from rocktools.findings import Finding
from rocktools.hlo.dumps import find_dump_of
from rocktools.hlo.proto_reader import parse_hlo_proto
from rocktools.rundir import MANIFEST_NAME, read_manifest, read_pass_records
from rocktools.sources.xspace.detect import is_xspace
from rocktools.sources.xspace.opening import open_xspace
from rocktools.workspace.links import findings_of, link_runs
from rocktools.workspace.programs import FoundProgram
from rocktools.workspace.workspace import Workspace

_GZIP_MAGIC = b"\x1f\x8b"
_PARENTS_LOOKED_AT = 4


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ProgramContent:
    """One program as its file holds it.

    Attributes:
        proto: serialised HloProto or HloModuleProto; None where the file is text.
        text: optimized HLO text; "" where the file is a proto.
        xla_flags: that the job ran with; None where nobody wrote them down.
        versions: of the packages that compiled it, by name; {} likewise.
    """

    proto: bytes | None
    text: str = ""
    xla_flags: str | None = None
    versions: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class _Circumstances:
    """What a run directory says of the job."""

    xla_flags: str | None = None
    versions: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class RankedInstruction:
    """An instruction and the time of the kernels it launched.

    Attributes:
        program_id: of its program.
        instruction: name.
        total_ns: of all its dispatches, on all devices.
        dispatches_count: how many.
        kernel_name: of the kernel that took most of it, clean.
    """

    program_id: str
    instruction: str
    total_ns: int
    dispatches_count: int
    kernel_name: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ranking:
    """The instructions of a run by time.

    Attributes:
        instructions: the one that took most first.
        findings: what linking raised.
        is_simulated: whether the run was made without hardware.
    """

    instructions: tuple[RankedInstruction, ...]
    findings: tuple[Finding, ...] = field(default=())
    is_simulated: bool = False


def read_program_content(found: FoundProgram) -> ProgramContent:
    """The content of the file that a program was read from.

    Raises:
        InputError: it cannot be read again.
    """
    path = found.path
    run = _run_around(path)
    circumstances = _Circumstances() if run is None else _Circumstances(_xla_flags(run), _versions(run))
    if is_xspace(path):
        with open_xspace(path) as profile:
            proto = profile.hlo_protos().get(found.program_id)
        if proto is None:
            raise NothingToRead("no-program", f"the profile has no program {found.program_id}", where=str(path))
        return ProgramContent(proto=proto, xla_flags=circumstances.xla_flags, versions=circumstances.versions)
    dump = find_dump_of(path)
    data = _read(path if dump is None else dump.module_path)
    try:
        parse_hlo_proto(data, str(path))
    except DamagedFile:  # text: what is neither was refused when the program was found
        return ProgramContent(
            proto=None,
            text=data.decode("utf-8", "replace"),
            xla_flags=circumstances.xla_flags,
            versions=circumstances.versions,
        )
    return ProgramContent(proto=data, xla_flags=circumstances.xla_flags, versions=circumstances.versions)


def rank_instructions(paths: Sequence[str], hlo: Sequence[str | Path]) -> Ranking:
    """The instructions of traces or profiles, by the time of their dispatches.

    Args:
        paths: traces, profiles, run directories.
        hlo: the compiled programs; () looks for them in the runs.

    Raises:
        InputError: something cannot be read.
        NothingToRead: no dispatch is linked to an instruction.
    """
    totals: dict[tuple[str, str], list[int]] = {}
    kernels: dict[tuple[str, str], Counter[str]] = {}
    with Workspace.open(paths) as workspace:
        runs = link_runs(workspace, hlo)
        for run in runs:
            linked = run.with_instructions()
            linked = linked[linked["instruction"].notna()]
            durations = linked["end_ns"] - linked["start_ns"]
            texts = [linked[name].astype(str) for name in ("program_id", "instruction", "kernel_name")]
            for program_id, instruction, kernel_name, duration_ns in zip(*texts, durations, strict=True):
                total = totals.setdefault((program_id, instruction), [0, 0])
                total[0] += int(duration_ns)
                total[1] += 1
                kernels.setdefault((program_id, instruction), Counter())[kernel_name] += int(duration_ns)
        findings = (*workspace.findings, *findings_of(runs))
        is_simulated = workspace.is_simulated
    if not totals:
        raise NothingToRead(
            "no-linked-dispatches",
            "no dispatch is linked to an instruction, so that none can be ranked",
            where=", ".join(paths),
            hint="rocktools link says why",
        )
    order = sorted(totals.items(), key=lambda item: (-item[1][0], item[0]))
    return Ranking(
        instructions=tuple(
            RankedInstruction(
                program_id=key[0],
                instruction=key[1],
                total_ns=total[0],
                dispatches_count=total[1],
                kernel_name=kernels[key].most_common(1)[0][0],
            )
            for key, total in order
        ),
        findings=findings,
        is_simulated=is_simulated,
    )


def _read(path: Path) -> bytes:
    try:
        data = path.read_bytes()
        return gzip.decompress(data) if data.startswith(_GZIP_MAGIC) else data
    except (OSError, EOFError, zlib.error) as error:
        raise InputError("cannot-read", f"the file cannot be read: {error}", where=str(path)) from error


def _run_around(path: Path) -> Path | None:
    """The run directory that a file lies in."""
    for folder in list(path.resolve().parents)[:_PARENTS_LOOKED_AT]:
        if (folder / MANIFEST_NAME).is_file():
            return folder
    return None


def _xla_flags(run: Path) -> str | None:
    """XLA_FLAGS that the first pass set for the job."""
    try:
        records = read_pass_records(run)
    except InputError:
        return None
    flags = [each.environment_added["XLA_FLAGS"] for each in records if "XLA_FLAGS" in each.environment_added]
    return flags[0] if flags else None


def _versions(run: Path) -> dict[str, str]:
    """Of jax and its plugins, as the survey before the capture found them."""
    try:
        packages = read_manifest(run).facts.get("packages")
    except InputError:
        return {}
    return {str(name): str(version) for name, version in packages.items()} if isinstance(packages, dict) else {}
