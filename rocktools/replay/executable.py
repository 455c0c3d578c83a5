"""A serialized XLA:GPU executable -> what it launches, in order, with machine code, registers and launch dimensions.

Sources of such bytes: `compiled.runtime_executable().serialize()` of JAX, an entry of its persistent compilation cache,
or the PJRT plugin itself. What is around the executable differs by version:

    [compile time, 4 bytes, zlib or zstd around all of it]    entries of the compilation cache
    [length, header of IFRT]                                  from JAX, not from the plugin
    ExecutableAndOptionsProto, since 0.11 in records          field 1 is the executable
    GpuExecutableProto, since 0.10 in records                 with thunks; to 0.9 with the code object alone

Knows nothing of the module it was compiled from.
"""

from __future__ import annotations

import hashlib
import importlib
import zlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rocktools.errors import DamagedFile, InputError, MissingExtra, UnknownFormat, UnsupportedVersion
from rocktools.replay.code_object import MachineCode, read_code_object
from rocktools.replay.executable_proto import CONFIGURED_MEMBERS, executable_messages, kind_of
from rocktools.replay.riegeli import is_riegeli, read_records, read_varint

SILENT_KINDS = frozenset(
    {"kWhile", "kConditional", "kAsyncStart", "kAsyncDone", "kCollectiveDone", "kCopyDone", "kPartitionId",
     "kReplicaId", "kGroup", "kDynamicSlice"}
)  # fmt: skip
"""Kinds of thunks that start no work on a device: they order others, or are the end of one."""

_IFRT = b"pjrt_ifrt"
_ELF = b"\x7fELF"
_ZSTD = b"\x28\xb5\x2f\xfd"
_CACHE_TIME_BYTES = 4
_LENGTH_DELIMITED = 2
_DEPTH_LIMIT = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecutableThunk:
    """One step of the executable.

    Attributes:
        thunk_id: unique within it; 0 where the version has none.
        kind: as in thunk_sequence.txt: `kCustomKernel`, `kCublasLtMatmul`, `kAllGather`, ...
        instruction: the HLO instruction it was made for.
        kernel_name: of the kernel it launches; "" for library calls, copies, collectives, loops.
        grid_workgroups: x, y, z; () where it launches no kernel of its own.
        workgroup_workitems: x, y, z; () where it launches no kernel of its own.
        dynamic_lds_bytes: shared memory asked for at launch; None where it launches no kernel of its own.
        code: of that kernel; None where the executable does not hold it.
        configuration_sha256: of what decides which code a library runs (problem, epilogue, algorithm), or how much is
            copied; "" for others.
    """

    thunk_id: int
    kind: str
    instruction: str
    kernel_name: str = ""
    grid_workgroups: tuple[int, ...] = ()
    workgroup_workitems: tuple[int, ...] = ()
    dynamic_lds_bytes: int | None = None
    code: MachineCode | None = None
    configuration_sha256: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuExecutable:
    """A serialized executable.

    Attributes:
        source: the file, for messages.
        module_name: of the compiled module; "" where it does not say.
        architecture: `gfx950:sramecc+:xnack-`; "" where it does not say.
        thunks: in the order of thunk_sequence.txt, nested ones behind what they are nested in; empty up to 0.9.
        kernels: of the code object that all kernels shared up to 0.9, by name.
    """

    source: str
    module_name: str
    architecture: str
    thunks: tuple[ExecutableThunk, ...]
    kernels: Mapping[str, MachineCode] = field(default_factory=dict)

    @property
    def launches(self) -> tuple[ExecutableThunk, ...]:
        """The thunks that launch a kernel of the executable's own."""
        return tuple(thunk for thunk in self.thunks if thunk.kernel_name)

    def thunks_of(self, instruction: str) -> tuple[ExecutableThunk, ...]:
        """What was made for one HLO instruction, in order; several for a sort, none for what launches nothing."""
        return tuple(thunk for thunk in self.thunks if thunk.instruction == instruction)

    def as_thunks(self, names: Iterable[str] | None = None) -> tuple[ExecutableThunk, ...]:
        """Kernels of an executable without thunks, as if they had some, without launch; by name, or all."""
        return tuple(
            ExecutableThunk(thunk_id=0, kind="", instruction="", kernel_name=name, code=self.kernels[name])
            for name in (self.kernels if names is None else names)
        )


def read_executable(path: Path | str) -> GpuExecutable:
    """The serialized executable in a file.

    Raises:
        InputError: there is no such file, or it cannot be opened.
        UnknownFormat: it is none.
        UnsupportedVersion: it is one that is written in another way.
        DamagedFile: it is torn.
        MissingExtra: it is packed with zstd, and nothing here can unpack that.
    """
    path = Path(path)
    try:
        content = path.read_bytes()
    except OSError as error:
        raise InputError("executable-file", f"the file cannot be read: {error.strerror}", where=str(path)) from error
    return parse_executable(content, str(path))


def parse_executable(content: bytes, source: str) -> GpuExecutable:
    """The executable in the bytes.

    Args:
        source: of the bytes, for messages.

    Raises:
        UnknownFormat, UnsupportedVersion, DamagedFile, MissingExtra: as `read_executable`.
    """
    reader = _Reader(source)
    return reader.executable(reader.without_wrappers(content))


class _Reader:
    """The messages, made once for one file, and its name."""

    def __init__(self, source: str) -> None:
        self.source = source
        self.messages = executable_messages()

    def without_wrappers(self, content: bytes) -> bytes:
        """The GpuExecutableProto inside what JAX and PJRT put around it."""
        if not content:
            raise DamagedFile("executable-empty", "the file is empty", where=self.source)
        plain = self._without_ifrt(self._unpacked(content))
        outer = self._parse("ExecutableAndOptions", self._joined(plain))
        inner = list(outer.serialized_executable) or list(outer.older_executable)
        if not inner:
            raise self._unknown()
        return self._joined(inner[0])

    def executable(self, content: bytes) -> GpuExecutable:
        proto = self._parse("Executable", content)
        shared = read_code_object(proto.binary, self.source) if proto.binary.startswith(_ELF) else {}
        thunks = tuple(each for thunk in proto.thunks for each in self._thunks(thunk, shared, 0))
        if not thunks and not shared:
            raise self._unknown()
        return GpuExecutable(
            source=self.source,
            module_name=proto.module_name,
            architecture=proto.capability.rocm.gcn_arch_name,
            thunks=thunks,
            kernels={} if thunks else shared,
        )

    def _unpacked(self, content: bytes) -> bytes:
        """An entry of the compilation cache without its packing and its time; other bytes as they are."""
        if content.startswith(_ZSTD):
            return self._zstd(content)[_CACHE_TIME_BYTES:]
        is_zlib = content[0] == 0x78 and int.from_bytes(content[:2], "big") % 31 == 0 and _IFRT not in content[:256]
        if not is_zlib:
            return content
        try:
            return zlib.decompress(content)[_CACHE_TIME_BYTES:]
        except zlib.error as error:
            raise DamagedFile(
                "executable-torn", f"the cache entry cannot be unpacked: {error}", where=self.source
            ) from error

    def _zstd(self, content: bytes) -> bytes:
        for name in ("compression.zstd", "zstandard"):
            try:
                module = importlib.import_module(name)
            except ImportError:
                continue
            try:
                unpack = module.decompress
                unpacked: bytes = unpack(content)
            except Exception as error:  # each library has errors of its own
                raise DamagedFile(
                    "executable-torn", f"the cache entry cannot be unpacked: {error}", where=self.source
                ) from error
            return unpacked
        raise MissingExtra(
            "missing-zstd",
            f"{self.source} is packed with zstd, which this Python has not",
            hint="pip install zstandard",
        )

    def _without_ifrt(self, content: bytes) -> bytes:
        """The bytes behind the header that JAX writes; its first field names the format."""
        if is_riegeli(content):
            return content
        size, start = read_varint(content, 0, self.source)
        return content[start + size :] if _IFRT in content[start : start + 64] else content

    def _joined(self, content: bytes) -> bytes:
        """One message of the records that a large one was split into, by the manifest in the first of them.

        Parts of a message that are put one behind the other are the message: what a field record holds gets the tag
        of its field in front.
        """
        if not is_riegeli(content):
            return content
        records = read_records(content, self.source)
        if not records:
            raise DamagedFile("executable-torn", "the records file holds no record", where=self.source)
        manifest = self._parse("Manifest", records[0])
        if len(manifest.records) != len(records) - 1:
            what = f"its manifest lists {len(manifest.records)} records, and {len(records) - 1} are there"
            raise DamagedFile("executable-torn", what, where=self.source)
        parts = []
        for how, record in zip(manifest.records, records[1:], strict=True):
            part = record
            if how.WhichOneof("kind") == "field":
                for step in reversed(how.field.path):
                    if step.index or step.key:
                        what = "a record of it is an element of a list, which no version wrote when this was made"
                        raise UnsupportedVersion("executable-split", what, where=self.source)
                    part = _varint(step.field_number << 3 | _LENGTH_DELIMITED) + _varint(len(part)) + part
            parts.append(part)
        return b"".join(parts)

    def _thunks(self, proto: Any, shared: Mapping[str, MachineCode], depth: int) -> Iterator[ExecutableThunk]:
        """A thunk, then what is nested in it."""
        if depth > _DEPTH_LIMIT:
            raise DamagedFile("executable-torn", f"thunks are nested {depth} levels deep", where=self.source)
        member = proto.WhichOneof("impl") or ""
        kind = kind_of(member)
        inner = getattr(proto, member) if member else None
        facts: dict[str, Any] = {"thunk_id": proto.info.thunk_id, "instruction": proto.info.profile_annotation}
        if kind != "kSequential":  # printed as its parts only
            yield ExecutableThunk(kind=kind or "unknown", **facts, **self._launch(member, inner, shared))
        for nested in _nested(kind, inner):
            yield from self._thunks(nested, shared, depth + 1)

    def _launch(self, member: str, inner: Any, shared: Mapping[str, MachineCode]) -> dict[str, Any]:
        kind = kind_of(member)
        if kind == "kKernel":
            name, code = inner.kernel_name, shared.get(inner.kernel_name)
            grid, workgroup, lds_bytes = inner.launch.grid, inner.launch.workgroup, inner.shmem_bytes
        elif kind == "kCustomKernel":
            spec = inner.kernel
            symbol = spec.loader.kernel_name or spec.name
            content = spec.loader.in_memory.content
            own = read_code_object(content, self.source) if content.startswith(_ELF) else shared
            name, code = spec.name or symbol, own.get(symbol)
            grid, workgroup, lds_bytes = spec.grid, spec.workgroup, spec.shmem_bytes
        else:
            return {"configuration_sha256": _digest(inner)} if member in CONFIGURED_MEMBERS else {}
        return {
            "kernel_name": name,
            "grid_workgroups": _sizes(grid),
            "workgroup_workitems": _sizes(workgroup),
            "dynamic_lds_bytes": lds_bytes,
            "code": code,
        }

    def _parse(self, message: str, content: bytes) -> Any:
        from google.protobuf.message import DecodeError

        try:
            return self.messages[message].FromString(content)
        except DecodeError as error:
            raise self._unknown() from error

    def _unknown(self) -> UnknownFormat:
        return UnknownFormat(
            "not-an-executable",
            "this is no serialized executable of XLA for GPUs, or it is cut",
            where=self.source,
            hint="rocktools aot compile writes one, and compiled.runtime_executable().serialize() of JAX does",
        )


def _nested(kind: str, inner: Any) -> list[Any]:
    """The thunks inside of one, in the order in which XLA prints them."""
    if kind in ("kSequential", "kGroup"):
        return list(inner.thunks)
    if kind == "kWhile":
        return [*inner.condition.thunks, *inner.body.thunks]
    if kind == "kConditional":
        return [thunk for branch in inner.branches for thunk in branch.thunks]
    if kind == "kAsyncStart":
        return list(inner.thunks.thunks)
    return list(inner.embedded.thunks) if kind == "kDynamicSlice" else []


def _sizes(dim3: Any) -> tuple[int, ...]:
    """x, y, z: the message has them one level down, under a field that depends on what is counted."""
    sizes = dim3.inner if dim3.HasField("inner") else dim3.other_inner
    return (sizes.x, sizes.y, sizes.z)


def _digest(inner: Any) -> str:
    """Of the fields that decide what is run; others (buffers) are unknown to the message, and left out."""
    known = type(inner)()
    known.CopyFrom(inner)
    known.DiscardUnknownFields()
    return hashlib.sha256(known.SerializeToString(deterministic=True)).hexdigest()


def _varint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)
