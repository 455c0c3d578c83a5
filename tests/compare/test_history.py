"""A history keeps what was told to it, whatever characters are in it, and survives lines that are no entries."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rocktools.compare.history import SCHEMA, Entry, append_entry, drift_ratios, read_history
from rocktools.errors import DamagedFile


def _entry(label: str = "one", after_ns: float | None = 2e9) -> Entry:
    return Entry(
        schema=SCHEMA,
        recorded_at_utc="2026-11-30T04:56:11+00:00",
        label=label,
        state="pass",
        before="a",
        after="b",
        before_sha256=None,
        after_sha256=None,
        basis="profiled",
        before_ns=1e9,
        after_ns=after_ns,
        delta_ratio=None,
        verdict=None,
        failed=("it took longer",),
        is_simulated=False,
    )


@given(labels=st.lists(st.text(st.characters(exclude_categories=["Cs"])), min_size=1, max_size=4))
def test_what_was_appended_is_read_back(labels: list[str], tmp_path_factory: pytest.TempPathFactory) -> None:
    path = tmp_path_factory.mktemp("history") / "history.jsonl"
    entries = [_entry(label) for label in labels]
    for entry in entries:
        append_entry(path, entry)
    assert read_history(path) == (entries, [])


def test_lines_that_are_no_entries_are_told_and_the_others_kept(tmp_path: Path) -> None:
    path = tmp_path / "history.jsonl"
    half = json.dumps({**asdict(_entry()), "label": "\ud800"})
    path.write_text(f"nonsense\n{half}\n", encoding="utf-8")
    append_entry(path, _entry("good"))
    entries, findings = read_history(path)
    assert [entry.label for entry in entries] == ["good"]
    assert [finding.where for finding in findings] == [f"{path}:1", f"{path}:2"]


def test_a_file_without_any_entry_is_damaged_and_an_empty_one_is_not(tmp_path: Path) -> None:
    path = tmp_path / "history.jsonl"
    path.write_text("nonsense\n", encoding="utf-8")
    with pytest.raises(DamagedFile, match="no line of it"):
        read_history(path)
    path.write_text("", encoding="utf-8")
    assert read_history(path) == ([], [])


def test_drift_is_against_the_fastest_so_far() -> None:
    entries = [_entry(after_ns=value) for value in (2e9, None, 1e9, 1.5e9)]
    assert drift_ratios(entries) == [0.0, None, 0.0, 0.5]
