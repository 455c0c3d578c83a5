"""What library thunks launch: names and sizes as a function of the shapes."""

from __future__ import annotations

import re

import pytest

from rocktools.demo.library_kernels import Copies, KernelLaunch, LibraryOptions, choose_kernels
from rocktools.hlo.module import Computation, HloModule, Instruction
from rocktools.hlo.shapes import Shape
from rocktools.hlo.thunks import Thunk

OPTIONS = LibraryOptions(copies=Copies.BLIT)


def array(*dimensions: int, dtype: str = "bf16") -> Shape:
    return Shape(dtype=dtype, dimensions=dimensions)


def launched(
    kind: str, result: Shape, *operands: Shape, options: LibraryOptions = OPTIONS, thunk_id: int = 1
) -> tuple[KernelLaunch, ...]:
    names = [f"operand.{number}" for number in range(len(operands))]
    instructions = tuple(
        Instruction(name=name, opcode="parameter", shape=shape, computation="main", position=position)
        for position, (name, shape) in enumerate(zip(names, operands, strict=True))
    )
    made = Instruction(
        name="made", opcode="x", shape=result, operands=tuple(names), computation="main", position=len(operands)
    )
    computation = Computation(name="main", instructions=(*instructions, made), is_entry=True)
    module = HloModule(
        name="m", program_id=None, source="s", computations={"main": computation}, entry_name="main", is_scheduled=True
    )
    return choose_kernels(Thunk(thunk_id=thunk_id, kind=kind, instruction="made"), module, options)


def matmuls(rows: range, options: LibraryOptions = OPTIONS) -> list[tuple[KernelLaunch, ...]]:
    return [
        launched("kCublasLtMatmul", array(64 * row, 512), array(64 * row, 256), array(256, 512), options=options)
        for row in rows
    ]


def test_matmuls_of_equal_shapes_share_a_kernel_and_of_others_often_not():
    assert matmuls(range(5, 6)) == matmuls(range(5, 6))
    names = {kernels[0].name for kernels in matmuls(range(1, 200))}
    assert 10 < len(names) < 100


def test_the_workgroups_of_a_matmul_cover_the_result():
    for row, kernels in enumerate(matmuls(range(1, 60)), start=1):
        tile = re.search(r"_UserArgs_MT(\d+)x(\d+)x", kernels[0].name)
        assert tile is not None
        workgroups = -(-64 * row // int(tile[1])) * -(-512 // int(tile[2]))
        assert kernels[0].grid_workitems == (workgroups * 256, 1, 1)


def test_split_matmuls_have_a_helper_unless_nothing_is_split():
    found = matmuls(range(1, 200))
    split = [kernels for kernels in found if len(kernels) == 2]
    assert 20 < len(split) < 80  # about one in four
    assert all("_GSU4_" in product.name and "_PostGSU4_" in helper.name for product, helper in split)
    assert all("_GSU0_" in kernels[0].name for kernels in found if len(kernels) == 1)
    assert {len(kernels) for kernels in matmuls(range(1, 200), LibraryOptions(is_k_split=False))} == {1}


def test_larger_matmuls_take_longer():
    small, large = (launched("kGemm", array(n, n), array(n, n), array(n, n))[0].typical_ns for n in (512, 8192))
    # 2 n^3 operations: 4096 times as many.
    assert (large - 6_000) / (small - 6_000) == pytest.approx(4096)


@pytest.mark.parametrize("kind", ["kAllGather", "kAllReduce", "kReduceScatter", "kAllToAll", "kCollectivePermute"])
def test_every_collective_has_one_name_and_more_workgroups_for_more_bytes(kind):
    small, large = (launched(kind, array(size)) for size in (1 << 10, 1 << 27))
    assert {kernel.name for kernel in (*small, *large)} == {"ncclDevKernel_Generic_2(ncclDevKernelArgsStorage<5120ul>)"}
    assert (small[0].ending, small[0].workgroup_workitems) == (" [clone .kd]", (512, 1, 1))
    assert small[0].grid_workitems[0] < large[0].grid_workitems[0]
    assert small[0].typical_ns < large[0].typical_ns


def test_mixed_copies_are_a_matter_of_the_thunk_and_do_not_change():
    mixed = LibraryOptions(copies=Copies.MIXED)
    counts = [len(launched("kCopy", array(4096), options=mixed, thunk_id=number)) for number in range(100)]
    assert 30 < sum(counts) < 70
    assert counts == [len(launched("kCopy", array(4096), options=mixed, thunk_id=number)) for number in range(100)]


def test_tuples_tokens_and_unknown_instructions_are_no_trouble():
    pair = Shape(dtype="tuple", elements=(array(64, 64), Shape(dtype="token")))
    assert len(launched("kCublasLtMatmul", pair, array(64, 8), array(8, 64))) >= 1
    assert len(launched("kAllGather", Shape(dtype="token"))) == 1
    module = HloModule(
        name="m", program_id=None, source="s", computations={}, entry_name=None, is_scheduled=True, is_complete=False
    )
    for kind in ("kCublasLtMatmul", "kAllReduce", "kCopy", "kMemzero", "kCustomCall"):
        assert choose_kernels(Thunk(thunk_id=3, kind=kind), module, OPTIONS)
    assert choose_kernels(Thunk(thunk_id=3, kind="kHostSend"), module, OPTIONS) == ()
