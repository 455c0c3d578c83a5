"""Protocol-buffer messages without generated code: classes built at run time from tables of fields.

A table names the fields that are read, by the numbers of the interface. Others are kept by the library as unknown
fields and survive being written again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from google.protobuf.message import Message

_TYPES = {
    "double": 1, "float": 2, "int64": 3, "uint64": 4, "int32": 5, "fixed64": 6, "fixed32": 7, "bool": 8, "string": 9,
    "bytes": 12, "uint32": 13, "sfixed32": 15, "sfixed64": 16, "sint32": 17, "sint64": 18,
}  # fmt: skip
_MESSAGE, _OPTIONAL, _REPEATED = 11, 1, 3


@dataclass(frozen=True, slots=True)
class Field:
    """One field of a message.

    Attributes:
        name: as in the interface.
        number: as in the interface.
        type: `int64`, `string`, ..., the name of another message of the table, or `map<int64,NAME>`.
        is_repeated: false for maps.
        oneof: the group of fields of which one at most is set; "" outside of such a group.
    """

    name: str
    number: int
    type: str
    is_repeated: bool = False
    oneof: str = ""


def build_messages(package: str, messages: Mapping[str, Sequence[Field]]) -> dict[str, type[Message]]:
    """Message name -> class, in a pool of their own (proto3).

    Args:
        package: namespace of the messages.
        messages: message name -> its fields.
    """
    from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

    file = descriptor_pb2.FileDescriptorProto(name=f"{package}.proto", package=package, syntax="proto3")
    for name, fields in messages.items():
        message = file.message_type.add(name=name)
        groups: dict[str, int] = {}
        for field in fields:
            if field.oneof and field.oneof not in groups:
                groups[field.oneof] = len(groups)
                message.oneof_decl.add(name=field.oneof)
            if field.type.startswith("map<"):
                key, _, value = field.type.removeprefix("map<").removesuffix(">").partition(",")
                entry_name = "".join(part.capitalize() for part in field.name.split("_")) + "Entry"
                entry = message.nested_type.add(name=entry_name)
                entry.options.map_entry = True
                _add(entry, package, Field("key", 1, key))
                _add(entry, package, Field("value", 2, value))
                _add(message, package, Field(field.name, field.number, f"{name}.{entry_name}", is_repeated=True))
            else:
                added = _add(message, package, field)
                if field.oneof:
                    added.oneof_index = groups[field.oneof]
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return {name: message_factory.GetMessageClass(pool.FindMessageTypeByName(f"{package}.{name}")) for name in messages}


def _add(message, package: str, field: Field):  # type: ignore[no-untyped-def]  # descriptor protos, known at run time
    added = message.field.add(name=field.name, number=field.number, label=_REPEATED if field.is_repeated else _OPTIONAL)
    if field.type in _TYPES:
        added.type = _TYPES[field.type]
    else:
        added.type, added.type_name = _MESSAGE, f".{package}.{field.type}"
    return added
