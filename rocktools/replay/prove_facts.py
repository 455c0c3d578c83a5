"""Thunks of executables, dispatches of traces, counter values -> the records that `prove` compares."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import pandas as pd

from rocktools.errors import NothingToRead
from rocktools.replay.executable import SILENT_KINDS, ExecutableThunk
from rocktools.replay.prove import Durations, KernelFacts, TracedKernel

_RESOURCES = ("lds_bytes", "scratch_bytes", "vgpr_count", "agpr_count", "sgpr_count")
_SIZES = ("x", "y", "z")


def facts_of_thunks(thunks: Iterable[ExecutableThunk]) -> tuple[KernelFacts, ...]:
    """What each thunk launches, in order; those that launch nothing are left out."""
    return tuple(_facts_of_thunk(thunk) for thunk in thunks if thunk.kind not in SILENT_KINDS)


def facts_of_dispatches(dispatches: pd.DataFrame, *, kernel_name: str, warmups_count: int = 0) -> TracedKernel:
    """What a trace says of one kernel.

    Args:
        dispatches: DISPATCHES rows, of one device where several ran the kernel.
        kernel_name: clean name.
        warmups_count: dispatches of each process that warm up, at the beginning.

    Raises:
        NothingToRead: the kernel was not dispatched more often than that.
    """
    rows = dispatches[dispatches["kernel_name"] == kernel_name].sort_values("start_ns", kind="stable")
    if warmups_count:
        rows = rows[rows.groupby(["run", "process"], observed=True).cumcount() >= warmups_count]
    if rows.empty:
        more = f" more than {warmups_count} times" if warmups_count else ""
        raise NothingToRead("kernel-not-dispatched", f"the trace has no dispatch of {kernel_name!r}{more}")
    durations_ns = (rows["end_ns"] - rows["start_ns"]).to_numpy(dtype="float64")
    first, median, third = np.percentile(durations_ns, [25, 50, 75])
    resources: dict[str, Any] = {name: _only(rows, name) for name in _RESOURCES}
    return TracedKernel(
        facts=KernelFacts(
            name=kernel_name,
            grid=_sizes(rows, "grid_workitems"),
            workgroup_workitems=_sizes(rows, "workgroup_workitems"),
            **resources,
        ),
        durations=Durations(median_ns=float(median), iqr_ns=float(third - first), dispatches_count=len(rows)),
    )


def counters_by_pass(counted: pd.DataFrame, values: pd.DataFrame, *, kernel_name: str) -> dict[str, list[float]]:
    """Counter -> its median over the dispatches of the kernel, for each pass that counted it.

    Args:
        counted: COUNTED_DISPATCHES.
        values: COUNTER_VALUES of them.
    """
    key = ["run", "process", "dispatch_id", "pass", "replay_pass"]
    mine = counted.loc[counted["kernel_name"] == kernel_name, key]
    joined = values.astype(dict.fromkeys(("run", "process", "pass"), "object")).merge(
        mine.astype(dict.fromkeys(("run", "process", "pass"), "object")), on=key
    )
    medians = joined.groupby(["counter", "pass"], observed=True)["sum_value"].median().dropna()
    found: dict[str, list[float]] = {}
    for (counter, _), value in medians.items():
        found.setdefault(str(counter), []).append(float(value))
    return found


def _facts_of_thunk(thunk: ExecutableThunk) -> KernelFacts:
    code = thunk.code
    facts = KernelFacts(
        name=thunk.kernel_name,
        kind=thunk.kind,
        grid=thunk.grid_workgroups,
        workgroup_workitems=thunk.workgroup_workitems,
        configuration_sha256=thunk.configuration_sha256,
    )
    if code is None:
        return facts
    return KernelFacts(
        name=facts.name,
        kind=facts.kind,
        grid=facts.grid,
        workgroup_workitems=facts.workgroup_workitems,
        lds_bytes=_sum(code.lds_bytes, thunk.dynamic_lds_bytes),
        scratch_bytes=code.scratch_bytes,
        vgpr_count=code.vgpr_count,
        agpr_count=code.agpr_count,
        sgpr_count=code.sgpr_count,
        spills_count=_sum(code.vgpr_spills_count, code.sgpr_spills_count),
        code_sha256=code.sha256,
    )


def _sum(*values: int | None) -> int | None:
    known = [value for value in values if value is not None]
    return sum(known) if len(known) == len(values) else None


def _sizes(rows: pd.DataFrame, stem: str) -> tuple[int, ...]:
    """x, y, z where all dispatches have the same; of what the source does not say, nothing."""
    sizes = [_only(rows, f"{stem}_{axis}") for axis in _SIZES]
    return tuple(size for size in sizes if size is not None) if sizes[0] is not None else ()


def _only(rows: pd.DataFrame, column: str) -> int | None:
    """The value that all dispatches have; None where they differ, or one is missing."""
    values: Sequence[object] = list(rows[column].unique())
    return int(values[0]) if len(values) == 1 and pd.notna(values[0]) else None  # type: ignore[call-overload]
