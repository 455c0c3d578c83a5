"""Files, folders and run directories -> the compiled programs in them, each once.

A dump of XLA is preferred to the proto in a JAX profile where both hold a program: the dump has the thunk sequence. The
id that a text lacks is in the name of its file, `module_0036.jit_step...`: XLA calls its dumps by the id of the module
(`FilenameFor` in xla/service/dump.cc), which is the program id of profiles.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pandas as pd

from rocktools.errors import InputError, NothingToRead, UnknownFormat, UsageError, nearest_names
from rocktools.findings import Finding, Severity
from rocktools.frames import PROGRAMS, nullable_int64, require_frame
from rocktools.hlo.dumps import find_dumps, read_program
from rocktools.hlo.module import HloModule, Instruction
from rocktools.hlo.program import CompiledProgram
from rocktools.hlo.program_summary import collective_kind
from rocktools.hlo.proto_reader import parse_hlo_proto
from rocktools.rundir import HLO_FOLDER
from rocktools.sources.xspace.detect import is_xspace
from rocktools.sources.xspace.opening import XSpaceFile, open_xspace
from rocktools.units import count_noun

_PROFILE_PATTERNS = ("*.xplane.pb", "*.xplane.pb.gz")
_ID_IN_NAME = re.compile(r"module_(\d+)\.")
_LISTED = 6
_SQLITE_MAGIC = b"SQLite format 3\0"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class FoundProgram:
    """One compiled program, and the file it was read from."""

    program: CompiledProgram
    path: Path

    @property
    def name(self) -> str:
        return self.program.module.name

    @property
    def program_id(self) -> str:
        return self.program.module.label


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class FoundPrograms:
    """The programs of a place, and what of it could not be read.

    Attributes:
        programs: each once, the largest first.
        profiles: the JAX profiles among the files.
        findings: of files that could not be read; findings of a program are in its module.
    """

    programs: tuple[FoundProgram, ...]
    profiles: tuple[Path, ...] = ()
    findings: tuple[Finding, ...] = ()


def find_programs(argument: str | Path) -> FoundPrograms:
    """The programs in a file or folder, the largest first.

    Args:
        argument: HLO text or proto, a JAX profile, a folder of dumps, a run directory.

    Raises:
        InputError: nothing is there, or the one file cannot be read.
        NothingToRead: there is no program in it.
    """
    path = Path(argument)
    if not path.exists():
        raise InputError("no-such-file", "there is no such file or folder", where=str(argument))
    if path.is_file():
        _refuse_database(path)
        if is_xspace(path):
            return _require_programs(_programs_of_profile(path), path, profiles=(path,))
        return _require_programs([_read_dump(path)], path)
    errors: list[tuple[InputError, Path]] = []
    found: list[FoundProgram] = []
    for dump in find_dumps(path / HLO_FOLDER if (path / HLO_FOLDER).is_dir() else path):
        try:
            found.append(_with_id(FoundProgram(program=read_program(dump), path=dump.module_path)))
        except InputError as error:
            errors.append((error, dump.module_path))
    profiles = sorted(profile for pattern in _PROFILE_PATTERNS for profile in path.rglob(pattern))
    for profile in profiles:
        try:
            found += _programs_of_profile(profile)
        except InputError as error:
            errors.append((error, profile))
    if errors and not found:
        raise errors[0][0]
    findings = [unreadable_program(error, file) for error, file in errors]
    return _require_programs(found, path, profiles=profiles, findings=findings)


def _refuse_database(path: Path) -> None:
    """Tell apart early what is easily named in the wrong place: `--hlo trace.db`."""
    try:
        with path.open("rb") as stream:
            start = stream.read(len(_SQLITE_MAGIC))
    except OSError as error:
        raise InputError("cannot-read", f"the file cannot be read: {error.strerror}", where=str(path)) from error
    if start == _SQLITE_MAGIC:
        raise UnknownFormat(
            "not-hlo",
            "this is a database (SQLite), not a compiled program",
            where=str(path),
            hint="rocktools info says what is in a trace; where one is meant, it goes before --hlo: PATH --hlo [FILE]",
        )


def choose_program(found: FoundPrograms, name: str | None, *, where: str) -> FoundProgram:
    """The one that is meant: the only one, or the one of that name or id.

    Raises:
        UsageError: there are several and none was named, or none has the name, or several have it.
    """
    programs = found.programs
    if name is None:
        if len(programs) == 1:
            return programs[0]
        listed = ", ".join(
            each.program_id if each.program_id == each.name else f"{each.name} ({each.program_id})"
            for each in programs[:_LISTED]
        )
        raise UsageError(
            "several-programs",
            f"there are {count_noun(len(programs), 'program')}: {listed}{', ...' if len(programs) > _LISTED else ''}",
            where=where,
            hint="--program NAME or --program ID",
        )
    chosen = [each for each in programs if name in (each.name, each.program_id)]
    if len(chosen) == 1:
        return chosen[0]
    if chosen:
        ids = [each.program_id for each in chosen]
        paths = ", ".join(str(each.path) for each in chosen[:_LISTED])
        raise UsageError(
            "several-programs",
            f"{len(chosen)} programs are called {name!r}",
            where=where,
            hint=f"--program ID: {', '.join(ids)}" if len(set(ids)) == len(ids) else f"one of the files: {paths}",
        )
    near = nearest_names(name, [each.name for each in programs])
    raise UsageError(
        "unknown-program",
        f"there is no program {name!r}",
        where=where,
        hint=", ".join(near or dict.fromkeys(each.name for each in programs[:_LISTED])),
    )


def list_programs(programs: Sequence[FoundProgram], *, run: str) -> pd.DataFrame:
    """PROGRAMS of them.

    Args:
        run: label of the run they belong to.
    """
    modules = [each.program.module for each in programs]
    thunks = [None if each.program.thunks is None else sum(1 for _ in each.program.thunks.walk()) for each in programs]
    is_unknown = np.array([count is None for count in thunks], dtype=bool)
    frame = pd.DataFrame(
        {
            "run": _labels([run] * len(programs)),
            "program_id": _labels([module.label for module in modules]),
            "hlo_module": _labels([module.name for module in modules]),
            "instructions_count": _counts(modules, lambda module, instruction: True),
            "fusions_count": _counts(modules, lambda module, instruction: instruction.opcode == "fusion"),
            "custom_calls_count": _counts(modules, lambda module, instruction: instruction.opcode == "custom-call"),
            "collectives_count": _counts(modules, _is_collective),
            "thunks_count": nullable_int64(np.array([count or 0 for count in thunks], dtype=np.int64), is_unknown),
            "is_complete": np.array([module.is_complete for module in modules], dtype=bool),
            "path": _labels([str(each.path) for each in programs]),
        }
    )
    return require_frame(frame, PROGRAMS)


def _counts(modules: Sequence[HloModule], is_counted: Callable[[HloModule, Instruction], bool]) -> np.ndarray:
    counts = [sum(is_counted(module, each) for each in module.instructions.values()) for module in modules]
    return np.array(counts, dtype=np.int64)


def _is_collective(module: HloModule, instruction: Instruction) -> bool:
    """Each once: a start stands for its done, an asynchronous start for what it wraps."""
    is_wrapped = any(caller.opcode == "async-start" for caller in module.callers.get(instruction.computation, ()))
    return bool(collective_kind(module, instruction)) and not is_wrapped


def _labels(values: Iterable[str]) -> pd.Categorical:
    return pd.Categorical(list(values))


def _read_dump(path: Path) -> FoundProgram:
    return _with_id(FoundProgram(program=read_program(path), path=path))


def _with_id(found: FoundProgram) -> FoundProgram:
    """The id in the name of the file, where what is in the file has none."""
    module, match = found.program.module, _ID_IN_NAME.match(found.path.name)
    if module.program_id is not None or match is None:
        return found
    return _called(found, str(int(match[1])))


def _called(found: FoundProgram, program_id: str) -> FoundProgram:
    if found.program.module.program_id == program_id:
        return found
    module = replace(found.program.module, program_id=program_id)
    return replace(found, program=replace(found.program, module=module))


def _programs_of_profile(path: Path) -> list[FoundProgram]:
    with open_xspace(path) as profile:
        return programs_of_profile(profile)


def programs_of_profile(profile: XSpaceFile) -> list[FoundProgram]:
    """The programs whose HLO an open profile holds.

    Raises:
        InputError: a proto is damaged.
    """
    found = []
    for program_id, proto in profile.hlo_protos().items():
        module = parse_hlo_proto(proto, f"{profile.path}, program {program_id}")
        program = CompiledProgram(module=module, thunks=None)
        found.append(_called(FoundProgram(program=program, path=profile.path), program_id))
    return found


def unreadable_program(error: InputError, path: Path) -> Finding:
    """A file that holds a program, or should, and was left out."""
    return Finding(
        rule=error.reference,
        severity=Severity.FAULT,
        where=error.where or str(path),
        message=f"left out: {error.what}",
        advice=error.hint or "",
    )


def _require_programs(
    found: Sequence[FoundProgram], where: Path, *, profiles: Sequence[Path] = (), findings: Sequence[Finding] = ()
) -> FoundPrograms:
    """Each program once.

    Raises:
        NothingToRead: there is none.
    """
    if not found:
        raise NothingToRead(
            "no-programs",
            "there is no compiled program here",
            where=str(where),
            hint="rocktools trace leaves the HLO of a job in the run directory; or set XLA_FLAGS=--xla_dump_to=DIR",
        )
    return FoundPrograms(programs=unique_programs(found), profiles=tuple(profiles), findings=tuple(findings))


def unique_programs(found: Iterable[FoundProgram]) -> tuple[FoundProgram, ...]:
    """Each program once, the largest first: every process of a job dumps, and may profile, the same ones."""
    by_content: dict[tuple[str, int], list[FoundProgram]] = {}
    for each in found:
        module = each.program.module
        by_content.setdefault((module.name, content_of(module)), []).append(each)
    best: list[FoundProgram] = []
    for alike in by_content.values():
        ids = list(dict.fromkeys(each.program.module.program_id for each in alike))
        known = [program_id for program_id in ids if program_id is not None]
        # One id of several may be meant where a text has none, so such a text stays a program of its own.
        if len(known) == 1:
            best.append(_called(_with_thunks(alike), known[0]))
        else:
            best += [_with_thunks([each for each in alike if each.program.module.program_id == one]) for one in ids]
    return tuple(sorted(best, key=lambda each: (-len(each.program.module.instructions), each.name)))


def content_of(module: HloModule) -> int:
    """Equal for programs of the same instructions and shapes, whatever their ids."""
    # Text and proto of one program list its computations in different orders.
    return hash(frozenset((one.name, one.opcode, str(one.shape)) for one in module.instructions.values()))


def distinct_launches(programs: Iterable[FoundProgram]) -> tuple[list[FoundProgram], tuple[Finding, ...]]:
    """Of programs that launch the same the first, and a finding for each that has others like it.

    A job that compiles a step again without any change dumps it twice; nothing in a trace tells such programs apart,
    and nothing that a table says of one is wrong for the other.
    """
    alike: dict[tuple[object, ...], list[FoundProgram]] = {}
    for number, each in enumerate(programs):
        module, thunks = each.program.module, each.program.thunks
        launches = (
            (number,)
            if thunks is None
            else tuple((one.kind, one.instruction, one.kernel, one.grid_workgroups) for one in thunks.walk())
        )
        alike.setdefault((module.name, content_of(module), _trips(module), launches), []).append(each)
    findings = tuple(
        Finding(
            rule="programs-alike",
            severity=Severity.NOTE,
            where=str(first.path),
            message=f"{first.name} was compiled {1 + len(others)} times, and launches the same each time: its kernels "
            f"are booked under program {first.program_id}, not {', '.join(each.program_id for each in others)}",
            numbers={"programs_count": 1 + len(others)},
            advice="rocktools rules check RUN says whether compiling again cost time",
        )
        for first, *others in alike.values()
        if others
    )
    return [first for first, *_ in alike.values()], findings


def _trips(module: HloModule) -> tuple[tuple[str, int | None], ...]:
    """How often each loop runs."""
    loops = sorted(each.name for each in module.instructions.values() if each.opcode == "while")
    return tuple((name, module.instructions[name].known_trip_count) for name in loops)


def _with_thunks(alike: Sequence[FoundProgram]) -> FoundProgram:
    """The first with a thunk sequence, or the first."""
    return next((each for each in alike if each.program.thunks is not None), alike[0])
