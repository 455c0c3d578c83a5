"""Runs of the small program: a rocpd trace, a JAX profile and a dump of one compilation, and the truth about them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pandas as pd
from tiny_program import build_tiny, write_tiny_dump

from rocktools.demo.scenario import Scenario
from rocktools.demo.simulate import SimulatedTrace, simulate
from rocktools.demo.simulated_database import write_simulated_trace
from rocktools.demo.xspace_writer import (
    EventRecord,
    LineRecord,
    SpaceRecord,
    annotation_stats,
    gpu_plane,
    kernel_event,
    metadata_plane,
    write_xspace,
)
from rocktools.hlo.proto_fields import hlo_messages
from rocktools.rundir import HLO_FOLDER, TRACE_FOLDER, Manifest, create_run_directory, write_manifest

PROGRAM_ID = 7  # as in the names of the files that `write_tiny_dump` writes
HOST = "node7"


def tiny_trace(*, seed: int = 0, steps_count: int = 3) -> SimulatedTrace:
    """Executions of the small program and nothing else; what it launches is the same under every seed."""
    scenario = Scenario(seed=seed, steps_count=steps_count, warm_up_dispatches_count=0, other_runs_count=0)
    return simulate(build_tiny(), scenario)


def write_tiny_profile(
    path: Path,
    trace: SimulatedTrace,
    *,
    host: str = HOST,
    is_annotated: bool = True,
    protos: Mapping[str, bytes] | None = None,
) -> Path:
    """The trace as JAX would have profiled it: one line for each stream, the true instruction on each kernel.

    Args:
        is_annotated: whether events have their instruction.
        protos: HLO by `name(id)`; None for a profile without.
    """
    rows = trace.dispatches.assign(instruction=trace.truth["instruction"].astype("object"))
    first_ns = int(rows["start_ns"].min())
    lines = [
        LineRecord(
            name=f"Stream #{stream}(Kernel)",
            id=int(stream),
            timestamp_ns=1_000,
            events=[_event(row, first_ns, is_annotated=is_annotated) for row in own.to_dict("records")],
        )
        for stream, own in rows.groupby("stream_id")
    ]
    planes = [gpu_plane(0, lines), *([] if protos is None else [metadata_plane(protos)])]
    return write_xspace(path, SpaceRecord(planes=planes, hostnames=[host]))


def _event(row: Mapping[str, Any], first_ns: int, *, is_annotated: bool) -> EventRecord:
    instruction = row["instruction"] if is_annotated else None
    return kernel_event(
        str(row["kernel_name"]),
        offset_ps=1000 * int(row["start_ns"] - first_ns),
        duration_ps=1000 * int(row["end_ns"] - row["start_ns"]),
        correlation_id=int(row["dispatch_id"]),
        workgroups=(int(row["grid_workitems_x"] // row["workgroup_workitems_x"]), 1, 1),
        workgroup_workitems=(int(row["workgroup_workitems_x"]), 1, 1),
        annotation=None if pd.isna(instruction) else annotation_stats(str(instruction), "jit_tiny", PROGRAM_ID),
    )


def make_proto(name: str, program_id: int = 0, *, size: int = 8, extra: int = 0) -> bytes:
    """An HloProto of one computation: a parameter, and `extra` negations of it or one.

    Args:
        program_id: 0: the proto has no id.
        size: length of the vector.
    """
    proto = hlo_messages()["HloProto"]()
    module = proto.hlo_module
    module.name, module.id, module.entry_computation_id = name, program_id, 1
    computation = module.computations.add(name="main", id=1, root_id=11)
    computation.instructions.add(name="p", opcode="parameter", parameter_number=0, id=10)
    for number in range(1 + extra):
        computation.instructions.add(name=f"negate.{number}", opcode="negate", id=11 + number, operand_ids=[10])
    for instruction in computation.instructions:
        instruction.shape.element_type = 11
        instruction.shape.dimensions.append(size)
        instruction.shape.layout.minor_to_major.append(0)
    data: bytes = proto.SerializeToString()
    return data


def write_tiny_trace(path: Path, trace: SimulatedTrace) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    write_simulated_trace(trace, path)
    return path


def write_tiny_run(
    run: Path, *, trace: SimulatedTrace | None = None, profile: SimulatedTrace | None = None, has_dump: bool = True
) -> Path:
    """A run directory with what is given of a trace, a profile, and the dump."""
    create_run_directory(run)
    if trace is not None:
        write_tiny_trace(run / TRACE_FOLDER / "1_results.db", trace)
    if profile is not None:
        (run / "xspace" / "plugins").mkdir(parents=True)
        write_tiny_profile(run / "xspace" / "plugins" / f"{HOST}.xplane.pb", profile)
    if has_dump:
        (run / HLO_FOLDER).mkdir()
        write_tiny_dump(run / HLO_FOLDER)
    write_manifest(run, Manifest(argv=("test",), created_utc="2026-01-01T00:00:00+00:00", is_simulated=True))
    return run


def starts_by_instruction(trace: SimulatedTrace) -> dict[str, int]:
    """Instruction -> how many dispatches it truly launched."""
    counts = trace.truth["instruction"].value_counts()
    return {str(name): int(count) for name, count in counts.items() if count}
