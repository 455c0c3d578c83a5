"""Preflight checks and capture records as tables."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from rocktools.evidence import Evidence

if TYPE_CHECKING:
    from rocktools.capture.preflight import Check
    from rocktools.render.table import Table
    from rocktools.rundir import PassRecord


def checks_table(checks: Sequence[Check]) -> Table:
    """One row for each check."""
    import pandas as pd

    from rocktools.render.table import Table, table_column

    columns = (
        table_column("check", "what was looked at", evidence=Evidence.MEASURED, dtype="object"),
        table_column("state", "good, or the heaviest finding", evidence=Evidence.MEASURED, dtype="object"),
        table_column("found", "what was found", evidence=Evidence.MEASURED, dtype="object"),
    )
    frame = pd.DataFrame(
        {
            "check": [check.name for check in checks],
            "state": [check.state for check in checks],
            "found": [check.detail for check in checks],
        }
    )
    return Table(name="CHECKS", title="preflight", columns=columns, frame=frame, is_simulated=False)


def records_table(records: Sequence[PassRecord]) -> Table:
    """One row for each attempt at a pass."""
    import pandas as pd

    from rocktools.render.table import ColumnKind, Table, table_column

    measured = Evidence.MEASURED
    columns = (
        table_column("pass", "name of the pass", evidence=measured, dtype="object"),
        table_column("attempt", "number of the attempt", evidence=measured, kind=ColumnKind.IDENTIFIER),
        table_column(
            "state", "verified: its rows were checked; failed: do not use them", evidence=measured, dtype="object"
        ),
        table_column("databases_count", "databases it left", evidence=measured),
        table_column("dispatches_count", "kernel dispatches in them", evidence=measured),
        table_column(
            "run_s", "how long the job ran under the tool; no time of a kernel", evidence=measured, dtype="float64"
        ),
        table_column("outcome", "how the process ended", evidence=measured, dtype="object"),
    )
    frame = pd.DataFrame(
        {
            "pass": [record.name for record in records],
            "attempt": [record.attempt for record in records],
            "state": ["verified" if record.is_verified else "failed" for record in records],
            "databases_count": [len(record.databases) for record in records],
            "dispatches_count": [sum(db.dispatches_count for db in record.databases) for record in records],
            "run_s": [record.duration_s for record in records],
            "outcome": [record.outcome for record in records],
        }
    )
    return Table(name="PASSES", title="passes", columns=columns, frame=frame, is_simulated=False)
