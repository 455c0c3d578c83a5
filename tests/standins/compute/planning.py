"""Which counters a profile wants, and in which passes: by groups that are kept together, as the planner does."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from standins.compute.releases import Release

MOST_PASSES = 20
_OTHER_ARCHITECTURE_PASSES = 12
_BLOCK_2_PASSES = 6
_ROOFLINE_PASSES = 3
_PASSES_PER_BLOCK = 3

# Name of a pass ("" for numbered ones) -> its counters. Levels are passes of their own.
_GROUPS: tuple[tuple[str, str], ...] = (
    ("", "SQ_WAVES SQ_BUSY_CYCLES SQ_BUSY_CU_CYCLES SQ_WAVE_CYCLES GRBM_GUI_ACTIVE GRBM_COUNT SQ_INSTS_VALU"),
    (
        "",
        "TCC_EA0_RDREQ_sum TCC_EA0_RDREQ_128B_sum TCC_EA0_RDREQ_64B_sum TCC_EA0_RDREQ_32B_sum TCC_BUBBLE_sum"
        " TCC_EA0_RDREQ_DRAM_32B_sum TCC_EA0_WRREQ_sum TCC_EA0_WRREQ_64B_sum TCC_EA0_WRREQ_WRITE_DRAM_32B_sum",
    ),
    ("", "TCC_HIT_sum TCC_MISS_sum TCC_REQ_sum TCC_READ_sum TCC_WRITE_sum TCC_ATOMIC_sum TCC_BUSY_sum"),
    (
        "",
        "TCP_TOTAL_CACHE_ACCESSES_sum TCP_TOTAL_READ_sum TCP_TOTAL_WRITE_sum TCP_TCC_READ_REQ_sum TCP_TCC_WRITE_REQ_sum"
        " TCP_TCC_ATOMIC_WITH_RET_REQ_sum TCP_TCC_ATOMIC_WITHOUT_RET_REQ_sum",
    ),
    ("", "SQ_LDS_BANK_CONFLICT SQ_LDS_IDX_ACTIVE SQ_INSTS_LDS SQ_LDS_ADDR_CONFLICT SQ_ACTIVE_INST_LDS"),
    ("SQ_LEVEL_WAVES", "SQ_LEVEL_WAVES SQ_LEVEL_WAVES_ACCUM GRBM_GUI_ACTIVE"),
    (
        "",
        " ".join(f"SQ_INSTS_VALU_{what}_{kind}" for what in ("ADD", "MUL", "FMA", "TRANS") for kind in ("F16", "F32")),
    ),
    ("", " ".join(f"SQ_INSTS_VALU_{what}_F64" for what in ("ADD", "MUL", "FMA", "TRANS"))),
    (
        "",
        " ".join(f"SQ_INSTS_VALU_MFMA_MOPS_{kind}" for kind in ("F16", "BF16", "F32", "F64", "F8", "F6F4", "I8"))
        + " SQ_VALU_MFMA_BUSY_CYCLES GRBM_GUI_ACTIVE",
    ),
    (
        "",
        "SQ_ACTIVE_INST_ANY SQ_ACTIVE_INST_VALU SQ_ACTIVE_INST_SCA SQ_WAIT_ANY SQ_WAIT_INST_ANY SQ_INSTS",
    ),
    ("", "SQ_INSTS_SALU SQ_INSTS_SMEM SQ_INSTS_VMEM SQ_INSTS_BRANCH SQ_INSTS_SENDMSG SQ_INSTS_FLAT"),
    ("", "CPC_CPC_STAT_BUSY CPC_CPC_STAT_STALL CPF_CPF_STAT_BUSY CPF_CPF_STAT_STALL"),
    ("", "SPI_CSC_WAVE_CNT_BUSY SPI_RA_REQ_NO_ALLOC SPI_RA_RES_STALL_CSN SPI_CS0_NUM_THREADGROUPS"),
    ("", "TA_TA_BUSY_sum TA_TOTAL_WAVEFRONTS_sum TD_TD_BUSY_sum TD_LOAD_WAVEFRONT_sum"),
    *(
        (name, f"{name} {name}_ACCUM GRBM_GUI_ACTIVE")
        for name in (
            "SQ_IFETCH_LEVEL",
            "SQ_INST_LEVEL_LDS",
            "SQ_INST_LEVEL_SMEM",
            "SQ_INST_LEVEL_VMEM",
            "SQC_DCACHE_INFLIGHT_LEVEL",
            "SQC_ICACHE_INFLIGHT_LEVEL",
        )
    ),
)
# What a roofline needs, in three passes.
_ROOFLINE = (0, 1, 3)


@dataclass(frozen=True, slots=True, kw_only=True)
class Pass:
    """One run of the application: name of its file, and its counters."""

    name: str
    counters: tuple[str, ...]

    @property
    def is_level(self) -> bool:
        return not self.name.startswith("pmc_perf_")


def plan_passes(
    release: Release,
    *,
    blocks: Sequence[str],
    set_name: str | None,
    is_roofline: bool,
    architecture: str,
    most: int | None,
) -> list[Pass]:
    """The passes of a profile; `most` cuts them off, for tests that have no time."""
    if set_name is not None:
        numbers: Sequence[int] = range(1)
    elif is_roofline:
        numbers = _ROOFLINE[:_ROOFLINE_PASSES]
    elif not blocks:
        numbers = range(MOST_PASSES if architecture == "gfx950" else _OTHER_ARCHITECTURE_PASSES)
    elif list(blocks) == ["2"]:
        numbers = range(_BLOCK_2_PASSES)
    else:
        numbers = range(min(MOST_PASSES, _PASSES_PER_BLOCK * len(blocks)))
    passes: list[Pass] = []
    for number in list(numbers)[:most]:
        name, counters = _GROUPS[number]
        plain = sum(not each.is_level for each in passes)
        passes.append(Pass(name=name or f"pmc_perf_{plain}", counters=tuple(counters.split())))
    return passes
