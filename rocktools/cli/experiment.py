"""`rocktools experiment`: a ledger of experiments, one change each, a prediction before and a measurement after."""

from __future__ import annotations

from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import click

from rocktools.cli.options import table_options
from rocktools.cli.output import TableFormat, TableOutput, emit_document, emit_findings, emit_table, exit_code_of
from rocktools.errors import EXIT_GATE, EXIT_GOOD, UsageError

_DECISIONS = ("keep", "revert", "again")
_CORRECTNESS = ("passed", "failed", "not-checked")
_file_option = click.option(
    "--file",
    "path",
    metavar="FILE",
    type=click.Path(path_type=Path, dir_okay=False),
    default="experiments.jsonl",
    show_default=True,
    help="The ledger; lines are appended to it and never changed.",
)
_id_argument = click.argument("experiment_id", metavar="ID")


@click.group("experiment")
def command() -> None:
    """A ledger of experiments: hypothesis, one change, prediction; then what was measured, what moved, and a decision.

    \b
        rocktools experiment new --before before.json --hypothesis "..." --change "..." --predict "-3..-6%"
        rocktools experiment record E1 --after after.json --correctness passed --decision keep
        rocktools experiment list
    """


@command.command("new")
@_file_option
@click.option("--before", metavar="SUMMARY", required=True, help="Where it starts: a summary, or a run.")
@click.option("--hypothesis", metavar="TEXT", required=True, help="Why the change should help.")
@click.option("--change", metavar="TEXT", default="", help="The one thing that is changed.")
@click.option(
    "--predict",
    "prediction",
    metavar="TEXT",
    required=True,
    help="Direction and size: -5%, -3..-6%, faster by 3 to 6%, slower 2%, same within 1%.",
)
@click.option(
    "--metric",
    default="step",
    show_default=True,
    help="Of what: step; compute, exposed_communication, idle, ...; COMPONENT, or COMPONENT/PHASE.",
)
def new(path: Path, before: str, hypothesis: str, change: str, prediction: str, metric: str) -> int:
    """Plan an experiment, before anything is changed."""
    from rocktools.cli.summaries import load_summary
    from rocktools.compare.experiment import build_plan
    from rocktools.compare.experiment_file import append_line, next_id, read_experiments
    from rocktools.compare.experiment_prediction import parse_prediction

    parsed = parse_prediction(prediction, metric)
    experiments, findings = read_experiments(path) if path.exists() else ((), ())
    plan = build_plan(
        load_summary(before),
        before,
        experiment_id=next_id(experiments, findings),
        created_utc=_now(),
        hypothesis=_text("hypothesis", hypothesis),
        change=" ".join(change.split()),
        prediction=parsed,
    )
    append_line(path, plan)
    emit_findings(findings)
    click.echo(f"{path}: {plan.experiment_id}: {plan.hypothesis}")
    click.echo(
        f"  next: change one thing, run and summarize; rocktools experiment record {plan.experiment_id} --after ..."
    )
    return exit_code_of(findings)


@command.command("record")
@_id_argument
@_file_option
@click.option("--after", metavar="SUMMARY", required=True, help="The run with the change: a summary, or a run.")
@click.option("--before", metavar="SUMMARY", help="The summary of the plan, where it lies elsewhere now.")
@click.option("--change", metavar="TEXT", default="", help="What was changed, where no recorded fact says it.")
@click.option(
    "--allow",
    "allowed",
    metavar="FACT",
    multiple=True,
    help="This fact of the work is the change, as in `rocktools compare`; may be repeated.",
)
@click.option(
    "--correctness",
    type=click.Choice(_CORRECTNESS),
    default="not-checked",
    show_default=True,
    help="Whether outputs are still right.",
)
@click.option("--check", "correctness_note", metavar="TEXT", default="", help="How that was checked.")
@click.option("--decision", type=click.Choice(_DECISIONS), required=True, help="What follows.")
@click.option("--note", metavar="TEXT", default="", help="Anything else.")
def record(
    experiment_id: str,
    path: Path,
    after: str,
    before: str | None,
    change: str,
    allowed: tuple[str, ...],
    correctness: str,
    correctness_note: str,
    decision: str,
    note: str,
) -> int:
    """Record an attempt: what changed, what was measured, how the prediction did, what moved.

    Exactly one change must be between the two runs. With more, with another amount of work, or with outputs unchecked
    where the change is kept, nothing is recorded and the exit code is 3.
    """
    from rocktools.cli.compare import check_facts
    from rocktools.cli.summaries import load_summary
    from rocktools.compare.experiment import Attempt, Refusal, advice_of, build_record
    from rocktools.compare.experiment_document import Correctness, Decision
    from rocktools.compare.experiment_file import append_line, read_experiments, require_experiment

    check_facts(allowed)
    experiments, findings = read_experiments(path)
    emit_findings(findings)
    experiment = require_experiment(experiments, experiment_id)
    before_path = before or experiment.plan.before.path
    attempt = Attempt(
        before_path=before_path,
        after_path=after,
        change=" ".join(change.split()),
        allowed=allowed,
        correctness=Correctness(correctness.replace("-", " ")),
        correctness_note=correctness_note,
        decision=Decision(decision),
        note=note,
        recorded_utc=_now(),
    )
    found = build_record(experiment, load_summary(before_path), load_summary(after), attempt)
    if isinstance(found, Refusal):
        return _refused(found)
    append_line(path, found)
    from rocktools.cli.experiment_text import record_lines

    click.echo("\n".join([f"{path}: {experiment_id}, attempt {found.attempt}", *record_lines(found)]))
    advice = advice_of(found)
    if advice:
        click.echo(advice)
    return EXIT_GOOD


def _refused(refusal: Any) -> int:
    """Say why nothing was recorded; the exit code."""
    if refusal.is_usage:
        raise UsageError("no-change", refusal.reasons[0], hint="--change TEXT")
    for reason in refusal.reasons:
        click.echo(f"rocktools: not recorded: {reason}", err=True)
    return EXIT_GATE


@command.command("list")
@_file_option
@table_options()
def list_experiments(path: Path, output: TableOutput) -> int:
    """Every experiment, with its last attempt."""
    from rocktools.cli.experiment_text import experiments_table
    from rocktools.compare.experiment_file import read_experiments

    experiments, findings = read_experiments(path)
    emit_table(experiments_table(experiments, str(path)), output, findings=findings)
    emit_findings(findings)
    return exit_code_of(findings)


@command.command("show")
@_id_argument
@_file_option
@table_options()
def show(experiment_id: str, path: Path, output: TableOutput) -> int:
    """One experiment: its plan, and every attempt with what moved."""
    from rocktools.cli.experiment_text import experiment_lines, moved_table
    from rocktools.compare.experiment_document import SCHEMA
    from rocktools.compare.experiment_file import read_experiments, require_experiment
    from rocktools.summary.document_json import to_plain

    experiments, findings = read_experiments(path)
    experiment = require_experiment(experiments, experiment_id)
    if output.table_format is TableFormat.JSON:
        emit_document({"schema": SCHEMA, **to_plain(experiment)}, output)
    elif output.table_format is TableFormat.TABLE and output.path is None:
        click.echo("\n".join(experiment_lines(experiment)))
        if experiment.records:
            emit_table(moved_table(experiment), output)
    else:
        emit_table(moved_table(experiment), output)
    emit_findings(findings)
    return exit_code_of(findings) or EXIT_GOOD


def _now() -> str:
    return datetime.now(timezone.utc).isoformat(timespec="seconds")


def _text(name: str, value: str) -> str:
    plain = " ".join(value.split())
    if not plain:
        raise UsageError("empty-text", f"--{name} is empty", hint=f"--{name} TEXT")
    return plain
