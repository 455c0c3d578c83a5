"""Results of rocprof-compute -> COMPUTE_QUANTITIES: our quantities of each kernel, ours and the tool's side by side.

Ours, from raw counters by our formulas, goes first. Where there is none, the tool's value stands in, and says so. Where
both are and differ, the reason is there if it is known. What the tool computed in different ways in its versions is not
put into one column: the versions that are fewer lose these values, which a finding tells.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from rocktools.evidence import Absence
from rocktools.findings import Finding, Severity
from rocktools.frames import Column, FrameSpec, require_frame
from rocktools.sources.compute_analysis.results import ComputeWorkload
from rocktools.sources.compute_analysis.tool_version import LINES_OF_128_BYTES, WHOLE_READS, ToolVersion
from rocktools.units import count_noun, format_ratio
from rocktools.workspace.compute_results import ComputeResults
from rocktools.workspace.tool_doubts import check_tool_values, shortened
from rocktools.workspace.tool_eras import LINES, separate_eras
from rocktools.workspace.tool_metrics import (
    AVERAGED,
    INTENSITIES,
    QUOTIENTS,
    ToolValue,
    ValueSource,
    roofline_values,
    tool_values,
)

_NO_TOOL = "the tool has none"

COMPUTE_QUANTITIES = FrameSpec(
    name="COMPUTE_QUANTITIES",
    meaning="One row per quantity of a kernel that rocprof-compute profiled: from raw counters by our formulas, and as "
    "the tool has it.",
    key=("workload", "kernel_name", "quantity"),
    sort=("workload", "kernel_name", "quantity"),
    columns=(
        Column("workload", "category", "label of the workload"),
        Column("kernel_name", "category", "clean kernel name"),
        Column("quantity", "category", "name of the quantity, as `rocktools counters show` explains it"),
        Column("value", "float64", "the value of a mean launch, in `unit`", "`absence` says why"),
        Column("unit", "category", "unit of the value"),
        Column("source", "category", "`own formula`, or `rocprof-compute` where only the tool has one", "no value"),
        Column("evidence", "category", "where the value comes from", "no value"),
        Column("absence", "category", "why there is no value", "there is one"),
        Column("lacking", "category", "counters or facts that our formula lacks", "it lacks none"),
        Column("doubts", "category", "what weakens the value", "nothing does"),
        Column("formula_id", "category", "our formula", "the value is the tool's"),
        Column("tool_value", "float64", "what rocprof-compute has, in `unit`", _NO_TOOL),
        Column("tool_metric", "category", "where it has it: table and metric, or its roofline", _NO_TOOL),
        Column("tool_version", "category", "version of rocprof-compute, as far as it is known"),
        Column("difference_ratio", "float64", "the tool's value over ours, minus 1", "one of them is missing, or 0"),
        Column("reason", "category", "why the tool's value differs from ours, or why ours is missing", "no difference"),
        Column("dispatches_count", "Int64", "launches that the value comes from", "the files do not say"),
    ),
)

_UNITS: Mapping[str, str] = {"fabric_intensity": "FLOP/B", "vl1d_intensity": "FLOP/B", "l2_intensity": "FLOP/B",
                             "lds_intensity": "FLOP/B"}  # fmt: skip
_SUFFIX_UNITS = (
    ("_bytes", "B"),
    ("_ratio", "ratio"),
    ("_utilisation", "ratio"),
    ("occupancy", "ratio"),
    ("_flop", "FLOP"),
    ("_iop", "IOP"),
    ("_latency", "cycle"),
    ("wave_cycles", "wave*cycle"),
    ("wait_cycles", "wave*cycle"),
    ("elapsed_cycles", "cycle"),
    ("_instructions", "instruction"),
    ("waves", "wave"),
    ("active_workitems", "workitem"),
    ("instructions_per_cycle", "instruction/cu/cycle"),
    ("instructions_per_wave", "instruction/wave"),
    ("resident_waves_accumulated", "wave"),
    ("lds_conflicts_per_access", "ratio"),
)
_FLOP_PARTS = ("_flop_", "flop_f", "_iop_")
_READS = ("fabric_read_bytes", "fabric_bytes", "fabric_intensity")
_BY_DIES = frozenset(
    {
        *("cu_utilisation", "salu_utilisation", "valu_utilisation", "mfma_utilisation", "vmem_utilisation"),
        *("branch_utilisation", "occupancy", "resident_waves_accumulated", "elapsed_cycles", "lds_utilisation"),
        "lds_access_ratio",
    }
)
_EQUAL_RATIO = 1e-4  # up to which two values count as equal: the tool's tables have six decimals


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ComputeQuantities:
    """Quantities of all kernels.

    Attributes:
        frame: COMPUTE_QUANTITIES.
        versions: (workload, kernel) -> version of the tool whose values stand there.
        hidden: (workload, kernel) whose values of the tool at L1 and L2 may not stand beside those of others.
        findings: doubts about the values.
    """

    frame: pd.DataFrame
    versions: Mapping[tuple[str, str], ToolVersion]
    hidden: frozenset[tuple[str, str]]
    findings: tuple[Finding, ...]

    def version_of(self, workload: str, kernel: str) -> ToolVersion:
        """The version behind a kernel that is in the frame."""
        return self.versions[workload, kernel]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Kernel:
    """What is known of one kernel of a workload; the version is that of the tool's values."""

    workload: ComputeWorkload
    version: ToolVersion
    is_gfx950: bool
    name: str
    own: Mapping[str, Mapping[str, object]]
    tool: Mapping[str, ToolValue]
    launches_count: int | None
    has_wrong_dies: bool


def build_compute_quantities(results: ComputeResults) -> ComputeQuantities:
    """Every quantity of every kernel that is in raw counters, or that the tool has."""
    kernels, findings = _kernels(results)
    rows = [row for kernel in kernels for row in _rows(kernel)]
    frame = _frame(rows)
    versions = {(kernel.workload.label, kernel.name): kernel.version for kernel in kernels}
    separated = separate_eras(frame, versions)
    frame = require_frame(separated.frame, COMPUTE_QUANTITIES)
    return ComputeQuantities(
        frame=frame,
        versions=versions,
        hidden=separated.hidden,
        findings=(*findings, *separated.findings, *check_tool_values(results), *_check_differences(frame)),
    )


def _kernels(results: ComputeResults) -> tuple[list[_Kernel], list[Finding]]:
    """Raw counters and the tool's values of each kernel, matched by workload and name."""
    findings: list[Finding] = []
    own: dict[tuple[str, str], dict[str, dict[str, object]]] = {}
    texts = results.quantities.astype({"run": str, "kernel_name": str, "quantity": str}) if len(
        results.quantities
    ) else results.quantities  # fmt: skip
    for (run, kernel), rows in texts.groupby(["run", "kernel_name"], sort=True, observed=True):
        places = rows.groupby(["role", "device_index"], observed=True)["dispatches_count"].max()
        if len(places) > 1:
            role, device = places.idxmax()
            rows = rows[(rows["role"] == role).to_numpy() & (rows["device_index"] == device).to_numpy()]
            findings.append(_several_places(str(run), str(kernel), len(places)))
        own[str(run), str(kernel)] = {str(row["quantity"]): row for row in rows.to_dict("records")}
    tool = _tool_by_kernel(results)
    partners = _partners(set(own), set(tool), results)
    found = []
    for key in sorted({*own, *(key for key in tool if key not in partners.values())}):
        workload = results.workload(key[0])
        other = partners.get(key, key)
        values, launches = tool.get(other, ({}, None))
        analysed = results.workload(other[0]) if other in tool else workload
        found.append(
            _Kernel(
                workload=workload,
                version=analysed.version.narrowed(workload.version),
                is_gfx950=_is_gfx950(workload, analysed, values),
                name=key[1],
                own=own.get(key, {}),
                tool=values,
                launches_count=launches,
                has_wrong_dies=key[0] in results.declared_dies,
            )
        )
    return found, findings


def _is_gfx950(workload: ComputeWorkload, analysed: ComputeWorkload, values: Mapping[str, ToolValue]) -> bool:
    """By sysinfo.csv, or by metrics that no other architecture has."""
    said = workload.facts.get("gpu_arch") or analysed.facts.get("gpu_arch")
    return said == "gfx950" if said else "mfma_flop_f6f4" in values


def _partners(
    own: set[tuple[str, str]], tool: set[tuple[str, str]], results: ComputeResults
) -> dict[tuple[str, str], tuple[str, str]]:
    """Raw counters -> the tool's values of the same kernel under another label, where nothing else fits either.

    Tables do not name their workload; elsewhere it has to be the name that the tool was told. Kernels of the runtime
    (`__amd_rocclr_copyBuffer`) are in workloads that have nothing to do with each other.
    """
    suitors: dict[tuple[str, str], list[tuple[str, str]]] = {}
    for key in own - tool:
        mine = results.workload(key[0])
        fitting = [
            other
            for other in tool - own
            if "".join(other[1].split()) == "".join(key[1].split()) and _may_be_same(mine, results.workload(other[0]))
        ]
        if len(fitting) == 1:
            suitors.setdefault(fitting[0], []).append(key)
    return {keys[0]: other for other, keys in suitors.items() if len(keys) == 1}


def _may_be_same(counted: ComputeWorkload, analysed: ComputeWorkload) -> bool:
    archs = {each.facts.get("gpu_arch") for each in (counted, analysed)} - {None}
    return len(archs) < 2 and analysed.name in (None, counted.name)


def _tool_by_kernel(results: ComputeResults) -> dict[tuple[str, str], tuple[dict[str, ToolValue], int | None]]:
    """(workload, kernel) -> quantities as the tool has them, and how many launches it counted."""
    listed = {
        (str(row["workload"]), str(row["kernel_name"])): row for row in results.kernels.to_dict("records")
    }  # fmt: skip
    metrics = _by_kernel(results.metrics)
    points = _by_kernel(results.roofline)
    found = {}
    for key in {*listed, *metrics, *points}:
        row = listed.get(key, {})
        mean_ns = _number(row.get("pass_mean_ns"))
        values = tool_values(metrics[key], mean_ns) if key in metrics else {}
        flop = values.get("total_flop")
        # Without FLOPs all of its intensities are 0, also where it moved nothing.
        if key in points and not (flop is not None and flop.value == 0):
            values |= roofline_values(points[key])
        count = row.get("dispatches_count")
        found[key] = (values, None if count is None or pd.isna(count) else int(count))
    return found


def _by_kernel(frame: pd.DataFrame) -> dict[tuple[str, str], pd.DataFrame]:
    named = frame[frame["kernel_name"].notna()]
    groups = named.groupby(["workload", "kernel_name"], observed=True, sort=False)
    return {(str(workload), str(kernel)): rows for (workload, kernel), rows in groups}


def _several_places(workload: str, kernel: str, places_count: int) -> Finding:
    return Finding(
        rule="counted-in-several-places",
        severity=Severity.NOTE,
        where=f"{workload}: {shortened(kernel)}",
        message=f"it was counted in {places_count} processes or on {places_count} devices; the one with most launches "
        "is shown",
        numbers={"places_count": places_count},
        advice="rocktools metrics shows each",
    )


def _rows(kernel: _Kernel) -> list[dict[str, object]]:
    return [_row(kernel, name) for name in sorted({*kernel.own, *kernel.tool})]


def _row(kernel: _Kernel, quantity: str) -> dict[str, object]:
    own = kernel.own.get(quantity)
    tool = kernel.tool.get(quantity)
    own_value = _number(own["value"]) if own is not None else None
    row: dict[str, object] = {
        "workload": kernel.workload.label,
        "kernel_name": kernel.name,
        "quantity": quantity,
        "unit": str(own["unit"]) if own is not None else unit_of_quantity(quantity),
        "tool_version": kernel.version.label,
        "tool_value": np.nan if tool is None else tool.value,
        "tool_metric": None if tool is None else tool.metric,
    }
    if own is not None:
        row["lacking"] = _text(own["lacking"])
    if own is not None and own_value is not None:
        row |= {
            "value": own_value,
            "source": str(ValueSource.OWN),
            "evidence": _text(own["evidence"]),
            "doubts": _text(own["doubts"]),
            "formula_id": _text(own["formula_id"]),
            "dispatches_count": own["dispatches_count"],
        }
    elif tool is not None and not _is_wrong(kernel, quantity):
        row |= {
            "value": tool.value,
            "source": str(ValueSource.TOOL),
            "evidence": str(tool.evidence),
            "doubts": "; ".join(_known_reasons(kernel, quantity, tool)) or None,
            "dispatches_count": kernel.launches_count,
        }
    else:
        row["absence"] = _text(own["absence"]) if own is not None else str(Absence.IMPOSSIBLE_ZERO)
    if tool is not None:
        if own_value:
            row["difference_ratio"] = tool.value / own_value - 1
        row["reason"] = _reason(kernel, quantity, own, own_value, tool)
    return row


def _number(value: object) -> float | None:
    return None if value is None or pd.isna(value) else float(value)  # type: ignore[arg-type]


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None


def unit_of_quantity(quantity: str) -> str:
    """The unit of a quantity by its name, where no formula of the architecture says it."""
    if quantity in _UNITS:
        return _UNITS[quantity]
    if any(part in quantity for part in _FLOP_PARTS):
        return "IOP" if "_iop" in quantity else "FLOP"
    return next((unit for suffix, unit in _SUFFIX_UNITS if quantity.endswith(suffix)), "ratio")


def _reason(
    kernel: _Kernel, quantity: str, own: Mapping[str, object] | None, own_value: float | None, tool: ToolValue
) -> str | None:
    """Why the tool's value is another, as far as it is known; None where it is the same, or there is no raw counter."""
    if own is None:
        return None
    if own_value is None:
        absence = _text(own["absence"])
        why = [] if absence == Absence.DIFFERENT_PASS else [f"ours: {absence}"]
        taken = ["the tool takes counters of one ratio from different passes"] if not why else []
        wrong = _known_reasons(kernel, quantity, tool) if _is_wrong(kernel, quantity) else []
        return "; ".join([*why, *taken, *wrong])
    if abs(tool.value - own_value) <= _EQUAL_RATIO * max(abs(own_value), abs(tool.value)):
        return None
    return "; ".join(_known_reasons(kernel, quantity, tool)) or "not known"


def _is_wrong(kernel: _Kernel, quantity: str) -> bool:
    """Whether the tool's value is known to be wrong, so that it is shown and not used."""
    is_half = quantity in _READS and kernel.is_gfx950 and kernel.version.is_since(WHOLE_READS) is False
    return is_half or (kernel.has_wrong_dies and quantity in _BY_DIES)


def _known_reasons(kernel: _Kernel, quantity: str, tool: ToolValue) -> list[str]:
    """What the tool does otherwise than we."""
    since_whole, since_lines = (kernel.version.is_since(each) for each in (WHOLE_READS, LINES_OF_128_BYTES))
    reasons = []
    if quantity in _READS and kernel.is_gfx950 and since_whole is not True:
        reasons.append(f"{_if(since_whole)}before 3.5 the tool counted half of the bytes that gfx950 reads")
    if quantity in INTENSITIES and quantity in LINES and since_lines is not True:
        reasons.append(f"{_if(since_lines)}before 3.7 its roofline took 64 bytes for each line of L1 and L2")
    if quantity == "l2_intensity" and since_lines is not False:
        reasons.append("its roofline takes one size for all requests; ours are 128 bytes read, 64 bytes written")
    if kernel.has_wrong_dies and quantity in _BY_DIES:
        reasons.append("the tool took the number of dies from a table of models, not from what was counted")
    if since_lines is not True and (tool.kind in AVERAGED or tool.kind is None):
        reasons.append(f"{_if(since_lines)}before 3.7 it took means over the ratios of single launches")
    if tool.kind in QUOTIENTS:
        reasons.append("it takes counters from different passes")
    return reasons


def _if(since: bool | None) -> str:
    return "" if since is False else "if the version is so old: "


def _check_differences(frame: pd.DataFrame) -> list[Finding]:
    """Values of the tool that differ from ours, and nobody knows why."""
    rows = frame[(frame["reason"] == "not known").to_numpy()]
    if rows.empty:
        return []
    worst = rows.loc[rows["difference_ratio"].abs().idxmax()] if rows["difference_ratio"].notna().any() else None
    largest = "" if worst is None else (
        f"; the largest difference is {format_ratio(float(worst['difference_ratio']))} of {worst['quantity']}"
    )  # fmt: skip
    return [
        Finding(
            rule="tool-differs",
            severity=Severity.NOTE,
            where=f"{rows.iloc[0]['workload']}: {rows.iloc[0]['quantity']}",
            message=f"{count_noun(len(rows), 'value')} of rocprof-compute differ from ours for no known reason"
            f"{largest}",
            numbers={"values_count": len(rows)},
            advice="--part quantities shows both; rocktools counters show QUANTITY has our formula",
        )
    ]


def _frame(rows: Sequence[Mapping[str, object]]) -> pd.DataFrame:
    columns = {name: [row.get(name) for row in rows] for name in COMPUTE_QUANTITIES.names}
    frame = pd.DataFrame(columns, index=range(len(rows)))
    for column in COMPUTE_QUANTITIES.columns:
        if column.dtype == "category":
            texts = frame[column.name].astype(object)
            frame[column.name] = texts.where(texts.notna(), None)
    return require_frame(
        frame.astype({each.name: each.dtype for each in COMPUTE_QUANTITIES.columns}), COMPUTE_QUANTITIES
    )
