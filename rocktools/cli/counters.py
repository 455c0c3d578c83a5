"""`rocktools counters list|show|pack|eval|check`: hardware counters, and what is computed from them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

import click

from rocktools.cli.options import match_option, paths_argument, table_options
from rocktools.cli.output import TableFormat, TableOutput, emit_findings, emit_table, exit_code_of
from rocktools.errors import UsageError
from rocktools.findings import Finding, Severity

if TYPE_CHECKING:
    import pandas as pd

    from rocktools.counters.catalog import Catalog, Counter
    from rocktools.counters.packing import Packing
    from rocktools.render.table import ColumnKind, Table

_DEFAULT_ARCHITECTURE = "gfx950"
_BY_TABLE_ONLY = "checked against the table of block capacities only; rocprofv3-avail pmc-check was not asked"

_architecture_option = click.option(
    "--arch",
    "architecture",
    metavar="GFX",
    default=_DEFAULT_ARCHITECTURE,
    show_default=True,
    help="Architecture: gfx950 (MI350X, MI355X) or gfx942 (MI300A, MI300X, MI325X).",
)


@click.group("counters")
def command() -> None:
    """Which hardware counters there are, what is computed from them, and how many runs they take."""


@command.command("list")
@_architecture_option
@click.option("--block", metavar="BLOCK", help="Only counters that take slots of this block (SQ, TCC, ...).")
@match_option("counters whose name has")
@table_options(top_count=40)
def list_counters(architecture: str, block: str | None, match: str | None, output: TableOutput) -> int:
    """Every counter that rocprofv3 of ROCm 7.0 knows on an architecture.

    Raw counters with block and event; derived counters with the raw ones that they are computed from. Instances
    (TCC_HIT[3]) and restrictions to one GPU (TCC_HIT:device=0) are not listed.
    """
    from rocktools.counters.catalog import load_catalog

    catalog = load_catalog(architecture)
    selected = _selected(catalog, block, match)
    findings = [] if match is None or selected else [_nothing_matched(catalog, match)]
    emit_table(_counters_table(catalog, selected), output, findings=findings)
    emit_findings(findings)
    return exit_code_of(findings)


@command.command("pack")
@click.argument("names", metavar="NAMES...", nargs=-1, required=True)
@_architecture_option
@table_options()
def pack(names: tuple[str, ...], architecture: str, output: TableOutput) -> int:
    """Spread counters over as few passes as possible; each pass is one run of the program.

    NAMES are separated by commas or blanks. No pass exceeds what a block can count at once, and counters whose ratio is
    only sound within one run stay together (hits with misses, busy cycles with GRBM_GUI_ACTIVE), if need be by reading
    one of them more than once.
    """
    from rocktools.counters.catalog import load_catalog
    from rocktools.counters.packing import pack_counters
    from rocktools.counters.requests import parse_counters

    catalog = load_catalog(architecture)
    packing = pack_counters(catalog, parse_counters(catalog, names))
    emit_table(_packing_table(catalog, packing), output)
    emit_findings(packing.findings)
    return exit_code_of(packing.findings)


@command.command("show")
@click.argument("names", metavar="[NAME]...", nargs=-1)
@_architecture_option
@table_options()
def show(names: tuple[str, ...], architecture: str, output: TableOutput) -> int:
    """What a counter or a quantity means: unit, formula, counters, limits, worked example, source.

    Without NAME, every quantity of the architecture.
    """
    from rocktools.cli.quantity_tables import counter_facts, explained_table, formulas_table, quantity_facts
    from rocktools.counters.catalog import load_catalog
    from rocktools.counters.formulas import load_formulas

    catalog, formulas = load_catalog(architecture), load_formulas(architecture)
    if not names:
        emit_table(formulas_table(formulas), output)
        return exit_code_of(())
    facts: list[tuple[str, str]] = []
    for name in names:
        if name in formulas.titles or name.islower():
            facts += quantity_facts(formulas.require(name))
        else:
            counter = catalog.require(name)
            meaning = formulas.meanings.get(counter.base) or formulas.meanings.get(counter.name)
            facts += counter_facts(name, catalog, formulas, meaning)
    emit_table(explained_table(f"{', '.join(names)} on {architecture}", facts), output)
    return exit_code_of(())


@command.command("eval")
@click.argument("expression", metavar="EXPRESSION")
@paths_argument
@click.option(
    "--by",
    "level",
    type=click.Choice(["kernel", "dispatch"]),
    default="kernel",
    show_default=True,
    help="One row each.",
)
@click.option("--mix-passes", is_flag=True, help="Also where counters come from different passes.")
@click.option("--arch", "architecture", metavar="GFX", help="Architecture of devices of which no file tells it.")
@table_options(top_count=60)
def eval_expression(
    expression: str,
    paths: tuple[str, ...],
    level: str,
    mix_passes: bool,
    architecture: str | None,
    output: TableOutput,
) -> int:
    """Compute an expression over counters for each kernel or dispatch.

    EXPRESSION has + - * / and parentheses, numbers (128, or 128[B/request] with a unit), counters, quantities, facts of
    the device (xcc_count, cu_count, simd_per_cu_count, max_engine_hz), sum(X), max(X) and min(X) over the instances of
    a counter, and max(a, b), min(a, b). Units are checked. PATHS are as of `rocktools metrics`.
    """
    from rocktools.cli.quantity_tables import quantities_for_people, quantities_table
    from rocktools.counters.evaluate import Level, PassRule
    from rocktools.workspace.metrics import evaluate_text

    metrics = evaluate_text(
        paths,
        expression,
        level=Level(level),
        pass_rule=PassRule.MIXED if mix_passes else PassRule.STRICT,
        architecture=architecture,
    )
    if output.table_format is TableFormat.TABLE:
        table = quantities_for_people(metrics, title=expression, shows_absent=True)
    else:
        table = quantities_table(metrics, title=expression)
    emit_table(table, output, findings=metrics.findings)
    emit_findings(metrics.findings)
    return exit_code_of(metrics.findings)


@command.command("check")
@click.argument("paths", metavar="[PATH]...", nargs=-1)
@click.option("--arch", "architecture", metavar="GFX", help="Architecture of devices of which no file tells it.")
@table_options()
def check(paths: tuple[str, ...], architecture: str | None, output: TableOutput) -> int:
    """What in counter passes cannot be true; without PATH, whether the formulas give their worked examples.

    Sizes of requests that do not add up, a clock above the highest, more than 100 % of what a unit can do, matrix
    operations beyond the busy cycles, blocks that were not counted, counters that mislead on an architecture. Exits
    with 3 if a value is impossible.
    """
    from rocktools.cli.quantity_tables import checks_of_formulas, quantities_with_range
    from rocktools.counters.evaluate import PassRule
    from rocktools.errors import EXIT_GATE
    from rocktools.workspace.metrics import read_metrics

    if not paths:
        table, is_good = checks_of_formulas()
        emit_table(table, output)
        return exit_code_of(()) if is_good else EXIT_GATE
    metrics = read_metrics(paths, pass_rule=PassRule.STRICT, architecture=architecture)
    emit_table(quantities_with_range(metrics), output, findings=metrics.findings)
    emit_findings(metrics.findings)
    is_impossible = any(finding.rule == "impossible-quantity" for finding in metrics.findings)
    return EXIT_GATE if is_impossible else exit_code_of(metrics.findings)


def _selected(catalog: Catalog, block: str | None, match: str | None) -> list[Counter]:
    """The counters that both filters let through.

    Raises:
        UsageError: there is no such block, or the pattern is not a regex.
    """
    if block is not None and block not in catalog.blocks:
        sharing = [known.name for known in catalog.blocks.values() if block in known.prefixes]
        hint = f"--block {sharing[0]} --match ^{block}_" if sharing else f"blocks: {', '.join(catalog.blocks)}"
        raise UsageError("unknown-block", f"there is no block {block!r}", hint=hint)
    try:
        pattern = re.compile(match or "")
    except re.error as error:
        raise UsageError("bad-regex", f"--match {match!r} is not a regex: {error}") from error
    return [
        counter
        for counter in catalog.counters.values()
        if pattern.search(counter.name) and (block is None or block in {slot.block for slot in counter.slots or ()})
    ]


def _nothing_matched(catalog: Catalog, match: str) -> Finding:
    return Finding(
        rule="no-counter-matched",
        severity=Severity.WARNING,
        where=catalog.architecture,
        message=f"none of the names asked for has a match of the regex {match!r}, which is case-sensitive",
        advice="run it without --match to see the names, or begin it with (?i)",
    )


def _counters_table(catalog: Catalog, counters: Iterable[Counter]) -> Table:
    import pandas as pd

    from rocktools.counters.meanings import read_meanings
    from rocktools.render.table import ColumnKind
    from rocktools.units import count_noun

    meanings = read_meanings()
    listed = [(counter, meanings.get(counter.base) or meanings.get(counter.name)) for counter in counters]
    rows = [
        (
            counter.name,
            counter.kind.value,
            counter.block or None,
            counter.event,
            None if counter.slots is None else len(counter.slots),
            None if counter.block else " + ".join(str(slot) for slot in sorted(counter.slots or ())) or None,
            None if meaning is None else str(meaning.dimension),
            None if meaning is None else meaning.meaning,
        )
        for counter, meaning in listed
    ]
    columns = {
        "counter": ("name as rocprofv3 takes it", ColumnKind.TEXT),
        "kind": ("raw: one event of one block; derived: computed by rocprofv3", ColumnKind.TEXT),
        "block": ("block of a raw counter", ColumnKind.TEXT),
        "event": ("number of the event within its block", ColumnKind.IDENTIFIER),
        "slots_count": ("counter registers it takes of a pass", ColumnKind.COUNT),
        "needs": ("what a derived counter takes these registers for", ColumnKind.NAME),
        "unit": ("unit of its sum over hardware instances, where it is known", ColumnKind.TEXT),
        "meaning": ("what it counts, where it is known", ColumnKind.NAME),
    }
    frame = pd.DataFrame(rows, columns=list(columns)).astype({"event": "Int64", "slots_count": "Int64"})
    title = f"counters of {catalog.architecture} ({', '.join(catalog.parts)}): {count_noun(len(frame), 'counter')}"
    return _table("counters", title, frame, columns)


def _packing_table(catalog: Catalog, packing: Packing) -> Table:
    import pandas as pd

    from rocktools.render.table import ColumnKind
    from rocktools.units import count_noun

    rows = [
        (
            number,
            len(packed.counters),
            ", ".join(str(use) for use in packed.slots) if packed.is_known else "unknown",
            " ".join(packed.groups) or None,
            " ".join(packed.counters),
        )
        for number, packed in enumerate(packing.passes, start=1)
    ]
    columns = {
        "pass": ("number of the run, from 1", ColumnKind.IDENTIFIER),
        "counters_count": ("counters that this run reads", ColumnKind.COUNT),
        "slots": ("counter registers taken and there, by block", ColumnKind.TEXT),
        "ratio_groups": ("counters that had to be read in one run, and are", ColumnKind.NAME),
        "names": ("its counters, as after --pmc", ColumnKind.TEXT),
    }
    frame = pd.DataFrame(rows, columns=list(columns))
    different = {name for packed in packing.passes for name in packed.counters}
    proven = "fewer are impossible" if packing.is_least else "the fewest found"
    title = (
        f"{count_noun(len(different), 'counter')} of {catalog.architecture} in "
        f"{count_noun(len(packing.passes), 'pass')}; {proven}"
    )
    return _table("counter passes", title, frame, columns, notes=(_BY_TABLE_ONLY,))


def _table(
    name: str,
    title: str,
    frame: pd.DataFrame,
    columns: Mapping[str, tuple[str, ColumnKind]],
    notes: tuple[str, ...] = (),
) -> Table:
    from rocktools.evidence import Evidence
    from rocktools.render.table import Table, table_column

    described = tuple(
        table_column(column, meaning, evidence=Evidence.DECLARED, dtype=frame[column].dtype, kind=kind)
        for column, (meaning, kind) in columns.items()
    )
    return Table(name=name, title=title, columns=described, frame=frame, is_simulated=False, notes=notes)
