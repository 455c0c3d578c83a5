"""The section of scripts/bench about replays: all kernels of whole train steps, taken out and proven ahead of time.

The two dumps under ROCKTOOLS_SHARED, with the serialized executables beside them; without them, or without the ROCm
plugin of JAX (the extra `aot`), the section is left out. Extracting stays in one process; proving compiles each kernel
for gfx950 in a worker, without a GPU, and compares machine code, launch and registers with the job's. The result is how
many replays there are, and how many are what they must be: identical for each launch of a kernel, the same call for a
library's. One that is not fails the measurement.
"""

from __future__ import annotations

import importlib.metadata
import os
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from bench_rocpd import Bench, Target, say

DUMPS = {
    "triton": "data/hlo/gfx950-mixtral-8x22b/triton",
    "blaslt": "data/hlo/gfx950-mixtral-8x22b/blaslt",
}
EXTRACTED = "extract"
PROVEN = "prove ahead of time"
_QUICK_STRIDE = 20
_PLUGIN = "0.10."


def bench_replay(bench: Bench, *, is_quick: bool) -> list[Target]:
    """Measure; nothing else does the same, so there is no ratio."""
    from rocktools.replay.aot_environment import find_plugin

    shared = os.environ.get("ROCKTOOLS_SHARED")
    folders = {name: Path(shared) / path for name, path in DUMPS.items()} if shared else {}
    for name, folder in folders.items():
        if not folder.is_dir():
            say(f"no dump at {folder}")
            continue
        task = {"files": [], "dump": str(folder), "stride": _QUICK_STRIDE if is_quick else 1}
        subject = f"replays of a step, {name}{', a sample' if is_quick else ''}"
        bench.measure("replay", f"{subject}: {EXTRACTED}", "replay", EXTRACTED, {**task, "stage": EXTRACTED}, repeats=1)
        if find_plugin() is None:
            say("no ROCm plugin of JAX: pip install 'rocktools[aot]'")
            continue
        version = importlib.metadata.version("jax-rocm7-pjrt")
        if not version.startswith(_PLUGIN):
            say(f"the dumps were compiled by jax-rocm7-pjrt {_PLUGIN}x, and {version} writes other machine code")
            continue
        bench.measure("replay", f"{subject}: {PROVEN}", "replay", PROVEN, {**task, "stage": PROVEN}, repeats=1)
    return []


def replay_task(task: dict[str, Any]) -> Callable[[], tuple[int, float]]:
    """What is measured: the replays of every launch of a kernel or a library; stand-ins are made before."""
    from rocktools.replay.aot_environment import prepare_environment
    from rocktools.replay.executable import read_executable
    from rocktools.replay.prove import Level
    from rocktools.replay.prove_bundle import find_targets, prove_ahead_of_time

    folder = Path(task["dump"])
    job = read_executable(folder / "executable.serialized")
    replays: list[Any] = []
    if task["stage"] == PROVEN:
        cache = Path(tempfile.gettempdir()) / f"rocktools-bench-{os.getuid()}"
        environment = prepare_environment(python=Path(sys.executable), cache=cache, env=dict(os.environ)).environment
        replays = _extract(folder, task["stride"])

    def extract() -> tuple[int, float]:
        made = _extract(folder, task["stride"])
        return len(made), len({each.instruction for each in made})

    def prove() -> tuple[int, float]:
        results = prove_ahead_of_time(replays, job, find_targets(job, replays[0], None), environment)
        wanted = [Level.IDENTICAL if each.replay.kernel_name else Level.UNPROVEN for each in results]
        right = sum(each.part.level is level for each, level in zip(results, wanted, strict=True))
        if right != len(results):
            raise RuntimeError(f"{len(results) - right} of {len(results)} replays are not what the job launches")
        return len(results), right

    return prove if task["stage"] == PROVEN else extract


def _extract(folder: Path, stride: int) -> list[Any]:
    """The replays of what launches a kernel or calls the library for matrix products."""
    from rocktools.hlo.dumps import find_dumps, read_program
    from rocktools.replay.extract import build_job_program, build_replay
    from rocktools.replay.prove_bundle import ReplayModule
    from rocktools.replay.select import select_instruction

    program = read_program(find_dumps(folder)[0])
    [path] = folder.glob("*.hlo.pb")
    source = build_job_program(program, path.read_bytes(), str(path))
    assert program.thunks is not None
    launching = [t.instruction for t in program.thunks.walk() if t.kernel or t.kind == "kCublasLtMatmul"]
    replays = []
    for name in launching[::stride]:
        made = build_replay(source, select_instruction(program, name), rocktools_version="bench")
        replays.append(
            ReplayModule(
                instruction=name,
                kernel_name=made.selection.kernel_name,
                module=made.program.data,
                origin=made.spec["origin"],
            )
        )
    return replays
