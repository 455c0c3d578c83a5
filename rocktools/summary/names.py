"""Paths of the machine -> names that mean something elsewhere: below the run, or of the file alone."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from rocktools.findings import Finding
from rocktools.workspace.paths import SourcePath


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownNames:
    """What stands in the document for each path that may be in a message, the longest path first."""

    pairs: tuple[tuple[str, str], ...]

    def in_text(self, text: str) -> str:
        """The text with names in the place of paths."""
        for path, name in self.pairs:
            text = text.replace(path, name)
        return text

    def in_finding(self, finding: Finding) -> Finding:
        """The same doubt, about the same files."""
        return replace(
            finding,
            where=self.in_text(finding.where),
            message=self.in_text(finding.message),
            advice=self.in_text(finding.advice),
        )


def shown_name(source: SourcePath) -> str:
    """Name of a file: below the root of its run, or alone."""
    path = source.path.resolve()
    root = None if source.root is None else source.root.resolve()
    if root is not None and path.is_relative_to(root):
        return f"{source.run}/{path.relative_to(root).as_posix()}"
    return path.name


def build_names(
    sources: Sequence[SourcePath], originals: Mapping[Path, Path], others: Iterable[str | Path]
) -> ShownNames:
    """Names of everything that was read.

    Args:
        originals: profile, resolved -> the trace in JSON that it was made of.
        others: what the user named besides.
    """
    found: dict[str, str] = {}
    for source in sources:
        original = originals.get(source.path.resolve())
        name = shown_name(source) if original is None else original.name
        found.update({str(path): name for path in (source.path, source.path.resolve())})
        if source.root is not None:
            found.update({str(path): source.run for path in (source.root, source.root.resolve())})
    for other in others:
        path = Path(other)
        if path.is_absolute():
            found.setdefault(str(path), path.name)
    # A relative path of one word may be part of any message, and tells nothing about the machine.
    pairs = [(path, name) for path, name in found.items() if "/" in path]
    return ShownNames(pairs=tuple(sorted(pairs, key=lambda pair: (-len(pair[0]), pair[0]))))
