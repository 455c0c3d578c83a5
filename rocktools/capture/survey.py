"""Everything a capture knows before it starts: the tool, the machine, the job, and what is wrong with them."""

from __future__ import annotations

import re
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from rocktools import __version__
from rocktools.capture.environment import recorded_environment
from rocktools.capture.host import HostFacts, ask_tool, find_in_packages, find_rocm_roots, find_tool, probe_host
from rocktools.capture.preflight import Check, Job, all_findings, check_all, check_job, check_program
from rocktools.capture.versions import ProfilerTool, SdkVersion
from rocktools.errors import CaptureError, PreflightFailed
from rocktools.findings import Finding, Severity

# Packages whose versions decide which program XLA makes and how it is profiled.
_PACKAGES = ("jax", "jaxlib", "jax_rocm7_pjrt", "jax_rocm7_plugin", "jax_rocm60_pjrt", "transformer_engine", "maxtext")


@dataclass(frozen=True, slots=True, kw_only=True)
class Survey:
    """What was found.

    Attributes:
        tool: the rocprofv3 that will run; None where none is usable.
        avail: the rocprofv3-avail beside it; None where there is none.
        host: facts of the machine.
        checks: every preflight check.
        packages: name -> version, of the Python that runs the job, where that could be found.
    """

    tool: ProfilerTool | None
    avail: Path | None
    host: HostFacts
    checks: tuple[Check, ...]
    packages: Mapping[str, str]

    @property
    def findings(self) -> tuple[Finding, ...]:
        return all_findings(self.checks)

    def require_tool(self, *, ignores_faults: bool) -> ProfilerTool:
        """The tool, if nothing speaks against starting it.

        Raises:
            PreflightFailed: there is none, or a check found a fault that is not to be ignored.
        """
        faults = [finding for finding in self.findings if finding.severity is Severity.FAULT]
        if self.tool is None or (faults and not ignores_faults):
            listed = "; ".join(f"{finding.where}: {finding.message}" for finding in faults)
            raise PreflightFailed(
                "preflight-failed",
                f"{len(faults)} checks failed: {listed}",
                hint="rocktools doctor shows all of them; --force goes on if the tool itself is there",
            )
        return self.tool

    def as_facts(self, environment: Mapping[str, str], working_directory: Path) -> dict[str, Any]:
        """What of it a manifest records; variables are those that steer the run, secrets redacted."""
        return {
            "rocktools_version": __version__,
            "host": {
                "hostname": self.host.hostname,
                "kernel_release": self.host.kernel_release,
                "driver_version": self.host.driver_version,
                "perf_event_paranoid": self.host.perf_event_paranoid,
                "has_perfmon": self.host.has_perfmon,
                "performance_levels": list(self.host.performance_levels),
                "rocm_roots": list(self.host.rocm_roots),
            },
            "gpus": [
                {"index": gpu.index, "arch": gpu.arch, "unique_id": gpu.unique_id, "xcc_count": gpu.xcc_count}
                for gpu in self.host.gpus
            ],
            "packages": dict(self.packages),
            "environment": recorded_environment(environment),
            "working_directory": str(working_directory),
        }


def take_survey(
    *,
    environment: Mapping[str, str],
    run: Path,
    job: Job,
    tool_path: str | None = None,
    assumed_version: SdkVersion | None = None,
    root: Path = Path("/"),
) -> Survey:
    """Look at everything.

    Args:
        environment: ours, whole.
        run: where the run directory is or will be.
        job: what is going to be profiled.
        tool_path: rocprofv3 as the user named it; None to search.
        assumed_version: do not look for a tool, but take one of this SDK version as given (for a dry run elsewhere).
        root: what `/sys`, `/proc` and `/dev` are below.
    """
    problem: Finding | None = None
    tool: ProfilerTool | None = None
    executable: Path | None = None
    if assumed_version is not None:
        tool = ProfilerTool(executable=tool_path or "rocprofv3", version=assumed_version)
    else:
        try:
            executable = find_tool("rocprofv3", wanted=tool_path, environment=environment)
            tool = ask_tool(executable, environment)
        except CaptureError as error:
            problem = Finding(
                rule=error.reference,
                severity=Severity.FAULT,
                where=error.where or "rocprofv3",
                message=error.what,
                advice=error.hint or "",
            )
    prefix = find_python_prefix(job.application, environment)
    host = probe_host(
        places={"run directory": run},
        rocm_roots=find_rocm_roots(executable, prefix, environment),
        root=root,
    )
    if assumed_version is not None:
        checks = check_job(tool, environment, job)
    else:
        *others, application = check_all(host, tool, problem, environment, job)
        checks = (*others, _with_program(application, job, environment))
    return Survey(
        tool=tool,
        avail=_find_avail(executable),
        host=host,
        checks=checks,
        packages=find_packages(prefix),
    )


def _with_program(application: Check, job: Job, environment: Mapping[str, str]) -> Check:
    if not job.application:
        return application
    program = job.application[0]
    found = shutil.which(program, path=environment.get("PATH"))
    return replace(application, findings=(*application.findings, *check_program(program, found)))


def find_python_prefix(application: Sequence[str], environment: Mapping[str, str]) -> Path | None:
    """The installation of the Python that runs the job: of a command that is a Python, or a script of one."""
    if not application:
        return None
    found = shutil.which(application[0], path=environment.get("PATH"))
    if found is None:
        return None
    executable = Path(found)
    if re.match(r"python[\d.]*$", executable.name):
        return executable.parent.parent
    try:
        with executable.open("rb") as stream:
            first = stream.readline(1_000).decode("utf-8", errors="replace")
    except OSError:
        return None
    match = re.match(r"#!\s*(?:(\S*/python[\d.]*)|\S*/env\s+(?:-S\s+)?(python[\d.]*))(?:\s|$)", first)
    if match is None:
        return None
    if match[1]:
        return Path(match[1]).parent.parent
    python = shutil.which(match[2], path=environment.get("PATH"))
    return Path(python).parent.parent if python else None


def find_packages(prefix: Path | None) -> dict[str, str]:
    """Versions of the packages that matter, by the names of their metadata folders; nothing is imported."""
    if prefix is None:
        return {}
    found = {}
    for name in _PACKAGES:
        for folder in find_in_packages(prefix, f"{name}-*.dist-info"):
            found[name] = folder.name.removeprefix(f"{name}-").removesuffix(".dist-info")
    return found


def _find_avail(executable: Path | None) -> Path | None:
    """The rocprofv3-avail of the same installation; another one could know other counters."""
    if executable is None:
        return None
    # Beside the link it was found by, or beside what that points to.
    candidates = (path.with_name("rocprofv3-avail") for path in (executable, executable.resolve()))
    return next((path for path in candidates if path.is_file()), None)
