"""Shapes of HLO values: element type, dimensions, layout, and the bytes they take.

The text form is XLA's: `bf16[4,128]{1,0}`, `(f32[2]{0}, s32[])`, `token[]`.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from rocktools.errors import InputError
from rocktools.hlo.text_scan import UnreadableText, find_closing, split_list

_EIGHT_BIT_FLOATS = (
    *("f8e5m2", "f8e4m3", "f8e4m3fn", "f8e4m3b11fnuz", "f8e5m2fnuz", "f8e4m3fnuz", "f8e3m4", "f8e8m0fnu"),
)
# Bits per element, from XLA's primitive types (xla_data.proto, primitive_util). Tokens and opaque values take none.
DTYPE_BITS = {
    "pred": 8,
    **{f"{kind}{bits}": bits for kind in "su" for bits in (1, 2, 4, 8, 16, 32, 64)},
    "f4e2m1fn": 4,
    "f6e2m3fn": 6,
    "f6e3m2fn": 6,
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
_WITHOUT_ELEMENTS = ("tuple", "token", "opaque")
_PACKED_BITS = re.compile(r"E\((\d{1,3})\)")
_LAYOUT = re.compile(r"((?:\d{1,4}(?:,\d{1,4})*)?)(?::.*)?", re.DOTALL)
# What XLA can count (int64), with room for the bits of an element.
_ELEMENTS_AT_MOST = 2**55
# Tuples within tuples; real ones are three deep. Without an end, a damaged file would overrun the stack.
_DEEPEST = 50
_ARRAY_HEAD = re.compile(r"([a-z][a-z0-9]*)\[((?:\s*(?:<=)?\d{1,18}\s*(?:,|(?=\])))*)\]")
_ARRAY = re.compile(_ARRAY_HEAD.pattern + r"(?:\{[^{}]*\}|(?!\{))")


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """The shape of one HLO value.

    Attributes:
        dtype: XLA's lower-case name; `tuple`, `token`, `opaque`, and `buffer` for a value with an address of its own.
        dimensions: sizes, most major first as written; bounds where they are dynamic. () for scalars and tuples.
        layout: the text between the braces after the dimensions, `1,0` or `1,0:T(8,128)S(5)`; None where not written.
        elements: of a tuple, in order; of a buffer, the one value in it.
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
        order = (self.layout or "").partition(":")[0]
        if not order:
            return tuple(reversed(range(len(self.dimensions))))
        return tuple(int(number) for number in order.split(","))

    @property
    def element_bits(self) -> int:
        """Bits that one element takes in memory: types below a byte take one unless the layout packs them (`E(4)`).

        Raises:
            KeyError: the element type is not in `DTYPE_BITS`.
        """
        packed = _PACKED_BITS.search(self.layout or "")
        return int(packed.group(1)) if packed else (DTYPE_BITS[self.dtype] + 7) // 8 * 8

    @property
    def elements_count(self) -> int:
        """Elements of an array; of a tuple, those of its leaves added up."""
        if self.elements:
            return sum(element.elements_count for element in self.elements)
        return 0 if self.dtype in _WITHOUT_ELEMENTS else math.prod(self.dimensions)

    @property
    def size_bytes(self) -> int:
        """Bytes of the elements, without padding; leaves of a tuple added up, its pointers not.

        Raises:
            KeyError: the element type is not in `DTYPE_BITS`.
        """
        if self.is_tuple or self.elements:
            return sum(element.size_bytes for element in self.elements)
        return (self.elements_count * self.element_bits + 7) // 8

    def leaves(self) -> Iterator[Shape]:
        """The arrays (and tokens) in it, in order; itself where it is one."""
        if not self.is_tuple and not self.elements:
            yield self
        for element in self.elements:
            yield from element.leaves()

    def without_layout(self) -> Shape:
        """The same shape, no layout written anywhere in it."""
        elements = tuple(element.without_layout() for element in self.elements)
        return Shape(dtype=self.dtype, dimensions=self.dimensions, elements=elements, dynamic=self.dynamic)

    def __str__(self) -> str:
        if self.is_tuple or self.elements:
            return f"{'b' if self.dtype == 'buffer' else ''}({', '.join(map(str, self.elements))})"
        sizes = ",".join(f"<={size}" if i in self.dynamic else str(size) for i, size in enumerate(self.dimensions))
        layout = "" if self.layout is None or self.layout == "" else f"{{{self.layout}}}"
        return f"{self.dtype}[{sizes}]{layout}"


def parse_shape(text: str) -> Shape:
    """The shape that is written, in any of XLA's spellings.

    Args:
        text: `bf16[4,<=128]{1,0:T(8,128)S(5)}`, `(f32[2]{0}, /*index=1*/s32[])`, `token[]`, ...; nothing else in it.

    Raises:
        InputError: the text is no shape, or does not end behind it.
    """
    try:
        shape, end = read_shape(text, len(text) - len(text.lstrip()))
        if text[end:].strip():
            raise UnreadableText(f"{text[end:].strip()!r} stands behind it", end)
    except UnreadableText as unreadable:
        what = f"{text!r} is not a shape of HLO: {unreadable.reason}"
        raise InputError("hlo-shape-unreadable", what, where=f"column {unreadable.offset + 1}") from None
    return shape


def read_shape(text: str, start: int) -> tuple[Shape, int]:
    """The shape that begins at `start`, and the offset behind it.

    Raises:
        UnreadableText: no shape begins there.
    """
    end = end_of_shape(text, start)
    return _shape(text[start:end], start, 0), end


def find_shape_fault(dimensions: Sequence[int], layout: str) -> str | None:
    """What is impossible about an array of these sizes and this layout; None where nothing is.

    Args:
        dimensions: as in `Shape`.
        layout: the text between the braces: an order of all dimensions or none, then what follows a colon.
    """
    if min(dimensions, default=0) < 0 or math.prod(dimensions) > _ELEMENTS_AT_MOST:
        return f"no array has the sizes {list(dimensions)}"
    found = _LAYOUT.fullmatch(layout)
    order = found.group(1) if found else "?"
    if order == "?" or (order and sorted(map(int, order.split(","))) != list(range(len(dimensions)))):
        return f"the layout {{{layout}}} does not order {len(dimensions)} dimensions"
    return None


def end_of_shape(text: str, start: int) -> int:
    """The offset behind the shape that begins at `start`; what is inside of it is not checked.

    Raises:
        UnreadableText: no shape begins there.
    """
    if text.startswith("(", start):
        return find_closing(text, start) + 1
    array = _ARRAY.match(text, start)
    if array:
        return array.end()
    if text.startswith("b(", start):  # a buffer: a value with an address of its own (XLA since 2025)
        return find_closing(text, start + 1) + 1
    head = _ARRAY_HEAD.match(text, start)
    if head is None:
        raise UnreadableText("a shape is missing", start)
    if text.startswith("{", head.end()):
        return find_closing(text, head.end()) + 1
    return head.end()


def _shape(text: str, offset: int, depth: int) -> Shape:
    """The shape that is exactly `text`; `offset` is where it stands, for messages."""
    if depth > _DEEPEST:
        raise UnreadableText(f"tuples are nested more than {_DEEPEST} deep", offset)
    if text.startswith("("):
        return Shape(dtype="tuple", elements=_elements(text[1:-1], offset, depth))
    if text.startswith("b("):
        elements = _elements(text[2:-1], offset, depth)
        if len(elements) != 1:
            raise UnreadableText("a buffer holds one value", offset)
        return Shape(dtype="buffer", elements=elements)
    head = _ARRAY_HEAD.match(text)
    assert head is not None
    sizes = [size.strip() for size in head.group(2).split(",") if size.strip()]
    # `?`, a dimension without a bound, is refused: XLA compiles no program for a GPU that has one.
    dimensions = tuple(int(size.removeprefix("<=")) for size in sizes)
    layout = text[head.end() + 1 : -1] if head.end() < len(text) else ""
    fault = find_shape_fault(dimensions, layout)
    if fault:
        raise UnreadableText(fault, offset)
    dynamic = tuple(index for index, size in enumerate(sizes) if size.startswith("<"))
    return Shape(dtype=head.group(1), dimensions=dimensions, layout=layout or None, dynamic=dynamic)


def _elements(text: str, offset: int, depth: int) -> tuple[Shape, ...]:
    found = []
    for part in split_list(text):
        try:
            end = end_of_shape(part, 0)
        except UnreadableText as unreadable:
            raise UnreadableText(unreadable.reason, offset) from None
        if end != len(part):
            raise UnreadableText(f"{part!r} is not one shape", offset)
        found.append(_shape(part, offset, depth + 1))
    return tuple(found)
