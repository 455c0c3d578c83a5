"""What shares memory, in a made buffer assignment: an update in a loop, an all-gather, an output of a tuple."""

from __future__ import annotations

import pytest

from rocktools.hlo.module import HloModule
from rocktools.hlo.text_reader import parse_hlo_text
from rocktools.replay.buffer_slices import (
    SharedBuffer,
    Slice,
    find_shared_buffers,
    guess_shared_buffers,
    parse_buffer_slices,
)

TEXT = """HloModule made, is_scheduled=true

fused {
  p0 = f32[8]{0} parameter(0)
  p1 = f32[8]{0} parameter(1)
  s = f32[8]{0} add(p0, p1)
  n = f32[8]{0} negate(p1)
  ROOT r = (f32[8]{0}, f32[8]{0}) tuple(s, n)
}

updating {
  base = f32[8]{0} parameter(0)
  part = f32[2]{0} parameter(1)
  at = s32[] parameter(2)
  ROOT u = f32[8]{0} dynamic-update-slice(base, part, at)
}

body {
  v = (f32[8]{0}, s32[]) parameter(0)
  x = f32[8]{0} get-tuple-element(v), index=0
  n = s32[] get-tuple-element(v), index=1
  row = f32[2]{0} slice(x), slice={[0:2]}
  updated = f32[8]{0} fusion(x, row, n), kind=kLoop, calls=updating
  ROOT r = (f32[8]{0}, s32[]) tuple(updated, n)
}

condition {
  v = (f32[8]{0}, s32[]) parameter(0)
  ROOT c = pred[] constant(false)
}

ENTRY main {
  a = f32[8]{0} parameter(0)
  i = s32[] parameter(1)
  carried = (f32[8]{0}, s32[]) tuple(a, i)
  loop = (f32[8]{0}, s32[]) while(carried), condition=condition, body=body
  b = f32[8]{0} get-tuple-element(loop), index=0
  flat = f32[8]{0} bitcast(b)
  pair = (f32[8]{0}, f32[8]{0}) fusion(a, flat), kind=kLoop, calls=fused
  start = (f32[8]{0}, f32[16]{0}) all-gather-start(b), replica_groups={{0,1}}, dimensions={0}
  done = f32[16]{0} all-gather-done(start)
  reduced = f32[8]{0} all-reduce-start(b), replica_groups={{0,1}}, to_apply=add
  waited = f32[8]{0} all-reduce-done(reduced)
  ROOT out = (f32[8]{0}) tuple(b)
}
"""
LOOP_BUFFER, FRESH, GATHERED = Slice(0, 0, 32), Slice(1, 64, 32), Slice(2, 0, 64)
SLICES = {
    ("a", ()): LOOP_BUFFER,
    ("updated", ()): LOOP_BUFFER,
    ("pair", (0,)): FRESH,
    ("pair", (1,)): LOOP_BUFFER,
    ("start", (0,)): LOOP_BUFFER,
    ("start", (1,)): GATHERED,
    ("reduced", ()): LOOP_BUFFER,
}


@pytest.fixture(scope="module")
def module() -> HloModule:
    return parse_hlo_text(TEXT, "made")


def _shared(module: HloModule, name: str, done: str | None = None) -> tuple[SharedBuffer, ...]:
    waiting = None if done is None else module.instructions[done]
    return find_shared_buffers(module, module.instructions[name], SLICES, done=waiting)


def test_value_that_a_loop_carries_lies_where_it_lay_before(module):
    assert _shared(module, "updated") == (SharedBuffer((), 0),)


def test_output_of_a_tuple_shares_with_a_bitcast_operand(module):
    """Both operands lie in the same slice; the first one that is met is taken, once."""
    assert _shared(module, "pair") == (SharedBuffer((1,), 0),)


def test_operand_inside_of_what_a_start_makes_is_no_result(module):
    assert _shared(module, "start", "done") == ()


def test_reduction_in_place_shares_through_its_done(module):
    assert _shared(module, "reduced", "waited") == (SharedBuffer((), 0),)


def test_without_a_buffer_assignment_updates_in_place_are_inferred(module):
    assert guess_shared_buffers(module, module.instructions["updated"]) == (SharedBuffer((), 0),)
    assert guess_shared_buffers(module, module.instructions["pair"]) == ()


def test_declared_aliases_are_taken():
    text = """HloModule made

ENTRY main {
  a = f32[8]{0} parameter(0)
  b = f32[8]{0} parameter(1)
  ROOT c = (f32[8]{0}, f32[8]{0}) custom-call(a, b), custom_call_target="x", \
output_to_operand_aliasing={{0}: (1, {}), {1}: (0, {})}
}
"""
    module = parse_hlo_text(text, "made")
    assert guess_shared_buffers(module, module.instructions["c"]) == (SharedBuffer((0,), 1), SharedBuffer((1,), 0))


def _field(number: int, value: bytes | int) -> bytes:
    if isinstance(value, int):
        return bytes([number << 3, value])
    return bytes([number << 3 | 2, len(value)]) + value


def test_slices_are_read_from_the_proto():
    """Byte by byte after hlo.proto: buffer 5 is defined by instruction 9, {1}, and aliased by instruction 10."""
    defined = _field(1, 5) + _field(3, _field(3, b"\x01") + _field(4, 9))
    aliased = _field(1, 5) + _field(2, _field(4, 10))
    allocation = _field(1, 3) + _field(9, _field(1, 5) + _field(2, 64) + _field(3, 32))
    proto = _field(3, _field(1, defined) + _field(2, aliased) + _field(3, allocation))
    slices = parse_buffer_slices(proto, {9: "fusion", 10: "gte"})
    assert slices == {("fusion", (1,)): Slice(3, 64, 32), ("gte", ()): Slice(3, 64, 32)}


@pytest.mark.parametrize("data", [b"", b"\xff\xff", b"\x0a\x03abc"])
def test_bytes_without_an_assignment_have_no_slices(data):
    assert parse_buffer_slices(data, {}) == {}
