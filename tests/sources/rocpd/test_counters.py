"""Counter values: reduced over instances as a plain loop would, and never summed where a sum would be wrong."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rocpd_files import (
    as_rows,
    drop_views,
    edit,
    open_process,
    read_sql,
    rebuild_table,
    rules,
    write_counter_pass,
    write_small_trace,
)

from rocktools.demo.rocpd_file import WriterOptions
from rocktools.demo.rocpd_trace import TraceShape, write_trace
from rocktools.demo.rocpd_writer import RocpdWriter
from rocktools.findings import Finding, Severity
from rocktools.frames import COUNTER_VALUES
from rocktools.sources.rocpd.counters import is_counter_pass, read_counter_facts, read_counter_values

Row = dict[str, Any]
NO_VIEWS = WriterOptions(has_views=False)
# Where the ids of the driver's pseudo-counters begin.
DRIVER_IDS = 0x7000_0000_0000_0000


def counters_of(path: Path, accelerate: bool | None = False) -> tuple[list[Row], list[Finding]]:
    with open_process(path, accelerate=accelerate) as (reader, process):
        rows = as_rows(read_counter_values(reader, process, "run", "mem"), COUNTER_VALUES)
        return rows, reader.findings


def is_pass(path: Path) -> bool:
    with open_process(path) as (reader, process):
        return is_counter_pass(reader, process)


def written(path: Path, write: Callable[[RocpdWriter], object], options: WriterOptions = NO_VIEWS) -> Path:
    with RocpdWriter(path, options=options) as writer:
        write(writer)
    return path


def reduced(rows: list[Row]) -> dict[tuple[Any, ...], tuple[Any, ...]]:
    """(dispatch, replay pass, counter) -> (sum, smallest, largest, instances)."""
    return {
        (row["dispatch_id"], row["replay_pass"], row["counter"]): (
            row["sum_value"],
            row["min_value"],
            row["max_value"],
            row["instances_count"],
        )
        for row in rows
    }


# Reductions


@pytest.mark.parametrize("accelerate", [False, None])
def test_instances_are_reduced_in_all_four_ways(tmp_path: Path, accelerate: bool | None) -> None:
    rows, findings = counters_of(write_counter_pass(tmp_path / "t.db"), accelerate)
    assert findings == []
    assert {row["pass"] for row in rows} == {"mem"}
    assert reduced(rows) == {
        (1, None, "SQ_WAVES"): (10.0, 1.0, 4.0, 4),
        (1, None, "GRBM_COUNT"): (40.0, 10.0, 30.0, 2),
        (1, None, "TCC_HIT_sum"): (100.0, 100.0, 100.0, 1),
        (2, None, "SQ_WAVES"): (26.0, 5.0, 8.0, 4),
        (2, None, "GRBM_COUNT"): (40.0, 20.0, 20.0, 2),
        (2, None, "TCC_HIT_sum"): (200.0, 200.0, 200.0, 1),
    }


def test_sums_are_those_of_the_stock_view(tmp_path: Path) -> None:
    path = write_counter_pass(tmp_path / "t.db")
    rows, _ = counters_of(path)
    expected = read_sql(path, "SELECT dispatch_id, counter_name, value FROM counters_collection")
    assert sorted((row["dispatch_id"], row["counter"], row["sum_value"]) for row in rows) == sorted(expected)


def test_rows_are_ordered_by_dispatch_and_counter_name(tmp_path: Path) -> None:
    rows, _ = counters_of(write_counter_pass(tmp_path / "t.db"))
    assert [(row["dispatch_id"], row["counter"]) for row in rows] == [
        (dispatch, counter) for dispatch in (1, 2) for counter in ("GRBM_COUNT", "SQ_WAVES", "TCC_HIT_sum")
    ]


# Each counter has a block of its own, so that nothing looks repeated.
numbers = st.one_of(st.integers(0, 2**40).map(float), st.floats(-1e12, 1e12, allow_subnormal=False))
recorded_values = st.lists(
    st.tuples(st.integers(1, 4), st.sampled_from(["SQ_A", "TCC_B", "GRBM_C"]), st.integers(0, 1), numbers), max_size=40
)


@pytest.mark.parametrize("accelerate", [False, None])
@given(recorded=recorded_values)
@settings(max_examples=40)
def test_reductions_are_those_of_a_loop_over_the_rows_in_any_order(
    tmp_path_factory: pytest.TempPathFactory, accelerate: bool | None, recorded: list[tuple[int, str, int, float]]
) -> None:
    """Instances of several counters, dispatches and devices come interleaved; two devices have counters of one name."""
    path = tmp_path_factory.mktemp("counters") / "t.db"
    with RocpdWriter(path, options=NO_VIEWS) as writer:
        kernel = writer.kernel_symbol("k")
        devices = [writer.agent("CPU"), writer.agent(), writer.agent()][1:]
        dispatches = {
            (number, device): writer.dispatch(kernel, number, number + 1, agent_id=devices[device])
            for number in range(1, 5)
            for device in (0, 1)
        }
        infos = {
            (name, device): writer.counter_info(name, agent_id=devices[device])
            for name in ("SQ_A", "TCC_B", "GRBM_C")
            for device in (0, 1)
        }
        for number, name, device, value in recorded:
            writer.counter_value(infos[name, device], value, dispatch_id=dispatches[number, device])
    expected: dict[tuple[Any, ...], list[float]] = {}
    for number, name, device, value in recorded:
        expected.setdefault((dispatches[number, device], None, name), []).append(value)
    rows, findings = counters_of(path, accelerate)
    assert findings == []
    found = reduced(rows)
    assert found.keys() == expected.keys()
    for key, values in expected.items():
        total, smallest, largest, instances = found[key]
        # n additions in any order differ by at most n roundings of the largest partial sum.
        assert math.isclose(total, math.fsum(values), abs_tol=len(values) * sum(map(abs, values)) * 2**-52)
        assert (smallest, largest, instances) == (min(values), max(values), len(values))


def test_large_made_up_pass_has_a_row_for_each_dispatch_and_counter(tmp_path: Path) -> None:
    shape = TraceShape(dispatches_count=400, counters=("SQ_WAVES", "GRBM_COUNT", "TCC_HIT_sum"), agents_count=2)
    totals = write_trace(tmp_path / "t.db", shape, options=NO_VIEWS)
    rows, findings = counters_of(tmp_path / "t.db")
    assert len(rows) == 3 * totals.dispatches_count
    assert sum(row["instances_count"] for row in rows) == totals.counter_rows_count
    assert findings == []


def test_counter_that_lacks_an_instance_is_missing_and_not_summed_over_the_others(tmp_path: Path) -> None:
    path = edit(write_counter_pass(tmp_path / "t.db"), "UPDATE rocpd_pmc_event{_} SET value = NULL WHERE id = 2")
    rows, findings = counters_of(path)
    assert (1, None, "SQ_WAVES") not in reduced(rows)
    assert reduced(rows)[2, None, "SQ_WAVES"] == (26.0, 5.0, 8.0, 4)
    [finding] = findings
    assert (finding.rule, finding.numbers) == ("counter-without-value", {"lost_count": 1})


# Which rows count


def test_points_of_streaming_counters_are_left_out_and_counted(tmp_path: Path) -> None:
    def write(writer: RocpdWriter) -> None:
        dispatch = writer.dispatch(writer.kernel_symbol("k"), 0, 10)
        waves, busy = writer.counter_info("SQ_WAVES"), writer.counter_info("TCC_BUSY")
        writer.counter_value(waves, 5.0, dispatch_id=dispatch)
        track = writer.track("spm")
        for number in range(3):
            sample = writer.sample(track, number)
            writer.counter_value(busy, 1.0, dispatch_id=dispatch, sample_id=sample, xcc=number)
            writer.counter_value(waves, 1.0, dispatch_id=dispatch, sample_id=sample, xcc=number)

    rows, findings = counters_of(written(tmp_path / "t.db", write, WriterOptions(version="3.0.3")))
    assert reduced(rows) == {(1, None, "SQ_WAVES"): (5.0, 5.0, 5.0, 1)}
    [finding] = findings
    assert (finding.rule, finding.severity, finding.numbers) == (
        "spm-rows-left-out",
        Severity.NOTE,
        {"spm_rows_count": 6},
    )


def test_telemetry_is_no_counter_of_a_dispatch(tmp_path: Path) -> None:
    def write(writer: RocpdWriter) -> None:
        dispatch = writer.dispatch(writer.kernel_symbol("k"), 0, 10)
        power, waves = writer.counter_info("device_power"), writer.counter_info("SQ_WAVES")
        for number in range(2_000):
            event = writer.event("amd_smi")
            writer.sample(1, number, event_id=event)
            writer.counter_value(power, 300.0, event_id=event)
        writer.counter_value(power, 300.0, event_id=None)
        writer.counter_value(waves, 7.0, dispatch_id=dispatch)

    path = written(tmp_path / "t.db", write)
    assert is_pass(path)
    rows, findings = counters_of(path)
    assert reduced(rows) == {(1, None, "SQ_WAVES"): (7.0, 7.0, 7.0, 1)}
    assert findings == []


def test_counter_without_a_description_is_named_by_its_id(tmp_path: Path) -> None:
    path = edit(write_counter_pass(tmp_path / "t.db"), "DELETE FROM rocpd_info_pmc{_} WHERE name = 'SQ_WAVES'")
    rows, _ = counters_of(path)
    assert {row["counter"] for row in rows} == {"counter_1", "GRBM_COUNT", "TCC_HIT_sum"}


def test_counters_of_two_devices_share_a_name(tmp_path: Path) -> None:
    def write(writer: RocpdWriter) -> None:
        kernel = writer.kernel_symbol("k")
        for device, instances in ((writer.agent(), 32), (writer.agent(), 4)):
            pmc_id = writer.counter_info("SQ_WAVES", agent_id=device)
            dispatch = writer.dispatch(kernel, 0, 10, agent_id=device)
            for _ in range(instances):
                writer.counter_value(pmc_id, 1.0, dispatch_id=dispatch)

    rows, findings = counters_of(written(tmp_path / "t.db", write))
    assert [(row["counter"], row["instances_count"], row["sum_value"]) for row in rows] == [
        ("SQ_WAVES", 32, 32.0),
        ("SQ_WAVES", 4, 4.0),
    ]
    assert findings == [], "devices may differ in their number of instances"


@pytest.mark.parametrize("accelerate", [False, None])
def test_ids_of_the_drivers_pseudo_counters_keep_apart(tmp_path: Path, accelerate: bool | None) -> None:
    def write(writer: RocpdWriter) -> None:
        dispatch = writer.dispatch(writer.kernel_symbol("k"), 0, 10)
        for number in range(3):
            pmc_id = writer.counter_info(f"KFD_{number}", id=DRIVER_IDS + number)
            writer.counter_value(pmc_id, float(number), dispatch_id=dispatch)

    rows, _ = counters_of(written(tmp_path / "t.db", write), accelerate)
    assert [(row["counter"], row["sum_value"]) for row in rows] == [("KFD_0", 0.0), ("KFD_1", 1.0), ("KFD_2", 2.0)]


def test_dispatch_that_lacks_a_counter_has_no_row_for_it(tmp_path: Path) -> None:
    path = edit(
        write_counter_pass(tmp_path / "t.db"), "DELETE FROM rocpd_pmc_event{_} WHERE event_id = 2 AND pmc_id = 1"
    )
    rows, _ = counters_of(path)
    assert [(row["dispatch_id"], row["counter"]) for row in rows if row["counter"] == "SQ_WAVES"] == [(1, "SQ_WAVES")]


def test_zero_is_a_value(tmp_path: Path) -> None:
    path = edit(write_counter_pass(tmp_path / "t.db"), "UPDATE rocpd_pmc_event{_} SET value = 0 WHERE pmc_id = 1")
    rows, _ = counters_of(path)
    assert reduced(rows)[1, None, "SQ_WAVES"] == (0.0, 0.0, 0.0, 4)


def test_dispatch_whose_id_was_lost_has_no_values(tmp_path: Path) -> None:
    path = edit(
        write_counter_pass(tmp_path / "t.db"), "UPDATE rocpd_kernel_dispatch{_} SET dispatch_id = 0.5 WHERE id = 1"
    )
    rows, findings = counters_of(path)
    assert {row["dispatch_id"] for row in rows} == {2}
    assert rules(findings) == ["integer-lost-digits"]


# Kernel replay


def write_replay(path: Path, *, has_column: bool, groups: tuple[tuple[str, ...], ...]) -> Path:
    """One dispatch in as many passes as groups; SQ counters have 4 instances of 128 waves each, TCC counters 2."""
    with RocpdWriter(path, options=WriterOptions(has_views=False, has_replay_pass=has_column)) as writer:
        kernel = writer.kernel_symbol("k")
        infos = {name: writer.counter_info(name) for name in dict.fromkeys(name for group in groups for name in group)}
        first = None
        for number, group in enumerate(groups):
            if has_column:
                row = writer.dispatch(
                    kernel, 100 * number, 100 * number + 9, id=number + 1, dispatch_id=1, replay_pass=number
                )
            else:
                row = first = first or writer.dispatch(kernel, 0, 9)
            for name in group:
                instances = 1 if name.endswith("_sum") else {"SQ": 4, "TCC": 2, "GRBM": 8}[name.split("_")[0]]
                for _ in range(instances):
                    writer.counter_value(infos[name], 128.0, dispatch_id=row)
    return path


GROUPS = (("SQ_WAVES", "SQ_BUSY"), ("SQ_WAVES", "TCC_HIT"), ("SQ_WAVES", "TCC_HIT_sum"))


def test_passes_of_a_replay_keep_apart_where_the_column_is_there(tmp_path: Path) -> None:
    rows, findings = counters_of(write_replay(tmp_path / "t.db", has_column=True, groups=GROUPS))
    assert findings == []
    assert reduced(rows) == {
        (1, 0, "SQ_BUSY"): (512.0, 128.0, 128.0, 4),
        (1, 0, "SQ_WAVES"): (512.0, 128.0, 128.0, 4),
        (1, 1, "SQ_WAVES"): (512.0, 128.0, 128.0, 4),
        (1, 1, "TCC_HIT"): (256.0, 128.0, 128.0, 2),
        (1, 2, "SQ_WAVES"): (512.0, 128.0, 128.0, 4),
        (1, 2, "TCC_HIT_sum"): (128.0, 128.0, 128.0, 1),
    }
    assert [row["replay_pass"] for row in rows] == [0, 0, 1, 1, 2, 2]


def test_counter_repeated_by_a_replay_without_the_column_has_no_sum(tmp_path: Path) -> None:
    """rs#11422: SQ_WAVES 512 became 1536 in three groups."""
    path = write_replay(tmp_path / "t.db", has_column=False, groups=GROUPS)
    rows, findings = counters_of(path)
    found = reduced(rows)
    assert found[1, None, "SQ_WAVES"] == (None, 128.0, 128.0, None)
    assert found[1, None, "SQ_BUSY"] == (512.0, 128.0, 128.0, 4)
    assert found[1, None, "TCC_HIT"] == (256.0, 128.0, 128.0, 2)
    [finding] = findings
    assert (finding.rule, finding.severity) == ("replay-overcount", Severity.FAULT)
    assert "SQ_WAVES" in finding.message
    assert "SQ_BUSY" not in finding.message


def test_counter_of_every_die_that_was_repeated_in_all_groups_is_known_by_the_number_of_dies(tmp_path: Path) -> None:
    """The device has 8 dies (XCC), and GRBM is on each once: 24 rows are three passes, whatever the others say."""
    groups = (("GRBM_GUI_ACTIVE",),) * 3
    rows, findings = counters_of(write_replay(tmp_path / "t.db", has_column=False, groups=groups))
    assert reduced(rows) == {(1, None, "GRBM_GUI_ACTIVE"): (None, 128.0, 128.0, None)}
    assert [finding.rule for finding in findings] == ["replay-overcount"]


def test_derived_counter_with_several_rows_was_repeated(tmp_path: Path) -> None:
    groups = (("TCC_HIT_sum", "SQ_WAVES"), ("TCC_HIT_sum", "GRBM_COUNT"))
    rows, findings = counters_of(write_replay(tmp_path / "t.db", has_column=False, groups=groups))
    assert reduced(rows)[1, None, "TCC_HIT_sum"] == (None, 128.0, 128.0, None)
    assert rules(findings) == ["replay-overcount"]


@pytest.mark.parametrize(
    "expression, is_reduced",
    [
        ("reduce(TCC_HIT,sum)", True),
        ("100*reduce(SQ_BUSY,sum)/reduce(GRBM_GUI_ACTIVE,max)/CU_NUM", True),
        ("reduce(accumulate(SQ_LEVEL_WAVES,HIGH_RES),sum)/CU_NUM", True),
        ("(TCC_HIT_sum*100)/(TCC_HIT_sum+TCC_MISS_sum)", True),
        ("accumulate(SQ_LEVEL_WAVES,HIGH_RES)", False),
        ("accumulate(SQ_LEVEL_WAVES,HIGH_RES)/reduce(GRBM_GUI_ACTIVE,max)/CU_NUM", False),
        ("SQ_BUSY/SQ_WAVES", False),
    ],
)
def test_derived_counter_has_several_values_unless_it_is_reduced(
    tmp_path: Path, expression: str, is_reduced: bool
) -> None:
    """MeanOccupancyPerCU and the `_ACCUM` counters of rocprof-compute have one value per instance."""

    def write(writer: RocpdWriter) -> None:
        pmc_id = writer.counter_info("Made", expression=expression, is_derived=1, block="")
        dispatch = writer.dispatch(writer.kernel_symbol("k"), 0, 9)
        for value in (1.0, 2.0):
            writer.counter_value(pmc_id, value, dispatch_id=dispatch)

    rows, findings = counters_of(written(tmp_path / "t.db", write))
    assert rules(findings) == (["replay-overcount"] if is_reduced else [])
    assert reduced(rows)[1, None, "Made"] == ((None, 1.0, 2.0, None) if is_reduced else (3.0, 1.0, 2.0, 2))


def test_column_that_is_there_and_unused_does_not_hide_a_repetition(tmp_path: Path) -> None:
    path = write_replay(tmp_path / "t.db", has_column=False, groups=GROUPS)
    edit(path, "ALTER TABLE rocpd_kernel_dispatch{_} ADD COLUMN replay_pass INTEGER")
    assert rules(counters_of(path)[1]) == ["replay-overcount"]


def test_blocks_may_differ_in_their_number_of_instances(tmp_path: Path) -> None:
    groups = (("SQ_WAVES", "TCC_HIT", "GRBM_COUNT", "TCC_HIT_sum"),)
    rows, findings = counters_of(write_replay(tmp_path / "t.db", has_column=False, groups=groups))
    assert findings == []
    assert all(row["sum_value"] is not None for row in rows)


# Trace or counter pass


def test_pass_is_known_by_values_on_dispatches(tmp_path: Path) -> None:
    assert is_pass(write_counter_pass(tmp_path / "counters.db"))
    assert not is_pass(write_small_trace(tmp_path / "trace.db"))


def test_pass_that_got_no_value_is_a_pass_all_the_same(tmp_path: Path) -> None:
    """Its dispatches were serialised, whatever became of the counters."""
    path = edit(write_counter_pass(tmp_path / "t.db"), "DELETE FROM rocpd_pmc_event{_}")
    assert is_pass(path)
    assert counters_of(path)[0] == []
    edit(path, "INSERT INTO rocpd_metadata{_} (tag, value) VALUES ('upid', 'abc')")
    assert not is_pass(path), "rocprof-sys describes counters that nobody asked for"


def test_descriptions_of_the_drivers_pseudo_counters_make_no_pass(tmp_path: Path) -> None:
    def write(writer: RocpdWriter) -> None:
        writer.dispatch(writer.kernel_symbol("k"), 0, 10)
        writer.counter_info("KFD_PAGE_FAULT", id=DRIVER_IDS + 1)

    assert not is_pass(written(tmp_path / "t.db", write))


def test_telemetry_alone_makes_no_pass(tmp_path: Path) -> None:
    def write(writer: RocpdWriter) -> None:
        writer.dispatch(writer.kernel_symbol("k"), 0, 10)
        event = writer.event("amd_smi")
        writer.counter_value(writer.counter_info("device_power"), 300.0, event_id=event)
        writer.counter_value(1, 300.0, event_id=None)

    assert not is_pass(written(tmp_path / "t.db", write))


def test_first_value_without_an_event_does_not_hide_the_others(tmp_path: Path) -> None:
    path = edit(write_counter_pass(tmp_path / "t.db"), "UPDATE rocpd_pmc_event{_} SET event_id = NULL WHERE id = 1")
    assert is_pass(path)


def test_file_without_the_tables_or_columns_is_no_pass(tmp_path: Path) -> None:
    path = rebuild_table(
        write_counter_pass(tmp_path / "t.db"), "kernel_dispatch", 'id, agent_id, kernel_id, start, "end"'
    )
    assert not is_pass(path)
    without = write_small_trace(tmp_path / "w.db", WriterOptions(left_out_tables=frozenset({"pmc_event", "info_pmc"})))
    assert not is_pass(without)


def test_descriptions_are_read_without_the_devices_they_repeat(tmp_path: Path) -> None:
    """rocprofv3 repeats 116 KB of agent JSON in the extdata of every counter."""
    path = drop_views(write_counter_pass(tmp_path / "t.db"))
    edit(
        path,
        "ALTER TABLE rocpd_info_pmc{_} DROP COLUMN extdata",
        "UPDATE rocpd_info_pmc{_} SET name = x'00' WHERE id = 2",
    )
    with open_process(path) as (reader, process):
        facts = read_counter_facts(reader, process)
    assert [(key, fact.name, fact.block, fact.is_derived) for key, fact in facts.items()] == [
        (1, "SQ_WAVES", "SQ", False),
        (2, "counter_2", "GRBM", False),
        (3, "TCC_HIT_sum", "", True),
    ]


def test_real_telemetry_makes_no_pass(shared: Path) -> None:
    for name in ("rocprofsys-mi350x.db", "rocprofv3-mi300x.db", "minimal-handmade-v3.db"):
        assert not is_pass(shared / "data/rocpd" / name)
