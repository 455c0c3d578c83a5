"""Dispatches: the numbers of the base table, under the right names, in the order of the frame."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rocpd_files import (
    BOOT_NS,
    as_rows,
    drop_views,
    edit,
    open_process,
    read_sql,
    rebuild_table,
    rules,
    write_small_trace,
)

from rocktools.demo.rocpd_file import WriterOptions
from rocktools.demo.rocpd_trace import TraceShape, write_trace
from rocktools.demo.rocpd_writer import RocpdWriter
from rocktools.errors import DamagedFile, UsageError
from rocktools.findings import Finding, Severity
from rocktools.frames import COUNTED_DISPATCHES, DISPATCHES
from rocktools.sources.rocpd.dispatches import read_counted_dispatches, read_dispatches

Row = dict[str, Any]
INT64_MAX = 2**63 - 1


def dispatches_of(path: Path, columns: list[str] | None = None) -> list[Row]:
    with open_process(path) as (reader, process):
        return as_rows(read_dispatches(reader, process, "run", columns), DISPATCHES, columns)


def findings_of(path: Path, columns: list[str] | None = None) -> tuple[list[Row], list[Finding]]:
    with open_process(path) as (reader, process):
        return as_rows(read_dispatches(reader, process, "run", columns), DISPATCHES, columns), reader.findings


def values(rows: list[Row], name: str) -> list[Any]:
    return [row[name] for row in rows]


def written(path: Path, write: Callable[[RocpdWriter], object], options: WriterOptions | None = None) -> Path:
    with RocpdWriter(path, options=options) as writer:
        write(writer)
    return path


# Totals


def test_counts_and_durations_are_those_of_plain_sql(tmp_path: Path) -> None:
    """roc-optiq#558: a viewer's totals differed from SQL by one invocation."""
    path = write_small_trace(tmp_path / "t.db")
    found = dispatches_of(path, ["start_ns", "end_ns", "kernel_name"])
    assert [(len(found), sum(row["end_ns"] - row["start_ns"] for row in found))] == read_sql(
        path, 'SELECT count(*), sum("end" - start) FROM rocpd_kernel_dispatch'
    )
    assert sum(row["end_ns"] - row["start_ns"] for row in found) == 10 + 20 + 30 + 40 + 50


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["Cijk_A", "loop_fusion", "attn_fwd", "__amd_rocclr_copyBuffer"]),
            st.integers(0, 10**9),
            st.integers(-1_000, 10**6),
        ),
        max_size=30,
    )
)
@settings(max_examples=25)
def test_totals_of_each_kernel_are_those_of_plain_sql(
    tmp_path_factory: pytest.TempPathFactory, launches: list[tuple[str, int, int]]
) -> None:
    path = tmp_path_factory.mktemp("totals") / "t.db"
    with RocpdWriter(path, options=WriterOptions(has_views=False)) as writer:
        kernels = {name: writer.kernel_symbol(name) for name, _, _ in launches}
        for name, start_ns, duration_ns in launches:
            writer.dispatch(kernels[name], BOOT_NS + start_ns, BOOT_NS + start_ns + duration_ns)
    found = dispatches_of(path, ["start_ns", "end_ns", "kernel_name"])
    totals: dict[str, list[int]] = {}
    for row in found:
        entry = totals.setdefault(row["kernel_name"], [0, 0])
        entry[0] += 1
        entry[1] += row["end_ns"] - row["start_ns"]
    with open_process(path) as (reader, process):
        tables = {base: table.quoted for base, table in process.tables.items()}
        expected = reader.rows(
            f'SELECT s.display_name, count(*), sum(d."end" - d.start) FROM {tables["kernel_dispatch"]} d'
            f" JOIN {tables['info_kernel_symbol']} s ON s.id = d.kernel_id GROUP BY 1"
        )
    assert {name: tuple(entry) for name, entry in totals.items()} == {row[0]: row[1:] for row in expected}


@pytest.mark.parametrize("version", ["3", "3.0.5"])
def test_totals_of_a_large_made_up_trace_are_those_it_was_made_with(tmp_path: Path, version: str) -> None:
    shape = TraceShape(dispatches_count=3_000, agents_count=2, copies_count=20, ranges_count=3)
    totals = write_trace(tmp_path / "t.db", shape, options=WriterOptions(version=version))
    found = dispatches_of(tmp_path / "t.db", ["start_ns", "end_ns", "agent_id"])
    assert len(found) == totals.dispatches_count
    assert sum(row["end_ns"] - row["start_ns"] for row in found) == totals.dispatches_ns
    assert len(set(values(found, "agent_id"))) == 2


# Order


def test_rows_are_ordered_by_start_and_then_by_id(tmp_path: Path) -> None:
    def write(writer: RocpdWriter) -> None:
        kernel = writer.kernel_symbol("k")
        for dispatch_id, start_ns in ((9, 300), (3, 100), (7, 100), (4, 200)):
            writer.dispatch(kernel, start_ns, start_ns + 5, id=dispatch_id, dispatch_id=dispatch_id)

    path = written(tmp_path / "t.db", write)
    assert values(dispatches_of(path), "dispatch_id") == [3, 7, 4, 9]


@pytest.mark.parametrize("columns", [[], ["kernel_name"], ["end_ns"], ["range", "host_call_id"], ["lds_bytes"]])
def test_selected_columns_have_the_values_and_the_order_of_the_whole_frame(tmp_path: Path, columns: list[str]) -> None:
    path = write_small_trace(tmp_path / "t.db")
    edit(path, "UPDATE rocpd_kernel_dispatch{_} SET start = start + 1000 WHERE id = 2")
    wanted = ["dispatch_id", *columns]
    assert dispatches_of(path, columns) == [
        {name: row[name] for name in DISPATCHES.names if name in wanted} for row in dispatches_of(path)
    ]


@pytest.mark.parametrize("columns", [None, [], ["kernel_name"], ["end_ns"], ["agent_id"]])
def test_rows_do_not_depend_on_the_selected_columns(tmp_path: Path, columns: list[str] | None) -> None:
    """A row that lacks a time or an id is left out whether or not anybody asks for that column."""
    path = write_small_trace(tmp_path / "t.db")
    edit(
        path,
        "UPDATE rocpd_kernel_dispatch{_} SET start = 1.8e19 WHERE id = 1",
        "UPDATE rocpd_kernel_dispatch{_} SET kernel_id = 1.5 WHERE id = 3",
        "UPDATE rocpd_kernel_dispatch{_} SET agent_id = 'x' WHERE id = 5",
    )
    found, findings = findings_of(path, columns)
    assert values(found, "dispatch_id") == [2, 4]
    [lost] = [finding for finding in findings if finding.rule == "rows-without-times-or-ids"]
    assert (lost.severity, lost.numbers) == (Severity.FAULT, {"lost_count": 3, "rows_count": 5})
    assert "3 of 5 rows lack an id or a time" in lost.message


def test_unknown_column_is_a_usage_error_with_the_nearest_names(tmp_path: Path) -> None:
    path = write_small_trace(tmp_path / "t.db")
    with pytest.raises(UsageError) as caught:
        dispatches_of(path, ["kernel_nam"])
    assert "kernel_name" in str(caught.value.hint)


def test_index_that_a_user_added_changes_nothing(tmp_path: Path) -> None:
    """SQLite reads a column from an index that holds it, in the order of the index."""
    path = write_small_trace(tmp_path / "t.db")
    names = {"a": 1, "b": 2, "c": 3}
    edit(
        path,
        *(
            f"INSERT INTO rocpd_string{{_}} (id, string) VALUES ({100 + number}, '{name}')"
            for name, number in names.items()
        ),
        "UPDATE rocpd_kernel_dispatch{_} SET region_name_id = 100 + (id * 2) % 3 + 1, stream_id = 10 - id",
        "UPDATE rocpd_event{_} SET stack_id = 1, parent_stack_id = 1 WHERE id % 2 = 0",
    )
    whole = dispatches_of(path)
    assert len(set(values(whole, "range"))) == 3
    edit(
        path,
        "CREATE INDEX i1 ON rocpd_kernel_dispatch{_} (region_name_id)",
        "CREATE INDEX i2 ON rocpd_kernel_dispatch{_} (event_id)",
        'CREATE INDEX i3 ON rocpd_kernel_dispatch{_} (dispatch_id DESC, agent_id, kernel_id, start, "end", stream_id)',
        "CREATE INDEX i4 ON rocpd_event{_} (stack_id, parent_stack_id)",
        "ANALYZE",
    )
    assert dispatches_of(path) == whole
    assert dispatches_of(path, ["stream_id"]) == [
        {"dispatch_id": row["dispatch_id"], "stream_id": row["stream_id"]} for row in whole
    ]


# Names


@pytest.mark.parametrize(
    "columns, clean, raw",
    [
        ({"display_name": "gemm"}, "gemm", "gemm"),
        ({"display_name": "gemm.kd"}, "gemm", "gemm.kd"),
        ({"display_name": "gemm [clone .kd]"}, "gemm", "gemm [clone .kd]"),
        ({"display_name": "gemm(float*) [clone .kd]"}, "gemm(float*)", "gemm(float*) [clone .kd]"),
        ({"display_name": None, "extdata": {"formatted_kernel_name": "nice"}}, "nice", "nice"),
        ({"display_name": "", "extdata": {"formatted_kernel_name": "nice"}}, "nice", "nice"),
        (
            {"display_name": ".kd", "extdata": {"formatted_kernel_name": ""}, "kernel_name": "_Z1kv.kd"},
            "_Z1kv",
            "_Z1kv.kd",
        ),
        ({"display_name": "", "extdata": "{}", "kernel_name": "_Z1kv.kd"}, "_Z1kv", "_Z1kv.kd"),
        ({"display_name": "", "extdata": "", "kernel_name": "_Z1kv.kd"}, "_Z1kv", "_Z1kv.kd"),
        ({"display_name": "", "extdata": {"formatted_kernel_name": 7}, "kernel_name": "x"}, "x", "x"),
        ({"display_name": "", "extdata": "{}", "kernel_name": ""}, "kernel_77", None),
        ({"display_name": None, "extdata": "{}", "kernel_name": None}, "kernel_77", None),
        ({"display_name": " ", "extdata": "{}", "kernel_name": ".kd"}, "kernel_77", None),
        ({"display_name": b"\xff", "extdata": b"\x01", "kernel_name": b"x"}, "kernel_77", None),
        ({"display_name": "", "extdata": '{"formatted_kernel_name": "half \\ud800"}'}, "half ?", "half ?"),
    ],
)
def test_name_is_the_first_of_display_formatted_and_symbol_name(
    tmp_path: Path, columns: dict[str, Any], clean: str, raw: str | None
) -> None:
    def write(writer: RocpdWriter) -> None:
        writer.dispatch(writer.kernel_symbol("unused", id=77, **columns), 0, 10)

    [row] = dispatches_of(written(tmp_path / "t.db", write))
    assert (row["kernel_name"], row["raw_kernel_name"]) == (clean, raw)


def test_kernel_without_a_symbol_is_named_by_its_id(tmp_path: Path) -> None:
    """Kernel id 0 is `unknown_kernel` of the tool; the stock view drops such dispatches."""

    def write(writer: RocpdWriter) -> None:
        kernel = writer.kernel_symbol("known")
        for start_ns, kernel_id in ((0, 0), (10, kernel), (20, 2**62)):
            writer.dispatch(kernel_id, start_ns, start_ns + 5)

    rows = dispatches_of(written(tmp_path / "t.db", write))
    assert values(rows, "kernel_name") == ["kernel_0", "known", f"kernel_{2**62}"]
    assert values(rows, "raw_kernel_name") == [None, "known", None]
    assert values(rows, "vgpr_count") == [None, 32, None]


def test_symbols_of_one_name_stay_apart_by_id_and_together_by_name(tmp_path: Path) -> None:
    def write(writer: RocpdWriter) -> None:
        for number in range(8):
            writer.dispatch(writer.kernel_symbol("gemm", arch_vgpr_count=number), number, number + 1)

    rows = dispatches_of(written(tmp_path / "t.db", write))
    assert len(set(values(rows, "kernel_id"))) == 8
    assert set(values(rows, "kernel_name")) == {"gemm"}
    assert values(rows, "vgpr_count") == list(range(8))


# The call behind a dispatch


def launch(writer: RocpdWriter, **columns: Any) -> None:
    writer.dispatch(writer.kernel_symbol("k"), 1_000, 1_010, **columns)


def test_launch_is_found_through_the_calls_of_lower_layers(tmp_path: Path) -> None:
    def write(writer: RocpdWriter) -> None:
        outer = writer.region("hipGraphLaunch", 0, 90)
        middle = writer.region("hsa_queue_create", 10, 80, category="HSA_CORE_API", parent_id=outer)
        inner = writer.region("hsa_signal_store_screlease", 20, 30, category="HSA_CORE_API", parent_id=middle)
        launch(writer, call_id=inner)

    [row] = dispatches_of(written(tmp_path / "t.db", write))
    assert row["host_call_id"] == 1


def test_launch_is_the_innermost_call_where_only_hip_was_traced(tmp_path: Path) -> None:
    def write(writer: RocpdWriter) -> None:
        outer = writer.region("hipModuleLaunchKernel", 0, 90)
        inner = writer.region("hipLaunchKernel", 10, 80, parent_id=outer)
        launch(writer, call_id=inner)

    [row] = dispatches_of(written(tmp_path / "t.db", write))
    assert row["host_call_id"] == 2


@pytest.mark.parametrize("category", ["HIP_RUNTIME_API", "HIP_RUNTIME_API_EXT", "rocm_hip_api"])
def test_both_tools_name_the_hip_runtime_differently(tmp_path: Path, category: str) -> None:
    def write(writer: RocpdWriter) -> None:
        launch(writer, call_id=writer.region("hipLaunchKernel", 0, 90, category=category))

    [row] = dispatches_of(written(tmp_path / "t.db", write))
    assert row["host_call_id"] == 1


def test_kernels_of_a_graph_share_their_launch(tmp_path: Path) -> None:
    def write(writer: RocpdWriter) -> None:
        call = writer.region("hipGraphLaunch", 0, 90)
        for number in range(5):
            launch(writer, call_id=call, graph_exec_id=7, graph_node_id=number)

    rows = dispatches_of(written(tmp_path / "t.db", write, WriterOptions(version="3.0.2")))
    assert values(rows, "host_call_id") == [1] * 5
    assert values(rows, "graph_exec_id") == [7] * 5
    assert values(rows, "graph_node_id") == [None, 1, 2, 3, 4]


def test_dispatch_without_a_traced_call_has_no_launch(tmp_path: Path) -> None:
    def write(writer: RocpdWriter) -> None:
        writer.region("hipMalloc", 0, 90)
        compiler = writer.region("__hipPushCallConfiguration", 0, 90, category="HIP_COMPILER_API_EXT")
        launch(writer)
        launch(writer, call_id=compiler)
        launch(writer, event_id=None)
        launch(writer, event_id=999)
        launch(writer, call_id=0)

    rows = dispatches_of(written(tmp_path / "t.db", write))
    assert values(rows, "host_call_id") == [None] * 5


def test_calls_that_are_each_others_ancestors_end_the_climb(tmp_path: Path) -> None:
    def write(writer: RocpdWriter) -> None:
        first = writer.region("a", 0, 90, category="HSA_CORE_API", parent_id=2)
        writer.region("b", 0, 90, category="HSA_CORE_API", parent_id=first)
        own = writer.region("c", 0, 90, category="HSA_CORE_API", parent_id=3)
        launch(writer, call_id=first)
        launch(writer, call_id=own)
        launch(writer, call_id=writer.region("hipLaunchKernel", 0, 90))

    assert values(dispatches_of(written(tmp_path / "t.db", write)), "host_call_id") == [None, None, 4]


def test_untraced_call_does_not_hide_the_one_above_it_that_the_dispatch_names(tmp_path: Path) -> None:
    """rocprof-sys writes the ancestor into the dispatch's own event."""

    def write(writer: RocpdWriter) -> None:
        call = writer.region("hipLaunchKernel", 0, 90)
        launch(writer, event_id=writer.event("KERNEL_DISPATCH", stack_id=900, parent_stack_id=call))

    assert values(dispatches_of(written(tmp_path / "t.db", write)), "host_call_id") == [1]


def test_stack_ids_of_zero_join_nothing(tmp_path: Path) -> None:
    """rocprof-sys writes 0 for calls that have none; texts that are no ids are none either."""

    def write(writer: RocpdWriter) -> None:
        for stack_id in (0, None, "none"):
            event = writer.event("HIP_RUNTIME_API_EXT", stack_id=0)
            writer.region("hipLaunchKernel", 0, 90, event_id=event)
            writer.execute(
                f"UPDATE {writer.file.schema.full_name('event')} SET stack_id = ? WHERE id = ?", stack_id, event
            )
        launch(writer, event_id=writer.event("KERNEL_DISPATCH"))

    assert values(dispatches_of(written(tmp_path / "t.db", write)), "host_call_id") == [None]


def test_launch_is_found_by_stack_id_and_not_by_region_id(tmp_path: Path) -> None:
    """The ids of rocprof-sys differ; correlation ids may need more than 32 bits."""
    stack_id = 2**40 + 5

    def write(writer: RocpdWriter) -> None:
        event = writer.event("HIP_RUNTIME_API_EXT", stack_id=stack_id)
        writer.region("hipLaunchKernel", 0, 90, id=17, event_id=event)
        launch(writer, event_id=writer.event("KERNEL_DISPATCH", stack_id=stack_id, parent_stack_id=stack_id))

    assert values(dispatches_of(written(tmp_path / "t.db", write)), "host_call_id") == [17]


# Ranges, places


def test_range_is_the_name_that_was_open_at_launch_or_none(tmp_path: Path) -> None:
    def write(writer: RocpdWriter) -> None:
        launch(writer, range_name="step 7")
        launch(writer)
        launch(writer, region_name_id=None)
        launch(writer, region_name_id=12_345)

    assert values(dispatches_of(written(tmp_path / "t.db", write)), "range") == ["step 7", None, None, None]


def test_range_of_rocprof_sys_is_none_because_it_keeps_the_kernel_name_there(tmp_path: Path) -> None:
    path = written(tmp_path / "t.db", lambda writer: launch(writer, range_name="k"), WriterOptions(is_simulated=False))
    assert values(dispatches_of(path), "range") == ["k"]
    edit(path, "INSERT INTO rocpd_metadata{_} (tag, value) VALUES ('upid', 'abc')")
    assert values(dispatches_of(path), "range") == [None]


def test_grid_is_in_work_items(tmp_path: Path) -> None:
    """rs#2716: 2048 where the user expects 8 workgroups of 256."""

    def write(writer: RocpdWriter) -> None:
        launch(writer, grid_size_x=2048, grid_size_y=4, workgroup_size_x=256, workgroup_size_y=2)

    [row] = dispatches_of(written(tmp_path / "t.db", write))
    assert [row[f"grid_workitems_{axis}"] for axis in "xyz"] == [2048, 4, 1]
    assert [row[f"workgroup_workitems_{axis}"] for axis in "xyz"] == [256, 2, 1]


def test_ids_keep_up_to_63_bits(tmp_path: Path) -> None:
    big = INT64_MAX - 1

    def write(writer: RocpdWriter) -> None:
        launch(
            writer, id=big, dispatch_id=big, agent_id=2**40 + 1, queue_id=2**33 + 1, stream_id=2**53 + 1, tid=2**62 + 1
        )

    [row] = dispatches_of(written(tmp_path / "t.db", write))
    assert [row[name] for name in ("dispatch_id", "agent_id", "queue_id", "stream_id", "thread_id")] == [
        big,
        2**40 + 1,
        2**33 + 1,
        2**53 + 1,
        2**62 + 1,
    ]


def test_times_keep_their_nanoseconds_after_months_of_uptime(tmp_path: Path) -> None:
    def write(writer: RocpdWriter) -> None:
        for number in range(4):
            writer.dispatch(writer.kernel_symbol("k"), BOOT_NS + number, BOOT_NS + number + 1)

    rows = dispatches_of(written(tmp_path / "t.db", write))
    assert values(rows, "start_ns") == [BOOT_NS + number for number in range(4)]
    assert values(rows, "end_ns") == [BOOT_NS + number + 1 for number in range(4)]


# Files that lack something


def test_hand_made_file_without_optional_columns_and_tables_is_read(tmp_path: Path) -> None:
    path = write_small_trace(
        tmp_path / "t.db", WriterOptions(left_out_tables=frozenset({"info_pmc", "pmc_event", "arg"}))
    )
    rebuild_table(path, "kernel_dispatch", 'id, agent_id, kernel_id, start, "end"')
    edit(path, "DROP TABLE rocpd_info_kernel_symbol{_}", "DROP TABLE rocpd_string{_}", "DROP TABLE rocpd_region{_}")
    rows, findings = findings_of(path)
    assert values(rows, "dispatch_id") == [1, 2, 3, 4, 5]
    assert values(rows, "kernel_name") == ["kernel_1", "kernel_2", "kernel_1", "kernel_2", "kernel_1"]
    for name in ("queue_id", "stream_id", "grid_workitems_x", "lds_bytes", "host_call_id", "range", "vgpr_count"):
        assert values(rows, name) == [None] * 5
    assert findings == []


@pytest.mark.parametrize("column", ["start", "end", "agent_id", "kernel_id"])
def test_column_that_no_dispatch_can_do_without_is_named(tmp_path: Path, column: str) -> None:
    path = drop_views(write_small_trace(tmp_path / "t.db"))
    edit(path, f'ALTER TABLE rocpd_kernel_dispatch{{_}} RENAME COLUMN "{column}" TO other')
    with pytest.raises(DamagedFile) as caught:
        dispatches_of(path, [])
    assert caught.value.reference == "rocpd-columns"
    assert f"no column {column!r}" in caught.value.what
    assert "rocpd_kernel_dispatch" in str(caught.value.where)


def test_table_without_rows_gives_a_frame_without_rows(tmp_path: Path) -> None:
    path = written(tmp_path / "t.db", lambda writer: writer.process())
    assert dispatches_of(path) == []
    assert dispatches_of(path, ["kernel_name"]) == []


def test_event_ids_that_repeat_in_a_hand_made_table_do_not_shift_rows(tmp_path: Path) -> None:
    path = rebuild_table(write_small_trace(tmp_path / "t.db"), "event")
    edit(path, "INSERT INTO rocpd_event{_} SELECT * FROM rocpd_event{_}")
    with pytest.raises(DamagedFile):
        dispatches_of(path, ["host_call_id"])
    assert len(dispatches_of(path, ["kernel_name"])) == 5


# Counter passes


def test_times_of_a_counter_pass_have_other_names(tmp_path: Path) -> None:
    path = write_small_trace(tmp_path / "t.db", WriterOptions(has_replay_pass=True))
    edit(path, "UPDATE rocpd_kernel_dispatch{_} SET replay_pass = id % 2 WHERE id < 5")
    with open_process(path) as (reader, process):
        part = read_counted_dispatches(reader, process, "run", "mem")
        rows = as_rows(part, COUNTED_DISPATCHES)
        few = as_rows(
            read_counted_dispatches(reader, process, "run", "mem", ["lds_bytes"]), COUNTED_DISPATCHES, ["lds_bytes"]
        )
    assert not {"start_ns", "end_ns"} & set(rows[0])
    assert values(rows, "pass_end_ns")[0] - values(rows, "pass_start_ns")[0] == 10
    assert values(rows, "pass") == ["mem"] * 5
    assert values(rows, "replay_pass") == [1, 0, 1, 0, None]
    assert few == [{name: row[name] for name in ("dispatch_id", "pass", "replay_pass", "lds_bytes")} for row in rows]


# The real files


@pytest.mark.parametrize("name", ["rocprofv3-mi300x.db", "rocprofsys-mi350x.db", "minimal-handmade-v3.db"])
def test_real_files_give_every_dispatch_and_all_of_its_time(shared: Path, name: str) -> None:
    with open_process(shared / "data/rocpd" / name) as (reader, process):
        table = process.tables["kernel_dispatch"].quoted
        expected = reader.rows(f'SELECT count(*), sum("end" - start) FROM {table}')
        rows = as_rows(read_dispatches(reader, process, "run"), DISPATCHES)
        assert [(len(rows), sum(row["end_ns"] - row["start_ns"] for row in rows))] == expected
        assert rules(reader.findings) == []


def test_real_mi300x_trace(shared: Path) -> None:
    rows = dispatches_of(shared / "data/rocpd/rocprofv3-mi300x.db")
    assert len(rows) == 11
    assert sum(row["end_ns"] - row["start_ns"] for row in rows) == 342_464
    assert len(set(values(rows, "kernel_name"))) == 1
    assert ".kd" not in rows[0]["kernel_name"]
    calls = read_sql_ro(shared / "data/rocpd/rocprofv3-mi300x.db", values(rows, "host_call_id"))
    assert calls == {"hipLaunchKernel"}


def test_real_mi350x_trace_has_clean_names(shared: Path) -> None:
    [row] = dispatches_of(shared / "data/rocpd/rocprofsys-mi350x.db")
    assert row["raw_kernel_name"].endswith(" [clone .kd]")
    assert row["raw_kernel_name"] == f"{row['kernel_name']} [clone .kd]"
    assert row["range"] is None


def read_sql_ro(path: Path, call_ids: list[int]) -> set[str]:
    with open_process(path) as (reader, process):
        region, string = (process.tables[base].quoted for base in ("region", "string"))
        listed = ", ".join(map(str, call_ids))
        query = f"SELECT DISTINCT s.string FROM {region} r JOIN {string} s ON s.id = r.name_id WHERE r.id IN ({listed})"
        return {name for (name,) in reader.rows(query)}
