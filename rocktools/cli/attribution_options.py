"""Options that the commands of the ledger share: the program, the component map, the steps, the device."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from rocktools.cli.options import hlo_option, optional_paths_argument, split_hlo
from rocktools.errors import UsageError, nearest_names

if TYPE_CHECKING:
    import pandas as pd

    from rocktools.timeline.steps import StepWindow
    from rocktools.workspace.attributed import AttributedRuns, AttributionOptions

_Function = Callable[..., Any]
_METHODS = ("auto", "annotation", "range", "period", "whole")
_WINDOW = re.compile(r"(\+?)(\d+(?:\.\d+)?)(ns|us|ms|s)?:(\+?)(\d+(?:\.\d+)?)(ns|us|ms|s)?")
_NS = {"ns": 1, "us": 1_000, "ms": 1_000_000, "s": 1_000_000_000, None: 1}


@dataclass(frozen=True, slots=True, kw_only=True)
class LedgerRequest:
    """What the user asked for.

    Attributes:
        paths: files, folders, patterns.
        programs: compiled programs that were named; () to look for them.
        components: name or file of the component map.
        method, pattern, window: how steps are found; None where nothing was said.
        steps: the steps to count, by index; () for all that should be counted.
        has_all_steps: whether warm-up and incomplete steps count too.
        device: the one device; None for all.
    """

    paths: tuple[str, ...]
    programs: tuple[str, ...]
    components: str
    method: str
    pattern: str | None
    window: str | None
    steps: tuple[int, ...]
    has_all_steps: bool
    device: str | None


def ledger_options(function: _Function) -> _Function:
    """Adds PATHS and the shared options; the function gets them as `request: LedgerRequest`."""

    @functools.wraps(function)
    def with_request(
        *arguments: Any,
        paths: tuple[str, ...],
        hlo: str | None,
        components: str,
        method: str,
        pattern: str | None,
        window: str | None,
        steps: tuple[int, ...],
        has_all_steps: bool,
        device: str | None,
        **others: Any,
    ) -> Any:
        paths, programs = split_hlo(paths, hlo)
        request = LedgerRequest(
            paths=paths,
            programs=programs or (),
            components=components,
            method=method,
            pattern=pattern,
            window=window,
            steps=steps,
            has_all_steps=has_all_steps,
            device=device,
        )
        return function(*arguments, request=request, **others)

    decorated: _Function = with_request
    for option in reversed(_OPTIONS):
        decorated = option(decorated)
    return optional_paths_argument(decorated)


_OPTIONS = (
    hlo_option,
    click.option(
        "--components",
        metavar="NAME|FILE",
        default="maxtext",
        show_default=True,
        help="How scopes become components: a shipped map (maxtext, plain_jax), or a YAML file of your own; the map "
        "`template` explains everything, to be copied.",
    ),
    click.option(
        "--steps",
        "method",
        type=click.Choice(_METHODS),
        default="auto",
        show_default=True,
        help="How steps are found: StepTraceAnnotation of a JAX profile, roctx ranges, repetition of the program, or "
        "the whole trace as one step; auto takes the first that finds any.",
    ),
    click.option(
        "--step-pattern",
        "pattern",
        metavar="REGEX",
        help="Name of the annotation or range that marks a step; its first group is the step's number.",
    ),
    click.option(
        "--window",
        metavar="START:END",
        help="Take this window as the only step: nanoseconds of the trace clock, or +1.5s:+2s from its first kernel.",
    ),
    click.option(
        "--step",
        "steps",
        metavar="N",
        multiple=True,
        type=click.IntRange(min=0),
        help="Only this step; may be repeated.",
    ),
    click.option(
        "--all-steps", "has_all_steps", is_flag=True, help="Count warm-up steps and steps that the trace cuts, too."
    ),
    click.option("--device", metavar="LABEL", help="Only this device, as `rocktools info` labels it (host0:gpu3)."),
)


def worker_options(function: _Function) -> _Function:
    """Adds `--jobs` and `--dask`; the function gets them as `workers: Workers`."""

    @functools.wraps(function)
    def with_workers(*arguments: Any, jobs: int, dask: str | None, **others: Any) -> Any:
        from rocktools.workspace.many_ranks import Workers

        return function(*arguments, workers=Workers(processes_count=jobs, dask_address=dask), **others)

    decorated: _Function = with_workers
    decorated = click.option(
        "--dask",
        metavar="ADDRESS",
        help="Measure files on the Dask cluster with this scheduler (tcp://host:8786) instead.",
    )(decorated)
    return click.option(
        "--jobs",
        metavar="N",
        type=click.IntRange(min=1),
        default=1,
        show_default=True,
        help="Measure that many files at once, each in a process of its own.",
    )(decorated)


def attribution_options(request: LedgerRequest) -> AttributionOptions:
    """The request as the library takes it.

    Raises:
        UsageError: a window that is none, an unknown component map.
        InputError: a component map that cannot be read.
    """
    from rocktools.attribution.component_map_file import read_component_map, read_shipped_map, shipped_maps
    from rocktools.timeline.steps import StepMethod, StepOptions
    from rocktools.workspace.attributed import AttributionOptions

    is_shipped = request.components in shipped_maps() or not Path(request.components).exists()
    component_map = read_shipped_map(request.components) if is_shipped else read_component_map(Path(request.components))
    window = None if request.window is None else _parse_window(request.window)
    return AttributionOptions(
        component_map=component_map,
        hlo=request.programs,
        steps=StepOptions(
            method=None if request.method == "auto" else StepMethod(request.method),
            pattern=request.pattern,
            window=window,
        ),
    )


def select_rows(request: LedgerRequest, runs: AttributedRuns) -> tuple[pd.DataFrame, pd.DataFrame]:
    """The rows of ATTRIBUTED, and the STEPS, that the request counts.

    Raises:
        UsageError: no such step or device.
    """
    from rocktools.timeline.grouping import match_rows

    rows = runs.rows
    steps = select_steps(request, runs.steps.frame, rows["device"].unique())
    is_in = match_rows(rows, steps, ("run", "device", "step_index")) >= 0
    return rows[is_in].reset_index(drop=True), steps


def select_steps(request: LedgerRequest, steps: pd.DataFrame, devices: Iterable[str]) -> pd.DataFrame:
    """The STEPS that the request counts.

    Args:
        steps: all that were found.
        devices: all that ran something.

    Raises:
        UsageError: no such step or device.
    """
    from rocktools.timeline.steps import counted_steps

    if request.steps:
        _require_steps(request.steps, steps)
        steps = steps[steps["step_index"].isin(request.steps)]
    elif not request.has_all_steps:
        steps = counted_steps(steps)
    if request.device is not None:
        _require_device(request.device, devices)
        steps = steps[steps["device"] == request.device]
    return steps.reset_index(drop=True)


def _require_steps(wanted: tuple[int, ...], steps: pd.DataFrame) -> None:
    known = sorted({int(index) for index in steps["step_index"]})
    for index in wanted:
        if index not in known:
            listed = f"steps: {known[0]} to {known[-1]}" if known else "no step was found"
            raise UsageError("unknown-step", f"there is no step {index}", hint=listed)


def _require_device(label: str, devices: Iterable[str]) -> None:
    known = sorted({str(name) for name in devices})
    if label not in known:
        near = nearest_names(label, known)
        raise UsageError("unknown-device", f"there is no device {label!r}", hint=", ".join(near or known[:8]))


def _parse_window(text: str) -> StepWindow:
    from rocktools.timeline.steps import StepWindow

    found = _WINDOW.fullmatch(text.replace("µ", "u"))
    if found is None or found[1] != found[4]:
        raise UsageError(
            "bad-window",
            f"--window {text!r} is no window",
            hint="START:END in nanoseconds of the trace clock, or both with + from the first kernel: +1.5s:+2s",
        )
    return StepWindow(
        start_ns=round(float(found[2]) * _NS[found[3]]) if "." in found[2] else int(found[2]) * _NS[found[3]],
        end_ns=round(float(found[5]) * _NS[found[6]]) if "." in found[5] else int(found[5]) * _NS[found[6]],
        is_offset=bool(found[1]),
    )
