"""Records files and snappy streams, against writers of our own and pyarrow's snappy."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st
from riegeli_files import chunk, records_chunk, varint, write_riegeli

from rocktools.errors import DamagedFile, InputError, UnsupportedVersion
from rocktools.replay.riegeli import is_riegeli, read_records, unpack_snappy

RECORDS = st.lists(st.binary(max_size=80), max_size=12)


@given(first=RECORDS, second=RECORDS, is_packed=st.booleans())
def test_records_come_back_in_order(first, second, is_packed):
    content = write_riegeli([records_chunk(first, is_packed=is_packed), records_chunk(second, is_packed=False)])
    assert is_riegeli(content)
    assert read_records(content, "made") == [*first, *second]


def test_records_reach_over_block_headers():
    records = [bytes([number]) * 50_000 for number in range(5)]
    assert read_records(write_riegeli([records_chunk(records, is_packed=True)]), "made") == records


def test_empty_records_take_the_room_of_their_positions():
    """A chunk is at least as long as its number of records, so the next one begins later."""
    content = write_riegeli([records_chunk([b""] * 40, is_packed=True), records_chunk([b"next"], is_packed=False)])
    assert read_records(content, "made") == [*[b""] * 40, b"next"]


def test_padding_and_metadata_hold_no_records():
    content = write_riegeli(
        [chunk(b"m", b"about", 0), chunk(b"p", bytes(30), 0), records_chunk([b"x"], is_packed=False)]
    )
    assert read_records(content, "made") == [b"x"]


@pytest.mark.parametrize(
    "made, what",
    [
        (chunk(b"t", b"transposed", 3), "type 't'"),
        (records_chunk([b"abc"], is_packed=False, compression=ord("b")), "brotli"),
        (records_chunk([b"abc"], is_packed=False, compression=ord("z")), "zstd"),
    ],
)
def test_parts_that_xla_does_not_write_are_refused_by_name(made, what):
    with pytest.raises(UnsupportedVersion, match=what):
        read_records(write_riegeli([made]), "made")


@given(records=RECORDS, data=st.data())
def test_every_prefix_ends_in_records_or_an_error(records, data):
    content = write_riegeli([records_chunk(records, is_packed=True)])
    size = data.draw(st.integers(0, len(content)))
    try:
        read = read_records(content[:size], "cut")
    except InputError:
        return
    assert read == records[: len(read)]


@given(data=st.lists(st.sampled_from([b"abcd", b"x", bytes(70), b"abcdefgh" * 9]), max_size=60).map(b"".join))
def test_snappy_of_pyarrow_is_unpacked(data):
    pyarrow = pytest.importorskip("pyarrow")
    packed = pyarrow.Codec("snappy").compress(data, asbytes=True)
    assert unpack_snappy(packed, "made") == data


def test_copy_may_overlap_what_it_writes():
    # The literal "ab", then ten bytes from two bytes back.
    packed = varint(12) + bytes([1 << 2]) + b"ab" + bytes([10 - 1 << 2 | 2, 2, 0])
    assert unpack_snappy(packed, "made") == b"ab" * 6


@pytest.mark.parametrize(
    "packed",
    [
        varint(5) + bytes([1 << 2]) + b"ab",  # shorter than it says
        varint(1) + bytes([1 << 2]) + b"ab",  # longer
        varint(9) + bytes([0 << 2]) + b"a" + bytes([4 << 2 | 2, 9, 0]),  # reaches back behind the beginning
        varint(9) + bytes([0 << 2]) + b"a" + bytes([7 << 2 | 2, 0, 0]),  # from no bytes back
        b"\xff\xff",
    ],
)
def test_torn_snappy_is_told(packed):
    with pytest.raises(DamagedFile):
        unpack_snappy(packed, "torn")


@given(data=st.binary(max_size=60))
def test_snappy_of_anything_ends_in_bytes_or_an_error(data):
    with contextlib.suppress(DamagedFile):
        unpack_snappy(data, "anything")
