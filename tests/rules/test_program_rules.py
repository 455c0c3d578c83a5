"""Rules on the data flow of a program: activations that are gathered, values that are moved twice."""

from __future__ import annotations

import pytest
from rule_timeline import MS, found, only, program, reason, repeated, timeline

from rocktools.rules.activation_gather import RULE as GATHERS
from rocktools.rules.activation_gather import find_activation_gathers
from rocktools.rules.kernel_work import build_kernel_work
from rocktools.rules.repeated_reshard import RULE as RESHARD
from rocktools.rules.repeated_reshard import find_reshards

# A loop over layers: a slice of stacked weights is gathered, then the product with it; OPERAND is gathered, too.
LOOP = """HloModule jit_step, is_scheduled=true, num_partitions=4

%body (state: (s32[], f32[16,64], f32[8,64,16])) -> (s32[], f32[16,64], f32[8,64,16]) {
  %state = (s32[], f32[16,64]{1,0}, f32[8,64,16]{2,1,0}) parameter(0)
  %i = s32[] get-tuple-element(%state), index=0
  %x = f32[16,64]{1,0} get-tuple-element(%state), index=1
  %stacked = f32[8,64,16]{2,1,0} get-tuple-element(%state), index=2
  %zero = s32[] constant(0)
  %slice = f32[1,64,16]{2,1,0} dynamic-slice(%stacked, %i, %zero, %zero), dynamic_slice_sizes={1,64,16}
  %own = f32[64,16]{1,0} bitcast(%slice)
  %weights = f32[64,64]{1,0} all-gather(%own), replica_groups={}, dimensions={1}
  %dot.1 = f32[16,64]{1,0} dot(%x, %weights), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  %act = f32[16,64]{1,0} tanh(%dot.1)
  %gathered = f32[64,64]{1,0} all-gather(%OPERAND), replica_groups={}, dimensions={0}
  %part = f32[16,64]{1,0} slice(%gathered), slice={[0:16], [0:64]}
  %next = s32[] negate(%i)
  ROOT %out = (s32[], f32[16,64]{1,0}, f32[8,64,16]{2,1,0}) tuple(%next, %part, %stacked)
}

%cond (c: (s32[], f32[16,64], f32[8,64,16])) -> pred[] {
  %c = (s32[], f32[16,64]{1,0}, f32[8,64,16]{2,1,0}) parameter(0)
  %ci = s32[] get-tuple-element(%c), index=0
  %limit = s32[] constant(8)
  ROOT %less = pred[] compare(%ci, %limit), direction=LT
}

ENTRY %main (p: f32[16,64], w: f32[8,64,16]) -> f32[16,64] {
  %p = f32[16,64]{1,0} parameter(0)
  %w = f32[8,64,16]{2,1,0} parameter(1)
  %start = s32[] constant(0)
  %init = (s32[], f32[16,64]{1,0}, f32[8,64,16]{2,1,0}) tuple(%start, %p, %w)
  %loop = (s32[], f32[16,64]{1,0}, f32[8,64,16]{2,1,0}) while(%init), condition=%cond, body=%body
  ROOT %result = f32[16,64]{1,0} get-tuple-element(%loop), index=1
}
"""
FLAT = """HloModule jit_f, is_scheduled=true, num_partitions=4

ENTRY %main (p: f32[16,64]) -> f32[64,64] {
  %p = f32[16,64]{1,0} parameter(0)
  %work = f32[16,64]{1,0} tanh(%p)
  %one = f32[64,64]{1,0} all-gather(%work), replica_groups={}, dimensions={0}
  %between = f32[SHAPE]{1,0} OPCODE(%SOURCE)
  ROOT %two = f32[64,64]{1,0} KIND(%between), replica_groups={}, dimensions={0}
}
"""


def _inputs(text: str, names: tuple[str, ...], length: int = 10):
    gather = {"activity": "communication", "collective": "all-gather", "program_id": "7"}
    rows = [{"start": 0, "end": 50 * MS}]
    rows += [
        {**gather, "instruction": name, "start": (50 + 20 * i) * MS, "end": (50 + 20 * i + length) * MS}
        for i, name in enumerate(names)
    ]
    rows.append({"start": 99 * MS, "end": 100 * MS})
    return timeline(repeated(rows, period=100 * MS), programs=[program(text)])


def _flat(source: str, *, opcode: str = "copy", kind: str = "all-gather") -> str:
    shape = "64,64" if source == "one" else "16,64"
    text = FLAT.replace("SHAPE", shape).replace("OPCODE", opcode).replace("SOURCE", source).replace("KIND", kind)
    return text.replace("f32[64,64]{1,0} all-to-all", f"f32[{shape}]{{1,0}} all-to-all")


@pytest.mark.parametrize("operand, is_found", [("act", True), ("dot.1", True), ("x", False)])
def test_gather_of_what_the_layer_calculated_is_found_and_that_of_weights_is_not(operand: str, is_found: bool):
    module = program(LOOP.replace("OPERAND", operand))
    gathers = find_activation_gathers(module, build_kernel_work([module]))
    assert gathers == (["gathered"] if is_found else [])


def test_gather_of_activations_is_found_with_its_time():
    finding, explained = only(GATHERS, _inputs(LOOP.replace("OPERAND", "act"), ("weights", "gathered")))
    assert finding.where == "gathered"
    assert finding.numbers["gathers_per_step_count"] == 1
    assert explained == 10 * MS
    assert found(GATHERS, _inputs(LOOP.replace("OPERAND", "x"), ("weights", "gathered"))) == []


def test_without_a_gather_there_is_nothing_to_say():
    assert "no all-gather" in reason(GATHERS, _inputs(LOOP.replace("OPERAND", "act"), ()))


def test_value_that_is_gathered_twice_is_found():
    module = program(_flat("work"))
    assert find_reshards(module) == [("one", "two")]
    finding, explained = only(RESHARD, _inputs(_flat("work"), ("one", "two")))
    assert finding.numbers["values_count"] == 1
    assert explained == 10 * MS  # the second of them


def test_collective_right_behind_another_is_found():
    assert find_reshards(program(_flat("one", kind="all-to-all"))) == [("one", "two")]


def test_work_between_makes_another_value():
    text = _flat("one", opcode="negate", kind="all-to-all")
    assert find_reshards(program(text)) == []
    assert found(RESHARD, _inputs(text, ("one", "two"))) == []
