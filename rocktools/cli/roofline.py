"""`rocktools roofline`: points under ceilings, as a table or a picture, and why a point is bound as it is."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from rocktools.cli.attribution_options import LedgerRequest, attribution_options, ledger_options, select_rows
from rocktools.cli.options import table_options
from rocktools.cli.output import TableFormat, TableOutput, emit_findings, emit_table, exit_code_of
from rocktools.cli.pictures import draw_roofline, picture_option
from rocktools.cli.progress import working

if TYPE_CHECKING:
    import pandas as pd

    from rocktools.render.table import Table
    from rocktools.roofline.points import Roofline
    from rocktools.workspace.roofline import RooflineOptions

_Function = Callable[..., Any]
_SHOWN = (
    *("run", "name", "bound", "roof_ratio", "union_ns", "intensity_flop_per_byte", "achieved_flop_per_s"),
    *("roof_flop_per_s", "achieved_bytes_per_s", "peak_ratio", "bandwidth_ratio", "headroom_ns", "covered_ratio"),
    *("mix", "refusal"),
)
_OPTIONAL = (
    *("roof_ratio", "union_ns", "intensity_flop_per_byte", "achieved_flop_per_s", "achieved_bytes_per_s"),
    *("headroom_ns", "peak_ratio", "bandwidth_ratio", "roof_flop_per_s", "mix", "covered_ratio", "refusal"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class CeilingRequest:
    """What the command line says about the device and the points.

    Attributes:
        level, by, component: which points.
        source, counters, pass_times: where FLOPs, bytes and times come from.
        part, partition, memory_partition, ceilings: whose ceilings.
        dtype, sparsity: the format that points must be in.
    """

    level: str
    by: str
    component: str | None
    source: str | None
    counters: tuple[str, ...]
    pass_times: bool
    part: str | None
    partition: str | None
    memory_partition: str | None
    ceilings: tuple[Path, ...]
    dtype: str | None
    sparsity: str


def _ceiling_options(function: _Function) -> _Function:
    """Adds the options of `CeilingRequest`; the function gets them as `ceiling`."""

    @functools.wraps(function)
    def with_ceiling(*arguments: Any, **options: Any) -> Any:
        mine = {name: options.pop(name) for name in CeilingRequest.__slots__}
        return function(*arguments, ceiling=CeilingRequest(**mine), **options)

    decorated: _Function = with_ceiling
    for option in reversed(_OPTIONS):
        decorated = option(decorated)
    return decorated


_OPTIONS = (
    click.option(
        "--level",
        type=click.Choice(["hbm", "l2", "lds", "network"]),
        default="hbm",
        show_default=True,
        help="Where bytes are counted. The compiled program knows hbm (operands and results) and network (payload of "
        "collectives); l2 and lds take counters.",
    ),
    click.option(
        "--by",
        type=click.Choice(["kernel", "instruction", "component"]),
        default="kernel",
        show_default=True,
        help="What a point is of.",
    ),
    click.option("--component", metavar="NAME", help="Only what is of this component, as in `rocktools ledger`."),
    click.option(
        "--source",
        type=click.Choice(["counters", "estimate"]),
        help="Where FLOPs and bytes come from: counter passes, or the compiled program.  [default: counters, where "
        "there are some]",
    ),
    click.option(
        "--counters",
        metavar="PATH",
        multiple=True,
        help="Where the counter passes are, if not among PATHS; anything that `rocktools metrics` reads.",
    ),
    click.option(
        "--pass-times",
        is_flag=True,
        help="Without a trace: use the times of the counter passes, in which kernels run one at a time.",
    ),
    click.option(
        "--part",
        metavar="PART",
        help="Ceilings of this part (`rocktools devices` lists them), or a YAML file of yours.  "
        "[default: by XCDs, compute units and clock of the recorded GPU]",
    ),
    click.option("--partition", metavar="MODE", help="Compute partition: SPX, DPX, QPX, CPX.  [default: as recorded]"),
    click.option("--memory-partition", metavar="NPS", help="Memory partition: NPS1, NPS2, NPS4.  [default: NPS1]"),
    click.option(
        "--ceilings",
        metavar="FILE",
        multiple=True,
        type=click.Path(path_type=Path),
        help="Measured ceilings that go before those of the vendor: YAML, roofline.csv of rocprof-compute, or what "
        "rccl-tests print; may be repeated.",
    ),
    click.option(
        "--dtype",
        metavar="TYPE",
        help="Only points in this format (bf16, f8, f32, ...); others are refused.  [default: each its own]",
    ),
    click.option(
        "--sparsity",
        type=click.Choice(["dense", "2:4"]),
        default="dense",
        show_default=True,
        help="2:4 only where the kernels use structured sparsity: it doubles the ceiling.",
    ),
)


@click.command("roofline")
@ledger_options
@_ceiling_options
@click.option("--explain", "explained", metavar="NAME", help="Why this point is bound as it is, with every number.")
@picture_option
@table_options(top_count=30)
def command(
    request: LedgerRequest,
    ceiling: CeilingRequest,
    explained: str | None,
    picture: Path | None,
    output: TableOutput,
) -> int:
    """How fast kernels, instructions or components were, and how fast the device could be: points under ceilings.

    A point is the sum of FLOPs and bytes over its executions, over the time that they cover in the trace. FLOPs and
    bytes come from counter passes where there are some, else from the compiled program, and say so. Every format is
    held against its own peak.
    -o FILE.svg or FILE.png draws a picture; --explain NAME answers why a point is memory-bound.

    PATHS are rocpd databases (*_results.db), JAX profiles (*.xplane.pb), folders, patterns or run directories.
    """
    from rocktools.roofline.explain import explain_point
    from rocktools.workspace.roofline import build_run_roofline

    options = _options(ceiling)
    with working("placing points"):
        built = build_run_roofline(
            request.paths, attribution_options(request), options, lambda runs: select_rows(request, runs)[0]
        )
    roofline, is_simulated = built.roofline, built.is_simulated
    if explained is not None:
        stamp = ["SIMULATED: no hardware produced these times"] if is_simulated else []
        click.echo("\n".join([*stamp, *explain_point(roofline, explained)]))
    elif picture is not None:
        draw_roofline(roofline, picture, is_simulated=is_simulated)
    else:
        emit_table(_table(roofline, ceiling, output, is_simulated=is_simulated), output, findings=roofline.findings)
    emit_findings(roofline.findings)
    return exit_code_of(roofline.findings)


def _options(ceiling: CeilingRequest) -> RooflineOptions:
    from rocktools.devices.device import Level
    from rocktools.roofline.points import PointOptions
    from rocktools.workspace.estimated_work import By
    from rocktools.workspace.roofline import RooflineOptions, Source
    from rocktools.workspace.used_device import DeviceOptions

    return RooflineOptions(
        level=Level(ceiling.level),
        by=By(ceiling.by),
        component=ceiling.component,
        source=None if ceiling.source is None else Source(ceiling.source),
        counters=ceiling.counters,
        is_pass_time_allowed=ceiling.pass_times,
        device=DeviceOptions(
            part=ceiling.part,
            partition=ceiling.partition,
            memory_partition=ceiling.memory_partition,
            ceilings=ceiling.ceilings,
        ),
        points=PointOptions(dtype=ceiling.dtype, sparsity=ceiling.sparsity),
    )


def _table(roofline: Roofline, ceiling: CeilingRequest, output: TableOutput, *, is_simulated: bool) -> Table:
    from rocktools.evidence import Evidence
    from rocktools.render.table import table_from_spec
    from rocktools.roofline.points import ROOFLINE
    from rocktools.units import count_noun, format_si

    frame = roofline.points
    names = _shown(frame) if output.table_format is TableFormat.TABLE else list(ROOFLINE.names)
    bandwidth = roofline.device.bandwidth(roofline.origin.level)
    title = (
        f"roofline by {ceiling.by}: {count_noun(len(frame), 'name')} on {roofline.device.label}, level "
        f"{roofline.origin.level} ({bandwidth.name}: {format_si(bandwidth.bytes_per_s, 'B/s')}, {bandwidth.evidence})"
    )
    measured = {"union_ns", "sum_ns", "executions_count", "devices_count", "run"}
    weakest_evidence = {name: Evidence.MEASURED if name in measured else _evidence(roofline) for name in names}
    return table_from_spec(
        frame[names],
        ROOFLINE,
        evidence=weakest_evidence,
        title=title,
        is_simulated=is_simulated,
        notes=(roofline.origin.sentence,),
        optional_columns=_OPTIONAL,
    )


def _evidence(roofline: Roofline) -> Any:
    from rocktools.evidence import weakest

    return weakest(roofline.origin.flop_evidence, roofline.origin.bytes_evidence)


def _shown(frame: pd.DataFrame) -> list[str]:
    """Without what is the same, or missing, in every row."""
    hidden = {"run"} if frame["run"].nunique() < 2 else set()
    hidden |= {name for name in ("refusal", "mix") if frame[name].isna().all()}
    if (frame["covered_ratio"].fillna(1.0) > 0.999).all():
        hidden.add("covered_ratio")
    return [name for name in _SHOWN if name not in hidden]
