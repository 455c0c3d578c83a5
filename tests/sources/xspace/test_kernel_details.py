"""Texts of launches and copies, in every form that a profiler has written."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rocktools.sources.xspace.kernel_details import KernelDetails, parse_kernel_details, parse_size_bytes


@pytest.mark.parametrize(
    "text, grid, workgroup, lds_bytes, scratch_bytes",
    [
        # rocm-jaxlib 0.8 and 0.10, from recorded profiles
        (" grid:4,64,1 block:256,1,1 private_mem:0 group_mem:8704 occ_pct:0", (1024, 64, 1), (256, 1, 1), 8704, 0),
        (
            " grid:16,16,2 block:256,1,1 private_mem:168 group_mem:30240 occ_pct:0",
            (4096, 16, 2),
            (256, 1, 1),
            30240,
            168,
        ),
        # CUDA
        (
            "regs:32 static_shared:1024 dynamic_shared:2048 grid:8,2,1 block:64,4,1 occ_pct:50",
            (512, 8, 1),
            (64, 4, 1),
            3072,
            None,
        ),
        ("regs:32 static_shared:0 grid:1,1,1 block:1,1,1", (1, 1, 1), (1, 1, 1), 0, None),
        # ROCm after openxla/xla#47917
        (
            "regs:64 static_shared:512 dynamic_shared:0 grid:2,1,1 block:256,1,1 private_mem:16 group_mem:512",
            (512, 1, 1),
            (256, 1, 1),
            512,
            16,
        ),
        # roctracer: memory that nobody had set
        (
            "regs:2191500840 static_shared:32606 dynamic_shared:0 grid:8,1,1 block:256,1,1 occ_pct:0",
            (2048, 1, 1),
            (256, 1, 1),
            None,
            None,
        ),
        ("grid:8,1,1", None, None, None, None),
        ("block:256,1,1", None, (256, 1, 1), None, None),
        ("grid:0,0,0 block:256,1,1", None, (256, 1, 1), None, None),
        ("grid:1,1,1 block:2048,1,1", None, None, None, None),
        ("grid:1,1 block:256,1,1", None, (256, 1, 1), None, None),
        ("grid:a,b,c block:-1,1,1 private_mem:x group_mem:-5", None, None, None, None),
        ("grid:9223372036854775807,1,1 block:256,1,1", None, (256, 1, 1), None, None),
        ("", None, None, None, None),
    ],
)
def test_facts_of_a_launch(
    text: str,
    grid: tuple[int, int, int] | None,
    workgroup: tuple[int, int, int] | None,
    lds_bytes: int | None,
    scratch_bytes: int | None,
) -> None:
    assert parse_kernel_details(text) == KernelDetails(
        grid_workitems=grid, workgroup_workitems=workgroup, lds_bytes=lds_bytes, scratch_bytes=scratch_bytes
    )


@pytest.mark.parametrize(
    "text, size_bytes",
    [
        ("kind:Unknown size:512 dest:512 async:1", 512),
        ("kind_src:device kind_dst:host size:4096 dest:0 async:0", 4096),
        ("kind:device num_bytes:1048576", 1048576),
        ("kind:device num_bytes:0 async:1", 0),
        ("kind:device", None),
        ("size:-1", None),
        ("size:99999999999999999999", None),
        ("", None),
    ],
)
def test_bytes_of_a_copy_or_an_allocation(text: str, size_bytes: int | None) -> None:
    assert parse_size_bytes(text) == size_bytes


@given(st.text(alphabet="grid:block,size 0123456789²-xreg_", max_size=80))
def test_any_text_ends_in_facts_that_fit_into_int64(text: str) -> None:
    details = parse_kernel_details(text)
    for triple in (details.grid_workitems, details.workgroup_workitems):
        assert triple is None or all(0 < value < 2**63 for value in triple)
    assert (parse_size_bytes(text) or 0) < 2**63
