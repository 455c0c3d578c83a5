"""A riegeli/records file -> its records. XLA writes serialized executables this way when they may outgrow one message.

What is read: simple chunks, as they are or packed with snappy, which is what XLA writes. What else the format has
(transposed chunks, brotli, zstd) is refused by name. Hashes are not checked (HighwayHash, which nothing light has); a
torn file shows in lengths that do not fit. Source: google/riegeli, doc/riegeli_records_file_format.md.
"""

from __future__ import annotations

import struct

from rocktools.errors import DamagedFile, UnsupportedVersion

_BLOCK_BYTES = 65536
_BLOCK_HEADER_BYTES = 24
_CHUNK_HEADER = struct.Struct(
    "<QQQQQ"
)  # hash of the header, data size, hash of the data, type and records, decoded size
# A file begins with a block header of which the hash is known: its other two fields are fixed.
_MAGIC = bytes.fromhex("83af70d10d884a3f")
_COMPRESSIONS = {0: "none", ord("s"): "snappy", ord("b"): "brotli", ord("z"): "zstd"}
_SILENT_CHUNKS = (ord("s"), ord("m"), ord("p"))  # signature, metadata, padding: no records of the writer's


def is_riegeli(content: bytes) -> bool:
    """Whether the bytes begin as such a file does."""
    return content.startswith(_MAGIC)


def read_records(content: bytes, source: str) -> list[bytes]:
    """All records, in order.

    Args:
        content: of the file.
        source: of the bytes, for messages.

    Raises:
        UnsupportedVersion: it uses a part of the format that XLA does not write.
        DamagedFile: it is torn.
    """
    chunks = b"".join(content[i + _BLOCK_HEADER_BYTES : i + _BLOCK_BYTES] for i in range(0, len(content), _BLOCK_BYTES))
    records: list[bytes] = []
    position = 0
    while position < len(chunks):
        if position + _CHUNK_HEADER.size > len(chunks):
            raise _torn(source, "a chunk begins and its header is cut")
        _, size, _, kind_and_count, _ = _CHUNK_HEADER.unpack_from(chunks, position)
        kind, count = kind_and_count & 0xFF, kind_and_count >> 8
        position += _CHUNK_HEADER.size
        data = chunks[position : position + size]
        if len(data) < size:
            raise _torn(source, f"a chunk of {size} bytes ends after {len(data)}")
        if kind == ord("r"):
            records += _records_of(data, count, source)
        elif kind not in _SILENT_CHUNKS:
            raise UnsupportedVersion(
                "riegeli-chunk",
                f"the records file has a chunk of type {chr(kind)!r}, and simple ones are read",
                where=source,
            )
        position += max(size, count)  # padded, so that every record has a position of its own
    return records


def read_varint(data: bytes, position: int, source: str) -> tuple[int, int]:
    """An unsigned LEB128 number, and where it ends.

    Raises:
        DamagedFile: the bytes end in it, or it has more than 64 bits.
    """
    value = shift = 0
    while position < len(data) and shift < 64:
        octet = data[position]
        position += 1
        value |= (octet & 0x7F) << shift
        if octet < 0x80:
            return value, position
        shift += 7
    raise _torn(source, "a number is cut")


def unpack_snappy(packed: bytes, source: str) -> bytes:
    """What a raw snappy stream holds (google/snappy, format_description.txt).

    Raises:
        DamagedFile: it is torn, or its length is another than it says.
    """
    size, position = read_varint(packed, 0, source)
    out = bytearray()
    while position < len(packed) and len(out) <= size:
        tag = packed[position]
        position += 1
        kind = tag & 3
        if kind == 0:
            length = (tag >> 2) + 1
            if length > 60:
                width = length - 60
                length = int.from_bytes(packed[position : position + width], "little") + 1
                position += width
            out += packed[position : position + length]
            position += length
            continue
        if kind == 1:
            length, width, high = (tag >> 2 & 7) + 4, 1, tag >> 5
        else:
            length, width, high = (tag >> 2) + 1, 2 if kind == 2 else 4, 0
        offset = high << 8 | int.from_bytes(packed[position : position + width], "little")
        position += width
        _copy(out, offset, length, source)
    if len(out) != size or position != len(packed):
        raise _torn(source, f"a snappy stream of {size} bytes gave {len(out)}")
    return bytes(out)


def _copy(out: bytearray, offset: int, length: int, source: str) -> None:
    """Append `length` bytes from `offset` bytes back; they may overlap what is being written, and repeat then."""
    start = len(out) - offset
    if offset == 0 or start < 0:
        raise _torn(source, f"a snappy copy reaches {offset} bytes back of {len(out)}")
    piece = bytes(out[start : start + length])
    out += (piece * (length // len(piece) + 1))[:length]


def _records_of(data: bytes, count: int, source: str) -> list[bytes]:
    """The records of a simple chunk: compression, size of the packed lengths, packed lengths, packed values."""
    if not data:
        raise _torn(source, "a chunk of records is empty")
    sizes_size, position = read_varint(data, 1, source)
    sizes = _unpacked(data[position : position + sizes_size], data[0], source)
    values = _unpacked(data[position + sizes_size :], data[0], source)
    records = []
    position = start = 0
    for _ in range(count):
        size, position = read_varint(sizes, position, source)
        if start + size > len(values):
            raise _torn(source, f"a record of {size} bytes begins {len(values) - start} bytes before the end")
        records.append(values[start : start + size])
        start += size
    return records


def _unpacked(data: bytes, compression: int, source: str) -> bytes:
    name = _COMPRESSIONS.get(compression, f"type {compression}")
    if name == "none":
        return data
    if name != "snappy":
        raise UnsupportedVersion(
            "riegeli-compression", f"the records are packed with {name}, and snappy is read", where=source
        )
    size, position = read_varint(data, 0, source)
    unpacked = unpack_snappy(data[position:], source) if data[position:] else b""
    if len(unpacked) != size:
        raise _torn(source, f"{size} bytes were packed, and {len(unpacked)} came out")
    return unpacked


def _torn(source: str, what: str) -> DamagedFile:
    return DamagedFile("riegeli-torn", f"the records file is damaged: {what}", where=source)
