"""The dimensions of a decoder-only transformer -> its matrices and how many parameters it has.

Dense layers, mixtures of experts, grouped-query and latent attention; RMS norms, no biases. Whatever counts FLOPs or
bytes reads the matrices here, so that a weight is counted once and the same everywhere. Knows no device and no batch.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class AttentionKind(str, Enum):
    """How keys and values are made."""

    GROUPED = "grouped"  # several query heads share one pair; all heads with their own are the same with groups of one
    LATENT = "latent"  # from a narrow latent vector (MLA)

    def __str__(self) -> str:
        return self.value


@dataclass(frozen=True, slots=True, kw_only=True)
class Matrix:
    """A weight matrix that every token of its part is multiplied by.

    Attributes:
        name: of the projection.
        rows_count, columns_count: width that goes in, width that comes out.
    """

    name: str
    rows_count: int
    columns_count: int

    @property
    def weights_count(self) -> int:
        return self.rows_count * self.columns_count


@dataclass(frozen=True, slots=True, kw_only=True)
class Attention:
    """The attention of one layer.

    Attributes:
        kind: how keys and values are made.
        heads_count: query heads.
        kv_heads_count: heads of keys and values.
        score_width: of one head of queries and keys, which the scores are summed over.
        value_width: of one head of values.
        matrices: the projections.
        norm_weights_count: of norms inside, beside the one in front of it.
    """

    kind: AttentionKind
    heads_count: int
    kv_heads_count: int
    score_width: int
    value_width: int
    matrices: tuple[Matrix, ...]
    norm_weights_count: int = 0

    @property
    def operand_width(self) -> int:
        """Elements of a token's queries, keys, values and output together."""
        heads = self.heads_count * (self.score_width + self.value_width)
        return heads + self.kv_heads_count * (self.score_width + self.value_width)

    @property
    def rotated_width(self) -> int:
        """Elements of a token's queries and keys."""
        return (self.heads_count + self.kv_heads_count) * self.score_width


def grouped_attention(*, width: int, heads_count: int, kv_heads_count: int, head_width: int) -> Attention:
    """Grouped-query attention; with as many heads of keys as of queries it is multi-head attention.

    Args:
        width: of the model.
    """
    queries, keys = heads_count * head_width, kv_heads_count * head_width
    return Attention(
        kind=AttentionKind.GROUPED,
        heads_count=heads_count,
        kv_heads_count=kv_heads_count,
        score_width=head_width,
        value_width=head_width,
        matrices=(
            Matrix(name="query", rows_count=width, columns_count=queries),
            Matrix(name="key", rows_count=width, columns_count=keys),
            Matrix(name="value", rows_count=width, columns_count=keys),
            Matrix(name="output", rows_count=queries, columns_count=width),
        ),
    )


def latent_attention(
    *,
    width: int,
    heads_count: int,
    query_rank: int,
    kv_rank: int,
    plain_width: int,
    rotated_width: int,
    value_width: int,
) -> Attention:
    """Multi-head latent attention as it is trained: keys and values are expanded for every head.

    Args:
        width: of the model.
        query_rank, kv_rank: widths of the two latent vectors.
        plain_width, rotated_width: parts of a head of queries and keys without and with rotary embedding. The rotated
            part of the keys is one for all heads.
        value_width: of a head of values.
    """
    score_width = plain_width + rotated_width
    return Attention(
        kind=AttentionKind.LATENT,
        heads_count=heads_count,
        kv_heads_count=heads_count,
        score_width=score_width,
        value_width=value_width,
        matrices=(
            Matrix(name="query down", rows_count=width, columns_count=query_rank),
            Matrix(name="query up", rows_count=query_rank, columns_count=heads_count * score_width),
            Matrix(name="key and value down", rows_count=width, columns_count=kv_rank + rotated_width),
            Matrix(
                name="key and value up", rows_count=kv_rank, columns_count=heads_count * (plain_width + value_width)
            ),
            Matrix(name="output", rows_count=heads_count * value_width, columns_count=width),
        ),
        norm_weights_count=query_rank + kv_rank,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Experts:
    """The mixture of experts of one layer.

    Attributes:
        count: experts that are chosen from.
        top_k: experts that each token is sent to.
        width: of one expert.
        shared_count: experts of the same width that every token goes through.
    """

    count: int
    top_k: int
    width: int
    shared_count: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Transformer:
    """A decoder-only transformer.

    Attributes:
        name, title: short and for people.
        sources: where the dimensions were published.
        layers_count: all of them.
        width: of the vector of a token between layers.
        attention: of each layer.
        mlp_width: of the layers without experts; None where every layer has experts.
        experts: of the other layers; None where there are none.
        dense_layers_count: layers without experts.
        is_gated: whether feed-forward parts have three matrices (gate, up, down) or two.
        vocabulary_count: rows of the embedding, padding of the vocabulary included.
        is_head_tied: whether the output head is the embedding itself.
    """

    name: str
    title: str
    sources: tuple[str, ...]
    layers_count: int
    width: int
    attention: Attention
    mlp_width: int | None
    experts: Experts | None
    dense_layers_count: int
    is_gated: bool
    vocabulary_count: int
    is_head_tied: bool

    @property
    def expert_layers_count(self) -> int:
        return self.layers_count - self.dense_layers_count

    @property
    def attention_weights_count(self) -> int:
        """Of the projections of one layer."""
        return sum(matrix.weights_count for matrix in self.attention.matrices)

    @property
    def router_weights_count(self) -> int:
        """Of one layer with experts."""
        return 0 if self.experts is None else self.width * self.experts.count

    @property
    def head_weights_count(self) -> int:
        return self.width * self.vocabulary_count

    @property
    def norm_weights_count(self) -> int:
        """Of the whole model: two in each layer, one before the head, and those inside of attention."""
        return self.layers_count * (2 * self.width + self.attention.norm_weights_count) + self.width

    @property
    def parameters_count(self) -> int:
        """All of them, every expert included."""
        experts = self.experts
        each = 0 if experts is None else experts.count + experts.shared_count
        return self._parameters_count(each)

    @property
    def active_parameters_count(self) -> int:
        """Those that one token goes through, input embedding and norms included."""
        experts = self.experts
        each = 0 if experts is None else experts.top_k + experts.shared_count
        return self._parameters_count(each)

    def feed_forward(self, width: int) -> tuple[Matrix, ...]:
        """The matrices of a feed-forward part, or of one expert, of that inner width."""
        into = ("gate", "up") if self.is_gated else ("up",)
        return (
            *(Matrix(name=name, rows_count=self.width, columns_count=width) for name in into),
            Matrix(name="down", rows_count=width, columns_count=self.width),
        )

    def feed_forward_weights_count(self, width: int) -> int:
        """Weights of such a part."""
        return sum(matrix.weights_count for matrix in self.feed_forward(width))

    def _parameters_count(self, experts_count: int) -> int:
        dense = 0 if self.mlp_width is None else self.feed_forward_weights_count(self.mlp_width)
        expert = 0 if self.experts is None else self.feed_forward_weights_count(self.experts.width)
        return (
            self.layers_count * self.attention_weights_count
            + self.dense_layers_count * dense
            + self.expert_layers_count * (experts_count * expert + self.router_weights_count)
            + self.head_weights_count * (1 if self.is_head_tied else 2)
            + self.norm_weights_count
        )
