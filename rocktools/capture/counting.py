"""From "count these counters of these kernels" to a planned capture: session, packed and confirmed groups, passes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from rocktools.capture.groups import confirm_groups
from rocktools.capture.iterations import Iterations
from rocktools.capture.kernel_filter import KernelFilter
from rocktools.capture.plan import CapturePlan, PlannedPass, plan_pmc, plan_replay
from rocktools.capture.preflight import Job
from rocktools.capture.rocprofv3 import PmcOptions
from rocktools.capture.session import Session, SessionOptions, begin_session
from rocktools.counters.catalog import Catalog, RatioGroup, load_catalog
from rocktools.counters.formulas import load_formulas
from rocktools.counters.packing import pack_counters
from rocktools.counters.requests import CounterRequest, parse_request, require_known_quantities
from rocktools.errors import UsageError
from rocktools.findings import Finding

DEFAULT_ARCHITECTURE = "gfx950"


@dataclass(frozen=True, slots=True, kw_only=True)
class CountingRequest:
    """What the user wants counted.

    Attributes:
        application: the job.
        kernels: which kernels.
        names: those that were asked for by their whole name.
        iterations: which executions of each; None for all.
        counters, metrics: as typed; metrics stand for counters.
        label: the passes are called `<label>_1`, `<label>_2`, ...
        architecture: to pack for; None for that of this machine's GPUs.
        device: GPU that the groups are confirmed on.
        selects_regions: only between the job's own resume and pause calls.
        replays_kernels: replay each kernel in the process instead of running the job once for each group.
    """

    application: tuple[str, ...]
    kernels: KernelFilter
    names: tuple[str, ...]
    iterations: Iterations | None
    counters: tuple[str, ...]
    metrics: tuple[str, ...] = ()
    label: str = "counters"
    architecture: str | None = None
    device: int = 0
    selects_regions: bool = False
    replays_kernels: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedCounting:
    """A capture of counters that is ready to run.

    Attributes:
        session: machine, tool and environment.
        plan: the passes.
        findings: of packing and of confirming.
    """

    session: Session
    plan: CapturePlan
    findings: tuple[Finding, ...]


def plan_counting(options: SessionOptions, request: CountingRequest) -> PlannedCounting:
    """Settle everything that must be known before the first pass starts.

    Raises:
        UsageError: a counter or quantity is unknown or cannot be collected, or the request contradicts itself.
        CaptureError: there is no usable tool, or it refuses a counter.
    """
    if request.replays_kernels and request.iterations is not None:
        raise UsageError(
            "iterations-with-replay",
            "in-process replay counts its own passes as iterations, so a range would choose the wrong ones",
            hint="let the script run the kernel as often as wanted, or leave --passes-in-process out",
        )
    _require_sound(request)
    session = begin_session(replace(options, dumps_hlo=False), _job(options, request))
    here = {gpu.index: gpu.arch for gpu in session.survey.host.gpus}
    catalog = load_catalog(request.architecture or here.get(request.device, DEFAULT_ARCHITECTURE))
    wanted = parse_request(catalog, counters=request.counters, metrics=request.metrics)
    packing = pack_counters(catalog, wanted.names, together=_together(catalog, wanted, request))
    groups = confirm_groups(
        [packed.counters for packed in packing.passes],
        avail=session.survey.avail,
        device=request.device,
        environment=session.environment.apply(options.environment),
    )
    build: Callable[..., tuple[PlannedPass, ...]] = plan_replay if request.replays_kernels else plan_pmc
    passes = build(
        groups.groups,
        PmcOptions(
            counters=(),
            kernels=request.kernels,
            iterations=request.iterations,
            has_selected_regions=request.selects_regions,
        ),
        names=request.names,
        label=request.label,
        application=request.application,
        environment=session.environment,
        facts={"groups_confirmed_by": groups.confirmed_by, "architecture": catalog.architecture},
    )
    return PlannedCounting(session=session, plan=session.plan(passes), findings=(*packing.findings, *groups.findings))


def _require_sound(request: CountingRequest) -> None:
    """Refuses what no machine can do, before this one is looked at."""
    if request.metrics and request.architecture is None:  # which formulas there are, this machine's GPU decides
        require_known_quantities(load_formulas(DEFAULT_ARCHITECTURE), request.metrics)
    elif request.metrics or not request.counters:
        catalog = load_catalog(request.architecture or DEFAULT_ARCHITECTURE)
        parse_request(catalog, counters=request.counters, metrics=request.metrics)


def _together(catalog: Catalog, wanted: CounterRequest, request: CountingRequest) -> tuple[RatioGroup, ...]:
    """What the packer keeps in one pass."""
    if request.replays_kernels:  # overlapping groups may repeat a counter, and kernel replay would add the two up
        return wanted.disjoint_groups()
    known = {group.counters for group in catalog.groups}
    return (*catalog.groups, *(group for group in wanted.groups if group.counters not in known))


def _job(options: SessionOptions, request: CountingRequest) -> Job:
    return Job(
        application=request.application,
        counts=True,
        traces_host=False,
        selects_regions=request.selects_regions,
        excludes_collectives=request.kernels.exclude is not None,
        chooses_iterations=request.iterations is not None,
        replays_kernels=request.replays_kernels,
        keeps_command_buffers=options.keeps_command_buffers,
        given_variables=tuple(options.variables),
    )
