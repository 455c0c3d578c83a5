"""A forward model of a kernel: from what it does (instructions by shape, requests by size, cycles) to raw counters.

The right answers of formulas. Nothing here is read from counters/: sizes, shapes and rates are written down again, from
the instruction set (operations of an instruction follow from its shape), and what a counter counts from its
description.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

WAVE = 64
MOPS = 512
BYTES_OF_LINE = 128


@dataclass(frozen=True, kw_only=True)
class MatrixInstruction:
    """D = A B + C of an m x k and a k x n matrix, several blocks at once."""

    dtype: str
    m: int
    n: int
    k: int
    blocks: int = 1

    @property
    def flop(self) -> int:
        return 2 * self.m * self.n * self.k * self.blocks


# Shapes by the architecture's instruction set: name -> shape.
SHAPES: Mapping[str, Mapping[str, MatrixInstruction]] = {
    "gfx942": {
        "v_mfma_f32_32x32x8_f16": MatrixInstruction(dtype="F16", m=32, n=32, k=8),
        "v_mfma_f32_32x32x8_bf16": MatrixInstruction(dtype="BF16", m=32, n=32, k=8),
        "v_mfma_f32_16x16x16_f16": MatrixInstruction(dtype="F16", m=16, n=16, k=16),
        "v_mfma_f32_16x16x16_bf16": MatrixInstruction(dtype="BF16", m=16, n=16, k=16),
        "v_mfma_f32_32x32x16_fp8_fp8": MatrixInstruction(dtype="F8", m=32, n=32, k=16),
        "v_mfma_f32_16x16x4_f32": MatrixInstruction(dtype="F32", m=16, n=16, k=4),
        "v_mfma_f64_16x16x4_f64": MatrixInstruction(dtype="F64", m=16, n=16, k=4),
        "v_mfma_i32_32x32x16_i8": MatrixInstruction(dtype="I8", m=32, n=32, k=16),
    },
    "gfx950": {
        "v_mfma_f32_32x32x16_f16": MatrixInstruction(dtype="F16", m=32, n=32, k=16),
        "v_mfma_f32_32x32x16_bf16": MatrixInstruction(dtype="BF16", m=32, n=32, k=16),
        "v_mfma_f32_16x16x32_bf16": MatrixInstruction(dtype="BF16", m=16, n=16, k=32),
        "v_mfma_f32_32x32x16_fp8_fp8": MatrixInstruction(dtype="F8", m=32, n=32, k=16),
        "v_mfma_scale_f32_32x32x64_f8f6f4": MatrixInstruction(dtype="F6F4", m=32, n=32, k=64),
        "v_mfma_scale_f32_16x16x128_f8f6f4": MatrixInstruction(dtype="F6F4", m=16, n=16, k=128),
        "v_mfma_f32_16x16x4_f32": MatrixInstruction(dtype="F32", m=16, n=16, k=4),
        "v_mfma_f64_16x16x4_f64": MatrixInstruction(dtype="F64", m=16, n=16, k=4),
        "v_mfma_i32_32x32x32_i8": MatrixInstruction(dtype="I8", m=32, n=32, k=32),
    },
}
DTYPES = {
    "gfx942": ("F8", "BF16", "F16", "F32", "F64"),
    "gfx950": ("F8", "F6F4", "BF16", "F16", "F32", "F64"),
}


@dataclass(frozen=True, kw_only=True)
class Device:
    """A device of a given architecture."""

    architecture: str
    dies: int
    cu_per_die: int
    simd_per_cu: int = 4
    clock_hz: int = 2_000_000_000

    @property
    def cu(self) -> int:
        return self.dies * self.cu_per_die


@dataclass(frozen=True, kw_only=True)
class Kernel:
    """What one dispatch does, on all of the device together.

    Attributes:
        waves: how many there are, each resident for `cycles_of_wave`.
        matrix: name of an instruction -> how many waves executed it, all of them together.
        vector: (kind, dtype) -> how many; kind is ADD, MUL, FMA or TRANS, dtype F16, F32 or F64.
        integer: 32 and 64 bit vector integer instructions.
        fabric_reads, fabric_writes: size in bytes -> requests.
        hbm_reads: of them those to HBM addresses, size in bytes -> requests.
        l2_reads, l2_writes: lines that the vector caches read, halves of lines that they wrote.
        l2_hits, l2_misses: lookups.
        lookups: of tags in the vector caches.
        lds_cycles, conflict_cycles: of accesses, and of those lost.
        cycles: how long the dispatch took.
        busy_simd_cycles: of the matrix cores.
        issue_cycles: of the vector units, over all compute units.
    """

    waves: int = 1
    cycles_of_wave: int = 4
    matrix: Mapping[str, int] = field(default_factory=dict)
    vector: Mapping[tuple[str, str], int] = field(default_factory=dict)
    integer: tuple[int, int] = (0, 0)
    fabric_reads: Mapping[int, int] = field(default_factory=lambda: {128: 0, 64: 0, 32: 0})
    fabric_writes: Mapping[int, int] = field(default_factory=lambda: {64: 0, 32: 0})
    hbm_reads: Mapping[int, int] = field(default_factory=lambda: {128: 0, 64: 0, 32: 0})
    l2_reads: int = 0
    l2_writes: int = 0
    l2_hits: int = 1
    l2_misses: int = 1
    lookups: int = 1
    lds_cycles: int = 0
    conflict_cycles: int = 0
    cycles: int = 1_000
    busy_simd_cycles: int = 0
    issue_cycles: int = 0


def count(kernel: Kernel, device: Device) -> dict[str, float]:
    """The raw counters of a kernel, as rocprofv3 gives them: sums over all instances."""
    counters: dict[str, float] = {
        "GRBM_GUI_ACTIVE": kernel.cycles * device.dies,
        "SQ_WAVES": kernel.waves,
        "SQ_WAVE_CYCLES": kernel.waves * kernel.cycles_of_wave / 4,
        "SQ_ACTIVE_INST_VALU": kernel.issue_cycles,
        "SQ_VALU_MFMA_BUSY_CYCLES": kernel.busy_simd_cycles,
        "SQ_INSTS_VALU_INT32": kernel.integer[0],
        "SQ_INSTS_VALU_INT64": kernel.integer[1],
        "SQ_INSTS_MFMA": sum(kernel.matrix.values()),
        "TCP_TCC_READ_REQ": kernel.l2_reads,
        "TCP_TCC_WRITE_REQ": kernel.l2_writes,
        "TCP_TCC_ATOMIC_WITH_RET_REQ": 0,
        "TCP_TCC_ATOMIC_WITHOUT_RET_REQ": 0,
        "TCP_TOTAL_CACHE_ACCESSES": kernel.lookups,
        "TCC_HIT": kernel.l2_hits,
        "TCC_MISS": kernel.l2_misses,
        "SQ_LDS_IDX_ACTIVE": kernel.lds_cycles + kernel.conflict_cycles,
        "SQ_LDS_BANK_CONFLICT": kernel.conflict_cycles,
        "TCC_EA0_RDREQ": sum(kernel.fabric_reads.values()),
        "TCC_EA0_RDREQ_32B": kernel.fabric_reads[32],
        "TCC_EA0_RDREQ_DRAM": sum(kernel.hbm_reads.values()),
        "TCC_EA0_WRREQ": sum(kernel.fabric_writes.values()),
        "TCC_EA0_WRREQ_64B": kernel.fabric_writes[64],
    }
    for kind in ("ADD", "MUL", "FMA", "TRANS"):
        for dtype in ("F16", "F32", "F64"):
            counters[f"SQ_INSTS_VALU_{kind}_{dtype}"] = kernel.vector.get((kind, dtype), 0)
    vectors = sum(kernel.vector.values()) + sum(kernel.integer)
    counters["SQ_INSTS_VALU"] = vectors + sum(kernel.matrix.values())
    for dtype in (*DTYPES[device.architecture], "I8"):
        flop = sum(
            SHAPES[device.architecture][name].flop * times
            for name, times in kernel.matrix.items()
            if SHAPES[device.architecture][name].dtype == dtype
        )
        counters[f"SQ_INSTS_VALU_MFMA_MOPS_{dtype}"] = flop / MOPS
    if device.architecture == "gfx950":
        counters["TCC_EA0_RDREQ_128B"] = kernel.fabric_reads[128]
        counters["TCC_EA0_RDREQ_64B"] = kernel.fabric_reads[64]
        counters["TCC_BUBBLE"] = 0
        near = sum(size * times for size, times in kernel.hbm_reads.items()) / 32
        every = sum(size * times for size, times in kernel.fabric_reads.items()) / 32
        counters["TCC_EA0_RDREQ_DRAM_32B"] = near
        counters["TCC_EA0_RDREQ_GMI_32B"] = every - near
        counters["TCC_EA0_RDREQ_IO_32B"] = 0
    else:
        counters["TCC_BUBBLE"] = kernel.fabric_reads[128]
    return counters


def answers(kernel: Kernel, device: Device) -> dict[str, float]:
    """What the formulas have to give back."""
    shapes = SHAPES[device.architecture]

    def matrix_flop(dtype: str) -> int:
        return sum(shapes[name].flop * times for name, times in kernel.matrix.items() if shapes[name].dtype == dtype)

    def vector_flop(dtype: str) -> int:
        return sum(
            WAVE * times * (2 if kind == "FMA" else 1) for (kind, of), times in kernel.vector.items() if of == dtype
        )

    read = sum(size * times for size, times in kernel.fabric_reads.items())
    written = sum(size * times for size, times in kernel.fabric_writes.items())
    given = {f"mfma_flop_{dtype.lower()}": matrix_flop(dtype) for dtype in DTYPES[device.architecture]}
    matrix = sum(given.values())
    given |= {f"valu_flop_{dtype.lower()}": vector_flop(dtype) for dtype in ("F16", "F32", "F64")}
    vector = sum(vector_flop(dtype) for dtype in ("F16", "F32", "F64"))
    resident = kernel.waves * kernel.cycles_of_wave / kernel.cycles
    given |= {
        "mfma_flop": matrix,
        "valu_flop": vector,
        "total_flop": matrix + vector,
        "mfma_iop_i8": matrix_flop("I8"),
        "valu_iop": WAVE * sum(kernel.integer),
        "total_iop": matrix_flop("I8") + WAVE * sum(kernel.integer),
        "fabric_read_bytes": read,
        "fabric_write_bytes": written,
        "fabric_bytes": read + written,
        "l2_read_bytes": kernel.l2_reads * BYTES_OF_LINE,
        "l2_write_bytes": kernel.l2_writes * BYTES_OF_LINE // 2,
        "l2_hit_ratio": kernel.l2_hits / (kernel.l2_hits + kernel.l2_misses),
        "vl1d_lookup_bytes": kernel.lookups * BYTES_OF_LINE,
        "lds_bytes": kernel.lds_cycles * 128,
        "elapsed_cycles": kernel.cycles,
        "waves": kernel.waves,
        "resident_waves": resident,
        "occupancy": resident / (8 * device.simd_per_cu * device.cu),
        "valu_utilisation": kernel.issue_cycles / (kernel.cycles * device.cu),
        "mfma_utilisation": kernel.busy_simd_cycles / (kernel.cycles * device.cu * device.simd_per_cu),
        "valu_instructions": sum(kernel.vector.values()) + sum(kernel.integer),
        "cycles_per_wave": kernel.cycles_of_wave,
    }
    if read + written:
        given["fabric_intensity"] = (matrix + vector) / (read + written)
    if device.architecture == "gfx950":
        given["fabric_read_bytes_by_destination"] = read
    if sum(kernel.fabric_reads.values()):
        given["hbm_read_ratio"] = sum(kernel.hbm_reads.values()) / sum(kernel.fabric_reads.values())
    return given
