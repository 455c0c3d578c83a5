"""The compiled programs that travel with the demo: a name -> the files that XLA dumped, and what the program is.

`scripts/demo_programs` makes the archive from `scripts/demo_train_step.py`. The programs are real; only what is
simulated from them is not.
"""

from __future__ import annotations

import json
import tarfile
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from types import MappingProxyType

from rocktools.errors import ContractError
from rocktools.hlo.proto_fields import hlo_messages

DEVICES_COUNT = 8
"""Devices that every program is compiled for."""

_ARCHIVE = Path(__file__).with_name("programs.tar.xz")
_VERSIONS = "versions.json"
_PROGRAM_ID = 1  # of every program in the archive
_KERNELS = "kernels.csv"


class ProgramName(str, Enum):
    """A program of the archive, in its order."""

    SHORT = "short"
    SMALL_BATCH = "small_batch"
    WIDE_EXPERTS = "wide_experts"
    SPLIT_ATTENTION = "split_attention"
    FULL = "full"

    def __str__(self) -> str:
        return self.value


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgramFacts:
    """What a program does.

    Attributes:
        title: for people.
        layers: scanned layers.
        microsteps: forward and backward passes in one step.
        sequences_per_device: of one microstep.
        intermediate: width of an expert.
        query_parts: parts in which attention is calculated.
    """

    title: str
    layers: int = 4
    microsteps: int = 2
    sequences_per_device: int = 4
    intermediate: int = 16384
    query_parts: int = 1


SEQUENCE_TOKENS = 4096

PROGRAMS: Mapping[ProgramName, ProgramFacts] = MappingProxyType(
    {
        ProgramName.SHORT: ProgramFacts(title="train step with layers of Mixtral-8x22B, 4 of its 56"),
        ProgramName.SMALL_BATCH: ProgramFacts(title="the same with half the sequences", sequences_per_device=2),
        ProgramName.WIDE_EXPERTS: ProgramFacts(title="the same with experts an eighth wider", intermediate=18432),
        ProgramName.SPLIT_ATTENTION: ProgramFacts(title="the same with attention in two parts", query_parts=2),
        ProgramName.FULL: ProgramFacts(title="train step of Mixtral-8x22B, all 56 layers", layers=56),
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class PackedProgram:
    """One program of the archive.

    Attributes:
        name: which one.
        files: what XLA dumped, by name of the file.
        kernels_csv: launch dimensions and registers of its kernels, as `rocktools aot compile` lists them.
        versions: of what compiled it.
    """

    name: ProgramName
    files: Mapping[str, bytes]
    kernels_csv: str
    versions: Mapping[str, str]

    @property
    def facts(self) -> ProgramFacts:
        return PROGRAMS[self.name]

    def write(self, folder: Path, *, program_id: int = 1) -> None:
        """Write the dump into a folder that is there, as that of the program of this id."""
        for name, content in self.files.items():
            is_proto = program_id != _PROGRAM_ID and name.endswith(".hlo.pb")
            target = folder / name.replace(f"module_{_PROGRAM_ID:04d}.", f"module_{program_id:04d}.")
            target.write_bytes(_with_id(content, program_id) if is_proto else content)


def _with_id(proto: bytes, program_id: int) -> bytes:
    message = hlo_messages()["HloProto"]()
    message.ParseFromString(proto)
    message.hlo_module.id = program_id
    content: bytes = message.SerializeToString()
    return content


def read_packed(name: ProgramName) -> PackedProgram:
    """A program of the archive; what stands behind it there is not read.

    Raises:
        ContractError: the installation lacks it.
    """
    files: dict[str, bytes] = {}
    try:
        with tarfile.open(_ARCHIVE, "r|xz") as archive:
            for member in archive:
                folder, _, file = member.name.partition("/")
                if folder == name.value and member.isfile():
                    stream = archive.extractfile(member)
                    files[file] = stream.read() if stream else b""
                elif files and folder != name.value:
                    break
    except (OSError, tarfile.TarError, EOFError) as error:
        raise ContractError("demo-program-missing", f"the demo's programs cannot be read: {error}") from error
    if not files:
        raise ContractError("demo-program-missing", f"the demo's archive lacks the program {name}", where=str(_ARCHIVE))
    versions = json.loads(files.pop(_VERSIONS))
    kernels = files.pop(_KERNELS).decode("utf-8")
    return PackedProgram(name=name, files=MappingProxyType(files), kernels_csv=kernels, versions=versions)
