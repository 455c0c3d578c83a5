"""Replays that were extracted, and the job's executable -> what the two launch, compared, without a GPU.

Each replay is compiled by the very plugin that JAX uses, no pass of XLA touching it, for a description of the job's
device. Which description that was, an executable does not say: where several are known for its architecture, those that
do not come out identical are compiled for the next one, and the proof says for which.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from rocktools.errors import DamagedFile, InputError, NothingToRead, UnsupportedVersion, UsageError
from rocktools.findings import Finding, Severity
from rocktools.replay.aot_compile import (
    CompiledModule,
    CompileEnvironment,
    CompileOutcome,
    ModuleToCompile,
    compile_modules,
)
from rocktools.replay.aot_target import Target, read_target, targets_of
from rocktools.replay.executable import SILENT_KINDS, GpuExecutable, parse_executable
from rocktools.replay.pjrt_options import build_compile_options
from rocktools.replay.prove import EvidenceKind, KernelFacts, Level, Part, prove_executables
from rocktools.replay.prove_facts import facts_of_thunks
from rocktools.rundir import hash_file, load_json

REPLAY_SCHEMA = "rocktools.replay/1"
_SPEC_NAME = "spec.json"
_SPEC_TYPES: Mapping[str, type | tuple[type, ...]] = {
    "instruction": str,
    "kernel": (str, type(None)),
    "devices_count": int,
    "program": dict,
    "launches": list,
    "origin": (dict, type(None)),
}
_EXECUTABLE_NAME = "executable.serialized"
_DUMPED_TARGET = "*.gpu_target_config.pbtxt"


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayModule:
    """What of a replay is needed to compile it.

    Attributes:
        instruction: of the job.
        kernel_name: of the job; "" where it launches none of its own, or it is not known.
        module: serialized HloModuleProto.
        devices_count: that it runs on.
        folder: it was read from; None for one that was never written.
        launches: what the job's thunk sequence says of it: the weaker side, where there is no executable.
        origin: of the spec, for the proof.
    """

    instruction: str
    kernel_name: str
    module: bytes
    devices_count: int = 1
    folder: Path | None = None
    launches: tuple[KernelFacts, ...] = ()
    origin: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AheadOfTime:
    """What compiling a replay has shown.

    Attributes:
        replay: which.
        part: of the proof.
        target: description it was compiled for.
        outcome: of the compilation.
    """

    replay: ReplayModule
    part: Part
    target: Target
    outcome: CompileOutcome


def read_replay(folder: Path) -> ReplayModule:
    """The replay in a folder that `rocktools extract` has made.

    Raises:
        InputError: it is none.
        UnsupportedVersion: it keeps another schema.
        DamagedFile: its files are damaged, or do not belong together.
    """
    path = folder / _SPEC_NAME
    try:
        spec = load_json(path)
    except InputError as error:
        raise InputError(
            "no-replay", f"the folder has no {_SPEC_NAME}", where=str(folder), hint="rocktools extract makes replays"
        ) from error
    except ValueError as error:
        raise DamagedFile("replay-spec", f"the file is no JSON: {error}", where=str(path)) from error
    schema = spec.get("schema") if isinstance(spec, dict) else None
    if schema != REPLAY_SCHEMA:
        raise UnsupportedVersion("replay-schema", f"it keeps {schema}, and {REPLAY_SCHEMA} is read", where=str(path))
    try:
        _require_types(spec)
        file = folder / spec["program"]["file"]
        module = file.read_bytes()
        if hashlib.sha256(module).hexdigest() != spec["program"]["sha256"]:
            what = f"{file.name} is not the program that {_SPEC_NAME} describes"
            raise DamagedFile("replay-changed", what, where=str(folder), hint="extract the kernel again")
        return ReplayModule(
            instruction=spec["instruction"],
            kernel_name=spec["kernel"] or "",
            module=module,
            devices_count=spec["devices_count"],
            folder=folder,
            launches=tuple(_launch(each) for each in spec["launches"] if each["kind"] not in SILENT_KINDS),
            origin=spec["origin"],
        )
    except OSError as error:
        raise InputError(
            "replay-program", f"the program cannot be read: {error.strerror}", where=str(folder)
        ) from error
    except (KeyError, TypeError, ValueError) as error:
        what = f"the file lacks something, or has it wrong: {error}"
        raise DamagedFile("replay-spec", what, where=str(path)) from error


def find_job_executable(replay: ReplayModule) -> Path | None:
    """The serialized executable that lies beside the program a replay was taken from, or one folder up."""
    if replay.origin is None:
        return None
    folder = Path(str(replay.origin.get("path", ""))).parent
    return next(
        (path for path in (folder / _EXECUTABLE_NAME, folder.parent / _EXECUTABLE_NAME) if path.is_file()), None
    )


def find_targets(job: GpuExecutable | None, replay: ReplayModule, name: str | None) -> tuple[Target, ...]:
    """The descriptions to compile for, likeliest first.

    Args:
        job: whose architecture decides; None where the job's executable is not known.
        replay: what XLA dumped beside the program it was taken from goes before all others.
        name: a target of the user's; no other is tried then.

    Raises:
        UsageError: there is no such target, none for the job's architecture, or nothing says the architecture.
    """
    if name is not None:
        return (read_target(name),)
    origin = Path(str((replay.origin or {}).get("path", "")))
    dumped = sorted(origin.parent.glob(_DUMPED_TARGET)) if origin.is_file() else []
    mine = [read_target(str(path)) for path in dumped if path.name.split(".")[0] == origin.name.split(".")[0]]
    architecture = job.architecture.partition(":")[0] if job is not None else ""
    known = targets_of(architecture or (mine[0].architecture if mine else ""))
    if not known and not mine:
        what = (
            f"no target of the architecture {architecture} is known" if architecture else "the job's GPU is not known"
        )
        raise UsageError("no-target", what, hint="--target NAME, or the *.gpu_target_config.pbtxt that XLA dumped")
    return (*mine, *known)


def job_facts(replay: ReplayModule, job: GpuExecutable | None) -> tuple[KernelFacts, ...]:
    """What the job launches for the instruction of a replay.

    Raises:
        NothingToRead: the executable has nothing of it.
    """
    if job is None:
        return replay.launches
    facts = facts_of_thunks(job.thunks_of(replay.instruction))
    if not facts and replay.kernel_name in job.kernels:
        facts = facts_of_thunks(job.as_thunks([replay.kernel_name]))
    if not facts and replay.launches and not any(each.name for each in replay.launches):
        return replay.launches  # what an asynchronous start wraps has an instruction of its own
    if not facts:
        raise NothingToRead(
            "instruction-not-in-executable",
            f"the job's executable launches nothing for {replay.instruction}",
            where=job.source,
            hint="name the executable of the very program that the replay was taken from",
        )
    return facts


def prove_ahead_of_time(
    replays: Sequence[ReplayModule],
    job: GpuExecutable | None,
    targets: Sequence[Target],
    environment: CompileEnvironment,
    *,
    on_progress: Callable[[int, int], None] | None = None,
) -> list[AheadOfTime]:
    """Compile replays and compare what comes out with the job's executable; one result each, in order.

    Args:
        job: the job's executable; None where it is not known: then the launches in the spec are compared.
        targets: descriptions, likeliest first.
        on_progress: called with how many are compiled and how many there are, for each description anew.

    Raises:
        NothingToRead: the executable has nothing of an instruction.
        ReplayError: the plugin cannot be used.
        KeyboardInterrupt: an interrupt came meanwhile.
    """
    expected = [job_facts(replay, job) for replay in replays]
    found: dict[int, AheadOfTime] = {}
    for target in targets:
        groups: dict[tuple[int, str], list[int]] = {}
        for place, replay in enumerate(replays):
            if place not in found or not _is_settled(found[place]):
                groups.setdefault((replay.devices_count, _flags_of(replay, environment)), []).append(place)
        for (devices_count, flags), places in groups.items():
            modules = [_to_compile(replays[place]) for place in places]
            flagged = replace(environment, env={**environment.env, "XLA_FLAGS": flags})
            compiled = compile_modules(modules, target, flagged, devices_count=devices_count, on_progress=on_progress)
            for place, result in zip(places, compiled, strict=True):
                made = _compared(replays[place], expected[place], result, target, is_first=target is targets[0])
                if place not in found or _rank(made) > _rank(found[place]):
                    found[place] = made
    return [found[place] for place in range(len(replays))]


def build_subject(
    made: AheadOfTime | None, replay: ReplayModule, job_path: Path | None, environment: Mapping[str, Any]
) -> dict[str, Any]:
    """What a proof compares with what, for its file.

    Args:
        made: what was compiled; None where only traces were compared.
        job_path: of the job's executable; None where it is not known.
        environment: what compiled: plugin, versions, stand-ins.
    """
    subject: dict[str, Any] = {
        "instruction": replay.instruction,
        "kernel": replay.kernel_name or None,
        "replay": {
            "folder": str(replay.folder) if replay.folder is not None else None,
            "program_sha256": hashlib.sha256(replay.module).hexdigest(),
        },
        "job": {
            "origin": dict(replay.origin) if replay.origin is not None else None,
            "executable": str(job_path) if job_path is not None else None,
            "executable_sha256": hash_file(job_path) if job_path is not None else None,
        },
    }
    if made is not None:
        subject["compiled"] = {
            "target": made.target.name,
            "configuration": made.target.configuration,
            "outcome": made.outcome.value,
            **environment,
        }
    return subject


def _is_settled(made: AheadOfTime) -> bool:
    """Whether another description cannot bring more."""
    is_library = made.part.level is Level.UNPROVEN and made.outcome is CompileOutcome.COMPILED
    return made.part.level is Level.IDENTICAL or is_library


def _flags_of(replay: ReplayModule, environment: CompileEnvironment) -> str:
    """The flags of XLA that the job ran with, where they are known, else those here; nothing is dumped."""
    flags = (replay.origin or {}).get("xla_flags")
    text = str(environment.env.get("XLA_FLAGS", "") if flags is None else flags)
    return " ".join(flag for flag in text.split() if not flag.startswith("--xla_dump"))


def _rank(made: AheadOfTime) -> int:
    order = (Level.NOT_A_STAND_IN, Level.UNPROVEN, Level.SIMILAR, Level.EQUIVALENT, Level.IDENTICAL)
    return order.index(made.part.level)


def _to_compile(replay: ReplayModule) -> ModuleToCompile:
    options = build_compile_options(replay.module, devices_count=replay.devices_count)
    return ModuleToCompile(name=replay.instruction, module=replay.module, options=options)


def _compared(
    replay: ReplayModule, expected: Sequence[KernelFacts], result: CompiledModule, target: Target, *, is_first: bool
) -> AheadOfTime:
    if result.outcome is not CompileOutcome.COMPILED:
        part = Part(
            evidence=EvidenceKind.EXECUTABLE,
            level=Level.UNPROVEN,
            comparisons=(),
            findings=(_not_compiled(replay, result),),
        )
        return AheadOfTime(replay=replay, part=part, target=target, outcome=result.outcome)
    executable = parse_executable(result.executable, f"{replay.instruction}, compiled")
    facts = facts_of_thunks(executable.thunks or executable.as_thunks())
    part = prove_executables(expected, facts, where=replay.instruction)
    if not is_first and part.level is Level.IDENTICAL:
        part = Part(
            evidence=part.evidence,
            level=part.level,
            comparisons=part.comparisons,
            findings=(*part.findings, _other_description(replay, target)),
        )
    return AheadOfTime(replay=replay, part=part, target=target, outcome=result.outcome)


def _require_types(spec: Mapping[str, Any]) -> None:
    """That what is read of a spec is what `rocktools extract` writes there.

    Raises:
        KeyError: an entry is not there.
        TypeError: an entry is something else.
    """
    for name, kinds in _SPEC_TYPES.items():
        value = spec[name]
        if not isinstance(value, kinds) or isinstance(value, bool):
            raise TypeError(f"{name} is {value!r}")
    for name in ("file", "sha256"):
        if not isinstance(spec["program"][name], str):
            raise TypeError(f"the {name} of the program is {spec['program'][name]!r}")
    for launch in spec["launches"]:
        sizes = (*(launch["grid_workgroups"] or ()), *(launch["workgroup_workitems"] or ()))
        if not all(isinstance(size, int) for size in sizes):
            raise TypeError(f"a launch has the sizes {sizes!r}")
        if not isinstance(launch["kind"], str) or not isinstance(launch["kernel"], (str, type(None))):
            raise TypeError(f"a launch is {launch['kind']!r} of the kernel {launch['kernel']!r}")


def _launch(entry: Mapping[str, Any]) -> KernelFacts:
    """Of the spec. Its shared memory is what is asked for at launch, without that of the code, so it says nothing."""
    return KernelFacts(
        name=entry["kernel"] or "",
        kind=entry["kind"],
        grid=tuple(entry["grid_workgroups"] or ()),
        workgroup_workitems=tuple(entry["workgroup_workitems"] or ()),
    )


def _not_compiled(replay: ReplayModule, result: CompiledModule) -> Finding:
    return Finding(
        rule="replay-not-compiled",
        severity=Severity.FAULT,
        where=replay.instruction,
        message=f"the replay could not be compiled ({result.outcome}): {result.reason}",
        advice="a plugin of the job's own version may take it",
    )


def _other_description(replay: ReplayModule, target: Target) -> Finding:
    return Finding(
        rule="proven-for-another-description",
        severity=Severity.NOTE,
        where=replay.instruction,
        message=f"it is identical when compiled for the description {target.name}, not for the first that was tried",
        advice="--target with the *.gpu_target_config.pbtxt of the job's dump says which one the job was compiled for",
    )
