"""Tables as Markdown: read back with a parser of the few rules that tables have, and shown as they are by Markdown."""

from __future__ import annotations

import re

import pandas as pd
from hypothesis import given
from hypothesis import strategies as st

from rocktools.evidence import Evidence
from rocktools.findings import Finding, Severity
from rocktools.render.cells import SIMULATED
from rocktools.render.markdown import escape_markdown, render_markdown
from rocktools.render.table import Table, table_column


def table(frame: pd.DataFrame, **options) -> Table:
    columns = tuple(
        table_column(name, "meaning", evidence=Evidence.COUNTER, dtype=frame[name].dtype) for name in frame.columns
    )
    return Table(name="T", title="a title", columns=columns, frame=frame, **{"is_simulated": False, **options})


def rows_of(text: str) -> list[list[str]]:
    """Cells of the lines that begin with a bar, unescaped: a bar behind a backslash ends no cell."""
    found = []
    for line in text.split("\n"):
        if line.startswith("|"):
            cells = re.split(r"(?<!\\)(?:\\\\)*\|", line.strip().strip("|"))
            found.append([re.sub(r"\\(.)", r"\1", cell).strip() for cell in cells])
    return found


def test_cells_are_those_that_people_read_with_numbers_to_the_right():
    frame = pd.DataFrame({"name": ["a_b", "c|d"], "moved_bytes": [4_194_304, 10], "hit_ratio": [0.5, None]})
    header, rule, first, second = rows_of(render_markdown(table(frame)))
    assert header == ["name", "moved", "hit"]
    assert rule == ["---", "---:", "---:"]
    assert first == ["a_b", "4.194 MB", "50.0 %"]
    assert second == ["c|d", "10 B", "—"]


def test_markup_in_names_is_spelled_out():
    text = render_markdown(table(pd.DataFrame({"name": ["f<T*>(a|b)_`x`"]})))
    assert r"f\<T\*\>(a\|b)\_\`x\`" in text


def test_simulated_cut_notes_and_findings_are_said():
    finding = Finding(rule="r", severity=Severity.WARNING, where="w", message="is doubtful")
    frame = pd.DataFrame({"name": ["a"]})
    text = render_markdown(table(frame, is_simulated=True, cut_rows_count=2, notes=("a note",), findings=(finding,)))
    assert text.startswith(f"> {SIMULATED}")
    assert "1 of 3 rows" in text
    assert "- a note" in text
    assert r"is doubtful" in text
    assert "evidence: counter, in a simulation" in text


def test_an_empty_table_says_so():
    assert "No rows." in render_markdown(table(pd.DataFrame({"name": pd.Series([], dtype=object)})))


@given(st.text(max_size=40))
def test_no_text_breaks_a_row_or_stays_unescaped(text):
    escaped = escape_markdown(text)
    assert "\n" not in escaped
    assert "\r" not in escaped
    assert re.fullmatch(r"(?:[^\\`*_{}\[\]<>|~$#&]|\\[\\`*_{}\[\]<>|~$#&])*", escaped)


@given(st.lists(st.text(min_size=1, max_size=20), min_size=1, max_size=4))
def test_every_row_has_as_many_cells_as_the_header(names):
    frame = pd.DataFrame({"name": names, "moved_bytes": range(len(names))})
    rows = [line for line in render_markdown(table(frame)).split("\n") if line.startswith("|")]
    assert len(rows) == len(names) + 2
    for line in rows:
        bars = re.findall(r"(?:\\.)|(\|)", line)
        assert bars.count("|") == 3
