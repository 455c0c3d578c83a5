"""`rocktools explain`: the way from a kernel, a copy or an instruction to its bucket."""

from __future__ import annotations

from pathlib import Path

import pytest
from command_line import CommandLine
from scoped_run import NAMES, write_scoped_run


@pytest.fixture(scope="module")
def run_path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_scoped_run(tmp_path_factory.mktemp("explain") / "run")


@pytest.fixture(scope="module")
def job(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_scoped_run(tmp_path_factory.mktemp("explain") / "job", ranks=range(2))


def dispatch_of(run: CommandLine, run_path: Path, instruction: str) -> int:
    rows = run.rows("frame", "DISPATCH_EDGES", run_path)
    return next(row["dispatch_id"] for row in rows if row["instruction"] == instruction)


@pytest.mark.parametrize(
    "instruction, bucket",
    [
        ("gemm_fusion_dot.1", "booked as compute, phase forward, component expert_mlp"),
        ("loop_multiply_fusion.1", "booked as compute, phase backward, component expert_mlp"),
        ("loop_multiply_fusion.2", "booked as compute, phase rematerialized, component expert_mlp"),
        ("all-to-all.1", "booked as communication, phase forward, component dispatch"),
        ("wrapped_convert.2", "booked as compute, phase optimizer, component optimizer"),
    ],
)
def test_event_and_instruction_lead_to_one_bucket(
    run: CommandLine, run_path: Path, instruction: str, bucket: str
) -> None:
    event = run("explain", run_path, "--event", dispatch_of(run, run_path, instruction))
    assert event.code == 0
    assert NAMES[instruction] in event.out
    assert event.out.rstrip().endswith(bucket)
    assert f"instruction: {instruction} of program" in event.out
    named = run("explain", run_path, "--instruction", f"%{instruction}")
    assert NAMES[instruction] in named.out
    assert named.out.rstrip().endswith(bucket)


@pytest.mark.parametrize(
    "arguments, expected",
    [
        ([], "nothing-to-explain"),
        (["--event", 1, "--instruction", "x"], "nothing-to-explain"),
        (["--event", 999_999], "ids go from 1 to"),
        (["--copy", 1], "there is no copy at all"),
        (["--instruction", "gemm_fusion_dot.2"], "gemm_fusion_dot.1"),
        (["--event", 1, "--process", "nobody"], "unknown-process"),
    ],
)
def test_wrong_questions_are_named(run: CommandLine, run_path: Path, arguments, expected: str) -> None:
    ran = run("explain", run_path, *arguments)
    assert (ran.code, ran.out) == (2, "")
    assert expected in ran.err


def test_process_is_asked_for_where_several_have_the_number(run: CommandLine, job: Path) -> None:
    ran = run("explain", job, "--event", 30)
    assert ran.code == 2
    label = ran.err.partition("--process LABEL: ")[2].split(",")[0].strip()
    chosen = run("explain", job, "--event", 30, "--process", label)
    assert chosen.code == 0
    assert chosen.out.startswith("dispatch 30 on node")


def test_kernels_of_transformer_engine_are_explained(run: CommandLine, shared: Path) -> None:
    """Its attention runs kernels of several libraries under one instruction, whose name gives the component."""
    ran = run("explain", shared / "data/xplane/mi355_te_fused_attn", "--instruction", "te_fused_attn_forward_ffi.10")
    assert "phase forward" in ran.out
    assert "component attention" in ran.out
