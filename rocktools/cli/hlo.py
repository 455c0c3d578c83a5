"""`rocktools hlo info|list|show|grep|callers`: what a compiled program says, without any profile."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

import click

from rocktools.cli.options import columns_option, match_option, table_options
from rocktools.cli.output import (
    TableFormat,
    TableOutput,
    emit_findings,
    emit_table,
    emit_tables,
    exit_code_of,
)
from rocktools.errors import UsageError, nearest_names
from rocktools.units import count_noun

if TYPE_CHECKING:
    from pathlib import Path

    import pandas as pd

    from rocktools.findings import Finding
    from rocktools.frames import FrameSpec
    from rocktools.hlo.module import HloModule
    from rocktools.render.table import Table
    from rocktools.workspace.programs import FoundProgram


_SCHEMA = "rocktools.hlo/1"
_SHOWN = (
    *("instruction", "opcode", "fusion_kind", "custom_call_target", "shape", "phase", "scope", "calls_count"),
    *("compute_flop", "read_bytes", "written_bytes", "payload_bytes"),
)
# What a narrow terminal may lose, the most important first.
_OPTIONAL = (
    *("scope", "calls_count", "compute_flop", "read_bytes", "written_bytes", "phase", "opcode", "custom_call_target"),
    *("fusion_kind", "payload_bytes", "shape"),
)
_OPTIONAL_OF_PROGRAMS = (
    *("instructions_count", "fusions_count", "is_complete", "collectives_count", "custom_calls_count", "thunks_count"),
    "path",  # the last one: see _programs_table
)
_OPTIONAL_OF_KINDS = (
    *("executions_count", "compute_flop", "read_bytes", "written_bytes", "payload_bytes", "unknown_count"),
    *("computation", "scope", "body_count"),
)
_PARTS = ("program", "kinds", "loops")
_SORTS = {
    "program": None,
    "flop": "compute_flop",
    "bytes": "read_bytes",
    "payload": "payload_bytes",
    "calls": "calls_count",
}

_file = click.argument("path", metavar="FILE", type=str)
_instruction = click.argument("name", metavar="INSTRUCTION", type=str)
_program_option = click.option(
    "--program",
    "program_name",
    metavar="NAME",
    help="Which program, by name or id, where FILE holds several (a JAX profile, a folder of dumps).",
)


@click.group("hlo")
def command() -> None:
    """What a compiled program says: instructions, scopes, loops, estimates of cost.

    FILE is optimized HLO text, an HLO proto (*.hlo.pb), either of them gzipped, a JAX profile (*.xplane.pb), a folder
    that XLA dumped to, or a run directory.
    """


@command.command("info", short_help="Programs, kinds of instructions and loops.")
@_file
@_program_option
@click.option(
    "--part",
    type=click.Choice(_PARTS),
    help="One part only of one program, as a table of its own.  [default: everything; kinds for csv and parquet]",
)
@table_options(top_count=40)
def info(path: str, program_name: str | None, part: str | None, output: TableOutput) -> int:
    """What is in FILE: the programs, or of one program its kinds of instructions and its loops.

    Amounts are of one run of the program, loops unrolled by their known trip counts; FLOPs and bytes are estimates from
    the shapes of the program, not measurements.
    """
    from rocktools.workspace.programs import choose_program, find_programs

    found = find_programs(path)
    if program_name is None and part is None and len(found.programs) > 1:
        findings = [*found.findings, *(each for one in found.programs for each in one.program.module.findings)]
        title = f"{count_noun(len(found.programs), 'program')} in {path}; --program NAME looks into one"
        emit_table(_programs_table(found.programs, output, title, where=path), output, findings=findings)
    else:
        chosen = choose_program(found, program_name, where=path)
        findings = [*found.findings, *chosen.program.module.findings]
        if part is not None or output.table_format in (TableFormat.CSV, TableFormat.PARQUET):
            emit_table(_part_table(chosen, part or "kinds", output), output, findings=findings)
        else:
            tables = [_part_table(chosen, name, output) for name in _PARTS]
            if output.table_format is TableFormat.TABLE:  # a program without loops has no table of them
                tables = [tables[0], *(table for table in tables[1:] if len(table.frame))]
            head = {"findings": [finding.as_dict() for finding in findings]}
            emit_tables(tables, output, schema=_SCHEMA, head=head)
    emit_findings(findings)
    return exit_code_of(findings)


@command.command("list", short_help="Instructions, with scope, phase and estimated cost.")
@_file
@_program_option
@match_option("instructions whose name, op_name or custom-call target has")
@click.option("--opcode", metavar="OPCODE", help="Only this opcode: fusion, custom-call, dot, all-gather-start, ...")
@click.option("--computation", metavar="NAME", help="Only instructions of this computation.")
@click.option("--all", "is_all", is_flag=True, help="Also what launches nothing, and the insides of fusions.")
@click.option(
    "--sort",
    type=click.Choice(list(_SORTS)),
    default="program",
    show_default=True,
    help="Order of the rows: as in the program, or the largest first, all executions together.",
)
@columns_option
@table_options(top_count=40)
def list_instructions(
    path: str,
    program_name: str | None,
    match: str | None,
    opcode: str | None,
    computation: str | None,
    is_all: bool,
    sort: str,
    columns: tuple[str, ...] | None,
    output: TableOutput,
) -> int:
    """Every instruction that may launch something, one row each, with scope, phase and estimated cost.

    FLOPs and bytes are of one execution, estimated from the shapes of the program; calls are the executions in one run.
    """
    from rocktools.frames import INSTRUCTIONS
    from rocktools.hlo.instructions import build_instructions
    from rocktools.hlo.program_summary import is_launched, launched_computations

    shown = INSTRUCTIONS.select(columns) if columns is not None else INSTRUCTIONS.names
    regex = None if match is None else _regex(match)
    module = _one_program(path, program_name).program.module
    if computation is not None and computation.removeprefix("%") not in module.computations:
        raise _unknown("computation", computation.removeprefix("%"), module.computations)
    computation = None if computation is None else computation.removeprefix("%")
    frame = build_instructions(module)
    launched = launched_computations(module)
    names = {each.name for each in module.instructions.values() if is_all or is_launched(each, launched)}
    chosen = frame[frame["instruction"].astype(str).isin(names) | (frame["computation"] == computation)]
    for column, wanted in (("opcode", opcode), ("computation", computation)):
        if wanted is not None:
            chosen = chosen[chosen[column] == wanted]
    if regex is not None:
        chosen = chosen[_matching(chosen, regex)]
    chosen = _sorted_by(chosen, sort)
    findings = [*module.findings, *(_nothing_listed(module, opcode) if chosen.empty else ())]
    if columns is None and output.table_format is TableFormat.TABLE:
        shown = tuple(name for name in _SHOWN if chosen.empty or chosen[name].notna().any())
    optional = () if columns is not None else tuple(dict.fromkeys([_SORTS[sort] or _OPTIONAL[0], *_OPTIONAL]))
    others = "" if is_all else "; --all lists what launches nothing, too"
    title = f"{module.name}: {len(chosen):,} of {count_noun(len(frame), 'instruction')}{others}"
    emit_table(_table(chosen[list(shown)], INSTRUCTIONS, title, optional), output, findings=findings)
    emit_findings(findings)
    return exit_code_of(findings)


@command.command("show", short_help="One instruction or computation, with all about it.")
@_file
@_instruction
@_program_option
def show(path: str, name: str, program_name: str | None) -> int:
    """One instruction or computation: its text, where it comes from, what it costs, who uses it, what it calls."""
    from rocktools.hlo.description import render_description
    from rocktools.hlo.printing import render_computation

    program = _one_program(path, program_name).program
    module = program.module
    wanted = name.removeprefix("%")
    if wanted in module.instructions:
        click.echo(render_description(program, module.instructions[wanted]))
    elif wanted in module.computations:
        click.echo(render_computation(module.computations[wanted]))
    else:
        raise _unknown("instruction or computation", wanted, [*module.instructions, *module.computations])
    emit_findings(module.findings)
    return exit_code_of(module.findings)


@command.command("grep", short_help="Instructions whose text has a match.")
@_file
@click.argument("pattern", metavar="REGEX", type=str)
@_program_option
@click.option("-i", "--ignore-case", is_flag=True, help="Upper and lower case are the same.")
@click.option("--count", "is_count", is_flag=True, help="Only how many instructions match.")
def grep(path: str, pattern: str, program_name: str | None, ignore_case: bool, is_count: bool) -> int:
    """Instructions whose text has a match, as COMPUTATION: TEXT. Exit code 1 if there is none.

    The text is that of `rocktools hlo show`: name, shape, opcode, operands, attributes, op_name, source line.
    """
    from rocktools.errors import EXIT_FAILURE
    from rocktools.hlo.printing import render_instruction

    module = _one_program(path, program_name).program.module
    regex = _regex(f"(?i:{pattern})" if ignore_case else pattern)
    matches = 0
    for instruction in module.instructions.values():
        text = render_instruction(instruction)
        if regex.search(text):
            matches += 1
            if not is_count:
                click.echo(f"{instruction.computation}: {text}")
    if is_count:
        click.echo(str(matches))
    emit_findings(module.findings)
    return exit_code_of(module.findings) if matches else EXIT_FAILURE


@command.command("callers", short_help="The way from an instruction up to the entry.")
@_file
@_instruction
@_program_option
def callers(path: str, name: str, program_name: str | None) -> int:
    """The way from an instruction or computation up to the entry: fusions, loops with their trip counts, calls."""
    from rocktools.hlo.description import render_callers

    module = _one_program(path, program_name).program.module
    wanted = name.removeprefix("%")
    if wanted not in module.instructions and wanted not in module.computations:
        raise _unknown("instruction or computation", wanted, [*module.instructions, *module.computations])
    click.echo(render_callers(module, wanted))
    emit_findings(module.findings)
    return exit_code_of(module.findings)


def _one_program(path: str, name: str | None) -> FoundProgram:
    """The program that is meant.

    Raises:
        UsageError: there are several and none was named, or none has the name.
    """
    from rocktools.workspace.programs import choose_program, find_programs

    return choose_program(find_programs(path), name, where=path)


def _programs_table(programs: Sequence[FoundProgram], output: TableOutput, title: str, *, where: str) -> Table:
    from rocktools.frames import PROGRAMS
    from rocktools.workspace.programs import list_programs

    frame = list_programs(programs, run=where).drop(columns="run")
    optional = list(_OPTIONAL_OF_PROGRAMS)
    if output.table_format is TableFormat.TABLE:
        ids, names = (frame[name].astype(str) for name in ("program_id", "hlo_module"))
        if frame.duplicated(["program_id", "hlo_module"]).any():
            optional.insert(0, optional.pop())  # nothing but the path tells them apart
        says_nothing = {
            "program_id": bool((ids == names).all()),
            "thunks_count": bool(frame["thunks_count"].isna().all()),
            "is_complete": bool(frame["is_complete"].all()),
            "path": frame["path"].nunique() < 2,
        }
        frame = frame.assign(path=[_below(each.path, where) for each in programs])
        frame = frame.drop(columns=[name for name, is_so in says_nothing.items() if is_so])
    return _table(frame, PROGRAMS, title, optional)


def _below(path: Path, where: str) -> str:
    return str(path.relative_to(where)) if path.is_relative_to(where) else str(path)


def _part_table(found: FoundProgram, part: str, output: TableOutput) -> Table:
    """One part of what is said about one program; for people without the columns that say nothing."""
    from rocktools.hlo.instructions import build_instructions
    from rocktools.hlo.program_summary import KINDS, LOOPS, summarize_kinds, summarize_loops

    module = found.program.module
    if part == "program":
        return _programs_table([found], output, f"program {module.name}", where=str(found.path))
    instructions = build_instructions(module)
    if part == "loops":
        spec, frame, title = LOOPS, summarize_loops(module, instructions), "loops"
    else:
        spec, frame = KINDS, summarize_kinds(module, instructions)
        title = "launched instructions; amounts are of one run"
        if module.entry is None:
            title = "instructions of the part that was read; how often they run is in the part that is missing"
    if output.table_format is TableFormat.TABLE and len(frame):
        says_nothing = [name for name in frame.columns if frame[name].isna().all()]
        if part == "kinds" and (module.entry is None or not frame["unknown_count"].any()):
            says_nothing.append("unknown_count")
        frame = frame.drop(columns=says_nothing)
    return _table(frame, spec, title, _OPTIONAL_OF_KINDS)


def _table(frame: pd.DataFrame, spec: FrameSpec, title: str, optional_columns: Sequence[str] = ()) -> Table:
    from rocktools.evidence import Evidence
    from rocktools.render.table import table_from_spec

    return table_from_spec(
        frame,
        spec,
        evidence=Evidence.COMPILER_ESTIMATE,
        title=title,
        is_simulated=False,
        optional_columns=optional_columns,
    )


def _sorted_by(frame: pd.DataFrame, sort: str) -> pd.DataFrame:
    """The largest amount first, all executions together; what is not known comes last."""
    column = _SORTS[sort]
    if column is None:
        return frame
    amount = frame[column] if sort == "calls" else frame[column] * frame["calls_count"]
    return frame.loc[amount.astype("float64").fillna(-1).sort_values(ascending=False, kind="stable").index]


def _nothing_listed(module: HloModule, opcode: str | None) -> Iterator[Finding]:
    """What to say where no instruction was chosen."""
    from rocktools.findings import Finding, Severity

    opcodes = sorted({each.opcode for each in module.instructions.values()})
    advice = "--all lists the insides of fusions too"
    if opcode is not None and opcode not in opcodes:
        near = nearest_names(opcode, opcodes)
        advice = f"opcodes of {'a similar name' if near else 'the program'}: {', '.join(near or opcodes)}"
    yield Finding(
        rule="no-instruction-matched",
        severity=Severity.WARNING,
        where=module.source,
        message=f"none of {count_noun(len(module.instructions), 'instruction')} is what the options ask for",
        numbers={"instructions_count": len(module.instructions)},
        advice=advice,
    )


def _matching(frame: pd.DataFrame, regex: re.Pattern[str]) -> list[bool]:
    columns = [frame[name].astype(object).fillna("") for name in ("instruction", "op_name", "custom_call_target")]
    return [any(regex.search(str(text)) for text in texts) for texts in zip(*columns, strict=True)]


def _regex(pattern: str) -> re.Pattern[str]:
    try:
        return re.compile(pattern)
    except re.error as error:
        raise UsageError("bad-regex", f"{pattern!r} is not a regex: {error}") from error


def _unknown(what: str, name: str, known: Iterable[str]) -> UsageError:
    near = nearest_names(name, known)
    return UsageError(
        "unknown-computation" if what == "computation" else "unknown-instruction",
        f"the program has no {what} {name!r}",
        hint=", ".join(near) if near else "rocktools hlo list FILE --all --columns computation lists them",
    )
