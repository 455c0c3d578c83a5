"""Rows and STEP_TIMES -> how long a device waits for the first kernel of each step that counts."""

from __future__ import annotations

import pandas as pd

from rocktools.timeline.activities import Activity
from rocktools.timeline.grouping import match_rows

_KEY = ["run", "device", "step_index"]


def find_waits(rows: pd.DataFrame, step_times: pd.DataFrame) -> pd.DataFrame:
    """Run, device, step_index, process, start_ns (end of the step before), end_ns (first kernel) and wait_ns.

    Only of steps that count and follow another one in the trace; copies are part of the wait.

    Args:
        rows: ATTRIBUTED of the steps that count.
        step_times: STEP_TIMES.
    """
    kernels = rows[(rows["activity"] != Activity.COPY.value).to_numpy() & rows["step_index"].notna().to_numpy()]
    first = kernels.groupby(_KEY, observed=True).agg({"start_ns": "min", "process": "first"}).reset_index()
    known = step_times[step_times["is_counted"].to_numpy() & step_times["period_ns"].notna().to_numpy()]
    known = known[match_rows(known, first, _KEY) >= 0].reset_index(drop=True)
    if known.empty:
        return pd.DataFrame({name: [] for name in (*_KEY, "process", "start_ns", "end_ns", "wait_ns")})
    before = known["end_ns"] - known["period_ns"].astype("int64")
    at = match_rows(known, first, _KEY)
    processes = first["process"].astype(str).to_numpy()[at]
    frame = known[_KEY].assign(process=processes, start_ns=before, end_ns=first["start_ns"].to_numpy()[at])
    return frame.assign(wait_ns=(frame["end_ns"] - frame["start_ns"]).clip(lower=0))
