"""Values that cannot be: above 100 % of a peak, a clock above the highest, sizes that do not add up -> findings.

What is possible is said by the formulas (`range`); why a quantity leaves it is said by their limits.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pandas as pd

from rocktools.counters.formulas import Formula, Formulas
from rocktools.findings import Finding, Severity
from rocktools.units import count_noun

_ADVICE: Mapping[str, str] = {
    "implied_clock_ratio": "the dispatch is too short for GRBM cycles, or the number of dies is wrong: do not "
    "use shares of elapsed cycles",
    "fabric_read_sizes_ratio": "read the sizes and the total in one pass",
    "mfma_rate_ratio": "the instructions are of another type than they are taken for, or sparse",
}


def check_quantities(quantities: pd.DataFrame, formulas: Mapping[str, Formulas]) -> list[Finding]:
    """A warning for each kernel and quantity whose value is outside of the range of its formula.

    Args:
        quantities: QUANTITIES.
        formulas: by architecture.
    """
    ranges = {
        formula.formula_id: formula
        for each in formulas.values()
        for formula in each.by_quantity.values()
        if formula.least is not None or formula.most is not None
    }
    rows = quantities[quantities["formula_id"].isin(list(ranges)) & quantities["value"].notna()]
    findings: list[Finding] = []
    for (kernel, formula_id), group in rows.groupby(["kernel_name", "formula_id"], observed=True, sort=True):
        formula = ranges[str(formula_id)]
        values = group["value"].to_numpy(dtype=np.float64)
        is_outside = np.zeros(len(values), dtype=np.bool_)
        if formula.most is not None:
            is_outside |= values > formula.most
        if formula.least is not None:
            is_outside |= values < formula.least
        if is_outside.any():
            findings.append(_outside(str(kernel), formula, values[is_outside]))
    return findings


def _outside(kernel: str, formula: Formula, values: np.ndarray) -> Finding:
    worst = float(values[np.argmax(np.abs(values))])
    limits = " to ".join(f"{limit:g}" for limit in (formula.least, formula.most) if limit is not None)
    return Finding(
        rule="impossible-quantity",
        severity=Severity.WARNING,
        where=kernel,
        message=(
            f"{formula.quantity} is {worst:.4g} {formula.unit} in {count_noun(len(values), 'row')}; "
            f"possible is {limits}"
        ),
        numbers={"value": worst, "rows_count": len(values)},
        advice=_ADVICE.get(formula.quantity, formula.limits),
    )
