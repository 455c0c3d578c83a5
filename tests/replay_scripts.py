"""Scripts of replays/, imported as they are run: with their own folder, not rocktools, beside them."""

from __future__ import annotations

import importlib
import json
import os
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

FOLDER = Path(__file__).resolve().parents[1] / "replays"
NAMES = tuple(sorted(path.stem for path in FOLDER.glob("*.py") if path.stem != "measure"))


def load_script(name: str) -> ModuleType:
    """A script of the folder."""
    sys.path.insert(0, str(FOLDER))
    try:
        return importlib.import_module(name)
    finally:
        sys.path.remove(str(FOLDER))


def build_work(name: str, *arguments: object) -> Any:
    """The work that a command line asks for."""
    script = load_script(name).SCRIPT
    return script.build(load_script("measure").make_parser(script).parse_args([str(each) for each in arguments]))


def run_work(name: str, *arguments: object) -> tuple[list[Any], Any]:
    """Inputs in double precision, and the result on the CPU backend (of several results, a tuple)."""
    jax = pytest.importorskip("jax")
    measure, work = load_script("measure"), build_work(name, *arguments)
    inputs = [each.astype(np.float64) for each in measure.make_arrays(work)]
    result = measure.compute(work, jax.devices("cpu"))
    return inputs, jax.tree.map(np.asarray, result)


def cpu_environment(xla_flags: str = "") -> dict[str, str]:
    """Of a process on the CPU backend."""
    return {**os.environ, "JAX_PLATFORMS": "cpu", "XLA_FLAGS": xla_flags}


def run_script(name: str, *arguments: object, xla_flags: str = "") -> subprocess.CompletedProcess[str]:
    """A script in a process of its own, on the CPU backend, started from another folder."""
    command = [sys.executable, str(FOLDER / f"{name}.py"), *(str(each) for each in arguments)]
    return subprocess.run(
        command, env=cpu_environment(xla_flags), cwd=FOLDER.anchor, capture_output=True, text=True, check=False
    )


def printed_line(capsys: pytest.CaptureFixture[str], name: str, *arguments: object) -> dict[str, Any]:
    """What a script prints when it runs in this process."""
    pytest.importorskip("jax")
    assert load_script(name).main([str(each) for each in arguments]) == 0
    out = capsys.readouterr().out
    assert out.count("\n") == 1
    line: dict[str, Any] = json.loads(out)
    return line
