"""Formulas over a table of counter values -> QUANTITIES, each with its evidence or the reason why there is none.

Per dispatch a formula takes each counter from the first pass that read it, and counters that belong together from the
first pass that read all of them. Per kernel it takes the mean of each counter over the same dispatches, so that a ratio
is sum over sum and bytes are bytes of a mean dispatch. If no dispatch has all counters (a tool that counts something
else on each launch), each counter's mean comes from the dispatches that have it, and the value carries that doubt.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any

import numpy as np
import pandas as pd

from rocktools.counters.bounds import check_quantities
from rocktools.counters.counter_table import EXECUTION, KERNEL, CounterTable
from rocktools.counters.expression import Name, evaluate_expression
from rocktools.counters.formulas import FACTS, Formula, Formulas
from rocktools.counters.resolve import Resolved, Resolver
from rocktools.evidence import Absence, Evidence, weakest
from rocktools.findings import Finding, Severity
from rocktools.frames import QUANTITIES, require_frame
from rocktools.units import count_noun

_SHOWN = 3
_CLOCK = "implied_clock_ratio"
_ELAPSED = "GRBM_GUI_ACTIVE"


class Level(str, Enum):
    """What a row of QUANTITIES is about."""

    KERNEL = "kernel"
    DISPATCH = "dispatch"

    def __str__(self) -> str:
        return self.value


class PassRule(str, Enum):
    """What happens to counters that belong together and come from different passes."""

    STRICT = "strict"  # no value, where the formula says so
    MIXED = "mixed"  # a value, with a doubt

    def __str__(self) -> str:
        return self.value


class Doubt(str, Enum):
    """What weakens a value."""

    DIFFERENT_PASSES = "different_passes"  # counters that belong together are of different passes
    DIFFERENT_DISPATCHES = "different_dispatches"  # no dispatch has all counters
    IMPOSSIBLE_CLOCK = "impossible_clock"  # the elapsed cycles cannot be those of the kernel

    def __str__(self) -> str:
        return self.value


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Evaluated:
    """What formulas gave.

    Attributes:
        frame: QUANTITIES.
        findings: doubts about values, and values that are impossible.
    """

    frame: pd.DataFrame
    findings: tuple[Finding, ...]


def evaluate(
    table: CounterTable,
    formulas: Mapping[str, Formulas],
    *,
    level: Level = Level.KERNEL,
    pass_rule: PassRule = PassRule.STRICT,
    quantities: Collection[str] | None = None,
) -> Evaluated:
    """Every quantity of every execution or kernel.

    Args:
        formulas: by architecture, of those that are known.
        quantities: only these; None: all.

    Raises:
        UsageError: no architecture has a quantity of that name.
    """
    for name in quantities or ():
        _require_quantity(name, formulas)
    pieces: list[Mapping[str, np.ndarray]] = []
    findings: list[Finding] = []
    for architecture in sorted(set(table.architectures.tolist())):
        rows = np.flatnonzero(table.architectures == architecture)
        if architecture not in formulas:
            is_all = len(rows) == len(table)
            findings.append(_not_covered(architecture, len(rows), formulas, is_all=is_all))
            continue
        part = _Evaluation(table.take(rows), formulas[architecture], level, pass_rule)
        wanted = [name for name in part.formulas.titles if quantities is None or name in quantities]
        pieces += [part.columns(name) for name in wanted]
        findings += part.findings()
    frame = _assemble(pieces)
    return Evaluated(frame=frame, findings=(*findings, *check_quantities(frame, formulas)))


def _require_quantity(name: str, formulas: Mapping[str, Formulas]) -> None:
    known = [each for each in formulas.values() if name in each.titles]
    if formulas and not known:
        next(iter(formulas.values())).require(name)


def _not_covered(architecture: str, rows_count: int, formulas: Mapping[str, Formulas], *, is_all: bool) -> Finding:
    what = f"of {architecture}" if architecture else "of devices whose architecture was not recorded"
    return Finding(
        rule="architecture-not-covered",
        severity=Severity.FAULT if is_all else Severity.WARNING,
        where=architecture or "AGENTS",
        message=f"{count_noun(rows_count, 'execution')} {what} left out: no formulas are known for it",
        numbers={"executions_count": rows_count},
        advice=f"known are {', '.join(formulas)}" + ("" if architecture else "; --arch tells it"),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Group:
    """The rows of the result: for each execution the number of its row, and how many rows there are."""

    codes: np.ndarray
    count: int

    def sums(self, values: np.ndarray, mask: np.ndarray) -> np.ndarray:
        return np.bincount(self.codes, weights=np.where(mask, values, 0.0), minlength=self.count)

    def counts(self, mask: np.ndarray) -> np.ndarray:
        return np.bincount(self.codes[mask], minlength=self.count)

    def means(self, values: np.ndarray, mask: np.ndarray) -> np.ndarray:
        """NaN where no execution counts."""
        counts = self.counts(mask)
        return np.where(counts > 0, self.sums(values, mask) / np.maximum(counts, 1), np.nan)

    def extremes(self, values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Smallest and largest value that is not missing; NaN where all are."""
        least, most = np.full(self.count, np.inf), np.full(self.count, -np.inf)
        known = ~np.isnan(values)
        np.minimum.at(least, self.codes[known], values[known])
        np.maximum.at(most, self.codes[known], values[known])
        return np.where(np.isfinite(least), least, np.nan), np.where(np.isfinite(most), most, np.nan)

    def any(self, mask: np.ndarray) -> np.ndarray:
        return self.counts(mask) > 0


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Computed:
    """Values of one formula; arrays with one entry for each row of the result.

    Attributes:
        counts: executions behind each.
        is_bound: whether every name had a value.
    """

    values: np.ndarray
    doubts: np.ndarray
    counts: np.ndarray
    is_bound: np.ndarray


class _Evaluation:
    """The formulas of one architecture over its executions."""

    def __init__(self, table: CounterTable, formulas: Formulas, level: Level, pass_rule: PassRule) -> None:
        self.formulas = formulas
        self._resolver = Resolver(table, formulas, allows_mixing=pass_rule is PassRule.MIXED)
        self._table = table
        keys = list(EXECUTION if level is Level.DISPATCH else KERNEL)
        codes = table.executions.groupby(keys, sort=True).ngroup().to_numpy()
        self._group = _Group(codes=codes, count=int(codes.max()) + 1 if len(codes) else 0)
        self._rows = table.executions.drop_duplicates(keys).sort_values(keys, kind="stable", ignore_index=True)
        if level is Level.KERNEL:
            self._rows = self._rows.assign(ordinal=pd.array([pd.NA] * len(self._rows), dtype="Int64"))
        self._doubtful: dict[str, list[str]] = {}
        self._has_impossible_clock = np.zeros(self._group.count, dtype=np.bool_)
        self._has_impossible_clock = self._find_impossible_clocks()

    def columns(self, quantity: str) -> Mapping[str, np.ndarray]:
        """The columns of QUANTITIES of one quantity."""
        formula = self.formulas.by_quantity.get(quantity)
        if formula is None:
            absence = np.full(self._group.count, Absence.NOT_ON_ARCH.value, dtype=object)
            return self._complete(quantity, {"absence": absence, "formula_id": quantity})
        found = self._resolver.resolve(formula)
        computed = self._compute(formula, found)
        values, doubts = computed.values, computed.doubts
        is_there = ~np.isnan(values)
        for doubt in set(doubts[is_there]) - {""}:
            self._doubtful.setdefault(doubt, []).append(quantity)
        absence, lacking = self._absences(found, is_there, computed.is_bound)
        own = np.broadcast_to(evaluate_expression(formula.expression, found.values), (len(self._table),))
        least, most = self._group.extremes(np.where(found.is_usable, own, np.nan))
        return self._complete(
            quantity,
            {
                "value": values,
                "evidence": _evidences(formula, doubts, is_there, self._group.any(self._table.has_declared_facts)),
                "formula_id": formula.formula_id,
                "absence": absence,
                "lacking": lacking,
                "doubts": _or_none(doubts, is_there & (doubts != "")),
                "dispatches_count": np.where(is_there, computed.counts, 0),
                "min_value": least,
                "max_value": most,
                "pass_spread_ratio": self._pass_spread(found),
            },
        )

    def _compute(self, formula: Formula, found: Resolved) -> _Computed:
        """The formula over the means of its counters: of sound executions, else usable ones, else over all of them."""
        has_sound, has_usable = self._group.any(found.is_sound), self._group.any(found.is_usable)
        is_used = np.where(has_sound[self._group.codes], found.is_sound, found.is_usable)
        split = self._split_means(found)
        is_split = ~has_usable & np.logical_and.reduce([~np.isnan(means) for means in split.values()])
        bindings = {
            name: np.where(is_split, split[name], self._group.means(found.values[name], is_used)) for name in split
        }
        names = self._resolver.reduced_names(formula)
        bindings |= {name: bindings[reduced] for name, reduced in names.items()}
        doubts = np.full(self._group.count, "", dtype=object)
        if not formula.is_diagnostic and any(name.name == _ELAPSED for name in split):
            doubts[self._has_impossible_clock] = Doubt.IMPOSSIBLE_CLOCK.value
        doubts[~has_sound & has_usable] = Doubt.DIFFERENT_PASSES.value
        doubts[is_split] = Doubt.DIFFERENT_DISPATCHES.value
        return _Computed(
            values=np.broadcast_to(evaluate_expression(formula.expression, bindings), (self._group.count,)),
            doubts=doubts,
            counts=np.where(is_split, self._split_counts(found), self._group.counts(is_used)),
            is_bound=has_usable | is_split,
        )

    def _find_impossible_clocks(self) -> np.ndarray:
        """Rows whose elapsed cycles imply a clock that the device cannot have, and so are not those of the kernel."""
        formula = self.formulas.by_quantity.get(_CLOCK)
        if formula is None or formula.most is None:
            return self._has_impossible_clock
        ratios = self._compute(formula, self._resolver.resolve(formula)).values
        is_impossible: np.ndarray = np.nan_to_num(ratios) > formula.most
        return is_impossible

    def _split_means(self, found: Resolved) -> Mapping[Name, np.ndarray]:
        """Mean of each name over the executions that have it, or, of what belongs together, that have all of it."""
        means: dict[Name, np.ndarray] = {}
        for unit in found.units:
            is_joint = unit.is_joint & ~found.is_dead
            has_joint = self._group.any(is_joint)
            for name in unit.names:
                single = found.singles[name]
                joint_mean = self._group.means(unit.joint[name], is_joint)
                single_mean = self._group.means(single.values, single.is_there & ~found.is_dead)
                means[name] = np.where(has_joint, joint_mean, single_mean if unit.may_mix else np.nan)
        return means

    def _split_counts(self, found: Resolved) -> np.ndarray:
        """Executions that gave at least one counter."""
        is_any = np.zeros(len(self._table), dtype=np.bool_)
        for name, single in found.singles.items():
            is_any |= single.is_there & (name.name not in FACTS)
        return self._group.counts(is_any)

    def _pass_spread(self, found: Resolved) -> np.ndarray:
        spread = np.full(len(self._table), np.nan)
        for single in found.singles.values():
            spread = np.fmax(spread, single.pass_spread)
        return self._group.extremes(spread)[1]

    def _absences(self, found: Resolved, is_there: np.ndarray, is_bound: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Why rows have no value, and what they lack for it."""
        names = list(found.singles)
        have = np.array([self._group.any(found.singles[name].is_there) for name in names])
        overcounted = np.array([self._group.any(found.singles[name].is_overcounted) for name in names]) & ~have
        requested = np.array([self._is_requested(name) for name in names])
        is_dead = self._group.any(found.is_dead)
        apart = [str(name.name) for unit in found.units if not unit.may_mix for name in unit.names]
        absence = np.full(self._group.count, None, dtype=object)
        lacking = np.full(self._group.count, None, dtype=object)
        # Most rows lack the same things, so that each combination is put into words once.
        states = np.vstack([have, overcounted, is_bound[None], is_dead[None], is_there[None]])
        _, examples, inverse = np.unique(states, axis=1, return_index=True, return_inverse=True)
        for number, row in enumerate(examples.tolist()):
            if is_there[row]:
                continue
            missing = [_label(name) for name, has in zip(names, have[:, row], strict=True) if not has]
            if overcounted[:, row].any():
                over = overcounted[:, row]
                reason = Absence.REPLAY_OVERCOUNT, [name.name for name, is_it in zip(names, over, strict=True) if is_it]
            elif missing:
                is_asked = bool((requested & ~have[:, row]).any())
                reason = Absence.COUNTER_MISSING if is_asked else Absence.NOT_COLLECTED, missing
            elif is_bound[row]:
                reason = Absence.UNDEFINED, []
            elif is_dead[row]:
                reason = Absence.IMPOSSIBLE_ZERO, list(found.gates)
            else:
                reason = Absence.DIFFERENT_PASS, apart
            same = inverse.reshape(-1) == number
            absence[same], lacking[same] = reason[0].value, ", ".join(reason[1]) or None
        return absence, lacking

    def _is_requested(self, name: Name) -> bool:
        """Whether it was asked for. A source that gives only sums lacks the rest of all counters."""
        return name.reduction == "sum" and not self._table.requested.isdisjoint({name.name, f"{name.name}_sum"})

    def _complete(self, quantity: str, columns: Mapping[str, object]) -> Mapping[str, np.ndarray]:
        """All columns; those that are not given are missing."""
        numbers = dict.fromkeys(("value", "min_value", "max_value", "pass_spread_ratio"), np.nan)
        texts = dict.fromkeys(("evidence", "absence", "lacking", "doubts"))
        constants = {"quantity": quantity, "unit": self.formulas.units[quantity], "dispatches_count": 0}
        whole: dict[str, Any] = {**numbers, **texts, **constants, **columns}
        rows = {name: self._rows[name].to_numpy(dtype=object) for name in self._rows.columns}
        return {**rows, **{name: np.broadcast_to(whole[name], (self._group.count,)) for name in whole}}

    def findings(self) -> list[Finding]:
        """Doubts about values, blocks that were not counted, and counters that mislead on this architecture."""
        where = self.formulas.architecture
        found = [_mixed(Doubt(doubt), quantities, where) for doubt, quantities in sorted(self._doubtful.items())]
        for block, (gates, is_dead) in sorted(self._resolver.dead_blocks.items()):
            found.append(_not_counted(block, gates, int(is_dead.sum()), where))
        for meaning in self.formulas.meanings.values():
            if Name(meaning.name, "sum") in self._table.readings:
                found += [
                    Finding(
                        rule="counter-misleads",
                        severity=Severity.NOTE,
                        where=where,
                        message=f"{meaning.name} was collected: {trap.text}",
                        advice="rocktools does not use it there",
                    )
                    for trap in meaning.traps
                    if where in trap.architectures
                ]
        return found


def _label(name: Name) -> str:
    return name.name if name.reduction in ("", "sum") else f"{name.reduction}({name.name})"


def _or_none(texts: np.ndarray, is_kept: np.ndarray) -> np.ndarray:
    kept = np.full(len(texts), None, dtype=object)
    kept[is_kept] = texts[is_kept]
    return kept


def _evidences(
    formula: Formula, doubts: np.ndarray, is_there: np.ndarray, has_declared_facts: np.ndarray
) -> np.ndarray:
    evidence = np.full(len(doubts), formula.evidence.value, dtype=object)
    if formula.facts:
        evidence[has_declared_facts] = weakest(formula.evidence, Evidence.DECLARED).value
    evidence[doubts != ""] = Evidence.INFERRED.value
    evidence[~is_there] = None
    return evidence


# Doubt -> rule, what the quantities are, advice.
_MIXED = {
    Doubt.DIFFERENT_PASSES: (
        "different-passes",
        "computed from counters of different passes that belong into one",
        "rocktools counters pack puts counters that belong together into one pass",
    ),
    Doubt.DIFFERENT_DISPATCHES: (
        "different-dispatches",
        "computed from counters of different dispatches, since none has all of them",
        "sound only if all launches of the kernel do the same work",
    ),
    Doubt.IMPOSSIBLE_CLOCK: (
        "impossible-clock",
        "computed from elapsed cycles that imply a clock above the highest",
        "the kernel is too short for them: packets of the profiler are counted too",
    ),
}


def _mixed(doubt: Doubt, quantities: Sequence[str], where: str) -> Finding:
    rule, what, advice = _MIXED[doubt]
    shown = ", ".join(quantities[:_SHOWN]) + (", ..." if len(quantities) > _SHOWN else "")
    count = f"{len(quantities)} {'quantity is' if len(quantities) == 1 else 'quantities are'}"
    return Finding(
        rule=rule,
        severity=Severity.WARNING,
        where=where,
        message=f"{count} {what}: {shown}",
        numbers={"quantities_count": len(quantities)},
        advice=advice,
    )


def _not_counted(block: str, gates: Sequence[str], count: int, where: str) -> Finding:
    return Finding(
        rule="block-not-counted",
        severity=Severity.FAULT,
        where=where,
        message=f"{', '.join(gates)} is 0 in {count_noun(count, 'execution')}, which no kernel leaves at 0: the block "
        f"{block} was not counted, and nothing of it is shown",
        numbers={"executions_count": count},
        advice="collect again; other tools show these zeros as measured",
    )


def _assemble(pieces: Sequence[Mapping[str, np.ndarray]]) -> pd.DataFrame:
    """QUANTITIES from the columns of single quantities."""
    if not pieces:
        return QUANTITIES.empty()
    joined = {name: np.concatenate([piece[name] for piece in pieces]) for name in QUANTITIES.names}
    frame = pd.DataFrame(joined).sort_values(list(QUANTITIES.sort), kind="stable", ignore_index=True)
    return require_frame(frame.astype({column.name: column.dtype for column in QUANTITIES.columns}), QUANTITIES)
