"""Shapes of HLO values: element type, dimensions, layout, and the bytes they take.

The text form is XLA's: `bf16[4,128]{1,0}`, `(f32[2]{0}, s32[])`, `token[]`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

_EIGHT_BIT_FLOATS = (
    *("f8e5m2", "f8e4m3", "f8e4m3fn", "f8e4m3b11fnuz", "f8e5m2fnuz", "f8e4m3fnuz", "f8e3m4", "f8e8m0fnu"),
)
# Bits per element, from XLA's primitive types (xla_data.proto, primitive_util). Tokens and opaque values take none.
DTYPE_BITS = {
    "pred": 8,
    **{f"{kind}{bits}": bits for kind in "su" for bits in (1, 2, 4, 8, 16, 32, 64)},
    "f4e2m1fn": 4,
    **dict.fromkeys(_EIGHT_BIT_FLOATS, 8),
    "f16": 16,
    "bf16": 16,
    "f32": 32,
    "f64": 64,
    "c64": 64,
    "c128": 128,
    "token": 0,
    "opaque": 0,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """The shape of one HLO value.

    Attributes:
        dtype: XLA's lower-case name, `tuple` for tuples, `token`, `opaque`.
        dimensions: sizes, most major first as written; bounds where they are dynamic. () for scalars and tuples.
        layout: the text between the braces after the dimensions, `1,0` or `1,0:T(8,128)S(5)`; None where not written.
        elements: of a tuple, in order.
        dynamic: which dimensions are only bounded (`f32[<=8]`), by index.
    """

    dtype: str
    dimensions: tuple[int, ...] = ()
    layout: str | None = None
    elements: tuple[Shape, ...] = ()
    dynamic: tuple[int, ...] = ()

    @property
    def is_tuple(self) -> bool:
        return self.dtype == "tuple"

    @property
    def minor_to_major(self) -> tuple[int, ...]:
        """Dimension numbers, fastest-varying first; the default layout where none is written."""
        if self.layout is None:
            return tuple(reversed(range(len(self.dimensions))))
        order = self.layout.partition(":")[0]
        return tuple(int(number) for number in order.split(",") if number)

    @property
    def elements_count(self) -> int:
        """Elements of an array; of a tuple, those of its leaves added up."""
        if self.is_tuple:
            return sum(element.elements_count for element in self.elements)
        return 0 if self.dtype in ("token", "opaque") else math.prod(self.dimensions)

    @property
    def size_bytes(self) -> int:
        """Bytes of the elements, packed and without padding; leaves of a tuple added up, its pointers not.

        Raises:
            KeyError: the element type is not in `DTYPE_BITS`.
        """
        if self.is_tuple:
            return sum(element.size_bytes for element in self.elements)
        return (self.elements_count * DTYPE_BITS[self.dtype] + 7) // 8

    def leaves(self) -> Iterator[Shape]:
        """The arrays (and tokens) in it, in order; itself where it is no tuple."""
        if not self.is_tuple:
            yield self
        for element in self.elements:
            yield from element.leaves()

    def without_layout(self) -> Shape:
        """The same shape, no layout written anywhere in it."""
        elements = tuple(element.without_layout() for element in self.elements)
        return Shape(dtype=self.dtype, dimensions=self.dimensions, elements=elements, dynamic=self.dynamic)

    def __str__(self) -> str:
        if self.is_tuple:
            return f"({', '.join(map(str, self.elements))})"
        sizes = ",".join(f"<={size}" if i in self.dynamic else str(size) for i, size in enumerate(self.dimensions))
        layout = "" if self.layout is None or self.layout == "" else f"{{{self.layout}}}"
        return f"{self.dtype}[{sizes}]{layout}"
