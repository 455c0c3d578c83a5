"""The bytes of a profile: a file on a memory map, or what a .gz of one unpacks to."""

from __future__ import annotations

import contextlib
import gzip
import mmap
import stat
import zlib
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from rocktools.errors import DamagedFile, InputError
from rocktools.sources.xspace.wire import Content, WireError

GZIP_MAGIC = b"\x1f\x8b"
# A protocol-buffer message cannot be larger than this, so no profile is; places of texts in it are kept in 32 bits.
LARGEST_BYTES = 2**31 - 1
_PIECE_BYTES = 1 << 22
_MEASURE_AGAIN = "profile fewer steps and export again"


@dataclass(frozen=True, slots=True, eq=False)
class ProfileContent:
    """The bytes, twice: as a sequence and as an array over the same memory.

    Attributes:
        path: the user's file.
        is_unpacked: whether offsets count in what a .gz unpacked to.
    """

    path: Path
    content: Content
    octets: np.ndarray
    is_unpacked: bool

    @property
    def end(self) -> int:
        return len(self.octets)

    def damaged(self, error: WireError, *places: str) -> DamagedFile:
        """The error for the user: file, byte, and the places (plane, line) where it is."""
        unit = "byte of the unpacked content" if self.is_unpacked else "byte"
        where = ", ".join([str(self.path), f"{unit} {error.offset}", *filter(None, places)])
        return DamagedFile(
            "xspace-damaged",
            f"the profile is cut off or damaged: {error.what}",
            where=where,
            hint="copy it again from where it was written; if it is damaged there too, profile again",
        )

    def close(self) -> None:
        """Let the file go; arrays over it that somebody still holds keep it open."""
        if isinstance(self.content, mmap.mmap):
            with contextlib.suppress(BufferError):
                self.content.close()


def open_content(path: Path) -> ProfileContent:
    """The bytes of a file, unpacked if it is a .gz by its first bytes.

    Raises:
        InputError: it is no regular file, cannot be read, or is larger than any profile.
        DamagedFile: it is empty, or the .gz is cut off.
    """
    try:
        if not stat.S_ISREG(path.stat().st_mode):
            raise InputError("not-a-file", "a profile is a file, and this is none", where=str(path))
        with path.open("rb") as stream:
            start = stream.read(len(GZIP_MAGIC))
            if start == GZIP_MAGIC:
                content: Content = _unpack(path)
            elif not start:
                raise DamagedFile("xspace-empty", "the file is empty", where=str(path), hint=_MEASURE_AGAIN)
            else:
                content = mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ)
    except OSError as error:
        raise InputError("unreadable-file", f"it cannot be read: {error.strerror or error}", where=str(path)) from error
    if len(content) > LARGEST_BYTES:
        raise InputError(
            "xspace-too-large",
            f"it holds {len(content)} bytes, and no profile is larger than {LARGEST_BYTES}",
            where=str(path),
            hint=_MEASURE_AGAIN,
        )
    is_unpacked = isinstance(content, bytes)
    return ProfileContent(path, content, np.frombuffer(content, dtype=np.uint8), is_unpacked)


def _unpack(path: Path) -> bytes:
    pieces = []
    size_bytes = 0
    try:
        with gzip.open(path, "rb") as stream:
            while piece := stream.read(_PIECE_BYTES):
                pieces.append(piece)
                size_bytes += len(piece)
                if size_bytes > LARGEST_BYTES:
                    break
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise DamagedFile(
            "xspace-gzip", f"the .gz is cut off or damaged: {error}", where=str(path), hint="copy it again"
        ) from error
    if not size_bytes:
        raise DamagedFile("xspace-empty", "the .gz holds nothing", where=str(path), hint=_MEASURE_AGAIN)
    return b"".join(pieces)
