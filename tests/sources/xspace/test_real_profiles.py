"""Recorded profiles against answers of others: exact interval arithmetic, xprof's tables, jax's own reader."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from rocktools.errors import DamagedFile
from rocktools.intervals import union_length
from rocktools.sources.xspace.device_events import read_device_events
from rocktools.sources.xspace.health import check_profile
from rocktools.sources.xspace.host_events import read_host_events
from rocktools.sources.xspace.opening import XSpaceFile, open_xspace
from rocktools.sources.xspace.profiled_devices import read_profiled_devices
from rocktools.sources.xspace.raw_lines import device_planes, raw_lines

GPU_PROFILES = ("mi355_te_fused_attn", "jax08_attention", "jax_conv_minimal_08")
PROFILES = (*GPU_PROFILES, "cpu_moe")
PS_PER_US = 1_000_000


def path_of(shared: Path, name: str) -> Path:
    (path,) = (shared / "data/xplane" / name).glob("*.xplane.pb")
    return path


@pytest.fixture(params=PROFILES)
def profile(shared: Path, request: pytest.FixtureRequest) -> Iterator[XSpaceFile]:
    with open_xspace(path_of(shared, request.param)) as file:
        yield file


@pytest.fixture(params=GPU_PROFILES)
def gpu_profile(shared: Path, request: pytest.FixtureRequest) -> Iterator[tuple[XSpaceFile, Path]]:
    with open_xspace(path_of(shared, request.param)) as file:
        yield file, shared / "data/xplane/expected" / request.param


def rows_of(table: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The rows of a table as xprof writes it for charts."""
    names = [column["id"] for column in table["cols"]]
    return [{name: (cell or {}).get("v") for name, cell in zip(names, row["c"], strict=True)} for row in table["rows"]]


def device_events(file: XSpaceFile) -> pd.DataFrame:
    return read_device_events([file], run="r")


def text(column: pd.Series) -> pd.Series:
    return column.astype(object).where(column.notna(), "")


def test_sums_and_unions_are_exact_in_picoseconds(shared: Path) -> None:
    expected = json.loads((shared / "data/xplane/expected/intervals.json").read_text())
    assert len(expected) == 3
    for name, devices in expected.items():
        with open_xspace(shared / "data/xplane" / name) as file:
            frame = read_profiled_devices([file], run="r").set_index("device")
            for label, plane in device_planes(file.planes):
                row, wanted = frame.loc[label], devices.get(label, {"n": 0, "sum_ps": 0, "union_ps": 0, "lines": {}})
                assert (row["events_count"], row["sum_ps"], row["union_ps"]) == (
                    wanted["n"], wanted["sum_ps"], wanted["union_ps"],
                )  # fmt: skip
                found = {}
                starts, ends = [], []
                for line_name, line in raw_lines(plane):
                    events = line.events([])
                    end = events.offset_ps + events.duration_ps
                    starts.append(int(events.offset_ps.min()))
                    ends.append(int(end.max()))
                    found[line_name] = {
                        "n": len(events),
                        "sum_ps": int(events.duration_ps.sum()),
                        "union_ps": union_length(events.offset_ps, end),
                    }
                assert found == wanted["lines"]
                assert max(ends, default=0) - min(starts, default=0) == wanted.get("span_ps", 0)


def test_annotated_events_of_gpus_and_of_the_cpu(shared: Path) -> None:
    counts = Counter[str]()
    for name in PROFILES:
        with open_xspace(path_of(shared, name)) as file:
            frame = device_events(file)
            counts["gpu"] += len(frame)
            counts["gpu, annotated"] += int(frame["hlo_op"].notna().sum())
            if name == "cpu_moe":
                host = read_host_events([file], run="r")
                counts["cpu, annotated"] = int(host["hlo_op"].notna().sum())
                steps = host[host["step_number"].notna()]
                assert steps["step_number"].tolist() == [0, 1, 2]
                assert set(steps["event_name"]) == {"train"}
    assert counts == {"gpu": 490, "gpu, annotated": 435, "cpu, annotated": 10_248}


@pytest.mark.parametrize(
    "name, count, host", [
        ("mi355_te_fused_attn", 9, "934987a2fc2f"), ("jax08_attention", 31, "tw003"),
        ("jax_conv_minimal_08", 8, "tw003"), ("cpu_moe", 19, "vm"),
    ],
)  # fmt: skip
def test_programs_are_those_that_events_name(shared: Path, name: str, count: int, host: str) -> None:
    with open_xspace(path_of(shared, name)) as file:
        protos = file.hlo_protos()
        assert len(protos) == count
        assert file.host == host
        frames = [device_events(file), read_host_events([file], run="r")]
        named = {program for frame in frames for program in frame["program_id"].dropna()}
        assert named
        assert named <= protos.keys()
        assert not file.is_simulated


def test_every_event_of_a_device_is_as_xprof_exports_it(gpu_profile: tuple[XSpaceFile, Path]) -> None:
    pytest.importorskip("pyarrow")
    file, folder = gpu_profile
    table = pd.read_parquet(folder / "events_db.parquet")
    table = table[table["device"].str.startswith("gpu:")]
    theirs = zip(
        table["device"].str.replace("gpu:", "/device:GPU:"), table["start_ns"].astype("int64"),
        table["end_ns"].astype("int64"), table["kernel_name"], text(table["hlo_op"]), text(table["hlo_module"]),
        table["correlation_id"].astype("int64"), table["stream_id"].astype("int64"),
        text(table["kernel_details"]), strict=True,
    )  # fmt: skip
    frame = device_events(file)
    details = {
        (device, label, index): value
        for device, plane in device_planes(file.planes)
        for label, line in raw_lines(plane)
        for index, value in enumerate(line.events().stat("kernel_details").values())
    }
    keys = zip(frame["device"], frame["line"], frame["event_index"], strict=True)
    ours = zip(
        frame["device"], frame["start_ns"], frame["end_ns"], frame["raw_kernel_name"], text(frame["hlo_op"]),
        text(frame["hlo_module"]), frame["correlation_id"], frame["stream_id"], [details[key] for key in keys],
        strict=True,
    )  # fmt: skip
    assert Counter(ours) == Counter(theirs)


def test_every_event_of_the_host_is_as_xprof_exports_it(gpu_profile: tuple[XSpaceFile, Path]) -> None:
    pytest.importorskip("pyarrow")
    file, folder = gpu_profile
    table = pd.read_parquet(folder / "events_db.parquet")
    table = table[table["device"] == "cpu:0"]
    theirs = zip(
        table["thread_name"], table["start_ns"].astype("int64"), table["end_ns"].astype("int64"), table["kernel_name"],
        strict=True,
    )  # fmt: skip
    frame = read_host_events([file], run="r")
    ours = zip(frame["line"], frame["start_ns"], frame["end_ns"], frame["event_name"], strict=True)
    assert Counter(ours) == Counter(theirs)


def test_time_of_every_instruction_is_that_of_hlo_stats(gpu_profile: tuple[XSpaceFile, Path]) -> None:
    file, folder = gpu_profile
    frame = device_events(file)
    sums = frame.groupby(["program_id", "hlo_op"], observed=True)["duration_ps"].agg(["sum", "count"])
    rows = rows_of(json.loads((folder / "hlo_stats.json").read_text()))
    assert len(rows) == len(sums)
    for row in rows:
        ours = sums.loc[row["program_id"], row["hlo_op_name"]]
        assert int(ours["sum"]) == round(row["total_self_time"] * PS_PER_US)
        assert int(ours["count"]) == row["occurrences"]


def test_time_of_every_kernel_is_that_of_kernel_stats(gpu_profile: tuple[XSpaceFile, Path]) -> None:
    file, folder = gpu_profile
    frame = device_events(file)
    # The table has a row for each kernel, geometry and op; times in microseconds with three digits.
    table = pd.DataFrame(rows_of(json.loads((folder / "kernel_stats.json").read_text())))
    geometry = [
        ",".join(str(row[f"grid_workitems_{axis}"] // row[f"workgroup_workitems_{axis}"]) for axis in "xyz")
        + " "
        + ",".join(str(row[f"workgroup_workitems_{axis}"]) for axis in "xyz")
        for row in frame.to_dict("records")
    ]
    ours = frame.groupby([text(frame["raw_kernel_name"]), geometry])["duration_ps"].agg(["sum", "count", "min", "max"])
    keys = [table["kernel_name"], table["grid_dim"] + " " + table["block_dim"]]
    theirs = table.groupby(keys).agg(
        {"total_duration_us": "sum", "occurrences": "sum", "min_duration_us": "min", "max_duration_us": "max"}
    )
    assert ours.index.equals(theirs.index)
    assert ours["count"].tolist() == theirs["occurrences"].tolist()
    for column, their_column in (("sum", "total_duration_us"), ("min", "min_duration_us"), ("max", "max_duration_us")):
        assert ours[column].tolist() == [round(value * PS_PER_US) for value in theirs[their_column]]


def test_time_of_devices_and_of_launches_is_that_of_framework_op_stats(gpu_profile: tuple[XSpaceFile, Path]) -> None:
    file, folder = gpu_profile
    _, without_idle = json.loads((folder / "framework_op_stats.json").read_text())
    theirs: Counter[str] = Counter()
    for row in rows_of(without_idle):
        theirs[row["host_or_device"]] += round(row["total_self_time"] * PS_PER_US)
    device, host = device_events(file), read_host_events([file], run="r")
    assert theirs["Device"] == device.loc[device["hlo_op"].notna(), "duration_ps"].sum()
    assert theirs["Host"] == host.loc[host["hlo_op"].notna(), "duration_ps"].sum()


def test_everything_is_as_the_reader_of_jax_gives_it(profile: XSpaceFile) -> None:
    profiler = pytest.importorskip("jax.profiler")
    if getattr(profiler, "ProfileData", None) is None:
        pytest.skip("this jax has no reader of profiles")
    theirs = profiler.ProfileData.from_file(str(profile.path))
    for our_plane, their_plane in zip(profile.planes, theirs.planes, strict=True):
        assert our_plane.name == their_plane.name
        # Bytes are handed over in other ways by versions of it.
        ours = {name: value for name, value in our_plane.stats.items() if not isinstance(value, bytes)}
        assert ours == {name: value for name, value in their_plane.stats if name in ours}
        for line, their_line in zip(our_plane.lines, their_plane.lines, strict=True):
            assert line.name == their_line.name
            events = line.events()
            names = events.names()
            columns = {name: events.stat(name).values() for name in events.stat_names}
            for row, their_event in enumerate(their_line.events):
                assert names.names[names.codes[row]] == their_event.name
                assert float(events.duration_ps[row]) / 1000 == their_event.duration_ns
                found = {name: column[row] for name, column in columns.items() if column[row] is not None}
                assert found == dict(their_event.stats)


def test_both_decoders_give_the_same_frames(profile: XSpaceFile) -> None:
    pytest.importorskip("numba")
    with open_xspace(profile.path, accelerate=True) as compiled:
        for read in (read_device_events, read_host_events):
            pd.testing.assert_frame_equal(read([profile], run="r"), read([compiled], run="r"))


def test_doubts_about_recorded_profiles(shared: Path) -> None:
    rules = {}
    for name in PROFILES:
        with open_xspace(path_of(shared, name)) as file:
            rules[name] = {finding.rule for finding in check_profile(file)}
    assert rules == {
        "mi355_te_fused_attn": set(),
        "jax08_attention": {"kernels-without-annotation"},
        "jax_conv_minimal_08": {"kernels-without-annotation"},
        "cpu_moe": {"no-device-plane"},
    }


def test_a_profile_that_was_saved_as_text_is_refused_once_and_clearly(shared: Path) -> None:
    path = path_of(shared, "corrupt")
    with pytest.raises(DamagedFile, match="cut off or damaged") as caught:
        open_xspace(path)
    assert caught.value.where == f"{path}, byte 0"


def test_facts_of_recorded_devices(shared: Path) -> None:
    with open_xspace(path_of(shared, "mi355_te_fused_attn")) as file:
        frame = read_profiled_devices([file], run="r")
    assert len(frame) == 8
    assert frame.loc[0, ["arch", "cu_count", "clock_hz"]].tolist() == ["gfx950", 256, 2_400_000_000]
    assert frame["arch"].notna().sum() == 1
    with open_xspace(path_of(shared, "jax08_attention")) as file:
        assert set(read_profiled_devices([file], run="r")["arch"]) == {"gfx942"}
