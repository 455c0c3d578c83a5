"""Useful FLOPs, against the matrix products of transformers that JAX traces: written out, and their gradients taken."""

from __future__ import annotations

import math
from fractions import Fraction

import pytest

from rocktools.analytic.model_file import parse_model, read_model
from rocktools.analytic.useful_flop import (
    CONVENTIONS,
    FlopConventions,
    build_flop_ledger,
    core_forward_flop,
    find_conventions,
    require_sequences,
)
from rocktools.errors import UsageError

HEAD = """
schema: rocktools.model/1
model: tiny
title: tiny
sources: [made for this test]
vocabulary: 56
"""
GROUPED = "attention: {kind: grouped, heads: 6, kv_heads: 2, head_width: 8}\n"
LATENT = (
    "attention: {kind: latent, heads: 4, query_rank: 10, kv_rank: 6, plain_width: 8, rotated_width: 4, "
    "value_width: 5}\n"
)
MODELS = {
    "dense": f"{HEAD}layers: 3\nwidth: 24\n{GROUPED}mlp: {{width: 40}}\nhead: untied\n",
    "ungated, tied": f"{HEAD}layers: 2\nwidth: 24\n{GROUPED}mlp: {{width: 40}}\ngated: false\nhead: tied\n",
    "experts": f"{HEAD}layers: 2\nwidth: 24\n{GROUPED}experts: {{count: 4, top_k: 2, width: 20}}\nhead: untied\n",
    "latent, shared, first layer dense": f"{HEAD}layers: 3\nwidth: 24\n{LATENT}mlp: {{width: 40, layers: 1}}\n"
    "experts: {count: 4, top_k: 3, width: 12, shared: 2}\nhead: untied\n",
}
WHOLE_SQUARE = FlopConventions(causal_factor=Fraction(1))
SEQUENCE = 16


def _shapes(model) -> dict[str, tuple[int, ...]]:
    """Every weight that is multiplied, layer by layer."""
    found = {"head": (model.width, model.vocabulary_count)}
    inner = ("gate", "up", "down") if model.is_gated else ("up", "down")

    def feed_forward(place: str, width: int, copies: tuple[int, ...] = ()) -> None:
        for name in inner:
            shape = (width, model.width) if name == "down" else (model.width, width)
            found[f"{place}.{name}"] = (*copies, *shape)

    for layer in range(model.layers_count):
        for matrix in model.attention.matrices:
            found[f"{layer}.{matrix.name}"] = (matrix.rows_count, matrix.columns_count)
        if layer < model.dense_layers_count:
            feed_forward(f"{layer}.mlp", model.mlp_width)
            continue
        experts = model.experts
        found[f"{layer}.router"] = (model.width, experts.count)
        feed_forward(f"{layer}.experts", experts.width, (experts.count,))
        for number in range(experts.shared_count):
            feed_forward(f"{layer}.shared{number}", experts.width)
    return found


def _forward(model, weights, x):
    """Logits of one sequence; every score is calculated, as the convention of the whole square has it."""
    import jax
    import jax.numpy as jnp

    def feed_forward(place, values):
        up = values @ weights[f"{place}.up"]
        inner = jax.nn.silu(values @ weights[f"{place}.gate"]) * up if model.is_gated else jax.nn.gelu(up)
        return inner @ weights[f"{place}.down"]

    def experts(layer, values):
        gates, chosen = jax.lax.top_k(jax.nn.softmax(values @ weights[f"{layer}.router"]), model.experts.top_k)
        picked = {name: weights[f"{layer}.experts.{name}"][chosen] for name in ("gate", "up", "down")}
        spread = [jnp.einsum("td,tkdf->tkf", values, picked[name]) for name in ("gate", "up")]
        out = jnp.einsum("tkf,tkfd->tkd", jax.nn.silu(spread[0]) * spread[1], picked["down"])
        shared = [feed_forward(f"{layer}.shared{i}", values) for i in range(model.experts.shared_count)]
        return sum(shared, (gates[..., None] * out).sum(axis=1))

    def heads(values, width):
        return values.reshape(values.shape[0], -1, width)

    def attention(layer, values):
        of = model.attention
        if "query" in {matrix.name for matrix in of.matrices}:
            queries, keys, held = (values @ weights[f"{layer}.{name}"] for name in ("query", "key", "value"))
            queries, keys, held = heads(queries, 8), heads(keys, 8), heads(held, 8)
            keys, held = (jnp.repeat(each, of.heads_count // of.kv_heads_count, axis=1) for each in (keys, held))
        else:
            queries = heads(values @ weights[f"{layer}.query down"] @ weights[f"{layer}.query up"], 12)
            down = values @ weights[f"{layer}.key and value down"]
            both = heads(down[:, :6] @ weights[f"{layer}.key and value up"], 13)
            rotated = jnp.repeat(down[:, None, 6:], of.heads_count, axis=1)
            keys, held = jnp.concatenate([both[..., :8], rotated], axis=-1), both[..., 8:]
        scores = jax.nn.softmax(jnp.einsum("she,the->hst", queries, keys))
        out = jnp.einsum("hst,the->she", scores, held)
        return out.reshape(out.shape[0], -1) @ weights[f"{layer}.output"]

    for layer in range(model.layers_count):
        x = x + attention(layer, x)
        x = x + (feed_forward(f"{layer}.mlp", x) if layer < model.dense_layers_count else experts(layer, x))
    return x @ weights["head"]


def _products_flop(jaxpr) -> int:
    """FLOPs of every dot_general in a traced program, those of inner programs too."""
    total = 0
    for equation in jaxpr.eqns:
        if equation.primitive.name == "dot_general":
            (contracted, _), _ = equation.params["dimension_numbers"]
            lengths = (equation.invars[0].aval.shape[axis] for axis in contracted)
            total += 2 * math.prod(equation.outvars[0].aval.shape) * math.prod(lengths)
        for inner in equation.params.values():
            total += _products_flop(getattr(inner, "jaxpr", inner)) if hasattr(inner, "jaxpr") else 0
    return total


@pytest.mark.parametrize("text", MODELS.values(), ids=MODELS)
def test_useful_flop_are_those_of_the_products_that_jax_traces(text):
    jax = pytest.importorskip("jax")
    model = parse_model(text, source="tiny.yaml")
    weights = {name: jax.ShapeDtypeStruct(shape, "float32") for name, shape in _shapes(model).items()}
    x = jax.ShapeDtypeStruct((SEQUENCE, model.width), "float32")

    def loss(weights, x):
        return (_forward(model, weights, x) ** 2).sum()

    forward = _products_flop(jax.make_jaxpr(loss)(weights, x).jaxpr)
    training = _products_flop(jax.make_jaxpr(jax.value_and_grad(loss, argnums=(0, 1)))(weights, x).jaxpr)
    ledger = build_flop_ledger(model, tokens_count=SEQUENCE, sequence_tokens=SEQUENCE, conventions=WHOLE_SQUARE)
    assert sum(row.forward_flop for row in ledger.rows) == forward
    assert ledger.useful_flop == training


@pytest.mark.parametrize("text", MODELS.values(), ids=MODELS)
def test_parameters_are_those_of_the_weights_norms_and_embedding(text):
    model = parse_model(text, source="tiny.yaml")
    products = sum(math.prod(shape) for shape in _shapes(model).values())
    norms = (2 * model.layers_count + 1) * model.width + (16 * model.layers_count if "latent" in text else 0)
    embedding = 0 if model.is_head_tied else 24 * 56
    assert model.parameters_count == products + norms + embedding


@pytest.mark.parametrize("causal", [Fraction(1), Fraction(1, 2)])
def test_half_the_square_is_what_a_mask_leaves_of_long_sequences(causal):
    """Of s x s scores a mask leaves s (s + 1) / 2: half of the square, and 1 / (2 s) of it more."""
    model = read_model("llama-3-8b")
    kept = sum(1 for query in range(512) for key in range(512) if key <= query or causal == 1)
    counted = core_forward_flop(model, 512, 512, causal)
    exact = model.layers_count * 2 * kept * model.attention.heads_count * 2 * model.attention.score_width
    assert exact / counted == pytest.approx(1 if causal == 1 else 1 + 1 / 512)


def test_flop_per_token_grow_by_attention_alone():
    model = read_model("llama-3-70b")
    short, long = (build_flop_ledger(model, tokens_count=65536, sequence_tokens=length) for length in (4096, 8192))
    assert {row.component for row in short.rows if row.useful_flop != long.row(row.component).useful_flop} == {
        "attention core"
    }
    assert long.row("attention core").useful_flop == 2 * short.row("attention core").useful_flop


def test_flop_are_exact_integers_above_what_floats_hold():
    """Mixtral 8x22B at 2^40 tokens: 2.7e23 FLOP, exactly 2^20 times those of 2^20 tokens."""
    ledger = build_flop_ledger(read_model("mixtral-8x22b"), tokens_count=2**40, sequence_tokens=4096)
    small = build_flop_ledger(read_model("mixtral-8x22b"), tokens_count=2**20, sequence_tokens=4096)
    assert ledger.useful_flop == small.useful_flop * 2**20


def test_named_conventions_are_the_formulas_that_they_are_known_by():
    """6 N T; 6 W T; (6 N + 12 L H Q T) per token, N of all parameters, W of those in products."""
    model = read_model("llama-3-8b")
    tokens, length = 16384, 8192

    def flop(name):
        conventions = find_conventions(name)
        return build_flop_ledger(
            model, tokens_count=tokens, sequence_tokens=length, conventions=conventions
        ).useful_flop

    weights = model.parameters_count - model.norm_weights_count - model.head_weights_count
    assert flop("six-n") == 6 * model.parameters_count * tokens
    assert flop("weights") == 6 * weights * tokens == 6 * 7_504_658_432 * tokens
    assert flop("palm") == (6 * model.parameters_count + 12 * 32 * 32 * 128 * length) * tokens
    assert flop("maxtext") == (6 * weights + 6 * 32 * 32 * 128 * length) * tokens


def test_conventions_that_count_less_have_no_row_for_it():
    ledger = build_flop_ledger(
        read_model("mixtral-8x7b"),
        tokens_count=4096,
        sequence_tokens=4096,
        conventions=FlopConventions(counts_router=False, counts_head=False, counts_core=False),
    )
    assert [row.component for row in ledger.rows] == ["attention projections", "experts"]


@pytest.mark.parametrize(
    "factor, slots",
    [("1", 64), ("1.25", 80), ("1.26", 84), ("0.5", 32), ("1/3", 24)],  # 32 tokens x 2: 16 each; 20, 20.2 -> 21, 8, 6
)
def test_slots_are_rounded_up_for_each_expert(factor, slots):
    model = parse_model(MODELS["experts"], source="tiny.yaml")
    ledger = build_flop_ledger(model, tokens_count=32, sequence_tokens=16, capacity_factor=Fraction(factor))
    row = next(row for row in ledger.rows if row.component == "experts")
    assert Fraction(row.slots_flop, row.useful_flop) == Fraction(slots, 64)
    assert all(row.slots_flop is None for row in ledger.rows if row.component != "experts")


def test_capacity_says_nothing_about_a_dense_model():
    ledger = build_flop_ledger(
        read_model("llama-3-8b"), tokens_count=64, sequence_tokens=64, capacity_factor=Fraction(2)
    )
    assert all(row.slots_flop is None for row in ledger.rows)


@pytest.mark.parametrize("tokens, sequence", [(100, 64), (0, 64), (64, 0), (32, 64)])
def test_tokens_that_are_no_whole_sequences_are_refused(tokens, sequence):
    with pytest.raises(UsageError, match="tokens-are-no-sequences"):
        require_sequences(tokens, sequence)
    with pytest.raises(UsageError, match="tokens-are-no-sequences"):
        build_flop_ledger(read_model("llama-3-8b"), tokens_count=tokens, sequence_tokens=sequence)


def test_what_is_not_there_is_named_with_what_is():
    ledger = build_flop_ledger(read_model("llama-3-8b"), tokens_count=64, sequence_tokens=64)
    with pytest.raises(UsageError, match="no component 'experts'"):
        ledger.row("experts")
    with pytest.raises(UsageError, match="maxtext"):
        find_conventions("maxtxt")
    for factor in ("0", "-1", "1e7"):
        with pytest.raises(UsageError, match="above 0 and at most"):
            build_flop_ledger(
                read_model("mixtral-8x7b"), tokens_count=64, sequence_tokens=64, capacity_factor=Fraction(factor)
            )
    with pytest.raises(UsageError, match="nothing-counted"):
        build_flop_ledger(
            read_model("llama-3-8b"),
            tokens_count=64,
            sequence_tokens=64,
            conventions=FlopConventions(training_factor=Fraction(0)),
        )
    assert set(CONVENTIONS) == {"maxtext", "palm", "weights", "six-n"}
