"""`rocktools capture-operands`: the real operands of an instruction, from the whole program run on the CPU."""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import click

from rocktools.cli.output import emit_findings, exit_code_of
from rocktools.errors import UsageError

_ITERATION = re.compile(r"\d+(?:/\d+)*")


@click.command("capture-operands")
@click.argument("source", metavar="SOURCE", type=str)
@click.option("--instruction", metavar="NAME", required=True, help="The HLO instruction whose operands to record.")
@click.option(
    "--iteration",
    metavar="N[/N...]",
    help="Which iteration of the enclosing loops, from outside in, each from 0.  [default: the first execution]",
)
@click.option(
    "--arguments",
    metavar="DIR",
    type=click.Path(path_type=Path, exists=True, file_okay=False),
    help="Folder with the arguments of the program: argument0.npy, argument1.npy, ...; those that are missing are made "
    "up, as for a replay.",
)
@click.option(
    "--program", "program_name", metavar="NAME", help="Which program, by name or id, where SOURCE has several."
)
@click.option(
    "-o",
    "--output",
    "folder",
    metavar="DIR",
    required=True,
    type=click.Path(path_type=Path),
    help="Folder to make: operand0.npy, ..., result0.npy, ..., operands.json.",
)
def command(
    source: str,
    instruction: str,
    iteration: str | None,
    arguments: Path | None,
    program_name: str | None,
    folder: Path,
) -> int:
    """Run a whole optimized program on the CPU, and record what one instruction reads and makes.

    For small jobs of one device: every instruction is run as lax code, loops in Python. The folder is what `--inputs`
    of a replay takes. Needs jax.

    SOURCE is an HLO proto (*.hlo.pb), optimized HLO text, a JAX profile (*.xplane.pb), a folder that XLA dumped to, or
    a run directory.
    """
    from rocktools.replay.interpreter import capture_operands, make_arguments, write_operands
    from rocktools.replay.proto_edit import parse_program_proto, parse_text_program
    from rocktools.units import count_noun
    from rocktools.workspace.extraction import read_program_content
    from rocktools.workspace.programs import choose_program, find_programs

    if iteration is not None and not _ITERATION.fullmatch(iteration):
        raise UsageError(
            "iteration-unreadable", f"{iteration!r} is no iteration", hint="--iteration 3, --iteration 0/17"
        )
    path = None if iteration is None else tuple(int(number) for number in iteration.split("/"))
    found = find_programs(source)
    program = choose_program(found, program_name, where=source)
    module = program.program.module
    content = read_program_content(program)
    data = content.proto if content.proto is not None else parse_text_program(content.text, str(program.path))
    proto = parse_program_proto(data, str(program.path))
    values = make_arguments(module, arguments, module.name)
    with _cpu_alone():
        captured = capture_operands(module, proto, instruction, values, iterations=path)
    write_operands(captured, folder)
    counts = (count_noun(len(captured.operands), "operand"), count_noun(len(captured.results), "result"))
    where = f"iteration {'/'.join(map(str, captured.iterations))}, " if captured.iterations else ""
    executions = count_noun(captured.executions_count, "execution")
    click.echo(f"{folder}: {' and '.join(counts)} of {captured.instruction.name}, {where}one of {executions}")
    emit_findings(found.findings)
    return exit_code_of(found.findings)


@contextmanager
def _cpu_alone() -> Iterator[None]:
    """jax looks for no GPU, whose memory it would take, and does not tell, with a traceback, that it found none."""
    logger, given = logging.getLogger("jax._src.xla_bridge"), os.environ.get("JAX_PLATFORMS")
    level = logger.level
    logger.setLevel(logging.CRITICAL)
    os.environ["JAX_PLATFORMS"] = "cpu"
    try:
        yield
    finally:
        logger.setLevel(level)
        os.environ.pop("JAX_PLATFORMS")
        if given is not None:
            os.environ["JAX_PLATFORMS"] = given
