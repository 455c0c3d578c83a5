"""The programs of a job -> what a step of each launches: rows, kernels by number, and what timing needs of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from rocktools.demo.job_timing import StepRows
from rocktools.demo.job_work import EFFICIENCIES, JobProgram, WorkKind
from rocktools.demo.launch_rows import WAIT, LaunchRows, program_rows
from rocktools.demo.library_kernels import KernelLaunch


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class JobStep:
    """What a step that runs one program launches.

    Attributes:
        program: that runs.
        number: of the program in the job.
        first_site: how many sites the programs before it have: in all tables sites of the job count on.
        rows: with the number of a kernel of the job, and of a site of the program.
        timing: what timing needs of them.
    """

    program: JobProgram
    number: int
    first_site: int
    rows: LaunchRows
    timing: StepRows


def build_steps(programs: Sequence[JobProgram]) -> tuple[list[JobStep], tuple[KernelLaunch, ...]]:
    """A step of each program, and the kernels of all of them by number."""
    numbers: dict[KernelLaunch, int] = {}
    steps: list[JobStep] = []
    for number, program in enumerate(programs):
        site_kernels = [[numbers.setdefault(kernel, len(numbers)) for kernel in site.kernels] for site in program.sites]
        rows = program_rows(program.schedule, site_kernels, step=0)
        steps.append(
            JobStep(
                program=program,
                number=number,
                first_site=sum(len(one.sites) for one in programs[:number]),
                rows=rows,
                timing=_timing(program, rows, tuple(numbers)),
            )
        )
    return steps, tuple(numbers)


def _timing(program: JobProgram, rows: LaunchRows, kernels: Sequence[KernelLaunch]) -> StepRows:
    is_wait, is_further = rows.kernel == WAIT, rows.kernel_index > 0
    site = np.where(is_wait, 0, rows.site)
    ideal = np.array([one.ideal_ns for one in program.sites])[site]
    further = np.array([kernel.typical_ns for kernel in kernels])[np.where(is_wait, 0, rows.kernel)]
    spread = np.array([EFFICIENCIES[one.kind].spread_ratio for one in program.sites])[site]
    partitions = tuple(dict.fromkeys(one.groups for one in program.sites if one.collective))
    of_site = np.array([partitions.index(one.groups) if one.collective else -1 for one in program.sites])
    return StepRows(
        rows=rows,
        base_ns=np.where(is_wait, 0.0, np.where(is_further, further, ideal)),
        spread_ratio=np.where(is_further, EFFICIENCIES[WorkKind.FURTHER].spread_ratio, spread),
        group=np.where(is_wait, -1, of_site[site]),
        groups=tuple(np.array(partition, dtype=np.int64) for partition in partitions),
    )
