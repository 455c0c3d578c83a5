"""One instruction for people: every line says something that the text of the program says."""

from __future__ import annotations

from pathlib import Path

import pytest
from mixtral_program import mixtral_program
from tiny_program import TINY, build_tiny, thunk_ids

from rocktools.hlo.description import render_callers, render_description
from rocktools.hlo.program import CompiledProgram
from rocktools.hlo.text_reader import parse_hlo_text

GALLERY = Path(__file__).with_name("gallery.hlo").read_text(encoding="utf-8")
_BRANCHES = """HloModule m, is_scheduled=true

%yes (a: f32[8]) -> f32[8] {
  %a = f32[8]{0} parameter(0)
  ROOT %twice = f32[8]{0} add(%a, %a)
}

%no (b: f32[8]) -> f32[8] {
  %b = f32[8]{0} parameter(0)
  ROOT %negative = f32[8]{0} negate(%b)
}

%dead (c: f32[8]) -> f32[8] {
  ROOT %c = f32[8]{0} parameter(0)
}

ENTRY %main (p: f32[8], q: pred[]) -> f32[8] {
  %p = f32[8]{0} parameter(0)
  %q = pred[] parameter(1)
  ROOT %which = f32[8]{0} conditional(%q, %p, %p), branch_computations={%yes, %no}
}
"""


def describe(name: str, program: CompiledProgram | None = None) -> str:
    program = program or build_tiny()
    return render_description(program, program.module.instructions[name])


def gallery() -> CompiledProgram:
    return CompiledProgram(module=parse_hlo_text(GALLERY, "gallery"), thunks=None)


def test_first_comes_the_text() -> None:
    assert describe("copy.2").splitlines()[0] == "%copy.2 = f32[64,128]{1,0} copy(%loop_add_fusion.1)"


def test_place_executions_and_thunk_are_named() -> None:
    text = describe("input_reduce_fusion.1")
    assert "in %while.2.body, position 4 in order of launch" in text
    assert "executions in one run of the program: 15\n" in text
    number, kind = thunk_ids(TINY)["input_reduce_fusion.1"]
    assert f"thunk {number}: {kind}, kernel input_reduce_fusion_1, 32x1x1 workgroups of 256x1x1 work-items" in text


def test_both_thunks_of_an_asynchronous_collective_are_named() -> None:
    lines = [line for line in describe("all-reduce-start.2").splitlines() if line.startswith("thunk ")]
    assert len(lines) == 3  # the start, the collective, the done


def test_executions_behind_a_branch_are_unknown_with_the_reason() -> None:
    program = CompiledProgram(module=parse_hlo_text(_BRANCHES, "m"), thunks=None)
    assert "executions in one run of the program: unknown (a trip count is unknown, or a branch decides)" in describe(
        "twice", program
    )


def test_operands_users_and_what_it_wraps_are_listed() -> None:
    text = describe("loop_add_fusion.1")
    assert "operands:\n  %while.1.in = f32[64,128]{1,0} get-tuple-element\n" in text
    assert "users:\n  %copy.2 = f32[64,128]{1,0} copy\n" in text
    assert "%fused (p: f32[64,128]) -> f32[64,128] {" in text
    assert "ROOT %negate = f32[64,128]{1,0} negate(%p)" in text


def test_many_users_are_cut_with_their_number() -> None:
    lines = "\n".join(f"  %n.{number} = f32[8]{{0}} negate(%p)" for number in range(20))
    head = "HloModule m, is_scheduled=true\n\nENTRY %main (p: f32[8]) -> f32[8] {\n  %p = f32[8]{0} parameter(0)\n"
    text = f"{head}{lines}\n}}\n"
    text = describe("p", CompiledProgram(module=parse_hlo_text(text, "m"), thunks=None))
    assert text.count(" negate") == 12
    assert "  and 8 more" in text


def test_scope_phase_and_source_are_those_of_the_op_name_and_the_frames() -> None:
    text = describe("fusion.1", gallery())
    assert "by its own op_name" in text
    assert "scope: layer;" in text
    assert "source, innermost call first:\n  model.py:77 in layer.<locals>.inner\n" in text


def test_an_op_name_of_inside_is_said_to_be_one() -> None:
    text = "HloModule m, is_scheduled=true\n\n" + "\n".join(
        [
            "%fused (a: f32[8]) -> f32[8] {",
            "  %a = f32[8]{0} parameter(0)",
            '  ROOT %tanh = f32[8]{0} tanh(%a), metadata={op_name="jit(f)/transpose(jvp(layer))/tanh"}',
            "}",
            "",
            "ENTRY %main (p: f32[8]) -> f32[8] {",
            "  %p = f32[8]{0} parameter(0)",
            "  ROOT %f = f32[8]{0} fusion(%p), kind=kLoop, calls=%fused",
            "}",
        ]
    )
    found = describe("f", CompiledProgram(module=parse_hlo_text(text, "m"), thunks=None))
    assert "scope: layer; phase: backward; by the op_name of the root of its fusion" in found
    assert "no op_name, here or inside" in describe("copy.1")


def test_costs_are_estimates_of_one_execution() -> None:
    """A copy of 64 x 128 floats reads and writes 32,768 B each."""
    assert "one execution, estimated from shapes: 0 FLOP computed, 32.77 kB read, 32.77 kB written" in describe(
        "copy.1"
    )
    assert "32.77 kB of payload per device" in describe("all-reduce.3")
    unknown = describe("custom-call.1")
    assert "? computed" in unknown
    assert "\n  unknown: " in unknown


# Callers


def test_callers_lead_from_an_instruction_to_the_entry_with_trips() -> None:
    assert render_callers(build_tiny().module, "all-to-all.1").splitlines() == [
        "%all-to-all.1 = all-to-all in %while.2.body",
        "  body of while (5 trips) %while.2 in %while.1.body",
        "    body of while (3 trips) %while.1 in %main",
        "      %main is the entry of jit_tiny",
    ]


def test_callers_of_a_computation_are_all_of_them() -> None:
    lines = render_callers(build_tiny().module, "fused").splitlines()
    assert lines[0] == "%fused"
    assert sum(line.startswith("  called by fusion ") for line in lines) == 15


@pytest.mark.parametrize(
    "name, expected",
    [
        ("yes", ["%yes", "  branch 0 of conditional %which in %main", "    %main is the entry of m"]),
        ("negative", ["%negative = negate in %no", "  branch 1 of conditional %which in %main"]),
        ("dead", ["%dead", "  nothing calls %dead"]),
        ("main", ["%main", "  %main is the entry of m"]),
    ],
)
def test_callers_say_what_a_computation_is_to_them(name: str, expected: list[str]) -> None:
    module = parse_hlo_text(_BRANCHES, "m")
    assert render_callers(module, name).splitlines()[: len(expected)] == expected


def test_in_a_text_that_was_cut_the_caller_may_be_missing() -> None:
    module = parse_hlo_text(_BRANCHES[: _BRANCHES.index("ENTRY")] + "ENTRY %main (p", "m")
    assert "nothing calls %yes in the part that was read" in render_callers(module, "yes")


def test_a_condition_is_told_from_a_body() -> None:
    assert "  condition of while %while.2 in %while.1.body" in render_callers(build_tiny().module, "while.2.condition")


def test_every_instruction_of_the_gallery_can_be_described() -> None:
    program = gallery()
    for name in program.module.instructions:
        assert describe(name, program).startswith(("%", "ROOT %"))
        render_callers(program.module, name)


def test_real_gemm_of_mixtral_has_its_kernel_and_its_layers(shared: Path) -> None:
    program = mixtral_program(shared, "triton")
    text = describe("gemm_fusion_dot.66", program)
    assert "executions in one run of the program: 112\n" in text  # 2 microsteps of 56 layers
    assert "kernel gemm_fusion_dot_66" in text
    # bf16[4,10240,16384] by bf16[6144,4,16384]: 2 x 4 x 10240 x 6144 x 16384 = 8.246e12, and 2 bytes for each element.
    assert "8.246 TFLOP computed, 2.147 GB read, 503.3 MB written" in text
