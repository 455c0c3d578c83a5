"""Traces in JSON among what the user named -> profiles in a folder of ours, which are read in their place."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from rocktools.errors import NothingToRead
from rocktools.findings import Finding
from rocktools.sources.perfetto_json import PerfettoTrace, convert_perfetto_json, host_name_of, is_perfetto_json
from rocktools.workspace.paths import find_sources, unused_label


@dataclass(frozen=True, slots=True, kw_only=True)
class Converted:
    """What was read instead of what.

    Attributes:
        paths: what to open: those that were named, and profiles in the place of traces in JSON.
        originals: profile, resolved -> the trace that it was made of.
        traces: what those traces held.
    """

    paths: tuple[str | Path, ...]
    originals: dict[Path, Path]
    traces: tuple[PerfettoTrace, ...]

    @property
    def findings(self) -> tuple[Finding, ...]:
        """Doubts about the traces."""
        return tuple(finding for trace in self.traces for finding in trace.findings)

    @property
    def is_truncation_suspected(self) -> bool:
        """Whether an exporter seems to have stopped at its limit."""
        return any(trace.is_truncation_suspected for trace in self.traces)


def convert_perfetto_traces(paths: Sequence[str | Path], folder: Path) -> Converted:
    """Profiles of the traces in JSON that were named; of a folder those in it, where it has nothing better.

    Args:
        folder: where profiles are put; it must outlive their reading.

    Raises:
        InputError: a trace that was named cannot be read.
    """
    found: list[str | Path] = []
    originals: dict[Path, Path] = {}
    traces: list[PerfettoTrace] = []
    labels: list[str] = []
    for path in paths:
        chosen = _traces_at(Path(path))
        if not chosen:
            found.append(path)
            continue
        label = unused_label(_label_of(Path(path)), labels)
        labels.append(label)
        place = folder / label
        place.mkdir()
        for number, trace in enumerate(chosen):
            target = place / f"{host_name_of(trace)}_{number}.xplane.pb"
            traces.append(convert_perfetto_json(trace, target))
            originals[target.resolve()] = trace
        found.append(place)
    return Converted(paths=tuple(found), originals=originals, traces=tuple(traces))


def _label_of(path: Path) -> str:
    return path.resolve().name if path.is_dir() else host_name_of(path)


def _traces_at(path: Path) -> list[Path]:
    """The traces in JSON that a path stands for; none where there is a database or a profile."""
    if path.is_file():
        return [path] if is_perfetto_json(path) else []
    if not path.is_dir():
        return []
    try:
        find_sources([path])
    except NothingToRead:
        traces = sorted(each for each in path.rglob("*.json*") if each.is_file() and is_perfetto_json(each))
        # JAX writes the same trace twice into a folder, once for each viewer.
        named = [each for each in traces if not each.name.startswith("perfetto_trace")]
        return named or traces
    return []
