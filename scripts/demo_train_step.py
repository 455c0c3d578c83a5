"""The training step behind `rocktools demo`: a decoder with routed experts, in the sizes of Mixtral-8x22B.

`scripts/demo_programs` compiles it ahead of time for eight MI355X, without any device, and packs what XLA dumps. Four
groups of two devices: parameters are sharded over all (FSDP), experts within a group. Layers are scanned and
rematerialized, gradients accumulated over microsteps. Capacity routing: each expert takes a fixed number of tokens.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

SHARDED, EXPERTS = ("fsdp", "expert"), "expert"
HIDDEN, VOCABULARY, SEQUENCE = 6144, 32768, 4096
HEADS, KEY_HEADS, HEAD_SIZE = 48, 8, 128
EXPERTS_COUNT, CHOSEN_COUNT, CAPACITY_FACTOR = 8, 2, 1.25
MASKED = -1e30


@dataclass(frozen=True, slots=True, kw_only=True)
class StepSize:
    """What differs between the programs of the demo.

    Attributes:
        layers: scanned layers.
        sequences_per_device: of a microstep.
        microsteps: whose gradients are accumulated.
        intermediate: width of an expert.
        query_parts: parts of the sequence for which attention is calculated one after the other.
    """

    layers: int = 4
    sequences_per_device: int = 4
    microsteps: int = 2
    intermediate: int = 16384
    query_parts: int = 1


def short(devices: Sequence[Any]) -> Any:
    """Four layers: the default of the demo."""
    return build_step(devices, StepSize())


def small_batch(devices: Sequence[Any]) -> Any:
    """Four layers, and half the sequences."""
    return build_step(devices, StepSize(sequences_per_device=2))


def wide_experts(devices: Sequence[Any]) -> Any:
    """Four layers, and experts an eighth wider: more work in the same operations."""
    return build_step(devices, StepSize(intermediate=18432))


def split_attention(devices: Sequence[Any]) -> Any:
    """Four layers, and attention in two parts: the same work in twice as many operations."""
    return build_step(devices, StepSize(query_parts=2))


def full(devices: Sequence[Any]) -> Any:
    """All 56 layers of Mixtral-8x22B."""
    return build_step(devices, StepSize(layers=56))


def build_step(devices: Sequence[Any], size: StepSize) -> Any:
    """The jitted step and its arguments, for `rocktools aot compile`; it needs an even number of devices."""
    import jax
    import jax.numpy as jnp
    import numpy as np
    from jax.sharding import Mesh, NamedSharding, PartitionSpec

    mesh = Mesh(np.array(devices).reshape(len(devices) // 2, 2), SHARDED)

    def array(shape: tuple[int, ...], spec: tuple[Any, ...], dtype: Any = jnp.bfloat16) -> Any:
        return jax.ShapeDtypeStruct(shape, dtype, sharding=NamedSharding(mesh, PartitionSpec(*spec)))

    params = parameter_shapes(size, array)
    batch = (size.microsteps, size.sequences_per_device * len(devices), SEQUENCE)
    tokens = array(batch, (None, SHARDED), jnp.int32)
    step = jax.jit(make_step(mesh, size.query_parts), donate_argnums=(0, 1, 2))
    return step, (params, params, params, tokens, tokens)


def parameter_shapes(size: StepSize, array: Any) -> dict[str, Any]:
    """Parameters by name; those of the layers are stacked."""
    layers = size.layers
    key_width = (layers, HIDDEN, KEY_HEADS, HEAD_SIZE)
    expert = (layers, EXPERTS_COUNT, HIDDEN, size.intermediate)
    return {
        "embedding": array((VOCABULARY, HIDDEN), (None, SHARDED)),
        "lm_head": array((HIDDEN, VOCABULARY), (SHARDED,)),
        "final_norm": array((HIDDEN,), (None,)),
        "layers": {
            "pre_norm": array((layers, HIDDEN), (None, None)),
            "post_norm": array((layers, HIDDEN), (None, None)),
            "query": array((layers, HIDDEN, HEADS, HEAD_SIZE), (None, SHARDED)),
            "key": array(key_width, (None, SHARDED)),
            "value": array(key_width, (None, SHARDED)),
            "out": array((layers, HEADS, HEAD_SIZE, HIDDEN), (None, None, None, SHARDED)),
            "gate": array((layers, HIDDEN, EXPERTS_COUNT), (None, None)),
            "wi_0": array(expert, (None, EXPERTS, "fsdp")),
            "wi_1": array(expert, (None, EXPERTS, "fsdp")),
            "wo": array((layers, EXPERTS_COUNT, size.intermediate, HIDDEN), (None, EXPERTS, None, "fsdp")),
        },
    }


def normalize(x: Any, scale: Any) -> Any:
    """RMS norm; the mean in FP32."""
    import jax
    import jax.numpy as jnp

    mean_square = jnp.mean(jnp.square(x.astype(jnp.float32)), axis=-1, keepdims=True)
    return (x * jax.lax.rsqrt(mean_square + 1e-5)).astype(x.dtype) * scale


def attend(hidden: Any, params: dict[str, Any], query_parts: int) -> Any:
    """Causal attention with grouped keys, its scores in FP32."""
    import jax
    import jax.numpy as jnp

    scope = jax.named_scope
    batch, length, _ = hidden.shape
    with scope("q_proj"):
        query = jnp.einsum("bsd,dhk->bshk", hidden, params["query"])
    with scope("k_proj"):
        key = jnp.einsum("bsd,dhk->bshk", hidden, params["key"])
    with scope("v_proj"):
        value = jnp.einsum("bsd,dhk->bshk", hidden, params["value"])
    with scope("core"):
        query = query.reshape(batch, length, KEY_HEADS, HEADS // KEY_HEADS, HEAD_SIZE)
        is_seen = jnp.tril(jnp.ones((length, length), dtype=bool))
        part = length // query_parts
        starts = range(0, length, part)
        parts = [mix_values(query[:, at : at + part], key, value, is_seen[at : at + part]) for at in starts]
        mixed = jnp.concatenate(parts, axis=1).reshape(batch, length, HEADS, HEAD_SIZE)
    with scope("out_proj"):
        return jnp.einsum("bshk,hkd->bsd", mixed, params["out"])


def mix_values(query: Any, key: Any, value: Any, is_seen: Any) -> Any:
    """The values that each query attends to."""
    import jax
    import jax.numpy as jnp

    scores = jnp.einsum("bsgmk,btgk->bgmst", query, key).astype(jnp.float32) * HEAD_SIZE**-0.5
    weights = jax.nn.softmax(jnp.where(is_seen, scores, MASKED), axis=-1).astype(query.dtype)
    return jnp.einsum("bgmst,btgk->bsgmk", weights, value)


def route(hidden: Any, gate: Any) -> tuple[Any, Any]:
    """Which tokens each place of each expert takes, and the same with weights: (sequence, token, expert, place)."""
    import jax
    import jax.numpy as jnp

    scope = jax.named_scope
    batch, length, _ = hidden.shape
    with scope("router_gate"):
        scores = jnp.einsum("bsd,de->bse", hidden, gate).astype(jnp.float32)
    with scope("router_topk"):
        weights, chosen = jax.lax.top_k(scores, CHOSEN_COUNT)
    with scope("router_weights"):
        weights = jax.nn.softmax(weights, axis=-1).astype(hidden.dtype)
    capacity = int(length * CHOSEN_COUNT / EXPERTS_COUNT * CAPACITY_FACTOR)
    with scope("router_masks"):
        is_chosen = jax.nn.one_hot(chosen, EXPERTS_COUNT, dtype=jnp.int32)
        in_turn = is_chosen.reshape(batch, length * CHOSEN_COUNT, EXPERTS_COUNT)
        place = jnp.cumsum(in_turn, axis=1).reshape(is_chosen.shape) * is_chosen - 1
        takes = jax.nn.one_hot(place, capacity, dtype=hidden.dtype) * is_chosen[..., None].astype(hidden.dtype)
        return takes.sum(axis=2), jnp.einsum("bskec->bsec", takes * weights[..., None, None])


def apply_experts(hidden: Any, params: dict[str, Any], mesh: Any) -> Any:
    """Tokens to the experts, their gated MLPs, and back: all-to-alls between the devices of a group."""
    import jax
    import jax.numpy as jnp
    from jax.sharding import NamedSharding, PartitionSpec

    def place(rows: Any, *spec: Any) -> Any:
        return jax.lax.with_sharding_constraint(rows, NamedSharding(mesh, PartitionSpec(*spec)))

    scope = jax.named_scope
    takes, combines = route(hidden, params["gate"])
    with scope("dispatch"):
        rows = place(jnp.einsum("bsec,bsd->ebcd", takes, hidden), None, SHARDED)
        rows = place(rows, EXPERTS, "fsdp")
    with scope("wi_0"):
        gated = jnp.einsum("ebcd,edf->ebcf", rows, params["wi_0"])
    with scope("wi_1"):
        up = jnp.einsum("ebcd,edf->ebcf", rows, params["wi_1"])
    with scope("ffn_act"):
        inner = jax.nn.silu(gated) * up
    with scope("wo"):
        rows = place(jnp.einsum("ebcf,efd->ebcd", inner, params["wo"]), EXPERTS, "fsdp")
    with scope("combine"):
        rows = place(rows, None, SHARDED)
        return jnp.einsum("bsec,ebcd->bsd", combines, rows)


def make_step(mesh: Any, query_parts: int) -> Any:
    """(parameters, two moments, tokens, targets) -> the same after one step of AdamW, and the loss."""
    import jax
    import jax.numpy as jnp
    from jax.sharding import NamedSharding, PartitionSpec

    scope = jax.named_scope
    by_sequence = NamedSharding(mesh, PartitionSpec(SHARDED))

    def apply_layer(x: Any, params: dict[str, Any]) -> tuple[Any, None]:
        with scope("pre_attention_norm"):
            hidden = normalize(x, params["pre_norm"])
        with scope("attention"):
            x = x + attend(hidden, params, query_parts)
        with scope("post_attention_norm"):
            hidden = normalize(x, params["post_norm"])
        x = x + apply_experts(hidden, params, mesh)
        return jax.lax.with_sharding_constraint(x, by_sequence), None

    def find_loss(params: dict[str, Any], tokens: Any, targets: Any) -> Any:
        with scope("embedding"):
            x = params["embedding"][tokens]
        x, _ = jax.lax.scan(jax.checkpoint(apply_layer), x, params["layers"])
        with scope("final_norm"):
            x = normalize(x, params["final_norm"])
        with scope("lm_head"):
            logits = jnp.einsum("bsd,dv->bsv", x, params["lm_head"])
        with scope("loss"):
            logits = logits.astype(jnp.float32)
            of_target = jnp.take_along_axis(logits, targets[..., None], axis=-1)[..., 0]
            return (jax.nn.logsumexp(logits, axis=-1) - of_target).mean()

    def train_step(params: Any, first: Any, second: Any, tokens: Any, targets: Any) -> Any:
        def accumulate(total: Any, batch: Any) -> Any:
            loss, gradients = jax.value_and_grad(find_loss)(params, *batch)
            with scope("grad_accum"):
                return jax.tree.map(lambda a, b: a + b.astype(jnp.float32), total, gradients), loss

        start = jax.tree.map(lambda each: jnp.zeros(each.shape, jnp.float32), params)
        gradients, losses = jax.lax.scan(accumulate, start, (tokens, targets))
        with scope("optimizer"):
            norm = jnp.sqrt(sum(jnp.sum(jnp.square(each)) for each in jax.tree.leaves(gradients)))
            clip = jnp.minimum(1.0, 1.0 / norm)

            def update(param: Any, m: Any, v: Any, gradient: Any) -> tuple[Any, Any, Any]:
                gradient = gradient * clip
                m = (0.9 * m + 0.1 * gradient).astype(m.dtype)
                v = (0.95 * v + 0.05 * jnp.square(gradient)).astype(v.dtype)
                change = m / (jnp.sqrt(v) + 1e-8) + 0.1 * param
                return (param - 1e-4 * change).astype(param.dtype), m, v

            updated = jax.tree.map(update, params, first, second, gradients)
        is_tuple = lambda each: isinstance(each, tuple)  # noqa: E731
        parts = (jax.tree.map(lambda each, i=i: each[i], updated, is_leaf=is_tuple) for i in range(3))
        return (*parts, losses.mean())

    return train_step
