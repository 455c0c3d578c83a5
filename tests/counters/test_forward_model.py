"""Counters written by a model of a kernel come back through the formulas exactly."""

from __future__ import annotations

from functools import cache

import pytest
from counter_frames import device, passes_of, table_of
from hypothesis import given, settings
from hypothesis import strategies as st
from kernel_model import SHAPES, Device, Kernel, answers, count

from rocktools.counters.evaluate import Level, evaluate
from rocktools.counters.formulas import Formulas, load_formulas

DEVICES = {
    "gfx950": Device(architecture="gfx950", dies=8, cu_per_die=32, clock_hz=2_400_000_000),
    "gfx942": Device(architecture="gfx942", dies=8, cu_per_die=38, clock_hz=2_100_000_000),
}
PARTITION = Device(architecture="gfx950", dies=4, cu_per_die=32)
KINDS = ("ADD", "MUL", "FMA", "TRANS")
counts = st.integers(0, 10**7)


@cache
def _formulas(architecture: str) -> dict[str, Formulas]:
    return {architecture: load_formulas(architecture)}


def _agents(model: Device):
    return device(
        arch=model.architecture, xcc_count=model.dies, cu_count=model.cu, simd_per_cu_count=model.simd_per_cu,
        max_engine_hz=model.clock_hz,
    )  # fmt: skip


@st.composite
def kernels(draw, architecture: str) -> Kernel:
    sizes = {size: draw(counts) for size in (128, 64, 32)}
    return Kernel(
        waves=draw(st.integers(1, 10**6)),
        cycles_of_wave=4 * draw(st.integers(1, 10**6)),
        matrix={name: draw(counts) for name in SHAPES[architecture]},
        vector={(kind, dtype): draw(counts) for kind in KINDS for dtype in ("F16", "F32", "F64")},
        integer=(draw(counts), draw(counts)),
        fabric_reads=sizes,
        hbm_reads={size: draw(st.integers(0, number)) for size, number in sizes.items()},
        fabric_writes={size: draw(counts) for size in (64, 32)},
        l2_reads=draw(counts),
        l2_writes=draw(counts),
        l2_hits=draw(counts),
        l2_misses=draw(st.integers(1, 10**7)),
        lookups=draw(st.integers(1, 10**8)),
        lds_cycles=draw(counts),
        conflict_cycles=draw(counts),
        cycles=draw(st.integers(1, 10**7)),
        busy_simd_cycles=draw(counts),
        issue_cycles=draw(counts),
    )  # fmt: skip


def _check(model: Device, kernel: Kernel) -> None:
    table = table_of(passes_of([count(kernel, model)]), _agents(model))
    right = answers(kernel, model)
    frame = evaluate(table, _formulas(model.architecture), quantities=right).frame.set_index("quantity")
    for quantity, wanted in right.items():
        found = frame.loc[quantity]
        assert found["value"] == pytest.approx(wanted, rel=1e-14, abs=0), (quantity, found["absence"], found["lacking"])
        assert isinstance(found["doubts"], float), quantity  # none


@pytest.mark.parametrize("architecture", DEVICES)
@settings(max_examples=15)
@given(data=st.data())
def test_what_the_kernel_did_comes_back(architecture, data):
    _check(DEVICES[architecture], data.draw(kernels(architecture)))


@settings(max_examples=5)
@given(kernels("gfx950"))
def test_what_the_kernel_did_comes_back_from_a_partition(kernel):
    """Facts of the device come from its record: half of the dies, half of the compute units."""
    _check(PARTITION, kernel)


@settings(max_examples=10)
@given(st.lists(kernels("gfx942"), min_size=2, max_size=4))
def test_ratios_of_several_dispatches_are_sum_over_sum(several):
    model = DEVICES["gfx942"]
    table = table_of(passes_of([count(kernel, model) for kernel in several]), _agents(model))
    frame = evaluate(table, _formulas("gfx942"), quantities=["l2_hit_ratio", "total_flop"]).frame.set_index("quantity")
    hits = sum(kernel.l2_hits for kernel in several)
    lookups = hits + sum(kernel.l2_misses for kernel in several)
    assert frame.loc["l2_hit_ratio", "value"] == pytest.approx(hits / lookups, rel=1e-12)
    flop = sum(answers(kernel, model)["total_flop"] for kernel in several)
    assert frame.loc["total_flop", "value"] == pytest.approx(flop / len(several), rel=1e-12)
    assert frame.loc["total_flop", "dispatches_count"] == len(several)


@settings(max_examples=10)
@given(st.lists(kernels("gfx950"), min_size=1, max_size=3))
def test_least_and_most_are_those_of_the_dispatches(several):
    model = DEVICES["gfx950"]
    table = table_of(passes_of([count(kernel, model) for kernel in several]), _agents(model))
    wanted = ["fabric_read_bytes", "l2_hit_ratio", "occupancy", "total_flop"]
    whole = evaluate(table, _formulas("gfx950"), quantities=wanted).frame.set_index("quantity")
    single = evaluate(table, _formulas("gfx950"), quantities=wanted, level=Level.DISPATCH).frame
    for quantity in wanted:
        values = single.loc[single["quantity"] == quantity, "value"]
        assert whole.loc[quantity, "min_value"] == values.min()
        assert whole.loc[quantity, "max_value"] == values.max()


def test_a_dense_matrix_kernel_at_full_rate_fills_its_busy_cycles():
    """One 32x32x16 product in BF16 is 32,768 FLOPs, which a SIMD of gfx950 does in 32 cycles of 1,024."""
    model = DEVICES["gfx950"]
    kernel = Kernel(matrix={"v_mfma_f32_32x32x16_bf16": 1_000_000}, busy_simd_cycles=32_000_000, cycles=40_000)
    table = table_of(passes_of([count(kernel, model)]), _agents(model))
    evaluated = evaluate(table, _formulas("gfx950"))
    frame = evaluated.frame.set_index("quantity")
    assert frame.loc["mfma_rate_ratio", "value"] == 1
    assert "impossible-quantity" not in {finding.rule for finding in evaluated.findings}


def test_more_matrix_operations_than_busy_cycles_allow_are_told():
    model = DEVICES["gfx942"]
    kernel = Kernel(matrix={"v_mfma_f32_32x32x8_bf16": 1_000_000}, busy_simd_cycles=16_000_000, cycles=40_000)
    table = table_of(passes_of([count(kernel, model)]), _agents(model))
    told = [finding for finding in evaluate(table, _formulas("gfx942")).findings if "mfma_rate" in finding.message]
    assert len(told) == 1
    assert told[0].numbers["value"] == 2  # 16,384 FLOPs in 16 cycles, where 512 a cycle are possible
