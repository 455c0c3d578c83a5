"""Shapes, layouts and literals of HLO protos -> `Shape` and the text XLA prints for them."""

from __future__ import annotations

import math
import struct
from typing import Any

from rocktools.hlo.shapes import Shape, find_shape_fault

# Numbers of xla.PrimitiveType (xla_data.proto).
_DTYPES = {
    1: "pred", 2: "s8", 3: "s16", 4: "s32", 5: "s64", 6: "u8", 7: "u16", 8: "u32", 9: "u64", 10: "f16", 11: "f32",
    12: "f64", 13: "tuple", 14: "opaque", 15: "c64", 16: "bf16", 17: "token", 18: "c128", 19: "f8e5m2",
    20: "f8e4m3fn", 21: "s4", 22: "u4", 23: "f8e4m3b11fnuz", 24: "f8e5m2fnuz", 25: "f8e4m3fnuz", 26: "s2", 27: "u2",
    28: "f8e4m3", 29: "f8e3m4", 30: "s1", 31: "u1", 32: "f4e2m1fn", 33: "f8e8m0fnu", 34: "buffer", 35: "f6e3m2fn",
    36: "f6e2m3fn",
}  # fmt: skip
_UNKNOWN_DTYPE = "unknown"
# XLA prints constants of more elements as `{...}` (HloPrintOptions without print_large_constants).
_ELEMENTS_AT_MOST = 10
_LEFT_OUT = "{...}"
_COMBINED_DIMENSION = -(2**63)


class ProtoContradiction(ValueError):
    """A proto that does not fit itself; the message says what."""


def shape_of(proto: Any) -> Shape:
    """The shape in a ShapeProto.

    Raises:
        ProtoContradiction: sizes or layout are impossible.
    """
    dtype = _DTYPES.get(proto.element_type, _UNKNOWN_DTYPE)
    if dtype in ("tuple", "buffer"):
        return Shape(dtype=dtype, elements=tuple(shape_of(element) for element in proto.tuple_shapes))
    dynamic = tuple(index for index, is_dynamic in enumerate(proto.is_dynamic_dimension) if is_dynamic)
    # Text writes no braces where there is nothing between them (scalars), so that None stands for both.
    layout = _layout_text(proto.layout) if proto.HasField("layout") else ""
    dimensions = tuple(proto.dimensions)
    fault = find_shape_fault(dimensions, layout)
    if fault:
        raise ProtoContradiction(fault)
    return Shape(dtype=dtype, dimensions=dimensions, layout=layout or None, dynamic=dynamic)


def _layout_text(layout: Any) -> str:
    """What stands between the braces behind the dimensions."""
    order = ",".join(map(str, layout.minor_to_major))
    extra = ""
    if layout.tiles:
        extra += "T" + "".join(_tile_text(tile) for tile in layout.tiles)
    if layout.tail_padding_alignment_in_elements not in (0, 1):
        extra += f"L({layout.tail_padding_alignment_in_elements})"
    if layout.element_size_in_bits:
        extra += f"E({layout.element_size_in_bits})"
    if layout.memory_space:
        extra += f"S({layout.memory_space})"
    for split in layout.split_configs:
        extra += f"SC({split.dimension}:{','.join(map(str, split.split_indices))})"
    if layout.dynamic_shape_metadata_prefix_bytes:
        extra += f"M({layout.dynamic_shape_metadata_prefix_bytes})"
    return f"{order}:{extra}" if extra else order


def _tile_text(tile: Any) -> str:
    sizes = ("*" if size == _COMBINED_DIMENSION else str(size) for size in tile.dimensions)
    return f"({','.join(sizes)})"


def literal_text(literal: Any) -> str:
    """The text of a constant; `{...}` for large ones, as XLA prints them, and for element types that are not read."""
    shape = shape_of(literal.shape)
    if shape.is_tuple or math.prod(shape.dimensions) > _ELEMENTS_AT_MOST:
        return _LEFT_OUT
    values = _literal_values(literal, shape)
    if values is None or len(values) != math.prod(shape.dimensions):
        return _LEFT_OUT
    if not shape.dimensions:
        return values[0]
    if shape.dtype == "pred":
        values = ["1" if value == "true" else "0" for value in values]
    return _array_text(_row_major(values, shape), shape.dimensions)


def _row_major(values: list[str], shape: Shape) -> list[str]:
    """The values in the order of indices; literals keep them in the order of their layout."""
    strides: dict[int, int] = {}
    stride = 1
    for dimension in shape.minor_to_major:
        strides[dimension] = stride
        stride *= shape.dimensions[dimension]
    ordered = []
    for position in range(len(values)):
        rest, offset = position, 0
        for dimension in reversed(range(len(shape.dimensions))):
            rest, index = divmod(rest, shape.dimensions[dimension])
            offset += index * strides[dimension]
        ordered.append(values[offset])
    return ordered


def _array_text(values: list[str], dimensions: tuple[int, ...]) -> str:
    if len(dimensions) == 1:
        return f"{{{', '.join(values)}}}"
    size = math.prod(dimensions[1:])
    parts = [values[first * size : (first + 1) * size] for first in range(dimensions[0])]
    texts = [_array_text(part, dimensions[1:]) for part in parts]
    if len(dimensions) == 2 and dimensions[1] > 1:  # rows of matrices have blanks inside their braces, vectors have not
        texts = [f"{{ {text[1:-1]} }}" for text in texts]
    return f"{{ {', '.join(texts)} }}"


def _literal_values(literal: Any, shape: Shape) -> list[str] | None:
    if shape.dtype == "pred":
        return ["true" if value else "false" for value in literal.preds]
    if shape.dtype in ("s32", "s64", "u32", "u64"):
        return [str(value) for value in getattr(literal, f"{shape.dtype}s")]
    if shape.dtype in ("f32", "f64"):
        shortest = _shortest_single if shape.dtype == "f32" else _shortest_double
        return [shortest(value) for value in getattr(literal, f"{shape.dtype}s")]
    raw = {"u8": "B", "s8": "b", "u16": "H", "s16": "h", "f16": "e", "bf16": "H"}.get(shape.dtype)
    if raw is None:
        return None
    held: bytes = getattr(literal, f"{shape.dtype}s")
    if len(held) % struct.calcsize(raw):
        return None
    values = [value for (value,) in struct.iter_unpack(f"<{raw}", held)]
    if shape.dtype == "bf16":
        return [_float_text(struct.unpack("<f", struct.pack("<I", value << 16))[0], 4) for value in values]
    if shape.dtype == "f16":
        return [_float_text(value, 5) for value in values]
    return [str(value) for value in values]


def _float_text(value: float, digits: int) -> str:
    return f"{value:.{digits}g}"


def _shortest_single(value: float) -> str:
    """Six digits where they read back as the same float32, else nine."""
    text = _float_text(value, 6)
    return text if not math.isfinite(value) or _as_single(float(text)) == value else _float_text(value, 9)


def _as_single(value: float) -> float:
    try:
        (single,) = struct.unpack("<f", struct.pack("<f", value))
    except OverflowError:
        return math.inf
    return float(single)


def _shortest_double(value: float) -> str:
    text = _float_text(value, 15)
    return text if float(text) == value else _float_text(value, 17)
