"""Counter passes of a run, and of the replays in it -> the block of quantities."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import pandas as pd

from rocktools.errors import FormulaError, InputError, RocktoolsError, UsageError
from rocktools.evidence import Absence
from rocktools.findings import Finding, Severity
from rocktools.replay.prove import Level as ProofLevel
from rocktools.rundir import PMC_FOLDER, load_json
from rocktools.summary.document import AbsentQuantity, CounterQuantity, CountersBlock, Missing
from rocktools.summary.gathered import Gathered
from rocktools.summary.rows import build_rows
from rocktools.workspace.metrics import Metrics, read_metrics

_REPLAYS_FOLDER, _PROOF_NAME, _PROOF_SCHEMA = "replays", "proof.json", "rocktools.proof/1"
_JOB = "job"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Counted:
    """What counters say.

    Attributes:
        block: of all origins.
        job: quantities of the job itself, which a roofline is made of; None where it was not counted.
        is_simulated: whether any pass says that no hardware produced it.
        findings: of all passes.
    """

    block: CountersBlock | Missing
    job: Metrics | None
    is_simulated: bool
    findings: tuple[Finding, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Origin:
    name: str
    proof: str | None
    paths: tuple[str | Path, ...]


def build_counters(
    gathered: Gathered, paths: Sequence[str | Path], counters: Sequence[str | Path], *, limit: int
) -> Counted:
    """Quantities of every counter pass that was named, lies in a run, or beside a replay in it.

    Args:
        paths: that the user named.
        counters: where counter passes are, besides.
        limit: most rows.
    """
    job = tuple(counters) or (tuple(paths) if gathered.counted_dispatches_count else ())
    origins = [_Origin(name=_JOB, proof=None, paths=job)] if job else []
    origins += _replays(gathered)
    rows: list[CounterQuantity] = []
    findings: list[Finding] = []
    passes: set[tuple[str, str]] = set()
    of_job: Metrics | None = None
    is_simulated = False
    for origin in origins:
        try:
            metrics = read_metrics(origin.paths)
        except (InputError, UsageError, FormulaError) as error:
            findings.append(_unreadable(error, origin))
            continue
        of_job = metrics if origin.name == _JOB else of_job
        is_simulated |= metrics.is_simulated
        findings += metrics.findings
        numbered = metrics.counted.numbered
        passes |= {(origin.name, str(name)) for name in numbered["pass"].unique()}
        rows += _rows(metrics.frame, origin)
    if not rows:
        reason = "there is no counter pass" if not origins else "no counter pass could be read"
        block: CountersBlock | Missing = Missing(absence=Absence.NOT_COLLECTED, reason=reason)
    else:
        valued = [each for each in rows if each.value is not None]
        block = CountersBlock(
            passes_count=len(passes),
            kernels_count=len({(each.origin, each.kernel_name) for each in rows}),
            quantities=tuple(valued[:limit]),
            left_out_count=max(0, len(valued) - limit),
            absent=_absent([each for each in rows if each.value is None]),
        )
    return Counted(block=block, job=of_job, is_simulated=is_simulated, findings=tuple(findings))


def _rows(frame: pd.DataFrame, origin: _Origin) -> list[CounterQuantity]:
    count = len(frame)
    found = build_rows(CounterQuantity, frame, origin=[origin.name] * count, proof=[origin.proof] * count)
    if origin.name == _JOB:
        return list(found)
    return [replace(each, run=origin.name) for each in found]


def _absent(rows: Sequence[CounterQuantity]) -> tuple[AbsentQuantity, ...]:
    """Quantities without a value, those of one reason together."""
    kernels: dict[tuple[str, str, str, Absence, str | None], set[str]] = {}
    for each in rows:
        absence = each.absence or Absence.UNDEFINED
        key = (each.origin, each.quantity, each.formula_id, absence, each.lacking)
        kernels.setdefault(key, set()).add(each.kernel_name)
    return tuple(
        AbsentQuantity(
            origin=origin,
            quantity=quantity,
            formula_id=formula_id,
            absence=absence,
            lacking=lacking,
            kernels_count=len(names),
        )
        for (origin, quantity, formula_id, absence, lacking), names in kernels.items()
    )


def _replays(gathered: Gathered) -> list[_Origin]:
    """The replays in run directories that have counter passes, in the order of their names."""
    roots = sorted({source.root for source in gathered.sources if source.root is not None})
    found = []
    for root in roots:
        for folder in sorted((root / _REPLAYS_FOLDER).glob("*")):
            run = folder / PMC_FOLDER
            if run.is_dir():
                found.append(_Origin(name=f"replay:{folder.name}", proof=_proof_of(folder), paths=(run,)))
    return found


def _proof_of(folder: Path) -> str:
    """Level of the proof that lies beside a replay; `unproven` where there is none that can be read."""
    path = folder / _PROOF_NAME
    if not path.exists():
        return ProofLevel.UNPROVEN.value
    try:
        document = load_json(path)
    except (InputError, ValueError):
        return ProofLevel.UNPROVEN.value
    levels = {each.value for each in ProofLevel}
    is_proof = isinstance(document, dict) and document.get("schema") == _PROOF_SCHEMA
    level = document.get("level") if is_proof else None
    return level if level in levels else ProofLevel.UNPROVEN.value


def _unreadable(error: RocktoolsError, origin: _Origin) -> Finding:
    return Finding(
        rule="counters-left-out",
        severity=Severity.WARNING,
        where=error.where or ", ".join(Path(path).name for path in origin.paths),
        message=f"counters of the {origin.name} are left out: {error.what}",
        advice=error.hint or "",
    )
