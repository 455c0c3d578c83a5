"""A small simulated run directory: two traced processes and one counter pass, for a first look at every command.

Nothing in it was measured. The databases, the manifest, and so every table made of them, say that it is simulated.
"""

from __future__ import annotations

from pathlib import Path

from rocktools.demo.rocpd_trace import TraceShape, TraceTotals, write_trace
from rocktools.rundir import PMC_FOLDER, TRACE_FOLDER, Manifest, create_run_directory, hash_files, write_manifest

DISPATCHES_PER_PROCESS = 6_000
_PIDS = (4711, 4712)
_COUNTERS = ("SQ_WAVES", "SQ_BUSY_CYCLES", "TCC_HIT_sum", "TCC_MISS_sum")


def write_simulated_run(run: Path, *, argv: tuple[str, ...], created_utc: str, seed: int = 0) -> list[TraceTotals]:
    """Make the run directory `run` (not there yet, or empty).

    Args:
        argv: the command that asks for it, for the manifest.
        created_utc: now, ISO 8601 in UTC.
        seed: of all chance; the same seed gives the same rows.

    Returns:
        What each traced process holds, in the order of ranks.

    Raises:
        UsageError: something is there already.
    """
    create_run_directory(run)
    (run / TRACE_FOLDER).mkdir()
    totals = []
    for rank, pid in enumerate(_PIDS):
        shape = TraceShape(
            dispatches_count=DISPATCHES_PER_PROCESS,
            kernels_count=24,
            idle_agents_count=rank,
            copies_count=40,
            allocations_count=20,
            ranges_count=4,
            seed=seed + rank,
            pid=pid,
        )
        totals.append(write_trace(run / TRACE_FOLDER / f"rank_{rank}_{pid}_results.db", shape))
    group = run / PMC_FOLDER / "waves_and_l2"
    group.mkdir(parents=True)
    counted = TraceShape(
        dispatches_count=48,
        kernels_count=24,
        has_host_calls=False,
        counters=_COUNTERS,
        seed=seed,
        pid=_PIDS[-1] + 1,  # every counter pass is a run, and so a process, of its own
    )
    write_trace(group / f"{counted.pid}_results.db", counted)
    manifest = Manifest(
        argv=argv,
        created_utc=created_utc,
        is_simulated=True,
        facts={"seed": seed, "processes_count": len(_PIDS), "counters": list(_COUNTERS)},
        files=hash_files(run),
    )
    write_manifest(run, manifest)
    return totals
