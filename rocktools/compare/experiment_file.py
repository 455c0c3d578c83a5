"""Experiments in a file of the user's: lines appended to it, and read back.

One write of one line, so that two jobs that append at once do not mix theirs. A line that was cut off stays as it is:
the next begins on a line of its own. What cannot be read is named and left out, and never changed.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rocktools.compare.experiment_document import PLAN, RECORD, SCHEMA, Experiment, Plan, Record
from rocktools.errors import DamagedFile, InputError, UsageError, nearest_names
from rocktools.findings import Finding, Severity
from rocktools.summary.document_json import from_plain, to_plain


def append_line(path: Path, entry: Plan | Record) -> None:
    """Add a plan or a record at the end of the file, which is made where there is none.

    Raises:
        InputError: it cannot be written.
    """
    line = json.dumps(to_plain(entry), ensure_ascii=False, allow_nan=False) + "\n"
    try:
        with path.open("ab+") as stream:
            size = stream.seek(0, 2)
            if size:
                stream.seek(size - 1)
                line = line if stream.read(1) == b"\n" else f"\n{line}"
            stream.write(line.encode("utf-8", errors="replace"))
    except OSError as error:
        raise InputError(
            "experiment-not-written", f"the experiments cannot be written: {error.strerror}", where=str(path)
        ) from error


def read_experiments(path: Path) -> tuple[tuple[Experiment, ...], tuple[Finding, ...]]:
    """The experiments of a file in their order, and its lines that are none.

    Raises:
        InputError: it cannot be read.
    """
    try:
        lines = path.read_text(encoding="utf-8", errors="replace").split("\n")
    except OSError as error:
        raise InputError(
            "cannot-read",
            f"the file cannot be read: {error.strerror}",
            where=str(path),
            hint="rocktools experiment new",
        ) from error
    plans: dict[str, Plan] = {}
    records: dict[str, list[Record]] = {}
    findings: list[Finding] = []
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        where = f"{path}:{number}"
        try:
            _take(_parse(line, where), plans, records)
        except DamagedFile as error:
            findings.append(_left_out(where, error.what))
    return (
        tuple(Experiment(plan=plan, records=tuple(records.get(name, ()))) for name, plan in plans.items()),
        tuple(findings),
    )


def _parse(line: str, where: str) -> Plan | Record:
    try:
        document: Any = json.loads(line)
        json.dumps(document, ensure_ascii=False).encode("utf-8")  # half of a character can be told to nobody
    except (ValueError, RecursionError) as error:
        raise DamagedFile("experiment-json", f"this is no JSON: {error}", where=where) from error
    if not isinstance(document, Mapping) or document.get("schema") != SCHEMA:
        schema = document.get("schema") if isinstance(document, Mapping) else None
        raise DamagedFile("experiment-schema", f"this is {schema!r}, not {SCHEMA}", where=where)
    kind = document.get("kind")
    if kind == PLAN:
        return from_plain(Plan, document, where=where)
    if kind == RECORD:
        return from_plain(Record, document, where=where)
    raise DamagedFile("experiment-kind", f"this is neither a plan nor a record: {kind!r}", where=where)


def _take(entry: Plan | Record, plans: dict[str, Plan], records: dict[str, list[Record]]) -> None:
    """Put an entry in its place; a second plan of one name, and a record without a plan, have none."""
    name = entry.experiment_id
    if isinstance(entry, Plan):
        if name in plans:
            raise DamagedFile("experiment-twice", f"there is a plan {name} already")
        plans[name] = entry
        return
    if name not in plans:
        raise DamagedFile("experiment-without-plan", f"there is no plan {name} before this record")
    records.setdefault(name, []).append(entry)


def _left_out(where: str, what: str) -> Finding:
    return Finding(
        rule="experiment-line",
        severity=Severity.FAULT,
        where=where,
        message=f"the line is left out: {what}",
        advice="the file is yours: mend or remove that line; rocktools only appends to it",
    )


def next_id(experiments: tuple[Experiment, ...], findings: tuple[Finding, ...]) -> str:
    """E1, E2, ...: behind every one that the file may have, lines that cannot be read included."""
    taken = [int(each.plan.experiment_id[1:]) for each in experiments if each.plan.experiment_id[1:].isdigit()]
    return f"E{max([0, *taken]) + 1 + len(findings)}"


def require_experiment(experiments: tuple[Experiment, ...], experiment_id: str) -> Experiment:
    """The experiment of a name.

    Raises:
        UsageError: there is none.
    """
    known = {each.plan.experiment_id: each for each in experiments}
    if experiment_id not in known:
        near = nearest_names(experiment_id, known) or list(known)[-3:]
        hint = ", ".join(near) if near else "rocktools experiment new"
        raise UsageError("unknown-experiment", f"there is no experiment {experiment_id!r}", hint=hint)
    return known[experiment_id]
