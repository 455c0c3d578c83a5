"""DISPATCHES or COUNTED_DISPATCHES -> the rows that `rocktools dispatches` lists, with device labels and extents."""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np
import pandas as pd

from rocktools.errors import UsageError, nearest_names
from rocktools.frames import COUNTED_DISPATCHES, DISPATCHES, GRID, WORKGROUP, Column, FrameSpec, require_frame
from rocktools.timeline.devices import index_devices
from rocktools.timeline.grouping import codes_of, extent_texts, group_rows

_EXTENTS = (
    Column("grid_workitems", "category", "grid in work-items (not workgroups), as XxYxZ", "not recorded"),
    Column("workgroup_workitems", "category", "workgroup in work-items, as XxYxZ", "not recorded"),
)
_DEVICE = Column("device", "category", "label of the device, as in AGENTS")

DISPATCH_LIST = FrameSpec(
    name="DISPATCH_LIST",
    meaning="DISPATCHES with the label of the device, the offset from the first one of its process, and the duration.",
    key=DISPATCHES.key,
    sort=DISPATCHES.sort,
    columns=(
        *DISPATCHES.columns,
        _DEVICE,
        Column("offset_ns", "int64", "start, counted from the first start of a dispatch of its process"),
        Column("duration_ns", "int64", "end minus start; negative where the file has them the wrong way round"),
        *_EXTENTS,
    ),
)

COUNTED_DISPATCH_LIST = FrameSpec(
    name="COUNTED_DISPATCH_LIST",
    meaning="COUNTED_DISPATCHES with the label of the device; no durations, since a counter pass is serialised.",
    key=COUNTED_DISPATCHES.key,
    sort=COUNTED_DISPATCHES.sort,
    columns=(*COUNTED_DISPATCHES.columns, _DEVICE, *_EXTENTS),
)


def list_dispatches(dispatches: pd.DataFrame, agents: pd.DataFrame) -> pd.DataFrame:
    """DISPATCH_LIST of all the dispatches, in their order."""
    start = dispatches["start_ns"]
    first = start.groupby([dispatches["run"], dispatches["process"]], observed=True).transform("min")
    listed = _with_labels(dispatches, agents).assign(offset_ns=start - first, duration_ns=dispatches["end_ns"] - start)
    return require_frame(listed[list(DISPATCH_LIST.names)], DISPATCH_LIST)


def list_counted_dispatches(dispatches: pd.DataFrame, agents: pd.DataFrame) -> pd.DataFrame:
    """COUNTED_DISPATCH_LIST of all the dispatches, in their order."""
    return require_frame(_with_labels(dispatches, agents)[list(COUNTED_DISPATCH_LIST.names)], COUNTED_DISPATCH_LIST)


def select_dispatches(listed: pd.DataFrame, *, match: str | None = None, device: str | None = None) -> pd.DataFrame:
    """The rows of a list whose kernel and device are wanted.

    Args:
        match: regular expression searched for in the clean kernel name; None: all kernels.
        device: label of a device; None: all devices.

    Raises:
        UsageError: `match` is not a regular expression, or no dispatch ran on such a device.
    """
    if match is not None:
        pattern = compile_match(match)
        names = listed["kernel_name"].cat
        is_match = np.array([pattern.search(str(name)) is not None for name in names.categories], dtype=np.bool_)
        listed = listed[is_match[names.codes.to_numpy()]] if len(is_match) else listed
    if device is not None:
        known = [str(label) for label in listed["device"].cat.categories]
        if device not in known:
            near = nearest_names(device, known) or known[:8]
            raise UsageError(
                "unknown-device", f"no dispatch ran on a device {device!r}", hint=f"one of {', '.join(near)}"
            )
        listed = listed[listed["device"] == device]
    return listed


def compile_match(match: str) -> re.Pattern[str]:
    """The compiled `--match`.

    Raises:
        UsageError: it is not a regular expression.
    """
    try:
        return re.compile(match)
    except re.error as error:
        raise UsageError(
            "bad-regex",
            f"{match!r} is not a regular expression: {error}",
            hint="escape what is meant literally, as in '\\(' and '\\*'",
        ) from error


def _with_labels(rows: pd.DataFrame, agents: pd.DataFrame) -> pd.DataFrame:
    return rows.assign(
        device=index_devices(rows, agents).as_column(),
        grid_workitems=_extents(rows, GRID),
        workgroup_workitems=_extents(rows, WORKGROUP),
    )


def _extents(rows: pd.DataFrame, columns: Sequence[str]) -> pd.Categorical:
    """One text for each distinct extent, not one for each row."""
    groups = group_rows([codes_of(rows[name]) for name in columns])
    examples = rows.iloc[groups.example]
    texts = extent_texts([examples[name].array for name in columns])
    known = {text: code for code, text in enumerate(dict.fromkeys(text for text in texts if text is not None))}
    codes = np.array([-1 if text is None else known[text] for text in texts], dtype=np.int64)
    return pd.Categorical.from_codes(codes[groups.of] if len(codes) else [], categories=pd.Index(list(known)))
