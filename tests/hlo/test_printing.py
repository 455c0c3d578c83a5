"""Printing is the inverse of reading: what was printed reads as the same instructions."""

from __future__ import annotations

from pathlib import Path

import pytest
from hlo_oracle import list_differences, require_xla
from hypothesis import given
from tiny_program import TINY, Node, hlo_text, program_trees

from rocktools.hlo.module import HloModule, StackFrame
from rocktools.hlo.printing import render_computation, render_instruction, render_stack
from rocktools.hlo.reading import read_hlo
from rocktools.hlo.text_reader import parse_hlo_text

GALLERY = Path(__file__).with_name("gallery.hlo").read_text(encoding="utf-8")
# What people have no use for, and what is a table of the module's rather than the instruction's.
NOT_PRINTED = frozenset({"scheduling_name", "deduplicated_name", "op_type", "stack_frame_id"})
MODULE_LINE = frozenset(
    {"input_output_alias", "entry_computation_layout", "frontend_attributes", "alias_passthrough_params"}
)


def printed(module: HloModule) -> str:
    head = f"HloModule {module.name}, is_scheduled={str(module.is_scheduled).lower()}"
    return "\n\n".join([head, *map(render_computation, module.computations.values())]) + "\n"


def assert_reads_as_the_same(module: HloModule) -> None:
    again = parse_hlo_text(printed(module), "printed")
    assert again.is_complete
    differences = list_differences(module, again, but=NOT_PRINTED | set(module.attributes) | MODULE_LINE)
    assert differences == []


def test_everything_in_the_gallery_reads_as_the_same() -> None:
    assert_reads_as_the_same(parse_hlo_text(GALLERY, "gallery"))


def test_printing_twice_changes_nothing() -> None:
    once = printed(parse_hlo_text(GALLERY, "gallery"))
    assert printed(parse_hlo_text(once, "printed")) == once


def test_xla_reads_what_was_printed() -> None:
    require_xla().hlo_module_from_text(printed(parse_hlo_text(hlo_text(TINY), "tiny")))


@given(nodes=program_trees())
def test_any_tree_of_loops_reads_as_the_same(nodes: list[Node]) -> None:
    assert_reads_as_the_same(parse_hlo_text(hlo_text(nodes), "tree"))


@pytest.mark.parametrize(
    "line",
    [
        "ROOT %a = f32[8]{0} constant({1, 2, 3, 4, 5, 6, 7, 8})",
        '%a = f32[8]{0} custom-call(%p), custom_call_target="__cublas$lt$matmul"',
        "%a = (f32[8]{0}, s32[]) tuple(%p, %q)",
        "ROOT %a = f32[8]{0} fusion(%p), kind=kLoop, calls=%fused, sharding={replicated}, "
        'metadata={op_name="jit(f)/add" source_file="m.py" source_line=7}, backend_config={"a":1}',
        "%a = f32[] reduce(%p, %q), dimensions={0}, to_apply=%add",
        '%a = s32[] while(%p), condition=%c, body=%b, backend_config={"known_trip_count":{"n":"3"}}',
        "%a = f32[8]{0} conditional(%q, %p, %p), branch_computations={%x, %y}",
        "%a = f32[8]{0} select-and-scatter(%p, %q, %q), window={size=2}, select=%ge, scatter=%add",
        "%a = f32[8]{0} call(%p), to_apply=%inner",
        '%a = f32[8]{0} custom-call(%p), custom_call_target="a\\"b", backend_config="opaque \\\\ text"',
        '%a = ((f32[8]{0}), f32[8]{0}) async-start(%p), async_execution_thread="side", calls=%inner',
    ],
)
def test_a_line_is_printed_as_it_was_read(line: str) -> None:
    text = f"HloModule m, is_scheduled=true\n\nENTRY %main (p: f32[8]) -> f32[8] {{\n  {line}\n}}\n"
    (instruction,) = parse_hlo_text(text, "m").instructions.values()
    assert render_instruction(instruction) == line


def test_texts_with_quotes_and_backslashes_survive() -> None:
    line = r'%a = f32[] add(%p, %p), metadata={op_name="jit(f)/a\"b\\c" source_file="C:\\m.py" source_line=1}'
    text = f"HloModule m, is_scheduled=true\n\nENTRY %main (p: f32[]) -> f32[] {{\n  {line}\n}}\n"
    module = parse_hlo_text(text, "m")
    assert module.instructions["a"].metadata.op_name == r'jit(f)/a"b\c'
    assert_reads_as_the_same(module)


def test_the_head_of_a_computation_has_its_parameters_and_its_result() -> None:
    module = parse_hlo_text(GALLERY, "gallery")
    assert render_computation(module.computations["less"]).splitlines()[0] == "%less (l: f32[], r: f32[]) -> pred[] {"
    assert render_computation(module.entry).startswith("ENTRY %")  # type: ignore[arg-type]


def test_a_computation_that_was_cut_has_an_unknown_result() -> None:
    text = "HloModule m, is_scheduled=true\n\n%f (p: f32[8]) -> f32[8] {\n  %p = f32[8]{0} parameter(0)\n"
    module = parse_hlo_text(text, "m")
    assert render_computation(module.computations["f"]).splitlines()[0] == "%f (p: f32[8]) -> ? {"


def test_the_stack_begins_with_the_innermost_call() -> None:
    module = parse_hlo_text(GALLERY, "gallery")
    assert render_stack(module, module.instructions["fusion.1"]).splitlines() == [
        "  model.py:77 in layer.<locals>.inner",
        '  train "loop".py:10 in main',
    ]
    assert render_stack(module, module.instructions["sum"]) == ""


def test_a_stack_that_leads_in_a_circle_ends() -> None:
    module = parse_hlo_text(GALLERY, "gallery")
    frames = {2: StackFrame(file="a.py", function="f", line=1, parent_id=2)}
    circle = HloModule(
        name="m",
        program_id=None,
        source="s",
        computations=module.computations,
        entry_name=module.entry_name,
        is_scheduled=True,
        stack_frames=frames,
    )
    assert render_stack(circle, circle.instructions["fusion.1"]) == "  a.py:1 in f"


@pytest.mark.parametrize(
    "name",
    [
        "gfx950/lhs_on.after_optimizations.txt",
        "gfx950/maxtext-moe-pp2-ep8.train_step.after_optimizations.txt",
        "gfx950-mixtral-8x22b/triton/module_0001.jit_step.gfx950_gpu_after_optimizations.txt",
        "gfx950-mixtral-8x22b/blaslt/module_0001.jit_step.gfx950_gpu_after_optimizations.hlo.pb",
    ],
)
def test_real_modules_read_as_the_same(shared: Path, name: str) -> None:
    assert_reads_as_the_same(read_hlo(shared / "data" / "hlo" / name))
