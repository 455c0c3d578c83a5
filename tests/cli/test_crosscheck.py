"""`rocktools crosscheck`: of real tables of xprof every figure is equal or explained; made ones are known by hand."""

from __future__ import annotations

import json
import shutil
from collections import Counter
from pathlib import Path

import pytest
from command_line import CommandLine, assert_formats_agree
from crosscheck_tables import (
    COLLECTIVE,
    FRAMEWORK,
    KERNELS,
    OTHER,
    PRODUCT,
    TIMELINE_FIRST_NS,
    TIMELINE_MEAN_NS,
    kernel_row,
    timeline_rows,
    write_charts,
    write_sheet,
    write_two_devices,
)

from rocktools.workspace.crosscheck_rows import REASONS

# Rows of the three tables of each profile, which must all be there.
REAL_ROWS = {
    "mi355_te_fused_attn": {"kernel_stats": 19, "hlo_stats": 20, "framework_op_stats": 15, "part 2": 13},
    "jax08_attention": {"kernel_stats": 16, "hlo_stats": 24, "framework_op_stats": 11, "part 2": 9},
    "jax_conv_minimal_08": {"kernel_stats": 8, "hlo_stats": 4, "framework_op_stats": 6, "part 2": 4},
}


@pytest.fixture(scope="module")
def profile(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_two_devices(tmp_path_factory.mktemp("crosscheck") / "vm.xplane.pb")


def unexplained(rows: list[dict[str, object]]) -> list[tuple[object, ...]]:
    return [(row["table"], row["row_name"], row["quantity"]) for row in rows if row["verdict"] == "unexplained"]


# xprof


@pytest.mark.parametrize("name", REAL_ROWS)
def test_every_figure_of_real_tables_is_equal_or_explained(run: CommandLine, shared: Path, name: str) -> None:
    folder = shared / "data/xplane"
    rows = run.rows("crosscheck", folder / name, "--xprof", folder / "expected" / name, "--part", "all")
    assert unexplained(rows) == []
    compared = {(row["table"], row["row_index"]) for row in rows}
    counts = Counter(str(table).removeprefix("framework_op_stats, ") for table, _ in compared)
    assert counts == REAL_ROWS[name]
    # Counts and times are what both measured: they are equal but where xprof rounds, or takes the largest count.
    of_kernels = [row for row in rows if row["table"] == "kernel_stats"]
    assert {row["verdict"] for row in of_kernels if row["quantity"] in ("occurrences_count", "total_ns")} == {"equal"}
    of_programs = [row for row in rows if row["table"] == "hlo_stats"]
    times = ("occurrences_count", "total_ns", "self_ns", "mean_ns")
    assert {row["verdict"] for row in of_programs if row["quantity"] in times} == {"equal"}


@pytest.mark.parametrize("column, quantity", [("total_time", "total_ns"), ("measured_memory_bw", "traffic_bytes")])
def test_figure_of_a_real_table_that_is_changed_is_found(
    run: CommandLine, shared: Path, tmp_path: Path, column: str, quantity: str
) -> None:
    """By a tenth, in the row of a matrix product: no reason fits."""
    source, name = shared / "data/xplane", "mi355_te_fused_attn"
    folder = tmp_path / "tables"
    shutil.copytree(source / "expected" / name, folder)
    folder.chmod(0o755)
    table = json.loads((folder / "hlo_stats.json").read_text())
    place = [each["id"] for each in table["cols"]].index(column)
    name_place = [each["id"] for each in table["cols"]].index("hlo_op_name")
    row = next(row for row in table["rows"] if row["c"][name_place]["v"] == "gemm_fusion_dot")
    row["c"][place]["v"] *= 1.1
    (folder / "hlo_stats.json").unlink()
    (folder / "hlo_stats.json").write_text(json.dumps(table))
    rows = run.rows("crosscheck", source / name, "--xprof", folder, code=3)
    assert unexplained(rows) == [("hlo_stats", "gemm_fusion_dot of program 17", quantity)]
    assert rows[0]["verdict"] == "unexplained"


def test_made_tables_are_equal_where_they_should_be(run: CommandLine, profile: Path, tmp_path: Path) -> None:
    folder = write_charts(tmp_path / "x", kernel_stats=KERNELS, framework_op_stats=FRAMEWORK)
    rows = run.rows("crosscheck", profile, "--xprof", folder, "--part", "all")
    assert unexplained(rows) == []
    kernels = [row for row in rows if row["table"] == "kernel_stats"]
    assert {row["verdict"] for row in kernels} == {"equal"}
    idle = next(row for row in rows if row["quantity"] == "idle_ns")
    assert (idle["theirs_value"], idle["ours_value"], idle["reason"]) == (500, 500, None)


def test_idle_time_by_sums_is_explained(run: CommandLine, tmp_path: Path) -> None:
    """Two kernels of 1000 ns at once, in a span of 1500: busy 1500, so idle 0; by sums -500."""
    from rocktools.demo.xspace_writer import (
        LineRecord,
        SpaceRecord,
        annotation_stats,
        gpu_plane,
        kernel_event,
        write_xspace,
    )

    lines = [
        LineRecord(
            name=f"Stream #{number}(Kernel)",
            id=number,
            timestamp_ns=1_000,
            events=[
                kernel_event(
                    "k",
                    offset_ps=500_000 * number,
                    duration_ps=1_000_000,
                    correlation_id=number,
                    annotation=annotation_stats(f"fusion.{number}", "jit_step", 7),
                )
            ],
        )
        for number in (0, 1)
    ]
    profile = write_xspace(tmp_path / "vm.xplane.pb", SpaceRecord(planes=[gpu_plane(0, lines)]))
    names = ("fusion.0", "fusion.1")
    rows = [
        *({**FRAMEWORK[1], "operation": n, "device_total_self_time_percent": 1000 / 1500} for n in names),
        {**FRAMEWORK[2], "total_time": -0.5, "device_total_self_time_percent": -500 / 1500},
    ]
    found = run.rows("crosscheck", profile, "--xprof", write_charts(tmp_path / "x", framework_op_stats=rows))
    reasons = {(row["row_name"], row["quantity"]): row["reason"] for row in found}
    assert reasons[("Device: IDLE", "idle_ns")] == "idle-by-sum"
    assert reasons[("Device: fusion.0", "share_ratio")] == "idle-included"


def test_rows_of_one_side_only_are_unexplained(run: CommandLine, profile: Path, tmp_path: Path) -> None:
    foreign = kernel_row("nobody.kd", count=1, total_us=1.0, least_us=1.0, most_us=1.0)
    folder = write_charts(tmp_path / "x", kernel_stats=[*KERNELS[:2], foreign])
    rows = run.rows("crosscheck", profile, "--xprof", folder, code=3)
    assert {(row["row_name"], row["theirs_text"], row["ours_text"]) for row in rows} == {
        ("nobody.kd <1,1,1 x 256,1,1>", "listed", None),
        (f"{OTHER} <1,1,1 x 256,1,1>", None, "listed"),
    }


def test_kernels_behind_the_thousandth_are_explained(run: CommandLine, profile: Path, tmp_path: Path) -> None:
    """A thousand rows of theirs, all longer than the kernel that they lack; the foreign ones stay unexplained."""
    foreign = [kernel_row(f"k{n}.kd", count=1, total_us=1.0, least_us=1.0, most_us=1.0) for n in range(998)]
    folder = write_charts(tmp_path / "x", kernel_stats=[*KERNELS[:2], *foreign])
    rows = run.rows("crosscheck", profile, "--xprof", folder, code=3)
    (row,) = [row for row in rows if str(row["row_name"]).startswith(OTHER)]
    assert (row["verdict"], row["reason"], row["row_index"]) == ("explained", "at-most-1000-rows", 1000)


def test_durations_that_were_cut_are_explained(run: CommandLine, tmp_path: Path) -> None:
    """Two of 1000.6 ns: 2001.2 ns, which xprof gives as 2.000 us; their mean 1000.6 ns as 1.000 us."""
    from rocktools.demo.xspace_writer import LineRecord, SpaceRecord, gpu_plane, kernel_event, write_xspace

    events = [kernel_event("k", offset_ps=n * 5_000_000, duration_ps=1_000_600, correlation_id=n) for n in range(2)]
    line = LineRecord(name="Stream #1(Kernel)", id=1, timestamp_ns=1_000, events=events)
    profile = write_xspace(tmp_path / "vm.xplane.pb", SpaceRecord(planes=[gpu_plane(0, [line])]))
    row = kernel_row("k.kd", count=2, total_us=2.0, least_us=1.0, most_us=1.0)
    rows = run.rows("crosscheck", profile, "--xprof", write_charts(tmp_path / "x", kernel_stats=[row]))
    found = {row["quantity"]: (row["ours_value"], row["reason"]) for row in rows}
    assert found["total_ns"] == (2001.2, "whole-nanoseconds")
    assert found["mean_ns"] == (1000.6, "whole-nanoseconds")


# TraceLens


def test_timeline_of_devices_by_hand(run: CommandLine, profile: Path, tmp_path: Path) -> None:
    folder = write_sheet(tmp_path / "t", "gpu_events_averages", timeline_rows(TIMELINE_MEAN_NS))
    write_sheet(folder, "gpu_timeline", timeline_rows(TIMELINE_FIRST_NS))
    rows = run.rows("crosscheck", profile, "--tracelens", folder, "--part", "all")
    averages = [row for row in rows if row["table"] == "gpu_events_averages"]
    assert [row["verdict"] for row in averages] == ["equal"] * 8
    assert {row["row_name"]: row["ours_value"] for row in averages} == TIMELINE_MEAN_NS
    first = {row["row_name"]: row["reason"] for row in rows if row["table"] == "gpu_timeline"}
    same = ("exposed_memcpy_time", "total_memcpy_time")
    assert first == {name: None if name in same else "first-device-only" for name in TIMELINE_FIRST_NS}


def test_time_that_no_convention_gives_is_unexplained(run: CommandLine, profile: Path, tmp_path: Path) -> None:
    rows = timeline_rows({**TIMELINE_MEAN_NS, "busy_time": 2600})
    folder = write_sheet(tmp_path / "t", "gpu_events_averages", rows)
    found = run.rows("crosscheck", profile, "--tracelens", folder, code=3)
    assert unexplained(found) == [("gpu_events_averages", "busy_time", "time_ns")]


def test_kernels_and_categories_by_hand(run: CommandLine, profile: Path, tmp_path: Path) -> None:
    """Only annotated kernels are listed: 4000 and 1000 ns, of 5500 in all."""
    listed = [(PRODUCT, 2, 4000), (COLLECTIVE, 1, 1000)]
    rows = [
        {"name": n, "Count": c, "total_direct_kernel_time_ms": t / 1e6, "Percentage (%)": t / 50} for n, c, t in listed
    ]
    folder = write_sheet(tmp_path / "t", "kernel_launchers_summary", rows)
    categories = [("GEMM", 2, 4000), ("Communication", 1, 1000)]
    write_sheet(
        folder,
        "kernel_launchers_summary_by_category",
        [{"op category": n, "Count": c, "total_direct_kernel_time_ms": t / 1e6} for n, c, t in categories],
    )
    found = run.rows("crosscheck", profile, "--tracelens", folder, "--part", "all")
    assert unexplained(found) == []
    reasons = Counter(
        (row["table"].removeprefix("kernel_launchers_summary"), row["quantity"], row["reason"]) for row in found
    )
    assert reasons == {
        ("", "occurrences_count", None): 2,
        ("", "total_ns", None): 2,
        ("", "share_ratio", "share-of-listed"): 2,
        ("", "row", "annotated-only"): 1,
        ("_by_category", "total_ns", "categories-by-substring"): 2,
        ("_by_category", "occurrences_count", "categories-by-substring"): 2,
    }


# What is printed, and what is refused


def test_formats_agree_and_reasons_are_explained(run: CommandLine, profile: Path, tmp_path: Path) -> None:
    folder = write_sheet(tmp_path / "t", "gpu_timeline", timeline_rows(TIMELINE_FIRST_NS))
    assert_formats_agree(run, tmp_path, "crosscheck", profile, "--tracelens", folder, "--part", "all")
    (reason,) = run.rows("crosscheck", profile, "--tracelens", folder, "--part", "reasons")
    assert (reason["reason"], reason["rows_count"]) == ("first-device-only", 6)
    assert reason["explanation"] == REASONS["first-device-only"]
    ran = run("crosscheck", profile, "--tracelens", folder)
    assert "crosscheck: 8 figures, 2 equal, 6 explained, 0 unexplained" in ran.out
    assert "SIMULATED" in ran.out


def test_files_that_are_not_compared_are_told(run: CommandLine, profile: Path, tmp_path: Path) -> None:
    folder = write_sheet(tmp_path / "t", "gpu_timeline", timeline_rows(TIMELINE_FIRST_NS))
    write_sheet(folder, "xla_perf", [{"name": "x"}])
    assert "[tables-not-compared]" in run("crosscheck", profile, "--tracelens", folder).err


def test_what_cannot_be_compared_is_refused(run: CommandLine, profile: Path, tmp_path: Path) -> None:
    assert "nothing-to-compare" in run("crosscheck", profile).err
    assert "no-such-folder" in run("crosscheck", profile, "--xprof", tmp_path / "none").err
    assert "no-xprof-tables" in run("crosscheck", profile, "--xprof", tmp_path).err
    assert "no-tracelens-tables" in run("crosscheck", profile, "--tracelens", tmp_path).err


def test_trace_without_a_profile_is_refused(run: CommandLine, databases, tmp_path: Path) -> None:
    folder = write_charts(tmp_path / "x", kernel_stats=KERNELS)
    ran = run("crosscheck", databases.trace, "--xprof", folder)
    assert (ran.code, "no-device-events" in ran.err) == (1, True)
