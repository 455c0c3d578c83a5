"""Whole programs as lax code: against the job itself, which jax runs, and with loops worked out by hand."""

from __future__ import annotations

import json

import numpy as np
import pytest
from replay_programs import make_job

from rocktools.errors import CannotExtract, InputError, UsageError
from rocktools.hlo.proto_reader import parse_hlo_proto
from rocktools.hlo.text_reader import parse_hlo_text
from rocktools.replay.bundled_inputs import load_input
from rocktools.replay.interpreter import capture_operands, interpret_program, make_arguments, write_operands
from rocktools.replay.proto_edit import parse_program_proto

jax = pytest.importorskip("jax")

LOOP = """HloModule made, is_scheduled=true

double {
  p = f32[4]{0} parameter(0)
  ROOT d = f32[4]{0} add(p, p)
}

body {
  v = (s32[], f32[4]{0}) parameter(0)
  n = s32[] get-tuple-element(v), index=0
  x = f32[4]{0} get-tuple-element(v), index=1
  one = s32[] constant(1)
  next = s32[] add(n, one)
  doubled = f32[4]{0} fusion(x), kind=kLoop, calls=double
  ROOT r = (s32[], f32[4]{0}) tuple(next, doubled)
}

condition {
  v = (s32[], f32[4]{0}) parameter(0)
  n = s32[] get-tuple-element(v), index=0
  limit = s32[] constant(5)
  ROOT less = pred[] compare(n, limit), direction=LT
}

yes {
  q = f32[4]{0} parameter(0)
  ROOT minus = f32[4]{0} negate(q)
}

no {
  q = f32[4]{0} parameter(0)
  ROOT same = f32[4]{0} copy(q)
}

ENTRY main {
  x = f32[4]{0} parameter(0)
  flag = pred[] parameter(1)
  zero = s32[] constant(0)
  carried = (s32[], f32[4]{0}) tuple(zero, x)
  loop = (s32[], f32[4]{0}) while(carried), condition=condition, body=body
  y = f32[4]{0} get-tuple-element(loop), index=1
  ROOT chosen = f32[4]{0} conditional(flag, y, y), true_computation=yes, false_computation=no
}
"""
X = np.array([1, 2, 3, 4], np.float32)


@pytest.fixture(scope="module")
def job():
    return make_job(LOOP)


def _capture(job, name, **more):
    return capture_operands(job.program.module, job.proto, name, [X, np.array(True)], **more)


@pytest.mark.parametrize("flag, sign", [(True, -1), (False, 1)])
def test_loops_and_branches_run(job, flag, sign):
    (result,) = interpret_program(job.program.module, job.proto, [X, np.array(flag)])
    np.testing.assert_array_equal(result, sign * 32 * X)


@pytest.mark.parametrize("iteration", [0, 3, 4])
def test_operands_are_those_of_the_iteration(job, iteration):
    captured = _capture(job, "doubled", iterations=(iteration,))
    np.testing.assert_array_equal(captured.operands[0], 2**iteration * X)
    np.testing.assert_array_equal(captured.results[0], 2 ** (iteration + 1) * X)
    assert (captured.iterations, captured.executions_count) == ((iteration,), 5)


def test_first_execution_is_taken_where_none_is_named(job):
    assert _capture(job, "doubled").iterations == (0,)


@pytest.mark.parametrize(
    "name, iterations, error, reference",
    [
        ("doubled", (5,), UsageError, "instruction-not-run"),
        ("doubled", (), UsageError, "instruction-not-run"),
        ("same", None, UsageError, "instruction-not-run"),
        ("absent", None, UsageError, "unknown-instruction"),
        ("d", None, CannotExtract, "inside-another-instruction"),
    ],
)
def test_what_is_not_run_is_named(job, name, iterations, error, reference):
    with pytest.raises(error) as raised:
        _capture(job, name, iterations=iterations)
    assert raised.value.reference == reference


def test_program_of_several_devices_is_refused():
    text = LOOP.replace("is_scheduled=true", "is_scheduled=true, num_partitions=2", 1)
    with pytest.raises(CannotExtract, match="program of 2 devices"):
        _capture(make_job(text), "doubled")


def test_instruction_without_a_form_is_named():
    text = LOOP.replace("add(p, p)", 'custom-call(p), custom_call_target="mine"')
    with pytest.raises(CannotExtract, match=r"%d \(custom-call\)"):
        _capture(make_job(text), "loop")


def test_captured_operands_feed_a_replay(job, tmp_path):
    captured = _capture(job, "doubled", iterations=(2,))
    write_operands(captured, tmp_path / "operands")
    listing = json.loads((tmp_path / "operands" / "operands.json").read_text(encoding="utf-8"))
    assert (listing["schema"], listing["iterations"]) == ("rocktools.operands/1", [2])
    entry = {"name": "p0.x", "origin": "x", "operands": [0], "dtype": "f32", "dimensions": [4]}
    np.testing.assert_array_equal(load_input(entry, str(tmp_path / "operands")), 4 * X)
    with pytest.raises(InputError, match="folder-in-use"):
        write_operands(captured, tmp_path / "operands")


def test_arguments_come_from_files_or_are_made_up(job, tmp_path):
    np.save(tmp_path / "argument0.npy", X)
    first, second = make_arguments(job.program.module, tmp_path, "seed")
    np.testing.assert_array_equal(first, X)
    assert (second.dtype, second.shape) == (np.dtype(bool), ())
    made, _ = make_arguments(job.program.module, None, "seed")
    assert len(set(made.tolist())) == 4
    np.save(tmp_path / "argument0.npy", X[:2])
    with pytest.raises(InputError, match="argument-of-another-shape"):
        make_arguments(job.program.module, tmp_path, "seed")


def test_argument_that_is_no_array_is_refused(job, tmp_path):
    (tmp_path / "argument0.npy").write_bytes(b"no array")
    with pytest.raises(InputError, match="argument-unreadable") as raised:
        make_arguments(job.program.module, tmp_path, "seed")
    assert raised.value.where == str(tmp_path / "argument0.npy")


def test_arguments_that_do_not_fit_into_memory_are_refused():
    """2**32 + 1 numbers of four bytes, twice what is allowed."""
    text = "HloModule made, is_scheduled=true\n\nENTRY main {\n  x = f32[4294967297]{0} parameter(0)\n"
    module = parse_hlo_text(text + "  ROOT n = f32[4294967297]{0} negate(x)\n}\n", "made")
    with pytest.raises(CannotExtract, match="program-too-large") as raised:
        make_arguments(module, None, "seed")
    assert "17,179,869,188 bytes" in raised.value.what


SCAN = """HloModule made, is_scheduled=true

sum {
  a = s32[] parameter(0)
  b = s32[] parameter(1)
  ROOT s = s32[] add(a, b)
}

scan {
  p = s32[8]{0} parameter(0)
  zero = s32[] constant(0)
  ROOT w = s32[8]{0} reduce-window(p, zero), window={size=8 pad=7_0}, to_apply=sum
}

ENTRY main {
  x = s32[8]{0} parameter(0)
  ROOT scanned = s32[8]{0} fusion(x), kind=kLoop, calls=scan
}
"""


def test_window_in_a_fusion_runs():
    """jax asks whether a window starts from zero while it traces the fusion, so that the constant must be a number."""
    job, values = make_job(SCAN), np.arange(8, dtype=np.int32)
    (found,) = interpret_program(job.program.module, job.proto, [values])
    np.testing.assert_array_equal(found, np.cumsum(values))


@pytest.fixture(scope="module")
def step():
    """A step with a scan, top-k, a gather, and a sort; and what jax makes of it."""
    import jax.numpy as jnp

    def run(weights, table, tokens, target):
        hidden = table[tokens].astype(jnp.bfloat16)

        def layer(hidden, weight):
            chances = jax.nn.softmax(hidden @ weight, -1)
            best, places = jax.lax.top_k(chances, 2)
            return hidden + jax.nn.silu(chances @ weight.T) * best[..., :1], places

        hidden, places = jax.lax.scan(layer, hidden, weights)
        return jnp.mean((jnp.sort(hidden.astype(jnp.float32), -1) - target) ** 2), places

    keys = jax.random.split(jax.random.PRNGKey(0), 4)
    arguments = (
        jax.random.normal(keys[0], (3, 16, 16), jnp.bfloat16),
        jax.random.normal(keys[1], (32, 16)),
        jax.random.randint(keys[2], (8,), 0, 32),
        jax.random.normal(keys[3], (8, 16)),
    )
    compiled = jax.jit(run).lower(*arguments).compile()
    data = compiled.runtime_executable().hlo_modules()[0].as_serialized_hlo_module_proto()
    results = [np.asarray(each) for each in jax.tree.leaves(compiled(*arguments))]
    return data, [np.asarray(each) for each in arguments], results


@pytest.mark.skipif(
    tuple(map(int, jax.__version__.split(".")[:2])) < (0, 7),
    reason="comparators of sorts that jax before 0.7 compiles for the CPU are fusions, which lax code cannot have",
)
def test_program_gives_what_the_compiled_step_gives(step):
    data, arguments, expected = step
    found = interpret_program(parse_hlo_proto(data, "step"), parse_program_proto(data, "step"), arguments)
    assert len(found) == len(expected)
    for one, other in zip(found, expected, strict=True):
        assert (one.dtype, one.shape) == (other.dtype, other.shape)
        # bfloat16 products are summed in another order where XLA picks another routine: a few of its last places.
        tolerance = 2.0**-5 if one.dtype.itemsize == 2 else 2.0**-12
        scale = np.abs(other.astype("f8")).max()
        assert np.abs(one.astype("f8") - other.astype("f8")).max() <= tolerance * scale
