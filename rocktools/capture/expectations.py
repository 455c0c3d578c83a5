"""What a pass was asked for, and whether its rows are there: exit code 0 is not success.

Pure: frames and lists in, findings out. A finding of severity `fault` means that the pass must not be used.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from rocktools.capture.iterations import Iterations
from rocktools.capture.kernel_filter import KernelFilter
from rocktools.findings import Finding, Severity
from rocktools.frames import GRID, WORKGROUP

# Clocks, waves and instructions of a kernel that ran: 0 is impossible, and means that counting did not work.
# Others (instructions of a type the kernel does not use, caches it does not touch, conflicts, stalls) may well be 0.
_NEVER_ZERO = re.compile(
    r"GRBM_COUNT|GRBM_GUI_ACTIVE|GRBM_(?:CP|SPI)_BUSY|SQ_WAVES|SQ_BUSY(?:_CU)?_CYCLES|SQ_WAVE_CYCLES|SQ_CYCLES|SQ_INSTS"
)
_INSTANCE_SUFFIX = re.compile(r"(_sum|_avr|_max|_min)$|\[\d+\]$")
_DEVICE_SUFFIX = re.compile(r":device=\d+$")
_SHOWN = 5
_LEAST_REPEATS = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Expectation:
    """What a pass must leave to be good.

    Attributes:
        kind: `trace`, `counters` or `replay`.
        counters: asked for; () for a trace.
        kernels: which kernels are counted; None for a trace.
        names: kernels that were asked for by their whole name; each must occur.
        iterations: which executions of each; None for all.
        processes_count: how many processes must have left their rows; None where that is not known.
    """

    kind: str
    counters: tuple[str, ...] = ()
    kernels: KernelFilter | None = None
    names: tuple[str, ...] = ()
    iterations: Iterations | None = None
    processes_count: int | None = None


def check_processes(found_count: int, expectation: Expectation, where: str) -> list[Finding]:
    """Processes that left nothing. Only the user knows how many there should be: one that was killed tells nobody."""
    asked_count = expectation.processes_count
    if asked_count is None or found_count >= asked_count:
        return []
    return [
        _fault(
            "processes-missing",
            where,
            f"{found_count:,} of the {asked_count:,} processes left a database",
            "workers that are killed before they end lose theirs: let the job wait for them",
            found_count=found_count,
            asked_count=asked_count,
        )
    ]


def check_files(
    announced: Sequence[tuple[Path, str | None]], found: Sequence[Path], folder: Path, expectation: Expectation
) -> list[Finding]:
    """Files the tool said it wrote, against files that are there.

    Args:
        announced: path and uuid from the tool's own messages; empty where its log level hides them.
        found: databases in the pass's folder.
    """
    where = str(folder)
    findings = []
    for path, count in Counter(path for path, _ in announced).items():
        if count > 1:
            findings.append(
                _fault(
                    "processes-overwrote-each-other",
                    where,
                    f"{count} processes wrote {path.name}, and only the last one's rows are left",
                    "the file name must hold %pid%; is ROCPROF_OUTPUT_FILE_NAME set inside the job?",
                    processes_count=count,
                )
            )
    present = {path.resolve() for path in found}
    suffix = "_results.json" if expectation.kind == "replay" else ".db"
    for path, _ in announced:
        if path.name.endswith(suffix) and path.resolve() not in present:
            findings.append(
                _fault(
                    "announced-file-missing", where, f"the tool said that it wrote {path}, but it is not in this pass"
                )
            )
    if not found:
        if expectation.kernels is not None:
            what = f"no kernel was counted: {expectation.kernels.meaning} did not run, or not in these iterations"
            advice = "take a trace first: rocktools kernels shows the names; names are matched without `.kd`, demangled"
        else:
            what = "no process recorded anything"
            advice = "does the job use a GPU in the processes that were started, and do they exit by themselves?"
        findings.append(_fault("no-database", where, what, advice))
    return findings


def check_kernels(counted: pd.DataFrame, expectation: Expectation, where: str) -> list[Finding]:
    """Kernels that were asked for and are missing, or that nobody asked for.

    Args:
        counted: COUNTED_DISPATCHES of the pass, at least kernel_name.
    """
    if expectation.kernels is None:
        return []
    names = [str(name) for name in counted["kernel_name"].unique()]
    findings = [
        _fault(
            "kernel-missing",
            where,
            f"{name} was asked for and never counted",
            "rocktools kernels on a trace shows the exact names",
        )
        for name in expectation.names
        if name not in names
    ]
    strangers = [name for name in names if not expectation.kernels.matches(name)]
    if strangers:
        shown = ", ".join(strangers[:_SHOWN]) + (", ..." if len(strangers) > _SHOWN else "")
        findings.append(
            _fault(
                "unwanted-kernels",
                where,
                f"{len(strangers)} kernels were counted that {expectation.kernels.meaning} does not name: {shown}",
                "rocprofv3 read the expression in another way; name the kernel with --kernel",
                kernels_count=len(strangers),
            )
        )
    return findings


def check_iterations(counted: pd.DataFrame, expectation: Expectation, where: str) -> list[Finding]:
    """Kernels that ran less often than the iterations that were asked for, or were counted more often.

    Args:
        counted: COUNTED_DISPATCHES of the pass, at least process, agent_id, kernel_id, kernel_name, replay_pass.
    """
    iterations = expectation.iterations
    if iterations is None or counted.empty:
        return []
    keys = ["process", "agent_id", "kernel_id", "kernel_name", "replay_pass"]
    executions = counted.groupby(keys, observed=True, dropna=False).size()
    findings = []
    for (_, agent, _, kernel, _), count in executions.items():
        if count < iterations.count:
            findings.append(
                Finding(
                    rule="fewer-iterations-than-asked",
                    severity=Severity.WARNING,
                    where=where,
                    message=f"{kernel} on agent {agent}: {count:,} of the {iterations.count:,} iterations ran",
                    numbers={"counted_count": int(count), "asked_count": iterations.count},
                )
            )
        elif count > iterations.count:
            findings.append(
                _fault(
                    "more-iterations-than-asked",
                    where,
                    f"{kernel} on agent {agent} was counted {count:,} times, not {iterations.count:,}",
                    "the range was not kept: was it empty, or does this version count something else?",
                    counted_count=int(count),
                    asked_count=iterations.count,
                )
            )
    return findings


def check_counters(values: pd.DataFrame, executions_count: int, expectation: Expectation, where: str) -> list[Finding]:
    """Counters that are missing, have holes, or are 0 where 0 is impossible.

    Args:
        values: COUNTER_VALUES of the pass.
        executions_count: how many values each counter must have: one for each counted execution.
    """
    findings = []
    found = {str(name): rows for name, rows in values.groupby("counter", observed=True)}
    for name in expectation.counters:
        rows = found.get(_recorded_name(name, found))
        if rows is None or rows.empty:
            findings.append(
                _fault(
                    "counter-missing",
                    where,
                    f"{name} was asked for and has no value",
                    "rocprofv3 only warns of counters it does not know; rocprofv3-avail list --pmc shows what it knows",
                )
            )
        elif len(rows) < executions_count and not _DEVICE_SUFFIX.search(name):  # other devices have none
            findings.append(
                _fault(
                    "counter-has-holes",
                    where,
                    f"{name} has values for {len(rows):,} of {executions_count:,} counted executions",
                    values_count=len(rows),
                    executions_count=executions_count,
                )
            )
    return findings + _check_zeros(found, where)


def _recorded_name(asked: str, found: dict[str, pd.DataFrame]) -> str:
    """The name a counter is recorded under: `X:device=0` goes by `X`."""
    bare = _DEVICE_SUFFIX.sub("", asked)
    return asked if asked in found else bare


def _check_zeros(found: dict[str, pd.DataFrame], where: str) -> list[Finding]:
    zeros = sorted(name for name, rows in found.items() if not rows.empty and bool((rows["max_value"] == 0).all()))
    if zeros and len(zeros) == len(found):
        return [
            _fault(
                "all-counters-zero",
                where,
                f"every counter of the pass is 0 in every execution: {', '.join(zeros)}",
                "counting did not work: check permissions (CAP_PERFMON) and the power state of the device",
                counters_count=len(zeros),
            )
        ]
    findings = []
    for name in zeros:
        is_impossible = _NEVER_ZERO.fullmatch(_INSTANCE_SUFFIX.sub("", name)) is not None
        findings.append(
            Finding(
                rule="counter-all-zero",
                severity=Severity.FAULT if is_impossible else Severity.WARNING,
                where=where,
                message=f"{name} is 0 in every execution"
                + (", which is impossible for a kernel that ran" if is_impossible else ""),
                advice=""
                if is_impossible
                else "a kernel that does nothing of the kind gives 0; else suspect the counter",
            )
        )
    return findings


def check_outliers(values: pd.DataFrame, counted: pd.DataFrame, where: str) -> list[Finding]:
    """Executions of one kernel and shape whose counter is absurdly far from the others (a fault of some drivers).

    Only where at least five executions can be compared, and the usual value is not 0: a rare event is no fault. Far is
    more than ten times the median distance from the median, and more than half the median itself: identical launches do
    not differ as much, different work of one name may.
    """
    keys = ["run", "process", "dispatch_id", "pass", "replay_pass"]
    shape = ["kernel_name", *GRID, *WORKGROUP]
    joined = values.merge(counted[[*keys, *shape]], on=keys, how="inner")
    findings = []
    for (counter, kernel), rows in joined.groupby(["counter", "kernel_name"], observed=True):
        outliers_count = 0
        for _, same in rows.groupby(shape[1:], observed=True, dropna=False):
            value = same["sum_value"].dropna()
            median = float(value.median())
            if len(value) < _LEAST_REPEATS or median == 0:
                continue
            distance = (value - median).abs()
            limit = max(10 * float(distance.median()), 0.5 * abs(median))
            outliers_count += int((distance > limit).sum())
        if outliers_count:
            findings.append(
                Finding(
                    rule="counter-outliers",
                    severity=Severity.WARNING,
                    where=where,
                    message=f"{counter} of {kernel}: {outliers_count:,} of {len(rows):,} values are far off",
                    numbers={"outliers_count": outliers_count, "executions_count": len(rows)},
                    advice="use medians, or collect again; some driver versions give single absurd values",
                )
            )
    return findings


def check_spill(spill_folder: Path, leftovers: Sequence[Path]) -> list[Finding]:
    """Temporary files of the tool that are left: it was killed before it could write its databases."""
    if not leftovers:
        return []
    return [
        _fault(
            "tool-was-killed",
            str(spill_folder),
            f"{len(leftovers)} temporary files of the tool are left, so a process died before its rows were written",
            "let processes end by themselves, or give them a longer time to end",
            files_count=len(leftovers),
        )
    ]


def _fault(rule: str, where: str, message: str, advice: str = "", **numbers: int) -> Finding:
    return Finding(rule=rule, severity=Severity.FAULT, where=where, message=message, advice=advice, numbers=numbers)
