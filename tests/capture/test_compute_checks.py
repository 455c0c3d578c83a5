"""What can be wrong with the rows of a workload: judged beside a judgement by counting sets."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rocktools.capture.compute_checks import (
    Expected,
    check_kernel,
    check_launches,
    check_numbers,
    check_other_kernels,
    check_passes,
    find_launches,
    judge_pass,
)
from rocktools.capture.compute_rows import KernelRows, PlannedPass, ResultFile, WorkloadRows
from rocktools.capture.compute_versions import Layout
from rocktools.findings import has_fault

FOLDER = Path("/data/k0/workloads/k0/MI355X")


def rows_of(passes: dict[str, dict[str, set[int]]], layout: Layout = Layout.LONG) -> WorkloadRows:
    """Pass -> kernel -> ids of launches; each pass has one counter, named after it."""
    planned = tuple(PlannedPass(name=name, counters=frozenset({f"C_{name}"})) for name in passes)
    files = {}
    for name, kernels in passes.items():
        rows = {}
        for kernel, ids in kernels.items():
            rows[kernel] = KernelRows(total_ns=len(ids))
            if ids:
                rows[kernel].counted[f"C_{name}"] = {str(number) for number in ids}
        path = FOLDER / f"results_{name}.csv"
        files[name] = ResultFile(path=path, is_long=True, columns=frozenset(), kernels=rows)
    return WorkloadRows(results=FOLDER, layout=layout, planned=planned, of_pass=files, merged=None, damaged=())


def judge(rows: WorkloadRows, expected: Expected):
    launches = find_launches(rows, expected.kernel_name)
    passes = [judge_pass(planned, rows, expected) for planned in rows.planned]
    findings = check_kernel(rows, launches, expected)
    if launches:
        findings += check_passes(passes, rows, expected)
        findings += check_launches(passes, launches, rows, expected)
        findings += check_numbers(passes, rows, expected)
    return [*findings, *check_other_kernels(rows, expected)]


ids = st.sets(st.integers(1, 4))


@given(passes=st.lists(ids, min_size=1, max_size=4), launches_count=st.integers(1, 4))
def test_rows_are_good_if_and_only_if_every_pass_has_the_same_wanted_launches(passes, launches_count):
    rows = rows_of({f"p{number}": {"k": found} for number, found in enumerate(passes)})
    findings = judge(rows, Expected(kernel_name="k", launches_count=launches_count))
    is_good = all(found == passes[0] for found in passes) and len(passes[0]) >= launches_count
    assert has_fault(findings) != is_good


@given(passes=st.lists(ids, min_size=1, max_size=4))
def test_each_fault_is_named_for_what_it_is(passes):
    rows = rows_of({f"p{number}": {"k": found, "other": {1}} for number, found in enumerate(passes)})
    found = {finding.rule for finding in judge(rows, Expected(kernel_name="k"))}
    counts = [len(each) for each in passes if each]
    if not counts:
        assert "compute-nan-rows" in found
        return
    assert ("compute-kernel-missing-in-pass" in found) == (len(counts) < len(passes))
    assert ("compute-launches-differ" in found) == (len(set(counts)) > 1)
    assert ("compute-partial-rows" in found) == (len(set().union(*passes)) > max(counts))
    assert "compute-other-kernels" in found


@given(passes=st.lists(ids, min_size=1, max_size=4))
def test_passes_of_one_run_need_a_launch_each_and_nothing_in_common(passes):
    rows = rows_of({f"p{number}": {"k": found} for number, found in enumerate(passes)})
    findings = judge(rows, Expected(kernel_name="k", multiplexes=True))
    assert has_fault(findings) != all(passes)


def test_a_joined_file_does_not_tell_shifted_ids():
    rows = rows_of({"a": {"k": {1, 2}}, "b": {"k": {2, 3}}}, Layout.WIDE)
    assert judge(rows, Expected(kernel_name="k", launches_count=2)) == []


@pytest.mark.parametrize(
    "count, rule", [(3, "compute-launches-fewer"), (1, "compute-launches-more"), (2, None), (None, None)]
)
def test_launches_are_compared_with_those_that_were_asked_for(count, rule):
    rows = rows_of({"a": {"k": {1, 2}}, "b": {"k": {1, 2}}})
    findings = judge(rows, Expected(kernel_name="k", launches_count=count))
    assert [finding.rule for finding in findings] == ([rule] if rule else [])
    if rule:
        assert dict(findings[0].numbers) == {"launches_count": 2, "expected_launches_count": count}


def test_counters_without_a_number_are_a_warning_with_their_names():
    rows = rows_of({"a": {"k": {1}}})
    planned = (PlannedPass(name="a", counters=frozenset({"C_a", "TCC_HIT[100]"})),)
    rows = WorkloadRows(
        results=FOLDER, layout=rows.layout, planned=planned, of_pass=rows.of_pass, merged=None, damaged=()
    )
    (finding,) = judge(rows, Expected(kernel_name="k"))
    assert finding.rule == "compute-counters-missing"
    assert "TCC_HIT[100]" in finding.message
    assert not has_fault([finding])


def test_long_names_are_cut_in_messages():
    rows = rows_of({"a": {"k": {1}, "x" * 500: {1}}})
    (finding,) = judge(rows, Expected(kernel_name="k"))
    assert len(finding.message) < 300
