"""What a step model takes for granted: each assumption by name, with the value that it has unless somebody changes it.

The defaults give the published figures of Llama 3 8B on an H100 (556 ms for 8,192 tokens, at most 67 % MFU). Text alone
does not fix them: other readings of it give other figures, and which one was meant is seen only where each is named.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from fractions import Fraction

from rocktools.analytic.conventions import MEANING


class AttentionKernel(str, Enum):
    """Whether scores stay on the chip."""

    FUSED = "fused"
    UNFUSED = "unfused"

    def __str__(self) -> str:
        return self.value


class MfuNumerator(str, Enum):
    """Which FLOPs a utilization counts."""

    MATMUL_WEIGHTS = "matmul_weights"  # of layers and head
    WITH_CORE = "matmul_weights_and_core"
    ALL_PARAMETERS = "all_parameters"  # active ones, input embedding and norms too

    def __str__(self) -> str:
        return self.value


class FlopShareOf(str, Enum):
    """What a share of FLOPs is taken of."""

    EVERYTHING = "everything"
    MATMULS = "matmuls"

    def __str__(self) -> str:
        return self.value


@dataclass(frozen=True, slots=True, kw_only=True)
class StepConventions:
    """The assumptions of a step model; each field says what it decides."""

    element_bytes: Fraction = field(
        default=Fraction(2), metadata={MEANING: "of weights, activations and scores (BF16)"}
    )
    backward_factor: Fraction = field(
        default=Fraction(2), metadata={MEANING: "backward over forward, of products with weights and of traffic"}
    )
    causal_factor: Fraction = field(
        default=Fraction(1, 2),
        metadata={MEANING: "part of the square of scores that is calculated; traffic is of all of it"},
    )
    fused_core_backward_factor: Fraction = field(
        default=Fraction(5, 2),
        metadata={MEANING: "backward over forward FLOPs of a fused core, which redoes its scores"},
    )
    unfused_core_backward_factor: Fraction = field(
        default=Fraction(2), metadata={MEANING: "backward over forward of an unfused attention core"}
    )
    score_passes: Fraction = field(
        default=Fraction(2), metadata={MEANING: "times that unfused scores go through memory forward: written, read"}
    )
    norm_traversals: Fraction = field(
        default=Fraction(2), metadata={MEANING: "of the tokens' vectors, for each of two norms a layer: read, written"}
    )
    residual_traversals: Fraction = field(
        default=Fraction(3), metadata={MEANING: "of the tokens' vectors, for each of two additions: 2 read, 1 written"}
    )
    gating_traversals: Fraction = field(
        default=Fraction(3), metadata={MEANING: "of the inner width: gate and up read, product written; 1 less ungated"}
    )
    rope_traversals: Fraction = field(
        default=Fraction(0), metadata={MEANING: "of queries and keys for the rotary embedding: 0 is fused, else 2"}
    )
    cross_entropy_traversals: Fraction = field(
        default=Fraction(0), metadata={MEANING: "of the logits for the loss: 0 is not counted, else 2"}
    )
    movement_passes: Fraction = field(
        default=Fraction(2), metadata={MEANING: "permutations around experts; each moves 1 + top_k vectors per token"}
    )
    capacity_factor: Fraction = field(
        default=Fraction(1), metadata={MEANING: "slots of experts over assignments; 1 neither pads nor drops"}
    )
    optimizer_bytes_per_parameter: Fraction = field(
        default=Fraction(34), metadata={MEANING: "traffic of AdamW and of what it leaves in memory, once a step"}
    )
    optimizer_flop_per_parameter: Fraction = field(default=Fraction(12), metadata={MEANING: "FLOPs of AdamW"})
    mfu_numerator: MfuNumerator = field(
        default=MfuNumerator.MATMUL_WEIGHTS,
        metadata={MEANING: "what the utilization counts, forward and backward"},
    )
    flop_share_of: FlopShareOf = field(
        default=FlopShareOf.EVERYTHING, metadata={MEANING: "what shares of FLOPs are taken of"}
    )
