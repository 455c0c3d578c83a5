"""Steps in the middle of a trace that take far longer, with an idle device."""

from __future__ import annotations

import pytest
from rule_timeline import MS, found, only, reason, repeated, timeline

from rocktools.findings import Severity
from rocktools.rules.recompilation import RULE


def _steps(extra_ms: int, *, busy: bool = False):
    """Six steps of 100 ms; step 3 begins later, or works longer."""
    rows = repeated([{"start": 0, "end": 100 * MS}], period=100 * MS, steps=6)
    late = [{**row, "start": row["start"] + extra_ms * MS, "end": row["end"] + extra_ms * MS} for row in rows[3:]]
    if busy:
        late[0]["start"] -= extra_ms * MS
    return [*rows[:3], *late]


COMPILING = {"name": "hipModuleLoadData", "start": 310 * MS, "end": 900 * MS}


def test_step_that_compiles_is_found_with_its_excess():
    finding, explained = only(RULE, timeline(_steps(600), warmup={3}, calls=[COMPILING]))
    assert finding.severity is Severity.WARNING
    assert finding.where == "r, step 3"
    assert finding.numbers["longest_excess_ns"] == 600 * MS
    assert finding.numbers["compiled_steps_count"] == 1
    assert explained == pytest.approx(600 * MS / 6)


def test_without_a_sign_of_compiling_it_is_a_note():
    finding, _ = only(RULE, timeline(_steps(600)))
    assert finding.severity is Severity.NOTE
    assert "not known" in finding.message


def test_longer_work_is_no_recompilation():
    assert found(RULE, timeline(_steps(600, busy=True))) == []


def test_even_steps_and_warm_up_at_the_beginning_are_no_finding():
    assert found(RULE, timeline(_steps(0))) == []
    rows = _steps(0)
    early = [{**rows[0], "start": -900 * MS}, *rows[1:]]
    assert found(RULE, timeline(early, warmup={0})) == []


def test_every_other_step_is_no_exception():
    rows, now = [], 0
    for step in range(8):
        now += 100 * MS * (1 + step % 2)
        rows.append({"start": now - 10 * MS, "end": now, "step_index": step})
    assert found(RULE, timeline(rows)) == []


def test_one_regular_step_says_nothing():
    assert "fewer than two" in reason(RULE, timeline(repeated([{"start": 0, "end": MS}], period=MS, steps=1)))
