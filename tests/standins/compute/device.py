"""What the application launched, and what the hardware would have counted: a copy of 8 MiB on an MI350, scaled."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from standins.compute.install import SCENARIO

DEFAULT_LAUNCHES = 10
_LAUNCH_LINE = re.compile(r"^standin-launch: (\d+) (.+)$", re.MULTILINE)
_FIRST_START_NS = 9_460_596_530_662_000
_RUN_NS = 5_000_000_000
_SPACING_NS = 1_000_000

# Counter -> value of one launch, of a real MI350; what is not here is 0.
VALUES: Mapping[str, float] = {
    "SQ_WAVES": 16384, "SQ_BUSY_CYCLES": 193214, "SQ_BUSY_CU_CYCLES": 1425190, "SQ_WAVE_CYCLES": 9542777,
    "GRBM_GUI_ACTIVE": 270456, "GRBM_COUNT": 270456, "SQ_INSTS_VALU": 98304, "SQ_INSTS": 327680,
    "SQ_INSTS_SALU": 49152, "SQ_INSTS_SMEM": 65536, "SQ_INSTS_VMEM": 32768, "SQ_INSTS_BRANCH": 16384,
    "SQ_INSTS_SENDMSG": 16384, "SQ_ACTIVE_INST_ANY": 278528, "SQ_ACTIVE_INST_VALU": 98304,
    "SQ_ACTIVE_INST_SCA": 114688, "SQ_WAIT_ANY": 8515727, "SQ_WAIT_INST_ANY": 696864,
    "TCC_EA0_RDREQ_sum": 65704, "TCC_EA0_RDREQ_128B_sum": 65536, "TCC_EA0_RDREQ_64B_sum": 168,
    "TCC_EA0_RDREQ_DRAM_32B_sum": 262480, "TCC_EA0_WRREQ_sum": 131072, "TCC_EA0_WRREQ_64B_sum": 131072,
    "TCC_EA0_WRREQ_WRITE_DRAM_32B_sum": 262144, "TCC_HIT_sum": 68211, "TCC_MISS_sum": 131168, "TCC_REQ_sum": 199363,
    "TCC_READ_sum": 68291, "TCC_WRITE_sum": 131072, "TCC_BUSY_sum": 1036230,
    "TCP_TOTAL_CACHE_ACCESSES_sum": 524288, "TCP_TOTAL_READ_sum": 1048580, "TCP_TOTAL_WRITE_sum": 1048580,
    "TCP_TCC_READ_REQ_sum": 65536, "TCP_TCC_WRITE_REQ_sum": 131072,
    "SQ_LEVEL_WAVES": 38285430, "SQ_LEVEL_WAVES_ACCUM": 38285430, "SQ_IFETCH_LEVEL": 3824320,
    "SQ_IFETCH_LEVEL_ACCUM": 3824320, "SQ_INST_LEVEL_SMEM": 20366438, "SQ_INST_LEVEL_SMEM_ACCUM": 20366438,
    "SQ_INST_LEVEL_VMEM": 25721446, "SQ_INST_LEVEL_VMEM_ACCUM": 25721446,
    "SQC_DCACHE_INFLIGHT_LEVEL": 18444152, "SQC_DCACHE_INFLIGHT_LEVEL_ACCUM": 18444152,
    "SQC_ICACHE_INFLIGHT_LEVEL": 3249746, "SQC_ICACHE_INFLIGHT_LEVEL_ACCUM": 3249746,
    "CPC_CPC_STAT_BUSY": 192793, "CPC_CPC_STAT_STALL": 51500, "CPF_CPF_STAT_BUSY": 270456, "CPF_CPF_STAT_STALL": 8133,
    "SPI_CSC_WAVE_CNT_BUSY": 193776, "SPI_RA_REQ_NO_ALLOC": 19876, "SPI_RA_RES_STALL_CSN": 18768,
    "SPI_CS0_NUM_THREADGROUPS": 4096, "TA_TA_BUSY_sum": 719562, "TA_TOTAL_WAVEFRONTS_sum": 32768,
    "TD_TD_BUSY_sum": 1002640, "TD_LOAD_WAVEFRONT_sum": 32768,
}  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Kernel:
    """One kernel of an application: how often it is launched, how long a launch takes, what it counts."""

    name: str
    launches: int = DEFAULT_LAUNCHES
    duration_ns: int = 20_000
    scale: float = 1.0
    values: Mapping[str, float] = field(default_factory=dict)

    def value(self, counter: str) -> float:
        return self.values.get(counter, VALUES.get(counter, 0) * self.scale)


@dataclass(frozen=True, slots=True, kw_only=True)
class Launch:
    """One launch as a pass sees it; values by counter, None for one without a number."""

    kernel: str
    dispatch_id: int
    start_ns: int
    end_ns: int
    grid: int
    values: Mapping[str, float | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """What is known beforehand."""

    kernels: tuple[Kernel, ...] | None = None
    passes: int | None = None
    gpu_model: str = "MI355X"
    gpu_arch: str = "gfx950"


def load_scenario(slug: str) -> Scenario:
    """The scenario of a workload, by the variable; an unknown key is a mistake in a test."""
    path = os.environ.get(SCENARIO)
    given: dict[str, Any] = json.loads(Path(path).read_text(encoding="utf-8")) if path else {}
    unknown = set(given) - {"kernels", "workloads", "passes", "gpu_model", "gpu_arch"}
    assert not unknown, unknown
    kernels = given.get("workloads", {}).get(slug, given.get("kernels"))
    facts = {key: given[key] for key in ("passes", "gpu_model", "gpu_arch") if key in given}
    return Scenario(kernels=None if kernels is None else tuple(Kernel(**each) for each in kernels), **facts)


def launched_kernels(scenario: Scenario, output: str, patterns: Sequence[str] | None) -> tuple[Kernel, ...]:
    """What the application launched: what it says, else the scenario, else what `-k` asks for by name."""
    told = _LAUNCH_LINE.findall(output)
    if told:
        known = {kernel.name: kernel for kernel in scenario.kernels or ()}
        return tuple(
            Kernel(
                name=name,
                launches=int(count),
                duration_ns=known[name].duration_ns if name in known else 20_000,
                scale=known[name].scale if name in known else 1.0,
                values=known[name].values if name in known else {},
            )
            for count, name in told
        )
    if scenario.kernels is not None:
        return scenario.kernels
    firsts = [text.partition("$|")[0].strip("^$") for text in patterns or ()]
    return tuple(Kernel(name=re.sub(r"\\(.)", r"\1", text)) for text in firsts)


def searched_name(name: str) -> str:
    """What the native tool searches in: a symbol that does not demangle keeps its `.kd`; of others a word is left."""
    if not any(character in name for character in "(<"):
        return f"{name}.kd"
    rest = name
    while rest and rest[-1] in ")>] ":
        closing, depth = rest[-1], 0
        opening = {")": "(", ">": "<", "]": "["}.get(closing)
        while rest:
            depth += (rest[-1] == closing) - (rest[-1] == opening)
            rest = rest[:-1]
            if opening is None or depth == 0:
                break
    return re.split("[ :]", rest)[-1]


def collect_launches(
    kernels: Sequence[Kernel],
    counters: Sequence[str],
    *,
    run: int,
    patterns: Sequence[str] | None,
    iterations: Collection[int] | None,
    searches_short_names: bool,
) -> list[Launch]:
    """The launches that one run counts; ids are those among all launches of the run, from 1."""
    found: list[Launch] = []
    dispatch_id = 0
    regex = re.compile("|".join(patterns)) if patterns else None
    for kernel in kernels:
        for iteration in range(1, kernel.launches + 1):
            dispatch_id += 1
            text = searched_name(kernel.name) if searches_short_names else kernel.name
            if regex is not None and not regex.search(text):
                continue
            if iterations is not None and iteration not in iterations:
                continue
            start_ns = _FIRST_START_NS + run * _RUN_NS + dispatch_id * _SPACING_NS
            found.append(
                Launch(
                    kernel=kernel.name,
                    dispatch_id=dispatch_id,
                    start_ns=start_ns,
                    end_ns=start_ns + kernel.duration_ns + (run * 7 + iteration * 3) % 11,
                    grid=int(1_048_576 * kernel.scale),
                    values={counter: kernel.value(counter) for counter in counters},
                )
            )
    return found
