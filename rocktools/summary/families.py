"""An operation -> the kind of work it is: attention, experts, norms, ... by rules that each family names.

Rules are tried in order: the class of work, the phase, the component, then words in scope, op_name, instruction and
kernels, then the opcode. Components are those of the shipped maps; a map of the user's falls through to the words. A
word may be part of another name, so that a family told by words is a guess where scopes are unusual.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

_OF_COMPONENT = {
    "embedding": "embedding",
    "pre_attention_norm": "norm",
    "post_attention_norm": "norm",
    "final_norm": "norm",
    "norm": "norm",
    "attention": "attention",
    "router": "moe_routing",
    "dispatch": "moe_token_movement",
    "combine": "moe_token_movement",
    "expert_mlp": "moe_experts",
    "experts": "moe_experts",
    "moe": "moe_routing",
    "mlp": "dense_mlp",
    "lm_head": "output_head",
    "head": "output_head",
    "loss": "loss",
    "optimizer": "optimizer",
    "accumulation": "gradient_accumulation",
    "input": "input",
    "residual": "residual",
}
_OF_PHASE = {"optimizer": "optimizer", "accumulation": "gradient_accumulation", "input": "input", "loss": "loss"}
_WORDS = (
    ("optimizer", r"adam|muon|optimizer|apply_grad|clip_by_global_norm"),
    ("moe_routing", r"router|top_?k|gating"),
    ("moe_experts", r"expert|moe|ragged_dot|grouped_?(?:mm|matmul|gemm)"),
    ("attention", r"attention|attn|fmha|flash|_fa_|rope|splash"),
    ("norm", r"rms_?norm|layer_?norm|batch_?norm|norm(?:_\d+)?/"),
    ("loss", r"cross_entropy|xent|log_?softmax|loss"),
    ("embedding", r"embed"),
    ("convolution", r"conv(?:_general|_fwd|_bwd|olution)|miopen"),
    ("matrix_product", r"dot_general|gemm|matmul|cijk_|\bdot\b|triton_gemm"),
    ("sort", r"sort|onesweep|merge_oddeven"),
    ("random", r"rng|random|threefry"),
    ("layout", r"transpose|copy|bitcast|reshape|slice|concatenate|pad\b|gather|scatter"),
    ("conversion", r"convert"),
    ("reduction", r"reduce"),
)
_PATTERNS = tuple((family, re.compile(pattern)) for family, pattern in _WORDS)
_LAYOUT_OPCODES = {"copy", "transpose", "bitcast", "reshape", "slice", "concatenate", "pad", "dynamic-update-slice"}


@dataclass(frozen=True, slots=True, kw_only=True)
class FamilyOf:
    """A family, and the rule that told it: `activity`, `phase`, `component`, `words` or `opcode`."""

    family: str
    rule: str


def tell_family(
    *, activity: str, phase: str, component: str, opcode: str | None, words: tuple[str | None, ...]
) -> FamilyOf:
    """The family of an operation.

    Args:
        activity, phase, component: as in the ledger.
        opcode: of its instruction.
        words: texts that may name it, the most telling first: scope, op_name, instruction, kernels.
    """
    if activity == "communication":
        return FamilyOf(family="collective", rule="activity")
    if activity == "copy":
        return FamilyOf(family="copy", rule="activity")
    if component in _OF_COMPONENT:
        return FamilyOf(family=_OF_COMPONENT[component], rule="component")
    if phase in _OF_PHASE:
        return FamilyOf(family=_OF_PHASE[phase], rule="phase")
    for text in words:
        lowered = (text or "").lower()
        for family, pattern in _PATTERNS:
            if pattern.search(lowered):
                return FamilyOf(family=family, rule="words")
    if opcode in _LAYOUT_OPCODES:
        return FamilyOf(family="layout", rule="opcode")
    if opcode == "fusion":
        return FamilyOf(family="fusion", rule="opcode")
    return FamilyOf(family="other", rule="opcode")
