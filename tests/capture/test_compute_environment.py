"""The environment of rocprof-compute."""

from __future__ import annotations

from pathlib import Path

import pytest

from rocktools.capture.compute_command import ComputeTool, WorkloadRequest, profile_command, version_command
from rocktools.capture.compute_environment import device_variables
from rocktools.capture.compute_versions import KNOWN_VERSIONS, ComputeVersion
from rocktools.errors import UsageError


def environment(inherited: dict[str, str], *, name: str = "3.10", device: int | None = None) -> dict[str, str]:
    major, minor = (int(part) for part in name.split("."))
    tool = ComputeTool(program=Path("/opt/rocm/bin/rocprof-compute"), python=None, version=ComputeVersion(major, minor))
    request = WorkloadRequest(
        slug="k0", folder=Path("/data/k0"), kernel_name="k", application=("/bin/app",), device=device
    )
    return profile_command(tool, request).delta(inherited).apply(inherited)


STEERING = (
    "LD_PRELOAD",
    "PYTHONPATH",
    "PYTHONHOME",
    "ROCPROF",
    "ROCPROF_COUNTERS",
    "ROCPROFILER_METRICS_PATH",
    "ROCPROFCOMPUTE_LOGLEVEL",
    "HSA_TOOLS_LIB",
)
RANKS = (
    "OMPI_COMM_WORLD_RANK",
    "OMPI_COMM_WORLD_SIZE",
    "PMI_RANK",
    "PMIX_RANK",
    "SLURM_PROCID",
    "SLURM_NTASKS",
    "MV2_COMM_WORLD_RANK",
    "MPI_RANKID",
    "PALS_RANKID",
    "FLUX_TASK_RANK",
    "RANK",
    "LOCAL_RANK",
    "WORLD_SIZE",
)
KEPT = (
    "PATH",
    "HOME",
    "LD_LIBRARY_PATH",
    "ROCM_PATH",
    "ROCM_VER",
    "ROOFLINE_BIN",
    "XLA_FLAGS",
    "JAX_PLATFORMS",
    "HSA_XNACK",
    "RANKING",
    "ROCR_VISIBLE_DEVICES",
    "HIP_VISIBLE_DEVICES",
    "CUDA_VISIBLE_DEVICES",
)


@pytest.mark.parametrize("name", KNOWN_VERSIONS)
@pytest.mark.parametrize("variable", [*STEERING, *RANKS])
def test_what_would_steer_the_tool_does_not_reach_it(name, variable):
    assert environment({variable: "mine"}, name=name).get(variable) != "mine"


@pytest.mark.parametrize("variable", KEPT)
def test_what_the_job_needs_stays(variable):
    assert environment({variable: "mine"})[variable] == "mine"


@pytest.mark.parametrize("name", KNOWN_VERSIONS)
def test_passes_plain_text_and_the_backend_are_decided(name):
    inherited = {"PYTHONHASHSEED": "random", "LC_ALL": "de_DE", "ROCPROF": "/old/rocprof"}
    plain = {"PYTHONHASHSEED": "0", "LC_ALL": "C.UTF-8", "ROCPROFCOMPUTE_COLOR": "0"}
    backend = {"3.0": {"ROCPROF": "rocprofv3"}, "3.3": {"ROCPROF": "rocprofiler-sdk"}}
    assert environment(inherited, name=name) == {**plain, **backend.get("3.3" if name == "3.4" else name, {})}


def test_a_chosen_device_is_the_only_way_to_choose_one():
    inherited = {"CUDA_VISIBLE_DEVICES": "0", "GPU_DEVICE_ORDINAL": "1", "HIP_VISIBLE_DEVICES": "0,1"}
    chosen = environment(inherited, device=5)
    assert {name: chosen.get(name) for name in inherited} == {
        "CUDA_VISIBLE_DEVICES": None,
        "GPU_DEVICE_ORDINAL": None,
        "HIP_VISIBLE_DEVICES": "5",
    }


def test_devices_count_from_0():
    assert device_variables(0) == {"HIP_VISIBLE_DEVICES": "0"}
    with pytest.raises(UsageError, match="compute-bad-device"):
        device_variables(-1)


def test_asking_for_the_version_needs_no_backend():
    command = version_command(Path("/x"), None)
    assert command.delta({"ROCPROF": "x", "PYTHONPATH": "y", "A": "b"}).apply({"ROCPROF": "x", "A": "b"}) == {
        "A": "b",
        "PYTHONHASHSEED": "0",
        "LC_ALL": "C.UTF-8",
        "ROCPROFCOMPUTE_COLOR": "0",
    }
