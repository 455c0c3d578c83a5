"""`rocktools frame`: any frame of the readers."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from rocktools.cli.options import columns_option, hlo_option, optional_paths_argument, split_hlo, table_options
from rocktools.cli.output import TableOutput, emit_findings, emit_table, exit_code_of
from rocktools.errors import UsageError

if TYPE_CHECKING:
    from rocktools.findings import Finding
    from rocktools.frames import FrameSpec

# Frames that other commands build, and those commands.
_ELSEWHERE = {"QUANTITIES": "rocktools metrics"}


@click.command("frame")
@click.argument("name", metavar="FRAME", type=str)
@optional_paths_argument
@hlo_option
@columns_option
@table_options(top_count=20)
def command(
    name: str, paths: tuple[str, ...], hlo: str | None, columns: tuple[str, ...] | None, output: TableOutput
) -> int:
    """Any frame, whole or by column.

    FRAME is, of a trace, DISPATCHES, COUNTED_DISPATCHES, COUNTER_VALUES, HOST_CALLS, RANGES, COPIES, ALLOCATIONS,
    SAMPLES, AGENTS, PROCESSES or KERNEL_SYMBOLS; of a JAX profile also DEVICE_EVENTS, HOST_EVENTS or PROFILED_DEVICES;
    with a compiled program (as with --hlo, also where it is not given) PROGRAMS, INSTRUCTIONS, DISPATCH_EDGES or
    EVENT_EDGES; and STEPS, ATTRIBUTED or LEDGER, as `rocktools ledger` has them without options. Letters of either
    case. docs/reference/frames.md says what each column means.

    PATHS are rocpd databases (*_results.db), JAX profiles (*.xplane.pb), folders, patterns, .rpdb folders or run
    directories.
    """
    from rocktools.evidence import Evidence
    from rocktools.render.table import table_from_spec
    from rocktools.units import count_noun
    from rocktools.workspace.linked_frames import LINKED_FRAMES, linked_frame
    from rocktools.workspace.workspace import Workspace

    spec = _spec(name)
    selected = spec.select(columns)
    paths, programs = split_hlo(paths, hlo)
    if programs is not None and spec.name not in LINKED_FRAMES:
        raise UsageError("no-program-needed", f"{spec.name} is read from traces and profiles: it takes no --hlo")
    with Workspace.open(paths) as workspace:
        raised: tuple[Finding, ...] = ()
        if spec.name in LINKED_FRAMES:
            linked = linked_frame(workspace, spec.name, programs or ())
            frame, evidence, raised = linked.frame[list(selected)], linked.evidence, linked.findings
        else:
            frame = workspace.frame(spec.name, selected)
            evidence = Evidence.COUNTER if spec.name == "COUNTER_VALUES" else Evidence.MEASURED
        title = f"{spec.name}: {count_noun(len(frame), 'row')}"
        table = table_from_spec(frame, spec, evidence=evidence, title=title, is_simulated=workspace.is_simulated)
        findings = [*workspace.findings, *raised]
        emit_table(table, output, findings=findings)
    emit_findings(findings)
    return exit_code_of(findings)


def _spec(name: str) -> FrameSpec:
    """The spec of the frame that is meant.

    Raises:
        UsageError: there is none, or another command builds it.
    """
    from rocktools.frames import SPECS
    from rocktools.workspace.linked_frames import LINKED_FRAMES
    from rocktools.workspace.workspace import READ_FRAMES

    wanted = name.upper().replace("-", "_")
    if wanted in (*READ_FRAMES, *LINKED_FRAMES):
        return SPECS[wanted]
    if wanted in SPECS:
        where = _ELSEWHERE.get(wanted, "another command")
        raise UsageError("frame-of-another-command", f"{wanted} is not read: it takes choices that {where} offers")
    known = [*READ_FRAMES, *LINKED_FRAMES]
    raise UsageError("unknown-frame", f"there is no frame {name!r}", hint=f"one of {', '.join(known)}")
