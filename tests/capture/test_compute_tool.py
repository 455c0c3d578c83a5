"""Finding rocprof-compute and its Python."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest
from standins.compute.install import compute_environment, install_compute, read_calls
from standins.compute.releases import RELEASES as STAND_INS

from rocktools.capture.compute_tool import find_compute_program, find_compute_tool, python_candidates
from rocktools.capture.compute_versions import ComputeVersion
from rocktools.errors import CaptureError, ToolFailed, ToolNotFound, UsageError

ENV_PYTHON = "/usr/bin/env python3"


def bare_environment(**changes: str) -> dict[str, str]:
    kept = {
        name: value for name, value in os.environ.items() if name not in ("ROCM_PATH", "VIRTUAL_ENV", "CONDA_PREFIX")
    }
    return {**kept, **changes}


def make_environment(folder: Path) -> Path:
    """A virtual environment as far as anybody looks; its python3 is ours."""
    (folder / "bin").mkdir(parents=True)
    (folder / "pyvenv.cfg").write_text("home = /usr/bin\n", encoding="utf-8")
    (folder / "bin" / "python3").symlink_to(sys.executable)
    return folder


@pytest.mark.parametrize("name", sorted(STAND_INS))
def test_every_release_tells_its_version(tmp_path, name):
    program = install_compute(tmp_path / "rocm", version=name)
    tool = find_compute_tool(compute_environment(program))
    assert tool.program == program
    assert str(tool.version) == STAND_INS[name].told
    assert ("--save-dfs" in tool.analyze_options) == (name == "3.3")
    assert ("--output-format" in tool.analyze_options) == (name == "3.3.0-released")


def test_it_is_looked_for_in_rocm_path_before_path(tmp_path):
    first = install_compute(tmp_path / "first", version="3.10")
    second = install_compute(tmp_path / "second", version="3.7")
    environ = bare_environment(ROCM_PATH=str(tmp_path / "second"), PATH=str(first.parent))
    assert find_compute_program(environ) == second
    assert find_compute_program(bare_environment(PATH=str(first.parent))) == first
    assert find_compute_program(environ, program=first) == first


def test_what_is_nowhere_is_named_with_where_it_was_looked_for(tmp_path):
    environ = {"PATH": str(tmp_path), "ROCM_PATH": str(tmp_path / "rocm")}
    with pytest.raises(ToolNotFound, match="tool-not-found") as caught:
        find_compute_program(environ)
    assert str(tmp_path / "rocm" / "bin") in (caught.value.where or "")
    assert "--rocprof-compute" in (caught.value.hint or "")
    with pytest.raises(ToolNotFound, match="tool-not-found"):
        find_compute_program(environ, program=tmp_path / "not-there")


def test_an_active_environment_does_not_capture_it(tmp_path):
    """The first line of the real ones is `env python3`, which an environment with JAX would answer."""
    program = install_compute(tmp_path / "rocm", version="3.10", interpreter=ENV_PYTHON)
    venv = make_environment(tmp_path / "jax")
    outside = tmp_path / "system"
    outside.mkdir()
    (outside / "python3").symlink_to(sys.executable)
    path = os.pathsep.join((str(venv / "bin"), str(outside)))
    environ = bare_environment(PATH=path, VIRTUAL_ENV=str(venv))
    assert python_candidates(program, environ) == (outside / "python3", None)
    del environ["VIRTUAL_ENV"]  # it is seen by its file, too
    assert python_candidates(program, environ) == (outside / "python3", None)


def test_a_named_python_is_the_one(tmp_path):
    program = install_compute(tmp_path / "rocm", version="3.10", interpreter=ENV_PYTHON)
    python = make_environment(tmp_path / "own") / "bin" / "python3"
    environ = compute_environment(program, state=tmp_path / "state")
    tool = find_compute_tool(environ, python=python)
    assert tool.start == (str(python), str(program))
    assert [call["argv"] for call in read_calls(tmp_path / "state")] == [["--version"]]


def test_a_script_with_an_interpreter_of_its_own_is_started_by_itself(tmp_path):
    program = install_compute(tmp_path / "rocm", version="3.10")
    assert python_candidates(program, bare_environment()) == (None,)


def test_a_python_that_is_not_there_is_refused(tmp_path):
    program = install_compute(tmp_path / "rocm", version="3.10")
    with pytest.raises(UsageError, match="compute-python-missing"):
        find_compute_tool(bare_environment(), program=program, python=tmp_path / "python")


@pytest.mark.parametrize("content", ["#!/bin/sh\necho\n", "\x7fELF"])
def test_a_python_is_refused_for_what_is_no_script_of_python(tmp_path, content):
    program = tmp_path / "rocprof-compute"
    program.write_text(content, encoding="utf-8")
    program.chmod(0o755)
    with pytest.raises(UsageError, match="compute-python-useless"):
        python_candidates(program, bare_environment(), python=Path(sys.executable))


def test_a_python_without_its_requirements_is_told_with_its_last_words(tmp_path):
    program = install_compute(tmp_path / "rocm", version="3.3")
    with pytest.raises(ToolFailed, match="compute-no-answer") as caught:
        find_compute_tool(compute_environment(program, faults="requirements"))
    assert "dash>=3.0.0" in caught.value.what
    assert "--compute-python" in (caught.value.hint or "")


def test_an_answer_without_a_version_is_refused(tmp_path):
    program = install_compute(tmp_path / "rocm", version="3.7")
    with pytest.raises(CaptureError, match="compute-version-unknown"):
        find_compute_tool(compute_environment(program, faults="no-version"))


def test_a_version_of_which_nothing_is_known_is_refused(tmp_path):
    program = install_compute(tmp_path / "rocm", version="3.3")
    with pytest.raises(CaptureError, match="compute-version-unsupported") as caught:
        find_compute_tool(compute_environment(program, faults="reports-version:2.0.1"))
    assert "2.0.1" in caught.value.what


def test_a_newer_version_is_used(tmp_path):
    program = install_compute(tmp_path / "rocm", version="3.10")
    tool = find_compute_tool(compute_environment(program, faults="reports-version:3.12.0"))
    assert tool.version == ComputeVersion(3, 12)
    assert tool.facts.name == "3.10"
