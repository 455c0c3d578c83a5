"""Candidates, programs and replays on disk -> a plan: missing replays are taken out, what cannot be profiled is listed.

The search goes on until as many kernels as asked for are planned. One whose replay is only unproven counts as one of
them: its replay is there now, and a proof is what it lacks.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from rocktools import __version__
from rocktools.batch.bundles import (
    Bundle,
    Refusal,
    Refused,
    build_job,
    build_refusal,
    extract_bundle,
    find_bundles,
    judge_bundle,
    judge_kind,
    refusal_of_error,
    same_program,
)
from rocktools.batch.pick import Candidate, Candidates, Key, Order, fold_twins, order_candidates
from rocktools.batch.plan import (
    DEFAULT_ARCHITECTURE,
    DEFAULT_START_UP_S,
    DEFAULT_VERSION,
    BatchPlan,
    PassSelection,
    PlannedKernel,
    RefusedKernel,
    estimate_batch,
    workload_name,
)
from rocktools.capture.compute_versions import ComputeVersion
from rocktools.errors import CannotExtract, NothingToRead, UsageError
from rocktools.findings import Finding, Severity
from rocktools.replay.extract import JobProgram
from rocktools.replay.refusals import ReplayKind, is_collective
from rocktools.replay.select import Selection, select_instruction
from rocktools.workspace.programs import FoundProgram

_TWINS = "kernel-has-twins"


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanWishes:
    """What the user wants of a plan.

    Attributes:
        replays: folder of replays: those that are there are used, missing ones are put there.
        top: how many kernels; 0 for all.
        selection: what is counted.
        allows_unproven: whether replays without a proof are taken.
        version: of rocprof-compute that the estimate is for.
        architecture: of the GPU.
        start_up_s: assumed for the estimate.
    """

    replays: Path
    top: int
    selection: PassSelection
    allows_unproven: bool = False
    version: ComputeVersion = DEFAULT_VERSION
    architecture: str = DEFAULT_ARCHITECTURE
    start_up_s: float = DEFAULT_START_UP_S


@dataclass(frozen=True, slots=True, kw_only=True)
class MadePlan:
    """A plan, and what making it raised."""

    plan: BatchPlan
    findings: tuple[Finding, ...]
    extracted: tuple[Path, ...] = ()


@dataclass(slots=True)
class _Draft:
    """A plan in the making."""

    wishes: PlanWishes
    kernels: list[PlannedKernel] = field(default_factory=list)
    refused: list[RefusedKernel] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)
    unproven_count: int = 0

    @property
    def is_full(self) -> bool:
        return self.wishes.top > 0 and len(self.kernels) + self.unproven_count >= self.wishes.top

    def take(self, candidate: Candidate, bundle: Bundle) -> None:
        kernel = bundle.kernel or candidate.kernel_name
        refusal = judge_bundle(bundle, kernel, allows_unproven=self.wishes.allows_unproven)
        if refusal is not None:
            self.unproven_count += refusal.reason == Refused.UNPROVEN.value
            self.refuse(candidate, refusal, bundle)
            return
        if bundle.kernel and candidate.kernel_name not in ("", bundle.kernel):
            self.findings.append(_other_kernel(candidate, bundle))
        self.kernels.append(
            PlannedKernel(
                name=workload_name(bundle.instruction, [each.name for each in self.kernels]),
                replay=bundle.folder,
                kernel=kernel,
                instruction=bundle.instruction,
                program_id=bundle.program_id or candidate.program_id,
                program_sha256=bundle.program_sha256,
                level=bundle.level,
                component=candidate.component,
                total_ns=candidate.total_ns,
                dispatches_count=candidate.dispatches_count,
                twins=candidate.twins,
            )
        )

    def refuse(self, candidate: Candidate, refusal: Refusal, bundle: Bundle | None = None) -> None:
        self.refused.append(
            RefusedKernel(
                instruction=candidate.instruction,
                refusal=refusal,
                program_id=candidate.program_id,
                kernel=candidate.kernel_name,
                component=candidate.component,
                total_ns=candidate.total_ns,
                replay=None if bundle is None else bundle.folder,
            )
        )


def plan_bundles(wishes: PlanWishes) -> MadePlan:
    """A plan of all replays in a folder, in the order of their names.

    Raises:
        NothingToRead: there is none.
    """
    bundles, findings = find_bundles(wishes.replays)
    if not bundles:
        raise NothingToRead(
            "no-replays",
            "there is no replay in this folder",
            where=str(wishes.replays),
            hint="rocktools extract makes replays; or name a run, whose kernels are taken out",
        )
    draft = _Draft(wishes)
    for bundle in bundles:
        if not draft.is_full:
            draft.take(Candidate(program_id=bundle.program_id, instruction=bundle.instruction), bundle)
    findings += [finding for bundle in bundles for finding in bundle.findings]
    return MadePlan(plan=_finish(draft), findings=tuple(findings))


def plan_job(
    candidates: Candidates,
    programs: Sequence[FoundProgram],
    wishes: PlanWishes,
    order: Order,
    on_progress: Callable[[int, int], None] = lambda done, total: None,
) -> MadePlan:
    """A plan of the kernels of a job.

    Args:
        candidates: what it ran.
        programs: its compiled programs.
        order: which kernels come first.
        on_progress: called with kernels that are done, and all that are wanted.

    Raises:
        InputError: a program cannot be read again, or a replay cannot be written.
        NothingToRead: none of the candidates is in the programs.
    """
    by_id = {each.program_id: each for each in programs}
    known = [each for each in candidates.candidates if each.program_id in by_id]
    if not known:
        raise NothingToRead(
            "no-candidate-in-programs",
            f"none of the {len(candidates.candidates)} instructions that ran is in the compiled programs",
            hint="--source names the dump of the job",
        )
    jobs: dict[str, JobProgram] = {}
    bundles, found = find_bundles(wishes.replays)
    findings = [*candidates.findings, *found]
    selections = _select(known, by_id)
    folded = fold_twins(known, {key: each.twins for key, each in selections.items()})
    draft = _Draft(wishes)
    extracted: list[Path] = []
    for candidate in order_candidates(folded, order):
        if draft.is_full:
            break
        on_progress(len(draft.kernels) + draft.unproven_count, wishes.top)
        if candidate.key not in selections:
            continue
        job = jobs.get(candidate.program_id)
        if job is None:
            job = jobs[candidate.program_id] = build_job(by_id[candidate.program_id])
        bundle = _bundle_of(candidate, bundles, job)
        if bundle is None:
            bundle = _extract(candidate, job, selections[candidate.key], draft, findings)
            extracted += [] if bundle is None else [bundle.folder]
        if bundle is not None:
            findings += bundle.findings
            draft.take(candidate, bundle)
    found_count = len(draft.kernels) + draft.unproven_count
    on_progress(found_count, found_count)
    plan = replace(_finish(draft), order=order, is_simulated=candidates.is_simulated)
    return MadePlan(plan=plan, findings=(*findings, *draft.findings), extracted=tuple(extracted))


def _select(candidates: Sequence[Candidate], programs: Mapping[str, FoundProgram]) -> dict[Key, Selection]:
    """Instruction -> what launches it; without those that the program does not have."""
    found: dict[Key, Selection] = {}
    for each in candidates:
        try:
            found[each.key] = select_instruction(programs[each.program_id].program, each.instruction)
        except UsageError:  # of another compilation under the same id
            continue
    return found


def _bundle_of(candidate: Candidate, bundles: Sequence[Bundle], job: JobProgram) -> Bundle | None:
    """The replay of the candidate, or of a twin of it, that is there already."""
    names = {candidate.instruction, *candidate.twins}
    mine = [bundle for bundle in bundles if bundle.instruction in names and same_program(bundle, job)]
    exact = [bundle for bundle in mine if bundle.instruction == candidate.instruction]
    return next(iter([*exact, *mine]), None)


def _extract(
    candidate: Candidate, job: JobProgram, selection: Selection, draft: _Draft, findings: list[Finding]
) -> Bundle | None:
    """The replay of the candidate, taken out now; None where it has none, which the draft notes."""
    try:
        bundle, replay = extract_bundle(job, selection, draft.wishes.replays)
    except CannotExtract as error:
        # Where a start wraps a collective, the error names the start, and that has no better replay.
        is_whole = not is_collective(selection.instruction)
        draft.refuse(candidate, refusal_of_error(error) if is_whole else build_refusal(Refused.COLLECTIVE))
        return None
    if bundle is None:
        refusal = judge_kind(ReplayKind(replay.spec["kind"]), int(replay.spec["devices_count"]))
        assert refusal is not None  # nothing was written for that reason
        draft.refuse(candidate, refusal)
        return None
    findings += [finding for finding in replay.findings if finding.rule != _TWINS]  # the plan lists them
    return bundle


def _other_kernel(candidate: Candidate, bundle: Bundle) -> Finding:
    return Finding(
        rule="kernel-of-another-name",
        severity=Severity.WARNING,
        where=candidate.instruction,
        message=f"the trace has {candidate.kernel_name} for it, and its replay launches {bundle.kernel}: the second "
        "one is profiled",
        advice="rocktools link says how sure the trace is; `kernel` in the plan may be changed",
    )


def _finish(draft: _Draft) -> BatchPlan:
    wishes = draft.wishes
    return BatchPlan(
        kernels=tuple(draft.kernels),
        refused=tuple(draft.refused),
        selection=wishes.selection,
        architecture=wishes.architecture,
        estimate=estimate_batch(
            draft.kernels,
            wishes.selection,
            version=wishes.version,
            architecture=wishes.architecture,
            start_up_s=wishes.start_up_s,
        ),
        rocktools_version=__version__,
    )
