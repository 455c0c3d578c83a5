"""What is known of a profiled replay, from databases of the demo writer; passes of real ones: tests/cli."""

from __future__ import annotations

import pytest
from rocpd_files import write_counter_pass, write_small_trace

from rocktools.errors import NothingToRead, UsageError
from rocktools.workspace.replay_profile import POINT_QUANTITIES, build_replay_profile

POINT = ["duration", "intensity", "achieved_flop_rate", "achieved_byte_rate", "flop_ceiling", "byte_ceiling"]
POINT += ["roof_ratio"]


@pytest.fixture
def run(tmp_path):
    """Three dispatches of the kernel in a trace, and two of it counted; the demo writer marks both as simulated."""
    (tmp_path / "trace").mkdir()
    (tmp_path / "pmc" / "counters_1").mkdir(parents=True)
    write_small_trace(tmp_path / "trace" / "1_results.db")
    write_counter_pass(tmp_path / "pmc" / "counters_1" / "1_results.db")
    return tmp_path


def build(run, **changes):
    options = {"proof": "identical", "quantities": ("waves",), "architecture": "gfx950", "warmups_count": 1, **changes}
    return build_replay_profile(run, "loop_fusion_3", **options)


def by_name(profile):
    return {row["quantity"]: row for row in profile.frame.to_dict("records")}


def test_counters_are_told_with_their_executions_and_the_proof(run):
    """SQ_WAVES is 1 + 2 + 3 + 4 and 5 + 6 + 7 + 8: 18 in the mean of both."""
    row = by_name(build(run, proof="unproven"))["waves"]
    assert (row["value"], row["evidence"], row["executions_count"]) == (18.0, "counter", 2)
    assert (row["kernel_name"], row["proof"]) == ("loop_fusion_3", "unproven")


def test_without_bytes_and_flops_there_is_no_point_and_the_reason(run):
    rows = by_name(build(run, quantities=("waves", *POINT_QUANTITIES)))
    assert list(rows) == ["fabric_bytes", "total_flop", "waves", *POINT]
    for name in ("fabric_bytes", "total_flop", "intensity", "achieved_byte_rate", "roof_ratio"):
        assert rows[name]["value"] != rows[name]["value"]
        assert rows[name]["absence"]
        assert rows[name]["executions_count"] == 0
    assert rows["roof_ratio"]["remark"] == "neither FLOPs nor bytes are known"


def test_without_a_trace_pass_the_point_was_not_collected(run):
    rows = by_name(build(run, warmups_count=None))
    assert {rows[name]["absence"] for name in POINT} == {"not_collected"}


def test_a_trace_of_nothing_but_the_warm_up_gives_no_times(run):
    profile = build(run, warmups_count=3)
    assert by_name(profile)["duration"]["absence"] == "not_collected"
    assert "no-roofline-point" in {finding.rule for finding in profile.findings}
    assert by_name(profile)["waves"]["value"] == 18.0


def test_simulated_passes_stay_simulated(run):
    assert build(run).is_simulated
    assert build(run, warmups_count=None).is_simulated


def test_what_cannot_be_told_is_an_error(run, tmp_path):
    with pytest.raises(UsageError, match="unknown-quantity"):
        build(run, quantities=("wave",))
    (tmp_path / "empty").mkdir()
    with pytest.raises(NothingToRead):
        build(tmp_path / "empty")
