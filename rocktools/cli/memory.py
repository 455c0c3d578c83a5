"""`rocktools memory`: what programs reserve on a device, when most of it is live, and what was allocated."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import click

from rocktools.cli.options import table_options
from rocktools.cli.output import TableFormat, TableOutput, emit_findings, emit_table, emit_tables, exit_code_of
from rocktools.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pandas as pd

    from rocktools.attribution.memory import DeviceMemory
    from rocktools.findings import Finding
    from rocktools.render.table import Table
    from rocktools.workspace.device_memory import ReportedMemory

_SCHEMA = "rocktools.memory/1"
_PARTS = ("programs", "peak", "largest", "devices", "allocators")
_OPTIONAL = (
    *("held_bytes", "temporary_bytes", "argument_bytes", "alias_bytes", "output_bytes", "live_bytes"),
    *("peak_instruction", "constant_bytes", "path", "scope", "instruction", "kind", "shape", "buffer_index", "element"),
    *("peak_ns", "allocations_count", "unreleased_bytes"),
)


@click.command("memory")
@click.argument("paths", metavar="PATH...", nargs=-1, required=True, type=str)
@click.option("--program", metavar="NAME", help="Only this program, as its files are called: module_0001.jit_step.")
@click.option(
    "--part",
    type=click.Choice(_PARTS),
    help="One part only, as a table of its own: programs; values live at the peak; the largest values; devices; XLA's "
    "allocators.  "
    "[default: everything that there is; programs, or else devices, for csv and parquet]",
)
@table_options(top_count=20)
def command(paths: tuple[str, ...], program: str | None, part: str | None, output: TableOutput) -> int:
    """How much device memory a program reserves, what is live when most is, and how much was allocated.

    Two things stand side by side. Reserved: arguments, results, aliases and temporaries by the buffer assignment of
    XLA, and when most temporaries are live in the order of the program, with the scopes that made them. Allocated: the
    most that the allocations of a trace held at one time, everything on the device included; in a JAX profile, what
    XLA's allocators say of themselves. All are of one device; over devices the most counts, never the sum.

    PATHS are folders that XLA dumped to, files of a dump, run directories, traces with allocations, and JAX profiles.
    """
    from rocktools.workspace.device_memory import names_a_program, no_memory, read_reported_memory

    reported = read_reported_memory(paths, program)
    allocated = _allocated([path for path in paths if not names_a_program(path)], reported)
    devices, is_simulated = allocated.devices, allocated.is_simulated
    findings = [*reported.findings, *allocated.findings]
    tables = _tables(reported, devices, is_simulated=is_simulated)
    if allocated.allocators is not None and len(allocated.allocators):
        tables["allocators"] = _allocators_table(allocated.allocators, is_simulated=is_simulated)
    if not tables:
        raise no_memory(paths)
    if part is not None or output.table_format in (TableFormat.CSV, TableFormat.PARQUET):
        chosen = part or next(iter(tables))
        if chosen not in tables:
            raise UsageError("no-such-part", f"there is no {chosen} to show", hint=", ".join(tables))
        emit_table(tables[chosen], output, findings=findings)
    else:
        from rocktools.render.table import top_rows

        head = {
            "critical_device": None if devices is None else devices.critical_device,
            "highest_bytes": None if devices is None else devices.highest_bytes,
            "findings": [finding.as_dict() for finding in findings],
        }
        shown = [top_rows(table, output.top_count) for table in tables.values()]
        if output.table_format is TableFormat.TABLE:
            shown = [_for_people(table) for table in shown]
        emit_tables(shown, output, schema=_SCHEMA, head=head)
    emit_findings(findings)
    return exit_code_of(findings)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Allocated:
    """What traces and profiles say: high-water marks of devices, ALLOCATORS; None where there is no trace."""

    devices: DeviceMemory | None = None
    allocators: pd.DataFrame | None = None
    findings: tuple[Finding, ...] = ()
    is_simulated: bool = False


def _allocated(paths: Sequence[str], reported: ReportedMemory) -> _Allocated:
    """What was allocated, by the traces and profiles among the paths."""
    from rocktools.attribution.memory import find_high_water
    from rocktools.errors import NothingToRead
    from rocktools.workspace.paths import find_sources
    from rocktools.workspace.workspace import Workspace

    traces: list[str] = []
    for path in paths:
        try:
            find_sources([path])
        except NothingToRead:
            if not reported.programs:  # a folder that XLA dumped to has no trace
                raise
        else:
            traces.append(path)
    if not traces:
        return _Allocated()
    with Workspace.open(traces) as workspace:
        allocations, agents, allocators = workspace.allocations(), workspace.agents(), workspace.allocators()
        findings, is_simulated = workspace.findings, workspace.is_simulated
    largest = reported.programs[0].assignment if reported.programs else None
    devices = find_high_water(allocations, agents, largest)
    return _Allocated(
        devices=devices,
        allocators=allocators,
        findings=(*findings, *devices.findings),
        is_simulated=is_simulated,
    )


def _allocators_table(allocators: pd.DataFrame, *, is_simulated: bool) -> Table:
    from rocktools.evidence import Evidence
    from rocktools.render.table import table_from_spec
    from rocktools.sources.xspace.allocators import ALLOCATORS
    from rocktools.units import format_si

    highest = format_si(int(allocators["peak_bytes"].max()), "B")
    return table_from_spec(
        allocators,
        ALLOCATORS,
        evidence=Evidence.MEASURED,
        title=f"XLA's allocators, by their own account: at most {highest} in use, since the job began",
        is_simulated=is_simulated,
        optional_columns=_OPTIONAL,
    )


def _tables(reported: ReportedMemory, devices: DeviceMemory | None, *, is_simulated: bool) -> dict[str, Table]:
    from rocktools.attribution.memory import HIGH_WATER
    from rocktools.evidence import Evidence
    from rocktools.render.table import table_from_spec
    from rocktools.units import count_noun, format_si
    from rocktools.workspace.device_memory import BUFFERS, PROGRAM_MEMORY, buffers_frame, program_memory_frame

    tables: dict[str, Table] = {}
    programs = reported.programs
    frames = []
    if programs:
        shown, peak = programs[:1], programs[0].peak
        where = "" if peak is None else f": {peak.instruction}, {format_si(peak.live_bytes, 'B')} of temporaries"
        titles = {
            "programs": f"memory of {count_noun(len(programs), 'program')}, on each device",
            "peak": f"live at the peak of {programs[0].program}{where}",
            "largest": f"largest values of {programs[0].program}, not all live at one time",
        }
        frames = [
            ("programs", PROGRAM_MEMORY, program_memory_frame(programs), titles["programs"]),
            ("peak", BUFFERS, buffers_frame(shown, is_at_peak=True), titles["peak"]),
            ("largest", BUFFERS, buffers_frame(shown, is_at_peak=False), titles["largest"]),
        ]
    for name, spec, frame, title in frames:
        tables[name] = table_from_spec(
            frame,
            spec,
            evidence=Evidence.COMPILER_ESTIMATE,
            title=title,
            is_simulated=False,
            optional_columns=_OPTIONAL,
        )
    if devices is not None and len(devices.frame):
        highest = format_si(devices.highest_bytes or 0, "B")
        evidence = {
            name: Evidence.COMPILER_ESTIMATE if name == "reserved_bytes" else Evidence.MEASURED
            for name in HIGH_WATER.names
        }
        tables["devices"] = table_from_spec(
            devices.frame,
            HIGH_WATER,
            evidence=evidence,
            title=f"allocated at one time: at most {highest}, on {devices.critical_device}",
            is_simulated=is_simulated,
            optional_columns=_OPTIONAL,
        )
    return tables


def _for_people(table: Table) -> Table:
    """Without columns that say the same in every row, or nothing."""
    from dataclasses import replace

    hidden = {"buffer_index", "path"}
    if table.name == "BUFFERS":
        hidden |= {"program", "element"} | ({"kind"} if table.frame["kind"].nunique() < 2 else set())
    if table.name == "HIGH_WATER":
        hidden |= {"run"} if table.frame["run"].nunique() < 2 else set()
        hidden |= set() if table.frame["reserved_bytes"].notna().any() else {"reserved_bytes"}
    columns = tuple(column for column in table.columns if column.name not in hidden)
    return replace(table, columns=columns, frame=table.frame[[column.name for column in columns]])
