"""Health checks: each finds its fault, and is silent on a file without it."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable
from pathlib import Path

import pytest
from rocpd_files import (
    BOOT_NS,
    drop_views,
    edit,
    open_process,
    rebuild_table,
    rules,
    write_counter_pass,
    write_small_trace,
)

from rocktools.demo.rocpd_file import WriterOptions
from rocktools.demo.rocpd_trace import TraceShape, write_trace
from rocktools.demo.rocpd_writer import RocpdWriter
from rocktools.findings import Finding, Severity
from rocktools.sources.rocpd import health
from rocktools.sources.rocpd.columns import TableReader
from rocktools.sources.rocpd.schema import ProcessTables

Check = Callable[[TableReader, ProcessTables], list[Finding]]


def run(check: Check, path: Path) -> list[Finding]:
    with open_process(path) as (reader, process):
        return check(reader, process)


def queues(reader: TableReader, process: ProcessTables) -> list[Finding]:
    return health.check_queues(reader, process, is_counter_pass=False)


def counters(reader: TableReader, process: ProcessTables) -> list[Finding]:
    return health.check_counters(reader, process, is_counter_pass=True)


def everything(reader: TableReader, process: ProcessTables) -> list[Finding]:
    return health.check_process(reader, process, is_counter_pass=False)


def written(path: Path, write: Callable[[RocpdWriter], object]) -> Path:
    with RocpdWriter(path, options=WriterOptions(has_views=False)) as writer:
        write(writer)
    return path


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    return write_small_trace(tmp_path / "t.db")


# Nothing wrong


def test_clean_trace_has_no_finding(trace: Path) -> None:
    edit(trace, "DELETE FROM rocpd_kernel_dispatch{_} WHERE id > 2")
    assert rules(run(everything, trace)) == []


def test_clean_made_up_traces_have_no_finding(tmp_path: Path) -> None:
    shape = TraceShape(dispatches_count=300, copies_count=20, allocations_count=10, ranges_count=2, agents_count=2)
    write_trace(tmp_path / "t.db", shape)
    found = run(everything, tmp_path / "t.db")
    assert {finding.severity for finding in found} <= {Severity.NOTE}
    assert set(rules(found)) <= {"overlap-on-queue", "rows-hidden-by-view"}


def test_clean_counter_pass_has_no_finding(tmp_path: Path) -> None:
    with open_process(write_counter_pass(tmp_path / "t.db")) as (reader, process):
        assert health.check_process(reader, process, is_counter_pass=True) == []


# Completeness


def test_missing_tables_are_named(trace: Path) -> None:
    edit(drop_views(trace), "DROP TABLE rocpd_arg{_}", "DROP TABLE rocpd_track{_}")
    [finding] = run(health.check_completeness, trace)
    assert (finding.rule, finding.severity, finding.numbers) == ("tables-missing", Severity.NOTE, {"missing_count": 2})
    assert finding.message == "2 tables of schema 3 are missing: track, arg"


def test_trace_without_dispatches_says_what_there_is(trace: Path) -> None:
    """rs#8032: gfx1250 gave an empty table and no error."""
    edit(trace, "DELETE FROM rocpd_kernel_dispatch{_}", "DELETE FROM rocpd_sample{_}")
    [finding] = run(health.check_completeness, trace)
    assert (finding.rule, finding.severity) == ("no-dispatches", Severity.WARNING)
    assert "rows of region, memory_copy, memory_allocate" in finding.message


def test_file_with_nothing_but_its_process_recorded_nothing(tmp_path: Path) -> None:
    [finding] = run(health.check_completeness, written(tmp_path / "t.db", lambda writer: writer.process()))
    assert (finding.rule, finding.severity) == ("nothing-recorded", Severity.FAULT)
    assert finding.message == "it has no rows of any kind"


def test_file_without_its_process_is_the_work_of_a_tool_that_failed(tmp_path: Path) -> None:
    """rs#1655: a `;` in the command line ended the writer after the row of the node."""
    [finding] = run(health.check_completeness, written(tmp_path / "t.db", lambda writer: writer.node()))
    assert (finding.rule, finding.severity) == ("nothing-recorded", Severity.FAULT)
    assert "not even the row of its process" in finding.message


def test_repaired_copy_says_so(trace: Path) -> None:
    edit(trace, "INSERT INTO rocpd_metadata{_} (tag, value) VALUES ('rocktools_recovered', '1')")
    assert rules(run(health.check_completeness, trace)) == ["recovered-copy"]


# Storage


@pytest.mark.parametrize(
    "value, severity, fractions",
    [
        ("100.5", Severity.FAULT, 1),
        ("1.8e19", Severity.WARNING, 0),
        ("'x'", Severity.WARNING, 0),
        ("9e999", Severity.WARNING, 0),
    ],
)
@pytest.mark.parametrize(
    "place", ["kernel_dispatch.start", "kernel_dispatch.agent_id", "sample.timestamp", "memory_copy.size"]
)
def test_values_that_are_no_integers_are_found(
    trace: Path, place: str, value: str, severity: Severity, fractions: int
) -> None:
    base, column = place.split(".")
    edit(trace, f"UPDATE rocpd_{base}{{_}} SET {column} = {value} WHERE id = 1")
    [finding] = run(health.check_storage, trace)
    assert (finding.rule, finding.severity) == ("not-integers", severity)
    assert finding.message == f"1 values of {place} are not integers, {fractions} of them fractions"
    assert finding.numbers == {"other_count": 1, "fraction_count": fractions}


def test_integers_and_nulls_are_stored_as_they_should_be(trace: Path) -> None:
    edit(trace, "UPDATE rocpd_kernel_dispatch{_} SET tid = NULL")
    assert run(health.check_storage, trace) == []


# Times


def test_rows_that_end_before_they_start_are_counted(trace: Path) -> None:
    edit(trace, 'UPDATE rocpd_kernel_dispatch{_} SET "end" = start - 700 * id WHERE id < 3')
    [finding] = run(health.check_times, trace)
    assert (finding.rule, finding.numbers) == ("negative-duration", {"negative_count": 2, "largest_ns": 1_400})
    assert finding.message == "2 of 5 rows of kernel_dispatch end before they start, by up to 1,400 ns"


def test_rows_that_start_at_zero_were_never_given_a_time(trace: Path) -> None:
    edit(trace, 'UPDATE rocpd_region{_} SET start = 0, "end" = 0 WHERE id = 1')
    [finding] = run(health.check_times, trace)
    assert (finding.rule, finding.numbers) == ("no-start-time", {"zero_count": 1})


def test_times_in_order_give_no_finding(trace: Path) -> None:
    edit(trace, 'UPDATE rocpd_kernel_dispatch{_} SET "end" = start WHERE id = 1')
    assert run(health.check_times, trace) == []


def test_times_that_are_no_numbers_do_not_end_the_check(trace: Path) -> None:
    edit(
        trace,
        "UPDATE rocpd_kernel_dispatch{_} SET start = 9e999 WHERE id = 1",
        "UPDATE rocpd_kernel_dispatch{_} SET start = 'x', \"end\" = -9e999 WHERE id = 2",
        'UPDATE rocpd_kernel_dispatch{_} SET "end" = start - 7 WHERE id = 3',
    )
    [finding] = run(health.check_times, trace)
    assert finding.numbers == {"negative_count": 1, "largest_ns": 7}


# Ids


def test_repeated_dispatch_ids_are_counted(trace: Path) -> None:
    edit(trace, "UPDATE rocpd_kernel_dispatch{_} SET dispatch_id = 1 WHERE id IN (2, 3)")
    [finding] = run(health.check_dispatch_ids, trace)
    assert (finding.rule, finding.numbers) == ("duplicate-dispatch-ids", {"repeated_count": 2})


def test_passes_of_a_replay_repeat_no_id(tmp_path: Path) -> None:
    path = write_small_trace(tmp_path / "t.db", WriterOptions(has_replay_pass=True))
    edit(path, "UPDATE rocpd_kernel_dispatch{_} SET dispatch_id = 1, replay_pass = id")
    assert run(health.check_dispatch_ids, path) == []
    edit(path, "UPDATE rocpd_kernel_dispatch{_} SET replay_pass = 1")
    assert rules(run(health.check_dispatch_ids, path)) == ["duplicate-dispatch-ids"]


# Queues


def write_dispatches(path: Path, *spans: tuple[int, int, int, int]) -> Path:
    """Dispatches given as (queue, stream, start, end)."""

    def write(writer: RocpdWriter) -> None:
        kernel = writer.kernel_symbol("k")
        for queue_id, stream_id, start_ns, end_ns in spans:
            writer.dispatch(kernel, BOOT_NS + start_ns, BOOT_NS + end_ns, queue_id=queue_id, stream_id=stream_id)

    return written(path, write)


@pytest.mark.parametrize("overlap_ns, severity", [(568, Severity.NOTE), (300_000, Severity.WARNING)])
def test_overlap_on_a_queue_is_noise_or_double_counting_by_its_size(
    tmp_path: Path, overlap_ns: int, severity: Severity
) -> None:
    path = write_dispatches(tmp_path / "t.db", (1, 1, 0, 10**6 + overlap_ns), (1, 2, 10**6, 2 * 10**6))
    [finding] = run(queues, path)
    assert (finding.rule, finding.severity) == ("overlap-on-queue", severity)
    assert finding.numbers == {"overlaps_count": 1, "largest_ns": overlap_ns}


def test_touching_dispatches_and_overlap_of_two_queues_are_no_overlap_on_a_queue(tmp_path: Path) -> None:
    path = write_dispatches(tmp_path / "t.db", (1, 1, 0, 10**6), (1, 1, 10**6, 2 * 10**6), (2, 2, 0, 2 * 10**6))
    assert run(queues, path) == []


def test_one_stream_on_queues_that_run_together_is_impossible(tmp_path: Path) -> None:
    """rs#867: stream ids collapse to the default stream."""
    spans = ((1, 0, 0, 10**6), (2, 0, 0, 10**6))
    path = write_dispatches(tmp_path / "t.db", *spans)
    assert rules(run(queues, path)) == ["one-stream-several-queues"]
    with open_process(path) as (reader, process):
        assert health.check_queues(reader, process, is_counter_pass=True) == []


def test_one_stream_on_queues_that_take_turns_is_possible(tmp_path: Path) -> None:
    path = write_dispatches(tmp_path / "t.db", (1, 0, 0, 10**6), (2, 0, 10**6 - 500, 2 * 10**6))
    assert run(queues, path) == []


def test_devices_that_run_together_overlap_on_no_queue_and_share_a_stream_number(tmp_path: Path) -> None:
    """Queue and stream ids may repeat on the next device, as eight GPUs under one process show."""

    def write(writer: RocpdWriter) -> None:
        kernel = writer.kernel_symbol("k")
        for agent_id in (1, 2, 3):
            for queue_id in (1, agent_id):
                start_ns = BOOT_NS + (queue_id > 1) * 10**6
                writer.dispatch(kernel, start_ns, start_ns + 10**6 - 1, agent_id=agent_id, queue_id=queue_id)

    path = edit(written(tmp_path / "t.db", write), "DELETE FROM rocpd_kernel_dispatch{_} WHERE id = 2")
    assert run(queues, path) == []


def test_one_dispatch_has_nothing_to_overlap_with(tmp_path: Path) -> None:
    assert run(queues, write_dispatches(tmp_path / "t.db", (1, 0, 0, 10**6))) == []


# Launches


def test_dispatches_without_a_launch_are_counted_where_others_have_one(trace: Path) -> None:
    [finding] = run(health.check_launches, trace)
    assert (finding.rule, finding.severity) == ("dispatches-without-launch", Severity.NOTE)
    assert finding.numbers == {"unlinked_count": 3, "dispatches_count": 5}


def test_trace_without_host_calls_misses_no_launch(trace: Path) -> None:
    edit(trace, "DELETE FROM rocpd_region{_}")
    assert run(health.check_launches, trace) == []


@pytest.mark.parametrize(
    "offset_ns, expected", [(-300_000, True), (-200_000, False), (10**9 + 10**6, True), (10**8, False)]
)
def test_launches_far_from_their_kernels_are_on_another_clock(tmp_path: Path, offset_ns: int, expected: bool) -> None:
    """rs#11667: host rows on CLOCK_MONOTONIC, device rows on CLOCK_BOOTTIME."""

    def write(writer: RocpdWriter) -> None:
        kernel = writer.kernel_symbol("k")
        for number in range(5):
            start_ns = BOOT_NS + 10_000 * number
            call = writer.region("hipLaunchKernel", start_ns, start_ns + 100)
            writer.dispatch(kernel, start_ns + offset_ns, start_ns + offset_ns + 50, call_id=call)

    found = run(health.check_launches, written(tmp_path / "t.db", write))
    assert rules(found) == (["host-and-device-clocks-differ"] if expected else [])
    if expected:
        assert found[0].numbers == {"shortest_ns": offset_ns}


# Symbols


def test_dispatches_of_unnamed_kernels_are_counted(trace: Path) -> None:
    assert run(health.check_symbols, trace) == []
    edit(trace, "UPDATE rocpd_kernel_dispatch{_} SET kernel_id = 0 WHERE id < 4")
    [finding] = run(health.check_symbols, trace)
    assert (finding.rule, finding.numbers) == ("kernels-without-symbol", {"nameless_count": 3})


# Counters


def test_counter_that_is_zero_throughout_is_suspect(tmp_path: Path) -> None:
    path = write_counter_pass(tmp_path / "t.db")
    edit(path, "UPDATE rocpd_pmc_event{_} SET value = 0 WHERE pmc_id = 1 AND event_id = 1")
    assert run(counters, path) == []
    edit(path, "UPDATE rocpd_pmc_event{_} SET value = 0 WHERE pmc_id = 1")
    [finding] = run(counters, path)
    assert (finding.rule, finding.numbers) == ("counter-all-zero", {"dispatches_count": 2})
    assert finding.message == "SQ_WAVES is 0 in all 2 dispatches"


def test_instructions_that_no_kernel_has_are_no_suspect_where_others_were_counted(tmp_path: Path) -> None:
    path = write_counter_pass(tmp_path / "t.db")
    for number, name in ((1, "SQ_INSTS_MFMA"), (2, "SQ_INSTS_VALU_ADD_F16")):
        edit(path, f"UPDATE rocpd_info_pmc{{_}} SET name = '{name}', symbol = '{name}' WHERE id = {number}")
    edit(path, "UPDATE rocpd_pmc_event{_} SET value = 0 WHERE pmc_id = 2")
    [finding] = run(counters, path)
    assert (finding.rule, finding.severity) == ("instructions-not-executed", Severity.NOTE)
    assert "SQ_INSTS_VALU_ADD_F16" in finding.message
    # Without any other that counted, it may be the device that counts nothing.
    edit(path, "UPDATE rocpd_pmc_event{_} SET value = 0 WHERE pmc_id = 1")
    assert {each.rule for each in run(counters, path)} == {"counter-all-zero"}


def test_counter_that_some_dispatches_lack_is_named(tmp_path: Path) -> None:
    """rs#11335: each selected dispatch lacked a pass, without a warning."""
    path = write_counter_pass(tmp_path / "t.db")
    edit(path, "DELETE FROM rocpd_pmc_event{_} WHERE pmc_id = 3 AND event_id = 2")
    [finding] = run(counters, path)
    assert finding.rule == "counter-missing-for-dispatches"
    assert finding.message == "TCC_HIT_sum was recorded for 1 of 2 counted dispatches"


def test_telemetry_beside_counters_is_missing_from_no_dispatch(tmp_path: Path) -> None:
    path = write_counter_pass(tmp_path / "t.db")
    edit(
        path,
        "INSERT INTO rocpd_info_pmc{_} (nid, pid, name, symbol) VALUES (1, 1, 'device_power', 'p')",
        "INSERT INTO rocpd_event{_} (category_id) VALUES (1)",
        "INSERT INTO rocpd_pmc_event{_} (event_id, pmc_id, value) SELECT max(id), 4, 0 FROM rocpd_event{_}",
    )
    assert run(counters, path) == []


def test_groups_of_a_replay_miss_no_dispatch(tmp_path: Path) -> None:
    """Each pass carries its own counters; the dispatch has them all."""
    path = tmp_path / "t.db"
    with RocpdWriter(path, options=WriterOptions(has_views=False, has_replay_pass=True)) as writer:
        kernel = writer.kernel_symbol("k")
        infos = [writer.counter_info(name) for name in ("SQ_WAVES", "TCC_HIT")]
        for dispatch_id in (1, 2):
            for replay_pass, info in enumerate(infos):
                row = writer.dispatch(
                    kernel, 0, 1, id=10 * dispatch_id + replay_pass, dispatch_id=dispatch_id, replay_pass=replay_pass
                )
                writer.counter_value(info, 1.0, dispatch_id=row)
    assert run(counters, path) == []


def test_pass_without_any_value_is_a_fault(tmp_path: Path) -> None:
    path = edit(write_counter_pass(tmp_path / "t.db"), "DELETE FROM rocpd_pmc_event{_}")
    [finding] = run(counters, path)
    assert (finding.rule, finding.severity) == ("no-counter-values", Severity.FAULT)


def test_trace_has_no_counters_to_check(trace: Path) -> None:
    with open_process(trace) as (reader, process):
        assert health.check_counters(reader, process, is_counter_pass=False) == []


def test_values_that_are_no_numbers_do_not_end_the_check(tmp_path: Path) -> None:
    path = edit(write_counter_pass(tmp_path / "t.db"), "UPDATE rocpd_pmc_event{_} SET value = 'x' WHERE pmc_id = 1")
    assert rules(run(counters, path)) == []


# Privacy


@pytest.mark.parametrize("environment, expected", [("{}", []), ("", []), ('{"HOME": "x"}', ["environment-inside"])])
def test_environment_is_noticed_by_its_length(trace: Path, environment: str, expected: list[str]) -> None:
    edit(trace, f"UPDATE rocpd_info_process{{_}} SET environment = '{environment}'")
    found = run(health.check_privacy, trace)
    assert rules(found) == expected
    assert "HOME" not in str(found)


@pytest.mark.parametrize(
    "environment, expected, numbers",
    [
        ('{"HOME": "x"}', "1 environment variable of the job", {"variables_count": 1}),
        ('{"HOME": "x", "TOKEN": "y"}', "2 environment variables of the job", {"variables_count": 2}),
        ("HOME=x", "the environment of the job", {}),
        ('["HOME=x"]', "the environment of the job", {}),
        ('"HOME"', "the environment of the job", {}),
    ],
)
def test_variables_of_the_environment_are_counted(
    trace: Path, environment: str, expected: str, numbers: dict[str, int]
) -> None:
    edit(trace, f"UPDATE rocpd_info_process{{_}} SET environment = '{environment}'")
    [finding] = run(health.check_privacy, trace)
    assert finding.message == f"the file holds {expected}, which may include secrets"
    assert finding.numbers == numbers


def test_advice_can_be_pasted_whatever_the_path(tmp_path: Path) -> None:
    path = write_small_trace(tmp_path / "it's [1] trace.db")
    edit(path, """UPDATE rocpd_info_process{_} SET environment = '{"A": "b"}'""")
    [finding] = run(health.check_privacy, path)
    command = finding.advice.partition(": ")[2]
    assert shlex.split(command) == ["rocktools", "rocpd", "scrub", str(path), "-o", "scrubbed.db"]


def test_environment_is_never_selected_by_any_check(trace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    edit(trace, """UPDATE rocpd_info_process{_} SET environment = '{"TOKEN": "hunter2"}'""")
    asked: list[str] = []
    with open_process(trace) as (reader, process):
        monkeypatch.setattr(reader, "rows", lambda sql, rows=reader.rows: asked.append(sql) or rows(sql))
        found = health.check_process(reader, process, is_counter_pass=False)
    assert "environment-inside" in rules(found)
    assert "hunter2" not in str(found)
    measured = re.compile(r"(?:length|json_valid|json_type|count\(\*\) FROM json_each)\(environment\)")
    assert [sql for sql in asked if "environment" in measured.sub("", sql)] == []
    assert [sql for sql in asked if "*" in sql.replace("count(*)", "")] == []


# Files that lack something


@pytest.mark.parametrize(
    "base, columns",
    [
        ("kernel_dispatch", 'id, agent_id, kernel_id, start, "end"'),
        ("kernel_dispatch", "id"),
        ("region", "id"),
        ("region", "name_id"),
        ("event", "id"),
        ("event", "category_id"),
        ("pmc_event", "id"),
        ("info_pmc", "id"),
        ("info_kernel_symbol", "id"),
        ("info_kernel_symbol", "display_name"),
        ("info_process", "pid"),
        ("sample", "id"),
        ("memory_copy", "size"),
        ("string", "string"),
        ("track", "id"),
    ],
)
def test_hand_made_tables_do_not_end_the_checks(trace: Path, base: str, columns: str) -> None:
    path = rebuild_table(trace, base, columns)
    with open_process(path) as (reader, process):
        for check in (
            health.check_completeness,
            health.check_storage,
            health.check_times,
            health.check_dispatch_ids,
            queues,
            health.check_launches,
            health.check_symbols,
            health.check_visibility,
            health.check_privacy,
        ):
            check(reader, process)


# The real files


@pytest.mark.parametrize(
    "name, expected",
    [
        ("rocprofv3-mi300x.db", ["environment-inside"]),
        ("rocprofsys-mi350x.db", ["rows-hidden-by-view", "environment-inside"]),
        ("minimal-handmade-v3.db", ["tables-missing", "overlap-on-queue"]),
    ],
)
def test_real_files(shared: Path, name: str, expected: list[str]) -> None:
    assert rules(run(everything, shared / "data/rocpd" / name)) == expected
