"""`rocktools rules`: the fault catalogue, and what of it the files show."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from rocktools.cli.attribution_options import LedgerRequest, attribution_options, ledger_options, select_rows
from rocktools.cli.options import table_options
from rocktools.cli.output import (
    TableFormat,
    TableOutput,
    emit_findings,
    emit_table,
    emit_tables,
    exit_code_of,
)
from rocktools.cli.progress import working

if TYPE_CHECKING:
    from rocktools.findings import Finding
    from rocktools.render.table import Table
    from rocktools.rules.catalog import RankedFinding, RuleReport
    from rocktools.rules.claims import Claims
    from rocktools.rules.inputs import RuleInputs

_SCHEMA = "rocktools.rules/1"
_SHOWN = ("rule", "severity", "explained_ns", "share_ratio", "evidence", "place_name")
_OPTIONAL = ("explained_ns", "share_ratio", "severity", "place_name", "evidence", "group", "finding", "advice")


@click.group("rules")
def command() -> None:
    """The fault catalogue: what makes a step slow, how it is told, and what of it the files show."""


@command.command("list")
@click.option(
    "--group",
    type=click.Choice(["fault", "trace-pattern", "capture-quality", "lint"]),
    help="Only rules of this group.  [default: all]",
)
@table_options()
def list_rules(group: str | None, output: TableOutput) -> int:
    """Every rule, with what it looks at."""
    import pandas as pd

    from rocktools.evidence import Evidence
    from rocktools.render.table import Table, table_column
    from rocktools.rules.catalog import RULES

    chosen = [rule for rule in RULES if group in (None, str(rule.group))]
    meanings = {"rule": "name", "group": "what kind of statement it makes", "title": "what is wrong"}
    rows = [(rule.name, str(rule.group), rule.title) for rule in chosen]
    frame = pd.DataFrame(rows, columns=list(meanings))
    columns = tuple(
        table_column(name, meaning, evidence=Evidence.DECLARED, dtype=frame[name].dtype)
        for name, meaning in meanings.items()
    )
    title = f"rules: {len(frame)}; rocktools rules show NAME explains one"
    emit_table(Table(name="rules", title=title, columns=columns, frame=frame, is_simulated=False), output)
    return 0


@command.command("show")
@click.argument("name", metavar="NAME")
def show(name: str) -> int:
    """One rule: what it looks at, its signature, what confirms it, what to do, and its thresholds."""
    from rocktools.rules.catalog import find_rule
    from rocktools.rules.description import describe_rule

    click.echo("\n".join(describe_rule(find_rule(name))))
    return 0


@command.command("check")
@ledger_options
@click.option(
    "--claims",
    "claims_path",
    metavar="FILE",
    type=click.Path(path_type=Path),
    help="YAML with declared results (throughput, utilisation, memory, a comparison) for the lints.",
)
@click.option(
    "--gpu", "part", metavar="PART", help="Which GPU it was, where the files do not say: as `rocktools devices list`."
)
@click.option("--rule", "names", metavar="NAME", multiple=True, help="Only this rule; may be repeated.")
@click.option(
    "--part",
    "table",
    type=click.Choice(["findings", "silent"]),
    help="One part only, as a table of its own: what was found, or the rules that could not say.  [default: both; "
    "findings for csv and parquet]",
)
@table_options(top_count=20)
def check(
    request: LedgerRequest,
    claims_path: Path | None,
    part: str | None,
    names: tuple[str, ...],
    table: str | None,
    output: TableOutput,
) -> int:
    """What the rules find, by the time that it explains; and the rules that could not say, with the reason.

    The explained time is what a step would take less if the fault went, at most: times of several findings overlap and
    are not to be added. Warnings come before notes. A rule that is in neither table looked and found nothing.

    PATHS are rocpd databases (*_results.db), JAX profiles (*.xplane.pb), folders, patterns or run directories; or a
    dump of XLA alone, for what the program says.
    """
    from rocktools.rules.catalog import RULES, check_rules, find_rule
    from rocktools.rules.claims import read_claims

    rules = [find_rule(name) for name in names] or RULES
    claims = None if claims_path is None else read_claims(claims_path)
    inputs, findings, is_simulated = _inputs(request, claims, part)
    report = check_rules(inputs, rules)
    tables = _tables(report, is_simulated=is_simulated)
    if table is not None or output.table_format in (TableFormat.CSV, TableFormat.PARQUET):
        emit_table(tables[table or "findings"], output, findings=findings)
    elif output.table_format is TableFormat.JSON:
        head = {
            "step_ns": report.step_ns,
            "found": [_record(each) for each in report.findings],
            "clear": [rule.name for rule in report.clear],
            "findings": [finding.as_dict() for finding in findings],
        }
        emit_tables(list(tables.values()), output, schema=_SCHEMA, head=head)
    else:
        _show(report, tables, output)
    emit_findings(findings)
    return exit_code_of([*report.plain, *findings])


def _inputs(request: LedgerRequest, claims: Claims | None, part: str | None) -> tuple[RuleInputs, list[Finding], bool]:
    """What the rules look at, what reading it raised, and whether it is simulated."""
    from rocktools.errors import NothingToRead
    from rocktools.workspace.attributed import attribute_workspace
    from rocktools.workspace.paths import find_sources
    from rocktools.workspace.rule_inputs import build_program_inputs, build_rule_inputs
    from rocktools.workspace.used_device import DeviceOptions
    from rocktools.workspace.workspace import Workspace

    try:
        sources = find_sources(request.paths)
    except NothingToRead as error:
        programs = build_program_inputs([*request.paths, *request.programs], claims, reason=f"no trace: {error.what}")
        return programs, [], False
    with Workspace.open_sources(sources) as workspace:
        with working("linking and attributing"):
            runs = attribute_workspace(workspace, attribution_options(request))
        rows, steps = select_rows(request, runs)
        built = build_rule_inputs(
            workspace,
            runs,
            rows,
            steps,
            device=DeviceOptions(part=part),
            claims=claims,
            reports=[*request.programs, *request.paths],
        )
        findings = [*workspace.findings, *runs.findings]
        findings += [finding for finding in built.findings if finding not in findings]
        return built.inputs, findings, workspace.is_simulated


def _tables(report: RuleReport, *, is_simulated: bool) -> dict[str, Table]:
    from rocktools.evidence import Evidence
    from rocktools.render.table import table_from_spec
    from rocktools.rules.catalog import RULE_FINDINGS, SILENT_RULES, findings_frame, silent_frame
    from rocktools.units import count_noun, format_duration

    step = "" if report.step_ns is None else f", in steps of {format_duration(report.step_ns)}"
    quiet = f"{count_noun(len(report.clear), 'rule')} found nothing, {len(report.silent)} could not say"
    title = f"rules: {count_noun(len(report.findings), 'finding')}{step}; {quiet}"
    return {
        "findings": table_from_spec(
            findings_frame(report),
            RULE_FINDINGS,
            evidence=Evidence.INFERRED,
            title=title,
            is_simulated=is_simulated,
            optional_columns=_OPTIONAL,
        ),
        "silent": table_from_spec(
            silent_frame(report),
            SILENT_RULES,
            evidence=Evidence.INFERRED,
            title="rules that could not say",
            is_simulated=is_simulated,
            optional_columns=("reason", "group"),
        ),
    }


def _show(report: RuleReport, tables: dict[str, Table], output: TableOutput) -> None:
    """For people: the order, then each finding in words, then who could not say."""
    from dataclasses import replace

    from rocktools.render.table import top_rows

    whole = tables["findings"]
    is_read_here = output.table_format is TableFormat.TABLE and output.path is None
    if is_read_here:  # what was found follows in words
        columns = tuple(column for column in whole.columns if column.name in _SHOWN)
        short = replace(whole, columns=columns, frame=whole.frame[[column.name for column in columns]])
        emit_tables([top_rows(short, output.top_count)], output, schema=_SCHEMA, head={})
    else:
        emit_tables([top_rows(whole, output.top_count), tables["silent"]], output, schema=_SCHEMA, head={})
    if is_read_here:
        for number, each in enumerate(report.findings, start=1):
            finding = each.found.finding
            click.echo(f"\n{number}. {finding.rule}: {finding.message}")
            click.echo(f"   try: {finding.advice}")
            click.echo(f"   confirm: {each.rule.confirmations[0].command}")
        _show_silent(report)


def _show_silent(report: RuleReport) -> None:
    """The rules that could not say, those with one reason together."""
    by_reason: dict[str, list[str]] = {}
    for silence in report.silent:
        by_reason.setdefault(silence.reason, []).append(silence.rule.name)
    if by_reason:
        click.echo("\nrules that could not say")
    for reason, names in by_reason.items():
        click.echo(f"  {', '.join(names)}: {reason}")


def _record(each: RankedFinding) -> dict[str, object]:
    return {
        **each.found.finding.as_dict(),
        "group": str(each.rule.group),
        "explained_ns": each.found.explained_ns,
        "share_ratio": each.share_ratio,
        "evidence": str(each.found.evidence),
        "confirmations": [{"detail": one.detail, "command": one.command} for one in each.rule.confirmations],
    }
