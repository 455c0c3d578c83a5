"""Large profiles are what they say they are: read back by protobuf, and with rocktools' own reader."""

from __future__ import annotations

from pathlib import Path

import pytest

from rocktools.demo.xspace_bulk import BulkShape, write_bulk_xspace
from rocktools.sources.xspace.device_events import read_device_events
from rocktools.sources.xspace.health import check_profile
from rocktools.sources.xspace.host_events import read_host_events
from rocktools.sources.xspace.opening import open_xspace

SHAPE = BulkShape(dispatches_count=2_003, gpus_count=3)


def test_totals_are_what_jax_reads(tmp_path: Path) -> None:
    profiler = pytest.importorskip("jax.profiler")
    totals = write_bulk_xspace(tmp_path / "a.pb", SHAPE)
    events_count = stats_count = 0
    sum_ns = device_ns = 0.0
    for plane in profiler.ProfileData.from_file(str(tmp_path / "a.pb")).planes:
        for line in plane.lines:
            for event in line.events:
                events_count += 1
                stats_count += len(dict(event.stats))
                sum_ns += event.duration_ns
                device_ns += event.duration_ns if plane.name.startswith("/device:") else 0
    assert (events_count, stats_count) == (totals.events_count, totals.stats_count)
    assert (round(sum_ns * 1000), round(device_ns * 1000)) == (totals.sum_ps, totals.device_sum_ps)


def test_totals_are_what_rocktools_reads_and_nothing_is_odd(tmp_path: Path) -> None:
    totals = write_bulk_xspace(tmp_path / "a.pb", SHAPE)
    with open_xspace(tmp_path / "a.pb") as file:
        assert file.is_simulated
        device, host = read_device_events([file], run="r"), read_host_events([file], run="r")
        assert {finding.rule for finding in check_profile(file)} == {"no-hlo-protos"}
    assert len(device) + len(host) == totals.events_count
    assert device["duration_ps"].sum() == totals.device_sum_ps
    assert device["duration_ps"].sum() + host["duration_ps"].sum() == totals.sum_ps
    assert set(device["kind"]) == {"kernel"}
    assert device["hlo_op"].nunique() == host["hlo_op"].nunique() == SHAPE.instructions_count
    assert sorted(device["correlation_id"]) == sorted(host["correlation_id"]) == list(range(1, 2_004))
    starts = device.sort_values("correlation_id")["start_ns"].to_numpy()
    assert (starts[3:] > starts[:-3]).all(), "the dispatches of one GPU follow each other"


def test_equal_shapes_give_equal_bytes_of_the_promised_size(tmp_path: Path) -> None:
    for name in "ab":
        write_bulk_xspace(tmp_path / name, BulkShape(dispatches_count=10_000))
    content = (tmp_path / "a").read_bytes()
    assert content == (tmp_path / "b").read_bytes()
    assert 60 < len(content) / 20_000 < 70
    write_bulk_xspace(tmp_path / "b", BulkShape(dispatches_count=10_000, seed=2))
    assert content != (tmp_path / "b").read_bytes()
