"""Links of one device -> doubts: programs that do not fit, clocks that disagree, dispatches out of order.

Probabilities only know errors by chance. Whatever is wrong everywhere, such as the dump of another build, needs a test
of its own.
"""

from __future__ import annotations

import numpy as np

from rocktools.correlate.communication_windows import TOLERANCES_NS, SideLinks
from rocktools.correlate.lane_links import LIKELY, LaneLinks
from rocktools.findings import Finding, Severity

_LEAST_FOLLOWING = 0.5


def find_misfits(links: LaneLinks) -> dict[int, float]:
    """Programs whose links do not follow one another -> the share of them that does.

    A program that ran is found in long stretches, however much else ran between them; kernels that another program
    happens to share are found alone. A program that was not found at all did not run, unless it is the only one.
    """
    graph = links.graph
    linked = np.flatnonzero((links.label >= LIKELY) & (links.site >= 0))
    program = graph.program_of[links.site[linked]]
    misfits: dict[int, float] = {}
    for number in range(len(graph.program_ids)):
        lone = links.is_lone[linked[program == number]]
        if lone.size and lone.mean() > 1 - _LEAST_FOLLOWING:
            misfits[number] = float(1 - lone.mean())
        if not lone.size and len(graph.program_ids) == 1:
            misfits[number] = 0.0
    return misfits


def describe_misfit(links: LaneLinks, program: int, following: float, where: str) -> Finding:
    """The finding about a program that does not fit."""
    is_linked = (links.label >= LIKELY) & (links.site >= 0)
    placed_count = int((links.graph.program_of[links.site[is_linked]] == program).sum())
    name, count = links.graph.program_ids[program], links.site.size
    return Finding(
        rule="program-does-not-fit",
        severity=Severity.FAULT,
        where=where,
        message=(
            f"{placed_count:,} of {count:,} dispatches could be placed in {name}, and {100 * following:.0f} % of those "
            "follow one another as it launches them: the dump is of another program, or of another build"
        ),
        numbers={"following_ratio": following, "placed_count": placed_count, "dispatches_count": count},
        advice="use the dump that was written by the run that was traced; nothing of this device is linked by this one",
    )


def check_side_streams(side: SideLinks, where: str) -> list[Finding]:
    """Whether the collectives on streams of their own fit the times of the main streams."""
    numbers = {"missed_ratio": side.missed_ratio, "tolerance_ns": side.tolerance_ns}
    advice = "the times of the queues do not agree; trace with another version of the tool, or rely on the main stream"
    if not side.is_trusted:
        return [
            Finding(
                rule="collectives-fit-nowhere",
                severity=Severity.WARNING,
                where=where,
                message=(
                    f"{100 * side.missed_ratio:.0f} % of the collectives on streams of their own ran when none of the "
                    "program can have run: none of them is linked"
                ),
                numbers=numbers,
                advice=advice,
            )
        ]
    if side.tolerance_ns == TOLERANCES_NS[0]:
        return []
    return [
        Finding(
            rule="queue-clocks-disagree",
            severity=Severity.WARNING,
            where=where,
            message=(
                f"main and communication streams disagree in time by up to {side.tolerance_ns / 1000:.0f} us: "
                "collectives are likely at best"
            ),
            numbers=numbers,
            advice=advice,
        )
    ]


def check_order(links: LaneLinks, where: str) -> list[Finding]:
    """Whether neighbours had to be exchanged."""
    if not links.exchanged_count:
        return []
    return [
        Finding(
            rule="dispatches-out-of-order",
            severity=Severity.NOTE,
            where=where,
            message=(
                f"{links.exchanged_count:,} pairs of neighbours among {links.site.size:,} dispatches stand in another "
                "order than the program launches them, and were exchanged"
            ),
            numbers={"exchanged_count": links.exchanged_count, "dispatches_count": links.site.size},
        )
    ]
