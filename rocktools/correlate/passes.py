"""Executions of kernels in different passes of one job, laid side by side.

Every pass is a run of its own, with processes, dispatch ids and times of its own; none of these can join two passes.
What can is the place of an execution in the job: which of its processes, on which device, of which kernel, the
how-manieth. That holds for jobs that do the same each time, so the passes are first compared, execution by execution.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd

from rocktools.findings import Finding, Severity
from rocktools.frames import COUNTER_VALUES, GRID, WORKGROUP, Column, FrameSpec, require_frame

GEOMETRY = (*GRID, *WORKGROUP)
_PLACE = ["role", "device_index", "kernel_name", "ordinal"]
_DISPATCH_KEY = ["run", "process", "dispatch_id", "pass", "replay_pass"]
_SHOWN = 3
_NO_RANK = -1

MATCHED_COUNTERS = FrameSpec(
    name="MATCHED_COUNTERS",
    meaning="COUNTER_VALUES by the place of the execution in the job; values of different passes stand together.",
    key=("role", "device_index", "kernel_name", "ordinal", "counter", "pass"),
    sort=("role", "device_index", "kernel_name", "ordinal", "counter", "pass"),
    columns=(
        Column(
            "role",
            "category",
            "which process of the job: `rank <n>` where ranks are known, else `process <n>`; both if several share one",
        ),
        Column("device_index", "int64", "index of the device among the GPUs of its node"),
        Column("kernel_name", "category", "clean kernel name"),
        Column(
            "ordinal", "int64", "how many executions of this kernel by this process on this device, this one included"
        ),
        *(COUNTER_VALUES.column(name) for name in ("counter", "pass")),
        *(COUNTER_VALUES.column(name) for name in ("sum_value", "min_value", "max_value", "instances_count")),
    ),
)


def number_executions(counted: pd.DataFrame, processes: pd.DataFrame, agents: pd.DataFrame) -> pd.DataFrame:
    """COUNTED_DISPATCHES with the place of each execution.

    Args:
        counted: COUNTED_DISPATCHES with all columns, of any number of passes.
        processes: PROCESSES of the same files.
        agents: AGENTS of the same files.

    Returns:
        The same rows, ordered by pass, role and dispatch id, with `role`, `device_index` and `ordinal` added.
        Executions are counted within a replay pass, where there are any.
    """
    owners = processes[["run", "process", "rank", "pid"]].astype({"run": str, "process": str})
    places = agents[["run", "process", "agent_id", "type_index"]].astype({"run": str, "process": str})
    rows = counted.astype({"run": str, "process": str, "pass": str, "kernel_name": str})
    rows = rows.merge(owners, on=["run", "process"], how="left", validate="many_to_one")
    rows = rows.merge(places, on=["run", "process", "agent_id"], how="left", validate="many_to_one")
    rows["role"] = _roles(rows)
    rows["device_index"] = rows["type_index"].fillna(rows["agent_id"]).astype("int64")
    rows = rows.sort_values(["pass", "role", "dispatch_id"], kind="stable", ignore_index=True)
    groups = ["pass", "replay_pass", "role", "device_index", "kernel_name"]
    rows["ordinal"] = rows.groupby(groups, dropna=False, observed=True).cumcount().astype("int64") + 1
    return rows.drop(columns=["rank", "pid", "type_index"])


def _roles(rows: pd.DataFrame) -> pd.Series:
    """`rank <n>`, or the process's number in its pass by ascending pid: the order in which a launcher starts them.

    That order is wrong where process ids began anew in between. Processes that share a rank (workers of one, or a job
    that was started in a folder called so) are told apart by their numbers, too.
    """
    owners = rows[["pass", "process", "rank", "pid"]].drop_duplicates()
    owners = owners.sort_values(["pass", "pid", "process"], kind="stable")
    owners["rank"] = owners["rank"].astype("Int64").fillna(_NO_RANK)
    groups = owners.groupby(["pass", "rank"], observed=True)["process"]
    owners["number"], owners["size"] = groups.cumcount(), groups.transform("size")
    labels = {
        (row["pass"], row["process"]): _role(int(row["rank"]), int(row["number"]), int(row["size"]))
        for row in owners.to_dict("records")
    }
    return pd.Series([labels[key] for key in zip(rows["pass"], rows["process"], strict=True)], index=rows.index)


def _role(rank: int, number: int, sharing_count: int) -> str:
    if rank == _NO_RANK:
        return f"process {number}"
    return f"rank {rank}" if sharing_count == 1 else f"rank {rank} process {number}"


def compare_passes(numbered: pd.DataFrame, *, where: str) -> list[Finding]:
    """Whether all passes counted the same executions: kernels, how many of each, grids and workgroups in order.

    Args:
        numbered: as `number_executions` gives it.
        where: what to name as the place.

    Returns:
        A fault for each pass, process, device and kernel that differs from the first pass: first how many executions
        there are, then what grids and workgroups they have.
    """
    passes = {str(label): rows for label, rows in numbered.groupby("pass", observed=True, sort=True)}
    if len(passes) < 2:
        return []
    (first_label, first), *others = passes.items()
    findings: list[Finding] = []
    for label, rows in others:
        findings += _compare_counts(first_label, first, label, rows, where)
        findings += _compare_geometry(first_label, first, label, rows, where)
    return findings


def _compare_counts(first_label: str, first: pd.DataFrame, label: str, rows: pd.DataFrame, where: str) -> list[Finding]:
    expected, found = (_executions(frame) for frame in (first, rows))
    findings = []
    for place in sorted(set(expected) | set(found)):
        before, after = expected.get(place, 0), found.get(place, 0)
        if before != after:
            role, device, kernel = place
            findings.append(
                Finding(
                    rule="passes-differ-in-executions",
                    severity=Severity.FAULT,
                    where=where,
                    message=(
                        f"{kernel} of {role} on device {device} was counted {before:,} times in {first_label} and "
                        f"{after:,} times in {label}"
                    ),
                    numbers={"first_count": before, "other_count": after},
                    advice="values of these passes cannot be put together; make the job repeat exactly, or replay the "
                    "kernel alone",
                )
            )
    return findings


def _executions(rows: pd.DataFrame) -> Mapping[tuple[str, int, str], int]:
    one_replay = rows[rows["replay_pass"].isna() | (rows["replay_pass"] == rows["replay_pass"].min())]
    counts = one_replay.groupby(["role", "device_index", "kernel_name"], observed=True).size()
    return {(str(role), int(device), str(kernel)): int(n) for (role, device, kernel), n in counts.items()}


def _compare_geometry(
    first_label: str, first: pd.DataFrame, label: str, rows: pd.DataFrame, where: str
) -> list[Finding]:
    joined = first.merge(rows, on=_PLACE, suffixes=("", "_other"))
    is_other = np.zeros(len(joined), dtype=np.bool_)
    for name in GEOMETRY:
        left, right = joined[name], joined[f"{name}_other"]
        is_other |= ((left != right) & ~(left.isna() & right.isna())).fillna(True).to_numpy(dtype=np.bool_)
    findings = []
    for kernel, differing in joined[is_other].groupby("kernel_name", observed=True, sort=True):
        shown = ", ".join(str(ordinal) for ordinal in differing["ordinal"].head(_SHOWN))
        more = ", ..." if len(differing) > _SHOWN else ""
        findings.append(
            Finding(
                rule="passes-differ-in-geometry",
                severity=Severity.FAULT,
                where=where,
                message=(
                    f"{kernel}: {len(differing):,} executions (number {shown}{more}) have another grid or workgroup in "
                    f"{label} than in {first_label}"
                ),
                numbers={"differing_count": len(differing)},
                advice="the job did other work in each pass; values of these passes cannot be put together",
            )
        )
    return findings


def match_counters(values: pd.DataFrame, numbered: pd.DataFrame) -> pd.DataFrame:
    """Counter values by the place of their execution, over all passes.

    Args:
        values: COUNTER_VALUES.
        numbered: the executions of the same passes, as `number_executions` gives them.

    Returns:
        MATCHED_COUNTERS. A counter that was in several passes has a row for each.
    """
    left = values.astype(dict.fromkeys(("run", "process", "pass", "counter"), str))
    places = numbered[[*_DISPATCH_KEY, *_PLACE]]
    joined = left.merge(places, on=_DISPATCH_KEY, how="left", validate="many_to_one")
    joined = joined.sort_values(list(MATCHED_COUNTERS.sort), kind="stable", ignore_index=True)
    frame = joined[list(MATCHED_COUNTERS.names)]
    categories: Sequence[str] = [column.name for column in MATCHED_COUNTERS.columns if column.dtype == "category"]
    return require_frame(frame.astype(dict.fromkeys(categories, "category")), MATCHED_COUNTERS)
