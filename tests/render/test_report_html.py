"""The HTML report: in a real browser, and whatever the summary holds."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from random import Random

import pytest
from chromium import run_in_page
from summary_documents import any_record, summary_of_operations

from rocktools.render.report_html import render_html
from rocktools.render.report_sections import build_report
from rocktools.summary.document import Summary

_VOID = {"meta", "input", "link", "br", "hr", "line", "rect", "path", "circle"}
_ROWS = """
  const table = document.getElementById("table-operations");
  const column = (name) => [...table.tHead.rows[0].cells].findIndex((cell) => cell.textContent === name);
  const names = () => [...table.tBodies[0].rows].map((row) => row.cells[0].textContent);
  const box = table.closest(".table");
  const press = (name) => table.tHead.rows[0].cells[column(name)].querySelector("button").click();
  const filter = (text) => {
    const input = box.querySelector("input");
    input.value = text;
    input.dispatchEvent(new Event("input"));
  };
"""


class _Balance(HTMLParser):
    """Whether every element that is opened is closed, in order; collects ids and what is loaded."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.ids: list[str] = []
        self.hrefs: list[str] = []
        self.loaded: list[str] = []

    def handle_starttag(self, tag, attrs):
        found = dict(attrs)
        self.ids += [found["id"]] if "id" in found else []
        self.hrefs += [found["href"]] if tag == "a" else []
        self.loaded += [found[name] for name in ("src", "data", "srcset") if found.get(name)]
        self.loaded += [tag] if tag in ("link", "iframe", "img", "object") else []
        if tag not in _VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        if tag not in _VOID:
            assert self.open.pop() == tag


def _checked(page: str) -> _Balance:
    parser = _Balance()
    parser.feed(page)
    parser.close()
    assert parser.open == []
    return parser


@pytest.mark.parametrize("seed", range(15))
def test_any_summary_becomes_a_page_that_loads_nothing(seed):
    summary = any_record(Summary, Random(seed))
    page = render_html(build_report(summary))
    found = _checked(page)
    assert found.loaded == []
    assert "@import" not in page
    assert not re.search(r"url\(", page)
    assert len(found.ids) == len(set(found.ids))
    assert {href.removeprefix("#") for href in found.hrefs} <= set(found.ids)
    assert render_html(build_report(summary)) == page
    assert ("SIMULATED" in page) == summary.is_simulated


def test_texts_of_the_model_stay_texts():
    page = render_html(build_report(summary_of_operations(3)))
    assert "<script>alert" not in page
    assert "a step &amp; its &lt;operations&gt;" in page


def test_sorting_goes_by_the_value_and_leaves_what_is_missing_at_the_end(tmp_path):
    count = 250
    page = render_html(build_report(summary_of_operations(count)))
    script = f"""{_ROWS}
      const before = names();
      press("rows");
      const down = names(), sorted = table.tHead.rows[0].cells[column("rows")].getAttribute("aria-sort");
      press("rows");
      const up = names();
      press("compute");
      press("compute");
      const flop = names();
      box.querySelector(".next").click();
      const second = names();
      return {{ before, down, sorted, up, flop, second }};
    """
    found = run_in_page(page, script, tmp_path)
    numbers = {f"fusion.{place}": (place * 7919) % count for place in range(count)}
    assert found["before"] == [f"fusion.{place}" for place in range(40)]
    assert found["sorted"] == "descending"
    assert found["down"] == sorted(numbers, key=lambda name: -numbers[name])[:40]
    assert found["up"] == sorted(numbers, key=lambda name: numbers[name])[:40]
    known = [f"fusion.{place}" for place in range(0, count, 3)]
    unknown = [f"fusion.{place}" for place in range(count) if place % 3]
    assert found["flop"] == (known + unknown)[:40]
    assert found["second"] == (known + unknown)[40:80]


def test_filtering_takes_every_word_and_counts(tmp_path):
    page = render_html(build_report(summary_of_operations(10_000)))
    script = f"""{_ROWS}
      filter("WI_0 fusion.99");
      const found = names(), told = box.querySelector(".count").textContent;
      filter("nothing-like-it");
      const none = names().length;
      filter("");
      const began = performance.now();
      press("rows");
      filter("attention");
      return {{ found, told, none, all: box.querySelector(".count").textContent, took: performance.now() - began,
               rows: table.tBodies[0].rows.length }};
    """
    found = run_in_page(page, script, tmp_path)
    expected = [f"fusion.{place}" for place in range(0, 10_000, 10) if f"fusion.{place}".startswith("fusion.99")]
    assert found["found"] == expected
    assert found["told"] == f"{len(expected)} of 10,000 rows"
    assert found["none"] == 0
    assert found["all"] == "1 to 40 of 9,000 of 10,000 rows"
    # However many rows there are, a page of them is in the document.
    assert found["rows"] == 40


def test_a_link_unfolds_what_it_leads_to_and_every_control_has_a_name(tmp_path):
    page = render_html(build_report(summary_of_operations(5)))
    script = f"""{_ROWS}
      const link = table.tBodies[0].rows[2].cells[0].querySelector("a");
      location.hash = link.getAttribute("href");
      dispatchEvent(new Event("hashchange"));
      const details = document.querySelector(link.getAttribute("href"));
      const nameless = [...document.querySelectorAll("button, input, a, [role=region]")].filter((each) =>
        !each.textContent.trim() && !each.getAttribute("aria-labelledby") && !(each.labels && each.labels.length));
      const focusable = [...document.querySelectorAll("thead button")].every((each) => each.tabIndex === 0);
      return {{ open: details.open, title: details.querySelector("summary").textContent, nameless: nameless.length,
               focusable, language: document.documentElement.lang }};
    """
    found = run_in_page(page, script, tmp_path)
    assert found == {"open": True, "title": "fusion.2", "nameless": 0, "focusable": True, "language": "en"}
