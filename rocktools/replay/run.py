"""Runs the script of a replay on the devices of this machine, in a process of its own; what it says of the run.

Knows how the script is called and what it prints, and nothing of what is in the folder.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rocktools.errors import InputError, ReplayError
from rocktools.process import ProcessRequest, ProcessResult, Stop, run_process

SCRIPT_NAME = "replay.py"
RUN_SCHEMA = "rocktools.replay-run/1"
_MESSAGE_CHARACTERS = 600


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayRunOptions:
    """How a replay is run.

    Attributes:
        iterations_count: in the measured range.
        warmups_count: before it.
        device: number of the (first) device.
        inputs: `random`, `zeros`, or a folder of captured operands.
        outputs: folder for the results; None keeps none.
        is_cache_flushed: whether caches are overwritten before each iteration.
        plugin: library of the PJRT plugin; None for the one that JAX uses.
    """

    iterations_count: int = 20
    warmups_count: int = 3
    device: int = 0
    inputs: str = "random"
    outputs: Path | None = None
    is_cache_flushed: bool = False
    plugin: Path | None = None


def replay_run_argv(python: Path, folder: Path, options: ReplayRunOptions) -> list[str]:
    """The command line that runs a replay."""
    argv = [str(python), str(folder.absolute() / SCRIPT_NAME)]
    argv += ["--iterations", str(options.iterations_count), "--warm-up", str(options.warmups_count)]
    argv += ["--device", str(options.device), "--inputs", options.inputs]
    if options.outputs is not None:
        argv += ["--outputs", str(options.outputs.absolute())]
    if options.is_cache_flushed:
        argv.append("--flush-cache")
    if options.plugin is not None:
        argv += ["--plugin", str(options.plugin)]
    return argv


def run_replay(
    folder: Path,
    options: ReplayRunOptions,
    *,
    python: Path,
    env: Mapping[str, str],
    deadline_s: float | None = None,
    on_wait: Callable[[float], None] | None = None,
) -> dict[str, Any]:
    """Run a replay; what it said (schema rocktools.replay-run/1). Its times are of the host, and no kernel times.

    Args:
        folder: of the replay.
        python: that has numpy, jax and the plugin.
        env: of the process.
        deadline_s: when it is stopped; None for never.

    Raises:
        InputError: the folder has no script.
        ReplayError: it failed, took too long, or said nothing.
        KeyboardInterrupt: an interrupt came meanwhile.
    """
    if not (folder / SCRIPT_NAME).is_file():
        raise InputError(
            "no-replay", f"the folder has no {SCRIPT_NAME}", where=str(folder), hint="rocktools extract makes replays"
        )
    with tempfile.TemporaryDirectory(prefix="rocktools-replay-") as name:
        stdout, stderr = Path(name) / "stdout", Path(name) / "stderr"
        result = run_process(
            ProcessRequest(
                argv=tuple(replay_run_argv(python, folder, options)),
                env=env,
                cwd=Path.cwd(),
                stdout_path=stdout,
                stderr_path=stderr,
                deadline_s=deadline_s,
                interrupt_grace_s=2.0,
            ),
            on_wait=on_wait,
        )
        if result.stopped_by is Stop.INTERRUPT:
            raise KeyboardInterrupt
        texts = [path.read_text(encoding="utf-8", errors="replace") for path in (stdout, stderr)]
    return _answer(folder, result, *texts)


def _answer(folder: Path, result: ProcessResult, stdout: str, stderr: str) -> dict[str, Any]:
    """The last line that the script printed."""
    if result.stopped_by is Stop.DEADLINE:
        raise ReplayError(
            "replay-timeout", f"the replay was stopped after {result.duration_s:.0f} s", where=str(folder)
        )
    if result.exit_code != 0:
        lines = [line.strip() for line in stderr.splitlines() if line.strip()]
        ended = f"signal {result.signal_number}" if result.signal_number else f"exit code {result.exit_code}"
        said = lines[-1][-_MESSAGE_CHARACTERS:] if lines else "nothing on standard error"
        raise ReplayError(
            "replay-failed",
            f"the replay ended with {ended}: {said}",
            where=str(folder / SCRIPT_NAME),
            hint="it needs a GPU and ROCm; rocktools replay prove needs neither",
        )
    for line in reversed(stdout.splitlines()):
        try:
            document = json.loads(line)
        except ValueError:
            continue
        if isinstance(document, dict) and document.get("schema") == RUN_SCHEMA:
            return document
    raise ReplayError("replay-silent", "the replay ended well and said nothing of its run", where=str(folder))
