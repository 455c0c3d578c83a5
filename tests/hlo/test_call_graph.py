"""Who calls whom, and how often: counts by hand."""

from __future__ import annotations

import itertools
from pathlib import Path

from rocktools.hlo.call_graph import (
    count_calls,
    count_computation_calls,
    find_call_paths,
    find_enclosing_loops,
    find_fused_computation,
    walk_fused,
)
from rocktools.hlo.module import HloModule
from rocktools.hlo.reading import read_hlo
from rocktools.hlo.text_reader import parse_hlo_text

GALLERY = Path(__file__).with_name("gallery.hlo").read_text(encoding="utf-8")


def loop(name: str, body: str, trips: int | None) -> str:
    known = f', backend_config={{"known_trip_count":{{"n":"{trips}"}}}}' if trips is not None else ""
    return f"%{name} = f32[] while(%p), condition=%test, body=%{body}{known}"


def program(**computations: list[str]) -> HloModule:
    """Computations with a parameter each; `entry` is the entry."""
    texts = ["HloModule m, is_scheduled=true\n", "%test (p: f32[]) -> pred[] {\n  ROOT %t = pred[] constant(true)\n}\n"]
    for name, lines in computations.items():
        head = "ENTRY %entry" if name == "entry" else f"%{name}"
        body = "".join(f"  {line}\n" for line in ["%p = f32[] parameter(0)", *lines])
        texts.append(f"{head} (p: f32[]) -> f32[] {{\n{body}}}\n")
    return parse_hlo_text("\n".join(texts), "made here")


def test_trip_counts_of_nested_loops_multiply():
    module = program(
        inner=["%x = f32[] negate(%p)"],
        outer=[loop("while.2", "inner", 56)],
        entry=[loop("while.1", "outer", 2)],
    )
    counts = count_computation_calls(module)
    assert (counts["entry"], counts["outer"], counts["inner"]) == (1, 2, 112)
    assert count_calls(module)["x"] == 112
    assert [each.name for each in find_enclosing_loops(module, module.instructions["x"])] == ["while.1", "while.2"]


def test_calls_from_several_places_are_added():
    module = program(
        shared=["%x = f32[] negate(%p)"],
        body=["%f.1 = f32[] fusion(%p), kind=kLoop, calls=%shared"],
        entry=[
            loop("while.1", "body", 5),
            "%f.2 = f32[] fusion(%p), kind=kLoop, calls=%shared",
            "%f.3 = f32[] call(%p), to_apply=%shared",
        ],
    )
    assert count_computation_calls(module)["shared"] == 5 + 1 + 1
    assert [[each.name for each in path] for path in find_call_paths(module, "shared")] == [
        ["while.1", "f.1"],
        ["f.2"],
        ["f.3"],
    ]


def test_an_unknown_trip_count_makes_everything_below_unknown():
    module = program(
        inner=["%x = f32[] negate(%p)"],
        outer=[loop("while.2", "inner", 7)],
        entry=[loop("while.1", "outer", None), "%y = f32[] negate(%p)"],
    )
    counts = count_calls(module)
    assert (counts["while.1"], counts["while.2"], counts["x"], counts["y"]) == (1, None, None, 1)


def test_a_loop_that_never_runs_calls_nothing():
    module = program(
        inner=["%x = f32[] negate(%p)"],
        outer=["%c = f32[] conditional(%p, %p), branch_computations={%inner}"],
        entry=[loop("while.1", "outer", 0)],
    )
    assert count_calls(module)["x"] == 0


def test_branches_run_an_unknown_number_of_times():
    module = program(
        branch=["%x = f32[] negate(%p)"],
        entry=["%c = f32[] conditional(%p, %p, %p), branch_computations={%branch, %branch}"],
    )
    assert count_calls(module)["x"] is None


def test_the_condition_of_a_counted_loop_is_not_run():
    module = program(body=["%x = f32[] negate(%p)"], entry=[loop("while.1", "body", 9)])
    assert count_computation_calls(module)["test"] == 0
    module = program(body=["%x = f32[] negate(%p)"], entry=[loop("while.1", "body", None)])
    assert count_computation_calls(module)["test"] is None


def test_what_nothing_calls_does_not_run_unless_the_caller_may_be_missing():
    module = program(dead=["%x = f32[] negate(%p)"], entry=[])
    assert count_computation_calls(module)["dead"] == 0
    cut = program(dead=["%x = f32[] negate(%p)"], entry=["%y = nonsense"])
    assert not cut.is_complete
    assert count_computation_calls(cut) == {"test": None, "dead": None, "entry": 1}


def test_computations_that_call_themselves_have_no_count():
    module = program(
        a=["%x = f32[] call(%p), to_apply=%b"],
        b=["%y = f32[] call(%p), to_apply=%a"],
        entry=["%z = f32[] call(%p), to_apply=%a"],
    )
    counts = count_computation_calls(module)
    assert (counts["entry"], counts["a"], counts["b"]) == (1, None, None)
    assert find_call_paths(module, "b")


def test_chains_of_any_length_are_followed():
    names = [f"c{number}" for number in range(3000)]
    module = program(
        **{name: [f"%x{name} = f32[] call(%p), to_apply=%{names[i - 1]}"] if i else [] for i, name in enumerate(names)},
        entry=[f"%z = f32[] call(%p), to_apply=%{names[-1]}"],
    )
    assert count_computation_calls(module)["c0"] == 1


def test_many_ways_to_a_computation_are_cut():
    names = [f"c{number}" for number in range(30)]
    calls = {
        name: [f"%{letter}{name} = f32[] call(%p), to_apply=%{after}" for letter in "xy"]
        for name, after in itertools.pairwise(names)
    }
    module = program(**calls, c29=[], entry=["%z = f32[] call(%p), to_apply=%c0"])
    assert count_computation_calls(module)["c29"] == 2**29
    assert len(find_call_paths(module, "c29")) == 1000


def test_a_fusion_is_followed_into_the_fusions_in_it():
    module = parse_hlo_text(GALLERY, "gallery")
    fusion = module.instructions["fusion.1"]
    assert find_fused_computation(module, fusion).name == "outer_fused"
    assert [each.name for each in walk_fused(module, fusion)] == ["o0", "nested", "exp.1", "i0", "tanh.1"]
    assert find_fused_computation(module, module.instructions["dot.1"]) is None
    assert list(walk_fused(module, module.instructions["dot.1"])) == []


def test_the_gallery_has_its_counts():
    counts = count_computation_calls(parse_hlo_text(GALLERY, "gallery"))
    assert (counts["body"], counts["outer_fused"], counts["inner_fused"]) == (56, 56, 56)
    assert (counts["condition"], counts["async_computation"], counts["yes"]) == (0, 1, None)


def test_the_layers_of_mixtral_run_once_per_layer_and_accumulation_step(shared):
    """56 scanned layers, 2 accumulation steps: bodies run 2 and 2 x 56 times (forward; backward with its replay)."""
    folder = shared / "data/hlo/gfx950-mixtral-8x22b/triton"
    module = read_hlo(folder / "module_0001.jit_step.gfx950_gpu_after_optimizations.txt")
    loops = [each for each in module.instructions.values() if each.opcode == "while"]
    counts = count_computation_calls(module)
    assert sorted(counts[each.called[0]] for each in loops) == [2, 112, 112]
