"""The log of an unprofiled run -> its steps, and throughput: input tokens over their time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from rocktools.evidence import Absence, Evidence, weakest
from rocktools.findings import Finding, Severity
from rocktools.sources.step_log import StepLogFile, StepRecord
from rocktools.summary.document import Fact, LoggedStep, Missing, StepLog, Throughput
from rocktools.summary.facts import known, unknown
from rocktools.summary.statistics import describe_durations
from rocktools.units import NS_PER_S

NO_LOG = Missing(absence=Absence.NOT_COLLECTED, reason="no log of an unprofiled run was named (--step-log)")
_OFF = {"", "''", '""', "none", "None"}


def build_step_log(log: StepLogFile, name: str, *, warmup_steps_count: int) -> tuple[StepLog, tuple[Finding, ...]]:
    """Steps of the log, those that count marked.

    Args:
        log: what was read.
        name: of its file.
        warmup_steps_count: first steps that do not count.
    """
    profiled, findings = _profiled(log, name)
    steps = tuple(
        _step(record, place, warmup_steps_count, record.step_number in profiled)
        for place, record in enumerate(log.steps)
    )
    durations = [each.duration_ns for each in steps if each.exclusion is None]
    statistics = describe_durations(durations)
    is_single = len(durations) == 1
    block = StepLog(
        path=name,
        format=log.format,
        evidence=Evidence.MEASURED,
        statistic="sample" if is_single else "median",
        step_ns=None if statistics is None else statistics.median_ns,
        statistics=statistics,
        warmup_steps_count=sum(each.exclusion == "warm-up" for each in steps),
        profiled_steps_count=sum(each.exclusion == "profiled" for each in steps),
        is_single_sample=is_single,
        steps=steps,
    )
    return block, (*log.findings, *findings, *_few(block, name))


def _step(record: StepRecord, place: int, warmup_steps_count: int, is_profiled: bool) -> LoggedStep:
    return LoggedStep(
        step_number=record.step_number,
        duration_ns=record.duration_ns,
        flop_per_device_per_s=record.flop_per_device_per_s,
        tokens_per_device_per_s=record.tokens_per_device_per_s,
        tokens_count=record.tokens_count,
        loss=record.loss,
        exclusion="profiled" if is_profiled else "warm-up" if place < warmup_steps_count else None,
    )


def _profiled(log: StepLogFile, name: str) -> tuple[set[int], tuple[Finding, ...]]:
    """Steps during which the log's own job was profiled, by its settings."""
    profiler = log.config.get("profiler", "").strip()
    if profiler in _OFF or not log.steps:
        return set(), ()
    numbers = [each.step_number for each in log.steps]
    try:
        first = numbers[0] + int(log.config["skip_first_n_steps_for_profiler"])
        profiled = set(range(first, first + int(log.config["profiler_steps"])))
    except (KeyError, ValueError):
        profiled = set(numbers)
    count = len(profiled & set(numbers))
    finding = Finding(
        rule="step-log-of-a-profiled-run",
        severity=Severity.WARNING,
        where=name,
        message=f"the job of this log ran a profiler ({profiler}): {count} of its {len(numbers)} steps do not count",
        numbers={"profiled_steps_count": count, "steps_count": len(numbers)},
        advice="run the job with profiler= and name that log",
    )
    return profiled, (finding,)


def _few(block: StepLog, name: str) -> tuple[Finding, ...]:
    count = 0 if block.statistics is None else block.statistics.samples_count
    if count >= 2:
        return ()
    what = "no step of the log counts" if count == 0 else "one step of the log counts: a sample, and no median"
    return (
        Finding(
            rule="few-logged-steps",
            severity=Severity.WARNING,
            where=name,
            message=f"{what} ({block.warmup_steps_count} are warm-up, {block.profiled_steps_count} were profiled)",
            numbers={"samples_count": count, "warmup_steps_count": block.warmup_steps_count},
            advice="run more steps; or --log-warmup N, if fewer are warm-up",
        ),
    )


def build_throughput(log: StepLog | Missing, job: Mapping[str, Fact], devices: Fact) -> Throughput | Missing:
    """Tokens over unprofiled time; Missing without such time, whatever was profiled.

    Args:
        log: of the unprofiled run.
        job: facts of the job.
        devices: how many share the tokens.
    """
    if isinstance(log, Missing):
        return log
    if log.step_ns is None or log.statistics is None or log.step_ns <= 0:
        return Missing(absence=Absence.NOT_COLLECTED, reason="no step of the log counts")
    tokens = job["tokens_per_step_count"]
    whole = _over(tokens, log.step_ns / NS_PER_S, "tokens of a step over its time")
    each = _quotient(whole, devices)
    if whole.value is None:
        printed = [step.tokens_per_device_per_s for step in log.steps if step.exclusion is None]
        each, whole = _printed([value for value in printed if value is not None], log.path, devices, tokens)
    return Throughput(
        step_ns=log.step_ns,
        statistic=log.statistic,
        samples_count=log.statistics.samples_count,
        tokens_per_step_count=tokens,
        devices_count=devices,
        tokens_per_s=whole,
        tokens_per_device_per_s=each,
        relative_spread_ratio=log.statistics.spread_ratio,
    )


def _over(tokens: Fact, seconds: float, source: str) -> Fact:
    if isinstance(tokens.value, (str, bool)) or tokens.value is None or tokens.evidence is None:
        return unknown("tokens of a step are not known")
    return known(tokens.value / seconds, weakest(Evidence.MEASURED, tokens.evidence), source)


def _quotient(whole: Fact, devices: Fact) -> Fact:
    if not isinstance(whole.value, float) or whole.evidence is None:
        return whole
    if not isinstance(devices.value, int) or devices.evidence is None or devices.value < 1:
        return unknown("the number of devices is not known")
    return known(whole.value / devices.value, weakest(whole.evidence, devices.evidence), whole.source)


def _printed(values: Sequence[float], path: str, devices: Fact, tokens: Fact) -> tuple[Fact, Fact]:
    """What the job printed as its own throughput, where its tokens are not known."""
    if not values:
        reason = "tokens of a step are not known" if tokens.missing is None else tokens.missing.reason
        return unknown(reason), unknown(reason)
    each = known(float(np.median(values)), Evidence.DECLARED, f"{path}: median of what the job printed")
    if not isinstance(devices.value, int) or devices.evidence is None:
        return each, unknown("the number of devices is not known")
    whole = float(np.median(values)) * devices.value
    return each, known(whole, Evidence.DECLARED, f"{each.source}, times devices")
