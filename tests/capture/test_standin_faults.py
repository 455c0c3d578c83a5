"""Every fault of the stand-ins does what faults.py says of it, and a fault can be limited to some runs."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import time
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from standins.faults import FAULTS, Faults, parse_faults
from standins.install import app_command
from standins.running import Bench, Ended, announced, counter_rows, kernel_counts, query

SECOND, NEWEST = "1.3.2", "1.4.1"
TWO_KERNELS: dict[str, Any] = {"kernels": [{"name": "a", "count": 3}, {"name": "b", "count": 3}]}
COUNT = ("--pmc", "SQ_WAVES", "TCC_HIT")
PATIENCE_S = 30


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path, SECOND)


def collect(bench: Bench, *options: str, faults: str, scenario: dict[str, Any] | None = None) -> Ended:
    """A run of a short application with its files at x_*."""
    return bench.run("rocprofv3", *options, "-o", "x", "--", "true", scenario=scenario or TWO_KERNELS, faults=faults)


# Counters


@pytest.mark.parametrize("fault, lost", [("unknown-counter", "TCC_HIT"), ("unknown-counter:SQ_WAVES", "SQ_WAVES")])
def test_unknown_counter_is_a_warning(fault, lost, bench):
    ended = collect(bench, *COUNT, faults=fault)
    kept = ({"SQ_WAVES", "TCC_HIT"} - {lost}).pop()
    assert ended.code == 0
    assert (
        f"Unable to find all counters for agent 2 (gpu-0, gfx950) in [SQ_WAVES, TCC_HIT]. Found: [{kept}]. "
        in ended.err
    )
    assert f"Missing: [{lost}]" in ended.err
    assert list(counter_rows(bench.work / "x_results.db")) == [kept]


def test_missing_counter_is_silent(bench):
    ended = collect(bench, *COUNT, faults="missing-counter")
    assert (ended.code, "Unable" in ended.err) == (0, False)
    assert list(counter_rows(bench.work / "x_results.db")) == ["SQ_WAVES"]


def test_zero_counters(bench):
    collect(bench, *COUNT, faults="zero-counters:TCC_HIT")
    rows = counter_rows(bench.work / "x_results.db")
    assert (rows["TCC_HIT"][1], rows["SQ_WAVES"][1] > 0) == (0.0, True)
    collect(bench, *COUNT, faults="zero-counters")
    assert {total for _, total in counter_rows(bench.work / "x_results.db").values()} == {0.0}


@pytest.mark.parametrize(
    "counters, fault", [("TCC_HIT TCC_MISS TCC_REQ TCC_BUSY TCC_READ", ""), ("SQ_WAVES", "over-full")]
)
def test_group_that_does_not_fit_aborts_the_application(counters, fault, bench):
    begin = time.monotonic()
    options = ("--pmc", *counters.split(), "-o", "x", "--", *app_command("--sleep", "30"))
    ended = bench.run("rocprofv3", *options, faults=fault)
    assert time.monotonic() - begin < 20
    assert ended.code == -signal.SIGABRT
    assert "failed with error code 38: Request exceeds the capabilities of the hardware to collect" in ended.err
    assert bench.databases() == []


def test_group_that_does_not_fit_is_harmless_while_nothing_is_counted(bench):
    assert collect(bench, "--pmc", "SQ_WAVES", "--kernel-include-regex", "^c$", faults="over-full").code == 0


def test_replay_rows_collapse(bench):
    collect(bench, *COUNT, faults="replay-collapse:3")
    assert counter_rows(bench.work / "x_results.db")["SQ_WAVES"] == (6 * 3 * 32, 6 * 3 * 1024.0)


def test_replay_can_give_up(tmp_path):
    bench = Bench(tmp_path, NEWEST)
    options = ("--replay-mode", "kernel", "--kernel-replay-beta-enabled")
    collect(bench, "--pmc", "SQ_WAVES", "--pmc", "TCC_HIT", *options, faults="replay-once")
    assert list(counter_rows(bench.work / "x_results.db")) == ["SQ_WAVES"]


# Kernels and dispatches


@pytest.mark.parametrize(
    "fault, counts",
    [
        ("missing-kernel", {"b": 3}),
        ("missing-kernel:b", {"a": 3}),
        ("extra-dispatch:b", {"a": 3, "b": 4}),
        ("other-geometry", {"a": 3, "b": 3}),
        ("duplicate-dispatches", {"a": 6, "b": 6}),
    ],
)
@pytest.mark.parametrize("options", [("--kernel-trace",), COUNT])
def test_sequence_of_dispatches(fault, counts, options, bench):
    collect(bench, *options, faults=fault)
    assert kernel_counts(bench.work / "x_results.db") == counts


def test_first_kernel_means_the_first_that_is_counted(bench):
    collect(bench, *COUNT, "--kernel-include-regex", "^b$", faults="other-geometry")
    assert query(bench.work / "x_results.db", "SELECT DISTINCT name, grid_x FROM kernels") == [("b", 131072)]


def test_duplicates_share_an_id(bench):
    collect(bench, "--kernel-trace", faults="duplicate-dispatches")
    assert query(bench.work / "x_results.db", "SELECT count(*), count(DISTINCT dispatch_id) FROM kernels") == [(12, 6)]


def test_times_of_one_dispatch(bench):
    collect(bench, "--kernel-trace", faults="outlier")
    durations = [row[0] for row in query(bench.work / "x_results.db", "SELECT duration FROM kernels ORDER BY 1")]
    assert durations[-1] > 100_000 * durations[-2]
    collect(bench, "--kernel-trace", faults="inverted-timestamps")
    assert query(bench.work / "x_results.db", "SELECT count(*) FROM kernels WHERE end < start") == [(1,)]


def test_no_kernel_no_file(bench):
    assert collect(bench, *COUNT, faults="no-kernel").code == 0
    assert bench.files() == []


def test_calls_without_kernels(bench):
    collect(bench, "--runtime-trace", faults="calls-only")
    path = bench.work / "x_results.db"
    assert (kernel_counts(path), query(path, "SELECT count(*) > 0 FROM regions")) == ({}, [(1,)])


def test_kernels_of_graphs_get_lost(bench):
    scenario = {"kernels": [{"name": "a", "count": 100, "launched_by": "hipGraphLaunch"}]}
    collect(bench, "--runtime-trace", faults="lost-graph-kernels:0.5", scenario=scenario)
    assert 30 < kernel_counts(bench.work / "x_results.db")["a"] < 70


# Processes


def test_one_pid_for_two_processes_defeats_even_the_pid_in_the_name(bench):
    ended = bench.run("rocprofv3", "--kernel-trace", "-o", "x_%pid%", "--", "true", faults="same-file")
    first, second = announced(ended.err)
    assert first == second
    assert len(bench.databases()) == 1


def test_dropped_process(bench):
    scenario = {"processes_count": 3, "agents_count": 3}
    bench.run("rocprofv3", "--kernel-trace", "-o", "x_%pid%", "--", "true", faults="dropped-process", scenario=scenario)
    assert len(bench.databases()) == 2


def test_orphan_lives_on_in_the_process_group(bench):
    collect(bench, "--kernel-trace", faults="orphan:60")
    [orphan] = [call["orphan"] for call in bench.calls() if "orphan" in call]
    try:
        os.kill(orphan, 0)
    finally:
        os.kill(orphan, signal.SIGKILL)


# Databases


def _is_sound(path: Path) -> bool:
    with closing(sqlite3.connect(path)) as connection:
        try:
            return connection.execute("PRAGMA quick_check").fetchall() == [("ok",)]
        except sqlite3.DatabaseError:
            return False


def test_partial_database_has_its_node_only(bench):
    assert collect(bench, "--kernel-trace", faults="partial-db").code == 0
    path = bench.work / "x_results.db"
    counts = [query(path, f"SELECT count(*) FROM rocpd_{base}") for base in ("info_node", "info_process", "string")]
    assert counts == [[(1,)], [(0,)], [(1,)]]


def test_truncated_database(bench):
    assert collect(bench, "--kernel-trace", faults="truncated-db").code == 0
    assert not _is_sound(bench.work / "x_results.db")


def test_empty_database(bench):
    collect(bench, "--kernel-trace", faults="empty-db")
    assert (bench.work / "x_results.db").stat().st_size == 0


def test_hot_journal_can_be_rolled_back(bench):
    assert collect(bench, "--kernel-trace", faults="hot-journal").code == -signal.SIGKILL
    path = bench.work / "x_results.db"
    assert (bench.work / "x_results.db-journal").stat().st_size > 0
    assert (bench.work / ".rocprofv3").exists()
    assert _is_sound(path)  # SQLite rolls it back
    assert query(path, "SELECT count(*) FROM rocpd_string WHERE string LIKE 'half%'") == [(0,)]
    assert kernel_counts(path) == {"a": 3, "b": 3}


def test_announcement_and_file_can_part(bench):
    assert list(announced(collect(bench, "--kernel-trace", faults="unannounced").err)) == []
    [path] = bench.databases()
    path.unlink()
    assert len(list(announced(collect(bench, "--kernel-trace", faults="announced-only").err))) == 1
    assert bench.databases() == []


# How it ends


@pytest.mark.parametrize(
    "fault, code, text",
    [
        ("exit-code:7", 7, ""),
        ("segfault", -signal.SIGSEGV, ""),
        ("segfault:graphs", -signal.SIGSEGV, ""),
        ("abort", -signal.SIGABRT, ""),
        ("killed", -signal.SIGKILL, ""),
        ("crash-at-output", -signal.SIGABRT, "double free"),
        ("munmap", -signal.SIGABRT, "munmap failed: Invalid argument"),
        ("munmap:pipe", -signal.SIGABRT, "munmap failed: Invalid argument"),
    ],
)
def test_ends(fault, code, text, bench):
    ended = collect(bench, "--kernel-trace", faults=fault)
    assert (ended.code, text in ended.err) == (code, True)
    is_written = code >= 0
    assert (len(bench.databases()), (bench.work / ".rocprofv3").exists()) == (int(is_written), not is_written)


def test_crash_at_output_with_hip_calls_only(bench):
    assert collect(bench, "--kernel-trace", faults="crash-at-output:hip").code == 0
    assert collect(bench, "--hip-trace", faults="crash-at-output:hip").code == -signal.SIGSEGV


@pytest.mark.parametrize("flags, code", [("--xla_gpu_enable_command_buffer=", 0), ("", -11), ("--xla_dump_to=x", -11)])
def test_graphs_crash_unless_command_buffers_are_off(flags, code, bench):
    ended = bench.run("rocprofv3", "--kernel-trace", "--", "true", faults="segfault:graphs", XLA_FLAGS=flags)
    assert ended.code == code


def test_ring_buffer_is_fine_with_files(bench):
    with (bench.work / "out").open("w") as out:
        ended = subprocess.run(
            ["rocprofv3", "--kernel-trace", "--", "true"],
            cwd=bench.work,
            env=bench.environment(faults="munmap:pipe"),
            stdout=out,
            stderr=out,
            check=False,
        )
    assert ended.returncode == 0


def test_slow_finalise(bench):
    begin = time.monotonic()
    collect(bench, "--kernel-trace", faults="slow-finalise:1")
    assert time.monotonic() - begin > 1


def test_stale_spill(bench):
    assert collect(bench, "--kernel-trace", faults="stale-spill").code == 0
    assert [path.suffix for path in (bench.work / ".rocprofv3").iterdir()] == [".dat"]


@pytest.mark.parametrize(
    "fault, ignored, ending, files_count",
    [
        ("hang", None, signal.SIGINT, 1),
        ("hang", None, signal.SIGTERM, 1),
        ("hang-ignoring-sigint", signal.SIGINT, signal.SIGTERM, 1),
        ("hang-ignoring-all", signal.SIGTERM, signal.SIGKILL, 0),
        ("comgr-conflict", signal.SIGINT, signal.SIGTERM, 0),
        ("over-full:hang", signal.SIGINT, signal.SIGTERM, 0),
    ],
)
def test_hangs_end_by_their_signal_only(fault, ignored, ending, files_count, bench):
    process = subprocess.Popen(
        ["rocprofv3", *COUNT, "-o", "x", "--", "true"],
        cwd=bench.work,
        env=bench.environment(faults=fault, scenario=TWO_KERNELS),
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    _wait_for_spill(bench)
    time.sleep(0.2)
    if ignored is not None:
        os.killpg(process.pid, ignored)
        time.sleep(0.2)
    assert process.poll() is None
    os.killpg(process.pid, ending)
    assert process.wait(timeout=PATIENCE_S) == -ending
    assert len(bench.databases()) == files_count
    if files_count:
        assert sum(kernel_counts(bench.databases()[0]).values()) == 3


def _wait_for_spill(bench: Bench) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not (bench.work / ".rocprofv3").exists() and time.monotonic() < deadline:
        time.sleep(0.02)


def test_hang_with_collectives_only_where_they_are_counted(bench):
    assert collect(bench, *COUNT, faults="hang:collectives").code == 0
    scenario = {"kernels": [{"name": "ncclDevKernel_Generic", "count": 1}, {"name": "a", "count": 1}]}
    options = (*COUNT, "--kernel-exclude-regex", "nccl|rccl|mscclpp")
    assert collect(bench, *options, faults="hang:collectives", scenario=scenario).code == 0
    with pytest.raises(subprocess.TimeoutExpired):
        subprocess.run(
            ["rocprofv3", *COUNT, "--", "true"],
            cwd=bench.work,
            env=bench.environment(faults="hang:collectives", scenario=scenario),
            stderr=subprocess.DEVNULL,
            timeout=1.5,
            check=False,
        )


# Texts


@pytest.mark.parametrize(
    "fault, text",
    [
        ("perfmon-warning", "Device 0 could not be locked for profiling due to lack of permissions"),
        ("caught-signal", "caught signal 15"),
        ("spm-loss", "SPM data loss"),
    ],
)
def test_texts_come_with_code_zero_and_a_whole_database(fault, text, bench):
    ended = collect(bench, *COUNT, faults=fault)
    assert (ended.code, text in ended.err) == (0, True)
    assert kernel_counts(bench.work / "x_results.db") == {"a": 3, "b": 3}


# Which runs


def test_fault_of_one_run_over_several_calls(bench):
    codes = [collect(bench, "--kernel-trace", faults="exit-code:5@2").code for _ in range(3)]
    assert codes == [0, 5, 0]


def test_fault_of_one_pass_of_a_call(bench):
    options = ("--pmc", "SQ_WAVES", "--pmc", "TCC_HIT", "-d", "D")
    collect(bench, *options, faults="missing-kernel@2")
    assert [kernel_counts(path) for path in bench.databases()] == [{"a": 3, "b": 3}, {"b": 3}]


@pytest.mark.parametrize(
    "where, options, is_meant",
    [
        ("TCC_HIT", COUNT, True),
        ("TCC_MISS", COUNT, False),
        ("pmc", COUNT, True),
        ("trace", COUNT, False),
        ("trace", ("--kernel-trace",), True),
        ("pmc", ("--kernel-trace",), False),
    ],
)
def test_fault_of_some_runs(where, options, is_meant, bench):
    assert (collect(bench, *options, faults=f"exit-code:5@{where}").code == 5) is is_meant


def test_every_fault_has_a_sentence_and_an_unknown_one_is_our_mistake():
    assert all(len(sentence) > 15 for sentence in FAULTS.values())
    with pytest.raises(KeyError):
        "no-such-fault" in Faults(parse_faults("hang"))  # noqa: B015


# rocprofv3-avail


def avail(bench: Bench, arguments: str, **keywords: Any) -> Ended:
    return bench.run("rocprofv3-avail", *arguments.split(), **keywords)


@pytest.mark.parametrize(
    "arguments, code, out, err",
    [
        ("pmc-check SQ_WAVES GRBM_COUNT", 0, "can be collected together on GPU:1\tSQ_WAVES\tGRBM_COUNT\n", ""),
        ("-d 0 pmc-check SQ_WAVES", 0, "Following input counters can be collected together on GPU:0\tSQ_WAVES\n", ""),
        ("pmc-check SQ_WAVES:device=1", 0, "GPU:1\tSQ_WAVES\n", ""),
        ("-d 0 pmc-check TA_TA_BUSY TA_BUFFER_WAVEFRONTS TA_FLAT_WAVEFRONTS", 1, "", "not collected on agent gfx950\n"),
        ("pmc-check NOPE", 1, "", "Fatal error: Invalid counter name\n"),
        ("pmc-check SQ_WAVES:device=9", 1, "", "Fatal error: Invalid device id : 9\n"),
        ("pmc-check", 1, "", "Fatal error: Provide counter to check\n"),
        ("info --pmc NOPE", 0, "GPU:0\nName:gfx950\n", ""),
        ("-d 1 info --pmc SQ_WAVES", 0, "Counter_Name        :\tSQ_WAVES\n", ""),
        ("info --pmc SQ_WAVES", 0, "Block               :\tSQ\nSPM                 :\t", ""),
        ("info --pmc MfmaUtil", 0, "Expression          :\tSQ_VALU_MFMA_BUSY_CYCLES", ""),
        ("list", 0, "GPU                           :\t1\nName                          :\tgfx950\npmc         ", ""),
        ("", 0, "usage: rocprofv3-avail", ""),
        ("list -d 0", 2, "", "unrecognized arguments: -d 0"),
        ("pmc-check -d 0 SQ_WAVES", 2, "", "unrecognized arguments: -d"),
    ],
)
def test_avail(arguments, code, out, err, bench):
    ended = avail(bench, arguments, scenario={"agents_count": 2})
    assert (ended.code, out in ended.out, err in ended.err) == (code, True, True), ended


def test_avail_of_an_older_release(tmp_path):
    bench = Bench(tmp_path, "1.0.0")
    assert "\nPMC   " in avail(bench, "list --pmc").out
    assert "SPM" not in avail(bench, "info --pmc SQ_WAVES").out


def test_avail_lists_what_can_be_collected(bench):
    listed = avail(bench, "list", scenario={"unknown_counters": ["TCC_HIT"]}).out.split()
    assert ("SQ_WAVES" in listed, "TCC_HIT_sum" in listed, "TCC_HIT" in listed) == (True, True, False)


def test_avail_knows_a_smaller_block(bench):
    assert avail(bench, "pmc-check TCP_GATE_EN1 TCP_GATE_EN2").code == 0
    assert avail(bench, "pmc-check TCP_GATE_EN1 TCP_GATE_EN2", faults="small-block:TCP=1").code == 1
    assert collect(bench, "--pmc", "TCP_GATE_EN1", "TCP_GATE_EN2", faults="small-block:TCP=1").code == -signal.SIGABRT


def test_avail_misbehaves(bench):
    assert avail(bench, "list", faults="avail-crash").code == -signal.SIGSEGV
    ended = avail(bench, "list", faults="avail-empty")
    assert (ended.code, ended.out) == (0, "")
    ended = avail(bench, "list", faults="avail-missing-lib")
    assert (ended.code, "OSError: " in ended.err) == (1, True)
    library = bench.bin_folder.parent / "lib" / "rocprofiler-sdk" / "librocprofv3-list-avail.so.1"
    fixed = avail(bench, "list", faults="avail-missing-lib", ROCPROF_LIST_AVAIL_TOOL_LIBRARY=str(library))
    assert fixed.code == 0


# rocprofv3 --version, rocpd, and what is installed


def test_version_can_fail_and_lie(bench):
    assert bench.run("rocprofv3", "--version", faults="version-fails").code == 1
    assert "version: 1.4.1" in bench.run("rocprofv3", "--version", faults="reports-version:1.4.1").out


def test_convert_names_its_files_in_its_own_way(bench):
    collect(bench, "--runtime-trace", *COUNT, faults="")
    ended = bench.run("rocpd", "convert", "-i", "x_results.db", "-f", "csv", "pftrace", "-o", "y", "-d", "D")
    assert (ended.code, ended.out) == (0, "Done. Exiting...\n")
    assert [name for name in bench.files() if name.startswith("D/")] == [
        "D/y_agent_info.csv",
        "D/y_counter_collection_trace.csv",
        "D/y_kernel_trace.csv",
        "D/y_memory_copy_trace.csv",
        "D/y_regions_trace.csv",
        "D/y_results.pftrace",
    ]


@pytest.mark.parametrize(
    "arguments, faults, code, text",
    [
        ("convert -f csv -i nowhere.db", "", 1, "FileNotFoundError"),
        ("convert -f csv -i x", "rocpd-import-error", 1, "ImportError"),
        ("convert -f parquet -i x", "", 2, "invalid choice"),
        ("convert -f csv", "", 2, "required"),
    ],
)
def test_convert_refuses(arguments, faults, code, text, bench):
    ended = bench.run("rocpd", *arguments.split(), faults=faults)
    assert (ended.code, text in ended.err) == (code, True)


def test_convert_can_pretend(bench):
    ended = bench.run("rocpd", "convert", "-f", "csv", "-i", "x", faults="rocpd-nothing")
    assert (ended.code, ended.out, bench.files()) == (0, "Done. Exiting...\n", [])


def test_old_release_has_neither_rocpd_nor_the_new_name_of_avail(tmp_path):
    names = sorted(path.name for path in Bench(tmp_path, "0.5.0").bin_folder.iterdir())
    assert names == ["rocprofv3", "rocprofv3_avail"]
