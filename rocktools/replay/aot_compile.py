"""HLO modules -> serialized executables for a device that is not here, through worker processes.

A worker compiles one module after the other. Where it dies on one (a failed check of XLA ends the process) or takes too
long, that module is the culprit, and a new worker goes on with the rest. Nothing is executed on any device.
"""

from __future__ import annotations

import re
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

from rocktools.errors import ReplayError
from rocktools.process import ProcessRequest, ProcessResult, Stop, run_process
from rocktools.replay.aot_target import Target
from rocktools.replay.compile_job import CompileJob, ModuleFiles, write_job

_FATAL = re.compile(r"Check failed|^F\d{4}|LLVM ERROR|Assertion|terminate called", re.MULTILINE)
_ERROR = re.compile(r"^rocktools\.\S+: (.*)$|^\w*Error: (.*)$", re.MULTILINE)
_MESSAGE_CHARACTERS = 400
_POLL_S = 0.2


class CompileOutcome(str, Enum):
    """What became of a module."""

    COMPILED = "compiled"
    REFUSED = "refused"  # XLA answered with an error
    CRASHED = "crashed"  # the process ended on it
    TIMED_OUT = "timed-out"

    def __str__(self) -> str:
        return self.value


@dataclass(frozen=True, slots=True, kw_only=True)
class CompileEnvironment:
    """What compiles, and in which environment.

    Attributes:
        python: interpreter of the worker, one that has rocktools.
        plugin: the shared library of the ROCm plugin.
        stand_ins: folder of stand-ins for libraries it needs; None where all are there.
        env: of the worker; flags of XLA in it apply.
        each_deadline_s: longest time for one module.
    """

    python: Path
    plugin: Path
    stand_ins: Path | None
    env: Mapping[str, str]
    each_deadline_s: float = 600.0

    def worker_env(self) -> dict[str, str]:
        """The environment with the stand-ins where the loader looks."""
        env = dict(self.env)
        if self.stand_ins is not None:
            folders = [str(self.stand_ins), env.get("LD_LIBRARY_PATH", "")]
            env["LD_LIBRARY_PATH"] = ":".join(folder for folder in folders if folder)
        # The plugin says much that is about devices which are not there; errors of XLA itself come as fatal.
        env.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
        return env


@dataclass(frozen=True, slots=True, kw_only=True)
class ModuleToCompile:
    """A module and how to compile it.

    Attributes:
        name: for whoever reads the result.
        module: serialized HloModuleProto.
        options: serialized CompileOptionsProto, see `pjrt_options`.
    """

    name: str
    module: bytes
    options: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class CompiledModule:
    """What became of a module.

    Attributes:
        name: as asked.
        outcome: what happened.
        executable: serialized; empty unless it was compiled.
        reason: why not; "" where it was.
    """

    name: str
    outcome: CompileOutcome
    executable: bytes = b""
    reason: str = ""


class _Overdue(Exception):
    """The module that is being compiled takes too long."""


def compile_modules(
    modules: Sequence[ModuleToCompile],
    target: Target,
    environment: CompileEnvironment,
    *,
    devices_count: int = 1,
    on_progress: Callable[[int, int], None] | None = None,
) -> list[CompiledModule]:
    """Compile every module for a host with `devices_count` devices of that target; one result each, in order.

    Args:
        on_progress: called with how many are done and how many there are.

    Raises:
        ReplayError: the plugin cannot be used at all, so no module could be tried.
        KeyboardInterrupt: an interrupt came meanwhile.
    """
    with tempfile.TemporaryDirectory(prefix="rocktools-aot-") as name:
        folder = Path(name)
        files = [ModuleFiles(folder, number) for number in range(len(modules))]
        for one, wanted in zip(files, modules, strict=True):
            one.module.write_bytes(wanted.module)
            one.options.write_bytes(wanted.options)
        job = CompileJob(
            plugin=str(environment.plugin),
            topology=f"1x1x{devices_count}",
            target_configuration=target.configuration,
            modules_count=len(modules),
        )
        write_job(folder, job)
        culprits: dict[int, tuple[CompileOutcome, str]] = {}
        round_number = 0
        while any(one.is_untouched for one in files):
            untouched_before = sum(one.is_untouched for one in files)
            culprits.update(_work(folder, files, environment, round_number, on_progress))
            round_number += 1
            assert sum(one.is_untouched for one in files) < untouched_before, "a worker that did nothing raises"
        if on_progress is not None:
            on_progress(len(files), len(files))
        return [
            _result(wanted.name, one, culprits.get(number))
            for number, (one, wanted) in enumerate(zip(files, modules, strict=True))
        ]


def _work(
    folder: Path,
    files: Sequence[ModuleFiles],
    environment: CompileEnvironment,
    round_number: int,
    on_progress: Callable[[int, int], None] | None,
) -> dict[int, tuple[CompileOutcome, str]]:
    """Run one worker to its end; which module ended it, and why."""
    request = ProcessRequest(
        argv=(str(environment.python), "-m", "rocktools.replay.compile_worker", str(folder)),
        env=environment.worker_env(),
        cwd=folder,
        stdout_path=folder / f"worker-{round_number}.stdout",
        stderr_path=folder / f"worker-{round_number}.stderr",
        interrupt_grace_s=0.5,  # there is nothing to save
        terminate_grace_s=2.0,
    )

    def watch(_elapsed_s: float) -> None:
        done = sum(one.is_answered for one in files)
        if on_progress is not None and done < len(files):
            on_progress(done, len(files))
        begun = _begun(files)
        if begun is not None and time.time() - begun.started.stat().st_mtime > environment.each_deadline_s:
            raise _Overdue

    try:
        result = run_process(request, on_wait=watch, poll_s=_POLL_S)
    except _Overdue:
        begun = _begun(files)
        reason = f"not compiled within {environment.each_deadline_s:g} s"
        return {} if begun is None else {begun.number: (CompileOutcome.TIMED_OUT, reason)}
    if result.stopped_by is Stop.INTERRUPT:
        raise KeyboardInterrupt
    begun = _begun(files)
    log = request.stderr_path.read_text(encoding="utf-8", errors="replace")
    if begun is not None:
        return {begun.number: (CompileOutcome.CRASHED, reason_of(log, result))}
    if any(one.is_untouched for one in files):
        raise ReplayError(
            "aot-worker",
            f"the ROCm plugin cannot be used: {reason_of(log, result)}",
            where=str(environment.plugin),
            hint="rocktools --version shows the versions; jax and jax-rocm7-pjrt must be of one version",
        )
    return {}


def _begun(files: Sequence[ModuleFiles]) -> ModuleFiles | None:
    """The last module that was begun, where it has no answer."""
    begun = [one for one in files if one.started.exists()]
    return begun[-1] if begun and not begun[-1].is_answered else None


def reason_of(log: str, result: ProcessResult) -> str:
    """The line of the log that says why, or how the process ended."""
    lines = [line.strip() for line in log.splitlines() if line.strip()]
    fatal = [line for line in lines if _FATAL.search(line)]
    if fatal:
        return fatal[-1][-_MESSAGE_CHARACTERS:]
    errors = [next(text for text in found if text) for found in _ERROR.findall(log) if any(found)]
    how = f"signal {result.signal_number}" if result.signal_number else f"exit code {result.exit_code}"
    return errors[-1][:_MESSAGE_CHARACTERS] if errors else f"the process ended with {how}"


def _result(name: str, files: ModuleFiles, culprit: tuple[CompileOutcome, str] | None) -> CompiledModule:
    if files.executable.exists():
        return CompiledModule(name=name, outcome=CompileOutcome.COMPILED, executable=files.executable.read_bytes())
    if files.refused.exists():
        reason = files.refused.read_text(encoding="utf-8", errors="replace")
        return CompiledModule(name=name, outcome=CompileOutcome.REFUSED, reason=reason)
    assert culprit is not None, "a module without an answer ended its worker"
    return CompiledModule(name=name, outcome=culprit[0], reason=culprit[1])
