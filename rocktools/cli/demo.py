"""`rocktools demo`: a simulated run to try everything on."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path

import click


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
@click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True, help="The same seed, the same rows.")
def command(run: Path, seed: int) -> int:
    """Make a simulated run directory to try every command on.

    Two ranks with kernel dispatches, host calls, copies and roctx steps, each on a made-up MI355X of its own, and a
    counter pass. No hardware is involved, and everything in it says so.
    """
    from datetime import datetime, timezone

    from rocktools.demo.simulate_run import write_simulated_run
    from rocktools.units import format_count

    totals = write_simulated_run(
        run,
        argv=tuple(sys.argv),
        created_utc=datetime.now(timezone.utc).isoformat(timespec="seconds"),
        seed=seed,
    )
    dispatches = format_count(sum(total.dispatches_count for total in totals))
    click.echo(f"{run}: simulated run of {len(totals)} processes, {dispatches} dispatches, 1 counter pass")
    quoted = shlex.quote(str(run))
    click.echo(f"  next: rocktools info {quoted}; rocktools kernels {quoted}; rocktools dispatches {quoted}")
    return 0
