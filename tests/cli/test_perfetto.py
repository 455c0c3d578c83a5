"""`rocktools perfetto`: what the picture shows is what the other commands count."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path

import pytest
from command_line import CommandLine
from perfetto_reader import ReadTrace, read_perfetto
from scoped_run import rank_trace, write_scoped_run


@pytest.fixture(scope="module")
def run_path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_scoped_run(tmp_path_factory.mktemp("perfetto") / "run", ranks=(0, 1), devices_count=2)


@pytest.fixture
def picture(run: CommandLine, run_path: Path, tmp_path: Path) -> ReadTrace:
    ran = run("perfetto", run_path, "-o", tmp_path / "run.pftrace")
    assert ran.code == 0
    assert "SIMULATED" in ran.out
    return read_perfetto((tmp_path / "run.pftrace").read_bytes())


def test_every_dispatch_is_a_slice_with_its_place_in_the_model(run, run_path, picture):
    shown = [s for s in picture.slices if s.category == "device"]
    assert len(shown) == sum(len(rank_trace(rank, devices_count=2).dispatches) for rank in (0, 1))
    rows = run.rows("frame", "ATTRIBUTED", run_path)
    wanted = sorted((row["name"], row["start_ns"], row["end_ns"], row["phase"], row["instruction"]) for row in rows)
    got = [(s.name, s.start_ns, s.end_ns, s.arguments["phase"], s.arguments.get("instruction")) for s in shown]
    assert sorted(got) == wanted
    one = next(s for s in shown if s.arguments.get("instruction") == "gemm_fusion_dot.1")
    assert one.arguments["component"] == "expert_mlp"
    assert one.arguments["confidence"] == "certain"
    assert one.arguments["grid_workitems_x"] > 0


def test_every_dispatch_that_names_its_call_has_an_arrow(picture):
    leaving = {number: s for s in picture.slices for number in s.flows_out}
    arriving = {number: s for s in picture.slices for number in s.flows_in}
    assert leaving.keys() == arriving.keys()
    assert len(arriving) == len([s for s in picture.slices if s.category == "device"])
    for number, call in leaving.items():
        assert call.start_ns <= arriving[number].start_ns
        assert call.category == "calls"


def test_time_without_compute_is_what_overlap_says(run, run_path, tmp_path):
    ran = run("perfetto", run_path, "--step", 1, "--device", "node0:gpu0", "-o", tmp_path / "one.pftrace")
    assert ran.code == 0
    read = read_perfetto((tmp_path / "one.pftrace").read_bytes())
    lengths: dict[str, int] = defaultdict(int)
    for s in read.slices:
        if s.category == "not_computing":
            lengths[s.name] += s.end_ns - s.start_ns
    [row] = run.rows("overlap", run_path, "--step", 1, "--device", "node0:gpu0")
    assert lengths == {
        "exposed communication": row["exposed_communication_ns"],
        "exposed copy": row["exposed_copy_ns"],
        "idle": row["idle_ns"],
    }
    [step] = [s for s in read.slices if s.category == "step"]
    assert step.end_ns - step.start_ns == row["step_ns"]
    assert {s.group for s in read.slices if s.category == "device"} == {"SIMULATED device node0:gpu0"}


def test_the_host_is_left_out_or_reduced_to_launches(run, run_path, tmp_path):
    counts = {}
    for host in ("all", "launches", "none"):
        assert run("perfetto", run_path, "--host", host, "-o", tmp_path / f"{host}.pftrace").code == 0
        read = read_perfetto((tmp_path / f"{host}.pftrace").read_bytes())
        counts[host] = sum(s.category == "calls" for s in read.slices)
    assert counts["none"] == 0 < counts["launches"] <= counts["all"]


def test_a_file_that_exists_is_left_alone(run, run_path, tmp_path):
    path = tmp_path / "mine.pftrace"
    path.write_text("mine", encoding="utf-8")
    ran = run("perfetto", run_path, "-o", path)
    assert ran.code == 2
    assert path.read_text(encoding="utf-8") == "mine"


@pytest.mark.conformance
def test_a_real_profile_becomes_a_picture(run, shared, tmp_path):
    ran = run("perfetto", shared / "data/xplane/mi355_te_fused_attn", "-o", tmp_path / "real.pftrace")
    assert ran.code == 0
    read = read_perfetto((tmp_path / "real.pftrace").read_bytes())
    device = [s for s in read.slices if s.category == "device"]
    assert len(device) == 150
    assert all("instruction" in s.arguments for s in device)
    assert sum(len(s.flows_in) for s in read.slices) == sum(len(s.flows_out) for s in read.slices) > 0


@pytest.mark.conformance
def test_real_samples_become_values_over_time(run, shared, tmp_path):
    path = shared / "data/rocpd/rocprofsys-mi350x.db"
    assert run("perfetto", path, "-o", tmp_path / "real.pftrace").code == 0
    read = read_perfetto((tmp_path / "real.pftrace").read_bytes())
    rows = [row for row in run.rows("frame", "SAMPLES", path) if row["value"] is not None]
    assert sum(map(len, read.values.values())) == len(rows) == 752
    power = [(row["time_ns"], row["value"]) for row in rows if row["track"] == "device_power [0]"]
    assert read.values["device_power [0]"] == sorted(power)
