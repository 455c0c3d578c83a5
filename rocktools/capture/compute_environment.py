"""The environment of rocprof-compute: what it is given, and what of ours must not reach it."""

from __future__ import annotations

import re
from collections.abc import Mapping

from rocktools.capture.environment import is_scrubbed
from rocktools.errors import UsageError

# A rank makes the tool put results into a folder named after it, and a replay is one process.
_RANK = re.compile(
    r"OMPI_\w+|PMI_\w+|PMI2_\w+|PMIX_\w+|MV2_COMM_WORLD_\w+|MPI_(?:RANKID|LOCALRANKID|LOCALNRANKS|NRANKS)|MPIRUN_\w+"
    r"|PALS_\w+|SLURM_\w+|FLUX_\w+|JSM_NAMESPACE_\w+|(?:LOCAL_|GROUP_|NODE_|ROLE_)?RANK|(?:LOCAL_|GROUP_|ROLE_)?WORLD_SIZE"
)
# What would reach into the tool's own Python, or load a library into it and into what it starts. ROCPROF picks the
# backend, and the tool's own settings are ours to make.
_STEERING = re.compile(r"LD_PRELOAD|PYTHONPATH|PYTHONHOME|PYTHONSTARTUP|ROCPROF|ROCPROFCOMPUTE_\w+")
# Other ways to hide devices, which count among those that HIP_VISIBLE_DEVICES leaves, or instead of them.
_DEVICE = re.compile(r"CUDA_VISIBLE_DEVICES|GPU_DEVICE_ORDINAL|HIP_VISIBLE_DEVICES")
# Which counters share a pass depends on the order of Python's sets: the same for all kernels of a batch.
_HASH_SEED = "0"


def common_variables() -> dict[str, str]:
    return {"PYTHONHASHSEED": _HASH_SEED, "ROCPROFCOMPUTE_COLOR": "0", "LC_ALL": "C.UTF-8"}


def backend_variables(backend: str | None) -> dict[str, str]:
    return {} if backend is None else {"ROCPROF": backend}


def device_variables(device: int | None) -> dict[str, str]:
    if device is None:
        return {}
    if device < 0:
        raise UsageError("compute-bad-device", f"{device} is no number of a GPU")
    return {"HIP_VISIBLE_DEVICES": str(device)}


def is_unset_for_compute(name: str, variables_set: Mapping[str, str]) -> bool:
    """Whether a variable of ours must not reach rocprof-compute."""
    if name in variables_set:
        return False
    hides_devices = "HIP_VISIBLE_DEVICES" in variables_set and _DEVICE.fullmatch(name) is not None
    return (
        hides_devices or is_scrubbed(name) or _RANK.fullmatch(name) is not None or _STEERING.fullmatch(name) is not None
    )
