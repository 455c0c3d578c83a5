"""What would make a capture fail or mislead, told before it starts. Pure: facts in, checks out.

`rocktools doctor` shows every check; a capture stops at a fault and passes the rest on into its manifest.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import PurePath

from rocktools.capture.environment import is_scrubbed
from rocktools.capture.frameworks import FRAMEWORKS, framework_off_flags, render_shell_line
from rocktools.capture.host import Access, HostFacts
from rocktools.capture.versions import (
    FIRST_PAUSE_WITH_KERNELS_IN_FLIGHT,
    FIRST_REGIONS_GATE_COUNTERS,
    FIRST_ROCPD,
    ProfilerTool,
)
from rocktools.capture.xla_flags import check_xla_flags, has_command_buffers, parse_xla_flags
from rocktools.findings import Finding, Severity
from rocktools.units import format_si

# ROCm 7.0 and later want CAP_PERFMON for counters, or a permissive kernel.
_MOST_PARANOID = 2
_LEAST_FREE_BYTES = 2_000_000_000
_MOST_GPUS_WITH_HOST_TRACE = 4
_RDNA = re.compile(r"gfx1[0-2]")
_LAUNCHERS = frozenset({"torchrun", "mpirun", "mpiexec", "srun", "accelerate", "deepspeed"})
_LAUNCHER_MODULES = frozenset({"torch.distributed.run", "torch.distributed.launch", "accelerate.commands.launch"})
_SHELLS = frozenset({"sh", "bash", "dash", "zsh"})
# `profiler=xplane` of MaxText, `--trainer.profiler.enabled true` of Levanter.
_JAX_PROFILER = re.compile(r"(?:--)?(?:\w+\.)*profiler(?:\.enabled)?")
_SWITCHED_OFF = frozenset({"", "false", "none", "null", "no", "off", "0"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """One thing that was looked at.

    Attributes:
        name: what, for people.
        detail: what was found.
        findings: what is wrong with it; () where nothing is.
        is_known: whether there was anything to look at.
    """

    name: str
    detail: str
    findings: tuple[Finding, ...] = ()
    is_known: bool = True

    @property
    def state(self) -> str:
        """`good`, `unknown`, or the heaviest severity among the findings."""
        for severity in (Severity.FAULT, Severity.WARNING, Severity.NOTE):
            if any(finding.severity is severity for finding in self.findings):
                return str(severity)
        return "good" if self.is_known else "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """What is going to be profiled, and how.

    Attributes:
        application: command line; () when only the machine is looked at.
        counts: whether counters are collected.
        traces_host: whether host calls are traced; never while counting.
        selects_regions: whether the job itself says what is recorded.
        chooses_iterations: whether only some executions of each kernel are counted.
        excludes_collectives: whether kernels of collectives are left out of counting.
        replays_kernels: whether kernels are replayed in the process.
        wants_attribution: whether kernels are to be joined to HLO afterwards, and XLA is set up for that.
        keeps_command_buffers: whether the user wants XLA to launch graphs all the same.
        given_variables: names of variables that the user gave for this job; they reach it whatever they are.
    """

    application: tuple[str, ...] = ()
    counts: bool = False
    traces_host: bool = True
    selects_regions: bool = False
    chooses_iterations: bool = False
    excludes_collectives: bool = True
    replays_kernels: bool = False
    wants_attribution: bool = False
    keeps_command_buffers: bool = False
    given_variables: tuple[str, ...] = ()


def check_all(
    facts: HostFacts, tool: ProfilerTool | None, tool_problem: Finding | None, environment: Mapping[str, str], job: Job
) -> tuple[Check, ...]:
    """Every check, in the order in which they should be read.

    Args:
        tool: the rocprofv3 that was found; None where there is none, and then `tool_problem` says why.
        environment: ours, whole; nothing of it but names of variables is repeated.
    """
    return (
        check_tool(tool, tool_problem),
        check_devices(facts, job),
        check_permissions(facts, job),
        check_performance_level(facts, job),
        check_disk(facts),
        check_rocm(facts),
        *check_job(tool, environment, job),
    )


def check_program(program: str, path: str | None) -> tuple[Finding, ...]:
    """Whether the job's program is there.

    Args:
        path: where it was found; None where it was not.
    """
    if path is not None:
        return ()
    return (
        _finding(
            "application-not-found",
            Severity.FAULT,
            program,
            "there is no such program",
            "is the environment of the job active? Programs of the working folder need ./",
        ),
    )


def check_job(tool: ProfilerTool | None, environment: Mapping[str, str], job: Job) -> tuple[Check, ...]:
    """The checks that do not depend on this machine."""
    return (check_inherited(environment, job), check_jax(environment, job), check_application(job, tool))


def check_tool(tool: ProfilerTool | None, problem: Finding | None) -> Check:
    """Whether there is a rocprofv3 that writes rocpd databases."""
    if tool is None:
        return Check(name="rocprofv3", detail="not usable", findings=() if problem is None else (problem,))
    detail = f"{tool.executable}, SDK {tool.version}"
    if tool.rocm_version:
        detail += f", ROCm {tool.rocm_version}"
    if tool.version < FIRST_ROCPD:
        finding = _finding(
            "tool-writes-no-rocpd",
            Severity.FAULT,
            tool.executable,
            f"SDK {tool.version} cannot write rocpd databases",
            f"use the rocprofv3 of ROCm 7.0 (SDK {FIRST_ROCPD}) or later",
        )
        return Check(name="rocprofv3", detail=detail, findings=(finding,))
    return Check(name="rocprofv3", detail=detail)


def check_devices(facts: HostFacts, job: Job) -> Check:
    """Whether the driver is there, may be used, and has GPUs; and whether there are too many for one process."""
    archs = ", ".join(sorted({gpu.arch for gpu in facts.gpus}))
    detail = f"/dev/kfd {facts.kfd}, " + (f"{len(facts.gpus)} GPUs ({archs})" if facts.gpus else "no GPU")
    if facts.gpus:
        detail += f", driver {facts.driver_version}" if facts.driver_version else ", the kernel's own driver"
    findings = []
    if facts.kfd is Access.MISSING:
        advice = "load amdgpu; in a container give --device /dev/kfd --device /dev/dri"
        findings.append(_finding("no-kfd", Severity.FAULT, "/dev/kfd", "there is no AMD GPU driver here", advice))
    elif facts.kfd is Access.FORBIDDEN:
        advice = "join the groups video and render; in a container give --group-add for both"
        findings.append(_finding("kfd-forbidden", Severity.FAULT, "/dev/kfd", "this user may not use the GPUs", advice))
    elif not facts.gpus:
        findings.append(_finding("no-gpus", Severity.FAULT, "kfd topology", "the driver lists no GPU", "see dmesg"))
    if len(facts.gpus) > _MOST_GPUS_WITH_HOST_TRACE and job.traces_host and not job.counts:
        findings.append(
            _finding(
                "many-gpus-with-host-trace",
                Severity.WARNING,
                "kfd topology",
                f"one process on more than {_MOST_GPUS_WITH_HOST_TRACE} GPUs can hang in a collective while HIP calls "
                "and kernels are traced together",
                "trace one process per GPU, or kernels only (--kernel-only)",
                gpus_count=len(facts.gpus),
            )
        )
    return Check(name="devices", detail=detail, findings=tuple(findings))


def check_permissions(facts: HostFacts, job: Job) -> Check:
    """Whether counters may be read."""
    paranoid = facts.perf_event_paranoid
    has = {None: "unknown", True: "yes", False: "no"}[facts.has_perfmon]
    detail = f"CAP_PERFMON {has}, perf_event_paranoid {'unknown' if paranoid is None else paranoid}"
    if facts.has_perfmon or (facts.has_perfmon is None and paranoid is None):
        return Check(name="counter permissions", detail=detail, is_known=facts.has_perfmon is not None)
    if paranoid is not None and paranoid <= _MOST_PARANOID:
        finding = _finding(
            "no-device-lock",
            Severity.NOTE,
            "/proc/self/status",
            "counters may be read, but without CAP_PERFMON no device can be locked against others that count",
            "see that nothing else profiles these GPUs, or docker run --cap-add PERFMON",
        )
        return Check(name="counter permissions", detail=detail, findings=(finding,))
    finding = _finding(
        "no-perfmon",
        Severity.WARNING if job.counts or not job.application else Severity.NOTE,
        "/proc/self/status",
        "without CAP_PERFMON devices cannot be locked for counting, and counters may be wrong or 0",
        f"docker run --cap-add PERFMON, or sysctl kernel.perf_event_paranoid={_MOST_PARANOID}",
    )
    return Check(name="counter permissions", detail=detail, findings=(finding,))


def check_performance_level(facts: HostFacts, job: Job) -> Check:
    """Whether the GPUs keep their clocks while counting; the Instinct ones do in any level."""
    levels = ", ".join(sorted(set(facts.performance_levels))) or "not reported"
    is_rdna = any(_RDNA.match(gpu.arch) for gpu in facts.gpus)
    if is_rdna and job.counts and "auto" in facts.performance_levels:
        finding = _finding(
            "automatic-performance-level",
            Severity.WARNING,
            "power_dpm_force_performance_level",
            "counters of RDNA devices are mostly 0 in the performance level `auto`",
            "amd-smi set --perf-level STABLE_STD",
        )
        return Check(name="performance level", detail=levels, findings=(finding,))
    return Check(name="performance level", detail=levels, is_known=bool(facts.performance_levels))


def check_disk(facts: HostFacts) -> Check:
    """Whether there is room for databases and for the tool's temporary files."""
    detail = ", ".join(f"{name} {format_si(free, 'B')} free" for name, free in facts.free_bytes.items()) or "not asked"
    findings = tuple(
        _finding(
            "little-disk",
            Severity.WARNING,
            name,
            f"{format_si(free, 'B')} are free; a trace of a training step takes hundreds of megabytes per process",
            "choose another run directory (-o)",
            free_bytes=free,
        )
        for name, free in facts.free_bytes.items()
        if free < _LEAST_FREE_BYTES
    )
    return Check(name="disk", detail=detail, findings=findings)


def check_rocm(facts: HostFacts) -> Check:
    """Whether the job and the tool would load two ROCms into one process."""
    detail = ", ".join(facts.rocm_roots) or "none found"
    folders = {str(PurePath(path).parent) for path in facts.comgr_paths}
    if len(folders) < 2:
        return Check(name="ROCm", detail=detail, is_known=bool(facts.rocm_roots))
    finding = _finding(
        "two-rocms",
        Severity.WARNING,
        ", ".join(sorted(folders)),
        f"{len(folders)} copies of libamd_comgr; two in one process end in an LLVM error about options, or hang",
        "use the rocprofv3 of the ROCm that the job's JAX wheel brings (rocm-sdk path --root), or a JAX for this ROCm",
        copies_count=len(folders),
    )
    return Check(name="ROCm", detail=detail, findings=(finding,))


def check_inherited(environment: Mapping[str, str], job: Job) -> Check:
    """Variables of another profiler that would steer this one; they are taken out, and named."""
    names = sorted(name for name in environment if is_scrubbed(name) and name not in job.given_variables)
    findings = []
    steering = sorted(name for name in job.given_variables if is_scrubbed(name))
    if steering:
        findings.append(
            _finding(
                "variables-steer-the-profiler",
                Severity.WARNING,
                "--env",
                f"they reach rocprofv3 and may change what is captured: {', '.join(steering)}",
                "leave them out, unless an option for the same is missing",
                variables_count=len(steering),
            )
        )
    if names:
        findings.append(
            _finding(
                "inherited-profiler-variables",
                Severity.NOTE,
                "environment",
                f"taken out for the job: {', '.join(names)}",
                variables_count=len(names),
            )
        )
    preload = environment.get("LD_PRELOAD", "")
    if re.search(r"rocprof|roctracer|rocsys", preload):
        findings.append(
            _finding(
                "profiler-preloaded",
                Severity.FAULT,
                "LD_PRELOAD",
                "another profiler is preloaded already, and two in one process crash",
                "unset LD_PRELOAD",
            )
        )
    return Check(
        name="inherited variables", detail=f"{len(names)} of profilers" if names else "none", findings=tuple(findings)
    )


def check_jax(environment: Mapping[str, str], job: Job) -> Check:
    """Settings of XLA and JAX that make a profile unreadable or a capture crash."""
    findings = [
        replace(finding, severity=Severity.WARNING)
        if finding.rule == "xla-command-buffers-on" and job.keeps_command_buffers
        else finding
        for finding in check_xla_flags(environment, is_attribution=job.wants_attribution)
    ]
    switch = _find_jax_profiler(job.application)
    if switch is not None:
        off = ", ".join(f"{render_shell_line(framework_off_flags(name))} ({name})" for name in FRAMEWORKS)
        findings.append(
            _finding(
                "jax-profiler-inside",
                Severity.FAULT,
                switch,
                "JAX's own profiler inside a rocprofv3 run: two clients of the SDK in one process crash or see nothing",
                f"switch it off for this run: {off}",
            )
        )
    if job.replays_kernels and environment.get("XLA_PYTHON_CLIENT_PREALLOCATE", "").lower() not in ("false", "0"):
        findings.append(
            _finding(
                "replay-with-preallocation",
                Severity.FAULT,
                "XLA_PYTHON_CLIENT_PREALLOCATE",
                "JAX takes most of the GPU's memory at start, and kernel replay would save it all for every dispatch",
                "--env XLA_PYTHON_CLIENT_PREALLOCATE=false",
            )
        )
    if job.replays_kernels and has_command_buffers(parse_xla_flags(environment.get("XLA_FLAGS", "")).flags):
        findings.append(
            _finding(
                "replay-with-command-buffers",
                Severity.FAULT,
                "XLA_FLAGS",
                "command buffers are on: kernels that are launched as a HIP graph are not replayed, but run once",
                "--command-buffers off",
            )
        )
    return Check(
        name="JAX and XLA",
        detail="XLA_FLAGS set" if environment.get("XLA_FLAGS") else "XLA_FLAGS not set",
        findings=tuple(findings),
    )


def _find_jax_profiler(application: Sequence[str]) -> str | None:
    """The words of the command line that switch JAX's profiler on, in the ways of known frameworks."""
    for word, following in itertools.pairwise((*application, "--")):
        name, equals, value = word.partition("=")
        if not _JAX_PROFILER.fullmatch(name) or not (equals or name.startswith("--")):
            continue
        if not equals and not following.startswith("-"):
            word, value, equals = f"{word} {following}", following, " "
        if not equals or value.strip("\"'").lower() not in _SWITCHED_OFF:
            return word
    return None


def check_application(job: Job, tool: ProfilerTool | None) -> Check:
    """What of the command line is known to go wrong under the profiler."""
    if not job.application:
        return Check(name="application", detail="none given", is_known=False)
    program = PurePath(job.application[0]).name
    findings = [*_check_launcher(job), *_check_collectives(job, program)]
    if job.counts and job.selects_regions and tool is not None:
        findings += _check_regions(job, tool)
    return Check(name="application", detail=program, findings=tuple(findings))


def _check_launcher(job: Job) -> list[Finding]:
    launcher = _find_launcher(job.application)
    if launcher is None:
        return []
    if job.replays_kernels:
        return [
            _finding(
                "replay-under-launcher",
                Severity.FAULT,
                launcher,
                f"{launcher} starts several processes, and kernel replay in one of them stops all that wait for it",
                "replay kernels in a script of one process only; count jobs of several without --passes-in-process",
            )
        ]
    return [
        _finding(
            "launcher-inside",
            Severity.WARNING,
            launcher,
            f"{launcher} starts processes of its own; each gets a database, workers that it kills lose theirs, and "
            "their HLO dumps overwrite each other",
            "put rocktools inside the launcher instead, one for each rank",
        )
    ]


def _check_collectives(job: Job, program: str) -> list[Finding]:
    """Kernels that wait for other ranks, where they are not excluded."""
    if job.excludes_collectives or not job.counts:
        return []
    advice = "leave --exclude at its default"
    if job.replays_kernels:
        message = "kernels that wait for other ranks are not excluded, and nobody answers one that is replayed"
        return [_finding("collectives-replayed", Severity.FAULT, program, message, advice)]
    message = (
        "kernels that wait for other ranks are not excluded: a counter pass runs one kernel at a time and may hang"
    )
    return [_finding("collectives-counted", Severity.WARNING, program, message, advice)]


def _check_regions(job: Job, tool: ProfilerTool) -> list[Finding]:
    """What to know of counting in regions that the job chooses."""
    if tool.version < FIRST_REGIONS_GATE_COUNTERS:
        return [
            _finding(
                "regions-do-not-gate-counters",
                Severity.FAULT,
                tool.executable,
                f"SDK {tool.version} collects counters outside selected regions too, and may hang at a pause",
                "choose dispatches with --iterations",
            )
        ]
    findings = []
    if tool.version < FIRST_PAUSE_WITH_KERNELS_IN_FLIGHT:
        findings.append(
            _finding(
                "pause-may-hang",
                Severity.WARNING,
                tool.executable,
                f"some builds of SDK {tool.version} hang when the job pauses while a kernel is still running",
                "wait for the device before each pause, as profiled_steps of rocktools.capture.roctx does",
            )
        )
    if job.chooses_iterations:
        findings.append(
            _finding(
                "iterations-outside-regions",
                Severity.WARNING,
                tool.executable,
                "iterations are counted from the start of the process, outside regions too",
                "choose by one of the two",
            )
        )
    return findings


def _find_launcher(application: Sequence[str]) -> str | None:
    """The launcher of several processes in a command line: first, behind `env` and the like, or in a shell's text."""
    words = [*application]
    if len(words) > 2 and PurePath(words[0]).name in _SHELLS and words[1].startswith("-") and words[1].endswith("c"):
        words = words[2].replace(";", " ").replace("&", " ").split()
    for before, word in itertools.pairwise(("", *words)):
        name = PurePath(word).name
        if name in _LAUNCHERS or (before == "-m" and word in _LAUNCHER_MODULES):
            return name
        if name.endswith(".py"):  # from here on they are its arguments
            break
    return None


def all_findings(checks: Sequence[Check]) -> tuple[Finding, ...]:
    """What all checks found."""
    return tuple(finding for check in checks for finding in check.findings)


def _finding(rule: str, severity: Severity, where: str, message: str, advice: str = "", **numbers: int) -> Finding:
    return Finding(rule=rule, severity=severity, where=where, message=message, advice=advice, numbers=numbers)
