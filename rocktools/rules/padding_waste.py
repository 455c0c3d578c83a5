"""Matrix products whose sizes are no multiples of what an MFMA instruction multiplies: units work on padding."""

from __future__ import annotations

import numpy as np
import pandas as pd

from rocktools.devices.device import Unit, find_dtype_family
from rocktools.evidence import Evidence
from rocktools.findings import Finding, Severity
from rocktools.rules.inputs import RuleInputs
from rocktools.rules.kernel_work import MFMA_TILE
from rocktools.rules.rule import Confirmation, Outcome, Rule, RuleFinding, RuleGroup, Threshold
from rocktools.rules.step_times import cells_count, mean_step_ns
from rocktools.timeline.grouping import match_rows
from rocktools.units import NS_PER_S, count_noun, format_duration, format_ratio, format_si

WASTED_RATIO = 0.01


def check_padding(inputs: RuleInputs) -> Outcome:
    """FLOPs on padding of every product that ran, at the peak of its format: the least time that they take."""
    assert inputs.rows is not None
    assert inputs.step_times is not None
    assert inputs.kernel_work is not None
    assert inputs.device is not None
    cells, step_ns = cells_count(inputs.step_times), mean_step_ns(inputs.step_times)
    work = inputs.kernel_work[inputs.kernel_work["wasted_flop"].fillna(0).gt(0).to_numpy()].reset_index(drop=True)
    if work.empty:
        return []
    executions = _executions(inputs.rows, work)
    peaks = [_peak(inputs, dtype) for dtype in work["dtype"]]
    lost_ns = np.array(
        [
            0.0 if peak is None else count * int(flop) * NS_PER_S / peak
            for count, flop, peak in zip(executions, work["wasted_flop"], peaks, strict=True)
        ]
    )
    lost_ns /= cells
    total_ns = float(lost_ns.sum())
    if total_ns < WASTED_RATIO * step_ns:
        return []
    worst = int(np.argmax(lost_ns))
    wasteful = int((lost_ns > 0).sum())
    wasted = int(work["wasted_flop"].iloc[worst])
    finding = Finding(
        rule="padding-waste",
        severity=Severity.WARNING,
        where=str(work["instruction"].iloc[worst]),
        message=f"{count_noun(wasteful, 'matrix product')} with sizes that are no multiples of {MFMA_TILE} keep MFMA "
        f"units busy with padding for at least {format_duration(total_ns)} of each step "
        f"({format_ratio(total_ns / step_ns)}); most in {work['instruction'].iloc[worst]}, "
        f"{work['product'].iloc[worst]}: {format_si(wasted, 'FLOP')} each time",
        numbers={
            "padding_ns": total_ns,
            "step_ns": step_ns,
            "share_ratio": total_ns / step_ns,
            "products_count": wasteful,
            "worst_wasted_flop": wasted,
        },
        advice="make the dimensions multiples of the tile: hidden size, heads, vocabulary, capacity of experts",
    )
    return [RuleFinding(finding=finding, explained_ns=total_ns, evidence=Evidence.COMPILER_ESTIMATE)]


def _executions(rows: pd.DataFrame, work: pd.DataFrame) -> list[int]:
    """How often each instruction ran, by the kernel of it that ran most often."""
    keys = ["program_id", "instruction"]
    mine = rows[match_rows(rows, work, keys) >= 0]
    if mine.empty:
        return [0] * len(work)
    counts = mine.groupby([*keys, "name"], observed=True).size().groupby(level=[0, 1], observed=True).max()
    known = {(str(program), str(name)): int(count) for (program, name), count in counts.items()}
    return [known.get((str(program), str(name)), 0) for program, name in zip(*(work[key] for key in keys), strict=True)]


def _peak(inputs: RuleInputs, dtype: object) -> float | None:
    assert inputs.device is not None
    family = find_dtype_family(str(dtype))
    peak = None if family is None else inputs.device.find_peak(family, Unit.MATRIX)
    return None if peak is None else peak.flop_per_s


RULE = Rule(
    name="padding-waste",
    title="Padding waste",
    group=RuleGroup.FAULT,
    looks_at="Rows, columns and depth of every matrix product, before XLA pads its operands, against the tile of an "
    f"MFMA instruction ({MFMA_TILE} x {MFMA_TILE} in BF16) on waves of 64 lanes. What is padded is calculated all the "
    "same.",
    signature="Matrix products of odd sizes with a low rate; `pad` in front of them in the program.",
    confirmations=(
        Confirmation(detail="shapes of the product and of its operands", command="rocktools hlo show RUN INSTRUCTION"),
        Confirmation(detail="the rate that it reaches", command="rocktools roofline RUN --by instruction"),
    ),
    fixes=(
        "dimensions that are multiples of the tile, better of 128: vocabulary, heads, expert capacity",
        "one large product instead of many thin ones",
    ),
    thresholds=(
        Threshold(
            name="wasted_ratio",
            value=WASTED_RATIO,
            meaning="least time of the padding over the step",
            source="rocktools",
        ),
        Threshold(
            name="tile_workitems",
            value=MFMA_TILE,
            meaning="rows, columns and depth of the smallest MFMA instruction in BF16",
            source="AMD CDNA 3 and CDNA 4 instruction set: V_MFMA_F32_16X16X16_BF16",
        ),
    ),
    needs=("rows", "step_times", "kernel_work", "device"),
    check=check_padding,
)
