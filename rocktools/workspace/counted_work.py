"""Quantities of counter passes, and the times of a trace (or, if asked for, of the passes) -> ROOFLINE_WORK.

Counters are laid onto the trace by kernel: every execution gets the mean of the counted executions of its kernel, which
gives the right sums as long as the counted ones are like the others. Where their counts differ among themselves, the
kernel is the only thing that they say something certain about.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd

from rocktools.devices.device import Level
from rocktools.errors import NothingToRead, UsageError
from rocktools.evidence import Evidence, weakest
from rocktools.findings import Finding, Severity
from rocktools.frames import nullable_int64, require_frame
from rocktools.roofline.work import WORK, TimeSource, WorkOrigin
from rocktools.timeline.activities import Activity, labels_column
from rocktools.units import count_noun
from rocktools.workspace.counted import CountedRuns
from rocktools.workspace.estimated_work import By, row_names

_BYTES = {
    Level.HBM: ("fabric_bytes", "fabric, >= HBM: what the memory-side cache serves is in it"),
    Level.L2: ("l2_bytes", "between L2 and the vector caches"),
    Level.LDS: ("lds_bytes", "LDS"),
}
_FLOP: Mapping[str, tuple[str, str]] = {
    **{f"mfma_flop_{dtype}": ("matrix", dtype) for dtype in ("f8", "bf16", "f16", "f32", "f64")},
    "mfma_flop_f6f4": ("matrix", "f4"),
    "mfma_iop_i8": ("matrix", "s8"),
    **{f"valu_flop_{dtype}": ("vector", dtype) for dtype in ("f16", "f32", "f64")},
}
_TOTAL = "total_flop"  # there only if every part is
_LIKE_RATIO = 0.02  # of the larger value, up to which executions of a kernel count as alike


def quantities_of(level: Level) -> tuple[str, ...]:
    """The quantities that a roofline at this level is made of.

    Raises:
        UsageError: no counter counts there.
    """
    if level not in _BYTES:
        raise UsageError(
            "level-without-counters",
            f"no counter counts the bytes of the level {level}",
            hint="--source estimate: by the payload of the collectives in the compiled program",
        )
    return (_BYTES[level][0], _TOTAL, *_FLOP)


def lay_on_trace(
    quantities: pd.DataFrame, rows: pd.DataFrame, *, level: Level, by: By
) -> tuple[pd.DataFrame, WorkOrigin, tuple[Finding, ...]]:
    """ROOFLINE_WORK with the times of a trace.

    Args:
        quantities: QUANTITIES by kernel.
        rows: of ATTRIBUTED, those that count.

    Raises:
        NothingToRead: no kernel of the trace was counted.
    """
    is_wanted = (rows["kind"] == "dispatch").to_numpy() & (rows["activity"] == Activity.COMPUTE.value).to_numpy()
    mine = rows[is_wanted].reset_index(drop=True)
    kernels = _mean_by_kernel(quantities, level)
    if not set(kernels.index) & set(mine["name"].astype(str)):
        raise NothingToRead(
            "no-counted-kernel-in-trace",
            "no kernel of the trace is among those that were counted",
            hint="name the counter passes of the same job; --source estimate needs none",
        )
    base = pd.DataFrame(
        {
            "run": labels_column(mine["run"]),
            "device": labels_column(mine["device"]),
            "name": labels_column(row_names(mine, by)),
            "start_ns": mine["start_ns"].to_numpy(dtype=np.int64),
            "end_ns": mine["end_ns"].to_numpy(dtype=np.int64),
        }
    )
    work = _priced(base, mine["name"].astype(str), kernels, is_sure=by is By.KERNEL)
    origin = _origin(quantities, level, TimeSource.TRACE)
    return work, origin, tuple(_check_counts(kernels, mine["name"].astype(str)))


def lay_on_passes(quantities: pd.DataFrame, counted: CountedRuns, *, level: Level) -> tuple[pd.DataFrame, WorkOrigin]:
    """ROOFLINE_WORK by kernel with the times of the first pass of each run: those of a serialised run."""
    numbered = counted.numbered
    first = numbered.groupby("run", observed=True)["pass"].transform("min")
    mine = numbered[(numbered["pass"] == first).to_numpy()].reset_index(drop=True)
    keys = ["run", "process", "agent_id"]
    labels = counted.agents[[*keys, "device"]].astype({"run": str, "process": str}).drop_duplicates(keys)
    devices = mine[keys].astype({"run": str, "process": str}).merge(labels, on=keys, how="left")["device"]
    base = pd.DataFrame(
        {
            "run": labels_column(mine["run"].astype(str)),
            "device": labels_column(devices.fillna("gpu").astype(str)),
            "name": labels_column(mine["kernel_name"].astype(str)),
            "start_ns": mine["pass_start_ns"].to_numpy(dtype=np.int64),
            "end_ns": mine["pass_end_ns"].to_numpy(dtype=np.int64),
        }
    )
    kernels = _mean_by_kernel(quantities, level)
    work = _priced(base, mine["kernel_name"].astype(str), kernels, is_sure=True)
    return work, _origin(quantities, level, TimeSource.COUNTER_PASS)


def _mean_by_kernel(quantities: pd.DataFrame, level: Level) -> pd.DataFrame:
    """Kernel -> mean of each quantity over its counted executions, how many, and whether they are alike."""
    wanted = quantities_of(level)
    rows = quantities[quantities["quantity"].isin(wanted) & quantities["ordinal"].isna()]
    texts = rows.astype({"kernel_name": str, "quantity": str})
    weights = texts["dispatches_count"].astype("float64")
    texts = texts.assign(weighted=texts["value"] * weights, weight=weights.where(texts["value"].notna(), 0.0))
    sums = texts.groupby(["kernel_name", "quantity"])[["weighted", "weight"]].sum()
    means = (sums["weighted"] / sums["weight"].where(sums["weight"] > 0)).unstack().reindex(columns=list(wanted))
    spread = (texts["max_value"] - texts["min_value"]).fillna(0.0) > _LIKE_RATIO * texts["max_value"].fillna(0.0).abs()
    differs = spread.groupby(texts["kernel_name"]).any()
    counts = texts.groupby("kernel_name")["dispatches_count"].max()
    return means.assign(is_alike=~differs.reindex(means.index), executions=counts.reindex(means.index))


def _priced(base: pd.DataFrame, kernel: pd.Series, kernels: pd.DataFrame, *, is_sure: bool) -> pd.DataFrame:
    """Rows of executions with bytes, and one row more for each format in which an execution calculated."""
    bytes_name = next(name for name, _ in _BYTES.values() if name in kernels)
    mine = kernels.reindex(kernel.to_numpy()).reset_index(drop=True)
    moved, total = mine[bytes_name], mine[_TOTAL]
    is_counted = (moved.notna() & total.notna()).to_numpy()
    is_certain = np.full(len(base), True) if is_sure else mine["is_alike"].eq(True).to_numpy(dtype=np.bool_)
    executions = base.assign(
        unit=None, dtype=None, compute_flop=_whole(total * 0), moved_bytes=_whole(moved), is_counted=is_counted,
        is_certain=is_certain, is_execution=True,
    )  # fmt: skip
    parts = [executions]
    for quantity, (unit, dtype) in _FLOP.items():
        at = np.flatnonzero(is_counted & (mine[quantity].fillna(0.0) > 0).to_numpy())
        if at.size:
            part = base.iloc[at]
            values = mine[quantity].iloc[at].reset_index(drop=True)
            parts.append(
                part.reset_index(drop=True).assign(
                    end_ns=part["start_ns"].to_numpy(), unit=unit, dtype=dtype, compute_flop=_whole(values),
                    moved_bytes=_whole(values * np.nan), is_counted=True, is_certain=is_certain[at], is_execution=False,
                )
            )  # fmt: skip
    texts = ("run", "device", "name", "unit", "dtype")
    together = pd.concat([part.astype(dict.fromkeys(texts, object)) for part in parts], ignore_index=True)
    together = together.assign(**{name: labels_column(together[name]) for name in texts})
    together = together[together["name"].notna()].sort_values(list(WORK.sort), kind="stable", ignore_index=True)
    return require_frame(together[list(WORK.names)], WORK)


def _whole(values: pd.Series) -> pd.api.extensions.ExtensionArray:
    """Means as integers: half a FLOP or byte of an execution is nothing."""
    is_missing = values.isna().to_numpy()
    return nullable_int64(np.rint(values.fillna(0.0).to_numpy(dtype=np.float64)).astype(np.int64), is_missing)


def _origin(quantities: pd.DataFrame, level: Level, time_source: str) -> WorkOrigin:
    name, label = _BYTES[level]
    return WorkOrigin(
        level=level,
        flop_evidence=_evidence(quantities, (_TOTAL, *_FLOP)),
        bytes_evidence=_evidence(quantities, (name,)),
        bytes_label=label,
        time_source=time_source,
    )


def _evidence(quantities: pd.DataFrame, names: Sequence[str]) -> Evidence:
    """The weakest of the values: quantities of mixed passes are inferred."""
    found = quantities[quantities["quantity"].isin(names)]["evidence"].dropna().astype(str).unique()
    return weakest(Evidence.COUNTER, *map(Evidence, found))


def _check_counts(kernels: pd.DataFrame, kernel: pd.Series) -> list[Finding]:
    """Kernels of which the counters saw fewer or more executions than the trace."""
    traced = kernel.value_counts()
    common = [name for name in kernels.index if name in traced.index]
    other = [name for name in common if int(kernels.at[name, "executions"]) != int(traced[name])]
    if not other:
        return []
    return [
        Finding(
            rule="counted-and-traced-differ",
            severity=Severity.NOTE,
            where=other[0],
            message=f"{count_noun(len(other), 'kernel')} of {len(common)} ran another number of times under counters "
            "than in the trace; every traced execution gets the mean of the counted ones",
            numbers={"kernels_count": len(other), "common_count": len(common)},
        )
    ]
