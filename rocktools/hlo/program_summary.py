"""INSTRUCTIONS -> what a program is made of: one row per kind of instruction, and one per loop.

Only what is launched by itself is counted: instructions of the entry computation and of the bodies that loops, calls
and branches run; what a fusion, a reduction or an asynchronous start wraps belongs to the instruction that wraps it.
"""

from __future__ import annotations

import numpy as np
import pandas as pd

from rocktools.frames import Column, FrameSpec, nullable_int64
from rocktools.hlo.module import HloModule, Instruction

_CONTROL = frozenset({"while", "conditional", "call"})
# These give a value another name or another type, and launch nothing.
_NOTHING = frozenset(
    {"parameter", "constant", "tuple", "get-tuple-element", "bitcast", "after-all", "add-dependency", "opt-barrier"}
)
COLLECTIVES = frozenset(
    {
        *("all-gather", "all-reduce", "reduce-scatter", "all-to-all", "ragged-all-to-all", "collective-permute"),
        *("collective-broadcast", "send", "recv"),
    }
)

_PARTLY = "of no instruction of this kind it is known"

KINDS = FrameSpec(
    name="INSTRUCTION_KINDS",
    meaning="One row per kind of launched instruction of a program; amounts are of one run of the program.",
    key=("kind",),
    sort=("kind",),
    columns=(
        Column("kind", "category", "opcode, with the kind of a fusion or the target of a custom call"),
        Column("instructions_count", "int64", "instructions of this kind"),
        Column("executions_count", "Int64", "how often they run, loops unrolled", _PARTLY),
        Column("unknown_count", "int64", "instructions whose number of executions is unknown"),
        Column("compute_flop", "Int64", "floating-point operations, by the compiler's shapes", _PARTLY),
        Column("read_bytes", "Int64", "bytes read, each operand once", _PARTLY),
        Column("written_bytes", "Int64", "bytes written", _PARTLY),
        Column("payload_bytes", "Int64", "bytes that collectives move per device", "not a collective"),
    ),
)

LOOPS = FrameSpec(
    name="LOOPS",
    meaning="One row per while loop of a program.",
    key=("instruction",),
    sort=("instruction",),
    columns=(
        Column("instruction", "category", "name of the while"),
        Column("computation", "category", "computation it is in"),
        Column("trips_count", "Int64", "iterations of one execution", "the compiler does not know"),
        Column(
            "executions_count", "Int64", "executions in one run of the program", "an enclosing trip count is unknown"
        ),
        Column("body_count", "int64", "launched instructions in its body"),
        Column("scope", "category", "where it comes from", "no op_name"),
    ),
)


def launched_computations(module: HloModule) -> frozenset[str]:
    """The entry computation, and what loops, calls and branches run.

    Of a text that was cut: also what nothing that was read calls. Its caller is in the missing part, and may be the
    entry, a loop, or a fusion.
    """
    found: set[str] = set()
    waiting = [] if module.entry is None else [module.entry.name]
    if module.entry is None or not module.is_complete:
        waiting += [name for name in module.computations if not module.callers.get(name)]
    while waiting:
        name = waiting.pop()
        computation = module.computations.get(name)
        if computation is None or name in found:
            continue
        found.add(name)
        for instruction in computation.instructions:
            if instruction.opcode in _CONTROL:
                waiting += instruction.called
    return frozenset(found)


def is_launched(instruction: Instruction, launched: frozenset[str]) -> bool:
    """Whether the instruction may put something on a queue by itself; `launched` is of `launched_computations`."""
    return (
        instruction.computation in launched
        and instruction.opcode not in _NOTHING
        and instruction.opcode not in _CONTROL
        and not instruction.opcode.endswith(("-done", "-update"))
    )


def collective_kind(module: HloModule, instruction: Instruction) -> str:
    """`all-gather` and so on, also of a start and of what an `async-start` wraps; "" where it is no collective."""
    opcode = instruction.opcode.removesuffix("-start")
    if opcode in COLLECTIVES:
        return opcode
    if instruction.opcode != "async-start" or not instruction.called:
        return ""
    wrapped = module.computations.get(instruction.called[0])
    root = wrapped.root if wrapped is not None else None
    return root.opcode if root is not None and root.opcode in COLLECTIVES else ""


def summarize_kinds(module: HloModule, instructions: pd.DataFrame) -> pd.DataFrame:
    """INSTRUCTION_KINDS of a program, the kind with most instructions first.

    Args:
        instructions: INSTRUCTIONS of the module.
    """
    launched = launched_computations(module)
    kinds = {
        instruction.name: _kind_of(module, instruction)
        for instruction in module.instructions.values()
        if is_launched(instruction, launched)
    }
    rows = instructions[instructions["instruction"].astype(str).isin(kinds)]
    kind_of_row = rows["instruction"].astype(str).map(kinds)
    calls = rows["calls_count"]
    given: dict[str, list[object]] = {name: [] for name in KINDS.names}
    for kind, group in rows.groupby(kind_of_row, sort=True):
        given["kind"].append(str(kind))
        given["instructions_count"].append(len(group))
        given["executions_count"].append(_sum_known(calls[group.index]))
        given["unknown_count"].append(int(calls[group.index].isna().sum()))
        for name in ("compute_flop", "read_bytes", "written_bytes", "payload_bytes"):
            given[name].append(_sum_known(group[name] * calls[group.index]))
    order = sorted(range(len(given["kind"])), key=lambda row: (-_as_int(given["instructions_count"][row]), row))
    return _frame(KINDS, {name: [values[row] for row in order] for name, values in given.items()})


def summarize_loops(module: HloModule, instructions: pd.DataFrame) -> pd.DataFrame:
    """LOOPS of a program, in the order of the source.

    Args:
        instructions: INSTRUCTIONS of the module.
    """
    launched = launched_computations(module)
    by_name = instructions.set_index(instructions["instruction"].astype(str))
    given: dict[str, list[object]] = {name: [] for name in LOOPS.names}
    for instruction in module.instructions.values():
        if instruction.opcode != "while" or instruction.computation not in launched:
            continue
        row = by_name.loc[instruction.name]
        body = module.computations.get(instruction.called[0]) if instruction.called else None
        calls, scope = row["calls_count"], row["scope"]
        given["instruction"].append(instruction.name)
        given["computation"].append(instruction.computation)
        given["trips_count"].append(instruction.known_trip_count)
        given["executions_count"].append(None if pd.isna(calls) else int(calls))
        given["body_count"].append(
            0 if body is None else sum(is_launched(each, launched) for each in body.instructions)
        )
        given["scope"].append(None if pd.isna(scope) else str(scope))
    return _frame(LOOPS, given)


def _kind_of(module: HloModule, instruction: Instruction) -> str:
    kind = collective_kind(module, instruction)
    if kind:
        return kind
    detail = instruction.fusion_kind or instruction.custom_call_target
    return f"{instruction.opcode} {detail}" if detail else instruction.opcode


def _sum_known(values: pd.Series) -> int | None:
    known = values.dropna()
    return int(known.sum()) if len(known) else None


def _as_int(value: object) -> int:
    assert isinstance(value, int)
    return value


def _frame(spec: FrameSpec, given: dict[str, list[object]]) -> pd.DataFrame:
    columns: dict[str, object] = {}
    for column in spec.columns:
        values = given[column.name]
        if column.dtype == "category":
            columns[column.name] = pd.Categorical(values, categories=sorted({str(v) for v in values if v is not None}))
        elif column.dtype == "Int64":
            is_missing = np.array([value is None for value in values], dtype=bool)
            numbers = np.array([0 if value is None else value for value in values], dtype=np.int64)
            columns[column.name] = nullable_int64(numbers, is_missing)
        else:
            columns[column.name] = np.array(values, dtype=np.int64)
    return pd.DataFrame(columns)
