"""How long steps took: by the trace, and by the log of a run without a profiler; and what follows as throughput."""

from __future__ import annotations

from dataclasses import dataclass

from rocktools.evidence import Evidence
from rocktools.summary.document_facts import Fact, Statistics


@dataclass(frozen=True, slots=True, kw_only=True)
class StepSample:
    """One step on one device.

    Attributes:
        step_index: as in every table; step_number: the job's own number, where it is marked.
        start_ns, duration_ns: the window that counts as the step there, trace clock.
        is_counted: whether numbers are made of it; warm-up and cut steps are not.
        is_complete, is_warmup: why not.
    """

    step_index: int
    step_number: int | None
    start_ns: int
    duration_ns: int
    is_counted: bool
    is_complete: bool
    is_warmup: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceSteps:
    """The steps of one device; `statistics` are of those that count, None where none does."""

    run: str
    device: str
    statistics: Statistics | None
    samples: tuple[StepSample, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class JobStep:
    """One step of the job over all its devices: it lasts as long as on the device where it lasts longest.

    Attributes:
        run, step_index, step_number: which.
        duration_ns: on the critical device.
        mean_ns, min_ns: over devices.
        critical_device: where it lasted longest; the first label of equals.
        devices_count: that have the step.
        is_counted, is_complete, is_warmup: as for devices; complete only if it is on all.
        step_class: `light`, `heavy`; None where no classes are told apart.
    """

    run: str
    step_index: int
    step_number: int | None
    duration_ns: int
    mean_ns: float
    min_ns: int
    critical_device: str
    devices_count: int
    is_counted: bool
    is_complete: bool
    is_warmup: bool
    step_class: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class StepClass:
    """Steps that take much longer than the others, or the others.

    Attributes:
        name: `light` or `heavy`.
        steps_count: in it.
        fraction_ratio: of the steps that count.
        statistics: of its durations.
        representative_step_index: the step whose duration is next to the median of the class.
        period_steps_count: distance of neighbours, where it is the same throughout; None where it is not.
    """

    name: str
    steps_count: int
    fraction_ratio: float
    statistics: Statistics
    representative_step_index: int
    period_steps_count: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Steps:
    """The steps of the trace. They are of a profiled run: no throughput is made of them.

    Attributes:
        method: how they were found: annotation, range, period, whole, window.
        evidence: of the windows.
        warmup_steps_count, cut_steps_count: left out.
        statistics: of `JobStep.duration_ns` of the steps that count; None where none does.
        classes: light and heavy; () where steps are alike.
        class_rule: by what rule classes are told apart.
        series: every step of the job, in order.
        devices: the same for each device.
    """

    method: str
    evidence: Evidence
    warmup_steps_count: int
    cut_steps_count: int
    statistics: Statistics | None
    classes: tuple[StepClass, ...]
    class_rule: str
    series: tuple[JobStep, ...]
    devices: tuple[DeviceSteps, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class LoggedStep:
    """One step as the job's own log gives it.

    Attributes:
        step_number: the job's own.
        duration_ns: by the host's clock.
        flop_per_device_per_s, tokens_per_device_per_s: as the job computed them, where it printed them.
        tokens_count: that had weight in the loss: without padding.
        loss: as printed.
        exclusion: why it does not count: `warm-up`, `profiled`, `after-gap`; None where it does.
    """

    step_number: int
    duration_ns: int
    flop_per_device_per_s: float | None
    tokens_per_device_per_s: float | None
    tokens_count: int | None
    loss: float | None
    exclusion: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class StepLog:
    """Steps of a run without a profiler, by the log that was named: the only times that throughput is made of.

    Attributes:
        path: name of the file.
        format: `maxtext` or `csv`.
        evidence: measured, by the host's clock.
        statistic: which figure of `statistics` stands for the step: `median`, or `sample` where there is one only.
        step_ns: that figure; None where no step counts.
        statistics: of the steps that count.
        warmup_steps_count, profiled_steps_count: left out.
        is_single_sample: one duration is one sample, and no median.
        steps: all, in order.
    """

    path: str
    format: str
    evidence: Evidence
    statistic: str
    step_ns: float | None
    statistics: Statistics | None
    warmup_steps_count: int
    profiled_steps_count: int
    is_single_sample: bool
    steps: tuple[LoggedStep, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Throughput:
    """Input tokens over the time of an unprofiled step.

    Attributes:
        step_ns, statistic, samples_count: the time, as in `StepLog`.
        tokens_per_step_count: input tokens of one update over all devices, padding included unless its source says so.
        devices_count: that share them.
        tokens_per_s, tokens_per_device_per_s: global, and for each device; null with the reason in their fact.
        relative_spread_ratio: IQR over median of the step; null of one sample.
    """

    step_ns: float
    statistic: str
    samples_count: int
    tokens_per_step_count: Fact
    devices_count: Fact
    tokens_per_s: Fact
    tokens_per_device_per_s: Fact
    relative_spread_ratio: float | None
