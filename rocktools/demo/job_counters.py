"""What counters read while the kernels of one rank run: values that follow from the program's FLOPs and bytes.

The passes are those that `rocktools pmc` makes for `COUNTED_QUANTITIES`. Each counts a few executions of every kernel
that the program's compiler made, one kernel at a time, as rocprofv3 does; collectives, which wait for others, and what
libraries launch are left out. The conventions run backwards here: whoever applies the formulas to these counts gets the
FLOPs and bytes again, up to whole instructions and requests.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

import numpy as np

from rocktools.demo.job_database import CPUS_COUNT, process_id
from rocktools.demo.job_simulation import SimulatedJob
from rocktools.demo.job_timing import FloatArray, IntArray
from rocktools.demo.job_work import WorkKind
from rocktools.demo.launch_rows import WAIT
from rocktools.demo.packed_programs import DEVICES_COUNT
from rocktools.demo.rocpd_defaults import NODE_ID, START_NS, is_derived_counter
from rocktools.demo.rocpd_file import WriterOptions, make_guid
from rocktools.demo.rocpd_writer import RocpdWriter

COUNTED_QUANTITIES = ("total_flop", "fabric_bytes", "l2_hit_ratio", "l2_bytes", "elapsed_cycles", "mfma_utilisation")

PASSES: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "flop_and_bytes_1": (
            "GRBM_GUI_ACTIVE", "SQ_INSTS_VALU_ADD_F16", "SQ_INSTS_VALU_ADD_F32", "SQ_INSTS_VALU_ADD_F64",
            "SQ_INSTS_VALU_FMA_F16", "SQ_INSTS_VALU_FMA_F32", "SQ_INSTS_VALU_FMA_F64", "SQ_INSTS_VALU_MFMA_MOPS_BF16",
            "SQ_VALU_MFMA_BUSY_CYCLES", "TCC_EA0_RDREQ_128B_sum", "TCC_EA0_RDREQ_32B_sum", "TCC_EA0_RDREQ_64B_sum",
            "TCP_TCC_ATOMIC_WITHOUT_RET_REQ_sum", "TCP_TCC_ATOMIC_WITH_RET_REQ_sum", "TCP_TCC_READ_REQ_sum",
            "TCP_TCC_WRITE_REQ_sum",
        ),
        "flop_and_bytes_2": (
            "SQ_INSTS_VALU_MFMA_MOPS_F16", "SQ_INSTS_VALU_MFMA_MOPS_F32", "SQ_INSTS_VALU_MFMA_MOPS_F64",
            "SQ_INSTS_VALU_MFMA_MOPS_F6F4", "SQ_INSTS_VALU_MFMA_MOPS_F8", "SQ_INSTS_VALU_MUL_F16",
            "SQ_INSTS_VALU_MUL_F32", "SQ_INSTS_VALU_MUL_F64", "TCC_EA0_WRREQ_64B_sum", "TCC_EA0_WRREQ_sum",
            "TCC_HIT_sum", "TCC_MISS_sum",
        ),
        "flop_and_bytes_3": (
            "SQ_INSTS_VALU_TRANS_F16", "SQ_INSTS_VALU_TRANS_F32", "SQ_INSTS_VALU_TRANS_F64", "SQ_WAVES",
        ),
    }
)  # fmt: skip
"""Group -> counters. GRBM has an instance on each die, SQ one on each of its four shader engines."""

EXECUTIONS_COUNTED = 2
_INSTANCES = {"GRBM": 8, "SQ": 32}
_REUSE = {WorkKind.PRODUCT: 8}
_CLOCK_PER_NS = 2.1  # under counters
_MFMA_FLOP_PER_CYCLE = 2.5e15 / 2.4e9 / 1024  # of one matrix core in BF16, at the peak
_FURTHER_BYTES = 4
_PAUSE_NS = 62_000


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class CountedRows:
    """The dispatches that one pass counts: dispatch ids, rows of the step, and times."""

    dispatch_id: IntArray
    row: IntArray
    start_ns: IntArray
    end_ns: IntArray


def count_values(job: SimulatedJob, rows: IntArray, took_ns: FloatArray) -> dict[str, IntArray]:
    """What each counter reads for these rows of the step, over all instances; GRBM's is that of one die."""
    step, sites = job.steps[0].rows, job.steps[0].program.sites
    does_work = step.kernel_index[rows] == 0
    mine = [sites[site] for site in step.site[rows].tolist()]
    is_matrix = np.array([one.arithmetic is not None and one.arithmetic.unit == "matrix" for one in mine])
    flop = np.array([one.flop for one in mine]) * does_work
    dtype = [one.arithmetic.dtype.upper() if one.arithmetic else "" for one in mine]
    special = np.array([one.transcendental_count for one in mine]) * does_work
    grid = np.array([job.kernels[kernel].grid_workitems for kernel in step.kernel[rows].tolist()])
    workitems = grid.prod(axis=1)
    read = np.where(does_work, np.array([one.read_bytes for one in mine]), workitems * _FURTHER_BYTES)
    written = np.where(does_work, np.array([one.written_bytes for one in mine]), workitems * _FURTHER_BYTES)
    reuse = np.array([_REUSE.get(one.kind, 1) for one in mine])
    values: dict[str, IntArray] = {name: np.zeros(len(rows), np.int64) for names in PASSES.values() for name in names}
    for each in ("BF16", "F16", "F32", "F64"):
        is_mine = is_matrix & np.array([one == each for one in dtype], dtype=bool)
        values[f"SQ_INSTS_VALU_MFMA_MOPS_{each}"] = np.where(is_mine, -(-flop // 512), 0)
    for each, is_mine in (("F64", np.array([one == "F64" for one in dtype], dtype=bool)), ("F32", None)):
        chosen = is_mine if is_mine is not None else np.array([one != "F64" for one in dtype], dtype=bool)
        count = np.where(~is_matrix & chosen, -(-flop // 64), 0)
        fma = count // 4
        values[f"SQ_INSTS_VALU_FMA_{each}"] = fma
        values[f"SQ_INSTS_VALU_ADD_{each}"] = (count - 2 * fma) // 2
        values[f"SQ_INSTS_VALU_MUL_{each}"] = count - 2 * fma - (count - 2 * fma) // 2
    values["SQ_INSTS_VALU_TRANS_F32"] = -(-special // 64)
    values["SQ_WAVES"] = np.maximum(-(-workitems // 64), 1)
    values["SQ_VALU_MFMA_BUSY_CYCLES"] = np.where(is_matrix, flop / _MFMA_FLOP_PER_CYCLE, 0).astype(np.int64)
    values["GRBM_GUI_ACTIVE"] = (took_ns * _CLOCK_PER_NS).astype(np.int64)
    values |= _traffic(read, written, reuse)
    return values


def _traffic(read: IntArray, written: IntArray, reuse: IntArray) -> dict[str, IntArray]:
    """Requests between the vector caches, L2 and the fabric. Reads go in 128 bytes, the last of them in 64 and 32."""
    large, rest = read // 128, read % 128
    middle, rest = rest // 64, rest % 64
    small = -(-rest // 32)
    whole_writes, partial_writes = written // 64, -(-(written % 64) // 32)
    l2_reads = np.maximum(-(-read // 128), 1) * reuse
    l2_writes = whole_writes + partial_writes
    missed = large + middle + small + -(-l2_writes // 2)
    return {
        "TCC_EA0_RDREQ_128B_sum": large,
        "TCC_EA0_RDREQ_64B_sum": middle,
        "TCC_EA0_RDREQ_32B_sum": small,
        "TCC_EA0_WRREQ_64B_sum": whole_writes,
        "TCC_EA0_WRREQ_sum": whole_writes + partial_writes,
        "TCP_TCC_READ_REQ_sum": l2_reads,
        "TCP_TCC_WRITE_REQ_sum": l2_writes,
        "TCC_HIT_sum": np.maximum(l2_reads + l2_writes - missed, 0),
        "TCC_MISS_sum": missed,
    }


def counted_rows(job: SimulatedJob, *, first_ns: int, number: int) -> CountedRows:
    """The first executions of every generated kernel in one step, one after the other."""
    rows, timing = job.steps[0].rows, job.steps[0].timing
    is_launch = rows.kernel != WAIT
    dispatch_id = np.cumsum(is_launch)
    is_generated = np.array([bool(site.thunk.kernel) for site in job.steps[0].program.sites])
    taken = np.flatnonzero(is_launch & is_generated[np.where(is_launch, rows.site, 0)] & (rows.kernel_index == 0))
    order = np.argsort(rows.kernel[taken], kind="stable")
    of_kernel = rows.kernel[taken][order]
    begins = np.flatnonzero(np.diff(of_kernel, prepend=-1))
    ordinal = np.arange(len(order)) - np.repeat(begins, np.diff(np.append(begins, len(order))))
    chosen = np.sort(taken[order[ordinal < EXECUTIONS_COUNTED]])
    rng = np.random.default_rng([job.scenario.seed, 31, number])
    took = (timing.base_ns[chosen] * 1.04 * np.exp(rng.normal(0, 0.01, len(chosen)))).astype(np.int64) + 1
    start = first_ns + np.cumsum(took + _PAUSE_NS) - took
    return CountedRows(dispatch_id=dispatch_id[chosen], row=chosen, start_ns=start, end_ns=start + took)


def write_counter_pass(job: SimulatedJob, path: Path, *, group: str, number: int, rank: int = 0) -> int:
    """Write what a counter pass of one rank leaves. Returns how many dispatches it has."""
    counters = PASSES[group]
    pid = process_id(rank) + 1_000 * (number + 1)  # every counter pass is a run, and so a process, of its own
    counted = counted_rows(job, first_ns=START_NS + 4_000_000_000 * (number + 1), number=number)
    values = count_values(job, counted.row, (counted.end_ns - counted.start_ns).astype(np.float64))
    rng = np.random.default_rng([job.scenario.seed, 37, number])
    guid = make_guid(f"demo counters {job.scenario.seed} {pid}", start_ns=START_NS + 4_000_000_000 * (number + 1))
    agent = CPUS_COUNT + rank
    with RocpdWriter(path, options=WriterOptions(guid=guid)) as writer:
        start_ns, end_ns = int(counted.start_ns[0]) - 10**9, int(counted.end_ns[-1]) + 10**8
        writer.process(pid, init=start_ns, start=start_ns, fini=end_ns, end=end_ns)
        writer.thread(pid)
        for kind in ["CPU"] * CPUS_COUNT + ["GPU"] * DEVICES_COUNT:
            writer.agent(kind)
        writer.queue()
        writer.stream()
        event = _write_dispatches(writer, job, counted, agent=agent, pid=pid)
        pmc = [writer.counter_info(name, id=(agent << 32) + at + 1, agent_id=agent) for at, name in enumerate(counters)]
        parts = [_instances(name, values[name], rng) for name in counters]
        writer.file.insert_many(
            "pmc_event",
            {
                "event_id": np.repeat(event, sum(part.shape[1] for part in parts)),
                "pmc_id": np.tile(np.repeat(pmc, [part.shape[1] for part in parts]), len(event)),
                "value": np.hstack(parts).astype(np.float64).ravel(),
            },
        )
    return len(counted.row)


def _write_dispatches(
    writer: RocpdWriter, job: SimulatedJob, counted: CountedRows, *, agent: int, pid: int
) -> IntArray:
    """The counted dispatches; no calls were traced. Returns the ids of their events."""
    kernel = job.steps[0].rows.kernel[counted.row]
    code_object = writer.code_object(agent_id=agent)
    symbols: dict[str, int] = {}
    for number in np.unique(kernel).tolist():
        one = job.kernels[number]
        name = one.name + one.ending
        if name not in symbols:
            symbols[name] = writer.kernel_symbol(one.name, display_name=name, code_object_id=code_object)
    kernels = [job.kernels[number] for number in kernel.tolist()]
    grid = np.array([one.grid_workitems for one in kernels])
    workgroup = np.array([one.workgroup_workitems for one in kernels])
    event = 1 + np.arange(len(kernel))
    writer.file.insert_many(
        "event",
        {"id": event, "stack_id": counted.dispatch_id, "parent_stack_id": counted.dispatch_id, "correlation_id": 0,
         "category_id": writer.string("KERNEL_DISPATCH")},
    )  # fmt: skip
    writer.file.insert_many(
        "kernel_dispatch",
        {
            "id": counted.dispatch_id, "dispatch_id": counted.dispatch_id, "start": counted.start_ns,
            "end": counted.end_ns, "event_id": event, "queue_id": 1, "stream_id": 1, "agent_id": agent,
            "kernel_id": np.array([symbols[one.name + one.ending] for one in kernels]),
            "group_segment_size": np.array([one.lds_bytes for one in kernels]), "private_segment_size": 0,
            **{f"grid_size_{axis}": grid[:, at] for at, axis in enumerate("xyz")},
            **{f"workgroup_size_{axis}": workgroup[:, at] for at, axis in enumerate("xyz")},
            "nid": NODE_ID, "pid": pid, "tid": pid, "region_name_id": writer.string(""),
        },
    )  # fmt: skip
    return event


def _instances(name: str, totals: IntArray, rng: np.random.Generator) -> IntArray:
    """The values of a counter's instances: (dispatches, instances); their sum is the total, but for clocks."""
    if is_derived_counter(name):
        return totals[:, None]
    block = name.split("_")[0]
    count = _INSTANCES[block]
    if block == "GRBM":
        return totals[:, None] + rng.integers(0, 40, (len(totals), count))
    instance = np.arange(count)
    shares: IntArray = (totals[:, None] + count - 1 - instance) // count
    return shares
