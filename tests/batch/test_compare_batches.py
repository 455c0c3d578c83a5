"""Two batches kernel by kernel: pairs by name, both values, and no difference of what means different things."""

from __future__ import annotations

from pathlib import Path

import pytest
from compute_files import Kernel, Workload, write_analysis, write_pass, write_sysinfo
from hypothesis import given
from hypothesis import strategies as st
from rocpd_files import write_small_trace

from rocktools.batch.collect import Gathered, GatherOptions, gather
from rocktools.batch.compare_batches import BATCH_CHANGES, MatchedBy, compare_gathered, match_kernels
from rocktools.batch.gathered_tables import KernelValues
from rocktools.errors import UsageError
from rocktools.frames import require_frame


def kernel(name: str, workload: str = "w") -> KernelValues:
    return KernelValues(
        workload=workload, kernel=name, found={}, absent={}, tool_intensities={}, tool_version="3.7.0",
        launches_count=1, time=None, planned=None,
    )  # fmt: skip


def pairs(before, after) -> list[tuple[str | None, str | None, str]]:
    found = match_kernels(before, after)
    return [
        (
            None if pair.before is None else f"{pair.before.workload}/{pair.before.kernel}",
            None if pair.after is None else f"{pair.after.workload}/{pair.after.kernel}",
            str(pair.matched_by),
        )
        for pair in found
    ]


def gathered(folder: Path, waves: float, *names: str, version: str = "3.10.0", **options) -> Gathered:
    folder.mkdir(exist_ok=True)
    values = {("7.1.2", "Avg"): waves, ("2.1.11", "Avg"): 10 * waves, ("16.3.9", "Avg"): waves}
    kernels = tuple(Kernel(name=name, values=values) for name in names)
    path = write_analysis(folder / "a.db", [Workload(name="w", kernels=kernels)], version=version)
    return gather([path], GatherOptions(**options))


def changes(before: Gathered, after: Gathered, **options):
    comparison = compare_gathered(before, after, **options)
    require_frame(comparison.frame, BATCH_CHANGES)
    rows = comparison.frame.astype(object).where(comparison.frame.notna(), None).to_dict("records")
    return comparison, {(row["kernel_name"], row["quantity"]): row for row in rows}


def test_kernels_are_matched_by_name_then_workload_then_family():
    before = [kernel("gemm"), kernel("twin", "a"), kernel("twin", "b"), kernel("fusion_3"), kernel("gone")]
    after = [kernel("fusion_12"), kernel("gemm", "other"), kernel("twin", "b"), kernel("twin", "c"), kernel("new")]
    assert pairs(before, after) == [
        ("w/fusion_3", "w/fusion_12", "family"),
        ("w/gemm", "other/gemm", "name"),
        ("b/twin", "b/twin", "name and workload"),
        ("a/twin", "c/twin", "family"),
        (None, "w/new", "after_only"),
        ("w/gone", None, "before_only"),
    ]


def test_several_of_a_family_are_not_guessed():
    before, after = [kernel("fusion_1"), kernel("fusion_2")], [kernel("fusion_3")]
    assert {matched for _, _, matched in pairs(before, after)} == {"after_only", "before_only"}


@given(
    before=st.lists(st.tuples(st.sampled_from(["a", "a_1", "b", "b_2"]), st.sampled_from("xy")), unique=True),
    after=st.lists(st.tuples(st.sampled_from(["a", "a_1", "b", "b_2"]), st.sampled_from("xy")), unique=True),
)
def test_every_kernel_is_in_exactly_one_pair(before, after):
    first, second = ([kernel(*each) for each in side] for side in (before, after))
    found = match_kernels(first, second)
    ours = [(pair.before.kernel, pair.before.workload) for pair in found if pair.before is not None]
    theirs = [(pair.after.kernel, pair.after.workload) for pair in found if pair.after is not None]
    assert sorted(ours) == sorted(before)
    assert sorted(theirs) == sorted(after)
    for pair in found:
        is_pair = pair.before is not None and pair.after is not None
        assert is_pair == (pair.matched_by not in (MatchedBy.BEFORE_ONLY, MatchedBy.AFTER_ONLY))


def test_changes_have_both_values(tmp_path):
    comparison, rows = changes(gathered(tmp_path / "a", 4.0, "k"), gathered(tmp_path / "b", 5.0, "k"))
    row = rows["k", "waves"]
    assert (row["before_value"], row["after_value"], row["change_value"], row["change_ratio"]) == (4, 5, 1, 0.25)
    assert (row["unit"], row["evidence"], row["refusal"]) == ("wave", "counter", None)
    assert rows["k", "valu_utilisation"]["change_ratio"] == pytest.approx(0.25)
    assert comparison.matched_count == 1


def test_times_are_compared_where_both_have_a_trace(tmp_path):
    trace = write_small_trace(tmp_path / "t.db")
    before = gathered(tmp_path / "a", 4.0, "loop_fusion_3", traces=[trace])
    _, rows = changes(before, gathered(tmp_path / "b", 4.0, "loop_fusion_3", traces=[trace]))
    row = rows["loop_fusion_3", "traced_mean_time"]
    assert (row["before_value"], row["after_value"], row["change_value"], row["evidence"]) == (30, 30, 0, "measured")
    _, rows = changes(before, gathered(tmp_path / "c", 4.0, "loop_fusion_3"))
    assert rows["loop_fusion_3", "traced_mean_time"]["refusal"] == "there is no value after"


def test_kernels_of_one_side_are_listed_with_their_values(tmp_path):
    comparison, rows = changes(gathered(tmp_path / "a", 4.0, "k", "old"), gathered(tmp_path / "b", 4.0, "k", "new"))
    assert (rows["old", "waves"]["matched_by"], rows["old", "waves"]["before_value"]) == ("before_only", 4)
    assert (rows["new", "waves"]["matched_by"], rows["new", "waves"]["after_value"]) == ("after_only", 4)
    assert rows["new", "waves"]["refusal"] == "there is no value before"
    assert {"kernels-before-only", "kernels-after-only"} <= {finding.rule for finding in comparison.findings}


def test_quantities_of_different_versions_are_shown_and_not_subtracted(tmp_path):
    before = gathered(tmp_path / "a", 4.0, "k", version="3.5.0")
    comparison, rows = changes(before, gathered(tmp_path / "b", 5.0, "k", version="3.8.0"))
    for quantity in ("valu_utilisation", "l2_bytes"):
        row = rows["k", quantity]
        assert None not in (row["before_value"], row["after_value"])
        assert (row["change_value"], row["change_ratio"]) == (None, None)
        assert "3.5.0 and 3.8.0: since 3.7" in row["refusal"]
    assert rows["k", "waves"]["change_value"] == 1
    told = {finding.rule: dict(finding.numbers) for finding in comparison.findings}
    assert told == {"quantities-not-comparable": {"values_count": 2}}


def test_ours_and_the_tools_are_not_subtracted(tmp_path):
    place = tmp_path / "raw" / "workloads" / "w" / "MI355X"
    write_sysinfo(place, gpu_arch="gfx950", num_xcd=8, cu_per_gpu=256)
    write_pass(place, 0, {"SQ_WAVES": (4.0, 4.0)})
    _, rows = changes(gather([tmp_path / "raw"]), gathered(tmp_path / "b", 5.0, "k"))
    assert "one is ours and the other the tool's" in rows["k", "waves"]["refusal"]
    assert rows["k", "waves"]["change_value"] is None


def test_only_the_quantities_that_were_asked_for(tmp_path):
    both = gathered(tmp_path / "a", 4.0, "k"), gathered(tmp_path / "b", 4.0, "k")
    _, rows = changes(*both, quantities=["waves"])
    assert set(rows) == {("k", "waves")}
    with pytest.raises(UsageError, match="quantity 'wave'"):
        compare_gathered(*both, quantities=["wave"])


def test_nothing_changes_between_a_batch_and_itself(tmp_path):
    one = gathered(tmp_path / "a", 4.0, "k", "other")
    comparison, rows = changes(one, one)
    assert {row["change_value"] for row in rows.values()} == {0}
    assert comparison.findings == ()
