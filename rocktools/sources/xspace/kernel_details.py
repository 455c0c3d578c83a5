"""The texts in which profilers pack the facts of a launch, a copy or an allocation -> numbers.

What was seen or read in the source, by writer:

    ROCm, 2025 on          ` grid:4,64,1 block:256,1,1 private_mem:0 group_mem:8704 occ_pct:0`
    ROCm, late 2026 on     the same with `regs:`, `static_shared:`, `dynamic_shared:`
    CUDA                   `regs:32 static_shared:0 dynamic_shared:1024 grid:8,1,1 block:256,1,1 occ_pct:50`
    ROCm, roctracer        as CUDA, with memory that nobody had set in `regs:` and both `shared:` (JAX 0.7 and before)
    copies, other memory   `kind:Unknown size:4096 dest:0 async:0`, `kind:device num_bytes:4096`

The grid is in workgroups in all of them.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

_FIELD = re.compile(r"(\w+):(\S*)")
_INT64_MAX = 2**63 - 1
# No GPU has more: registers of a work-item (AMD 512, NVIDIA 255), work-items of a workgroup, LDS of a workgroup.
_MOST_REGISTERS = 512
_MOST_WORKGROUP_WORKITEMS = 1024
_MOST_LDS_BYTES = 1 << 20
_MOST_SCRATCH_BYTES = 1 << 30


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelDetails:
    """Facts of a launch; None where the text does not say, or cannot be right.

    Attributes:
        grid_workitems: x, y, z.
        workgroup_workitems: x, y, z.
        lds_bytes: of a workgroup, static and dynamic.
        scratch_bytes: of a work-item.
    """

    grid_workitems: tuple[int, int, int] | None = None
    workgroup_workitems: tuple[int, int, int] | None = None
    lds_bytes: int | None = None
    scratch_bytes: int | None = None


def parse_kernel_details(text: str) -> KernelDetails:
    """The facts in a `kernel_details` text; whatever it does not hold is None."""
    fields = dict(_FIELD.findall(text))
    workgroup = _triple(fields.get("block"))
    if workgroup is not None and workgroup[0] * workgroup[1] * workgroup[2] > _MOST_WORKGROUP_WORKITEMS:
        workgroup = None
    workgroups = _triple(fields.get("grid"))
    grid = None
    if workgroup is not None and workgroups is not None:
        grid = (workgroups[0] * workgroup[0], workgroups[1] * workgroup[1], workgroups[2] * workgroup[2])
        if max(grid) > _INT64_MAX:
            grid = None
    return KernelDetails(
        grid_workitems=grid,
        workgroup_workitems=workgroup,
        lds_bytes=_lds_bytes(fields),
        scratch_bytes=_bounded(fields.get("private_mem"), _MOST_SCRATCH_BYTES),
    )


def parse_size_bytes(text: str) -> int | None:
    """Bytes in the details of a copy, a fill or an allocation; None where the text does not say."""
    fields = dict(_FIELD.findall(text))
    return _bounded(fields.get("size", fields.get("num_bytes")), _INT64_MAX)


def _lds_bytes(fields: dict[str, str]) -> int | None:
    if "group_mem" in fields:
        return _bounded(fields["group_mem"], _MOST_LDS_BYTES)
    if "regs" in fields and _bounded(fields["regs"], _MOST_REGISTERS) is None:
        return None  # roctracer: neither these nor the sizes beside them were ever set
    parts = [_bounded(fields[name], _MOST_LDS_BYTES) for name in ("static_shared", "dynamic_shared") if name in fields]
    known = [part for part in parts if part is not None]
    return sum(known) if parts and len(known) == len(parts) else None


def _bounded(text: str | None, most: int) -> int | None:
    if text is None or not text.isascii() or not text.isdecimal() or len(text) > 19:
        return None
    value = int(text)
    return value if value <= most else None


def _triple(text: str | None) -> tuple[int, int, int] | None:
    parts = [_bounded(part, _INT64_MAX) for part in (text or "").split(",")]
    known = [part for part in parts if part]  # 0 is no size of anything
    return (known[0], known[1], known[2]) if len(parts) == len(known) == 3 else None
