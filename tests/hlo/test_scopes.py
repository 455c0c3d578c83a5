"""op_names taken apart. The names are real: JAX 0.10 and 0.7, MaxText, and what XLA makes of merged instructions."""

from __future__ import annotations

import json
import re
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from real_profiles import read_profile

from rocktools.hlo.module import Computation, HloModule, Instruction, Metadata
from rocktools.hlo.scopes import Phase, inner_phases, op_name_of, parse_op_name, split_path
from rocktools.hlo.shapes import Shape
from rocktools.hlo.text_reader import parse_hlo_text

F, B, R = Phase.FORWARD, Phase.BACKWARD, Phase.REMATERIALIZED
LOOP = "while/body/closed_call"

NAMES = [
    # op_name, module, phase, scope, primitive
    ("jit(step)/optimizer/mul", "step", None, "optimizer", "mul"),
    (f"jit(step)/{LOOP}/jvp(final_norm)/square", "step", F, "final_norm", "square"),
    (f"jit(step)/{LOOP}/jvp()/{LOOP}/attention/core/dot_general", "step", F, "attention/core", "dot_general"),
    (f"jit(step)/{LOOP}/transpose(jvp(embedding))/scatter-add", "step", B, "embedding", "scatter-add"),
    (f"jit(t)/transpose(jvp())/{LOOP}/checkpoint/post_norm/mul", "t", B, "post_norm", "mul"),
    (f"jit(t)/transpose(jvp())/{LOOP}/checkpoint/rematted_computation/moe/sub", "t", R, "moe", "sub"),
    ("jit(t)/jvp()/checkpoint/layer/sin", "t", F, "layer", "sin"),
    ("jit(t)/jit(main)/jvp(Model)/decoder/vmap(layers.f)/gate/dot", "t", F, "Model/decoder/layers.f/gate", "dot"),
    ("jit(t)/jit(main)/transpose(jvp(checkpoint))/rematted_computation/x/dot", "t", R, "x", "dot"),
    ("jit(t)/jvp(aa/bb)/cond/branch_0_fun/sin", "t", F, "aa/bb", "sin"),
    ("jit(t)/transpose(jvp(aa/bb))/cond", "t", B, "aa/bb", "cond"),
    ("jit(h)/vmap(jvp(vmap(transpose(jvp(vmap(jvp(jvp())))))))/checkpoint/layer/mul", "h", B, "layer", "mul"),
    ("jit(l)/transpose()/dot_general", "l", None, "", "dot_general"),
    ("jit(g)/transpose(jvp(bsd,de->bse))/transpose", "g", B, "bsd,de->bse", "transpose"),
    ("jit(t)/jvp(M.apply)/wi_0/EBCM,EMH -> EBCH/dot_general", "t", F, "M.apply/wi_0/EBCM,EMH -> EBCH", "dot_general"),
    ("jit(f)/shard_map/all_gather", "f", None, "", "all_gather"),
    ("jit(f)/while/body/jit(dynamic_index_in_dim)", "f", None, "", ""),
    ("jit(<lambda>)/while/cond/lt", "<lambda>", None, "", "lt"),
    ("jit(f)/while", "f", None, "", "while"),
    ("jit(_threefry_fold_in)", "_threefry_fold_in", None, "", ""),
    ("state.params['params']['a/b']['kernel']", "", None, "", "state.params['params']['a/b']['kernel']"),
    ("reduce_sum", "", None, "", "reduce_sum"),
    ("checkpoint/layer/attention/scores/reduce_sum", "", None, "layer/attention/scores", "reduce_sum"),
    ("", "", None, "", ""),
    ("/add", "", None, "", "add"),
    ("jit(f)/odd)name/(x", "f", None, "odd)name", "(x"),
    ("jit(f)/user(scope)/mul", "f", None, "user(scope)", "mul"),
]  # fmt: skip


@pytest.mark.parametrize("op_name, module, phase, scope, primitive", NAMES)
def test_an_op_name_says_program_phase_scope_and_primitive(op_name, module, phase, scope, primitive):
    path = parse_op_name(op_name)
    assert (path.module, path.phase, path.scope, path.primitive) == (module, phase, scope, primitive)
    assert path.members == ()
    assert path.text == op_name


def test_transforms_and_loops_are_kept_in_order():
    path = parse_op_name(f"jit(t)/jit(main)/micro/{LOOP}/transpose(jvp())/while/body/cond/branch_1_fun/jit(silu)/neg")
    assert path.transforms == ("jit(main)", "closed_call", "transpose", "jvp", "jit(silu)")
    assert path.loops == ("while/body", "while/body", "cond/branch_1_fun")
    assert path.scopes == ("micro",)


def test_scopes_called_like_parts_of_loops_stay_scopes():
    assert parse_op_name("jit(f)/body/while/cond/mul").scopes == ("body",)
    assert parse_op_name("jit(f)/cond/body/mul").scopes == ("cond", "body")


def test_merged_collectives_are_several_paths_with_one_beginning():
    path = parse_op_name("jit(s)/jvp()/attention/(v_proj/bsd,dhk->bshk/dot_general:k_proj/bsd,dhk->bshk/dot_general)")
    assert [member.scope for member in path.members] == [
        "attention/v_proj/bsd,dhk->bshk",
        "attention/k_proj/bsd,dhk->bshk",
    ]
    assert [member.text for member in path.members][1] == "jit(s)/jvp()/attention/k_proj/bsd,dhk->bshk/dot_general"
    assert (path.scope, path.phase, path.primitive) == ("attention", F, "dot_general")


def test_merged_paths_of_several_phases_take_the_phase_of_their_beginning():
    mixed = parse_op_name("jit(s)/loop/(transpose(jvp(embedding))/scatter-add:jvp(loss)/reduce_sum)")
    assert mixed.phase is None
    assert mixed.phases == {B, F}
    assert mixed.primitive == ""
    remat = parse_op_name("jit(s)/transpose(jvp(M))/checkpoint/(rematted_computation/layers/scatter:layers/wo/dot)")
    assert remat.phase is B
    assert remat.phases == {R, B}
    assert remat.scope == "M/layers"


def test_merged_within_merged_is_taken_apart_too():
    path = parse_op_name("jit(s)/(a/mul:b/(c/add:d/add))")
    assert [member.scope for member in path.members] == ["a", "b/c", "b/d"]


def test_paths_joined_while_lowering_are_told_apart():
    whole = parse_op_name("jit(f)/transpose(jvp(a))/mul;jit(f)/transpose(jvp(a))/neg")
    assert [member.primitive for member in whole.members] == ["mul", "neg"]
    assert (whole.phase, whole.scope, whole.primitive) == (B, "a", "")
    below = parse_op_name("jit(f)/transpose(jvp())/checkpoint/layer/transpose;checkpoint/layer/context/transpose")
    assert [member.scope for member in below.members] == ["layer", "layer/context"]
    assert below.members[1].text == "jit(f)/transpose(jvp())/checkpoint/layer/context/transpose"
    assert below.phases == {B}


def test_separators_within_brackets_and_quotes_do_not_split():
    assert split_path("a(b/c)/d['e/f']/[g/h]/{i/j}") == ("a(b/c)", "d['e/f']", "[g/h]", "{i/j}")
    assert split_path("a(b/c/d") == ("a(b", "c", "d")
    assert split_path("p['x)/y']/z") == ("p['x)/y']", "z")


SCOPES = st.text("abcxyz_.,->' ", min_size=1, max_size=6)
ODD = st.text("ab/()[]{}'\":;,jvp", max_size=40)
WRAPPERS = st.sampled_from(["jvp({})", "vmap({})", "vmap(jvp({}))"])


@given(ODD | st.text(max_size=60))
def test_every_text_has_an_answer_and_its_parts_make_the_text(text):
    path = parse_op_name(text)
    assert "/".join(path.tokens) == text
    assert split_path("/".join(split_path(text))) == split_path(text)
    for member in path.members:
        assert parse_op_name(member.text) == member


@given(st.lists(SCOPES, max_size=4), st.lists(WRAPPERS, min_size=1, max_size=6))
def test_transforms_nested_in_any_depth_leave_the_scopes(scopes, wrappers):
    """Whatever wraps the scopes, they come out in order; a transpose around a jvp is the backward pass."""
    token = "/".join(scopes)
    for wrapper in wrappers:
        token = wrapper.format(token)
    has_jvp = any("jvp" in wrapper for wrapper in wrappers)
    path = parse_op_name(f"jit(f)/{token}/mul")
    assert path.scopes == tuple(scopes)
    assert path.phase is (F if has_jvp else None)
    assert parse_op_name(f"jit(f)/transpose({token})/mul").phase is (B if has_jvp else None)
    assert parse_op_name(f"jit(f)/transpose({token})/checkpoint/rematted_computation/mul").phase is R


@given(st.lists(st.tuples(SCOPES, SCOPES), min_size=2, max_size=5), st.lists(SCOPES, max_size=3))
def test_merged_paths_are_their_beginning_and_each_end(ends, beginning):
    prefix = "/".join(["jit(f)", "jvp()", *beginning])
    path = parse_op_name(f"{prefix}/({':'.join('/'.join(end) for end in ends)})")
    assert path.members == tuple(parse_op_name(f"{prefix}/{'/'.join(end)}") for end in ends)
    assert path.scopes[: len(beginning)] == tuple(beginning)


def test_very_deep_names_end_in_an_answer():
    for text in ("(" * 50_000, "jvp(" * 5_000 + ")" * 5_000, "(a:" * 2_000 + "b" + ")" * 2_000, "[['" * 9_999):
        assert parse_op_name(text).text == text


# Names of instructions --------------------------------------------------------------------------------------------


def build_module(**computations: list[tuple[str, str, str, str]]) -> HloModule:
    """Of (name, opcode, op_name, called computation); the last of each computation is its root."""
    built = {}
    for computation, rows in computations.items():
        built[computation] = Computation(
            name=computation,
            instructions=tuple(
                Instruction(
                    name=name,
                    opcode=opcode,
                    shape=Shape(dtype="f32"),
                    called=(called,) if called else (),
                    computation=computation,
                    position=i,
                    is_root=i == len(rows) - 1,
                    metadata=Metadata(op_name=op_name),
                )
                for i, (name, opcode, op_name, called) in enumerate(rows)
            ),
        )
    return HloModule(
        name="m", program_id=None, source="made here", computations=built, entry_name="main", is_scheduled=True
    )


def find(module: HloModule, name: str = "f") -> tuple[str, str] | None:
    found = op_name_of(module, module.instructions[name])
    return None if found is None else (found.op_name, found.origin)


def test_a_fusion_is_named_by_itself_then_by_its_root_then_by_what_is_inside():
    inside = [("p", "parameter", "argument", ""), ("a", "add", "jit(f)/jvp(x)/add", "")]
    root = ("r", "tuple", "", "")
    assert find(build_module(c=[*inside, root], main=[("f", "fusion", "own", "c")])) == ("own", "instruction")
    named = ("r", "multiply", "jit(f)/mul", "")
    assert find(build_module(c=[*inside, named], main=[("f", "fusion", "", "c")])) == ("jit(f)/mul", "fused_root")
    assert find(build_module(c=[*inside, root], main=[("f", "fusion", "", "c")])) == (
        "jit(f)/jvp(x)/add",
        "fused_inner",
    )


def test_parameters_and_constants_do_not_name_a_fusion_and_other_callers_are_not_looked_into():
    inside = [("p", "parameter", "argument", ""), ("k", "constant", "jit(f)/jvp()/mul", ""), ("r", "tuple", "", "")]
    assert find(build_module(c=inside, main=[("f", "fusion", "", "c")])) is None
    inside = [("a", "add", "jit(f)/add", "")]
    assert find(build_module(c=inside, main=[("f", "while", "", "c")])) is None
    assert find(build_module(c=inside, main=[("f", "async-start", "", "c")])) == ("jit(f)/add", "fused_root")


def test_among_inner_names_the_most_frequent_phase_decides_and_of_it_the_last():
    inside = [
        ("a", "add", "jit(f)/transpose(jvp(x))/add", ""),
        ("b", "add", "jit(f)/transpose(jvp(y))/add", ""),
        ("c", "add", "jit(f)/jvp(z)/add", ""),
        ("r", "tuple", "", ""),
    ]
    assert find(build_module(c=inside, main=[("f", "fusion", "", "c")])) == (
        "jit(f)/transpose(jvp(y))/add",
        "fused_inner",
    )
    assert find(build_module(c=inside[1:], main=[("f", "fusion", "", "c")])) == ("jit(f)/jvp(z)/add", "fused_inner")


def test_the_name_nearest_to_a_nameless_result_comes_before_the_most_frequent_phase():
    """A fused gradient repeats the replayed work that it needs: three of four names are not what comes out."""
    replayed = "jit(f)/transpose(jvp())/checkpoint/rematted_computation/mlp/neg"
    module = parse_hlo_text(
        f"""HloModule jit_f

%c (q: f32[8]) -> f32[8] {{
  %q = f32[8] parameter(0)
  %a = f32[8] negate(%q), metadata={{op_name="{replayed}"}}
  %b = f32[8] negate(%a), metadata={{op_name="{replayed}"}}
  %d = f32[8] multiply(%a, %b), metadata={{op_name="jit(f)/transpose(jvp())/checkpoint/mlp/mul"}}
  ROOT %e = f32[8] convert(%d)
}}

ENTRY %main (p: f32[8]) -> f32[8] {{
  %p = f32[8] parameter(0)
  ROOT %f = f32[8] fusion(%p), kind=kLoop, calls=%c
}}
""",
        "f.txt",
    )
    assert find(module) == ("jit(f)/transpose(jvp())/checkpoint/mlp/mul", "fused_inner")


def test_fusions_within_fusions_are_looked_into_and_a_circle_ends():
    deep = build_module(
        d=[("a", "add", "jit(f)/add", "")], c=[("g", "fusion", "", "d")], main=[("f", "fusion", "", "c")]
    )
    assert find(deep) == ("jit(f)/add", "fused_root")
    itself = build_module(c=[("f", "fusion", "", "c")])
    assert find(itself) is None
    circle = build_module(c=[("g", "fusion", "", "c")], main=[("f", "fusion", "", "c")])
    assert find(circle) is None
    assert inner_phases(circle, circle.instructions["f"]) == frozenset()


def test_phases_inside_of_a_fusion_show_whether_it_is_pure():
    inside = [
        ("p", "parameter", "argument", ""),
        ("a", "add", "jit(f)/transpose(jvp(x))/add", ""),
        ("b", "add", "jit(f)/optimizer/mul", ""),
        ("r", "tuple", "", ""),
    ]
    module = build_module(
        c=inside, main=[("f", "fusion", "jit(f)/optimizer/mul", "c"), ("g", "dot", "jit(f)/jvp()/dot", "")]
    )
    assert inner_phases(module, module.instructions["f"]) == {B, None}
    assert inner_phases(module, module.instructions["g"]) == {F}


# GPU events of a real profile whose instruction has no op_name of its own, of how many; all are fusions.
NAMELESS = {"mi355_te_fused_attn": (20, 150), "jax08_attention": (48, 87), "jax_conv_minimal_08": (0, 198)}


@pytest.mark.parametrize("profile", NAMELESS)
def test_events_of_fusions_without_a_name_are_named_by_what_is_inside(shared: Path, profile):
    """The counts are those of xprof's hlo_stats, which leaves these without a name."""
    real = read_profile(shared, profile)
    events = real.device_events
    given = [
        (str(program), str(name))
        for program, name in zip(events["program_id"], events["hlo_op"], strict=True)
        if program in real.programs and name in real.programs[program].instructions
    ]
    found = [op_name_of(real.programs[program], real.programs[program].instructions[name]) for program, name in given]
    stats = json.loads((shared / "data/xplane/expected" / profile / "hlo_stats.json").read_text(encoding="utf-8"))
    ids = [column["id"] for column in stats["cols"]]
    rows = [dict(zip(ids, [cell["v"] for cell in row["c"]], strict=True)) for row in stats["rows"]]
    nameless = sum(int(row["occurrences"]) for row in rows if not row["tf_op_name"])
    assert (nameless, sum(int(row["occurrences"]) for row in rows)) == NAMELESS[profile]
    assert all(found)
    assert sum(name.origin != "instruction" for name in found) == nameless
    named = Counter(name.op_name for name in found if name.origin == "instruction")
    expected: Counter[str] = Counter()
    for row in rows:
        if row["tf_op_name"]:
            expected[row["tf_op_name"].removesuffix(":")] += int(row["occurrences"])
    assert named == expected


# What JAX writes now ----------------------------------------------------------------------------------------------


def test_names_that_jax_writes_have_the_phases_of_a_rematerialized_gradient():
    jax = pytest.importorskip("jax")
    jnp = jax.numpy

    @jax.checkpoint
    def layer(x):
        with jax.named_scope("layer"):
            return jnp.sin(x @ x).sum()

    def loss(x):
        with jax.named_scope("loss"):
            return layer(x)

    text = jax.jit(jax.value_and_grad(loss)).lower(jnp.ones((4, 4))).compile().as_text()
    paths = [parse_op_name(name) for name in set(re.findall(r'op_name="([^"]*)"', text)) if "layer" in name]
    assert {path.phase for path in paths} >= {B, R}
    assert {path.module for path in paths} == {"loss"}
    assert all(path.scopes[-1] == "layer" for path in paths)
