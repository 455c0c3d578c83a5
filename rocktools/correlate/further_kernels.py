"""Kernels that no site is known for -> substitutes and further kernels, by the places where they keep standing.

A name that keeps standing where the kernel of one site is missing is a substitute: a kernel that was tuned or renamed
after the dump. A name that keeps standing behind one site, or before it, is a further kernel of that site: a reduction
behind a split matrix product, a memset before it, the passes of a sort. Strangers stand anywhere, and win no place.

Both rest on habit alone, and so are never certain. A stranger that appears at one place of every step cannot be told
from a further kernel.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from rocktools.correlate.arrays import BoolArray, IntArray
from rocktools.correlate.kernel_families import NAMED_AFTER_INSTRUCTIONS, KernelFamily
from rocktools.correlate.kernel_meanings import may_be_part_of
from rocktools.correlate.launch_chain import LaunchChain, passed_ranges
from rocktools.correlate.launch_sites import SiteKind
from rocktools.correlate.schedule_learning import Habits

_LEAST_TIMES = 3.0
_SUBSTITUTE_SHARE = 0.5
_FURTHER_SHARE = 0.6
_LONGEST_PASS = 80
_PLAIN_KINDS = frozenset({SiteKind.GENERATED, SiteKind.FILL})
"""Sites that launch one kernel each; a generated sort aside, which is followed by the passes of a library."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Neighbourhood:
    """Between which placed dispatches a dispatch without a place stands.

    Attributes:
        dispatch: its number.
        symbol: its symbol.
        before, behind: sites of the nearest placed dispatches; `outside` where they are outside, or there are none.
        group: number of the gap; dispatches of one gap share it.
    """

    dispatch: IntArray
    symbol: IntArray
    before: IntArray
    behind: IntArray
    group: IntArray


@dataclass(frozen=True, slots=True, kw_only=True)
class FurtherKernels:
    """Sites that a symbol is a further kernel of.

    Attributes:
        per_execution: (symbol, site) -> how many of them an execution of the site launches, rounded up.
    """

    per_execution: Mapping[tuple[int, int], int]

    def owner_of(self, symbol: int, candidates: Sequence[int]) -> int | None:
        """The only candidate that the symbol is a further kernel of; the first of several."""
        return next((site for site in candidates if (symbol, site) in self.per_execution), None)


def find_neighbourhoods(symbols: IntArray, placed: IntArray, position: IntArray, outside: int) -> Neighbourhood:
    """The neighbours of every dispatch that is not placed.

    Args:
        symbols: of all dispatches, in order.
        placed: numbers of those that are placed, at a site or outside, ascending.
        position: site of each of those, or `outside`.
        outside: number of that state.
    """
    is_free = np.ones(symbols.size, dtype=np.bool_)
    is_free[placed] = False
    free = np.flatnonzero(is_free)
    gap = np.searchsorted(placed, free)
    padded = np.concatenate([[outside], position, [outside]])
    return Neighbourhood(
        dispatch=free, symbol=symbols[free], before=padded[gap], behind=padded[gap + 1], group=gap.astype(np.int64)
    )


def find_substitutes(
    chain: LaunchChain, habits: Habits, around: Neighbourhood, families: Sequence[KernelFamily]
) -> dict[int, list[int]]:
    """Symbol -> sites whose kernel it keeps standing for.

    A library's kernel does not stand for one that XLA generated: it is a further kernel of a site beside the gap.
    """
    graph = chain.graph
    filled: dict[tuple[int, int], float] = defaultdict(float)
    seen: dict[int, float] = defaultdict(float)
    for symbol, before, behind, count in _gaps(around, graph.outside):
        seen[symbol] += count
        missing = [
            site
            for site in sites_between(chain, before, behind)
            if (not graph.is_optional[site] or habits.emission[site] > 0.5)
            and (graph.sites[site].kind is not SiteKind.GENERATED or families[symbol] in NAMED_AFTER_INSTRUCTIONS)
        ]
        for site in missing:
            filled[symbol, site] += count / len(missing)
    in_gaps: dict[int, float] = defaultdict(float)
    for (symbol, _), count in filled.items():
        in_gaps[symbol] += count
    found: dict[int, list[int]] = defaultdict(list)
    for (symbol, site), count in sorted(filled.items()):
        is_usual = in_gaps[symbol] >= _SUBSTITUTE_SHARE * seen[symbol]
        is_missing = habits.passed[site] - habits.emitted[site] > habits.emitted[site]
        if is_usual and is_missing and count >= max(_LEAST_TIMES, _SUBSTITUTE_SHARE * habits.passed[site]):
            found[symbol].append(site)
    return dict(found)


def find_further_kernels(
    chain: LaunchChain, habits: Habits, around: Neighbourhood, families: Sequence[KernelFamily]
) -> FurtherKernels:
    """Symbols that keep standing beside one site.

    Args:
        chain: of the sites.
        habits: how often each site left a dispatch.
        around: the dispatches without a place.
        families: by symbol.
    """
    graph = chain.graph
    behind_of: dict[tuple[int, int], float] = defaultdict(float)
    before_of: dict[tuple[int, int], float] = defaultdict(float)
    for symbol, before, behind, count in _gaps(around, graph.outside):
        behind_of[symbol, before] += count
        before_of[symbol, behind] += count
    found: dict[tuple[int, int], int] = {}
    for votes, is_behind in ((behind_of, True), (before_of, False)):
        for (symbol, site), count in votes.items():
            times = max(habits.emitted[site], 1.0)
            if count < _LEAST_TIMES or count < _FURTHER_SHARE * times:
                continue
            kind = graph.sites[site].kind
            if not may_be_part_of(families[symbol], kind):
                continue
            if not is_behind and kind in _PLAIN_KINDS:
                continue  # nothing runs before a generated kernel on its behalf
            found.setdefault((symbol, site), int(np.ceil(count / times - 0.25)))
    return FurtherKernels(per_execution=found)


def _gaps(around: Neighbourhood, outside: int) -> list[tuple[int, int, int, float]]:
    """Different (symbol, site before, site behind) within programs, and how often each occurs."""
    is_inside = (around.before < outside) & (around.behind < outside)
    rows = np.column_stack([around.symbol, around.before, around.behind])[is_inside]
    distinct, counts = np.unique(rows, axis=0, return_counts=True)
    return [(*row, float(count)) for row, count in zip(distinct.tolist(), counts.tolist(), strict=True)]


def sites_between(chain: LaunchChain, before: int, behind: int) -> list[int]:
    """Sites passed on the way; [] where the way is a jump, or so long that it says nothing."""
    if not chain.is_real[before, behind]:
        return []
    begins, ends = passed_ranges(chain.graph, np.array([before]), np.array([behind]))
    if int((ends - begins).sum()) > _LONGEST_PASS:
        return []
    return [site for begin, end in zip(begins[0], ends[0], strict=True) for site in range(int(begin), int(end))]


def link_further_kernels(
    chain: LaunchChain, further: FurtherKernels, around: Neighbourhood
) -> tuple[IntArray, BoolArray]:
    """For each dispatch without a place: the site it is a further kernel of, -1 for none; and whether it follows it.

    Candidates are the site before it, the sites passed without a dispatch (whose first kernel was lost), and the site
    behind it, those first that launch libraries' kernels; a generated kernel launches one, and has others beside it
    only if nothing else explains them.
    """
    rows = np.column_stack([around.symbol, around.before, around.behind])
    distinct, place = np.unique(rows, axis=0, return_inverse=True)
    found = [_owner(chain, further, *row) for row in distinct.tolist()]
    owner = np.array([site for site, _ in found], dtype=np.int64)
    is_behind = np.array([follows for _, follows in found], dtype=np.bool_)
    return owner[place.reshape(-1)], is_behind[place.reshape(-1)]


def _owner(chain: LaunchChain, further: FurtherKernels, symbol: int, before: int, behind: int) -> tuple[int, bool]:
    outside = chain.graph.outside
    candidates = [before] if before < outside else []
    if before < outside and behind < outside:
        candidates += sites_between(chain, before, behind)
    candidates += [behind] if behind < outside and behind != before else []
    libraries = [site for site in candidates if chain.graph.sites[site].kind not in _PLAIN_KINDS]
    site = further.owner_of(symbol, libraries)
    if site is None:
        site = further.owner_of(symbol, candidates)
    return (-1, True) if site is None else (site, site != behind or site == before)
