"""What to quote in a report: the versions of rocktools and of what it stands on, read without importing it."""

from __future__ import annotations

import platform
from importlib import metadata

from rocktools import __version__

_REQUIRED = ("click", "numpy", "pandas")
_OPTIONAL = ("pyarrow", "adbc-driver-sqlite")


def version_lines() -> list[str]:
    """One line per part: its name and its version, or that it is not installed."""
    import sqlite3  # the library is a part of the interpreter, and no metadata tells its version

    lines = [f"rocktools {__version__}", f"Python {platform.python_version()}"]
    lines += [f"{name} {_version_of(name)}" for name in _REQUIRED]
    lines.append(f"SQLite {sqlite3.sqlite_version}")
    return lines + [f"{name} {_version_of(name)}" for name in _OPTIONAL]


def _version_of(distribution: str) -> str:
    try:
        return metadata.version(distribution)
    except metadata.PackageNotFoundError:
        return "not installed"
