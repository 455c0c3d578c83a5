"""One run of the application under the tool: start, wait, misbehave, write, and the status it ends with."""

from __future__ import annotations

import os
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from standins.faults import Faults, parse_faults
from standins.filters import BadRange
from standins.messages import log
from standins.output import write_outputs
from standins.paths import ProcessFacts, spill_path
from standins.scenario import Scenario, load_scenario
from standins.session import (
    Signals,
    die_with_parent,
    end_process,
    kill_child,
    leave_orphan,
    start_run,
    wait_at_most,
    writes_files_on,
)
from standins.tool import Aborts, Records, Run, ToolConfig, collect, read_config
from standins.versions import Release

FAULT_VARIABLE = "ROCKTOOLS_STANDIN_FAULT"
SCENARIO_VARIABLE = "ROCKTOOLS_STANDIN_SCENARIO"

_COMMAND_BUFFERS_OFF = "--xla_gpu_enable_command_buffer="


@dataclass(frozen=True, slots=True, kw_only=True)
class _Plan:
    """What a run will do: its configuration, scenario and faults, and who runs it."""

    config: ToolConfig
    scenario: Scenario
    faults: Faults
    facts: ProcessFacts
    spill: Path
    run: int
    start_ns: int

    def log(self, level: str, source: str, text: str) -> None:
        log(self.config.environment, level, source, text)

    def say_last_words(self, error: Aborts) -> None:
        if error.is_exception:
            print(error, file=sys.stderr, flush=True)
        else:
            self.log("fatal", "tool.cpp:1583", str(error))


def run_application(
    command: Sequence[str], environment: dict[str, str], release: Release, *, earlier_runs: int, is_exec: bool
) -> int:
    """Run the application once, and write what the library would.

    Args:
        earlier_runs: runs of this call before this one.
        is_exec: whether launcher and application are one process (one pass).

    Returns:
        Its exit code, or minus the signal that ended it.
    """
    signals = Signals()
    signals.install()
    start_ns = time.clock_gettime_ns(time.CLOCK_BOOTTIME)
    try:
        config = read_config(environment, release)
    except BadRange as error:
        log(environment, "fatal", "config.cpp:212", str(error))
        return -signal.SIGABRT
    run = start_run(config.counters, environment, earlier_runs)
    asked = parse_faults(environment.get(FAULT_VARIABLE, ""))
    faults = Faults(asked, run=run, counters=config.counters)
    facts = _facts(command, environment)
    spill = _write_spill(facts, config) if is_exec and config.is_active else None
    child = subprocess.Popen(command, env=environment, preexec_fn=die_with_parent if is_exec else None)
    signals.child = child
    if not is_exec:
        facts = replace(facts, pid=child.pid, ppid=os.getpid())
    if not config.is_active:
        return child.wait()
    plan = _Plan(
        config=config,
        scenario=_scenario(environment, faults),
        faults=faults,
        facts=facts,
        spill=spill or _write_spill(facts, config),
        run=run,
        start_ns=start_ns,
    )
    return _run_profiled(plan, child, signals)


def _scenario(environment: dict[str, str], faults: Faults) -> Scenario:
    scenario = load_scenario(environment.get(SCENARIO_VARIABLE))
    if faults.any_of("same-file", "dropped-process") and scenario.processes_count < 2:
        scenario = replace(scenario, processes_count=2)
    return scenario


def _facts(command: Sequence[str], environment: dict[str, str]) -> ProcessFacts:
    """The application's process where it and the launcher are one."""
    return ProcessFacts(
        pid=os.getpid(),
        ppid=os.getppid(),
        pgid=os.getpgrp(),
        command=command,
        environment=environment,
        working_folder=Path.cwd(),
        started_s=time.time(),
    )


def _write_spill(facts: ProcessFacts, config: ToolConfig) -> Path:
    """The file of records that are not yet in a result file; it stays behind where nobody cleans up."""
    spill = spill_path(facts, "counter_collection" if config.groups else "kernel_dispatch")
    spill.parent.mkdir(parents=True, exist_ok=True)
    spill.write_bytes(b"records that are not yet in a file\n")
    return spill


def _run_profiled(plan: _Plan, child: subprocess.Popen[bytes], signals: Signals) -> int:
    plan.log("warning", "simple_timer.cpp:55", "[rocprofv3] tool initialization :: 0.002134 sec")
    plan.log("warning", "registration.cpp:812", "HSA version 8.19.1 initialized (instance=0)")
    try:
        records = [_collect(plan, process) for process in range(plan.scenario.processes_count)]
    except Aborts as error:
        wait_at_most(child, plan.scenario.seconds_before_first_dispatch)
        kill_child(child)
        plan.say_last_words(error)
        if plan.faults.argument("over-full") == "hang":
            signals.hang(signal.SIGTERM)
            return -signal.SIGTERM
        return -signal.SIGABRT
    _print_warnings(plan)
    early = _end_early(plan, child, signals)
    if early is not None:
        return early
    status = child.wait()
    if "orphan" in plan.faults:
        leave_orphan(float(plan.faults.argument("orphan", "60")))
    status, is_written, is_cut = _decide_end(plan, records, status, signals)
    if not is_written:
        return status
    if "slow-finalise" in plan.faults:
        time.sleep(float(plan.faults.argument("slow-finalise", "1")))
    try:
        _write_all(plan, [each.first_half() if is_cut else each for each in records])
    except Aborts as error:
        plan.say_last_words(error)
        return -signal.SIGABRT
    if "hot-journal" in plan.faults:
        return -signal.SIGKILL
    if "stale-spill" not in plan.faults:
        plan.spill.unlink(missing_ok=True)
        if not any(plan.spill.parent.iterdir()):
            plan.spill.parent.rmdir()
    return status


def _collect(plan: _Plan, process: int) -> Records:
    return collect(plan.config, plan.scenario, plan.faults, process=process, start_ns=plan.start_ns, run=plan.run)


def _print_warnings(plan: _Plan) -> None:
    """Texts that a run can leave on stderr without any other sign."""
    if "perfmon-warning" in plan.faults:
        for agent in range(plan.scenario.agents_count):
            plan.log(
                "warning",
                "ioctl.cpp:87",
                f"Device {agent} could not be locked for profiling due to lack of permissions "
                "(capability SYS_PERFMON). PMC Counters may be inaccurate",
            )
    if "spm-loss" in plan.faults:
        plan.log("warning", "spm.cpp:301", "SPM data loss: 12 samples were dropped")


def _end_early(plan: _Plan, child: subprocess.Popen[bytes], signals: Signals) -> int | None:
    """Ends that come before the application's own; None for none of them."""
    faults = plan.faults
    if "comgr-conflict" in faults:
        kill_child(child)
        print(": CommandLine Error: Option 'spirv-expand-step' registered more than once!", file=sys.stderr)
        print("LLVM ERROR: inconsistency in registered CommandLine options", file=sys.stderr, flush=True)
        signals.hang(signal.SIGTERM)
        return -signal.SIGTERM
    if "munmap" in faults and (faults.argument("munmap") != "pipe" or _is_pipe(1)):
        kill_child(child)
        plan.log("fatal", "ring_buffer.cpp:104", "ring_buffer of 65536 bytes: munmap failed: Invalid argument")
        return -signal.SIGABRT
    if "segfault" in faults and (faults.argument("segfault") != "graphs" or _has_command_buffers(plan)):
        wait_at_most(child, plan.scenario.seconds_before_first_dispatch)
        kill_child(child)
        return -signal.SIGSEGV
    for name, number in (("abort", signal.SIGABRT), ("killed", signal.SIGKILL)):
        if name in faults:
            wait_at_most(child, plan.scenario.seconds_before_first_dispatch)
            kill_child(child)
            return -number
    return None


def _decide_end(plan: _Plan, records: list[Records], status: int, signals: Signals) -> tuple[int, bool, bool]:
    """How the run ends: its status, whether files are written, whether only half of the records are there."""
    faults = plan.faults
    endings = {"hang": (signal.SIGINT, signal.SIGTERM), "hang-ignoring-sigint": (signal.SIGTERM,)}
    if "hang-ignoring-all" in faults:
        signals.hang()
    for name, ending in endings.items():
        if name in faults and (faults.argument(name) != "collectives" or _counts_collectives(records)):
            signals.hang(*ending)
            return -signals.received[-1], True, True
    if "caught-signal" in faults:
        plan.log(
            "error",
            "tool.cpp:2911",
            f"[PPID={plan.facts.ppid}][PID={plan.facts.pid + 1}][rocprofv3] caught signal 15...",
        )
    has_handlers = plan.config.is_on("ROCPROF_SIGNAL_HANDLERS", "1")
    if signals.received and has_handlers:
        return -signals.received[-1], True, True
    if status < 0:
        return status, has_handlers and writes_files_on(-status), True
    if "exit-code" in faults:
        status = int(faults.argument("exit-code", "1"))
    return status, True, False


def _counts_collectives(records: list[Records]) -> bool:
    """Whether counters are read around a kernel that waits for other devices: one at a time, it waits forever."""
    names = [counted.dispatch.kernel.name for each in records for counted in each.counted]
    return any(word in name for name in names for word in ("nccl", "rccl", "mscclpp"))


def _write_all(plan: _Plan, records: list[Records]) -> None:
    if "crash-at-output" in plan.faults:
        _crash_at_output(plan)
    last = len(records) - 1
    for process, each in enumerate(records):
        if "dropped-process" in plan.faults and process == last:
            continue
        facts = plan.facts
        if process and "same-file" not in plan.faults:
            facts = replace(facts, pid=facts.pid + process, ppid=facts.pid)
        end_ns = time.clock_gettime_ns(time.CLOCK_BOOTTIME) + process
        run = Run(
            config=plan.config,
            scenario=plan.scenario,
            faults=plan.faults,
            facts=facts,
            start_ns=plan.start_ns,
            end_ns=end_ns,
        )
        write_outputs(run, each)


def _crash_at_output(plan: _Plan) -> None:
    if plan.faults.argument("crash-at-output") == "hip":
        if "HIP_RUNTIME_API" in plan.config.traces:
            end_process(-signal.SIGSEGV)
        return
    print("double free or corruption (!prev)", file=sys.stderr, flush=True)
    end_process(-signal.SIGABRT)


def _has_command_buffers(plan: _Plan) -> bool:
    """Whether XLA would launch graphs: its flag is not there, or has a value."""
    flags = plan.config.environment.get("XLA_FLAGS", "").split()
    given = [flag for flag in flags if flag.startswith(_COMMAND_BUFFERS_OFF)]
    return not given or given[-1] != _COMMAND_BUFFERS_OFF


def _is_pipe(descriptor: int) -> bool:
    return stat.S_ISFIFO(os.fstat(descriptor).st_mode)
