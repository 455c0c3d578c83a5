"""A profile and tables that another tool made of it -> CROSSCHECK: what is equal, and why the rest differs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from rocktools.attribution.component_map_file import read_shipped_map
from rocktools.findings import Finding, Severity
from rocktools.sources.tracelens_tables import read_tracelens_tables
from rocktools.sources.xprof_tables import read_xprof_tables
from rocktools.workspace.attributed import AttributionOptions, attribute_workspace
from rocktools.workspace.crosscheck_events import read_profile_events
from rocktools.workspace.crosscheck_rows import CheckedFigure, Verdict, crosscheck_frame, reasons_frame
from rocktools.workspace.crosscheck_tracelens import check_tracelens
from rocktools.workspace.crosscheck_xprof import check_xprof
from rocktools.workspace.workspace import Workspace


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Crosscheck:
    """What came of it.

    Attributes:
        figures: every comparison.
        is_simulated: whether a file says that no hardware produced it.
        findings: of reading, and tables that were not compared.
    """

    figures: tuple[CheckedFigure, ...]
    is_simulated: bool
    findings: tuple[Finding, ...]

    @property
    def frame(self) -> pd.DataFrame:
        """CROSSCHECK."""
        return crosscheck_frame(self.figures)

    @property
    def reasons(self) -> pd.DataFrame:
        """CROSSCHECK_REASONS."""
        return reasons_frame(self.figures)

    def count(self, verdict: Verdict) -> int:
        """Figures with this verdict."""
        return sum(each.verdict is verdict for each in self.figures)


def crosscheck(paths: Sequence[str | Path], *, xprof: Path | None, tracelens: Path | None) -> Crosscheck:
    """Compare a profile with tables of xprof, of TraceLens, or of both.

    Raises:
        UsageError: there are several runs.
        InputError: a file, a folder or a table cannot be read.
        NothingToRead: no profile with events of devices, or no table.
    """
    xprof_tables = None if xprof is None else read_xprof_tables(xprof)
    tracelens_tables = None if tracelens is None else read_tracelens_tables(tracelens)
    figures: list[CheckedFigure] = []
    findings: list[Finding] = []
    with Workspace.open(paths) as workspace:
        events = read_profile_events(workspace)
        if xprof_tables is not None:
            figures += check_xprof(xprof_tables, events)
            findings += _not_compared(xprof_tables.others, str(xprof))
        if tracelens_tables is not None:
            options = AttributionOptions(component_map=read_shipped_map("maxtext"))
            figures += check_tracelens(tracelens_tables, events, attribute_workspace(workspace, options).rows)
            findings += _not_compared(tracelens_tables.others, str(tracelens))
        findings += [*workspace.findings, *events.findings]
        is_simulated = workspace.is_simulated
    return Crosscheck(figures=tuple(figures), is_simulated=is_simulated, findings=tuple(findings))


def _not_compared(names: Sequence[str], where: str) -> list[Finding]:
    if not names:
        return []
    return [
        Finding(
            rule="tables-not-compared",
            severity=Severity.NOTE,
            where=where,
            message=f"{len(names)} files hold nothing that is compared: {', '.join(names[:6])}",
            numbers={"files_count": len(names)},
        )
    ]
