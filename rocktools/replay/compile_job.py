"""The files through which a compilation in a process of its own is asked for and answered.

    <folder>/job.json          plugin, topology, target, how many modules
    <folder>/<n>.module        serialized HloModuleProto
    <folder>/<n>.options       serialized CompileOptionsProto
    <folder>/<n>.started       the worker has begun with it
    <folder>/<n>.executable    what came out; or
    <folder>/<n>.refused       why XLA refused it

Both sides know this module and nothing of each other. A module that was begun and has no answer ended the worker.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path

_JOB = "job.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class CompileJob:
    """What all modules of a job share.

    Attributes:
        plugin: the shared library of the PJRT plugin.
        topology: `1x1x8`: slices, hosts, devices of a host.
        target_configuration: text proto of the device.
        modules_count: how many there are.
    """

    plugin: str
    topology: str
    target_configuration: str
    modules_count: int


@dataclass(frozen=True, slots=True)
class ModuleFiles:
    """The files of one module of a job."""

    folder: Path
    number: int

    @property
    def module(self) -> Path:
        return self._file("module")

    @property
    def options(self) -> Path:
        return self._file("options")

    @property
    def started(self) -> Path:
        return self._file("started")

    @property
    def executable(self) -> Path:
        return self._file("executable")

    @property
    def refused(self) -> Path:
        return self._file("refused")

    @property
    def is_answered(self) -> bool:
        return self.executable.exists() or self.refused.exists()

    @property
    def is_untouched(self) -> bool:
        return not self.is_answered and not self.started.exists()

    def _file(self, kind: str) -> Path:
        return self.folder / f"{self.number:05d}.{kind}"


def write_job(folder: Path, job: CompileJob) -> None:
    """Put the job where the worker finds it."""
    (folder / _JOB).write_text(json.dumps(asdict(job)), encoding="utf-8")


def read_job(folder: Path) -> CompileJob:
    """The job in a folder that `write_job` has written."""
    return CompileJob(**json.loads((folder / _JOB).read_text(encoding="utf-8")))


def write_answer(path: Path, content: bytes) -> None:
    """Write a file that appears when it is whole."""
    partial = path.with_suffix(path.suffix + ".partial")
    partial.write_bytes(content)
    partial.replace(path)
