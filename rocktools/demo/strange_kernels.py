"""Dispatches that a program did not launch, but that stand in the same trace: autotuning, another executable, anyone's.

The other executable shares kernel names with the program: XLA names kernels after opcodes, so `wrapped_convert` of one
module is not `wrapped_convert` of another. Some have the same geometry too, most have not.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from rocktools.demo.library_kernels import CLONE_ENDING, COPY_NAME, FILL_NAME, SYMBOL_ENDING, KernelLaunch

_SHARED_NAMES = 10
_SMALL_NS = 3_000.0


def _kernel(name: str, workgroups: int, *, ending: str = SYMBOL_ENDING, workgroup: int = 256) -> KernelLaunch:
    return KernelLaunch(
        name=name,
        ending=ending,
        grid_workitems=(workgroups * workgroup, 1, 1),
        workgroup_workitems=(workgroup, 1, 1),
        typical_ns=_SMALL_NS,
    )


_BLITS = (_kernel(COPY_NAME, 4, workgroup=512), _kernel(FILL_NAME, 1))
_AUTOTUNING = (
    _kernel("RedzoneAllocatorKernelImpl", 1),
    _kernel("RepeatBufferKernelImpl", 128),
    _kernel("void xla_fp_comparison<__hip_bfloat16>(unsigned long, int*)", 64, ending=CLONE_ENDING),
    _kernel("Cijk_Ailk_Bljk_BBS_BH_Bias_HA_S_SAV_UserArgs_MT64x64x64_MI16x16x1_SN_LDSB0_GSU0_ISA950_WS64", 96),
    _kernel("Cijk_Ailk_Bljk_BBS_BH_Bias_HA_S_SAV_UserArgs_MT128x128x64_MI16x16x1_SN_LDSB0_GSU0_ISA950_WS64", 48),
)


def autotuning_kernels(generated: Sequence[KernelLaunch]) -> list[KernelLaunch]:
    """Kernels around an autotuner: its own, candidates, copies and fills, small ones of other modules."""
    return [*_AUTOTUNING, *_BLITS, *_namesakes(generated)]


def other_executable_kernels(generated: Sequence[KernelLaunch]) -> list[KernelLaunch]:
    """What one run of another small module launches, in order."""
    own = [_kernel("loop_subtract_square_fusion_901", 24), _kernel("input_reduce_fusion_902", 12)]
    return [_BLITS[0], *_namesakes(generated), *own, _AUTOTUNING[3], _BLITS[1]]


def foreign_kernels() -> list[KernelLaunch]:
    """Kernels that may turn up anywhere."""
    elementwise = "void at::native::vectorized_elementwise_kernel<4, float>(int, float*)"
    probe = "void unknown_profiler_probe(int*)"
    return [_kernel(elementwise, 64, ending=CLONE_ENDING), _kernel(probe, 1, ending=CLONE_ENDING), *_BLITS]


def _namesakes(generated: Sequence[KernelLaunch]) -> list[KernelLaunch]:
    """Kernels under names of the program; every fourth with its geometry too."""
    names: dict[str, KernelLaunch] = {}
    for kernel in generated:
        names.setdefault(kernel.name, kernel)
    chosen = [names[name] for name in sorted(names)]
    chosen = [chosen[index] for index in np.linspace(0, len(chosen) - 1, min(_SHARED_NAMES, len(chosen))).astype(int)]
    return [
        KernelLaunch(
            name=kernel.name,
            ending=kernel.ending,
            grid_workitems=kernel.grid_workitems if number % 4 == 0 else ((1 + number % 7) * 256, 1, 1),
            workgroup_workitems=kernel.workgroup_workitems if number % 4 == 0 else (256, 1, 1),
            lds_bytes=kernel.lds_bytes,
            typical_ns=_SMALL_NS,
        )
        for number, kernel in enumerate(chosen)
    ]
