"""What the application would do on a GPU: kernels, copies, calls, ranges, processes, devices. From JSON, or built in.

    {
      "architecture": "gfx950",          which counters exist; gfx942 or gfx950
      "agents_count": 1,                 GPUs that the node has
      "processes_count": 1,              processes that use a GPU; several take one GPU each in turn
      "kernels": [
        {"name": "loop_fusion_3", "mangled": "loop_fusion_3", "grid": [65536, 1, 1], "workgroup": [256, 1, 1],
         "count": 12, "duration_ns": 6000, "lds_bytes": 0, "launched_by": "hipModuleLaunchKernel",
         "processes": [0]}              "processes": which use it; all of them without the key
      ],
      "copies": [{"kind": "HOST_TO_DEVICE", "size_bytes": 4096, "count": 2, "duration_ns": 4000}],
      "rccl_calls": [{"name": "ncclAllReduce", "count": 2}],
      "ranges": [{"message": "step 3", "rounds": [3, 3]}],
      "selected_rounds": [10, 12],       between roctxProfilerResume and roctxProfilerPause; none without the key
      "unknown_counters": ["SQ_X"],      that this device does not have, beside those its architecture lacks
      "values": {"loop_fusion_3": {"SQ_INSTS_VALU": 98304}},   totals of a dispatch, instead of made-up ones
      "zero_counters": ["TCC_BUBBLE"],
      "dispatch_id_offset": 0,           added to the dispatch ids of the second, third, ... application run
      "seconds_before_first_dispatch": 0.02
    }

Kernels run in rounds (a training step is one): in round r every kernel whose `count` is larger than r runs once, on
each device of the process.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

Size = tuple[int, int, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Kernel:
    """One kernel and how often it runs; see the module for the keys."""

    name: str
    mangled: str = ""
    grid: Size = (65536, 1, 1)
    workgroup: Size = (256, 1, 1)
    count: int = 12
    duration_ns: int = 6000
    lds_bytes: int = 0
    launched_by: str = "hipModuleLaunchKernel"
    processes: tuple[int, ...] | None = None

    @property
    def symbol(self) -> str:
        """Name in the code object, without `.kd`."""
        return self.mangled or self.name

    @property
    def waves_count(self) -> int:
        """Waves of a dispatch."""
        x, y, z = self.grid
        return -(-x * y * z // 64)


@dataclass(frozen=True, slots=True, kw_only=True)
class Copy:
    """Memory copies, spread over the run."""

    kind: str = "HOST_TO_DEVICE"
    size_bytes: int = 4096
    count: int = 1
    duration_ns: int = 4000


@dataclass(frozen=True, slots=True, kw_only=True)
class Calls:
    """Calls of one function of RCCL, spread over the run."""

    name: str
    count: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Range:
    """A roctx range from the first round's first dispatch to the last round's last."""

    message: str
    rounds: tuple[int, int]


_DEFAULT_KERNELS = (
    Kernel(name="loop_fusion_3", count=12),
    Kernel(name="input_reduce_fusion", count=12, grid=(1048576, 1, 1), workgroup=(1024, 1, 1), duration_ns=12_000),
    Kernel(name="gemm_fusion_dot_7", count=12, grid=(131072, 2, 1), workgroup=(512, 1, 1), duration_ns=90_000),
    Kernel(
        name="ncclDevKernel_Generic_1(ncclDevKernelArgsStorage<4096ul>)",
        mangled="_Z23ncclDevKernel_Generic_124ncclDevKernelArgsStorageILm4096EE",
        count=12,
        grid=(28672, 1, 1),
        workgroup=(512, 1, 1),
        duration_ns=60_000,
        launched_by="hipExtLaunchKernel",
    ),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """Everything the module describes."""

    architecture: str = "gfx950"
    agents_count: int = 1
    processes_count: int = 1
    kernels: tuple[Kernel, ...] = _DEFAULT_KERNELS
    copies: tuple[Copy, ...] = (Copy(count=2), Copy(kind="DEVICE_TO_HOST", count=1))
    rccl_calls: tuple[Calls, ...] = (Calls(name="ncclAllReduce", count=12),)
    ranges: tuple[Range, ...] = ()
    selected_rounds: tuple[int, int] | None = None
    unknown_counters: tuple[str, ...] = ()
    values: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    zero_counters: tuple[str, ...] = ()
    dispatch_id_offset: int = 0
    seconds_before_first_dispatch: float = 0.02


class BadScenario(Exception):
    """The JSON file has a key that means nothing."""


def load_scenario(path: str | None) -> Scenario:
    """The scenario of a file; the built-in one where there is none.

    Raises:
        BadScenario: a key is unknown, so a test would not test what it says.
    """
    if not path:
        return Scenario()
    return parse_scenario(json.loads(Path(path).read_text(encoding="utf-8")))


def parse_scenario(given: Mapping[str, Any]) -> Scenario:
    """The scenario of JSON values. Raises BadScenario as `load_scenario` does."""
    parts: dict[str, Any] = {"kernels": Kernel, "copies": Copy, "rccl_calls": Calls, "ranges": Range}
    values = {
        key: tuple(_build(parts[key], each) for each in value) if key in parts else _frozen(value)
        for key, value in given.items()
    }
    return _build(Scenario, values)  # type: ignore[no-any-return]


def _build(kind: Any, values: Mapping[str, Any]) -> Any:
    unknown = set(values) - {each.name for each in fields(kind)}
    if unknown:
        raise BadScenario(f"{kind.__name__} has no {', '.join(sorted(unknown))}")
    return kind(**{key: _frozen(value) for key, value in values.items()})


def _frozen(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value
