"""The real profiles of JAX below the folder of shared files, with the programs that they hold."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from rocktools.hlo.module import HloModule
from rocktools.hlo.proto_reader import parse_hlo_proto
from rocktools.sources.xspace.device_events import read_device_events
from rocktools.sources.xspace.hlo_protos import read_hlo_protos
from rocktools.sources.xspace.host_events import read_host_events
from rocktools.sources.xspace.opening import open_xspace


@dataclass(frozen=True, kw_only=True)
class RealProfile:
    """One profile: DEVICE_EVENTS, HOST_EVENTS, and the modules by program id."""

    device_events: pd.DataFrame
    host_events: pd.DataFrame
    programs: Mapping[str, HloModule]


def read_profile(shared: Path, name: str) -> RealProfile:
    (path,) = (shared / "data/xplane" / name).glob("*.xplane.pb")
    file = open_xspace(path)
    try:
        protos = read_hlo_protos(file.planes)
        return RealProfile(
            device_events=read_device_events([file], run=name),
            host_events=read_host_events([file], run=name),
            programs={program_id: parse_hlo_proto(proto, path.name) for program_id, proto in protos.items()},
        )
    finally:
        file.close()
