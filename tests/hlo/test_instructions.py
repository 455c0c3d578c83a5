"""INSTRUCTIONS of programs: small ones by hand, real ones by their figures."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path

import pytest

from rocktools.frames import INSTRUCTIONS
from rocktools.hlo.cost import estimate_costs
from rocktools.hlo.cost_arithmetic import count_arithmetic
from rocktools.hlo.instructions import build_instructions
from rocktools.hlo.reading import read_hlo
from rocktools.hlo.scopes import parse_op_name
from rocktools.hlo.text_reader import parse_hlo_text

PROGRAM = """HloModule jit_step, is_scheduled=true

%fused (p: f32[8]) -> f32[8] {
  %p = f32[8]{0} parameter(0)
  ROOT %multiply = f32[8]{0} multiply(%p, %p), metadata={op_name="jit(step)/while/body/jvp(layer)/mul" source_file="step.py" source_line=12}
}

%body (state: (s32[], f32[8])) -> (s32[], f32[8]) {
  %state = (s32[], f32[8]{0}) parameter(0)
  %count = s32[] get-tuple-element(%state), index=0
  %value = f32[8]{0} get-tuple-element(%state), index=1
  %loop_multiply_fusion = f32[8]{0} fusion(%value), kind=kLoop, calls=%fused
  ROOT %next = (s32[], f32[8]{0}) tuple(%count, %loop_multiply_fusion)
}

%condition (asked: (s32[], f32[8])) -> pred[] {
  %asked = (s32[], f32[8]{0}) parameter(0)
  ROOT %go = pred[] constant(true)
}

ENTRY %main (a: (s32[], f32[8])) -> (s32[], f32[8]) {
  %a = (s32[], f32[8]{0}) parameter(0), metadata={op_name="state"}
  ROOT %while = (s32[], f32[8]{0}) while(%a), condition=%condition, body=%body, backend_config={"known_trip_count":{"n":"7"}}
}
"""  # noqa: E501


def test_a_program_becomes_rows_in_the_order_of_its_computations():
    frame = build_instructions(parse_hlo_text(PROGRAM, source="made here"))
    assert tuple(frame.columns) == INSTRUCTIONS.names
    assert frame["instruction"].tolist() == [
        *("state", "count", "value", "loop_multiply_fusion", "next"),
        *("asked", "go", "p", "multiply", "a", "while"),
    ]
    assert set(frame["program_id"]) == {"jit_step"}
    assert frame["position_index"].tolist() == [0, 1, 2, 3, 4, 0, 1, 0, 1, 0, 1]
    rows = frame.set_index(frame["instruction"].astype(str))
    fusion = rows.loc["loop_multiply_fusion"]
    assert (fusion["op_name"], fusion["op_name_origin"]) == ("jit(step)/while/body/jvp(layer)/mul", "fused_root")
    assert (fusion["scope"], fusion["phase"], fusion["fusion_kind"]) == ("layer", "forward", "kLoop")
    assert (fusion["calls_count"], fusion["compute_flop"], fusion["read_bytes"], fusion["written_bytes"]) == (
        7, 8, 32, 32,
    )  # fmt: skip
    assert rows["payload_bytes"].isna().all()
    multiply = rows.loc["multiply"]
    assert (multiply["source_file"], multiply["source_line"]) == ("step.py", 12)
    missing = rows[["compute_flop", "read_bytes", "written_bytes"]].isna().all(axis=1)
    assert set(missing[missing].index) == {"p", "multiply", "while"}
    assert rows["phase"].isna().sum() == 9
    assert rows.loc["a", "scope"] == ""
    assert rows["scope"].isna().sum() == 8


def test_costs_times_calls_add_up_over_all_rows():
    frame = build_instructions(parse_hlo_text(PROGRAM, source="made here"))
    assert (frame["compute_flop"] * frame["calls_count"]).sum() == 7 * 8


def test_a_program_without_instructions_is_an_empty_frame():
    frame = build_instructions(parse_hlo_text("HloModule empty\n", source="made here"))
    assert frame.empty
    assert tuple(frame.columns) == INSTRUCTIONS.names


STEP = "hlo/gfx950-mixtral-8x22b/{}/module_0001.jit_step.gfx950_gpu_after_optimizations"


@pytest.mark.parametrize("build", ["triton", "blaslt"])
def test_text_and_proto_of_one_program_give_the_same_rows(shared: Path, build):
    stem = shared / "data" / STEP.format(build)
    text, proto = (build_instructions(read_hlo(f"{stem}{suffix}")) for suffix in (".txt", ".hlo.pb"))
    assert set(text["instruction"]) == set(proto["instruction"])
    same = ["opcode", "op_name", "scope", "phase", "calls_count", "compute_flop", "read_bytes", "written_bytes"]
    left, right = (
        frame.set_index(frame["instruction"].astype(str)).sort_index()[[*same, "payload_bytes"]].astype(object)
        for frame in (text, proto)
    )
    assert left.where(left.notna(), None).equals(right.where(right.notna(), None))


def test_two_builds_of_one_step_multiply_the_same_matrices(shared: Path):
    """Triton's products and the library's, by phase and scope: one costs what the other does.

    The library adds to C (beta = 1) where Triton leaves that to another instruction: an addition for each element.
    Triton multiplies for the logits four times, in fusions with what follows, and for one attention product twice.
    """
    products = {}
    for build in ("triton", "blaslt"):
        module = read_hlo(f"{shared / 'data' / STEP.format(build)}.txt")
        costs = estimate_costs(module)
        found: defaultdict[tuple[str, str], list[int]] = defaultdict(list)
        for instruction in module.instructions.values():
            path = parse_op_name(instruction.metadata.op_name)
            if instruction.opcode == "dot":
                found[str(path.phase), path.scope].append(count_arithmetic(module, instruction).flop)
            elif instruction.custom_call_target == "__cublas$lt$matmul":
                flop = costs[instruction.name].compute_flop
                added = next(instruction.shape.leaves()).elements_count if len(instruction.operands) == 3 else 0
                found[str(path.phase), path.scope].append(flop - added)
        products[build] = found
    triton, library = products["triton"], products["blaslt"]
    assert {key: set(flop) for key, flop in triton.items()} == {key: set(flop) for key, flop in library.items()}
    assert {key: len(flop) - len(library[key]) for key, flop in triton.items() if len(flop) != len(library[key])} == {
        ("forward", "lm_head/bsd,dv->bsv"): 3,
        ("rematerialized", "attention/core/bsgmk,btgk->bgmst"): 1,
    }
