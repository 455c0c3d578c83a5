"""Two gathered batches -> BATCH_CHANGES: each quantity of each kernel before and after, kernels of one side listed.

Kernels are the same where they have one name; where several workloads have kernels of one name, where these have one
label, too. What is left is matched by names without the numbers that XLA appends, if one kernel of a family is left on
either side; how a pair was found stands in each row. Values that mean different things are not subtracted.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum

import pandas as pd

from rocktools.batch.collect import Gathered
from rocktools.batch.gathered_tables import KernelValues
from rocktools.errors import UsageError, nearest_names
from rocktools.evidence import Evidence, weakest
from rocktools.findings import Finding, Severity
from rocktools.frames import Column, FrameSpec, require_frame
from rocktools.units import count_noun
from rocktools.workspace.tool_doubts import shortened
from rocktools.workspace.tool_eras import refuse_comparison

_ONE_SIDE = "the kernel or the value is on the other side only"
_NUMBER = re.compile(r"(?:_\d+)+$")
TRACED_TIME = "traced_mean_time"

BATCH_CHANGES = FrameSpec(
    name="BATCH_CHANGES",
    meaning="One row per quantity of a kernel in two batches: both values, and the change.",
    key=("kernel_name", "workload", "quantity"),
    sort=(),
    columns=(
        Column("kernel_name", "category", "clean kernel name, of the later batch where both have it"),
        Column("workload", "category", "label of its workload there"),
        Column("other_kernel_name", "category", "its name in the earlier batch, where that is another", "the same"),
        Column("matched_by", "category", "name, name and workload, family; before_only, after_only"),
        Column("quantity", "category", "name of the quantity, as `rocktools counters show` explains it"),
        Column("unit", "category", "unit of the values"),
        Column("before_value", "float64", "of a mean launch, in the earlier batch", _ONE_SIDE),
        Column("after_value", "float64", "of a mean launch, in the later batch", _ONE_SIDE),
        Column("change_value", "float64", "after minus before", "`refusal` says why"),
        Column("change_ratio", "float64", "change over before", "no change is known, or before is 0"),
        Column("evidence", "category", "the weaker of both values", "a value is missing"),
        Column("refusal", "category", "why there is no change", "there is one"),
    ),
)


class MatchedBy(str, Enum):
    """How a kernel of one batch was found in the other."""

    NAME = "name"
    WORKLOAD = "name and workload"
    FAMILY = "family"
    BEFORE_ONLY = "before_only"
    AFTER_ONLY = "after_only"

    def __str__(self) -> str:
        return self.value


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class BatchComparison:
    """What changed.

    Attributes:
        frame: BATCH_CHANGES: pairs with most time first, then kernels of one side.
        matched_count: pairs of kernels.
        findings: kernels of one side, and what could not be compared.
        is_simulated: whether either batch was made without hardware.
    """

    frame: pd.DataFrame
    matched_count: int
    findings: tuple[Finding, ...]
    is_simulated: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class _Pair:
    before: KernelValues | None
    after: KernelValues | None
    matched_by: MatchedBy


def compare_gathered(
    before: Gathered, after: Gathered, *, quantities: Collection[str] | None = None
) -> BatchComparison:
    """Every quantity of every kernel of both.

    Args:
        quantities: only these, and TRACED_TIME if it is among them; None: all.

    Raises:
        UsageError: neither side has such a quantity.
    """
    pairs = match_kernels(before.values, after.values)
    units = _units(before) | _units(after)
    for name in quantities or ():
        if name not in units:
            near = nearest_names(name, units)
            raise UsageError(
                "unknown-quantity",
                f"there is no quantity {name!r} in either",
                hint=", ".join(near) or "rocktools counters show",
            )
    rows = [
        row
        for pair in pairs
        for row in _rows(pair, before, after, units)
        if quantities is None or row["quantity"] in quantities
    ]
    columns = {name: [row.get(name) for row in rows] for name in BATCH_CHANGES.names}
    frame = pd.DataFrame(columns, index=range(len(rows)))
    for column in BATCH_CHANGES.columns:
        if column.dtype == "category":
            texts = frame[column.name].astype(object)
            frame[column.name] = texts.where(texts.notna(), None)
    frame = require_frame(frame.astype({each.name: each.dtype for each in BATCH_CHANGES.columns}), BATCH_CHANGES)
    return BatchComparison(
        frame=frame,
        matched_count=sum(pair.before is not None and pair.after is not None for pair in pairs),
        findings=(*_alone(pairs), *_refused(frame)),
        is_simulated=before.is_simulated or after.is_simulated,
    )


def match_kernels(before: Sequence[KernelValues], after: Sequence[KernelValues]) -> list[_Pair]:
    """Kernels of both sides together, in the order of the later one; then those of one side."""
    pairs: dict[int, _Pair] = {}
    rest_before, rest_after = list(range(len(before))), list(range(len(after)))
    rules: tuple[tuple[MatchedBy, Callable[[KernelValues], object]], ...] = (
        (MatchedBy.NAME, lambda kernel: kernel.kernel),
        (MatchedBy.WORKLOAD, lambda kernel: (kernel.kernel, kernel.workload)),
        (MatchedBy.FAMILY, lambda kernel: _NUMBER.sub("", kernel.kernel)),
    )
    for rule, key_of in rules:
        ours = {place: key_of(before[place]) for place in rest_before}
        theirs = {place: key_of(after[place]) for place in rest_after}
        alone_before, alone_after = (
            {key for key, count in Counter(keys.values()).items() if count == 1} for keys in (ours, theirs)
        )
        partner = {key: place for place, key in ours.items() if key in alone_before and key in alone_after}
        for place, key in theirs.items():
            if key in partner:
                pairs[place] = _Pair(before=before[partner[key]], after=after[place], matched_by=rule)
                rest_before.remove(partner[key])
                rest_after.remove(place)
    matched = [pairs[place] for place in sorted(pairs)]
    only_after = [_Pair(before=None, after=after[place], matched_by=MatchedBy.AFTER_ONLY) for place in rest_after]
    only_before = [_Pair(before=before[place], after=None, matched_by=MatchedBy.BEFORE_ONLY) for place in rest_before]
    return [*matched, *only_after, *only_before]


def _units(gathered: Gathered) -> dict[str, str]:
    rows = gathered.quantities.drop_duplicates("quantity")
    units = {str(name): str(unit) for name, unit in zip(rows["quantity"], rows["unit"], strict=True)}
    return {**units, TRACED_TIME: "ns", "dependency_wait_ratio": "ratio", "issue_wait_ratio": "ratio"}


def _rows(pair: _Pair, before: Gathered, after: Gathered, units: Mapping[str, str]) -> list[dict[str, object]]:
    named = pair.after or pair.before
    assert named is not None
    base: dict[str, object] = {
        "kernel_name": named.kernel,
        "workload": named.workload,
        "matched_by": str(pair.matched_by),
    }
    if pair.before is not None and pair.before.kernel != named.kernel:
        base["other_kernel_name"] = pair.before.kernel
    sides = (pair.before, pair.after)
    names = sorted({name for side in sides if side is not None for name in side.found})
    rows = [_time_row(pair)] if any(side is not None and side.time is not None for side in sides) else []
    rows += [_row(pair, name, units.get(name, "ratio"), before, after) for name in names]
    return [{**base, **row} for row in rows]


def _time_row(pair: _Pair) -> dict[str, object]:
    times = [None if side is None or side.time is None else side.time.mean_ns for side in (pair.before, pair.after)]
    row = {"quantity": TRACED_TIME, "unit": "ns", **_change(times[0], times[1])}
    if None not in times:
        row["evidence"] = str(Evidence.MEASURED)
    return row


def _row(pair: _Pair, quantity: str, unit: str, before: Gathered, after: Gathered) -> dict[str, object]:
    found = [None if side is None else side.found.get(quantity) for side in (pair.before, pair.after)]
    first, second = found
    row: dict[str, object] = {"quantity": quantity, "unit": unit}
    if first is None or second is None or pair.before is None or pair.after is None:
        return {**row, **_change(None if first is None else first.value, None if second is None else second.value)}
    refusal = refuse_comparison(
        quantity,
        (first.source, second.source),
        (
            before.built.version_of(pair.before.workload, pair.before.kernel),
            after.built.version_of(pair.after.workload, pair.after.kernel),
        ),
    )
    if refusal is not None:
        return {**row, "before_value": first.value, "after_value": second.value, "refusal": refusal}
    evidence = str(weakest(first.evidence, second.evidence))
    return {**row, **_change(first.value, second.value), "evidence": evidence}


def _change(before: float | None, after: float | None) -> dict[str, object]:
    if before is None or after is None:
        side = "before" if before is None else "after"
        return {"before_value": before, "after_value": after, "refusal": f"there is no value {side}"}
    return {
        "before_value": before,
        "after_value": after,
        "change_value": after - before,
        "change_ratio": (after - before) / abs(before) if before else math.nan,
    }


def _alone(pairs: Sequence[_Pair]) -> list[Finding]:
    """Kernels of one side."""
    before = [pair.before.kernel for pair in pairs if pair.before is not None and pair.after is None]
    after = [pair.after.kernel for pair in pairs if pair.after is not None and pair.before is None]
    findings = []
    if before:
        findings.append(
            Finding(
                rule="kernels-before-only",
                severity=Severity.NOTE,
                where=shortened(before[0]),
                message=f"{count_noun(len(before), 'kernel')} of the earlier batch: the later one has none of that "
                "name, or several",
                numbers={"kernels_count": len(before)},
            )
        )
    if after:
        findings.append(
            Finding(
                rule="kernels-after-only",
                severity=Severity.NOTE,
                where=shortened(after[0]),
                message=f"{count_noun(len(after), 'kernel')} of the later batch: the earlier one has none of that "
                "name, or several",
                numbers={"kernels_count": len(after)},
            )
        )
    return findings


def _refused(frame: pd.DataFrame) -> list[Finding]:
    """Quantities that both sides have and that mean different things."""
    is_refused = (frame["refusal"].notna() & frame["before_value"].notna() & frame["after_value"].notna()).to_numpy()
    rows = frame[is_refused]
    if rows.empty:
        return []
    reasons = list(dict.fromkeys(rows["refusal"].astype(str)))
    return [
        Finding(
            rule="quantities-not-comparable",
            severity=Severity.WARNING,
            where=", ".join(sorted(set(rows["quantity"].astype(str)))[:4]),
            message=f"{count_noun(len(rows), 'value')} were not compared: {'; '.join(reasons[:3])}",
            numbers={"values_count": len(rows)},
            advice="profile both with one version of rocprof-compute; of raw counters all versions can be compared",
        )
    ]
