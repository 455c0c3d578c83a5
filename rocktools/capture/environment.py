"""The environment of a profiled process: what is taken out of ours, what is added, what may be written down."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

# rocprofv3 turns a flag on if either its option or an inherited variable says so: whatever is inherited must go.
_SCRUBBED = re.compile(r"ROCPROF_\w*|ROCPROFV3_\w*|ROCPROFILER_\w*|ROCP_\w*|ROCTX_\w*|KOKKOS_TOOLS_LIBS|HSA_TOOLS_LIB")
_SECRET_NAME = re.compile(
    r"TOKEN|SECRET|PASSW|PASSPHRASE|CREDENTIAL|API_?KEY|ACCESS_?KEY|PRIVATE|AUTH|COOKIE|SESSION"
    r"|(?:^|_)(?:KEYS?|PWD|PAT|DSN)$",
    re.IGNORECASE,
)
# `://user:password@`
_SECRET_IN_URL = re.compile(r"(?<=://)[^/@\s]*:[^/@\s]*(?=@)")
_REDACTED = "[redacted]"
# What decides how a JAX job runs on AMD GPUs; the rest of an environment is nobody's business.
_RECORDED = re.compile(
    r"XLA_\w*|JAX_\w*|TF_\w*|HIP_\w*|HSA_\w*|ROCR_\w*|ROCM_\w*|NCCL_\w*|RCCL_\w*|MIOPEN_\w*|TENSILE_\w*|HIPBLASLT_\w*"
    r"|NVTE_\w*|CUDA_VISIBLE_DEVICES|GPU_\w*|AMD_\w*|LD_PRELOAD|LD_LIBRARY_PATH|OMP_NUM_THREADS|SLURM_PROCID"
    r"|SLURM_NTASKS|OMPI_COMM_WORLD_(?:RANK|SIZE)|RANK|WORLD_SIZE|LOCAL_RANK|PYTHONHASHSEED|DEBUG_HIP_\w*"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class EnvironmentDelta:
    """How the environment of a profiled process differs from ours.

    Attributes:
        added: variables that are set, new or changed.
        removed: variables of ours that the process does not get.
    """

    added: Mapping[str, str]
    removed: tuple[str, ...]

    def apply(self, inherited: Mapping[str, str]) -> dict[str, str]:
        """The whole environment of the process."""
        kept = {name: value for name, value in inherited.items() if name not in self.removed}
        return {**kept, **self.added}


def profiling_delta(inherited: Mapping[str, str], *, added: Mapping[str, str] | None = None) -> EnvironmentDelta:
    """What a process under rocprofv3 gets.

    Args:
        inherited: our own environment.
        added: further variables, such as XLA_FLAGS.
    """
    removed = tuple(sorted(name for name in inherited if is_scrubbed(name)))
    return EnvironmentDelta(added=dict(added or {}), removed=removed)


def is_scrubbed(name: str) -> bool:
    """Whether a variable would steer the profiler and is taken out."""
    return _SCRUBBED.fullmatch(name) is not None


def is_recorded(name: str) -> bool:
    """Whether a variable belongs into a manifest: it steers the run, and is no secret."""
    return _RECORDED.fullmatch(name) is not None


def redact(variables: Mapping[str, str]) -> dict[str, str]:
    """The variables, sorted, with what looks like a secret replaced: by the name of the variable, or in an address."""
    return {
        name: _REDACTED if _SECRET_NAME.search(name) else _SECRET_IN_URL.sub(_REDACTED, value)
        for name, value in sorted(variables.items())
    }


def recorded_environment(variables: Mapping[str, str]) -> dict[str, str]:
    """What of a whole environment goes into a manifest."""
    return redact({name: value for name, value in variables.items() if is_recorded(name)})
