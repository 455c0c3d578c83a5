"""Jobs with faults: each costs what it is said to cost, where it is said to be, and nothing else changes."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from rocktools.demo.job_scenario import COMPONENTS, Fault, JobScenario, Slowdown, parse_slowdown
from rocktools.demo.job_simulation import (
    EXPOSED_RATIO,
    FORMATTING_RATIO,
    RECOMPILED,
    RECOMPILED_ID,
    STARVATION_RATIO,
    STRAGGLER_RATIO,
    SimulatedJob,
    simulate_job,
)
from rocktools.demo.job_work import JobProgram, measure_program
from rocktools.demo.launch_rows import WAIT
from rocktools.demo.packed_programs import read_packed
from rocktools.errors import UsageError
from rocktools.hlo.dumps import find_dumps, read_program

SCENARIO = JobScenario(ranks_count=8, steps_count=3)


@pytest.fixture(scope="module")
def clean(job_program: JobProgram) -> SimulatedJob:
    return simulate_job([job_program], SCENARIO)


def with_fault(job_program: JobProgram, *faults: Fault, **changes) -> SimulatedJob:
    return simulate_job([job_program], replace(SCENARIO, faults=frozenset(faults), **changes))


def durations(job: SimulatedJob, step: int = 0) -> np.ndarray:
    return job.times.end[step] - job.times.arrive[step]


def rows_where(job: SimulatedJob, is_wanted) -> np.ndarray:
    step = job.steps[0]
    chosen = np.array([is_wanted(site) for site in step.program.sites])
    return (step.rows.kernel != WAIT) & (step.rows.kernel_index == 0) & chosen[np.maximum(step.rows.site, 0)]


def is_collective(site) -> bool:
    return bool(site.collective)


def test_a_job_without_faults_has_none(clean):
    assert clean.injections == ()
    # Steps differ a little.
    assert 0 < np.ptp(clean.times.step_ns) / clean.times.step_ns.mean() < 0.02


def test_the_cost_of_a_fault_is_the_difference_to_the_job_without_it(job_program, clean):
    for fault in set(Fault) - {Fault.RECOMPILE}:
        job = with_fault(job_program, fault)
        (injection,) = job.injections
        assert injection.name == fault.value
        difference = job.times.step_ns.mean() - clean.times.step_ns.mean()
        assert injection.cost_ns_per_step == pytest.approx(difference, abs=1)
        # Well above the jitter, so that it can be found.
        assert injection.cost_ns_per_step > 0.08 * clean.times.step_ns.mean()


def test_an_exposed_collective_takes_longer_and_nothing_else_does(job_program, clean):
    job = with_fault(job_program, Fault.EXPOSED_COLLECTIVE)
    name = job.injections[0].facts["instruction"]
    slow, others = (
        rows_where(job, lambda site: site.thunk.instruction == name),
        rows_where(job, lambda site: not site.collective),
    )
    assert durations(job)[slow].sum() == pytest.approx(EXPOSED_RATIO * durations(clean)[slow].sum(), rel=0.001)
    assert durations(job)[others].sum() == pytest.approx(durations(clean)[others].sum(), rel=0.01)
    assert (job.steps[0].rows.stream[slow] > 0).all()


def test_a_straggler_is_slow_and_the_others_wait(job_program, clean):
    job = with_fault(job_program, Fault.STRAGGLER)
    rank = job.injections[0].facts["rank"]
    compute = rows_where(job, lambda site: not site.collective)
    ratio = durations(job)[compute].sum(axis=0) / durations(clean)[compute].sum(axis=0)
    assert ratio[rank] == pytest.approx(STRAGGLER_RATIO, rel=0.01)
    assert np.delete(ratio, rank) == pytest.approx(np.ones(7), rel=0.01)
    waited = (job.times.arrive[0] - job.times.start[0]).sum(axis=0)
    assert np.argmin(waited) == rank


def test_starved_devices_wait_before_their_steps(job_program, clean):
    job = with_fault(job_program, Fault.INPUT_STARVATION)
    waited = (job.times.loaded - job.times.begin) - (clean.times.loaded - clean.times.begin)
    busy = clean.steps[0].timing.base_ns[clean.steps[0].rows.stream == 0].sum()
    assert (0.84 * STARVATION_RATIO * busy < waited).all()
    assert (waited < 1.16 * STARVATION_RATIO * busy).all()
    assert job.injections[0].cost_ns_per_step == pytest.approx(waited.mean(), rel=0.01)


def test_a_late_rank_is_late_in_every_step(job_program, clean):
    job = with_fault(job_program, Fault.LATE_RANK)
    rank, delay_ns = (job.injections[0].facts[name] for name in ("rank", "delay_ns"))
    late = (job.times.ready - job.times.loaded) - (clean.times.ready - clean.times.loaded)
    assert late[:, rank] == pytest.approx(np.full(3, delay_ns), rel=1e-6)
    assert np.delete(late, rank, axis=1) == pytest.approx(np.zeros((3, 7)), abs=1e-3)


def test_formatting_takes_longer_and_costs_no_more_than_that(job_program, clean):
    job = with_fault(job_program, Fault.FORMATTING_TAX)
    formatting = rows_where(job, lambda site: site.is_layout_only)
    added = durations(job)[formatting].sum(axis=0) - durations(clean)[formatting].sum(axis=0)
    assert added == pytest.approx((FORMATTING_RATIO - 1) * durations(clean)[formatting].sum(axis=0), rel=0.01)
    assert 0.9 * added.mean() < job.injections[0].cost_ns_per_step < 1.05 * added.mean()


def test_a_capture_of_the_warm_up_begins_at_step_0_with_a_compilation(job_program):
    job = with_fault(job_program, Fault.WARM_UP_CAPTURE)
    assert job.first_step == 0
    facts = job.injections[0].facts
    assert job.times.step_ns[0] > facts["compile_ns"]
    assert job.times.step_ns[1] > 1.05 * job.times.step_ns[2]


def test_a_recompilation_runs_another_program_for_one_step(job_program, tmp_path: Path):
    packed = read_packed(RECOMPILED)
    packed.write(tmp_path, program_id=RECOMPILED_ID)
    other = measure_program(read_program(find_dumps(tmp_path)[0]), job_program.device, name=RECOMPILED)
    scenario = replace(SCENARIO, faults=frozenset({Fault.RECOMPILE}))
    job = simulate_job([job_program, other], scenario)
    assert [step.program.name for step in job.steps] == [job_program.name, RECOMPILED, job_program.name]
    (injection,) = job.injections
    assert injection.facts["step"] == SCENARIO.first_step + 1
    # What compiling takes, spread over the steps; the other program itself is no cost.
    assert injection.cost_ns_per_step == pytest.approx(injection.facts["compile_ns"] / 3, rel=0.05)
    assert job.steps[1].first_site == len(job_program.sites)


def test_faults_can_be_combined_and_each_keeps_its_name(job_program):
    job = with_fault(
        job_program, Fault.STRAGGLER, Fault.INPUT_STARVATION, slowdowns=(Slowdown(component="wi_0", ratio=0.08),)
    )
    assert [each.name for each in job.injections] == ["straggler", "input-starvation", "slow wi_0"]
    assert all(each.cost_ns_per_step > 0 for each in job.injections)


def test_a_slow_component_takes_longer_for_the_same_work(job_program, clean):
    job = simulate_job([job_program], replace(SCENARIO, slowdowns=(parse_slowdown("wi_0=8%"),)))
    mine = rows_where(job, lambda site: site.component == "wi_0" and not site.collective)
    others = rows_where(job, lambda site: site.component != "wi_0" and not site.collective)
    assert durations(job)[mine].sum() == pytest.approx(1.08 * durations(clean)[mine].sum(), rel=0.002)
    assert durations(job)[others].sum() == pytest.approx(durations(clean)[others].sum(), rel=0.002)
    added = 0.08 * durations(clean)[mine].sum(axis=0).mean()
    assert job.injections[0].cost_ns_per_step == pytest.approx(added, rel=0.1)


def test_every_component_that_can_be_slow_has_kernels(job_program):
    found = {site.component for site in job_program.sites}
    assert set(COMPONENTS) <= found
    assert found - set(COMPONENTS) <= {"", "layers"}


@pytest.mark.parametrize("text", ["wi_0", "wi_0=", "wi_0=fast", "wi_9=8%", "=8%", "wi_0=-8%"])
def test_what_is_no_slowdown_is_refused(text):
    with pytest.raises(UsageError):
        parse_slowdown(text)


@pytest.mark.parametrize("text", ["wi_0=8%", "wi_0=8", "wi_0=time:8%", " wi_0=8.0 % "])
def test_a_slowdown_may_be_spelled_in_several_ways(text):
    assert parse_slowdown(text) == Slowdown(component="wi_0", ratio=0.08)


@pytest.mark.parametrize(
    "wrong",
    [{"ranks_count": 0}, {"ranks_count": 9}, {"steps_count": 0}, {"steps_count": 1, "faults": {Fault.RECOMPILE}}],
)
def test_impossible_scenarios_are_refused(wrong):
    with pytest.raises(UsageError):
        JobScenario(**wrong)
