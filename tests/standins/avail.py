"""rocprofv3-avail: lists the counters of the made-up devices and says whether a group fits one pass.

`-d` belongs to the tool and must come before the subcommand; after it, argparse refuses it with code 2. Results go to
stdout, `Fatal error:` lines to stderr with code 1.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NoReturn

from standins.application import FAULT_VARIABLE, SCENARIO_VARIABLE
from standins.device import Counter, fits_one_pass, load_counters
from standins.faults import Faults, parse_faults
from standins.parser import parse_truth
from standins.scenario import Scenario, load_scenario
from standins.session import end_process, hang, log_call
from standins.versions import REPEATED_PMC_IS_PASSES, SPM_FACT_LISTED, Release

LIBRARY_VARIABLE = "ROCPROF_LIST_AVAIL_TOOL_LIBRARY"

_WIDTH = 120


def main(arguments: Sequence[str], release: Release, rocm_root: Path) -> None:
    """Run rocprofv3-avail; never returns normally."""
    log_call("rocprofv3-avail", arguments)
    parser = _build_parser(release)
    if not arguments:
        parser.print_help()
        end_process(0)
    options = parser.parse_args(arguments)
    faults = Faults(parse_faults(os.environ.get(FAULT_VARIABLE, "")))
    _misbehave(faults)
    _load_library(faults, rocm_root)
    scenario = load_scenario(os.environ.get(SCENARIO_VARIABLE))
    devices = _Devices(scenario, release, options.device, faults)
    if "avail-empty" in faults:
        end_process(0)
    if options.command == "list":
        devices.print_list(options)
    elif options.command == "info":
        devices.print_info(options.pmc)
    elif options.command == "pmc-check":
        devices.check_group(options.counters)
    else:
        parser.print_help()
    end_process(0)


def _build_parser(release: Release) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="rocprofv3-avail", allow_abbrev=False)
    parser.add_argument("-d", "--device", type=int, default=None, help="GPU, by its number")
    commands = parser.add_subparsers(dest="command")
    listing = commands.add_parser("list", allow_abbrev=False, help="names")
    info = commands.add_parser("info", allow_abbrev=False, help="what each counter is")
    check = commands.add_parser("pmc-check", allow_abbrev=False, help="whether counters fit one pass")
    flags = ["--pmc", "--agent", "--pc-sampling"]
    if release.number >= SPM_FACT_LISTED:
        flags += ["--spm", "--spm-config"]
    for flag in flags:
        listing.add_argument(flag, nargs="?", const=True, default=None, type=parse_truth)
    for flag in flags:
        if flag in ("--pmc", "--spm"):
            info.add_argument(flag, nargs="*", default=None)
        elif flag != "--agent":
            info.add_argument(flag, nargs="?", const=True, default=None, type=parse_truth)
    check.add_argument("counters", nargs="*")
    return parser


def _misbehave(faults: Faults) -> None:
    if "avail-crash" in faults:
        end_process(-signal.SIGSEGV)
    if "avail-slow" in faults:
        time.sleep(float(faults.argument("avail-slow", "1")))
    if "avail-hang" in faults:
        hang()


def _load_library(faults: Faults, rocm_root: Path) -> None:
    """The unversioned library, or the one that a variable names.

    Raises:
        OSError: it is not there. A traceback, and code 1.
    """
    named = os.environ.get(LIBRARY_VARIABLE)
    library = Path(named) if named else rocm_root / "lib" / "rocprofiler-sdk" / "librocprofv3-list-avail.so"
    is_hidden = "avail-missing-lib" in faults and library.name.endswith(".so")
    if is_hidden or not library.exists():
        raise OSError(f"{library}: cannot open shared object file: No such file or directory")


def _fatal(text: str) -> NoReturn:
    print(f"Fatal error: {text}", file=sys.stderr, flush=True)
    sys.exit(1)


class _Devices:
    """The GPUs that a command is about: all of them, or the one of `-d`."""

    def __init__(self, scenario: Scenario, release: Release, device: int | None, faults: Faults) -> None:
        self._scenario = scenario
        self._smaller = faults.argument("small-block")
        self._release = release
        self._counters: Mapping[str, Counter] = {
            name: counter
            for name, counter in load_counters(scenario.architecture).items()
            if name not in scenario.unknown_counters
        }
        self._numbers = list(range(scenario.agents_count)) if device is None else [self._require_device(str(device))]

    def _require_device(self, text: str) -> int:
        if not text.isdigit() or int(text) >= self._scenario.agents_count:
            _fatal(f"Invalid device id : {text}")
        return int(text)

    def print_list(self, options: argparse.Namespace) -> None:
        """Names in columns, GPU by GPU."""
        asked = [name for name in ("pmc", "agent", "pc_sampling", "spm", "spm_config") if getattr(options, name, None)]
        for number in self._numbers:
            print(f"{'GPU':<30}:\t{number}")
            print(f"{'Name':<30}:\t{self._scenario.architecture}")
            if asked and "pmc" not in asked:
                continue
            print(f"{'pmc' if self._release.number >= REPEATED_PMC_IS_PASSES else 'PMC':<30}:\n")
            for line in _in_columns(list(self._counters)):
                print(line)
            print("\n")

    def print_info(self, names: Sequence[str] | None) -> None:
        """What each counter is; names that the device does not have are left out without a word."""
        for number in self._numbers:
            print(f"GPU:{number}")
            print(f"Name:{self._scenario.architecture}")
            for name, counter in self._counters.items():
                if not names or name in names:
                    self._print_counter(counter)

    def _print_counter(self, counter: Counter) -> None:
        rows = [("Counter_Name", counter.name), ("Description", f"{counter.name} of a stand-in")]
        if not counter.is_constant:
            rows.append(("Block", counter.block) if counter.block else ("Expression", counter.expression))
            if counter.block and self._release.number >= SPM_FACT_LISTED:
                rows.append(("SPM", "Not Supported"))
            rows.append(("Dimensions", counter.dimensions))
        for key, value in rows:
            print(f"{key:<20}:\t{value}")
        print("\n")

    def check_group(self, words: Sequence[str]) -> None:
        """Whether the counters fit one pass, on each GPU that they are meant for; the first that fails ends it."""
        if not words:
            _fatal("Provide counter to check")
        groups: dict[int, list[str]] = {}
        for word in words:
            name, _, place = word.partition(":")
            if name not in self._counters:
                _fatal("Invalid counter name")
            devices = [part.partition("=")[2] for part in place.split(",")] if place else []
            numbers = [self._require_device(part) for part in devices] or self._numbers
            for number in numbers:
                groups.setdefault(number, []).append(name)
        for names in groups.values():
            if not fits_one_pass(names, self._counters, self._smaller):
                _fatal(f"{' '.join(names)} not collected on agent {self._scenario.architecture}")
        for number, names in groups.items():
            print(f"Following input counters can be collected together on GPU:{number}\t" + "\t".join(names))


def _in_columns(names: Sequence[str]) -> list[str]:
    width = max(map(len, names), default=0) + 1
    per_line = max(_WIDTH // width, 1)
    return [
        "".join(f"{name:<{width}}" for name in names[first : first + per_line])
        for first in range(0, len(names), per_line)
    ]
