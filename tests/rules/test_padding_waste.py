"""Matrix products whose sizes do not fill the tiles of MFMA instructions."""

from __future__ import annotations

import pytest
from roofline_rows import round_device
from rule_timeline import MS, found, only, program, repeated, timeline

from rocktools.rules.kernel_work import build_kernel_work
from rocktools.rules.padding_waste import RULE


def _product(rows: int, depth: int, columns: int) -> str:
    return f"""HloModule jit_f, is_scheduled=true

ENTRY %main (a: bf16[{rows},{depth}], b: bf16[{depth},{columns}]) -> bf16[{rows},{columns}] {{
  %a = bf16[{rows},{depth}]{{1,0}} parameter(0)
  %b = bf16[{depth},{columns}]{{1,0}} parameter(1)
  ROOT %dot.1 = bf16[{rows},{columns}]{{1,0}} dot(%a, %b), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}
}}
"""


PADDED = """HloModule jit_f, is_scheduled=true

ENTRY %main (a: bf16[60,64], b: bf16[64,64]) -> bf16[64,64] {
  %a = bf16[60,64]{1,0} parameter(0)
  %b = bf16[64,64]{1,0} parameter(1)
  %zero = bf16[] constant(0)
  %pad.1 = bf16[64,64]{1,0} pad(%a, %zero), padding=0_4x0_0
  ROOT %dot.1 = bf16[64,64]{1,0} dot(%pad.1, %b), lhs_contracting_dims={1}, rhs_contracting_dims={0}
}
"""


def _inputs(text: str):
    """A product of 100 us in a step of 1 ms; the device of round numbers does 1 FLOP per ns."""
    rows = [{"start": 0, "end": MS // 10, "instruction": "dot.1", "program_id": "7"}, {"start": MS // 2, "end": MS}]
    return timeline(repeated(rows, period=MS), programs=[program(text)], device=round_device())


def test_sizes_between_tiles_waste_what_fills_them():
    """17 rows are two tiles of 16: 15 of 32 rows are padding, 2 x 15 x 64 x 64 FLOPs at 1 FLOP per ns."""
    finding, explained = only(RULE, _inputs(_product(17, 64, 64)))
    assert finding.numbers["worst_wasted_flop"] == 2 * 15 * 64 * 64
    assert explained == pytest.approx(2 * 15 * 64 * 64)
    assert "17x64x64" in finding.message


def test_whole_tiles_waste_nothing():
    assert found(RULE, _inputs(_product(64, 64, 64))) == []


def test_operand_that_was_padded_by_the_compiler_counts_with_its_own_size():
    work = build_kernel_work([program(PADDED)]).set_index("instruction")
    assert work.loc["dot.1", "product"] == "60x64x64"
    assert work.loc["dot.1", "wasted_flop"] == 2 * 4 * 64 * 64
    assert only(RULE, _inputs(PADDED))[1] == pytest.approx(2 * 4 * 64 * 64)
