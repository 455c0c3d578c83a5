"""The table of fields against the description of the same messages that XLA carries in its library."""

from __future__ import annotations

import mmap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from google.protobuf.descriptor_pb2 import DescriptorProto, FileDescriptorProto
from hlo_oracle import require_xla

from rocktools.hlo.proto_fields import hlo_messages

# Fields that were in messages of XLA before 2026 and that files of that time have.
OLDER = {("CollectiveDeviceListProto", "iota_replica_group_list")}


def find_description(library: mmap.mmap, name: str) -> Any:
    """The FileDescriptorProto of a .proto file in a library that was compiled with it; None where it is not there."""
    key = b"\n" + bytes([len(name)]) + name.encode()
    start = library.find(key)
    while start >= 0:
        found = FileDescriptorProto.FromString(bytes(library[start : end_of_message(library, start)]))
        if found.message_type:
            return found
        start = library.find(key, start + 1)
    return None


def end_of_message(data: mmap.mmap, position: int) -> int:
    """Behind the last field that can be one of a FileDescriptorProto: numbers to 14, all lengths but 10, 11 and 14."""

    def varint(at: int) -> tuple[int, int]:
        value = shift = 0
        while True:
            byte = data[at]
            at, value, shift = at + 1, value | (byte & 127) << shift, shift + 7
            if byte < 128:
                return value, at

    while True:
        tag, behind = varint(position)
        number, wire_type = tag >> 3, tag & 7
        if number not in {1, 2, 3, 4, 5, 6, 7, 8, 9, 12} or wire_type != 2:
            return position
        size, behind = varint(behind)
        position = behind + size


@pytest.fixture(scope="module")
def described() -> dict[str, Any]:
    """XLA's messages by name: HloInstructionProto, HloInstructionProto.SliceDimensions, ..."""
    folder = Path(require_xla().__file__).parent
    messages: dict[str, Any] = {}
    for path in sorted(folder.glob("*.so*")):
        with path.open("rb") as stream, mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ) as library:
            for name in ("xla/service/hlo.proto", "xla/xla_data.proto"):
                found = find_description(library, name)
                if found is not None:
                    messages.update(named_messages(found.message_type, ""))
    if not messages:
        pytest.skip("this jaxlib does not carry the descriptions of XLA's messages")
    return messages


def named_messages(messages: Any, prefix: str) -> Iterator[tuple[str, Any]]:
    for message in messages:
        yield prefix + message.name, message
        yield from named_messages(message.nested_type, f"{prefix}{message.name}.")


def test_every_field_has_the_number_and_the_type_of_xla(described):
    checked: set[str] = set()
    waiting = [(hlo_messages()["HloProto"].DESCRIPTOR, "HloProto")]
    while waiting:
        ours, name = waiting.pop()
        if name in checked:
            continue
        checked.add(name)
        theirs = {field.name: field for field in described[name].field}
        table = DescriptorProto()
        ours.CopyToProto(table)
        for field in table.field:
            if (name, field.name) in OLDER:
                continue
            other = theirs[field.name]
            expected = field.TYPE_INT32 if other.type == other.TYPE_ENUM else other.type
            assert (field.number, field.type, field.label) == (other.number, expected, other.label), (name, field.name)
            if field.type == field.TYPE_MESSAGE:
                message = ours.fields_by_name[field.name].message_type
                waiting.append((message, other.type_name.removeprefix(".xla.")))
    assert len(checked) > 40
