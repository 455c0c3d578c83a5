"""What the pages of a damaged SQLite file still say, where SQLite itself would give up or guess.

Works on a private copy, never on the user's file. Offsets are those of the SQLite file format (1.3 header, 1.6 b-tree
pages); pages are numbered from 1, as there.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from rocktools.sources.rocpd.opening import promised_size_bytes

HEADER_BYTES = 100
LOST = b"\xff"
"""What fills a page that was lost: a byte that no UTF-8 text has and no page of SQLite's begins with."""

_INTERIOR_TABLE = b"\x05"
_TABLE_PAGES = (_INTERIOR_TABLE, b"\x0d")
_CELLS_AT = 12  # in an interior page, where the pointers to its cells begin
_DEEPEST = 20  # SQLite's own limit


@dataclass(frozen=True, slots=True)
class _Pages:
    """The pages that are there, of an open file."""

    stream: BinaryIO
    page_bytes: int
    count: int

    def read(self, number: int) -> bytes:
        """A page, or b"" where there is none of that number."""
        if not 1 <= number <= self.count:
            return b""
        self.stream.seek((number - 1) * self.page_bytes)
        return self.stream.read(self.page_bytes)

    def write(self, number: int, content: bytes) -> None:
        self.stream.seek((number - 1) * self.page_bytes)
        self.stream.write(content)


def mark_lost_pages(copy: Path) -> bool:
    """Make pages that were lost unreadable, so that no row is filled up with the zeros that stand in their place.

    The header gets the number of pages that are there, a page that was cut off in the middle goes, and a page of zeros
    (a hole that a copy or a crash left) is filled with `LOST`.

    Returns:
        Whether there are pages of zeros.
    """
    with copy.open("r+b") as stream:
        pages = _open_pages(stream)
        if pages is None:
            return False
        first = pages.read(1)
        promised_bytes, there_bytes = promised_size_bytes(first), pages.count * pages.page_bytes
        stream.truncate(there_bytes)
        if promised_bytes is not None and promised_bytes > there_bytes:
            pages.write(1, first[:28] + struct.pack(">I", pages.count) + first[32:])
        zeros = bytes(pages.page_bytes)
        lost = [number for number in range(2, pages.count + 1) if pages.read(number) == zeros]
        for number in lost:
            pages.write(number, LOST * pages.page_bytes)
    return bool(lost)


def drop_lost_schema_pages(copy: Path) -> bool:
    """Take pages out of the list of tables that are none of a table's.

    SQLite reads that list from its beginning, and knows no table behind the first page that it cannot read.

    Returns:
        Whether there were such pages.
    """
    has_lost_pages = False
    with copy.open("r+b") as stream:
        pages = _open_pages(stream)
        if pages is None:
            return False
        level, seen = [1], {1}
        for _ in range(_DEEPEST):
            below: list[int] = []
            for number in level:
                children, _ = _read_interior(pages, number)
                kept = [child > 1 and pages.read(child)[:1] in _TABLE_PAGES for child in children]
                below += [child for child, is_kept in zip(children, kept, strict=True) if is_kept and child not in seen]
                if any(kept) and not all(kept):
                    pages.write(number, _keep_children(pages.read(number), number, kept))
                    has_lost_pages = True
            level = list(dict.fromkeys(below))
            seen.update(level)
    return has_lost_pages


def read_separators(copy: Path, root: int) -> list[int]:
    """The largest rowid that each page of a table may hold, ascending, as far as the pages above them can be read.

    Args:
        root: the table's root page, as in sqlite_master.
    """
    separators: set[int] = set()
    with copy.open("rb") as stream:
        pages = _open_pages(stream)
        if pages is None:
            return []
        level, seen = [root], {root}
        for _ in range(_DEEPEST):
            below: list[int] = []
            for number in level:
                children, keys = _read_interior(pages, number)
                below += children
                separators.update(keys)
            level = [number for number in dict.fromkeys(below) if number not in seen]
            seen.update(level)
    return sorted(separators)


def _open_pages(stream: BinaryIO) -> _Pages | None:
    """The whole pages of a file; None where it has not one, or does not say how large one is."""
    header = stream.read(HEADER_BYTES)
    page_bytes = int.from_bytes(header[16:18], "big")
    page_bytes = 65536 if page_bytes == 1 else page_bytes
    count = stream.seek(0, 2) // page_bytes if page_bytes >= 512 else 0
    return _Pages(stream, page_bytes, count) if count else None


def _read_interior(pages: _Pages, number: int) -> tuple[list[int], list[int]]:
    """Pages below an interior page of a table, and the largest rowids of all but the last; nothing of another page."""
    page = pages.read(number)
    begin = _begin_of(number)
    if page[begin : begin + 1] != _INTERIOR_TABLE:
        return [], []
    cells_count = min(int.from_bytes(page[begin + 3 : begin + 5], "big"), (len(page) - begin - _CELLS_AT) // 2)
    pointers = struct.unpack_from(f">{cells_count}H", page, begin + _CELLS_AT)
    children = [int.from_bytes(page[at : at + 4], "big") if at + 4 <= len(page) else 0 for at in pointers]
    children.append(int.from_bytes(page[begin + 8 : begin + 12], "big"))
    return children, [_read_varint(page[at + 4 : at + 13]) for at in pointers]


def _keep_children(page: bytes, number: int, kept: Sequence[bool]) -> bytes:
    """An interior page with only these of its children, at least one, below it."""
    begin = _begin_of(number)
    changed = bytearray(page)
    pointers = struct.unpack_from(f">{len(kept) - 1}H", page, begin + _CELLS_AT)
    left = [pointer for pointer, is_kept in zip(pointers, kept, strict=False) if is_kept]
    if not kept[-1]:  # the last child has no cell: the one before it takes its place
        last = left.pop()
        changed[begin + 8 : begin + 12] = page[last : last + 4]
    changed[begin + 3 : begin + 5] = struct.pack(">H", len(left))
    struct.pack_into(f">{len(left)}H", changed, begin + _CELLS_AT, *left)
    return bytes(changed)


def _begin_of(number: int) -> int:
    """Where the b-tree begins in a page: behind the header of the file in the first."""
    return HEADER_BYTES if number == 1 else 0


def _read_varint(content: bytes) -> int:
    """A variable-length integer (1.6): seven bits a byte, eight in the ninth, then two's complement."""
    value = 0
    for position, byte in enumerate(content):
        if position == 8:
            value = value << 8 | byte
            break
        value = value << 7 | byte & 0x7F
        if byte < 0x80:
            break
    return value - 2**64 if value >= 2**63 else value
