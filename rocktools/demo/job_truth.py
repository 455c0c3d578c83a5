"""What really happened in a simulated job: tables and a document beside its recordings, which no command reads.

truth/job.json             what was simulated, with which figures, and what was injected
truth/sites.csv            every launch site of the program: instruction, phase, component, work, time alone
truth/dispatches_<r>.csv   every recorded dispatch of a rank: site, loops, step, and the wait of a collective
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from rocktools.demo.job_recording import RankRecording
from rocktools.demo.job_simulation import SimulatedJob
from rocktools.demo.job_steps import JobStep
from rocktools.demo.job_timing import OVERLAP_COST_RATIO
from rocktools.demo.job_work import EFFICIENCIES, OWN_SHARE_RATIO
from rocktools.demo.launch_rows import Origin
from rocktools.demo.simulated_frames import iteration_labels
from rocktools.rundir import write_json_file

TRUTH_FOLDER = "truth"
SCHEMA = "rocktools.demo-truth/1"
_ORIGINS = {Origin.PROGRAM: "program", Origin.WARM_UP: "autotuning"}


def write_truth(folder: Path, job: SimulatedJob, recordings: list[RankRecording]) -> None:
    """Write the truth into a folder that is there."""
    build_sites(job).to_csv(folder / "sites.csv", index_label="site")
    for recording in recordings:
        build_rows(recording).to_csv(folder / f"dispatches_{recording.rank}.csv", index=False)
    write_json_file(folder / "job.json", {"schema": SCHEMA, **describe_job(job)})


def describe_job(job: SimulatedJob) -> dict[str, Any]:
    """What was simulated; for the manifest, too."""
    device = job.programs[0].device
    steps = range(job.first_step, job.first_step + job.plan.steps_count)
    return {
        "seed": job.scenario.seed,
        "steps": list(steps),
        "step_ns": [round(each) for each in job.times.step_ns.tolist()],
        "injected": [asdict(each) for each in job.injections],
        "model": {
            "device": device.label,
            "efficiencies": {str(kind): asdict(each) for kind, each in EFFICIENCIES.items()},
            "own_share_ratio": OWN_SHARE_RATIO,
            "overlap_cost_ratio": OVERLAP_COST_RATIO,
            "work": "FLOPs and bytes as the compiler estimates them, peaks of the device's file",
        },
    }


def build_sites(job: SimulatedJob) -> pd.DataFrame:
    """One row per launch site, in the order of the thunk sequences: those of a second program last."""
    of_programs = {step.number: step for step in job.steps}
    return pd.DataFrame([row for number in sorted(of_programs) for row in _site_rows(of_programs[number])])


def _site_rows(step: JobStep) -> Iterator[dict[str, object]]:
    program = step.program
    launched = step.rows.site[(step.rows.site >= 0) & (step.rows.kernel_index == 0)]
    counts = np.bincount(launched, minlength=len(program.sites)).tolist()
    for number, site in enumerate(program.sites):
        yield {
            "program_id": program.program.module.label,
            "thunk_id": site.thunk.thunk_id,
            "instruction": site.thunk.instruction,
            "kernel": site.thunk.kernel,
            "kernels_count": len(site.kernels),
            "stream": program.schedule.streams[int(program.schedule.stream_of_site[number])],
            "launches_per_step_count": counts[number],
            "kind": str(site.kind),
            "collective": site.collective,
            "group_size": len(site.groups[0]) if site.groups else None,
            "phase": site.phase,
            "component": site.component,
            "scope": site.scope,
            "compute_flop": site.flop,
            "transcendental_count": site.transcendental_count,
            "unit": site.arithmetic.unit if site.arithmetic else "",
            "dtype": site.arithmetic.dtype if site.arithmetic else "",
            "read_bytes": site.read_bytes,
            "written_bytes": site.written_bytes,
            "payload_bytes": site.payload_bytes,
            "alone_ns": round(site.ideal_ns),
        }


def build_rows(recording: RankRecording) -> pd.DataFrame:
    """One row per dispatch, in the order of launch."""
    mine = recording.dispatches
    return pd.DataFrame(
        {
            "dispatch_id": 1 + np.arange(len(mine.kernel)),
            "origin": pd.Series(mine.origin).map({int(key): text for key, text in _ORIGINS.items()}),
            "site": pd.Series(mine.site, dtype="Int64").mask(mine.site < 0),
            "kernel_index": pd.Series(mine.kernel_index, dtype="Int64").mask(mine.site < 0),
            "step_index": mine.step,
            "iterations": iteration_labels(mine.iterations),
            "waited_ns": mine.arrive_ns - mine.start_ns,
        }
    )
