"""REPLAY_PROFILE as tables: for people, with units and what bounds the kernel; for programs, with every column."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rocktools.render.table import Table
    from rocktools.workspace.replay_profile import ReplayProfile


def profile_table(profile: ReplayProfile, title: str) -> Table:
    """Every row with every column."""
    from rocktools.render.table import table_from_spec
    from rocktools.workspace.replay_profile import REPLAY_PROFILE

    return table_from_spec(
        profile.frame, REPLAY_PROFILE, evidence=profile.evidence, title=title, is_simulated=profile.is_simulated
    )


def profile_for_people(profile: ReplayProfile, title: str) -> Table:
    """Values with their units; below them, what bounds the kernel."""
    import pandas as pd

    from rocktools.render.table import ColumnKind, Table, table_column

    rows = profile.frame.to_dict("records")
    shown: Mapping[str, list[object]] = {
        "quantity": [str(row["quantity"]) for row in rows],
        "value": [_value_text(row["value"], str(row["unit"])) for row in rows],
        "evidence": [_text(row["evidence"]) for row in rows],
        "executions_count": [row["executions_count"] for row in rows],
        "remark": [": ".join(filter(None, (_text(row["absence"]), _text(row["remark"])))) or None for row in rows],
    }
    columns = {
        "quantity": ("as `rocktools counters show` explains it, or of the roofline point", ColumnKind.TEXT),
        "value": ("of a mean execution, with its unit", ColumnKind.TEXT),
        "evidence": ("where it comes from", ColumnKind.TEXT),
        "executions_count": ("executions that it comes from", ColumnKind.COUNT),
        "remark": ("what weakens it, what it says, or why there is none", ColumnKind.TEXT),
    }
    frame = pd.DataFrame({name: pd.Series(values) for name, values in shown.items()})
    described = tuple(
        table_column(name, meaning, evidence=profile.evidence, dtype=frame[name].dtype, kind=kind)
        for name, (meaning, kind) in columns.items()
    )
    return Table(
        name="REPLAY_PROFILE",
        title=title,
        columns=described,
        frame=frame,
        is_simulated=profile.is_simulated,
        notes=profile.sentences,
    )


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None


def _value_text(value: float, unit: str) -> str:
    from rocktools.units import format_count, format_duration, format_ratio, format_si

    if value != value:
        return "-"
    if unit == "ratio":
        return format_ratio(value)
    if unit == "ns":
        return format_duration(value)
    if unit in ("B", "FLOP", "IOP", "Hz", "FLOP/s", "B/s"):
        return format_si(value, unit)
    number = format_count(int(value)) if value == int(value) else f"{value:,.4g}"
    return f"{number} {unit}"
