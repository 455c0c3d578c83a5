"""Kernels of a JAX profile in the frames of a trace."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd
import pytest
from spec_frames import make_frame

from rocktools.frames import AGENTS, DEVICE_EVENTS, DISPATCHES, PROFILED_DEVICES, require_frame
from rocktools.timeline.profile_dispatches import EVENT_COLUMNS, ProfileDispatches, dispatches_of_profile


def convert(
    events: Sequence[Mapping[str, Any]], devices: Sequence[str] = ("/device:GPU:0",), hosts: Sequence[str] = ("h",)
) -> ProfileDispatches:
    place = {"run": "r", "host": "h", "device": "/device:GPU:0", "line": "Stream #1(Kernel)", "kind": "kernel"}
    rows = [{**place, "event_index": number, "kernel_name": "k", **event} for number, event in enumerate(events)]
    known = [{"run": "r", "host": host, "device": device} for host in hosts for device in devices]
    frame = make_frame(DEVICE_EVENTS, rows)
    return dispatches_of_profile(frame[list(EVENT_COLUMNS)], make_frame(PROFILED_DEVICES, known))


def test_only_kernels_are_dispatches() -> None:
    kinds = ["kernel", "copy", "memset", "kernel", "memory"]
    found = convert([{"kind": kind, "start_ns": 10 * number} for number, kind in enumerate(kinds)])
    assert list(found.dispatches["start_ns"]) == [0, 30]
    assert list(found.event_rows) == [0, 3]


def test_dispatches_are_numbered_in_the_order_of_start_over_all_lines() -> None:
    """
    Stream #1   ##  ##
    Stream #2     ##
    """
    lines = ["Stream #1(Kernel)", "Stream #1(Kernel)", "Stream #2(Kernel)"]
    starts = [0, 40, 20]
    found = convert([{"line": line, "start_ns": start} for line, start in zip(lines, starts, strict=True)])
    assert list(found.dispatches["dispatch_id"]) == [0, 1, 2]
    assert list(found.dispatches["start_ns"]) == [0, 20, 40]
    assert list(found.event_rows) == [0, 2, 1]


def test_hosts_are_processes_with_numbers_of_their_own() -> None:
    found = convert([{"host": host, "start_ns": start} for start, host in enumerate("baab")], hosts=("a", "b"))
    rows = found.dispatches
    assert list(zip(rows["process"], rows["dispatch_id"], strict=True)) == [("a", 0), ("a", 1), ("b", 0), ("b", 1)]


def test_the_number_of_a_plane_is_that_of_the_agent_and_of_its_label() -> None:
    planes = ["/device:GPU:0", "/device:GPU:11"]
    found = convert([{"device": planes[1]}, {"device": planes[0]}], devices=planes)
    assert sorted(found.dispatches["agent_id"]) == [0, 11]
    agents = require_frame(found.agents, AGENTS)
    assert dict(zip(agents["agent_id"], agents["device"], strict=True)) == {0: "h:gpu0", 11: "h:gpu11"}
    assert set(agents["kind"]) == {"GPU"}


def test_planes_without_a_number_get_different_ones() -> None:
    planes = ["/device:CUSTOM:a", "/device:CUSTOM:b", "/device:GPU:0"]
    found = convert([{"device": plane, "start_ns": n} for n, plane in enumerate(planes)], devices=planes)
    assert len(set(found.dispatches["agent_id"])) == 3
    assert set(found.dispatches["agent_id"]) == set(found.agents["agent_id"])


def test_what_a_profile_records_is_there_and_the_rest_is_missing() -> None:
    given = {
        "start_ns": 5,
        "end_ns": 9,
        "stream_id": 3,
        "grid_workitems_x": 512,
        "workgroup_workitems_x": 256,
        "lds_bytes": 1024,
        "scratch_bytes": 16,
        "correlation_id": 77,
        "raw_kernel_name": "k.kd",
    }
    found = convert([given])
    (row,) = require_frame(found.dispatches, DISPATCHES).to_dict("records")
    assert {name: row[name] for name in given if name != "correlation_id"} == {
        name: value for name, value in given.items() if name != "correlation_id"
    }
    assert row["host_call_id"] == 77
    for name in ("queue_id", "thread_id", "vgpr_count", "range", "graph_exec_id"):
        assert pd.isna(row[name])


@pytest.mark.parametrize("seed", range(5))
def test_any_order_of_events_gives_the_same_dispatches(seed: int) -> None:
    events = [
        {
            "line": f"Stream #{number % 3}(Kernel)",
            "event_index": number,
            "start_ns": number // 2,
            "kernel_name": f"k{number}",
        }
        for number in range(20)
    ]
    shuffled = random.Random(seed).sample(events, len(events))
    first, second = convert(events).dispatches, convert(shuffled).dispatches
    assert list(first["kernel_name"]) == list(second["kernel_name"])
    assert list(first["start_ns"]) == sorted(first["start_ns"])


def test_no_events_are_no_dispatches() -> None:
    found = convert([])
    assert require_frame(found.dispatches, DISPATCHES).empty
    assert len(found.agents) == 1
    nothing = dispatches_of_profile(DEVICE_EVENTS.empty(EVENT_COLUMNS), PROFILED_DEVICES.empty())
    assert nothing.dispatches.empty
    assert nothing.agents.empty
