"""Compiled programs -> what the instruction of each kernel does: matrix products, vector work, or only moving data.

What a fusion does is what its computation holds. Matrix products run on the MFMA units, everything else that calculates
on the VALU. A kernel that only transposes, copies or reshapes is data formatting. A kernel without an instruction is
told by its name, and only where XLA's names are plain: `loop_transpose_fusion`, `wrapped_copy`.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from enum import Enum
from typing import Any

import numpy as np
import pandas as pd

from rocktools.frames import Column, FrameSpec, nullable_int64, require_frame
from rocktools.hlo.arithmetic_kinds import find_arithmetic_kinds
from rocktools.hlo.call_graph import walk_fused
from rocktools.hlo.cost_dot import configured_dimensions, parse_dimensions
from rocktools.hlo.module import HloModule, Instruction
from rocktools.hlo.program_summary import collective_kind, is_launched, launched_computations
from rocktools.intervals import union_length_by
from rocktools.timeline.activities import labels_column, time_rows
from rocktools.timeline.grouping import match_rows


class WorkKind(str, Enum):
    """What a kernel does."""

    MATRIX = "matrix"  # on MFMA units
    VECTOR = "vector"  # on the VALU
    FORMATTING = "formatting"  # transposes, copies, reshapes: no arithmetic
    GATHER = "gather"  # rows picked or scattered by index
    CALLBACK = "callback"  # Python on the host
    COMMUNICATION = "communication"
    OTHER = "other"  # a foreign call that says nothing

    def __str__(self) -> str:
        return self.value


MFMA_TILE = 16
"""Rows, columns and depth that one MFMA instruction multiplies at least, in BF16 and FP16 (16x16x16 and up)."""

_FORMATS = frozenset({"transpose", "copy", "copy-start", "reshape", "reverse"})
_MOVES = frozenset({*_FORMATS, "bitcast", "bitcast-convert", "concatenate", "slice", "pad", "convert", "dynamic-slice"})
_NOTHING = frozenset({"parameter", "constant", "tuple", "get-tuple-element", "copy-done"})
_PRODUCTS = frozenset({"dot", "ragged-dot", "convolution"})
_INDEXED = frozenset({"gather", "scatter"})
_CALLBACK = re.compile(r"python_(?:gpu|cpu)?_?callback|python_callback|HostExecute|host_callback")
_MATRIX_CALL = re.compile(r"(?i)cublas|cudnn|gemm|matmul|attn|attention|__triton_gemm")
_FORMATTING_NAME = re.compile(
    r"(?:^|_)(?:(?:loop|input)_(?:transpose|copy)_fusion|wrapped_(?:transpose|copy|reverse))(?:[._]\d+)*$"
)
_PRODUCT_CALLS = ("__cublas$gemm", "__cublas$lt$matmul", "__cublas$lt$matmul$f8")

KERNEL_WORK = FrameSpec(
    name="KERNEL_WORK",
    meaning="One row per launched instruction of a program: what its kernels do.",
    key=("program_id", "instruction"),
    sort=("program_id", "instruction"),
    columns=(
        Column("program_id", "category", "id of the HLO module in decimal, or its name where the source holds no id"),
        Column("instruction", "category", "name of the instruction"),
        Column("work", "category", "matrix, vector, formatting, gather, callback, communication or other"),
        Column("dtype", "category", "format of most of its arithmetic", "it calculates nothing, or no rule counts it"),
        Column("product", "category", "rows x columns x depth of its matrix product", "none, or several"),
        Column("wasted_flop", "Int64", "FLOPs of its product on rows and columns that only pad", "no product"),
    ),
)


def build_kernel_work(programs: Iterable[HloModule]) -> pd.DataFrame:
    """KERNEL_WORK of programs, each once."""
    rows: list[tuple[str, str, str, str | None, str | None, int | None]] = []
    for module in {module.label: module for module in programs}.values():
        launched, kinds = launched_computations(module), find_arithmetic_kinds(module)
        for instruction in module.instructions.values():
            if not is_launched(instruction, launched):
                continue
            inner = list(walk_fused(module, instruction)) or [instruction]
            product = _product_of(module, inner)
            rows.append(
                (
                    module.label,
                    instruction.name,
                    _work_of(module, instruction, inner).value,
                    kinds[instruction.name].dtype if instruction.name in kinds else None,
                    None if product is None else "x".join(map(str, product.logical)),
                    None if product is None else product.wasted_flop,
                )
            )
    rows.sort()
    labels = ("program_id", "instruction", "work", "dtype", "product")
    columns: dict[str, Any] = {name: labels_column([row[place] for row in rows]) for place, name in enumerate(labels)}
    columns["wasted_flop"] = nullable_int64(
        np.array([row[5] or 0 for row in rows], dtype=np.int64), np.array([row[5] is None for row in rows], dtype=bool)
    )
    return require_frame(pd.DataFrame(columns), KERNEL_WORK)


def work_of_rows(rows: pd.DataFrame, kernel_work: pd.DataFrame) -> pd.Series:
    """The kind of work of each row of ATTRIBUTED, as text; missing where neither instruction nor name tells."""
    at = match_rows(rows, kernel_work, ("program_id", "instruction"))
    kinds = np.array([*kernel_work["work"].astype(object), None], dtype=object)[at]
    by_name = {
        name: WorkKind.FORMATTING.value for name in rows["name"].cat.categories if _FORMATTING_NAME.search(str(name))
    }
    named = rows["name"].astype(object).map(by_name)
    is_unlinked = rows["instruction"].isna().to_numpy()
    return pd.Series(np.where(is_unlinked, named, kinds), index=rows.index, dtype=object)


def union_per_step_ns(rows: pd.DataFrame, is_chosen: Any, cells: int) -> float:
    """How long any of the chosen rows ran, mean over devices and steps.

    Args:
        rows: ATTRIBUTED in steps.
        is_chosen: which of them.
        cells: steps, each on each of its devices.
    """
    timed = time_rows(rows, ("run", "device", "step_index"), is_wanted=np.asarray(is_chosen, dtype=np.bool_))
    lengths = union_length_by(timed.start_ns, timed.end_ns, timed.groups.of, len(timed.groups))
    return float(lengths.sum()) / cells


def _work_of(module: HloModule, instruction: Instruction, inner: Sequence[Instruction]) -> WorkKind:
    if collective_kind(module, instruction):
        return WorkKind.COMMUNICATION
    targets = [each.custom_call_target for each in inner if each.opcode == "custom-call"]
    if any(_CALLBACK.search(target) for target in targets):
        return WorkKind.CALLBACK
    opcodes = {each.opcode for each in inner} - _NOTHING
    if opcodes & _PRODUCTS or any(_MATRIX_CALL.search(target) for target in targets):
        return WorkKind.MATRIX
    if targets:
        return WorkKind.OTHER
    if opcodes & _FORMATS and opcodes <= _MOVES:
        return WorkKind.FORMATTING
    return WorkKind.GATHER if opcodes & _INDEXED else WorkKind.VECTOR


class _Product:
    """A product: its own sizes, and those that the MFMA units work on."""

    def __init__(self, logical: tuple[int, int, int], padded: tuple[int, int, int], batch: int) -> None:
        self.logical = logical
        tiles = [math.ceil(size / MFMA_TILE) * MFMA_TILE for size in padded]
        self.wasted_flop = 2 * batch * (math.prod(tiles) - math.prod(logical))


def _product_of(module: HloModule, inner: Sequence[Instruction]) -> _Product | None:
    """The one matrix product among the instructions; None where there is none, several, or sizes are not known."""
    found = [each for each in inner if each.opcode == "dot" or each.custom_call_target in _PRODUCT_CALLS]
    if len(found) != 1 or len(found[0].operands) < 2:
        return None
    product = found[0]
    operands = [module.instructions.get(name) for name in product.operands[:2]]
    if any(each is None or not each.shape.dimensions for each in operands):
        return None
    sides = [each for each in operands if each is not None]
    contracted, batched = _dimensions_of(product)
    padded = [each.shape.dimensions for each in sides]
    logical = [_without_padding(module, each) for each in sides]
    if any(max((*contracted[i], *batched[i]), default=-1) >= len(padded[i]) for i in (0, 1)) or not contracted[0]:
        return None

    def sizes(shapes: Sequence[Sequence[int]]) -> tuple[int, int, int]:
        free = [
            math.prod(size for place, size in enumerate(shapes[i]) if place not in (*contracted[i], *batched[i]))
            for i in (0, 1)
        ]
        return free[0], free[1], math.prod(shapes[0][place] for place in contracted[0])

    return _Product(sizes(logical), sizes(padded), math.prod(padded[0][place] for place in batched[0]))


def _dimensions_of(product: Instruction) -> tuple[tuple[tuple[int, ...], ...], tuple[tuple[int, ...], ...]]:
    """Contracted and batch dimensions of both operands."""
    if product.opcode == "dot":
        texts = product.attributes
        contracted = tuple(parse_dimensions(texts.get(f"{side}_contracting_dims", "")) for side in ("lhs", "rhs"))
        return contracted, tuple(parse_dimensions(texts.get(f"{side}_batch_dims", "")) for side in ("lhs", "rhs"))
    whole = product.backend_config()
    gemm = whole.get("gemm_backend_config", whole)
    numbers = gemm.get("dot_dimension_numbers") if isinstance(gemm, dict) else None
    sides = ("lhs", "rhs")
    contracted = tuple(configured_dimensions(numbers, f"{side}_contracting_dimensions") for side in sides)
    return contracted, tuple(configured_dimensions(numbers, f"{side}_batch_dimensions") for side in sides)


def _without_padding(module: HloModule, operand: Instruction) -> tuple[int, ...]:
    """The sizes of an operand before XLA padded it; its own where it did not."""
    if operand.opcode == "pad" and operand.operands and operand.operands[0] in module.instructions:
        before = module.instructions[operand.operands[0]].shape.dimensions
        return before if len(before) == len(operand.shape.dimensions) else operand.shape.dimensions
    return operand.shape.dimensions
