"""Buffer assignments and memory-usage reports of XLA dumps."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rocktools.errors import DamagedFile, InputError, UnknownFormat
from rocktools.hlo.memory_reports import (
    AllocationKind,
    check_memory_usage,
    parse_buffer_assignment,
    parse_memory_usage,
    read_buffer_assignment,
    read_memory_usage,
)

TEXT = """BufferAssignment:
allocation 0: size 4096, parameter 1, shape |f32[1024]| at ShapeIndex {}, maybe-live-out:
 value: <3 param.1 @0> (size=4096,offset=0): f32[1024]{0}
 value: <9 fusion.2{0} @0> (size=4096,offset=0): f32[1024]{0}
allocation 1: size 64, parameter 0, shape |f32[16]| at ShapeIndex {}:
 value: <2 param.0 @0> (size=64,offset=0): f32[16]{0}
allocation 2: size 32, output shape is |(f32[1024], f32[8])|, maybe-live-out:
 value: <8 tuple.1{} @0> (size=32,offset=0): (f32[1024]{0}, f32[8]{0})
allocation 3: size 4, constant:
 value: <7 constant.5 @0> (size=4,offset=0): f32[]
allocation 4: size 4, thread-local:
 value: <6 add.1 @0> (size=4,offset=0): f32[]
allocation 5: size 1000, preallocated-temp:
 value: <4 fusion.1 @0> (size=600,offset=0): f32[150]{0}
 value: <5 while.3{1,0} (phi) @0> (size=400,offset=600): f32[100]{0}
"""
USAGE = """Memory Space: default (color=0)
Total bytes: 5200 (5.1KiB)
  cumulative_size;       size;       offset; used_by_n_values; shapes_list
  ------------------------------------------------------------
    4.00KiB( 79%);    4.00KiB;            0;                2; 2×f32[1024]
"""


def _parse(text=TEXT):
    return parse_buffer_assignment(text, "b.txt")


def test_kinds_of_allocations():
    kinds = [each.kind.value for each in _parse().allocations]
    assert kinds == ["argument", "argument", "output", "constant", "thread-local", "temporary"]


def test_arguments_outputs_aliases_and_temporaries_are_told_apart():
    found = _parse()
    assert (found.argument_bytes, found.output_bytes, found.alias_bytes, found.temporary_bytes) == (
        4160,
        4128,
        4096,
        1000,
    )
    rest = found.bytes_of(AllocationKind.CONSTANT) + found.bytes_of(AllocationKind.THREAD_LOCAL)
    assert found.total_bytes == 4160 + 4128 - 4096 + 1000 + rest == 5200


def test_values_have_their_instruction_element_and_place():
    first, second = _parse().allocations[5].values
    assert (first.instruction, first.element, first.is_merged, first.offset_bytes) == ("fusion.1", "", False, 0)
    assert (second.instruction, second.element, second.is_merged) == ("while.3", "{1,0}", True)
    assert (second.size_bytes, second.offset_bytes, second.shape) == (400, 600, "f32[100]{0}")
    assert _parse().allocations[2].values[0].element == ""  # {} is all of the tuple


def test_the_two_reports_are_compared():
    usage = parse_memory_usage(USAGE, "u.txt")
    assert usage.total_bytes == {0: 5200}
    assert check_memory_usage(_parse(), usage) == []
    (finding,) = check_memory_usage(_parse(), parse_memory_usage(USAGE.replace("5200", "5300"), "u.txt"))
    assert finding.rule == "memory-reports-disagree"
    assert finding.numbers == {"reported_bytes": 5300, "assigned_bytes": 5200}


def test_a_line_that_is_not_understood_is_a_finding_and_the_rest_counts():
    found = _parse(TEXT.replace(" value: <4 fusion.1 @0>", " value: fusion.1"))
    assert not found.is_complete
    assert [finding.rule for finding in found.findings] == ["buffer-assignment-lines"]
    assert found.total_bytes == 5200


def test_sections_behind_the_allocations_are_left_alone():
    found = _parse(f"{TEXT}\nUsed values:\n<2 param.0 @0>\n positions:\n")
    assert found.is_complete
    assert len(found.allocations) == 6


@pytest.mark.parametrize(
    "text, error", [("", UnknownFormat), ("HloModule x\n", UnknownFormat), ("BufferAssignment:\n", DamagedFile)]
)
def test_what_is_no_assignment_is_one_clear_error(text, error):
    with pytest.raises(error):
        _parse(text)


def test_a_file_that_is_not_there_is_one_clear_error(tmp_path):
    with pytest.raises(InputError):
        read_buffer_assignment(tmp_path / "none.txt")
    with pytest.raises(UnknownFormat):
        parse_memory_usage("nothing\n", "u.txt")


@given(st.integers(0, len(TEXT)))
def test_every_beginning_is_read_or_is_one_clear_error(length):
    try:
        found = _parse(TEXT[:length])
    except InputError:
        return
    assert 0 <= found.total_bytes <= 5200


FOLDERS = [
    # folder, stem, arguments, outputs, aliases, temporaries, total: from the lines of the files, added up with awk
    ("gfx942", "module_0011.jit_gspmd.gfx942_gpu", 18_874_368, 117_440_512, 0, 79_691_792, 216_006_678),
    (
        *("gfx950-mixtral-8x22b/triton", "module_0001.jit_step.gfx950_gpu", 105_490_911_232),
        *(105_490_649_412, 105_490_649_088, 189_670_863_856, 295_161_776_486),
    ),
    (
        *("gfx950-mixtral-8x22b/blaslt", "module_0001.jit_step.gfx950_gpu", 105_490_911_232),
        *(105_490_649_412, 105_490_649_088, 189_383_683_568, 294_874_596_186),
    ),
]


@pytest.mark.parametrize("folder, stem, arguments, outputs, aliases, temporaries, total", FOLDERS)
def test_real_reports(shared, folder, stem, arguments, outputs, aliases, temporaries, total):
    base = f"{shared}/data/hlo/{folder}/{stem}_after_optimizations"
    found = read_buffer_assignment(f"{base}-buffer-assignment.txt")
    assert found.is_complete
    sums = (found.argument_bytes, found.output_bytes, found.alias_bytes, found.temporary_bytes, found.total_bytes)
    assert sums == (arguments, outputs, aliases, temporaries, total)
    usage = read_memory_usage(f"{base}-memory-usage-report.txt")
    assert usage.total_bytes == {0: total}
    assert check_memory_usage(found, usage) == []
