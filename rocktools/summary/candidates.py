"""The blocks of a summary -> what their numbers suggest to try, each with those numbers and the threshold it passed.

Thresholds are a fifth of experience and four fifths of convention: they decide what is worth a sentence, not what is
wrong. What a step would gain at most is said where the cause is time of its own; candidates overlap, and their gains do
not add up.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from rocktools.evidence import Evidence, weakest
from rocktools.summary.document import (
    Candidate,
    CandidateEvidence,
    CollectivesBlock,
    FamiliesBlock,
    GapsBlock,
    LedgerBlock,
    Missing,
    OperationsBlock,
    OverlapBlock,
    RooflineBlock,
    RooflinePoint,
    Steps,
)

EXPOSED_RATIO = 0.10
IDLE_RATIO = 0.10
SPREAD_RATIO = 0.05
WAIT_RATIO = 0.30
OPERATION_RATIO = 0.08
REMATERIALIZED_RATIO = 0.08
LAYOUT_RATIO = 0.05
COPY_RATIO = 0.03
HEADROOM_RATIO = 0.05
UNATTRIBUTED_RATIO = 0.10
TAIL_RATIO = 1.4
TAIL_STEPS_COUNT = 4
_AT_MOST = 20

_MEASURED = Evidence.MEASURED


@dataclass(frozen=True, slots=True, kw_only=True)
class Blocks:
    """The blocks that candidates are found in."""

    steps: Steps | Missing
    ledger: LedgerBlock | Missing
    overlap: OverlapBlock | Missing
    operations: OperationsBlock | Missing
    families: FamiliesBlock | Missing
    collectives: CollectivesBlock | Missing
    gaps: GapsBlock | Missing
    roofline: RooflineBlock | Missing


def find_candidates(blocks: Blocks) -> tuple[Candidate, ...]:
    """What to try, what could gain most first."""
    found: list[Candidate] = []
    if not isinstance(blocks.overlap, Missing):
        found += _of_overlap(blocks.overlap, blocks)
    if not isinstance(blocks.ledger, Missing):
        found += _of_ledger(blocks.ledger)
    if not isinstance(blocks.operations, Missing):
        found += _of_operations(blocks.operations)
    if not isinstance(blocks.families, Missing) and not isinstance(blocks.operations, Missing):
        found += _of_families(blocks.families, blocks.operations.places_count)
    if not isinstance(blocks.collectives, Missing):
        found += _of_collectives(blocks.collectives)
    if not isinstance(blocks.roofline, Missing) and not isinstance(blocks.overlap, Missing):
        found += _of_roofline(blocks.roofline, blocks.overlap)
    if not isinstance(blocks.steps, Missing):
        found += _of_steps(blocks.steps)
    found.sort(key=lambda each: (-(each.most_saved_ns or 0.0), each.candidate_id, each.subject))
    return tuple(found[:_AT_MOST])


def _number(
    name: str, value: float | int | str, block: str, threshold: float | None = None, evidence: Evidence = _MEASURED
) -> CandidateEvidence:
    return CandidateEvidence(name=name, value=value, block=block, evidence=evidence, threshold=threshold)


def _of_overlap(overlap: OverlapBlock, blocks: Blocks) -> Iterator[Candidate]:
    mean = overlap.mean
    if overlap.exposed_ratio is not None and overlap.exposed_ratio >= EXPOSED_RATIO:
        evidence = [
            _number("exposed_communication_of_span_ratio", overlap.exposed_ratio, "overlap", EXPOSED_RATIO),
            _number("exposed_communication_ns", mean.exposed_communication_ns, "overlap"),
            _number("hidden_of_communication_ratio", overlap.hidden_ratio or 0.0, "overlap"),
        ]
        worst = _worst_collective(blocks.operations)
        yield Candidate(
            candidate_id="hide-communication",
            title="Hide or shrink communication",
            rationale="Collectives run while no compute kernel does; that part of the step is theirs alone.",
            subject=worst or "",
            most_saved_ns=mean.exposed_communication_ns,
            evidence=tuple(evidence),
            suggestions=(
                "let the scheduler overlap them (latency hiding scheduler, async collectives)",
                "more work for each device between collectives: batch, sequence, or another sharding of the worst one",
                "combine small collectives, or split large ones, by the thresholds of XLA's combiners",
            ),
        )
    if overlap.idle_ratio is not None and overlap.idle_ratio >= IDLE_RATIO:
        yield _idle(overlap, blocks.gaps)
    if mean.span_ns and mean.exposed_copy_ns / mean.span_ns >= COPY_RATIO:
        ratio = mean.exposed_copy_ns / mean.span_ns
        yield Candidate(
            candidate_id="hide-copies",
            title="Hide or avoid copies",
            rationale="Copies run while neither compute nor communication does.",
            subject="",
            most_saved_ns=mean.exposed_copy_ns,
            evidence=(_number("exposed_copy_of_span_ratio", ratio, "overlap", COPY_RATIO),),
            suggestions=("prefetch inputs to the device", "look for host offload that no compute covers"),
        )
    for each in overlap.spread:
        if each.quantity == "compute" and each.spread_ratio is not None and each.spread_ratio >= SPREAD_RATIO:
            yield Candidate(
                candidate_id="balance-devices",
                title="Balance the devices",
                rationale="The others wait for the device that computes longest.",
                subject=each.critical_device,
                most_saved_ns=each.max_ns - each.mean_ns,
                evidence=(
                    _number("compute_spread_ratio", each.spread_ratio, "overlap", SPREAD_RATIO),
                    _number("critical_device", each.critical_device, "overlap"),
                    _number("compute_spread_ns", each.spread_ns, "overlap"),
                ),
                suggestions=(
                    "rocktools ranks: which device is late, and why",
                    "uneven experts or input lengths, clocks and power of that device",
                ),
            )


def _worst_collective(operations: OperationsBlock | Missing) -> str | None:
    if isinstance(operations, Missing):
        return None
    return next((each.name for each in operations.operations if each.activity == "communication"), None)


def _idle(overlap: OverlapBlock, gaps: GapsBlock | Missing) -> Candidate:
    """Idle devices, with the cause that has most of it."""
    evidence = [
        _number("idle_of_span_ratio", overlap.idle_ratio or 0.0, "overlap", IDLE_RATIO),
        _number("idle_ns", overlap.mean.idle_ns, "overlap"),
    ]
    subject = ""
    if not isinstance(gaps, Missing) and gaps.before:
        by_cause: dict[str, int] = {}
        for each in gaps.before:
            by_cause[each.cause] = by_cause.get(each.cause, 0) + each.total_ns
        cause = max(sorted(by_cause), key=lambda name: by_cause[name])
        first = gaps.before[0]
        subject = first.payload_name or ""
        evidence += [
            _number("main_cause", cause, "gaps", evidence=Evidence.INFERRED),
            _number("longest_total_before_ns", first.total_ns, "gaps"),
            _number("between_steps_ns", gaps.between_steps_ns, "gaps"),
        ]
    return Candidate(
        candidate_id="fill-idle-time",
        title="Keep the devices busy",
        rationale="Neither a kernel nor a copy ran in this part of the step.",
        subject=subject,
        most_saved_ns=overlap.mean.idle_ns,
        evidence=tuple(evidence),
        suggestions=(
            "host_wait: the host launches late (input pipeline, callbacks, synchronisation, Python); rocktools gaps",
            "kernel_wait: launched in time; another stream or device was waited for",
            "command buffers, or larger fusions, where there are many small kernels",
        ),
    )


def _of_ledger(ledger: LedgerBlock) -> Iterator[Candidate]:
    total = ledger.total_sum_ns
    replayed = [each for each in ledger.buckets if each.phase == "rematerialized" and each.activity == "compute"]
    replayed_ns = sum(each.sum_ns for each in replayed)
    if total and replayed_ns / total >= REMATERIALIZED_RATIO:
        yield Candidate(
            candidate_id="rematerialize-less",
            title="Rematerialize less",
            rationale="Forward work runs a second time inside of the backward pass.",
            subject=replayed[0].component,
            most_saved_ns=sum(each.sum_per_step_ns for each in replayed),
            evidence=(
                _number("rematerialized_ratio", replayed_ns / total, "ledger", REMATERIALIZED_RATIO),
                _number("most_rematerialized_component", replayed[0].component, "ledger"),
                _number("most_rematerialized_per_step_ns", replayed[0].sum_per_step_ns, "ledger"),
            ),
            suggestions=("a remat policy that saves what this component needs", "offload it, if memory is short"),
        )
    unknown = [each for each in ledger.buckets if each.phase == "unattributed" and each.activity != "communication"]
    unknown_ns = sum(each.sum_ns for each in unknown)
    if total and unknown_ns / total >= UNATTRIBUTED_RATIO:
        yield Candidate(
            candidate_id="attribute-first",
            title="Find out what the unattributed time is",
            rationale="This much of the time has no phase, so that no component can answer for it.",
            subject="unattributed",
            most_saved_ns=None,
            evidence=(_number("unattributed_ratio", unknown_ns / total, "ledger", UNATTRIBUTED_RATIO),),
            suggestions=(
                "--hlo FILE: the compiled program of this very run",
                "jax.named_scope around the parts of the model; a component map of your own (--components)",
            ),
        )


def _of_operations(operations: OperationsBlock) -> Iterator[Candidate]:
    for each in operations.operations[:3]:
        if each.exclusive_share_ratio < OPERATION_RATIO or each.activity != "compute":
            continue
        yield Candidate(
            candidate_id="speed-up-operation",
            title="Speed up one operation",
            rationale="One instruction has this much of the time in which a device ran nothing else.",
            subject=each.name,
            most_saved_ns=each.exclusive_per_step_ns,
            evidence=(
                _number("exclusive_share_ratio", each.exclusive_share_ratio, "operations", OPERATION_RATIO),
                _number("exclusive_per_step_ns", each.exclusive_per_step_ns, "operations"),
                _number("rows_count", each.rows_count, "operations"),
                _number("component", each.component, "operations"),
            ),
            suggestions=(
                "rocktools roofline --explain: what bounds it",
                "rocktools extract: try other shapes, layouts or kernels on it alone",
            ),
        )


def _of_families(families: FamiliesBlock, places_count: int) -> Iterator[Candidate]:
    layout = [each for each in families.families if each.family in ("layout", "conversion")]
    ratio = sum(each.share_ratio for each in layout)
    if ratio >= LAYOUT_RATIO:
        yield Candidate(
            candidate_id="format-less",
            title="Transpose, copy and convert less",
            rationale="This part of the time moves data around without computing anything.",
            subject=layout[0].example_operation,
            most_saved_ns=sum(each.exclusive_ns for each in layout) / (places_count or 1),
            evidence=(
                _number("layout_share_ratio", ratio, "families", LAYOUT_RATIO),
                _number("example_operation", layout[0].example_operation, "families"),
            ),
            suggestions=("order of axes in einsums", "layouts of parameters", "where precision changes"),
        )


def _of_collectives(collectives: CollectivesBlock) -> Iterator[Candidate]:
    wait = sum(each.wait_ns for each in collectives.arrivals)
    total = sum(each.total_ns for each in collectives.arrivals)
    if total and wait / total >= WAIT_RATIO:
        last = max(collectives.arrivals, key=lambda each: (each.last_count, each.device))
        yield Candidate(
            candidate_id="arrive-together",
            title="Let devices arrive together at collectives",
            rationale="Collectives wait for the last device more than they transfer.",
            subject=last.device,
            most_saved_ns=None,
            evidence=(
                _number("wait_ratio", wait / total, "collectives", WAIT_RATIO, Evidence.INFERRED),
                _number("last_device", last.device, "collectives", None, Evidence.INFERRED),
                _number("last_count", last.last_count, "collectives", None, Evidence.INFERRED),
            ),
            suggestions=("rocktools ranks: late input, longer backward pass, or a slower device",),
        )


def _of_roofline(roofline: RooflineBlock, overlap: OverlapBlock) -> Iterator[Candidate]:
    """Components far below what bounds them, by the time that this costs."""
    places, span = sum(each.steps_count for each in overlap.devices) or 1, overlap.mean.span_ns
    for table in roofline.tables:
        if (table.by, table.level) != ("component", "hbm") or not span:
            continue
        evidence = weakest(table.flop_evidence, table.bytes_evidence)
        for each in table.points:
            headroom = (each.headroom_ns or 0.0) / places
            if headroom / span >= HEADROOM_RATIO and each.bound:
                yield _below_roof(each, headroom, headroom / span, evidence)


def _below_roof(point: RooflinePoint, headroom: float, ratio: float, evidence: Evidence) -> Candidate:
    return Candidate(
        candidate_id="reach-the-roof",
        title="Bring a component nearer to its roof",
        rationale="Its kernels take much longer than their FLOPs and bytes do at the device's ceilings.",
        subject=point.name,
        most_saved_ns=headroom,
        evidence=(
            _number("headroom_of_span_ratio", ratio, "roofline", HEADROOM_RATIO, evidence),
            _number("roof_ratio", point.roof_ratio or 0.0, "roofline", None, evidence),
            _number("bound", point.bound or "", "roofline", None, evidence),
        ),
        suggestions=(
            "rocktools roofline --by component --explain NAME",
            "counters of its kernels (rocktools pmc)",
        ),
    )


def _of_steps(steps: Steps) -> Iterator[Candidate]:
    found = steps.statistics
    if found is None or found.samples_count < TAIL_STEPS_COUNT or not found.median_ns:
        return
    ratio = found.p90_ns / found.median_ns
    if ratio >= TAIL_RATIO:
        yield Candidate(
            candidate_id="steady-steps",
            title="Find out why some steps take longer",
            rationale="Long steps point at the host: input, recompilation, checkpoints, callbacks.",
            subject="",
            most_saved_ns=found.mean_ns - found.median_ns,
            evidence=(
                _number("p90_over_median_ratio", ratio, "steps", TAIL_RATIO, steps.evidence),
                _number("samples_count", found.samples_count, "steps", float(TAIL_STEPS_COUNT), steps.evidence),
            ),
            suggestions=("compare a long step with a short one: rocktools ledger --step N", "rocktools gaps --by gap"),
        )
