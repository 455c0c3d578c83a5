"""Instructions of the Mixtral-8x22B step, two builds, labelled by hand from the HLO; most have no op_name of their own.

Each label is what the instruction is for, read off its operands, users and what it fuses, by the words of the design:
replayed work is what a replay needs, whatever loop it is in; unattributed is what the program alone names.
"""

from __future__ import annotations

import pytest
from mixtral_program import mixtral_program

from rocktools.attribution.classify import classify_instructions
from rocktools.attribution.component_map_file import read_shipped_map
from rocktools.hlo.program_summary import is_launched, launched_computations

F, B, R, O, A, U = "forward", "backward", "rematerialized", "optimizer", "accumulation", "unattributed"  # noqa: E741
NONE = "unattributed"

TRITON = [
    # instruction, phase, component, why
    ("fusion.305", F, "pre_attention_norm", "the norm before the Q/K/V products of the forward loop"),
    ("fusion.305.remat", F, "pre_attention_norm", "XLA computes it again for another product, still forward"),
    ("fusion.306", F, "post_attention_norm", "norm of attention output plus residual, read by the router product"),
    ("input_reduce_select_fusion", F, "attention", "mask and row maximum of the scores"),
    ("input_reduce_fusion.10", F, "attention", "row sum of the exponentials"),
    ("loop_slice_fusion.1", F, "router", "first half of the running count of routes"),
    ("loop_reduce_window_fusion.1", F, "router", "second half; nothing in it is named; only the router reads it"),
    ("loop_convert_fusion.7", F, "expert_mlp", "silu(wi_0) * wi_1 for the product with wo"),
    ("fusion.297.remat", F, "router", "combine weights as one-hot masks, scope router_masks"),
    ("loop_convert_fusion.8", F, "decoder_layer", "sum of both residuals: the layer's last add, in no scope"),
    ("copy.67", F, "scan_and_layout", "the forward loop's counter"),
    ("copy.68", F, "scan_and_layout", "the forward loop's carried activation"),
    ("loop_add_fusion.16", F, "router", "iota hoisted out of the scan; the one-hot of the forward loop reads it"),
    ("wrapped_iota", F, "router", "as the one above"),
    ("loop_broadcast_fusion.1", F, "attention", "causal mask hoisted out of the forward loop"),
    ("loop_broadcast_fusion.11", F, "attention", "the constant under that mask"),
    ("loop_convert_fusion.9.remat", F, "final_norm", "final norm, computed again for the head's product"),
    ("wrapped_transpose", F, "scan_and_layout", "a layout of stacked weights, first read by the forward loop"),
    ("wrapped_transpose.3", F, "scan_and_layout", "as the one above"),
    ("loop_convert_fusion.3", R, "pre_attention_norm", "replayed norm before the replayed Q/K/V products"),
    ("loop_convert_fusion.4", R, "post_attention_norm", "replayed norm, read by the replayed router product"),
    ("input_reduce_fusion", R, "attention", "replayed row maximum"),
    ("input_reduce_fusion.1", R, "attention", "replayed row sum"),
    ("loop_slice_fusion", R, "router", "replayed running count of routes"),
    ("loop_reduce_window_fusion", R, "router", "its nameless half"),
    ("loop_convert_fusion", R, "expert_mlp", "replayed silu(wi_0) * wi_1, for the gradient of wo"),
    ("loop_convert_fusion.1.remat2", B, "expert_mlp", "gradient of wi_1's result: gradient of wo's input * silu(wi_0)"),
    ("loop_convert_fusion.2", B, "expert_mlp", "gradient of wi_0's result, through silu; repeats the replay it needs"),
    ("input_reduce_fusion.6", B, "router", "gradient of the route weights: gradient of combine, summed over masks"),
    ("reduce-scatter-start", B, "router", "that gradient across devices; nothing in it is named"),
    ("reduce-scatter-start.1", B, "expert_mlp", "weight gradient of wi_0 across devices"),
    ("reduce-scatter-start.3", B, "expert_mlp", "weight gradient of wo across devices"),
    ("reduce-scatter-start.4", B, "attention", "weight gradients of Q, K, V and O across devices, combined"),
    ("reduce-scatter-start.5", B, "lm_head", "weight gradient of the head across devices"),
    ("loop_convert_fusion.5", B, "post_attention_norm", "gradient of the norm added to that of the residual"),
    ("input_convert_reduce_fusion.2", B, "final_norm", "gradient of the final norm"),
    ("input_reduce_fusion.7", B, "post_attention_norm", "gradient of the norm's scale, second half of the sum"),
    ("input_reduce_fusion.8", B, "pre_attention_norm", "as the one above"),
    ("wrapped_concatenate", B, NONE, "three small gradients of three components put together for one all-reduce"),
    ("all-reduce-start.1", B, NONE, "that all-reduce"),
    ("wrapped_slice.4", B, NONE, "one of the three taken out again"),
    ("copy.86", B, "scan_and_layout", "the backward loop's counter"),
    ("loop_broadcast_fusion.10", B, "scan_and_layout", "zeros that the backward loop writes weight gradients into"),
    ("copy.80", B, "scan_and_layout", "a second buffer of those"),
    ("loop_broadcast_fusion.22", A, "accumulation", "zeros that gradients of microsteps are added to; nameless"),
    ("loop_broadcast_fusion.15", A, "accumulation", "as the one above, named after itself"),
    ("wrapped_convert.4", A, "accumulation", "the accumulated gradient of the final norm, for its all-reduce"),
    ("all-reduce-start.4", A, "accumulation", "that all-reduce, moved behind the loop over microsteps"),
    ("wrapped_concatenate.1", O, "optimizer", "sums of squares of gradients, for one all-reduce"),
    ("all-reduce-start.5", O, "optimizer", "the gradient norm across devices"),
    ("wrapped_slice.14", O, "optimizer", "one sum of squares taken out again"),
    ("loop_convert_fusion.20", O, "optimizer", "AdamW of the final norm: parameter and both moments"),
    ("input_convert_transpose_fusion.1", O, "optimizer", "AdamW of wo, with a transpose"),
    ("copy.220", O, "scan_and_layout", "the layout in which the updated wo leaves the program"),
    ("loop_broadcast_fusion.14", U, NONE, "zeros as above, but named by the program alone: not lost, just outside"),
    ("loop_multiply_fusion.4", U, NONE, "mean of the losses, in no scope"),
    ("loop_add_fusion.17", U, "scan_and_layout", "counter of the loop over microsteps"),
]
BLASLT = [
    ("copy.49", F, "scan_and_layout", "the residual copied to where a product adds to it"),
    ("loop_convert_fusion.1", F, "decoder_layer", "the layer's last add"),
    ("loop_reduce_window_fusion", F, "router", "nameless half of the running count of routes"),
    ("copy.52", R, "scan_and_layout", "the residual copied to where the replayed output projection adds to it"),
    ("input_convert_transpose_fusion", R, "expert_mlp", "replayed silu(wi_0) * wi_1 for the replayed product with wo"),
    ("input_reduce_fusion.1.remat3", R, "attention", "replayed row maximum, a second time"),
    ("loop_convert_fusion.2.remat5", R, "pre_attention_norm", "replayed norm, for the gradients of Q, K and V"),
    ("input_convert_transpose_fusion.remat", B, "expert_mlp", "gradients of wi_0's and wi_1's results, and the replay"),
    ("input_reduce_fusion.8", B, "router", "gradient of the route weights"),
    ("reduce-scatter-start.3", B, "expert_mlp", "weight gradient of wo across devices"),
    ("reduce-scatter-start.4", B, "attention", "weight gradients of Q, K, V and O across devices"),
    ("loop_convert_fusion.4", B, "post_attention_norm", "gradient of the norm added to that of the residual"),
    ("all-reduce-start.2", B, NONE, "small gradients of three components in one all-reduce"),
    ("all-reduce-start.5", O, "optimizer", "the gradient norm across devices"),
    ("input_convert_transpose_fusion.3", O, "optimizer", "AdamW of the output projection, with a transpose"),
]  # fmt: skip


@pytest.mark.parametrize("build, labels", [("triton", TRITON), ("blaslt", BLASLT)])
def test_instructions_land_where_their_labels_say(shared, build, labels):
    module = mixtral_program(shared, build).module
    buckets = classify_instructions(module, read_shipped_map("maxtext"))
    landed = {name: (buckets[name].phase.value, buckets[name].component) for name, *_ in labels}
    assert landed == {name: (phase, component) for name, phase, component, _ in labels}


def test_fusions_without_an_op_name_are_all_classified(shared):
    """69 of the 323 fusions have no op_name; one of those has no phase: the map's outside is all that lacks one."""
    module = mixtral_program(shared, "triton").module
    buckets = classify_instructions(module, read_shipped_map("maxtext"))
    launched = launched_computations(module)
    fusions = [each for each in module.instructions.values() if each.opcode == "fusion" and is_launched(each, launched)]
    nameless = [each for each in fusions if not each.metadata.op_name]
    assert (len(fusions), len(nameless)) == (323, 69)
    assert [each.name for each in nameless if buckets[each.name].phase.value == U] == []


def test_what_an_asynchronous_start_wraps_is_booked_as_it_is(shared):
    """Thunk metadata names the reduce-scatter inside; a profile the start."""
    module = mixtral_program(shared, "triton").module
    buckets = classify_instructions(module, read_shipped_map("maxtext"))
    inner, start = buckets["reduce-scatter.1.1"], buckets["reduce-scatter-start.1"]
    assert (inner.phase, inner.component, inner.collective) == (start.phase, start.component, "reduce-scatter")
    assert inner.trail[1:] == start.trail


@pytest.mark.parametrize("build", ["triton", "blaslt"])
def test_what_the_names_do_not_decide_says_that_it_is_inferred(shared, build):
    module = mixtral_program(shared, build).module
    buckets = classify_instructions(module, read_shipped_map("maxtext"))
    for name, bucket in buckets.items():
        says_so = any(line.endswith("; inferred") for line in bucket.trail)
        assert bucket.is_inferred == says_so, name
        if not bucket.is_inferred and bucket.phase.value in (F, B, R):
            assert "op_name: none, neither its own nor in what it fuses" not in bucket.trail, name


@pytest.mark.parametrize("build", ["triton", "blaslt"])
def test_backward_products_are_split_into_gradients_of_activations_and_weights(shared, build):
    """Nine weights with a gradient each, and their nine inputs; scores and values of the attention have two each,
    combine has two, and dispatch one: its mask is not differentiated."""
    module = mixtral_program(shared, build).module
    buckets = classify_instructions(module, read_shipped_map("maxtext"))
    found = {"wgrad": [], "dgrad": []}
    for name, bucket in buckets.items():
        if bucket.gradient:
            found[bucket.gradient].append((bucket.scope.split("/")[-2], name))
    weights = sorted(scope for scope, _ in found["wgrad"])
    projections = ["k_proj", "lm_head", "out_proj", "q_proj", "router_gate", "v_proj", "wi_0", "wi_1", "wo"]
    assert weights == sorted(projections)
    activations = sorted(scope for scope, _ in found["dgrad"])
    assert activations == sorted([*projections, "core", "core", "core", "core", "combine", "combine", "dispatch"])
