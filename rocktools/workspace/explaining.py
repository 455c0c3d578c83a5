"""One kernel, copy or instruction of attributed runs -> the lines that say why it is booked where it is."""

from __future__ import annotations

from rocktools.attribution.explain import explain_instruction, explain_row
from rocktools.errors import UsageError, nearest_names
from rocktools.workspace.attributed import AttributedRuns

_LISTED = 6


def explain_event(runs: AttributedRuns, kind: str, number: int, *, process: str | None = None) -> list[str]:
    """Why a dispatch or copy is in its bucket.

    Args:
        kind: `dispatch` or `copy`.
        number: its id.
        process: label of its process; None where only one has that id.

    Raises:
        UsageError: there is none, or several processes have one.
    """
    rows = runs.rows[(runs.rows["kind"] == kind) & (runs.rows["event_id"] == number)]
    if process is not None:
        _require_process(process, runs)
        rows = rows[rows["process"] == process]
    if rows.empty:
        of_kind = runs.rows[(runs.rows["kind"] == kind).to_numpy()]
        ids = of_kind["event_id"] if process is None else of_kind.loc[of_kind["process"] == process, "event_id"]
        hint = f"ids go from {ids.min()} to {ids.max()}" if len(ids) else f"there is no {kind} at all"
        raise UsageError("unknown-event", f"there is no {kind} {number}", where=process, hint=hint)
    if len(rows) > 1:
        labels = ", ".join(sorted({str(label) for label in rows["process"]})[:_LISTED])
        raise UsageError(
            "several-events", f"{len(rows)} processes have a {kind} {number}", hint=f"--process LABEL: {labels}"
        )
    row = rows.iloc[0].to_dict()
    edges = runs.edges
    mine = edges[(edges["run"] == row["run"]) & (edges["process"] == row["process"]) & (edges["dispatch_id"] == number)]
    edge = mine.iloc[0].to_dict() if kind == "dispatch" and len(mine) else None
    return explain_row(row, runs.classified.get(str(row["run"]), {}), edge)


def _require_process(label: str, runs: AttributedRuns) -> None:
    known = sorted({str(each) for each in runs.rows["process"].unique()})
    if label not in known:
        near = nearest_names(label, known)
        raise UsageError("unknown-process", f"there is no process {label!r}", hint=", ".join(near or known[:_LISTED]))


def explain_named_instruction(runs: AttributedRuns, name: str) -> list[str]:
    """Why an instruction is in its bucket, in every program that has one of the name.

    Raises:
        UsageError: no program has.
    """
    lines: list[str] = []
    known: list[str] = []
    for run, programs in runs.classified.items():
        for program_id, buckets in programs.items():
            known += buckets
            if name in buckets:
                lines.append(f"run {run}, program {program_id}")
                lines += [f"  {line}" for line in explain_instruction(name, buckets[name])]
    if not lines:
        near = nearest_names(name, known)
        raise UsageError(
            "unknown-instruction",
            f"no program that ran has an instruction {name!r}",
            hint=", ".join(near) if near else "rocktools hlo list FILE lists them",
        )
    return lines
