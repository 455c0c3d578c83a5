"""Kernel names without a thunk sequence; with one: tests/replay/test_whole_step.py."""

from __future__ import annotations

import pytest

from rocktools.errors import UsageError
from rocktools.hlo.program import CompiledProgram
from rocktools.hlo.text_reader import parse_hlo_text
from rocktools.replay.select import select_instruction, select_kernel

TEXT = """HloModule jit_step, is_scheduled=true

fused {
  p = f32[8]{0} parameter(0)
  ROOT n = f32[8]{0} negate(p)
}

other {
  p = f32[8]{0} parameter(0)
  ROOT e = f32[8]{0} exponential(p)
}

ENTRY main {
  x = f32[8]{0} parameter(0)
  loop_fusion.1 = f32[8]{0} fusion(x), kind=kLoop, calls=fused
  loop_fusion.2 = f32[8]{0} fusion(loop_fusion.1), kind=kLoop, calls=other
  ROOT input_fusion = f32[8]{0} fusion(loop_fusion.2), kind=kInput, calls=other
}
"""


@pytest.fixture
def program() -> CompiledProgram:
    return CompiledProgram(module=parse_hlo_text(TEXT, "made"), thunks=None)


@pytest.mark.parametrize("name", ["loop_fusion_2", "loop_fusion_2.kd"])
def test_kernel_of_the_sanitised_name_is_found(program, name):
    chosen = select_kernel(program, name)
    assert (chosen.instruction.name, chosen.kernel_name, chosen.is_sure) == ("loop_fusion.2", "loop_fusion_2", False)


def test_kernel_that_several_instructions_may_launch_lists_them(program):
    """XLA may have numbered the kernel otherwise than the instruction; the stem alone says not which is meant."""
    with pytest.raises(UsageError) as raised:
        select_kernel(program, "loop_fusion_7")
    assert raised.value.reference == "several-instructions"
    assert "loop_fusion.1, loop_fusion.2" in raised.value.what
    assert raised.value.hint == "--instruction loop_fusion.1"


@pytest.mark.parametrize("select, reference", [(select_kernel, "kernel"), (select_instruction, "instruction")])
def test_what_is_not_there_is_told_with_what_is_like_it(program, select, reference):
    with pytest.raises(UsageError) as raised:
        select(program, "inptu_fusion")
    assert raised.value.reference == f"unknown-{reference}"
    assert (raised.value.hint or "").startswith("input_fusion, ")
