"""Rates of collectives on each device, and their arrivals across devices -> one row per collective, or per kind.

A duration is waiting for the last device, and the transfer. The bandwidth by the whole duration is what a collective
cost; that by its transfer alone is what the network did. The second needs all devices of a group on one clock.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from rocktools.attribution.collective_rates import COLLECTIVE_RATES
from rocktools.frames import Column, FrameSpec, nullable_int64, require_frame
from rocktools.timeline.activities import labels_column
from rocktools.units import NS_PER_S

_UNMATCHED = "its executions are not matched across devices"

COLLECTIVES = FrameSpec(
    name="COLLECTIVES",
    meaning="One row per collective of a program, all devices together, the longest first: size, time, and speed.",
    key=("run", "program_id", "instruction", "collective", "phase"),
    sort=("sum_ns", "run", "program_id", "instruction", "collective", "phase"),
    columns=(
        *(COLLECTIVE_RATES.column(name) for name in ("run", "program_id", "instruction", "collective", "phase")),
        *(COLLECTIVE_RATES.column(name) for name in ("group_count", "payload_bytes")),
        Column("devices_count", "int64", "devices that it ran on"),
        Column("rows_count", "int64", "executions on all of them"),
        Column("sum_ns", "int64", "durations of all of them added up"),
        Column("mean_ns", "float64", "mean duration"),
        Column("wait_ns", "float64", "mean time from a device's arrival to the last arrival", _UNMATCHED),
        Column("transfer_ns", "float64", "mean time from the last arrival on", _UNMATCHED),
        Column("algorithm_bytes_per_s", "float64", "payload over mean duration", "payload is unknown"),
        Column("bus_bytes_per_s", "float64", "the same times the factor of kind and group", "so are kind or group"),
        Column("transfer_bus_bytes_per_s", "float64", "bus bandwidth by the transfer alone", _UNMATCHED),
    ),
)

COLLECTIVE_KINDS = FrameSpec(
    name="COLLECTIVE_KINDS",
    meaning="One row per kind and phase of collectives, all devices and steps together, the longest first.",
    key=("run", "collective", "phase"),
    sort=("sum_ns", "run", "collective", "phase"),
    columns=(
        *(COLLECTIVE_RATES.column(name) for name in ("run", "collective", "phase")),
        Column("instructions_count", "int64", "collectives of programs; what is not linked counts as one"),
        Column("rows_count", "int64", "executions"),
        Column("sum_ns", "int64", "durations added up"),
        Column("share_ratio", "float64", "of the durations of all communication"),
        Column("moved_bytes", "Int64", "payloads of all executions added up", "payload of one is unknown"),
    ),
)


def summarize_collectives(rates: pd.DataFrame, arrivals: pd.DataFrame) -> pd.DataFrame:
    """COLLECTIVES.

    Args:
        rates: COLLECTIVE_RATES.
        arrivals: COLLECTIVE_ARRIVALS of the same rows; without a row where devices cannot be matched.
    """
    if rates.empty:
        return COLLECTIVES.empty()
    factors = (rates["bus_bytes_per_s"] / rates["algorithm_bytes_per_s"]).where(rates["algorithm_bytes_per_s"] > 0)
    grouped = rates.assign(factor=factors).groupby(list(COLLECTIVES.key), observed=True, dropna=False)
    found = grouped.agg(
        group_count=("group_count", "first"),
        payload_bytes=("payload_bytes", "first"),
        devices_count=("device", "nunique"),
        rows_count=("rows_count", "sum"),
        sum_ns=("sum_ns", "sum"),
        factor=("factor", "first"),
    ).reset_index()
    matched = _mean_arrivals(found, arrivals)
    mean_ns = found["sum_ns"] / found["rows_count"]
    payload = pd.Series(_floats(found["payload_bytes"]))
    with np.errstate(divide="ignore", invalid="ignore"):
        algorithm = (payload * NS_PER_S / mean_ns).where(mean_ns > 0)
        transfer = (payload * NS_PER_S / matched["transfer_ns"]).where(matched["transfer_ns"] > 0)
    columns: dict[str, Any] = {
        **{name: labels_column(found[name].astype("object")) for name in COLLECTIVES.key},
        "group_count": found["group_count"].astype("Int64"),
        "payload_bytes": found["payload_bytes"].astype("Int64"),
        **{name: found[name].astype("int64") for name in ("devices_count", "rows_count", "sum_ns")},
        "mean_ns": mean_ns.astype("float64"),
        "wait_ns": matched["wait_ns"],
        "transfer_ns": matched["transfer_ns"],
        "algorithm_bytes_per_s": algorithm.astype("float64"),
        "bus_bytes_per_s": (algorithm * found["factor"]).astype("float64"),
        "transfer_bus_bytes_per_s": (transfer * found["factor"]).astype("float64"),
    }
    frame = pd.DataFrame(columns)[list(COLLECTIVES.names)]
    return require_frame(_longest_first(frame, COLLECTIVES), COLLECTIVES)


def sum_by_kind(collectives: pd.DataFrame) -> pd.DataFrame:
    """COLLECTIVE_KINDS of COLLECTIVES."""
    if collectives.empty:
        return COLLECTIVE_KINDS.empty()
    moved = collectives["payload_bytes"] * collectives["rows_count"]
    grouped = collectives.assign(moved=moved, is_unknown=moved.isna()).groupby(
        list(COLLECTIVE_KINDS.key), observed=True, dropna=False
    )
    found = grouped.agg(
        instructions_count=("sum_ns", "size"),
        rows_count=("rows_count", "sum"),
        sum_ns=("sum_ns", "sum"),
        moved=("moved", "sum"),
        is_unknown=("is_unknown", "any"),
    ).reset_index()
    total_ns = int(found["sum_ns"].sum())
    is_unknown = found["is_unknown"].to_numpy(dtype=np.bool_)
    moved_bytes = found["moved"].fillna(0).to_numpy(dtype=np.int64)
    columns: dict[str, Any] = {
        **{name: labels_column(found[name].astype("object")) for name in COLLECTIVE_KINDS.key},
        **{name: found[name].astype("int64") for name in ("instructions_count", "rows_count", "sum_ns")},
        "share_ratio": found["sum_ns"] / total_ns if total_ns else np.zeros(len(found)),
        "moved_bytes": nullable_int64(np.where(is_unknown, 0, moved_bytes), is_unknown),
    }
    return require_frame(_longest_first(pd.DataFrame(columns), COLLECTIVE_KINDS), COLLECTIVE_KINDS)


def _mean_arrivals(found: pd.DataFrame, arrivals: pd.DataFrame) -> pd.DataFrame:
    """Mean wait and transfer of each row; missing where an instruction of that name is in several programs."""
    common = arrivals[arrivals["wait_ns"].notna().to_numpy()]
    keys = pd.Series(
        list(zip(common["run"].astype(str), common["operation_name"].astype(str), strict=True)), dtype=object
    )
    means = {
        name: pd.Series(_floats(common[name])).groupby(keys).mean().to_dict() for name in ("wait_ns", "transfer_ns")
    }
    mine = list(zip(found["run"].astype(str), found["instruction"].astype(object), strict=True))
    values = {
        name: [of.get(key, np.nan) if mine.count(key) == 1 else np.nan for key in mine] for name, of in means.items()
    }
    return pd.DataFrame({name: np.array(each, dtype=np.float64) for name, each in values.items()})


def _floats(column: pd.Series) -> np.ndarray:
    floats: np.ndarray = column.to_numpy(dtype=np.float64, na_value=np.nan)
    return floats


def _longest_first(frame: pd.DataFrame, spec: FrameSpec) -> pd.DataFrame:
    ascending = [name != "sum_ns" for name in spec.sort]
    return frame.sort_values(list(spec.sort), ascending=ascending, ignore_index=True)
