"""Small tables of counter values: executions, passes, a device."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pandas as pd
from spec_frames import make_agents

from rocktools.counters.counter_table import CounterTable, build_counter_table

GFX950 = {"arch": "gfx950", "xcc_count": 8, "cu_count": 256, "simd_per_cu_count": 4, "max_engine_hz": 2_400_000_000}
GFX942 = {"arch": "gfx942", "xcc_count": 8, "cu_count": 304, "simd_per_cu_count": 4, "max_engine_hz": 2_100_000_000}

Values = Mapping[str, float | None]


def device(**facts: object) -> pd.DataFrame:
    """AGENTS of one GPU, an MI355X unless told otherwise."""
    identity = {"run": "r", "process": "p", "agent_id": 4, "type_index": 0, "kind": "GPU"}
    return make_agents([{**identity, **GFX950, **facts}])


def row(ordinal: int, counter: str, value: float | None, **more: object) -> dict[str, object]:
    """One counter of one execution in one pass."""
    place = {"run": "r", "role": "process 0", "device_index": 0, "kernel_name": "k"}
    values = {"sum_value": value, "min_value": None, "max_value": None}
    return {**place, "ordinal": ordinal, "counter": counter, "pass": "a", **values, **more}


def table_of(
    rows: Sequence[Mapping[str, object]], agents: pd.DataFrame | None = None, *, requested: Sequence[str] = ()
) -> CounterTable:
    """The table of these rows."""
    frame = pd.DataFrame(list(rows))
    for name in ("sum_value", "min_value", "max_value"):
        frame[name] = frame[name].astype("float64")
    return build_counter_table(frame, device() if agents is None else agents, requested=requested)


def passes_of(*passes: Sequence[Values]) -> list[dict[str, object]]:
    """Rows of passes `a`, `b`, ...; each is a list of the executions' counters."""
    return [
        row(ordinal, counter, value, **{"pass": chr(ord("a") + number)})
        for number, executions in enumerate(passes)
        for ordinal, counters in enumerate(executions, start=1)
        for counter, value in counters.items()
    ]
