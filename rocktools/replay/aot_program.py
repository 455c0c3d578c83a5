"""A script of the user's -> a folder with the program it compiles to for devices that are not here.

    <folder>/hlo/                    what XLA dumped: optimized module (text and proto), thunks, memory reports, target
    <folder>/executable.serialized   kernels with machine code, in launch order
    <folder>/kernels.csv             the same as a table: launch dimensions, registers, spills
    <folder>/aot.json                what was compiled, by which versions, for what (schema rocktools.aot/1)
    <folder>/logs/                   what the compilation printed

The folder appears when it is whole.
"""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime, timezone
from importlib import metadata
from pathlib import Path
from typing import Any

from rocktools import __version__
from rocktools.errors import DamagedFile, InputError, ReplayError, RocktoolsError, UnsupportedVersion, UsageError
from rocktools.process import ProcessRequest, ProcessResult, Stop, run_process
from rocktools.replay.aot_compile import CompileEnvironment, reason_of
from rocktools.replay.aot_kernels import build_launches
from rocktools.replay.aot_target import Target
from rocktools.replay.aot_worker import ANSWER_NAME, EXECUTABLE_NAME, FAILURE_NAME, REQUEST_NAME
from rocktools.replay.executable import read_executable
from rocktools.rundir import hash_files, load_json, require_free, write_json_file

AOT_SCHEMA = "rocktools.aot/1"
AOT_NAME = "aot.json"
KERNELS_NAME = "kernels.csv"
HLO_FOLDER = "hlo"
_LOGS_FOLDER = "logs"
_DUMP_FLAGS = ("--xla_dump_hlo_as_text", "--xla_dump_hlo_as_proto")
_KEPT_DUMPS = frozenset(
    {
        *("_after_optimizations.txt", "_after_optimizations.hlo.pb", ".thunk_sequence.txt", ".thunk_metadata.txt"),
        *("_after_optimizations-buffer-assignment.txt", "_after_optimizations-memory-usage-report.txt"),
        ".gpu_target_config.pbtxt",
    }
)
# Kernels inside of command buffers have no thunk of their own, and no profiler can replay them.
_COMMAND_BUFFER_FLAG = "--xla_gpu_enable_command_buffer"
# Like -m, but nothing in the user's folder is imported in the place of a module of ours.
_START = (
    "import sys; sys.path[:] = [path for path in sys.path if path]; from pathlib import Path; "
    "from rocktools.replay.aot_worker import compile_program; compile_program(Path(sys.argv[1]))"
)
_PLUGIN_PACKAGES = ("jax-rocm7-pjrt", "jax-rocm60-pjrt")


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgramToCompile:
    """What is to be compiled.

    Attributes:
        script: Python file.
        function: of it.
        target: for which device.
        devices_count: how many of them one host has.
    """

    script: Path
    function: str
    target: Target
    devices_count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CompiledFolder:
    """A folder that `compile_program` has made.

    Attributes:
        path: of it.
        document: its aot.json.
    """

    path: Path
    document: Mapping[str, Any]

    @property
    def executable(self) -> Path:
        return self.path / EXECUTABLE_NAME

    @property
    def hlo(self) -> Path:
        return self.path / HLO_FOLDER


def compile_program(
    program: ProgramToCompile,
    folder: Path,
    environment: CompileEnvironment,
    *,
    stand_in_libraries: tuple[str, ...] = (),
    on_wait: Callable[[float], None] | None = None,
) -> CompiledFolder:
    """Compile the program and put everything that came out into a new folder.

    Args:
        folder: is made; what is there already stays.
        environment: what compiles; flags of XLA in it apply, and the one for command buffers is added where it is not
            set.
        stand_in_libraries: sonames that stand-ins stood for, for the manifest.
        on_wait: called with the seconds since the start.

    Raises:
        UsageError: there is something at the folder, or no such script.
        ReplayError: the script or XLA failed, or it took too long.
        KeyboardInterrupt: an interrupt came meanwhile.
    """
    require_free(folder)
    if not program.script.is_file():
        raise UsageError("no-such-script", "there is no such file", where=str(program.script))
    if not folder.absolute().parent.is_dir():
        raise UsageError("output-folder-missing", "the folder of the output does not exist", where=str(folder.parent))
    with tempfile.TemporaryDirectory(dir=folder.absolute().parent, prefix=f".{folder.name}.") as name:
        work = Path(name)
        result, flags = _run(program, work, environment, on_wait)
        made = work / "made"
        (made / HLO_FOLDER).mkdir(parents=True)
        _keep_dumps(work / "dump", made / HLO_FOLDER, program.target)
        shutil.move(work / EXECUTABLE_NAME, made / EXECUTABLE_NAME)
        shutil.move(work / _LOGS_FOLDER, made / _LOGS_FOLDER)
        build_launches(read_executable(made / EXECUTABLE_NAME)).to_csv(made / KERNELS_NAME, index=False)
        document = {
            "schema": AOT_SCHEMA,
            "rocktools_version": __version__,
            "created_utc": datetime.now(timezone.utc).isoformat(timespec="seconds"),
            "script": str(program.script),
            "function": program.function,
            "devices_count": program.devices_count,
            "target": {
                "name": program.target.name,
                "title": program.target.title,
                "architecture": program.target.architecture,
                "configuration": program.target.configuration,
            },
            "xla_flags": flags,
            "stand_ins": list(stand_in_libraries),
            "duration_s": round(result.duration_s, 3),
            **_answer(work),
            "files": hash_files(made),
        }
        write_json_file(made / AOT_NAME, document)
        if folder.exists():
            folder.rmdir()  # it is empty
        made.rename(folder)
    return CompiledFolder(path=folder, document=document)


def read_compiled_folder(path: Path) -> CompiledFolder:
    """A folder that `compile_program` has made.

    Raises:
        InputError: it is none.
        UnsupportedVersion: it keeps another schema.
        DamagedFile: its manifest is damaged.
    """
    manifest = path / AOT_NAME
    if not manifest.is_file():
        raise InputError(
            "no-aot-folder", f"the folder has no {AOT_NAME}", where=str(path), hint="rocktools aot compile makes one"
        )
    try:
        document = load_json(manifest)
    except ValueError as error:
        raise DamagedFile("aot-manifest", f"the file is no JSON: {error}", where=str(manifest)) from error
    schema = document.get("schema") if isinstance(document, dict) else None
    if schema != AOT_SCHEMA:
        raise UnsupportedVersion("aot-schema", f"it keeps {schema}, and {AOT_SCHEMA} is read", where=str(manifest))
    return CompiledFolder(path=path, document=document)


def plugin_version() -> str:
    """Version of the installed ROCm plugin of JAX; "" where no package says."""
    for name in _PLUGIN_PACKAGES:
        try:
            return metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return ""


def _run(
    program: ProgramToCompile,
    work: Path,
    environment: CompileEnvironment,
    on_wait: Callable[[float], None] | None,
) -> tuple[ProcessResult, str]:
    """Run the worker to its end; how it ended, and the flags of XLA it had, dumps aside."""
    (work / _LOGS_FOLDER).mkdir()
    request = {
        "script": str(program.script.resolve()),
        "function": program.function,
        "plugin": str(environment.plugin),
        "topology": f"1x1x{program.devices_count}",
        "target_configuration": program.target.configuration,
    }
    (work / REQUEST_NAME).write_text(json.dumps(request), encoding="utf-8")
    env = environment.worker_env()
    flags = env.get("XLA_FLAGS", "").split()
    if not any(flag.startswith(_COMMAND_BUFFER_FLAG) for flag in flags):
        flags.append(f"{_COMMAND_BUFFER_FLAG}=")
    flags = [flag for flag in flags if not flag.startswith("--xla_dump")]
    env["XLA_FLAGS"] = " ".join([*flags, f"--xla_dump_to={work / 'dump'}", *_DUMP_FLAGS])
    env["JAX_PLATFORMS"] = "cpu"  # what the script computes by itself
    env["JAX_ENABLE_COMPILATION_CACHE"] = "false"  # what comes from a cache is not dumped
    result = run_process(
        ProcessRequest(
            argv=(str(environment.python), "-c", _START, str(work)),
            env=env,
            cwd=Path.cwd(),
            stdout_path=work / _LOGS_FOLDER / "stdout.txt",
            stderr_path=work / _LOGS_FOLDER / "stderr.txt",
            deadline_s=environment.each_deadline_s,
            interrupt_grace_s=0.5,  # there is nothing to save
            terminate_grace_s=5.0,
        ),
        on_wait=on_wait,
    )
    if result.stopped_by is Stop.INTERRUPT:
        raise KeyboardInterrupt
    _require_answer(program, work, environment, result)
    return result, " ".join(flags)


def _require_answer(
    program: ProgramToCompile, work: Path, environment: CompileEnvironment, result: ProcessResult
) -> None:
    """Raise what went wrong, if anything did."""
    where = f"{program.script}:{program.function}"
    if (work / FAILURE_NAME).exists():
        failure = json.loads((work / FAILURE_NAME).read_text(encoding="utf-8"))
        message = " ".join(str(failure["message"]).split())[:600]
        raise ReplayError(
            "aot-script" if failure["stage"] == "script" else "aot-failed",
            f"the {failure['stage']} failed: {failure['error']}: {message}",
            where=_place_of(failure["traceback"], program.script) or where,
            hint="rocktools aot compile --help says what the function must give back"
            if failure["stage"] in ("script", "lowering")
            else None,
        )
    if result.stopped_by is Stop.DEADLINE:
        raise ReplayError("aot-timeout", f"not compiled within {environment.each_deadline_s:g} s", where=where)
    if not (work / ANSWER_NAME).exists():
        log = (work / _LOGS_FOLDER / "stderr.txt").read_text(encoding="utf-8", errors="replace")
        raise ReplayError("aot-crashed", f"the compiler's process ended: {reason_of(log, result)}", where=where)


def _place_of(text: str, script: Path) -> str | None:
    """The last line of a traceback that is in the script, as `file:line`."""
    mark = f'File "{script.resolve()}", line '
    places = [line.split(mark)[1].split(",")[0] for line in text.splitlines() if mark in line]
    return f"{script}:{places[-1]}" if places else None


def _answer(work: Path) -> dict[str, Any]:
    answer: dict[str, Any] = json.loads((work / ANSWER_NAME).read_text(encoding="utf-8"))
    answer["versions"]["plugin"] = plugin_version()
    memory = answer["memory"]
    parts = ("arguments_bytes", "results_bytes", "temporaries_bytes")
    if all(name in memory for name in (*parts, "aliased_bytes")):
        memory["device_bytes"] = sum(memory[name] for name in parts) - memory["aliased_bytes"]
    return answer


def _keep_dumps(dump: Path, folder: Path, target: Target) -> None:
    """The files of the program for the target; what the script compiled for the host stays behind."""
    optimized = sorted(dump.glob(f"*.{target.architecture}_gpu_after_optimizations.txt")) if dump.is_dir() else []
    if not optimized:
        raise RocktoolsError("aot-no-dump", "XLA wrote no optimized program", where=str(dump))
    main = max(optimized, key=lambda path: path.stat().st_size)
    stem = main.name.removesuffix(f".{target.architecture}_gpu_after_optimizations.txt")
    for path in sorted(dump.glob(f"{stem}.*")):
        if path.name.removeprefix(stem).removeprefix(f".{target.architecture}_gpu") in _KEPT_DUMPS:
            path.replace(folder / path.name)
