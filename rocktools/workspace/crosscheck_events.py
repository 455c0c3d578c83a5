"""Events of the devices of a profile, with the op_name of each: what tables of other tools are recomputed from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pandas as pd

from rocktools.errors import NothingToRead, UsageError
from rocktools.findings import Finding
from rocktools.frames import GRID, WORKGROUP
from rocktools.hlo.module import HloModule
from rocktools.hlo.scopes import op_name_of
from rocktools.intervals import union_length
from rocktools.workspace.run_programs import programs_of_runs
from rocktools.workspace.workspace import Workspace

_COLUMNS = (
    *("kind", "kernel_name", "raw_kernel_name", "start_ns", "end_ns", "duration_ps", "program_id", "hlo_op"),
    *(*GRID, *WORKGROUP, "lds_bytes"),
)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ProfileEvents:
    """What ran on the devices of one run, and the programs.

    Attributes:
        frame: DEVICE_EVENTS that have a duration, with `instruction_name` (op_name of the instruction itself, "" where
            it has none), `found_name` (ours, which looks into fusions), `grid` and `block` as X,Y,Z in workgroups and
            work-items.
        modules: by program id.
        span_ns: of each device, from its first start to its last end, added up.
        union_ns: of each device the time that anything ran, added up.
        findings: of reading.
    """

    frame: pd.DataFrame
    modules: Mapping[str, HloModule]
    span_ns: int
    union_ns: int
    findings: tuple[Finding, ...]

    @property
    def annotated(self) -> pd.DataFrame:
        """The events whose instruction is recorded."""
        return self.frame[self.frame["hlo_op"].notna() & self.frame["program_id"].notna()]


def read_profile_events(workspace: Workspace) -> ProfileEvents:
    """The events of the only run with a profile.

    Raises:
        NothingToRead: no profile, or nothing ran on a device.
        UsageError: there are several runs, whose rows other tools would not add up.
        InputError: a profile cannot be read.
    """
    events = workspace.device_events(_COLUMNS)
    events = events[events["kind"].isin(["kernel", "copy", "memset"]).to_numpy()].reset_index(drop=True)
    if events.empty:
        raise NothingToRead(
            "no-device-events",
            "nothing ran on a device in a JAX profile here; tables of other tools are compared with profiles",
            hint="PATH is the *.xplane.pb that the tables were made of",
        )
    runs = sorted({str(run) for run in events["run"].unique()})
    if len(runs) > 1:
        raise UsageError(
            "one-run-only", f"the tables are of one run, and these are {len(runs)}: {', '.join(runs[:4])}", hint="PATH"
        )
    modules: Mapping[str, HloModule] = {}
    findings: tuple[Finding, ...] = ()
    try:
        programs = programs_of_runs(workspace)[runs[0]]
    except NothingToRead:  # a profile without HLO: op_names stay unknown
        pass
    else:
        modules, findings = programs.modules(), programs.findings
    groups = [own for _, own in events.groupby(["host", "device"], observed=True)]
    return ProfileEvents(
        frame=_with_names(events, modules),
        modules=modules,
        span_ns=sum(int(own["end_ns"].max() - own["start_ns"].min()) for own in groups),
        union_ns=sum(union_length(own["start_ns"].to_numpy(), own["end_ns"].to_numpy()) for own in groups),
        findings=findings,
    )


def _with_names(events: pd.DataFrame, modules: Mapping[str, HloModule]) -> pd.DataFrame:
    program, operation = events["program_id"].astype(object), events["hlo_op"].astype(object)
    pairs = pd.DataFrame({"program": program, "operation": operation})
    names: dict[tuple[str, str], tuple[str, str]] = {}
    for key in pairs.dropna().drop_duplicates().itertuples(index=False, name=None):
        names[key] = _names_of(modules, *key)
    both = [names.get(key, ("", "")) for key in zip(program, operation, strict=True)]
    return events.assign(
        instruction_name=pd.Series([own for own, _ in both], dtype=object),
        found_name=pd.Series([found for _, found in both], dtype=object),
        block=_extents([events[name] for name in WORKGROUP]),
        grid=_extents([_workgroups(events, axis) for axis in range(3)]),
    )


def _names_of(modules: Mapping[str, HloModule], program: str, operation: str) -> tuple[str, str]:
    """Name of the instruction itself, and the one that we find for it."""
    module = modules.get(program)
    instruction = None if module is None else module.instructions.get(operation)
    if module is None or instruction is None:
        return "", ""
    found = op_name_of(module, instruction)
    return instruction.metadata.op_name or "", "" if found is None else found.op_name


def _workgroups(events: pd.DataFrame, axis: int) -> pd.Series:
    workitems, size = events[GRID[axis]].astype("Float64"), events[WORKGROUP[axis]].astype("Float64")
    return (workitems / size.where(size > 0)).fillna(1).astype("int64")


def _extents(columns: list[pd.Series]) -> pd.Series:
    texts = [column.fillna(1).astype(np.int64).astype(str) for column in columns]
    return texts[0] + "," + texts[1] + "," + texts[2]
