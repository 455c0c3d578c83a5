"""The commands -> docs/reference/cli.md, from their options and help texts.

Not from what `--help` prints, whose wrapping and wording differ between versions of click.
"""

from __future__ import annotations

import importlib.util
import inspect
import re
import textwrap
from collections.abc import Iterator

import click
from docs_markdown import code, page, prose

from rocktools.cli.main import COMMANDS
from rocktools.cli.main import command as rocktools

_AS_IT_STANDS = "\b"  # click's mark for a paragraph that is not wrapped
_DEFAULT_IN_HELP = re.compile(r"\s*\[default: (.*)\]$")


def commands() -> Iterator[tuple[str, click.Command]]:
    """Every command with its full name, groups before what is in them, in the order of `rocktools --help`.

    A command that stands in the table before its module is there has nothing to be described yet.
    """
    yield from _below("rocktools", rocktools)


def render_commands() -> str:
    """The page."""
    introduction = (
        "What every command takes and does. Results go to standard output or to the file after `-o`, findings to\n"
        "standard error. `-h` and `--help` work on every command. See also [exit codes and errors](exit-codes.md),\n"
        "[findings](findings.md) and [the columns of every table](frames.md)."
    )
    lines: list[str] = []
    for name, command in commands():
        lines += _section(name, command)
    return page("Commands", introduction, lines)


def _below(name: str, command: click.Command) -> Iterator[tuple[str, click.Command]]:
    yield name, command
    if isinstance(command, click.Group):
        context = click.Context(command, info_name=name)
        for inner in command.list_commands(context):
            if command is rocktools and importlib.util.find_spec(COMMANDS[inner][0]) is None:
                continue
            found = command.get_command(context, inner)
            if found is not None and not found.hidden:
                yield from _below(f"{name} {inner}", found)


def _section(name: str, command: click.Command) -> list[str]:
    lines = ["", f"{'##' if name.count(' ') < 2 else '###'} {name}", "", "```text", _usage(name, command), "```", ""]
    # Python before 3.13 leaves the indentation of a docstring to whoever shows it.
    for paragraph in inspect.cleandoc(command.help or "").split("\n\n"):
        if paragraph.startswith((_AS_IT_STANDS, "    ")):
            example = textwrap.dedent(paragraph.removeprefix(_AS_IT_STANDS)).strip("\n")
            lines += ["```text", *example.splitlines(), "```", ""]
        else:
            lines += [prose(paragraph), ""]
    lines += [_option(one) for one in command.params if isinstance(one, click.Option) and not one.hidden]
    if command.epilog:
        lines += ["", prose(command.epilog)]
    return lines


def _usage(name: str, command: click.Command) -> str:
    words = [name]
    if any(isinstance(one, click.Option) for one in command.params):
        words.append("[OPTIONS]")
    words += [one.metavar or (one.name or "").upper() for one in command.params if isinstance(one, click.Argument)]
    if isinstance(command, click.Group):
        words.append("COMMAND ...")
    return " ".join(words)


def _option(option: click.Option) -> str:
    help_text = " ".join((option.help or "").split())
    default = _DEFAULT_IN_HELP.search(help_text)
    sentences = [prose(_DEFAULT_IN_HELP.sub("", help_text))]
    if isinstance(option.type, (click.IntRange, click.FloatRange)):
        sentences += _bounds(option.type)
    if option.required:
        sentences.append("Required.")
    if default is not None:
        sentences.append(f"Default: {prose(default.group(1))}.")
    elif option.show_default is True:
        sentences.append(f"Default: {code(str(option.default))}.")
    names = ", ".join([*option.opts, *option.secondary_opts])
    return f"- {code(f'{names} {_value(option)}'.rstrip())}: {' '.join(sentences)}"


def _bounds(numbers: click.IntRange | click.FloatRange) -> list[str]:
    sentences = []
    if numbers.min is not None:
        sentences.append(f"{'More than' if numbers.min_open else 'At least'} {numbers.min:g}.")
    if numbers.max is not None:
        sentences.append(f"{'Less than' if numbers.max_open else 'At most'} {numbers.max:g}.")
    return sentences


def _value(option: click.Option) -> str:
    if option.is_flag:
        return ""
    if option.metavar:
        return option.metavar
    if isinstance(option.type, click.Choice):
        return "|".join(str(choice) for choice in option.type.choices)
    return "N" if isinstance(option.type, click.types.IntParamType) else "TEXT"
