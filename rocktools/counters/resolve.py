"""Which value a formula takes of each counter, of all that the passes read: execution by execution.

Counters that belong together come from the first pass that read all of them; any other counter from the first pass that
read it. A block that was not counted, as a counter shows that no kernel leaves at 0, gives nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from rocktools.counters.counter_table import CounterTable, Reading
from rocktools.counters.expression import Name
from rocktools.counters.formulas import Formula, Formulas
from rocktools.counters.meanings import PASS_DURATION


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Single:
    """A counter by itself, from the first pass that read it; arrays with one entry for each execution."""

    values: np.ndarray
    is_overcounted: np.ndarray
    pass_spread: np.ndarray

    @property
    def is_there(self) -> np.ndarray:
        is_there: np.ndarray = ~np.isnan(self.values)
        return is_there


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Unit:
    """Counters that belong together, or one that belongs to none.

    Attributes:
        joint: values of one pass, NaN where no pass read all of them.
        may_mix: whether values of different passes will do, with a doubt.
    """

    names: tuple[Name, ...]
    joint: Mapping[Name, np.ndarray]
    may_mix: bool

    @property
    def is_joint(self) -> np.ndarray:
        is_joint: np.ndarray = ~np.isnan(self.joint[self.names[0]])
        return is_joint


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Resolved:
    """What a formula finds; arrays with one entry for each execution.

    Attributes:
        units: all counters and facts of the formula.
        singles: of each counter and fact.
        values: what it takes; NaN where it has nothing to take.
        is_sound: whether everything is there, and from one pass where that matters.
        is_usable: whether everything is there, and may be mixed where it is.
        is_dead: whether a block that it needs was not counted.
        gates: the counters that say so.
    """

    units: tuple[Unit, ...]
    singles: Mapping[Name, Single]
    values: Mapping[Name, np.ndarray]
    is_sound: np.ndarray
    is_usable: np.ndarray
    is_dead: np.ndarray
    gates: tuple[str, ...]


class Resolver:
    """Resolves formulas over one table.

    Args:
        allows_mixing: whether counters that have to be read in one pass may come from different ones all the same.
    """

    def __init__(self, table: CounterTable, formulas: Formulas, *, allows_mixing: bool) -> None:
        self._table = table
        self._formulas = formulas
        self._allows_mixing = allows_mixing
        self._nothing = np.full(len(table), np.nan)
        self._gates = self._find_gates()

    @property
    def dead_blocks(self) -> Mapping[str, tuple[tuple[str, ...], np.ndarray]]:
        """Block -> the counters that say that it was not counted, and in which executions."""
        return self._gates

    def resolve(self, formula: Formula) -> Resolved:
        """What the formula finds in each execution."""
        names = tuple(dict.fromkeys(self._reduced(name) for name in formula.counters))
        singles = {name: self._single(name) for name in names}
        singles |= {name: self._fact(name) for name in formula.facts}
        units = self._units(formula, names, singles)
        values: dict[Name, np.ndarray] = {}
        is_sound, is_usable = (np.ones(len(self._table), dtype=np.bool_) for _ in range(2))
        for unit in units:
            is_joint = unit.is_joint
            is_sound &= is_joint
            is_there = is_joint.copy()
            for name in unit.names:
                other = singles[name].values if unit.may_mix else self._nothing
                values[name] = np.where(is_joint, unit.joint[name], other)
            is_there = np.logical_and.reduce([~np.isnan(values[name]) for name in unit.names])
            is_usable &= is_there
        is_dead, gates = self._dead(names)
        # Expressions name a counter as the file does, where its usual reduction is not written.
        values |= {name: values[self._reduced(name)] for name in formula.counters}
        return Resolved(
            units=units,
            singles=singles,
            values=values,
            is_sound=is_sound & ~is_dead,
            is_usable=is_usable & ~is_dead,
            is_dead=is_dead,
            gates=gates,
        )

    def _reduced(self, name: Name) -> Name:
        return Name(name.name, name.reduction or self._formulas.meanings[name.name].reduction)

    def reduced_names(self, formula: Formula) -> Mapping[Name, Name]:
        """Names of counters as they stand in the formula -> with their reduction."""
        return {name: self._reduced(name) for name in formula.counters}

    def _single(self, name: Name) -> Single:
        readings = self._table.readings.get(name, ())
        values = self._nothing
        is_overcounted = np.zeros(len(self._table), dtype=np.bool_)
        least, most = self._nothing, self._nothing
        for reading in readings:
            values = np.where(np.isnan(values), reading.values, values)
            is_overcounted = is_overcounted | reading.is_overcounted
            least, most = np.fmin(least, reading.values), np.fmax(most, reading.values)
        spread = self._nothing
        if len(readings) > 1 and name.name != PASS_DURATION:
            several = np.sum([reading.is_there for reading in readings], axis=0) > 1
            with np.errstate(divide="ignore", invalid="ignore"):
                relative = np.where(most == least, 0.0, (most - least) / np.abs(most))
            spread = np.where(several, relative, np.nan)
        return Single(values=values, is_overcounted=is_overcounted, pass_spread=spread)

    def _fact(self, name: Name) -> Single:
        is_never = np.zeros(len(self._table), dtype=np.bool_)
        return Single(values=self._table.facts[name.name], is_overcounted=is_never, pass_spread=self._nothing)

    def _units(self, formula: Formula, names: tuple[Name, ...], singles: Mapping[Name, Single]) -> tuple[Unit, ...]:
        units = []
        grouped: set[Name] = set()
        for group in formula.groups:
            members = tuple(name for name in names if name.name in group.counters)
            grouped |= set(members)
            may_mix = (self._allows_mixing or not group.is_required) and Name(PASS_DURATION, "sum") not in members
            units.append(Unit(names=members, joint=self._joint(members), may_mix=may_mix))
        units += [
            Unit(names=(name,), joint={name: single.values}, may_mix=True)
            for name, single in singles.items()
            if name not in grouped
        ]
        return tuple(units)

    def _joint(self, members: tuple[Name, ...]) -> Mapping[Name, np.ndarray]:
        """Values of the first pass that read all members."""
        by_pass: dict[str, dict[Name, Reading]] = {}
        for name in members:
            for reading in self._table.readings.get(name, ()):
                by_pass.setdefault(reading.pass_label, {})[name] = reading
        joint = dict.fromkeys(members, self._nothing)
        for _, readings in sorted(by_pass.items()):
            if len(readings) < len(members):
                continue
            are_there = np.logical_and.reduce([readings[name].is_there for name in members])
            is_new = are_there & np.isnan(joint[members[0]])
            joint = {name: np.where(is_new, readings[name].values, joint[name]) for name in members}
        return joint

    def _find_gates(self) -> Mapping[str, tuple[tuple[str, ...], np.ndarray]]:
        found: dict[str, tuple[tuple[str, ...], np.ndarray]] = {}
        for meaning in self._formulas.meanings.values():
            readings = self._table.readings.get(Name(meaning.name, meaning.reduction), ())
            if not meaning.is_never_zero or not readings:
                continue
            block = self._formulas.blocks.get(meaning.name, "")
            is_zero = np.logical_or.reduce([reading.values == 0 for reading in readings])
            if is_zero.any():
                names, before = found.get(block, ((), np.zeros(len(self._table), dtype=np.bool_)))
                found[block] = ((*names, meaning.name), before | is_zero)
        return found

    def _dead(self, names: tuple[Name, ...]) -> tuple[np.ndarray, tuple[str, ...]]:
        is_dead = np.zeros(len(self._table), dtype=np.bool_)
        gates: list[str] = []
        for block in sorted({self._formulas.blocks.get(name.name, "") for name in names} & set(self._gates)):
            block_gates, is_zero = self._gates[block]
            gates += block_gates
            is_dead |= is_zero
        return is_dead, tuple(gates)
