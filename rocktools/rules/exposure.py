"""ATTRIBUTED and arrivals -> how much of each communication kernel nothing hid, and how much of that was waiting.

What a device spends in a collective before the last participant has come is the fault of whoever was late, not of the
network: without that split a slow rank looks like slow communication on all the others.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from rocktools.frames import ATTRIBUTED, Column, FrameSpec, nullable_int64, require_frame
from rocktools.intervals import covered_length, union
from rocktools.timeline.activities import Activity
from rocktools.timeline.grouping import match_rows

_UNMATCHED = "its executions are not matched across devices"

EXPOSURE = FrameSpec(
    name="EXPOSURE",
    meaning="One row per communication kernel in a step that counts: how much of it ran without any compute.",
    key=ATTRIBUTED.key,
    sort=ATTRIBUTED.sort,
    columns=(
        *(
            column
            for column in ATTRIBUTED.columns
            if column.name
            in {
                *ATTRIBUTED.key,
                *("device", "name", "start_ns", "end_ns", "phase", "instruction", "program_id", "collective"),
                *("payload_bytes", "step_index"),
            }
        ),
        Column("exposed_ns", "int64", "time in which it ran and no compute did"),
        Column("exposed_wait_ns", "Int64", "part of `exposed_ns` before the last participant arrived", _UNMATCHED),
    ),
)

_ARRIVAL = ("run", "device", "step_index", "start_ns", "end_ns")


def measure_exposure(rows: pd.DataFrame, arrivals: pd.DataFrame) -> pd.DataFrame:
    """EXPOSURE.

    Args:
        rows: ATTRIBUTED.
        arrivals: COLLECTIVE_ARRIVALS of the same rows.
    """
    timed = rows[(rows["end_ns"] >= rows["start_ns"]).to_numpy()]
    is_mine = (timed["activity"] == Activity.COMMUNICATION.value) & timed["step_index"].notna()
    mine = timed[is_mine.to_numpy()].reset_index(drop=True)
    compute = timed[(timed["activity"] == Activity.COMPUTE.value).to_numpy()]
    start, end = mine["start_ns"].to_numpy(), mine["end_ns"].to_numpy()
    waits = np.append(arrivals["wait_ns"].fillna(-1).to_numpy(dtype=np.int64), -1)
    wait = waits[match_rows(mine, arrivals, _ARRIVAL)] if len(arrivals) else np.full(len(mine), -1, dtype=np.int64)
    is_known, wait = wait >= 0, np.maximum(wait, 0)
    exposed, exposed_wait = np.zeros(len(mine), dtype=np.int64), np.zeros(len(mine), dtype=np.int64)
    compute_of = dict(tuple(compute.groupby(["run", "device"], observed=True)))
    for key, own in mine.groupby(["run", "device"], observed=True):
        places = own.index.to_numpy()
        beside = compute_of.get(key)
        none = np.zeros(0, dtype=np.int64)
        covering = union(*((none, none) if beside is None else (beside["start_ns"], beside["end_ns"])))
        begins, arrived, ends = start[places], start[places] + wait[places], end[places]
        exposed[places] = ends - begins - covered_length(begins, ends, covering)
        exposed_wait[places] = arrived - begins - covered_length(begins, arrived, covering)
    values: dict[str, Any] = {
        **{column.name: mine[column.name] for column in EXPOSURE.columns if column.name in ATTRIBUTED.names},
        "exposed_ns": exposed,
        "exposed_wait_ns": nullable_int64(exposed_wait, ~is_known),
    }
    frame = pd.DataFrame({name: values[name] for name in EXPOSURE.names})
    return require_frame(frame.sort_values(list(EXPOSURE.sort), ignore_index=True), EXPOSURE)
