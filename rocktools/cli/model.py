"""`rocktools model`: what a step costs by arithmetic alone, how fast it could be, and where a measured one loses it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

import click

from rocktools.cli.model_options import (
    BatchRequest,
    BoundsRequest,
    TimingRequest,
    batch_options,
    bounds_options,
    read_one_device,
    set_option,
    timing_options,
)
from rocktools.cli.model_results import (
    bounds_table,
    conventions_tables,
    floor_table,
    flop_table,
    gap_table,
    metrics_table,
    operations_table,
    rates_table,
    spec_table,
)
from rocktools.cli.options import table_options
from rocktools.cli.output import TableFormat, TableOutput, emit_findings, emit_table, emit_tables
from rocktools.errors import UsageError

if TYPE_CHECKING:
    from rocktools.analytic.ceiling_gap import CeilingGap
    from rocktools.analytic.component_rates import ComponentRate
    from rocktools.analytic.lower_bounds import LowerBound
    from rocktools.analytic.rates import Metric
    from rocktools.analytic.step_model import StepModel
    from rocktools.analytic.useful_flop import FlopLedger
    from rocktools.findings import Finding
    from rocktools.render.table import Table

_Record = TypeVar("_Record")
_model_argument = click.argument("name", metavar="MODEL")


def _part_option(*parts: str) -> Callable[[Any], Any]:
    text = f"One part only, as a table of its own.  [default: all; {parts[0]} for csv and parquet]"
    return click.option("--part", type=click.Choice(parts), help=text)


@click.group("model")
def command() -> None:
    """What a training step costs by arithmetic alone, how fast it could be, and where a measured one loses time.

    MODEL is a name as in `rocktools model list`, or a YAML file of yours (rocktools.model/1).
    """


@command.command("list")
@table_options()
def list_models(output: TableOutput) -> int:
    """Every model that is known: its dimensions and parameters."""
    from rocktools.analytic.model_file import read_model, shipped_models
    from rocktools.analytic.model_tables import MODELS, models_frame

    frame = models_frame([read_model(name) for name in shipped_models()])
    title = f"models: {len(frame)}; rocktools model show MODEL has the matrices of one, or takes a file of yours"
    emit_table(spec_table(frame, MODELS, title), output)
    return 0


@command.command("show")
@_model_argument
@table_options()
def show(name: str, output: TableOutput) -> int:
    """The matrices of a model: how many there are, and their weights."""
    from rocktools.analytic.model_file import read_model
    from rocktools.analytic.model_tables import MODEL_MATRICES, matrices_frame

    model = read_model(name)
    title = f"{model.title}: {model.parameters_count:,} parameters, {model.active_parameters_count:,} for one token"
    emit_table(
        spec_table(matrices_frame(model), MODEL_MATRICES, title, notes=[f"from {'; '.join(model.sources)}"]), output
    )
    return 0


@command.command("flops")
@_model_argument
@batch_options
@click.option("--convention", default="maxtext", show_default=True, help="What counts: maxtext, palm, weights, six-n.")
@set_option
@timing_options
@_part_option("ledger", "metrics", "conventions")
@table_options()
def flops(
    name: str,
    batch: BatchRequest,
    convention: str,
    settings: Mapping[str, str],
    timing: TimingRequest,
    part: str | None,
    output: TableOutput,
) -> int:
    """Useful FLOPs of one step, component by component; with a step time also tokens/s, FLOP/s and MFU.

    Useful is what the algorithm asks for: products with weights and the attention core. Rematerialized work, padding,
    dropped assignments, norms, collectives and the optimizer are not in it.
    """
    ledger = _flop_ledger(name, batch, convention, settings)
    metrics, findings = _metrics(ledger, batch, timing)
    is_for_people = output.table_format is TableFormat.TABLE
    tables = {"ledger": [flop_table(ledger)]}
    if metrics:
        tables["metrics"] = [metrics_table(metrics, is_for_people=is_for_people)]
    tables["conventions"] = conventions_tables(flop=ledger.conventions, is_for_people=is_for_people)
    head = {
        "model": ledger.model.name,
        "tokens_count": ledger.tokens_count,
        "useful_flop": ledger.useful_flop,
        "useful_flop_per_token": ledger.useful_flop_per_token,
    }
    _emit(tables, part, output, "rocktools.model-flops/1", head, findings)
    return 0


@command.command("step")
@_model_argument
@click.option("--device", "device_name", metavar="PART", required=True, help="As in `rocktools devices`: MI355X, H100.")
@click.option(
    "--tokens",
    metavar="N",
    type=click.IntRange(min=1, max=10**15),
    help="Tokens of one step on one device.  [default: --sequence]",
)
@click.option(
    "--sequence",
    metavar="N",
    type=click.IntRange(min=1, max=10**15),
    default=8192,
    show_default=True,
    help="Tokens of a sequence.",
)
@click.option("--unfused", is_flag=True, help="Attention whose scores are written to memory and read again.")
@click.option(
    "--optimizer-shards",
    metavar="N",
    type=click.IntRange(min=1, max=10**15),
    default=1,
    show_default=True,
    help="Devices that the optimizer is divided among.",
)
@click.option("--dtype", default="bf16", show_default=True, help="Format of the products.")
@set_option
@_part_option("floor", "operations", "conventions")
@table_options()
def step(
    name: str,
    device_name: str,
    tokens: int | None,
    sequence: int,
    unfused: bool,
    optimizer_shards: int,
    dtype: str,
    settings: Mapping[str, str],
    part: str | None,
    output: TableOutput,
) -> int:
    """The least time of a step on one device, by the roofline: shares of time against shares of FLOPs, MFU ceiling.

    Each operation takes the longer of its FLOPs at the peak and its bytes at the bandwidth of memory, one after the
    other. What a real step has beyond that is not in it.
    """
    from rocktools.analytic.model_file import read_model
    from rocktools.analytic.step_conventions import AttentionKernel, StepConventions
    from rocktools.analytic.step_model import build_step_model

    built = build_step_model(
        read_model(name),
        read_one_device(device_name),
        tokens_count=tokens or sequence,
        sequence_tokens=sequence,
        attention=AttentionKernel.UNFUSED if unfused else AttentionKernel.FUSED,
        optimizer_shards=optimizer_shards,
        dtype=dtype,
        conventions=_changed(StepConventions(), settings),
    )
    is_for_people = output.table_format is TableFormat.TABLE
    tables = {
        "floor": [floor_table(built)],
        "operations": [] if part is None and is_for_people else [operations_table(built)],
        "conventions": conventions_tables(floor=built.conventions, is_for_people=is_for_people),
    }
    head = {
        "model": built.model.name,
        "device": built.device.label,
        "attention": str(built.attention),
        "tokens_count": built.tokens_count,
        "step_s": built.step_s,
        "mfu_ceiling_ratio": built.mfu_ceiling,
    }
    _emit(tables, part, output, "rocktools.model-step/1", head, ())
    return 0


@command.command("bounds")
@_model_argument
@batch_options
@click.option("--convention", default="maxtext", show_default=True, help="What counts: maxtext, palm, weights, six-n.")
@set_option
@timing_options
@bounds_options
@_part_option("bounds", "gap", "components", "conventions")
@table_options()
def bounds(
    name: str,
    batch: BatchRequest,
    convention: str,
    settings: Mapping[str, str],
    timing: TimingRequest,
    request: BoundsRequest,
    part: str | None,
    output: TableOutput,
) -> int:
    """Three lower bounds of a step, which are never added; with --ledger also where its time above the floor went.

    Compute: useful FLOPs at the peaks of all devices. Memory: bytes of one device at its bandwidth. Communication: a
    fixed time, and bytes at a bandwidth that was measured; peaks of links are refused.
    """
    if timing.device is None:
        raise UsageError("no-device", "bounds are those of a device, and none is named", hint="--device MI355X")
    flop_settings, floor_settings = _settings_of_both(settings, batch)
    ledger = _flop_ledger(name, batch, convention, flop_settings)
    floor = _floor(ledger, batch, timing, request, floor_settings)
    found = _lower_bounds(ledger, batch, floor, request)
    measured = _measured(ledger, batch, timing, floor, request)
    measured_s = timing.step_time if measured is None else measured.gap.measured_s
    is_for_people = output.table_format is TableFormat.TABLE
    tables = {"bounds": [bounds_table(found, measured_s, floor)]}
    if measured is not None:
        tables["gap"] = [gap_table(measured.gap, measured.is_simulated)]
        tables["components"] = [rates_table(measured.rates, floor.peak, is_simulated=measured.is_simulated)]
    tables["conventions"] = conventions_tables(
        flop=ledger.conventions, floor=floor.conventions, is_for_people=is_for_people and part is None
    )
    head = {"model": ledger.model.name, "floor_s": floor.step_s, "measured_s": measured_s}
    findings = [*_doubts(timing), *(() if measured is None else measured.gap.findings)]
    _emit(tables, part, output, "rocktools.model-bounds/1", head, findings)
    return 0


def _flop_ledger(name: str, batch: BatchRequest, convention: str, settings: Mapping[str, str]) -> FlopLedger:
    from rocktools.analytic.model_file import read_model
    from rocktools.analytic.useful_flop import build_flop_ledger, find_conventions

    return build_flop_ledger(
        read_model(name),
        tokens_count=batch.tokens_count(),
        sequence_tokens=batch.sequence,
        conventions=_changed(find_conventions(convention), settings),
        capacity_factor=batch.capacity_factor,
    )


def _changed(conventions: _Record, settings: Mapping[str, str]) -> _Record:
    from rocktools.analytic.conventions import change_conventions

    return change_conventions(conventions, settings)


def _settings_of_both(settings: Mapping[str, str], batch: BatchRequest) -> tuple[Mapping[str, str], Mapping[str, str]]:
    """The settings of useful FLOPs and those of the floor; one that both know is set in both."""
    from rocktools.analytic.conventions import describe_conventions
    from rocktools.analytic.step_conventions import StepConventions
    from rocktools.analytic.useful_flop import FlopConventions

    flop_names = {each.name for each in describe_conventions(FlopConventions())}
    floor_names = {each.name for each in describe_conventions(StepConventions())}
    of_flop = {name: value for name, value in settings.items() if name in flop_names}
    of_floor = {name: value for name, value in settings.items() if name in floor_names or name not in flop_names}
    if batch.capacity_factor is not None:
        of_floor.setdefault("capacity_factor", str(batch.capacity_factor))
    return of_flop, of_floor


def _metrics(
    ledger: FlopLedger, batch: BatchRequest, timing: TimingRequest
) -> tuple[Sequence[Metric], Sequence[Finding]]:
    from rocktools.analytic.rates import step_metrics

    if timing.step_time is None:
        return (), ()
    if timing.device is None or batch.devices is None:
        missing = "--device" if timing.device is None else "--devices"
        raise UsageError(
            "metric-without-denominator",
            f"MFU and tokens/s/device of a step time say nothing without {missing}",
            hint="--step-time S --devices N --device MI355X",
        )
    metrics = step_metrics(
        timing.step_time_of(),
        ledger,
        peak=read_one_device(timing.device).peak(timing.dtype),
        devices_count=batch.devices,
        dtype=timing.dtype,
        padding="every slot of a sequence counts, padding included",
    )
    return metrics, _doubts(timing)


def _doubts(timing: TimingRequest) -> Sequence[Finding]:
    """What the step time lacks to be a stable one; none where there is no time."""
    from rocktools.analytic.step_checks import check_step_time

    return () if timing.step_time is None else check_step_time(timing.step_time_of())


def _floor(
    ledger: FlopLedger,
    batch: BatchRequest,
    timing: TimingRequest,
    request: BoundsRequest,
    settings: Mapping[str, str],
) -> StepModel:
    """The floor under the step of one device."""
    from rocktools.analytic.step_conventions import AttentionKernel, StepConventions
    from rocktools.analytic.step_model import build_step_model

    devices = batch.required_devices()
    if ledger.tokens_count % (devices * ledger.sequence_tokens):
        raise UsageError(
            "tokens-are-no-sequences",
            f"{ledger.tokens_count:,} tokens on {devices} devices are no whole sequences of "
            f"{ledger.sequence_tokens:,} on each, and the floor is that of a device with whole sequences",
        )
    assert timing.device is not None
    return build_step_model(
        ledger.model,
        read_one_device(timing.device),
        tokens_count=ledger.tokens_count // devices,
        sequence_tokens=ledger.sequence_tokens,
        attention=AttentionKernel.UNFUSED if request.unfused else AttentionKernel.FUSED,
        optimizer_shards=request.optimizer_shards or devices,
        dtype=timing.dtype,
        conventions=_changed(StepConventions(), settings),
    )


def _lower_bounds(
    ledger: FlopLedger, batch: BatchRequest, floor: StepModel, request: BoundsRequest
) -> list[LowerBound]:
    from rocktools.analytic.lower_bounds import communication_bound, compute_bound, memory_bound
    from rocktools.evidence import Evidence

    devices = batch.required_devices()
    found = [compute_bound(ledger.useful_flop, devices_count=devices, peak=floor.peak)]
    if request.memory_bytes is not None:
        found.append(
            memory_bound(
                request.memory_bytes, bandwidth=floor.bandwidth, of="step, given bytes", evidence=Evidence.DECLARED
            )
        )
    else:
        traffic = sum(row.traffic_bytes for row in floor.operations)
        found.append(memory_bound(traffic, bandwidth=floor.bandwidth, of="step, each operand once"))
    bandwidth = request.bandwidth()
    if request.communication_bytes is not None and bandwidth is not None:
        found.append(
            communication_bound(
                request.communication_bytes,
                bandwidth=bandwidth,
                fixed_s=request.communication_fixed,
                evidence=Evidence.DECLARED,
            )
        )
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class _Measured:
    """What a ledger says of a step."""

    gap: CeilingGap
    rates: Sequence[ComponentRate]
    is_simulated: bool


def _measured(
    ledger: FlopLedger, batch: BatchRequest, timing: TimingRequest, floor: StepModel, request: BoundsRequest
) -> _Measured | None:
    from rocktools.analytic.ceiling_gap import split_ceiling_gap
    from rocktools.analytic.component_rates import rate_components
    from rocktools.analytic.measured_step import component_times, measured_step, read_ledger_document
    from rocktools.analytic.rates import useful_rate

    if request.ledger is None:
        return None
    devices, where = batch.required_devices(), str(request.ledger)
    document = read_ledger_document(request.ledger)
    measured = measured_step(document, source=where, step_s=timing.step_time, input_wait_s=request.input_wait)
    rate = useful_rate(ledger.useful_flop, devices_count=devices, duration_s=floor.step_s)
    ceiling = rate / floor.peak.flop_per_s
    times = component_times(document, source=where)
    return _Measured(
        gap=split_ceiling_gap(measured, floor_s=floor.step_s, mfu_ceiling=ceiling, where=where),
        rates=rate_components(times, ledger, devices_count=devices, peak=floor.peak),
        is_simulated=measured.is_simulated,
    )


def _emit(
    tables: Mapping[str, Sequence[Table]],
    part: str | None,
    output: TableOutput,
    schema: str,
    head: Mapping[str, object],
    findings: Sequence[Finding],
) -> None:
    """One part, or all of them where the format holds several tables."""
    is_flat = output.table_format in (TableFormat.CSV, TableFormat.PARQUET)
    if part is not None and part not in tables:
        raise UsageError("no-such-part", f"there is no {part} here", hint=f"one of: {', '.join(tables)}")
    if part is not None or is_flat:
        emit_table(tables[part or next(iter(tables))][0], output, findings=findings)
    else:
        emit_tables([table for group in tables.values() for table in group], output, schema=schema, head=head)
    emit_findings(findings)
