"""Every known way in which a capture fails (failure_modes.py) ends in a finding that names it, and in the right code.

One row for each way of acting a mode out. Modes without a row say in failure_modes.py why nothing can act them out;
what we do about those instead is at the end.
"""

from __future__ import annotations

import json
import os
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from capture.failure_modes import FAILURE_MODES
from standins.install import APP, FAULT, SCENARIO, STATE, install_standins

from rocktools.capture.preflight import Job, check_jax
from rocktools.cli.main import main
from rocktools.rundir import read_manifest

JOB = [sys.executable, str(APP)]
PMC = ("pmc", "--kernel", "loop_fusion_3", "--iterations", "3-4", "--counters", "SQ_WAVES,GRBM_GUI_ACTIVE")
TRACE = ("trace",)
HANGS = ("--deadline", "1", "--grace", "1")
FAST = ("--grace", "1")
GRAPHS = {"kernels": [{"name": "loop_fusion_3", "count": 100, "launched_by": "hipGraphLaunch"}]}
TWO = {"processes_count": 2, "agents_count": 2}
WORKER = {**TWO, "kernels": [{"name": "loop_fusion_3", "processes": [1]}]}
# Six counters of TCC, of which four fit at once.
TWO_GROUPS = "TCC_HIT_sum,TCC_MISS_sum,TCC_EA0_RDREQ_sum,TCC_EA0_WRREQ_sum,TCC_REQ_sum,TCC_READ_sum"
REPLAY = ("pmc", "--kernel", "loop_fusion_3", "--counters", TWO_GROUPS)


@dataclass(frozen=True, kw_only=True)
class Case:
    """One way of acting a mode out, what must be found, and how the command must end."""

    mode: int
    fault: str = ""
    command: tuple[str, ...] = TRACE
    options: tuple[str, ...] = ()
    scenario: dict[str, Any] = field(default_factory=dict)
    version: str = "1.3.2"
    finds: frozenset[str]
    code: int = 1

    def __str__(self) -> str:
        return f"{self.mode:02}-{self.fault or 'scenario'}-{self.command[0]}"


def case(mode: int, fault: str, finds: str, **rest: Any) -> Case:
    return Case(mode=mode, fault=fault, finds=frozenset(finds.split()), **rest)


CASES = (
    case(1, "over-full", "pass-ended-in-tool-abort counter-group-too-large", command=PMC),
    case(1, "over-full:hang", "pass-ended-in-timeout", command=PMC, options=HANGS),
    case(2, "unknown-counter", "counters-not-found counter-missing", command=PMC),
    case(2, "missing-counter", "counter-missing", command=PMC),
    case(3, "hang", "pass-ended-in-timeout", command=PMC, options=HANGS),
    case(3, "hang-ignoring-sigint", "pass-ended-in-timeout", command=PMC, options=HANGS),
    case(3, "hang-ignoring-all", "pass-ended-in-timeout", command=PMC, options=HANGS),
    case(4, "hang", "pass-ended-in-timeout", command=PMC, options=HANGS),
    case(5, "hang", "pass-ended-in-timeout", options=HANGS, scenario={"agents_count": 8}),
    case(
        6,
        "hang",
        "pass-ended-in-timeout",
        command=PMC,
        options=(*HANGS, "--selected-regions"),
        scenario={"selected_rounds": [2, 6]},
    ),
    # Collectives are excluded unless somebody insists, and then the preflight says what will happen.
    case(7, "hang:collectives", "", command=("pmc", "--regex", ".", "--counters", "SQ_WAVES"), code=0),
    case(
        7,
        "hang:collectives",
        "collectives-counted pass-ended-in-timeout",
        command=("pmc", "--regex", ".", "--exclude", "", "--counters", "SQ_WAVES"),
        options=HANGS,
    ),
    case(8, "same-file", "processes-overwrote-each-other", scenario=TWO),
    case(9, "caught-signal", "tool-caught-signal", code=0),
    case(10, "hang", "pass-ended-in-timeout", options=HANGS),
    case(10, "hang-ignoring-all", "pass-ended-in-timeout", options=HANGS),
    case(10, "orphan:60", "orphans-killed", options=FAST, code=0),
    case(10, "slow-finalise:2", "", code=0),
    case(12, "munmap:pipe", "", code=0),
    case(12, "munmap", "ring-buffer-lost no-database"),
    case(13, "comgr-conflict", "llvm-loaded-twice pass-ended-in-timeout", options=HANGS),
    case(14, "avail-missing-lib", "pmc-check-unusable", command=PMC, code=0),
    case(15, "calls-only", "no-dispatches-in-trace"),
    case(16, "", "", scenario=WORKER, code=0),
    case(18, "crash-at-output", "no-database"),
    case(19, "segfault:graphs", "", code=0),
    case(19, "segfault:graphs", "pass-ended-in-application", options=("--command-buffers", "keep")),
    case(20, "lost-graph-kernels", "graph-launches", scenario=GRAPHS, code=0),
    case(20, "lost-graph-kernels:0.99", "no-database", scenario=GRAPHS),
    case(21, "outlier", "counter-outliers", command=PMC[:3] + PMC[5:], code=0),
    case(22, "inverted-timestamps", "negative-duration", code=0),
    case(23, "perfmon-warning", "gpu-not-locked", command=PMC, code=0),
    case(24, "zero-counters", "all-counters-zero", command=PMC),
    case(24, "zero-counters:SQ_WAVES", "counter-all-zero", command=PMC),
    case(25, "zero-counters", "all-counters-zero", command=PMC, scenario={"agents_count": 2}),
    case(
        27,
        "small-block:TCP=1",
        "group-refused-by-tool",
        command=(*PMC[:-1], "TCP_GATE_EN1_sum,TCP_GATE_EN2_sum"),
        code=0,
    ),
    case(28, "", "fewer-iterations-than-asked", command=(*PMC[:4], "11-14", *PMC[5:]), code=0),
    case(
        29,
        "replay-once",
        "counter-missing",
        command=REPLAY,
        options=("--passes-in-process", "--env", "XLA_PYTHON_CLIENT_PREALLOCATE=false"),
        version="1.4.1",
    ),
    case(29, "replay-collapse", "replay-overcount", command=PMC),
    # The options that the tool names itself decide, not the version that it reports.
    case(31, "reports-version:1.4.1", "", command=PMC, version="1.0.0", code=0),
    case(
        31,
        "reports-version:1.4.1",
        "tool-lacks-option",
        command=REPLAY,
        options=("--passes-in-process", "--env", "XLA_PYTHON_CLIENT_PREALLOCATE=false"),
        version="1.0.0",
    ),
    case(33, "crash-at-output:hip", "no-database"),
    case(33, "crash-at-output:hip", "", options=("--kernel-only",), code=0),
)

# Acted out with the same fault and finding as another mode; told apart by nothing that we could see.
SAME_AS = {11: 9}


@pytest.fixture(scope="module")
def releases(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("rocm")
    versions = {each.version for each in CASES}
    return {version: install_standins(folder / version / "bin", version=version) for version in versions}


@pytest.mark.parametrize("each", CASES, ids=str)
def test_a_failure_is_named_and_ends_in_the_right_code(
    each: Case,
    releases: dict[str, Path],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "state").mkdir()
    (tmp_path / "scenario.json").write_text(json.dumps(each.scenario))
    for name, value in {
        "PATH": f"{releases[each.version]}{os.pathsep}{os.environ['PATH']}",
        STATE: str(tmp_path / "state"),
        SCENARIO: str(tmp_path / "scenario.json"),
        FAULT: each.fault,
    }.items():
        monkeypatch.setenv(name, value)
    monkeypatch.delenv("XLA_FLAGS", raising=False)
    code = main([*each.command, "--force", "-o", "run", *each.options, "--", *JOB])
    captured = capsys.readouterr()
    assert code == each.code, captured.err
    assert "Traceback" not in captured.err
    missing = {rule for rule in each.finds if f"[{rule}]" not in captured.err and f": {rule}:" not in captured.err}
    assert not missing, captured.err
    if each.code and (tmp_path / "run").exists():
        records = read_manifest(tmp_path / "run").passes
        assert not all(record.is_verified for record in records)


def test_every_mode_is_tested_or_says_why_not() -> None:
    tested = {each.mode for each in CASES} | set(SAME_AS)
    for mode in FAILURE_MODES:
        assert (mode.number in tested) is mode.is_acted_out, f"{mode.number} {mode.name}"


def test_a_worker_that_loses_its_file_is_seen_where_its_number_is_known(
    releases: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Modes 9 and 11: one file less. Passes of one job are compared, so a process that is missing in one is named."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "state").mkdir()
    (tmp_path / "scenario.json").write_text(json.dumps(TWO))
    monkeypatch.setenv("PATH", f"{releases['1.3.2']}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv(STATE, str(tmp_path / "state"))
    monkeypatch.setenv(SCENARIO, str(tmp_path / "scenario.json"))
    monkeypatch.setenv(FAULT, "dropped-process@2")
    assert main(["pmc", "--force", "-o", "run", *PMC[1:-1], TWO_GROUPS, "--", *JOB]) == 1
    rules = {finding["rule"] for finding in read_manifest(tmp_path / "run").facts["findings"]}
    assert "passes-differ-in-executions" in rules


def test_jax_s_own_profiler_is_refused_before_the_launch() -> None:
    """Mode 17, which nothing can act out."""
    check = check_jax({}, Job(application=("python", "train.py", "profiler=xplane")))
    assert [finding.rule for finding in check.findings] == ["jax-profiler-inside"]
