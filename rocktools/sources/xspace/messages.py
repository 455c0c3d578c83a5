"""The messages of a profile that are read with protobuf: the small ones, all but planes, lines and events.

Field numbers are those of tsl/profiler/protobuf/xplane.proto (package tensorflow.profiler, Apache-2.0). Texts are
declared as bytes: the library refuses a message with a text that is no UTF-8, and one odd kernel name must not cost a
whole profile.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rocktools.protos import Field, build_messages

if TYPE_CHECKING:
    from google.protobuf.message import Message

# Fields of the outer messages, which are walked by hand.
SPACE_PLANES, SPACE_ERRORS, SPACE_WARNINGS, SPACE_HOSTNAMES = 1, 2, 3, 4
PLANE_ID, PLANE_NAME, PLANE_LINES, PLANE_EVENT_METADATA, PLANE_STAT_METADATA, PLANE_STATS = 1, 2, 3, 4, 5, 6
LINE_ID, LINE_NAME, LINE_TIMESTAMP, LINE_EVENTS = 1, 2, 3, 4
LINE_DURATION, LINE_DISPLAY_ID, LINE_DISPLAY_NAME = 9, 10, 11
# Fields of XStat's value.
STAT_DOUBLE, STAT_UINT64, STAT_INT64, STAT_STR, STAT_BYTES, STAT_REF = 2, 3, 4, 5, 6, 7

_MESSAGES = {
    "XStat": (
        Field("metadata_id", 1, "int64"),
        Field("double_value", STAT_DOUBLE, "double", oneof="value"),
        Field("uint64_value", STAT_UINT64, "uint64", oneof="value"),
        Field("int64_value", STAT_INT64, "int64", oneof="value"),
        Field("str_value", STAT_STR, "bytes", oneof="value"),
        Field("bytes_value", STAT_BYTES, "bytes", oneof="value"),
        Field("ref_value", STAT_REF, "uint64", oneof="value"),
    ),
    "XEventMetadata": (
        Field("id", 1, "int64"),
        Field("name", 2, "bytes"),
        Field("metadata", 3, "bytes"),
        Field("display_name", 4, "bytes"),
        Field("stats", 5, "XStat", is_repeated=True),
    ),
    "XStatMetadata": (Field("id", 1, "int64"), Field("name", 2, "bytes")),
    # XPlane without its lines.
    "PlaneFacts": (
        Field("event_metadata", PLANE_EVENT_METADATA, "map<int64,XEventMetadata>"),
        Field("stat_metadata", PLANE_STAT_METADATA, "map<int64,XStatMetadata>"),
        Field("stats", PLANE_STATS, "XStat", is_repeated=True),
    ),
}


def build_plane_facts() -> type[Message]:
    """The class of XPlane without its lines: `event_metadata`, `stat_metadata` and `stats`."""
    return build_messages("rocktools.xspace", _MESSAGES)["PlaneFacts"]


def decode_text(raw: bytes) -> str:
    """A text of a profile; bytes that are no UTF-8, and zeros, become replacement characters."""
    # pandas 2 takes two categories for one where they differ behind a zero.
    return raw.decode("utf-8", errors="replace").replace("\0", "\ufffd")
