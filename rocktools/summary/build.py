"""Run directories or bare files -> the summary. The one call behind `rocktools summarize`.

Every figure is made by the functions behind the command that shows it, so that both agree to the last digit. A block
whose inputs are not there is left out with a reason. The same files give the same document, byte for byte.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from rocktools import __version__
from rocktools.evidence import Absence
from rocktools.findings import Finding
from rocktools.sources.step_log import StepLogFile, read_step_log
from rocktools.summary.build_counters import build_counters
from rocktools.summary.build_log import NO_LOG, build_step_log, build_throughput
from rocktools.summary.build_memory import build_memory
from rocktools.summary.build_metadata import build_metadata, build_quality, devices_fact
from rocktools.summary.build_operations import build_families, build_regions
from rocktools.summary.build_provenance import Origins, build_provenance
from rocktools.summary.build_roofline import build_roofline_block
from rocktools.summary.build_steps import build_steps
from rocktools.summary.build_time import build_ledger_block, build_overlap_block
from rocktools.summary.build_waiting import build_collectives, build_gaps
from rocktools.summary.candidates import Blocks, find_candidates
from rocktools.summary.document import SCHEMA, Missing, StepLog, Summary
from rocktools.summary.gathered import Gathered, SummaryOptions, Timed, gather
from rocktools.summary.hlo_texts import with_hlo_texts
from rocktools.summary.job import check_log_matches, job_facts, settings_of_runs
from rocktools.summary.measured_operations import build_operations_block, measure_operations
from rocktools.summary.names import build_names
from rocktools.summary.perfetto_fallback import Converted, convert_perfetto_traces
from rocktools.summary.recorded import read_recorded_runs
from rocktools.summary.rule_candidates import doubts_of, with_rules
from rocktools.units import count_noun, format_duration
from rocktools.workspace.metrics import Metrics

_TIMED_BLOCKS = (
    *("steps", "ledger", "overlap", "operations", "families", "collectives", "gaps", "regions", "roofline"),
)

_AT_CAP = "events-at-cap"  # of a profile, whose tracer stopped


@dataclass(slots=True)
class _Draft:
    """Blocks by name, and the doubts that they raised, while a summary is made."""

    blocks: dict[str, Any] = field(default_factory=dict)
    findings: list[Finding] = field(default_factory=list)

    def add(self, name: str, block: Any, findings: Sequence[Finding] = ()) -> None:
        self.blocks[name] = block
        self.findings += [finding for finding in findings if finding not in self.findings]


def build_summary(paths: Sequence[str | Path], options: SummaryOptions) -> Summary:
    """The summary of everything that the paths name.

    Raises:
        UsageError: no path was named.
        InputError: no file can be read; or the program, log or ceilings that were named cannot.
    """
    return build_summary_and_rows(paths, options)[0]


def build_summary_and_rows(paths: Sequence[str | Path], options: SummaryOptions) -> tuple[Summary, Gathered]:
    """The summary, and the rows that it was made of; raises as `build_summary`."""
    log = None if options.step_log is None else read_step_log(options.step_log)
    with TemporaryDirectory(prefix="rocktools-") as folder:
        converted = convert_perfetto_traces(paths, Path(folder))
        gathered = gather(converted.paths, options.attribution, options.device)
        return _summarize(gathered, converted, options, log), gathered


def _summarize(gathered: Gathered, converted: Converted, options: SummaryOptions, log: StepLogFile | None) -> Summary:
    """The summary of what was gathered."""
    draft = _Draft(findings=_unique([*converted.findings, *gathered.findings, *doubts_of(gathered.rules)]))
    paths, limits = converted.paths, options.limits
    counted = build_counters(gathered, paths, options.counters, limit=limits.quantities_count)
    draft.add("counters", counted.block, counted.findings)
    if isinstance(gathered.timed, Missing):
        for name in _TIMED_BLOCKS:
            draft.add(name, gathered.timed)
    else:
        _add_timed(draft, gathered, gathered.timed, options, counted.job)
    draft.add("memory", *build_memory(gathered, paths, options.attribution.hlo))
    origins = Origins(
        gathered=gathered,
        runs=read_recorded_runs(gathered.sources),
        originals=converted.originals,
        log=log,
        log_path=options.step_log,
    )
    of_job = settings_of_runs(origins.runs)
    of_log = {} if log is None else {name: (text, origins.log_name) for name, text in log.config.items()}
    devices = devices_fact(gathered, None if log is None else log.devices_count, origins.log_name)
    job = job_facts(of_job, of_log, devices.value if isinstance(devices.value, int) else None)
    step_log: StepLog | Missing = NO_LOG
    if log is not None:
        step_log, found = build_step_log(log, origins.log_name, warmup_steps_count=options.log_warmup_steps_count)
        draft.findings += [*found, *check_log_matches(of_job, of_log, origins.log_name)]
    is_simulated = gathered.is_simulated or counted.is_simulated
    named = (*paths, *options.counters, *options.attribution.hlo, *filter(None, [options.step_log]))
    names = build_names(gathered.sources, converted.originals, named)
    is_cut = converted.is_truncation_suspected or any(each.rule == _AT_CAP for each in draft.findings)
    findings = _unique([names.in_finding(each) for each in draft.findings])
    quality = build_quality(gathered, findings, is_truncated=is_cut)
    blocks = Blocks(**{each.name: draft.blocks[each.name] for each in fields(Blocks)})
    return Summary(
        schema=SCHEMA,
        rocktools_version=__version__,
        generated_at_utc=options.generated_at_utc,
        title=_title(draft, gathered, is_simulated=is_simulated),
        is_simulated=is_simulated,
        metadata=build_metadata(
            gathered, job, options.attribution.component_map.name, is_perfetto=bool(converted.originals)
        ),
        provenance=build_provenance(origins, options),
        quality=quality,
        step_log=step_log,
        throughput=build_throughput(step_log, job, devices),
        # Threads of a host are no devices: what their overlap says is not to be acted on.
        candidates=() if quality.overview.is_host_only else with_rules(find_candidates(blocks), gathered.rules),
        **draft.blocks,
    )


def _add_timed(
    draft: _Draft, gathered: Gathered, timed: Timed, options: SummaryOptions, metrics: Metrics | None
) -> None:
    """The blocks of what ran in the steps that count."""
    limits = options.limits
    if timed.rows.empty:
        nothing = Missing(absence=Absence.NOT_COLLECTED, reason="no kernel and no copy is in a step that counts")
        for name in _TIMED_BLOCKS:
            draft.add(name, nothing)
        return
    draft.add("steps", build_steps(timed))
    draft.add("ledger", *build_ledger_block(timed, options.attribution.component_map))
    draft.add("overlap", *build_overlap_block(timed, places_count=limits.places_count))
    measured = measure_operations(timed)
    places_count = timed.places_count
    block = build_operations_block(measured, places_count=places_count, limit=limits.operations_count)
    draft.add("operations", with_hlo_texts(block, timed))
    draft.add("families", build_families(measured))
    draft.add("collectives", *_collectives(timed))
    draft.add("gaps", *build_gaps(timed, limit=limits.gaps_count))
    draft.add("regions", build_regions(timed, limit=limits.regions_count))
    roofline = build_roofline_block(gathered, timed, metrics, options.device, limit=limits.points_count)
    draft.add("roofline", *roofline)


def _collectives(timed: Timed) -> tuple[Any, tuple[Finding, ...]]:
    block, findings = build_collectives(timed)
    if not block.operations:
        return Missing(absence=Absence.NOT_COLLECTED, reason="no collective ran in the steps that count"), findings
    return block, findings


def _unique(findings: Sequence[Finding]) -> list[Finding]:
    found: list[Finding] = []
    for finding in findings:
        if finding not in found:
            found.append(finding)
    return found


def _title(draft: _Draft, gathered: Gathered, *, is_simulated: bool) -> str:
    """What it is of, and the figures that come first."""
    runs = ", ".join(sorted({source.run for source in gathered.sources}))
    stamp = "SIMULATED: " if is_simulated else ""
    steps = draft.blocks["steps"]
    if isinstance(steps, Missing):
        return f"{stamp}{runs}: no times"
    overlap = draft.blocks["overlap"]
    median = "" if steps.statistics is None else f", median {format_duration(steps.statistics.median_ns)} (profiled)"
    count = 0 if steps.statistics is None else steps.statistics.samples_count
    exposed = format_duration(overlap.mean.exposed_communication_ns)
    return (
        f"{stamp}{runs}: {count_noun(count, 'step')} on {count_noun(len(overlap.devices), 'device')}{median}, "
        f"exposed communication {exposed}"
    )
