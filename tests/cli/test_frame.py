"""`rocktools frame`: any frame, whole or by column, with the rows of its base table."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from command_line import CommandLine, assert_formats_agree
from rocpd_files import read_sql
from tiny_program import TINY, hlo_text
from tiny_run import HOST, starts_by_instruction, tiny_trace, write_tiny_profile, write_tiny_run, write_tiny_trace

from rocktools.frames import SPECS
from rocktools.sources.rocpd import dispatches, host
from rocktools.workspace.linked_frames import LINKED_FRAMES
from rocktools.workspace.workspace import READ_FRAMES

OF_PROFILES = ("DEVICE_EVENTS", "HOST_EVENTS", "PROFILED_DEVICES")

# Frame -> rows of the two databases together, in plain SQL over the stock tables.
_COUNTS = {
    "DISPATCHES": "SELECT count(*) FROM rocpd_kernel_dispatch",
    "HOST_CALLS": "SELECT count(*) FROM regions WHERE category NOT LIKE 'MARKER%'",
    "COPIES": "SELECT count(*) FROM rocpd_memory_copy",
    "ALLOCATIONS": "SELECT count(*) FROM rocpd_memory_allocate",
    "AGENTS": "SELECT count(*) FROM rocpd_info_agent",
    "KERNEL_SYMBOLS": "SELECT count(*) FROM rocpd_info_kernel_symbol",
    "PROCESSES": "SELECT count(*) FROM rocpd_info_process",
    "RANGES": "SELECT (SELECT count(*) FROM regions WHERE category LIKE 'MARKER%')"
    " + (SELECT count(*) FROM rocpd_sample AS s JOIN rocpd_event AS e ON e.id = s.event_id)",
    "SAMPLES": "SELECT count(*) FROM rocpd_sample WHERE event_id IS NULL",
}


@pytest.mark.parametrize("name", _COUNTS)
def test_rows_are_those_of_the_base_table(databases, run: CommandLine, name: str) -> None:
    rows = run.rows("frame", name, databases.trace, databases.mixed)
    expected = sum(read_sql(path, _COUNTS[name])[0][0] for path in (databases.trace, databases.mixed))
    assert len(rows) == expected > 0
    assert list(rows[0]) == list(SPECS[name].names)


def test_counter_frames_hold_the_counter_pass_only(databases, run: CommandLine) -> None:
    values = run.rows("frame", "counter_values", databases.counters, databases.trace)
    expected = read_sql(
        databases.counters,
        "SELECT d.dispatch_id, i.name, sum(p.value), min(p.value), max(p.value), count(*) FROM rocpd_pmc_event AS p"
        " JOIN rocpd_kernel_dispatch AS d ON d.event_id = p.event_id JOIN rocpd_info_pmc AS i ON i.id = p.pmc_id"
        " GROUP BY d.dispatch_id, i.name ORDER BY d.dispatch_id, i.name",
    )
    columns = ("dispatch_id", "counter", "sum_value", "min_value", "max_value", "instances_count")
    assert [tuple(row[name] for name in columns) for row in values] == expected
    assert len(run.rows("frame", "COUNTED-DISPATCHES", databases.counters, databases.trace)) == 24
    assert run.rows("frame", "dispatches", databases.counters) == []
    document = run.document("frame", "counter_values", databases.counters)
    assert {column["evidence"] for column in document["columns"]} == {"counter"}


@pytest.mark.parametrize("name", ["host_calls", "Host-Calls", "HOST_CALLS"])
def test_name_may_be_written_in_either_case(databases, run: CommandLine, name: str) -> None:
    assert run.document("frame", name, databases.trace, "--top", 1)["name"] == "HOST_CALLS"


@pytest.mark.parametrize("name", READ_FRAMES)
def test_formats_agree(databases, run: CommandLine, tmp_path: Path, name: str) -> None:
    rows = assert_formats_agree(run, tmp_path, "frame", name, databases.trace, databases.mixed, databases.counters)
    assert bool(rows) == (name not in OF_PROFILES)


def test_nothing_is_hidden_in_a_narrow_terminal(databases, run: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    assert "hidden" not in run("frame", "dispatches", databases.trace).out


def test_findings_are_in_the_document(databases, run: CommandLine) -> None:
    document = run.document("frame", "agents", databases.trace, databases.truncated, code=1)
    assert str(databases.truncated) in [finding["where"] for finding in document["findings"]]


def test_chosen_columns_come_in_the_order_of_the_frame_with_the_key(databases, run: CommandLine) -> None:
    [row] = run.rows("frame", "dispatches", databases.trace, "--columns", "end_ns, start_ns", "--top", 1)
    assert list(row) == ["run", "process", "dispatch_id", "start_ns", "end_ns"]


@pytest.mark.parametrize(
    "arguments, words",
    [
        (["frame", "dispatch"], ["unknown-frame: there is no frame 'dispatch'", "DISPATCHES"]),
        (["frame", "nonsense"], ["unknown-frame", "DISPATCHES", "KERNEL_SYMBOLS"]),
        (["frame", "NOPE"], ["unknown-frame", f"try: one of {', '.join([*READ_FRAMES, *LINKED_FRAMES])}\n"]),
        (["frame", "quantities"], ["frame-of-another-command", "QUANTITIES", "rocktools metrics"]),
        (["frame", "dispatches", "--hlo", "x"], ["no-program-needed", "DISPATCHES"]),
        (["frame", "dispatches", "--columns", "kernel_nam"], ["no column 'kernel_nam'", "try: kernel_name"]),
        (["frame", "dispatches", "--columns", "zzz"], ["no column 'zzz'", "run, process, dispatch_id"]),
        (["frame", "dispatches", "--columns", "start_ns,,end_ns"], ["no column ''"]),
        (["frame", "dispatches", "--format", "txt"], ["'txt' is not one of"]),
        (["frame"], ["unknown-frame"]),  # the path is taken for the name
    ],
)
def test_unknown_names_end_with_2_and_near_ones(databases, run: CommandLine, arguments: list[str], words) -> None:
    ran = run(*arguments, databases.trace)
    assert (ran.code, ran.out) == (2, "")
    for word in words:
        assert word in ran.err


def test_frame_without_rows_has_its_columns(databases, run: CommandLine) -> None:
    ran = run("frame", "samples", databases.trace)
    assert ran.code == 0
    assert "SAMPLES: 0 rows" in ran.out
    assert "time_ns" in ran.out
    assert run.rows("frame", "copies", databases.minimal) == []


def test_table_is_cut_with_a_count(databases, run: CommandLine) -> None:
    assert "cut: showing 20 of 400 rows" in run("frame", "dispatches", databases.trace).out


def test_all_samples_of_the_real_file_are_accounted_for(shared: Path, run: CommandLine) -> None:
    path = shared / "data" / "rocpd" / "rocprofsys-mi350x.db"
    samples = run.rows("frame", "samples", path)
    marks = [row for row in run.rows("frame", "ranges", path) if row["kind"] == "mark"]
    assert len(samples) + len(marks) == 880
    assert read_sql(path, "SELECT count(*) FROM rocpd_sample") == [(880,)]
    assert read_sql(path, "SELECT count(*) FROM samples") == [(0,)]


def test_only_the_chosen_columns_are_read(databases, run: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[str, object]] = []
    for name in ("read_dispatches", "read_counted_dispatches"):
        monkeypatch.setattr(dispatches, name, _watched(getattr(dispatches, name), asked))
    monkeypatch.setattr(host, "read_host_calls", _watched(host.read_host_calls, asked))
    for frame in ("dispatches", "counted_dispatches", "host_calls"):
        run.rows("frame", frame, databases.trace, databases.counters, "--columns", "thread_id")
    wanted = dict(asked)
    assert list(wanted) == ["read_dispatches", "read_counted_dispatches", "read_host_calls"]
    assert all("thread_id" in columns and len(columns) <= 6 for columns in wanted.values())


def _watched(read: Callable[..., object], asked: list[tuple[str, object]]) -> Callable[..., object]:
    def watch(*arguments: object) -> object:
        asked.append((read.__name__, arguments[-1] or SPECS["DISPATCHES"].names))
        return read(*arguments)

    return watch


@pytest.mark.parametrize("name", READ_FRAMES)
def test_chosen_columns_are_those_of_the_whole_frame(databases, run: CommandLine, name: str) -> None:
    paths = (databases.trace, databases.counters, databases.mixed)
    whole = run.rows("frame", name, *paths)
    for column in SPECS[name].names:
        names = SPECS[name].select([column])
        expected = [{each: row[each] for each in names} for row in whole]
        assert run.rows("frame", name, *paths, "--columns", column) == expected


# Frames of profiles, and those that take a compiled program


@pytest.mark.parametrize("name", sorted(set(SPECS) - set(READ_FRAMES) - set(LINKED_FRAMES)))
def test_frames_that_are_neither_read_nor_linked_are_those_of_other_commands(run: CommandLine, name: str) -> None:
    ran = run("frame", name, "nowhere")
    assert (ran.code, ran.out) == (2, "")
    assert "frame-of-another-command" in ran.err


def test_events_of_a_profile_are_those_that_were_written(run: CommandLine, tmp_path: Path) -> None:
    trace = tiny_trace(steps_count=1)
    path = write_tiny_profile(tmp_path / "a.xplane.pb", trace)
    rows = run.rows("frame", "device_events", path)
    assert sorted(row["kernel_name"] for row in rows) == sorted(trace.dispatches["kernel_name"])
    assert {row["host"] for row in rows} == {HOST}
    assert [row["events_count"] for row in run.rows("frame", "profiled_devices", path)] == [len(rows)]


@pytest.mark.parametrize("name", LINKED_FRAMES)
def test_formats_of_linked_frames_agree(run: CommandLine, tmp_path: Path, name: str) -> None:
    trace = tiny_trace(steps_count=1)
    path = write_tiny_run(tmp_path / "run", trace=trace, profile=trace)
    rows = assert_formats_agree(run, tmp_path, "frame", name, path)
    assert list(rows[0]) == list(SPECS[name].names)
    evidence = {column["evidence"] for column in run.document("frame", name, path)["columns"]}
    assert evidence == {"compiler_estimate" if name in ("PROGRAMS", "INSTRUCTIONS") else "inferred"}


def test_edges_say_the_instruction_that_launched_each_dispatch(run: CommandLine, tmp_path: Path) -> None:
    trace = tiny_trace(steps_count=1)
    path = write_tiny_run(tmp_path / "run", trace=trace)
    truth = dict(zip(trace.truth["dispatch_id"], trace.truth["instruction"], strict=True))
    rows = run.rows("frame", "dispatch_edges", path, "--columns", "instruction")
    assert {row["dispatch_id"]: row["instruction"] for row in rows} == truth
    assert len(run.rows("frame", "instructions", path)) == hlo_text(TINY).count(" = ")
    assert [row["hlo_module"] for row in run.rows("frame", "programs", path)] == ["jit_tiny"]


@pytest.mark.parametrize("order", ["before", "behind", "without"])
def test_a_program_may_be_named_anywhere(run: CommandLine, tmp_path: Path, order: str) -> None:
    trace = tiny_trace(steps_count=1)
    bare = write_tiny_trace(tmp_path / "1_results.db", trace)
    dump = write_tiny_run(tmp_path / "run", trace=trace) / "hlo"
    arguments = {"before": ["--hlo", dump, bare], "behind": [bare, "--hlo", dump], "without": ["--hlo", dump.parent]}
    rows = run.rows("frame", "dispatch_edges", *arguments[order])
    counts = starts_by_instruction(trace)
    assert {name: sum(row["instruction"] == name for row in rows) for name in counts} == counts


def test_a_frame_without_a_program_to_link_is_one_error(run: CommandLine, databases) -> None:
    ran = run("frame", "programs", databases.trace)
    assert (ran.code, ran.out) == (1, "")
    assert "no-programs" in ran.err
    assert run("frame", "programs").code == 2
