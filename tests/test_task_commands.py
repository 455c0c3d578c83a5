"""The shell blocks of the manual's task pages: each rocktools command in them works, on a simulated run.

What these pages show without its output is not compared, only run. Commands that start a job, compile for a GPU or need
a cluster are named here with the reason.
"""

from __future__ import annotations

import re
import shlex
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from rocktools.cli.main import COMMANDS, main

TASKS = Path(__file__).resolve().parents[1] / "docs" / "tasks"
PAGES = ("how-fast-could-it-be", "one-kernel-alone", "where-the-step-went", "which-instruction")
NOT_RUN = {
    "rocktools pmc": "starts a job under rocprofv3",
    "rocktools replay prove": "compiles for a GPU: tests/cli/test_aot.py",
    "rocktools aot": "compiles for a GPU: tests/cli/test_aot.py",
    "rocktools ledger job --dask": "needs a cluster: tests/workspace/test_many_ranks.py",
}
# What stands for a name of the reader's own job -> one of the simulated job.
NAMES = {
    "--explain NAME": "--explain gemm_fusion_dot.99",
    "--instruction fusion.7": "--instruction gemm_fusion_dot.99",
    "--program jit_step": "--program jit_train_step",
    "roofline run --explain": "roofline run --by instruction --explain",
}


def _commands(page: str) -> Iterator[str]:
    text = (TASKS / f"{page}.md").read_text(encoding="utf-8")
    for block in re.findall(r"```sh\n(.*?)```", text, re.DOTALL):
        for line in block.splitlines():
            if line.startswith("rocktools "):
                yield line.partition(" #")[0].strip()


@pytest.fixture(scope="module")
def job(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder as the pages have it: a run, its program and a trace apart, a workload, traces of a job."""
    folder = tmp_path_factory.mktemp("tasks")
    assert main(["demo", "-o", str(folder / "run"), "--ranks", "1", "--steps", "3"]) == 0
    shutil.copytree(folder / "run" / "hlo", folder / "hlo")
    shutil.copy(folder / "run" / "workload.yaml", folder / "job.yaml")
    [trace] = (folder / "run" / "trace").glob("*.db")
    shutil.copy(trace, folder / "trace.db")
    (folder / "job").mkdir()
    shutil.copy(trace, folder / "job" / "rank_0_results.db")
    return folder


@pytest.mark.slow
@pytest.mark.parametrize("page", PAGES)
def test_commands_of_a_page_work(
    page: str, job: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(job)
    ran = 0
    for command in _commands(page):
        if any(command.startswith(start) for start in NOT_RUN):
            continue
        for name, own in NAMES.items():
            command = command.replace(name, own)
        code = main(shlex.split(command)[1:])
        assert code == 0, f"{command}\n{capsys.readouterr().err}"
        ran += 1
    assert ran >= 2


def test_every_command_that_is_left_out_is_in_a_page() -> None:
    every = [command for page in PAGES for command in _commands(page)]
    assert [start for start in NOT_RUN if not any(command.startswith(start) for command in every)] == []
    assert {command.split()[1] for command in every} <= set(COMMANDS)
