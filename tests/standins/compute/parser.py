"""argparse made from the table of options; what follows the first `--` is the application, as with the real ones."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Any

from standins.compute.options_table import Option, options_of
from standins.compute.releases import Release

MODES = ("profile", "analyze")
_NARGS: dict[str, str] = {"some": "+", "any": "*", "each": "+", "maybe": "?"}


def build_parser(release: Release) -> argparse.ArgumentParser:
    """The parser of one release."""
    parser = argparse.ArgumentParser(prog="rocprof-compute", allow_abbrev=False)
    parser.add_argument("-v", "--version", action="store_true")
    parser.add_argument("-s", "--specs", action="store_true")
    modes = parser.add_subparsers(dest="mode")
    for mode in MODES:
        one = modes.add_parser(mode, allow_abbrev=False)
        for option in options_of(release, mode):
            one.add_argument(*option.flags, **_arguments(option))
        if mode == "profile":
            one.add_argument("remaining", nargs=argparse.REMAINDER)
    return parser


def parse_arguments(release: Release, arguments: Sequence[str]) -> argparse.Namespace:
    """What a command line means; `remaining` is the application, without its `--`. Exits with 2 where it is refused."""
    parser = build_parser(release)
    options = parser.parse_args(list(arguments))
    if options.mode is not None:
        gated = {option.dest: option.flags[0] for option in options_of(release, options.mode) if option.is_experimental}
        used = [flag for dest, flag in gated.items() if getattr(options, dest) not in (None, False)]
        if used and not options.experimental:
            parser.error(f"{used[0]} needs --experimental")
    if options.mode == "profile":
        words = options.remaining
        options.remaining = words[1:] if words[:1] == ["--"] else words
    return options


def _arguments(option: Option) -> dict[str, Any]:
    arguments: dict[str, Any] = {"dest": option.dest}
    if option.form == "flag":
        return {**arguments, "action": "store_true"}
    if option.choices:
        arguments["choices"] = option.choices
    if option.form in _NARGS:
        arguments["nargs"] = _NARGS[option.form]
    if option.form == "each":
        arguments["action"] = "append"
    if option.form == "maybe":
        arguments["const"] = option.choices[0] if option.choices else True
    return arguments
