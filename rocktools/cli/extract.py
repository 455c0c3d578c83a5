"""`rocktools extract`: one kernel of a job as a small program of its own."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from rocktools.cli.output import emit_findings, exit_code_of
from rocktools.cli.progress import working
from rocktools.errors import CannotExtract, UsageError

if TYPE_CHECKING:
    from rocktools.findings import Finding
    from rocktools.replay.extract import JobProgram, Replay
    from rocktools.replay.select import Selection
    from rocktools.workspace.programs import FoundProgram, FoundPrograms

_LISTED = 6


@click.command("extract")
@click.argument("source", metavar="SOURCE", type=str)
@click.option("--kernel", metavar="NAME", help="The kernel, as profilers show it; its first instruction is taken.")
@click.option("--instruction", metavar="NAME", help="The HLO instruction, as `rocktools hlo list` names it.")
@click.option(
    "--from-ledger",
    "ranked",
    metavar="PATH",
    type=str,
    help="The instructions that took most time in this trace, profile or run directory.",
)
@click.option(
    "--top", metavar="N", type=click.IntRange(min=1), default=10, show_default=True, help="How many of --from-ledger."
)
@click.option(
    "--program", "program_name", metavar="NAME", help="Which program, by name or id, where SOURCE has several."
)
@click.option(
    "--import",
    "modules",
    metavar="MODULE",
    multiple=True,
    help="Python module that registers the target of the custom call; may be repeated.",
)
@click.option(
    "-o",
    "--output",
    "folder",
    metavar="DIR",
    required=True,
    type=click.Path(path_type=Path),
    help="Folder to make; with --from-ledger, one folder in it for each instruction.",
)
def command(
    source: str,
    kernel: str | None,
    instruction: str | None,
    ranked: str | None,
    top: int,
    program_name: str | None,
    modules: tuple[str, ...],
    folder: Path,
) -> int:
    """Take one kernel out of a job: a folder with a program of that one instruction, scripts that run it, and inputs.

    The folder needs Python, jax and the PJRT plugin to run, and nothing of rocktools. replay.py is the exact form: the
    instruction as the job compiled it. replay_jax.py is the same computation to read and edit.

    SOURCE is an HLO proto (*.hlo.pb), optimized HLO text, a JAX profile (*.xplane.pb), a folder that XLA dumped to, or
    a run directory. The proto of a dump is best: it has the buffer assignment, and the thunk sequence lies beside it.
    """
    from rocktools.workspace.programs import find_programs

    if sum(each is not None for each in (kernel, instruction, ranked)) != 1:
        raise UsageError("nothing-to-extract", "one of --kernel, --instruction and --from-ledger is needed")
    found = find_programs(source)
    if ranked is not None:
        findings = _extract_ranked(found, source, ranked, top, modules, folder)
    else:
        job, selection = _select(found, source, program_name, kernel=kernel, instruction=instruction)
        findings = _extract(job, selection, modules, folder)
    findings = [*found.findings, *findings]
    emit_findings(findings)
    return exit_code_of(findings)


def _select(
    found: FoundPrograms, source: str, program_name: str | None, *, kernel: str | None, instruction: str | None
) -> tuple[JobProgram, Selection]:
    """The instruction, in the one program that has it."""
    from rocktools.replay.select import select_instruction, select_kernel
    from rocktools.workspace.programs import choose_program

    programs = found.programs
    if program_name is not None:
        programs = (choose_program(found, program_name, where=source),)
    chosen: list[tuple[int, Selection]] = []
    refusals: list[UsageError] = []
    for place, each in enumerate(programs):
        try:
            if kernel is not None:
                selection = select_kernel(each.program, kernel)
            else:
                selection = select_instruction(each.program, instruction or "")
            chosen.append((place, selection))
        except UsageError as error:
            refusals.append(error)
    if not chosen:
        wanted = f"launches a kernel {kernel!r}" if kernel is not None else f"has an instruction {instruction!r}"
        raise _found_nowhere(refusals, programs, wanted, source)
    if len(chosen) > 1:
        listed = ", ".join(f"{programs[place].name} ({programs[place].program_id})" for place, _ in chosen[:_LISTED])
        raise UsageError(
            "several-programs", f"{len(chosen)} programs have it: {listed}", where=source, hint="--program NAME or ID"
        )
    place, selection = chosen[0]
    return _job(found, programs[place].program_id), selection


def _found_nowhere(
    refusals: Sequence[UsageError], programs: Sequence[FoundProgram], wanted: str, source: str
) -> UsageError:
    """Of one program what it says itself; of several, that none has it, with the names that some have."""
    if len(refusals) == 1:
        return refusals[0]
    names = ", ".join(f"{each.name} ({each.program_id})" for each in programs[:_LISTED])
    more = ", ..." if len(programs) > _LISTED else ""
    hints = dict.fromkeys(error.hint for error in refusals if error.hint)
    return UsageError(
        refusals[0].reference,
        f"none of {len(programs)} programs {wanted}: {names}{more}",
        where=source,
        hint=next(iter(hints), None),
    )


def _job(found: FoundPrograms, program_id: str) -> JobProgram:
    from rocktools.replay.extract import build_job_program
    from rocktools.replay.proto_edit import parse_text_program
    from rocktools.workspace.extraction import read_program_content

    program = next(each for each in found.programs if each.program_id == program_id)
    content = read_program_content(program)
    data = content.proto if content.proto is not None else parse_text_program(content.text, str(program.path))
    return build_job_program(
        program.program, data, str(program.path), versions=content.versions, xla_flags=content.xla_flags
    )


def _extract(job: JobProgram, selection: Selection, modules: Sequence[str], folder: Path) -> list[Finding]:
    from rocktools import __version__
    from rocktools.replay.emit import write_bundle
    from rocktools.replay.extract import build_replay

    replay = build_replay(job, selection, rocktools_version=__version__, modules=modules)
    write_bundle(replay, folder)
    click.echo(_summary(replay, folder))
    return list(replay.findings)


def _summary(replay: Replay, folder: Path) -> str:
    from rocktools.units import count_noun

    spec = replay.spec
    kernel = f"kernel {spec['kernel']}" if spec["kernel"] else f"{spec['kind']}; the name of its kernel is not known"
    readable = "replay.py, replay_jax.py" if replay.readable is not None else f"replay.py ({replay.refusal})"
    return f"{folder}: {spec['instruction']} ({kernel}), {count_noun(len(replay.inputs), 'input')}; {readable}"


def _extract_ranked(
    found: FoundPrograms, source: str, ranked: str, top: int, modules: Sequence[str], folder: Path
) -> list[Finding]:
    """The instructions that took most time, one folder each; those without a replay are named."""
    from rocktools.findings import Finding, Severity
    from rocktools.replay.select import select_instruction
    from rocktools.workspace.extraction import rank_instructions

    with working("ranking instructions"):
        ranking = rank_instructions((ranked,), (source,))
    programs = {each.program_id: each for each in found.programs}
    jobs: dict[str, JobProgram] = {}
    findings = list(ranking.findings)
    made_count = 0
    for each in ranking.instructions:
        if made_count == top:
            break
        if each.program_id not in programs:
            continue
        if each.program_id not in jobs:
            jobs[each.program_id] = _job(found, each.program_id)
        job = jobs[each.program_id]
        try:
            selection = select_instruction(job.program, each.instruction)
            findings += _extract(job, selection, modules, folder / _folder_name(each.instruction))
        except CannotExtract as error:
            findings.append(
                Finding(
                    rule=error.reference,
                    severity=Severity.WARNING,
                    where=each.instruction,
                    message=f"left out: {error.what}",
                    numbers={"total_ns": each.total_ns},
                    advice=error.hint or "",
                )
            )
        else:
            made_count += 1
    if made_count == 0:
        raise CannotExtract("nothing-extracted", "none of the instructions has a replay", where=ranked)
    return findings


def _folder_name(instruction: str) -> str:
    from rocktools.replay.emit import folder_name

    return folder_name(instruction)
