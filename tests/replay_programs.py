"""Small programs for replays, as HLO text, and their readable forms on the CPU."""

from __future__ import annotations

import importlib.metadata
import os
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from rocktools.hlo.program import CompiledProgram
from rocktools.hlo.text_reader import parse_hlo_text
from rocktools.hlo.thunks import ThunkSequence
from rocktools.replay.extract import JobProgram, Replay, build_job_program, build_replay
from rocktools.replay.proto_edit import parse_text_program
from rocktools.replay.select import select_instruction

EXACT = {"xla_allow_excess_precision": False}


def make_job(text: str, *, thunks: ThunkSequence | None = None) -> JobProgram:
    """A job of one program, without a buffer assignment."""
    pytest.importorskip("jaxlib")
    program = CompiledProgram(module=parse_hlo_text(text, "made"), thunks=thunks)
    return build_job_program(program, parse_text_program(text, "made"), "made.hlo.pb")


def make_replay(text: str, instruction: str, *, modules: Sequence[str] = ()) -> Replay:
    job = make_job(text)
    selection = select_instruction(job.program, instruction)
    return build_replay(job, selection, rocktools_version="0", modules=modules)


def run_readable(replay: Replay, arguments: Sequence[np.ndarray[Any, Any]]) -> list[np.ndarray[Any, Any]]:
    """The results of the readable form."""
    from rocktools.replay.readable_texts import FUNCTIONS, IMPORTS

    jax = pytest.importorskip("jax")
    assert replay.readable is not None, replay.refusal
    names: dict[str, Any] = {}
    exec(compile(f"{IMPORTS}{FUNCTIONS}\n\n{replay.readable.text}", "replay_jax.py", "exec"), names)
    device = jax.devices("cpu")[0]
    with with_wide_types(jax):
        function = jax.jit(names[replay.readable.function], compiler_options=EXACT)
        results = function(*(jax.device_put(each, device) for each in arguments))
        return [np.asarray(each) for each in jax.tree.leaves(results)]


def find_cpu_plugin() -> str | None:
    """A PJRT plugin for CPUs: the one that ROCKTOOLS_PJRT_CPU_PLUGIN names, or that of the extra `dev`."""
    named = os.environ.get("ROCKTOOLS_PJRT_CPU_PLUGIN")
    if named:
        return named
    try:
        files = importlib.metadata.files("lammps-jax-pjrt-cpu") or ()
    except importlib.metadata.PackageNotFoundError:
        return None
    return next((str(each.locate()) for each in files if each.suffix == ".so"), None)


def with_wide_types(jax: Any) -> Any:
    """Where types of 64 bits are not narrowed, as HLO means them."""
    if hasattr(jax, "enable_x64"):
        return jax.enable_x64(True)
    return pytest.importorskip("jax.experimental").enable_x64()
