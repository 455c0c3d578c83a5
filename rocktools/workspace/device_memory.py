"""Dumps of XLA and traces -> what is known about device memory: what each program reserves, and what was allocated.

The reports of a dump and the program of the same dump belong together: the reports say what lies where, the program in
which order it runs and which scope made it. Both are of one device.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from rocktools.errors import InputError, NothingToRead, UsageError, nearest_names
from rocktools.findings import Finding, Severity
from rocktools.frames import Column, FrameSpec, nullable_int64, require_frame
from rocktools.hlo.buffer_liveness import LiveBuffer, MemoryPeak, find_memory_peak, list_largest_buffers
from rocktools.hlo.dumps import Dump, find_dump_of, find_dumps, read_program
from rocktools.hlo.memory_reports import (
    AllocationKind,
    BufferAssignment,
    check_memory_usage,
    read_buffer_assignment,
    read_memory_usage,
)
from rocktools.hlo.reading import is_hlo_text
from rocktools.rundir import HLO_FOLDER
from rocktools.timeline.activities import labels_column

_NO_PEAK = "the program has no temporaries, or its order is unknown"

PROGRAM_MEMORY = FrameSpec(
    name="PROGRAM_MEMORY",
    meaning="One row per program: what its buffer assignment reserves on each device, and the peak in program order.",
    key=("program", "path"),
    sort=("total_bytes", "program", "path"),
    columns=(
        Column("program", "category", "the program, as its files are called"),
        Column("total_bytes", "int64", "arguments + results - aliases + temporaries + constants and others"),
        Column("argument_bytes", "int64", "arguments, those reused for results too"),
        Column("output_bytes", "int64", "results, those that reuse an argument too"),
        Column("alias_bytes", "int64", "arguments that are reused for results: part of both"),
        Column("temporary_bytes", "int64", "reserved for values that live within the program"),
        Column("constant_bytes", "int64", "constants"),
        Column("live_bytes", "Int64", "most of `temporary_bytes` that is live at one time, in program order", _NO_PEAK),
        Column("held_bytes", "Int64", "that and everything that is there all the time", _NO_PEAK),
        Column("peak_instruction", "category", "instruction that runs then", _NO_PEAK),
        Column("path", "category", "the buffer assignment"),
    ),
)

BUFFERS = FrameSpec(
    name="BUFFERS",
    meaning="One row per value of a program that holds memory, the largest first; of values at one address the first.",
    key=("program", "buffer_index"),
    sort=("program", "buffer_index"),
    columns=(
        PROGRAM_MEMORY.column("program"),
        Column("buffer_index", "int64", "rank by size, from 0"),
        Column("size_bytes", "int64", "of the value"),
        Column("kind", "category", "what its allocation is for: argument, output, constant, temporary, ..."),
        Column("instruction", "category", "that makes it"),
        Column("element", "category", "which element of its tuple; empty where it is none"),
        Column("shape", "category", "with layout"),
        Column("scope", "category", "named scopes of the instruction", "it has no op_name"),
    ),
)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ProgramMemory:
    """What one program takes on each device.

    Attributes:
        program: the program, as its files are called.
        assignment: its allocations.
        peak: when most of its temporaries is live; None where it has none.
        largest: its largest values, which do not all live at one time.
    """

    program: str
    assignment: BufferAssignment
    peak: MemoryPeak | None
    largest: tuple[LiveBuffer, ...]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ReportedMemory:
    """The programs of some dumps that have reports of memory, the one that takes most first, and what was raised."""

    programs: tuple[ProgramMemory, ...]
    findings: tuple[Finding, ...]


def names_a_program(argument: str) -> bool:
    """Whether an argument is a file of a dump of XLA, and no trace."""
    path = Path(argument)
    return path.is_file() and (find_dump_of(path) is not None or is_hlo_text(path))


def read_reported_memory(arguments: Sequence[str | Path], program: str | None = None) -> ReportedMemory:
    """The memory of the programs in folders, run directories or files of dumps; of what is no dump, nothing.

    Args:
        program: the one that is meant, as its files are called; None for all.

    Raises:
        UsageError: no dump is called so.
        InputError: a report cannot be read, and it is the only one.
    """
    dumps = [dump for argument in arguments for dump in _dumps_at(Path(argument))]
    if program is not None:
        dumps = _chosen(dumps, program)
    found: list[ProgramMemory] = []
    findings: list[Finding] = []
    errors: list[InputError] = []
    for dump in dumps:
        if dump.buffer_assignment_path is None:
            continue
        try:
            memory, raised = _read(dump, dump.buffer_assignment_path)
        except InputError as error:
            errors.append(error)
            findings.append(_unreadable(error, dump.buffer_assignment_path))
            continue
        found.append(memory)
        findings += raised
    if errors and not found:
        raise errors[0]
    found.sort(key=lambda each: (-each.assignment.total_bytes, each.program))
    return ReportedMemory(programs=tuple(found), findings=tuple(findings))


def program_memory_frame(programs: Sequence[ProgramMemory]) -> pd.DataFrame:
    """PROGRAM_MEMORY, in their order."""
    assignments = [each.assignment for each in programs]
    peaks = [each.peak for each in programs]
    is_missing = np.array([peak is None for peak in peaks], dtype=np.bool_)

    def of_peak(name: str) -> pd.api.extensions.ExtensionArray:
        values = [0 if peak is None else getattr(peak, name) for peak in peaks]
        return nullable_int64(np.array(values, dtype=np.int64), is_missing)

    names = ("total_bytes", "argument_bytes", "output_bytes", "alias_bytes", "temporary_bytes")
    sizes = {name: np.array([getattr(each, name) for each in assignments], dtype=np.int64) for name in names}
    constants = [each.bytes_of(AllocationKind.CONSTANT) for each in assignments]
    frame = pd.DataFrame(
        {
            "program": labels_column([each.program for each in programs]),
            **sizes,
            "constant_bytes": np.array(constants, dtype=np.int64),
            "live_bytes": of_peak("live_bytes"),
            "held_bytes": of_peak("held_bytes"),
            "peak_instruction": labels_column([None if peak is None else peak.instruction for peak in peaks]),
            "path": labels_column([each.source for each in assignments]),
        }
    )
    return require_frame(frame, PROGRAM_MEMORY)


def buffers_frame(programs: Sequence[ProgramMemory], *, is_at_peak: bool) -> pd.DataFrame:
    """BUFFERS of programs.

    Args:
        is_at_peak: the temporaries that live at the peak; else the largest values of all kinds.
    """
    rows = [
        (each.program, index, buffer)
        for each in programs
        for index, buffer in enumerate((each.peak.buffers if each.peak else ()) if is_at_peak else each.largest)
    ]
    buffers = [buffer for _, _, buffer in rows]
    frame = pd.DataFrame(
        {
            "program": labels_column([program for program, _, _ in rows]),
            "buffer_index": np.array([index for _, index, _ in rows], dtype=np.int64),
            "size_bytes": np.array([buffer.size_bytes for buffer in buffers], dtype=np.int64),
            "kind": labels_column([buffer.kind.value for buffer in buffers]),
            "instruction": labels_column([buffer.instruction for buffer in buffers]),
            "element": labels_column([buffer.element for buffer in buffers]),
            "shape": labels_column([buffer.shape for buffer in buffers]),
            "scope": labels_column([buffer.scope or None for buffer in buffers]),
        }
    )
    return require_frame(frame, BUFFERS)


def _dumps_at(path: Path) -> list[Dump]:
    if path.is_dir():
        return find_dumps(path / HLO_FOLDER if (path / HLO_FOLDER).is_dir() else path)
    dump = find_dump_of(path) if path.is_file() else None
    return [] if dump is None else [dump]


def _chosen(dumps: Sequence[Dump], program: str) -> list[Dump]:
    chosen = [dump for dump in dumps if program in (dump.stem, dump.stem.partition(".")[2])]
    if not chosen:
        known = [dump.stem for dump in dumps]
        near = nearest_names(program, known)
        raise UsageError(
            "unknown-program", f"there is no program {program!r}", hint=", ".join(near or known[:6]) or None
        )
    return chosen


def _read(dump: Dump, path: Path) -> tuple[ProgramMemory, list[Finding]]:
    """Assignment and program of a dump; without a program that can be read, no peak and no scopes."""
    assignment = read_buffer_assignment(path)
    findings = list(assignment.findings)
    if dump.memory_report_path is not None:
        try:
            findings += check_memory_usage(assignment, read_memory_usage(dump.memory_report_path))
        except InputError as error:
            findings.append(_unreadable(error, dump.memory_report_path))
    module = read_program(dump).module
    findings += module.findings
    memory = ProgramMemory(
        program=dump.stem,
        assignment=assignment,
        peak=find_memory_peak(module, assignment),
        largest=tuple(list_largest_buffers(module, assignment, count=100)),
    )
    return memory, findings


def _unreadable(error: InputError, path: Path) -> Finding:
    return Finding(
        rule=error.reference,
        severity=Severity.FAULT,
        where=error.where or str(path),
        message=f"left out: {error.what}",
        advice=error.hint or "",
    )


def no_memory(arguments: Sequence[str]) -> NothingToRead:
    """The error where there is neither a report nor an allocation."""
    return NothingToRead(
        "no-memory-recorded",
        "there is no buffer assignment of a program, and no allocation in a trace",
        where=", ".join(arguments[:3]),
        hint="XLA writes *-buffer-assignment.txt with --xla_dump_to=FOLDER; rocprofv3 records allocations with "
        "--memory-allocation-trace",
    )
