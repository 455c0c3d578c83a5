"""Texts that rocprof-compute prints when it fails, and what each of them means: a table for `known_texts`.

They are from public issues about it, from its sources, or from runs of the program of August 2025. It prints errors to
either stream, and what its application and rocprofv3 print goes into the same log: so their texts are known here, too.

A text explains why rows are missing and does not replace looking at the rows. A fault is what stays as it is until
somebody mends it: a run that failed with one is not tried again.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from rocktools.capture.known_texts import scan_stderr_file
from rocktools.capture.tool_messages import KNOWN_TEXTS, KnownText
from rocktools.findings import Finding, Severity


def _fault(rule: str, needle: str, message: str, advice: str, *, pattern: str | None = None) -> KnownText:
    return KnownText(
        rule=rule,
        severity=Severity.FAULT,
        needles=(needle,),
        pattern=re.compile(re.escape(needle) if pattern is None else pattern),
        message=message,
        advice=advice,
    )


_PANDAS = "its Python has pandas 3, with which this release does not work"
_PANDAS_ADVICE = "--compute-python names a Python with pandas<3 (pandas 2.2.3 is known to work)"

# The first row that finds something in a line takes it.
COMPUTE_TEXTS: tuple[KnownText, ...] = (
    # ROCm/rocm-systems issues 3257 and 4199 (profile of 7.0 to 7.2), and its analyze of August 2025.
    _fault("compute-needs-old-pandas", "trying to merge on str and int64 columns", _PANDAS, _PANDAS_ADVICE),
    _fault(
        "compute-needs-old-pandas",
        "could not convert string to float",
        _PANDAS,
        _PANDAS_ADVICE,
        pattern=r"could not convert string to float: '\\n\s*to_(?:avg|min|max|std|median|sum|int|round|mod)\(",
    ),
    _fault(
        "compute-python-incomplete",
        "ModuleNotFoundError: No module named",
        "a Python lacks the module {module}: that of rocprof-compute, or that of the replay",
        "--compute-python names a Python with the tool's requirements, --python one with JAX",
        pattern=r"ModuleNotFoundError: No module named '?(?P<module>[\w.]+)",
    ),
    # ROCm/rocm-systems issue 3560: a column that is empty in all rows, after a join of many blocks.
    _fault(
        "compute-empty-cells",
        "Found empty cells in",
        "analyze gives up on empty cells in pmc_perf.csv, which its joins make where many blocks are asked for",
        "--passes blocks:2,4 asks for fewer, or use a newer release; rocktools batch collect reads the counters",
    ),
    # ROCm/rocm-systems issue 8098: 7.13 and ROCm 10 without .info/version.
    _fault(
        "compute-rocm-not-found",
        "Unable to detect a complete local ROCm installation",
        "it does not find the version of ROCm: the file .info/version is missing",
        "set ROCM_VER to it: ROCM_VER=7.13.0 rocktools batch run ...; rocktools hands it on",
    ),
    # ROCm/rocm-systems issue 1963; mended by pull request 1971.
    _fault(
        "compute-intensity-unknown",
        "Unknown format code 'f' for object of type 'str'",
        "analyze fails where a roofline has no intensity: a fault of some releases on MI350",
        "--no-analysis: rocktools batch collect reads the counters; or use a newer release",
    ),
    # August 2025: the benchmark is a binary for each distribution.
    _fault(
        "compute-no-benchmark",
        "Cannot find a valid binary for your operating system",
        "it has no benchmark for this Linux distribution",
        "ROOFLINE_BIN=FILE names one; or --no-peaks; from 3.5 on it is compiled where it runs",
    ),
    # ROCm/rocprofiler-compute issue 829.
    _fault(
        "compute-gpu-unknown",
        "Cannot find a supported arch in rocminfo",
        "this release knows no GPU that rocminfo names, or there is none",
        "MI350 and MI355X need the release of ROCm 7.0 or later; in a container: --device /dev/kfd --device /dev/dri",
    ),
    # The description of the machine is read without looking, in the program of August 2025.
    _fault(
        "compute-no-dmi",
        "/sys/class/dmi/id/",
        "it cannot read /sys/class/dmi/id, which this container does not show, and gives up",
        "mount /sys/class/dmi into the container, or use a newer release",
        pattern=r"(?:FileNotFoundError|PermissionError|No such file)[^\r\n]*/sys/class/dmi/id/",
    ),
    # AMD's wheels beside /opt/rocm: ROCm/TheRock issue 6695, ROCm/rocm-systems pull request 11090.
    _fault(
        "compute-two-rocms",
        "CONFIGURATION_LOCKED",
        "two copies of rocprofiler-sdk met in one process: that of the JAX wheels and that of ROCm",
        "use the rocprof-compute of the ROCm that the JAX plugin brings, or a plugin without one of its own",
    ),
    # ROCm/rocprofiler-compute issue 689: the program of 2025 looks before it has checked.
    _fault(
        "compute-nothing-launched",
        "KeyError: 'Grid_Size'",
        "no kernel was launched, or none that it counts",
        "run the replay alone; compare the kernel's name with the one in the plan",
    ),
    _fault(
        "compute-nothing-to-count",
        "No performance counters to collect",
        "the blocks or the set of the plan leave no counter to collect",
        "change `passes` in the plan: rocprof-compute profile --list-blocks, --list-sets",
    ),
    _fault(
        "compute-no-program",
        "doesn't point to a executable",
        "it does not find the program {program}",
        "--python names the Python of the replays, by a full path",
        pattern=r"Your command (?P<program>.+?) doesn't point to a executable",
    ),
    _fault(
        "compute-analyze-no-kernel",
        "is an invalid kernel id",
        "analyze has fewer kernels than rows were found of",
        "rocktools batch collect reads the counters; --no-analysis leaves analyze out",
    ),
    KnownText(
        rule="compute-run-stopped",
        severity=Severity.WARNING,
        needles=("Profiling execution failed",),
        pattern=re.compile("Profiling execution failed"),
        message="a run of the replay ended badly, and it stopped there",
        advice="run the replay alone: the command stands in rocktools-workload.json",
    ),
    KnownText(
        rule="compute-nothing-collected",
        severity=Severity.WARNING,
        needles=("no counter csv files generated", "No GPU kernel data collected"),
        pattern=re.compile("no counter csv files generated|No GPU kernel data collected"),
        message="a run of the replay left no counters",
        advice="run the replay alone; kernels that other processes launch are not seen",
    ),
)
_LASTING = frozenset(row.rule for row in COMPUTE_TEXTS if row.severity is Severity.FAULT)


def scan_output(*paths: Path) -> list[Finding]:
    """One finding for each known text in the output of a run, of rocprof-compute or of what it started.

    Raises:
        InputError: a file cannot be read.
    """
    found = [finding for path in paths for finding in scan_stderr_file(path, texts=(*COMPUTE_TEXTS, *KNOWN_TEXTS))]
    return list({finding.rule: finding for finding in reversed(found)}.values())[::-1]


def find_lasting_fault(findings: Sequence[Finding]) -> Finding | None:
    """The first that another run would meet again; None where there is none."""
    return next((finding for finding in findings if finding.rule in _LASTING), None)
