"""Files that may be packed with gzip -> their bytes. Packed is what begins like it, whatever its name."""

from __future__ import annotations

import gzip
import zlib
from pathlib import Path

from rocktools.errors import DamagedFile, InputError

_GZIP_MAGIC = b"\x1f\x8b"


def read_unpacked(path: Path) -> bytes:
    """The content of a file, unpacked where it is packed.

    Raises:
        InputError: the file cannot be read.
        DamagedFile: its gzip stream is damaged or ends too early.
    """
    try:
        content = path.read_bytes()
    except OSError as error:
        raise InputError("unreadable-file", f"cannot read it: {error.strerror}", where=str(path)) from error
    if not content.startswith(_GZIP_MAGIC):
        return content
    try:
        return gzip.decompress(content)
    except (OSError, EOFError, zlib.error) as error:
        raise DamagedFile("gzip-damaged", f"its gzip stream is damaged: {error}", where=str(path)) from error


def read_start(path: Path, size_bytes: int) -> bytes:
    """The first bytes of a file, unpacked; nothing of one that cannot be read."""
    try:
        with path.open("rb") as stream:
            if stream.read(len(_GZIP_MAGIC)) != _GZIP_MAGIC:
                stream.seek(0)
                return stream.read(size_bytes)
        with gzip.open(path) as packed:
            return packed.read(size_bytes)
    except (OSError, EOFError, zlib.error):
        return b""
