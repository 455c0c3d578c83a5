"""Finds rocprof-compute and the Python it needs, and asks it for its version.

It is a Python program with requirements of its own, and its first line says `env python3`: an active environment with
JAX would capture it. So the interpreter is named: the one that the user says, else the first of those that answer.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from rocktools.capture.compute_command import ComputeCommand, ComputeTool, analyze_help_command, version_command
from rocktools.capture.compute_versions import compute_facts, parse_compute_version
from rocktools.capture.versions import parse_help_options
from rocktools.errors import CaptureError, ToolFailed, ToolNotFound, UsageError
from rocktools.process import ToolOutput, find_executable, read_output

NAME = "rocprof-compute"
_DEFAULT_ROCM = "/opt/rocm"
# 2025 releases import all of their requirements first, from a slow disk now and then.
_ANSWER_S = 120.0
_PYTHONS = ("python3", "python")
_AMBIGUOUS_RELEASE = (3, 3)


def find_compute_tool(
    environ: Mapping[str, str], *, program: Path | None = None, python: Path | None = None
) -> ComputeTool:
    """The rocprof-compute to use, asked for its version.

    Args:
        environ: our environment.
        program: what the user named; None to look in $ROCM_PATH/bin, PATH and /opt/rocm/bin.
        python: its interpreter, as the user named it; None to find one.

    Raises:
        ToolNotFound: there is none.
        UsageError: the interpreter is not there, or the program needs none.
        CaptureError: it cannot be started, does not tell its version, or one whose options are not known.
    """
    found = find_compute_program(environ, program=program)
    failures: list[str] = []
    for candidate in python_candidates(found, environ, python=python):
        command = version_command(found, candidate)
        try:
            output = _ask(command, environ)
        except ToolNotFound as error:
            failures.append(error.what)
            continue
        if output.exit_code == 0:
            version = parse_compute_version(f"{output.stdout}\n{output.stderr}", where=str(found))
            facts = compute_facts(version)
            options = (
                _analyze_options(found, candidate, environ) if facts.release == _AMBIGUOUS_RELEASE else frozenset()
            )
            return ComputeTool(program=found, python=candidate, version=version, analyze_options=options)
        failures.append(f"{' '.join(command.argv)} ended with {output.exit_code}: {_last_words(output)}")
    raise ToolFailed(
        "compute-no-answer",
        f"it does not tell its version: {'; '.join(failures)}",
        where=str(found),
        hint="name a Python that has its requirements: --compute-python /opt/venvs/rocprof-compute/bin/python",
    )


def find_compute_program(environ: Mapping[str, str], *, program: Path | None = None) -> Path:
    """The launcher of rocprof-compute.

    Raises:
        ToolNotFound: it is not there.
    """
    path = environ.get("PATH", os.defpath)
    if program is not None:
        found = find_executable(str(program), path=path) or (program.absolute() if program.is_file() else None)
        if found is None:
            raise ToolNotFound("tool-not-found", f"{program} was not found", where=str(program.absolute()))
        return found
    root = environ.get("ROCM_PATH", "")
    folders = [Path(root) / "bin"] if root else []
    places = [*map(str, folders), path, str(Path(_DEFAULT_ROCM) / "bin")]
    for place in places:
        if (found := find_executable(NAME, path=place)) is not None:
            return found
    raise ToolNotFound(
        "tool-not-found",
        f"{NAME} was not found",
        where=os.pathsep.join(places),
        hint=f"name it with --{NAME} PATH, or set ROCM_PATH; it comes with ROCm (rocprofiler-compute), not with JAX",
    )


def python_candidates(
    program: Path, environ: Mapping[str, str], *, python: Path | None = None
) -> tuple[Path | None, ...]:
    """Interpreters to start it with, the best first; None: it is started by itself.

    A script that names its interpreter by its full path, and a program that is no script, know best themselves.

    Raises:
        UsageError: the interpreter is not there, or the program is no script of Python.
    """
    first_line = _first_line(program)
    is_script = first_line.startswith(b"#!")
    if python is not None:
        if find_executable(str(python), path=environ.get("PATH", os.defpath)) is None:
            raise UsageError("compute-python-missing", f"{python} is not there, or no program", where=str(python))
        if is_script and b"python" not in first_line:
            raise UsageError(
                "compute-python-useless",
                f"it is a script of {first_line[2:].decode('utf-8', 'replace').strip()}, which starts its own Python",
                where=str(program),
                hint="leave --compute-python out",
            )
        if not is_script:
            raise UsageError(
                "compute-python-useless",
                "it is a program of its own, and no script of Python",
                where=str(program),
                hint="leave --compute-python out",
            )
        return (python.absolute(),)
    words = first_line.removeprefix(b"#!").split()
    is_left_to_env = is_script and bool(words) and words[0].endswith(b"/env") and b"python" in b" ".join(words[1:])
    if not is_left_to_env:
        return (None,)
    outside = _outside_of_environments(environ)
    candidates = [found for name in _PYTHONS if (found := find_executable(name, path=outside)) is not None]
    return (*candidates[:1], None)


def _outside_of_environments(environ: Mapping[str, str]) -> str:
    """PATH without the folders of virtual environments: the active one, and ours."""
    inside = {str(Path(sys.prefix) / "bin")} if sys.prefix != sys.base_prefix else set()
    inside |= {str(Path(root) / "bin") for name in ("VIRTUAL_ENV", "CONDA_PREFIX") if (root := environ.get(name))}
    folders: Sequence[str] = environ.get("PATH", os.defpath).split(os.pathsep)
    return os.pathsep.join(
        folder for folder in folders if folder not in inside and not (Path(folder).parent / "pyvenv.cfg").is_file()
    )


def _first_line(program: Path) -> bytes:
    try:
        with program.open("rb") as stream:
            return stream.readline(256)
    except OSError as error:
        raise CaptureError("compute-unreadable", f"cannot read it: {error.strerror}", where=str(program)) from error


def _analyze_options(program: Path, python: Path | None, environ: Mapping[str, str]) -> frozenset[str]:
    output = _ask(analyze_help_command(program, python), environ)
    return parse_help_options(output.stdout) if output.exit_code == 0 else frozenset()


def _ask(command: ComputeCommand, environ: Mapping[str, str]) -> ToolOutput:
    return read_output(command.argv, env=command.delta(environ).apply(environ), timeout_s=_ANSWER_S)


def _last_words(output: ToolOutput) -> str:
    lines = [line.strip() for line in f"{output.stdout}\n{output.stderr}".splitlines() if line.strip()]
    return lines[-1][:300] if lines else "without a word"
