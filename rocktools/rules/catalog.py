"""Every rule, the check of all of them, and the order of what they found: what explains most time comes first."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import pandas as pd

from rocktools.errors import UsageError, nearest_names
from rocktools.findings import Finding, Severity
from rocktools.frames import Column, FrameSpec, require_frame
from rocktools.rules import (
    activation_gather,
    assignments_as_tokens,
    batch_change,
    batch_multiplied,
    collective_after_backward,
    command_buffers,
    communication_tail,
    compile_in_timing,
    compute_bound,
    data_formatting,
    embedding_gathers,
    expert_imbalance,
    exposed_collective,
    exposed_copies,
    flop_source_unsaid,
    full_remat,
    host_bound,
    host_callback,
    input_starvation,
    kernel_of_many,
    last_at_collectives,
    memory_bound,
    memory_kind,
    memory_summed,
    mesh_axis,
    missing_donation,
    one_duration,
    one_peak_for_all,
    one_rank_only,
    outputs_unchecked,
    padding_waste,
    peak_bandwidth,
    peak_of_another_format,
    pipeline_bubble,
    profiled_throughput,
    recompilation,
    repeated_reshard,
    scale_out_tail,
    several_changes,
    slow_transfer,
    straggler,
    sync_in_loop,
    tiny_kernels,
    total_as_exposed,
    utilisation_alone,
    valu_bound,
    warm_up_captured,
)
from rocktools.rules.inputs import RuleInputs
from rocktools.rules.rule import CannotSay, Rule, RuleFinding
from rocktools.rules.step_times import mean_step_ns
from rocktools.timeline.activities import labels_column

RULES: tuple[Rule, ...] = (
    exposed_collective.RULE,
    mesh_axis.RULE,
    full_remat.RULE,
    data_formatting.RULE,
    input_starvation.RULE,
    recompilation.RULE,
    valu_bound.RULE,
    padding_waste.RULE,
    straggler.RULE,
    expert_imbalance.RULE,
    slow_transfer.RULE,
    scale_out_tail.RULE,
    host_callback.RULE,
    missing_donation.RULE,
    activation_gather.RULE,
    sync_in_loop.RULE,
    embedding_gathers.RULE,
    exposed_copies.RULE,
    tiny_kernels.RULE,
    host_bound.RULE,
    compute_bound.RULE,
    memory_bound.RULE,
    collective_after_backward.RULE,
    communication_tail.RULE,
    pipeline_bubble.RULE,
    last_at_collectives.RULE,
    repeated_reshard.RULE,
    warm_up_captured.RULE,
    command_buffers.RULE,
    one_rank_only.RULE,
    kernel_of_many.RULE,
    batch_multiplied.RULE,
    assignments_as_tokens.RULE,
    peak_of_another_format.RULE,
    one_peak_for_all.RULE,
    flop_source_unsaid.RULE,
    memory_summed.RULE,
    memory_kind.RULE,
    one_duration.RULE,
    compile_in_timing.RULE,
    profiled_throughput.RULE,
    utilisation_alone.RULE,
    total_as_exposed.RULE,
    peak_bandwidth.RULE,
    batch_change.RULE,
    several_changes.RULE,
    outputs_unchecked.RULE,
)
"""In the order of the manual: faults, patterns, quality of the capture, lints."""

RULE_FINDINGS = FrameSpec(
    name="RULE_FINDINGS",
    meaning="One row per finding of a rule: warnings before notes, and of each the one that explains most time first.",
    key=("rank_index",),
    sort=("rank_index",),
    columns=(
        Column("rank_index", "int64", "place in this order, from 0"),
        Column("rule", "category", "name of the rule; `rocktools rules show NAME` explains it"),
        Column("group", "category", "fault, trace-pattern, capture-quality or lint"),
        Column("severity", "category", "note, warning or fault"),
        Column(
            "explained_ns", "float64", "time of a step that it explains, at most", "it costs no time that can be told"
        ),
        Column("share_ratio", "float64", "that over the mean step", "there is no such time, or no step"),
        Column("evidence", "category", "where that time comes from"),
        Column("place_name", "category", "instruction, device or part of the step"),
        Column("finding", "category", "what was found, with its numbers"),
        Column("advice", "category", "what to do", "nothing can be done"),
    ),
)

SILENT_RULES = FrameSpec(
    name="SILENT_RULES",
    meaning="One row per rule that could not say anything about these files, and why.",
    key=("rule",),
    sort=("rule",),
    columns=(
        Column("rule", "category", "name of the rule"),
        Column("group", "category", "fault, trace-pattern, capture-quality or lint"),
        Column("reason", "category", "what it lacks"),
    ),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Silence:
    """A rule that could not say anything, and why."""

    rule: Rule
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RankedFinding:
    """A finding with its rule, and the share of a step that it explains; None where none can be told."""

    rule: Rule
    found: RuleFinding
    share_ratio: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleReport:
    """What all rules say.

    Attributes:
        findings: the heaviest first, and of one severity the one that explains most time.
        silent: rules that could not say anything.
        clear: rules that looked and found nothing.
        step_ns: mean step that shares are of; None where there is none.
    """

    findings: tuple[RankedFinding, ...]
    silent: tuple[Silence, ...]
    clear: tuple[Rule, ...]
    step_ns: float | None

    @property
    def plain(self) -> list[Finding]:
        """The findings alone, in the same order."""
        return [each.found.finding for each in self.findings]


_WEIGHT = {severity: rank for rank, severity in enumerate(Severity)}


def find_rule(name: str) -> Rule:
    """The rule of that name.

    Raises:
        UsageError: there is none; the nearest names are listed.
    """
    for rule in RULES:
        if rule.name == name:
            return rule
    near = nearest_names(name, [rule.name for rule in RULES])
    raise UsageError("unknown-rule", f"there is no rule {name!r}", hint=", ".join(near) or "rocktools rules list")


def check_rules(inputs: RuleInputs, rules: Iterable[Rule] = RULES) -> RuleReport:
    """What the rules say about the inputs."""
    step_ns = None if inputs.step_times is None or inputs.step_times.empty else mean_step_ns(inputs.step_times)
    findings: list[RankedFinding] = []
    silent: list[Silence] = []
    clear: list[Rule] = []
    for rule in rules:
        outcome = rule.judge(inputs)
        if isinstance(outcome, CannotSay):
            silent.append(Silence(rule=rule, reason=outcome.reason))
        elif not outcome:
            clear.append(rule)
        else:
            findings += [_ranked(rule, found, step_ns) for found in outcome]
    findings.sort(key=_place)
    return RuleReport(findings=tuple(findings), silent=tuple(silent), clear=tuple(clear), step_ns=step_ns)


def findings_frame(report: RuleReport) -> pd.DataFrame:
    """RULE_FINDINGS."""
    rows = [(each, each.found.finding) for each in report.findings]
    frame = pd.DataFrame(
        {
            "rank_index": pd.Series(range(len(rows)), dtype="int64"),
            "rule": labels_column([finding.rule for _, finding in rows]),
            "group": labels_column([str(each.rule.group) for each, _ in rows]),
            "severity": labels_column([finding.severity.value for _, finding in rows]),
            "explained_ns": pd.Series([each.found.explained_ns for each, _ in rows], dtype="float64"),
            "share_ratio": pd.Series([each.share_ratio for each, _ in rows], dtype="float64"),
            "evidence": labels_column([str(each.found.evidence) for each, _ in rows]),
            "place_name": labels_column([finding.where for _, finding in rows]),
            "finding": labels_column([finding.message for _, finding in rows]),
            "advice": labels_column([finding.advice or None for _, finding in rows]),
        }
    )
    return require_frame(frame, RULE_FINDINGS)


def silent_frame(report: RuleReport) -> pd.DataFrame:
    """SILENT_RULES."""
    rows = sorted(report.silent, key=lambda each: each.rule.name)
    frame = pd.DataFrame(
        {
            "rule": labels_column([each.rule.name for each in rows]),
            "group": labels_column([str(each.rule.group) for each in rows]),
            "reason": labels_column([each.reason for each in rows]),
        }
    )
    return require_frame(frame, SILENT_RULES)


def _ranked(rule: Rule, found: RuleFinding, step_ns: float | None) -> RankedFinding:
    share = found.explained_ns / step_ns if found.explained_ns is not None and step_ns else None
    return RankedFinding(rule=rule, found=found, share_ratio=share)


def _place(each: RankedFinding) -> tuple[int, float, str, str]:
    explained = -1.0 if each.found.explained_ns is None else each.found.explained_ns
    finding = each.found.finding
    return -_WEIGHT[finding.severity], -explained, finding.rule, finding.where
