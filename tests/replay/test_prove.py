"""Levels of proof, on records made by hand."""

from __future__ import annotations

from dataclasses import replace

import pytest

from rocktools.replay.prove import (
    Durations,
    EvidenceKind,
    KernelFacts,
    Level,
    Part,
    TracedKernel,
    Verdict,
    build_proof,
    prove_counters,
    prove_executables,
    prove_traces,
)

KERNEL = KernelFacts(
    name="loop_fusion_1",
    kind="kCustomKernel",
    grid=(12, 1, 1),
    workgroup_workitems=(256, 1, 1),
    lds_bytes=512,
    scratch_bytes=0,
    vgpr_count=40,
    agpr_count=0,
    sgpr_count=16,
    spills_count=0,
    code_sha256="a" * 64,
)
MATMUL = KernelFacts(name="", kind="kCublasLtMatmul", configuration_sha256="c" * 64)
COPY = KernelFacts(name="", kind="kCopy", configuration_sha256="d" * 64)
TRACED = TracedKernel(
    facts=replace(KERNEL, kind="", grid=(3072, 1, 1), code_sha256="", spills_count=None),
    durations=Durations(median_ns=10_000.0, iqr_ns=100.0, dispatches_count=50),
)


def with_duration(median_ns: float, traced: TracedKernel = TRACED) -> TracedKernel:
    return replace(traced, durations=replace(traced.durations, median_ns=median_ns))


def test_same_code_and_launch_is_identical():
    part = prove_executables([KERNEL], [KERNEL])
    assert part.level is Level.IDENTICAL
    assert {each.verdict for each in part.comparisons} == {Verdict.EQUAL}
    assert part.findings == ()


def test_other_code_with_everything_else_the_same_is_equivalent():
    assert prove_executables([KERNEL], [replace(KERNEL, code_sha256="b" * 64)]).level is Level.EQUIVALENT


@pytest.mark.parametrize(
    "change",
    [
        {"grid": (13, 1, 1)}, {"workgroup_workitems": (128, 1, 1)}, {"lds_bytes": 1024}, {"vgpr_count": 41},
        {"agpr_count": 4}, {"sgpr_count": 17}, {"scratch_bytes": 8}, {"name": "loop_fusion_2"},
    ],
)  # fmt: skip
def test_other_launch_or_resources_with_other_code_are_no_stand_in(change):
    part = prove_executables([KERNEL], [replace(KERNEL, code_sha256="b" * 64, **change)])
    assert part.level is Level.NOT_A_STAND_IN
    [name] = change
    [different] = [each for each in part.comparisons if each.quantity == name]
    assert (different.verdict, different.replay) == (Verdict.DIFFERENT, change[name])


def test_same_code_launched_otherwise_is_no_stand_in():
    assert prove_executables([KERNEL], [replace(KERNEL, grid=(13, 1, 1))]).level is Level.NOT_A_STAND_IN


def test_same_code_under_another_name_is_identical_and_told():
    part = prove_executables([KERNEL], [replace(KERNEL, name="loop_fusion")])
    assert part.level is Level.IDENTICAL
    assert [finding.rule for finding in part.findings] == ["replay-kernel-name-differs"]


def test_same_code_without_a_launch_is_identical():
    """Executables up to 0.9 do not say how their kernels are launched."""
    old = replace(KERNEL, grid=(), workgroup_workitems=())
    assert prove_executables([old], [old]).level is Level.IDENTICAL


def test_launches_alone_prove_nothing():
    known = KernelFacts(name="loop_fusion_1", kind="kCustomKernel", grid=(12, 1, 1), workgroup_workitems=(256, 1, 1))
    part = prove_executables([known], [KERNEL])
    assert part.level is Level.UNPROVEN
    assert [finding.rule for finding in part.findings] == ["replay-not-decided"]


def test_same_library_call_proves_nothing_and_another_one_disproves():
    assert prove_executables([MATMUL], [MATMUL]).level is Level.UNPROVEN
    assert prove_executables([MATMUL], [replace(MATMUL, configuration_sha256="e" * 64)]).level is Level.NOT_A_STAND_IN


def test_copies_of_the_replay_alone_are_told_and_left_out():
    part = prove_executables([KERNEL], [COPY, KERNEL])
    assert part.level is Level.IDENTICAL
    [finding] = part.findings
    assert (finding.rule, finding.numbers) == ("replay-copies-too", {"copies_count": 1})


@pytest.mark.parametrize("job, replay", [([KERNEL], []), ([KERNEL, MATMUL], [KERNEL]), ([KERNEL], [KERNEL, MATMUL])])
def test_launch_on_one_side_only_is_no_stand_in(job, replay):
    part = prove_executables(job, replay)
    assert part.level is Level.NOT_A_STAND_IN
    assert [each.quantity for each in part.comparisons].count("launch") == 1


def test_nothing_is_proven_where_nobody_knows_what_the_job_launches():
    assert prove_executables([], [KERNEL]).level is Level.UNPROVEN


def test_several_kernels_are_as_good_as_the_worst():
    stages = [replace(KERNEL, name=f"sort_{number}", code_sha256=str(number) * 64) for number in range(3)]
    assert prove_executables(stages, stages).level is Level.IDENTICAL
    other = [stages[0], replace(stages[1], code_sha256="9" * 64), stages[2]]
    assert prove_executables(stages, other).level is Level.EQUIVALENT


def test_kernels_are_paired_by_name_whatever_their_order():
    one, two = KERNEL, replace(KERNEL, name="other", code_sha256="b" * 64)
    assert prove_executables([one, two], [two, one]).level is Level.IDENTICAL


def test_traces_with_the_same_resources_are_equivalent():
    part = prove_traces(TRACED, with_duration(10_400.0))
    assert (part.level, part.findings) == (Level.EQUIVALENT, ())


def test_equivalent_kernel_that_takes_another_time_is_told():
    part = prove_traces(TRACED, with_duration(7_000.0))
    assert part.level is Level.EQUIVALENT
    [finding] = part.findings
    assert finding.rule == "replay-duration-differs"
    assert finding.numbers == {"job_median_ns": 10_000.0, "replay_median_ns": 7_000.0, "job_iqr_ns": 100.0}


@pytest.mark.parametrize(
    "median_ns, iqr_ns, level",
    [
        (10_500.0, 100.0, Level.SIMILAR),  # 5 % of 10,000 ns, exactly
        (10_501.0, 100.0, Level.NOT_A_STAND_IN),
        (9_500.0, 100.0, Level.SIMILAR),
        (10_801.0, 400.0, Level.NOT_A_STAND_IN),  # 2 x 400 ns is more than 5 %
        (10_800.0, 400.0, Level.SIMILAR),
    ],
)
def test_similar_is_the_same_name_within_tolerance(median_ns, iqr_ns, level):
    job = replace(TRACED, durations=replace(TRACED.durations, iqr_ns=iqr_ns))
    other = replace(TRACED, facts=replace(TRACED.facts, vgpr_count=64))
    assert prove_traces(job, with_duration(median_ns, other)).level is level


def test_traces_without_registers_are_similar_at_best():
    unknown = replace(TRACED, facts=replace(TRACED.facts, vgpr_count=None))
    assert prove_traces(unknown, unknown).level is Level.SIMILAR


def test_other_name_in_a_trace_is_no_stand_in():
    other = replace(TRACED, facts=replace(TRACED.facts, name="other"))
    assert prove_traces(TRACED, other).level is Level.NOT_A_STAND_IN


def test_counters_that_must_not_move_are_compared_exactly():
    part = prove_counters(
        "k", {"SQ_WAVES": [100.0, 100.0], "SQ_INSTS_VALU": [5000.0, 5001.0], "TCC_HIT_sum": [90.0, 99.0]}
    )
    assert part.level is Level.UNPROVEN
    assert {each.quantity: each.verdict for each in part.comparisons} == {
        "SQ_WAVES, passes": Verdict.EQUAL,
        "SQ_INSTS_VALU, passes": Verdict.DIFFERENT,
        "TCC_HIT_sum, passes": Verdict.EQUAL,
    }
    assert [finding.rule for finding in part.findings] == ["replay-counter-unsteady"]


def test_counters_of_the_job_are_compared_where_it_was_counted():
    part = prove_counters("k", {"SQ_WAVES": [100.0]}, job={"SQ_WAVES": 128.0, "GRBM_COUNT": 7.0})
    [comparison] = part.comparisons
    assert (comparison.job, comparison.replay, comparison.verdict) == (128.0, 100.0, Verdict.DIFFERENT)
    assert [finding.rule for finding in part.findings] == ["replay-counter-differs"]


def part_of(kind: EvidenceKind, level: Level) -> Part:
    return Part(evidence=kind, level=level, comparisons=())


@pytest.mark.parametrize(
    "compiled, traced, level",
    [
        (Level.IDENTICAL, None, Level.IDENTICAL),
        (None, Level.SIMILAR, Level.SIMILAR),
        (Level.IDENTICAL, Level.EQUIVALENT, Level.IDENTICAL),
        (Level.IDENTICAL, Level.NOT_A_STAND_IN, Level.NOT_A_STAND_IN),  # what ran is not what was compiled
        (Level.NOT_A_STAND_IN, Level.EQUIVALENT, Level.EQUIVALENT),  # another plugin compiled it ahead of time
        (Level.UNPROVEN, Level.EQUIVALENT, Level.EQUIVALENT),
        (Level.UNPROVEN, None, Level.UNPROVEN),
        (None, None, Level.UNPROVEN),
    ],
)
def test_what_ran_goes_before_what_was_compiled(compiled, traced, level):
    parts = [part_of(EvidenceKind.COUNTERS, Level.UNPROVEN)]
    if compiled is not None:
        parts.append(part_of(EvidenceKind.EXECUTABLE, compiled))
    if traced is not None:
        parts.append(part_of(EvidenceKind.TRACE, traced))
    proof = build_proof(parts, {})
    assert proof.level is level
    assert proof.level.is_stand_in is (level in (Level.IDENTICAL, Level.EQUIVALENT, Level.SIMILAR))
