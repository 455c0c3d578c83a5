"""The inventory: counts of plain SQL over all processes, and whether any of it can be trusted."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest
from rocpd_files import (
    BOOT_NS,
    edit,
    merge_databases,
    read_sql,
    rebuild_table,
    rules,
    write_counter_pass,
    write_small_trace,
)
from torn_files import leaves_of, zero_pages

from rocktools.demo.rocpd_trace import TraceShape, write_trace
from rocktools.demo.rocpd_writer import RocpdWriter
from rocktools.errors import DamagedFile, UsageError
from rocktools.findings import Finding, Severity
from rocktools.frames import PROCESSES, SPECS, FrameSpec, require_frame
from rocktools.workspace.inventory import CONTENTS, COUNTERS, DEVICES, Inventory, take_inventory
from rocktools.workspace.workspace import READ_FRAMES, Workspace


def inventory_of(*paths: Path) -> Inventory:
    with Workspace.open(paths) as workspace:
        return take_inventory(workspace)


def break_table(path: Path, base: str) -> Path:
    """Lose a page of a table: the file opens, and its rows cannot be counted."""
    [(name,)] = read_sql(path, f"SELECT name FROM sqlite_master WHERE name LIKE 'rocpd_{base}_0%'")
    zero_pages(path, list(leaves_of(path, name))[1:2])
    return path


def contents_of(inventory: Inventory) -> dict[str, tuple[object, ...]]:
    rows = inventory.contents[["subject", "rows_count", "start_ns", "end_ns", "span_ns"]]
    return {
        subject: tuple(None if value is pd.NA else value for value in values)
        for subject, *values in rows.itertuples(index=False)
    }


def test_frames_keep_their_contracts(tmp_path: Path) -> None:
    inventory = inventory_of(write_small_trace(tmp_path / "a.db"), write_counter_pass(tmp_path / "b.db"))
    for name, spec in (("processes", PROCESSES), ("devices", DEVICES), ("contents", CONTENTS), ("counters", COUNTERS)):
        found, frame = inventory.frame(name)
        assert found is spec
        require_frame(frame, spec)
        assert not frame.duplicated(list(spec.key)).any()
    with pytest.raises(UsageError, match="no part 'content'"):
        inventory.frame("content")


def is_in_order(frame: pd.DataFrame, spec: FrameSpec) -> bool:
    """Whether the rows are in the order that the spec declares; labels by their letters, missing values last."""
    labels = {column.name: "object" for column in spec.columns if column.dtype == "category" and column.name in frame}
    ordered = frame.astype(labels).sort_values(list(spec.sort), kind="stable")
    return list(ordered.index) == list(range(len(frame)))


def test_every_frame_is_in_its_declared_order_whatever_the_order_of_the_files(tmp_path: Path) -> None:
    """The labels of processes begin with random digits, so that names of files and labels are in different orders."""
    paths = []
    for number, run in ((9, "b"), (1, "b"), (5, "a"), (3, "c")):
        (tmp_path / run).mkdir(exist_ok=True)
        paths.append(write_small_trace(tmp_path / run / f"{number}.db"))
        (tmp_path / run / "pmc" / f"g{number}").mkdir(parents=True)
        paths.append(write_counter_pass(tmp_path / run / f"pmc/g{number}/{number}.db"))
    shape = TraceShape(dispatches_count=300, agents_count=12, counters=("SQ_WAVES", "GRBM_COUNT", "TCC_HIT"))
    write_trace(tmp_path / "c/0.db", shape)
    with Workspace.open([tmp_path / "c", *reversed(paths), tmp_path / "b", tmp_path / "a"]) as workspace:
        given = [(spec, workspace.frame(name)) for name, spec in SPECS.items() if name in READ_FRAMES]
        inventory = take_inventory(workspace)
    given += [inventory.frame(name) for name in ("processes", "devices", "contents", "counters")]
    few = {spec.name for spec, frame in given if len(frame) < 2}
    assert few == {"SAMPLES", "DEVICE_EVENTS", "HOST_EVENTS", "PROFILED_DEVICES"}
    assert [spec.name for spec, frame in given if not is_in_order(frame, spec)] == []


def test_kinds_of_regions_stay_below_their_regions(tmp_path: Path) -> None:
    for name in ("b.db", "a.db"):
        write_small_trace(tmp_path / name)
    with Workspace.open([tmp_path / "b.db", tmp_path / "a.db"]) as workspace:
        contents = take_inventory(workspace).contents
    for _, rows in contents.groupby("process", observed=True):
        assert rows["subject"].tolist()[1:3] == ["host regions", "  HIP_RUNTIME_API_EXT"]


def test_contents_of_a_small_trace(tmp_path: Path) -> None:
    assert contents_of(inventory_of(write_small_trace(tmp_path / "a.db"))) == {
        "kernel dispatches": (5, BOOT_NS + 100, BOOT_NS + 250, 150),
        "host regions": (3, BOOT_NS - 10, BOOT_NS + 900, 910),
        "  HIP_RUNTIME_API_EXT": (1, None, None, None),
        "  HSA_CORE_API": (1, None, None, None),
        "  MARKER_CORE_RANGE_API": (1, None, None, None),
        "memory copies": (2, BOOT_NS + 10, BOOT_NS + 420, 410),
        "allocations": (2, BOOT_NS + 1, BOOT_NS + 801, 800),
        "samples": (1, BOOT_NS - 5, BOOT_NS - 5, 0),
    }


def test_time_that_lost_its_digits_is_missing_and_not_rounded(tmp_path: Path) -> None:
    path = write_small_trace(tmp_path / "a.db")
    edit(path, 'UPDATE "rocpd_memory_copy{_}" SET "end" = 1.8446744073709552e19 WHERE id = 1')
    count, start_ns, end_ns, span_ns = contents_of(inventory_of(path))["memory copies"]
    assert (count, start_ns, end_ns, span_ns) == (2, BOOT_NS + 10, None, None)


def test_counter_pass_lists_its_counters_and_a_trace_none(tmp_path: Path) -> None:
    inventory = inventory_of(write_small_trace(tmp_path / "a.db"), write_counter_pass(tmp_path / "b.db"))
    assert inventory.counters[["run", "counter", "rows_count"]].values.tolist() == [
        ["b", "GRBM_COUNT", 4],
        ["b", "SQ_WAVES", 8],
        ["b", "TCC_HIT_sum", 2],
    ]
    assert sorted(inventory.processes["content"]) == ["counters", "trace"]


def test_devices_of_all_processes_are_one_row_each(tmp_path: Path) -> None:
    for pid, agents_count in ((1, 2), (2, 3)):
        write_trace(tmp_path / f"{pid}.db", TraceShape(dispatches_count=60, agents_count=agents_count, pid=pid))
    devices = inventory_of(tmp_path / "1.db", tmp_path / "2.db").devices
    assert devices["device"].tolist() == [f"simulated-node:gpu{number}" for number in range(3)]
    assert devices["processes_count"].tolist() == [2, 2, 1]
    counts = [
        dict(read_sql(tmp_path / f"{pid}.db", "SELECT agent_id, count(*) FROM rocpd_kernel_dispatch GROUP BY agent_id"))
        for pid in (1, 2)
    ]
    first = min(counts[0])
    expected = [sum(count.get(first + number, 0) for count in counts) for number in range(3)]
    assert devices["dispatches_count"].tolist() == expected
    assert sum(expected) == 120


def test_merged_database_has_the_contents_of_each_process(tmp_path: Path) -> None:
    paths = []
    for pid in (1, 2):
        paths.append(tmp_path / f"{pid}.db")
        write_trace(paths[-1], TraceShape(dispatches_count=5 * pid, pid=pid))
    inventory = inventory_of(merge_databases(paths, tmp_path / "merged.db"))
    dispatches = inventory.contents[inventory.contents["subject"] == "kernel dispatches"]
    assert sorted(dispatches["rows_count"]) == [5, 10]
    assert len(inventory.processes) == 2


def test_tables_that_are_not_there_have_no_contents(tmp_path: Path) -> None:
    path = write_small_trace(tmp_path / "a.db")
    rebuild_table(path, "memory_copy", "id, guid")
    edit(path, 'DROP TABLE "rocpd_sample{_}"', 'DROP TABLE "rocpd_event{_}"')
    assert contents_of(inventory_of(path)) == {
        "kernel dispatches": (5, BOOT_NS + 100, BOOT_NS + 250, 150),
        "host regions": (3, BOOT_NS - 10, BOOT_NS + 900, 910),
        "memory copies": (2, None, None, None),
        "allocations": (2, BOOT_NS + 1, BOOT_NS + 801, 800),
    }


# Trust


def test_sound_files_are_trusted(tmp_path: Path) -> None:
    inventory = inventory_of(write_small_trace(tmp_path / "a.db"))
    assert inventory.is_trustworthy
    assert inventory.is_complete
    assert inventory.is_simulated


def test_file_without_rows_is_not_trusted(tmp_path: Path) -> None:
    with RocpdWriter(tmp_path / "a.db"):
        pass
    inventory = inventory_of(tmp_path / "a.db")
    assert not inventory.is_trustworthy
    assert "nothing-recorded" in rules(inventory.findings)


@pytest.mark.parametrize(
    "where, is_trusted",
    [
        ("{path}", False),
        ("{path}, table rocpd_event", False),
        ("{path}2", True),
        ("{path}.copy.db, table rocpd_event", True),
        ("another.db", True),
    ],
)
def test_fault_counts_for_its_own_file_only(tmp_path: Path, where: str, is_trusted: bool) -> None:
    path = write_small_trace(tmp_path / "a.db")
    fault = Finding(rule="broken", severity=Severity.FAULT, where=where.format(path=path), message="it is broken")
    inventory = inventory_of(path)
    for severity, expected in ((Severity.FAULT, is_trusted), (Severity.WARNING, True)):
        changed = replace(inventory, findings=(*inventory.findings, replace(fault, severity=severity)))
        assert changed.is_trustworthy is expected


def test_one_good_process_is_enough(tmp_path: Path) -> None:
    with RocpdWriter(tmp_path / "a.db"):
        pass
    inventory = inventory_of(tmp_path / "a.db", write_small_trace(tmp_path / "b.db"))
    assert inventory.is_trustworthy
    assert "nothing-recorded" in rules(inventory.findings)


def test_file_that_breaks_while_it_is_read_has_no_part_in_the_inventory(tmp_path: Path) -> None:
    write_trace(tmp_path / "a.db", TraceShape(dispatches_count=300, pid=1))
    broken = break_table(tmp_path / "a.db", "region")
    good = write_small_trace(tmp_path / "b.db")
    with pytest.raises(DamagedFile) as caught:
        inventory_of(broken)
    assert str(broken) in str(caught.value.where)
    inventory = inventory_of(broken, good)
    assert inventory.is_trustworthy
    assert not inventory.is_complete
    assert set(inventory.contents["run"]) == {"b"}
    [fault] = [finding for finding in inventory.findings if finding.severity is Severity.FAULT]
    assert fault.rule == "rocpd-malformed"
    assert fault.where.startswith(str(broken))
    assert inventory.devices["dispatches_count"].sum() == 5


def test_findings_are_given_once_and_those_of_all_checks_are_there(tmp_path: Path) -> None:
    path = write_small_trace(tmp_path / "a.db")
    edit(path, 'UPDATE "rocpd_kernel_dispatch{_}" SET "end" = "start" - 3 WHERE id = 2')
    with Workspace.open([path]) as workspace:
        expected = workspace.check_health()
        first, second = take_inventory(workspace), take_inventory(workspace)
    assert set(rules(expected)) <= set(rules(first.findings))
    assert "negative-duration" in rules(first.findings)
    assert first.findings == second.findings
    assert len({str(finding) for finding in first.findings}) == len(first.findings)
