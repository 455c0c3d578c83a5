"""What a user types after `--counters` and `--metrics`, turned into counters and what stays together."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from rocktools.counters.catalog import Catalog, CounterKind, RatioGroup
from rocktools.counters.expression import Name
from rocktools.counters.formulas import Formula, Formulas, load_formulas
from rocktools.counters.meanings import PASS_DURATION
from rocktools.errors import UsageError

_BETWEEN = re.compile(r"[,\s]+")


@dataclass(frozen=True, slots=True, kw_only=True)
class CounterRequest:
    """What is to be collected.

    Attributes:
        names: counters, each once: those that were named, then those of quantities.
        groups: what the formulas of the quantities have to read in one pass; what has to be before what should be.
    """

    names: tuple[str, ...]
    groups: tuple[RatioGroup, ...] = ()

    def disjoint_groups(self) -> tuple[RatioGroup, ...]:
        """The groups without those that share a counter with an earlier one: no counter need be read twice for them."""
        kept: list[RatioGroup] = []
        for group in self.groups:
            if not any(set(group.counters) & set(other.counters) for other in kept):
                kept.append(group)
        return tuple(kept)


def parse_request(catalog: Catalog, *, counters: Iterable[str], metrics: Iterable[str] = ()) -> CounterRequest:
    """The counters that the two options ask for.

    Args:
        counters: values of `--counters`, as `parse_counters` takes them.
        metrics: values of `--metrics`: quantities with a formula on the catalogue's architecture.

    Raises:
        UsageError: nothing is asked for, a name is unknown or has no formula on this architecture, or rocprofv3 cannot
            collect what a formula needs.
    """
    typed, quantities = _split(counters), _split(metrics)
    if not quantities:
        return CounterRequest(names=parse_counters(catalog, typed))
    loaded = load_formulas(catalog.architecture)
    formulas = [loaded.require(name) for name in _accepted(quantities, loaded.require)]
    for formula in formulas:
        _require_built_in(catalog, formula)
    named = parse_counters(catalog, typed) if typed else ()
    needed = [_requested(catalog, loaded, name, named) for formula in formulas for name in _hardware(formula)]
    return CounterRequest(names=tuple(dict.fromkeys([*named, *needed])), groups=_groups(formulas))


def require_known_quantities(formulas: Formulas, texts: Iterable[str]) -> None:
    """Every quantity has a formula on some architecture: all that can be said before the GPU is known.

    Raises:
        UsageError: some are unknown; the nearest names are listed.
    """
    _accepted([name for name in _split(texts) if name not in formulas.elsewhere], formulas.require)


def parse_counters(catalog: Catalog, texts: Iterable[str]) -> tuple[str, ...]:
    """Names from texts such as `A,B` and `C D`, each once, in the order of their first mention.

    Raises:
        UsageError: no name at all, or names that the architecture does not have: all of them are listed.
    """
    names = _split(texts)
    if not names:
        raise UsageError(
            "no-counters",
            "no counter is named",
            hint=f"--counters A,B; rocktools counters list --arch {catalog.architecture} shows them",
        )
    return _accepted(names, catalog.require)


def _split(texts: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(name for text in texts for name in _BETWEEN.split(text) if name))


def _accepted(names: Sequence[str], require: Callable[[str], object]) -> tuple[str, ...]:
    """The names, if none is refused; else one refusal for all that are."""
    refusals = {}
    for name in names:
        try:
            require(name)
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


def _hardware(formula: Formula) -> list[Name]:
    """The counters of a formula; the time of the pass comes with every pass."""
    return [name for name in formula.counters if name.name != PASS_DURATION]


def _require_built_in(catalog: Catalog, formula: Formula) -> None:
    for name in _hardware(formula):
        counter = catalog.require(name.name)
        if counter.kind is CounterKind.DEFINED:
            instead = catalog.accumulated_by(counter.base)
            raise UsageError(
                "quantity-not-collected",
                f"{formula.quantity} needs {counter.name}, which rocprofv3 knows only if it is defined",
                hint=f"--counters {','.join(instead)} is what it makes of the same level" if instead else None,
            )


def _requested(catalog: Catalog, formulas: Formulas, name: Name, named: Sequence[str]) -> str:
    """The name to collect: the sum over instances where it exists and will do, which is one value instead of many."""
    if name.name in named:  # its instances are collected, so is their sum
        return name.name
    reduction = name.reduction or formulas.meanings[name.name].reduction
    summed = f"{name.name}_sum"
    return summed if reduction == "sum" and summed in catalog.counters else name.name


def _groups(formulas: Iterable[Formula]) -> tuple[RatioGroup, ...]:
    """What has to be read in one pass, once for each set of counters."""
    found: dict[tuple[str, ...], RatioGroup] = {}
    groups = [(formula, group) for formula in formulas for group in formula.groups]
    for formula, group in sorted(groups, key=lambda each: not each[1].is_required):
        counters = tuple(sorted(group.counters - {PASS_DURATION}))
        if len(counters) > 1:
            found.setdefault(
                counters, RatioGroup(name=formula.quantity, counters=counters, reason=f"formula of {formula.quantity}")
            )
    return tuple(found.values())
