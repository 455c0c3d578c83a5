"""What is made of a side of a bundle: files, and the command lines that make them in the bundle's folder."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rocktools.errors import UsageError, nearest_names
from rocktools.summary.bundle_document import BundleOutput, is_inside
from rocktools.summary.bundle_inputs import CopiedInputs

_ATTRIBUTED = ("--hlo", "--components")
_LEDGER = (*_ATTRIBUTED, "--workload")
_DEVICE = ("--part", "--partition")
TABLES: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "processes": (("info", "--part", "processes"), ()),
    "devices": (("info", "--part", "devices"), ()),
    "contents": (("info", "--part", "contents"), ()),
    "kernels": (("kernels",), ()),
    "links": (("link", "--part", "coverage"), ("--hlo",)),
    "steps": (("ledger", "--part", "steps"), _LEDGER),
    "ledger": (("ledger",), _LEDGER),
    "reconciliation": (("ledger", "--part", "reconciliation"), _LEDGER),
    "overlap": (("overlap",), _ATTRIBUTED),
    "gaps": (("gaps",), _ATTRIBUTED),
    "collectives": (("collectives",), _ATTRIBUTED),
    "ranks": (("ranks",), _ATTRIBUTED),
    "memory": (("memory",), ()),
    "rules": (("rules", "check"), _ATTRIBUTED),
    "metrics": (("metrics",), ()),
    "roofline": (("roofline",), (*_ATTRIBUTED, "--counters", *_DEVICE)),
}
"""Name -> command, and which of the shared options it takes."""

_OPTIONS = frozenset(
    {"-o", "--format", "--part", "--no-time", "--top", "--allow", "--hlo", "--components", "--workload", "--counters"}
    | {"--step-log", "--partition", "--thresholds"}
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """A file to make.

    Attributes:
        path: of the file, in the bundle.
        side: whose it is.
        role: `summary`, `report`, `table`, `comparison`.
        arguments: of rocktools.
        needs_inputs: whether it reads more than summaries.
    """

    path: str
    side: str
    role: str
    arguments: tuple[str, ...]
    needs_inputs: bool


def choose_tables(names: Sequence[str]) -> tuple[str, ...]:
    """The tables of these names; all where there is none.

    Raises:
        UsageError: there is no such table.
    """
    for name in names:
        if name not in TABLES:
            near = nearest_names(name, TABLES)
            raise UsageError("unknown-table", f"there is no table {name!r}", hint=", ".join(near or TABLES))
    return tuple(name for name in TABLES if not names or name in names)


def summary_path(side: str) -> str:
    """Where the summary of a side is."""
    return f"{side}.summary.json"


def commands_of_run(
    side: str,
    copied: CopiedInputs,
    *,
    components: str | None,
    device: tuple[str | None, str | None],
    tables: Sequence[str],
) -> tuple[Command, ...]:
    """The summary and the tables of a run, and the report.

    Args:
        components: name of a map, or its path in the bundle; None: as commands have it.
        device: part and compute partition, where they were named.
        tables: names of `TABLES`.
    """
    options = {
        "--hlo": [] if copied.hlo is None else ["--hlo", copied.hlo],
        "--components": [] if components is None else ["--components", components],
        "--workload": [] if copied.workload is None else ["--workload", copied.workload],
        "--counters": [word for path in copied.counters for word in ("--counters", path)],
        "--step-log": [] if copied.step_log is None else ["--step-log", copied.step_log],
        **{name: [] if value is None else [name, value] for name, value in zip(_DEVICE, device, strict=True)},
    }
    names = (*_ATTRIBUTED, "--counters", "--step-log", *_DEVICE)
    words = [word for name in names for word in options[name]]
    target = summary_path(side)
    made = [
        Command(
            path=target,
            side=side,
            role="summary",
            arguments=("summarize", *copied.paths, *words, "--no-time", "-o", target),
            needs_inputs=True,
        ),
        report_of(side),
    ]
    for name in tables:
        command, accepted = TABLES[name]
        # Counter passes that lie apart are what metrics reads.
        paths = copied.counters if name == "metrics" and copied.counters else copied.paths
        words = [word for option in accepted for word in options[option]]
        target = f"tables/{side}/{name}.csv"
        made.append(
            Command(
                path=target,
                side=side,
                role="table",
                arguments=(*command, *paths, *words, "--format", "csv", "-o", target),
                needs_inputs=True,
            )
        )
    return tuple(made)


def report_of(side: str) -> Command:
    """The report of a summary, with all its rows."""
    target = f"{side}.report.md"
    arguments = ("report", summary_path(side), "--top", "0", "-o", target)
    return Command(path=target, side=side, role="report", arguments=arguments, needs_inputs=False)


def comparisons(allowed: Sequence[str], thresholds: str | None) -> tuple[Command, ...]:
    """What differs between the two sides, and whether it is too much.

    Args:
        allowed: facts that may differ.
        thresholds: file with limits, in the bundle; None: those of `track`.
    """
    sides = (summary_path("before"), summary_path("after"))
    words = [word for fact in allowed for word in ("--allow", fact)]
    limits = [] if thresholds is None else ["--thresholds", thresholds]
    return tuple(
        Command(
            path=target,
            side="both",
            role="comparison",
            arguments=(command, *sides, *words, *others, "--format", "json", "-o", target),
            needs_inputs=False,
        )
        for command, target, others in (("compare", "compare.json", []), ("track", "track.json", limits))
    )


def is_ours(output: BundleOutput) -> bool:
    """Whether a command of a manifest is one that a bundle can have: it reads what is inside, and starts nothing.

    A bundle may come from anybody, and checking it runs what its manifest says.
    """
    program, *words = output.command
    known = {command for command, _ in TABLES.values()} | {("summarize",), ("report",), ("compare",), ("track",)}
    if program != "rocktools" or not any(tuple(words[: len(command)]) == command for command in known):
        return False
    if words[-2:] != ["-o", output.path]:
        return False
    return all(word in _OPTIONS if word.startswith("-") else is_inside(word) for word in words)
