"""The rows of a device timeline as arrays: when each ran, on which device, in which step, and what kind of work it is.

Every row is in exactly one of three classes. Overlap, gaps and comparison of devices start from here. Nothing here
knows steps' windows, HLO or counters.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from rocktools.errors import ContractError
from rocktools.findings import Finding, Severity
from rocktools.timeline.grouping import Groups, IntArray, codes_of, group_rows

BoolArray = npt.NDArray[np.bool_]


class Activity(str, Enum):
    """The classes of device work."""

    COMPUTE = "compute"
    COMMUNICATION = "communication"
    COPY = "copy"

    def __str__(self) -> str:
        return self.value


ACTIVITIES = tuple(Activity)
"""In the order of their labels in an interval sweep."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class TimedRows:
    """The rows that have a time, and the groups they are in.

    Attributes:
        start_ns, end_ns: of each row.
        groups: rows with equal run, device (and step, where it was asked for); `groups.example` points into these rows.
        kept: position in the frame of each row.
        findings: about rows that were left out.
    """

    start_ns: IntArray
    end_ns: IntArray
    groups: Groups
    kept: npt.NDArray[np.intp]
    findings: tuple[Finding, ...]


def time_rows(rows: pd.DataFrame, by: Sequence[str], *, is_wanted: BoolArray | None = None) -> TimedRows:
    """Rows as arrays, in groups.

    Args:
        rows: at least `by`, start_ns, end_ns.
        by: columns whose equal values make a group.
        is_wanted: rows to look at; None: all.

    Returns:
        The rows that are wanted and do not end before they start.

    Raises:
        ContractError: a column is missing.
    """
    require_columns(rows, (*by, "start_ns", "end_ns"))
    start_ns, end_ns = rows["start_ns"].to_numpy(), rows["end_ns"].to_numpy()
    has_time = end_ns >= start_ns
    kept = np.flatnonzero(has_time if is_wanted is None else has_time & is_wanted)
    return TimedRows(
        start_ns=start_ns[kept],
        end_ns=end_ns[kept],
        groups=group_rows([codes_of(rows[name])[kept] for name in by]),
        kept=kept,
        findings=_negative_durations(rows, has_time),
    )


def activity_labels(activity: pd.Series) -> IntArray:
    """Position in `ACTIVITIES` of each row's class.

    Raises:
        ContractError: a row is in none of them.
    """
    known = {member.value: label for label, member in enumerate(ACTIVITIES)}
    values = activity.astype("category") if not isinstance(activity.dtype, pd.CategoricalDtype) else activity
    of_code = np.array([known.get(str(name), -1) for name in values.cat.categories], dtype=np.int64)
    codes = values.cat.codes.to_numpy()
    labels: IntArray = np.append(of_code, np.int64(-1))[codes]  # code -1, missing, takes the last
    if bool((labels < 0).any()):
        first = int(np.argmax(labels < 0))
        raise ContractError(
            "activity-unknown",
            f"every row must be {', '.join(known)}, but {int((labels < 0).sum())} are not",
            where=f"row {first}: {activity.iloc[first]!r}",
        )
    return labels


def require_columns(rows: pd.DataFrame, names: Sequence[str]) -> None:
    """Nothing, where all columns are there.

    Raises:
        ContractError: one is not.
    """
    lacking = [name for name in names if name not in rows.columns]
    if lacking:
        raise ContractError("frame-columns", f"rows of a timeline must have the columns {lacking}")


def labels_column(texts: Sequence[Any]) -> pd.Categorical:
    """Texts, missing where None or NaN, with categories in alphabetical order: sorting them sorts by the text."""
    if isinstance(getattr(texts, "dtype", None), pd.CategoricalDtype):
        values = pd.Series(texts).cat
        return labels_from_codes(values.codes.to_numpy(), [str(text) for text in values.categories])
    known: dict[str, int] = {}
    codes = [-1 if pd.isna(text) else known.setdefault(str(text), len(known)) for text in texts]
    return labels_from_codes(np.array(codes, dtype=np.int64), list(known))


def labels_from_codes(codes: npt.NDArray[Any], texts: Sequence[str]) -> pd.Categorical:
    """Different texts by their codes, missing where the code is -1; categories are those that occur, in alphabetical
    order."""
    used = np.unique(codes[codes >= 0])
    ordered = sorted((texts[code], code) for code in used.tolist())
    place = np.full(len(texts) + 1, -1, dtype=np.int64)
    for position, (_, code) in enumerate(ordered):
        place[code] = position
    return pd.Categorical.from_codes(place[codes], categories=pd.Index([text for text, _ in ordered], dtype="object"))


@dataclass(frozen=True, slots=True, eq=False)
class Names:
    """What each row is called: a code (-1: nothing), and the text of each code."""

    codes: IntArray
    texts: list[str]


def operation_names(rows: pd.DataFrame) -> Names:
    """The instruction of each row where it is linked, else its kernel or kind of copy.

    Args:
        rows: at least name and instruction, both categories.
    """
    texts: dict[str, int] = {}

    def coded(name: str) -> IntArray:
        column = rows[name].cat
        of = [texts.setdefault(str(text), len(texts)) for text in column.categories]
        codes: IntArray = np.array([*of, -1], dtype=np.int64)[column.codes.to_numpy()]
        return codes

    instruction, kernel = coded("instruction"), coded("name")
    return Names(np.where(instruction < 0, kernel, instruction), list(texts))


def _negative_durations(rows: pd.DataFrame, has_time: BoolArray) -> tuple[Finding, ...]:
    count = int((~has_time).sum())
    if count == 0:
        return ()
    return (
        Finding(
            rule="negative-duration",
            severity=Severity.WARNING,
            where=f"device timeline, row {int(np.argmin(has_time))} is the first",
            message=f"{count} of {len(rows)} rows end before they start; they give no time",
            numbers={"negative_rows_count": count, "rows_count": len(rows)},
        ),
    )
