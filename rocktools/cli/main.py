"""The console entry: a table of commands that are imported when they are called, and the one place that renders errors.

`main_inner` raises, `main` renders. Nothing here may import numpy, pandas, jax or rich: `rocktools --help` answers at
once.
"""

from __future__ import annotations

import importlib
import os
import sys
import traceback
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

import click

from rocktools.errors import EXIT_FAILURE, EXIT_GOOD, RocktoolsError, UsageError, nearest_names

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

# Name -> module with a click.Command called `command`, and the line that `rocktools --help` shows for it.
COMMANDS: dict[str, tuple[str, str]] = {
    "info": ("rocktools.cli.info", "What is in a run or a trace: processes, devices, rows."),
    "kernels": ("rocktools.cli.kernels", "Which kernels took the time."),
    "dispatches": ("rocktools.cli.dispatches", "Every kernel execution, one row each."),
    "frame": ("rocktools.cli.frame", "Any frame of the readers, whole or by column."),
    "hlo": ("rocktools.cli.hlo", "What a compiled program holds: instructions, loops."),
    "link": ("rocktools.cli.link", "Which HLO instruction launched each dispatch."),
    "ledger": ("rocktools.cli.ledger", "Where a step's time went, by phase and component."),
    "overlap": ("rocktools.cli.overlap", "What ran at once; which communication is exposed."),
    "gaps": ("rocktools.cli.gaps", "When the devices did nothing, before what, and why."),
    "collectives": ("rocktools.cli.collectives", "What was communicated, how fast, and who waited."),
    "ranks": ("rocktools.cli.ranks", "Devices side by side: which one is late, and why."),
    "memory": ("rocktools.cli.memory", "What programs reserve on a device, and allocate."),
    "explain": ("rocktools.cli.explain", "Why a kernel or instruction is booked where it is."),
    "rules": ("rocktools.cli.rules", "The fault catalogue, and what of it the files show."),
    "metrics": ("rocktools.cli.metrics", "What counters say of a kernel: bytes, FLOPs, ..."),
    "counters": ("rocktools.cli.counters", "Hardware counters and quantities, and what they mean."),
    "roofline": ("rocktools.cli.roofline", "How fast kernels were, and what bounds them."),
    "devices": ("rocktools.cli.devices", "The peaks of each part, and who says so."),
    "model": ("rocktools.cli.model", "What a step should cost, and what it loses."),
    "summarize": ("rocktools.cli.summarize", "One run as one JSON document, with evidence."),
    "report": ("rocktools.cli.report", "A summary to read: Markdown, or one HTML page."),
    "query": ("rocktools.cli.query", "A question to a summary, answered with its numbers."),
    "worksheet": ("rocktools.cli.worksheet", "Each component by two sources: compiler and ROCm."),
    "perfetto": ("rocktools.cli.perfetto", "The trace as a picture, for ui.perfetto.dev."),
    "compare": ("rocktools.cli.compare", "What changed between two runs; is it chance?"),
    "track": ("rocktools.cli.track", "A comparison held against thresholds, for CI."),
    "history": ("rocktools.cli.history", "Tracked comparisons over time."),
    "experiment": ("rocktools.cli.experiment", "A ledger of experiments, one change in each."),
    "bundle": ("rocktools.cli.bundle", "A run in one folder, all tables made again to prove it."),
    "publish": ("rocktools.cli.publish", "A summary as an artifact of Weights & Biases."),
    "crosscheck": ("rocktools.cli.crosscheck", "Our figures beside those of xprof or TraceLens."),
    "doctor": ("rocktools.cli.doctor", "What would make a capture here fail or mislead."),
    "trace": ("rocktools.cli.trace", "Trace a job under rocprofv3, checked before and after."),
    "pmc": ("rocktools.cli.pmc", "Count hardware events of chosen kernels."),
    "extract": ("rocktools.cli.extract", "Take one kernel out of a job, as a program of its own."),
    "capture-operands": ("rocktools.cli.capture_operands", "Record what an instruction reads, on the CPU."),
    "replay": ("rocktools.cli.replay", "Run a replay, and prove that it is the job's kernel."),
    "batch": ("rocktools.cli.batch", "Many kernels under rocprof-compute, one by one."),
    "aot": ("rocktools.cli.aot", "What a JAX program becomes on a GPU, without one."),
    "rocpd": ("rocktools.cli.rocpd", "Recover a damaged rocpd file, or scrub one to share."),
    "demo": ("rocktools.cli.demo", "Make a simulated run to try everything on."),
    "completion": ("rocktools.cli.completion", "The tab key completes commands and options."),
}

COMPLETION_VARIABLE = "_ROCKTOOLS_COMPLETE"

_EPILOG = (
    "Results go to standard output, findings to standard error. "
    "Exit codes: 0 good, 1 failure or interrupted, 2 usage, 3 a gate failed."
)


# How click calls its types, and what whoever typed the value would call them.
_PLAIN_WORDS = {
    "is not a valid integer range.": "is not a whole number.",
    "is not a valid integer.": "is not a whole number.",
    "is not a valid float range.": "is not a number.",
    "is not a valid float.": "is not a number.",
}


@dataclass(slots=True)
class _Session:
    """What the group's options say to whoever renders an error."""

    is_debug: bool = False


class _CommandTable(click.Group):
    """The group of all commands in `COMMANDS`; imports the one that is called."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        command = importlib.import_module(COMMANDS[cmd_name][0]).command
        assert isinstance(command, click.Command)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args[0] not in COMMANDS and ctx.resilient_parsing:
            return None, None, args[1:]
        if args[0] not in COMMANDS:
            near = nearest_names(args[0], COMMANDS)
            raise UsageError(
                "unknown-command",
                f"there is no command {args[0]!r}",
                hint=f"{', '.join(near)}" if near else "rocktools --help lists them",
            )
        return args[0], self.get_command(ctx, args[0]), args[1:]

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Names and lines of the table; options, as click finds them. The group's own would import every command."""
        from click.shell_completion import CompletionItem

        names = [CompletionItem(name, help=line) for name, (_, line) in COMMANDS.items() if name.startswith(incomplete)]
        return [*names, *click.Command.shell_complete(self, ctx, incomplete)]

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, line) for name, (_, line) in COMMANDS.items()])


def _set_debug(context: click.Context, _parameter: click.Parameter, value: bool) -> None:
    context.ensure_object(_Session).is_debug = value


def _print_versions(context: click.Context, _parameter: click.Parameter, value: bool) -> None:
    if not value or context.resilient_parsing:
        return
    from rocktools.cli.versions import version_lines

    click.echo("\n".join(version_lines()))
    context.exit()


@click.command(
    "rocktools",
    cls=_CommandTable,
    epilog=_EPILOG,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 120},
)
@click.option(
    "--debug",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_set_debug,
    help="Show the traceback of errors.",
)
@click.option(
    "--version",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_print_versions,
    help="Show the versions of rocktools and of what it stands on.",
)
def command() -> None:
    """Find out why a JAX training step on AMD Instinct GPUs is slower than it should be."""


def main_inner(arguments: Sequence[str], session: _Session) -> int:
    """Run the command line, or answer a shell that completes one; its exit code. Errors are raised."""
    if instruction := os.environ.get(COMPLETION_VARIABLE):
        from rocktools.cli.completion import answer_shell

        return answer_shell(command, instruction)
    result = command.main(list(arguments), prog_name="rocktools", standalone_mode=False, obj=session)
    return result if isinstance(result, int) else EXIT_GOOD


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and render its errors on standard error; its exit code.

    Args:
        arguments: without the program's name; None: those of the process.
    """
    session = _Session()
    try:
        return main_inner(sys.argv[1:] if arguments is None else arguments, session)
    except (click.Abort, KeyboardInterrupt):
        return _failed(session, "rocktools: interrupted", EXIT_FAILURE)
    except click.ClickException as error:
        return _failed(session, _click_message(error), error.exit_code)
    except RocktoolsError as error:
        return _failed(session, f"rocktools: error: {error}", error.exit_code)
    except SystemExit as leaving:
        # Only click leaves this way, when whoever read our output has closed the pipe.
        _drop_output()
        return leaving.code if isinstance(leaving.code, int) else EXIT_FAILURE
    except Exception as error:
        what = " ".join(str(error).split())
        advice = "run again as `rocktools --debug ...` for the traceback, and report it"
        return _failed(
            session, f"rocktools: internal error: {type(error).__name__}: {what}\n  try: {advice}", EXIT_FAILURE
        )


def _failed(session: _Session, message: str, exit_code: int) -> int:
    if session.is_debug:
        traceback.print_exc()
    with suppress(BrokenPipeError):
        click.echo(message, err=True)
    try:
        if sys.stdout is not None:
            sys.stdout.flush()
    except OSError:
        _drop_output()
    return exit_code


def _click_message(error: click.ClickException) -> str:
    """click's own complaints in our shape."""
    if type(error).__name__ == "NoArgsIsHelpError":  # new in click 8.2; its message is the help itself
        return error.format_message()
    text = error.format_message()
    for words, plain in _PLAIN_WORDS.items():
        text = text.replace(words, plain)
    message = f"rocktools: error: {text}"
    context = error.ctx if isinstance(error, click.UsageError) else None
    return message if context is None else f"{message}\n  try: {context.command_path} --help"


def _drop_output() -> None:
    """Nobody takes it: what is still buffered must not raise again when the interpreter ends."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    for stream in filter(None, (sys.stdout, sys.stderr)):
        with suppress(OSError, ValueError):
            os.dup2(nowhere, stream.fileno())
    os.close(nowhere)


if __name__ == "__main__":
    raise SystemExit(main())
