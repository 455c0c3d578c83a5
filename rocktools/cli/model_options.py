"""Options of `rocktools model`: the batch of a step, the time that it took, what bounds are made of."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from rocktools.errors import UsageError

if TYPE_CHECKING:
    from rocktools.analytic.rates import StepTime
    from rocktools.devices.device import Bandwidth, Device

_Function = Callable[..., Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchRequest:
    """What one step reads; see `tokens_count`.

    Attributes:
        tokens: of all devices and microsteps.
        batch: sequences of one device in one microstep.
        global_batch: sequences of all devices and microsteps.
        devices: that share the step.
        accumulation: microsteps.
        sequence: tokens of a sequence.
        capacity_factor: of the buffers of experts.
    """

    tokens: int | None
    batch: int | None
    global_batch: int | None
    devices: int | None
    accumulation: int
    sequence: int
    capacity_factor: Fraction | None

    def tokens_count(self) -> int:
        """Tokens of the step.

        Raises:
            UsageError: none or several of the three ways to say it.
        """
        from rocktools.analytic.batch import resolve_batch

        if self.tokens is not None:
            if self.batch is not None or self.global_batch is not None:
                raise UsageError(
                    "batch-twice", "tokens and a batch are given", hint="one of --tokens, --batch and --global-batch"
                )
            return self.tokens
        return resolve_batch(
            sequence_tokens=self.sequence,
            devices_count=self.required_devices() if self.batch is not None else self.devices or 1,
            per_device_sequences=self.batch,
            global_sequences=self.global_batch,
            microsteps_count=self.accumulation,
        ).tokens_count

    def required_devices(self) -> int:
        """Devices that share the step.

        Raises:
            UsageError: it is not said.
        """
        if self.devices is None:
            raise UsageError("no-devices", "it is not said how many devices share the step", hint="--devices N")
        return self.devices


@dataclass(frozen=True, slots=True, kw_only=True)
class TimingRequest:
    """A measured step and the device that it ran on.

    Attributes:
        step_time: seconds; None: none was measured.
        samples, statistic, spread, warmup: what kind of number it is.
        profiled: whether a profiler ran.
        device: part.
        dtype: format of the products.
    """

    step_time: float | None
    samples: int
    statistic: str | None
    spread: float | None
    warmup: int | None
    profiled: bool
    device: str | None
    dtype: str

    def step_time_of(self) -> StepTime:
        """The step time with what it is read with."""
        from rocktools.analytic.rates import ONE_SAMPLE, StepTime

        assert self.step_time is not None
        return StepTime(
            duration_s=self.step_time,
            statistic=self.statistic or (ONE_SAMPLE if self.samples == 1 else "median"),
            samples_count=self.samples,
            spread_s=self.spread,
            warmup_count=self.warmup,
            is_profiled=self.profiled,
            source="--step-time",
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class BoundsRequest:
    """What bounds and the floor are made of beyond the model.

    Attributes:
        unfused, optimizer_shards: of the floor; shards None: all devices.
        memory_bytes: of one device; None: those of the step model.
        communication_bytes, communication_bandwidth, communication_test, communication_fixed: of collectives.
        ledger, input_wait: what was measured.
    """

    unfused: bool
    optimizer_shards: int | None
    memory_bytes: float | None
    communication_bytes: float | None
    communication_bandwidth: float | None
    communication_test: Path | None
    communication_fixed: float
    ledger: Path | None
    input_wait: float | None

    def bandwidth(self) -> Bandwidth | None:
        """The measured bandwidth of collectives; None where none is given, and no bytes either.

        Raises:
            UsageError: bytes without a bandwidth, or the other way round, or two bandwidths.
            InputError: the test cannot be read.
        """
        from rocktools.analytic.lower_bounds import effective_bandwidth

        given = [name for name in ("communication_bandwidth", "communication_test") if getattr(self, name) is not None]
        if self.communication_bytes is None and not given:
            return None
        if self.communication_bytes is None or len(given) != 1:
            raise UsageError(
                "communication-bound",
                "a bound of communication takes bytes and one bandwidth that was measured for them",
                hint="--communication-bytes B with --communication-bandwidth B/S or --communication-test FILE",
            )
        if self.communication_bandwidth is not None:
            return effective_bandwidth(self.communication_bandwidth, source="--communication-bandwidth")
        assert self.communication_test is not None
        return effective_bandwidth(
            _tested(self.communication_test, self.communication_bytes), source=f"rccl-tests, {self.communication_test}"
        )


def _tested(path: Path, size_bytes: float) -> float:
    """Bus bandwidth of messages of that size."""
    from rocktools.devices.collective_tests import looks_like_collective_test, parse_collective_test
    from rocktools.errors import InputError, UnknownFormat

    try:
        text = path.read_text(encoding="utf-8", errors="replace")
    except OSError as error:
        what = f"the file cannot be read: {error.strerror or error}"
        raise InputError("communication-test", what, where=str(path)) from error
    if not looks_like_collective_test(text):
        raise UnknownFormat("communication-test", "this is not what rccl-tests print", where=str(path))
    return parse_collective_test(text, source=str(path)).bus_bytes_per_s(int(size_bytes))


def read_one_device(name: str) -> Device:
    """The device of that name; the beginning of a name that only one part has is enough: H100.

    Raises:
        UsageError: there is no such part.
        InputError: the file cannot be read.
    """
    from rocktools.devices.files import read_device, shipped_parts

    fitting = [part for part in shipped_parts() if part.upper().startswith(name.upper())]
    return read_device(fitting[0] if len(fitting) == 1 else name)


def _settings(_context: click.Context, _parameter: click.Parameter, values: tuple[str, ...]) -> Mapping[str, str]:
    found: dict[str, str] = {}
    for value in values:
        name, sign, setting = value.partition("=")
        if not sign or not name.strip() or name.strip() in found:
            raise UsageError("set-option", f"--set takes each NAME=VALUE once, not {value!r}")
        found[name.strip()] = setting.strip()
    return found


def _fraction(_context: click.Context, parameter: click.Parameter, value: str | None) -> Fraction | None:
    try:
        return None if value is None else Fraction(value)
    except (ValueError, ZeroDivisionError) as error:
        raise UsageError("capacity-factor", f"the capacity factor is no number: {value!r}") from error


set_option = click.option(
    "--set",
    "settings",
    metavar="NAME=VALUE",
    multiple=True,
    callback=_settings,
    help="Another value for one of the conventions that the output lists; may be given several times.",
)


def _request(record: type, name: str, options: tuple[Callable[[_Function], _Function], ...]) -> Callable[..., Any]:
    """A decorator that adds options and hands them on as one record."""

    def decorate(function: _Function) -> _Function:
        @functools.wraps(function)
        def with_record(*arguments: Any, **given: Any) -> Any:
            mine = {field: given.pop(field) for field in record.__slots__}  # type: ignore[attr-defined]
            return function(*arguments, **{name: record(**mine)}, **given)

        decorated: _Function = with_record
        for option in reversed(options):
            decorated = option(decorated)
        return decorated

    return decorate


_positive = click.FloatRange(min=0, min_open=True)
_count = click.IntRange(min=1, max=10**15)

batch_options = _request(
    BatchRequest,
    "batch",
    (
        click.option(
            "--tokens",
            type=_count,
            metavar="N",
            help="Tokens of one step: of all devices and microsteps, padding included.",
        ),
        click.option("--batch", type=_count, metavar="N", help="Instead: sequences of one device in one microstep."),
        click.option(
            "--global-batch", type=_count, metavar="N", help="Instead: sequences of all devices and microsteps."
        ),
        click.option("--devices", type=_count, metavar="N", help="Devices that share the step."),
        click.option(
            "--accumulation",
            type=_count,
            metavar="N",
            default=1,
            show_default=True,
            help="Microsteps before the update.",
        ),
        click.option("--sequence", type=_count, metavar="N", required=True, help="Tokens of a sequence."),
        click.option(
            "--capacity-factor",
            callback=_fraction,
            metavar="X",
            help="Slots of each expert over balanced assignments; shows what such buffers add to the useful FLOPs.",
        ),
    ),
)

timing_options = _request(
    TimingRequest,
    "timing",
    (
        click.option("--step-time", type=_positive, metavar="S", help="Seconds of a synchronized, unprofiled step."),
        click.option(
            "--samples", type=_count, metavar="N", default=1, show_default=True, help="Steps that the time is of."
        ),
        click.option("--statistic", help="What it is of several steps.  [default: median]"),
        click.option("--spread", type=click.FloatRange(min=0), metavar="S", help="Range or deviation of the steps."),
        click.option("--warmup", type=click.IntRange(min=0), metavar="N", help="Steps that were left out in front."),
        click.option("--profiled", is_flag=True, help="The step ran under a profiler: throughput is then refused."),
        click.option("--device", metavar="PART", help="Whose peaks count, as in `rocktools devices`: MI355X, H100."),
        click.option("--dtype", default="bf16", show_default=True, help="Format of the products."),
    ),
)

bounds_options = _request(
    BoundsRequest,
    "request",
    (
        click.option("--unfused", is_flag=True, help="Attention whose scores go through memory."),
        click.option(
            "--optimizer-shards",
            type=_count,
            metavar="N",
            help="Devices that the optimizer is divided among.  [default: all]",
        ),
        click.option(
            "--memory-bytes",
            type=_positive,
            metavar="B",
            help="Traffic of one device with memory in a step.  [default: each operand once, by the model]",
        ),
        click.option("--communication-bytes", type=_positive, metavar="B", help="Bytes that each device sends."),
        click.option(
            "--communication-bandwidth",
            type=_positive,
            metavar="B/S",
            help="Measured bandwidth of such messages among these devices.",
        ),
        click.option(
            "--communication-test",
            type=click.Path(path_type=Path),
            metavar="FILE",
            help="What rccl-tests printed; the bandwidth of the nearest size is taken.",
        ),
        click.option(
            "--communication-fixed",
            type=click.FloatRange(min=0),
            default=0.0,
            metavar="S",
            help="Fixed time of all messages.  [default: 0]",
        ),
        click.option(
            "--ledger",
            type=click.Path(path_type=Path),
            metavar="FILE",
            help="What `rocktools ledger -o FILE.json` wrote: its means say where time above the floor went.",
        ),
        click.option(
            "--input-wait", type=click.FloatRange(min=0), metavar="S", help="Part of idle time spent waiting for input."
        ),
    ),
)
