"""Custom-call targets -> who registers them: the plugin itself, a Python package, the job, or nobody known.

Sources: XLA's own targets in `xla/service/gpu/cublas_cudnn.h` and `custom_call_target`s of `xla/backends/gpu`; those of
jaxlib in its `gpu_*.py`; Transformer Engine's in `transformer_engine/jax/cpp_extensions`; callbacks in
`jax/_src/callback.py` and `jax/_src/ffi.py`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Registration:
    """What a process must import before it compiles a program with a custom call.

    Attributes:
        target: of the custom call.
        module: to import, dotted; "" where the plugin has the target of itself.
        package: that the module is from, as it is installed; "" likewise.
    """

    target: str
    module: str = ""
    package: str = ""


_OF_THE_PLUGIN = ("__cublas$", "__cudnn$", "__gpu$", "__triton", "__hipblas", "__rccl$", "TopK", "PadToStatic")
_OF_PACKAGES = (
    ("te_", "transformer_engine.jax", "transformer-engine-jax"),
    ("triton_kernel_call", "jaxlib.gpu_triton", "jax-rocm-plugin"),
    ("hip_threefry2x32", "jaxlib.gpu_prng", "jax-rocm-plugin"),
    ("hipsparse_", "jaxlib.gpu_sparse", "jax-rocm-plugin"),
    ("hiprnn", "jaxlib.gpu_rnn", "jax-rocm-plugin"),
    ("hipsolver_", "jaxlib.gpu_solver", "jax-rocm-plugin"),
    ("hipblas_", "jaxlib.gpu_solver", "jax-rocm-plugin"),
    ("hip_", "jaxlib.gpu_linalg", "jax-rocm-plugin"),
)
_CALLBACK = re.compile(r"python.*callback|callback.*python|^xla_ffi_.*callback$")
_MARKS = frozenset(
    {
        *("Sharding", "SPMDFullToShardShape", "SPMDShardToFullShape", "MoveToHost", "MoveToDevice"),
        *("annotate_device_placement", "LayoutConstraint", "AssumeGatherIndicesInBound", "AllocateBuffer"),
    }
)


def is_callback(target: str) -> bool:
    """Whether the call goes back into the Python of the job."""
    return _CALLBACK.search(target) is not None


def is_mark(target: str) -> bool:
    """Whether the call only marks or reserves something, and launches nothing."""
    return target in _MARKS


def find_registration(target: str, modules: Sequence[str] = ()) -> Registration | None:
    """Who registers a target; None where nobody is known to.

    Args:
        modules: that the user says register it: they outdo what is known here.
    """
    if modules:
        return Registration(target=target, module=",".join(modules), package=modules[0].partition(".")[0])
    if target.startswith(_OF_THE_PLUGIN):
        return Registration(target=target)
    for prefix, module, package in _OF_PACKAGES:
        if target.startswith(prefix):
            return Registration(target=target, module=module, package=package)
    return None
