"""What kind of work an operation is, and by which rule that was told."""

from __future__ import annotations

import pytest

from rocktools.attribution.component_map_file import read_shipped_map
from rocktools.summary.families import tell_family


@pytest.mark.parametrize(
    "given, family, rule",
    [
        ({"activity": "communication", "component": "attention"}, "collective", "activity"),
        ({"activity": "copy"}, "copy", "activity"),
        ({"component": "expert_mlp"}, "moe_experts", "component"),
        ({"component": "pre_attention_norm"}, "norm", "component"),
        ({"phase": "optimizer"}, "optimizer", "phase"),
        ({"words": ("model/blocks/flash_attention", "x")}, "attention", "words"),
        ({"words": (None, "jit(f)/ragged_dot_general")}, "moe_experts", "words"),
        ({"words": (None, None, "custom-call.1", "Cijk_Alik_Bljk_BBS")}, "matrix_product", "words"),
        ({"words": ("decoder/rms_norm",)}, "norm", "words"),
        ({"words": ("x",), "opcode": "transpose"}, "layout", "opcode"),
        ({"words": ("x",), "opcode": "fusion"}, "fusion", "opcode"),
        ({"words": ("x",), "opcode": "custom-call"}, "other", "opcode"),
        # The scope speaks before the kernel: a product inside of attention is attention.
        ({"words": ("layer/attention", "dot_general", "Cijk_x")}, "attention", "words"),
    ],
)
def test_first_rule_that_speaks_tells_the_family(given: dict, family: str, rule: str) -> None:
    nothing = {"activity": "compute", "phase": "forward", "component": "unattributed", "opcode": None, "words": ()}
    found = tell_family(**{**nothing, **given})
    assert (found.family, found.rule) == (family, rule)


@pytest.mark.parametrize("name", ["maxtext", "plain_jax"])
def test_components_of_shipped_maps_that_are_of_the_model_have_a_family(name: str) -> None:
    """Those that name a place in the program and no work fall through to the words."""
    places = {"decoder_layer", "layer", "pipeline", "scan_and_layout", "loop"}
    for component in set(read_shipped_map(name).components) - places:
        found = tell_family(activity="compute", phase="forward", component=component, opcode=None, words=())
        assert found.rule == "component", component
