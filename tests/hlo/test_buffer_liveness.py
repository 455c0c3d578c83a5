"""When temporaries are live, and the peak in program order."""

from __future__ import annotations

import pytest
from mixtral_program import mixtral_program

from rocktools.hlo.buffer_liveness import find_memory_peak, list_largest_buffers
from rocktools.hlo.memory_reports import parse_buffer_assignment, read_buffer_assignment
from rocktools.hlo.text_reader import parse_hlo_text

# a and b are read by c; d reads c only: a and b are dead by then, and d may lie where a did.
PROGRAM = """HloModule jit_f, is_scheduled=true

ENTRY %main (p: f32[4]) -> f32[4] {
  %p = f32[4]{0} parameter(0)
  %a = f32[100]{0} broadcast(%p), dimensions={}, metadata={op_name="jit(f)/jvp(first)/broadcast"}
  %b = f32[50]{0} broadcast(%p), dimensions={}
  %c = f32[10]{0} custom-call(%a, %b), custom_call_target="x"
  %d = f32[120]{0} custom-call(%c), custom_call_target="y"
  ROOT %e = f32[4]{0} slice(%d), slice={[0:4]}
}
"""
ASSIGNMENT = """BufferAssignment:
allocation 0: size 16, parameter 0, shape |f32[4]| at ShapeIndex {}:
 value: <0 p @0> (size=16,offset=0): f32[4]{0}
allocation 1: size 16, output shape is |f32[4]|, maybe-live-out:
 value: <5 e @0> (size=16,offset=0): f32[4]{0}
allocation 2: size 680, preallocated-temp:
 value: <1 a @0> (size=400,offset=0): f32[100]{0}
 value: <2 b @0> (size=200,offset=400): f32[50]{0}
 value: <3 c @0> (size=40,offset=640): f32[10]{0}
 value: <4 d @0> (size=480,offset=0): f32[120]{0}
"""


def _peak(program=PROGRAM, assignment=ASSIGNMENT):
    return find_memory_peak(parse_hlo_text(program, "f.txt"), parse_buffer_assignment(assignment, "b.txt"))


def test_the_peak_is_where_most_addresses_are_live():
    """At c: a (400), b (200) and c (40); at d only c and d, 520."""
    peak = _peak()
    assert (peak.instruction, peak.live_bytes, peak.reserved_bytes) == ("c", 640, 680)
    assert peak.held_bytes == 640 + 16 + 16
    assert [(each.instruction, each.size_bytes) for each in peak.buffers] == [("a", 400), ("b", 200), ("c", 40)]


def test_buffers_have_the_scope_of_their_instruction():
    first, second, _ = _peak().buffers
    assert (first.op_name, first.scope) == ("jit(f)/jvp(first)/broadcast", "first")
    assert (second.op_name, second.scope) == (None, None)


def test_values_at_one_address_count_once():
    peak = _peak(assignment=ASSIGNMENT.replace("(size=200,offset=400)", "(size=200,offset=100)"))
    assert peak.live_bytes == 520  # c and d; a and b together are 400


def test_what_a_loop_reads_lives_to_its_end():
    """k is read by the body only at its beginning, but by every iteration: it is live beside t, which comes later."""
    program = """HloModule jit_g, is_scheduled=true

%body (s: (f32[10], f32[100])) -> (f32[10], f32[100]) {
  %s = (f32[10]{0}, f32[100]{0}) parameter(0)
  %x = f32[10]{0} get-tuple-element(%s), index=0
  %k2 = f32[100]{0} get-tuple-element(%s), index=1
  %u = f32[10]{0} custom-call(%x, %k2), custom_call_target="x"
  %t = f32[300]{0} custom-call(%u), custom_call_target="y"
  %v = f32[10]{0} custom-call(%t), custom_call_target="z"
  ROOT %r = (f32[10]{0}, f32[100]{0}) tuple(%v, %k2)
}

%cond (c: (f32[10], f32[100])) -> pred[] {
  %c = (f32[10]{0}, f32[100]{0}) parameter(0)
  ROOT %yes = pred[] constant(true)
}

ENTRY %main (p: f32[10]) -> f32[10] {
  %p = f32[10]{0} parameter(0)
  %k = f32[100]{0} broadcast(%p), dimensions={}
  %init = (f32[10]{0}, f32[100]{0}) tuple(%p, %k)
  %loop = (f32[10]{0}, f32[100]{0}) while(%init), condition=%cond, body=%body
  ROOT %out = f32[10]{0} get-tuple-element(%loop), index=0
}
"""
    assignment = """BufferAssignment:
allocation 0: size 2000, preallocated-temp:
 value: <1 k @0> (size=400,offset=0): f32[100]{0}
 value: <2 u @0> (size=40,offset=400): f32[10]{0}
 value: <3 t @0> (size=1200,offset=480): f32[300]{0}
 value: <4 v @0> (size=40,offset=1700): f32[10]{0}
 value: <5 loop{0} (phi) @0> (size=40,offset=1700): f32[10]{0}
"""
    peak = _peak(program, assignment)
    assert (peak.instruction, peak.live_bytes) == ("t", 400 + 40 + 1200 + 40)  # v lives on from the iteration before


def test_a_program_without_temporaries_has_no_peak():
    assert _peak(assignment=ASSIGNMENT.partition("allocation 2")[0]) is None
    assert _peak(program="HloModule jit_f\n\n") is None


# The heap simulator's own trace in the HLO proto of the same compilation (HeapSimulatorTrace, replayed): its peak.
PEAKS = [
    ("triton", "input_convert_transpose_fusion", 189_487_726_612),
    ("blaslt", "loop_transpose_fusion.3", 189_383_648_296),
]


@pytest.mark.parametrize("build, instruction, live_bytes", PEAKS)
def test_the_peak_is_that_of_the_heap_simulator(shared, build, instruction, live_bytes):
    """To 200 bytes: scalars that loops hand on are kept a little longer here."""
    module = mixtral_program(shared, build).module
    base = f"{shared}/data/hlo/gfx950-mixtral-8x22b/{build}/module_0001.jit_step.gfx950_gpu_after_optimizations"
    assignment = read_buffer_assignment(f"{base}-buffer-assignment.txt")
    peak = find_memory_peak(module, assignment)
    assert peak.instruction == instruction
    assert 0 <= peak.live_bytes - live_bytes <= 200
    assert peak.live_bytes <= peak.reserved_bytes
    largest = list_largest_buffers(module, assignment, 3)
    assert [each.size_bytes for each in largest] == [
        22_548_578_304
    ] * 3  # float32 gradients of the three expert weights
