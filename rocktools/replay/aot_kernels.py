"""The launches of a serialized executable -> a table: a row for each launch, with what its kernel was compiled to."""

from __future__ import annotations

from collections.abc import Mapping

import pandas as pd

from rocktools.frames import Column, FrameSpec, require_frame
from rocktools.replay.executable import SILENT_KINDS, ExecutableThunk, GpuExecutable

_NO_KERNEL = "a library call, a copy or a collective: no kernel of the program's own"
_NO_CODE = "the executable does not hold its code"

AOT_LAUNCHES = FrameSpec(
    name="AOT_LAUNCHES",
    meaning="One row for each launch of a compiled program, in the order of its thunk sequence.",
    key=("launch_index",),
    sort=("launch_index",),
    columns=(
        Column("launch_index", "int64", "place among the launches, from 0; what is in a loop counts once"),
        Column("instruction", "category", "HLO instruction it was made for"),
        Column("kind", "category", "kind of the thunk: kCustomKernel, kCublasLtMatmul, kAllGather, ..."),
        Column("kernel_name", "category", "kernel", _NO_KERNEL),
        Column("grid_workgroups_x", "Int64", "workgroups, x", _NO_KERNEL),
        Column("grid_workgroups_y", "Int64", "workgroups, y", _NO_KERNEL),
        Column("grid_workgroups_z", "Int64", "workgroups, z", _NO_KERNEL),
        Column("workgroup_workitems", "Int64", "work-items of a workgroup, all directions together", _NO_KERNEL),
        Column("lds_bytes", "Int64", "shared memory of a workgroup, that of the code and that asked for", _NO_CODE),
        Column("vgpr_count", "Int64", "vector registers, accumulation registers in it", _NO_CODE),
        Column("agpr_count", "Int64", "accumulation registers", _NO_CODE),
        Column("sgpr_count", "Int64", "scalar registers", _NO_CODE),
        Column("scratch_bytes", "Int64", "private memory of a work-item", _NO_CODE),
        Column("vgpr_spills_count", "Int64", "vector registers that did not fit", _NO_CODE),
        Column("sgpr_spills_count", "Int64", "scalar registers that did not fit", _NO_CODE),
        Column("code_bytes", "Int64", "size of the machine code", _NO_CODE),
        Column("code_sha256", "category", "of the machine code", _NO_CODE),
    ),
)


def launched_thunks(executable: GpuExecutable) -> tuple[ExecutableThunk, ...]:
    """The thunks that start work on the device; of an executable without thunks its kernels."""
    thunks = executable.thunks or executable.as_thunks()
    return tuple(thunk for thunk in thunks if thunk.kind not in SILENT_KINDS)


def build_launches(executable: GpuExecutable) -> pd.DataFrame:
    """AOT_LAUNCHES of an executable."""
    thunks = launched_thunks(executable)
    rows = [_row(index, thunk) for index, thunk in enumerate(thunks)]
    frame = pd.DataFrame(rows, columns=list(AOT_LAUNCHES.names))
    dtypes: Mapping[str, str] = {column.name: column.dtype for column in AOT_LAUNCHES.columns}
    return require_frame(frame.astype(dict(dtypes)), AOT_LAUNCHES)


def _row(index: int, thunk: ExecutableThunk) -> dict[str, object]:
    grid = thunk.grid_workgroups or (None, None, None)
    code = thunk.code
    workitems = None
    if thunk.workgroup_workitems:
        workitems = 1
        for size in thunk.workgroup_workitems:
            workitems *= size
    row: dict[str, object] = {
        "launch_index": index,
        "instruction": thunk.instruction,
        "kind": thunk.kind,
        "kernel_name": thunk.kernel_name or None,
        "grid_workgroups_x": grid[0],
        "grid_workgroups_y": grid[1],
        "grid_workgroups_z": grid[2],
        "workgroup_workitems": workitems,
        "lds_bytes": None
        if code is None or code.lds_bytes is None
        else code.lds_bytes + (thunk.dynamic_lds_bytes or 0),
    }
    names = ("vgpr_count", "agpr_count", "sgpr_count", "scratch_bytes", "vgpr_spills_count", "sgpr_spills_count")
    row.update({name: None if code is None else getattr(code, name) for name in (*names, "code_bytes")})
    row["code_sha256"] = None if code is None else code.sha256
    return row
