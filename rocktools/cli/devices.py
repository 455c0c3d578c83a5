"""`rocktools devices`: the peaks that rooflines are held against, and where each figure comes from."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from rocktools.cli.options import table_options
from rocktools.cli.output import TableOutput, emit_table

if TYPE_CHECKING:
    from rocktools.devices.device import Device


@click.group("devices")
def command() -> None:
    """The peaks that rooflines are held against: what is known of each part, and where it comes from."""


@command.command("list")
@table_options()
def list_devices(output: TableOutput) -> int:
    """Every part that is known: units, clock, dense BF16 peak, memory bandwidth, and where the two meet."""
    import pandas as pd

    from rocktools.devices.files import read_device, shipped_parts
    from rocktools.evidence import Evidence
    from rocktools.render.table import ColumnKind, Table, table_column

    devices = [read_device(name) for name in shipped_parts()]
    rows = [
        (
            each.part,
            each.architecture,
            each.xcd_count,
            each.cu_count,
            each.clock_hz,
            each.memory_bytes,
            each.peak("bf16").flop_per_s,
            each.bandwidth("hbm").bytes_per_s,
            each.ridge("bf16"),
        )
        for each in devices
    ]
    meanings = {
        "part": "name of the part",
        "arch": "architecture",
        "xcd_count": "accelerator dies",
        "cu_count": "compute units",
        "clock_hz": "highest shader clock",
        "memory_bytes": "memory of the package",
        "bf16_flop_per_s": "dense peak of matrix units in BF16",
        "hbm_bytes_per_s": "bandwidth of the memory",
        "ridge_flop_per_byte": "where the two meet",
    }
    frame = pd.DataFrame(rows, columns=list(meanings))
    columns = tuple(
        table_column(
            name,
            meaning,
            evidence=Evidence.DECLARED,
            dtype=frame[name].dtype,
            kind=ColumnKind.QUANTITY if name == "clock_hz" else None,
        )
        for name, meaning in meanings.items()
    )
    title = f"devices: {len(frame)} parts, whole packages; rocktools devices show PART has every figure"
    emit_table(Table(name="devices", title=title, columns=columns, frame=frame, is_simulated=False), output)
    return 0


@command.command("show")
@click.argument("part", metavar="PART")
@click.option("--partition", metavar="MODE", help="Compute partition: SPX, DPX, QPX, CPX.  [default: SPX]")
@click.option("--memory-partition", metavar="NPS", help="Memory partition: NPS1, NPS2, NPS4.  [default: NPS1]")
@table_options()
def show(part: str, partition: str | None, memory_partition: str | None, output: TableOutput) -> int:
    """Every peak and bandwidth of a part in a partition, with its source.

    PART is a name as in `rocktools devices list`, or a YAML file of yours.
    """
    import pandas as pd

    from rocktools.devices.files import read_device
    from rocktools.evidence import Evidence
    from rocktools.render.table import ColumnKind, Table, table_column

    device = read_device(part, partition=partition, memory_partition=memory_partition)
    rows: list[tuple[str, float | None, float | None, str, str | None]] = [
        (f"{peak.unit} {peak.dtype}, {peak.sparsity}", peak.flop_per_s, None, peak.source, peak.note or None)
        for peak in device.peaks
    ]
    rows += [
        (f"{each.level}: {each.name}", None, each.bytes_per_s, each.source, each.note or None)
        for each in device.bandwidths
    ]
    meanings = {
        "figure": "what it is of",
        "peak_flop_per_s": "operations per second",
        "bandwidth_bytes_per_s": "bytes per second; of links in one direction",
        "source": "where the figure, or what it is computed from, was published",
        "note": "what to know about it",
    }
    names = {"source", "note"}
    frame = pd.DataFrame(rows, columns=list(meanings))
    columns = tuple(
        table_column(
            name,
            meaning,
            evidence=Evidence.DECLARED,
            dtype=frame[name].dtype,
            kind=ColumnKind.NAME if name in names else None,
        )
        for name, meaning in meanings.items()
    )
    table = Table(
        name="device figures",
        title=_title(device),
        columns=columns,
        frame=frame,
        is_simulated=False,
        optional_columns=("bandwidth_bytes_per_s", "peak_flop_per_s", "source", "note"),
    )
    emit_table(table, output)
    return 0


def _title(device: Device) -> str:
    from rocktools.units import count_noun, format_si

    return (
        f"{device.title}, {device.partition}/{device.memory_partition}: {count_noun(device.xcd_count, 'XCD')}, "
        f"{count_noun(device.cu_count, 'CU')} at {format_si(device.clock_hz, 'Hz')}, ridge of bf16 "
        f"{device.ridge('bf16'):.1f} FLOP/B"
    )
