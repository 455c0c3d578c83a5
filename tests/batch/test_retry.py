"""What is tried again, and that the table knows everything that a run can come to."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import rocktools.batch.attempt
import rocktools.capture.compute_checks
import rocktools.capture.compute_outcome
from rocktools.batch.retry import FLAKINESS, is_retried

# Doubts about a workload that is good enough: they never end an attempt.
_NO_FAULTS = {"compute-levels-by-row", "compute-other-kernels", "compute-launches-more"}


def _texts(module: object) -> set[str]:
    source = Path(str(module.__file__)).read_text(encoding="utf-8")  # type: ignore[attr-defined]
    return {
        node.value
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value.startswith("compute-")
    }


def test_every_reason_that_a_run_can_have_is_in_the_table():
    reasons = _texts(rocktools.capture.compute_outcome) | _texts(rocktools.capture.compute_checks)
    assert len(reasons) > 10
    assert {reason for reason in reasons if " " not in reason} - _NO_FAULTS <= set(FLAKINESS)
    assert _texts(rocktools.batch.attempt) - {"compute-incomplete"} <= set(FLAKINESS)


def test_every_row_says_why():
    assert all(len(row.why) > 15 for row in FLAKINESS.values())


@pytest.mark.parametrize("reason", ["compute-run-failed", "compute-kernel-missing-in-pass", "compute-nan-rows"])
def test_what_may_pass_is_tried_once_more_and_then_given_up(reason):
    assert is_retried(reason, 1)
    assert not is_retried(reason, 2)


@pytest.mark.parametrize(
    "reason", ["timed-out", "interrupted", "compute-kernel-missing", "compute-no-data", "tool-not-found", ""]
)
def test_what_cannot_pass_by_itself_is_not_tried_again(reason):
    assert not is_retried(reason, 1)
