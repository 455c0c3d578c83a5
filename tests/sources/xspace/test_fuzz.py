"""Damaged profiles: every frame and every check ends in a result or in an error of ours, never in anything else."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path

import pytest

from rocktools.demo.xspace_writer import (
    HOST_PLANE,
    EventRecord,
    LineRecord,
    PlaneRecord,
    SpaceRecord,
    annotation_stats,
    environment_plane,
    gpu_plane,
    kernel_event,
    metadata_plane,
    write_xspace,
)
from rocktools.errors import InputError
from rocktools.sources.xspace.device_events import read_device_events
from rocktools.sources.xspace.health import check_profile
from rocktools.sources.xspace.host_events import read_host_events
from rocktools.sources.xspace.opening import open_xspace
from rocktools.sources.xspace.profiled_devices import read_profiled_devices

MUTANTS_COUNT = 150


def small_profile(path: Path) -> Path:
    kernels = [
        kernel_event(
            f"k{number % 3}",
            offset_ps=number * 10_000,
            duration_ps=5_000,
            correlation_id=number,
            annotation=annotation_stats(f"fusion.{number % 3}", "jit_f", 3, "jit(f)/dot"),
        )
        for number in range(1, 20)
    ]
    python = [EventRecord(name="train", stats={"_r": 1, "step_num": 4, "ratio": 0.5, "raw": b"abc"})]
    return write_xspace(
        path,
        SpaceRecord(
            planes=[
                metadata_plane({"jit_f(3)": b"\x0a\x02\x28\x03"}),
                gpu_plane(0, [LineRecord(name="Stream #1", timestamp_ns=500, events=kernels)]),
                PlaneRecord(name=HOST_PLANE, lines=[LineRecord(name="python", events=python)]),
                environment_plane(),
            ],
        ),
    )


def mutate(content: bytes, rng: random.Random) -> bytes:
    damaged = bytearray(content)
    kind = rng.randrange(4)
    if kind == 0:
        return bytes(damaged[: rng.randrange(1, len(damaged))])
    for _ in range(rng.choice((1, 3, 20))):
        place = rng.randrange(len(damaged))
        if kind == 1:
            damaged[place] ^= 1 << rng.randrange(8)
        elif kind == 2:
            damaged[place] = rng.choice((0x00, 0x7F, 0x80, 0xFF, 0x22, 0x0B))
        else:
            del damaged[place : place + rng.randrange(1, 9)]
    return bytes(damaged)


def outcome(path: Path) -> str:
    """How reading everything ends: `read`, or the reference of the error."""
    try:
        with open_xspace(path) as file:
            _ = file.is_simulated, file.profile_start_ns, file.hlo_protos()
            for plane in file.planes:
                for line in plane.lines:
                    events = line.events()
                    _ = line.display_name, [events.stat(name).values() for name in events.stat_names]
            read_device_events([file], run="r")
            read_host_events([file], run="r")
            read_profiled_devices([file], run="r")
            assert all(map(str, check_profile(file)))
    except InputError as error:
        return error.reference if str(path) in (error.where or "") else "without its place"
    return "read"


def fuzz(original: Path, folder: Path, *, seed: int, count: int) -> Counter[str]:
    content = original.read_bytes()
    outcomes: Counter[str] = Counter()
    path = folder / "mutant.pb"
    for number in range(count):
        path.write_bytes(mutate(content, random.Random(f"{seed} {number}")))
        try:
            outcomes[outcome(path)] += 1
        except Exception as error:
            raise AssertionError(f"number {number} of seed {seed} on {original.name}") from error
    return outcomes


def test_damaged_copies_of_a_small_profile_end_in_a_result_or_an_error_of_ours(tmp_path: Path) -> None:
    outcomes = fuzz(small_profile(tmp_path / "a.pb"), tmp_path, seed=1, count=MUTANTS_COUNT)
    assert outcomes["read"] > 10
    assert outcomes["xspace-damaged"] > 10
    assert outcomes["without its place"] == 0


@pytest.mark.parametrize("name", ["mi355_te_fused_attn", "jax_conv_minimal_08"])
def test_damaged_copies_of_real_profiles_end_in_a_result_or_an_error_of_ours(
    shared: Path, tmp_path: Path, name: str
) -> None:
    (original,) = (shared / "data/xplane" / name).glob("*.xplane.pb")
    outcomes = fuzz(original, tmp_path, seed=2, count=12)
    assert outcomes.total() == 12
    assert outcomes["without its place"] == 0
