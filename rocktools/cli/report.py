"""`rocktools report`: a summary to read, as Markdown or as one HTML file."""

from __future__ import annotations

from pathlib import Path

import click

from rocktools.cli.output import new_file, require_new_path
from rocktools.cli.progress import working
from rocktools.errors import EXIT_GOOD, UsageError


@click.command("report")
@click.argument("source", metavar="SUMMARY|RUN")
@click.option("--html", "is_html", is_flag=True, help="One HTML file that loads nothing; needs -o.")
@click.option(
    "--top",
    metavar="N",
    type=click.IntRange(min=0),
    default=10,
    show_default=True,
    help="Rows of each table in Markdown; 0: all. The HTML file has all that the summary has.",
)
@click.option(
    "-o",
    "--output",
    "target",
    metavar="FILE",
    type=click.Path(path_type=Path),
    help="The new file; .html is HTML.  [default: standard output]",
)
def command(source: str, is_html: bool, top: int, target: Path | None) -> int:
    """Write a report of a summary: verdict, steps, ledger, overlap, operations, rooflines, doubts, provenance.

    SUMMARY is what `rocktools summarize -o FILE.json` wrote; a run directory, a trace or a profile is summarized first.
    Without --html the report is Markdown. The same summary gives the same report, byte for byte.
    """
    from rocktools.cli.summaries import load_summary
    from rocktools.render.report_html import render_html
    from rocktools.render.report_markdown import render_report_markdown
    from rocktools.render.report_sections import build_report

    is_html = is_html or (target is not None and target.suffix.lower() in (".html", ".htm"))
    if is_html and target is None:
        raise UsageError("html-needs-file", "an HTML report is a file", hint="-o report.html")
    if target is not None:
        require_new_path(target)
    summary = load_summary(source)
    report = build_report(summary)
    with working("writing the report"):
        text = render_html(report) if is_html else render_report_markdown(report, rows_count=top)
    if target is None:
        click.echo(text, nl=False)
        return EXIT_GOOD
    with new_file(target) as temporary:
        temporary.write_text(text, encoding="utf-8")
    click.echo(f"{target}: {'HTML' if is_html else 'Markdown'} report of {summary.title}")
    return EXIT_GOOD
