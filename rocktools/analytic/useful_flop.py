"""A transformer and the tokens of one step -> the useful FLOPs of that step, component by component.

Useful is what the algorithm asks for: products with weights, and the attention core. What the machine does beyond it
(rematerialized work, padding, dropped assignments, norms, sorting, collectives, the optimizer) is not in it, whatever
it costs; it belongs into ledgers of time and bytes. A product of an m x k with a k x n matrix is 2 m k n FLOPs.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from types import MappingProxyType

from rocktools.analytic.conventions import MEANING
from rocktools.analytic.model import Transformer
from rocktools.errors import UsageError, nearest_names
from rocktools.evidence import Evidence


@dataclass(frozen=True, slots=True, kw_only=True)
class FlopConventions:
    """What counts as useful; each field says what it decides."""

    training_factor: Fraction = field(
        default=Fraction(3),
        metadata={MEANING: "forward, and twice that for the gradients of inputs and weights; 1 counts inference"},
    )
    causal_factor: Fraction = field(
        default=Fraction(1, 2),
        metadata={MEANING: "part of the square of scores that a causal mask leaves; 1 counts the whole square"},
    )
    counts_core: bool = field(
        default=True, metadata={MEANING: "products of queries with keys, and of probabilities with values"}
    )
    counts_router: bool = field(default=True, metadata={MEANING: "products with the matrix that scores experts"})
    counts_head: bool = field(
        default=True, metadata={MEANING: "products with the output head, also where it is the embedding itself"}
    )
    counts_other_weights: bool = field(
        default=False,
        metadata={MEANING: "input embedding and norms, as if each token were multiplied by them; a lookup is free"},
    )


_MOST_SLOTS_RATIO = 1_000_000

CONVENTIONS: Mapping[str, FlopConventions] = MappingProxyType(
    {
        "maxtext": FlopConventions(),
        "palm": FlopConventions(causal_factor=Fraction(1), counts_other_weights=True),
        "weights": FlopConventions(counts_core=False),
        "six-n": FlopConventions(counts_core=False, counts_other_weights=True),
    }
)
"""Names of conventions in use: MaxText's; 6 N + 12 L H Q T (PaLM, appendix B); 6 times the weights of matrix products
times tokens; 6 times all (active) parameters times tokens."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FlopRow:
    """The useful FLOPs of one component in one step, of all devices.

    Attributes:
        component: of the model.
        basis: what is multiplied, for people.
        forward_flop: of the forward pass.
        useful_flop: forward times the training factor.
        slots_flop: what buffers of fixed capacity make of it, padding and drops as the factor says; None where nothing
            is said about capacity, or it does not matter.
    """

    component: str
    basis: str
    forward_flop: int
    useful_flop: int
    slots_flop: int | None = None

    @property
    def backward_flop(self) -> int:
        return self.useful_flop - self.forward_flop


@dataclass(frozen=True, slots=True, kw_only=True)
class FlopLedger:
    """The useful FLOPs of one step.

    Attributes:
        model: whose they are.
        tokens_count: of the step, of all devices, each once; assignments to experts are no tokens.
        sequence_tokens: length of a sequence.
        conventions: what counts.
        capacity_factor: of the buffers of experts; None where nothing is said.
        rows: components that have any.
        evidence: of every number.
    """

    model: Transformer
    tokens_count: int
    sequence_tokens: int
    conventions: FlopConventions
    capacity_factor: Fraction | None
    rows: tuple[FlopRow, ...]
    evidence: Evidence = Evidence.ANALYTIC

    @property
    def useful_flop(self) -> int:
        return sum(row.useful_flop for row in self.rows)

    @property
    def useful_flop_per_token(self) -> float:
        return self.useful_flop / self.tokens_count

    def share(self, component: str) -> float:
        """Share of a component, 0..1."""
        return self.row(component).useful_flop / self.useful_flop

    def row(self, *components: str) -> FlopRow:
        """The row of a component, or that of several added up.

        Raises:
            UsageError: the ledger has no such component.
        """
        known = {row.component: row for row in self.rows}
        for name in components:
            if name not in known:
                near = nearest_names(name, known) or known
                raise UsageError("unknown-component", f"the ledger has no component {name!r}", hint=", ".join(near))
        rows = [known[name] for name in components]
        return FlopRow(
            component=" + ".join(components),
            basis="; ".join(row.basis for row in rows),
            forward_flop=sum(row.forward_flop for row in rows),
            useful_flop=sum(row.useful_flop for row in rows),
        )


def find_conventions(name: str) -> FlopConventions:
    """The conventions of that name.

    Raises:
        UsageError: there are none.
    """
    if name not in CONVENTIONS:
        near = nearest_names(name, CONVENTIONS) or CONVENTIONS
        raise UsageError("unknown-convention", f"no conventions are called {name!r}", hint=", ".join(near))
    return CONVENTIONS[name]


def build_flop_ledger(
    model: Transformer,
    *,
    tokens_count: int,
    sequence_tokens: int,
    conventions: FlopConventions | None = None,
    capacity_factor: Fraction | None = None,
) -> FlopLedger:
    """The useful FLOPs of a step.

    Args:
        tokens_count: of all devices and microsteps.
        sequence_tokens: length of a sequence, to which attention is confined.
        conventions: what counts; None: those of MaxText.
        capacity_factor: slots of each expert are this times the assignments that balanced routing would give it.

    Raises:
        UsageError: the tokens are no whole number of sequences, a count is below 1, or the conventions count nothing.
    """
    require_sequences(tokens_count, sequence_tokens)
    chosen = conventions or FlopConventions()
    forward = {
        **_attention(model, tokens_count, sequence_tokens, chosen),
        **_feed_forward(model, tokens_count, chosen),
        **_ends(model, tokens_count, chosen),
    }
    if not chosen.training_factor:
        raise UsageError("nothing-counted", "a training factor of 0 counts nothing", hint="1 counts inference")
    slots_ratio = _slots_ratio(model, tokens_count, capacity_factor)
    rows = []
    for (component, basis), flop in forward.items():
        useful = flop * chosen.training_factor
        slots = useful * slots_ratio if component == "experts" and slots_ratio is not None else None
        rows.append(
            FlopRow(
                component=component,
                basis=basis,
                forward_flop=round(flop),
                useful_flop=round(useful),
                slots_flop=None if slots is None else round(slots),
            )
        )
    return FlopLedger(
        model=model,
        tokens_count=tokens_count,
        sequence_tokens=sequence_tokens,
        conventions=chosen,
        capacity_factor=capacity_factor,
        rows=tuple(row for row in rows if row.useful_flop),
    )


def require_sequences(tokens_count: int, sequence_tokens: int) -> int:
    """How many sequences the tokens are.

    Raises:
        UsageError: no whole number, or a count is below 1.
    """
    if sequence_tokens < 1 or tokens_count < 1 or tokens_count % sequence_tokens:
        raise UsageError(
            "tokens-are-no-sequences",
            f"{tokens_count:,} tokens are no whole number of sequences of {sequence_tokens:,}",
            hint="count every slot of a padded batch, and the tokens of all devices and microsteps",
        )
    return tokens_count // sequence_tokens


def core_forward_flop(model: Transformer, tokens_count: int, sequence_tokens: int, causal: Fraction) -> Fraction:
    """FLOPs of the attention cores of all layers, forward.

    Args:
        causal: part of the square of scores that counts.
    """
    attention = model.attention
    pairs = tokens_count * sequence_tokens * attention.heads_count
    return model.layers_count * 2 * pairs * (attention.score_width + attention.value_width) * causal


_Forward = dict[tuple[str, str], Fraction]


def _attention(model: Transformer, tokens_count: int, sequence_tokens: int, conventions: FlopConventions) -> _Forward:
    names = ", ".join(matrix.name for matrix in model.attention.matrices)
    weights = model.layers_count * model.attention_weights_count
    found = {("attention projections", f"{names}; {model.layers_count} layers"): Fraction(2 * tokens_count * weights)}
    if conventions.counts_core:
        basis = f"queries x keys, probabilities x values over {sequence_tokens:,} tokens"
        core = core_forward_flop(model, tokens_count, sequence_tokens, conventions.causal_factor)
        found["attention core", basis] = core
    return found


def _feed_forward(model: Transformer, tokens_count: int, conventions: FlopConventions) -> _Forward:
    found: _Forward = {}

    def add(component: str, basis: str, weights_count: int) -> None:
        found[component, basis] = Fraction(2 * tokens_count * weights_count)

    if model.mlp_width is not None:
        each = model.feed_forward(model.mlp_width)
        basis = f"{len(each)} matrices {model.width:,} x {model.mlp_width:,}; {model.dense_layers_count} layers"
        add("mlp", basis, model.dense_layers_count * model.feed_forward_weights_count(model.mlp_width))
    experts = model.experts
    if experts is None:
        return found
    layers = model.expert_layers_count
    if conventions.counts_router:
        add("router", f"{model.width:,} x {experts.count}; {layers} layers", layers * model.router_weights_count)
    weights = model.feed_forward_weights_count(experts.width)
    each = model.feed_forward(experts.width)
    what = f"{len(each)} matrices {model.width:,} x {experts.width:,}; {layers} layers"
    add("experts", f"{experts.top_k} of {experts.count} experts, {what}", layers * experts.top_k * weights)
    if experts.shared_count:
        add("shared experts", f"{experts.shared_count}, {what}", layers * experts.shared_count * weights)
    return found


def _ends(model: Transformer, tokens_count: int, conventions: FlopConventions) -> _Forward:
    found: _Forward = {}
    if conventions.counts_head:
        basis = f"{model.width:,} x {model.vocabulary_count:,}"
        found["head", basis] = Fraction(2 * tokens_count * model.head_weights_count)
    if conventions.counts_other_weights:
        other = model.norm_weights_count + (0 if model.is_head_tied else model.head_weights_count)
        found["other weights", "input embedding and norms, as if multiplied"] = Fraction(2 * tokens_count * other)
    return found


def _slots_ratio(model: Transformer, tokens_count: int, capacity_factor: Fraction | None) -> Fraction | None:
    """Slots over assignments; None where there are no experts, or nothing is said."""
    if model.experts is None or capacity_factor is None:
        return None
    if not 0 < capacity_factor <= _MOST_SLOTS_RATIO:
        what = f"the capacity factor must be above 0 and at most {_MOST_SLOTS_RATIO:,}"
        raise UsageError("capacity-factor", what)
    assignments = tokens_count * model.experts.top_k
    slots = model.experts.count * -(-assignments * capacity_factor // model.experts.count)
    return Fraction(slots, assignments)
