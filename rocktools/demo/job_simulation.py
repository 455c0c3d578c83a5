"""A program and a scenario -> the times of the whole job, and what each fault costs in them.

What a fault costs is the difference to the same job without it, chances being equal.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from rocktools.demo.job_scenario import Fault, JobScenario
from rocktools.demo.job_timing import FloatArray, IntArray, JobPlan, JobTimes, StepRows, time_job
from rocktools.demo.job_work import EFFICIENCIES, JobProgram, WorkKind
from rocktools.demo.launch_rows import WAIT, LaunchRows, program_rows
from rocktools.demo.library_kernels import KernelLaunch
from rocktools.demo.packed_programs import DEVICES_COUNT

STRAGGLER_RATIO = 1.2
STARVATION_RATIO = 0.35
EXPOSED_RATIO = 12.0
FORMATTING_RATIO = 2.5
LATE_RATIO = 0.15
_LOAD_NS = 350_000.0
_RECOMPILE_NS = 3_800_000_000.0
_FIRST_COMPILE_NS = 21_500_000_000.0
_FIRST_COLLECTIVE_NS = 840_000_000.0
_COLD_RATIOS = (1.35, 1.08)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class JobStep:
    """One step of the job: its rows, and the kernels that they are numbers of.

    Attributes:
        rows: with the number of a kernel, and of a site of the program.
        kernels: by number.
        timing: what timing needs of them.
    """

    rows: LaunchRows
    kernels: tuple[KernelLaunch, ...]
    timing: StepRows


@dataclass(frozen=True, slots=True, kw_only=True)
class Injection:
    """One thing that was done to the job.

    Attributes:
        name: of the fault, or `slow <component>`.
        what: in words.
        cost_ns_per_step: how much longer a step is than without it: the mean over the recorded steps.
        facts: where, and how much.
    """

    name: str
    what: str
    cost_ns_per_step: int
    facts: Mapping[str, object]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SimulatedJob:
    """A job that has run.

    Attributes:
        program: that it ran.
        scenario: what was asked for.
        step: what every step launches.
        plan: what it did beside.
        times: of all devices, ns from its start.
        injections: what went wrong, and what that cost.
        first_step: number of the first recorded step.
    """

    program: JobProgram
    scenario: JobScenario
    step: JobStep
    plan: JobPlan
    times: JobTimes
    injections: tuple[Injection, ...]
    first_step: int


def simulate_job(program: JobProgram, scenario: JobScenario) -> SimulatedJob:
    """Run the job."""
    step = _build_step(program)
    plan = _plan(program, step, scenario)
    times = time_job(step.timing, plan, seed=scenario.seed)
    injections = []
    for fault in sorted(scenario.faults, key=list(Fault).index):
        without = replace(scenario, faults=scenario.faults - {fault})
        cost_ns = _cost_ns(program, step, without, times)
        what, facts = _describe(fault, program, step, scenario)
        injections.append(Injection(name=fault.value, what=what, cost_ns_per_step=cost_ns, facts=facts))
    for slowdown in scenario.slowdowns:
        without = replace(scenario, slowdowns=tuple(one for one in scenario.slowdowns if one is not slowdown))
        injections.append(
            Injection(
                name=f"slow {slowdown.component}",
                what=f"kernels of {slowdown.component} take {slowdown.ratio:.1%} longer, for the same work",
                cost_ns_per_step=_cost_ns(program, step, without, times),
                facts={"component": slowdown.component, "ratio": slowdown.ratio, "changed": "time"},
            )
        )
    first_step = 0 if Fault.WARM_UP_CAPTURE in scenario.faults else scenario.first_step
    return SimulatedJob(
        program=program, scenario=scenario, step=step, plan=plan, times=times, injections=tuple(injections),
        first_step=first_step,
    )  # fmt: skip


def _cost_ns(program: JobProgram, step: JobStep, without: JobScenario, times: JobTimes) -> int:
    """What a step takes longer than in the scenario without something."""
    other = time_job(step.timing, _plan(program, step, without), seed=without.seed)
    return round(float(times.step_ns.mean() - other.step_ns.mean()))


def _build_step(program: JobProgram) -> JobStep:
    numbers: dict[KernelLaunch, int] = {}
    site_kernels = [[numbers.setdefault(kernel, len(numbers)) for kernel in site.kernels] for site in program.sites]
    rows = program_rows(program.schedule, site_kernels, step=0)
    kernels = tuple(numbers)
    is_wait, is_further = rows.kernel == WAIT, rows.kernel_index > 0
    site = np.where(is_wait, 0, rows.site)
    ideal = np.array([one.ideal_ns for one in program.sites])[site]
    further = np.array([kernel.typical_ns for kernel in kernels])[np.where(is_wait, 0, rows.kernel)]
    spread = np.array([EFFICIENCIES[one.kind].spread_ratio for one in program.sites])[site]
    partitions = tuple(dict.fromkeys(one.groups for one in program.sites if one.collective))
    of_site = np.array([partitions.index(one.groups) if one.collective else -1 for one in program.sites])
    timing = StepRows(
        rows=rows,
        base_ns=np.where(is_wait, 0.0, np.where(is_further, further, ideal)),
        spread_ratio=np.where(is_further, EFFICIENCIES[WorkKind.FURTHER].spread_ratio, spread),
        group=np.where(is_wait, -1, of_site[site]),
        groups=tuple(np.array(partition, dtype=np.int64) for partition in partitions),
    )
    return JobStep(rows=rows, kernels=kernels, timing=timing)


def _plan(program: JobProgram, step: JobStep, scenario: JobScenario) -> JobPlan:
    faults, shape = scenario.faults, (scenario.steps_count, DEVICES_COUNT)
    rng = np.random.default_rng([scenario.seed, 23])
    step_ns = _busy_ns(step)
    load = _LOAD_NS * rng.uniform(0.8, 1.25, shape)
    starved = STARVATION_RATIO * step_ns * rng.uniform(0.85, 1.15, (scenario.steps_count, 1))
    delay, compiling = np.zeros(shape), np.zeros(shape)
    # Clocks: devices differ a little, and so do steps.
    speed = np.exp(rng.normal(0, 0.002, (1, DEVICES_COUNT)) + rng.normal(0, 0.004, (scenario.steps_count, 1)))
    first_collective = np.zeros(scenario.steps_count)
    if Fault.INPUT_STARVATION in faults:
        load = load + starved
    if Fault.LATE_RANK in faults:
        delay[:, late_rank(scenario)] += LATE_RATIO * step_ns
    if Fault.STRAGGLER in faults:
        speed[:, straggler(scenario)] *= STRAGGLER_RATIO
    spread = rng.uniform(0.97, 1.03, DEVICES_COUNT)
    if Fault.RECOMPILE in faults:
        compiling[recompiled_step(scenario)] += _RECOMPILE_NS * spread
    if Fault.WARM_UP_CAPTURE in faults:
        compiling[0] += _FIRST_COMPILE_NS * spread
        first_collective[0] = _FIRST_COLLECTIVE_NS
        for number, ratio in enumerate(_COLD_RATIOS[: scenario.steps_count]):
            speed[number] *= ratio
    return JobPlan(
        load_ns=load, delay_ns=delay, compile_ns=compiling, speed_ratio=speed,
        row_ratio=_row_ratios(program, step, scenario), first_collective_ns=first_collective,
    )  # fmt: skip


def _busy_ns(step: JobStep) -> float:
    """What the main stream has to do in one step."""
    return float(step.timing.base_ns[step.rows.stream == 0].sum())


def _row_ratios(program: JobProgram, step: JobStep, scenario: JobScenario) -> FloatArray:
    ratios = np.ones(len(program.sites))
    if Fault.EXPOSED_COLLECTIVE in scenario.faults:
        ratios[exposed_site(program, step)] *= EXPOSED_RATIO
    for number, site in enumerate(program.sites):
        if Fault.FORMATTING_TAX in scenario.faults and site.kind is WorkKind.FORMATTING:
            ratios[number] *= FORMATTING_RATIO
        for slowdown in scenario.slowdowns:
            if site.component == slowdown.component and site.kind is not WorkKind.COLLECTIVE:
                ratios[number] *= 1 + slowdown.ratio
    rows = step.rows
    return np.where(rows.kernel == WAIT, 1.0, ratios[np.where(rows.kernel == WAIT, 0, rows.site)])


def straggler(scenario: JobScenario) -> int:
    """The device that is slow: a recorded one."""
    return (scenario.seed + 1) % scenario.ranks_count


def late_rank(scenario: JobScenario) -> int:
    """The rank whose host is late: a recorded one, and where possible another than the slow one."""
    return (scenario.seed + 2) % scenario.ranks_count if scenario.ranks_count > 1 else 0


def recompiled_step(scenario: JobScenario) -> int:
    """Index of the recorded step before which the host compiles again."""
    return max(scenario.steps_count // 2, 1)


def exposed_site(program: JobProgram, step: JobStep) -> int:
    """The asynchronous collective that takes most of a step."""
    is_async: IntArray = np.array([stream > 0 for stream in program.schedule.stream_of_site.tolist()])
    counts = np.bincount(step.rows.site[step.rows.kernel != WAIT], minlength=len(program.sites))
    total = np.array([site.ideal_ns if site.collective else 0.0 for site in program.sites]) * counts * is_async
    return int(np.argmax(total))


def _describe(fault: Fault, program: JobProgram, step: JobStep, scenario: JobScenario) -> tuple[str, dict[str, object]]:
    """What was done, in words and in numbers."""
    if fault is Fault.EXPOSED_COLLECTIVE:
        site = program.sites[exposed_site(program, step)]
        name = site.thunk.instruction
        what = f"{name} takes {EXPOSED_RATIO:g} times as long and outlasts the work that would hide it"
        return what, {"instruction": name, "collective": site.collective, "ratio": EXPOSED_RATIO}
    if fault is Fault.STRAGGLER:
        rank = straggler(scenario)
        return f"every kernel of rank {rank} takes {STRAGGLER_RATIO - 1:.0%} longer, so that all others wait", {
            "rank": rank,
            "ratio": STRAGGLER_RATIO,
        }
    if fault is Fault.INPUT_STARVATION:
        return "the hosts wait for their next batch before each step, and the devices with them", {
            "wait_ratio": STARVATION_RATIO
        }
    if fault is Fault.RECOMPILE:
        number = scenario.first_step + recompiled_step(scenario)
        return f"the hosts compile again before step {number}", {"step": number, "compile_ns": int(_RECOMPILE_NS)}
    if fault is Fault.FORMATTING_TAX:
        names = [site.thunk.instruction for site in program.sites if site.kind is WorkKind.FORMATTING]
        return f"transpositions and conversions take {FORMATTING_RATIO:g} times as long", {
            "ratio": FORMATTING_RATIO,
            "instructions_count": len(names),
        }
    if fault is Fault.LATE_RANK:
        rank = late_rank(scenario)
        return f"the host of rank {rank} is late in every step, and its device with it", {
            "rank": rank,
            "delay_ns": round(LATE_RATIO * _busy_ns(step)),
        }
    return "recording began at step 0: compilation, autotuning, first collectives and cold clocks are in it", {
        "compile_ns": int(_FIRST_COMPILE_NS),
        "first_collective_ns": int(_FIRST_COLLECTIVE_NS),
        "cold_steps_count": min(len(_COLD_RATIOS), scenario.steps_count),
    }
