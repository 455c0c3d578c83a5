"""The formulas of the folder counters/formulas: read, checked, and with other quantities put in for their names.

A name in a formula is a fact of the device (`FACTS`), another quantity, or a counter. Everything is checked on reading:
that a counter exists on the architecture, that units fit, that a quantity does not lead back to itself.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from rocktools.assets import find_asset_folder
from rocktools.counters.catalog import Catalog, architectures, load_catalog
from rocktools.counters.data_file import read_data_file
from rocktools.counters.dimensions import RATIO, Dimension, parse_dimension
from rocktools.counters.expression import (
    Expression,
    Name,
    dimension_of,
    names_in,
    parse_expression,
    render,
    replace_names,
)
from rocktools.counters.meanings import PASS_DURATION, Meaning, read_meanings, split_reduction
from rocktools.errors import FormulaError, UsageError, nearest_names
from rocktools.evidence import Evidence

FACTS: Mapping[str, Dimension] = {
    "xcc_count": parse_dimension("xcd"),
    "cu_count": parse_dimension("cu"),
    "simd_per_cu_count": parse_dimension("simd/cu"),
    "wave_workitems": parse_dimension("workitem/wave"),
    "max_engine_hz": parse_dimension("Hz"),
}
"""Facts of a device that formulas may use: columns of AGENTS, with their units."""

_TYPED = {"document": "the command line", "version": "-", "date": "-"}


@dataclass(frozen=True, slots=True, kw_only=True)
class SamePass:
    """Counters that one pass has to read.

    Attributes:
        is_required: whether there is no value otherwise; if not, there is one, with a doubt.
    """

    counters: frozenset[str]
    is_required: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Example:
    """A worked example: what the names of a formula are, and what comes out."""

    inputs: Mapping[Name, float]
    result: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Formula:
    """How one quantity is computed on one architecture.

    Attributes:
        quantity: its name.
        formula_id: the name, and the architectures that share the formula where not all do: `fabric_read_bytes@gfx950`.
        unit: as in the file.
        level: of what one value is about.
        text: the formula as in the file.
        body: its tree.
        expression: the same with quantities put in, down to counters and facts.
        groups: what has to be read in one pass, of the quantities put in, too.
        bound: "upper" or "lower" where the value is on one side of the truth.
        least, most: outside of them the value is impossible.
        is_diagnostic: it uses the time of its pass, and is no result.
        limits: when it does not say what its title says.
        source: document, version, date and place.
    """

    quantity: str
    formula_id: str
    architectures: tuple[str, ...]
    title: str
    unit: str
    level: str
    text: str
    body: Expression
    expression: Expression
    groups: tuple[SamePass, ...]
    example: Example
    evidence: Evidence = Evidence.COUNTER
    bound: str = ""
    least: float | None = None
    most: float | None = None
    is_diagnostic: bool = False
    limits: str = ""
    source: str = ""

    @property
    def counters(self) -> tuple[Name, ...]:
        """The counters that it needs, each with its reduction."""
        return tuple(name for name in names_in(self.expression) if name.name not in FACTS)

    @property
    def facts(self) -> tuple[Name, ...]:
        """The facts of the device that it needs."""
        return tuple(name for name in names_in(self.expression) if name.name in FACTS)


@dataclass(frozen=True, slots=True, kw_only=True)
class Formulas:
    """The formulas of one architecture.

    Attributes:
        by_quantity: in the order of the files.
        elsewhere: quantities that only other architectures have -> which.
        meanings: of the counters.
        blocks: raw counter -> its hardware block.
    """

    architecture: str
    by_quantity: Mapping[str, Formula]
    elsewhere: Mapping[str, tuple[str, ...]]
    titles: Mapping[str, str]
    units: Mapping[str, str]
    meanings: Mapping[str, Meaning]
    blocks: Mapping[str, str]

    def require(self, quantity: str) -> Formula:
        """The formula of a quantity.

        Raises:
            UsageError: this architecture has none; the nearest names are listed.
        """
        if quantity in self.by_quantity:
            return self.by_quantity[quantity]
        what = f"{self.architecture} has no quantity {quantity!r}"
        if having := self.elsewhere.get(quantity):
            what += f"; {', '.join(having)} has it"
        near = nearest_names(quantity, self.by_quantity)
        raise UsageError("unknown-quantity", what, hint=", ".join(near) or "rocktools counters show --arch ...")


def load_formulas(architecture: str) -> Formulas:
    """The formulas of an architecture.

    Raises:
        UsageError: the architecture is not known.
        FormulaError: the files contradict themselves; that is a fault of this installation.
    """
    return build_formulas(read_formula_files(), load_catalog(architecture), read_meanings())


def read_formula_files() -> list[Mapping[str, Any]]:
    """The content of the files, in the order of their names."""
    folder = find_asset_folder("counters") / "formulas"
    return [read_data_file(path) for path in sorted(folder.glob("*.yaml"))]


def formulas_with(formulas: Formulas, quantity: str, text: str) -> Formulas:
    """The formulas of an architecture, and one more that somebody typed; its unit is what its terms give.

    Counters whose meaning is not known are taken for plain numbers. Counters that belong together as `counters pack`
    sees it have to be read in one pass.

    Raises:
        FormulaError: it does not follow the grammar, or units do not fit.
        UsageError: a name in it means nothing on this architecture.
    """
    catalog = load_catalog(formulas.architecture)
    tree = replace_names(parse_expression(text), lambda name: _without_suffix(name, catalog))
    counters = [name.name for name in names_in(tree) if name.name not in {*FACTS, *formulas.by_quantity, PASS_DURATION}]
    plain = {
        catalog.require(name).name: Meaning(name=name, dimension=RATIO, meaning="not known")
        for name in counters
        if name not in formulas.meanings
    }
    groups = [list(group.counters) for group in catalog.groups if set(group.counters) <= set(counters)]
    body: dict[str, Any] = {"formula": render(tree), "example": {"inputs": {}, "result": 0}}
    if groups:
        body["same_pass"] = [{"counters": group} for group in groups]
    entry = {"id": quantity, "title": text, "unit": "", "level": "device", "bodies": [body]}
    document = {
        "documents": {"typed": _TYPED},
        "quantities": [{**entry, "source": {"document": "typed", "place": "-"}}],
    }
    return build_formulas([*read_formula_files(), document], catalog, {**formulas.meanings, **plain})


def _without_suffix(name: Name, catalog: Catalog) -> Name:
    """`TCC_HIT_sum` as rocprofv3 has it is sum(TCC_HIT) here."""
    stem, reduction = split_reduction(name.name)
    is_raw = bool(reduction) and stem in catalog.counters and bool(catalog.counters[stem].block)
    return Name(stem, reduction) if is_raw and not name.reduction else name


def build_formulas(
    documents: Iterable[Mapping[str, Any]], catalog: Catalog, meanings: Mapping[str, Meaning]
) -> Formulas:
    """The formulas of the catalogue's architecture from the content of formula files.

    Raises:
        FormulaError: a quantity is there twice, a name means nothing, units do not fit, or a quantity leads to itself.
    """
    builder = _Builder(catalog, meanings)
    for document in documents:
        builder.add(document)
    return builder.build()


@dataclass(frozen=True, slots=True, kw_only=True)
class _Entry:
    """One quantity of a file, and its body on this architecture."""

    facts: Mapping[str, Any]
    body: Mapping[str, Any]
    source: str
    tree: Expression


class _Builder:
    """Collects the quantities of the files, then puts quantities in for their names."""

    def __init__(self, catalog: Catalog, meanings: Mapping[str, Meaning]) -> None:
        self._catalog = catalog
        self._meanings = meanings
        self._everywhere = architectures()
        self._entries: dict[str, _Entry] = {}
        self._elsewhere: dict[str, tuple[str, ...]] = {}
        self._titles: dict[str, str] = {}
        self._units: dict[str, str] = {}
        self._built: dict[str, Formula] = {}

    def add(self, document: Mapping[str, Any]) -> None:
        for facts in document["quantities"]:
            quantity = facts["id"]
            if quantity in self._titles:
                raise FormulaError("quantity-twice", f"{quantity} is defined twice", where=quantity)
            self._titles[quantity], self._units[quantity] = facts["title"], facts["unit"]
            source = document["documents"][facts["source"]["document"]]
            bodies = [body for body in facts["bodies"] if self._catalog.architecture in self._architectures(body)]
            if not bodies:
                self._elsewhere[quantity] = tuple(
                    sorted({name for body in facts["bodies"] for name in self._architectures(body)})
                )
                continue
            if len(bodies) > 1:
                raise FormulaError("two-bodies", f"two formulas are for {self._catalog.architecture}", where=quantity)
            self._entries[quantity] = _Entry(
                facts=facts,
                body=bodies[0],
                source=f"{source['document']}, {source['version']} ({source['date']}): {facts['source']['place']}",
                tree=parse_expression(bodies[0]["formula"]),
            )

    def build(self) -> Formulas:
        for quantity in self._entries:
            self._formula(quantity, ())
        blocks = {counter.name: counter.block for counter in self._catalog.counters.values() if counter.block}
        return Formulas(
            architecture=self._catalog.architecture,
            by_quantity={quantity: self._built[quantity] for quantity in self._entries},
            elsewhere=self._elsewhere,
            titles=self._titles,
            units=self._units,
            meanings=self._meanings,
            blocks={**blocks, **{f"{level}_ACCUM": blocks[level] for level in self._catalog.levels}},
        )

    def _architectures(self, body: Mapping[str, Any]) -> tuple[str, ...]:
        return tuple(body.get("architectures", self._everywhere))

    def _formula(self, quantity: str, path: tuple[str, ...]) -> Formula:
        if quantity in self._built:
            return self._built[quantity]
        if quantity in path:
            raise FormulaError("quantity-cycle", f"{' -> '.join((*path, quantity))} leads back to itself")
        entry = self._entries[quantity]
        parts = {
            name.name: self._formula(name.name, (*path, quantity))
            for name in names_in(entry.tree)
            if name.name in self._entries
        }
        self._check_names(quantity, entry.tree, parts)
        expression = replace_names(entry.tree, lambda name: parts[name.name].expression if name.name in parts else name)
        self._check_units(quantity, entry, expression)
        self._built[quantity] = self._assemble(quantity, entry, expression, parts)
        return self._built[quantity]

    def _check_names(self, quantity: str, tree: Expression, parts: Mapping[str, Formula]) -> None:
        known = {*FACTS, *parts, PASS_DURATION, *self._catalog.counters}
        known |= {f"{level}_ACCUM" for level in self._catalog.levels}
        for name in names_in(tree):
            if name.name not in known:
                near = ", ".join(nearest_names(name.name, known | set(self._entries)))
                raise FormulaError(
                    "unknown-name",
                    f"{name.name} is no counter, quantity or fact of {self._catalog.architecture}",
                    where=quantity,
                    hint=near or None,
                )
            if name.name not in FACTS and name.name not in parts and name.name not in self._meanings:
                raise FormulaError("counter-without-unit", f"{name.name} has no entry in meanings.yaml", where=quantity)

    def _check_units(self, quantity: str, entry: _Entry, expression: Expression) -> None:
        # A reduced counter has another unit than the counter, so names are told apart by what they are reduced to.
        marked = replace_names(expression, lambda name: Name(f"{name.reduction}({name.name})"))
        dimensions = {
            f"{name.reduction}({name.name})": FACTS[name.name]
            if name.name in FACTS
            else self._meanings[name.name].dimension_as(name.reduction or self._meanings[name.name].reduction)
            for name in names_in(expression)
        }
        try:
            found = dimension_of(marked, dimensions)
        except FormulaError as error:
            raise FormulaError(error.reference, error.what, where=f"{quantity}: {entry.body['formula']}") from error
        if not entry.facts["unit"]:  # typed by somebody
            self._units[quantity] = str(found)
            return
        declared = parse_dimension(entry.facts["unit"])
        if found != declared:
            raise FormulaError(
                "unit-mismatch",
                f"{quantity} is declared in {declared}, and its formula gives {found}",
                where=entry.body["formula"],
            )

    def _assemble(self, quantity: str, entry: _Entry, expression: Expression, parts: Mapping[str, Formula]) -> Formula:
        facts, body = entry.facts, entry.body
        own = [
            SamePass(counters=frozenset(group["counters"]), is_required=group.get("otherwise", "absent") == "absent")
            for group in body.get("same_pass", ())
        ]
        inherited = [group for part in parts.values() for group in part.groups]
        is_shared = "architectures" not in body
        limits = facts.get("range", {})
        evidence = Evidence(facts.get("evidence", Evidence.COUNTER.value))
        return Formula(
            quantity=quantity,
            formula_id=quantity if is_shared else f"{quantity}@{'+'.join(self._architectures(body))}",
            architectures=self._architectures(body),
            title=facts["title"],
            unit=self._units[quantity],
            level=facts["level"],
            text=body["formula"],
            body=entry.tree,
            expression=expression,
            groups=merge_groups([*own, *inherited]),
            example=Example(
                inputs={_example_name(name): float(value) for name, value in body["example"]["inputs"].items()},
                result=float(body["example"]["result"]),
            ),
            evidence=max(evidence, *(part.evidence for part in parts.values()), key=list(Evidence).index)
            if parts
            else evidence,
            bound=facts.get("bound", ""),
            least=limits.get("least"),
            most=limits.get("most"),
            is_diagnostic=facts.get("is_diagnostic", False),
            limits=facts.get("limits", ""),
            source=entry.source,
        )


def _example_name(text: str) -> Name:
    tree = parse_expression(text)
    if not isinstance(tree, Name):
        raise FormulaError("example-input", f"{text!r} is no name", where=text)
    return tree


def merge_groups(groups: Iterable[SamePass]) -> tuple[SamePass, ...]:
    """Groups without common counters: those that share one are one group, required if one of them is."""
    merged: list[SamePass] = []
    for group in groups:
        touching = [other for other in merged if other.counters & group.counters]
        merged = [other for other in merged if other not in touching]
        merged.append(
            SamePass(
                counters=group.counters.union(*(other.counters for other in touching)),
                is_required=group.is_required or any(other.is_required for other in touching),
            )
        )
    return tuple(sorted(merged, key=lambda group: sorted(group.counters)))
