"""The `, name=value` list behind the operands of an instruction (and behind the name of a module), taken apart.

Values keep their spelling, but for strings, which lose quotes and escapes, and names, which lose their `%`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from rocktools.hlo.module import NO_METADATA, Metadata
from rocktools.hlo.text_scan import UnreadableText, end_of_value, split_list, unescape, without_comments

_STRING = r'"[^"\\]*(?:\\.[^"\\]*)*"'
_NAME = re.compile(r"\s*,?\s*([A-Za-z_][\w.\-]*)=", re.DOTALL)
# The values of nine attributes in ten: a string, a group without a group in it, a word. All else goes the long way.
_SIMPLE = re.compile(
    rf'(?:{_STRING}|\{{[^{{}}\[\]()"]*(?:{_STRING}[^{{}}\[\]()"]*)*\}}|[%\w.\-]+(?:->[\w?]+)?)(?=,|\s*$)', re.DOTALL
)
_MORE_CALLED = re.compile(r"\s*,\s*(%[\w.\-]+)(?=,|\s*$)")
_METADATA = re.compile(rf'(\w+)=({_STRING}|\{{[^}}]*\}}|[^\s"{{}}]+)', re.DOTALL)

# Attributes whose values name computations, in the order in which the proto lists what an instruction calls.
CALLING_ATTRIBUTES = (
    *("calls", "to_apply", "body", "condition", "true_computation", "false_computation", "branch_computations"),
    *("select", "scatter", "called_computations", "comparator"),
)


def parse_attributes(text: str, start: int) -> dict[str, str]:
    """The attributes from `start` to the end of the text, by name, values as written.

    Raises:
        UnreadableText: what stands there is no list of attributes.
    """
    found: dict[str, str] = {}
    end = len(text.rstrip())
    while start < end:
        head = _NAME.match(text, start)
        more = _MORE_CALLED.match(text, start) if head is None and "calls" in found else None
        if more:
            found["calls"], start = f"{found['calls']}, {more.group(1)}", more.end()
            continue
        if head is None:
            raise UnreadableText("no attribute begins here", start)
        name = head.group(1)
        simple = _SIMPLE.match(text, head.end())
        stop = simple.end() if simple else end_of_value(text, head.end())
        value = text[head.end() : stop].strip()
        if not value:
            raise UnreadableText(f"the attribute {name!r} has no value", head.end(), is_open=stop == len(text))
        if name == "device_ids" and found.get("replica_groups", "").startswith("mesh["):
            # The order of devices is written behind the mesh, with a comma of its own, and the axes behind both.
            found["replica_groups"] += f", device_ids={value}"
        else:
            found[name] = value
        start = stop
    return found


def plain_value(value: str) -> str:
    """A value without the quotes of a string, the `%` of names and the comments in long lists."""
    if value.startswith('"'):
        return unescape(value[1:-1])
    if '"' in value:
        return value
    return without_comments(value).replace("%", "")


def take_called(attributes: dict[str, str]) -> tuple[str, ...]:
    """The computations that are called, in the order of the proto; their attributes are taken out of `attributes`."""
    called: list[str] = []
    for name in CALLING_ATTRIBUTES:
        value = attributes.pop(name, None)
        if value is None:
            continue
        names = split_list(value[1:-1] if value.startswith("{") else value)
        called += [each.lstrip("%") for each in names]
    return tuple(called)


def parse_metadata(text: str) -> Metadata:
    """What `{op_name="..." source_line=12 ...}` says."""
    found = {name: plain_value(value) for name, value in _METADATA.findall(text)}
    if not found:
        return NO_METADATA
    return Metadata(
        op_name=found.get("op_name", ""),
        op_type=found.get("op_type", ""),
        source_file=found.get("source_file", ""),
        source_line=_number(found, "source_line"),
        stack_frame_id=_number(found, "stack_frame_id"),
        scheduling_name=found.get("scheduling_name", ""),
        deduplicated_name=found.get("deduplicated_name", ""),
    )


def _number(found: Mapping[str, str], name: str) -> int:
    text = found.get(name, "")
    return int(text) if text.isdecimal() and len(text) < 10 else 0
