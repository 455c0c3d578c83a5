"""Processes whose kernels were replayed in place: their counters stand in JSON, not in a database.

They give counted dispatches, counter values, agents and processes; whatever else a trace holds, they have no rows of.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import pandas as pd

from rocktools.frames import AGENTS, COUNTED_DISPATCHES, COUNTER_VALUES, PROCESSES, FrameSpec
from rocktools.sources.rocpd.parts import Part, label_constant
from rocktools.sources.rocprofv3_json import read_counter_json
from rocktools.workspace.frame_parts import part_of_frame
from rocktools.workspace.paths import SourcePath


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ReplayedProcess:
    """One process whose kernels were replayed.

    Attributes:
        source: the file and its labels.
        label: of the process.
        counted, values, agents, processes: COUNTED_DISPATCHES, COUNTER_VALUES, AGENTS, PROCESSES of it.
    """

    source: SourcePath
    label: str
    counted: pd.DataFrame
    values: pd.DataFrame
    agents: pd.DataFrame
    processes: pd.DataFrame

    def part(self, spec: FrameSpec) -> Part | None:
        """Its rows of a frame; None where a replay has none."""
        known = {COUNTED_DISPATCHES: self.counted, COUNTER_VALUES: self.values}
        frame = {**known, AGENTS: self.agents, PROCESSES: self.processes}.get(spec)
        if frame is None:
            return None
        part = part_of_frame(frame, spec)
        return {**part, "process": label_constant(self.label, len(frame))}

    def is_same_as(self, other: ReplayedProcess) -> bool:
        """Whether both are copies: two processes never ran the same dispatches at the same nanoseconds."""
        names = ["dispatch_id", "replay_pass", "pass_start_ns", "pass_end_ns"]
        return bool(self.counted[names].equals(other.counted[names]))

    def relabelled(self, label: str) -> ReplayedProcess:
        return replace(self, label=label)


def load_replays(source: SourcePath) -> list[ReplayedProcess]:
    """The processes in a `*_results.json`.

    Raises:
        InputError: it cannot be read, or is no such file.
    """
    read = read_counter_json(source.path, run=source.run, pass_label=source.pass_label)
    return [
        ReplayedProcess(
            source=source,
            label=str(label),
            counted=_rows_of(read.counted, label),
            values=_rows_of(read.values, label),
            agents=_rows_of(read.agents, label),
            processes=_rows_of(read.processes, label),
        )
        for label in read.processes["process"].unique()
    ]


def _rows_of(frame: pd.DataFrame, label: object) -> pd.DataFrame:
    return frame[frame["process"] == label].reset_index(drop=True)
