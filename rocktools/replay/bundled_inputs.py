"""Values of a replay's inputs, the same on every machine: from raw bits of Philox, or from files of captured operands.

One file, standard library, numpy and ml_dtypes (which JAX brings): it is copied into each bundle and must know nothing
of rocktools. No method of numpy's Generator is used, since their streams may change between versions; the raw bits of a
bit generator may not (NEP 19).
"""

from __future__ import annotations

import hashlib
import json
import math
import pathlib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

__all__ = ["load_input", "make_input", "make_inputs", "numpy_dtype", "unpack_saved"]

_STANDARD = {
    "pred": "bool", "s8": "int8", "s16": "int16", "s32": "int32", "s64": "int64", "u8": "uint8", "u16": "uint16",
    "u32": "uint32", "u64": "uint64", "f16": "float16", "f32": "float32", "f64": "float64", "c64": "complex64",
    "c128": "complex128",
}  # fmt: skip
_OF_ML_DTYPES = {
    "bf16": "bfloat16", "f8e5m2": "float8_e5m2", "f8e4m3fn": "float8_e4m3fn", "f8e4m3b11fnuz": "float8_e4m3b11fnuz",
    "f8e5m2fnuz": "float8_e5m2fnuz", "f8e4m3fnuz": "float8_e4m3fnuz", "f8e4m3": "float8_e4m3", "f8e3m4": "float8_e3m4",
    "f8e8m0fnu": "float8_e8m0fnu", "f4e2m1fn": "float4_e2m1fn", "f6e2m3fn": "float6_e2m3fn",
    "f6e3m2fn": "float6_e3m2fn", "s4": "int4", "u4": "uint4", "s2": "int2", "u2": "uint2",
}  # fmt: skip
# Data repeats after so many elements: a prime, so that no two rows of a power of two are equal. Making gigabytes of
# different values would take minutes and change nothing that a kernel does.
_PERIOD = 4_194_301


def numpy_dtype(dtype: str) -> np.dtype[Any]:
    """numpy's type of one of XLA's.

    Raises:
        TypeError: neither numpy nor the installed ml_dtypes has it.
    """
    if dtype in _STANDARD:
        return np.dtype(_STANDARD[dtype])
    import ml_dtypes

    found = getattr(ml_dtypes, _OF_ML_DTYPES.get(dtype, ""), None)
    if found is None:
        raise TypeError(f"this ml_dtypes has no type for XLA's {dtype}")
    kind: np.dtype[Any] = np.dtype(found)
    return kind


def make_inputs(
    entries: Sequence[Mapping[str, Any]], seed: str, source: str = "random", device: int = 0
) -> list[np.ndarray[Any, Any]]:
    """One array per input, row-major.

    Args:
        entries: `inputs` of spec.json.
        seed: the same seed, the same values.
        source: `random`; `zeros` for data that is all zero, as an experiment; or a folder of captured operands.
        device: number of the device; data differs from device to device, indices and sizes do not.
    """
    if source in ("random", "zeros"):
        return [make_input(entry, seed, is_zero=source == "zeros", device=device) for entry in entries]
    return [load_input(entry, source) for entry in entries]


def make_input(entry: Mapping[str, Any], seed: str, *, is_zero: bool = False, device: int = 0) -> np.ndarray[Any, Any]:
    """The values of one input."""
    dtype, dimensions, role = entry["dtype"], list(entry["dimensions"]), entry["role"]
    count = math.prod(dimensions)
    is_data = role in ("data", "positive", "integer", "predicate")
    key = f"{seed}/{entry['name']}/{device}" if is_data else f"{seed}/{entry['name']}"
    if (is_zero and is_data) or role == "init" or count == 0:
        return np.zeros(dimensions, numpy_dtype(dtype))
    if role == "device-number":
        return np.full(dimensions, device, numpy_dtype(dtype))
    if role == "start":
        return np.full(dimensions, int(entry.get("bound", 0)) // 2, numpy_dtype(dtype))
    if role == "group-sizes":
        values = _group_sizes(key, dimensions, entry.get("bound"))
    elif role == "index":
        values = _indices(key, count, entry)
    elif role == "sort-key":
        values = np.argsort(_bits(key, count), kind="stable")
    elif role == "random-state":
        values = _bits(key, count)
    elif role == "predicate":
        values = np.resize(_bits(key, min(count, _PERIOD)) & np.uint64(1), count)
    elif role == "integer":
        values = np.resize(_bits(key, min(count, _PERIOD)) % np.uint64(7), count)
    else:
        return np.resize(_data(key, min(count, _PERIOD), dtype, is_positive=role == "positive"), count).reshape(
            dimensions
        )
    return values.astype(numpy_dtype(dtype)).reshape(dimensions)


def _bits(key: str, count: int) -> np.ndarray[Any, np.dtype[np.uint64]]:
    number = int.from_bytes(hashlib.sha256(key.encode()).digest()[:16], "little")
    words: Any = np.random.Philox(key=number).random_raw(count)
    return np.asarray(words, dtype=np.uint64)


def _data(key: str, count: int, dtype: str, *, is_positive: bool) -> np.ndarray[Any, Any]:
    if dtype[0] in "su":  # quantised data: every value is as likely as any other
        kind = numpy_dtype(dtype)
        bits = int(dtype[1:])
        words = (_bits(key, count) & np.uint64(2**bits - 1)).astype(np.int64)
        integers: np.ndarray[Any, Any] = (words - 2 ** (bits - 1) if dtype[0] == "s" else words).astype(kind)
        return integers
    values = _nearly_normal(_bits(key, count))
    if is_positive or dtype == "f8e8m0fnu":
        values = np.abs(values) + np.float32(0.0625)
    if dtype in ("c64", "c128"):
        return (values + 1j * values[::-1]).astype(numpy_dtype(dtype))
    return values.astype(numpy_dtype(dtype))


def _nearly_normal(words: np.ndarray[Any, np.dtype[np.uint64]]) -> np.ndarray[Any, np.dtype[np.float32]]:
    """Sums of four uniform numbers, with mean 0 and variance 1: exact integers until the one multiplication."""
    total = np.zeros(len(words), np.int64)
    for shift in (0, 16, 32, 48):
        total += ((words >> np.uint64(shift)) & np.uint64(0xFFFF)).astype(np.int64)
    # Each of the four has variance (65536**2 - 1) / 12; the standard deviation of their sum is 37837.2.
    scaled: np.ndarray[Any, np.dtype[np.float32]] = (total - 2 * 65535).astype(np.float32) * np.float32(1 / 37837.2)
    return scaled


def _indices(key: str, count: int, entry: Mapping[str, Any]) -> np.ndarray[Any, Any]:
    choices = int(entry.get("bound", 0)) + 1
    if entry.get("is_unique"):
        order = np.argsort(_bits(key, max(choices, count)), kind="stable")
        values = order[:count] % choices
    else:
        values = (_bits(key, count) % np.uint64(choices)).astype(np.int64)
    return np.sort(values) if entry.get("is_sorted") else values


def _group_sizes(key: str, dimensions: list[int], bound: int | None) -> np.ndarray[Any, Any]:
    """Rows dealt to the groups one by one, each group as likely as any other."""
    groups = dimensions[-1] if dimensions else 1
    rows = groups if bound is None else bound
    sizes = [
        np.bincount((_bits(f"{key}/{place}", rows) % np.uint64(groups)).astype(np.int64), minlength=groups)
        for place in range(math.prod(dimensions[:-1]))
    ]
    return np.concatenate(sizes)


def load_input(entry: Mapping[str, Any], folder: str) -> np.ndarray[Any, Any]:
    """A captured operand: `<name>.npy`, or the file that operands.json names for the operand's number.

    Raises:
        FileNotFoundError: the folder has none for this input.
        ValueError: it has another shape or type.
    """
    root = pathlib.Path(folder)
    path = root / f"{entry['name']}.npy"
    listing = root / "operands.json"
    if not path.exists() and listing.exists():
        known = {each["operand"]: each for each in json.loads(listing.read_text(encoding="utf-8"))["operands"]}
        for number in entry.get("operands", ()):
            if number in known:
                path = root / known[number]["file"]
                break
    if not path.exists():
        raise FileNotFoundError(f"{folder} has no {entry['name']}.npy, the value of {entry.get('origin', 'an input')}")
    values = unpack_saved(np.load(path, allow_pickle=False), entry["dtype"])
    if list(values.shape) != list(entry["dimensions"]):
        raise ValueError(f"{path} has the shape {list(values.shape)}, the replay needs {list(entry['dimensions'])}")
    return values


def unpack_saved(values: np.ndarray[Any, Any], dtype: str) -> np.ndarray[Any, Any]:
    """An array as it was saved: types that .npy does not know are saved as bytes of the same width.

    Raises:
        ValueError: it is of another type.
    """
    wanted = numpy_dtype(dtype)
    if values.dtype == wanted:
        return values
    if values.dtype.kind in "Vu" and values.dtype.itemsize == wanted.itemsize and dtype in _OF_ML_DTYPES:
        return values.view(wanted)
    raise ValueError(f"the file has values of type {values.dtype}, the replay needs {dtype}")
