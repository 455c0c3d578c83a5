"""The demo's job, simulated once for all tests that look into it."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest

from rocktools.demo.job_run import write_demo_run
from rocktools.demo.job_scenario import JobScenario
from rocktools.demo.job_work import JobProgram, measure_program
from rocktools.demo.packed_programs import PackedProgram, ProgramName, read_packed
from rocktools.devices.files import read_device
from rocktools.hlo.dumps import find_dumps, read_program


@pytest.fixture(scope="session")
def packed() -> PackedProgram:
    return read_packed(ProgramName.SHORT)


@pytest.fixture(scope="session")
def job_program(packed: PackedProgram, tmp_path_factory: pytest.TempPathFactory) -> JobProgram:
    folder = tmp_path_factory.mktemp("dump")
    packed.write(folder)
    return measure_program(read_program(find_dumps(folder)[0]), read_device("MI355X"), name=ProgramName.SHORT)


@pytest.fixture(scope="session")
def demo_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    run = tmp_path_factory.mktemp("demo") / "run"
    scenario = JobScenario(ranks_count=2, steps_count=2)
    write_demo_run(run, scenario, argv=("demo",), created_utc="2026-01-01T00:00:00+00:00")
    return run


@pytest.fixture(scope="session")
def sites(demo_run: Path) -> pd.DataFrame:
    return pd.read_csv(demo_run / "truth" / "sites.csv", keep_default_na=False)
