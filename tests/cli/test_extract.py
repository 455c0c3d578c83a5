from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from command_line import CommandLine

TEXT = """HloModule jit_step, is_scheduled=true

fused {
  p = f32[8]{0} parameter(0)
  ROOT n = f32[8]{0} negate(p)
}

other {
  p = f32[8]{0} parameter(0)
  ROOT n = f32[8]{0} negate(p)
}

ENTRY main {
  x = f32[8]{0} parameter(0)
  loop_fusion.1 = f32[8]{0} fusion(x), kind=kLoop, calls=fused
  loop_fusion.2 = f32[8]{0} fusion(loop_fusion.1), kind=kLoop, calls=other
  ROOT r = (f32[8]{0}) tuple(loop_fusion.2)
}
"""


@pytest.fixture
def run(capsys) -> CommandLine:
    pytest.importorskip("jaxlib")
    return CommandLine(capsys)


@pytest.fixture
def source(tmp_path) -> Path:
    path = tmp_path / "module_0007.jit_step.gfx950_gpu_after_optimizations.txt"
    path.write_text(TEXT, encoding="utf-8")
    return path


def test_instruction_becomes_a_folder(run, source, tmp_path):
    ran = run("extract", source, "--instruction", "loop_fusion.2", "-o", tmp_path / "replay")
    assert ran.code == 0, ran.err
    assert "loop_fusion.2" in ran.out
    spec = json.loads((tmp_path / "replay" / "spec.json").read_text(encoding="utf-8"))
    assert (spec["instruction"], spec["origin"]["program_id"]) == ("loop_fusion.2", "7")
    assert "inferred" in ran.err  # a text has no buffer assignment


def test_kernel_is_taken_with_its_twins_named(run, source, tmp_path):
    ran = run("extract", source, "--kernel", "loop_fusion_1", "-o", tmp_path / "replay")
    assert ran.code == 0, ran.err
    assert "kernel-has-twins" in ran.err
    assert "loop_fusion.2" in ran.err


def test_what_no_program_has_is_said_of_all_of_them(run, source, tmp_path):
    second = source.with_name("module_0008.jit_other.gfx950_gpu_after_optimizations.txt")
    second.write_text(TEXT.replace("jit_step", "jit_other"), encoding="utf-8")
    ran = run("extract", tmp_path, "--kernel", "lop_fusion_1", "-o", tmp_path / "replay")
    assert ran.code == 2
    assert "unknown-kernel: none of 2 programs launches a kernel 'lop_fusion_1': jit_other (8), jit_step (7)" in ran.err
    assert "try: loop_fusion.1" in ran.err


def test_folder_of_dumps_is_searched_for_the_program_that_has_it(run, source, tmp_path):
    second = source.with_name("module_0008.jit_other.gfx950_gpu_after_optimizations.txt")
    second.write_text(TEXT.replace("jit_step", "jit_other").replace("loop_fusion", "other_fusion"), encoding="utf-8")
    ran = run("extract", tmp_path, "--instruction", "other_fusion.1", "-o", tmp_path / "out" / "replay")
    assert ran.code == 0, ran.err
    assert json.loads((tmp_path / "out/replay/spec.json").read_text())["origin"]["module"] == "jit_other"


def test_instruction_that_several_programs_have_needs_the_program(run, source, tmp_path):
    second = source.with_name("module_0008.jit_other.gfx950_gpu_after_optimizations.txt")
    second.write_text(TEXT.replace("jit_step", "jit_other").replace("add", "subtract"), encoding="utf-8")
    ran = run("extract", tmp_path, "--instruction", "loop_fusion.1", "-o", tmp_path / "replay")
    assert ran.code == 2
    assert "several-programs" in ran.err
    ran = run(
        "extract", tmp_path, "--program", "jit_other", "--instruction", "loop_fusion.1", "-o", tmp_path / "replay"
    )
    assert ran.code == 0, ran.err


@pytest.mark.parametrize(
    "arguments, reference, code",
    [
        ((), "nothing-to-extract", 2),
        (("--kernel", "a", "--instruction", "b"), "nothing-to-extract", 2),
        (("--instruction", "loop_fusion.9"), "unknown-instruction", 2),
        (("--kernel", "Cijk_x"), "unknown-kernel", 2),
        (("--instruction", "r"), "launches-nothing", 1),
        (("--instruction", "n"), "inside-another-instruction", 1),
    ],
)
def test_what_cannot_be_extracted_is_said_and_leaves_nothing(run, source, tmp_path, arguments, reference, code):
    ran = run("extract", source, *arguments, "-o", tmp_path / "replay")
    assert (ran.code, ran.out) == (code, "")
    assert reference in ran.err
    assert not (tmp_path / "replay").exists()


def test_folder_in_use_is_refused(run, source, tmp_path):
    (tmp_path / "replay").mkdir()
    (tmp_path / "replay" / "mine").write_text("x")
    ran = run("extract", source, "--instruction", "loop_fusion.1", "-o", tmp_path / "replay")
    assert ran.code == 1
    assert "folder-in-use" in ran.err
    assert [path.name for path in (tmp_path / "replay").iterdir()] == ["mine"]


def test_operands_are_captured_on_the_cpu(run, source, tmp_path):
    pytest.importorskip("jax")
    import numpy as np

    values = np.arange(8, dtype="f4")
    np.save(tmp_path / "argument0.npy", values)
    ran = run(
        "capture-operands", source, "--instruction", "loop_fusion.2", "--arguments", tmp_path, "-o", tmp_path / "made"
    )
    assert ran.code == 0, ran.err
    assert "1 operand and 1 result of loop_fusion.2" in ran.out
    np.testing.assert_array_equal(np.load(tmp_path / "made" / "operand0.npy"), -values)
    np.testing.assert_array_equal(np.load(tmp_path / "made" / "result0.npy"), values)


@pytest.mark.parametrize("text", ["one", "1/", "-1"])
def test_iteration_that_is_none_is_refused(run, source, tmp_path, text):
    ran = run("capture-operands", source, "--instruction", "loop_fusion.2", f"--iteration={text}", "-o", tmp_path / "m")
    assert ran.code == 2
    assert "iteration-unreadable" in ran.err


def test_operands_are_captured_on_the_cpu_whatever_platform_jax_is_told_to_use(source, tmp_path):
    """A GPU that a job runs on is left alone, and plugins that find none are not heard of."""
    pytest.importorskip("jax")
    code = "import sys; from rocktools.cli.main import main; sys.exit(main(sys.argv[1:]))"
    command = [sys.executable, "-c", code, "capture-operands", str(source), "--instruction", "loop_fusion.2"]
    environment = {**os.environ, "JAX_PLATFORMS": "absent"}
    ran = subprocess.run(
        [*command, "-o", str(tmp_path / "made")], env=environment, capture_output=True, text=True, check=False
    )
    assert ran.returncode == 0, ran.stderr
    assert "Traceback" not in ran.stderr
    assert (tmp_path / "made" / "operand0.npy").is_file()
