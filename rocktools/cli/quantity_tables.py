"""QUANTITIES, and what counters and formulas mean, as tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from rocktools.evidence import Evidence

if TYPE_CHECKING:
    import pandas as pd

    from rocktools.counters.catalog import Catalog
    from rocktools.counters.formulas import Formula, Formulas
    from rocktools.counters.meanings import Meaning
    from rocktools.render.table import ColumnKind, Table
    from rocktools.workspace.metrics import Metrics

_ABSENT_SHOWN = 6


def quantities_table(metrics: Metrics, *, title: str) -> Table:
    """Every row with every column, for formats that programs read."""
    from rocktools.frames import QUANTITIES
    from rocktools.render.table import table_from_spec

    frame = metrics.frame
    is_doubtful = bool((frame["evidence"] == Evidence.INFERRED.value).any())
    return table_from_spec(
        frame,
        QUANTITIES,
        evidence=Evidence.INFERRED if is_doubtful else Evidence.COUNTER,
        title=title,
        is_simulated=metrics.is_simulated,
    )


def quantities_for_people(metrics: Metrics, *, title: str, shows_absent: bool) -> Table:
    """The values with their units; what has none is counted by reason in a note, or shown with the reason."""
    from rocktools.render.table import ColumnKind

    frame = metrics.frame
    is_absent = frame["absence"].notna()
    kept = frame if shows_absent else frame[~is_absent]
    shown = {
        "kernel_name": kept["kernel_name"].astype(str),
        "ordinal": kept["ordinal"],
        "quantity": kept["quantity"].astype(str),
        "value": [_value_text(value, str(unit)) for value, unit in zip(kept["value"], kept["unit"], strict=True)],
        "evidence": kept["evidence"].astype(object).where(kept["evidence"].notna(), None),
        "dispatches_count": kept["dispatches_count"],
        "remark": [_remark(row) for row in kept[["absence", "lacking", "doubts"]].to_dict("records")],
    }
    columns = {
        "kernel_name": ("clean kernel name", ColumnKind.NAME),
        "ordinal": ("how many executions of the kernel, this one included", ColumnKind.IDENTIFIER),
        "quantity": ("as `rocktools counters show` explains it", ColumnKind.TEXT),
        "value": ("of a mean dispatch, with its unit", ColumnKind.TEXT),
        "evidence": ("where it comes from", ColumnKind.TEXT),
        "dispatches_count": ("executions that it comes from", ColumnKind.COUNT),
        "remark": ("what weakens it, or why there is none", ColumnKind.TEXT),
    }
    if kept["ordinal"].isna().all():
        del columns["ordinal"]
    if all(remark is None for remark in shown["remark"]):
        del columns["remark"]
    frame_shown = _frame({name: shown[name] for name in columns})
    notes = () if shows_absent or not is_absent.any() else (_absent_note(frame[is_absent]),)
    return _table("QUANTITIES", title, frame_shown, columns, Evidence.COUNTER, metrics.is_simulated, notes)


def _remark(row: Mapping[str, object]) -> str | None:
    texts = [str(row[name]) for name in ("absence", "lacking", "doubts") if isinstance(row[name], str)]
    return ": ".join(texts) or None


def _absent_note(absent: pd.DataFrame) -> str:
    counts = absent.drop_duplicates("quantity")["absence"].value_counts()
    listed = ", ".join(f"{count} {reason}" for reason, count in counts.items() if count)
    return f"without a value: {listed}; --absent shows them"


def _value_text(value: float, unit: str) -> str:
    """A value for people, with its unit."""
    from rocktools.units import format_count, format_ratio, format_si

    if value != value:
        return "-"
    if unit == "ratio":
        return format_ratio(value)
    if unit in ("B", "FLOP", "IOP", "Hz"):
        return format_si(value, unit)
    number = format_count(int(value)) if value == int(value) else f"{value:,.4g}"
    return f"{number} {unit}"


def formulas_table(formulas: Formulas) -> Table:
    """One row for each quantity of an architecture."""
    from rocktools.render.table import ColumnKind

    listed = list(formulas.by_quantity.values())
    frame = _frame(
        {
            "quantity": [formula.quantity for formula in listed],
            "unit": [formula.unit for formula in listed],
            "counters_count": [len({name.name for name in formula.counters}) for formula in listed],
            "title": [formula.title for formula in listed],
            "formula": [formula.text for formula in listed],
        }
    )
    columns = {
        "quantity": ("name of the quantity", ColumnKind.TEXT),
        "unit": ("its unit", ColumnKind.TEXT),
        "counters_count": ("raw counters that it takes", ColumnKind.COUNT),
        "title": ("what it is", ColumnKind.TEXT),
        "formula": ("how it is computed", ColumnKind.NAME),
    }
    title = f"quantities of {formulas.architecture}: {len(listed)}"
    return _table("formulas", title, frame, columns, Evidence.DECLARED, False, ())


def quantities_with_range(metrics: Metrics) -> Table:
    """The values of quantities of which is known what is possible, with that."""
    from rocktools.render.table import ColumnKind
    from rocktools.workspace.metrics import load_formulas_of

    ranges = {
        formula.formula_id: formula
        for formulas in load_formulas_of(metrics.counted).values()
        for formula in formulas.by_quantity.values()
        if _range_text(formula)
    }
    rows = metrics.frame[metrics.frame["formula_id"].isin(list(ranges)) & metrics.frame["value"].notna()]
    found = [ranges[str(name)] for name in rows["formula_id"]]
    values = rows["value"].tolist()
    is_good = [_is_possible(value, formula) for value, formula in zip(values, found, strict=True)]
    frame = _frame(
        {
            "kernel_name": rows["kernel_name"].astype(str),
            "quantity": rows["quantity"].astype(str),
            "value": [_value_text(value, formula.unit) for value, formula in zip(values, found, strict=True)],
            "possible": [_range_text(formula) for formula in found],
            "state": ["good" if good else "impossible" for good in is_good],
        }
    )
    columns = {
        "kernel_name": ("clean kernel name", ColumnKind.NAME),
        "quantity": ("as `rocktools counters show` explains it", ColumnKind.TEXT),
        "value": ("with its unit", ColumnKind.TEXT),
        "possible": ("least and most that is possible, in the unit", ColumnKind.TEXT),
        "state": ("whether the value is possible", ColumnKind.TEXT),
    }
    title = f"values that can be checked: {len(frame)}, impossible: {is_good.count(False)}"
    return _table("CHECKED_QUANTITIES", title, frame, columns, Evidence.COUNTER, metrics.is_simulated, ())


def _is_possible(value: float, formula: Formula) -> bool:
    return not (
        (formula.least is not None and value < formula.least) or (formula.most is not None and value > formula.most)
    )


def checks_of_formulas() -> tuple[Table, bool]:
    """Every formula with its worked example and what it gives; whether all give what they should."""
    import numpy as np

    from rocktools.counters.catalog import architectures
    from rocktools.counters.expression import evaluate_expression
    from rocktools.counters.formulas import load_formulas
    from rocktools.render.table import ColumnKind

    formulas = {
        formula.formula_id: formula for name in architectures() for formula in load_formulas(name).by_quantity.values()
    }
    given = [
        float(evaluate_expression(each.body, {key: np.array([value]) for key, value in each.example.inputs.items()})[0])
        for each in formulas.values()
    ]
    wanted = [formula.example.result for formula in formulas.values()]
    is_good = [bool(np.isclose(a, b, rtol=1e-12)) for a, b in zip(given, wanted, strict=True)]
    frame = _frame(
        {
            "formula_id": list(formulas),
            "example": [f"{value:.12g}" for value in wanted],
            "gives": [f"{value:.12g}" for value in given],
            "state": ["good" if good else "wrong" for good in is_good],
        }
    )
    columns = {
        "formula_id": ("quantity, and architectures where not all share it", ColumnKind.TEXT),
        "example": ("result of the worked example", ColumnKind.TEXT),
        "gives": ("what the formula gives", ColumnKind.TEXT),
        "state": ("whether they agree", ColumnKind.TEXT),
    }
    title = f"worked examples: {len(frame)}, wrong: {is_good.count(False)}"
    return _table("CHECKED_FORMULAS", title, frame, columns, Evidence.ANALYTIC, False, ()), all(is_good)


def explained_table(subject: str, facts: Sequence[tuple[str, str]]) -> Table:
    """Facts about one counter or quantity, one for each row."""
    from rocktools.render.table import ColumnKind

    frame = _frame({"fact": [name for name, _ in facts], "text": [text for _, text in facts]})
    columns = {"fact": ("what is told", ColumnKind.TEXT), "text": ("what it is", ColumnKind.TEXT)}
    return _table("explained", subject, frame, columns, Evidence.DECLARED, False, ())


def quantity_facts(formula: Formula) -> list[tuple[str, str]]:
    """What is known of a quantity's formula."""
    example = formula.example
    inputs = ", ".join(f"{_example_text(name)} = {value:g}" for name, value in example.inputs.items())
    facts = [
        ("quantity", formula.quantity),
        ("is", formula.title),
        ("unit", f"{formula.unit} (of one {formula.level})"),
        ("formula", formula.text),
        ("counters", ", ".join(dict.fromkeys(name.name for name in formula.counters))),
        ("facts of the device", ", ".join(name.name for name in formula.facts)),
        ("in one pass", "; ".join(_group_text(group.counters, group.is_required) for group in formula.groups)),
        ("bound", f"an {formula.bound} bound, not the value itself" if formula.bound else ""),
        ("possible", _range_text(formula)),
        ("limits", formula.limits),
        ("evidence", formula.evidence.value),
        ("architectures", ", ".join(formula.architectures)),
        ("example", f"{inputs} -> {example.result:.12g} {formula.unit}"),
        ("source", formula.source),
    ]
    return [(name, text) for name, text in facts if text]


def _example_text(name: object) -> str:
    from rocktools.counters.expression import Name, render

    assert isinstance(name, Name)
    return render(name)


def _group_text(counters: frozenset[str], is_required: bool) -> str:
    return f"{', '.join(sorted(counters))} ({'or no value' if is_required else 'or a doubt'})"


def _range_text(formula: Formula) -> str:
    if formula.least is None and formula.most is None:
        return ""
    return " to ".join(f"{limit:g}" for limit in (formula.least, formula.most) if limit is not None)


def counter_facts(name: str, catalog: Catalog, formulas: Formulas, meaning: Meaning | None) -> list[tuple[str, str]]:
    """What is known of a counter, and which quantities need it."""
    counter = catalog.require(name)
    raw = counter.base or counter.name
    users = [
        formula.quantity
        for formula in formulas.by_quantity.values()
        if {each.name for each in formula.counters} & {counter.name, raw}
    ]
    together = [group.name for group in catalog.groups if raw in group.counters]
    facts = [
        ("counter", counter.name),
        ("kind", counter.kind.value),
        ("is", meaning.meaning if meaning else ""),
        ("unit", f"{meaning.dimension} (summed over instances)" if meaning else ""),
        ("reduction", meaning.reduction if meaning else ""),
        ("form of", counter.base if counter.base != counter.name else ""),
        ("block", counter.block),
        ("event", "" if counter.event is None else f"{counter.event} on {catalog.architecture}"),
        ("registers", ", ".join(str(slot) for slot in sorted(counter.slots or ()))),
        ("in one pass with", ", ".join(together)),
        (
            "trap",
            "; ".join(t.text for t in meaning.traps if catalog.architecture in t.architectures) if meaning else "",
        ),
        ("quantities", ", ".join(users)),
        ("source", meaning.source if meaning else ""),
    ]
    return [(fact, text) for fact, text in facts if text]


def _frame(columns: Mapping[str, object]) -> pd.DataFrame:
    import pandas as pd

    return pd.DataFrame({name: pd.Series(list(values)) for name, values in columns.items()})  # type: ignore[call-overload]


def _table(
    name: str,
    title: str,
    frame: pd.DataFrame,
    columns: Mapping[str, tuple[str, ColumnKind]],
    evidence: Evidence,
    is_simulated: bool,
    notes: tuple[str, ...],
) -> Table:
    from rocktools.render.table import Table, table_column

    described = tuple(
        table_column(column, meaning, evidence=evidence, dtype=frame[column].dtype, kind=kind)
        for column, (meaning, kind) in columns.items()
    )
    return Table(name=name, title=title, columns=described, frame=frame, is_simulated=is_simulated, notes=notes)
