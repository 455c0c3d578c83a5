"""Where values come from, with everything looked through that only passes on."""

from __future__ import annotations

import pytest

from rocktools.hlo.dataflow import ValueSources, build_dataflow
from rocktools.hlo.text_reader import parse_hlo_text

# A loop that adds `w` to its state and multiplies by a second input; an asynchronous gather; a tuple of two results.
TEXT = """HloModule jit_f, is_scheduled=true

%body (state: (s32[], f32[8], f32[8])) -> (s32[], f32[8], f32[8]) {
  %state = (s32[], f32[8]{0}, f32[8]{0}) parameter(0)
  %i = s32[] get-tuple-element(%state), index=0
  %x = f32[8]{0} get-tuple-element(%state), index=1
  %w = f32[8]{0} get-tuple-element(%state), index=2
  %next = s32[] negate(%i)
  %sum = f32[8]{0} add(%x, %w)
  %cast = f32[8]{0} bitcast(%sum)
  ROOT %out = (s32[], f32[8]{0}, f32[8]{0}) tuple(%next, %cast, %w)
}

%cond (c: (s32[], f32[8], f32[8])) -> pred[] {
  %c = (s32[], f32[8]{0}, f32[8]{0}) parameter(0)
  %ci = s32[] get-tuple-element(%c), index=0
  %limit = s32[] constant(4)
  ROOT %less = pred[] compare(%ci, %limit), direction=LT
}

ENTRY %main (p: f32[8], q: f32[8]) -> (f32[8], f32[8]) {
  %p = f32[8]{0} parameter(0)
  %q = f32[8]{0} parameter(1)
  %zero = s32[] constant(0)
  %first = f32[8]{0} negate(%p)
  %start = (f32[1]{0}, f32[8]{0}) all-gather-start(%first), replica_groups={}, dimensions={0}
  %done = f32[8]{0} all-gather-done(%start)
  %init = (s32[], f32[8]{0}, f32[8]{0}) tuple(%zero, %done, %q)
  %loop = (s32[], f32[8]{0}, f32[8]{0}) while(%init), condition=%cond, body=%body
  %after = f32[8]{0} get-tuple-element(%loop), index=1
  %kept = f32[8]{0} get-tuple-element(%loop), index=2
  %product = f32[8]{0} multiply(%after, %kept)
  ROOT %results = (f32[8]{0}, f32[8]{0}) tuple(%product, %first)
}
"""


@pytest.fixture(scope="module")
def module():
    return parse_hlo_text(TEXT, "made.txt")


@pytest.fixture(scope="module")
def flow(module):
    names = ("next", "sum", "less", "first", "start", "product")
    return build_dataflow(module, [module.instructions[name] for name in names])


@pytest.mark.parametrize(
    "name, producers",
    [
        ("first", {"p"}),
        ("start", {"first"}),
        ("sum", {"start", "q"}),  # itself of the iteration before is left out
        ("next", set()),
        ("less", {"next"}),
        ("product", {"sum", "q"}),
    ],
)
def test_producers_are_found_through_tuples_loops_and_asynchronous_halves(flow, name, producers):
    assert set(flow.producers[name]) == producers


def test_consumers_are_the_other_way_round(flow):
    assert set(flow.consumers["start"]) == {"sum"}
    assert set(flow.consumers["sum"]) == {"product"}
    assert set(flow.consumers["q"]) == {"sum", "product"}
    assert "less" in flow.consumers["next"]


def test_one_element_of_a_tuple_has_its_own_sources(module):
    sources = ValueSources.of(module)
    assert set(sources.sources_of("loop", 1)) == {("sum", None)}
    assert set(sources.sources_of("loop", 2)) == {("q", None)}
    assert set(sources.sources_of("state", 1)) == {("start", None), ("sum", None)}


def test_a_text_that_was_cut_has_what_is_left(module):
    cut = TEXT[: TEXT.index("  %done")]
    rest = parse_hlo_text(cut, "cut.txt")
    flow = build_dataflow(rest, [each for each in rest.instructions.values() if each.opcode == "negate"])
    assert flow.producers["first"] == ("p",)
