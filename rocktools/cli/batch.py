"""`rocktools batch plan|run|collect|compare`: a list of kernels under rocprof-compute."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING

import click

from rocktools.cli.batch_run import run
from rocktools.cli.output import TableOutput, emit_findings, emit_table, exit_code_of, new_file, require_new_path
from rocktools.errors import UsageError
from rocktools.units import count_noun

if TYPE_CHECKING:
    from rocktools.batch.pick import Candidates
    from rocktools.batch.plan import BatchPlan
    from rocktools.batch.planning import MadePlan, PlanWishes
    from rocktools.capture.compute_versions import ComputeVersion
    from rocktools.workspace.programs import FoundProgram

_path = click.Path(path_type=Path)
_OPTIONAL_OF_PLAN = ("reason", "total_ns", "level", "component", "kernel_name", "dispatches_count", "place_index")


class _BatchGroup(click.Group):
    """The commands of this module, and those that gather results, which are imported when they are called."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return ["plan", "run", "collect", "compare"]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name in ("collect", "compare"):
            from rocktools.cli import batch_collect

            return batch_collect.collect if cmd_name == "collect" else batch_collect.compare
        return super().get_command(ctx, cmd_name)


@click.group("batch", cls=_BatchGroup)
def command() -> None:
    """A list of kernels under rocprof-compute, each alone by its replay: plan it, run it, gather the results."""


command.add_command(run)


@command.command("plan")
@click.argument("paths", metavar="[PATH]...", nargs=-1, type=str)
@click.option("-o", "--output", "target", metavar="FILE", type=_path, default=Path("plan.yaml"), show_default=True,
              help="The plan, a new YAML file.")  # fmt: skip
@click.option("--top", metavar="N", type=click.IntRange(min=0), default=10, show_default=True,
              help="How many kernels; 0: all.")  # fmt: skip
@click.option("--by", "order", type=click.Choice(["time", "component"]), default="time", show_default=True,
              help="The kernels that took most, or the first of each component in turn.")  # fmt: skip
@click.option("--components", metavar="NAME|FILE", default="maxtext", show_default=True,
              help="Component map for --by component, as for `rocktools ledger`.")  # fmt: skip
@click.option("--source", metavar="HLO", type=str,
              help="The compiled programs: a dump of XLA, an HLO proto.  [default: those of the run]")  # fmt: skip
@click.option("--replays", metavar="DIR", type=_path,
              help="Folder of replays: those that are there are used, missing ones are put there. Without PATH: plan "
              "all of them.  [default: replays beside the plan]")  # fmt: skip
@click.option("--allow-unproven", "allows_unproven", is_flag=True,
              help="Take replays that nothing proves to be the job's kernel; results say so.")  # fmt: skip
@click.option("--passes", metavar="WHICH", default="all", show_default=True,
              help="Counters: all, blocks:2,4, set:NAME, or multiplexing (all in one run; 3.5 and later).")  # fmt: skip
@click.option("--iterations", "iterations_count", metavar="N", type=click.IntRange(min=1),
              help="Launches that are counted in a run.  [default: 10; with multiplexing 60]")  # fmt: skip
@click.option("--warm-up", "warmups_count", metavar="N", type=click.IntRange(min=0), default=2, show_default=True,
              help="Launches before them.")  # fmt: skip
@click.option("--arch", "architecture", metavar="gfxNNN", default="gfx950", show_default=True,
              help="Architecture, for the number of passes.")  # fmt: skip
@click.option("--compute-version", metavar="X.Y", default="3.10", show_default=True,
              help="rocprof-compute that the estimate is for; a run asks the tool.")  # fmt: skip
@click.option("--start-up", "start_up_s", metavar="SECONDS", type=click.FloatRange(min=0), default=20.0,
              show_default=True, help="Assumed for the estimate: from the start of Python to a launch.")  # fmt: skip
def plan(
    paths: tuple[str, ...],
    target: Path,
    top: int,
    order: str,
    components: str,
    source: str | None,
    replays: Path | None,
    allows_unproven: bool,
    passes: str,
    iterations_count: int | None,
    warmups_count: int,
    architecture: str,
    compute_version: str,
    start_up_s: float,
) -> int:
    """Pick kernels and write what a batch would do with them, as a YAML file to edit.

    PATHS are traces, profiles or run directories, whose kernels are ranked. Replays that are missing are taken out of
    the program. Collectives, copies, what cannot be taken out of its job, and replays without a proof are listed as
    refused, with the reason. Runs and time are estimated.
    """
    from rocktools.batch.plan import parse_passes
    from rocktools.batch.planning import PlanWishes

    require_new_path(target)
    if not paths and replays is None:
        raise UsageError(
            "nothing-to-plan", "neither a run nor a folder of replays was named", hint="PATH, or --replays"
        )
    wishes = PlanWishes(
        replays=(target.parent / "replays" if replays is None else replays).resolve(),
        top=top,
        selection=parse_passes(passes, iterations_count=iterations_count, warmups_count=warmups_count),
        allows_unproven=allows_unproven,
        version=parse_compute_version_option(compute_version),
        architecture=architecture,
        start_up_s=start_up_s,
    )
    made = _make(paths, source, order, components, wishes)
    _write(made.plan, target)
    _show_plan(made.plan, target)
    emit_findings(made.findings)
    return exit_code_of(made.findings)


def _make(paths: tuple[str, ...], source: str | None, order: str, components: str, wishes: PlanWishes) -> MadePlan:
    from dataclasses import replace

    from rocktools.batch.pick import Order
    from rocktools.batch.planning import plan_bundles, plan_job
    from rocktools.cli.progress import tell_compiled

    if not paths:
        return plan_bundles(wishes)
    candidates = _candidates(paths, source, order, components)
    made = plan_job(candidates, _programs(paths, source), wishes, Order(order), tell_compiled)
    sources = tuple(Path(path).resolve() for path in paths)
    programs = () if source is None else (Path(source).resolve(),)
    return replace(made, plan=replace(made.plan, sources=sources, programs=programs))


def _candidates(paths: tuple[str, ...], source: str | None, order: str, components: str) -> Candidates:
    from rocktools.batch.pick import find_candidates_by_component, find_candidates_by_time

    hlo = () if source is None else (source,)
    if order == "time":
        return find_candidates_by_time(paths, hlo)
    from rocktools.attribution.component_map_file import read_component_map, read_shipped_map, shipped_maps
    from rocktools.workspace.attributed import AttributionOptions

    is_shipped = components in shipped_maps() or not Path(components).exists()
    component_map = read_shipped_map(components) if is_shipped else read_component_map(Path(components))
    return find_candidates_by_component(paths, AttributionOptions(component_map=component_map, hlo=hlo))


def _programs(paths: tuple[str, ...], source: str | None) -> list[FoundProgram]:
    from rocktools.workspace.programs import find_programs

    places = paths if source is None else (source,)
    return [program for place in places for program in find_programs(place).programs]


def parse_compute_version_option(text: str) -> ComputeVersion:
    """`3.10` as a version.

    Raises:
        UsageError: it is none.
    """
    from rocktools.capture.compute_versions import ComputeVersion

    numbers = text.split(".")
    if not 2 <= len(numbers) <= 3 or not all(number.isdecimal() for number in numbers):
        raise UsageError("bad-version", f"{text!r} is no version of rocprof-compute", hint="3.10")
    return ComputeVersion(*(int(number) for number in numbers))


def _write(made: BatchPlan, target: Path) -> None:
    from rocktools.batch.document import render_plan

    with new_file(target) as partial:
        partial.write_text(render_plan(made, target), encoding="utf-8")


def _show_plan(made: BatchPlan, target: Path) -> None:
    from rocktools.batch.tables import BATCH_PLAN, PLAN_EVIDENCE, build_plan_rows
    from rocktools.render.table import table_from_spec

    frame = build_plan_rows(made)
    frame = frame.drop(columns=[name for name in frame.columns if len(frame) and frame[name].isna().all()])
    refused = f", {len(made.refused)} refused" if made.refused else ""
    table = table_from_spec(
        frame,
        BATCH_PLAN,
        evidence={name: PLAN_EVIDENCE[name] for name in frame.columns},
        title=f"plan: {count_noun(len(made.kernels), 'kernel')}{refused}",
        is_simulated=made.is_simulated,
        notes=(f"{made.estimate.cost_text}, inferred: {made.estimate.assumptions[0]}",) if made.kernels else (),
        optional_columns=_OPTIONAL_OF_PLAN,
    )
    emit_table(table, TableOutput())
    quoted = shlex.quote(str(target))
    if made.kernels:
        click.echo(f"wrote {target}; next: rocktools batch run {quoted} -o DIR --dry-run", err=True)
    else:
        click.echo(f"wrote {target}; no kernel can be profiled: the reasons are in it", err=True)
