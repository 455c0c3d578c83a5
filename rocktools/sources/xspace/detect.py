"""Whether a file is a profile of JAX (XSpace), by its content: protocol buffers have no first bytes that say so."""

from __future__ import annotations

import gzip
import zlib
from pathlib import Path

from rocktools.sources.xspace.content import GZIP_MAGIC
from rocktools.sources.xspace.messages import (
    PLANE_EVENT_METADATA,
    PLANE_ID,
    PLANE_LINES,
    PLANE_NAME,
    PLANE_STAT_METADATA,
    PLANE_STATS,
    SPACE_PLANES,
)
from rocktools.sources.xspace.wire import LENGTH, VARINT, WireError, read_varint

_LOOKED_AT_BYTES = 4096
_PLANE_WIRE_TYPES = {
    PLANE_ID: VARINT,
    PLANE_NAME: LENGTH,
    PLANE_LINES: LENGTH,
    PLANE_EVENT_METADATA: LENGTH,
    PLANE_STAT_METADATA: LENGTH,
    PLANE_STATS: LENGTH,
}


def is_xspace(path: Path) -> bool:
    """Whether the file begins as a profile does: with a plane that has a name. A .gz is looked into.

    Damaged profiles may begin well, and what reads them says what is wrong. A file that cannot be read is none.
    """
    try:
        with path.open("rb") as stream:
            start = stream.read(_LOOKED_AT_BYTES)
        if start.startswith(GZIP_MAGIC):
            with gzip.open(path, "rb") as unpacked:
                start = unpacked.read(_LOOKED_AT_BYTES)
    except (OSError, EOFError, zlib.error):
        return False
    return begins_as_xspace(start)


def begins_as_xspace(start: bytes) -> bool:
    """Whether the first bytes of a file are those of a profile; some thousand are enough."""
    try:
        tag, position = read_varint(start, 0, len(start))
        size, position = read_varint(start, position, len(start))
        if tag != SPACE_PLANES << 3 | LENGTH:
            return False
        end = min(position + size, len(start))
        while position < end:
            tag, position = read_varint(start, position, end)
            number, wire_type = tag >> 3, tag & 7
            if _PLANE_WIRE_TYPES.get(number) != wire_type:
                return False
            value, position = read_varint(start, position, end)
            if number == PLANE_NAME:
                return _is_name(start[position : position + value], value)
            if wire_type == LENGTH:
                position += value
    except WireError:
        return False
    return False


def _is_name(raw: bytes, size: int) -> bool:
    try:
        return len(raw) == size > 0 and raw.decode("utf-8").isprintable()
    except UnicodeDecodeError:
        return False
