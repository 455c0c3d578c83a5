"""Durations -> what the series is like."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from rocktools.summary.document import Statistics


def describe_durations(durations_ns: Sequence[float] | npt.NDArray[np.int64]) -> Statistics | None:
    """Statistics of durations, quantiles interpolated linearly; None of none."""
    values = np.asarray(durations_ns, dtype=np.float64)
    if values.size == 0:
        return None
    p25, median, p75, p90 = (float(each) for each in np.quantile(values, (0.25, 0.5, 0.75, 0.9)))
    is_series = values.size > 1
    return Statistics(
        samples_count=int(values.size),
        mean_ns=float(values.mean()),
        median_ns=median,
        p25_ns=p25,
        p75_ns=p75,
        p90_ns=p90,
        min_ns=float(values.min()),
        max_ns=float(values.max()),
        iqr_ns=p75 - p25,
        deviation_ns=float(values.std(ddof=1)) if is_series else None,
        spread_ratio=(p75 - p25) / median if is_series and median else None,
    )
