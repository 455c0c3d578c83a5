"""What a fusion touches of its parameters, by hand."""

from __future__ import annotations

import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rocktools.hlo.cost import estimate_costs
from rocktools.hlo.text_reader import parse_hlo_text

SUM = """
%sum (s1: f32[], s2: f32[]) -> f32[] {
  %s1 = f32[] parameter(0)
  %s2 = f32[] parameter(1)
  ROOT %s3 = f32[] add(%s1, %s2)
}
"""


def cost_of(result: str, operands: str, fused: str, called: str = "", kind: str = "kLoop") -> tuple[int | None, ...]:
    """(flop, transcendental, read, written) of a fusion of these inner lines; operands as `shape shape ...`."""
    fused = re.sub(r"\n\s+(?![\s%R])", " ", fused)  # a line that does not begin with a name goes on
    shapes = operands.split()
    parameters = "\n".join(f"  %q{i} = {shape} parameter({i})" for i, shape in enumerate(shapes))
    given = ", ".join(f"%q{i}" for i in range(len(shapes)))
    text = f"""HloModule m, is_scheduled=true
{called}
%fused () -> f32[] {{
{fused}
}}
ENTRY %main () -> f32[] {{
{parameters}
  ROOT %x = {result} fusion({given}), kind={kind}, calls=%fused
}}
"""
    module = parse_hlo_text(text, source="made here")
    assert module.findings == ()
    cost = estimate_costs(module)["x"]
    assert cost.reason == ""
    return cost.compute_flop, cost.transcendental_count, cost.read_bytes, cost.written_bytes


def test_values_inside_are_no_traffic_and_scalars_that_are_made_inside_are_not_read():
    fused = """
      %p = f32[100]{0} parameter(0)
      %two = f32[] constant(2)
      %b = f32[100]{0} broadcast(%two), dimensions={}
      %m = f32[100]{0} multiply(%p, %b)
      %i = f32[100]{0} iota(), iota_dimension=0
      %t = f32[100]{0} tanh(%m)
      ROOT %r = f32[100]{0} add(%t, %i)"""
    assert cost_of("f32[100]{0}", "f32[100]{0}", fused) == (100 + 100, 100, 400, 400)


def test_a_parameter_that_two_read_is_read_once_and_one_that_nobody_reads_not_at_all():
    fused = """
      %p = f32[100]{0} parameter(0)
      %unused = f32[1000]{0} parameter(1)
      %m = f32[100]{0} multiply(%p, %p)
      ROOT %r = f32[100]{0} add(%m, %p)"""
    assert cost_of("f32[100]{0}", "f32[100]{0} f32[1000]{0}", fused) == (200, 0, 400, 400)


def test_slices_touch_what_they_return_also_behind_a_conversion():
    fused = """
      %p = bf16[56,100]{1,0} parameter(0)
      %k = s32[] parameter(1)
      %z = s32[] constant(0)
      %c = f32[56,100]{1,0} convert(%p)
      %n = f32[56,100]{1,0} negate(%c)
      %d = f32[1,100]{1,0} dynamic-slice(%n, %k, %z), dynamic_slice_sizes={1,100}
      ROOT %r = f32[100]{0} bitcast(%d)"""
    assert cost_of("f32[100]{0}", "bf16[56,100]{1,0} s32[]", fused) == (100, 0, 100 * 2 + 4, 400)


def test_slices_of_one_parameter_add_up_to_the_whole_at_most():
    fused = """
      %p = f32[100]{0} parameter(0)
      %a = f32[60]{0} slice(%p), slice={[0:60]}
      %b = f32[60]{0} slice(%p), slice={[40:100]}
      ROOT %r = f32[60]{0} add(%a, %b)"""
    assert cost_of("f32[60]{0}", "f32[100]{0}", fused) == (60, 0, 400, 240)


def test_a_gather_inside_touches_its_rows():
    fused = """
      %p = bf16[1000,64]{1,0} parameter(0)
      %i = s32[5,1]{1,0} parameter(1)
      ROOT %r = bf16[5,64]{1,0} gather(%p, %i), offset_dims={1}, collapsed_slice_dims={0}, start_index_map={0},
        index_vector_dim=1, slice_sizes={1,64}"""
    assert cost_of("bf16[5,64]{1,0}", "bf16[1000,64]{1,0} s32[5,1]{1,0}", fused) == (0, 0, 640 + 20, 640)


UPDATE = """
      %t = f32[56,100]{1,0} parameter(0)
      %u = f32[100]{0} parameter(1)
      %k = s32[] parameter(2)
      %z = s32[] constant(0)
      %e = f32[100]{0} exponential(%u)
      %v = f32[1,100]{1,0} bitcast(%e)
"""
TARGETS = "f32[56,100]{1,0} f32[100]{0} s32[]"


def test_an_update_in_place_reads_and_writes_the_update():
    fused = UPDATE + "ROOT %r = f32[56,100]{1,0} dynamic-update-slice(%t, %v, %k, %z)"
    assert cost_of("f32[56,100]{1,0}", TARGETS, fused) == (0, 100, 400 + 4, 400)


def test_an_update_of_a_sliced_stack_is_in_place_and_reads_the_slice():
    fused = (
        UPDATE
        + """
      %d = f32[1,100]{1,0} dynamic-slice(%t, %k, %z), dynamic_slice_sizes={1,100}
      %s = f32[1,100]{1,0} add(%d, %v)
      ROOT %r = f32[56,100]{1,0} dynamic-update-slice(%t, %s, %k, %z)"""
    )
    assert cost_of("f32[56,100]{1,0}", TARGETS, fused) == (100, 100, 400 + 400 + 4, 400)


def test_an_update_of_what_is_computed_writes_everything():
    fused = (
        UPDATE
        + """
      %n = f32[56,100]{1,0} negate(%t)
      ROOT %r = f32[56,100]{1,0} dynamic-update-slice(%n, %v, %k, %z)"""
    )
    # 55 rows of the stack are wanted, negated and written, and the update.
    assert cost_of("f32[56,100]{1,0}", TARGETS, fused) == (5500, 100, 5500 * 4 + 400 + 4, 5600 * 4)


def test_an_update_of_what_is_also_read_is_not_in_place():
    fused = (
        UPDATE
        + """
      %r1 = f32[56,100]{1,0} dynamic-update-slice(%t, %v, %k, %z)
      %r2 = f32[56,100]{1,0} negate(%t)
      ROOT %r = (f32[56,100]{1,0}, f32[56,100]{1,0}) tuple(%r1, %r2)"""
    )
    result = "(f32[56,100]{1,0}, f32[56,100]{1,0})"
    assert cost_of(result, TARGETS, fused) == (5600, 100, 5600 * 4 + 400 + 4, 2 * 5600 * 4)


def test_several_results_are_all_written_and_updates_among_them_in_place():
    fused = (
        UPDATE
        + """
      %r1 = f32[56,100]{1,0} dynamic-update-slice(%t, %v, %k, %z)
      ROOT %r = (f32[56,100]{1,0}, f32[100]{0}) tuple(%r1, %e)"""
    )
    assert cost_of("(f32[56,100]{1,0}, f32[100]{0})", TARGETS, fused) == (0, 100, 400 + 4, 400 + 400)


def test_updates_on_top_of_each_other_are_all_in_place():
    fused = (
        UPDATE
        + """
      %r1 = f32[56,100]{1,0} dynamic-update-slice(%t, %v, %k, %z)
      ROOT %r = f32[56,100]{1,0} dynamic-update-slice(%r1, %v, %z, %z)"""
    )
    assert cost_of("f32[56,100]{1,0}", TARGETS, fused) == (0, 100, 400 + 4, 800)


def test_a_scatter_at_the_end_reads_and_writes_what_it_hits():
    fused = """
      %t = f32[1000]{0} parameter(0)
      %i = s32[5,1]{1,0} parameter(1)
      %u = f32[5]{0} parameter(2)
      %n = f32[5]{0} negate(%u)
      ROOT %r = f32[1000]{0} scatter(%t, %i, %n), update_window_dims={}, inserted_window_dims={0},
        scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=%sum"""
    found = cost_of("f32[1000]{0}", "f32[1000]{0} s32[5,1]{1,0} f32[5]{0}", fused, SUM, "kInput")
    assert found == (5 + 5, 0, 20 + 20 + 20, 20)


def test_a_reduction_inside_counts_its_additions_and_what_comes_before():
    fused = """
      %p = bf16[32,64]{1,0} parameter(0)
      %z = f32[] constant(0)
      %c = f32[32,64]{1,0} convert(%p)
      %m = f32[32,64]{1,0} multiply(%c, %c)
      ROOT %r = f32[32]{0} reduce(%m, %z), dimensions={1}, to_apply=%sum"""
    found = cost_of("f32[32]{0}", "bf16[32,64]{1,0}", fused, SUM, "kInput")
    assert found == (32 * 64 + 32 * 63, 0, 32 * 64 * 2, 32 * 4)


NESTED = """
%left (l: bf16[64,32]) -> f32[64,32] {
  %l = bf16[64,32]{1,0} parameter(0)
  ROOT %lc = f32[64,32]{1,0} convert(%l)
}
%right (g: bf16[2,32,16]) -> f32[32,16] {
  %g = bf16[2,32,16]{2,1,0} parameter(0)
  %gs = bf16[1,32,16]{2,1,0} slice(%g), slice={[0:1], [0:32], [0:16]}
  %gb = bf16[32,16]{1,0} bitcast(%gs)
  ROOT %gc = f32[32,16]{1,0} convert(%gb)
}
"""


def test_fusions_within_a_triton_fusion_are_looked_into():
    fused = """
      %p = bf16[64,32]{1,0} parameter(0)
      %w = bf16[2,32,16]{2,1,0} parameter(1)
      %a = f32[64,32]{1,0} fusion(%p), kind=kLoop, calls=%left
      %b = f32[32,16]{1,0} fusion(%w), kind=kLoop, calls=%right
      %d = f32[64,16]{1,0} dot(%a, %b), lhs_contracting_dims={1}, rhs_contracting_dims={0}
      ROOT %r = bf16[64,16]{1,0} convert(%d)"""
    found = cost_of("bf16[64,16]{1,0}", "bf16[64,32]{1,0} bf16[2,32,16]{2,1,0}", fused, NESTED, "kCustom")
    assert found == (2 * 64 * 16 * 32, 0, (64 * 32 + 32 * 16) * 2, 64 * 16 * 2)


def test_a_library_call_in_a_fusion_that_slices_for_it_costs_the_slice_and_no_workspace():
    fused = """
      %p = bf16[8,64,32]{2,1,0} parameter(0)
      %w = bf16[32,16]{1,0} parameter(1)
      %s = bf16[1,64,32]{2,1,0} slice(%p), slice={[3:4], [0:64], [0:32]}
      %b = bf16[64,32]{1,0} bitcast(%s)
      %c = (bf16[64,16]{1,0}, s8[4096]{0}) custom-call(%b, %w), custom_call_target="__cublas$gemm",
        backend_config={"gemm_backend_config":{"dot_dimension_numbers":{"lhs_contracting_dimensions":["1"]}}}
      %g = bf16[64,16]{1,0} get-tuple-element(%c), index=0
      %h = s8[4096]{0} get-tuple-element(%c), index=1
      ROOT %r = (bf16[64,16]{1,0}, s8[4096]{0}) tuple(%g, %h)"""
    found = cost_of("(bf16[64,16]{1,0}, s8[4096]{0})", "bf16[8,64,32]{2,1,0} bf16[32,16]{1,0}", fused, kind="kCustom")
    assert found == (2 * 64 * 16 * 32, 0, (64 * 32 + 32 * 16) * 2, 64 * 16 * 2)


@pytest.mark.parametrize("operands, read", [("%q0, %q1", 800), ("%q0, %q0", 400)])
def test_an_operand_that_is_given_twice_is_read_once(operands, read):
    text = f"""HloModule m
%fused () -> f32[] {{
  %a = f32[100]{{0}} parameter(0)
  %b = f32[100]{{0}} parameter(1)
  ROOT %r = f32[100]{{0}} add(%a, %b)
}}
ENTRY %main () -> f32[] {{
  %q0 = f32[100]{{0}} parameter(0)
  %q1 = f32[100]{{0}} parameter(1)
  ROOT %x = f32[100]{{0}} fusion({operands}), kind=kLoop, calls=%fused
}}
"""
    assert estimate_costs(parse_hlo_text(text, source="made here"))["x"].read_bytes == read


def test_a_collective_in_a_fusion_that_slices_for_it_has_a_payload():
    text = f"""HloModule m, replica_count=4
{SUM}
%fused (p: f32[8,100]) -> f32[25] {{
  %p = f32[8,100]{{1,0}} parameter(0)
  %s = f32[1,100]{{1,0}} slice(%p), slice={{[2:3], [0:100]}}
  %b = f32[100]{{0}} bitcast(%s)
  ROOT %r = f32[25]{{0}} reduce-scatter(%b), replica_groups={{{{0,1,2,3}}}}, dimensions={{0}}, to_apply=%sum
}}
ENTRY %main (q: f32[8,100]) -> f32[25] {{
  %q = f32[8,100]{{1,0}} parameter(0)
  ROOT %x = f32[25]{{0}} fusion(%q), kind=kCustom, calls=%fused
}}
"""
    cost = estimate_costs(parse_hlo_text(text, source="made here"))["x"]
    assert (cost.compute_flop, cost.read_bytes, cost.written_bytes, cost.payload_bytes) == (75, 400, 100, 400)


# Against counting elements ----------------------------------------------------------------------------------------

SIZES = st.lists(st.integers(1, 4), min_size=1, max_size=3)
MOVES = st.lists(st.sampled_from(["slice", "dynamic-slice", "transpose", "reverse", "bitcast", "negate", "broadcast"]))


def move(kind: str, name: str, before: str, values: np.ndarray, draw: st.DataObject) -> tuple[str, np.ndarray]:
    """A line of HLO, and what it makes of the numbers of the parameter's elements."""
    sizes = values.shape
    if kind in ("slice", "dynamic-slice"):
        starts = [draw.draw(st.integers(0, size - 1)) for size in sizes]
        ends = [draw.draw(st.integers(start + 1, size)) for start, size in zip(starts, sizes, strict=True)]
        values = values[tuple(slice(start, end) for start, end in zip(starts, ends, strict=True))]
        if kind == "dynamic-slice":
            zeros = ", %zero" * len(sizes)
            rest = f"(%{before}{zeros}), dynamic_slice_sizes={{{','.join(map(str, values.shape))}}}"
        else:
            rest = f"(%{before}), slice={{{', '.join(f'[{a}:{b}]' for a, b in zip(starts, ends, strict=True))}}}"
    elif kind == "transpose":
        order = draw.draw(st.permutations(range(len(sizes))))
        values, rest = values.transpose(order), f"(%{before}), dimensions={{{','.join(map(str, order))}}}"
    elif kind == "reverse":
        values, rest = values[::-1], f"(%{before}), dimensions={{0}}"
    elif kind == "bitcast":
        values, rest = values.reshape(-1), f"(%{before})"
    elif kind == "broadcast":
        values, rest = (
            np.stack([values] * 2),
            f"(%{before}), dimensions={{{','.join(str(i + 1) for i in range(len(sizes)))}}}",
        )
    else:
        rest = f"(%{before})"
    return f"  %{name} = f32[{','.join(map(str, values.shape))}] {kind}{rest}", values


@given(SIZES, MOVES, st.data())
def test_what_is_read_is_what_reaches_the_result(sizes, moves, data):
    """Exactly, if nothing is repeated; where a repeated value is sliced, at most what its slice could need."""
    values = np.arange(np.prod(sizes)).reshape(sizes)
    lines = [f"  %n0 = f32[{','.join(map(str, sizes))}] parameter(0)", "  %zero = s32[] constant(0)"]
    for i, kind in enumerate(moves):
        line, values = move(kind, f"n{i + 1}", f"n{i}", values, data)
        lines.append(line)
    lines.append(f"  ROOT %r = f32[{','.join(map(str, values.shape))}] copy(%n{len(moves)})")
    operand = f"f32[{','.join(map(str, sizes))}]"
    found = cost_of(f"f32[{','.join(map(str, values.shape))}]", operand, "\n".join(lines))
    touched = len(np.unique(values))
    assert 4 * touched <= found[2] <= 4 * min(np.prod(sizes), values.size)
    if "broadcast" not in moves:
        assert found[2] == 4 * touched
