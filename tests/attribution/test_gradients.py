"""Dgrad and Wgrad by the shapes of the forward product in the same scope."""

from __future__ import annotations

import pytest

from rocktools.attribution.gradients import split_gradients
from rocktools.hlo.text_reader import parse_hlo_text

F, B = "jit(f)/jvp(mlp)/dot_general", "jit(f)/transpose(jvp(mlp))/dot_general"


def _contracting(left, right):
    return f"lhs_contracting_dims={{{left}}}, rhs_contracting_dims={{{right}}}"


def _program(tokens=32, gather="custom-call", scope_b=B):
    """y = x w, with x of tokens x 8 and w of 8 x 16; dx = g w^T, dw = x^T g."""
    w = "f32[8,16]{1,0}"
    moved = {
        "custom-call": f'%v = {w} custom-call(%w), custom_call_target="x"',
        "copy": f"%v = {w} copy(%w)",
        "gather": f"%s = (f32[4,16]{{1,0}}, {w}) all-gather-start(%w), dimensions={{0}}\n"
        f"  %v = {w} all-gather-done(%s)",
    }[gather]
    size = "f32[4,16]{1,0}" if gather == "gather" else w
    return f"""HloModule jit_f, is_scheduled=true

ENTRY %main (x: f32[{tokens},8], w: f32[8,16], g: f32[{tokens},16]) -> f32[8,16] {{
  %x0 = f32[{tokens},8]{{1,0}} parameter(0)
  %w = {size} parameter(1)
  %g0 = f32[{tokens},16]{{1,0}} parameter(2)
  %x = f32[{tokens},8]{{1,0}} custom-call(%x0), custom_call_target="x"
  %g = f32[{tokens},16]{{1,0}} custom-call(%g0), custom_call_target="x"
  {moved}
  %y = f32[{tokens},16]{{1,0}} dot(%x, %v), {_contracting(1, 0)}, metadata={{op_name="{F}"}}
  %dx = f32[{tokens},8]{{1,0}} dot(%g, %v), {_contracting(1, 1)}, metadata={{op_name="{scope_b}"}}
  ROOT %dw = f32[8,16]{{1,0}} dot(%x, %g), {_contracting(0, 0)}, metadata={{op_name="{scope_b}"}}
}}
"""


def _split(text):
    return {name: gradient.value for name, gradient in split_gradients(parse_hlo_text(text, "f.txt")).items()}


@pytest.mark.parametrize("gather", ["copy", "gather"])
def test_a_result_as_large_as_the_weight_is_its_gradient(gather):
    assert _split(_program(gather=gather)) == {"dx": "dgrad", "dw": "wgrad"}


def test_equally_large_operands_stay_unsplit():
    assert _split(_program(tokens=16, gather="copy")) == {}


def test_a_product_without_weights_has_gradients_of_activations():
    """The second operand is computed: both are activations, as in scores of an attention."""
    assert _split(_program(gather="custom-call")) == {"dx": "dgrad", "dw": "dgrad"}


def test_a_backward_product_in_a_scope_without_a_forward_one_stays_unsplit():
    assert _split(_program(gather="copy", scope_b="jit(f)/transpose(jvp(other))/dot_general")) == {}


def test_every_backward_product_of_a_maxtext_step_is_split(shared):
    """Two layers with eight weights each (Q, K, V, O, gate, wi_0, wi_1, wo), the head, and an embedding by product.

    Each weight has a gradient; so has each of their inputs but the tokens, both inputs of combine, one of dispatch.
    """
    path = shared / "data/hlo/gfx950/maxtext-moe-pp2-ep8.train_step.after_optimizations.txt"
    found = list(_split(path.read_text(encoding="utf-8")).values())
    assert (found.count("wgrad"), found.count("dgrad")) == (2 * 8 + 2, 2 * (8 + 2 + 1) + 1)
