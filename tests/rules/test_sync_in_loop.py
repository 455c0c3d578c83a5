"""A host that waits for the device at the end of every step."""

from __future__ import annotations

from rule_timeline import MS, found, only, reason, repeated, timeline

from rocktools.rules.sync_in_loop import RULE

ROWS = repeated([{"start": 5 * MS, "end": 100 * MS}], period=100 * MS)


def _calls(ends: int, *, thread: int = 1, name: str = "hipStreamSynchronize"):
    """In each step a launch, and a call that returns `ends` ms after the step's last kernel."""
    calls = []
    for step in range(4):
        begin = 100 * step * MS
        calls.append({"name": "hipModuleLaunchKernel", "start": begin + 4 * MS, "end": begin + 5 * MS, "thread_id": 1})
        end = begin + (100 + ends) * MS
        calls.append({"name": name, "start": begin + 50 * MS, "end": end, "thread_id": thread})
    return calls


def test_wait_at_the_end_of_every_step_is_found():
    """The host wakes 1 ms behind each step, and the next kernel starts 4 ms later: 5 ms of nothing."""
    finding, explained = only(RULE, timeline(ROWS, calls=_calls(1)))
    assert explained == 5 * MS
    assert finding.numbers["synchronized_steps_count"] == 3


def test_wait_for_an_older_step_is_no_finding():
    assert found(RULE, timeline(ROWS, calls=_calls(-20))) == []


def test_wait_of_another_thread_does_not_hold_launches_up():
    assert found(RULE, timeline(ROWS, calls=_calls(1, thread=2))) == []


def test_other_calls_are_no_wait():
    assert found(RULE, timeline(ROWS, calls=_calls(1, name="hipMemcpyAsync"))) == []


def test_without_calls_or_with_one_step_it_cannot_say():
    assert "no call" in reason(RULE, timeline(ROWS))
    assert "two steps" in reason(RULE, timeline(ROWS[:2], calls=_calls(1)))
