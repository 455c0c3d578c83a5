"""Empty regions beside transfers between stages."""

from __future__ import annotations

from rule_timeline import MS, found, only, reason, repeated, timeline

from rocktools.rules.pipeline_bubble import RULE

SEND = {"activity": "communication", "collective": "collective-permute", "instruction": "collective-permute.1"}


def _stages(steps: int = 4, fill: int = 20):
    """Two stages: the second waits in its first transfer until the first one has sent, the first is empty at the end.

    Four microbatches of 15 ms each; stage 1 begins after `fill` ms.
    """
    rows = []
    for step in range(steps):
        for gpu in (0, 1):
            device = f"node0:gpu{gpu}"
            begin = 100 * step + fill * gpu
            work = [{"start": begin + 15 * i, "end": begin + 15 * i + 14} for i in range(4)]
            sends = [{**SEND, "start": begin + 15 * i + 14, "end": begin + 15 * i + 15} for i in range(4)]
            waits = [{**SEND, "start": 100 * step, "end": begin}] if gpu else []
            last = [{"start": 100 * step + 98, "end": 100 * step + 99}]
            for row in (*work, *sends, *waits, *last):
                times = {"start": row["start"] * MS, "end": row["end"] * MS}
                rows.append({**row, **times, "device": device, "step_index": step})
    return timeline(rows)


def test_filling_and_draining_are_found():
    """Stage 0: idle from 60 to 98 ms, and a transfer of 1; stage 1: waits 20 ms, idle from 80 to 98."""
    finding, explained = only(RULE, _stages())
    assert finding.numbers["most_ns"] == 39 * MS
    assert explained == (39 + 38) / 2 * MS


def test_irregular_waits_are_no_bubble():
    """The only empty time is the wait of stage 1, which is 6, 12, 18 and 24 ms: no rule, and the rest is busy."""
    rows = []
    for step in range(4):
        wait = 6 * (step + 1)
        for device, begin in (("node0:gpu0", 0), ("node0:gpu1", wait)):
            base = 100 * step * MS
            rows.append({"start": base + begin * MS, "end": base + 100 * MS, "device": device, "step_index": step})
            if begin:
                rows.append({**SEND, "start": base, "end": base + begin * MS, "device": device, "step_index": step})
    assert found(RULE, timeline(rows)) == []


def test_without_transfers_between_stages_there_is_no_pipeline():
    assert "stage" in reason(RULE, timeline(repeated([{"start": 0, "end": MS}], period=2 * MS)))


def test_short_waits_are_no_finding():
    rows = [{"start": 0, "end": 98 * MS}, {**SEND, "start": 98 * MS, "end": 99 * MS}]
    assert found(RULE, timeline(repeated(rows, period=100 * MS))) == []


def test_many_small_waits_are_no_bubble():
    rows = []
    for i in range(20):
        rows += [
            {"start": 5 * i * MS, "end": (5 * i + 4) * MS},
            {**SEND, "start": (5 * i + 4) * MS, "end": (5 * i + 5) * MS},
        ]
    assert found(RULE, timeline(repeated(rows, period=100 * MS))) == []


def test_two_steps_show_no_rule():
    assert "regular" in reason(RULE, _stages(steps=2))
