"""The rows of rocprof-compute's tables 2.1, 7, 10, 11, 12, 16 and 17, as expressions in the grammar of our formulas.

A row is (expression, scale): scale "%" is times 100, "/t" is divided by the vendor's duration in nanoseconds, "" is as
it is. A row that is only a text is not reproduced, and the text says why.
"""

from __future__ import annotations

from collections.abc import Mapping

Row = tuple[str, str] | str

_PEAK = "a share of a peak, which is a matter of devices/ and not of a formula over counters"
_NEVER = "empty in all three workloads: its counters were not collected, or nothing of the kind happened"
_HALF = "on gfx950 the vendor's formula of that release gives half of the bytes (tested by itself)"

_RATES: Mapping[str, Row] = {
    "VALU FLOPs": ("valu_flop", "/t"),
    "VALU IOPs": ("valu_iop", "/t"),
    "MFMA FLOPs (F8)": ("mfma_flop_f8", "/t"),
    "MFMA FLOPs (BF16)": ("mfma_flop_bf16", "/t"),
    "MFMA FLOPs (F16)": ("mfma_flop_f16", "/t"),
    "MFMA FLOPs (F32)": ("mfma_flop_f32", "/t"),
    "MFMA FLOPs (F64)": ("mfma_flop_f64", "/t"),
    "MFMA FLOPs (F6F4)": ("mfma_flop_f6f4", "/t"),
    "MFMA IOPs (Int8)": ("mfma_iop_i8", "/t"),
    "MFMA IOPs (INT8)": ("mfma_iop_i8", "/t"),
}

ROWS: Mapping[str, Mapping[str, Row]] = {
    "2.1": {
        **_RATES,
        "Active CUs": "deprecated by the vendor: a count rounded to compute units; cu_utilisation stands for it",
        "SALU Utilization": ("salu_utilisation", "%"),
        "VALU Utilization": ("valu_utilisation", "%"),
        "MFMA Utilization": ("mfma_utilisation", "%"),
        "VMEM Utilization": ("vmem_utilisation", "%"),
        "Branch Utilization": ("branch_utilisation", "%"),
        "VALU Active Threads": ("active_workitems", ""),
        "IPC": ("instructions_per_cycle", ""),
        "Wavefront Occupancy": ("resident_waves_accumulated", ""),
        "Theoretical LDS Bandwidth": ("lds_bytes", "/t"),
        "LDS Bank Conflicts/Access": ("lds_conflicts_per_access", ""),
        "vL1D Cache Hit Rate": ("vl1d_hit_ratio", "%"),
        "vL1D Cache BW": ("vl1d_lookup_bytes", "/t"),
        "L2 Cache Hit Rate": ("l2_hit_ratio", "%"),
        "L2 Cache BW": ("l2_lookup_bytes", "/t"),
        "L2-Fabric Read BW": ("fabric_read_bytes", "/t"),
        "L2-Fabric Write BW": ("fabric_write_bytes", "/t"),
        "L2-Fabric Read Latency": ("fabric_read_latency", ""),
        "L2-Fabric Write Latency": ("fabric_write_latency", ""),
        "sL1D Cache Hit Rate": ("scalar_cache_hit_ratio", "%"),
        "sL1D Cache BW": ("64[B/request] * SQC_DCACHE_REQ", "/t"),
        "L1I Hit Rate": ("instruction_cache_hit_ratio", "%"),
        "L1I BW": ("64[B/request] * SQC_ICACHE_REQ", "/t"),
        "L1I Fetch Latency": ("fetch_latency", ""),
    },
    "7.1": {
        "Grid Size": ("column grid_workitems_x", ""),
        "Workgroup Size": ("column workgroup_workitems_x", ""),
        "Total Wavefronts": ("waves", ""),
        "Saved Wavefronts": ("SQ_WAVES_SAVED", ""),
        "Restored Wavefronts": ("SQ_WAVES_RESTORED", ""),
        "VGPRs": ("column vgpr_count", ""),
        "AGPRs": ("column agpr_count", ""),
        "SGPRs": ("column sgpr_count", ""),
        "LDS Allocation": ("column lds_bytes", ""),
        "Scratch Allocation": ("column scratch_bytes", ""),
    },
    "7.2": {
        "Kernel Time": "a time of a counter pass, which is no result here",
        "Kernel Time (Cycles)": ("elapsed_cycles", ""),
        "Instructions per wavefront": ("instructions_per_wave", ""),
        "Wave Cycles": ("wave_cycles", ""),
        "Dependency Wait Cycles": ("dependency_wait_cycles", ""),
        "Issue Wait Cycles": ("issue_wait_cycles", ""),
        "Active Cycles": ("active_wave_cycles", ""),
        "Wavefront Occupancy": ("resident_waves_accumulated", ""),
    },
    "10.1": {
        "VALU": ("valu_instructions", ""),
        "VMEM": ("vmem_instructions", ""),
        "LDS": ("lds_instructions", ""),
        "MFMA": ("mfma_instructions", ""),
        "SALU": ("salu_instructions", ""),
        "SMEM": ("smem_instructions", ""),
        "Branch": ("branch_instructions", ""),
    },
    "10.2": {
        "INT32": ("int32_instructions", ""),
        "INT64": ("int64_instructions", ""),
        **{
            f"F{bits}-{kind}": (f"SQ_INSTS_VALU_{kind.upper()}_F{bits}", "")
            for bits in (16, 32, 64)
            for kind in ("ADD", "MUL", "FMA", "Trans")
        },
        "Conversion": ("conversion_instructions", ""),
    },
    "10.3": {
        "Global/Generic Instr": ("TA_FLAT_WAVEFRONTS", ""),
        "Global/Generic Read": ("TA_FLAT_READ_WAVEFRONTS", ""),
        "Global/Generic Write": ("TA_FLAT_WRITE_WAVEFRONTS", ""),
        "Global/Generic Atomic": ("TA_FLAT_ATOMIC_WAVEFRONTS", ""),
        "Spill/Stack Instr": ("TA_BUFFER_WAVEFRONTS", ""),
        "Spill/Stack Coalesceable Instr": _NEVER,
        "Spill/Stack Read": ("TA_BUFFER_READ_WAVEFRONTS", ""),
        "Spill/Stack Write": ("TA_BUFFER_WRITE_WAVEFRONTS", ""),
        "Spill/Stack Atomic": ("TA_BUFFER_ATOMIC_WAVEFRONTS", ""),
    },
    "10.4": {
        f"MFMA-{name}": (f"SQ_INSTS_VALU_MFMA_{name}", "") for name in ("I8", "F8", "F16", "BF16", "F32", "F64", "F6F4")
    },
    "11.1": _RATES,
    "11.2": {
        "IPC": ("instructions_per_cycle", ""),
        "IPC (Issued)": ("instructions_per_issue", ""),
        "SALU Utilization": ("salu_utilisation", "%"),
        "VALU Utilization": ("valu_utilisation", "%"),
        "VALU Co-Issue Efficiency": ("dual_issue_ratio", "%"),
        "VMEM Utilization": ("vmem_utilisation", "%"),
        "Branch Utilization": ("branch_utilisation", "%"),
        "VALU Active Threads": ("active_workitems", ""),
        "MFMA Utilization": ("mfma_utilisation", "%"),
        "MFMA Instruction Cycles": ("mfma_cycles_per_instruction", ""),
        "VMEM Latency": ("vmem_latency", ""),
        "SMEM Latency": ("smem_latency", ""),
    },
    "11.3": {
        "FLOPs (Total)": ("total_flop", ""),
        "IOPs (Total)": ("total_iop", ""),
        "F8 OPs": ("mfma_flop_f8", ""),
        "F16 OPs": ("flop_f16", ""),
        "BF16 OPs": ("mfma_flop_bf16", ""),
        "F32 OPs": ("flop_f32", ""),
        "F64 OPs": ("flop_f64", ""),
        "F6F4 OPs": ("mfma_flop_f6f4", ""),
        "INT8 OPs": ("mfma_iop_i8", ""),
    },
    "12.1": {
        "Utilization": ("lds_utilisation", "%"),
        "Access Rate": ("lds_access_ratio", "%"),
        "Theoretical Bandwidth Utilization": _PEAK,
        "Theoretical Bandwidth (Pct of Peak)": _PEAK,
        "Bank Conflict Rate": ("lds_conflicts_per_access / 32", "%"),
    },
    "12.2": {
        "LDS Instructions": ("lds_instructions", ""),
        "LDS LOAD": ("SQ_INSTS_LDS_LOAD", ""),
        "LDS STORE": ("SQ_INSTS_LDS_STORE", ""),
        "LDS ATOMIC": ("SQ_INSTS_LDS_ATOMIC", ""),
        "LDS LOAD Bandwidth": ("64[B/sector] * SQ_INSTS_LDS_LOAD_BANDWIDTH", "/t"),
        "LDS STORE Bandwidth": ("64[B/sector] * SQ_INSTS_LDS_STORE_BANDWIDTH", "/t"),
        "LDS ATOMIC Bandwidth": ("64[B/sector] * SQ_INSTS_LDS_ATOMIC_BANDWIDTH", "/t"),
        "Theoretical Bandwidth": ("lds_bytes", "/t"),
        "LDS Latency": ("lds_latency", ""),
        "Bank Conflicts/Access": ("lds_conflicts_per_access", ""),
        "Index Accesses": ("SQ_LDS_IDX_ACTIVE", ""),
        "Atomic Return Cycles": ("SQ_LDS_ATOMIC_RETURN", ""),
        "Bank Conflict": ("SQ_LDS_BANK_CONFLICT", ""),
        "Addr Conflict": ("SQ_LDS_ADDR_CONFLICT", ""),
        "Unaligned Stall": ("SQ_LDS_UNALIGNED_STALL", ""),
        "Mem Violations": ("SQ_LDS_MEM_VIOLATIONS", ""),
        "LDS Command FIFO Full Rate": ("SQ_LDS_CMD_FIFO_FULL", ""),
        "LDS Data FIFO Full Rate": ("SQ_LDS_DATA_FIFO_FULL", ""),
    },
    "16.1": {
        "Hit rate": ("vl1d_hit_ratio", "%"),
        "Bandwidth Utilization": _PEAK,
        "Utilization": ("vl1d_utilisation", "%"),
        "Coalescing": ("vl1d_coalescing_ratio", "%"),
    },
    "16.2": {
        "Stalled on L2 Data": ("vl1d_data_stall_ratio", "%"),
        "Stalled on L2 Req": ("vl1d_request_stall_ratio", "%"),
        "Stalled on Address": _NEVER,
        "Stalled on Data": _NEVER,
        "Stalled on Latency FIFO": _NEVER,
        "Stalled on Request FIFO": _NEVER,
        "Stalled on Read Return": _NEVER,
        "Tag RAM Stall (Read)": ("vl1d_read_tag_stall_ratio", "%"),
        "Tag RAM Stall (Write)": ("vl1d_write_tag_stall_ratio", "%"),
        "Tag RAM Stall (Atomic)": ("vl1d_atomic_tag_stall_ratio", "%"),
    },
    "16.3": {
        "Total Req": ("TCP_TOTAL_ACCESSES", ""),
        "Read Req": ("TCP_TOTAL_READ", ""),
        "Write Req": ("TCP_TOTAL_WRITE", ""),
        "Atomic Req": ("TCP_TOTAL_ATOMIC_WITH_RET + TCP_TOTAL_ATOMIC_WITHOUT_RET", ""),
        "Cache BW": ("vl1d_lookup_bytes", "/t"),
        "Cache Hit Rate": ("vl1d_hit_ratio", "%"),
        "Cache Accesses": ("TCP_TOTAL_CACHE_ACCESSES", ""),
        "Cache Hits": ("vl1d_hit_requests", ""),
        "Invalidations": ("TCP_TOTAL_WRITEBACK_INVALIDATES", ""),
        "L1-L2 BW": ("l2_bytes", "/t"),
        **{f"Tag RAM {number} Req": _NEVER for number in range(4)},
        "L1-L2 Read": ("TCP_TCC_READ_REQ", ""),
        "L1-L2 Write": ("TCP_TCC_WRITE_REQ", ""),
        "L1-L2 Atomic": ("TCP_TCC_ATOMIC_WITH_RET_REQ + TCP_TCC_ATOMIC_WITHOUT_RET_REQ", ""),
        "L1 Access Latency": ("TCP_TCP_LATENCY", ""),
        "L1-L2 Read Latency": ("TCP_TCC_READ_REQ_LATENCY", ""),
        "L1-L2 Write Latency": ("TCP_TCC_WRITE_REQ_LATENCY", ""),
    },
    "16.4": {
        f"{kind} - {verb}": (f"TCP_TCC_{kind}_{verb.upper()}_REQ", "")
        for kind in ("NC", "UC", "CC", "RW")
        for verb in ("Read", "Write", "Atomic")
    },
    "16.5": {
        "Req": ("TCP_UTCL1_REQUEST", ""),
        "Inflight Req": _NEVER,
        "Hit Ratio": ("translation_hit_ratio", "%"),
        "Hits": ("TCP_UTCL1_TRANSLATION_HIT", ""),
        "Translation Misses": ("TCP_UTCL1_TRANSLATION_MISS", ""),
        "Misses under Translation Miss": _NEVER,
        "Permission Misses": ("TCP_UTCL1_PERMISSION_MISS", ""),
    },
    "16.6": dict.fromkeys(
        (
            *("Cache Full Stall", "Cache Miss Stall", "Serialization Stall", "Thrashing Stall", "Latency FIFO Stall"),
            *("Resident Page Full Stall", "UTCL2 Stall"),
        ),
        _NEVER,
    ),
    "17.1": {
        "Utilization": ("l2_utilisation", "%"),
        "Peak Bandwidth": _PEAK,
        "Hit Rate": ("l2_hit_ratio", "%"),
        "L2-Fabric Read BW": ("fabric_read_bytes", "/t"),
        "L2-Fabric Write and Atomic BW": ("fabric_write_bytes", "/t"),
        "HBM Bandwidth": "the peak of the device, no value of the kernel",
    },
    "17.2": {
        "Read BW": ("fabric_read_bytes", "/t"),
        "HBM Read Traffic": ("hbm_read_ratio", "%"),
        "Remote Read Traffic": ("remote_read_requests / TCC_EA0_RDREQ", "%"),
        "Uncached Read Traffic": ("TCC_EA0_RD_UNCACHED_32B / TCC_EA0_RDREQ", "%"),
        "Write and Atomic BW": ("fabric_write_bytes", "/t"),
        "HBM Write and Atomic Traffic": ("hbm_write_ratio", "%"),
        "Remote Write and Atomic Traffic": ("remote_write_requests / TCC_EA0_WRREQ", "%"),
        "Atomic Traffic": ("fabric_atomic_ratio", "%"),
        "Uncached Write and Atomic Traffic": ("TCC_EA0_WR_UNCACHED_32B / TCC_EA0_WRREQ", "%"),
        "Read Latency": ("fabric_read_latency", ""),
        "Write and Atomic Latency": ("fabric_write_latency", ""),
        "Atomic Latency": ("fabric_atomic_latency", ""),
        "Read Stall": _NEVER,
        "Write Stall": _NEVER,
    },
    "17.3": {
        "Bandwidth": ("l2_lookup_bytes", "/t"),
        "Read Bandwidth": _NEVER,
        "Write Bandwidth": _NEVER,
        "Atomic Bandwidth": _NEVER,
        "Req": ("TCC_REQ", ""),
        "Read Req": ("TCC_READ", ""),
        "Write Req": ("TCC_WRITE", ""),
        "Atomic Req": ("TCC_ATOMIC", ""),
        "Streaming Req": ("TCC_STREAMING_REQ", ""),
        "Bypasss Req": _NEVER,
        "Probe Req": ("TCC_PROBE", ""),
        "Input Buffer Req": _NEVER,
        "Cache Hit": ("l2_hit_ratio", "%"),
        "Hits": ("TCC_HIT", ""),
        "Misses": ("TCC_MISS", ""),
        "Writeback": ("TCC_WRITEBACK", ""),
        "Writeback (Internal)": ("TCC_NORMAL_WRITEBACK", ""),
        "Writeback (vL1D Req)": ("TCC_ALL_TC_OP_WB_WRITEBACK", ""),
        "Evict (Internal)": ("TCC_NORMAL_EVICT", ""),
        "Evict (vL1D Req)": ("TCC_ALL_TC_OP_INV_EVICT", ""),
        **{f"{kind} Req": (f"TCC_{kind}_REQ", "") for kind in ("NC", "UC", "CC", "RW")},
    },
    "17.4": dict.fromkeys(
        ("Stalled on Latency FIFO", "Stalled on Write Data FIFO", "Input Buffer Stalled on L2"), _NEVER
    ),
    "17.5": {
        **{
            f"{verb} - {place} Stall": _NEVER
            for verb in ("Read", "Write")
            for place in ("PCIe", "Infinity Fabric", "HBM")
        },
        "Write - Credit Starvation": ("fabric_write_pressure_ratio", "%"),
    },
    "17.6": {
        "Read (32B)": ("TCC_EA0_RDREQ_32B", ""),
        "Read (64B)": ("fabric_reads_64b_requests", ""),
        "Read (128B)": ("TCC_BUBBLE", ""),
        "Read (Uncached)": ("TCC_EA0_RD_UNCACHED_32B", ""),
        "HBM Read": ("TCC_EA0_RDREQ_DRAM", ""),
        "Remote Read": ("remote_read_requests", ""),
        **{f"Read Bandwidth - {place}": _NEVER for place in ("PCIe", "Infinity Fabric", "HBM")},
        "Write and Atomic (32B)": ("fabric_writes_32b_requests", ""),
        "Write and Atomic (Uncached)": ("TCC_EA0_WR_UNCACHED_32B", ""),
        "Write and Atomic (64B)": ("TCC_EA0_WRREQ_64B", ""),
        "HBM Write and Atomic": ("TCC_EA0_WRREQ_DRAM", ""),
        "Remote Write and Atomic": ("remote_write_requests", ""),
        **{f"Write Bandwidth - {place}": _NEVER for place in ("PCIe", "Infinity Fabric", "HBM")},
        "Atomic": ("TCC_EA0_ATOMIC", ""),
        "Atomic - HBM": _NEVER,
        **{f"Atomic Bandwidth - {place}": _NEVER for place in ("PCIe", "Infinity Fabric", "HBM")},
    },
}
"""Table -> row -> how it is reproduced, or why not. The trademark sign in names of rows is left out."""

EXCEPTIONS: Mapping[tuple[str, str, str], str] = {
    ("vcopy-MI350", "2.1", "L2-Fabric Read BW"): _HALF,
    ("vcopy-MI350", "17.6", "Read (128B)"): "empty there: on gfx950 it is TCC_EA0_RDREQ_128B, which was not collected",
    (
        "vcopy-MI350",
        "17.6",
        "HBM Write and Atomic",
    ): "empty there for want of another counter; TCC_EA0_WRREQ_DRAM has it",
}
"""(workload, table, row) -> why it is not reproduced there, though elsewhere it is."""

OUTSIDE: Mapping[str, str] = {
    "0": "lists of kernels and dispatches",
    "1": "the machine",
    "3": "a drawing",
    "5": "the command processor",
    "6": "the workgroup manager",
    "13": "the instruction cache beyond its hit rate",
    "14": "the scalar cache beyond its hit rate",
    "15": "the address units",
    "18": "single channels of L2",
}
"""Table -> what it is about, which the catalogue of formulas has nothing of."""
