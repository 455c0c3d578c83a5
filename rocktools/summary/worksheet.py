"""A run, or its summary -> the component worksheet: what `rocktools worksheet` shows."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from rocktools.analytic.occurrences import Workload
from rocktools.devices.device import Device
from rocktools.devices.files import read_device
from rocktools.errors import RocktoolsError, UsageError, nearest_names
from rocktools.evidence import Absence
from rocktools.findings import Finding
from rocktools.summary.build import build_summary_and_rows
from rocktools.summary.document import CounterQuantity, LedgerBlock, Missing, Summary
from rocktools.summary.gathered import Limits, SummaryOptions
from rocktools.summary.worksheet_cells import Context, cells_of
from rocktools.summary.worksheet_document import SCHEMA, Place, Timing, Worksheet, WorksheetRow
from rocktools.summary.worksheet_facts import ComponentFacts, Key, facts_of_summary
from rocktools.summary.worksheet_run import RunRows, choose_place, refine_facts
from rocktools.summary.worksheet_useful import Useful, UsefulRequest, find_useful
from rocktools.workspace.metrics import Metrics, read_metrics
from rocktools.workspace.used_device import choose_device

_EVERYTHING = Limits(operations_count=10**9, quantities_count=10**9, points_count=10**9)
_ROCM_FORMATS = ("rocpd", "rocprofv3")


@dataclass(frozen=True, slots=True, kw_only=True)
class WorksheetOptions:
    """What the user may choose.

    Attributes:
        components, phases: only these; () for all.
        useful: what useful FLOPs are of; None: none are shown.
        workload: what must be found how often; needs the run.
    """

    components: tuple[str, ...] = ()
    phases: tuple[str, ...] = ()
    useful: UsefulRequest | None = None
    workload: Workload | None = None


def build_run_worksheet(
    paths: Sequence[str | Path], summary_options: SummaryOptions, options: WorksheetOptions
) -> tuple[Worksheet, tuple[Finding, ...]]:
    """The worksheet of a run that is at hand, and the doubts that reading it raised.

    Raises:
        UsageError: no such component or phase; tokens of useful FLOPs are not known.
        InputError: no file can be read; nothing was booked.
    """
    summary, gathered = build_summary_and_rows(paths, replace(summary_options, limits=_EVERYTHING))
    ledger = _ledger_of(summary)
    facts = facts_of_summary(summary, ledger)
    assert not isinstance(gathered.timed, Missing), "a ledger without rows"
    metrics, _ = _metrics(paths, summary_options, gathered.counted_dispatches_count)
    try:
        device: Device | None = choose_device(gathered.agents, gathered.timed.rows, summary_options.device)[0]
    except RocktoolsError:
        device = None
    place = choose_place(summary)
    rows = RunRows(timed=gathered.timed, metrics=metrics, device=device, workload=options.workload)
    refined = refine_facts(facts, rows, place, ledger.places_count)
    return _assemble(summary, ledger, refined, options, device, place, is_run=True), summary.quality.findings


def build_summary_worksheet(summary: Summary, options: WorksheetOptions) -> Worksheet:
    """The worksheet of a summary alone: what needs dispatches says so.

    Raises:
        UsageError: as above, or a workload was given.
        NothingToRead: the summary has no ledger.
    """
    if options.workload is not None:
        raise UsageError(
            "workload-needs-run", "a summary has no rows to count for a workload", hint="rocktools worksheet RUN"
        )
    ledger = _ledger_of(summary)
    facts = facts_of_summary(summary, ledger)
    return _assemble(summary, ledger, facts, options, _device_of(summary), None, is_run=False)


def _ledger_of(summary: Summary) -> LedgerBlock:
    from rocktools.errors import NothingToRead

    if isinstance(summary.ledger, Missing):
        raise NothingToRead("no-ledger-for-worksheet", f"there is no ledger: {summary.ledger.reason}")
    return summary.ledger


def _metrics(
    paths: Sequence[str | Path], options: SummaryOptions, counted_count: int
) -> tuple[Metrics | None, tuple[Finding, ...]]:
    """Counters of the job, from where the summary takes them."""
    where = tuple(options.counters) or (tuple(paths) if counted_count else ())
    if not where:
        return None, ()
    try:
        metrics = read_metrics(where)
    except RocktoolsError:
        return None, ()  # the summary has a finding on it
    return metrics, metrics.findings


def _device_of(summary: Summary) -> Device | None:
    """By the label of the ceilings of the summary: `MI355X SPX/NPS1`."""
    if isinstance(summary.roofline, Missing) or not summary.roofline.tables:
        return None
    part, _, modes = summary.roofline.tables[0].device.partition(" ")
    try:
        return read_device(part, partition=modes.partition("/")[0] or None)
    except RocktoolsError:
        return None


def _assemble(
    summary: Summary,
    ledger: LedgerBlock,
    facts: Mapping[Key, ComponentFacts],
    options: WorksheetOptions,
    device: Device | None,
    place: Place | None,
    *,
    is_run: bool,
) -> Worksheet:
    chosen = _chosen(facts, options)
    useful = None if options.useful is None else find_useful(summary, chosen, options.useful, device)
    context = _context(summary, ledger, place, useful, is_run=is_run)
    rows = tuple(
        WorksheetRow(
            component=each.component,
            phase=each.phase,
            title=f"{each.component}, {each.phase}",
            state=each.state,
            cells=cells_of(
                each,
                context,
                None if useful is None else useful.flop.get(key),
                None if useful is None else useful.rates.get(key),
            ),
        )
        for key, each in chosen.items()
    )
    no_place = Missing(absence=Absence.NOT_COLLECTED, reason="dispatches are of a run: rocktools worksheet RUN")
    no_model = Missing(absence=Absence.NOT_COLLECTED, reason="no model was named (--model)")
    return Worksheet(
        schema=SCHEMA,
        title=summary.title,
        inputs_sha256=summary.provenance.inputs_sha256,
        is_simulated=summary.is_simulated,
        basis="run" if is_run else "summary",
        devices_count=ledger.devices_count,
        steps_count=ledger.steps_count,
        places_count=ledger.places_count,
        place=place or no_place,
        device_label="" if device is None else device.label,
        useful=no_model if useful is None else useful.basis,
        timing=timing_of(summary),
        rows=rows,
        unmet=tuple(one.title for each in chosen.values() for one in each.expected if not one.is_met),
        notes=_notes(context),
    )


def _chosen(facts: Mapping[Key, ComponentFacts], options: WorksheetOptions) -> dict[Key, ComponentFacts]:
    for wanted, place, what in ((options.components, 1, "component"), (options.phases, 0, "phase")):
        known = sorted({key[place] for key in facts})
        for name in wanted:
            if name not in known:
                near = nearest_names(name, known) or known
                raise UsageError("nothing-in-worksheet", f"there is no {what} {name!r}", hint=", ".join(near))
    return {
        key: each
        for key, each in facts.items()
        if (not options.components or key[1] in options.components) and (not options.phases or key[0] in options.phases)
    }


def _context(
    summary: Summary, ledger: LedgerBlock, place: Place | None, useful: Useful | None, *, is_run: bool
) -> Context:
    formats = summary.metadata.source_formats
    has_trace = any(each.startswith(_ROCM_FORMATS) for each in formats)
    replayed: defaultdict[str, list[CounterQuantity]] = defaultdict(list)
    if not isinstance(summary.counters, Missing):
        for each in summary.counters.quantities:
            if each.origin.startswith("replay:") and each.quantity in ("total_flop", "fabric_bytes"):
                replayed[each.kernel_name].append(each)
    collectives = () if isinstance(summary.collectives, Missing) else summary.collectives.operations
    step = "" if place is None else str(place.step_index if place.step_number is None else place.step_number)
    return Context(
        has_profile=any(each.startswith(("xspace", "perfetto")) for each in formats),
        has_trace=has_trace,
        is_run=is_run,
        places_count=ledger.places_count or 1,
        place_text="" if place is None else f"step {step} on {place.device}",
        has_model=useful is not None,
        devices_count=1 if useful is None else useful.basis.devices_count,
        collectives={(each.run, each.instruction): each for each in collectives},
        replayed=replayed,
    )


def _notes(context: Context) -> tuple[str, ...]:
    notes = ["Times are of a profiled run: they explain a step, and no throughput is made of them."]
    if context.has_trace and context.has_profile:
        notes.append("Both a trace of rocprofv3 and a JAX profile were read: times and counts are those of the former.")
    return tuple(notes)


def timing_of(summary: Summary) -> Timing | Missing:
    """The matched run without a profiler; Missing where no log of one was named."""
    log = summary.step_log
    if isinstance(log, Missing):
        return log
    if log.step_ns is None or log.statistics is None:
        return Missing(absence=Absence.NOT_COLLECTED, reason="no step of the log counts")
    found, is_single = log.statistics, log.is_single_sample
    profiled = None
    if not isinstance(summary.steps, Missing) and summary.steps.statistics is not None:
        profiled = summary.steps.statistics.median_ns
    whole, each, reason = _throughput(summary)
    return Timing(
        path=log.path,
        step_ns=log.step_ns,
        statistic=log.statistic,
        samples_count=found.samples_count,
        iqr_ns=None if is_single else found.iqr_ns,
        spread_ratio=None if is_single else found.spread_ratio,
        min_ns=None if is_single else found.min_ns,
        max_ns=None if is_single else found.max_ns,
        warmup_steps_count=log.warmup_steps_count,
        profiled_steps_count=log.profiled_steps_count,
        tokens_per_s=whole,
        tokens_per_device_per_s=each,
        throughput_reason=reason,
        profiled_step_ns=profiled,
        difference_ratio=None if profiled is None or not log.step_ns else profiled / log.step_ns - 1.0,
    )


def _throughput(summary: Summary) -> tuple[float | None, float | None, str]:
    block = summary.throughput
    if isinstance(block, Missing):
        return None, None, block.reason
    values = [
        float(fact.value) if isinstance(fact.value, (int, float)) and not isinstance(fact.value, bool) else None
        for fact in (block.tokens_per_s, block.tokens_per_device_per_s)
    ]
    reasons = [
        fact.missing.reason for fact in (block.tokens_per_s, block.tokens_per_device_per_s) if fact.missing is not None
    ]
    return values[0], values[1], reasons[0] if reasons else ""
