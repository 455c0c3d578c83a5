"""Run directories of a small training step whose instructions have the name stacks of MaxText, and the truth about it.

The program is the one of `tiny_program`: a loop over microsteps, in it one over layers, with work of every phase.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from tiny_program import STEM, TINY, build_tiny, hlo_text, write_tiny_dump

from rocktools.demo.scenario import Scenario
from rocktools.demo.simulate import SimulatedTrace, simulate
from rocktools.demo.simulated_database import write_simulated_trace
from rocktools.rundir import HLO_FOLDER, TRACE_FOLDER, Manifest, create_run_directory, write_manifest

MICROSTEPS, LAYERS = 3, 5
_LAYER = "while/body/closed_call/while/body/closed_call/layers"
NAMES = {
    "loop_broadcast_fusion.1": "jit(step)/jvp(model)/token_embedder/gather",
    "loop_broadcast_fusion.2": "jit(step)/input/broadcast_in_dim",
    "loop_add_fusion.2": f"jit(step)/jvp(model)/{_LAYER}/router_gate/add",
    "input_reduce_fusion.1": f"jit(step)/jvp(model)/{_LAYER}/combine/reduce_sum",
    "custom-call.2": f"jit(step)/jvp(model)/{_LAYER}/attention/dot_general",
    "all-to-all.1": f"jit(step)/jvp(model)/{_LAYER}/dispatch/all_to_all",
    "gemm_fusion_dot.1": f"jit(step)/jvp(model)/{_LAYER}/wi_0/dot_general",
    "loop_multiply_fusion.1": f"jit(step)/transpose(jvp(model))/{_LAYER}/wo/mul",
    "loop_multiply_fusion.2": f"jit(step)/transpose(jvp(model))/{_LAYER}/rematted_computation/wi_0/mul",
    "all-reduce-start.2": f"jit(step)/transpose(jvp(model))/{_LAYER}/wo/reduce",
    "wrapped_convert.1": f"jit(step)/transpose(jvp(model))/{_LAYER}/attention/convert_element_type",
    "all-reduce.3": "jit(step)/grad_accum/all_reduce",
    "wrapped_convert.2": "jit(step)/optimizer/convert_element_type",
    "input_transpose_fusion.1": "jit(step)/loss/transpose",
}
"""Instruction -> op_name; the others have none."""

WORKLOAD = f"""
schema: rocktools.workload/1
name: tiny
layers: {LAYERS}
microsteps: {MICROSTEPS}
devices: DEVICES
expectations:
  - {{title: wi_0 forward, phase: forward, scope: wi_0, activity: compute, component: expert_mlp}}
  - {{title: gradients in layers, phase: backward, collective: all-reduce}}
"""
"""What the program does; DEVICES to be filled in."""


def rank_trace(rank: int, *, devices_count: int = 1) -> SimulatedTrace:
    """Three steps of a rank of the job: the same kernels on every device, at times of its own."""
    scenario = Scenario(
        seed=rank,
        pid=1000 + rank,
        devices_count=devices_count,
        warm_up_dispatches_count=0,
        other_runs_count=0,
        has_host_calls=True,
    )
    return simulate(build_tiny(), scenario)


def write_scoped_run(run: Path, *, ranks: Sequence[int] = (0,), devices_count: int = 1) -> Path:
    """A run directory with a trace per rank, each on a node of its own, and the dump of the program."""
    create_run_directory(run)
    (run / HLO_FOLDER).mkdir()
    write_tiny_dump(run / HLO_FOLDER)
    (run / HLO_FOLDER / f"{STEM}_after_optimizations.txt").write_text(scoped_text(), encoding="utf-8")
    (run / TRACE_FOLDER).mkdir()
    for rank in ranks:
        path = run / TRACE_FOLDER / f"rank_{rank}_results.db"
        write_simulated_trace(rank_trace(rank, devices_count=devices_count), path, hostname=f"node{rank}")
    write_manifest(run, Manifest(argv=("test",), created_utc="2026-01-01T00:00:00+00:00", is_simulated=True))
    return run


def scoped_text() -> str:
    """The HLO text of the program, with its name stacks."""
    text = hlo_text(TINY)
    for instruction, op_name in NAMES.items():
        line = re.compile(rf"^(\s+(?:ROOT )?%{re.escape(instruction)} = .*)$", re.MULTILINE)
        text, found = line.subn(rf'\1, metadata={{op_name="{op_name}"}}', text)
        assert found == 1, instruction
    return text
