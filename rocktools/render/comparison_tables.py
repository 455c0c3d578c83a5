"""A comparison, an assessment or a history -> tables for people and for other programs."""

from __future__ import annotations

from collections.abc import Sequence

from rocktools.compare.comparison import Comparison, RegionDelta
from rocktools.compare.history import Entry, drift_ratios
from rocktools.compare.parity import ParityRow, ParityState
from rocktools.compare.track import Assessment, State
from rocktools.evidence import Evidence
from rocktools.render.report import Report, Section, Shown, record_table
from rocktools.render.table import Table, top_rows
from rocktools.render.text import shorten_middle
from rocktools.units import count_noun

CHANCE = "chance is that of the steps of these two runs; how much two runs of one job differ, only more runs can tell"
_ROUNDS_TO_NOTHING_NS = 1.0
_LONG = 40


def comparison_tables(comparison: Comparison, *, rows_count: int = 0, is_brief: bool = True) -> list[Table]:
    """Every part of a comparison that has something to show, in the order in which it is read.

    Args:
        rows_count: of each table, at most; 0: all.
        is_brief: whether long values of facts are cut to where they differ, for people.
    """
    made = [
        _steps(comparison),
        _buckets(comparison),
        _regions(comparison),
        _operations(comparison),
        _shares(comparison),
        _families(comparison),
        _parity(comparison, is_brief=is_brief),
    ]
    return [_cut(table, rows_count) for table in made if len(table.frame)]


def comparison_report(comparison: Comparison, *, rows_count: int = 0) -> Report:
    """The same as a page."""
    tables = comparison_tables(comparison, rows_count=rows_count)
    return Report(
        title=f"{comparison.before} → {comparison.after}",
        is_simulated=comparison.is_simulated,
        verdict=(f"{comparison.verdict[:1].upper()}{comparison.verdict[1:]}.", *comparison.parity.reasons),
        sections=tuple(
            Section(anchor=table.name, heading=table.name.capitalize(), tables=(table,)) for table in tables
        ),
        footer="; ".join((*comparison.reasons, CHANCE)),
    )


def _cut(table: Table, rows_count: int) -> Table:
    return table if table.name == "parity" else top_rows(table, rows_count)


def _parity(comparison: Comparison, *, is_brief: bool) -> Table:
    def shown_value(row: ParityRow, value: object, other: object) -> str | None:
        return _brief(row.name, _text(value), _text(other)) if is_brief else _text(value)

    shown = [row for row in comparison.parity.rows if row.state is not ParityState.SAME]
    same = len(comparison.parity.rows) - len(shown)
    return record_table(
        "parity",
        f"parity gate {comparison.parity.gate}: {count_noun(same, 'fact')} the same, these are not",
        shown,
        (
            Shown("name", "fact, its unit in the name"),
            Shown("kind", "work: must be the same; measurement: may mislead; change: what is compared"),
            Shown("before", "value before", lambda row: shown_value(row, row.before, row.after)),
            Shown("after", "value after", lambda row: shown_value(row, row.after, row.before)),
            Shown("state", "how they stand to each other"),
            Shown("reason", "why a value is not known", lambda row: row.reason or None),
        ),
        evidence=Evidence.DECLARED,
        is_simulated=comparison.is_simulated,
    )


def _steps(comparison: Comparison) -> Table:
    rows = [] if comparison.steps is None else [("all", comparison.steps)]
    rows += [] if comparison.tail is None else [("90th percentile", comparison.tail)]
    rows += [] if comparison.between is None else [("between steps, profiled", comparison.between)]
    rows += [(f"class {each.name}", each.difference) for each in comparison.classes if each.difference is not None]
    return record_table(
        "steps",
        f"steps, {comparison.basis}",
        rows,
        (
            Shown("steps", "which", lambda row: row[0]),
            *(
                Shown(name, meaning, lambda row, name=name: getattr(row[1], name))  # type: ignore[misc]
                for name, meaning in (
                    ("before_ns", "median before, or what `steps` says"),
                    ("after_ns", "the same after"),
                    ("delta_ns", "after minus before"),
                    ("delta_ratio", "over before"),
                    ("low_ratio", "lower end of the 95 % interval"),
                    ("high_ratio", "upper end of it"),
                    ("probability", "of so large a difference by chance"),
                    ("before_count", "steps before"),
                    ("after_count", "steps after"),
                    ("verdict", "what follows"),
                )
            ),
            Shown("reason", "why nothing can be said", lambda row: row[1].reason or None),
        ),
        evidence=Evidence.MEASURED,
        is_simulated=comparison.is_simulated,
        notes=(CHANCE,),
    )


def _shares(comparison: Comparison) -> Table:
    return record_table(
        "shares",
        "parts of the span of a mean device and step",
        comparison.shares,
        (
            Shown("name", "part"),
            Shown("before_ns", "before"),
            Shown("after_ns", "after"),
            Shown("before_ratio", "of the span before"),
            Shown("after_ratio", "of the span after"),
            Shown("delta_ratio", "difference of the shares"),
        ),
        evidence=Evidence.MEASURED,
        is_simulated=comparison.is_simulated,
    )


def _buckets(comparison: Comparison) -> Table:
    return record_table(
        "components",
        "components by phase, the largest change first",
        [each for each in comparison.buckets if abs(each.delta_ns) >= _ROUNDS_TO_NOTHING_NS],
        (
            Shown("component", "part of the model"),
            Shown("phase", "part of the step"),
            Shown("activity", "class of work"),
            Shown("before_ns", "summed durations of a mean device and step, before"),
            Shown("after_ns", "after"),
            Shown("delta_ns", "after minus before"),
            Shown("delta_ratio", "over before"),
            Shown("delta_of_step_ratio", "over the span of a step before"),
            Shown("steady_ns", "change of the median over steps, which single steps do not make"),
            Shown("cause", "what most of it is", lambda each: each.split.cause),
            Shown("by_count_ns", "by more or fewer executions", lambda each: each.split.count_ns),
            Shown("by_work_ns", "by more or less work in each", lambda each: each.split.work_ns, _ESTIMATE),
            Shown("by_time_ns", "by more or less time for the same work", lambda each: each.split.rate_ns, _ESTIMATE),
            Shown("probability", "that chance parts any of these as far"),
            Shown("verdict", "what follows"),
        ),
        evidence=Evidence.MEASURED,
        is_simulated=comparison.is_simulated,
    )


_ESTIMATE = Evidence.COMPILER_ESTIMATE


def _regions(comparison: Comparison) -> Table:
    return record_table(
        "scopes",
        "named scopes, the largest change first",
        [each for each in comparison.regions if abs(each.delta_ns) >= _ROUNDS_TO_NOTHING_NS],
        (
            Shown("scope_name", "scopes from the outermost", lambda each: _path(each)),
            Shown("phase", "part of the step"),
            Shown("before_ns", "of a mean device and step, without inner scopes"),
            Shown("after_ns", "after"),
            Shown("delta_ns", "after minus before"),
            Shown("delta_ratio", "over before"),
            Shown("cause", "what most of it is", lambda each: each.split.cause),
            Shown("before_count", "executions before"),
            Shown("after_count", "executions after"),
        ),
        evidence=Evidence.MEASURED,
        is_simulated=comparison.is_simulated,
    )


def _path(region: RegionDelta) -> str:
    return "/".join(region.path) or "(no scope)"


def _operations(comparison: Comparison) -> Table:
    return record_table(
        "operations",
        "operations by exclusive time, the largest change first",
        comparison.operations,
        (
            Shown("after_name", "instruction after; before, where it is gone", lambda each: each.name_after),
            Shown("before_name", "instruction before", lambda each: each.name_before),
            Shown("state", "matched, new, gone, or not listed on one side"),
            Shown("matched_by", "what tells that they are the same", lambda each: each.matched_by or None),
            Shown("before_ns", "exclusive time of a mean device and step, before"),
            Shown("after_ns", "after"),
            Shown("delta_ns", "after minus before"),
            Shown("delta_ratio", "over before"),
            Shown("cause", "what most of it is", lambda each: None if each.split is None else each.split.cause),
            Shown("phase", "part of the step"),
            Shown("component", "part of the model"),
            Shown("scope", "named scopes"),
        ),
        evidence=Evidence.MEASURED,
        is_simulated=comparison.is_simulated,
    )


def _families(comparison: Comparison) -> Table:
    return record_table(
        "families",
        "kinds of work, with time for the same work",
        comparison.families,
        (
            Shown("family", "kind of work"),
            Shown("before_ns", "exclusive time of a mean device and step, before"),
            Shown("after_ns", "after"),
            Shown("time_quotient", "time after over before", lambda each: each.time_ratio),
            Shown("work_quotient", "FLOPs after over before", lambda each: each.work_ratio, _ESTIMATE),
            Shown(
                "efficiency_quotient",
                "work over time, after over before",
                lambda each: each.efficiency_ratio,
                _ESTIMATE,
            ),
        ),
        evidence=Evidence.MEASURED,
        is_simulated=comparison.is_simulated,
    )


def assessment_table(assessment: Assessment) -> Table:
    """Every check, the worst first."""
    label = f"{assessment.label}: " if assessment.label else ""
    states = [check.state for check in assessment.checks]
    told = ", ".join(
        f"{states.count(state)} {words}"
        for state, words in ((State.FAIL, "failed"), (State.WARN, "warned"))
        if state in states
    )
    return record_table(
        "checks",
        f"{label}{assessment.state}: {count_noun(len(assessment.checks), 'check')}{', ' if told else ''}{told}",
        assessment.checks,
        (
            Shown("state", "pass, warn or fail"),
            Shown("name", "what was checked"),
            Shown("subject", "of what", lambda each: each.subject or None),
            Shown("value_ratio", "growth, or difference of shares"),
            Shown("warn_ratio", "from where on it warns"),
            Shown("fail_ratio", "from where on it fails"),
            Shown("cause", "count, work or time", lambda each: each.cause or None),
            Shown("message", "the same in a sentence"),
        ),
        evidence=Evidence.MEASURED,
        is_simulated=assessment.is_simulated,
        notes=(f"before: {assessment.before}", f"after: {assessment.after}"),
    )


def history_table(entries: Sequence[Entry], *, cut_rows_count: int = 0) -> Table:
    """Tracked comparisons in the order of the file, with the drift from the fastest so far."""
    rows = list(zip(entries, drift_ratios(entries), strict=True))
    return record_table(
        "history",
        f"{count_noun(len(entries), 'tracked comparison')}",
        rows,
        (
            Shown("recorded_at_utc", "when", lambda row: row[0].recorded_at_utc),
            Shown("label", "what the user calls it", lambda row: row[0].label or None),
            Shown("state", "pass, warn or fail", lambda row: row[0].state),
            Shown("before_ns", "median step before", lambda row: row[0].before_ns),
            Shown("after_ns", "median step after", lambda row: row[0].after_ns),
            Shown("delta_ratio", "after over before", lambda row: row[0].delta_ratio),
            Shown("verdict", "whether chance may have made it", lambda row: row[0].verdict),
            Shown("drift_ratio", "after, over the fastest so far", lambda row: row[1]),
            Shown("failed", "what failed or warned", lambda row: "; ".join(row[0].failed) or None),
        ),
        evidence=Evidence.MEASURED,
        is_simulated=any(entry.is_simulated for entry in entries),
        cut_rows_count=cut_rows_count,
    )


def _text(value: object) -> str | None:
    return None if value is None else str(value)


def _brief(name: str, text: str | None, other: str | None) -> str | None:
    """A long value cut for people: of flags and arguments what the other side has not, else the ends."""
    if text is None or len(text) <= _LONG:
        return text
    if name in ("xla_flags", "argv") and other is not None:
        there = set(other.split())
        own = " ".join(word for word in text.split() if word not in there)
        text = f"… {own} …" if own else "(nothing that the other has not)"
    return shorten_middle(text, 2 * _LONG if name in ("xla_flags", "argv") else _LONG)
