"""`rocktools kernels`: its numbers are those of plain SQL, and times of counter passes never get in."""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path

import pytest
from command_line import CommandLine, assert_formats_agree
from rocpd_files import read_sql

_SQL = """
SELECT s.display_name, d.agent_id, d.stream_id, d.start, d."end", d.grid_size_x, d.grid_size_y, d.grid_size_z,
    d.workgroup_size_x, d.workgroup_size_y, d.workgroup_size_z, d.group_segment_size, s.arch_vgpr_count
FROM rocpd_kernel_dispatch AS d JOIN rocpd_info_kernel_symbol AS s ON s.id = d.kernel_id
"""
Span = tuple[int, int]


def _spans_by(path: Path, *columns: int) -> dict[tuple[object, ...], list[tuple[int, Span]]]:
    """Name and the chosen columns of the query -> (agent, (start, end)) of each dispatch."""
    spans = defaultdict(list)
    for row in read_sql(path, _SQL):
        spans[(row[0], *(row[column] for column in columns))].append((row[1], (row[3], row[4])))
    return dict(spans)


def _union_ns(spans: Iterable[Span]) -> int:
    total, reached = 0, -1
    for start, end in sorted(spans):
        total += max(0, end - max(start, reached))
        reached = max(reached, end)
    return total


def _devices(path: Path) -> dict[str, int]:
    """Label of a device -> agent id; the writer numbers its GPUs from 0 in the order of their ids."""
    ids = read_sql(path, "SELECT id FROM rocpd_info_agent WHERE type = 'GPU' ORDER BY id")
    return {f"simulated-node:gpu{index}": row[0] for index, row in enumerate(ids)}


def test_numbers_of_each_kernel_are_those_of_plain_sql(databases, run: CommandLine) -> None:
    rows = run.rows("kernels", databases.trace)
    spans = _spans_by(databases.trace)
    assert {(row["kernel_name"],) for row in rows} == set(spans)
    total_ns = sum(end - start for found in spans.values() for _, (start, end) in found)
    labels = {agent: label for label, agent in _devices(databases.trace).items()}
    for row in rows:
        found = spans[(row["kernel_name"],)]
        lengths = [end - start for _, (start, end) in found]
        assert row["dispatches_count"] == len(lengths)
        assert row["total_ns"] == sum(lengths)
        assert row["mean_ns"] == pytest.approx(statistics.fmean(lengths), rel=1e-15)
        assert row["median_ns"] == statistics.median(lengths)
        assert (row["min_ns"], row["max_ns"]) == (min(lengths), max(lengths))
        assert row["share_ratio"] == pytest.approx(sum(lengths) / total_ns, rel=1e-15)
        unions = {
            labels[agent]: _union_ns(span for other, span in found if other == agent) for agent in {a for a, _ in found}
        }
        assert row["union_ns"] == max(unions.values())
        assert row["devices_count"] == len(unions)
        assert unions[row["critical_device"]] == row["union_ns"]
    assert [row["total_ns"] for row in rows] == sorted((row["total_ns"] for row in rows), reverse=True)
    assert sum(row["share_ratio"] for row in rows) == pytest.approx(1)


def test_rows_by_device_are_those_of_plain_sql(databases, run: CommandLine) -> None:
    agents = _devices(databases.trace)
    spans = _spans_by(databases.trace, 1)
    rows = run.rows("kernels", databases.trace, "--by", "device")
    found = {(row["kernel_name"], agents[row["device"]]): row for row in rows}
    assert len(found) == len(rows) == len(spans)
    for key, dispatches in spans.items():
        row = found[key]  # type: ignore[index]
        assert row["total_ns"] == sum(end - start for _, (start, end) in dispatches)
        assert row["union_ns"] == _union_ns(span for _, span in dispatches)
        assert row["dispatches_count"] == len(dispatches)


def test_rows_by_stream_are_those_of_plain_sql(databases, run: CommandLine) -> None:
    agents = _devices(databases.trace)
    spans = _spans_by(databases.trace, 1, 2)
    rows = run.rows("kernels", databases.trace, "--by", "stream")
    found = {(row["kernel_name"], agents[row["device"]], row["stream_id"]): row["total_ns"] for row in rows}
    expected = {key: sum(end - start for _, (start, end) in dispatches) for key, dispatches in spans.items()}
    assert found == expected
    assert len({key[2] for key in expected}) > 1


def test_rows_by_shape_are_those_of_plain_sql(databases, run: CommandLine) -> None:
    spans = _spans_by(databases.trace, *range(5, 13))
    rows = run.rows("kernels", databases.trace, "--by", "shape")
    found = {
        (
            row["kernel_name"],
            *map(int, row["grid_workitems"].split("x")),
            *map(int, row["workgroup_workitems"].split("x")),
            row["lds_bytes"],
            row["vgpr_count"],
        ): row["dispatches_count"]
        for row in rows
    }
    assert found == {key: len(dispatches) for key, dispatches in spans.items()}


@pytest.mark.parametrize("by", ["device", "stream", "shape"])
def test_splits_add_up_to_the_kernel(databases, run: CommandLine, by: str) -> None:
    whole = {row["kernel_name"]: row for row in run.rows("kernels", databases.trace)}
    for column in ("total_ns", "dispatches_count"):
        sums: dict[str, int] = defaultdict(int)
        for row in run.rows("kernels", databases.trace, "--by", by):
            sums[row["kernel_name"]] += row[column]
        assert sums == {name: row[column] for name, row in whole.items()}


def test_two_processes_are_added_up(databases, run: CommandLine) -> None:
    both = {row["kernel_name"]: row["total_ns"] for row in run.rows("kernels", databases.trace, databases.other)}
    expected: dict[str, int] = defaultdict(int)
    for path in (databases.trace, databases.other):
        for row in run.rows("kernels", path):
            expected[row["kernel_name"]] += row["total_ns"]
    assert both == expected


def test_match_keeps_shares_of_the_whole(databases, run: CommandLine) -> None:
    every = run.rows("kernels", databases.trace)
    chosen = run.rows("kernels", databases.trace, "--match", "^loop_fusion_|reduce")
    assert chosen == [row for row in every if "reduce" in row["kernel_name"] or row["kernel_name"].startswith("loop_f")]
    assert 0 < len(chosen) < len(every)


def test_match_of_nothing_is_no_table_of_zeros(databases, run: CommandLine) -> None:
    ran = run("kernels", databases.trace, "--match", "no such kernel")
    assert ran.code == 0
    assert "no rows" in ran.out
    assert "kernel_name" in ran.out
    assert "warning [no-kernel-matched]" in ran.err
    assert run.rows("kernels", databases.trace, "--match", "no such kernel") == []


def test_match_is_case_sensitive_and_says_so(databases, run: CommandLine) -> None:
    names = {row["kernel_name"] for row in run.rows("kernels", databases.trace)}
    ran = run("kernels", databases.trace, "--match", "LOOP_FUSION")
    assert (
        f"warning [no-kernel-matched] DISPATCHES: none of {len(names)} kernel names has a match of the regex "
        "'LOOP_FUSION', which is case-sensitive; run it without --match to see the names, or begin it with (?i)\n"
    ) in ran.err
    rows = run.rows("kernels", databases.trace, "--match", "(?i)LOOP_FUSION")
    assert rows == run.rows("kernels", databases.trace, "--match", "loop_fusion") != []


def test_title_says_how_much_matched(databases, run: CommandLine) -> None:
    assert run("kernels", databases.mixed, "--match", "77").out.splitlines()[1] == (
        "kernels: 1 of 6 dispatches match '77', 10 ns of 50 ns; simulated-node:gpu0 is busy longest: 50 ns of 510 ns"
    )


@pytest.mark.parametrize(
    "options, words",
    [
        (["--columns", "total"], ["unknown-column", "total_ns"]),
        (["--match", "("], ["bad-regex", "'('", "escape"]),
        (["--by", "devic"], ["'devic' is not one of 'kernel', 'device', 'stream', 'shape'", "--help"]),
        (["--format", "xml"], ["'xml' is not one of 'table', 'csv', 'json', 'parquet'"]),
        (["--top", "-1"], ["-1 is not in the range"]),
        (["--tpo", "1"], ["--tpo", "--top"]),
    ],
)
def test_impossible_options_end_with_2_and_a_way_on(
    databases, run: CommandLine, options: list[str], words: list[str]
) -> None:
    ran = run("kernels", databases.trace, *options)
    assert (ran.code, ran.out) == (2, "")
    for word in words:
        assert word in ran.err


def test_table_is_cut_with_a_count_and_top_0_shows_all(databases, run: CommandLine) -> None:
    every = run.rows("kernels", databases.trace)
    cut = run("kernels", databases.trace, "--top", 2)
    assert f"cut: showing 2 of {len(every)} rows; --top 0 shows all" in cut.out
    assert every[1]["kernel_name"][:12] in cut.out
    assert every[2]["kernel_name"] not in cut.out
    assert "cut:" not in run("kernels", databases.trace, "--top", 0).out
    document = run.document("kernels", databases.trace, "--top", 2)
    assert (len(document["rows"]), document["rows_count"], document["cut_rows_count"]) == (
        2,
        len(every),
        len(every) - 2,
    )
    csv = run("kernels", databases.trace, "--top", 2, "--format", "csv")
    assert len(csv.out.splitlines()) == 3
    assert f"cut: 2 of {len(every)} rows written" in csv.err


@pytest.mark.parametrize("width, more", [(80, set()), (120, {"median"})])
def test_table_fits_the_terminal(
    run: CommandLine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, width: int, more: set[str]
) -> None:
    run("demo", "-o", tmp_path / "run")
    monkeypatch.setenv("COLUMNS", str(width))
    lines = run("kernels", tmp_path / "run").out.splitlines()
    headers, rule, rows = lines[3], lines[4], lines[5:25]
    assert max(map(len, [headers, rule, *rows])) <= width
    assert {"kernel_name", "dispatches", "total", "share", "mean", *more} <= set(headers.split())
    assert len({row[: rule.index(" ")] for row in rows}) == 20
    assert lines[-1].startswith(f"hidden for width {width}: ")
    assert "critical_device" in lines[-1]


def test_two_collectives_never_print_as_one_name(
    run: CommandLine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run("demo", "-o", tmp_path / "run")
    monkeypatch.setenv("COLUMNS", "80")
    lines = run("kernels", tmp_path / "run", "--match", "nccl").out.splitlines()
    assert lines[5].split()[0] != lines[6].split()[0]


def test_columns_are_those_asked_for_beside_the_key(
    databases, run: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = run.rows("kernels", databases.trace, "--by", "device", "--columns", "max_ns, total_ns")
    assert list(rows[0]) == ["kernel_name", "device", "total_ns", "max_ns"]
    monkeypatch.setenv("COLUMNS", "30")
    ran = run("kernels", databases.trace, "--columns", "max_ns,critical_device,vgpr_count")
    assert ran.out.splitlines()[3].split() == ["kernel_name", "critical_device", "max", "vgpr"]
    assert "hidden" not in ran.out


def test_findings_are_in_the_document(databases, run: CommandLine) -> None:
    assert run.document("kernels", databases.trace)["findings"] == []
    findings = run.document("kernels", databases.mixed, "--match", "zzz")["findings"]
    assert {"negative-duration", "no-kernel-matched"} <= {finding["rule"] for finding in findings}
    document = run.document("kernels", databases.trace, databases.truncated, code=1)
    assert str(databases.truncated) in [finding["where"] for finding in document["findings"]]


@pytest.mark.parametrize("by", ["kernel", "device", "stream", "shape"])
def test_formats_agree(databases, run: CommandLine, tmp_path: Path, by: str) -> None:
    rows = assert_formats_agree(run, tmp_path, "kernels", databases.trace, databases.mixed, "--by", by)
    assert rows


def test_title_says_how_much_and_which_device(databases, run: CommandLine) -> None:
    ran = run("kernels", databases.mixed)
    assert ran.out.splitlines()[1] == (
        "kernels: 6 dispatches, 50 ns in all; simulated-node:gpu0 is busy longest: 50 ns of 510 ns"
    )


def test_odd_rows_are_counted_and_told(databases, run: CommandLine) -> None:
    rows = run.rows("kernels", databases.mixed)
    assert [(row["kernel_name"], row["dispatches_count"], row["total_ns"]) for row in rows] == [
        ("loop_fusion_3", 5, 40),
        ("kernel_77", 1, 10),
    ]
    assert rows[0]["variants_count"] == 2
    assert rows[0]["grid_workitems"] is None
    assert "warning [negative-duration]" in run("kernels", databases.mixed).err


def test_counter_pass_alone_is_refused_with_the_way_to_its_rows(databases, run: CommandLine) -> None:
    ran = run("kernels", databases.counters)
    assert (ran.code, ran.out) == (1, "")
    assert "no-traced-dispatches" in ran.err
    assert "counter pass" in ran.err
    assert "rocktools dispatches --counted" in ran.err
    assert str(databases.counters) in ran.err


def test_counter_pass_beside_a_trace_adds_nothing(databases, run: CommandLine) -> None:
    alone = run.rows("kernels", databases.trace)
    assert run.rows("kernels", databases.trace, databases.counters) == alone


def test_real_file_of_rocprofv3(shared: Path, run: CommandLine) -> None:
    path = shared / "data" / "rocpd" / "rocprofv3-mi300x.db"
    [row] = run.rows("kernels", path)
    assert (row["kernel_name"], row["dispatches_count"], row["total_ns"]) == (
        "transcendental_kernel(float*, int)",
        11,
        342_464,
    )
    ran = run("kernels", path)
    assert (ran.code, ran.err) == (0, "")
    assert "SIMULATED" not in ran.out
    assert "342.5 µs" in ran.out


def test_real_file_of_rocprof_sys(shared: Path, run: CommandLine) -> None:
    [row] = run.rows("kernels", shared / "data" / "rocpd" / "rocprofsys-mi350x.db")
    assert row["kernel_name"] == "bit_extract_kernel(unsigned int*, unsigned int const*, unsigned long)"
    assert (row["dispatches_count"], row["total_ns"], row["union_ns"]) == (1, 10_920, 10_920)


def test_minimal_real_file(shared: Path, run: CommandLine) -> None:
    rows = run.rows("kernels", shared / "data" / "rocpd" / "minimal-handmade-v3.db")
    assert {(row["kernel_name"], row["total_ns"]) for row in rows} == {
        ("vector_add_kernel", 2_000_000),
        ("matrix_multiply_kernel", 1_000_000),
    }
