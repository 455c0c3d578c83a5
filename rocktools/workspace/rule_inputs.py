"""A workspace whose rows are booked -> what the rules look at: each frame once, and why one is not there."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from rocktools.devices.device import Device
from rocktools.errors import RocktoolsError
from rocktools.findings import Finding
from rocktools.frames import require_frame
from rocktools.hlo.memory_reports import BufferAssignment
from rocktools.hlo.module import HloModule
from rocktools.rules.claims import Claims
from rocktools.rules.command_buffers import GRAPH_LAUNCHES
from rocktools.rules.exposure import measure_exposure
from rocktools.rules.inputs import INPUT_MEANINGS, RuleInputs
from rocktools.rules.kernel_work import build_kernel_work
from rocktools.rules.step_times import build_step_times
from rocktools.timeline.activities import labels_column
from rocktools.timeline.gaps import find_gaps
from rocktools.timeline.grouping import match_rows
from rocktools.timeline.late_rank import backward_compute, find_late_ranks
from rocktools.timeline.overlap import reconcile
from rocktools.timeline.skew import match_collectives, sum_skew
from rocktools.workspace.attributed import AttributedRuns
from rocktools.workspace.device_memory import read_reported_memory
from rocktools.workspace.estimated_work import By
from rocktools.workspace.programs import find_programs
from rocktools.workspace.roofline import RooflineOptions, Source, build_roofline_of
from rocktools.workspace.used_device import DeviceOptions, choose_device
from rocktools.workspace.workspace import Workspace

_STEP_KEY = ("run", "device", "step_index")
_COMMAND_BUFFER = re.compile(r"command_buffer(?:_\d+)?$")
_HOST_DEVICE = ":cpu"
_OF_STEPS = ("rows", "step_times", "reconciliation", "gaps", "exposure", "skew", "late_ranks")
_NO_CLAIMS = "there are no declared results (--claims FILE)"


@dataclass(frozen=True, slots=True, kw_only=True)
class BuiltInputs:
    """What the rules look at, and what measuring it raised."""

    inputs: RuleInputs
    findings: tuple[Finding, ...]


def build_rule_inputs(
    workspace: Workspace,
    runs: AttributedRuns,
    rows: pd.DataFrame,
    steps: pd.DataFrame,
    *,
    device: DeviceOptions | None = None,
    claims: Claims | None = None,
    reports: Sequence[str | Path] = (),
) -> BuiltInputs:
    """What the rules look at.

    Args:
        rows: of ATTRIBUTED, those of the steps that count.
        steps: STEPS that count.
        device: what the user says of the GPU.
        claims: declared results; None: there are none.
        reports: where reports of XLA about memory may be, which are read where claims are there to be held against.

    Raises:
        UsageError: the GPU that was named does not exist, or is not what the files say.
    """
    if _is_of_host(rows):
        return BuiltInputs(inputs=_inputs_of_host(_used_programs(runs, rows), claims, reports), findings=())
    measured, findings = _measure(runs, rows, steps)
    absences = {**measured.absences, "claims": _NO_CLAIMS}
    programs = _used_programs(runs, rows)
    chosen, points = _device_and_points(workspace, runs, rows, device or DeviceOptions(), absences)
    if not programs:
        for name in ("programs", "kernel_work", "participants_count"):
            absences[name] = "no kernel is linked to a compiled program (--hlo FILE names one)"
    inputs = replace(
        measured,
        launches=runs.launches,
        host_events=_none_if_empty(workspace.host_events()),
        host_calls=_none_if_empty(workspace.host_calls()),
        ranges=_none_if_empty(workspace.ranges()),
        rates=runs.collective_rates(rows),
        programs=programs or None,
        kernel_work=build_kernel_work(programs) if programs else None,
        points=points,
        device=chosen,
        assignments=None if claims is None else _assignments(reports),
        graph_launches=_graph_launches(workspace, runs, rows),
        devices_count=_devices_count(runs.rows),
        participants_count=_participants_count(programs, rows),
        gpus_count=runs.gpus_count,
        claims=claims,
        absences=absences,
    )
    return BuiltInputs(inputs=inputs, findings=findings)


def _is_of_host(rows: pd.DataFrame) -> bool:
    """Whether the CPU backend ran everything."""
    devices = rows["device"].unique()
    return len(devices) > 0 and all(str(name).endswith(_HOST_DEVICE) for name in devices)


def _inputs_of_host(programs: Sequence[HloModule], claims: Claims | None, reports: Sequence[str | Path]) -> RuleInputs:
    """The program and the claims: threads of a host wait for each other as no GPU does."""
    reason = "no GPU ran anything: times are of threads of a host"
    return RuleInputs(
        programs=tuple(programs) or None,
        kernel_work=build_kernel_work(programs) if programs else None,
        assignments=None if claims is None else _assignments(reports),
        claims=claims,
        absences={**dict.fromkeys(INPUT_MEANINGS, reason), "claims": _NO_CLAIMS},
    )


def _measure(runs: AttributedRuns, rows: pd.DataFrame, steps: pd.DataFrame) -> tuple[RuleInputs, tuple[Finding, ...]]:
    """What the timeline says, and what measuring it raised."""
    whole = reconcile(runs.rows, runs.steps.frame)
    reconciliation = whole.frame[match_rows(whole.frame, steps, _STEP_KEY) >= 0].reset_index(drop=True)
    gaps = find_gaps(runs.with_host_calls(runs.rows), runs.launches)
    arrivals = match_collectives(runs.with_replica_groups(rows))
    skew = sum_skew(arrivals.frame)
    late = find_late_ranks(reconciliation, skew, backward_compute(rows))
    findings: list[Finding] = []
    for finding in (*whole.findings, *gaps.findings, *arrivals.findings, *late.findings):
        if finding not in findings:
            findings.append(finding)
    if reconciliation.empty:
        return RuleInputs(absences=dict.fromkeys(_OF_STEPS, "nothing ran in a step")), tuple(findings)
    measured = RuleInputs(
        rows=rows,
        step_times=build_step_times(whole.frame, runs.steps.frame, steps),
        reconciliation=reconciliation,
        gaps=gaps.frame[match_rows(gaps.frame, steps, _STEP_KEY) >= 0].reset_index(drop=True),
        exposure=measure_exposure(rows, arrivals.frame),
        skew=skew,
        late_ranks=late,
    )
    return measured, tuple(findings)


def build_program_inputs(paths: Sequence[str | Path], claims: Claims | None, *, reason: str) -> RuleInputs:
    """What rules can look at without any trace: compiled programs, and claims.

    Args:
        reason: why there is no trace.

    Raises:
        InputError: a path is not there, or cannot be read.
        NothingToRead: it holds no program.
    """
    programs = tuple(found.program.module for path in paths for found in find_programs(path).programs)
    return RuleInputs(
        programs=programs or None,
        kernel_work=build_kernel_work(programs) if programs else None,
        assignments=_assignments(paths) if claims is not None and paths else None,
        claims=claims,
        absences={**dict.fromkeys(INPUT_MEANINGS, reason), "claims": _NO_CLAIMS},
    )


def _used_programs(runs: AttributedRuns, rows: pd.DataFrame) -> tuple[HloModule, ...]:
    """Programs with a kernel among the rows, the one with most time first."""
    lengths = (rows["end_ns"] - rows["start_ns"]).groupby(rows["program_id"].astype(object)).sum()
    modules = {
        found.program_id: found.program.module for programs in runs.programs.values() for found in reversed(programs)
    }
    used = sorted((str(name) for name in lengths.index if str(name) in modules), key=lambda name: -int(lengths[name]))
    return tuple(modules[name] for name in used)


def _device_and_points(
    workspace: Workspace, runs: AttributedRuns, rows: pd.DataFrame, options: DeviceOptions, absences: dict[str, str]
) -> tuple[Device | None, pd.DataFrame | None]:
    """The GPU, and roofline points by instruction by the estimates of the program; None where they cannot be had.

    Raises:
        UsageError: the part that was named does not exist, or is not what the files say.
    """
    try:
        device, _ = choose_device(workspace.agents(), rows, options)
    except RocktoolsError as error:
        if options.part is not None:  # what the user said is wrong
            raise
        absences["device"] = absences["points"] = error.what
        return None, None
    try:
        wanted = RooflineOptions(by=By.INSTRUCTION, source=Source.ESTIMATE, device=options)
        return device, build_roofline_of(workspace, runs, rows, wanted).roofline.points
    except RocktoolsError as error:
        absences["points"] = error.what
        return device, None


def _graph_launches(workspace: Workspace, runs: AttributedRuns, rows: pd.DataFrame) -> pd.DataFrame:
    """GRAPH_LAUNCHES of the rows; in JAX profiles, events whose instruction is a command buffer."""
    kernels = rows[(rows["kind"] == "dispatch").to_numpy()].reset_index(drop=True)
    keys = pd.DataFrame({"run": kernels["run"], "process": kernels["process"], "dispatch_id": kernels["event_id"]})
    at = match_rows(keys, runs.dispatches, ("run", "process", "dispatch_id"))
    is_unlinked = kernels["instruction"].isna().to_numpy()
    is_named = kernels["name"].astype(str).isin(_names_of_buffers(workspace)).to_numpy()
    has_graph = np.append(runs.dispatches["graph_exec_id"].notna().to_numpy(), False)[at] | (is_named & is_unlinked)
    duration = (kernels["end_ns"] - kernels["start_ns"]).clip(lower=0)
    plain = pd.DataFrame(
        {
            "run": kernels["run"].astype(object),
            "device": kernels["device"].astype(object),
            "graph_ns": duration.where(has_graph, 0),
            "hidden_ns": duration.where(has_graph & is_unlinked, 0),
            "total_ns": duration,
        }
    )
    sums = plain.groupby(["run", "device"], sort=True).sum().reset_index()
    values: dict[str, Any] = {
        **{name: labels_column(sums[name]) for name in ("run", "device")},
        **{name: sums[name].astype("int64") for name in ("graph_ns", "hidden_ns", "total_ns")},
    }
    return require_frame(pd.DataFrame(values), GRAPH_LAUNCHES)


def _names_of_buffers(workspace: Workspace) -> set[str]:
    """Kernels that a JAX profile shows under the name of a command buffer."""
    events = workspace.device_events(["kernel_name", "hlo_op"])
    wanted = [name for name in events["hlo_op"].cat.categories if _COMMAND_BUFFER.match(str(name))]
    return set(events.loc[events["hlo_op"].isin(wanted).to_numpy(), "kernel_name"].astype(str))


def _assignments(paths: Sequence[str | Path]) -> dict[str, BufferAssignment] | None:
    """Program -> its buffer assignment, in what of the paths is a dump; None where none is."""
    found: dict[str, BufferAssignment] = {}
    for path in paths:
        try:
            found |= {each.program: each.assignment for each in read_reported_memory([path]).programs}
        except RocktoolsError:
            continue
    return found or None


def _devices_count(rows: pd.DataFrame) -> int | None:
    counts = rows.groupby("run", observed=True)["device"].nunique()
    return int(counts.max()) if len(counts) else None


def _participants_count(programs: Sequence[HloModule], rows: pd.DataFrame) -> int | None:
    """Devices that the program with most time was compiled for; None where a host stands for all of them."""
    if not programs or any(str(name).endswith(_HOST_DEVICE) for name in rows["device"].unique()):
        return None
    texts = [programs[0].attributes.get(name, "") for name in ("num_partitions", "replica_count")]
    counts = [int(text) for text in texts if text.isdecimal()]
    return max(counts) if counts else None


def _none_if_empty(frame: pd.DataFrame) -> pd.DataFrame | None:
    return frame if len(frame) else None
