"""Known texts of stderr, and announced files. The samples are lines of public logs, or what the sources print."""

from __future__ import annotations

import tracemalloc
from pathlib import Path

import pytest

from rocktools.capture.known_texts import (
    OpenedFile,
    opened_files,
    opened_files_in_file,
    read_tail,
    scan_stderr,
    scan_stderr_file,
)
from rocktools.capture.tool_messages import KNOWN_TEXTS
from rocktools.errors import InputError
from rocktools.findings import Severity

HEAD = "20260224 15:18:42.333155 140594547236416"
UUID = "0198f3a2-7c11-7d4e-9a55-0123456789ab"

# Rule, line, part of the message, numbers beside the count of lines.
SAMPLES = [
    (
        "counter-group-too-large",
        f"F{HEAD} tool.cpp:1514] Could not construct profile cfg failed with error code 38: "
        "Request exceeds the capabilities of the hardware to collect",
        "do not fit into the hardware together",
        {"error_number": 38},
    ),
    (
        "counters-not-found",
        f"W{HEAD} tool.cpp:1500] Unable to find all counters for agent 4 (gpu-0, gfx950) in "
        "[SQ_WAVES, SQ_WAWES]. Found: [SQ_WAVES]. Missing: [SQ_WAWES]",
        "counters that gfx950 does not have were left out: SQ_WAWES (agents 4)",
        {},
    ),
    (
        "counters-not-found",
        f"W{HEAD} tool.cpp:1500] Unable to find all counters for agent 4 (gpu-0, gfx942) in "
        "[A, B:device=0, C:device=1, D]. Found: [D]",
        "left out: A, B:device=0 (agents 4)",
        {},
    ),
    ("nothing-was-traced", "Warning: No tracing options were enabled.", "unprofiled", {}),
    ("nothing-was-traced", "[rocprofv3] Warning: No tracing options were enabled.", "unprofiled", {}),
    (
        "queue-not-drained",
        f"W{HEAD} queue.cpp:938] Timeout while waiting for queue sync: 4 kernels still active",
        "4 of them",
        {"kernels_count": 4},
    ),
    (
        "rocprofiler-loaded-twice",
        "   |-> [rocprofiler-sdk] F0808 18:59:56.020553 246 registration.cpp:230] ROCPROFILER_REGISTER_LIBRARY is "
        "already set to '/v/_rocm_sdk_core/lib/librocprofiler-sdk.so.1' (resolves to '/v/x.so.1'), not overriding with "
        "'/v/_rocm_sdk_devel/lib/librocprofiler-sdk.so.1'",
        "/v/_rocm_sdk_core/lib/librocprofiler-sdk.so.1 and /v/_rocm_sdk_devel/lib/librocprofiler-sdk.so.1",
        {},
    ),
    ("llvm-loaded-twice", ": CommandLine Error: Option 'spirv-expand-step' registered more than once!", "LLVM", {}),
    ("llvm-loaded-twice", "LLVM ERROR: inconsistency in registered CommandLine options", "LLVM", {}),
    (
        "second-profiler",
        f"F{HEAD} tool.cpp:3300] api registration failed with error code 16: Configuration request occurred outside of "
        "valid rocprofiler configuration period",
        "uses rocprofiler-sdk too",
        {},
    ),
    (
        "second-profiler",
        f"W{HEAD} tool.cpp:3301] rocprofv3 has a priority of 1 (not primary tool)",
        "rocprofiler-sdk",
        {},
    ),
    ("ring-buffer-lost", "ring_buffer: munmap failed: Invalid argument", "(munmap: Invalid argument)", {}),
    (
        "ring-buffer-lost",
        f"F{HEAD} ring_buffer.cpp:106] mmap failed with errno 22 :: Invalid argument",
        "(mmap: Invalid argument)",
        {},
    ),
    (
        "list-avail-library-missing",
        "OSError: /v/lib/rocprofiler-sdk/librocprofv3-list-avail.so: cannot open shared object file: No such file",
        "/v/lib/rocprofiler-sdk/librocprofv3-list-avail.so",
        {},
    ),
    (
        "tool-not-loaded",
        "ERROR: ld.so: object '/opt/rocm/lib/librocprofiler-sdk-tool.so' from LD_PRELOAD cannot be preloaded "
        "(cannot open shared object file): ignored.",
        "/opt/rocm/lib/librocprofiler-sdk-tool.so could not be loaded",
        {},
    ),
    (
        "library-missing",
        "ImportError: libnuma.so.1: cannot open shared object file: No such file or directory",
        "libnuma.so.1",
        {},
    ),
    (
        "gpu-not-locked",
        "W20260112 16:56:23.465165 17098584899456 ioctl.cpp:68] Device 5998 could not be locked for profiling due to "
        "lack of permissions (capability SYS_PERFMON). PMC Counters may be inaccurate and System Counter Collection "
        "will be degraded.",
        "capability PERFMON",
        {},
    ),
    ("gpu-not-locked", "Required permission (CAP_PERFMON) is not set, permission denied", "capability PERFMON", {}),
    (
        "gpu-profiled-by-others",
        f"W{HEAD} ioctl.cpp:60] Device 1 has a profiler attached to it. PMC Counters may be inaccurate.",
        "(devices 1)",
        {},
    ),
    (
        "driver-cannot-lock-gpu",
        f"W{HEAD} ioctl.cpp:75] Driver/Kernel version does not support locking device 1. PMC Counters may be wrong.",
        "the driver cannot reserve GPUs",
        {},
    ),
    (
        "bad-iteration-range",
        f"F{HEAD} config.cpp:212] bad range format for '3-4-5'. Expected [A-B] where A and B are numbers",
        "range of iterations",
        {},
    ),
    (
        "bad-iteration-range",
        f"F{HEAD} config.cpp:220] expected integer for x. Non-integer value detected",
        "range of iterations",
        {},
    ),
    (
        "attach-not-possible",
        "E0923 01:12:46.171981 373 rocattach.cpp:358] [rocprofiler-sdk-rocattach] Cannot attach to process 185: "
        "'rocp-bg-attach' thread not found. The target process does not appear to have attach support enabled.",
        "(process 185)",
        {},
    ),
    (
        "arguments-refused",
        "rocprofv3: error: unrecognized arguments: --kernel-include",
        "rocprofv3 refused its arguments: unrecognized arguments: --kernel-include",
        {},
    ),
    ("arguments-refused", "rocprofv3-avail list: error: unrecognized arguments: -d 0", "rocprofv3-avail refused", {}),
    ("launcher-gave-up", "Fatal error: No application provided", "gave up: No application provided", {}),
    ("launcher-gave-up", "[rocprofv3] Fatal error: No application provided", "gave up: No application provided", {}),
    ("launcher-warned", "[rocprofv3] Warning: --stats has no effect", "warned: --stats has no effect", {}),
    (
        "crash-in-recorded-arguments",
        "    @     0x7f3ea3e3b59d rocprofiler_iterate_buffer_tracing_record_args",
        "arguments of HIP calls",
        {},
    ),
    (
        "crash-in-command-buffer",
        "    @     0x7f3ea3e3b59d rocr::core::InterceptQueue::Submit()",
        "command buffer of XLA",
        {},
    ),
    ("heap-damaged", "free(): invalid pointer", "free(): invalid pointer", {}),
    ("heap-damaged", "double free or corruption (!prev)", "double free or corruption (!prev)", {}),
    (
        "tool-caught-signal",
        "W20250919 21:55:21.036105 140675557010176 tool.cpp:2784] [PPID=68][PID=188][TID=188]"
        "[rocprofv3_error_signal_handler] rocprofv3 caught signal 15...",
        "(SIGTERM)",
        {"signal_number": 15},
    ),
    (
        "tool-caught-signal",
        "W20250616 14:24:55.973751 123488037766848 tool.cpp:1902] rocprofv3_error_signal_handler caught signal 6...",
        "(SIGABRT)",
        {"signal_number": 6},
    ),
    (
        "tool-waits-for-children",
        f"W{HEAD} tool.cpp:2807] [rocprofv3_error_signal_handler] rocprofv3 will wait for 2 children to exit",
        "never end: 2",
        {"children_count": 2},
    ),
    (
        "tool-waits-for-children",
        f"W{HEAD} tool.cpp:2807] [signal_finalization_worker] rocprofv3 waiting for 12 children to exit",
        "never end: 12",
        {"children_count": 12},
    ),
    ("samples-lost", f"W{HEAD} tool.cpp:2100] SPM data loss in dispatch ID 17", "(dispatches 17)", {}),
    (
        "records-dropped",
        f"W{HEAD} tool.cpp:2700] [rocprofv3] Skipping output generation after attach/detach: 5 bytes from 1 sources "
        "remain unflushed. This indicates one or more tracers did not fully stop after detach; that data is dropped.",
        "dropped records: [rocprofv3] Skipping output generation",
        {},
    ),
    (
        "gpu-memory-fault",
        "Memory access fault by GPU node-2 (Agent handle: 0x3d950a40) on address 0xf9aee82c000. Reason: Unknown.",
        "(GPU nodes 2)",
        {},
    ),
    ("gpu-access-denied", "Unable to open /dev/kfd read-write: Permission denied", "/dev/kfd could not be opened", {}),
    ("no-gpu", "hipErrorNoDevice: no ROCm-capable device is detected", "HIP saw no GPU", {}),
    (
        "hsa-error",
        "Error Calling hsa_iterate_agents: HSA_STATUS_ERROR_OUT_OF_RESOURCES: The runtime failed",
        "the runtime reported HSA_STATUS_ERROR_OUT_OF_RESOURCES",
        {},
    ),
    ("disk-full", "OSError: [Errno 28] No space left on device: '/tmp/x'", "a disk was full", {}),
    ("too-many-open-files", "symbolize_elf.inc:155] Unable to get high fd", "more files", {}),
    (
        "exception-not-caught",
        "terminate called after throwing an instance of 'std::out_of_range'",
        "nobody caught: std::out_of_range",
        {},
    ),
    ("exception-not-caught", "terminate called without an active exception", "nobody caught: unknown", {}),
    (
        "tool-aborted",
        f"F{HEAD} tool.cpp:900] Decoder library not found!",
        "the tool aborted in tool.cpp: Decoder library not found!",
        {},
    ),
]

HARMLESS = f"""\
W{HEAD} simple_timer.cpp:55] [rocprofv3] tool initialization ::     0.000312 sec
W{HEAD} tool.cpp:2420] HSA version 8.19.1 initialized (instance=0)
E{HEAD} generateRocpd.cpp:1076] Opened result file: /run/trace/12_results.db (UUID={UUID})
W{HEAD} tool.cpp:2807] [rocprofv3_error_signal_handler] rocprofv3 will wait for 0 children to exit
F0000 00:00:1786848211.450142 3821845 shape.h:852] Check failed: buffer != nullptr ((null) vs. (null))
W0000 00:00:1786848211.450142 3821845 gpu_executable.cc:12] some buffers were dropped
INFO dropping the learning rate; dropout = 0.1; epochs dropped
train.py: error: unrecognized arguments: --x
Option parsing is done; the error: code is 0
2026-01-01 this run caught signal from noise
"""


@pytest.mark.parametrize("rule, line, message, numbers", SAMPLES, ids=[f"{s[0]}-{i}" for i, s in enumerate(SAMPLES)])
def test_known_text_becomes_its_finding_and_no_other(rule, line, message, numbers):
    findings = scan_stderr(f"before\n{line}\nafter\n", "logs/trace.stderr")
    assert [finding.rule for finding in findings] == [rule]
    assert message in findings[0].message
    assert findings[0].numbers == {"lines_count": 1, **numbers}
    assert findings[0].where == "logs/trace.stderr, line 2"


def test_every_row_has_a_sample():
    assert {row.rule for row in KNOWN_TEXTS} == {sample[0] for sample in SAMPLES}


def test_rules_are_unique_and_failure_modes_exist():
    rules = [row.rule for row in KNOWN_TEXTS]
    assert len(rules) == len(set(rules))
    assert {mode for row in KNOWN_TEXTS for mode in row.modes} <= set(range(1, 35))


@pytest.mark.parametrize("row", KNOWN_TEXTS, ids=lambda row: row.rule)
def test_needles_are_in_the_lines_that_are_found(row):
    lines = [sample[1] for sample in SAMPLES if sample[0] == row.rule]
    assert all(row.pattern.search(line) and any(needle in line for needle in row.needles) for line in lines)


def test_lines_of_a_good_run_are_no_findings():
    assert scan_stderr(HARMLESS, "stderr") == []


def test_lines_of_one_rule_are_one_finding_with_all_their_values():
    text = "".join(
        f"W{HEAD} tool.cpp:1] Unable to find all counters for agent {agent} (gpu-{agent - 4}, gfx950) in [A, B, C]. "
        f"Found: [C]. Missing: [A, B]\n"
        for agent in range(4, 12)
    )
    (finding,) = scan_stderr(text, "stderr")
    assert finding.message == (
        "counters that gfx950 does not have were left out: A, B (agents 4, 5, 6, 7, 8, 9 and 2 more)"
    )
    assert finding.numbers == {"lines_count": 8}


def test_largest_of_several_numbers_is_kept():
    lines = [
        f"W{HEAD} queue.cpp:1] Timeout while waiting for queue sync: {count} kernels still active"
        for count in (3, 7, 5)
    ]
    (finding,) = scan_stderr("\n".join(lines), "stderr")
    assert finding.numbers == {"lines_count": 3, "kernels_count": 7}


def test_findings_stand_in_the_order_of_the_table():
    lines = [sample[1] for sample in SAMPLES]
    rules = [finding.rule for finding in scan_stderr("\n".join(reversed(lines)), "stderr")]
    assert rules == [row.rule for row in KNOWN_TEXTS]


def test_lines_are_numbered_as_editors_do_although_progress_bars_end_them_with_carriage_returns():
    text = "one\r\n 10%|#  |\r 20%|## |\rfree(): invalid pointer\nthree\n"
    (finding,) = scan_stderr(text, "stderr")
    assert finding.where == "stderr, line 2"


def test_absurd_numbers_are_no_crash():
    text = f"rocprofv3 caught signal {'9' * 8000}\nrocprofv3 caught signal 99\n"
    (finding,) = scan_stderr(text, "stderr")
    assert "signal 99" in finding.message


def test_file_is_scanned_as_its_text(tmp_path):
    path = tmp_path / "stderr"
    text = HARMLESS + "\n".join(sample[1] for sample in SAMPLES)
    path.write_bytes(b"\xff\xfe" + text.encode())
    assert scan_stderr_file(path) == scan_stderr("\ufffd\ufffd" + text, str(path))


def test_file_of_any_size_takes_little_memory(tmp_path):
    path = tmp_path / "stderr"
    with path.open("wb") as file:
        file.truncate(60_000_000)  # one line of zero bytes
        file.seek(0, 2)
        file.write(b"\nfree(): invalid pointer\n")
        file.write(f"Opened result file: {tmp_path}/1.db\n".encode())
    tracemalloc.start()
    try:
        (finding,) = scan_stderr_file(path)
        (opened,) = opened_files_in_file(path)
        _, peak_bytes = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert finding.where.endswith("line 2")
    assert opened.path == tmp_path / "1.db"
    assert peak_bytes < 20_000_000


def test_missing_file_is_named(tmp_path):
    for read in (scan_stderr_file, opened_files_in_file, read_tail):
        with pytest.raises(InputError, match="log-unreadable") as caught:
            read(tmp_path / "absent")
        assert str(tmp_path / "absent") in str(caught.value)


def test_texts_that_only_explain_are_no_faults():
    """A fault makes a pass unusable, so it needs a text that says so; the rest is left to the check of the rows."""
    faults = {row.rule for row in KNOWN_TEXTS if row.severity is Severity.FAULT}
    assert {"counter-group-too-large", "counters-not-found", "nothing-was-traced", "tool-aborted"} <= faults
    assert not {"tool-caught-signal", "gpu-not-locked", "library-missing", "hsa-error", "launcher-warned"} & faults


# Announced files.


def test_announced_files_in_both_forms():
    text = (
        f"E{HEAD} generateRocpd.cpp:1076] Opened result file: /run/a b/(1)_results.db (UUID={UUID})\n"
        f"E{HEAD} output_stream.cpp:111] Opened result file: out/1_results.json\r\n"
        "noise\n"
    )
    assert opened_files(text) == [
        OpenedFile(Path("/run/a b/(1)_results.db"), UUID),
        (Path("out/1_results.json"), None),
    ]


def test_file_that_two_processes_announce_stands_there_twice():
    line = "E0720 12:00:00.000000 1 generateRocpd.cpp:1] Opened result file: out_results.db"
    assert [opened.path.name for opened in opened_files(f"{line}\n{line} (UUID={UUID})\n")] == ["out_results.db"] * 2


def test_announcement_behind_a_progress_bar_is_found():
    assert opened_files("10%|#  |\rOpened result file: a.db\r20%|## |\n") == [(Path("a.db"), None)]


def test_nothing_announced_is_an_empty_list():
    assert opened_files(HARMLESS.replace("Opened", "Closed")) == []


# The end of a log.


def test_tail_begins_with_a_whole_line(tmp_path):
    path = tmp_path / "stderr"
    path.write_text("".join(f"line {number}\n" for number in range(1000)))
    tail = read_tail(path, at_most_bytes=100)
    assert tail.startswith("line 9")
    assert tail.endswith("line 999\n")
    assert len(tail) <= 100
    assert read_tail(path) == path.read_text()
