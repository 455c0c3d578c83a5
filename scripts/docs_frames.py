"""The specs of frames and tables -> docs/reference/frames.md: every column with its unit, meaning and gaps."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterable, Iterator, Mapping

from docs_markdown import code, page, prose, table

import rocktools
from rocktools.frames import SPECS, FrameSpec

# Table -> the command that prints it. A table without one cannot be written into the page.
_PRINTED_BY = {
    "KERNEL_STATS": "rocktools kernels",
    "KERNEL_STATS_BY_DEVICE": "rocktools kernels --by device",
    "KERNEL_STATS_BY_STREAM": "rocktools kernels --by stream",
    "KERNEL_STATS_BY_SHAPE": "rocktools kernels --by shape",
    "KERNEL_STATS_BY_INSTRUCTION": "rocktools kernels --hlo",
    "DISPATCH_LIST": "rocktools dispatches",
    "COUNTED_DISPATCH_LIST": "rocktools dispatches --counted",
    "CONTENTS": "rocktools info --part contents",
    "DEVICES": "rocktools info --part devices",
    "COUNTERS": "rocktools info --part counters",
    "INSTRUCTION_KINDS": "rocktools hlo info",
    "LOOPS": "rocktools hlo info",
    "LINK_COVERAGE": "rocktools link",
    "LINK_UNLINKED_KERNELS": "rocktools link --part unlinked",
    "LEDGER_ROWS": "rocktools ledger --part tables",
    "RECONCILIATION": "rocktools overlap",
    "BUSY_TIME": "rocktools overlap --convention compute_first",
    "GAPS_BEFORE": "rocktools gaps",
    "GAPS": "rocktools gaps --by gap",
    "GAP_TOTALS": "rocktools gaps --by cause",
    "DEVICE_MEANS": "rocktools ranks",
    "DEVICE_SPREAD": "rocktools ranks --part spread",
    "COLLECTIVE_SKEW": "rocktools ranks --part skew",
    "OPERATION_SKEW": "rocktools ranks --part operations",
    "COLLECTIVE_ARRIVALS": "rocktools ranks --part collectives",
    "COLLECTIVES": "rocktools collectives",
    "COLLECTIVE_KINDS": "rocktools collectives --by kind",
    "PROGRAM_MEMORY": "rocktools memory",
    "BUFFERS": "rocktools memory --part largest",
    "HIGH_WATER": "rocktools memory --part devices",
    "ALLOCATORS": "rocktools memory --part allocators",
    "ROOFLINE": "rocktools roofline",
    "AOT_LAUNCHES": "rocktools aot show",
    "AOT_CHANGES": "rocktools aot diff",
    "PROOF_COMPARISONS": "rocktools replay prove",
    "RULE_FINDINGS": "rocktools rules check",
    "SILENT_RULES": "rocktools rules check --part silent",
    "BATCH_PLAN": "rocktools batch plan",
    "BATCH_RESULTS": "rocktools batch run",
    "BATCH_KERNELS": "rocktools batch collect",
    "COMPUTE_QUANTITIES": "rocktools batch collect --part quantities",
    "BATCH_POINTS": "rocktools batch collect --part points",
    "COMPUTE_METRICS": "rocktools batch collect --part metrics",
    "BATCH_CHANGES": "rocktools batch compare",
    "REPLAY_PROFILE": "rocktools replay profile",
    "MODELS": "rocktools model list",
    "MODEL_MATRICES": "rocktools model show",
    "FLOP_LEDGER": "rocktools model flops",
    "MODEL_METRICS": "rocktools model flops --step-time",
    "MODEL_CONVENTIONS": "rocktools model flops --part conventions",
    "STEP_FLOOR": "rocktools model step",
    "STEP_OPERATIONS": "rocktools model step --part operations",
    "LOWER_BOUNDS": "rocktools model bounds",
    "CEILING_GAP": "rocktools model bounds --ledger",
    "COMPONENT_RATES": "rocktools model bounds --part components",
    "CROSSCHECK": "rocktools crosscheck",
    "CROSSCHECK_REASONS": "rocktools crosscheck --part reasons",
}
# What passes between functions only, and no command prints.
_INTERNAL = {
    *("HOST_STEPS", "LAUNCHES", "BACKWARD_COMPUTE", "COMMUNICATION_ROWS", "ROOFLINE_WORK", "COUNTED_ROWS"),
    *("BUCKET_SUMS", "LINE_UNIONS", "COLLECTIVE_RATES", "COVERAGE", "UNLINKED_KERNELS", "MATCHED_COUNTERS"),
    *("COMPUTE_KERNELS", "COMPUTE_ROOFLINE"),
    *("STEP_TIMES", "EXPOSURE", "KERNEL_WORK", "GRAPH_LAUNCHES"),
}
_PACKAGES = (
    *("timeline", "workspace", "hlo", "correlate", "attribution", "analytic", "roofline", "counters", "replay"),
    *("batch", "sources.compute_analysis", "rules"),
)
_DTYPES = (
    "Integers are `int64` where no value can be missing and `Int64` (pandas' nullable integer, missing is `<NA>`) "
    "where one can; `float64` is missing as NaN; `category` holds each text once. Nothing missing is ever 0."
)


class UnprintedTableError(Exception):
    """A table that no command is known to print; the message says where to add the command."""


def specs_of_tables() -> dict[str, FrameSpec]:
    """Name -> spec of every table that the layers above the readers declare.

    Raises:
        UnprintedTableError: nobody said which command prints one of them.
    """
    found: dict[str, FrameSpec] = {}
    for name in _PACKAGES:
        package = importlib.import_module(f"{rocktools.__name__}.{name}")
        for module in pkgutil.iter_modules(package.__path__, f"{package.__name__}."):
            for spec in _specs_in(vars(importlib.import_module(module.name)).values()):
                if spec.name not in SPECS and spec.name not in _INTERNAL:
                    found.setdefault(spec.name, spec)
    for name in found:
        if name not in _PRINTED_BY:
            raise UnprintedTableError(f"add the command that prints {name} to _PRINTED_BY in scripts/docs_frames.py")
    return {name: found[name] for name in _PRINTED_BY if name in found}


def render_frames() -> str:
    """The page."""
    introduction = (
        "The columns of every frame of the readers and of every table of the commands. CSV, JSON and Parquet carry\n"
        "these names; the text tables leave the unit out of a heading where each cell shows it. A unit is part of\n"
        "every name (`_ns`, `_bytes`, `_count`, ...)."
    )
    lines = ["", _DTYPES, ""]
    lines += ["", "## Frames of the readers", "", "`rocktools frame NAME PATH...` prints each of them.", ""]
    for spec in SPECS.values():
        lines += _section(spec, {})
    lines += ["", "## Tables of the commands", ""]
    for name, spec in specs_of_tables().items():
        lines += _section(spec, SPECS, f"Printed by `{_PRINTED_BY[name]}`.")
    lines += [
        "",
        "`rocktools info --part processes` prints the frame [PROCESSES](#processes), `rocktools hlo list`"
        " [INSTRUCTIONS](#instructions), `rocktools ledger --part buckets` [LEDGER](#ledger), `rocktools metrics`"
        " [QUANTITIES](#quantities).",
        "",
        "In CSV two columns are added to every table: `evidence`, where the values come from, and `is_simulated`.",
    ]
    return page("Frames and tables", introduction, lines)


def _specs_in(values: Iterable[object]) -> Iterator[FrameSpec]:
    for value in values:
        if isinstance(value, FrameSpec):
            yield value
        elif isinstance(value, Mapping):
            yield from (one for one in value.values() if isinstance(one, FrameSpec))


def _section(spec: FrameSpec, known: Mapping[str, FrameSpec], note: str = "") -> list[str]:
    lines = ["", f"### {spec.name}", "", prose(spec.meaning)]
    order = f"Order of rows: {_codes(spec.sort)}." if spec.sort else "Rows are in the order in which they are read."
    lines += ["", f"Key: {_codes(spec.key)}. {order}{f' {note}' if note else ''}"]
    columns = spec.columns
    for other in known.values():
        if len(columns) > len(other.columns) and columns[: len(other.columns)] == other.columns:
            columns = columns[len(other.columns) :]
            lines += ["", f"First the columns of [{other.name}](#{other.name.lower()}), then:"]
            break
    rows = [
        (code(one.name), one.dtype, one.unit or "", prose(one.meaning), prose(one.missing) or "never")
        for one in columns
    ]
    return [*lines, *table(("column", "dtype", "unit", "meaning", "missing when"), rows)]


def _codes(names: Iterable[str]) -> str:
    return ", ".join(code(name) for name in names)
