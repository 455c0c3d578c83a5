"""What a capture will do, pass by pass, before any of it is done: for a dry run, a run, a resumed run. Pure."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rocktools.capture.environment import EnvironmentDelta, redact, redact_argv
from rocktools.capture.expectations import Expectation
from rocktools.capture.rocprofv3 import PmcOptions, TraceOptions, pmc_argv, replay_argv, trace_argv
from rocktools.capture.versions import ProfilerTool
from rocktools.capture.xla_flags import merge_xla_flags
from rocktools.errors import UsageError
from rocktools.rundir import HLO_FOLDER, PMC_FOLDER, TRACE_FOLDER

PLAN_SCHEMA = "rocktools.plan/1"
PLAN_NAME = "plan.json"
SPILL_FOLDER = "spill"
_LABEL = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*")
# Stands for the run directory in command lines of a plan, whose run may not exist yet.
RUN_PLACE = Path("RUN")


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedPass:
    """One process to start under rocprofv3.

    Attributes:
        name: of the pass, and its folder inside the run: `trace`, `pmc/<group>`.
        expectation: what it must leave to be good.
        options: what is asked of the tool; several groups (in-process replay) are a tuple.
        application: the job.
        environment: how the job's environment differs from ours.
        facts: what else the record of the pass should say.
    """

    name: str
    expectation: Expectation
    options: TraceOptions | PmcOptions | tuple[PmcOptions, ...]
    application: tuple[str, ...]
    environment: EnvironmentDelta
    facts: Mapping[str, Any] = field(default_factory=dict)

    def folder(self, run: Path, attempt: int) -> Path:
        """Where an attempt leaves its databases; each attempt has a folder of its own."""
        return _of_attempt(run / self.name, attempt)

    def hlo_folder(self, run: Path, attempt: int) -> Path:
        """Where XLA dumps the programs of an attempt; only one pass of a run, the trace, does that."""
        return _of_attempt(run / HLO_FOLDER, attempt)

    def spill_folder(self, run: Path, attempt: int) -> Path:
        """Where the tool puts the temporary files of an attempt; by default that would be the job's own folder."""
        return run / SPILL_FOLDER / f"{self.name.replace('/', '.')}.{attempt}"

    def variables(self, run: Path, attempt: int) -> dict[str, str]:
        """The variables that are set for an attempt; what the user gave stays as it is."""
        added = {"ROCPROF_TMPDIR": str(self.spill_folder(run, attempt)), **self.environment.added}
        if self.environment.dumps_hlo:
            folder = {"xla_dump_to": str(self.hlo_folder(run, attempt))}
            added["XLA_FLAGS"] = merge_xla_flags(added.get("XLA_FLAGS"), folder)
        return added

    def argv(self, tool: ProfilerTool, folder: Path) -> list[str]:
        """The command line of an attempt.

        Raises:
            CaptureError, UsageError: as the builders of rocktools.capture.rocprofv3.
        """
        if isinstance(self.options, TraceOptions):
            return trace_argv(tool, self.options, folder, self.application)
        if isinstance(self.options, PmcOptions):
            return pmc_argv(tool, self.options, folder, self.application)
        groups = [group.counters for group in self.options]
        return replay_argv(tool, groups, self.options[0].kernels, folder, self.application)


@dataclass(frozen=True, slots=True, kw_only=True)
class CapturePlan:
    """A whole capture.

    Attributes:
        tool: the rocprofv3 that will run.
        passes: in the order in which they run.
    """

    tool: ProfilerTool
    passes: tuple[PlannedPass, ...]

    def as_document(self) -> dict[str, Any]:
        """The plan as JSON: what a resumed capture must agree with. Secrets are redacted."""
        return {
            "schema": PLAN_SCHEMA,
            "tool": {"executable": self.tool.executable, "version": str(self.tool.version)},
            "passes": [
                {
                    "name": planned.name,
                    "argv": redact_argv(planned.argv(self.tool, planned.folder(RUN_PLACE, 1))),
                    "environment_added": redact(planned.variables(RUN_PLACE, 1)),
                    "counters": list(planned.expectation.counters),
                }
                for planned in self.passes
            ],
        }


def _of_attempt(folder: Path, attempt: int) -> Path:
    return folder if attempt == 1 else folder / f"attempt_{attempt}"


def plan_trace(
    options: TraceOptions, *, application: Sequence[str], environment: EnvironmentDelta
) -> tuple[PlannedPass, ...]:
    """A trace is one pass."""
    return (
        PlannedPass(
            name=TRACE_FOLDER,
            expectation=Expectation(kind="trace"),
            options=options,
            application=tuple(application),
            environment=environment,
            facts={"trace": options.kind.value, "selected_regions": options.has_selected_regions},
        ),
    )


def plan_pmc(
    groups: Sequence[Sequence[str]],
    options: PmcOptions,
    *,
    names: Sequence[str],
    label: str,
    application: Sequence[str],
    environment: EnvironmentDelta,
    facts: Mapping[str, Any],
) -> tuple[PlannedPass, ...]:
    """Counters are one pass for each group: one rocprofv3 process, one run of the job.

    Args:
        groups: counters that fit together.
        options: filters; its counters are replaced by those of each group.
        names: kernels asked for by their whole name.
        label: the passes are called `<label>_1`, `<label>_2`, ...
        facts: what every pass's record should say, such as who confirmed the groups.

    Raises:
        UsageError: the label cannot be the name of a folder.
    """
    _require_label(label)
    return tuple(
        PlannedPass(
            name=f"{PMC_FOLDER}/{label}_{number}",
            expectation=Expectation(
                kind="counters",
                counters=tuple(group),
                kernels=options.kernels,
                names=tuple(names),
                iterations=options.iterations,
            ),
            options=_with_counters(options, group),
            application=tuple(application),
            environment=environment,
            facts={**_filter_facts(options), **facts, "counters": list(group)},
        )
        for number, group in enumerate(groups, start=1)
    )


def plan_replay(
    groups: Sequence[Sequence[str]],
    options: PmcOptions,
    *,
    names: Sequence[str],
    label: str,
    application: Sequence[str],
    environment: EnvironmentDelta,
    facts: Mapping[str, Any],
) -> tuple[PlannedPass, ...]:
    """In-process kernel replay is one pass for all groups. Arguments as `plan_pmc`.

    Raises:
        UsageError: iterations or regions are chosen, which the tool and replay do not do together.
    """
    if options.iterations is not None or options.has_selected_regions:
        what = "selected regions" if options.iterations is None else "iterations"
        raise UsageError(
            "replay-of-a-part",
            f"in-process kernel replay cannot be limited to {what}: the tool would count its own passes as iterations, "
            "and nothing says what it does at a pause",
            hint="let the script run the kernel as often as wanted",
        )
    _require_label(label)
    counters = tuple(counter for group in groups for counter in group)
    return (
        PlannedPass(
            name=f"{PMC_FOLDER}/{label}_replay",
            expectation=Expectation(kind="replay", counters=counters, kernels=options.kernels, names=tuple(names)),
            options=tuple(_with_counters(options, group) for group in groups),
            application=tuple(application),
            environment=environment,
            facts={**_filter_facts(options), **facts, "groups": [list(group) for group in groups]},
        ),
    )


def _require_label(label: str) -> None:
    if not _LABEL.fullmatch(label):
        raise UsageError(
            "bad-label",
            f"passes cannot be called {label!r}: that is no name for a folder",
            hint="letters, digits, _ - and ., a letter or a digit first",
        )


def _with_counters(options: PmcOptions, group: Sequence[str]) -> PmcOptions:
    return PmcOptions(
        counters=tuple(group),
        kernels=options.kernels,
        iterations=options.iterations,
        has_selected_regions=options.has_selected_regions,
    )


def _filter_facts(options: PmcOptions) -> dict[str, Any]:
    return {
        "kernels": options.kernels.meaning,
        "include": options.kernels.include,
        "exclude": options.kernels.exclude,
        "iterations": None if options.iterations is None else str(options.iterations),
    }


def render_plan(
    plan: CapturePlan, run: Path, inherited: Mapping[str, str], attempts: Mapping[str, int | None] | None = None
) -> str:
    """The processes that will be started, pass by pass, as a shell script with the folders that they need.

    It is for reading, and for trying a pass by hand. What looks like a secret is redacted and must be put in again.
    Logs, deadlines, checks and records are not part of it.

    Args:
        run: the run directory.
        inherited: our environment; variables that it has and the job will not get are unset.
        attempts: name of a pass -> the number of its next attempt, or None for one that is verified and will not run.
            Without it all passes run for the first time.
    """
    lines = []
    for number, planned in enumerate(plan.passes, start=1):
        title = f"# pass {number} of {len(plan.passes)}: {planned.name}"
        attempt = 1 if attempts is None else attempts[planned.name]
        if attempt is None:
            lines.append(f"{title} is verified and does not run again")
            continue
        lines.append(title if attempt == 1 else f"{title}, attempt {attempt}")
        lines += _render_pass(planned, plan.tool, run, inherited, attempt)
    return "\n".join(lines) + "\n"


def _render_pass(
    planned: PlannedPass, tool: ProfilerTool, run: Path, inherited: Mapping[str, str], attempt: int
) -> list[str]:
    folder = planned.folder(run, attempt)
    variables = planned.variables(run, attempt)
    argv = planned.argv(tool, folder)
    shown = redact(variables), redact_argv(argv)
    unset = [f"-u {name}" for name in planned.environment.removed if name in inherited]
    added = [f"{shlex.quote(name)}={shlex.quote(value)}" for name, value in sorted(shown[0].items())]
    lines = [] if shown == (variables, argv) else ["# [redacted] stands for what looks like a secret; the job gets it"]
    lines.append(shlex.join(["mkdir", "-p", "--", str(folder), str(planned.spill_folder(run, attempt))]))
    lines.append(" ".join(["env", *unset, *added, shlex.join(shown[1])]))
    return lines
