"""Copies with nothing beside them."""

from __future__ import annotations

from rule_timeline import MS, found, only, repeated, timeline

from rocktools.rules.exposed_copies import RULE


def _step(begin: int, end: int):
    copy = {"activity": "copy", "name": "DEVICE_TO_HOST", "start": begin * MS, "end": end * MS}
    rows = [{"start": 0, "end": 80 * MS}, copy, {"start": 99 * MS, "end": 100 * MS}]
    return timeline(repeated(rows, period=100 * MS))


def test_copy_that_nothing_hides_is_found():
    """From 70 to 95: 10 under compute, 15 exposed."""
    finding, explained = only(RULE, _step(70, 95))
    assert (finding.where, explained) == ("DEVICE_TO_HOST", 15 * MS)


def test_hidden_and_short_copies_are_no_finding():
    assert found(RULE, _step(10, 80)) == []
    assert found(RULE, _step(80, 84)) == []
