"""Assessments over time: one line of JSON for each, appended; and what a series of them shows."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path

from rocktools.compare.comparison import Comparison
from rocktools.compare.track import Assessment
from rocktools.errors import DamagedFile, InputError
from rocktools.findings import Finding, Severity

SCHEMA = "rocktools.history/1"


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One comparison that was tracked.

    Attributes:
        schema: `SCHEMA`.
        recorded_at_utc: ISO 8601.
        label: of the user.
        state: pass, warn or fail.
        before, after: titles; their hashes are of all inputs, None where not all were hashed.
        basis: profiled or unprofiled.
        before_ns, after_ns, delta_ratio, verdict: of the steps; None where there are none.
        failed: what failed, or warned: a sentence each.
        is_simulated: whether either side is.
    """

    schema: str
    recorded_at_utc: str
    label: str
    state: str
    before: str
    after: str
    before_sha256: str | None
    after_sha256: str | None
    basis: str
    before_ns: float | None
    after_ns: float | None
    delta_ratio: float | None
    verdict: str | None
    failed: tuple[str, ...]
    is_simulated: bool


def entry_of(
    comparison: Comparison, assessment: Assessment, hashes: tuple[str | None, str | None], recorded_at_utc: str
) -> Entry:
    """The line of one assessment."""
    steps = comparison.steps
    return Entry(
        schema=SCHEMA,
        recorded_at_utc=recorded_at_utc,
        label=assessment.label,
        state=str(assessment.state),
        before=assessment.before,
        after=assessment.after,
        before_sha256=hashes[0],
        after_sha256=hashes[1],
        basis=comparison.basis,
        before_ns=None if steps is None else steps.before_ns,
        after_ns=None if steps is None else steps.after_ns,
        delta_ratio=None if steps is None else steps.delta_ratio,
        verdict=None if steps is None else str(steps.verdict),
        failed=tuple(check.message for check in assessment.checks if str(check.state) != "pass"),
        is_simulated=assessment.is_simulated,
    )


def append_entry(path: Path, entry: Entry) -> None:
    """Add a line. One write of one line: two jobs that append at once do not mix theirs.

    Raises:
        InputError: the file cannot be written.
    """
    line = json.dumps(asdict(entry), ensure_ascii=False, allow_nan=False) + "\n"
    try:
        text = path.read_bytes()[-1:] if path.exists() else b"\n"
        with path.open("ab") as stream:
            stream.write((b"" if text in (b"\n", b"") else b"\n") + line.encode("utf-8", errors="replace"))
    except OSError as error:
        raise InputError(
            "history-not-written", f"the history cannot be written: {error.strerror}", where=str(path)
        ) from error


def read_history(path: Path) -> tuple[list[Entry], list[Finding]]:
    """The entries of a file, the oldest line first; lines that are none are told.

    Raises:
        InputError: it cannot be read.
        DamagedFile: no line of it is an entry.
    """
    try:
        # Not `splitlines`, which ends a line at characters that JSON leaves in texts.
        lines = path.read_text(encoding="utf-8", errors="replace").split("\n")
    except OSError as error:
        raise InputError(
            "cannot-read",
            f"the file cannot be read: {error.strerror}",
            where=str(path),
            hint="rocktools track --history",
        ) from error
    entries: list[Entry] = []
    findings: list[Finding] = []
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        entry = _entry(line)
        if entry is None:
            findings.append(
                Finding(
                    rule="history-line",
                    severity=Severity.WARNING,
                    where=f"{path}:{number}",
                    message=f"the line is no entry of {SCHEMA}; it is left out",
                )
            )
        else:
            entries.append(entry)
    if any(lines) and not entries:
        raise DamagedFile("no-history", f"no line of it is an entry of {SCHEMA}", where=str(path))
    return entries, findings


def drift_ratios(entries: Sequence[Entry]) -> list[float | None]:
    """How much slower each entry's step is than the fastest before it and itself; None where one is not known."""
    fastest: float | None = None
    ratios: list[float | None] = []
    for entry in entries:
        if entry.after_ns is None:
            ratios.append(None)
            continue
        fastest = entry.after_ns if fastest is None else min(fastest, entry.after_ns)
        ratios.append(entry.after_ns / fastest - 1 if fastest > 0 else None)
    return ratios


def _entry(line: str) -> Entry | None:
    try:
        document = json.loads(line)
        json.dumps(document, ensure_ascii=False).encode("utf-8")  # half of a character can be told to nobody
    except (ValueError, RecursionError):
        return None
    names = {each.name for each in fields(Entry)}
    if not isinstance(document, dict) or document.get("schema") != SCHEMA or set(document) != names:
        return None
    numbers = (document["before_ns"], document["after_ns"], document["delta_ratio"])
    texts = [document[name] for name in ("recorded_at_utc", "label", "state", "before", "after", "basis")]
    if not all(value is None or (isinstance(value, (int, float)) and not isinstance(value, bool)) for value in numbers):
        return None
    if not all(isinstance(text, str) for text in texts) or not isinstance(document["failed"], list):
        return None
    return Entry(**{**document, "failed": tuple(str(each) for each in document["failed"])})
