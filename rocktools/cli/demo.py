"""`rocktools demo`: a simulated run to try everything on."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path

import click

FAULTS = (
    "exposed-collective",
    "straggler",
    "input-starvation",
    "recompile",
    "formatting-tax",
    "warm-up-capture",
    "late-rank",
)
VARIANTS = {
    "base": "short",
    "small-batch": "small_batch",
    "wide-experts": "wide_experts",
    "split-attention": "split_attention",
    "full": "full",
}


@click.command("demo")
@click.option(
    "-o",
    "--output",
    "run",
    metavar="DIR",
    required=True,
    type=click.Path(path_type=Path),
    help="The run directory to make; a folder that holds anything is refused.",
)
@click.option(
    "--seed",
    metavar="N",
    type=click.IntRange(min=0),
    default=0,
    show_default=True,
    help="The same seed, the same rows.",
)
@click.option(
    "--ranks",
    metavar="N",
    type=click.IntRange(1, 8),
    default=8,
    show_default=True,
    help="Ranks of the job's eight to record.",
)
@click.option(
    "--steps", metavar="N", type=click.IntRange(1, 1000), default=5, show_default=True, help="Steps to record."
)
@click.option(
    "--fault", "faults", multiple=True, type=click.Choice(FAULTS), help="What goes wrong; may be given several times."
)
@click.option(
    "--variant",
    type=click.Choice(list(VARIANTS)),
    default="base",
    show_default=True,
    help="Another program: half the sequences, more work in the experts, more launches in attention, or all 56 layers.",
)
@click.option(
    "--slow",
    "slow",
    multiple=True,
    metavar="COMPONENT=PERCENT",
    help="Kernels of a component take longer, for the same work: wi_0=8%.",
)
def command(
    run: Path, seed: int, ranks: int, steps: int, faults: tuple[str, ...], variant: str, slow: tuple[str, ...]
) -> int:
    """Make a simulated run directory to try every command on.

    It holds what a job on a node of eight MI355X would leave: a trace of each rank, the compiled program, counter
    passes of rank 0, the job's log, and beside them the truth about it all. The program is real: a training step of a
    decoder in the sizes of Mixtral-8x22B (4 of its 56 layers; all of them with --variant full), compiled for gfx950.
    Everything else is calculated from the program and the peaks of the device, and says that it is simulated.

    A fault changes the trace as a real one would; truth/job.json says which there are, and what they cost.
    """
    from datetime import datetime, timezone

    from rocktools.cli.progress import tell_files_done
    from rocktools.demo.job_run import write_demo_run
    from rocktools.demo.job_scenario import Fault, JobScenario, parse_slowdown
    from rocktools.demo.packed_programs import ProgramName
    from rocktools.units import count_noun, format_count, format_si

    scenario = JobScenario(
        seed=seed,
        program=ProgramName(VARIANTS[variant]),
        ranks_count=ranks,
        steps_count=steps,
        faults=frozenset(Fault(name) for name in faults),
        slowdowns=tuple(parse_slowdown(text) for text in slow),
    )
    totals = write_demo_run(
        run,
        scenario,
        argv=tuple(sys.argv),
        created_utc=datetime.now(timezone.utc).isoformat(timespec="seconds"),
        on_progress=tell_files_done,
    )
    click.echo(
        f"{run}: simulated run of {count_noun(totals.ranks_count, 'rank')}, {count_noun(totals.steps_count, 'step')}, "
        f"{format_count(totals.dispatches_count)} dispatches, "
        f"{count_noun(totals.counter_passes_count, 'counter pass')}, {format_si(totals.size_bytes, 'B')}"
    )
    if totals.injected:
        click.echo(f"  injected: {', '.join(totals.injected)}")
    quoted = shlex.quote(str(run))
    click.echo(f"  next: rocktools info {quoted}; rocktools ledger {quoted}; rocktools overlap {quoted}")
    return 0
