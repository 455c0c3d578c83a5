"""rocpd: `convert` with the names of files that the real one writes. Other subcommands are parsed and do nothing."""

from __future__ import annotations

import argparse
import contextlib
import csv
import os
import sqlite3
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from standins.application import FAULT_VARIABLE
from standins.faults import Faults, parse_faults
from standins.session import end_process, log_call
from standins.versions import Release

# View -> file, in the names of `rocpd convert` (which are not those of rocprofv3's own CSV).
_CSV_FILES = {
    "rocpd_info_agent": "agent_info",
    "kernels": "kernel_trace",
    "memory_copies": "memory_copy_trace",
    "memory_allocations": "memory_allocation_trace",
    "counters_collection": "counter_collection_trace",
    "scratch_memory": "scratch_memory_trace",
    "regions": "regions_trace",
}
_COMMANDS = ("convert", "query", "summary", "merge", "package")


def main(arguments: Sequence[str], release: Release, rocm_root: Path) -> None:
    """Run rocpd; never returns normally."""
    log_call("rocpd", arguments)
    faults = Faults(parse_faults(os.environ.get(FAULT_VARIABLE, "")))
    if "rocpd-import-error" in faults:
        python = f"python{sys.version_info.major}.{sys.version_info.minor}"
        raise ImportError(f"rocpd was not built for {python}: no {rocm_root}/lib/{python}/site-packages/rocpd")
    parser = _build_parser()
    options = parser.parse_args(arguments)
    if options.command is None:
        parser.print_help()
        end_process(0)
    if options.command == "convert" and "rocpd-nothing" not in faults:
        _convert(options)
    print("Done. Exiting...")
    end_process(0)


def _build_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="rocpd", allow_abbrev=False)
    commands = parser.add_subparsers(dest="command")
    for name in _COMMANDS:
        command = commands.add_parser(name, allow_abbrev=False)
        command.add_argument("-i", "--input", nargs="+", required=True)
        command.add_argument("-d", "--output-path", default=os.environ.get("ROCPD_OUTPUT_PATH", "./rocpd-output-data"))
        command.add_argument("-o", "--output-file", default=os.environ.get("ROCPD_OUTPUT_NAME", "out"))
        if name == "convert":
            formats = ("csv", "pftrace", "perfetto", "otf2")
            command.add_argument("-f", "--output-format", nargs="+", choices=formats, required=True)
            command.add_argument("--kernel-rename", action="store_true")
            command.add_argument("--agent-index-value", choices=("absolute", "relative", "type-relative"))
            command.add_argument("--automerge-limit", type=int, default=1)
            command.add_argument("--start")
            command.add_argument("--end")
            command.add_argument("--group-by-queue", action="store_true")
    return parser


def _convert(options: argparse.Namespace) -> None:
    inputs = [Path(name) for name in options.input]
    for path in inputs:
        if not path.is_file():
            raise FileNotFoundError(2, "No such file or directory", str(path))
    folder = Path(options.output_path)
    folder.mkdir(parents=True, exist_ok=True)
    for name in options.output_format:
        if name == "csv":
            _convert_to_csv(inputs, folder, options.output_file)
        else:
            kind = "pftrace" if name == "perfetto" else name
            (folder / f"{options.output_file}_results.{kind}").write_bytes(b"stand-in")


def _convert_to_csv(inputs: Sequence[Path], folder: Path, name: str) -> None:
    for view, what in _CSV_FILES.items():
        rows = list(_read_view(inputs, view))
        if len(rows) > 1:
            with (folder / f"{name}_{what}.csv").open("w", newline="", encoding="utf-8") as file:
                csv.writer(file).writerows(rows)


def _read_view(inputs: Sequence[Path], view: str) -> Iterator[Sequence[object]]:
    """A header, then the rows of all files."""
    for number, path in enumerate(inputs):
        with contextlib.closing(sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro", uri=True)) as connection:
            cursor = connection.execute(f'SELECT * FROM "{view}"')
            if number == 0:
                yield [column[0] for column in cursor.description]
            yield from cursor
