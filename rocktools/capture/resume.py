"""What earlier commands left in a run directory: which passes are done, and whether they may be gone on with.

A pass is done if it has a verified record, its databases are still those that were verified, and it was made under the
same circumstances. Passes that are all verified but do not agree with each other are repeated, the first one excepted.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rocktools.capture.plan import PLAN_NAME, PLAN_SCHEMA, SPILL_FOLDER, CapturePlan, PlannedPass
from rocktools.capture.verify import PassFrames, verify_pass
from rocktools.correlate.passes import compare_passes, number_executions
from rocktools.errors import CaptureError, DamagedFile, UsageError
from rocktools.findings import Finding, has_fault
from rocktools.rundir import LOGS_FOLDER, DatabaseRecord, PassRecord, hash_file, load_json, read_pass_records

CIRCUMSTANCES = "circumstances"  # in the facts of a pass record


def require_same_capture(run: Path, plan: CapturePlan) -> None:
    """Check that a run directory was made by the same plan. Nothing is written.

    Raises:
        UsageError: it was made by another plan, or there is nothing to resume.
        InputError, DamagedFile: its plan cannot be read.
    """
    target = run / PLAN_NAME
    document = plan.as_document()
    if not target.is_file():
        raise UsageError("nothing-to-resume", "there is no capture in this folder", where=str(run))
    try:
        before = load_json(target, has_bytes=True)
    except ValueError as error:
        raise DamagedFile("plan-damaged", f"the plan is not JSON: {error}", where=str(target)) from error
    if not isinstance(before, dict):
        raise DamagedFile("plan-damaged", "the plan is not a JSON object", where=str(target))
    if before.get("schema") != PLAN_SCHEMA or before.get("passes") != document["passes"]:
        raise UsageError(
            "another-capture",
            "the capture in this folder was planned with other options, another command or other variables",
            where=str(target),
            hint="repeat the command that began it, with --resume; or begin a new run",
        )


def find_done(run: Path, plan: CapturePlan, circumstances: Mapping[str, Any]) -> dict[str, PassFrames]:
    """The name of each pass that need not run again -> its frames.

    Args:
        circumstances: of the command that goes on, by name.

    Raises:
        UsageError: a pass was made under other circumstances.
        CaptureError: the databases of a pass are not what they were when they were verified.
        InputError, DamagedFile, UnsupportedVersion: a record cannot be read.
    """
    records = read_pass_records(run)
    done = {}
    for planned in plan.passes:
        verified = [record for record in records if record.name == planned.name and record.is_verified]
        if verified:
            _require_same_circumstances(run, verified[-1], circumstances)
            done[planned.name] = _reread(run, planned, verified[-1])
    if len(done) == len(plan.passes) and has_fault(compare_frames(list(done.values()), str(run))):
        return {plan.passes[0].name: done[plan.passes[0].name]}
    return done


def next_attempts(run: Path, plan: CapturePlan, circumstances: Mapping[str, Any]) -> dict[str, int | None]:
    """The name of each pass -> the number of its next attempt, or None where it is done.

    Raises:
        As `find_done`.
    """
    done = find_done(run, plan, circumstances)
    return {planned.name: None if planned.name in done else next_attempt(run, planned) for planned in plan.passes}


def next_attempt(run: Path, planned: PlannedPass) -> int:
    """One more than any attempt there is a record or a folder of: a killed capture leaves a folder and no record."""
    recorded = [record.attempt for record in read_pass_records(run) if record.name == planned.name]
    attempt = max(recorded, default=0) + 1
    while planned.folder(run, attempt).exists() or log_path(run, planned, attempt, "stdout").exists():
        attempt += 1
    return attempt


def log_path(run: Path, planned: PlannedPass, attempt: int, stream: str) -> Path:
    """Where `stdout` or `stderr` of an attempt goes."""
    return run / LOGS_FOLDER / f"{planned.name.replace('/', '.')}.{attempt}.{stream}"


def compare_frames(frames: Sequence[PassFrames], where: str) -> list[Finding]:
    """How passes differ in what they counted; nothing where fewer than two have counted."""
    counted = [part for part in frames if not part.counted.empty]
    if len(counted) < 2:
        return []
    import pandas as pd

    numbered = [number_executions(part.counted, part.processes, part.agents) for part in counted]
    return compare_passes(pd.concat(numbered, ignore_index=True), where=where)


def _require_same_circumstances(run: Path, record: PassRecord, circumstances: Mapping[str, Any]) -> None:
    before = record.facts.get(CIRCUMSTANCES)
    if not isinstance(before, Mapping):
        return
    changed = _changes(before, circumstances)
    if changed:
        raise UsageError(
            "other-circumstances",
            f"{record.name} was made under other circumstances, and passes of one run must be comparable: "
            + "; ".join(changed),
            where=str(run),
            hint="restore them and repeat the command with --resume, or begin a new run",
        )


def _changes(before: Mapping[str, Any], now: Mapping[str, Any], prefix: str = "") -> list[str]:
    """In words, what differs: `environment HIP_VISIBLE_DEVICES was 0, is 3`."""
    changed = []
    for name in sorted({*before, *now}):
        old, new = before.get(name), now.get(name)
        if isinstance(old, Mapping) and isinstance(new, Mapping):
            changed += _changes(old, new, prefix=f"{name} ")
        elif old != new:
            changed.append(f"{prefix}{name} was {_shown(old)}, is {_shown(new)}")
    return changed


def _shown(value: object) -> str:
    return "not set" if value is None else str(value) or "empty"


def _reread(run: Path, planned: PlannedPass, record: PassRecord) -> PassFrames:
    """The frames of a pass that was verified by an earlier command, to compare others with; of a trace none."""
    _require_unchanged(run, record)
    if planned.expectation.kind == "trace":
        return PassFrames.empty()
    verification = verify_pass(
        run,
        run / record.folder,
        planned.expectation,
        label=planned.name.split("/")[-1],
        stderr_path=run / LOGS_FOLDER / "none",
        spill_folder=run / SPILL_FOLDER / "none",
    )
    _require_same(run, record, verification.databases)
    return verification.frames


def _require_unchanged(run: Path, record: PassRecord) -> None:
    missing = [database.path for database in record.databases if not (run / database.path).is_file()]
    if missing:
        raise CaptureError(
            "verified-pass-changed",
            f"databases of {record.name} that were verified are not here any more: {', '.join(missing)}",
            where=str(run / record.folder),
            hint="put them back, or begin a new run",
        )
    changed = [database.path for database in record.databases if hash_file(run / database.path) != database.sha256]
    if changed:
        raise _changed(run, record, changed)


def _require_same(run: Path, record: PassRecord, found: Sequence[DatabaseRecord]) -> None:
    before = {database.path for database in record.databases}
    others = sorted({database.path for database in found} ^ before)
    if others:
        raise _changed(run, record, others)


def _changed(run: Path, record: PassRecord, paths: Sequence[str]) -> CaptureError:
    return CaptureError(
        "verified-pass-changed",
        f"the databases of {record.name} are not those that were verified: {', '.join(paths)}",
        where=str(run / record.folder),
        hint="begin a new run",
    )
