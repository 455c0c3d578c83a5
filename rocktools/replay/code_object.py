"""An AMDGPU code object (an ELF file) -> each kernel's machine code and the resources it was compiled for.

The resources stand in the note NT_AMDGPU_METADATA, as msgpack (LLVM, "User Guide for AMDGPU Backend", code object
metadata). Machine code is what lies under the symbol of the kernel; the descriptor beside it (`<name>.kd`) repeats what
the note says.
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from rocktools.errors import DamagedFile
from rocktools.replay.elf import ElfFile

_METADATA_NOTE = 32
_SIZES = {0xC4: 1, 0xC5: 2, 0xC6: 4, 0xD9: 1, 0xDA: 2, 0xDB: 4, 0xDC: 2, 0xDD: 4, 0xDE: 2, 0xDF: 4}
_NUMBERS = {
    0xCA: ">f", 0xCB: ">d", 0xCC: ">B", 0xCD: ">H", 0xCE: ">I", 0xCF: ">Q", 0xD0: ">b", 0xD1: ">h", 0xD2: ">i",
    0xD3: ">q",
}  # fmt: skip
_CONSTANTS = {0xC0: None, 0xC2: False, 0xC3: True}
_DEPTH_LIMIT = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineCode:
    """What was compiled for one kernel.

    Attributes:
        sha256: of its machine code.
        code_bytes: size of it.
        vgpr_count: vector registers; on gfx90a and later with the accumulation registers in it.
        agpr_count: accumulation registers.
        sgpr_count: scalar registers.
        lds_bytes: shared memory that is known at compile time.
        scratch_bytes: private memory of a work-item.
        vgpr_spills_count, sgpr_spills_count: registers that did not fit.
        kernarg_bytes: size of the arguments.
        wavefront_workitems: work-items that run together.
    """

    sha256: str
    code_bytes: int
    vgpr_count: int | None
    agpr_count: int | None
    sgpr_count: int | None
    lds_bytes: int | None
    scratch_bytes: int | None
    vgpr_spills_count: int | None
    sgpr_spills_count: int | None
    kernarg_bytes: int | None
    wavefront_workitems: int | None


def read_code_object(content: bytes, source: str) -> Mapping[str, MachineCode]:
    """Name of a kernel -> what was compiled for it.

    Args:
        content: the ELF file.
        source: of the bytes, for messages.

    Raises:
        UnknownFormat: it is no ELF file of 64 bits.
        DamagedFile: it is torn.
    """
    elf = ElfFile(content, source)
    described: dict[str, Mapping[str, Any]] = {}
    for _, kind, data in elf.notes():
        if kind == _METADATA_NOTE:
            metadata = unpack_msgpack(data, source)
            kernels = metadata.get("amdhsa.kernels", []) if isinstance(metadata, dict) else []
            described.update({each[".name"]: each for each in kernels if isinstance(each, dict) and ".name" in each})
    symbols = {symbol.name: symbol for symbol in elf.symbols() if symbol.name in described}
    missing = sorted(set(described) - set(symbols))
    if missing:
        raise elf.torn(f"it describes the kernel {missing[0]} and has no code of it")
    return {name: _machine_code(elf.symbol_bytes(symbols[name]), facts) for name, facts in described.items()}


def _machine_code(code: bytes, facts: Mapping[str, Any]) -> MachineCode:
    def number(key: str) -> int | None:
        value = facts.get(key)
        return value if isinstance(value, int) else None

    return MachineCode(
        sha256=hashlib.sha256(code).hexdigest(),
        code_bytes=len(code),
        vgpr_count=number(".vgpr_count"),
        agpr_count=number(".agpr_count"),
        sgpr_count=number(".sgpr_count"),
        lds_bytes=number(".group_segment_fixed_size"),
        scratch_bytes=number(".private_segment_fixed_size"),
        vgpr_spills_count=number(".vgpr_spill_count"),
        sgpr_spills_count=number(".sgpr_spill_count"),
        kernarg_bytes=number(".kernarg_segment_size"),
        wavefront_workitems=number(".wavefront_size"),
    )


def unpack_msgpack(data: bytes, source: str) -> Any:
    """The value that a msgpack text holds (github.com/msgpack/msgpack, spec.md; extension types are not in notes).

    Raises:
        DamagedFile: it is torn.
    """
    try:
        value, _ = _value(data, 0, 0)
    except (struct.error, IndexError, UnicodeDecodeError, TypeError, ValueError) as error:
        raise DamagedFile(
            "code-object-note", f"the metadata of the code object is damaged: {error}", where=source
        ) from error
    return value


def _value(data: bytes, position: int, depth: int) -> tuple[Any, int]:
    tag = data[position]
    position += 1
    if depth > _DEPTH_LIMIT:
        raise ValueError(f"more than {_DEPTH_LIMIT} levels")
    if tag < 0x80:
        return tag, position
    if tag >= 0xE0:
        return tag - 256, position
    if tag in _CONSTANTS:
        return _CONSTANTS[tag], position
    if tag in _NUMBERS:
        (number,) = struct.unpack_from(_NUMBERS[tag], data, position)
        return number, position + struct.calcsize(_NUMBERS[tag])
    if tag in _SIZES:
        width = _SIZES[tag]
        count = int.from_bytes(data[position : position + width], "big")
        position += width
    elif tag < 0xC0:
        count = tag & (0x1F if tag >= 0xA0 else 0x0F)
    else:
        raise ValueError(f"the tag {tag:#x} at byte {position - 1}")
    if 0xC4 <= tag <= 0xC6 or 0xA0 <= tag < 0xC0 or 0xD9 <= tag <= 0xDB:
        piece = data[position : position + count]
        if len(piece) < count:
            raise IndexError(f"a text of {count} bytes ends after {len(piece)}")
        return piece if 0xC4 <= tag <= 0xC6 else piece.decode("utf-8"), position + count
    if tag < 0x90 or tag >= 0xDE:
        return _mapping(data, position, count, depth)
    items = []
    for _ in range(count):
        item, position = _value(data, position, depth + 1)
        items.append(item)
    return items, position


def _mapping(data: bytes, position: int, count: int, depth: int) -> tuple[dict[Any, Any], int]:
    pairs = {}
    for _ in range(count):
        key, position = _value(data, position, depth + 1)
        pairs[key], position = _value(data, position, depth + 1)
    return pairs, position
