"""What has no replay is refused by name, with what to extract instead."""

from __future__ import annotations

from dataclasses import replace

import pytest
from replay_programs import make_replay

from rocktools.errors import CannotExtract
from rocktools.hlo.text_reader import parse_hlo_text
from rocktools.replay.refusals import ReplayKind, classify_instruction, find_done

PROGRAM = """HloModule made, is_scheduled=true, num_partitions=4

add {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT s = f32[] add(a, b)
}

fused {
  p = f32[8]{0} parameter(0)
  ROOT inner = f32[8]{0} negate(p)
}

sliced {
  p = f32[8]{0} parameter(0)
  ROOT part = f32[4]{0} slice(p), slice={[0:4]}
}

pair {
  p = (f32[8]{0}, f32[8]{0}) parameter(0)
  ROOT first = f32[8]{0} get-tuple-element(p), index=0
}

body {
  v = (f32[8]{0}, s32[]) parameter(0)
  y = f32[8]{0} get-tuple-element(v), index=0
  n = s32[] get-tuple-element(v), index=1
  loop_fusion = f32[8]{0} fusion(y), kind=kLoop, calls=fused
  ROOT r = (f32[8]{0}, s32[]) tuple(loop_fusion, n)
}

condition {
  v = (f32[8]{0}, s32[]) parameter(0)
  n = s32[] get-tuple-element(v), index=1
  limit = s32[] constant(3)
  ROOT less = pred[] compare(n, limit), direction=LT
}

async_wrapped {
  p = f32[8]{0} parameter(0)
  ROOT scattered = f32[2]{0} reduce-scatter(p), channel_id=7, replica_groups={{0,1,2,3}}, use_global_device_ids=true, dimensions={0}, to_apply=add
}

around {
  p = f32[8]{0} parameter(0)
  ROOT inner_call = f32[8]{0} custom-call(p), custom_call_target="somebody_s_kernel"
}

ENTRY main {
  x = f32[8]{0} parameter(0)
  both = (f32[8]{0}, f32[8]{0}) parameter(1)
  count = s32[] constant(0)
  token = token[] after-all()
  before = f32[8]{0} fusion(x), kind=kLoop, calls=fused
  slice_fusion = f32[4]{0} fusion(x), kind=kLoop, calls=sliced
  start = (f32[8]{0}, f32[32]{0}) all-gather-start(before), channel_id=1, replica_groups={{0,1,2,3}}, dimensions={0}, use_global_device_ids=true
  gathered = f32[32]{0} all-gather-done(start)
  wrapped-start = ((f32[8]{0}), f32[2]{0}) async-start(x), calls=async_wrapped
  wrapped-done = f32[2]{0} async-done(wrapped-start)
  carried = (f32[8]{0}, s32[]) tuple(before, count)
  loop = (f32[8]{0}, s32[]) while(carried), condition=condition, body=body
  of_pair = f32[8]{0} fusion(both), kind=kLoop, calls=pair
  sent = (f32[8]{0}, u32[], token[]) send(x, token), channel_id=3
  noise = f32[8]{0} rng(x, x), distribution=rng_uniform
  state = u64[1]{0} rng-get-and-update-state(), delta=1
  called_back = f32[8]{0} custom-call(x), custom_call_target="xla_ffi_python_gpu_callback"
  offloaded = f32[8]{0:S(5)} copy(x)
  around_foreign = f32[8]{0} fusion(x), kind=kCustom, calls=around
  marked = f32[8]{0} custom-call(x), custom_call_target="Sharding"
  foreign = f32[8]{0} custom-call(x), custom_call_target="somebody_s_kernel"
  attention = f32[8]{0} custom-call(x), custom_call_target="te_fused_attn_forward_ffi"
  convolved = f32[8]{0} custom-call(x), custom_call_target="__cudnn$convForward", backend_config={"cudnn_conv_backend_config":{"conv_result_scale":1}}
  tuned = f32[8]{0} custom-call(x), custom_call_target="__cudnn$convForward", backend_config={"cudnn_conv_backend_config":{"algorithm":{"algo_id":"5"}}}
  product = f32[8]{0} custom-call(x, x), custom_call_target="__cublas$lt$matmul", backend_config={"gemm_backend_config":{"selected_algorithm":"3"}}
  far = f32[8]{0} all-reduce(x), channel_id=9, replica_groups={{0,1,2,3,4,5,6,7,8}}, use_global_device_ids=true, to_apply=add
  element = f32[8]{0} get-tuple-element(loop), index=0
  ROOT copied = f32[8]{0} copy(element)
}
"""  # noqa: E501

REFUSED = [
    ("gathered", "only-waits", "--instruction start"),
    ("wrapped-done", "only-waits", "--instruction wrapped-start"),
    ("loop", "launches-many-kernels", "--instruction loop_fusion"),
    ("sent", "exchange-with-host", "extract a kernel beside it"),
    ("noise", "stateful-random-numbers", "extract a kernel beside it"),
    ("state", "stateful-random-numbers", "extract a kernel beside it"),
    ("called_back", "python-callback", "extract a kernel beside it"),
    ("offloaded", "exchange-with-host", "extract a kernel beside it"),
    ("around_foreign", "target-not-registered", "--import MODULE"),
    ("marked", "launches-nothing", "extract what makes its operand"),
    ("foreign", "target-not-registered", "--import MODULE"),
    ("convolved", "convolution-without-algorithm", "autotuning"),
    ("of_pair", "tuple-parameter", "extract a kernel beside it"),
    ("far", "groups-of-several-nodes", "compile the job for one machine"),
    ("inner", "inside-another-instruction", "--instruction loop_fusion"),
    ("scattered", "inside-another-instruction", "--instruction wrapped-start"),
    ("carried", "launches-nothing", "--instruction before"),
    ("x", "launches-nothing", "--instruction before"),
]


@pytest.fixture(scope="module")
def module():
    found = parse_hlo_text(PROGRAM, "made")
    assert not [finding for finding in found.findings if finding.rule != "hlo-not-scheduled"], found.findings
    return found


@pytest.mark.parametrize("name, reference, hint", REFUSED)
def test_what_has_no_replay_is_refused_with_what_to_extract_instead(module, name, reference, hint):
    with pytest.raises(CannotExtract) as raised:
        classify_instruction(module, module.instructions[name])
    assert raised.value.reference == reference
    assert raised.value.what.startswith(name)
    assert hint in (raised.value.hint or "")


def test_operand_of_a_dynamic_shape_or_none_is_refused():
    """XLA:GPU takes only sizes that are fixed; a text that was cut may lack the operand itself."""
    text = "HloModule made, is_scheduled=true\n\nENTRY main {\n  x = f32[<=8]{0} parameter(0)\n"
    text += "  ROOT n = f32[<=8]{0} negate(x)\n}\n"
    module = parse_hlo_text(text, "made")
    with pytest.raises(CannotExtract) as raised:
        classify_instruction(module, module.instructions["n"])
    assert raised.value.reference == "dynamic-shape"
    assert "f32[<=8]" in raised.value.what
    without = replace(module.instructions["n"], operands=("gone",))
    with pytest.raises(CannotExtract, match="operand-missing") as raised:
        classify_instruction(module, without)
    assert "*.hlo.pb" in (raised.value.hint or "")


KINDS = [
    ("before", ReplayKind.KERNEL, 1, False),
    ("slice_fusion", ReplayKind.COPY, 1, False),
    ("copied", ReplayKind.COPY, 1, False),
    ("start", ReplayKind.COLLECTIVE, 4, True),
    ("wrapped-start", ReplayKind.COLLECTIVE, 4, True),
    ("product", ReplayKind.LIBRARY, 1, False),
    ("tuned", ReplayKind.LIBRARY, 1, False),
    ("attention", ReplayKind.FOREIGN, 1, False),
]


@pytest.mark.parametrize("name, kind, devices_count, has_done", KINDS)
def test_kind_of_replay_follows_from_the_instruction(module, name, kind, devices_count, has_done):
    found = classify_instruction(module, module.instructions[name])
    assert (found.kind, found.devices_count, found.has_done) == (kind, devices_count, has_done)


def test_registering_package_is_recorded_and_may_be_named(module):
    attention = classify_instruction(module, module.instructions["attention"]).registration
    assert attention is not None
    assert (attention.module, attention.package) == ("transformer_engine.jax", "transformer-engine-jax")
    product = classify_instruction(module, module.instructions["product"]).registration
    assert product is not None
    assert (product.target, product.module) == ("__cublas$lt$matmul", "")
    named = classify_instruction(module, module.instructions["foreign"], ["mine.kernels"])
    assert named.kind is ReplayKind.FOREIGN
    assert named.registration is not None
    assert named.registration.module == "mine.kernels"


def test_done_of_a_start_is_found(module):
    assert find_done(module, module.instructions["wrapped-start"]).name == "wrapped-done"
    assert find_done(module, module.instructions["before"]) is None


@pytest.mark.parametrize("looks_at_a_mask", [True, False])
def test_lengths_are_data_only_where_a_mask_is_looked_at(looks_at_a_mask):
    """A product of the same attention reads every element, whatever the lengths are."""
    last = "select(mask, x, n)" if looks_at_a_mask else "multiply(x, n)"
    text = f"""HloModule made, is_scheduled=true

fused {{
  mask = pred[8]{{0}} parameter(0)
  x = f32[8]{{0}} parameter(1)
  n = f32[8]{{0}} negate(x)
  ROOT r = f32[8]{{0}} {last}
}}

ENTRY main {{
  m = pred[8]{{0}} parameter(0)
  v = f32[8]{{0}} parameter(1)
  ROOT f = f32[8]{{0}} fusion(m, v), kind=kLoop, calls=fused, metadata={{op_name="jit(step)/attention/mul"}}
}}
"""
    assert any("lengths of sequences" in warning for warning in make_replay(text, "f").warnings) is looks_at_a_mask


def test_data_that_decides_the_time_is_warned_of():
    text = """HloModule made, is_scheduled=true

fused {
  table = f32[16,4]{1,0} parameter(0)
  places = s32[8]{0} parameter(1)
  ROOT g = f32[8,4]{1,0} gather(table, places), offset_dims={1}, collapsed_slice_dims={0}, start_index_map={0}, \
index_vector_dim=1, slice_sizes={1,4}
}

ENTRY main {
  table = f32[16,4]{1,0} parameter(0)
  places = s32[8]{0} parameter(1)
  ROOT f = f32[8,4]{1,0} fusion(table, places), kind=kLoop, calls=fused
}
"""
    warnings = make_replay(text, "f").warnings
    assert any("a trained router's differ" in warning for warning in warnings)
    assert any("p1.places" in warning and "--inputs DIR" in warning for warning in warnings)
