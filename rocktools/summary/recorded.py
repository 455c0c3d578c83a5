"""The manifests of the runs behind some files -> what captures recorded of host, tools and job."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rocktools.errors import InputError
from rocktools.rundir import Manifest, PassRecord, read_manifest
from rocktools.workspace.paths import SourcePath


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedRun:
    """One run directory.

    Attributes:
        label: of the run, as in tables.
        root: the folder.
        manifest: what it says.
    """

    label: str
    root: Path
    manifest: Manifest

    @property
    def source(self) -> str:
        """What facts name as their origin."""
        return f"{self.label}/manifest.json"

    @property
    def job_argv(self) -> tuple[str, ...]:
        """Command line of the job: what stands behind `--` in that of the tool; () where it is not told."""
        for argv in (self.trace_argv, self.manifest.argv):
            if "--" in argv:
                return tuple(argv[argv.index("--") + 1 :])
        return ()

    @property
    def trace_argv(self) -> tuple[str, ...]:
        """Command line of the pass that times come from, redacted; () where there is none."""
        record = self.trace_pass
        return () if record is None else record.argv

    @property
    def trace_pass(self) -> PassRecord | None:
        """The last verified attempt at a trace, else the last attempt at anything; None where nothing was captured."""
        traces = [each for each in self.manifest.passes if each.kind == "trace"]
        verified = [each for each in traces if each.is_verified]
        for found in (verified, traces, list(self.manifest.passes)):
            if found:
                return found[-1]
        return None

    def fact(self, *names: str) -> Any:
        """A member of the manifest's facts, names from the outermost; None where there is none."""
        found: Any = self.manifest.facts
        for name in names:
            found = found.get(name) if isinstance(found, Mapping) else None
        return found

    def variable(self, name: str) -> str | None:
        """A variable of the job's environment, as the capture set or saw it; None where none is recorded."""
        record = self.trace_pass
        added = {} if record is None else record.environment_added
        value = added.get(name, self.fact("environment", name))
        return value if isinstance(value, str) else None


def read_recorded_runs(sources: Sequence[SourcePath]) -> tuple[RecordedRun, ...]:
    """The run directories that files lie in and whose manifest can be read, each once."""
    return tuple(_recorded(sources))


def _recorded(sources: Sequence[SourcePath]) -> Iterator[RecordedRun]:
    roots = {source.root.resolve(): source for source in sources if source.root is not None}
    for root, source in roots.items():
        try:
            yield RecordedRun(label=source.run, root=root, manifest=read_manifest(root))
        except InputError:  # a folder of files is read all the same; what is wrong with it, opening has told
            continue
