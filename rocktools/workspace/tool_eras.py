"""Which values of rocprof-compute mean the same in two of its versions, and which must not stand together.

The size of a line of L1 and L2 in its roofline, and with it intensities and perhaps bytes, is another since 3.7; ratios
are sums over sums since then. Our own values are of all versions alike.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pandas as pd

from rocktools.evidence import Absence
from rocktools.findings import Finding, Severity
from rocktools.sources.compute_analysis.tool_version import LINES_OF_128_BYTES, ToolVersion
from rocktools.units import count_noun
from rocktools.workspace.tool_metrics import AVERAGED, INTENSITIES, TOOL_METRICS, ValueSource

LINES = ("l2_intensity", "vl1d_intensity", "l2_bytes")
"""Quantities of which the tool's value depends on the size of lines, or may."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SeparatedEras:
    """Values of the tool of one kind of version.

    Attributes:
        frame: the quantities; the others have lost the tool's values of `LINES`.
        hidden: (workload, kernel) whose values of `LINES` may not stand beside those of others.
        findings: what was lost.
    """

    frame: pd.DataFrame
    hidden: frozenset[tuple[str, str]]
    findings: tuple[Finding, ...]


def separate_eras(frame: pd.DataFrame, versions: Mapping[tuple[str, str], ToolVersion]) -> SeparatedEras:
    """Leave the tool's values of `LINES` only to kernels of one kind of version: since 3.7 where there are some.

    Args:
        frame: COMPUTE_QUANTITIES.
        versions: (workload, kernel) -> version of the tool.
    """
    has_value = (frame["quantity"].isin(LINES) & frame["tool_value"].notna()).to_numpy(dtype=np.bool_)
    keys = list(zip(frame["workload"].astype(str), frame["kernel_name"].astype(str), strict=True))
    eras = pd.Series([str(versions[key].is_since(LINES_OF_128_BYTES)) for key in keys], index=frame.index, dtype=object)
    counts = eras[has_value].value_counts()
    if len(counts) < 2:
        return SeparatedEras(frame=frame, hidden=frozenset(), findings=())
    kept = "True" if "True" in counts.index else str(counts.idxmax())
    is_hidden = has_value & (eras != kept).to_numpy(dtype=np.bool_)
    hidden = frozenset(key for key, is_one in zip(keys, is_hidden, strict=True) if is_one)
    is_lost = is_hidden & (frame["source"] == str(ValueSource.TOOL)).to_numpy(dtype=np.bool_)
    if not is_lost.any():
        return SeparatedEras(frame=frame, hidden=hidden, findings=())
    frame = frame.copy()
    frame.loc[is_lost, "value"] = np.nan
    for name, text in (("source", None), ("evidence", None), ("doubts", None), ("absence", str(Absence.AMBIGUOUS))):
        frame[name] = frame[name].astype(object).mask(is_lost, text).astype("category")
    return SeparatedEras(frame=frame, hidden=hidden, findings=(_lost(frame[is_lost]),))


def _lost(rows: pd.DataFrame) -> Finding:
    kernels_count = len({*zip(rows["workload"].astype(str), rows["kernel_name"].astype(str), strict=True)})
    return Finding(
        rule="tool-eras-mixed",
        severity=Severity.WARNING,
        where=f"rocprof-compute {', '.join(sorted({str(each) for each in rows['tool_version']}))}",
        message=(
            f"intensities and bytes at L1 and L2 of {count_noun(kernels_count, 'kernel')} are left out: before 3.7 the "
            "tool took 64 bytes for a line, since then 128, so that they cannot stand beside the others"
        ),
        numbers={"kernels_count": kernels_count, "values_count": len(rows)},
        advice="gather them apart; raw counters of both go together, since our formulas count by request",
    )


def refuse_comparison(quantity: str, sources: tuple[str, str], versions: tuple[ToolVersion, ToolVersion]) -> str | None:
    """Why a quantity of one result says nothing beside that of another; None where both mean the same.

    Args:
        sources: whose values they are, as in COMPUTE_QUANTITIES.
        versions: of the tool, before and after.
    """
    tool = str(ValueSource.TOOL)
    if sources[0] != sources[1]:
        return "one is ours and the other the tool's, which are not computed alike"
    if sources[0] != tool or not (quantity in LINES or _is_averaged(quantity)):
        return None
    eras = [version.is_since(LINES_OF_128_BYTES) for version in versions]
    is_one_version = versions[0].text is not None and versions[0].text == versions[1].text
    if is_one_version or (eras[0] is not None and eras[0] == eras[1]):
        return None
    what = "lines of L1 and L2 are of another size" if quantity in LINES else "ratios are taken otherwise"
    return f"rocprof-compute {versions[0].label} and {versions[1].label}: since 3.7 {what}"


def _is_averaged(quantity: str) -> bool:
    kinds = {metric.kind for metric in TOOL_METRICS if metric.quantity == quantity}
    return quantity in INTENSITIES or not kinds.isdisjoint(AVERAGED)
