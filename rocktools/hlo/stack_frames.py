"""Tables of stack frames of a module: from its text, and what one of their ids means. Knows no instruction."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from rocktools.hlo.module import Metadata, StackFrame
from rocktools.hlo.text_scan import unescape

TABLE_NAMES = ("FileNames", "FunctionNames", "FileLocations", "StackFrames")
_ROW = re.compile(r'\s*(\d{1,9})\s+(?:"(.*)"|\{(.*)\})\s*$')
_NUMBER = re.compile(r"(\w+)=(\d{1,9})\b")


@dataclass(slots=True)
class FrameTables:
    """The four tables as they are written, all numbered from one."""

    file_names: dict[int, str] = field(default_factory=dict)
    function_names: dict[int, str] = field(default_factory=dict)
    locations: dict[int, dict[str, int]] = field(default_factory=dict)
    frames: dict[int, dict[str, int]] = field(default_factory=dict)

    def add_row(self, table: str, line: str) -> bool:
        """Whether the line is a row of that table; then it is in it."""
        row = _ROW.match(line)
        if row is None:
            return False
        number, string, numbers = int(row.group(1)), row.group(2), row.group(3)
        if table in ("FileNames", "FunctionNames"):
            if string is None:
                return False
            (self.file_names if table == "FileNames" else self.function_names)[number] = unescape(string)
        else:
            if numbers is None:
                return False
            values = {name: int(value) for name, value in _NUMBER.findall(numbers)}
            (self.locations if table == "FileLocations" else self.frames)[number] = values
        return True

    def stack_frames(self, *, parent_offset: int = 0) -> dict[int, StackFrame]:
        """Frames by id.

        Args:
            parent_offset: what to take off the ids of parents.
        """
        found = {}
        for number, frame in self.frames.items():
            location = self.locations.get(frame.get("file_location_id", 0), {})
            parent_id = frame.get("parent_frame_id", 0) - parent_offset
            found[number] = StackFrame(
                file=self.file_names.get(location.get("file_name_id", 0), ""),
                function=self.function_names.get(location.get("function_name_id", 0), ""),
                line=location.get("line", 0),
                parent_id=parent_id if parent_id > 0 and parent_id != number else None,
            )
        return found

    def stack_frames_of_text(self) -> dict[int, StackFrame]:
        """Frames by id, the ids of parents set right.

        XLA of 2025 and 2026 prints ids of parents one too high, seen where the first frame, which cannot have a parent,
        is its own; text that prints them right has 0 there.
        """
        roots = [number for number, frame in self.frames.items() if frame.get("parent_frame_id") == number]
        return self.stack_frames(parent_offset=1 if roots else 0)


def locate(metadata: Metadata, frames: Mapping[int, StackFrame]) -> Metadata:
    """The metadata with file and line of its innermost stack frame, where it names one of the table."""
    frame = frames.get(metadata.stack_frame_id)
    if frame is None:
        return metadata
    return replace(metadata, source_file=frame.file, source_line=frame.line)
