"""ELF files of 64 bits, little-endian: sections, symbols, notes, and what a shared library needs from others.

Two readers use it: of code objects for AMD GPUs inside serialized executables, and of the ROCm plugin of JAX, whose
missing libraries are to be stood in for. Knows the container and nothing of what is in it.
"""

from __future__ import annotations

import mmap
import struct
from collections.abc import Iterator
from dataclasses import dataclass

from rocktools.errors import DamagedFile, UnknownFormat

Bytes = bytes | mmap.mmap

_MAGIC = b"\x7fELF"
_SECTION = struct.Struct("<IIQQQQIIQQ")
_SYMBOL = struct.Struct("<IBBHQQ")
_NOTE = struct.Struct("<III")
_DYNAMIC = struct.Struct("<QQ")
_SYMTAB, _NOTE_KIND, _DYNAMIC_KIND, _DYNSYM, _VERSIONS, _NEEDED_VERSIONS = 2, 7, 6, 11, 0x6FFFFFFF, 0x6FFFFFFE
_DT_NEEDED, _DT_RUNPATH, _DT_RPATH = 1, 29, 15
_UNDEFINED = 0
_BIND_WEAK = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """One section: its type, where it lies in memory and in the file, and which section its names are in."""

    kind: int
    address: int
    offset: int
    size_bytes: int
    link: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Symbol:
    """One symbol.

    Attributes:
        section: index of the section it is defined in; 0 for one that another library must define.
        address: in memory.
        is_weak: whether it may stay undefined.
        version_index: of its version in the tables of the library; 0 where there are none.
    """

    name: str
    section: int
    address: int
    size_bytes: int
    is_weak: bool
    version_index: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class NeededSymbol:
    """A function or variable that a library takes from another one.

    Attributes:
        version: of the symbol; "" where it has none.
        library: that defines the version; "" where no version says.
    """

    name: str
    version: str
    library: str
    is_weak: bool


class ElfFile:
    """One ELF file in memory; every look at it may raise `DamagedFile`."""

    def __init__(self, content: Bytes, source: str) -> None:
        """Read the table of sections.

        Raises:
            UnknownFormat: it is no ELF file of 64 bits.
            DamagedFile: its table of sections lies outside of it.
        """
        if content[:4] != _MAGIC or len(content) < 64 or content[4] != 2 or content[5] != 1:
            raise UnknownFormat("not-elf", "this is no 64-bit little-endian ELF file", where=source)
        self.content = content
        self.source = source
        (table,) = struct.unpack_from("<Q", content, 40)
        entry_size, count, _ = struct.unpack_from("<HHH", content, 58)
        if count and (entry_size != _SECTION.size or table + count * entry_size > len(content)):
            raise self.torn("its table of sections lies outside of it")
        self.sections = tuple(self._section(table + number * entry_size) for number in range(count))

    def torn(self, what: str) -> DamagedFile:
        """The error to raise about damage in it."""
        return DamagedFile("elf-torn", f"the ELF file is damaged: {what}", where=self.source)

    def symbols(self) -> Iterator[Symbol]:
        """Those of all symbol tables."""
        for section in self.sections:
            if section.kind in (_SYMTAB, _DYNSYM):
                yield from self._symbols_of(section)

    def section_bytes(self, section: Section) -> bytes:
        """The content of a section in the file."""
        return self.slice(section.offset, section.size_bytes)

    def slice(self, offset: int, size_bytes: int) -> bytes:
        """Bytes of the file, all of them there."""
        if offset + size_bytes > len(self.content):
            raise self.torn(f"{size_bytes} bytes at {offset} lie outside of it")
        return bytes(self.content[offset : offset + size_bytes])

    def symbol_bytes(self, symbol: Symbol) -> bytes:
        """What a defined symbol stands for: the machine code of a function."""
        if not 0 < symbol.section < len(self.sections):
            raise self.torn(f"the symbol {symbol.name} is in no section")
        section = self.sections[symbol.section]
        start = symbol.address - section.address
        if start < 0 or start + symbol.size_bytes > section.size_bytes:
            raise self.torn(f"the symbol {symbol.name} lies outside of its section")
        return self.slice(section.offset + start, symbol.size_bytes)

    def notes(self) -> Iterator[tuple[str, int, bytes]]:
        """Owner, type and content of every note."""
        for section in self.sections:
            if section.kind != _NOTE_KIND:
                continue
            position, end = section.offset, section.offset + section.size_bytes
            while position + _NOTE.size <= end:
                name_size, size, kind = _NOTE.unpack(self.slice(position, _NOTE.size))
                name = self.slice(position + _NOTE.size, name_size).rstrip(b"\0")
                start = position + _NOTE.size + (name_size + 3 & ~3)
                yield name.decode("utf-8", "replace"), kind, self.slice(start, size)
                position = start + (size + 3 & ~3)

    def dynamic_texts(self) -> Iterator[tuple[int, str]]:
        """Tag and text of the dynamic entries that name libraries or folders."""
        for section in self.sections:
            if section.kind != _DYNAMIC_KIND:
                continue
            data = self.section_bytes(section)
            for tag, value in _DYNAMIC.iter_unpack(data[: len(data) // _DYNAMIC.size * _DYNAMIC.size]):
                if tag in (_DT_NEEDED, _DT_RUNPATH, _DT_RPATH):
                    yield tag, self._text(section, value)

    def needed_libraries(self) -> tuple[str, ...]:
        """Sonames that the loader looks for, in order."""
        return tuple(text for tag, text in self.dynamic_texts() if tag == _DT_NEEDED)

    def library_folders(self) -> tuple[str, ...]:
        """Folders of its RUNPATH or RPATH, with `$ORIGIN` in them as written."""
        texts = [text for tag, text in self.dynamic_texts() if tag != _DT_NEEDED]
        return tuple(folder for text in texts for folder in text.split(":") if folder)

    def needed_symbols(self) -> list[NeededSymbol]:
        """What it takes from other libraries, each with the library that the symbol's version names."""
        versions = self._needed_versions()
        needed = []
        for section in self.sections:
            if section.kind != _DYNSYM:
                continue
            for symbol in self._symbols_of(section):
                if symbol.section == _UNDEFINED and symbol.name:
                    version, library = versions.get(symbol.version_index, ("", ""))
                    needed.append(
                        NeededSymbol(name=symbol.name, version=version, library=library, is_weak=symbol.is_weak)
                    )
        return needed

    def _section(self, offset: int) -> Section:
        _, kind, _, address, start, size, link, _, _, _ = _SECTION.unpack_from(self.content, offset)
        return Section(kind=kind, address=address, offset=start, size_bytes=size, link=link)

    def _symbols_of(self, section: Section) -> Iterator[Symbol]:
        data = self.section_bytes(section)
        names = self._linked_bytes(section)
        indices = self._version_indices() if section.kind == _DYNSYM else ()
        for number in range(len(data) // _SYMBOL.size):
            name, info, _, index, value, size = _SYMBOL.unpack_from(data, number * _SYMBOL.size)
            end = names.find(b"\0", name)
            yield Symbol(
                name=names[name : end if end >= 0 else len(names)].decode("utf-8", "replace"),
                section=index,
                address=value,
                size_bytes=size,
                is_weak=info >> 4 == _BIND_WEAK,
                version_index=indices[number] & 0x7FFF if number < len(indices) else 0,
            )

    def _linked_bytes(self, section: Section) -> bytes:
        if section.link >= len(self.sections):
            raise self.torn("a section names a table of names that does not exist")
        return self.section_bytes(self.sections[section.link])

    def _text(self, section: Section, start: int) -> str:
        names = self._linked_bytes(section)
        end = names.find(b"\0", start)
        return names[start : end if end >= 0 else len(names)].decode("utf-8", "replace")

    def _version_indices(self) -> tuple[int, ...]:
        for section in self.sections:
            if section.kind == _VERSIONS:
                data = self.section_bytes(section)
                return struct.unpack(f"<{len(data) // 2}H", data[: len(data) // 2 * 2])
        return ()

    def _needed_versions(self) -> dict[int, tuple[str, str]]:
        """Index of a version -> its name and the library that has it."""
        versions = {}
        for section in self.sections:
            if section.kind != _NEEDED_VERSIONS:
                continue
            position = section.offset
            while True:
                _, count, file, first, following = struct.unpack("<HHIII", self.slice(position, 16))
                library = self._text(section, file)
                inner = position + first
                for _ in range(count):
                    _, _, index, name, next_inner = struct.unpack("<IHHII", self.slice(inner, 16))
                    versions[index & 0x7FFF] = (self._text(section, name), library)
                    inner += next_inner
                if not following:
                    break
                position += following
        return versions
