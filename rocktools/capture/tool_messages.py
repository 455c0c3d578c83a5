"""Texts that profiled runs write to stderr, and what each of them means: the table behind `known_texts`.

Every text was read in the source of the tool that prints it, or in a public report of a run. Severities are for a run
whose rows are checked anyway: a fault is what no check of rows could excuse, a warning what explains a missing row.

Lines of rocprofiler-sdk are glog lines: a letter for the severity, date, time, thread, file and line, text. The date of
some builds has no year.
"""

from __future__ import annotations

import re
import signal
from collections.abc import Callable
from dataclasses import dataclass

from rocktools.findings import Severity

# The last words of rocprofiler-sdk before it aborts. The suffix tells it from XLA, whose files end in .cc; another
# library that logs through glog from .cpp files (PyTorch can) looks the same.
TOOL_FATAL = re.compile(r"\bF\d{4,8} [\d:.]+ +\d+ (?P<file>[\w./-]+\.[ch]pp):\d+\] (?P<text>[^\r\n]*)")

Values = dict[str, tuple[str, ...]]


def _groups(match: re.Match[str]) -> Values:
    return {name: (value.strip(),) for name, value in match.groupdict().items() if value}


def _signal_by_name(match: re.Match[str]) -> Values:
    number = match["signal_number"]
    try:
        name = signal.Signals(int(number)).name
    except ValueError:
        name = f"signal {number}"
    return {"signal_number": (number,), "signal": (name,)}


def _missing_counters(match: re.Match[str]) -> Values:
    """Builds before 1.3 do not name what is missing. A counter for another device is missing on purpose."""
    if match["missing"] is not None:
        missing = _names(match["missing"])
    else:
        found = set(_names(match["found"]))
        device = match["device_number"]
        missing = tuple(
            name
            for name in _names(match["requested"])
            if name not in found and name.partition(":device=")[2] in ("", device)
        )
    return {"missing": missing, "agent": (match["agent"],), "architecture": (match["architecture"],)}


def _names(listed: str) -> tuple[str, ...]:
    return tuple(filter(None, re.split(r"[,\s]+", listed)))


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownText:
    """One row of the table.

    Attributes:
        rule: of the finding.
        needles: every line that the pattern finds holds one of them; they are looked for first, since that is cheap.
        pattern: searched in each line. Groups whose name ends in `_number` or `_count` become numbers of the finding,
            the largest of each.
        modes: numbers of the known failure modes of rocprofv3 that it is a sign of (the table in the tests lists them).
        message: with the names of values in braces; several values are listed.
        read_values: the values of one line.
    """

    rule: str
    severity: Severity
    needles: tuple[str, ...]
    pattern: re.Pattern[str]
    modes: tuple[int, ...] = ()
    message: str
    advice: str = ""
    read_values: Callable[[re.Match[str]], Values] = _groups


# The first row that finds something in a line takes it, so special texts stand before general ones.
# Sources are files of ROCm/rocm-systems, projects/rocprofiler-sdk/source, unless another is named.
KNOWN_TEXTS: tuple[KnownText, ...] = (
    # lib/rocprofiler-sdk-tool/tool.cpp, construct_counter_collection_profile: fatal, in the first counted dispatch.
    # Status 38 reads the same in 1.0 and 1.3. Failure mode 27 is the one-counter limit of gfx1151.
    KnownText(
        rule="counter-group-too-large",
        severity=Severity.FAULT,
        needles=("Request exceeds the capabilities of the hardware",),
        pattern=re.compile(
            r"(?:error code (?P<error_number>\d{1,18}): )?Request exceeds the capabilities of the hardware to collect"
        ),
        modes=(1, 27),
        message="the counters of this pass do not fit into the hardware together, and the tool aborted",
        advice="split the pass; rocprofv3-avail -d 0 pmc-check COUNTER... tells what fits",
    ),
    # The same function: a warning for each agent, and the run goes on with what was found.
    KnownText(
        rule="counters-not-found",
        severity=Severity.FAULT,
        needles=("Unable to find all counters for agent",),
        pattern=re.compile(
            r"Unable to find all counters for agent (?P<agent>\d+) "
            r"\(gpu-(?P<device_number>\d{1,18}), (?P<architecture>[^)]*)\) in \[(?P<requested>[^\]]*)\]\. "
            r"Found: \[(?P<found>[^\]]*)\](?:\. Missing: \[(?P<missing>[^\]]*)\])?"
        ),
        modes=(2,),
        message="counters that {architecture} does not have were left out: {missing} (agents {agent})",
        advice="rocprofv3-avail -d 0 list --pmc shows the names that exist there",
        read_values=_missing_counters,
    ),
    # bin/rocprofv3.py: only a warning, also after --pmc without names; the application runs unprofiled.
    KnownText(
        rule="nothing-was-traced",
        severity=Severity.FAULT,
        needles=("No tracing options were enabled",),
        pattern=re.compile(r"Warning: No tracing options were enabled"),
        message="rocprofv3 was asked for nothing, so the application ran unprofiled",
        advice="ask for a trace or for counters",
    ),
    # lib/rocprofiler-sdk/hsa/queue.cpp, sync: kernels that wait for each other while counting runs them one at a time,
    # a queue too deep to drain, or what is left after a crash.
    KnownText(
        rule="queue-not-drained",
        severity=Severity.WARNING,
        needles=("Timeout while waiting for queue sync",),
        pattern=re.compile(r"Timeout while waiting for queue sync: (?P<kernels_count>\d{1,18}) kernels? still active"),
        modes=(3, 7),
        message="the tool waited in vain for kernels to end: {kernels_count} of them",
        advice="leave out kernels that wait for others (collectives, cooperative ones), and synchronise every step",
    ),
    # lib/rocprofiler-sdk/registration.cpp; both paths in an abort with wheels that bring a ROCm of their own.
    KnownText(
        rule="rocprofiler-loaded-twice",
        severity=Severity.WARNING,
        needles=("ROCPROFILER_REGISTER_LIBRARY is already set",),
        pattern=re.compile(
            r"ROCPROFILER_REGISTER_LIBRARY is already set to '(?P<first>[^']*)'(?:[^\r\n]*not overriding with "
            r"'(?P<second>[^']*)')?"
        ),
        modes=(13,),
        message="two copies of rocprofiler-sdk met in one process: {first} and {second}",
        advice="use the rocprofv3 that belongs to the ROCm of the application",
    ),
    # LLVM, lib/Support/CommandLine.cpp. ROCm/TransformerEngine issue 739 with 'spirv-expand-step'.
    KnownText(
        rule="llvm-loaded-twice",
        severity=Severity.FAULT,
        needles=("inconsistency in registered CommandLine options", "registered more than once"),
        pattern=re.compile(
            r"CommandLine Error: Option '(?P<option>[^']*)' registered more than once"
            r"|inconsistency in registered CommandLine options"
        ),
        modes=(13,),
        message="two copies of LLVM met in one process, which aborts it",
        advice="keep to one ROCm: use the rocprofv3 that belongs to the ROCm of the application",
    ),
    # Status strings of the library, and lib/rocprofiler-sdk-tool/tool.cpp: a second client of rocprofiler-sdk, or a
    # second HIP runtime that registers late. XLA's own profiler is such a client (ROCm/rocm-jax issues 222, 223, 227).
    KnownText(
        rule="second-profiler",
        severity=Severity.WARNING,
        needles=("rocprofiler configuration period", "conflict with another context", "(not primary tool)"),
        pattern=re.compile(
            r"Configuration request occurred outside of valid rocprofiler configuration period"
            r"|Context has a conflict with another context|has a priority of \d+ \(not primary tool\)"
        ),
        modes=(17, 18),
        message="something else in the process uses rocprofiler-sdk too, or a second HIP runtime was loaded",
        advice="switch off jax.profiler and other profilers in this run",
    ),
    # lib/common/container/ring_buffer.cpp. ROCm/rocm-systems issue 3505: output to a pipe, in docker; others met it in
    # a container whose working directory is not writable.
    KnownText(
        rule="ring-buffer-lost",
        severity=Severity.FAULT,
        needles=("ring_buffer",),
        pattern=re.compile(
            r"ring_buffer[^\r\n]*\b(?P<call>mmap|munmap) failed(?: with errno \d+ ::|:) (?P<reason>[^\r\n]*)"
        ),
        modes=(12,),
        message="a buffer of the tool was lost when it wrote its results ({call}: {reason})",
        advice="run it in a writable folder, with docker --init, and compile the kernels of Triton before",
    ),
    # ROCm/TheRock issue 2603: the wheel has the library with its version only.
    KnownText(
        rule="list-avail-library-missing",
        severity=Severity.WARNING,
        needles=("librocprofv3-list-avail",),
        pattern=re.compile(r"(?P<library>[^\s:]*librocprofv3-list-avail\.so)[^\r\n]*(?:cannot open|No such file)"),
        modes=(14,),
        message="rocprofv3-avail does not find its library {library}",
        advice="ROCPROF_LIST_AVAIL_TOOL_LIBRARY may name librocprofv3-list-avail.so.1 instead",
    ),
    # glibc, elf/rtld.c: the program runs all the same, unprofiled.
    KnownText(
        rule="tool-not-loaded",
        severity=Severity.WARNING,
        needles=("from LD_PRELOAD cannot be preloaded",),
        pattern=re.compile(r"object '(?P<library>[^']*rocprof[^']*)' from LD_PRELOAD cannot be preloaded"),
        message="a process ran unprofiled, because {library} could not be loaded into it",
        advice="check that the library exists and can be read where the process runs",
    ),
    # glibc, elf/dl-load.c. A warning only: some libraries are tried and not needed.
    KnownText(
        rule="library-missing",
        severity=Severity.WARNING,
        needles=("cannot open shared object file",),
        pattern=re.compile(r"(?P<library>[^\s:'\"]+\.so[.\d]*): cannot open shared object file"),
        message="libraries were not found: {library}",
        advice="install them, or add their folder to LD_LIBRARY_PATH",
    ),
    # lib/rocprofiler-sdk/counters/ioctl.cpp, and the message of the driver check. It is the capability that counts
    # here; perf_event_paranoid does not matter for this lock (using-rocprofv3-doctor.rst).
    KnownText(
        rule="gpu-not-locked",
        severity=Severity.WARNING,
        needles=("could not be locked for profiling", "CAP_PERFMON) is not set"),
        pattern=re.compile(
            r"Device (?P<device>\d+) could not be locked for profiling|Required permission \(CAP_PERFMON\) is not set"
        ),
        modes=(23,),
        message="GPUs could not be reserved for profiling without the capability PERFMON, so counters may be wrong",
        advice="docker run --cap-add PERFMON, or run as root; see that nothing else profiles these GPUs",
    ),
    # The same file. Somebody else holds the lock.
    KnownText(
        rule="gpu-profiled-by-others",
        severity=Severity.FAULT,
        needles=("has a profiler attached to it",),
        pattern=re.compile(r"Device (?P<device>\d+) has a profiler attached to it"),
        modes=(23,),
        message="another process profiles the same GPUs, so counters may be wrong (devices {device})",
        advice="end the other profiler, then run again",
    ),
    # The same file. Older amdgpu drivers.
    KnownText(
        rule="driver-cannot-lock-gpu",
        severity=Severity.NOTE,
        needles=("does not support locking device", "depends on a newer version of KFD"),
        pattern=re.compile(r"does not support locking device (?P<device>\d+)|depends on a newer version of KFD"),
        modes=(23,),
        message="the driver cannot reserve GPUs for profiling, so another profiler could disturb the counters",
        advice="see that nothing else profiles these GPUs, or install a newer amdgpu driver",
    ),
    # lib/rocprofiler-sdk-tool/config.cpp, get_kernel_filter_range: fatal, at the start of every process.
    KnownText(
        rule="bad-iteration-range",
        severity=Severity.FAULT,
        needles=("bad range format for", "Non-integer value detected"),
        pattern=re.compile(
            r"bad range format for '(?P<range>[^']*)'|expected integer for (?P<word>\S+)\. Non-integer value detected"
        ),
        message="the tool did not understand the range of iterations, and aborted",
        advice="write it as [first-last]",
    ),
    # lib/rocprofiler-sdk-rocattach (ROCm/rocm-systems pull request 6557).
    KnownText(
        rule="attach-not-possible",
        severity=Severity.WARNING,
        needles=("rocp-bg-attach", "attach support"),
        pattern=re.compile(r"Cannot attach to process (?P<process>\d+)|does not appear to have attach support"),
        modes=(30,),
        message="the process was not started in a way that a profiler can attach to (process {process})",
        advice="start it with ROCP_TOOL_ATTACH=1",
    ),
    # argparse, in bin/rocprofv3.py and its siblings. AMDResearch/intellikit issue 69.
    KnownText(
        rule="arguments-refused",
        severity=Severity.FAULT,
        needles=(": error: ",),
        pattern=re.compile(r"^(?P<tool>rocprofv3[\w-]*|rocpd|rocprof-compute)(?: [\w-]+)?: error: (?P<text>[^\r\n]*)"),
        modes=(31,),
        message="{tool} refused its arguments: {text}",
        advice="compare them with its --help; options differ between versions",
    ),
    # bin/rocprofv3.py, fatal_error; since 1.3 with the name in brackets.
    KnownText(
        rule="launcher-gave-up",
        severity=Severity.WARNING,
        needles=("Fatal error: ",),
        pattern=re.compile(r"^(?:\[[\w-]+\] )?Fatal error: (?P<text>[^\r\n]*)"),
        message="the launcher gave up: {text}",
    ),
    # bin/rocprofv3.py, warning: options that are dropped, added or changed.
    KnownText(
        rule="launcher-warned",
        severity=Severity.NOTE,
        needles=("[rocprofv3] Warning: ",),
        pattern=re.compile(r"^\[rocprofv3\] Warning: (?P<text>[^\r\n]*)"),
        message="the launcher warned: {text}",
    ),
    # lib/rocprofiler-sdk-tool/tool.cpp. Frames that a crash handler prints: arguments recorded with --hip-trace
    # (ROCm/FlyDSL issue 187) ...
    KnownText(
        rule="crash-in-recorded-arguments",
        severity=Severity.FAULT,
        needles=("rocprofiler_iterate_buffer_tracing_record_args",),
        pattern=re.compile(r"rocprofiler_iterate_buffer_tracing_record_args"),
        modes=(33,),
        message="the tool crashed while it wrote the arguments of HIP calls",
        advice="trace kernels without HIP calls",
    ),
    # ... and HIP graphs below queue interception (openxla/xla issue 46952, EnzymeAD/Reactant.jl issue 3175).
    KnownText(
        rule="crash-in-command-buffer",
        severity=Severity.FAULT,
        needles=("InterceptQueue", "RocmCommandBuffer"),
        pattern=re.compile(r"\bInterceptQueue::Submit\b|\bRocmCommandBuffer::LaunchGraph\b"),
        modes=(19,),
        message="the process crashed where a command buffer of XLA was launched",
        advice="add --xla_gpu_enable_command_buffer= to XLA_FLAGS, with nothing behind the sign",
    ),
    # glibc, malloc/malloc.c. ROCm/rocprofiler-sdk issue 93; EnzymeAD/Reactant.jl issue 2455.
    KnownText(
        rule="heap-damaged",
        severity=Severity.FAULT,
        needles=("double free", "free(): ", "malloc(): ", "corrupted "),
        pattern=re.compile(
            r"^(?P<text>(?:double free|free\(\): |malloc\(\): |munmap_chunk\(\): |corrupted (?:size|double))[^\r\n]*)"
        ),
        modes=(18,),
        message="the memory of a process was damaged: {text}",
        advice="see that only one profiler is in the process; a newer rocprofiler-sdk may help",
    ),
    # lib/rocprofiler-sdk-tool/tool.cpp, rocprofv3_error_signal_handler, in two wordings.
    # ROCm/rocm-systems issue 1072. It is the normal answer to a signal of ours.
    KnownText(
        rule="tool-caught-signal",
        severity=Severity.WARNING,
        needles=("caught signal",),
        pattern=re.compile(r"\brocprofv3[^\r\n]* caught signal (?P<signal_number>\d{1,18})"),
        modes=(9, 10),
        message="processes were ended by a signal while they were profiled ({signal}); their results may be cut short",
        advice="let workers end by themselves: join them before the main process ends",
        read_values=_signal_by_name,
    ),
    # The same file, wait_for_children, in two wordings.
    KnownText(
        rule="tool-waits-for-children",
        severity=Severity.WARNING,
        needles=("children to exit",),
        pattern=re.compile(r"rocprofv3 (?:will wait|waiting) for (?P<children_count>[1-9]\d{0,17}) children to exit"),
        modes=(10,),
        message="the tool waited for children that may never end: {children_count}",
        advice="rocprofv3 --disable-signal-handlers, where the application ends cleanly by itself",
    ),
    # The same file, spm_dispatch_callback.
    KnownText(
        rule="samples-lost",
        severity=Severity.WARNING,
        needles=("SPM data loss",),
        pattern=re.compile(r"SPM data loss(?: in dispatch ID (?P<dispatch>\d+))?"),
        message="streaming counters lost data (dispatches {dispatch})",
        advice="sample less often",
    ),
    # Any line of the tool about dropped records; in 1.4 one after detaching, others of the KFD.
    KnownText(
        rule="records-dropped",
        severity=Severity.WARNING,
        needles=("dropped", "dropping"),
        pattern=re.compile(r"\.[ch]pp:\d+\] (?P<text>[^\r\n]*\bdropp(?:ed|ing)\b[^\r\n]*)"),
        message="the tool dropped records: {text}",
        advice="trace less at once",
    ),
    # ROCr, runtime/hsa-runtime: a kernel touched memory it must not, with or without a profiler.
    KnownText(
        rule="gpu-memory-fault",
        severity=Severity.FAULT,
        needles=("Memory access fault by GPU node-",),
        pattern=re.compile(r"Memory access fault by GPU node-(?P<node>\d+)"),
        message="a kernel touched memory that it may not (GPU nodes {node})",
        advice="run it without the profiler: if it fails too, it is the application",
    ),
    # ROCt and ROCr: no access to the device file.
    KnownText(
        rule="gpu-access-denied",
        severity=Severity.WARNING,
        needles=("/dev/kfd",),
        pattern=re.compile(r"/dev/kfd\b[^\r\n]*(?:Permission denied|No such file)"),
        message="/dev/kfd could not be opened, so there was no GPU",
        advice="docker run --device /dev/kfd --device /dev/dri --group-add video --group-add render",
    ),
    # HIP, hipErrorNoDevice.
    KnownText(
        rule="no-gpu",
        severity=Severity.WARNING,
        needles=("no ROCm-capable device is detected", "hipErrorNoDevice"),
        pattern=re.compile(r"no ROCm-capable device is detected|hipErrorNoDevice"),
        message="HIP saw no GPU",
        advice="check HIP_VISIBLE_DEVICES, ROCR_VISIBLE_DEVICES and the access to /dev/kfd",
    ),
    # ROCr status names. A warning only: some are asked for and handled.
    KnownText(
        rule="hsa-error",
        severity=Severity.WARNING,
        needles=("HSA_STATUS_ERROR",),
        pattern=re.compile(r"\b(?P<status>HSA_STATUS_ERROR\w*)"),
        message="the runtime reported {status}",
    ),
    # strerror of ENOSPC and EMFILE. The tool spills to ROCPROF_TMPDIR and writes to the run directory.
    KnownText(
        rule="disk-full",
        severity=Severity.WARNING,
        needles=("No space left on device",),
        pattern=re.compile(r"No space left on device"),
        message="a disk was full, so results are cut short or missing",
        advice="free space where the run directory and ROCPROF_TMPDIR are, /dev/shm included",
    ),
    KnownText(
        rule="too-many-open-files",
        severity=Severity.WARNING,
        needles=("Too many open files", "Unable to get high fd"),
        pattern=re.compile(r"Too many open files|Unable to get high fd"),
        message="a process could not open more files",
        advice="ulimit -n 65536, or docker run --ulimit nofile=65536",
    ),
    # libstdc++: an exception nobody caught. The tool throws in callbacks, at a bad regex for one.
    KnownText(
        rule="exception-not-caught",
        severity=Severity.WARNING,
        needles=("terminate called",),
        pattern=re.compile(r"terminate called (?:after throwing an instance of '(?P<exception>[^']*)'|without)"),
        message="C++ code threw an exception that nobody caught: {exception}",
    ),
    # Everything else that made the tool abort.
    KnownText(
        rule="tool-aborted",
        severity=Severity.FAULT,
        needles=("pp:",),
        pattern=TOOL_FATAL,
        message="the tool aborted in {file}: {text}",
    ),
)
