"""`rocktools kernels`: its numbers are those of plain SQL, and times of counter passes never get in."""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path

import pytest
from command_line import CommandLine, assert_formats_agree
from rocpd_files import read_sql
from tiny_run import tiny_trace, write_tiny_profile, write_tiny_run, write_tiny_trace

from rocktools.demo.rocpd_trace import TraceShape, write_trace

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
    write_trace(tmp_path / "1_results.db", TraceShape(dispatches_count=600, kernels_count=24))
    monkeypatch.setenv("COLUMNS", "80")
    lines = run("kernels", tmp_path / "1_results.db", "--match", "nccl").out.splitlines()
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


# By HLO instruction


def test_time_by_instruction_is_that_of_the_dispatches_it_launched(run: CommandLine, tmp_path: Path) -> None:
    trace = tiny_trace(seed=2)
    path = write_tiny_run(tmp_path / "run", trace=trace)
    expected: dict[tuple[str, str], tuple[int, int]] = defaultdict(lambda: (0, 0))
    lengths = trace.dispatches["end_ns"] - trace.dispatches["start_ns"]
    for kernel, instruction, length in zip(
        trace.dispatches["kernel_name"], trace.truth["instruction"], lengths, strict=True
    ):
        count, total = expected[kernel, instruction]
        expected[kernel, instruction] = (count + 1, total + length)
    rows = run.rows("kernels", path, "--hlo")
    found = {(row["kernel_name"], row["instruction"]): (row["dispatches_count"], row["total_ns"]) for row in rows}
    assert found == expected
    assert sum(row["share_ratio"] for row in rows) == pytest.approx(1)
    targets = {row["instruction"]: row["custom_call_target"] for row in rows}
    assert {name: target for name, target in targets.items() if target} == {
        "custom-call.1": "__cublas$lt$matmul",
        "custom-call.2": "__cublas$lt$matmul",
    }
    assert {row["program_id"] for row in rows} == {"7"}


def test_one_kernel_of_several_instructions_has_a_row_for_each(run: CommandLine, tmp_path: Path) -> None:
    path = write_tiny_run(tmp_path / "run", trace=tiny_trace())
    rows = run.rows("kernels", path, "--hlo", "--match", "^loop_add_fusion_1$")
    assert {row["instruction"]: row["dispatches_count"] for row in rows} == {
        "loop_add_fusion.1": 3 * 3,  # steps, trips
        "loop_add_fusion.2": 3 * 3 * 5,
    }
    (whole,) = run.rows("kernels", path, "--match", "^loop_add_fusion_1$")
    assert whole["total_ns"] == sum(row["total_ns"] for row in rows)


@pytest.mark.parametrize(
    "order", ["--hlo PATH", "PATH --hlo", "PATH --by instruction", "PATH --hlo DUMP", "--hlo DUMP PATH"]
)
def test_every_way_to_ask_for_instructions_is_the_same(run: CommandLine, tmp_path: Path, order: str) -> None:
    path = write_tiny_run(tmp_path / "run", trace=tiny_trace(steps_count=1))
    given = {"PATH": path, "DUMP": path / "hlo"}
    rows = run.rows("kernels", *(given.get(word, word) for word in order.split()))
    assert rows == run.rows("kernels", path, "--hlo")
    assert {row["method"] for row in rows} <= {"thunk", "schedule"}


def test_formats_of_kernels_by_instruction_agree(run: CommandLine, tmp_path: Path) -> None:
    path = write_tiny_run(tmp_path / "run", profile=tiny_trace(steps_count=1))
    assert_formats_agree(run, tmp_path, "kernels", path, "--by", "instruction")


def test_evidence_is_that_of_the_links(run: CommandLine, tmp_path: Path) -> None:
    """What a profiler wrote on a kernel is measured; what follows from an order is inferred."""
    traced = write_tiny_run(tmp_path / "traced", trace=tiny_trace(steps_count=1))
    profiled = write_tiny_run(tmp_path / "profiled", profile=tiny_trace(steps_count=1))
    for path, evidence in ((traced, "inferred"), (profiled, "measured")):
        document = run.document("kernels", path, "--hlo")
        assert {column["evidence"] for column in document["columns"]} == {evidence}
    assert {column["evidence"] for column in run.document("kernels", traced)["columns"]} == {"measured"}


@pytest.mark.parametrize("width", [80, 120, 200])
def test_the_instruction_is_shown_in_any_width(
    run: CommandLine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, width: int
) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    path = write_tiny_run(tmp_path / "run", trace=tiny_trace(steps_count=1))
    lines = run("kernels", path, "--hlo").out.splitlines()
    assert lines[3].split()[:2] == ["kernel_name", "instruction"]
    assert max(len(line) for line in lines[3:] if not line.startswith("hidden")) <= width
    assert "program_id" not in lines[3]  # there is one program


def test_kernels_of_a_profile_are_those_of_the_run(run: CommandLine, tmp_path: Path) -> None:
    trace = tiny_trace(steps_count=1)
    profile = write_tiny_profile(tmp_path / "a.xplane.pb", trace)
    traced = write_tiny_trace(tmp_path / "1_results.db", trace)
    columns = ("kernel_name", "dispatches_count", "total_ns", "grid_workitems")
    found = [[tuple(row[name] for name in columns) for row in run.rows("kernels", path)] for path in (profile, traced)]
    assert found[0] == found[1]


@pytest.mark.parametrize(
    "arguments, code, words",
    [
        (["PATH", "--hlo", "--by", "device"], 2, ["two-splits"]),
        (["--hlo"], 2, ["no-files", "PATH... [--hlo [FILE]]"]),
        ([], 2, ["no-files"]),
        (["BARE", "--hlo"], 1, ["no-programs", "--hlo FILE"]),
        (["BARE", "--by", "instruction"], 1, ["no-programs"]),
        (["--hlo", "DUMP"], 1, ["no-databases", "a compiled program"]),
        (["--hlo", "BARE", "PATH"], 1, ["not-hlo", "PATH --hlo [FILE]"]),
        (["PATH", "--hlo", "--columns", "instructio"], 2, ["no column 'instructio'", "instruction"]),
        (["PATH", "--columns", "instruction"], 2, ["no column 'instruction'"]),
    ],
)
def test_what_cannot_be_split_by_instruction_is_one_error(
    run: CommandLine, tmp_path: Path, arguments: list[str], code: int, words: list[str]
) -> None:
    trace = tiny_trace(steps_count=1)
    path = write_tiny_run(tmp_path / "run", trace=trace)
    given = {"PATH": path, "DUMP": path / "hlo", "BARE": write_tiny_trace(tmp_path / "1_results.db", trace)}
    ran = run("kernels", *(given.get(argument, argument) for argument in arguments))
    assert (ran.code, ran.out) == (code, "")
    for word in words:
        assert word in ran.err


# Real files


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


def test_real_profile_by_instruction(shared: Path, run: CommandLine) -> None:
    """The index: 150 dispatches; the kernel loop_reduce_fusion_3 runs as two instructions."""
    path = shared / "data" / "xplane" / "mi355_te_fused_attn"
    rows = run.rows("kernels", path, "--hlo")
    assert sum(row["dispatches_count"] for row in rows) == 150
    assert {row["confidence"] for row in rows} == {"certain"}
    shared_kernel = {row["instruction"] for row in rows if row["kernel_name"] == "loop_reduce_fusion_3"}
    assert shared_kernel == {"loop_reduce_fusion.2", "loop_reduce_fusion.3"}
    whole = {row["kernel_name"]: row["total_ns"] for row in run.rows("kernels", path)}
    sums: dict[str, int] = defaultdict(int)
    for row in rows:
        sums[row["kernel_name"]] += row["total_ns"]
    assert sums == whole


def test_real_profile_of_the_cpu_has_no_kernels_and_says_where_to_look(shared: Path, run: CommandLine) -> None:
    ran = run("kernels", shared / "data" / "xplane" / "cpu_moe")
    assert (ran.code, ran.out) == (1, "")
    assert "no-traced-dispatches" in ran.err
    assert "rocktools link" in ran.err
