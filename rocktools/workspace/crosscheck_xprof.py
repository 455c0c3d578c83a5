"""Tables of xprof and the events that they were made of -> figure by figure, theirs and ours.

kernel_stats: a kernel, its geometry and op_name. hlo_stats: an instruction of a program. framework_op_stats: an
op_name, with all instructions that have it. Rows of host and device are told apart by xprof. Rates are turned back into
FLOPs and bytes, which is what both tools estimate.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pandas as pd

from rocktools.hlo.cost import Cost, estimate_costs
from rocktools.hlo.module import HloModule, Instruction
from rocktools.sources.xprof_tables import XprofRow, XprofTables
from rocktools.workspace.crosscheck_events import ProfileEvents
from rocktools.workspace.crosscheck_rows import CheckedFigure, Figure, RowChecker

_TOOL = "xprof"
_MOST_KERNELS = 1000
_NS_PER_US = 1000.0
_PS_PER_NS = 1000
_PRINTED_NS = 0.01  # they print microseconds with three decimals
_GIBI = 1 << 30
_CONTRACTIONS = frozenset({"dot", "convolution", "ragged-dot"})
_IDLE = "IDLE"


def check_xprof(tables: XprofTables, events: ProfileEvents) -> list[CheckedFigure]:
    """Every figure that both sides have."""
    found: list[CheckedFigure] = []
    for name, parts in tables.tables.items():
        if name == "kernel_stats":
            for part in parts:
                _check_kernels(part, events, found)
        elif name == "hlo_stats":
            for part in parts:
                _check_instructions(part, events, found)
        else:
            for number, part in enumerate(parts):
                _check_framework(part, events, found, name if number == 0 else f"{name}, part {number + 1}")
    return found


def _check_kernels(rows: Sequence[XprofRow], events: ProfileEvents, found: list[CheckedFigure]) -> None:
    frame = events.frame[(events.frame["kind"] == "kernel").to_numpy()]
    frame = frame.assign(whole_ns=frame["duration_ps"] // _PS_PER_NS, raw=frame["raw_kernel_name"].astype(object))
    keys = ["raw", "block", "grid", "instruction_name"]
    ours = {tuple(map(str, key)): own for key, own in frame.groupby(keys, sort=True)}
    for index, row in enumerate(rows):
        key = (str(row["kernel_name"]), str(row["block_dim"]), str(row["grid_dim"]), _op_name(row.get("op_name")))
        check = RowChecker(_TOOL, "kernel_stats", index, f"{key[0]} <{key[2]} x {key[1]}>", found)
        own = ours.pop(key, None)
        if own is None:
            check.add("row", "listed", None)
        else:
            _check_kernel(check, row, own, key[3])
    least_ns = min((_ns(row["total_duration_us"]) for row in rows), default=0.0)
    for place, ((raw, block, grid, *_), own) in enumerate(ours.items()):
        check = RowChecker(_TOOL, "kernel_stats", len(rows) + place, f"{raw} <{grid} x {block}>", found)
        is_cut = len(rows) >= _MOST_KERNELS and int(own["whole_ns"].sum()) <= least_ns
        check.add("row", None, "listed", explanations={"at-most-1000-rows": None} if is_cut else None)


def _check_kernel(check: RowChecker, row: XprofRow, own: pd.DataFrame, instruction_name: str) -> None:
    count, total_ns, whole_ns = len(own), int(own["duration_ps"].sum()) / _PS_PER_NS, int(own["whole_ns"].sum())
    names = sorted(set(own["found_name"]))
    check.add(
        "op_name",
        _op_name(row.get("op_name")),
        names[0] if len(names) == 1 else f"{len(names)} op_names",
        explanations={"fusion-without-name": instruction_name},
    )
    check.add("occurrences_count", float(row["occurrences"]), float(count))
    exact = {
        "total": (total_ns, whole_ns),
        "avg": (total_ns / count, whole_ns // count),
        "min": (int(own["duration_ps"].min()) / _PS_PER_NS, int(own["whole_ns"].min())),
        "max": (int(own["duration_ps"].max()) / _PS_PER_NS, int(own["whole_ns"].max())),
    }
    for name, (ours_ns, cut_ns) in exact.items():
        check.add(
            f"{'mean' if name == 'avg' else name}_ns",
            _ns(row[f"{name}_duration_us"]),
            float(ours_ns),
            at_most=_PRINTED_NS,
            explanations={"whole-nanoseconds": float(cut_ns)},
        )
    if own["lds_bytes"].notna().any() and row.get("shmem_bytes") is not None:
        lds = float(own["lds_bytes"].max())
        check.add("lds_bytes", float(row["shmem_bytes"]), lds, explanations={"no-rocm-details": 0.0})


def _check_instructions(rows: Sequence[XprofRow], events: ProfileEvents, found: list[CheckedFigure]) -> None:
    annotated = events.annotated
    keys = [annotated["program_id"].astype(object), annotated["hlo_op"].astype(object)]
    ours = {tuple(map(str, key)): own for key, own in annotated.groupby(keys, sort=True)}
    costs = {program: estimate_costs(module) for program, module in events.modules.items()}
    all_ns = int(annotated["duration_ps"].sum()) / _PS_PER_NS
    for index, row in enumerate(rows):
        key = (str(row["program_id"]), str(row["hlo_op_name"]))
        check = RowChecker(_TOOL, "hlo_stats", index, f"{key[1]} of program {key[0]}", found)
        own = ours.pop(key, None)
        if own is None:
            check.add("row", "listed", None)
            continue
        ours_ns, count = int(own["duration_ps"].sum()) / _PS_PER_NS, len(own)
        name = str(own["instruction_name"].iloc[0])
        check.add(
            "op_name",
            _op_name(row.get("tf_op_name")),
            str(own["found_name"].iloc[0]),
            explanations={"fusion-without-name": name},
        )
        check.add("occurrences_count", float(row["occurrences"]), float(count))
        check.add("total_ns", _ns(row["total_time"]), ours_ns, at_most=_PRINTED_NS)
        check.add("self_ns", _ns(row["total_self_time"]), ours_ns, at_most=_PRINTED_NS)
        check.add("mean_ns", _ns(row["avg_time"]), ours_ns / count, at_most=_PRINTED_NS)
        shares = {"idle-included": ours_ns / events.span_ns if events.span_ns else None}
        check.add("share_ratio", float(row["total_self_time_percent"]) / 100, ours_ns / all_ns, explanations=shares)
        module = events.modules.get(key[0])
        instruction = None if module is None else module.instructions.get(key[1])
        if module is not None and instruction is not None:
            _check_cost(check, row, module, instruction, costs[key[0]].get(key[1]), count)
    for place, (program, operation) in enumerate(ours):
        check = RowChecker(_TOOL, "hlo_stats", len(rows) + place, f"{operation} of program {program}", found)
        check.add("row", None, "listed")


def _check_cost(
    check: RowChecker, row: XprofRow, module: HloModule, instruction: Instruction, cost: Cost | None, count: int
) -> None:
    """FLOPs and bytes of all executions, of theirs from the rates."""
    seconds = float(row["total_self_time"]) * 1e-6
    their_flop = float(row["model_flop_rate"]) * 1e9 * seconds
    their_bytes = float(row["measured_memory_bw"]) * _GIBI * seconds
    is_call = instruction.opcode == "custom-call"
    ours_flop = None if cost is None or cost.compute_flop is None else float(cost.compute_flop * count)
    is_weighed = not is_call and not _contracts(module, instruction) and round(their_flop) >= (ours_flop or 0.0)
    explanations: dict[str, Figure] = {"no-cost-of-calls": 0.0} if is_call else {}
    check.add(
        "compute_flop",
        their_flop,
        ours_flop,
        explanations={**explanations, **({"weighted-flop": their_flop} if is_weighed else {})},
    )
    if cost is None or cost.read_bytes is None or cost.written_bytes is None:
        check.add("traffic_bytes", their_bytes, None, explanations=explanations)
        return
    ours_bytes = float((cost.read_bytes + cost.written_bytes) * count)
    without = ours_bytes - _scalar_bytes(module, instruction) * count
    is_between = without <= round(their_bytes) <= ours_bytes and not is_call
    check.add(
        "traffic_bytes",
        their_bytes,
        ours_bytes,
        explanations={**explanations, **({"scalar-operands": their_bytes} if is_between else {})},
    )


def _contracts(module: HloModule, instruction: Instruction) -> bool:
    """Whether it, or what it calls, is a matrix product or a convolution."""
    if instruction.opcode in _CONTRACTIONS:
        return True
    called = (module.computations.get(name) for name in instruction.called)
    return any(_contracts(module, inner) for each in called if each is not None for inner in each.instructions)


def _scalar_bytes(module: HloModule, instruction: Instruction) -> int:
    """Bytes of operands with one element."""
    operands = (module.instructions.get(name) for name in instruction.operands)
    shapes = [operand.shape for operand in operands if operand is not None and not operand.shape.is_tuple]
    return sum(shape.size_bytes for shape in shapes if shape.elements_count == 1)


def _check_framework(rows: Sequence[XprofRow], events: ProfileEvents, found: list[CheckedFigure], table: str) -> None:
    annotated = events.annotated
    names = annotated["instruction_name"].where(annotated["instruction_name"] != "", annotated["hlo_op"].astype(object))
    ours = {str(name): own for name, own in annotated.groupby(names, sort=True)}
    all_ns = int(annotated["duration_ps"].sum()) / _PS_PER_NS
    for index, row in enumerate(rows):
        operation = str(row["operation"])
        check = RowChecker(_TOOL, table, index, f"{row['host_or_device']}: {operation}", found)
        if row["host_or_device"] != "Device":
            theirs = _ns(row["total_time"])
            check.add("total_ns", theirs, None, explanations={"host-operations": theirs})
        elif operation == _IDLE:
            _check_idle(check, row, events, all_ns)
        elif operation not in ours:
            check.add("row", "listed", None)
        else:
            _check_operation(check, row, ours.pop(operation), all_ns, events.span_ns)
    for place, name in enumerate(ours):
        RowChecker(_TOOL, table, len(rows) + place, f"Device: {name}", found).add("row", None, "listed")


def _check_idle(check: RowChecker, row: XprofRow, events: ProfileEvents, all_ns: float) -> None:
    idle_ns = float(events.span_ns - events.union_ns)
    check.add(
        "idle_ns",
        _ns(row["total_time"]),
        idle_ns,
        at_most=_PRINTED_NS,
        explanations={"idle-by-sum": events.span_ns - all_ns},
    )
    check.add(
        "share_ratio",
        float(row["device_total_self_time_percent"]),
        idle_ns / events.span_ns,
        explanations={"idle-by-sum": (events.span_ns - all_ns) / events.span_ns},
    )


def _check_operation(check: RowChecker, row: XprofRow, own: pd.DataFrame, all_ns: float, span_ns: int) -> None:
    ours_ns, count = int(own["duration_ps"].sum()) / _PS_PER_NS, len(own)
    keys = [own["program_id"].astype(object), own["hlo_op"].astype(object)]
    largest = int(own.groupby(keys).size().max())
    check.add(
        "occurrences_count", float(row["occurrences"]), float(count), explanations={"largest-count": float(largest)}
    )
    check.add("total_ns", _ns(row["total_time"]), ours_ns, at_most=_PRINTED_NS)
    check.add("self_ns", _ns(row["total_self_time"]), ours_ns, at_most=_PRINTED_NS)
    check.add(
        "mean_ns",
        _ns(row["avg_time"]),
        ours_ns / count,
        at_most=_PRINTED_NS,
        explanations={"largest-count": ours_ns / largest},
    )
    check.add(
        "share_ratio",
        float(row["device_total_self_time_percent"]),
        ours_ns / all_ns,
        explanations={"idle-included": ours_ns / span_ns if span_ns else None},
    )


def _ns(microseconds: Any) -> float:
    return float(microseconds) * _NS_PER_US


def _op_name(text: Any) -> str:
    """An op_name as xprof prints it; it puts a colon behind some."""
    return str(text or "").removesuffix(":")
