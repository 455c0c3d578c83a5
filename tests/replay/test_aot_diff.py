"""Launches of an executable as a table, and two compilations compared."""

from __future__ import annotations

from dataclasses import replace

import pytest
from executable_files import make_executable, serialize

from rocktools.replay.aot_diff import CompiledSide, compare_compilations
from rocktools.replay.aot_kernels import build_launches, launched_thunks
from rocktools.replay.executable import ExecutableThunk, parse_executable

CODES = {"loop_fusion.1": b"\x01", "loop_fusion.2": b"\x02", "reduce.3": b"\x03"}


def thunks(codes=CODES, matmuls: int = 0) -> list[ExecutableThunk]:
    return list(launched_thunks(parse_executable(serialize(make_executable(codes, matmuls=matmuls)), "made")))


def side(made, fingerprints=None) -> CompiledSide:
    return CompiledSide(thunks=made, fingerprints=fingerprints or {})


def changes(first: CompiledSide, second: CompiledSide) -> list[tuple[str, object, object, object]]:
    frame = compare_compilations(first, second).astype(object)
    frame = frame.where(frame.notna(), None)
    return list(frame[["change", "what", "a_instruction", "b_instruction"]].itertuples(index=False, name=None))


def test_table_has_a_row_for_each_launch_in_order():
    frame = build_launches(parse_executable(serialize(make_executable(CODES, matmuls=1)), "made"))
    assert frame["instruction"].tolist() == [*CODES, "custom-call.0"]
    first = frame.iloc[0]
    # Of the code and of the launch: 512 and 64.
    assert (first["lds_bytes"], first["workgroup_workitems"], first["vgpr_count"]) == (576, 256, 40)
    assert (first["grid_workgroups_x"], first["code_bytes"]) == (12, 1)
    assert frame["kernel_name"].isna().tolist() == [False, False, False, True]
    assert frame["vgpr_count"].isna().tolist() == [False, False, False, True]


def test_equal_compilations_are_the_same():
    assert changes(side(thunks()), side(thunks())) == [("same", None, name, name) for name in CODES]


def test_what_was_added_and_removed_is_told():
    second = thunks({"loop_fusion.1": b"\x01", "new.9": b"\x09", "reduce.3": b"\x03"})
    assert changes(side(thunks()), side(second)) == [
        ("same", None, "loop_fusion.1", "loop_fusion.1"),
        ("removed", None, "loop_fusion.2", None),
        ("same", None, "reduce.3", "reduce.3"),
        ("added", None, None, "new.9"),
    ]


def test_instructions_that_were_numbered_anew_are_found_by_fingerprint():
    first = side(thunks(), {"loop_fusion.1": "f1", "loop_fusion.2": "f2", "reduce.3": "f3"})
    second = side(
        thunks({"loop_fusion.2": b"\x01", "loop_fusion.5": b"\x22", "reduce.3": b"\x03"}),
        {"loop_fusion.2": "f1", "loop_fusion.5": "f2", "reduce.3": "f3"},
    )
    assert changes(first, second) == [
        ("renamed", None, "loop_fusion.1", "loop_fusion.2"),
        ("changed", "code", "loop_fusion.2", "loop_fusion.5"),
        ("same", None, "reduce.3", "reduce.3"),
    ]


def test_twins_are_paired_in_order():
    fingerprints = {"loop_fusion.1": "f", "loop_fusion.2": "f", "reduce.3": "f3"}
    second = thunks({"x.1": b"\x01", "x.2": b"\x02", "reduce.3": b"\x03"})
    found = changes(side(thunks(), fingerprints), side(second, {"x.1": "f", "x.2": "f", "reduce.3": "f3"}))
    assert [(a, b) for _, _, a, b in found] == [
        ("loop_fusion.1", "x.1"),
        ("loop_fusion.2", "x.2"),
        ("reduce.3", "reduce.3"),
    ]


def test_one_name_for_another_computation_is_told():
    one, other = thunks({"f.1": b"\x01"}), thunks({"f.1": b"\x02"})
    assert changes(side(one, {"f.1": "a"}), side(other, {"f.1": "b"})) == [
        ("changed", "computation, code", "f.1", "f.1")
    ]


def test_without_modules_code_finds_what_names_do_not():
    assert changes(side(thunks({"f.1": b"\x01"})), side(thunks({"g.1": b"\x01"}))) == [("renamed", None, "f.1", "g.1")]


@pytest.mark.parametrize(
    "change, what",
    [
        ({"vgpr_count": 41}, "registers"),
        ({"lds_bytes": 0}, "LDS"),
        ({"scratch_bytes": 4}, "scratch"),
        ({"vgpr_spills_count": 1}, "spills"),
        ({"sha256": "0", "sgpr_count": 99}, "registers, code"),
    ],
)
def test_what_changed_is_named(change, what):
    [one] = thunks({"f.1": b"\x01"})
    assert one.code is not None
    other = replace(one, code=replace(one.code, **change))
    assert changes(side([one]), side([other])) == [("changed", what, "f.1", "f.1")]


def test_other_launch_dimensions_and_another_library_call_are_changes():
    first = thunks({"f.1": b"\x01"}, matmuls=1)
    second = [replace(first[0], grid_workgroups=(13, 1, 1)), replace(first[1], configuration_sha256="other")]
    assert [what for _, what, _, _ in changes(side(first), side(second))] == ["launch", "call"]
