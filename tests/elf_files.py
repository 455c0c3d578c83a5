"""Writes small code objects: ELF files with the sections that the reader of code objects looks at."""

from __future__ import annotations

import struct
from collections.abc import Mapping
from typing import Any

_HEADER_BYTES = 64


def pack(value: Any) -> bytes:
    """msgpack, as far as the metadata of kernels needs it."""
    if isinstance(value, bool):
        return b"\xc3" if value else b"\xc2"
    if isinstance(value, int):
        return struct.pack(">Bi", 0xD2, value) if value < 0 or value > 127 else bytes([value])
    if isinstance(value, str):
        return struct.pack(">BB", 0xD9, len(value.encode())) + value.encode()
    if isinstance(value, list):
        return struct.pack(">BH", 0xDC, len(value)) + b"".join(pack(each) for each in value)
    assert isinstance(value, dict)
    pairs = b"".join(pack(key) + pack(each) for key, each in value.items())
    return struct.pack(">BH", 0xDE, len(value)) + pairs


def write_code_object(kernels: Mapping[str, tuple[bytes, Mapping[str, int]]], *, text_address: int = 0x1000) -> bytes:
    """A code object of kernels: name -> machine code, and metadata such as `.vgpr_count`."""
    names, symbols, text = b"\0", [bytes(24)], b""
    for name, (code, _) in kernels.items():
        symbols.append(struct.pack("<IBBHQQ", len(names), 0x12, 0, 1, text_address + len(text), len(code)))
        names += name.encode() + b"\0"
        text += code
    metadata = pack({"amdhsa.kernels": [{".name": name, **facts} for name, (_, facts) in kernels.items()]})
    note = struct.pack("<III", 7, len(metadata), 32) + b"AMDGPU\0\0" + metadata + bytes(-len(metadata) % 4)
    contents = [(1, text_address, text, 0), (2, 0, b"".join(symbols), 3), (3, 0, names, 0), (7, 0, note, 0)]
    body, sections = b"", [bytes(64)]
    for kind, address, content, link in contents:
        offset = _HEADER_BYTES + len(body)
        sections.append(struct.pack("<IIQQQQIIQQ", 0, kind, 0, address, offset, len(content), link, 0, 0, 0))
        body += content
    ident = b"\x7fELF\x02\x01\x01\x40" + bytes(8)
    table = _HEADER_BYTES + len(body)
    header = ident + struct.pack("<HHIQQQIHHHHHH", 3, 224, 1, 0, 0, table, 0, 64, 56, 0, 64, len(sections), 0)
    return header + body + b"".join(sections)
