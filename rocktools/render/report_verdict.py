"""A summary -> the sentences that stand first: what a step costs, where it goes, what to try."""

from __future__ import annotations

from rocktools.summary.document import Missing, Steps, Summary
from rocktools.units import count_noun, format_duration, format_ratio

_UNNAMED = {"unattributed", "unknown", "other", ""}


def verdict_of(summary: Summary) -> tuple[str, ...]:
    """At most five sentences; each says a number of the summary, or why there is none."""
    sentences = [_step_sentence(summary)]
    sentences += _overlap_sentences(summary)
    sentences += _largest_sentence(summary)
    sentences += _throughput_sentence(summary)
    if summary.candidates:
        first = summary.candidates[0]
        saved = "" if first.most_saved_ns is None else f" At most {format_duration(first.most_saved_ns)} of a step."
        sentences.append(f"First to look at: {first.title}. {first.rationale}{saved}")
    return tuple(sentences)


def _step_sentence(summary: Summary) -> str:
    steps = summary.steps
    if isinstance(steps, Missing):
        return f"No step time: {steps.reason}."
    if steps.statistics is None:
        return "No step time: none of the steps counts, since all are warm-up or cut."
    found = steps.statistics
    named = "simulated step" if summary.is_simulated else "profiled step"
    if found.samples_count == 1:
        return f"One {named} of {format_duration(found.median_ns)}; a single sample says nothing of the spread."
    spread = "" if found.spread_ratio is None else f", interquartile range {format_ratio(found.spread_ratio)}"
    return (
        f"A {named} takes {format_duration(found.median_ns)}: the median of {found.samples_count}, "
        f"{format_duration(found.min_ns)} to {format_duration(found.max_ns)}{spread}.{_classes(steps)}"
    )


def _classes(steps: Steps) -> str:
    if len(steps.classes) < 2:
        return ""
    heavy = steps.classes[-1]
    return (
        f" {count_noun(heavy.steps_count, 'step')} of class {heavy.name} take "
        f"{format_duration(heavy.statistics.median_ns)}."
    )


def _overlap_sentences(summary: Summary) -> list[str]:
    overlap = summary.overlap
    if isinstance(overlap, Missing):
        return []
    mean = overlap.mean
    parts = [f"compute runs for {format_duration(mean.compute_ns)}"]
    if mean.communication_ns:
        hidden = "" if overlap.hidden_ratio is None else f" ({format_ratio(overlap.hidden_ratio)} of it is hidden)"
        parts.append(
            f"communication for {format_duration(mean.communication_ns)}{hidden}, "
            f"{format_duration(mean.exposed_communication_ns)} of it exposed"
        )
    idle = "" if overlap.idle_ratio is None else f" ({format_ratio(overlap.idle_ratio)})"
    parts.append(f"nothing for {format_duration(mean.idle_ns)}{idle}")
    devices = count_noun(len(overlap.devices), "device")
    return [f"On a mean of {devices}, of a span of {format_duration(mean.span_ns)}, {', '.join(parts)}."]


def _largest_sentence(summary: Summary) -> list[str]:
    if isinstance(summary.ledger, Missing):
        return []
    named = [bucket for bucket in summary.ledger.buckets if bucket.component not in _UNNAMED]
    if not named:
        return []
    largest = named[0]
    return [
        f"Most kernel time goes to {largest.component}, {largest.phase} ({largest.activity}): "
        f"{format_duration(largest.sum_per_step_ns)} a step on each device, {format_ratio(largest.share_ratio)} of all."
    ]


def _throughput_sentence(summary: Summary) -> list[str]:
    found = summary.throughput
    rate = None if isinstance(found, Missing) else found.tokens_per_device_per_s.value
    if isinstance(found, Missing) or not isinstance(rate, (int, float)):
        return []
    return [
        f"Unprofiled: {format_duration(found.step_ns)} a step ({found.statistic} of "
        f"{count_noun(found.samples_count, 'sample')}), {rate:,.1f} tokens/s on each device."
    ]
