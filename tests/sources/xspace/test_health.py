"""Findings about profiles, each with the numbers it rests on."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from rocktools.demo.xspace_writer import (
    HOST_PLANE,
    EventRecord,
    LineRecord,
    PlaneRecord,
    SpaceRecord,
    Unsigned,
    annotation_stats,
    gpu_plane,
    kernel_event,
    metadata_plane,
    write_xspace,
)
from rocktools.findings import Finding, Severity
from rocktools.sources.xspace import health
from rocktools.sources.xspace.health import check_profile
from rocktools.sources.xspace.opening import open_xspace

PROTOS = metadata_plane({"jit_f(1)": b"\x0a\x02\x28\x01"})


def kernel(correlation_id: int, hlo_op: str | None = "dot.1", duration_ps: int = 100) -> EventRecord:
    return kernel_event(
        "k",
        offset_ps=correlation_id * 1000,
        duration_ps=duration_ps,
        correlation_id=correlation_id,
        annotation=None if hlo_op is None else annotation_stats(hlo_op, "jit_f", 1),
    )


def calls(*correlation_ids: int, name: str = "hipModuleLaunchKernel") -> PlaneRecord:
    events = [EventRecord(name=name, stats={"correlation_id": Unsigned(number)}) for number in correlation_ids]
    return PlaneRecord(name=HOST_PLANE, lines=[LineRecord(name="Host Threads/7", events=events)])


def check(folder: Path, *planes: PlaneRecord, **space: Any) -> dict[str, Finding]:
    path = write_xspace(folder / "a.pb", SpaceRecord(planes=planes, **space))
    with open_xspace(path) as file:
        findings = check_profile(file)
    assert all(finding.where == str(path) for finding in findings)
    return {finding.rule: finding for finding in findings}


def gpu(events: Sequence[EventRecord]) -> PlaneRecord:
    return gpu_plane(0, [LineRecord(name="Stream #1", events=events)])


def test_a_good_profile_raises_no_doubt(tmp_path: Path) -> None:
    assert check(tmp_path, gpu([kernel(1), kernel(2)]), calls(1, 2), PROTOS) == {}


def test_messages_of_the_profiler_are_passed_on(tmp_path: Path) -> None:
    found = check(tmp_path, gpu([kernel(1)]), PROTOS, errors=["no  tracer\n"], warnings=["slow"])
    assert found["profiler-error"].severity is Severity.WARNING
    assert found["profiler-error"].message == "the profiler says: no  tracer"
    assert found["profiler-warning"].severity is Severity.NOTE


def test_many_messages_are_counted(tmp_path: Path) -> None:
    path = write_xspace(tmp_path / "a.pb", SpaceRecord(planes=[gpu([kernel(1)]), PROTOS], errors=["e"] * 50))
    with open_xspace(path) as file:
        messages = [finding.message for finding in check_profile(file)]
    assert "the profiler says 47 things more" in messages
    assert len(messages) == 4


def test_a_profile_of_the_cpu_backend(tmp_path: Path) -> None:
    assert set(check(tmp_path, PROTOS)) == {"no-device-plane"}


def test_devices_on_which_nothing_ran(tmp_path: Path) -> None:
    found = check(tmp_path, gpu_plane(0, []), gpu_plane(1, []), PROTOS)
    assert set(found) == {"no-device-events"}
    assert found["no-device-events"].numbers == {"devices_count": 2}


def test_no_programs(tmp_path: Path) -> None:
    assert set(check(tmp_path, gpu([kernel(1)]))) == {"no-hlo-protos"}


@pytest.mark.parametrize("unnamed_ps, severity", [(1, Severity.NOTE), (100, Severity.WARNING)])
def test_kernels_without_annotation_weigh_by_their_time(tmp_path: Path, unnamed_ps: int, severity: Severity) -> None:
    found = check(tmp_path, gpu([kernel(1, duration_ps=99), kernel(2, None, unnamed_ps)]), PROTOS)
    finding = found["kernels-without-annotation"]
    assert finding.severity is severity
    assert finding.numbers["unannotated_count"] == 1
    assert finding.numbers["kernels_count"] == 2
    assert finding.numbers["unannotated_time_ratio"] == pytest.approx(unnamed_ps / (99 + unnamed_ps))


def test_command_buffers(tmp_path: Path) -> None:
    events = [kernel(5, "command_buffer_12"), kernel(5, "command_buffer_12"), kernel(6)]
    finding = check(tmp_path, gpu(events), PROTOS)["command-buffers"]
    assert finding.severity is Severity.WARNING
    assert finding.numbers["kernels_in_graphs_count"] == 2
    assert finding.numbers["sharing_kernels_count"] == 2
    assert finding.numbers["graph_time_ratio"] == pytest.approx(2 / 3)
    assert "--xla_gpu_enable_command_buffer=" in finding.advice


def test_one_launch_of_two_kernels_is_no_command_buffer(tmp_path: Path) -> None:
    events = [kernel(number) for number in range(1, 60)]
    assert "command-buffers" not in check(tmp_path, gpu([*events, kernel(59)]), PROTOS)


def test_launches_whose_kernels_are_missing(tmp_path: Path) -> None:
    found = check(tmp_path, gpu([kernel(1)]), calls(1, 2, 3), PROTOS)
    assert found["launches-without-kernel"].numbers == {"launches_without_kernel_count": 2}
    assert "2 of 3" in found["launches-without-kernel"].message


def test_calls_that_launch_nothing_need_no_kernel(tmp_path: Path) -> None:
    assert check(tmp_path, gpu([kernel(1)]), calls(2, name="hipMemcpyDtoDAsync"), PROTOS) == {}


def test_as_many_events_as_the_tracer_keeps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert health._EVENTS_CAP == 4_194_304
    monkeypatch.setattr(health, "_EVENTS_CAP", 4)
    monkeypatch.setattr(health, "_NEAR_CAP", 4)
    for count, is_found in ((3, False), (4, True), (5, False)):
        found = check(tmp_path, gpu([kernel(number + 1) for number in range(count)]), PROTOS)
        assert ("events-at-cap" in found) is is_found


def test_what_is_left_out_is_told(tmp_path: Path) -> None:
    lines = [
        LineRecord(name="Stream #1", events=[kernel(1), EventRecord(name="sum", occurrences=9, duration_ps=5)]),
        LineRecord(name="XLA Ops", id=0xDEADBEEF, events=[kernel(1)]),
    ]
    found = check(tmp_path, gpu_plane(0, lines), PROTOS)
    assert found["derived-lines"].numbers == {"derived_lines_count": 1}
    assert found["aggregated-events"].numbers == {"aggregated_events_count": 1}
