"""Which physical device each dispatch ran on: agents of several processes with one label are one device."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd

from rocktools.timeline.grouping import IntArray, codes_of, group_rows

_AGENT_KEY = ["run", "process", "agent_id"]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class DeviceIndex:
    """The device of each row.

    Attributes:
        of: index into `labels` for each row.
        labels: labels of the devices that occur, ascending.
        unknown: labels made up for agents that AGENTS lacks.
    """

    of: IntArray
    labels: tuple[str, ...]
    unknown: tuple[str, ...]

    def as_column(self) -> pd.Categorical:
        """The label of each row."""
        return pd.Categorical.from_codes(self.of, categories=pd.Index(list(self.labels)))


def index_devices(rows: pd.DataFrame, agents: pd.DataFrame) -> DeviceIndex:
    """Find the device of each row.

    Args:
        rows: any frame with the columns run, process, agent_id.
        agents: AGENTS, at least with its key and `device`.
    """
    groups = group_rows([codes_of(rows[name]) for name in _AGENT_KEY])
    known = dict(zip(zip(*(agents[name] for name in _AGENT_KEY), strict=True), agents["device"], strict=True))
    found, unknown = [], []
    for run, process, agent_id in rows[_AGENT_KEY].iloc[groups.example].itertuples(index=False, name=None):
        label = known.get((run, process, agent_id))
        if label is None:
            label = f"{process}:agent{agent_id}"
            unknown.append(label)
        found.append(str(label))
    labels = sorted(set(found))
    index = {label: position for position, label in enumerate(labels)}
    return DeviceIndex(
        of=np.array([index[label] for label in found], dtype=np.int64)[groups.of],
        labels=tuple(labels),
        unknown=tuple(unknown),
    )
