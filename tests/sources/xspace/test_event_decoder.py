"""Both decoders of events give what protobuf's own parser gives, and refuse what it refuses."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from xspace_messages import field, fixed32, message_classes, varint

from rocktools.sources.xspace import event_decoder, event_decoder_numba
from rocktools.sources.xspace.event_block import LENGTH_SHIFT, OFFSET_MASK, Decoder, EventBlock
from rocktools.sources.xspace.event_decoder import NumpyDecoder
from rocktools.sources.xspace.event_decoder_numba import CompiledDecoder, compile_decoder, decode_octets, spread_rows
from rocktools.sources.xspace.wire import WireError

# The compiled functions as Python: the same code without the compiler.
DECODERS = {"numpy": NumpyDecoder(), "loop": CompiledDecoder(decode_octets, spread_rows)}
VALUE_FIELDS = ("", "", "double_value", "uint64_value", "int64_value", "str_value", "bytes_value", "ref_value")

INT64 = st.integers(-(2**63), 2**63 - 1)
NUMBERS = st.one_of(st.integers(0, 300), INT64, st.integers(2**63, 2**64 - 1))
UNKNOWN = st.one_of(
    st.builds(field, st.integers(8, 2**29 - 1), st.one_of(NUMBERS, st.binary(max_size=20))),
    st.builds(field, st.integers(16, 40), st.floats(allow_nan=False)),
    st.builds(fixed32, st.integers(8, 20), st.integers(0, 2**32 - 1)),
)
# Known numbers with another wire type: protobuf takes them for unknown fields, packed numbers among them.
MISTYPED_IN_STAT = st.one_of(
    st.builds(field, st.sampled_from([1, 3, 4, 7]), st.binary(max_size=12)),
    st.builds(field, st.sampled_from([2, 5, 6]), NUMBERS),
    st.builds(fixed32, st.integers(1, 7), st.integers(0, 2**32 - 1)),
)
MISTYPED_IN_EVENT = st.one_of(
    st.builds(field, st.sampled_from([1, 2, 3, 5]), st.binary(max_size=12)),
    st.builds(field, st.just(4), NUMBERS),
    st.builds(field, st.integers(1, 5), st.floats(allow_nan=False)),
)
STAT = st.lists(
    st.one_of(
        st.builds(field, st.just(1), NUMBERS),
        st.builds(field, st.just(2), st.floats()),
        st.builds(field, st.sampled_from([3, 4, 7]), NUMBERS),
        st.builds(field, st.sampled_from([5, 6]), st.binary(max_size=150)),
        MISTYPED_IN_STAT,
        UNKNOWN,
    ),
    max_size=4,
).map(b"".join)
EVENT = st.lists(
    st.one_of(
        st.builds(field, st.sampled_from([1, 2, 3, 5]), NUMBERS),
        st.builds(field, st.just(4), STAT),
        MISTYPED_IN_EVENT,
        UNKNOWN,
    ),
    max_size=8,
).map(b"".join)
LINE = st.lists(st.one_of(st.builds(field, st.just(4), EVENT), st.builds(field, st.just(1), NUMBERS), UNKNOWN)).map(
    b"".join
)


def decode(decoder: Decoder, content: bytes, start: int = 0) -> list[tuple[Any, ...]]:
    """Every event as a plain tuple, its statistics included."""
    octets = np.frombuffer(content, dtype=np.uint8)
    position = start
    events: list[tuple[Any, ...]] = []
    while position < len(content):
        block, stop = decoder.decode_block(content, octets, position, len(content), has_stats=True)
        assert stop > position
        position = stop
        events += list(_events(block, content))
    return events


def _events(block: EventBlock, content: bytes) -> Iterator[tuple[Any, ...]]:
    assert block.stat_event.dtype == np.int32
    assert (np.diff(block.stat_event) >= 0).all()
    stats: list[list[tuple[Any, ...]]] = [[] for _ in range(len(block))]
    for event, stat_id, kind, bits in zip(
        block.stat_event.tolist(),
        block.stat_id.tolist(),
        block.stat_kind.tolist(),
        block.stat_bits.tolist(),
        strict=True,
    ):
        stats[event].append((stat_id, VALUE_FIELDS[kind], _value(kind, bits, content)))
    for row in range(len(block)):
        yield (
            int(block.metadata_id[row]),
            int(block.offset_ps[row]),
            int(block.duration_ps[row]),
            int(block.occurrences[row]),
            stats[row],
        )


def _value(kind: int, bits: int, content: bytes) -> Any:
    if kind in (5, 6):
        start = bits & OFFSET_MASK
        return content[start : start + (bits >> LENGTH_SHIFT)]
    if kind == 2:
        return struct.pack("<q", bits)  # NaN is not equal to itself
    return bits % 2**64 if kind in (3, 7) else bits


def parse(content: bytes) -> list[tuple[Any, ...]]:
    """The same by protobuf."""
    line = message_classes()["XLine"]()
    line.ParseFromString(content)
    events = []
    for event in line.events:
        stats = []
        for stat in event.stats:
            which = stat.WhichOneof("value") or ""
            value = getattr(stat, which) if which else 0
            stats.append((stat.metadata_id, which, struct.pack("<d", value) if which == "double_value" else value))
        occurrences = event.num_occurrences if event.WhichOneof("data") == "num_occurrences" else -1
        events.append((event.metadata_id, event.offset_ps, event.duration_ps, occurrences, stats))
    return events


@pytest.mark.parametrize("name", DECODERS)
@given(content=LINE)
@settings(max_examples=150)
def test_any_fields_in_any_order_are_read_as_protobuf_reads_them(name: str, content: bytes) -> None:
    assert decode(DECODERS[name], content) == parse(content)


@given(
    content=LINE, cut=st.floats(0, 1), flips=st.lists(st.tuples(st.floats(0, 0.999), st.integers(1, 255)), max_size=3)
)
@settings(max_examples=150)
def test_damaged_bytes_are_refused_or_read_as_protobuf_reads_them(
    content: bytes, cut: float, flips: list[tuple[float, int]]
) -> None:
    damaged = bytearray(content[: round(len(content) * cut)])
    for place, change in flips:
        if damaged:
            damaged[int(len(damaged) * place)] ^= change
    outcomes = [outcome(decoder, bytes(damaged)) for decoder in DECODERS.values()]
    assert outcomes[0] == outcomes[1]
    if outcomes[0] is not None:
        assert outcomes[0] == parse(bytes(damaged))


def outcome(decoder: Decoder, content: bytes) -> list[tuple[Any, ...]] | None:
    """The events; None where the bytes are refused."""
    try:
        return decode(decoder, content)
    except WireError:
        return None


@pytest.mark.parametrize("name", DECODERS)
def test_every_prefix_of_an_event_is_refused(name: str) -> None:
    stats = field(4, field(1, 3) + field(2, 1.5)) + field(4, field(1, 3) + field(5, b"text"))
    event = field(4, field(1, 300) + field(2, -1) + stats + fixed32(9, 7))
    assert decode(DECODERS[name], event) == parse(event)
    for length in range(1, len(event)):
        with pytest.raises(WireError):
            decode(DECODERS[name], event[:length])


@pytest.mark.parametrize("name", DECODERS)
@pytest.mark.parametrize(
    "inside, what",
    [
        (field(4, varint(1 << 3 | 3) + varint(1 << 3 | 4)), "wire type"),
        (field(4, field(4, varint(1 << 3 | 3) + varint(1 << 3 | 4))), "wire type"),
        (field(4, b"\x00\x01"), "no such field number"),
        (field(4, varint(2**35 | 8) + b"\x01"), "no such field number"),
        (field(4, b"\x08" + b"\xff" * 10 + b"\x01"), "longer than ten bytes"),
        (field(4, b"\xff" * 10 + b"\x01"), "longer than ten bytes"),
        (field(4, b"\x08\x80") + field(4, b""), "cut off"),
        (field(4, b"\x22\x05\x08\x01") + field(4, b""), "claims more bytes"),
        (field(4, varint(5 << 3 | 2) + varint(2**63)) + field(4, b""), "claims more bytes"),
        (field(4, field(4, varint(2 << 3 | 1) + b"1234567")) + field(4, b"12345678"), "claims more bytes"),
    ],
)
def test_what_reaches_beyond_its_message_is_refused_with_the_reason(name: str, inside: bytes, what: str) -> None:
    good = field(4, field(1, 1))
    with pytest.raises(WireError, match=what):
        decode(DECODERS[name], good + inside + good)


@pytest.mark.parametrize("name", DECODERS)
def test_numbers_may_be_longer_than_they_need_to_be(name: str) -> None:
    event = b"\x22" + b"\x87\x00" + b"\x88\x80\x00" + b"\x85\x80\x80\x00"
    assert decode(DECODERS[name], event) == [(5, 0, 0, -1, [])]
    assert parse(event) == [(5, 0, 0, -1, [])]


@pytest.mark.parametrize("name", DECODERS)
def test_blocks_end_between_events_and_add_up_to_the_line(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (event_decoder, event_decoder_numba):
        monkeypatch.setattr(module, "BLOCK_BYTES", 40)
    # The third is larger than a block, and has more statistics than a block of that size has room for.
    content = b"".join(
        field(4, field(1, number) + field(4, b"") * (500 if number == 3 else number % 3)) for number in range(1, 40)
    )
    events = decode(DECODERS[name], content)
    assert events == parse(content)
    assert len(events) == 39


def test_statistics_are_stepped_over_where_nobody_wants_them() -> None:
    content = field(4, field(1, 7) + field(4, field(1, 3) + field(4, 5)) + field(3, 9)) * 3
    octets = np.frombuffer(content, dtype=np.uint8)
    for decoder in DECODERS.values():
        block, stop = decoder.decode_block(content, octets, 0, len(content), has_stats=False)
        assert stop == len(content)
        assert block.metadata_id.tolist() == [7, 7, 7]
        assert block.duration_ps.tolist() == [9, 9, 9]
        assert len(block.stat_id) == 0


@given(
    stats=st.lists(
        st.tuples(st.integers(0, 5), st.sampled_from([-(2**40), 1, 2, 3, 2**40]), st.integers(0, 7), INT64), max_size=30
    ),
    wanted=st.one_of(st.none(), st.sets(st.sampled_from([1, 3, 9]))),
)
def test_statistics_are_spread_over_events_and_the_last_one_holds(
    stats: list[tuple[int, int, int, int]], wanted: set[int] | None
) -> None:
    stats = sorted(stats, key=lambda row: row[0])
    zeros = np.zeros(6, dtype=np.int64)
    block = EventBlock(
        metadata_id=zeros,
        offset_ps=zeros,
        duration_ps=zeros,
        occurrences=zeros - 1,
        stat_event=np.array([row[0] for row in stats], dtype=np.int32),
        stat_id=np.array([row[1] for row in stats], dtype=np.int64),
        stat_kind=np.array([row[2] for row in stats], dtype=np.int8),
        stat_bits=np.array([row[3] for row in stats], dtype=np.int64),
    )
    expected: dict[int, dict[int, tuple[int, int]]] = {}
    for event, stat_id, kind, bits in stats:
        if wanted is None or stat_id in wanted:
            expected.setdefault(stat_id, {})[event] = (kind, bits)
    for decoder in DECODERS.values():
        found = decoder.spread_stats(block, wanted)
        assert found.keys() == expected.keys()
        for stat_id, (kinds, bits) in found.items():
            rows = [expected[stat_id].get(event, (0, 0)) for event in range(6)]
            assert list(zip(kinds.tolist(), bits.tolist(), strict=True)) == rows


def test_the_compiled_decoder_gives_the_same() -> None:
    pytest.importorskip("numba")
    compiled = compile_decoder()
    stats = b"".join(
        field(4, field(1, number) + value)
        for number, value in enumerate(
            [field(2, -0.5), field(3, 2**64 - 1), field(4, -3), field(5, b"abc"), field(6, b""), field(7, 300)], start=1
        )
    )
    events = [field(4, field(1, number) + field(2, 2**50) + field(3, -1) + stats) for number in (1, 200, 2**62)]
    content = field(1, 5) + b"".join(events) + field(4, field(5, 7)) + fixed32(30, 1) + field(4, b"") + UNKNOWN_TEXT
    assert decode(compiled, content) == parse(content)
    octets = np.frombuffer(content, dtype=np.uint8)
    block, _ = compiled.decode_block(content, octets, 0, len(content), has_stats=True)
    ours, theirs = compiled.spread_stats(block, None), NumpyDecoder().spread_stats(block, None)
    assert ours.keys() == theirs.keys() == {1, 2, 3, 4, 5, 6}
    for stat_id in ours:
        for one, other in zip(ours[stat_id], theirs[stat_id], strict=True):
            assert one.tolist() == other.tolist()
    for damaged, what in (
        (content[:-1], "claims more bytes"),
        (content + b"\x22\x02\x08\x80", "cut off"),
        (content + field(4, b"\x0b"), "wire type"),
        (content + field(4, b"\x08" + b"\xff" * 11), "longer than ten"),
        (content + field(4, b"\x00\x00"), "no such field"),
    ):
        with pytest.raises(WireError, match=what):
            decode(compiled, damaged)


UNKNOWN_TEXT = field(11, b"a display name")
