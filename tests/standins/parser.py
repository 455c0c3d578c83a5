"""argparse made from the table of options, with the corners that users of rocprofv3 meet.

What argparse refuses (an option it does not know, a choice that is none, a missing value) ends in usage on stderr and
code 2. A bool takes its value in an action, not in a type, so a word that is no truth value is an uncaught ValueError:
a traceback and code 1. This is what a forgotten `--` looks like, since the application becomes the option's value.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Any

from standins.options_table import NO, YES, Option, options_of
from standins.versions import SdkVersion


def parse_truth(word: str) -> bool:
    """A truth value. Raises ValueError for any other word."""
    if word.lower() in YES:
        return True
    if word.lower() in NO:
        return False
    raise ValueError(f"invalid truth value {word}")


class _TruthAction(argparse.Action):
    def __call__(
        self, parser: object, namespace: argparse.Namespace, values: Any, option_string: object = None
    ) -> None:
        setattr(namespace, self.dest, values if isinstance(values, bool) else parse_truth(values))


def split_application(arguments: Sequence[str]) -> tuple[list[str], list[str]]:
    """The tool's own arguments and the application: what follows the first `--`."""
    if "--" not in arguments:
        return list(arguments), []
    at = list(arguments).index("--")
    return list(arguments[:at]), list(arguments[at + 1 :])


def build_parser(version: SdkVersion) -> argparse.ArgumentParser:
    """The parser of one release."""
    parser = argparse.ArgumentParser(
        prog="rocprofv3",
        description="Stand-in for the ROCm profiler's command line.",
        usage="%(prog)s [options] -- <application> [application options]",
        allow_abbrev=False,
    )
    groups: dict[str, Any] = {}
    for option in options_of(version):
        group = groups.setdefault(option.group, None) or parser.add_argument_group(f"{option.group} options")
        groups[option.group] = group
        group.add_argument(*option.flags, **_arguments(option))
    return parser


def _arguments(option: Option) -> dict[str, Any]:
    word = option.dest.rpartition("_")[2].upper()
    arguments: dict[str, Any] = {
        "dest": option.dest,
        "default": option.default,
        "help": argparse.SUPPRESS if option.is_hidden else f"{option.group.lower()}: {option.dest.replace('_', ' ')}",
    }
    if option.form == "flag":
        return {**arguments, "action": "store_true", "default": False}
    arguments["metavar"] = "BOOL" if option.form == "bool" else word
    if option.form == "bool":
        return {**arguments, "action": _TruthAction, "nargs": "?", "const": True}
    if option.choices:
        arguments.update(choices=option.choices, type=str.lower)
        del arguments["metavar"]
    if option.form in ("int", "float"):
        arguments["type"] = int if option.form == "int" else float
    elif option.form in ("some", "any", "counters"):
        arguments["nargs"] = "+" if option.form == "some" else "*"
    if option.form == "counters":
        arguments["action"] = "append"
    return arguments
