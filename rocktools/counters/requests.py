"""What a user types after `--counters` and `--metrics`, turned into names of the catalogue."""

from __future__ import annotations

import re
from collections.abc import Iterable

from rocktools.counters.catalog import Catalog
from rocktools.errors import UsageError

_BETWEEN = re.compile(r"[,\s]+")


def parse_request(catalog: Catalog, *, counters: Iterable[str], metrics: Iterable[str] = ()) -> tuple[str, ...]:
    """The counters that the two options ask for.

    Args:
        counters: values of `--counters`, as `parse_counters` takes them.
        metrics: values of `--metrics`.

    Raises:
        UsageError: metrics are asked for (there are no formulas yet), nothing is asked for, or a name is unknown.
    """
    metric_names = [name for text in metrics for name in _BETWEEN.split(text) if name]
    if metric_names:
        raise UsageError(
            "metrics-not-yet",
            f"--metrics {','.join(metric_names)}: this version has no formulas to tell which counters that takes",
            hint=f"name the counters: --counters A,B; rocktools counters list --arch {catalog.architecture} shows them",
        )
    return parse_counters(catalog, counters)


def parse_counters(catalog: Catalog, texts: Iterable[str]) -> tuple[str, ...]:
    """Names from texts such as `A,B` and `C D`, each once, in the order of their first mention.

    Raises:
        UsageError: no name at all, or names that the architecture does not have: all of them are listed.
    """
    names = list(dict.fromkeys(name for text in texts for name in _BETWEEN.split(text) if name))
    if not names:
        raise UsageError(
            "no-counters",
            "no counter is named",
            hint=f"--counters A,B; rocktools counters list --arch {catalog.architecture} shows them",
        )
    refusals = {}
    for name in names:
        try:
            catalog.require(name)
        except UsageError as refusal:
            refusals[name] = refusal
    if len(refusals) == 1:
        raise refusals.popitem()[1]
    if refusals:
        first = next(iter(refusals.values()))
        hints = [f"for {name}: {refusal.hint}" for name, refusal in refusals.items()]
        raise UsageError(
            first.reference, "; ".join(refusal.what for refusal in refusals.values()), hint="; ".join(hints)
        )
    return tuple(names)
