"""Input files (`-i`): jobs of option values, with the ways in which they surprise.

Keys that no option has are ignored without a word, a `pmc` that is a string becomes one counter per character, and a
value that differs from one on the command line, defaults included, is a RuntimeError.
"""

from __future__ import annotations

import argparse
import copy
import json
from pathlib import Path
from typing import Any

from standins.messages import fatal
from standins.versions import REPEATED_PMC_IS_PASSES, SdkVersion


def read_jobs(path: Path, version: SdkVersion) -> list[dict[str, Any]]:
    """The jobs of an input file; those of a text file have `pmc` only."""
    if path.suffix in (".yaml", ".yml"):
        import yaml

        return list(yaml.safe_load(path.read_text(encoding="utf-8"))["jobs"])
    if path.suffix == ".json":
        return list(json.loads(path.read_text(encoding="utf-8"))["jobs"])
    if not is_text_input(path, version):
        fatal(version, f"Input file '{path}' has an unsupported extension")
    lines = path.read_text(encoding="utf-8").splitlines()
    return [{"pmc": counters} for line in lines if (counters := _counters_of_line(line, version)) is not None]


def is_text_input(path: Path, version: SdkVersion) -> bool:
    """Whether a file is of the old kind with `pmc:` lines."""
    return path.suffix == ".txt" or (path.suffix == ".text" and version >= REPEATED_PMC_IS_PASSES)


def _counters_of_line(line: str, version: SdkVersion) -> list[str] | None:
    """The counters of a `pmc:` line; a comment that mentions `pmc:` is an empty pass in old releases."""
    code, _, comment = line.partition("#")
    if "pmc:" in code:
        return code.partition("pmc:")[2].split()
    return [] if "pmc:" in comment and version < REPEATED_PMC_IS_PASSES else None


def merge_job(arguments: argparse.Namespace, job: dict[str, Any]) -> argparse.Namespace:
    """The command line's values together with a job's.

    Raises:
        RuntimeError: both give a value, and they differ.
    """
    merged = copy.copy(arguments)
    for key, value in job.items():
        if not hasattr(arguments, key):
            continue
        known = getattr(arguments, key)
        # `pmc` of both are passes of their own.
        if known is not None and known != value and key != "pmc":
            raise RuntimeError(f"Option '{key}' has conflicting values: {known} and {value}")
        setattr(merged, key, value)
    return merged
