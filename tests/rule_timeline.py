"""What rules look at, from a few rows of a step: as the workspace measures it, without files."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

import pandas as pd
from spec_frames import make_frame
from timeline_rows import BOOT_NS, make_attributed, make_steps

from rocktools.attribution.collective_rates import measure_collectives
from rocktools.findings import Finding
from rocktools.frames import HOST_CALLS, HOST_EVENTS, RANGES
from rocktools.hlo.module import HloModule
from rocktools.hlo.text_reader import parse_hlo_text
from rocktools.rules.claims import Claims, parse_claims
from rocktools.rules.exposure import measure_exposure
from rocktools.rules.inputs import RuleInputs
from rocktools.rules.kernel_work import build_kernel_work
from rocktools.rules.rule import CannotSay, Rule, RuleFinding
from rocktools.rules.step_times import build_step_times
from rocktools.timeline.gaps import find_gaps
from rocktools.timeline.grouping import match_rows
from rocktools.timeline.late_rank import backward_compute, find_late_ranks
from rocktools.timeline.launches import launches_of_calls
from rocktools.timeline.overlap import reconcile
from rocktools.timeline.skew import match_collectives, sum_skew
from rocktools.timeline.steps import counted_steps

MS = 1_000_000
"""Rows are written in ns; most pictures of steps are of some ms."""

Row = Mapping[str, Any]


def repeated(rows: Iterable[Row], *, period: int, steps: int = 4, first: int = 0) -> list[dict[str, Any]]:
    """The rows of one step again and again, `period` apart."""
    return [
        {**row, "start": row["start"] + step * period, "end": row["end"] + step * period, "step_index": step}
        for step in range(first, first + steps)
        for row in list(rows)
    ]


def timeline(
    rows: Sequence[Row],
    *,
    programs: Sequence[HloModule] = (),
    warmup: Collection[int] = (),
    cut: Collection[int] = (),
    calls: Sequence[Row] = (),
    ranges: Sequence[Row] = (),
    events: Sequence[Row] = (),
    **others: Any,
) -> RuleInputs:
    """What rules look at, of rows that all say their step.

    Args:
        rows: of ATTRIBUTED; host_call_id goes to gaps.
        programs: compiled programs that the rows are of.
        warmup, cut: steps that are so.
        calls: of HOST_CALLS; ranges: of RANGES; events: of HOST_EVENTS. `start` and `end` count from the boot, too.
    """
    rows = [{"event_id": number, **row} for number, row in enumerate(rows)]
    call_of = {row["event_id"]: row.get("host_call_id") for row in rows}
    frame = make_attributed([{key: value for key, value in row.items() if key != "host_call_id"} for row in rows])
    steps = make_steps(_windows(frame, warmup, cut))
    counted = counted_steps(steps)
    whole = reconcile(frame, steps).frame
    mine, own = (_of_steps(each, counted) for each in (frame, whole))
    host_calls = _host(HOST_CALLS, calls)
    launches = None if host_calls is None else launches_of_calls(host_calls)
    called = pd.array([call_of[number] for number in frame["event_id"]], dtype="Int64")
    gaps = find_gaps(frame.assign(host_call_id=called), launches).frame
    arrivals = match_collectives(mine).frame
    skew = sum_skew(arrivals)
    measured: dict[str, Any] = {
        "rows": mine,
        "step_times": build_step_times(whole, steps, counted),
        "reconciliation": own,
        "gaps": _of_steps(gaps, counted),
        "exposure": measure_exposure(mine, arrivals),
        "skew": skew,
        "late_ranks": find_late_ranks(own, skew, backward_compute(mine)),
        "launches": launches,
        "host_calls": host_calls,
        "host_events": _host(HOST_EVENTS, events),
        "ranges": _host(RANGES, ranges),
        "rates": measure_collectives(mine, {module.label: module for module in programs}),
        "programs": tuple(programs) or None,
        "kernel_work": build_kernel_work(programs) if programs else None,
        "devices_count": int(mine["device"].nunique()),
    }
    return RuleInputs(**{**measured, **others})


def program(text: str, program_id: str = "7") -> HloModule:
    """The program of a text, with an id."""
    from dataclasses import replace

    module = parse_hlo_text(text, "program.txt")
    assert module.is_complete, module.findings
    return replace(module, program_id=program_id)


def declared(text: str) -> Claims:
    """Claims; the schema and the name go by themselves."""
    return parse_claims(f"schema: rocktools.claims/1\nname: run\n{text}", source="claims.yaml")


def found(rule: Rule, inputs: RuleInputs) -> list[RuleFinding]:
    """What the rule finds; that it can say something is checked, too."""
    outcome = rule.judge(inputs)
    assert not isinstance(outcome, CannotSay), outcome.reason
    for each in outcome:
        assert each.finding.rule == rule.name
        assert each.finding.numbers
    return outcome


def only(rule: Rule, inputs: RuleInputs) -> tuple[Finding, float | None]:
    """The one finding, and the time that it explains."""
    (one,) = found(rule, inputs)
    return one.finding, one.explained_ns


def reason(rule: Rule, inputs: RuleInputs) -> str:
    """Why the rule cannot say anything."""
    outcome = rule.judge(inputs)
    assert isinstance(outcome, CannotSay), outcome
    return outcome.reason


def _of_steps(frame: pd.DataFrame, steps: pd.DataFrame) -> pd.DataFrame:
    return frame[match_rows(frame, steps, ("run", "device", "step_index")) >= 0].reset_index(drop=True)


def _windows(frame: pd.DataFrame, warmup: Collection[int], cut: Collection[int]) -> list[dict[str, Any]]:
    spans = frame.groupby(["device", "step_index"], observed=True).agg({"start_ns": "min", "end_ns": "max"})
    return [
        {
            "device": device,
            "step_index": int(step),
            "start": int(span["start_ns"]) - BOOT_NS,
            "end": int(span["end_ns"]) - BOOT_NS,
            "is_warmup": step in warmup,
            "is_complete": step not in cut,
        }
        for (device, step), span in spans.iterrows()
    ]


def _host(spec: Any, rows: Sequence[Row]) -> pd.DataFrame | None:
    """A frame of the host; None without a row."""
    numbered = [name for name in spec.key if name.endswith(("_id", "_index"))]
    filled = []
    for number, row in enumerate(rows):
        given = dict(row)
        start, end = given.pop("start") + BOOT_NS, given.pop("end") + BOOT_NS
        labels = {"run": "r", "process": "p0", "host": "host", "kind": "range"}
        usual = {name: value for name, value in labels.items() if name in spec.names}
        filled.append({**usual, **dict.fromkeys(numbered, number), "start_ns": start, "end_ns": end, **given})
    return make_frame(spec, filled) if filled else None
