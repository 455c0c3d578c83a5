"""The ROCm plugin of JAX that is installed, and what it takes to load it here -> an environment to compile in."""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from rocktools.errors import MissingExtra, UsageError
from rocktools.replay.aot_compile import CompileEnvironment
from rocktools.replay.aot_stand_ins import prepare_stand_ins

_LIBRARY = "xla_rocm*/xla_rocm_plugin.so"


@dataclass(frozen=True, slots=True, kw_only=True)
class PreparedEnvironment:
    """An environment to compile in, and what had to be stood in for.

    Attributes:
        environment: of the workers.
        stand_in_libraries: sonames; empty where ROCm is here.
    """

    environment: CompileEnvironment
    stand_in_libraries: tuple[str, ...]


def find_plugin() -> Path | None:
    """The library of the installed plugin; None where none is. Nothing is imported."""
    spec = importlib.util.find_spec("jax_plugins")  # a namespace, of which each plugin has a folder
    folders = [] if spec is None else list(spec.submodule_search_locations or ())
    libraries = sorted(path for folder in folders for path in Path(folder).glob(_LIBRARY))
    return libraries[-1] if libraries else None


def prepare_environment(
    *,
    python: Path,
    cache: Path,
    env: Mapping[str, str],
    plugin: Path | None = None,
    compiler: str | None = None,
    each_deadline_s: float = 600.0,
) -> PreparedEnvironment:
    """Everything that compiling needs.

    Args:
        python: interpreter of the workers.
        cache: folder that keeps stand-ins; made where something is missing.
        env: environment of the workers.
        plugin: library of the ROCm plugin; None for the installed one.
        compiler: of C, for stand-ins; None for the first in the PATH.
        each_deadline_s: longest time for one module, or one program.

    Raises:
        MissingExtra: no plugin is installed.
        UsageError: there is no such plugin.
        ToolNotFound, ToolFailed, CaptureError, InputError: as `prepare_stand_ins`.
    """
    found = plugin or find_plugin()
    if found is None:
        raise MissingExtra(
            "missing-extra",
            "compiling ahead of time needs the ROCm plugin of JAX, which is not installed",
            hint="pip install 'rocktools[aot]' (Python 3.11 or newer, Linux on x86-64)",
        )
    if not found.is_file():
        raise UsageError("no-such-plugin", "there is no such file", where=str(found))
    stand_ins = prepare_stand_ins(found, cache, env=env, compiler=compiler)
    environment = CompileEnvironment(
        python=python, plugin=found, stand_ins=stand_ins.folder, env=env, each_deadline_s=each_deadline_s
    )
    return PreparedEnvironment(environment=environment, stand_in_libraries=stand_ins.libraries)
