"""The most that was allocated on each device, beside what the compiler reserved."""

from __future__ import annotations

import pandas as pd
from spec_frames import make_agents, make_frame

from rocktools.attribution.memory import find_high_water
from rocktools.frames import ALLOCATIONS
from rocktools.hlo.memory_reports import parse_buffer_assignment

AGENTS = [
    {"run": "r", "process": "p", "agent_id": 0, "device": "h:cpu0", "kind": "CPU"},
    {"run": "r", "process": "p", "agent_id": 1, "device": "h:gpu0", "kind": "GPU"},
    {"run": "r", "process": "q", "agent_id": 4, "device": "h:gpu0", "kind": "GPU"},
    {"run": "r", "process": "p", "agent_id": 2, "device": "h:gpu1", "kind": "GPU"},
]
ASSIGNMENT = "BufferAssignment:\nallocation 0: size 700, preallocated-temp:\n"


def _find(rows, assignment=None):
    filled = [
        {"run": "r", "process": "p", "level": "REAL", "kind": "ALLOC", "agent_id": 1, "allocation_id": i, "start_ns": i}
        | row
        for i, row in enumerate(rows)
    ]
    return find_high_water(make_frame(ALLOCATIONS, filled), make_agents(AGENTS), assignment)


def _free(address, **given):
    return {"kind": "FREE", "address": address, "agent_id": None, "size_bytes": None} | given


def test_the_maximum_is_of_what_is_held_at_one_time():
    """100, 150, 50, 90: the second is the most, whatever the sum of all."""
    rows = [
        {"size_bytes": 100, "address": 1},
        {"size_bytes": 50, "address": 2},
        _free(1),
        {"size_bytes": 40, "address": 3},
    ]
    found = _find(rows)
    (row,) = found.frame.to_dict("records")
    assert (row["allocated_bytes"], row["peak_ns"], row["unreleased_bytes"], row["allocations_count"]) == (
        150,
        1,
        90,
        3,
    )
    assert pd.isna(row["reserved_bytes"])
    assert (found.critical_device, found.highest_bytes) == ("h:gpu0", 150)


def test_devices_are_never_added_up():
    rows = [{"size_bytes": 100, "address": 1}, {"size_bytes": 60, "address": 2, "agent_id": 2}]
    found = _find(rows)
    assert found.frame["allocated_bytes"].tolist() == [100, 60]
    assert found.highest_bytes == 100


def test_processes_on_one_device_are():
    rows = [{"size_bytes": 100, "address": 1}, {"size_bytes": 60, "address": 1, "process": "q", "agent_id": 4}]
    assert _find(rows).frame["allocated_bytes"].tolist() == [160]


def test_host_memory_virtual_ranges_and_scratch_are_left_out():
    rows = [
        {"size_bytes": 10, "address": 1},
        {"size_bytes": 999, "address": 2, "agent_id": 0},
        {"size_bytes": 999, "address": 3, "level": "VIRTUAL"},
        {"size_bytes": 999, "address": 4, "level": "SCRATCH"},
    ]
    assert _find(rows).highest_bytes == 10


def test_a_release_of_something_older_is_a_finding():
    found = _find([{"size_bytes": 10, "address": 1}, _free(77)])
    assert [finding.rule for finding in found.findings] == ["release-without-allocation"]
    assert found.highest_bytes == 10


def test_a_second_allocation_at_one_address_replaces_the_first():
    assert (
        _find([{"size_bytes": 10, "address": 1}, {"size_bytes": 30, "address": 1, "kind": "REALLOC"}]).highest_bytes
        == 30
    )


def test_what_the_compiler_reserved_stands_beside_it():
    found = _find([{"size_bytes": 10, "address": 1}], parse_buffer_assignment(ASSIGNMENT, "b.txt"))
    assert found.frame["reserved_bytes"].tolist() == [700]


def test_no_allocations_are_no_figure_and_not_zero():
    found = find_high_water(ALLOCATIONS.empty(), make_agents(AGENTS))
    assert found.frame.empty
    assert (found.critical_device, found.highest_bytes) == (None, None)
