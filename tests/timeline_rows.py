"""Rows of a device timeline from pictures and tuples, for the tests of everything that works on them."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from spec_frames import make_frame

from rocktools.frames import ATTRIBUTED, STEPS

BOOT_NS = 13_000_000_000_000_000


def drawn_intervals(picture: str) -> list[tuple[int, int]]:
    """Each run of `#` of a picture as a half-open interval."""
    places = [place for place, mark in enumerate(picture) if mark == "#"]
    runs = []
    for _, run in itertools.groupby(enumerate(places), key=lambda pair: pair[1] - pair[0]):
        inside = [place for _, place in run]
        runs.append((inside[0], inside[-1] + 1))
    return runs


def make_attributed(rows: Iterable[Mapping[str, Any]]) -> pd.DataFrame:
    """ATTRIBUTED, in the order of its contract; `start` and `end` are short for the times after boot."""
    filled = []
    for number, row in enumerate(rows):
        given = dict(row)
        start, end = given.pop("start", 0), given.pop("end", 0)
        defaults = {
            "run": "r",
            "process": "p0",
            "kind": "copy" if given.get("activity") == "copy" else "dispatch",
            "event_id": number,
            "device": "host:gpu0",
            "name": "kernel",
            "start_ns": start + BOOT_NS,
            "end_ns": end + BOOT_NS,
            "activity": "compute",
            "phase": "forward",
            "component": "unattributed",
            "rule": "test",
        }
        filled.append(defaults | given)
    filled.sort(key=lambda row: tuple(row[name] for name in ATTRIBUTED.sort))
    return make_frame(ATTRIBUTED, filled)


def bare_rows(rows: Sequence[Mapping[str, Any]]) -> pd.DataFrame:
    """The columns of ATTRIBUTED that the time side reads, made fast: for property tests."""
    defaults = {
        "run": "r",
        "process": "p0",
        "device": "host:gpu0",
        "name": "kernel",
        "instruction": None,
        "activity": "compute",
    }
    columns: dict[str, Any] = {
        name: pd.Categorical([row.get(name, default) for row in rows]) for name, default in defaults.items()
    }
    columns["step_index"] = pd.array([row.get("step_index") for row in rows], dtype="Int64")
    for name in ("start", "end"):
        columns[f"{name}_ns"] = np.array([row[name] + BOOT_NS for row in rows], dtype=np.int64)
    return pd.DataFrame(columns)


def drawn_rows(pictures: Sequence[tuple[str, str]], **given: Any) -> list[dict[str, Any]]:
    """Rows of (activity, picture), each run of `#` a row."""
    return [
        {"activity": activity, "start": start, "end": end, **given}
        for activity, picture in pictures
        for start, end in drawn_intervals(picture)
    ]


def make_steps(rows: Iterable[Mapping[str, Any]]) -> pd.DataFrame:
    """STEPS; `start` and `end` are short for the times after boot; complete and warm unless said otherwise."""
    filled = []
    for row in rows:
        given = dict(row)
        defaults = {
            "run": "r",
            "device": "host:gpu0",
            "step_index": 0,
            "start_ns": given.pop("start", 0) + BOOT_NS,
            "end_ns": given.pop("end", 0) + BOOT_NS,
            "method": "window",
            "is_complete": True,
            "is_warmup": False,
            "evidence": "declared",
        }
        filled.append(defaults | given)
    filled.sort(key=lambda row: tuple(row[name] for name in STEPS.sort))
    return make_frame(STEPS, filled)
