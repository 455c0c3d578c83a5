"""`*.thunk_metadata.txt` of an XLA:GPU dump -> the HLO instruction of every thunk id; and its join to the thunks.

The file is a proto as text; a thunk is `thunk_metadata { thunk_info { profile_annotation thunk_id } thunk_kind }`.
Only these three fields are read, and as text: what else a version of XLA adds cannot hurt.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace

from rocktools.findings import Finding, Severity
from rocktools.hlo.thunks import Thunk

_STRING = r'"((?:[^"\\]|\\.)*)"'
_FIELDS = re.compile(
    rf"\b(?:(thunk_metadata)\s*\{{|profile_annotation:\s*{_STRING}|thunk_id:\s*(\d{{1,18}})\b|thunk_kind:\s*{_STRING})"
)
_ESCAPE = re.compile(r"\\([0-7]{1,3}|.)")


@dataclass(frozen=True, slots=True, kw_only=True)
class ThunkRecord:
    """What the metadata says of one thunk; `instruction` is "" where it names none."""

    thunk_id: int
    kind: str
    instruction: str


def parse_thunk_metadata(text: str, source: str) -> tuple[Mapping[int, ThunkRecord], tuple[Finding, ...]]:
    """Thunk id -> its record, of all records that are whole; and whether the text is cut."""
    records: dict[int, ThunkRecord] = {}
    begun = 0
    thunk_id, instruction = 0, ""  # a text proto does not print a field that is zero or empty
    for found in _FIELDS.finditer(text):
        begins, annotation, number, kind = found.groups()
        if begins:
            begun += 1
            thunk_id, instruction = 0, ""
        elif annotation is not None:
            instruction = _plain(annotation)
        elif number is not None:
            thunk_id = int(number)
        else:
            records[thunk_id] = ThunkRecord(thunk_id=thunk_id, kind=_plain(kind), instruction=instruction)
    if begun and len(records) == begun and text.rstrip().endswith("}"):
        return records, ()
    finding = Finding(
        rule="thunk-metadata-cut",
        severity=Severity.WARNING,
        where=source,
        message=f"the metadata of the thunks has {begun} records, {len(records)} of them whole",
        numbers={"records_count": begun, "whole_records_count": len(records)},
        advice="copy the *.thunk_metadata.txt again",
    )
    return records, (finding,)


def _plain(text: str) -> str:
    """A string of a text proto without its escapes."""

    def unescaped(found: re.Match[str]) -> str:
        code = found[1]
        return chr(int(code, 8)) if code.isdecimal() else {"n": "\n", "t": "\t", "r": "\r"}.get(code, code)

    return _ESCAPE.sub(unescaped, text) if "\\" in text else text


def join_thunk_metadata(
    thunks: tuple[Thunk, ...], records: Mapping[int, ThunkRecord], source: str
) -> tuple[tuple[Thunk, ...], tuple[Finding, ...]]:
    """The thunks with their instructions, by thunk id; unchanged where the records are of another program.

    An id with two kinds gives the other program away, and so do ids on both sides that the other side lacks. Ids that
    only the records have mean that the sequence is cut.
    """
    ours = {thunk.thunk_id: thunk for top in thunks for thunk in top.walk()}
    clashing = [thunk_id for thunk_id, thunk in ours.items() if _clashes(thunk, records.get(thunk_id))]
    only_ours = [thunk_id for thunk_id in ours if thunk_id not in records]
    only_theirs = [thunk_id for thunk_id in records if thunk_id not in ours]
    numbers = {
        "clashing_ids_count": len(clashing),
        "ids_without_record_count": len(only_ours),
        "records_without_thunk_count": len(only_theirs),
    }
    if records and (clashing or (only_ours and only_theirs)):
        what = f"{len(clashing)} thunk ids have another kind or instruction there"
        if clashing:
            what += f", first {clashing[0]} ({ours[clashing[0]].kind} and {records[clashing[0]].kind})"
        finding = Finding(
            rule="thunk-metadata-of-another-program",
            severity=Severity.FAULT,
            where=source,
            message=f"the metadata belongs to another program, and was not used: {what}; {len(only_ours)} ids of the "
            f"sequence are not in it, {len(only_theirs)} of its ids are not in the sequence",
            numbers=numbers,
            advice="give the *.thunk_metadata.txt of the same module and the same dump",
        )
        return thunks, (finding,)
    findings: tuple[Finding, ...] = ()
    if only_theirs:
        kinds = Counter(records[thunk_id].kind for thunk_id in only_theirs)
        finding = Finding(
            rule="thunk-sequence-incomplete",
            severity=Severity.WARNING,
            where=source,
            message=f"{len(only_theirs)} thunks of the metadata are not in the sequence: "
            + ", ".join(f"{count} {kind}" for kind, count in kinds.most_common()),
            numbers=numbers,
            advice="copy the *.thunk_sequence.txt again",
        )
        findings = (finding,)
    return tuple(_named(thunk, records) for thunk in thunks), findings


def _clashes(thunk: Thunk, record: ThunkRecord | None) -> bool:
    if record is None:
        return False
    names = {thunk.instruction, record.instruction} - {""}
    return record.kind != thunk.kind or len(names) > 1


def _named(thunk: Thunk, records: Mapping[int, ThunkRecord]) -> Thunk:
    record = records.get(thunk.thunk_id)
    return replace(
        thunk,
        instruction=(record.instruction if record else "") or thunk.instruction,
        condition=tuple(_named(inner, records) for inner in thunk.condition),
        body=tuple(_named(inner, records) for inner in thunk.body),
        branches=tuple(tuple(_named(inner, records) for inner in branch) for branch in thunk.branches),
    )
