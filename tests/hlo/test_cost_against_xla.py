"""Costs beside those of XLA's `HloCostAnalysis`, instruction by instruction; every difference has a reason.

The reasons are those of docs/decisions/0010-cost-from-the-module.md. XLA keeps its sums as 32-bit floats: above
2^24 each of some ten terms may lose half of the last digit, which is within one part in 2^20.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from xla_cost_analysis import XlaCost, analyze_alone, count_as_xla, split_source

from rocktools.hlo.cost import Cost, estimate_costs
from rocktools.hlo.module import HloModule, Instruction
from rocktools.hlo.text_reader import parse_hlo_text

ROUNDING = 2.0**-20
NOT_COMPARED = {"parameter", "constant", "tuple", "get-tuple-element", "bitcast"}
MOVING = {"bitcast", "reshape", "slice", "dynamic-slice", "gather", "dynamic-update-slice", "scatter"}


@dataclass(frozen=True, kw_only=True)
class Compared:
    instruction: Instruction
    ours: Cost
    xla: XlaCost


def compare(text: str, source: str) -> tuple[HloModule, list[Compared]]:
    jax = pytest.importorskip("jax")
    pytest.importorskip("jaxlib._hlo")
    if not hasattr(pytest.importorskip("jaxlib.xla_client")._xla, "hlo_module_cost_analysis"):
        pytest.skip("this jaxlib has no cost analysis of HLO modules")
    client = jax.devices("cpu")[0].client
    module = parse_hlo_text(text, source=source)
    lines = split_source(module, text)
    return module, [
        Compared(instruction=instruction, ours=ours, xla=analyze_alone(client, lines, instruction))
        for name, ours in estimate_costs(module).items()
        if "counted" not in ours.reason
        for instruction in [module.instructions[name]]
        if instruction.opcode not in NOT_COMPARED and not instruction.opcode.endswith("-done")
    ]


def is_equal(ours: float, xla: float) -> bool:
    return abs(ours - xla) <= ROUNDING * max(abs(ours), abs(xla))


def fused(module: HloModule, instruction: Instruction) -> Iterator[Instruction]:
    for name in instruction.called:
        for inner in module.computations[name].instructions:
            yield inner
            if inner.opcode == "fusion":
                yield from fused(module, inner)


def explain_bytes(module: HloModule, compared: Compared) -> str:
    """Why bytes differ from XLA's; "equal" where they do not, "unexplained" where nothing known fits."""
    instruction, ours, xla = compared.instruction, compared.ours, compared.xla
    if instruction.opcode == "custom-call":
        return "XLA has no rule" if xla.total_bytes == -1 else "unexplained"
    assert ours.read_bytes is not None
    assert ours.written_bytes is not None
    total = ours.read_bytes + ours.written_bytes
    if is_equal(total, xla.total_bytes):
        return "equal"
    operands = [module.instructions[name].shape.size_bytes for name in dict.fromkeys(instruction.operands)]
    if instruction.opcode in ("all-gather-start", "collective-permute-start"):
        # The result of these starts holds the operands, too. XLA counts them as written.
        return "operands in the result" if is_equal(total + sum(operands), xla.total_bytes) else "unexplained"
    if abs(total - xla.total_bytes) <= 16 * len(instruction.operands):
        return "scalars: indices, operands given twice"
    opcodes = {inner.opcode for inner in fused(module, instruction)}
    if total < xla.total_bytes and opcodes & {"slice", "dynamic-slice", "gather", "pad"}:
        return "parts behind bitcasts and conversions"
    if total < xla.total_bytes and opcodes & {"dynamic-update-slice", "scatter"}:
        return "updates in place"
    return "unexplained"


def explain_flop(module: HloModule, compared: Compared) -> str:
    """Why operations differ from XLA's."""
    instruction, ours, xla = compared.instruction, compared.ours, compared.xla
    if instruction.opcode == "custom-call":
        return "XLA has no rule" if xla.flop == -1 else "unexplained"
    if ours.compute_flop is not None and is_equal(ours.compute_flop, xla.flop):
        return "equal"
    opcodes = {instruction.opcode} | {inner.opcode for inner in fused(module, instruction)}
    if "all-reduce" in instruction.opcode:
        return "reductions shared by the group"  # XLA: an addition for each element; of a reduce-scatter none
    if "reduce-scatter" in opcodes:
        return "reductions shared by the group"
    if "sort" in opcodes:
        return "comparisons"  # XLA: n * log2(n), for a sort
    if is_equal(count_as_xla(module, instruction), xla.flop):
        return "integers, comparisons, selections, conversions, padding, parts"
    return "unexplained"


MAXTEXT = "hlo/gfx950/maxtext-moe-pp2-ep8.train_step.after_optimizations.txt"
TRITON = "hlo/gfx950-mixtral-8x22b/triton/module_0001.jit_step.gfx950_gpu_after_optimizations.txt"
BLASLT = "hlo/gfx950-mixtral-8x22b/blaslt/module_0001.jit_step.gfx950_gpu_after_optimizations.txt"
CPU = "xplane/cpu_moe/module_0036.jit_train_step.cpu_after_optimizations.txt"


@pytest.mark.parametrize("file", [MAXTEXT, TRITON, BLASLT, CPU])
def test_every_difference_from_xla_has_a_reason(shared: Path, file):
    module, rows = compare((shared / "data" / file).read_text(encoding="utf-8"), file)
    assert len(rows) > 250
    unexplained = [
        (row.instruction.name, row.ours, row.xla)
        for row in rows
        if "unexplained" in (explain_bytes(module, row), explain_flop(module, row))
    ]
    assert unexplained == []
    transcendental = [
        row.instruction.name
        for row in rows
        if row.instruction.opcode != "custom-call"
        if row.ours.transcendental_count != row.xla.transcendental_count
    ]
    assert transcendental == []


def test_bytes_are_less_than_xla_says_wherever_they_differ_by_more_than_scalars(shared: Path):
    module, rows = compare((shared / "data" / TRITON).read_text(encoding="utf-8"), TRITON)
    reasons = Counter(explain_bytes(module, row) for row in rows)
    assert reasons["equal"] > 0.8 * len(rows)
    for row in rows:
        if row.instruction.opcode != "custom-call":
            assert row.ours.read_bytes + row.ours.written_bytes <= row.xla.total_bytes + 16 * len(
                row.instruction.operands
            )


def test_programs_of_jax_cost_what_xla_says_of_the_whole():
    """Where there is nothing to disagree about: products, additions, exponentials, of a whole program at once."""
    jax = pytest.importorskip("jax")
    jnp = jax.numpy

    def layer(x, w):
        return jnp.tanh(x @ w) * 2.0 + x[:, :16]

    compiled = jax.jit(layer).lower(jnp.ones((64, 32)), jnp.ones((32, 16))).compile()
    found = compiled.cost_analysis()
    found = found[0] if isinstance(found, list) else found
    costs = estimate_costs(parse_hlo_text(compiled.as_text(), source="jax")).values()
    known = [cost for cost in costs if cost.compute_flop is not None]
    assert sum(cost.compute_flop for cost in known) == found["flops"] == 2 * 64 * 16 * 32 + 2 * 64 * 16
    assert sum(cost.transcendental_count for cost in known) == found["transcendentals"] == 64 * 16


WINDOWS = [
    ("f32[2,9,16]", "f32[3,16,4]", "f32[2,5,4]", "{size=3 stride=2 pad=1_1}", "b0f_0io->b0f", ""),
    ("f32[2,4,16]", "f32[3,16,4]", "f32[2,9,4]", "{size=3 pad=2_2 lhs_dilate=2}", "b0f_0io->b0f", ""),
    ("f32[2,9,16]", "f32[3,16,4]", "f32[2,5,4]", "{size=3 rhs_dilate=2}", "b0f_0io->b0f", ""),
    ("f32[2,9,16]", "f32[3,4,8]", "f32[2,7,8]", "{size=3}", "b0f_0io->b0f", ", feature_group_count=4"),
    ("f32[8,9,16]", "f32[3,16,4]", "f32[2,7,4]", "{size=3}", "b0f_0io->b0f", ", batch_group_count=4"),
    ("f32[3,8,8,5]", "f32[5,5,5,7]", "f32[3,8,8,7]", "{size=5x5 pad=2_2x2_2}", "b01f_01io->b01f", ""),
]


@pytest.mark.parametrize("base, kernel, result, window, labels, groups", WINDOWS)
def test_convolutions_cost_what_xla_says(base, kernel, result, window, labels, groups):
    text = re.sub(
        r"\[([\d,]+)\]",
        lambda found: f"{found[0]}{{{','.join(map(str, reversed(range(found[1].count(',') + 1))))}}}",
        f"ENTRY %main {{\n  %a = {base} parameter(0)\n  %k = {kernel} parameter(1)\n"
        f"  ROOT %x = {result} convolution(%a, %k), window={window}, dim_labels={labels}{groups}\n}}\n",
    ).replace("ENTRY %main {", "ENTRY %main (a: f32[], k: f32[]) -> f32[] {")
    _, rows = compare(f"HloModule m\n\n{text}", "made here")
    (row,) = rows
    assert row.ours.compute_flop == row.xla.flop > 0
    assert row.ours.read_bytes + row.ours.written_bytes == row.xla.total_bytes
