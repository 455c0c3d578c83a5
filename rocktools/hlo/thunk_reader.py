"""`*.thunk_sequence.txt` and `*.thunk_metadata.txt` of an XLA:GPU dump -> ThunkSequence.

The sequence file comes from GpuExecutable's thunk printer, whose lines have changed: `NAME grid: [..] threads: [..]`
(jaxlib 0.10, kCustomKernel), `kernel=NAME, profile_annotation=.., launch dimensions=blocks: {..}, threads/block: {..}`
(kKernel in newer source), `, kernel = NAME, ..` (0.8), the kind alone or `(no description)` for library calls. The
metadata file is a text proto with the HLO instruction (`profile_annotation`) of every thunk id.

Nesting is told by indentation, two blanks a level. The printer puts the indentation of `condition:` in front of the
line break before it, so that line stands at column 0; it belongs to the while just printed. An empty sequence is
`No thunks.` without a line break, and a nested kSequential starts on the line of its parent.

Knows nothing of the module: whether an instruction exists, and how often a loop runs, is not looked up here.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from rocktools.errors import DamagedFile, InputError, UnknownFormat
from rocktools.findings import Finding, Severity
from rocktools.hlo.thunk_metadata import join_thunk_metadata, parse_thunk_metadata
from rocktools.hlo.thunks import Thunk, ThunkSequence

# Numbers have at most 18 digits, and so fit into 64 bits: a longer one is no number of a thunk.
_THUNK = re.compile(r"( *)(\d{1,18}): +([A-Za-z]\w*)(?=\s|$)(?:\s*\[(?:source|prev=)[^\]]*\])?(.*)")
_SECTION = re.compile(r"( *)(condition|body|false_branch|true_branch|branch_\d+):\s*")
_EMPTY = re.compile(r" *No thunks\.")
_INDENT = 2
_DIGITS = 18

_GRID = re.compile(r"(\S.*?) grid: \[([\d, ]+)\] threads: \[([\d, ]+)\]")
_KERNEL = re.compile(r"\bkernel ?= ?([^,\s]+)")
_BLOCKS = re.compile(r"\bblocks: *\{([\d, ]+)\}, *threads/block: *\{([\d, ]+)\}")
_SHARED_MEMORY = re.compile(r"\bshared_memory: (\d{1,18}) bytes")
_ANNOTATION = re.compile(r"\bprofile_annotation ?= ?([^,\s]+)")
_STREAM = re.compile(r"\bstream=([^,\s]+)")
_ASYNC_ID = re.compile(r"\basync_id=(\d{1,18})\b")


@dataclass(slots=True, eq=False)
class _Node:
    """A thunk while its nested ones are being read."""

    indent: int
    thunk_id: int
    kind: str
    text: str
    section: str = ""
    sections: dict[str, list[_Node]] = field(default_factory=dict)

    def add(self, node: _Node) -> None:
        self.sections.setdefault(self.section, []).append(node)

    def open(self, section: str) -> None:
        self.section = section
        self.sections.setdefault(section, [])

    def thunk(self) -> Thunk:
        kernel, grid, workgroup = _launch(self.text)
        shared = _SHARED_MEMORY.search(self.text)
        async_id = _ASYNC_ID.search(self.text)
        branches = {name: nodes for name, nodes in self.sections.items() if "branch" in name}
        body = [*self.sections.get("body", ()), *self.sections.get("", ())]
        return Thunk(
            thunk_id=self.thunk_id,
            kind=self.kind,
            instruction=_first(_ANNOTATION, self.text),
            kernel=kernel,
            grid_workgroups=grid,
            workgroup_workitems=workgroup,
            lds_bytes=int(shared[1]) if shared else None,
            stream=_first(_STREAM, self.text),
            async_id=int(async_id[1]) if async_id else None,
            condition=tuple(node.thunk() for node in self.sections.get("condition", ())),
            body=tuple(node.thunk() for node in body),
            branches=tuple(tuple(node.thunk() for node in nodes) for nodes in branches.values()),
        )


def _first(pattern: re.Pattern[str], text: str) -> str:
    found = pattern.search(text)
    return found[1] if found else ""


def _launch(text: str) -> tuple[str, tuple[int, ...], tuple[int, ...]]:
    """Kernel symbol, workgroups, work-items per workgroup; "" and () where the line does not say."""
    if found := _GRID.match(text):
        return found[1], _sizes(found[2]), _sizes(found[3])
    blocks = _BLOCKS.search(text)
    return _first(_KERNEL, text), _sizes(blocks[1]) if blocks else (), _sizes(blocks[2]) if blocks else ()


def _sizes(text: str) -> tuple[int, ...]:
    sizes = [size.strip() for size in text.split(",") if size.strip()]
    return tuple(map(int, sizes)) if all(size.isdecimal() and len(size) <= _DIGITS for size in sizes) else ()


class _SequenceText:
    """The tree of thunks in one text, and what could not be read."""

    def __init__(self, text: str) -> None:
        self.top: list[_Node] = []
        self.unknown: list[tuple[int, str]] = []
        self.has_empty = False
        self._open: list[_Node] = []
        lines = text.split("\n")
        # XLA ends every line. What follows the last line break was cut, and may be half a kind or half a name.
        self.cut_line = "" if _EMPTY.fullmatch(lines[-1]) else lines[-1].strip()
        for number, line in enumerate(lines if not self.cut_line else lines[:-1], start=1):
            self._read(number, line.rstrip("\r"))

    def _read(self, number: int, line: str) -> None:
        if empty := _EMPTY.match(line):
            self.has_empty = True
            line = line[empty.end() :]
        if not line.strip():
            return
        if found := _SECTION.fullmatch(line):
            if not self._enter(len(found[1]), found[2]):
                self.unknown.append((number, line))
        elif found := _THUNK.fullmatch(line):
            self._add(_Node(len(found[1]), int(found[2]), found[3], found[4].strip()))
        else:
            self.unknown.append((number, line))

    def _enter(self, indent: int, section: str) -> bool:
        """Begin a part of a while or a conditional. Returns whether there is one it can belong to."""
        if section == "condition":
            owner = self._open[-1] if self._open else None
            if owner is None or owner.sections or "While" not in owner.kind:
                return False
        else:
            while self._open and self._open[-1].indent >= indent:
                self._open.pop()
            owner = self._open[-1] if self._open else None
            if owner is None or section in owner.sections or (section == "body" and "condition" not in owner.sections):
                return False
        owner.open(section)
        return True

    def _add(self, node: _Node) -> None:
        while self._open and self._open[-1].indent >= node.indent:
            self._open.pop()
        if self._open:
            self._open[-1].add(node)
        else:
            self.top.append(node)
        self._open.append(node)
        if inner := _THUNK.fullmatch(node.text):  # the first thunk of a nested sequence
            node.text = ""
            self._add(_Node(node.indent + _INDENT, int(inner[2]), inner[3], inner[4].strip()))

    def walk(self) -> Iterator[_Node]:
        waiting = [*reversed(self.top)]
        while waiting:
            node = waiting.pop()
            yield node
            waiting.extend(reversed([inner for nodes in node.sections.values() for inner in nodes]))


def read_thunk_sequence(sequence_path: Path | str, metadata_path: Path | str | None = None) -> ThunkSequence:
    """The thunks in `sequence_path`, with the instructions that `metadata_path` names.

    Args:
        sequence_path: `*.thunk_sequence.txt`.
        metadata_path: `*.thunk_metadata.txt` of the same module; None where there is none.

    Raises:
        InputError: a file cannot be read, or the first has no thunks in it.
    """
    texts = [_read_text(Path(path)) for path in (sequence_path, metadata_path) if path is not None]
    return parse_thunk_sequence(texts[0], texts[1] if len(texts) > 1 else None, str(sequence_path))


def _read_text(path: Path) -> str:
    try:
        return path.read_bytes().decode("utf-8", errors="replace")
    except OSError as error:
        raise InputError("cannot-read", f"the file cannot be read: {error.strerror}", where=str(path)) from error


def parse_thunk_sequence(text: str, metadata_text: str | None, source: str) -> ThunkSequence:
    """The thunks in `text`, with the instructions that `metadata_text` names.

    Args:
        text: of a thunk sequence file.
        metadata_text: of the thunk metadata file of the same module; None where there is none.
        source: the file, for messages.

    Returns:
        Every thunk whose line could be read. Findings tell of lines that could not, of a text that is cut, of thunks
        without an instruction, and of metadata that belongs to another program (none of which is then used).

    Raises:
        UnknownFormat: there is text, but no thunk in it.
        DamagedFile: there is no text.
    """
    found = _SequenceText(text)
    if not found.top and not found.has_empty:
        if not text.strip():
            raise DamagedFile("thunk-sequence-empty", "the thunk sequence is empty", where=source)
        raise UnknownFormat(
            "no-thunk-sequence",
            "no line of the text is a thunk",
            where=f"{source}, line 1",
            hint="XLA writes these files as *.thunk_sequence.txt with --xla_dump_to=FOLDER",
        )
    thunks = tuple(node.thunk() for node in found.top)
    findings = [*_check_text(found, text, source)]
    if metadata_text is not None:
        records, metadata_findings = parse_thunk_metadata(metadata_text, source)
        thunks, join_findings = join_thunk_metadata(thunks, records, source)
        findings += [*metadata_findings, *join_findings]
    sequence = ThunkSequence(thunks=thunks, source=source, findings=tuple(findings))
    nameless = Counter(thunk.kind for thunk in sequence.walk() if not thunk.instruction)
    if not nameless:
        return sequence
    finding = _nameless(nameless, sum(1 for _ in sequence.walk()), source, has_metadata=metadata_text is not None)
    return ThunkSequence(thunks=thunks, source=source, findings=(*findings, finding))


def _check_text(found: _SequenceText, text: str, source: str) -> Iterator[Finding]:
    if found.unknown:
        number, line = found.unknown[0]
        yield Finding(
            rule="thunk-line-unknown",
            severity=Severity.WARNING,
            where=f"{source}, line {number}",
            message=f"{len(found.unknown)} lines are neither a thunk nor a part of one, first {line.strip()[:80]!r}",
            numbers={"lines_count": len(found.unknown), "first_line": number},
        )
    ids = Counter(node.thunk_id for node in found.walk())
    if repeated := [thunk_id for thunk_id, count in ids.items() if count > 1]:
        yield Finding(
            rule="thunk-id-repeated",
            severity=Severity.WARNING,
            where=source,
            message=f"{len(repeated)} thunk ids stand on more than one line, first {repeated[0]}",
            numbers={"ids_count": len(repeated), "first_id": repeated[0]},
        )
    open_whiles = [node for node in found.walk() if "While" in node.kind and "body" not in node.sections]
    if open_whiles or found.cut_line:
        lines = text.count("\n") + 1
        if found.cut_line:
            reason = f"its last line has no end and was not used: {found.cut_line[:40]!r}"
        else:
            reason = f"thunk {open_whiles[0].thunk_id} is a loop without a body"
        yield Finding(
            rule="thunk-sequence-cut",
            severity=Severity.WARNING,
            where=f"{source}, line {lines}",
            message=f"the text ends early: {reason}; {sum(ids.values())} thunks were read",
            numbers={"thunks_count": sum(ids.values()), "last_line": lines},
            advice="copy the file again",
        )


def _nameless(nameless: Counter[str], total: int, source: str, *, has_metadata: bool) -> Finding:
    count = sum(nameless.values())
    kinds = ", ".join(f"{number} {kind}" for kind, number in nameless.most_common())
    return Finding(
        rule="thunk-without-instruction",
        severity=Severity.NOTE if has_metadata else Severity.WARNING,
        where=source,
        message=f"{count} of {total} thunks have no HLO instruction: {kinds}",
        numbers={"thunks_count": count, "all_thunks_count": total},
        advice="" if has_metadata else "keep the *.thunk_metadata.txt that XLA writes beside the sequence",
    )
