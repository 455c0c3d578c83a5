"""Booked rows -> the blocks of collectives and gaps, by the functions behind their commands."""

from __future__ import annotations

import pandas as pd

from rocktools.attribution.collective_summary import sum_by_kind, summarize_collectives
from rocktools.evidence import Evidence
from rocktools.findings import Finding
from rocktools.summary.document import (
    ArrivalSkew,
    Collective,
    CollectiveKind,
    CollectivesBlock,
    Gap,
    GapBefore,
    GapCauseTotal,
    GapsBlock,
    OperationSkew,
)
from rocktools.summary.gathered import Timed
from rocktools.summary.rows import build_rows, plain_values
from rocktools.timeline.gaps import find_gaps, gaps_before, total_gaps
from rocktools.timeline.skew import match_collectives, sum_skew, sum_skew_by_operation

_ESTIMATED = dict.fromkeys(
    ("payload_bytes", "moved_bytes", "group_count", "algorithm_bytes_per_s", "bus_bytes_per_s"),
    Evidence.COMPILER_ESTIMATE,
)
_MATCHED = dict.fromkeys(
    ("wait_ns", "transfer_ns", "transfer_bus_bytes_per_s", "skew_ns", "longest_skew_ns", "last_count"),
    Evidence.INFERRED,
)


def build_collectives(timed: Timed) -> tuple[CollectivesBlock, tuple[Finding, ...]]:
    """What was communicated, and what matching devices raised."""
    rates = timed.runs.collective_rates(timed.rows)
    matched = match_collectives(timed.runs.with_replica_groups(timed.rows))
    summary = summarize_collectives(rates, matched.frame)
    skew = sum_skew(matched.frame)
    totals = skew.groupby(["run", "device"], observed=True, sort=True)[
        ["collectives_count", "total_ns", "wait_ns", "transfer_ns", "last_count"]
    ].sum()
    block = CollectivesBlock(
        evidence=Evidence.MEASURED,
        evidence_of={**_ESTIMATED, **_MATCHED},
        total_sum_ns=int(rates["sum_ns"].sum()),
        operations=build_rows(Collective, summary),
        kinds=build_rows(CollectiveKind, sum_by_kind(summary)),
        arrivals=build_rows(ArrivalSkew, totals.reset_index()),
        skews=build_rows(OperationSkew, sum_skew_by_operation(matched.frame)),
        arrivals_reason="" if len(skew) else _unmatched(timed, rates),
    )
    return block, matched.findings


def _unmatched(timed: Timed, rates: pd.DataFrame) -> str:
    if rates.empty:
        return "there is no collective"
    if timed.rows["device"].nunique() < 2:
        return "one device was recorded: whom it waited for is not known"
    return "the devices of no collective are there together, on one clock"


def build_gaps(timed: Timed, *, limit: int) -> tuple[GapsBlock, tuple[Finding, ...]]:
    """When devices did nothing, and the doubts about it.

    Args:
        limit: most rows of each list.
    """
    gaps = find_gaps(timed.runs.with_host_calls(timed.rows), timed.runs.launches)
    frame = gaps.frame
    before = gaps_before(frame)
    causes = (
        total_gaps(frame)
        .groupby(["run", "device", "is_between_steps", "cause"], observed=True, sort=True)
        .agg(gaps_count=("gaps_count", "sum"), total_ns=("total_ns", "sum"), longest_ns=("longest_ns", "max"))
        .reset_index()
    )
    longest = frame.sort_values(["duration_ns", "start_ns", "device"], ascending=[False, True, True]).head(limit)
    first_ns = int(timed.rows["start_ns"].min()) if len(timed.rows) else 0
    scopes = _of_names(timed.rows, "scope")
    phases = _of_names(timed.rows, "phase")
    shown = before.head(limit)
    payloads = plain_values(shown["payload_name"])
    block = GapsBlock(
        evidence=Evidence.MEASURED,
        gaps_count=len(frame),
        total_ns=int(frame["duration_ns"].sum()),
        between_steps_ns=int(frame.loc[frame["is_between_steps"], "duration_ns"].sum()),
        before=build_rows(
            GapBefore,
            shown,
            scope=[scopes.get(name) for name in payloads],
            phase=[phases.get(name) for name in payloads],
        ),
        before_total_count=len(before),
        causes=build_rows(GapCauseTotal, causes),
        longest=build_rows(Gap, longest, offset_ns=[int(start) - first_ns for start in longest["start_ns"]]),
    )
    return block, gaps.findings


def _of_names(rows: pd.DataFrame, column: str) -> dict[str, str]:
    """Instruction -> its scope or phase; of several programs the one that stands first."""
    known = rows.loc[rows["instruction"].notna(), ["instruction", column]].drop_duplicates("instruction")
    pairs = zip(known["instruction"].astype(str), plain_values(known[column]), strict=True)
    return {name: str(value) for name, value in pairs if value is not None}
