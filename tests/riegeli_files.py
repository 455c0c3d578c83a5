"""Writes riegeli/records files and raw snappy streams, for the tests of what reads them."""

from __future__ import annotations

import struct
from collections.abc import Sequence

MAGIC = bytes.fromhex("83af70d10d884a3f")
_BLOCK_BYTES = 65536


def varint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])


def snappy(data: bytes) -> bytes:
    """Literals of at most 60 bytes: legal, and packed not at all."""
    pieces = [data[start : start + 60] for start in range(0, len(data), 60)]
    return varint(len(data)) + b"".join(bytes([len(piece) - 1 << 2]) + piece for piece in pieces)


def chunk(kind: bytes, data: bytes, records_count: int) -> bytes:
    """A chunk with its header; hashes are zero, since nothing checks them."""
    padding = bytes(max(records_count - len(data), 0))
    header = struct.pack("<QQQQQ", 0, len(data), 0, kind[0] | records_count << 8, 0)
    return header + data + padding


def records_chunk(records: Sequence[bytes], *, is_packed: bool, compression: int | None = None) -> bytes:
    sizes, values = b"".join(varint(len(record)) for record in records), b"".join(records)
    if is_packed:
        sizes, values = (varint(len(part)) + snappy(part) for part in (sizes, values))
    first = (ord("s") if is_packed else 0) if compression is None else compression
    return chunk(b"r", bytes([first]) + varint(len(sizes)) + sizes + values, len(records))


def write_riegeli(chunks: Sequence[bytes]) -> bytes:
    """A file: the signature, then the chunks, with a header of 24 bytes at every 64 KiB."""
    stream = b"".join([chunk(b"s", b"", 0), *chunks])
    out = bytearray()
    position = 0
    while position < len(stream):
        out += (MAGIC if not out else bytes(8)) + bytes(16)
        taken = _BLOCK_BYTES - 24
        out += stream[position : position + taken]
        position += taken
    return bytes(out)
