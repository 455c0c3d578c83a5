"""Which kernels the scripts become on a GPU that is not here."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest
from aot_machine import prepare
from replay_scripts import FOLDER, NAMES

from rocktools.replay.aot_environment import PreparedEnvironment
from rocktools.replay.aot_kernels import build_launches
from rocktools.replay.aot_program import ProgramToCompile, compile_program
from rocktools.replay.aot_target import read_target
from rocktools.replay.executable import read_executable

pytestmark = [pytest.mark.aot, pytest.mark.slow]

# What jax 0.10 makes of the default sizes for gfx950; without a device, XLA chooses Triton for products untuned.
KERNELS = {
    "attention": [
        "loop_transpose_fusion",
        "gemm_fusion_dot_2",
        "fusion_8",
        "wrapped_transpose",
        "gemm_fusion_dot_3",
        "input_transpose_fusion",
    ],
    "elementwise": ["loop_convert_fusion"],
    # The products with gate and up share a kernel.
    "expert_mlp": [
        "gemm_fusion_dot_general_3",
        "gemm_fusion_dot_general_3",
        "loop_convert_fusion",
        "gemm_fusion_dot_general_5",
    ],
    "gemm": ["gemm_fusion_dot_general_1"],
    # No grouped kernel: rows are spread over all groups first, with zeros in those of others.
    "grouped_gemm": [
        "loop_reduce_window_fusion",
        "input_concatenate_fusion",
        "loop_transpose_fusion",
        "gemm_fusion_dot_1",
    ],
    "memory_copy": ["wrapped_not"],
    "rmsnorm": ["fusion_3"],
    "router_topk": ["gemm_fusion_dot_general_1", "sort_1_1", "triton_softmax_2", "wrapped_slice"],
    "transpose": ["wrapped_transpose"],
}
ONE_KERNEL = {"elementwise", "gemm", "memory_copy", "rmsnorm", "transpose"}


@pytest.fixture(scope="module")
def prepared(tmp_path_factory) -> PreparedEnvironment:
    return prepare(tmp_path_factory.mktemp("cache"))


def _launches(
    script: Path, folder: Path, prepared: PreparedEnvironment, *, function: str = "step", devices_count: int = 1
) -> tuple[pd.DataFrame, str]:
    """Launches of the program, and the version of the jax that it was compiled with."""
    program = ProgramToCompile(
        script=script, function=function, target=read_target("mi355x"), devices_count=devices_count
    )
    made = compile_program(
        program, folder / "made", prepared.environment, stand_in_libraries=prepared.stand_in_libraries
    )
    return build_launches(read_executable(made.executable)), made.document["versions"]["jax"]


@pytest.mark.parametrize("name", [name for name in NAMES if name != "collective"])
def test_script_becomes_these_kernels(name, prepared, tmp_path):
    launches, version = _launches(FOLDER / f"{name}.py", tmp_path, prepared)
    assert launches["kernel_name"].notna().all()
    assert (launches["code_bytes"] > 0).all()
    if name in ONE_KERNEL:
        assert len(launches) == 1
    if version.startswith("0.10."):
        assert launches["kernel_name"].tolist() == KERNELS[name]


def test_collective_is_a_library_call_on_each_device(prepared, tmp_path):
    launches, _ = _launches(FOLDER / "collective.py", tmp_path, prepared, devices_count=8)
    assert launches["kind"].tolist().count("kAllReduce") == 1
    assert launches["kernel_name"].isna().all()


def test_plain_copy_is_no_kernel(prepared, tmp_path):
    script = tmp_path / "plain.py"
    script.write_text(
        f"import sys\nsys.path.insert(0, {str(FOLDER)!r})\nimport measure, memory_copy\n"
        "def step(devices):\n    return measure.build_program(memory_copy.SCRIPT, devices, ['--form', 'memcpy'])\n"
    )
    launches, _ = _launches(script, tmp_path, prepared)
    assert launches["kind"].tolist() == ["kCopy"]
    assert launches["kernel_name"].isna().all()
