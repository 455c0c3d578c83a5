"""`rocktools memory`: what a program reserves, when most is live, and what was allocated beside it."""

from __future__ import annotations

from pathlib import Path

import pytest
from command_line import CommandLine, assert_formats_agree
from tiny_program import STEM, write_tiny_dump

from rocktools.demo.rocpd_file import WriterOptions
from rocktools.demo.rocpd_writer import RocpdWriter

VALUE_BYTES = 64 * 128 * 4
ASSIGNMENT = f"""BufferAssignment:
allocation 0: size {VALUE_BYTES}, parameter 0, shape |f32[64,128]| at ShapeIndex {{}}:
 value: <1 Arg_0.1 @0> (size={VALUE_BYTES},offset=0): f32[64,128]{{1,0}}
allocation 1: size {VALUE_BYTES}, maybe-live-out:
 value: <2 copy.3 @0> (size={VALUE_BYTES},offset=0): f32[64,128]{{1,0}}
allocation 2: size {3 * VALUE_BYTES}, preallocated-temp:
 value: <3 copy.1 @0> (size={VALUE_BYTES},offset=0): f32[64,128]{{1,0}}
 value: <4 loop_broadcast_fusion.1 @0> (size={VALUE_BYTES},offset={VALUE_BYTES}): f32[64,128]{{1,0}}
 value: <5 loop_broadcast_fusion.2 @0> (size={VALUE_BYTES},offset={2 * VALUE_BYTES}): f32[64,128]{{1,0}}
"""
USAGE = f"Memory Space: default (color=0)\nTotal bytes: {5 * VALUE_BYTES} (160.00KiB)\n"


@pytest.fixture
def dump(tmp_path: Path) -> Path:
    folder = tmp_path / "run" / "hlo"
    folder.mkdir(parents=True)
    write_tiny_dump(folder)
    (folder / f"{STEM}_after_optimizations-buffer-assignment.txt").write_text(ASSIGNMENT, encoding="utf-8")
    (folder / f"{STEM}_after_optimizations-memory-usage-report.txt").write_text(USAGE, encoding="utf-8")
    return folder


def write_allocations(path: Path) -> Path:
    """Two GPUs: 100 and 300 bytes at most at one time, 120 and 400 in all."""
    with RocpdWriter(path, options=WriterOptions()) as writer:
        writer.process(11)
        agents = [writer.agent("GPU") for _ in range(2)]
        now = 1_000
        for agent, sizes in zip(agents, ([80, 20, -20, 20], [100, 200, -100, 100]), strict=True):
            live: list[tuple[int, int]] = []
            for size in sizes:
                now += 10
                if size > 0:
                    live.append((size, now))
                    writer.allocation("ALLOC", now, now + 1, size, address=now, agent_id=agent)
                else:
                    place = next(i for i, each in enumerate(live) if each[0] == -size)
                    writer.allocation("FREE", now, now + 1, -size, address=live.pop(place)[1])
    return path


def test_program_is_described_by_kind_and_peak(run: CommandLine, dump: Path, tmp_path: Path) -> None:
    (row,) = assert_formats_agree(run, tmp_path, "memory", dump, "--part", "programs")
    assert row["program"] == "module_0007.jit_tiny"
    assert (row["argument_bytes"], row["output_bytes"], row["alias_bytes"]) == (VALUE_BYTES, VALUE_BYTES, 0)
    assert (row["temporary_bytes"], row["total_bytes"]) == (3 * VALUE_BYTES, 5 * VALUE_BYTES)
    # A copy feeds the first broadcast, which feeds the second: two values are live at any one time.
    assert row["live_bytes"] == 2 * VALUE_BYTES
    assert row["held_bytes"] == 4 * VALUE_BYTES


def test_run_directory_and_a_file_of_the_dump_are_taken_too(run: CommandLine, dump: Path) -> None:
    whole = run.rows("memory", dump, "--part", "programs")
    file = dump / f"{STEM}_after_optimizations.txt"
    assert (
        run.rows("memory", dump.parent, "--part", "programs") == whole == run.rows("memory", file, "--part", "programs")
    )


def test_high_water_is_of_one_device_and_never_a_sum(run: CommandLine, dump: Path, tmp_path: Path) -> None:
    trace = write_allocations(tmp_path / "1_results.db")
    rows = run.rows("memory", trace, "--part", "devices")
    assert [row["allocated_bytes"] for row in rows] == [100, 300]
    assert [row["reserved_bytes"] for row in rows] == [None, None]
    document = run.document("memory", trace, dump)
    assert document["highest_bytes"] == 300
    assert document["critical_device"].endswith(":gpu1")
    beside = run.rows("memory", trace, dump, "--part", "devices")
    assert [row["reserved_bytes"] for row in beside] == [5 * VALUE_BYTES] * 2
    assert "allocated at one time: at most 300 B, on" in run("memory", trace).out


def test_reports_that_disagree_are_found(run: CommandLine, dump: Path) -> None:
    path = dump / f"{STEM}_after_optimizations-memory-usage-report.txt"
    path.write_text(USAGE.replace(str(5 * VALUE_BYTES), "17"), encoding="utf-8")
    assert "memory-reports-disagree" in run("memory", dump).err


def test_wrong_values_are_named(run: CommandLine, dump: Path, tmp_path: Path) -> None:
    assert "unknown-program" in run("memory", dump, "--program", "jit_tin").err
    assert run("memory", dump, "--program", "jit_tiny").code == 0
    ran = run("memory", dump, "--part", "devices")
    assert (ran.code, "no-such-part" in ran.err) == (2, True)
    assert run("memory", tmp_path / "nowhere").code == 1
    empty = tmp_path / "empty"
    empty.mkdir()
    assert run("memory", empty).code == 1


def test_trace_without_allocations_says_what_is_missing(run: CommandLine, databases) -> None:
    ran = run("memory", databases.minimal)
    assert ran.code == 1
    assert "no-memory-recorded" in ran.err
    assert "--memory-allocation-trace" in ran.err


def test_damaged_assignment_is_one_error(run: CommandLine, dump: Path) -> None:
    (dump / f"{STEM}_after_optimizations-buffer-assignment.txt").write_text("BufferAssignment:\n", encoding="utf-8")
    ran = run("memory", dump)
    assert ran.code == 1
    assert "holds no allocation" in ran.err


def test_mixtral_step_takes_what_its_usage_report_says(run: CommandLine, shared: Path) -> None:
    """Total bytes: 295161776486 in the memory-usage report of the same dump."""
    folder = shared / "data/hlo/gfx950-mixtral-8x22b/triton"
    (row,) = run.rows("memory", folder, "--part", "programs")
    assert row["total_bytes"] == 295_161_776_486
    assert row["live_bytes"] <= row["temporary_bytes"]
    peak = run.rows("memory", folder, "--part", "peak")
    assert sorted((each["size_bytes"] for each in peak), reverse=True) == [each["size_bytes"] for each in peak]
