"""A ledger document (`rocktools.ledger/1`) -> the few times of a step that are held against its floor.

Means over the devices and steps of its reconciliation: parts of one device timeline each, so that their means add up
like they do. Devices are not merged.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rocktools.analytic.ceiling_gap import MeasuredStep
from rocktools.errors import InputError, NothingToRead, UnknownFormat
from rocktools.units import NS_PER_S

SCHEMA = "rocktools.ledger/1"
_REFERENCE = "ledger-file"
_HINT = "rocktools ledger RUN -o ledger.json"
_REPLAY_ROW = "Rematerialized forward replay"


def read_measured_step(path: Path, *, step_s: float | None = None, input_wait_s: float | None = None) -> MeasuredStep:
    """The times of the steps in a ledger that `rocktools ledger --format json` wrote.

    Args:
        step_s: the synchronized step by a log; None: not known.
        input_wait_s: part of the idle time that was spent waiting for input; None: not known.

    Raises:
        InputError: the file cannot be read.
        UnknownFormat: it is no such document.
        NothingToRead: no device has any row in it.
    """
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        what = f"the file cannot be read: {error.strerror or error}"
        raise InputError(_REFERENCE, what, where=str(path)) from error
    except (UnicodeDecodeError, json.JSONDecodeError, RecursionError) as error:
        raise UnknownFormat(_REFERENCE, "the file is no JSON", where=str(path), hint=_HINT) from error
    return measured_step(document, source=str(path), step_s=step_s, input_wait_s=input_wait_s)


def measured_step(
    document: Any, *, source: str, step_s: float | None = None, input_wait_s: float | None = None
) -> MeasuredStep:
    """The times of the steps in a ledger document; raises as `read_measured_step`.

    Args:
        document: the parsed JSON.
        source: the file, for messages.
    """
    found = document.get("schema") if isinstance(document, dict) else None
    if found != SCHEMA:
        what = f"the file is no ledger: its schema is {found!r}, not {SCHEMA!r}"
        raise UnknownFormat(_REFERENCE, what, where=source, hint=_HINT)
    try:
        rows: Sequence[Mapping[str, Any]] = document["reconciliation"]
        if not rows:
            raise NothingToRead(_REFERENCE, "no device has any kernel in this ledger", where=source)
        phases = {row["row"]: row["mean_ns"] for row in document["tables"].get("phases", [])}
        names = ("span", "compute", "compute_sum", "exposed_communication", "exposed_copy", "idle")
        means_s = {f"{name}_s": sum(row[f"{name}_ns"] for row in rows) / len(rows) / NS_PER_S for name in names}
        replay_ns = phases.get(_REPLAY_ROW)
        return MeasuredStep(
            **means_s,
            replay_s=None if replay_ns is None else replay_ns / NS_PER_S,
            input_wait_s=input_wait_s,
            step_s=step_s,
            is_simulated=bool(document["is_simulated"]),
        )
    except (KeyError, TypeError, AttributeError) as error:
        raise UnknownFormat(_REFERENCE, f"the ledger lacks an entry: {error}", where=source, hint=_HINT) from error
