"""Constants of HLO protos -> arrays, and arrays -> the Python that makes them."""

from __future__ import annotations

import math
import struct
from typing import Any

import numpy as np

from rocktools.hlo.proto_shapes import shape_of
from rocktools.hlo.shapes import Shape
from rocktools.replay.bundled_inputs import numpy_dtype

JAX_DTYPES = {
    "pred": "jnp.bool_", "bf16": "jnp.bfloat16", "f16": "jnp.float16", "f32": "jnp.float32", "f64": "jnp.float64",
    "c64": "jnp.complex64", "c128": "jnp.complex128",
    **{f"s{bits}": f"jnp.int{bits}" for bits in (2, 4, 8, 16, 32, 64)},
    **{f"u{bits}": f"jnp.uint{bits}" for bits in (2, 4, 8, 16, 32, 64)},
    "f8e4m3fn": "jnp.float8_e4m3fn", "f8e5m2": "jnp.float8_e5m2", "f8e4m3fnuz": "jnp.float8_e4m3fnuz",
    "f8e5m2fnuz": "jnp.float8_e5m2fnuz", "f8e4m3b11fnuz": "jnp.float8_e4m3b11fnuz", "f8e4m3": "jnp.float8_e4m3",
    "f8e3m4": "jnp.float8_e3m4", "f8e8m0fnu": "jnp.float8_e8m0fnu", "f4e2m1fn": "jnp.float4_e2m1fn",
}  # fmt: skip
_LISTED_AT_MOST = 64
_BYTES_AT_MOST = 4096
_NUMBERS = {"s32": "<i4", "s64": "<i8", "u32": "<u4", "u64": "<u8", "f32": "<f4", "f64": "<f8"}
_RAW = ("s8", "u8", "s16", "u16", "f16", "bf16", "f8e5m2", "f8e4m3fn", "f8e5m2fnuz", "f8e4m3fnuz")


class NotTranslatable(ValueError):
    """Something that has no form in lax; the message says what."""


def read_literal(literal: Any) -> np.ndarray[Any, Any]:
    """The array in a LiteralProto.

    Raises:
        NotTranslatable: its values are missing, or of a type that is not read.
    """
    shape = shape_of(literal.shape)
    count = math.prod(shape.dimensions)
    flat = _flat_values(literal, shape, count)
    if len(flat) != count:
        raise NotTranslatable(f"a constant of {count} elements has the values of {len(flat)}")
    order = tuple(reversed(shape.minor_to_major))
    stored = flat.reshape([shape.dimensions[each] for each in order])
    return np.ascontiguousarray(np.transpose(stored, np.argsort(order))) if order else stored.reshape(())


def _flat_values(literal: Any, shape: Shape, count: int) -> np.ndarray[Any, Any]:
    dtype = shape.dtype
    if dtype == "pred":
        return np.array(list(literal.preds), dtype=np.bool_)
    if dtype in _NUMBERS:
        return np.array(list(getattr(literal, f"{dtype}s")), dtype=_NUMBERS[dtype])
    if dtype in _RAW:
        held: bytes = getattr(literal, f"{dtype}s")
        width = numpy_dtype(dtype)
        return np.frombuffer(held[: len(held) // width.itemsize * width.itemsize], dtype=width)
    if dtype in ("s4", "u4"):
        return _unpack_halves(getattr(literal, f"{dtype}s"), count, is_signed=dtype == "s4")
    raise NotTranslatable(f"constants of type {dtype} are not read")


def _unpack_halves(held: bytes, count: int, *, is_signed: bool) -> np.ndarray[Any, Any]:
    """Two elements a byte, the first in the lower half."""
    halves = [half for byte in held for half in (byte & 15, byte >> 4)][:count]
    values = [half - 16 if is_signed and half > 7 else half for half in halves]
    return np.array(values).astype(numpy_dtype("s4" if is_signed else "u4"))


def literal_expression(values: np.ndarray[Any, Any], dtype: str) -> str:
    """Python that makes the array.

    Raises:
        NotTranslatable: it is too large to be written into a script.
    """
    made = JAX_DTYPES.get(dtype)
    if made is None:
        raise NotTranslatable(f"jax has no type for {dtype}")
    if values.ndim == 0:
        return f"jnp.array({_number(values, dtype)}, {made})"
    shape = tuple_text(values.shape)
    flat = values.reshape(-1)
    if flat.size and flat.tobytes() == flat[:1].tobytes() * flat.size:
        return f"jnp.full({shape}, {_number(flat[0], dtype)}, {made})"
    if flat.size <= _LISTED_AT_MOST:
        listed = ", ".join(_number(value, dtype) for value in flat)
        return f"jnp.array([{listed}], {made}).reshape({shape})"
    if flat.nbytes > _BYTES_AT_MOST:
        raise NotTranslatable(f"a constant of {flat.size} elements is too large for a script")
    return f'jnp.array(np.frombuffer(bytes.fromhex("{flat.tobytes().hex()}"), {made}).reshape({shape}))'


def tuple_text(values: Any) -> str:
    """`(1, 2)`, `(1,)`, `()`."""
    items = [str(value) for value in values]
    return f"({', '.join(items)}{',' if len(items) == 1 else ''})"


def _number(value: Any, dtype: str) -> str:
    if dtype == "pred":
        return str(bool(value))
    if dtype[0] in "su":
        return str(int(value))
    if dtype[0] == "c":
        return repr(complex(value))
    number = float(value)
    if math.isnan(number):
        return "np.nan"
    if math.isinf(number):
        return "np.inf" if number > 0 else "-np.inf"
    if dtype == "f32":
        number = float(str(struct.unpack("<f", struct.pack("<f", number))[0])) if number else number
        return _shortest_single(number)
    return repr(number)


def _shortest_single(number: float) -> str:
    for digits in (6, 7, 8, 9):
        text = f"{number:.{digits}g}"
        if np.float32(text) == np.float32(number):
            break
    return text if any(mark in text for mark in ".en") else f"{text}.0"
