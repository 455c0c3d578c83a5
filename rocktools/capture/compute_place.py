"""Names and folders that every rocprof-compute takes as they are, and where its results come to lie."""

from __future__ import annotations

import re
from pathlib import Path

from rocktools.errors import UsageError

_SLUG = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*")
_PLACEHOLDER = re.compile(r"%(?:hostname|gpumodel|rank|env\{[^}]*\})%")


def workload_place(folder: Path, slug: str) -> Path:
    """Where the results of a workload lie, one folder deeper."""
    return folder / "workloads" / slug


def require_place(folder: Path, slug: str) -> None:
    require_path(folder)
    require_slug(slug)


def require_slug(slug: str) -> None:
    if not _SLUG.fullmatch(slug) or ".." in slug:
        raise UsageError(
            "compute-bad-name",
            f"{slug!r} is no name for a workload",
            hint="letters, digits, `_`, `-` and single dots, and no slash",
        )


def require_path(path: Path) -> None:
    """Refuse what the tool would refuse, after it has emptied the folder, or would take for something else."""
    text = str(path)
    if not path.is_absolute() or ".." in text or _PLACEHOLDER.search(text) or "\n" in text:
        raise UsageError(
            "compute-bad-folder",
            "rocprof-compute needs an absolute path without `..` and without %hostname%, %gpumodel%, %rank%, %env{}%",
            where=text,
        )
