"""Which component a name stack gets by a map."""

from __future__ import annotations

import pytest

from rocktools.attribution.component_map_file import parse_component_map, read_shipped_map
from rocktools.attribution.components import (
    LoopPlace,
    argument_keys,
    loop_place,
    match_fallbacks,
    match_scopes,
    names_a_call,
)
from rocktools.attribution.phases import BookedPhase
from rocktools.hlo.scopes import parse_op_name

LOOP = "while/body/closed_call"
F, B, U = BookedPhase.FORWARD, BookedPhase.BACKWARD, BookedPhase.UNATTRIBUTED
MAP = """
schema: rocktools.components/1
name: small
components:
  {attention: {title: A}, mlp: {title: M}, experts: {title: E}, layer: {title: L}, loop: {title: O}, loss: {title: S}}
rules:
  - {component: experts, segments: [up], within: [moe]}
  - {component: mlp, segments: [up]}
  - {component: mlp, pattern: 'mlp_\\d+'}
  - {component: attention, pattern: 'attn.*'}
  - {component: attention, segments: [layer], primitives: [softmax]}
  - {component: layer, segments: [layer]}
fallbacks:
  - {component: loop, loop: code}
  - {component: loss, loop: outside, scopeless: true, phases: [forward], primitives: [exp]}
  - {component: loop, scopeless: true, opcodes: [copy]}
"""


@pytest.fixture(scope="module")
def small():
    return parse_component_map(MAP, source="m.yaml")


@pytest.mark.parametrize(
    "op_name, component, scope",
    [
        ("jit(f)/jvp()/layer/attn/q/dot", "attention", "layer/attn"),  # q is in no rule: the next one out decides
        ("jit(f)/jvp()/attn/layer/add", "layer", "attn/layer"),  # the deepest that a rule knows
        ("jit(f)/jvp()/layer/moe/up/dot", "experts", "layer/moe/up"),
        ("jit(f)/jvp()/layer/up/dot", "mlp", "layer/up"),
        ("jit(f)/jvp()/up/moe/dot", "mlp", "up"),  # within: further out only
        ("jit(f)/jvp()/mlp_3/dot", "mlp", "mlp_3"),
        ("jit(f)/jvp()/mlp_x/dot", "unattributed", ""),  # a pattern is for all of the name
        ("jit(f)/jvp()/layer/softmax", "attention", "layer"),
        ("jit(f)/jvp()/layer/add", "layer", "layer"),
        ("jit(f)/jvp()/other/add", "unattributed", ""),
        ("jit(f)/transpose(jvp(attn))/mul", "attention", "attn"),
        ("params['layer']['up']", "mlp", "layer/up"),
        ("state.params['moe']['up']['kernel']", "experts", "params/moe/up"),
        ("jit(f)/jvp()/(attn/a:attn/b)", "attention", "attn"),
        ("jit(f)/jvp()/layer/(attn/a:up/b)", "layer", "layer"),  # members differ: what they share
        ("jit(f)/jvp()/(attn/a:up/b)", "unattributed", ""),
    ],
)
def test_the_deepest_scope_that_a_rule_knows_decides(small, op_name, component, scope):
    found = match_scopes(small, parse_op_name(op_name))
    assert (found.component, found.scope) == (component, scope)


@pytest.mark.parametrize(
    "op_name, place",
    [
        ("jit(f)/add", "outside"),
        (f"jit(f)/{LOOP}/add", "inside"),
        ("jit(f)/while/body/add", "code"),
        ("jit(f)/while/cond/lt", "code"),
        ("jit(f)/while", "code"),
        (f"jit(f)/{LOOP}", "code"),
        (f"jit(f)/{LOOP}/checkpoint", "code"),
        ("jit(f)/while/body/jit(dynamic_index_in_dim)/dynamic_slice", "code"),
        ("jit(f)/while/body/layer/add", "inside"),  # JAX before 0.8 has no closed_call
        (f"jit(f)/{LOOP}/jvp()/exp", "outside"),  # of the model's loops: the loop is over microsteps
        (f"jit(f)/{LOOP}/jvp(M)/{LOOP}/exp", "inside"),
        ("jit(f)/while/body/transpose(jvp(M))/while/body/dynamic_slice", "code"),
        ("dynamic_slice", "outside"),
    ],
)
def test_place_in_a_loop_is_seen_from_the_last_differentiation(op_name, place):
    assert loop_place(parse_op_name(op_name)) is LoopPlace(place)


@pytest.mark.parametrize(
    "op_name, phase, opcode, component",
    [
        ("jit(f)/jvp()/while/body/add", F, "fusion", "loop"),
        ("jit(f)/jvp()/exp", F, "fusion", "loss"),
        ("jit(f)/jvp()/exp", B, "fusion", "unattributed"),
        ("jit(f)/jvp()/log", F, "fusion", "unattributed"),
        ("jit(f)/jvp()/other/exp", F, "fusion", "unattributed"),
        (None, F, "copy", "loop"),
        (None, F, "fusion", "unattributed"),
        ("jit(f)/jvp()/other/x", F, "copy", "unattributed"),
    ],
)
def test_fallbacks_look_at_loop_primitive_opcode_and_phase(small, op_name, phase, opcode, component):
    path = None if op_name is None else parse_op_name(op_name)
    assert match_fallbacks(small, path, phase=phase, opcode=opcode).component == component


def test_names_of_calls_and_of_arguments_are_told_apart():
    assert [
        names_a_call(parse_op_name(name)) for name in ("jit(f)/while", f"jit(f)/{LOOP}", "jit(f)/while/body/add")
    ] == [
        True,
        True,
        False,
    ]
    assert argument_keys(parse_op_name("params['a/b']['kernel']")) == ("a/b", "kernel")
    assert argument_keys(parse_op_name("jit(f)/add")) == ()


# Real op_names of MaxText on MI300X (JAX 0.10), and of the study's labels.
MODEL = "jit(train_step)/jvp(TransformerLinenPure.apply)/TransformerLinenPure/decoder"


@pytest.mark.parametrize(
    "op_name, component",
    [
        (f"{MODEL}/decoder._apply_embedding/token_embedder/gather", "embedding"),
        (f"{MODEL}/decoder.apply_output_head/decoder_norm/rsqrt", "final_norm"),
        (f"{MODEL}/decoder.apply_output_head/logits_dense/dot_general", "lm_head"),
        (f"{MODEL}/{LOOP}/layers/DotProductAttention_0/_FusedDotProductAttention_0/custom_partitioning", "attention"),
        (f"{MODEL}/{LOOP}/layers/wi_0/EBCM,EMH -> EBCH/dot_general", "expert_mlp"),
        (f"{MODEL}/{LOOP}/layers/combine/EBCM,BSEC -> BSM/dot_general", "combine"),
        (f"{MODEL}/{LOOP}/layers/dispatch/BSM,BSEC -> EBCM/dot_general", "dispatch"),
        (f"{MODEL}/{LOOP}/layers/top_k", "router"),
        (f"{MODEL}/{LOOP}/layers/dot_general", "decoder_layer"),
        ("state.params['params']['decoder']['layers']['mlp']['wi_0']['kernel']", "mlp"),
        ("state.params['params']['decoder']['layers']['MoeBlock_0']['gate']['kernel']", "router"),
        ("state.params['params']['decoder']['layers']['MoeBlock_0']['wi_0']", "expert_mlp"),
        ("state.params['params']['decoder']['layers']['self_attention']['query']['kernel']", "attention"),
        ("state.params['params']['decoder']['layers']['pre_self_attention_layer_norm']['scale']", "pre_attention_norm"),
        ("jit(train_step)/grad_accum/add", "accumulation"),
        ("jit(train_step)/optimizer/mul", "optimizer"),
    ],
)
def test_scopes_of_maxtext(op_name, component):
    assert match_scopes(read_shipped_map("maxtext"), parse_op_name(op_name)).component == component
