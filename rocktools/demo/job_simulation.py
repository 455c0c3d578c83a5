"""A program and a scenario -> the times of the whole job, and what each fault costs in them.

What a fault costs is the difference to the same job without it, chances being equal.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from rocktools.demo.job_scenario import Fault, JobScenario
from rocktools.demo.job_steps import JobStep, build_steps
from rocktools.demo.job_timing import FloatArray, JobPlan, JobTimes, time_job
from rocktools.demo.job_work import JobProgram, WorkKind
from rocktools.demo.launch_rows import WAIT
from rocktools.demo.library_kernels import KernelLaunch
from rocktools.demo.packed_programs import DEVICES_COUNT, ProgramName

RECOMPILED = ProgramName.SMALL_BATCH
RECOMPILED_ID = 57
"""What a job compiles again, and the id that it has in its process."""

STRAGGLER_RATIO = 1.2
STARVATION_RATIO = 0.35
EXPOSED_RATIO = 12.0
FORMATTING_RATIO = 4.0
LATE_RATIO = 0.15
_LOAD_NS = 350_000.0
_RECOMPILE_NS = 3_800_000_000.0
_FIRST_COMPILE_NS = 21_500_000_000.0
_FIRST_COLLECTIVE_NS = 840_000_000.0
_COLD_RATIOS = (1.35, 1.08)


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
        programs: that it ran.
        scenario: what was asked for.
        kernels: by the numbers that steps have.
        steps: what each step launches.
        plan: what it did beside.
        times: of all devices, ns from its start.
        injections: what went wrong, and what that cost.
        first_step: number of the first recorded step.
    """

    programs: tuple[JobProgram, ...]
    scenario: JobScenario
    kernels: tuple[KernelLaunch, ...]
    steps: tuple[JobStep, ...]
    plan: JobPlan
    times: JobTimes
    injections: tuple[Injection, ...]
    first_step: int


def simulate_job(programs: Sequence[JobProgram], scenario: JobScenario) -> SimulatedJob:
    """Run the job.

    Args:
        programs: the scenario's own, and where it compiles again the other one.
    """
    of_programs, kernels = build_steps(programs)
    other = recompiled_step(scenario) if Fault.RECOMPILE in scenario.faults else None
    steps = tuple(of_programs[int(number == other)] for number in range(scenario.steps_count))
    plan = _plan(steps, scenario)
    times = time_job([step.timing for step in steps], plan, seed=scenario.seed)
    injections = []
    for fault in sorted(scenario.faults, key=list(Fault).index):
        without = replace(scenario, faults=scenario.faults - {fault})
        what, facts = _describe(fault, steps, scenario)
        cost_ns = _cost_ns(steps, without, times)
        injections.append(Injection(name=fault.value, what=what, cost_ns_per_step=cost_ns, facts=facts))
    for slowdown in scenario.slowdowns:
        without = replace(scenario, slowdowns=tuple(one for one in scenario.slowdowns if one is not slowdown))
        injections.append(
            Injection(
                name=f"slow {slowdown.component}",
                what=f"kernels of {slowdown.component} take {slowdown.ratio:.1%} longer, for the same work",
                cost_ns_per_step=_cost_ns(steps, without, times),
                facts={"component": slowdown.component, "ratio": slowdown.ratio, "changed": "time"},
            )
        )
    first_step = 0 if Fault.WARM_UP_CAPTURE in scenario.faults else scenario.first_step
    return SimulatedJob(
        programs=tuple(programs),
        scenario=scenario,
        kernels=kernels,
        steps=steps,
        plan=plan,
        times=times,
        injections=tuple(injections),
        first_step=first_step,
    )


def _cost_ns(steps: Sequence[JobStep], without: JobScenario, times: JobTimes) -> int:
    """What a step takes longer than in the scenario without something, where the same programs run."""
    other = time_job([step.timing for step in steps], _plan(steps, without), seed=without.seed)
    return round(float(times.step_ns.mean() - other.step_ns.mean()))


def _plan(steps: Sequence[JobStep], scenario: JobScenario) -> JobPlan:
    faults, shape = scenario.faults, (scenario.steps_count, DEVICES_COUNT)
    rng = np.random.default_rng([scenario.seed, 23])
    step_ns = _busy_ns(steps[0])
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
    ratios = {step.number: _row_ratios(step, scenario) for step in steps}
    return JobPlan(
        load_ns=load,
        delay_ns=delay,
        compile_ns=compiling,
        speed_ratio=speed,
        row_ratios=tuple(ratios[step.number] for step in steps),
        first_collective_ns=first_collective,
    )


def _busy_ns(step: JobStep) -> float:
    """What the main stream has to do in one step."""
    return float(step.timing.base_ns[step.rows.stream == 0].sum())


def _row_ratios(step: JobStep, scenario: JobScenario) -> FloatArray:
    sites = step.program.sites
    ratios = np.ones(len(sites))
    if Fault.EXPOSED_COLLECTIVE in scenario.faults:
        ratios[exposed_site(step)] *= EXPOSED_RATIO
    for number, site in enumerate(sites):
        if Fault.FORMATTING_TAX in scenario.faults and site.is_layout_only:
            ratios[number] *= FORMATTING_RATIO
        for slowdown in scenario.slowdowns:
            if site.component == slowdown.component and site.kind is not WorkKind.COLLECTIVE:
                ratios[number] *= 1 + slowdown.ratio
    is_wait = step.rows.kernel == WAIT
    found: FloatArray = np.where(is_wait, 1.0, ratios[np.where(is_wait, 0, step.rows.site)])
    return found


def straggler(scenario: JobScenario) -> int:
    """The device that is slow: a recorded one."""
    return (scenario.seed + 1) % scenario.ranks_count


def late_rank(scenario: JobScenario) -> int:
    """The rank whose host is late: a recorded one, and where possible another than the slow one."""
    return (scenario.seed + 2) % scenario.ranks_count if scenario.ranks_count > 1 else 0


def recompiled_step(scenario: JobScenario) -> int:
    """Index of the recorded step for which the host compiles again."""
    return max(scenario.steps_count // 2, 1)


def exposed_site(step: JobStep) -> int:
    """The asynchronous collective that takes most of a step."""
    sites, schedule = step.program.sites, step.program.schedule
    counts = np.bincount(step.rows.site[step.rows.kernel != WAIT], minlength=len(sites))
    total = np.array([site.ideal_ns if site.collective else 0.0 for site in sites]) * counts
    return int(np.argmax(total * (schedule.stream_of_site > 0)))


def _describe(fault: Fault, steps: Sequence[JobStep], scenario: JobScenario) -> tuple[str, dict[str, object]]:
    """What was done, in words and in numbers."""
    step = steps[0]
    if fault is Fault.EXPOSED_COLLECTIVE:
        site = step.program.sites[exposed_site(step)]
        name = site.thunk.instruction
        what = f"{name} takes {EXPOSED_RATIO:g} times as long and outlasts the work that would hide it"
        return what, {"instruction": name, "collective": site.collective, "ratio": EXPOSED_RATIO}
    if fault is Fault.STRAGGLER:
        rank = straggler(scenario)
        what = f"every kernel of rank {rank} takes {STRAGGLER_RATIO - 1:.0%} longer, so that all others wait"
        return what, {"rank": rank, "ratio": STRAGGLER_RATIO}
    if fault is Fault.INPUT_STARVATION:
        what = "the hosts wait for their next batch before each step, and the devices with them"
        return what, {"wait_ratio": STARVATION_RATIO}
    if fault is Fault.RECOMPILE:
        number = scenario.first_step + recompiled_step(scenario)
        what = f"the batch of step {number} has another shape, and the hosts compile for it"
        return what, {"step": number, "compile_ns": int(_RECOMPILE_NS), "program_id": RECOMPILED_ID}
    if fault is Fault.FORMATTING_TAX:
        names = [site.thunk.instruction for site in step.program.sites if site.is_layout_only]
        what = f"what only changes layouts takes {FORMATTING_RATIO:g} times as long"
        return what, {"ratio": FORMATTING_RATIO, "instructions_count": len(names)}
    if fault is Fault.LATE_RANK:
        rank = late_rank(scenario)
        what = f"the host of rank {rank} is late in every step, and its device with it"
        return what, {"rank": rank, "delay_ns": round(LATE_RATIO * _busy_ns(step))}
    what = "recording began at step 0: compilation, autotuning, first collectives and cold clocks are in it"
    return what, {
        "compile_ns": int(_FIRST_COMPILE_NS),
        "first_collective_ns": int(_FIRST_COLLECTIVE_NS),
        "cold_steps_count": min(len(_COLD_RATIOS), scenario.steps_count),
    }
