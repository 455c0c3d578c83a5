"""Large simulated profiles of JAX, for benchmarks: the bytes of millions of events made with numpy, in seconds.

Eight GPUs that run one program, and for each dispatch the host call that launched it: as a profile of ROCm has them,
with seven statistics each. Equal shapes give equal bytes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import numpy as np

from rocktools.demo.xspace_writer import (
    HOST_PLANE,
    MI355X_STATS,
    PlaneRecord,
    SpaceRecord,
    build_plane,
    build_xspace,
    environment_plane,
)

_LONGEST_VARINT_BYTES = 10
_PLANES_TAG, _LINES_TAG, _EVENTS_TAG, _STATS_TAG = 0x0A, 0x1A, 0x22, 0x22
_EVENT_ID_TAG, _OFFSET_TAG, _DURATION_TAG = 0x08, 0x10, 0x18
_STAT_ID_TAG, _UINT64_TAG, _INT64_TAG, _REF_TAG = 0x08, 0x18, 0x20, 0x38
_LINE_ID_TAG, _LINE_NAME_TAG, _LINE_TIMESTAMP_TAG = 0x08, 0x12, 0x18

_TIMESTAMP_NS = 9_715_872_534
_PROGRAM_ID = 17
_AGENT_HANDLE = 47_645
_PIECE_EVENTS = 100_000
_PS_PER_NS = 1000

_STATS = (
    "correlation_id", "kernel_details", "tf_op", "name", "hlo_op", "hlo_module", "program_id", "device_id",
)  # fmt: skip
_STAT_KEYS = {name: key for key, name in enumerate(_STATS, start=1)}
_FIRST_TEXT_KEY = 20
_CALLS = ("hipModuleLaunchKernel", "hipExtModuleLaunchKernel", "hipLaunchKernel")


@dataclass(frozen=True, slots=True, kw_only=True)
class BulkShape:
    """What a large profile is made of.

    Attributes:
        dispatches_count: on all GPUs together; each has a host call beside it.
        gpus_count: planes of devices.
        instructions_count: of the program; each dispatch is of one of them.
        seed: of the durations.
    """

    dispatches_count: int
    gpus_count: int = 8
    instructions_count: int = 150
    seed: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class BulkTotals:
    """What is in a large profile, for those who read it."""

    events_count: int
    stats_count: int
    sum_ps: int
    device_sum_ps: int


def write_bulk_xspace(path: Path, shape: BulkShape) -> BulkTotals:
    """Write a large profile; what is in it."""
    texts = _Texts(shape.instructions_count)
    device_ps = host_ps = 0
    threads = []
    with path.open("wb") as stream:
        for ordinal in range(shape.gpus_count):
            count = shape.dispatches_count // shape.gpus_count + (ordinal < shape.dispatches_count % shape.gpus_count)
            dispatches = _Dispatches(count, ordinal, shape)
            device_ps += int(dispatches.duration_ps.sum())
            host_ps += int(dispatches.call_ps.sum())
            line = [_line_head(2, "Stream #2"), *dispatches.device_events(texts)]
            _write_plane(stream, _device_plane(ordinal, texts), [line])
            threads.append(
                [_line_head(1000 + ordinal, f"Host Threads/{1000 + ordinal}"), *dispatches.host_events(texts)]
            )
        _write_plane(stream, _host_plane(texts), threads)
        stream.write(build_xspace(SpaceRecord(planes=[environment_plane()])))
    return BulkTotals(
        events_count=2 * shape.dispatches_count,
        stats_count=2 * 7 * shape.dispatches_count,
        sum_ps=device_ps + host_ps,
        device_sum_ps=device_ps,
    )


class _Texts:
    """Names and texts of the program with their keys."""

    def __init__(self, instructions_count: int) -> None:
        numbers = range(instructions_count)
        self.kernels = {f"loop_fusion_{number}.kd": number + 1 for number in numbers}
        self.calls = {name: key for key, name in enumerate(_CALLS, start=1)}
        self.stat_keys: dict[str, int] = dict(_STAT_KEYS)
        self.tf_op = self._keys(["XlaModule:"])
        self.hlo_module = self._keys(["jit_train_step"])
        self.hlo_op = self._keys([f"loop_fusion.{number}" for number in numbers])
        # A layer's dispatches share a scope, and many instructions a geometry.
        self.name = self._keys([f"jit(train_step)/jvp(layer_{number})/dot_general" for number in range(56)])
        self.details = self._keys(
            [f" grid:{2**number},1,1 block:256,1,1 private_mem:0 group_mem:8192 occ_pct:0" for number in range(16)]
        )

    def _keys(self, texts: Sequence[str]) -> np.ndarray:
        first = max(_FIRST_TEXT_KEY, max(self.stat_keys.values()) + 1)
        self.stat_keys.update({text: first + number for number, text in enumerate(texts)})
        return np.arange(first, first + len(texts), dtype=np.uint64)


class _Dispatches:
    """The dispatches of one GPU and the calls that launched them."""

    def __init__(self, count: int, ordinal: int, shape: BulkShape) -> None:
        rng = np.random.default_rng([shape.seed, ordinal])
        self.instruction = np.arange(count) % shape.instructions_count
        # Microseconds mostly, with a long tail; whole nanoseconds, as ROCm records them.
        self.duration_ps = (rng.lognormal(9.5, 1.2, count).astype(np.int64) + 800) * _PS_PER_NS
        gap_ps = rng.integers(200, 3000, count) * _PS_PER_NS
        self.start_ps = np.cumsum(self.duration_ps + gap_ps) - self.duration_ps
        self.call_ps = rng.integers(2000, 20_000, count) * _PS_PER_NS
        self.correlation_id = np.arange(count) * shape.gpus_count + ordinal + 1

    def device_events(self, texts: _Texts) -> Iterator[bytes]:
        """Bytes of the events of the stream."""
        for piece in self._pieces():
            stats = {
                "correlation_id": (_UINT64_TAG, self.correlation_id[piece]),
                "kernel_details": (_REF_TAG, texts.details[self.instruction[piece] % len(texts.details)]),
                **self._annotation(texts, piece),
            }
            yield _events(self.instruction[piece] + 1, self.start_ps[piece], self.duration_ps[piece], stats)

    def host_events(self, texts: _Texts) -> Iterator[bytes]:
        """Bytes of the events of the launching thread; a call ends before its dispatch starts."""
        for piece in self._pieces():
            stats = {
                "device_id": (_UINT64_TAG, np.full(len(self.instruction[piece]), _AGENT_HANDLE)),
                "correlation_id": (_UINT64_TAG, self.correlation_id[piece]),
                **self._annotation(texts, piece),
            }
            yield _events(
                self.instruction[piece] % len(_CALLS) + 1,
                np.maximum(self.start_ps[piece] - self.call_ps[piece], 0),
                self.call_ps[piece],
                stats,
            )

    def _annotation(self, texts: _Texts, piece: slice) -> dict[str, tuple[int, np.ndarray]]:
        instruction = self.instruction[piece]
        alike = np.zeros_like(instruction)
        return {
            "tf_op": (_REF_TAG, texts.tf_op[alike]),
            "name": (_REF_TAG, texts.name[instruction % len(texts.name)]),
            "hlo_op": (_REF_TAG, texts.hlo_op[instruction]),
            "hlo_module": (_REF_TAG, texts.hlo_module[alike]),
            "program_id": (_INT64_TAG, alike + _PROGRAM_ID),
        }

    def _pieces(self) -> Iterator[slice]:
        for start in range(0, len(self.instruction), _PIECE_EVENTS):
            yield slice(start, start + _PIECE_EVENTS)


@dataclass(frozen=True, slots=True, eq=False)
class _Column:
    """Some bytes for each row: `octets[row, :lengths[row]]`."""

    octets: np.ndarray
    lengths: np.ndarray


def _events(
    metadata_id: np.ndarray,
    offset_ps: np.ndarray,
    duration_ps: np.ndarray,
    stats: Mapping[str, tuple[int, np.ndarray]],
) -> bytes:
    """Fields `events` of XLine, one for each row; a statistic is its value's tag and its values."""
    columns = [
        _tagged(_EVENT_ID_TAG, metadata_id),
        _tagged(_OFFSET_TAG, offset_ps),
        _tagged(_DURATION_TAG, duration_ps),
    ]
    for name, (tag, values) in stats.items():
        value = _tagged(tag, values)
        identity = _tagged(_STAT_ID_TAG, np.full(len(values), _STAT_KEYS[name]))
        columns += [_tagged(_STATS_TAG, identity.lengths + value.lengths), identity, value]
    size = np.add.reduce([column.lengths for column in columns])
    return _interleave([_tagged(_EVENTS_TAG, size), *columns])


def _tagged(tag: int, values: np.ndarray) -> _Column:
    """A one-byte tag and a varint for each row."""
    octets = np.zeros((len(values), 1 + _LONGEST_VARINT_BYTES), dtype=np.uint8)
    octets[:, 0] = tag
    lengths = np.ones(len(values), dtype=np.int64)
    left = values.astype(np.uint64)
    is_open = np.ones(len(values), dtype=np.bool_)
    for place in range(1, _LONGEST_VARINT_BYTES + 1):
        more = left >> np.uint64(7)
        octets[:, place] = (left & np.uint64(0x7F)) | np.where(more > 0, 0x80, 0).astype(np.uint64)
        lengths += is_open
        is_open = more > 0
        if not is_open.any():
            break
        left = more
    return _Column(octets, lengths)


def _interleave(columns: Sequence[_Column]) -> bytes:
    """Row by row, the bytes of all columns one behind the other."""
    sizes = np.add.reduce([column.lengths for column in columns])
    position = np.cumsum(sizes) - sizes
    octets = np.zeros(int(sizes.sum()), dtype=np.uint8)
    for column in columns:
        for place in range(int(column.lengths.max(initial=0))):
            rows = np.flatnonzero(column.lengths > place)
            octets[position[rows] + place] = column.octets[rows, place]
        position = position + column.lengths
    return octets.tobytes()


def _device_plane(ordinal: int, texts: _Texts) -> PlaneRecord:
    return PlaneRecord(
        name=f"/device:GPU:{ordinal}",
        id=ordinal,
        stats=MI355X_STATS,
        event_keys=texts.kernels,
        stat_keys=texts.stat_keys,
    )


def _host_plane(texts: _Texts) -> PlaneRecord:
    return PlaneRecord(name=HOST_PLANE, event_keys=texts.calls, stat_keys=texts.stat_keys)


def _line_head(line_id: int, name: str) -> bytes:
    encoded = name.encode()
    return b"".join(
        [
            _field(_LINE_ID_TAG, line_id),
            _field(_LINE_NAME_TAG, len(encoded)),
            encoded,
            _field(_LINE_TIMESTAMP_TAG, _TIMESTAMP_NS),
        ]
    )


def _write_plane(stream: BinaryIO, plane: PlaneRecord, lines: Sequence[Sequence[bytes]]) -> None:
    """One XSpace.planes: the record, and lines whose bytes are given in pieces."""
    record = build_plane(plane)
    sizes = [sum(map(len, pieces)) for pieces in lines]
    heads = [_field(_LINES_TAG, size) for size in sizes]
    stream.write(_field(_PLANES_TAG, len(record) + sum(sizes) + sum(map(len, heads))))
    stream.write(record)
    for head, pieces in zip(heads, lines, strict=True):
        stream.write(head)
        stream.writelines(pieces)


def _field(tag: int, value: int) -> bytes:
    """A one-byte tag and a varint."""
    column = _tagged(tag, np.array([value], dtype=np.uint64))
    return column.octets[0, : int(column.lengths[0])].tobytes()
