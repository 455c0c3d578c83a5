"""What the pages of a damaged SQLite file still say, where SQLite itself would give up or guess.

Works on a private copy, never on the user's file. Offsets are those of the SQLite file format (1.3 header, 1.6 b-tree
pages); pages are numbered from 1, as there.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from pathlib import Path
from typing import BinaryIO

from rocktools.sources.rocpd.opening import promised_size_bytes

HEADER_BYTES = 100
LOST = b"\xff"
"""What fills a page that was lost: a byte that no UTF-8 text has and no page of SQLite's begins with."""

_INTERIOR_TABLE = 5
_LEAF_TABLE = 13
_CELLS_AT = 12  # in an interior page, where the pointers to its cells begin
_DEEPEST = 20  # SQLite's own limit


def mark_lost_pages(copy: Path) -> bool:
    """Make pages that were lost unreadable, so that no row is filled up with the zeros that stand in their place.

    The header gets the number of pages that are there, a page that was cut off in the middle goes, and a page of zeros
    (a hole that a copy or a crash left) is filled with `LOST`.

    Returns:
        Whether there are pages of zeros.
    """
    size_bytes = copy.stat().st_size
    with copy.open("r+b") as stream:
        header = stream.read(HEADER_BYTES)
        page_bytes = _page_bytes(header)
        if page_bytes is None or size_bytes < page_bytes:
            return False
        pages_count = size_bytes // page_bytes
        stream.truncate(pages_count * page_bytes)
        promised_bytes = promised_size_bytes(header)
        if promised_bytes is not None and promised_bytes > size_bytes:
            stream.seek(28)
            stream.write(struct.pack(">I", pages_count))
        zeros, has_lost_pages = bytes(page_bytes), False
        for number in range(2, pages_count + 1):
            at = (number - 1) * page_bytes
            stream.seek(at)
            if stream.read(page_bytes) == zeros:
                stream.seek(at)
                stream.write(LOST * page_bytes)
                has_lost_pages = True
    return has_lost_pages


def drop_lost_schema_pages(copy: Path) -> bool:
    """Take pages out of the list of tables that are none of a table's.

    SQLite reads that list from its beginning, and knows no table behind the first page that it cannot read.

    Returns:
        Whether there were such pages.
    """
    has_lost_pages = False
    with copy.open("r+b") as stream:
        page_bytes = _page_bytes(stream.read(HEADER_BYTES))
        if page_bytes is None:
            return False
        level, seen = [1], {1}
        for _ in range(_DEEPEST):
            below: list[int] = []
            for number in level:
                children, _ = _read_interior(stream, number, page_bytes)
                kept = [_is_of_table(stream, child, page_bytes) for child in children]
                below += [child for child, is_kept in zip(children, kept, strict=True) if is_kept and child not in seen]
                if any(kept) and not all(kept):
                    _keep_children(stream, number, page_bytes, kept)
                    has_lost_pages = True
            level = list(dict.fromkeys(below))
            seen.update(level)
    return has_lost_pages


def _is_of_table(stream: BinaryIO, number: int, page_bytes: int) -> bool:
    if number < 2:
        return False
    stream.seek((number - 1) * page_bytes)
    return stream.read(1) in (bytes([_INTERIOR_TABLE]), bytes([_LEAF_TABLE]))


def _keep_children(stream: BinaryIO, number: int, page_bytes: int, kept: Sequence[bool]) -> None:
    """Rewrite an interior page so that only these of its children, at least one, are below it."""
    begin = HEADER_BYTES if number == 1 else 0
    stream.seek((number - 1) * page_bytes)
    page = bytearray(stream.read(page_bytes))
    pointers_at = begin + _CELLS_AT
    pointers = struct.unpack_from(f">{len(kept) - 1}H", page, pointers_at)
    left = [pointer for pointer, is_kept in zip(pointers, kept, strict=False) if is_kept]
    if not kept[-1]:  # the last child has no cell: the one before it takes its place
        last = left.pop()
        page[begin + 8 : begin + 12] = page[last : last + 4]
    page[begin + 3 : begin + 5] = struct.pack(">H", len(left))
    struct.pack_into(f">{len(left)}H", page, pointers_at, *left)
    stream.seek((number - 1) * page_bytes)
    stream.write(page)


def read_separators(copy: Path, root: int) -> list[int]:
    """The largest rowid that each page of a table may hold, ascending, as far as the pages above them can be read.

    Args:
        root: the table's root page, as in sqlite_master.
    """
    separators: set[int] = set()
    seen: set[int] = set()
    with copy.open("rb") as stream:
        page_bytes = _page_bytes(stream.read(HEADER_BYTES))
        if page_bytes is None or root < 1:
            return []
        level = [root]
        for _ in range(_DEEPEST):
            below: list[int] = []
            for number in level:
                children, keys = _read_interior(stream, number, page_bytes)
                below += children
                separators.update(keys)
            seen.update(level)
            level = [number for number in dict.fromkeys(below) if number > 0 and number not in seen]
    return sorted(separators)


def _page_bytes(header: bytes) -> int | None:
    if len(header) < HEADER_BYTES:
        return None
    size_bytes = int.from_bytes(header[16:18], "big")
    size_bytes = 65536 if size_bytes == 1 else size_bytes
    return size_bytes if size_bytes >= 512 else None


def _read_interior(stream: BinaryIO, number: int, page_bytes: int) -> tuple[list[int], list[int]]:
    """Pages below an interior page of a table, and the largest rowids of all but the last; nothing of another page."""
    stream.seek((number - 1) * page_bytes)
    page = stream.read(page_bytes)
    begin = HEADER_BYTES if number == 1 else 0
    if len(page) < page_bytes or page[begin] != _INTERIOR_TABLE:
        return [], []
    cells_count = min(int.from_bytes(page[begin + 3 : begin + 5], "big"), (page_bytes - begin - _CELLS_AT) // 2)
    pointers = struct.unpack_from(f">{cells_count}H", page, begin + _CELLS_AT)
    children = [int.from_bytes(page[at : at + 4], "big") if at + 4 <= page_bytes else 0 for at in pointers]
    children.append(int.from_bytes(page[begin + 8 : begin + 12], "big"))
    return children, [_read_varint(page[at + 4 : at + 13]) for at in pointers]


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
