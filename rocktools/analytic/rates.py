"""A measured step and a ledger of useful FLOPs -> throughput and utilization, with what each number must be read with.

A rate without its denominator is not comparable with anything: which tokens, which peak, how many devices, how many
samples. So a metric is made with all of it or not at all. Throughput comes from runs without a profiler; one duration
is no median; a peak of another format or of sparse operands is refused.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from types import MappingProxyType

from rocktools.analytic.useful_flop import FlopLedger
from rocktools.devices.device import Peak, Sparsity, dtype_family
from rocktools.errors import UsageError
from rocktools.evidence import Evidence, weakest
from rocktools.units import count_noun


class MetricKind(str, Enum):
    """What is measured."""

    STEP_TIME = "step_time"
    TOKEN_RATE = "token_rate"
    USEFUL_FLOP_RATE = "useful_flop_rate"
    USEFUL_MFU = "useful_mfu"
    EXECUTED_FLOP_RATE = "executed_flop_rate"
    MEMORY_FOOTPRINT = "memory_footprint"
    COMPONENT_TIME = "component_time"

    def __str__(self) -> str:
        return self.value


REQUIRED: Mapping[MetricKind, tuple[str, ...]] = MappingProxyType(
    {
        MetricKind.STEP_TIME: ("of", "warmup", "statistic", "spread"),
        MetricKind.TOKEN_RATE: ("of", "scope", "padding"),
        MetricKind.USEFUL_FLOP_RATE: ("of", "devices", "flop_ledger"),
        MetricKind.USEFUL_MFU: ("of", "dtype_peak", "devices", "flop_ledger"),
        MetricKind.EXECUTED_FLOP_RATE: ("of", "boundary", "evidence_source"),
        MetricKind.MEMORY_FOOTPRINT: ("of", "static_peak", "high_water", "worst_device"),
        MetricKind.COMPONENT_TIME: ("of", "device", "step", "overlap_rule"),
    }
)
"""What a metric cannot do without; `of` is its denominator."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Metric:
    """A number that can stand in a report.

    Attributes:
        kind: what is measured.
        title: for people.
        value: in the unit.
        unit: s, token/s, assignment/s, FLOP/s, B or ratio.
        evidence: the weakest of its inputs.
        reported: what it is read with, all of `REQUIRED`.
    """

    kind: MetricKind
    title: str
    value: float
    unit: str
    evidence: Evidence
    reported: Mapping[str, str]

    def __post_init__(self) -> None:
        missing = [name for name in REQUIRED[self.kind] if not self.reported.get(name, "").strip()]
        if missing:
            raise UsageError(
                "metric-without-denominator",
                f"{self.kind} of {self.value:g} {self.unit} says nothing of {', '.join(missing)}",
                hint=f"a {self.kind} is reported with {', '.join(REQUIRED[self.kind])}",
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class StepTime:
    """How long a synchronized step took.

    Attributes:
        duration_s: by that statistic.
        statistic: median, mean, ...; `one sample` where there is one.
        samples_count: steps that it is of.
        spread_s: range or deviation; None where one sample has none.
        warmup_count: steps that were left out in front.
        is_profiled: whether a profiler ran.
        source: log or trace.
    """

    duration_s: float
    statistic: str
    samples_count: int
    spread_s: float | None
    warmup_count: int | None
    is_profiled: bool
    source: str

    def __post_init__(self) -> None:
        has_spread = self.spread_s is None or 0 <= self.spread_s < float("inf")
        if not (0 < self.duration_s < float("inf") and self.samples_count >= 1 and has_spread):
            raise UsageError(
                "step-time", f"a step of {self.duration_s} s, {self.samples_count} times, was not measured"
            )
        if (self.samples_count == 1) != (self.statistic == ONE_SAMPLE):
            raise UsageError(
                "one-sample-is-no-statistic",
                f"{count_noun(self.samples_count, 'sample')} cannot be called {self.statistic!r}",
                hint=f"several steps after warm-up with a median and a spread, or {ONE_SAMPLE!r}",
            )

    @property
    def spread_text(self) -> str:
        if self.samples_count == 1:
            return "none: one sample is no estimate of variance"
        return "not stated" if self.spread_s is None else f"{self.spread_s:.4g} s"


ONE_SAMPLE = "one sample"


def step_metrics(
    step: StepTime, ledger: FlopLedger, *, peak: Peak, devices_count: int, dtype: str, padding: str
) -> tuple[Metric, ...]:
    """Step time, tokens per second, useful FLOP rate and MFU of a step.

    Args:
        ledger: useful FLOPs of the whole step, of all devices.
        peak: of one device.
        dtype: format that the products of the model are calculated in.
        padding: whether the tokens include padding, for people.

    Raises:
        UsageError: the step was profiled, the peak is of another format or of sparse operands, or the number of devices
            is below 1.
    """
    require_peak(peak, dtype)
    if devices_count < 1:
        raise UsageError("devices-count", f"a step runs on at least one device, not on {devices_count}")
    of = f"one synchronized optimizer update ({step.source})"
    warmup = "not stated" if step.warmup_count is None else f"{step.warmup_count} steps left out"
    statistic = step.statistic if step.samples_count == 1 else f"{step.statistic} of {step.samples_count} steps"
    time = Metric(
        kind=MetricKind.STEP_TIME,
        title="step time",
        value=step.duration_s,
        unit="s",
        evidence=Evidence.MEASURED,
        reported={"of": of, "warmup": warmup, "statistic": statistic, "spread": step.spread_text},
    )
    if step.is_profiled:
        raise UsageError(
            "throughput-from-profile",
            "a step under a profiler explains performance and does not define it",
            where=step.source,
            hint="the step time of an identical run without a profiler",
        )
    return (time, *_throughput(step, ledger, devices_count, padding), *_utilization(step, ledger, peak, devices_count))


def require_peak(peak: Peak, dtype: str) -> None:
    """That utilization of products in that format is held against this peak.

    Raises:
        UsageError: it is of another format, or of sparse operands.
    """
    if peak.sparsity is not Sparsity.DENSE or peak.dtype != dtype_family(dtype):
        raise UsageError(
            "peak-of-another-format",
            f"dense {dtype_family(dtype)} is not held against the {peak.sparsity} {peak.dtype} peak",
            hint="the dense peak of the format that the kernels use",
        )


def _throughput(step: StepTime, ledger: FlopLedger, devices_count: int, padding: str) -> tuple[Metric, ...]:
    per_s = ledger.tokens_count / step.duration_s
    of = f"{ledger.tokens_count:,} global input tokens of one update"
    rows = [("tokens/s, all devices", per_s, "token/s", "global")]
    rows.append(("tokens/s/device", per_s / devices_count, "token/s", f"per device, {devices_count} devices"))
    experts = ledger.model.experts
    if experts is not None:
        scope = f"global; {experts.top_k} per token, before drops; no token rate"
        rows.append(("expert assignments/s, all devices", experts.top_k * per_s, "assignment/s", scope))
    return tuple(
        Metric(
            kind=MetricKind.TOKEN_RATE,
            title=title,
            value=value,
            unit=unit,
            evidence=Evidence.MEASURED,
            reported={"of": of, "scope": scope, "padding": padding},
        )
        for title, value, unit, scope in rows
    )


def _utilization(step: StepTime, ledger: FlopLedger, peak: Peak, devices_count: int) -> tuple[Metric, Metric]:
    rate = useful_rate(ledger.useful_flop, devices_count=devices_count, duration_s=step.duration_s)
    counted = f"{ledger.useful_flop / 1e15:.3f} PFLOP/update, {ledger.useful_flop_per_token / 1e9:.3f} GFLOP/token"
    reported = {"of": "declared useful FLOPs of one update", "devices": str(devices_count), "flop_ledger": counted}
    stated = f"{peak.sparsity} {peak.dtype}, {peak.flop_per_s / 1e12:.1f} TFLOP/s per device, {peak.evidence}"
    return (
        Metric(
            kind=MetricKind.USEFUL_FLOP_RATE,
            title="useful FLOP/s/device",
            value=rate,
            unit="FLOP/s",
            evidence=weakest(Evidence.MEASURED, ledger.evidence),
            reported=reported,
        ),
        Metric(
            kind=MetricKind.USEFUL_MFU,
            title="MFU",
            value=rate / peak.flop_per_s,
            unit="ratio",
            evidence=weakest(Evidence.MEASURED, ledger.evidence, peak.evidence),
            reported={**reported, "dtype_peak": stated},
        ),
    )


def useful_rate(useful_flop: int, *, devices_count: int, duration_s: float) -> float:
    """Useful FLOP per second and device: of a step, or of a component over the time that it took on each device.

    Args:
        useful_flop: of all devices.
    """
    return useful_flop / devices_count / duration_s


def mfu_if(useful_flop: int, *, devices_count: int, peak: Peak, durations_s: tuple[float, ...]) -> float:
    """The MFU of a step that takes as long as the longest of these: what hiding all others under it can give at most.

    Args:
        useful_flop: of all devices.
        durations_s: of what would run at the same time, on each device.
    """
    return useful_rate(useful_flop, devices_count=devices_count, duration_s=max(durations_s)) / peak.flop_per_s
