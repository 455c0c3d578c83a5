"""The bucket of each instruction of small programs."""

from __future__ import annotations

import pytest

from rocktools.attribution.classify import classify_instructions, classify_op_name
from rocktools.attribution.component_map_file import read_shipped_map
from rocktools.hlo.text_reader import parse_hlo_text

A = "f32[8]{0}"
LOOP = "while/body/closed_call"
F = f"jit(f)/jvp()/{LOOP}"
B = f"jit(f)/transpose(jvp())/{LOOP}/checkpoint"
R = f"{B}/rematted_computation"


def _named(op_name):
    return f', metadata={{op_name="{op_name}"}}' if op_name else ""


def _entry(*lines, before=""):
    body = "\n".join(f"  {line}" for line in lines)
    return f"HloModule jit_f, is_scheduled=true\n\n{before}ENTRY %main (p: f32[8]) -> f32[8] {{\n{body}\n}}\n"


def _line(name, operands, op_name="", opcode="custom-call", root=False):
    target = ', custom_call_target="x"' if opcode == "custom-call" else ""
    listed = ", ".join(f"%{operand}" for operand in operands)
    return f"{'ROOT ' if root else ''}%{name} = {A} {opcode}({listed}){target}{_named(op_name)}"


def _classify(text, name="plain_jax"):
    return classify_instructions(parse_hlo_text(text, "made.txt"), read_shipped_map(name))


def _phases(text):
    return {name: bucket.phase.value for name, bucket in _classify(text).items()}


P = f"%p = {A} parameter(0)"


def test_names_decide_first():
    text = _entry(
        P,
        _line("a", ["p"], f"{F}/attention/dot_general"),
        _line("b", ["a"], f"{R}/attention/dot_general"),
        _line("c", ["b"], f"{B}/attention/dot_general"),
        _line("d", ["c"], "jit(f)/grad_accum/add"),
        _line("e", ["d"], "jit(f)/optimizer/mul"),
        _line("g", ["e"], "jit(f)/add", root=True),
    )
    buckets = _classify(text)
    found = {name: (buckets[name].phase.value, buckets[name].component) for name in "abcdeg"}
    assert found == {
        "a": ("forward", "attention"),
        "b": ("rematerialized", "attention"),
        "c": ("backward", "attention"),
        "d": ("accumulation", "accumulation"),
        "e": ("optimizer", "optimizer"),
        "g": ("unattributed", "unattributed"),
    }
    assert not any(buckets[name].is_inferred for name in "abcdeg")


def test_a_collective_is_communication_and_keeps_its_phase():
    text = _entry(
        P,
        f"%g = (f32[8]{{0}}, f32[64]{{0}}) all-gather-start(%p), dimensions={{0}}{_named(f'{R}/attention/all_gather')}",
        "%h = f32[64]{0} all-gather-done(%g)",
        f"ROOT %k = {A} slice(%h), slice={{[0:8]}}{_named(f'{B}/attention/slice')}",
    )
    bucket = _classify(text)["g"]
    assert (bucket.activity.value, bucket.collective, bucket.phase.value) == (
        "communication",
        "all-gather",
        "rematerialized",
    )


def test_a_nameless_instruction_takes_the_latest_phase_of_its_operands():
    text = _entry(
        P, _line("a", ["p"], f"{F}/x/dot"), _line("b", ["p"], f"{B}/x/dot"), _line("c", ["a", "b"], root=True)
    )
    bucket = _classify(text)["c"]
    assert (bucket.phase.value, bucket.is_inferred) == ("backward", True)
    assert bucket.trail[1] == "phase backward: data-flow (operands: b); inferred"


def test_without_operands_that_know_the_earliest_phase_of_its_users_counts():
    text = _entry(
        P, _line("c", ["p"]), _line("a", ["c"], f"{B}/x/dot"), _line("b", ["c", "a"], f"{F}/mlp/dot", root=True)
    )
    bucket = _classify(text)["c"]
    assert (bucket.phase.value, bucket.component) == ("forward", "mlp")


def test_what_a_replay_reads_is_not_backward():
    text = _entry(P, _line("a", ["p"], f"{B}/x/dot"), _line("c", ["a"]), _line("b", ["c"], f"{R}/x/dot", root=True))
    assert _phases(text)["c"] == "rematerialized"


def test_chains_of_nameless_instructions_are_followed():
    names = [f"n{i}" for i in range(8)]
    lines = [_line(name, [before]) for name, before in zip(names, ["a", *names[:-1]], strict=True)]
    phases = _phases(_entry(P, _line("a", ["p"], f"{F}/x/dot"), *lines, _line("z", [names[-1]], root=True)))
    assert {phases[name] for name in (*names, "z")} == {"forward"}


def test_a_full_name_outside_of_differentiation_is_not_lost():
    """`jit(f)/add` says that it is outside; it stays unattributed between gradients and optimizer."""
    text = _entry(P, _line("a", ["p"], f"{B}/x/dot"), _line("c", ["a"], "jit(f)/add", root=True))
    assert _phases(text)["c"] == "unattributed"


@pytest.mark.parametrize("lost", ["attention/core/exp", "broadcast.7", "jit(f)/attention/exp", "jit(f)/while"])
def test_names_that_lost_their_phase_are_inferred(lost):
    text = _entry(P, _line("a", ["p"], f"{F}/x/dot"), _line("c", ["a"], lost, root=True))
    bucket = _classify(text)["c"]
    assert (bucket.phase.value, bucket.is_inferred) == ("forward", True)
    if "attention" in lost:
        assert bucket.component == "attention"


def _loop(body_lines, while_name):
    state = f"({A})"
    body = "\n".join(f"  {line}" for line in body_lines)
    before = (
        f"%body (s: {state}) -> {state} {{\n  %s = {state} parameter(0)\n  %x = {A} get-tuple-element(%s), index=0\n"
        f"{body}\n}}\n\n%cond (t: {state}) -> pred[] {{\n  %t = {state} parameter(0)\n"
        "  ROOT %yes = pred[] constant(true)\n}\n\n"
    )
    return _entry(
        P,
        f"%init = {state} tuple(%p)",
        f"%loop = {state} while(%init), condition=%cond, body=%body{_named(while_name)}",
        f"ROOT %out = {A} get-tuple-element(%loop), index=0",
        before=before,
    )


def test_in_a_forward_loop_everything_is_forward():
    text = _loop([_line("n", ["x"]), f"ROOT %r = ({A}) tuple(%n)"], "jit(f)/jvp()/while")
    bucket = _classify(text)["n"]
    assert bucket.phase.value == "forward"
    assert bucket.rule.startswith("enclosing-loop")


def test_in_a_backward_loop_the_data_flow_tells_replay_from_gradients():
    lines = [
        _line("a", [], f"{R}/mlp/dot"),
        _line("n", ["a"]),
        _line("b", ["n", "x"], f"{B}/mlp/dot"),
        _line("m", ["b"]),
        _line("k", []),
        f"ROOT %r = ({A}) tuple(%m)",
    ]
    phases = _phases(_loop(lines, "jit(f)/transpose(jvp())/while"))
    assert (phases["n"], phases["m"], phases["k"]) == ("rematerialized", "backward", "backward")


def _fusion(inner, own=""):
    body = "\n".join(f"  {line}" for line in inner)
    before = f"%fused (q: f32[8]) -> f32[8] {{\n  %q = {A} parameter(0)\n{body}\n}}\n\n"
    return _entry(P, f"ROOT %f = {A} fusion(%p), kind=kLoop, calls=%fused{_named(own)}", before=before)


def test_a_fusion_is_known_by_its_own_name_first_and_mixed_if_it_holds_another_phase():
    text = _fusion(
        [_line("a", ["q"], f"{R}/mlp/exp", "exponential"), _line("b", ["a"], f"{B}/mlp/mul", "negate", root=True)],
        own=f"{B}/mlp/mul",
    )
    bucket = _classify(text)["f"]
    assert (bucket.phase.value, bucket.is_mixed, bucket.is_inferred) == ("backward", True, False)
    assert "mixed: it fuses backward and rematerialized" in bucket.trail


def test_a_nameless_fusion_is_known_by_the_name_nearest_to_its_result():
    """Three names are replayed, one is a gradient; the gradient is what comes out."""
    inner = [
        _line("a", ["q"], f"{R}/mlp/exp", "exponential"),
        _line("b", ["a"], f"{R}/mlp/neg", "negate"),
        _line("c", ["b"], f"{R}/mlp/neg", "negate"),
        _line("d", ["c"], f"{B}/mlp/mul", "negate"),
        _line("e", ["d"], "", "negate", root=True),
    ]
    bucket = _classify(_fusion(inner))["f"]
    assert (bucket.phase.value, bucket.component, bucket.is_mixed) == ("backward", "mlp", True)


def test_a_fusion_of_gradient_and_accumulation_is_mixed_and_its_root_decides():
    inner = [_line("a", ["q"], f"{B}/x/neg", "negate"), _line("b", ["a"], "jit(f)/grad_accum/add", "negate", root=True)]
    bucket = _classify(_fusion(inner))["f"]
    assert (bucket.phase.value, bucket.is_mixed) == ("accumulation", True)


def test_a_name_without_a_phase_is_helped_by_what_it_fuses():
    bucket = _classify(_fusion([_line("a", ["q"], f"{F}/x/neg", "negate", root=True)], own="jit(f)/while/body/add"))[
        "f"
    ]
    assert (bucket.phase.value, bucket.rule.partition(";")[0]) == ("forward", "fused-instructions")


def test_an_op_name_alone_has_a_bucket():
    component_map = read_shipped_map("maxtext")
    bucket = classify_op_name("jit(f)/jvp()/wi_0/dot", component_map)
    assert (bucket.phase.value, bucket.component, bucket.activity.value) == ("forward", "expert_mlp", "compute")
    assert classify_op_name("", component_map).phase.value == "unattributed"
    assert classify_op_name("jit(f)/x", component_map, collective="all-reduce").activity.value == "communication"


def test_a_text_that_was_cut_is_classified_as_far_as_it_goes():
    text = _entry(P, _line("a", ["p"], f"{F}/x/dot"), _line("c", ["a"], root=True))
    for length in range(0, len(text), 7):
        assert isinstance(_classify(text[:length] if length > 40 else text), dict)
