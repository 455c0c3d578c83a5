"""One small run and its summary, made once for all tests of summaries."""

from __future__ import annotations

from pathlib import Path

import pytest
from scoped_run import write_scoped_run

from rocktools.attribution.component_map_file import read_shipped_map
from rocktools.summary.build import build_summary
from rocktools.summary.document import Summary
from rocktools.summary.gathered import SummaryOptions
from rocktools.workspace.attributed import AttributionOptions


@pytest.fixture(scope="session")
def options() -> SummaryOptions:
    return SummaryOptions(attribution=AttributionOptions(component_map=read_shipped_map("maxtext")))


@pytest.fixture(scope="session")
def scoped_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run directory: three steps on two devices, with the compiled program."""
    return write_scoped_run(tmp_path_factory.mktemp("summary") / "run", devices_count=2)


@pytest.fixture(scope="session")
def scoped_summary(scoped_run: Path, options: SummaryOptions) -> Summary:
    return build_summary([scoped_run], options)
