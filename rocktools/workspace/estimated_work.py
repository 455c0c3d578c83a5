"""ATTRIBUTED, its links and its programs -> ROOFLINE_WORK by the estimates of the compiled program.

The cost of an instruction belongs to one execution of it, however many kernels that takes: it is put on the first
dispatch of the kernel that takes most of the instruction's time, and the others are counted with it. Which dispatches
make one execution is known where the schedule placed them; elsewhere every dispatch of that kernel is one.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum

import numpy as np
import numpy.typing as npt
import pandas as pd

from rocktools.analytic.collectives import sent_bytes
from rocktools.attribution.collective_rates import group_sizes
from rocktools.devices.device import Level
from rocktools.errors import NothingToRead, UsageError
from rocktools.evidence import Evidence
from rocktools.frames import nullable_int64, require_frame
from rocktools.hlo.arithmetic_kinds import find_arithmetic_kinds
from rocktools.hlo.module import HloModule
from rocktools.roofline.work import WORK, WorkOrigin
from rocktools.timeline.activities import Activity, labels_column
from rocktools.timeline.grouping import codes_of, group_rows, match_rows
from rocktools.workspace.attributed import AttributedRuns

_DISPATCH = ("run", "process", "dispatch_id")
_LABELS = {
    Level.HBM: "operands and results once, what caches save not counted",
    Level.NETWORK: "sent by collectives at least, by their payload and group",
}
_ACTIVITIES = {
    (Level.HBM, False): (Activity.COMPUTE.value,),
    (Level.HBM, True): (Activity.COMPUTE.value,),
    (Level.NETWORK, False): (Activity.COMMUNICATION.value,),
    (Level.NETWORK, True): (Activity.COMPUTE.value, Activity.COMMUNICATION.value),
}


class By(str, Enum):
    """What a point is of."""

    KERNEL = "kernel"
    INSTRUCTION = "instruction"
    COMPONENT = "component"

    def __str__(self) -> str:
        return self.value


def estimate_work(runs: AttributedRuns, rows: pd.DataFrame, *, level: Level, by: By) -> tuple[pd.DataFrame, WorkOrigin]:
    """ROOFLINE_WORK of the rows, and where its numbers come from.

    Args:
        runs: whose instructions, links and programs are asked.
        rows: of ATTRIBUTED, those that count.
        level: `hbm`: kernels that calculate; `network`: collectives, whose bytes these are, and in a component also
            the kernels that calculate beside them.

    Raises:
        UsageError: the compiled program says nothing about traffic at this level.
        NothingToRead: no row is linked to a compiled program.
    """
    if level not in _LABELS:
        raise UsageError(
            "level-without-bytes",
            f"the compiled program says nothing about traffic at the level {level}",
            hint="collect counters of that level (rocktools pmc) and name them as well; or --level hbm",
        )
    activities = _ACTIVITIES[level, by is By.COMPONENT]
    is_wanted = (rows["kind"] == "dispatch").to_numpy() & rows["activity"].isin(activities).to_numpy()
    mine = rows[is_wanted].reset_index(drop=True)
    if not mine["instruction"].notna().any():
        raise NothingToRead(
            "no-instruction-for-roofline",
            "no kernel is linked to an instruction of a compiled program, so its FLOPs and bytes are not known",
            hint="--hlo FILE: what XLA dumped; or counters of the same kernels (rocktools pmc)",
        )
    costs = _costs(runs, mine)
    is_carrier = _carriers(runs, mine)
    moved = _sent_bytes(runs, mine) if level is Level.NETWORK else costs["moved_bytes"]
    is_collective = (mine["activity"] == Activity.COMMUNICATION.value).to_numpy()
    flop = costs["compute_flop"].mask(is_collective) if level is Level.NETWORK else costs["compute_flop"]
    is_counted = _is_counted(level, is_collective, flop, moved)
    work = pd.DataFrame(
        {
            "run": labels_column(mine["run"]),
            "device": labels_column(mine["device"]),
            "name": labels_column(row_names(mine, by)),
            "start_ns": mine["start_ns"].to_numpy(dtype=np.int64),
            "end_ns": mine["end_ns"].to_numpy(dtype=np.int64),
            "unit": labels_column(costs["unit"]),
            "dtype": labels_column(costs["dtype"]),
            "compute_flop": flop.mask(~is_carrier),
            "moved_bytes": moved.mask(~is_carrier),
            "is_counted": is_counted,
            "is_certain": _is_certain(runs, mine),
            "is_execution": np.ones(len(mine), dtype=np.bool_),
        }
    )
    work = work[work["name"].notna()].sort_values(list(WORK.sort), kind="stable", ignore_index=True)
    origin = WorkOrigin(
        level=level,
        flop_evidence=Evidence.COMPILER_ESTIMATE,
        bytes_evidence=Evidence.COMPILER_ESTIMATE,
        bytes_label=_LABELS[level],
    )
    return require_frame(work, WORK), origin


def _is_counted(
    level: Level, is_collective: npt.NDArray[np.bool_], flop: pd.Series, moved: pd.Series
) -> npt.NDArray[np.bool_]:
    """Rows whose cost is known, their own or that of the execution they belong to."""
    has_flop, has_bytes = flop.notna().to_numpy(), moved.notna().to_numpy()
    counted: npt.NDArray[np.bool_] = has_flop & has_bytes
    if level is Level.NETWORK:
        counted = np.where(is_collective, has_bytes, has_flop)
    return counted


def row_names(rows: pd.DataFrame, by: By) -> pd.Series:
    """The point that each row of ATTRIBUTED belongs to; missing where it has no instruction."""
    if by is By.KERNEL:
        return rows["name"]
    if by is By.COMPONENT:
        return rows["component"]
    if rows["program_id"].nunique() < 2:
        return rows["instruction"]
    names = rows["program_id"].astype(object) + "/" + rows["instruction"].astype(object)
    return names.astype("category")


def _modules(runs: AttributedRuns) -> dict[str, HloModule]:
    return {found.program_id: found.program.module for programs in runs.programs.values() for found in programs}


def _costs(runs: AttributedRuns, rows: pd.DataFrame) -> pd.DataFrame:
    """What one execution of the instruction of each row costs, and the kind of its arithmetic."""
    keys = ["program_id", "instruction"]
    table = runs.instructions.drop_duplicates(keys).reset_index(drop=True)
    kinds = {program: find_arithmetic_kinds(module) for program, module in _modules(runs).items()}
    of_row = [
        kinds.get(str(program), {}).get(str(instruction))
        for program, instruction in zip(table["program_id"], table["instruction"], strict=True)
    ]
    place = match_rows(rows[keys], table, keys)
    priced = {
        "compute_flop": table["compute_flop"],
        "moved_bytes": table["read_bytes"] + table["written_bytes"],
        "unit": pd.Series([kind.unit if kind else None for kind in of_row], dtype="category"),
        "dtype": pd.Series([kind.dtype if kind else None for kind in of_row], dtype="category"),
    }
    return pd.DataFrame({name: pd.Series(column.array.take(place, allow_fill=True)) for name, column in priced.items()})


def _carriers(runs: AttributedRuns, rows: pd.DataFrame) -> npt.NDArray[np.bool_]:
    """Rows that carry the cost of an execution: one of each."""
    count = len(rows)
    edges = _edges_of(runs, rows)
    duration = np.maximum((rows["end_ns"] - rows["start_ns"]).to_numpy(dtype=np.int64), 0)
    owner = [codes_of(rows[name]) for name in ("run", "process", "device", "program_id", "instruction")]
    instruction = group_rows(owner)
    kernel = group_rows([instruction.of, codes_of(rows["name"])])
    total = np.zeros(len(kernel), dtype=np.int64)
    np.add.at(total, kernel.of, duration)
    # Kernels by instruction, the one with most time first; the first of each instruction is its main one.
    of_kernel = instruction.of[kernel.example]
    order = np.lexsort((-total, of_kernel))
    main = order[np.unique(of_kernel[order], return_index=True)[1]]
    is_main = np.isin(kernel.of, main) & rows["instruction"].notna().to_numpy()
    is_placed = edges["execution_index"].notna().to_numpy() & edges["is_iteration_sure"].to_numpy(dtype=np.bool_)
    own_place = np.where(is_placed, 0, np.arange(1, count + 1))
    execution = group_rows(
        [instruction.of, codes_of(edges["execution_index"]), codes_of(edges["iterations"]), own_place]
    )
    at = np.flatnonzero(is_main)
    at = at[np.argsort(rows["start_ns"].to_numpy()[at], kind="stable")]
    carriers = at[np.unique(execution.of[at], return_index=True)[1]]
    is_carrier = np.zeros(count, dtype=np.bool_)
    is_carrier[carriers] = True
    return is_carrier


def _edges_of(runs: AttributedRuns, rows: pd.DataFrame) -> pd.DataFrame:
    """Execution, iterations and confidence of the link of each row."""
    keys = pd.DataFrame({"run": rows["run"], "process": rows["process"], "dispatch_id": rows["event_id"]})
    place = match_rows(keys, runs.edges, _DISPATCH)
    names = ("execution_index", "iterations", "confidence")
    found = {name: pd.Series(runs.edges[name].array.take(place, allow_fill=True)) for name in names}
    sure = np.zeros(len(rows), dtype=np.bool_)
    sure[place >= 0] = runs.edges["is_iteration_sure"].to_numpy()[place[place >= 0]]
    return pd.DataFrame({**found, "is_iteration_sure": sure})


def _is_certain(runs: AttributedRuns, rows: pd.DataFrame) -> npt.NDArray[np.bool_]:
    certain: npt.NDArray[np.bool_] = (_edges_of(runs, rows)["confidence"] == "certain").to_numpy(dtype=np.bool_)
    return certain


def _sent_bytes(runs: AttributedRuns, rows: pd.DataFrame) -> pd.Series:
    """What the collective of each row sends at least; missing for everything else."""
    sizes: Mapping[str, Mapping[str, int]] = {name: group_sizes(module) for name, module in _modules(runs).items()}
    known: dict[tuple[object, ...], int | None] = {}
    found: list[int | None] = []
    names = ("program_id", "instruction", "collective", "payload_bytes")
    for program, instruction, kind, payload in zip(*(rows[name].astype(object) for name in names), strict=True):
        if pd.isna(kind) or pd.isna(payload) or pd.isna(instruction):
            found.append(None)
            continue
        key = (program, instruction, kind, payload)
        if key not in known:
            group = sizes.get(str(program), {}).get(str(instruction))
            is_whole = sent_bytes(str(kind), 2, 1) == 2  # a permutation or broadcast, whatever the group
            known[key] = sent_bytes(str(kind), int(payload), group or 1) if group or is_whole else None
        found.append(known[key])
    numbers = np.array([value or 0 for value in found], dtype=np.int64)
    return pd.Series(nullable_int64(numbers, np.array([value is None for value in found], dtype=np.bool_)))
