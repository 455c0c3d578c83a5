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
from rocktools.analytic.component_rates import BACKWARD, FORWARD, ComponentTime
from rocktools.errors import InputError, NothingToRead, UnknownFormat
from rocktools.units import NS_PER_S

SCHEMA = "rocktools.ledger/1"
_REFERENCE = "ledger-file"
_HINT = "rocktools ledger RUN -o ledger.json"
_REPLAY_ROW = "Rematerialized forward replay"


def read_ledger_document(path: Path) -> Mapping[str, Any]:
    """The document that `rocktools ledger --format json` wrote.

    Raises:
        InputError: the file cannot be read.
        UnknownFormat: it is no such document.
    """
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        what = f"the file cannot be read: {error.strerror or error}"
        raise InputError(_REFERENCE, what, where=str(path)) from error
    except (ValueError, RecursionError) as error:
        raise UnknownFormat(_REFERENCE, "the file is no JSON", where=str(path), hint=_HINT) from error
    found = document.get("schema") if isinstance(document, dict) else None
    if found != SCHEMA:
        what = f"the file is no ledger: its schema is {found!r}, not {SCHEMA!r}"
        raise UnknownFormat(_REFERENCE, what, where=str(path), hint=_HINT)
    assert isinstance(document, dict)
    return document


def measured_step(
    document: Mapping[str, Any], *, source: str, step_s: float | None = None, input_wait_s: float | None = None
) -> MeasuredStep:
    """The times of the steps in a ledger.

    Args:
        document: as `read_ledger_document` gives it.
        source: the file, for messages.
        step_s: the synchronized step by a log; None: not known.
        input_wait_s: part of the idle time that was spent waiting for input; None: not known.

    Raises:
        UnknownFormat: an entry is missing.
        NothingToRead: no device has any row in it.
    """
    names = ("span", "compute", "compute_sum", "exposed_communication", "exposed_copy", "idle")
    try:
        rows: Sequence[Mapping[str, Any]] = document["reconciliation"] or ()
        phases = {row["row"]: row["mean_ns"] for row in document["tables"].get("phases", [])}
        means_s = {f"{name}_s": _mean_s([row[f"{name}_ns"] for row in rows]) for name in names if rows}
        replay_s = None if phases.get(_REPLAY_ROW) is None else _mean_s([phases[_REPLAY_ROW]])
        is_simulated = bool(document["is_simulated"])
    except (KeyError, TypeError, AttributeError, OverflowError) as error:
        raise _incomplete(error, source) from error
    if not rows:
        raise NothingToRead(_REFERENCE, "no device has any kernel in this ledger", where=source)
    return MeasuredStep(
        **means_s,
        replay_s=replay_s,
        input_wait_s=input_wait_s,
        step_s=step_s,
        is_simulated=is_simulated,
    )


def _mean_s(durations_ns: Sequence[float]) -> float:
    return sum(durations_ns) / len(durations_ns) / NS_PER_S


def component_times(document: Mapping[str, Any], *, source: str) -> tuple[ComponentTime, ...]:
    """How long each row of the forward and of the backward table took.

    Args:
        document: as `read_ledger_document` gives it.
        source: the file, for messages.

    Raises:
        UnknownFormat: an entry is missing.
    """
    try:
        return tuple(
            ComponentTime(
                phase=phase,
                title=row["row"],
                components=tuple(name.strip() for name in row["components"].split(",")),
                duration_s=_mean_s([row["mean_ns"]]),
            )
            for phase in (FORWARD, BACKWARD)
            for row in document["tables"].get(phase, [])
            if row["components"] and row["mean_ns"]
        )
    except (KeyError, TypeError, AttributeError, OverflowError) as error:
        raise _incomplete(error, source) from error


def _incomplete(error: Exception, source: str) -> UnknownFormat:
    return UnknownFormat(_REFERENCE, f"the ledger lacks an entry: {error}", where=source, hint=_HINT)
