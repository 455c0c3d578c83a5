"""JAX profiles in a workspace: their own frames, and their kernels in the frames of a trace.

A profile is one process to the other frames: its label is the host that it was recorded on.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd

from rocktools.frames import (
    AGENTS,
    DEVICE_EVENTS,
    DISPATCHES,
    HOST_EVENTS,
    PROCESSES,
    PROFILED_DEVICES,
    FrameSpec,
)
from rocktools.sources.rocpd.columns import absent_column
from rocktools.sources.rocpd.parts import Part, assemble_frame, identity_columns, label_constant
from rocktools.sources.xspace.device_events import device_event_parts
from rocktools.sources.xspace.host_events import host_event_parts
from rocktools.sources.xspace.opening import XSpaceFile, open_xspace
from rocktools.sources.xspace.profiled_devices import profiled_device_parts
from rocktools.timeline.profile_dispatches import EVENT_COLUMNS, ProfileDispatches, dispatches_of_profile
from rocktools.workspace.frame_parts import part_of_frame
from rocktools.workspace.paths import SourcePath

_TOOL = "JAX profiler"


@dataclass(slots=True, kw_only=True, eq=False)
class LoadedProfile:
    """One open profile.

    Attributes:
        source: the file and its labels.
        label: of its process in the frames of a trace, and of its host in those of a profile.
        file: the profile.
        is_beside_trace: whether the run has a trace of rocprofv3 too, so that its kernels would be counted twice.
    """

    source: SourcePath
    label: str
    file: XSpaceFile
    is_beside_trace: bool = False
    _kernels: ProfileDispatches | None = field(default=None, repr=False)

    def part(self, spec: FrameSpec, columns: Iterable[str] | None) -> Part | None:
        """Its rows of a frame; None where a profile has none.

        Raises:
            DamagedFile: bytes that are no events.
        """
        run = self.source.run
        if spec is PROCESSES:
            return self._process()
        if spec is DISPATCHES:
            return None if self.is_beside_trace else part_of_frame(self.kernels().dispatches, spec)
        if spec is AGENTS:
            return None if self.is_beside_trace else part_of_frame(self.kernels().agents, spec)
        if spec is DEVICE_EVENTS:
            return _joined(device_event_parts(self.file, run=run, host=self.label, columns=columns), spec, columns)
        if spec is HOST_EVENTS:
            return _joined(host_event_parts(self.file, run=run, host=self.label, columns=columns), spec, columns)
        if spec is PROFILED_DEVICES:
            return _joined(profiled_device_parts(self.file, run=run, host=self.label), spec, None)
        return None

    def events(self, columns: Iterable[str] | None = None) -> pd.DataFrame:
        """DEVICE_EVENTS of this profile alone.

        Raises:
            DamagedFile: bytes that are no events.
        """
        parts = device_event_parts(self.file, run=self.source.run, host=self.label, columns=columns)
        return assemble_frame(parts, DEVICE_EVENTS, columns)

    def host_events(self, columns: Iterable[str] | None = None) -> pd.DataFrame:
        """HOST_EVENTS of this profile alone.

        Raises:
            DamagedFile: bytes that are no events.
        """
        parts = host_event_parts(self.file, run=self.source.run, host=self.label, columns=columns)
        return assemble_frame(parts, HOST_EVENTS, columns)

    def devices(self) -> pd.DataFrame:
        """PROFILED_DEVICES of this profile alone.

        Raises:
            DamagedFile: bytes that are no events.
        """
        return assemble_frame(profiled_device_parts(self.file, run=self.source.run, host=self.label), PROFILED_DEVICES)

    def kernels(self) -> ProfileDispatches:
        """Its kernels as dispatches; built once.

        Raises:
            DamagedFile: bytes that are no events.
        """
        if self._kernels is None:
            self._kernels = dispatches_of_profile(self.events(EVENT_COLUMNS), self.devices())
        return self._kernels

    def _process(self) -> Part:
        part: dict[str, Any] = {
            column.name: absent_column(1) for column in PROCESSES.columns if column.dtype == "Int64"
        }
        part.update(
            {column.name: label_constant(None, 1) for column in PROCESSES.columns if column.dtype == "category"}
        )
        part.update(identity_columns(self.label, self.source.run, 1))
        part.update(
            path=label_constant(str(self.source.path), 1),
            tool=label_constant(_TOOL, 1),
            content=label_constant("profile", 1),
            host=label_constant(self.file.host, 1),
            is_simulated=np.array([self.file.is_simulated]),
        )
        return part


def load_profile(source: SourcePath, label: str | None = None) -> LoadedProfile:
    """Open a profile.

    Args:
        label: of its host; None: as the file says.

    Raises:
        InputError: it cannot be read, or is no profile.
    """
    file = open_xspace(source.path)
    return LoadedProfile(source=source, label=label or file.host, file=file)


def _joined(parts: list[Part], spec: FrameSpec, columns: Iterable[str] | None) -> Part:
    """Several parts as one."""
    if len(parts) == 1:
        return parts[0]
    return part_of_frame(assemble_frame(parts, spec, columns), spec, columns)
