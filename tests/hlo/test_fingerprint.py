"""Fingerprints: the same for the same work however it is numbered, another one for other work."""

from __future__ import annotations

import random
import re
from pathlib import Path

import pytest

from rocktools.hlo.fingerprint import fingerprint_instructions
from rocktools.hlo.reading import read_hlo
from rocktools.hlo.text_reader import parse_hlo_text

PROGRAM = """HloModule jit_step, is_scheduled=true

%add.1 (x.1: f32[], y.1: f32[]) -> f32[] {
  %x.1 = f32[] parameter(0)
  %y.1 = f32[] parameter(1)
  ROOT %sum.1 = f32[] add(%x.1, %y.1)
}

%fused_multiply (p.1: f32[8,16], p.2: f32[16]) -> f32[8,16] {
  %p.1 = f32[8,16]{1,0} parameter(0)
  %p.2 = f32[16]{0} parameter(1)
  %broadcast.1 = f32[8,16]{1,0} broadcast(%p.2), dimensions={1}
  %exponential.1 = f32[8,16]{1,0} exponential(%p.1)
  ROOT %multiply.1 = f32[8,16]{1,0} multiply(%exponential.1, %broadcast.1), metadata={op_name="jit(step)/jvp(layer)/mul" stack_frame_id=3}
}

ENTRY %main.1 (a.1: f32[8,16], b.1: f32[16]) -> (f32[8], f32[8,16]) {
  %a.1 = f32[8,16]{1,0} parameter(0)
  %b.1 = f32[16]{0} parameter(1)
  %zero.1 = f32[] constant(0)
  %loop_multiply_fusion.1 = f32[8,16]{1,0} fusion(%a.1, %b.1), kind=kLoop, calls=%fused_multiply
  %reduce.1 = f32[8]{0} reduce(%loop_multiply_fusion.1, %zero.1), dimensions={1}, to_apply=%add.1, metadata={op_name="jit(step)/jvp(norm)/reduce_sum" stack_frame_id=4}
  %all-gather.1 = f32[64,16]{1,0} all-gather(%loop_multiply_fusion.1), channel_id=1, replica_groups={{0,1,2,3,4,5,6,7}}, dimensions={0}, use_global_device_ids=true
  %custom-call.1 = (f32[8,8]{1,0}, s8[1024]{0}) custom-call(%a.1, %a.1), custom_call_target="__cublas$gemm", backend_config={"operation_queue_id":"0","gemm_backend_config":{"beta":0,"selected_algorithm":"7","dot_dimension_numbers":{"lhs_contracting_dimensions":["1"],"rhs_contracting_dimensions":["1"]}}}
  ROOT %tuple.1 = (f32[8]{0}, f32[8,16]{1,0}) tuple(%reduce.1, %loop_multiply_fusion.1)
}
"""  # noqa: E501


def fingerprints(text: str) -> dict[str, str]:
    module = parse_hlo_text(text, source="made here")
    assert module.findings == ()
    return dict(fingerprint_instructions(module))


def renumber(text: str, seed: int) -> tuple[str, dict[str, str]]:
    """The program with fresh numbers on every name and other ids; and new name -> old name."""
    numbers = list(range(100, 100_000))
    random.Random(seed).shuffle(numbers)
    names = dict.fromkeys(re.findall(r"(?<![\w\"])%([\w.\-]+)", text))
    new = {name: f"{re.sub(r'[.][0-9]+$', '', name)}.{numbers.pop()}" for name in names}
    text = re.sub(r"%([\w.\-]+)", lambda found: f"%{new.get(found[1], found[1])}", text)
    text = re.sub(r"channel_id=\d+", lambda _: f"channel_id={numbers.pop()}", text)
    return re.sub(r"stack_frame_id=\d+", "stack_frame_id=9", text), {new[name]: name for name in names}


def reorder(text: str, seed: int) -> str:
    """The program with the instructions of each computation in another order, operands still first."""
    chosen = random.Random(seed)

    def shuffle(found: re.Match[str]) -> str:
        waiting = found[2].splitlines()
        chosen.shuffle(waiting)
        own = {re.match(r"\s*(?:ROOT )?%([\w.\-]+)", line)[1] for line in waiting}
        done: list[str] = []
        named: set[str] = set()
        while waiting:
            ready = next(
                line for line in waiting if set(re.findall(r"%([\w.\-]+)", line.split(" = ", 1)[1])) & own <= named
            )
            waiting.remove(ready)
            done.append(ready)
            named.add(re.match(r"\s*(?:ROOT )?%([\w.\-]+)", ready)[1])
        return found[1] + "\n".join(done) + "\n}"

    return re.sub(r"(?m)^((?:ENTRY )?%[^\n]*\{\n)((?:  [^\n]*\n)*?)\}", shuffle, text)


@pytest.mark.parametrize("seed", range(5))
def test_another_numbering_and_order_have_the_same_fingerprints(seed):
    renumbered, old_names = renumber(PROGRAM, seed)
    changed = reorder(renumbered, seed)
    assert changed != PROGRAM
    expected = fingerprints(PROGRAM)
    assert {old_names[name]: value for name, value in fingerprints(changed).items()} == expected
    assert len(set(expected.values())) > 12


@pytest.mark.parametrize("seed", range(2))
def test_a_whole_training_step_renumbered_has_the_same_fingerprints(shared: Path, seed):
    path = shared / "data/hlo/gfx950-mixtral-8x22b/triton/module_0001.jit_step.gfx950_gpu_after_optimizations.txt"
    text = path.read_text(encoding="utf-8")
    renumbered, old_names = renumber(text, seed)
    expected = fingerprints(text)
    assert {old_names[name]: value for name, value in fingerprints(reorder(renumbered, seed)).items()} == expected


BUILD = "data/hlo/gfx950-mixtral-8x22b/{}/module_0001.jit_step.gfx950_gpu_after_optimizations"


def test_text_and_proto_of_a_program_have_the_same_fingerprints(shared: Path):
    stem = shared / BUILD.format("blaslt")
    assert fingerprint_instructions(read_hlo(f"{stem}.txt")) == fingerprint_instructions(read_hlo(f"{stem}.hlo.pb"))


def test_two_builds_of_one_step_share_what_autotuning_left_alone(shared: Path):
    """The two differ in who multiplies, Triton or hipBLASLt; nine tenths of the library build's fusions are in both."""
    kernels = []
    for build in ("triton", "blaslt"):
        module = read_hlo(f"{shared / BUILD.format(build)}.txt")
        found = fingerprint_instructions(module)
        kernels.append({found[each.name] for each in module.instructions.values() if each.opcode == "fusion"})
    assert 0.9 * len(kernels[1]) < len(kernels[0] & kernels[1]) < len(kernels[1]) < len(kernels[0])


IRRELEVANT = [
    ('"selected_algorithm":"7"', '"selected_algorithm":"12"'),
    ("s8[1024]", "s8[4096]"),
    ('"operation_queue_id":"0"', '"operation_queue_id":"3"'),
    ("channel_id=1", "channel_id=77"),
    ("stack_frame_id=3", "stack_frame_id=5"),
    ("dimensions={0}, use_global", 'dimensions={0}, frontend_attributes={_x="y"}, use_global'),
    ("parameter(0)\n  %b.1", 'parameter(0), metadata={op_name=""}\n  %b.1'),
]


@pytest.mark.parametrize("before, after", IRRELEVANT)
def test_ids_and_what_autotuning_chose_do_not_count(before, after):
    assert before in PROGRAM
    assert fingerprints(PROGRAM.replace(before, after)) == fingerprints(PROGRAM)


RELEVANT = [
    # change, and instructions of the entry computation whose fingerprint must change
    ("f32[8]{0} reduce(", "f32[8]{0:T(256)} reduce(", {"reduce.1", "tuple.1"}),
    ("kind=kLoop", "kind=kInput", {"loop_multiply_fusion.1"}),
    ("exponential(%p.1)", "tanh(%p.1)", {"loop_multiply_fusion.1"}),
    ("multiply(%exponential.1, %broadcast.1)", "multiply(%broadcast.1, %exponential.1)", {"loop_multiply_fusion.1"}),
    ("jvp(layer)", "jvp(other)", {"loop_multiply_fusion.1"}),
    ("jvp(layer)", "transpose(jvp(layer))", {"loop_multiply_fusion.1"}),
    ("custom-call(%a.1, %a.1)", "custom-call(%a.1, %loop_multiply_fusion.1)", {"custom-call.1"}),
    ('"beta":0', '"beta":1', {"custom-call.1"}),
    ("__cublas$gemm", "__cublas$lt$matmul", {"custom-call.1"}),
    ("{{0,1,2,3,4,5,6,7}}", "{{0,1,2,3},{4,5,6,7}}", {"all-gather.1"}),
    ("constant(0)", "constant(1)", {"zero.1"}),
    ("%sum.1 = f32[] add", "%sum.1 = f32[] maximum", {"reduce.1"}),
]


@pytest.mark.parametrize("before, after, changed", RELEVANT)
def test_other_work_has_another_fingerprint(before, after, changed):
    assert before in PROGRAM
    expected, found = fingerprints(PROGRAM), fingerprints(PROGRAM.replace(before, after))
    entry = [name for name in expected if "main" in name or name.split(".")[0] in ENTRY]
    assert {name for name in entry if found[name] != expected[name]} == changed


ENTRY = {"a", "b", "zero", "loop_multiply_fusion", "reduce", "all-gather", "custom-call", "tuple"}


def test_twins_share_a_fingerprint_and_numbers_of_xla_in_names_do_not_count():
    text = """HloModule m
ENTRY %main (a: f32[8]) -> f32[8] {
  %a = f32[8]{0} parameter(0)
  %negate.1 = f32[8]{0} negate(%a), metadata={op_name="broadcast.61"}
  ROOT %negate.2 = f32[8]{0} negate(%negate.1), metadata={op_name="broadcast.97"}
}
"""
    found = fingerprints(text)
    assert found["negate.1"] == found["negate.2"]


def test_replica_groups_count_by_their_meaning():
    assert fingerprints(PROGRAM.replace("{{0,1,2,3,4,5,6,7}}", "[1,8]<=[8]")) == fingerprints(PROGRAM)


def test_damaged_modules_have_fingerprints_too():
    circle = """HloModule m
%c (p: f32[8]) -> f32[8] {
  %p = f32[8]{0} parameter(0)
  ROOT %f = f32[8]{0} fusion(%p), kind=kLoop, calls=%c
}
"""
    assert len(fingerprint_instructions(parse_hlo_text(circle, source="made here"))) == 2
    chain = "".join(
        f"%c{i} (p{i}: f32[]) -> f32[] {{\n  %p{i} = f32[] parameter(0)\n"
        f"  ROOT %f{i} = f32[] call(%p{i}), to_apply=%c{i + 1}\n}}\n"
        for i in range(2000)
    )
    assert len(fingerprint_instructions(parse_hlo_text(f"HloModule m\n{chain}", source="made here"))) == 4000
    operands = "".join(f"  %n{i} = f32[] negate(%n{i - 1})\n" for i in range(1, 3000))
    long = f"HloModule m\n%c (n0: f32[]) -> f32[] {{\n  %n0 = f32[] parameter(0)\n{operands}}}\n"
    assert len(fingerprint_instructions(parse_hlo_text(long, source="made here"))) == 3000
