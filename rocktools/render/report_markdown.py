"""A report as Markdown: the same sections without pictures, tables cut to what a page holds."""

from __future__ import annotations

from rocktools.render.cells import SIMULATED
from rocktools.render.markdown import escape_markdown, render_markdown
from rocktools.render.report import Report, Section
from rocktools.render.table import top_rows


def render_report_markdown(report: Report, *, rows_count: int = 10) -> str:
    """The whole report. The same report gives the same text.

    Args:
        rows_count: of each table, at most; 0: all.
    """
    lines = [f"# {escape_markdown(report.title)}", ""]
    if report.is_simulated:
        lines += [f"> {escape_markdown(SIMULATED)}", ""]
    for sentence in report.verdict:
        lines += [escape_markdown(sentence), ""]
    for section in report.sections:
        lines += _section_lines(section, rows_count)
    lines += ["---", "", escape_markdown(report.footer)]
    return "\n".join(lines) + "\n"


def _section_lines(section: Section, rows_count: int) -> list[str]:
    lines = [f"## {escape_markdown(section.heading)}", ""]
    if section.absence:
        lines += [f"Not here: {escape_markdown(section.absence)}.", ""]
    for paragraph in section.paragraphs:
        lines += [escape_markdown(paragraph), ""]
    for table in section.tables:
        lines += [render_markdown(top_rows(table, rows_count), is_stamped=False)]
    return lines
