"""JAX profiles as files of a workspace: kernels counted once, frames of their own, damage in one costs only itself."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pandas as pd
import pytest
from rocpd_files import rules
from tiny_run import HOST, starts_by_instruction, tiny_trace, write_tiny_profile, write_tiny_run, write_tiny_trace

from rocktools.demo.xspace_writer import EventRecord, LineRecord, PlaneRecord, SpaceRecord, write_xspace
from rocktools.errors import DamagedFile, NothingToRead
from rocktools.frames import SPECS, require_frame
from rocktools.workspace.inventory import take_inventory
from rocktools.workspace.workspace import READ_FRAMES, Workspace

OF_PROFILES = ("DEVICE_EVENTS", "HOST_EVENTS", "PROFILED_DEVICES")


@pytest.fixture(scope="module")
def trace():  # type: ignore[no-untyped-def]
    return tiny_trace()


def contents_of(workspace: Workspace) -> list[tuple[str, int]]:
    """Subject and count of each row; those that are indented are parts of the one above."""
    rows = take_inventory(workspace).contents
    return list(zip(rows["subject"], rows["rows_count"], strict=True))


def test_kernels_of_a_profile_are_dispatches_with_the_times_of_the_run(tmp_path: Path, trace) -> None:
    with Workspace.open([write_tiny_profile(tmp_path / "a.xplane.pb", trace)]) as workspace:
        found = workspace.dispatches()
    truth = trace.dispatches
    assert list(found["kernel_name"]) == list(truth["kernel_name"])
    assert list(found["end_ns"] - found["start_ns"]) == list(truth["end_ns"] - truth["start_ns"])
    assert list(found["grid_workitems_x"]) == list(truth["grid_workitems_x"])
    assert set(found["process"]) == {HOST}


@pytest.mark.parametrize("name", READ_FRAMES)
def test_every_frame_keeps_its_contract_with_a_profile_alone(tmp_path: Path, trace, name: str) -> None:
    with Workspace.open([write_tiny_profile(tmp_path / "a.xplane.pb", trace)]) as workspace:
        require_frame(workspace.frame(name), SPECS[name])
        key = SPECS[name].select([])
        assert tuple(workspace.frame(name, []).columns) == key


@pytest.mark.parametrize("name", OF_PROFILES)
def test_a_trace_alone_has_no_rows_of_profiles(tmp_path: Path, trace, name: str) -> None:
    with Workspace.open([write_tiny_trace(tmp_path / "1_results.db", trace)]) as workspace:
        assert workspace.frame(name).empty


def test_a_profile_by_any_name_is_told_by_its_content(tmp_path: Path, trace) -> None:
    with Workspace.open([write_tiny_profile(tmp_path / "profile", trace)]) as workspace:
        assert len(workspace.dispatches()) == len(trace.dispatches)


def test_a_packed_profile_is_the_same(tmp_path: Path, trace) -> None:
    frames = []
    for name in ("a.xplane.pb", "a.xplane.pb.gz"):
        (tmp_path / name).mkdir()
        with Workspace.open([write_tiny_profile(tmp_path / name / name, trace).parent]) as workspace:
            frames.append(workspace.dispatches().drop(columns="run"))
    pd.testing.assert_frame_equal(*frames)


def test_hosts_of_one_run_are_processes_and_devices_of_their_own(tmp_path: Path, trace) -> None:
    for host in ("b", "a"):
        write_tiny_profile(tmp_path / f"{host}.xplane.pb", trace, host=host)
    with Workspace.open([tmp_path]) as workspace:
        dispatches = workspace.dispatches()
        assert dispatches["process"].value_counts().to_dict() == {"a": 507, "b": 507}
        assert list(dict.fromkeys(dispatches["process"])) == ["a", "b"]
        assert sorted(workspace.agents()["device"]) == ["a:gpu0", "b:gpu0"]


def test_two_profiles_of_one_host_get_two_labels(tmp_path: Path, trace) -> None:
    for name in ("first", "second"):
        write_tiny_profile(tmp_path / f"{name}.xplane.pb", trace)
    with Workspace.open([tmp_path]) as workspace:
        assert set(workspace.dispatches()["process"]) == {HOST, f"{HOST}#2"}
        assert set(workspace.device_events()["host"]) == {HOST, f"{HOST}#2"}


def test_a_simulated_profile_says_so(tmp_path: Path, trace) -> None:
    with Workspace.open([write_tiny_profile(tmp_path / "a.xplane.pb", trace)]) as workspace:
        assert workspace.is_simulated
        assert list(workspace.processes()["is_simulated"]) == [True]
        assert list(workspace.processes()["content"]) == ["profile"]


# Beside a trace


def test_kernels_that_were_traced_and_profiled_are_counted_once(tmp_path: Path, trace) -> None:
    run = write_tiny_run(tmp_path / "run", trace=trace, profile=trace)
    with Workspace.open([run]) as workspace:
        assert len(workspace.dispatches()) == len(trace.dispatches)
        assert HOST not in set(workspace.dispatches()["process"])
        assert len(workspace.agents()) == len(workspace.agents()["device"].unique())
        assert [finding.rule for finding in workspace.findings] == ["profile-beside-trace"]
        # What the profile alone has is there.
        assert len(workspace.device_events()) == len(trace.dispatches)
        assert take_inventory(workspace).devices["dispatches_count"].sum() == len(trace.dispatches)


def test_a_profile_of_a_run_that_is_named_itself_has_its_kernels(tmp_path: Path, trace) -> None:
    run = write_tiny_run(tmp_path / "run", trace=trace, profile=trace)
    (path,) = run.rglob("*.xplane.pb")
    with Workspace.open([path]) as workspace:
        assert set(workspace.dispatches()["process"]) == {HOST}
        assert rules(workspace.findings) == []


# Inventory


def test_inventory_counts_what_was_written(tmp_path: Path, trace) -> None:
    with Workspace.open([write_tiny_profile(tmp_path / "a.xplane.pb", trace)]) as workspace:
        assert contents_of(workspace) == [
            ("kernel dispatches", len(trace.dispatches)),
            ("  with an HLO instruction", sum(starts_by_instruction(trace).values())),
            ("host events", 0),
            ("  with an HLO instruction", 0),
            ("compiled programs", 0),
        ]


def test_inventory_counts_steps(tmp_path: Path) -> None:
    steps = [
        EventRecord(name="train", offset_ps=n * 1000, duration_ps=500, stats={"step_num": n, "_r": 1}) for n in range(3)
    ]
    plane = PlaneRecord(name="/host:CPU", lines=[LineRecord(name="python", id=1, events=steps)])
    path = write_xspace(tmp_path / "a.xplane.pb", SpaceRecord(planes=[plane], hostnames=["h"]))
    with Workspace.open([path]) as workspace:
        assert ("  steps", 3) in contents_of(workspace)


# Damage


def test_a_damaged_profile_alone_is_its_own_error(tmp_path: Path, trace) -> None:
    path = write_tiny_profile(tmp_path / "a.xplane.pb", trace)
    path.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(DamagedFile, match="xspace-damaged"), Workspace.open([path]) as workspace:
        workspace.dispatches()


def test_a_damaged_profile_among_others_is_a_fault(tmp_path: Path, trace) -> None:
    good = write_tiny_profile(tmp_path / "good.xplane.pb", trace)
    (tmp_path / "bad.xplane.pb").write_bytes(good.read_bytes()[:-100])
    with Workspace.open([tmp_path]) as workspace:
        assert len(workspace.dispatches()) == len(trace.dispatches)
        (finding,) = workspace.findings
        assert finding.where.startswith(str(tmp_path / "bad.xplane.pb"))


def test_a_profile_without_kernels_has_no_dispatches_and_is_told_where_to_look(tmp_path: Path) -> None:
    path = write_xspace(tmp_path / "a.xplane.pb", SpaceRecord(planes=[], hostnames=["h"]))
    with (
        Workspace.open([path]) as workspace,
        pytest.raises(NothingToRead, match=r"those of the CPU backend have no kernels(?s:.*)rocktools link"),
    ):
        workspace.require_dispatches()


# Real profiles: counts of the index of the files


def test_real_profile(shared: Path) -> None:
    with Workspace.open([shared / "data" / "xplane" / "mi355_te_fused_attn"]) as workspace:
        found = contents_of(workspace)
        assert len(workspace.dispatches()) == 150
    assert ("kernel dispatches", 150) in found
    assert ("compiled programs", 9) in found


def test_real_profile_of_the_cpu_has_host_events_and_steps(shared: Path) -> None:
    with Workspace.open([shared / "data" / "xplane" / "cpu_moe"]) as workspace:
        events = workspace.host_events(["hlo_op", "step_number"])
        assert int(events["hlo_op"].notna().sum()) == 10_248
        assert ("  steps", 3) in contents_of(workspace)
        assert workspace.dispatches().empty


@pytest.mark.parametrize("arguments", [["corrupt"], ["corrupt", "mi355_te_fused_attn"]])
def test_real_damage_is_an_error_or_a_fault(shared: Path, arguments: Sequence[str]) -> None:
    paths = [shared / "data" / "xplane" / name for name in arguments]
    if len(paths) == 1:
        with pytest.raises(DamagedFile, match="xspace-damaged"):
            Workspace.open(paths)
    else:
        with Workspace.open(paths) as workspace:
            assert rules(workspace.findings) == ["xspace-damaged"]
