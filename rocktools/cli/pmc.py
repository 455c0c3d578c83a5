"""`rocktools pmc`: counter passes of a job, packed, checked, verified and comparable."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from rocktools.cli.capture_options import capture_options, finish_capture
from rocktools.errors import UsageError

if TYPE_CHECKING:
    from rocktools.capture.kernel_filter import KernelFilter
    from rocktools.capture.session import SessionOptions


@click.command("pmc")
@click.option("--kernel", "names", metavar="NAME", multiple=True, help="Count this kernel, by its whole clean name.")
@click.option("--kernel-prefix", "prefix", metavar="P", help="Count kernels that begin with P (an HLO kernel prefix).")
@click.option("--regex", metavar="RE", help="Count kernels that match, in the syntax that every rocprofv3 understands.")
@click.option(
    "--exclude",
    metavar="RE",
    help="Leave kernels out that match, beside collectives, which would hang; '' leaves nothing out.",
)
@click.option(
    "--iterations", metavar="RANGES", help="Which executions of each kernel: 3, 10-12 or 1-4,9.  [default: all]"
)
@click.option("--counters", metavar="A,B,...", multiple=True, help="Counters, packed into as few passes as fit.")
@click.option(
    "--metrics",
    metavar="M,...",
    multiple=True,
    help="Quantities whose counters are collected too, in one pass where their formulas need that; "
    "`rocktools counters show` lists them.",
)
@click.option("--label", default="counters", show_default=True, help="The passes are called LABEL_1, LABEL_2, ...")
@click.option("--arch", metavar="gfxNNN", help="Architecture to pack for.  [default: that of this machine's GPUs]")
@click.option(
    "--device",
    metavar="N",
    type=click.IntRange(min=0),
    default=0,
    show_default=True,
    help="GPU to confirm the groups on.",
)
@click.option("--selected-regions", is_flag=True, help="Count only between resume and pause calls of the job itself.")
@click.option(
    "--passes-in-process",
    is_flag=True,
    help="Replay each kernel in the process, once for each group (SDK 1.4.1; single-process replay scripts only).",
)
@capture_options
@click.argument("application", metavar="-- CMD...", nargs=-1, type=click.UNPROCESSED)
def command(
    names: tuple[str, ...],
    prefix: str | None,
    regex: str | None,
    exclude: str | None,
    iterations: str | None,
    counters: tuple[str, ...],
    metrics: tuple[str, ...],
    label: str,
    arch: str | None,
    device: int,
    selected_regions: bool,
    passes_in_process: bool,
    session_options: SessionOptions,
    dry_run: bool,
    application: tuple[str, ...],
) -> int:
    """Count hardware events of chosen kernels: one run of the job for each group of counters that fits together.

    Groups are packed from the capacities of the blocks and confirmed by rocprofv3-avail where it is there. Afterwards
    every counter must have a value for every execution, and all passes must have counted the same executions. Times of
    these runs are never used: kernels are serialised.

    \b
        rocktools pmc --kernel loop_fusion_3 --iterations 10-10 --counters SQ_WAVES,TCC_HIT_sum -- python replay.py
        rocktools pmc --kernel loop_fusion_3 --metrics fabric_bytes,total_flop,occupancy -- python replay.py
    """
    from rocktools.capture.counting import CountingRequest, plan_counting
    from rocktools.capture.iterations import parse_iterations

    request = CountingRequest(
        application=application,
        kernels=_kernel_filter(names, prefix, regex, exclude),
        names=names,
        iterations=None if iterations is None else parse_iterations(iterations),
        counters=counters,
        metrics=metrics,
        label=label,
        architecture=arch,
        device=device,
        selects_regions=selected_regions,
        replays_kernels=passes_in_process,
    )
    planned = plan_counting(session_options, request)
    return finish_capture(planned.session, planned.plan, dry_run=dry_run, findings=planned.findings)


def _kernel_filter(names: tuple[str, ...], prefix: str | None, regex: str | None, exclude: str | None) -> KernelFilter:
    """The one way in which kernels were chosen.

    Raises:
        UsageError: none or several ways, or the filter itself is not sound.
    """
    from rocktools.capture.kernel_filter import exclusion, filter_names, filter_prefix, filter_regex

    chosen = [
        option for option, value in (("--kernel", names), ("--kernel-prefix", prefix), ("--regex", regex)) if value
    ]
    if len(chosen) != 1:
        what = f"{' and '.join(chosen)} exclude each other" if chosen else "no kernel is chosen"
        raise UsageError("which-kernels", what, hint="one of --kernel NAME, --kernel-prefix P and --regex RE")
    left_out = exclusion(exclude)
    if names:
        return filter_names(names, exclude=left_out)
    if prefix is not None:
        return filter_prefix(prefix, exclude=left_out)
    return filter_regex(regex or "", exclude=left_out)
