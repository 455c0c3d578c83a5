"""scripts/bench readable: small programs say the same as large ones, XLA's own reading is the judge, and it judges."""

from __future__ import annotations

import importlib
import json
import math
import os
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from replay_programs import make_replay, with_wide_types

from rocktools.hlo.proto_reader import parse_hlo_proto
from rocktools.replay import readable_rules
from rocktools.replay.bundled_inputs import numpy_dtype

jax = pytest.importorskip("jax")

SCRIPTS = Path(__file__).resolve().parents[2] / "scripts"
BUILDS = ("triton", "blaslt")
EVERY = 28  # of 323 and 266 fusions; scripts/bench readable checks all

ADD = "add {\n  left = f32[] parameter(0)\n  right = f32[] parameter(1)\n  ROOT sum = f32[] add(left, right)\n}\n"


@pytest.fixture(scope="module")
def scripts():
    """The modules of scripts/, which are no package."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(SCRIPTS))
        yield {
            name: importlib.import_module(name)
            for name in ("shrink_program", "plain_program", "readable_agreement", "bench_readable")
        }


@pytest.fixture
def agreement(scripts) -> ModuleType:
    return scripts["readable_agreement"]


def fusion(fused: str, parameters: list[str], result: str) -> str:
    names = [f"x{number}" for number in range(len(parameters))]
    lines = "\n".join(f"  x{number} = {shape} parameter({number})" for number, shape in enumerate(parameters))
    return (
        f"HloModule made, is_scheduled=true\n\n{ADD}\nfused {{\n{fused}\n}}\n\nENTRY main {{\n{lines}\n"
        f"  ROOT f = {result} fusion({', '.join(names)}), kind=kLoop, calls=fused\n}}\n"
    )


CASES = {
    "halves, turned": fusion(
        """  p0 = f32[4096,6144]{1,0} parameter(0)
  a = f32[4096,3072]{1,0} slice(p0), slice={[0:4096], [0:3072]}
  b = f32[4096,3072]{1,0} slice(p0), slice={[0:4096], [3072:6144]}
  n = f32[4096,3072]{1,0} negate(b)
  c = f32[4096,6144]{1,0} concatenate(n, a), dimensions={1}
  ROOT t = f32[6144,4096]{1,0} transpose(c), dimensions={1,0}""",
        ["f32[4096,6144]{1,0}"],
        "f32[6144,4096]{1,0}",
    ),
    "heads": fusion(
        """  p0 = f32[8,4096,6144]{2,1,0} parameter(0)
  h = f32[8,4096,48,128]{3,2,1,0} bitcast(p0)
  z = f32[] constant(0)
  r = f32[8,4096,48]{2,1,0} reduce(h, z), dimensions={3}, to_apply=add
  b = f32[8,4096,48,128]{3,2,1,0} broadcast(r), dimensions={0,1,2}
  s = f32[8,4096,48,128]{3,2,1,0} subtract(h, b)
  ROOT flat = f32[32768,6144]{1,0} bitcast(s)""",
        ["f32[8,4096,6144]{2,1,0}"],
        "f32[32768,6144]{1,0}",
    ),
    "boundaries across": fusion(
        """  p0 = f32[56,768,8,128]{3,2,1,0} parameter(0)
  b = f32[4096,10752]{1,0} bitcast(p0)
  z = f32[] constant(0)
  ROOT r = f32[4096]{0} reduce(b, z), dimensions={1}, to_apply=add""",
        ["f32[56,768,8,128]{3,2,1,0}"],
        "f32[4096]{0}",
    ),
    "layouts": fusion(
        """  p0 = f32[64,512,256]{0,2,1} parameter(0)
  b = f32[512,16384]{1,0} bitcast(p0)
  ROOT n = f32[512,16384]{1,0} negate(b)""",
        ["f32[64,512,256]{0,2,1}"],
        "f32[512,16384]{1,0}",
    ),
    "one layer": fusion(
        """  p0 = f32[56,512,1024]{2,1,0} parameter(0)
  p1 = s32[] parameter(1)
  z = s32[] constant(0)
  d = f32[1,512,1024]{2,1,0} dynamic-slice(p0, p1, z, z), dynamic_slice_sizes={1,512,1024}
  n = f32[1,512,1024]{2,1,0} negate(d)
  ROOT u = f32[56,512,1024]{2,1,0} dynamic-update-slice(p0, n, p1, z, z)""",
        ["f32[56,512,1024]{2,1,0}", "s32[]"],
        "f32[56,512,1024]{2,1,0}",
    ),
    "scan in tiles": fusion(
        """  p0 = f32[8,4096]{1,0} parameter(0)
  b = f32[8,256,16]{2,1,0} bitcast(p0)
  z = f32[] constant(0)
  w = f32[8,256,16]{2,1,0} reduce-window(b, z), window={size=1x1x16 pad=0_0x0_0x15_0}, to_apply=add
  s = f32[8,256,1]{2,1,0} slice(w), slice={[0:8], [0:256], [15:16]}
  ROOT p = f32[8,257,1]{2,1,0} pad(s, z), padding=0_0x1_0x0_0""",
        ["f32[8,4096]{1,0}"],
        "f32[8,257,1]{2,1,0}",
    ),
    "rows of a table": fusion(
        """  p0 = bf16[32768,6144]{1,0} parameter(0)
  p1 = s32[8,4096,1]{2,1,0} parameter(1)
  g = bf16[8,4096,6144]{2,1,0} gather(p0, p1), offset_dims={2}, collapsed_slice_dims={0}, start_index_map={0}, """
        "index_vector_dim=2, slice_sizes={1,6144}\n  ROOT c = f32[8,4096,6144]{2,1,0} convert(g)",
        ["bf16[32768,6144]{1,0}", "s32[8,4096,1]{2,1,0}"],
        "f32[8,4096,6144]{2,1,0}",
    ),
    "products": fusion(
        """  p0 = bf16[8,4096,512]{2,1,0} parameter(0)
  p1 = bf16[8,512,128]{2,1,0} parameter(1)
  ROOT d = f32[8,4096,128]{2,1,0} dot(p0, p1), lhs_batch_dims={0}, rhs_batch_dims={0}, lhs_contracting_dims={2}, """
        "rhs_contracting_dims={1}",
        ["bf16[8,4096,512]{2,1,0}", "bf16[8,512,128]{2,1,0}"],
        "f32[8,4096,128]{2,1,0}",
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_small_program_has_the_same_text_and_agrees_with_xla(name, agreement):
    with with_wide_types(jax):
        found = agreement.check_readable(make_replay(CASES[name], "f").program.data, name, is_compiled=True)
    assert found.agrees, found
    assert found.compiles
    assert found.elements_after < 6000 < found.elements_before
    assert found.varied_count == found.finite_count == found.results_count == 1


def small_shapes(scripts, text: str) -> dict[str, tuple[int, ...]]:
    module = parse_hlo_proto(
        scripts["shrink_program"].shrink_program(make_replay(text, "f").program.data).data, "small"
    )
    return {each.name: each.shape.dimensions for each in module.instructions.values()}


def test_what_is_equal_stays_equal_and_a_half_stays_a_half(scripts):
    shapes = small_shapes(scripts, CASES["halves, turned"])
    rows, columns = shapes["p0"]
    assert shapes["a"] == shapes["b"] == shapes["n"] == (rows, columns // 2)
    assert (shapes["c"], shapes["t"]) == ((rows, columns), (columns, rows))
    assert columns % 2 == 0
    assert rows != columns


def test_a_reshape_keeps_its_factors(scripts):
    shapes = small_shapes(scripts, CASES["heads"])
    batch, sequence, heads, width = shapes["h"]
    assert shapes["p0"] == (batch, sequence, heads * width)
    assert shapes["flat"] == (batch * sequence, heads * width)
    assert min(batch, sequence, heads, width) > 1


def test_a_reshape_across_boundaries_keeps_the_number_of_elements(scripts):
    shapes = small_shapes(scripts, CASES["boundaries across"])
    assert math.prod(shapes["p0"]) == math.prod(shapes["b"]) < 6000
    assert shapes["r"] == shapes["b"][:1]


def test_a_constant_keeps_its_values(scripts):
    text = fusion(
        "  p0 = f32[4,4096]{1,0} parameter(0)\n  c = f32[4]{0} constant({1, 2, 3, 4})\n"
        "  b = f32[4,4096]{1,0} broadcast(c), dimensions={0}\n  ROOT m = f32[4,4096]{1,0} multiply(p0, b)",
        ["f32[4,4096]{1,0}"],
        "f32[4,4096]{1,0}",
    )
    assert small_shapes(scripts, text)["m"][0] == 4


def test_a_translation_that_is_wrong_is_found(agreement, monkeypatch):
    """The interpreter is written by the same rules, and wrong with them; XLA is not."""
    wrong = {**readable_rules.RULES, "subtract": lambda one, operands, shapes: f"lax.sub({operands[1]}, {operands[0]})"}
    monkeypatch.setattr("rocktools.replay.readable.RULES", wrong)
    with with_wide_types(jax):
        found = agreement.check_readable(make_replay(CASES["heads"], "f").program.data, "x", is_compiled=False)
    assert not found.agrees
    assert found.worst_ratio > 1000
    assert not found.is_equal_to_xla
    assert found.is_equal_to_interpreter


@pytest.mark.parametrize(
    "one, other, dtype, ratio",
    [
        ([4.0, 1.0], [4.0, 1.0], "f32", 0),
        ([4.0, 1.0], [4.0 + 2.0**-21, 1.0], "f32", 0.5),  # one place of 4 is 2**-21, and two of eps are allowed of it
        ([4.0, 1.0], [4.0, 1.0 + 2.0**-19], "f32", 2),
        ([4.0, 1.0], [4.03125, 1.0], "bf16", 0.5),
        ([4.0, 1.0], [4.125, 1.0], "bf16", 2),
        ([1, 2], [1, 3], "s32", math.inf),
        ([1, 2], [1, 3], "s4", math.inf),
        ([True], [False], "pred", math.inf),
        ([math.nan, 1], [1, 1], "f32", math.inf),
        ([math.nan, 1], [math.nan, 1], "f32", 0),
        ([math.inf, 1], [-math.inf, 1], "f32", math.inf),
        ([0.0], [1e-30], "f32", 2.0**22),  # relative to what is expected, however small
    ],
)
def test_differences_are_in_tolerances(agreement, one, other, dtype, ratio):
    found = agreement.compare([np.array(one, numpy_dtype(dtype))], [np.array(other, numpy_dtype(dtype))])
    assert found == pytest.approx(ratio, rel=0.05)


def test_results_of_another_shape_or_type_do_not_agree(agreement):
    values = np.ones(4, np.float32)
    for other in (values.reshape(2, 2), values.astype("f8")):
        assert agreement.compare([values], [other]) == math.inf
    assert agreement.compare([values], [values, values]) == math.inf


@pytest.mark.parametrize("build", BUILDS)
def test_readable_forms_of_a_train_step_agree(build, scripts, shared):
    """A sample of its fusions, and not compiled at full size: scripts/bench readable does that with all of them."""
    cases = scripts["bench_readable"].read_cases(shared / "data/hlo/gfx950-mixtral-8x22b" / build)[::EVERY]
    assert len(cases) > 9
    for case in cases:
        with with_wide_types(jax):
            found = scripts["readable_agreement"].check_readable(case.data, case.instruction, is_compiled=False)
        assert found.agrees, (case.instruction, found)
        assert found.finite_count == found.results_count


TWO = """HloModule made, is_scheduled=true

good {
  a = f32[64]{0} parameter(0)
  ROOT n = f32[64]{0} negate(a)
}

foreign {
  a = f32[64]{0} parameter(0)
  ROOT c = f32[64]{0} custom-call(a), custom_call_target="mine"
}

ENTRY main {
  x = f32[64]{0} parameter(0)
  f = f32[64]{0} fusion(x), kind=kLoop, calls=good
  ROOT g = f32[64]{0} fusion(f), kind=kCustom, calls=foreign
}
"""


def test_the_command_counts_what_is_refused_and_does_not_repeat_what_it_knows(tmp_path):
    (tmp_path / "made.txt").write_text(TWO, encoding="utf-8")
    command = [sys.executable, str(SCRIPTS / "bench_readable.py"), str(tmp_path / "made.txt")]
    command += ["--results", str(tmp_path / "known.jsonl")]
    ran = [subprocess.run(command, capture_output=True, text=True, check=False, env=dict(os.environ)) for _ in range(2)]
    assert [each.returncode for each in ran] == [0, 0], ran[0].stderr
    assert ran[0].stdout == ran[1].stdout
    assert "made.txt: 2 fusions, 1 translated, 1 refused, 1 compiled at full size, 1 compared, 1 agree" in ran[0].stdout
    assert "refused: 1 x nobody is known who registers the custom call target 'mine'" in ran[0].stdout
    records = [json.loads(line) for line in (tmp_path / "known.jsonl").read_text(encoding="utf-8").splitlines()]
    assert [each["instruction"] for each in records] == ["f", "g"]
