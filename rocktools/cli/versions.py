"""What to quote in a report: the versions of rocktools and of what it stands on, read without importing it."""

from __future__ import annotations

import platform
import sys
from importlib import metadata

from rocktools import __version__

_REQUIRED = ("click", "jinja2", "matplotlib", "numpy", "pandas", "protobuf", "PyYAML", "rich")
# What reads faster or writes more, measures many ranks, and compiles for GPUs that are not here.
_OPTIONAL = ("pyarrow", "adbc-driver-sqlite", "numba", "dask", "distributed", "jax", "jaxlib")
_ABSENT = "not installed"


def version_lines() -> list[str]:
    """One line per part: its name and its version, or that it is not installed."""
    import sqlite3  # the library is a part of the interpreter, and no metadata tells its version

    return [
        f"rocktools {__version__}",
        f"Python {platform.python_version()}",
        f"platform {sys.platform} {platform.machine()}, {' '.join(platform.libc_ver()).strip() or 'libc unknown'}",
        *(f"{name} {_version_of(name)}" for name in _REQUIRED),
        f"SQLite {sqlite3.sqlite_version}",
        *(f"{name} {_version_of(name)}" for name in _OPTIONAL),
        *(_plugins_of_jax() or [f"JAX plugins {_ABSENT}"]),
    ]


def _version_of(distribution: str) -> str:
    try:
        return metadata.version(distribution)
    except metadata.PackageNotFoundError:
        return _ABSENT


def _plugins_of_jax() -> list[str]:
    """Every one that is installed: their names tell the release of ROCm, and there is one for each."""
    found = {entry.dist.name: entry.dist.version for entry in metadata.entry_points(group="jax_plugins") if entry.dist}
    return [f"{name} {version}" for name, version in sorted(found.items())]
