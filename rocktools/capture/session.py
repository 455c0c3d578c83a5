"""One capture from the user's wishes to the report: survey, environment, plan, dry run or run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from rocktools.capture.collect import (
    CaptureReport,
    CaptureSettings,
    Progress,
    prepare_run,
    run_capture,
)
from rocktools.capture.environment import EnvironmentDelta, profiling_delta, recorded_environment
from rocktools.capture.plan import CapturePlan, PlannedPass, render_plan
from rocktools.capture.preflight import Job
from rocktools.capture.resume import next_attempts, require_same_capture
from rocktools.capture.survey import Survey, take_survey
from rocktools.capture.versions import ProfilerTool, SdkVersion
from rocktools.capture.xla_flags import (
    COMMAND_BUFFER,
    attribution_environment,
    merge_xla_flags,
    parse_xla_flags,
    render_xla_flags,
)
from rocktools.findings import Finding
from rocktools.rundir import HLO_FOLDER

_DUMP_FOLDER = "xla_dump_to"


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionOptions:
    """What the user said about a capture beside what is captured.

    Attributes:
        run: the run directory.
        environment: ours, whole.
        working_directory: of the job.
        argv: our own command line.
        created_utc: now, ISO 8601.
        variables: further variables for the job.
        deadline_s: after which a pass is stopped; None for none.
        grace_s: how long the tool may take to write after SIGINT.
        tool_path: rocprofv3 as the user named it.
        assumed_version: plan for a tool of this version without looking for one.
        keeps_command_buffers: whether XLA may launch graphs all the same.
        dumps_hlo: whether XLA writes the compiled programs into the run.
        ignores_faults: whether preflight faults stop nothing.
        resumes: whether an earlier capture in this run goes on.
        processes_count: how many processes of the job use a GPU; None where that is not known.
    """

    run: Path
    environment: Mapping[str, str]
    working_directory: Path
    argv: tuple[str, ...]
    created_utc: str
    variables: Mapping[str, str] = field(default_factory=dict)
    deadline_s: float | None = None
    grace_s: float = 120.0
    tool_path: str | None = None
    assumed_version: SdkVersion | None = None
    keeps_command_buffers: bool = False
    dumps_hlo: bool = True
    ignores_faults: bool = False
    resumes: bool = False
    processes_count: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Session:
    """A capture that is ready to be planned.

    Attributes:
        options: as given.
        survey: what was found on this machine.
        tool: the rocprofv3 that will run.
        environment: how the job's environment differs from ours.
    """

    options: SessionOptions
    survey: Survey
    tool: ProfilerTool
    environment: EnvironmentDelta

    def plan(self, passes: Sequence[PlannedPass]) -> CapturePlan:
        """These passes with this session's tool."""
        expecting = [
            replace(planned, expectation=replace(planned.expectation, processes_count=self.options.processes_count))
            for planned in passes
        ]
        return CapturePlan(tool=self.tool, passes=tuple(expecting))

    def render(self, plan: CapturePlan) -> str:
        """What would run, as a shell script; of a capture that goes on, what is left of it.

        Raises:
            UsageError: there is nothing to resume, or it is another capture, or its passes were made otherwise.
            CaptureError: the databases of a pass that is done have changed.
            DamagedFile: the plan, or a record of an earlier attempt, cannot be read.
        """
        run = self.options.run.absolute()
        if not self.options.resumes:
            return render_plan(plan, run, self.options.environment)
        require_same_capture(run, plan)
        return render_plan(plan, run, self.options.environment, next_attempts(run, plan, self._circumstances()))

    def execute(self, plan: CapturePlan, progress: Progress, *, findings: Sequence[Finding] = ()) -> CaptureReport:
        """Run it.

        Args:
            findings: of planning, for the manifest beside those of preflight.

        Raises:
            UsageError: the run directory is there already, or belongs to another capture.
            CaptureError: a process cannot be started.
        """
        run = self.options.run.absolute()
        prepare_run(run, plan, resumes=self.options.resumes)
        settings = CaptureSettings(
            environment=self.options.environment,
            working_directory=self.options.working_directory,
            deadline_s=self.options.deadline_s,
            interrupt_grace_s=self.options.grace_s,
            argv=self.options.argv,
            created_utc=self.options.created_utc,
            circumstances=self._circumstances(),
            facts=self.survey.as_facts(self.options.environment, self.options.working_directory),
            findings=(*self.survey.findings, *findings),
        )
        return run_capture(run, plan, settings, progress)

    def _circumstances(self) -> dict[str, Any]:
        """What decides the values beside the plan, and must not change between the passes of a run."""
        return {
            "tool version": str(self.tool.version),
            "working directory": str(self.options.working_directory),
            "environment": recorded_environment(self.options.environment),
        }


def begin_session(options: SessionOptions, job: Job) -> Session:
    """Look at machine, tool and job, and settle the job's environment.

    Raises:
        PreflightFailed: there is no usable tool, or a check found a fault and faults are not ignored.
    """
    own = {**options.environment, **options.variables}
    added = {**options.variables, **job_variables(options, job, own)}
    survey = take_survey(
        environment={**own, **added},
        run=options.run,
        job=job,
        tool_path=options.tool_path,
        assumed_version=options.assumed_version,
    )
    is_elsewhere = options.assumed_version is not None
    tool = survey.require_tool(ignores_faults=options.ignores_faults or is_elsewhere)
    dumps_hlo = _dumps_hlo(options, job) and _DUMP_FOLDER not in _given_flags(options)
    environment = profiling_delta(options.environment, added=added, dumps_hlo=dumps_hlo)
    return Session(options=options, survey=survey, tool=tool, environment=environment)


def job_variables(options: SessionOptions, job: Job, seen: Mapping[str, str]) -> dict[str, str]:
    """What keeps the kernels of a JAX job attributable, as far as the user has not given it otherwise.

    No command buffers, unless they are to be kept: their kernels carry no HLO name, and intercepting graphs crashes
    some versions. For a trace also the dump of the compiled programs; a program out of the compilation cache is
    not dumped, so the cache is off for that pass.
    """
    kept = _given_flags(options) | ({COMMAND_BUFFER} if options.keeps_command_buffers else set())
    if not _dumps_hlo(options, job):
        if COMMAND_BUFFER in kept:
            return {}
        return {"XLA_FLAGS": merge_xla_flags(seen.get("XLA_FLAGS"), {COMMAND_BUFFER: ""})}
    variables = attribution_environment(seen, options.run.absolute() / HLO_FOLDER)
    ours = [flag for flag in parse_xla_flags(variables["XLA_FLAGS"]).flags if flag.name not in kept]
    own = [flag for flag in parse_xla_flags(seen.get("XLA_FLAGS", "")).flags if flag.name in kept]
    variables["XLA_FLAGS"] = render_xla_flags([*own, *ours])
    return {name: value for name, value in variables.items() if name == "XLA_FLAGS" or name not in options.variables}


def _dumps_hlo(options: SessionOptions, job: Job) -> bool:
    return options.dumps_hlo and not job.counts


def _given_flags(options: SessionOptions) -> set[str]:
    """Names of the XLA flags that the user gave for this job alone; they are not changed."""
    return {flag.name for flag in parse_xla_flags(options.variables.get("XLA_FLAGS", "")).flags}
