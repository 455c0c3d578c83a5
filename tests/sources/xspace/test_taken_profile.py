"""A profile that jax takes on this machine's CPU, read."""

from __future__ import annotations

from pathlib import Path

import pytest

from rocktools.sources.xspace.detect import is_xspace
from rocktools.sources.xspace.device_events import read_device_events
from rocktools.sources.xspace.health import check_profile
from rocktools.sources.xspace.host_events import read_host_events
from rocktools.sources.xspace.opening import open_xspace


def test_steps_instructions_and_programs_of_a_profile_taken_here(tmp_path: Path) -> None:
    jax = pytest.importorskip("jax")
    if getattr(jax.profiler, "ProfileData", None) is None:
        pytest.skip("this jax has no reader of profiles, and names no instruction in those of the CPU")
    step = jax.jit(lambda x: (x @ x).sum())
    matrix = jax.numpy.ones((64, 64))
    step(matrix).block_until_ready()
    with jax.profiler.trace(str(tmp_path)):
        for number in (7, 8):
            with jax.profiler.StepTraceAnnotation("train", step_num=number):
                step(matrix).block_until_ready()
    (path,) = tmp_path.rglob("*.xplane.pb")
    assert is_xspace(path)
    with open_xspace(path) as profile:
        assert not profile.is_simulated
        assert (profile.profile_end_ns or 0) > (profile.profile_start_ns or 0) > 1_700_000_000 * 10**9
        host = read_host_events([profile], run="r")
        assert host["step_number"].dropna().tolist() == [7, 8]
        instructions = host[host["hlo_op"].notna()]
        assert "jit__lambda" in set(instructions["hlo_module"])
        assert set(instructions["program_id"]) <= profile.hlo_protos().keys()
        assert len(read_device_events([profile], run="r")) == 0
        assert "no-device-plane" in {finding.rule for finding in check_profile(profile)}
        theirs = jax.profiler.ProfileData.from_file(str(path))
        counts = {plane.name: sum(len(list(line.events)) for line in plane.lines) for plane in theirs.planes}
        assert len(host) == counts["/host:CPU"]
