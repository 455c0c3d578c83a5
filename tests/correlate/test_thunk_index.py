"""Kernels with their geometry, looked up in a thunk sequence."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd
import pytest
from small_programs import make_flat_module, make_instruction, make_module, make_sequence
from spec_frames import make_frame

from rocktools.correlate.edges import UNLINKED, Confidence, Method
from rocktools.correlate.thunk_index import build_thunk_index, find_link_by_thunk, link_by_thunks, read_geometry
from rocktools.frames import DISPATCHES
from rocktools.hlo.program import CompiledProgram
from rocktools.hlo.thunks import Thunk


def kernel(thunk_id: int, instruction: str, symbol: str, grid: int = 4, block: int = 256, **fields: Any) -> Thunk:
    return Thunk(
        thunk_id=thunk_id,
        kind="kCustomKernel",
        instruction=instruction,
        kernel=symbol,
        grid_workgroups=(grid, 1, 1),
        workgroup_workitems=(block, 1, 1),
        **fields,
    )


PROGRAM = CompiledProgram(
    module=make_flat_module("loop_fusion.3", "loop_fusion.4", "loop_fusion.5"),
    thunks=make_sequence(
        kernel(1, "loop_fusion.3", "loop_fusion_3"),
        kernel(2, "loop_fusion.4", "loop_fusion_3", grid=8),
        kernel(3, "loop_fusion.5", "loop_fusion_5"),
        kernel(4, "loop_fusion.6", "loop_fusion_5"),
        kernel(5, "loop_fusion.7", "loop_fusion_7"),
        kernel(6, "loop_fusion.7", "loop_fusion_7"),
        Thunk(thunk_id=7, kind="kCopy", instruction="copy.1"),
    ),
)


def find(name: str, grid: int | None = 4, block: int | None = 256):
    index = build_thunk_index(PROGRAM)
    assert index is not None
    extents = ((None if size is None else (size, 1, 1)) for size in (grid, block))
    return find_link_by_thunk(name, *extents, [index])


def test_geometry_tells_instructions_apart_that_share_a_kernel():
    """By its name, the second would be loop_fusion.3, too."""
    assert [find("loop_fusion_3.kd", grid).instruction for grid in (4, 8)] == ["loop_fusion.3", "loop_fusion.4"]


def test_a_unique_kernel_is_likely_and_names_its_thunk():
    link = find("loop_fusion_3")
    assert (link.method, link.confidence, link.thunk_id) == (Method.THUNK, Confidence.LIKELY, 1)


def test_kernels_that_nothing_tells_apart_are_ambiguous():
    link = find("loop_fusion_5")
    assert (link.confidence, link.candidates) == (Confidence.AMBIGUOUS, ("loop_fusion.5", "loop_fusion.6"))


def test_an_instruction_that_launches_a_kernel_twice_is_linked_without_a_thunk():
    link = find("loop_fusion_7")
    assert (link.instruction, link.thunk_id) == ("loop_fusion.7", None)


@pytest.mark.parametrize(("grid", "block"), [(5, 256), (4, 64)])
def test_another_geometry_is_another_kernel(grid, block):
    assert find("loop_fusion_3", grid, block) is UNLINKED


def test_without_geometry_the_symbol_decides():
    assert find("loop_fusion_3", None, None).candidates == ("loop_fusion.3", "loop_fusion.4")
    assert find("loop_fusion_7", None, None).instruction == "loop_fusion.7"


def test_the_condition_of_a_counted_loop_is_never_launched():
    loop = make_instruction("while.1", "while", attributes={"backend_config": '{"known_trip_count":{"n":"4"}}'})
    thunk = Thunk(
        thunk_id=1, kind="kWhile", instruction="while.1", condition=(kernel(2, "compare.1", "compare_1"),), body=()
    )
    body = kernel(3, "add.1", "add_1")
    module = make_module({"main": [loop]})
    index = build_thunk_index(CompiledProgram(module=module, thunks=make_sequence(thunk, body)))
    assert index is not None
    assert sorted(index.sites) == ["add_1"]


def test_a_program_without_a_thunk_sequence_has_no_index():
    assert build_thunk_index(CompiledProgram(module=make_flat_module("add"), thunks=None)) is None


def make_dispatches(*rows: Mapping[str, Any]) -> pd.DataFrame:
    sizes = {"grid_workitems_y": 1, "grid_workitems_z": 1, "workgroup_workitems_y": 1, "workgroup_workitems_z": 1}
    place = {"run": "r", "process": "p", **sizes}
    return make_frame(DISPATCHES, [{**place, "dispatch_id": i, **row} for i, row in enumerate(rows)])


def test_grids_of_dispatches_are_in_workitems_those_of_thunks_in_workgroups():
    geometry = {"grid_workitems_x": 4 * 256, "workgroup_workitems_x": 256}
    edges = link_by_thunks(
        make_dispatches(
            {"kernel_name": "loop_fusion_3", **geometry},
            {"kernel_name": "loop_fusion_3", **geometry, "grid_workitems_x": 8 * 256},
            {"kernel_name": "loop_fusion_5", **geometry},
            {"kernel_name": "foreign", **geometry},
            {"kernel_name": "loop_fusion_7"},
        ),
        [PROGRAM],
    )
    assert edges["instruction"].astype("object").fillna("-").tolist() == [
        "loop_fusion.3",
        "loop_fusion.4",
        "-",
        "-",
        "loop_fusion.7",
    ]
    assert edges["confidence"].tolist() == ["likely", "likely", "ambiguous", "unlinked", "likely"]
    assert edges["thunk_id"].fillna(-1).tolist() == [1, 2, -1, -1, -1]


@pytest.mark.parametrize(
    ("grid", "workgroup", "expected"),
    [
        ((1024, 1, 1), (256, 1, 1), ((4, 1, 1), (256, 1, 1))),
        ((1000, 4, 1), (256, 2, 1), ((4, 2, 1), (256, 2, 1))),
        ((0, 1, 1), (256, 1, 1), (None, (256, 1, 1))),
        ((1024, 1, 1), (0, 0, 0), (None, None)),
    ],
)
def test_geometry_in_workgroups(grid, workgroup, expected):
    assert read_geometry(np.array(grid), np.array(workgroup)) == expected
