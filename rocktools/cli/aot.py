"""`rocktools aot compile|show|diff`: what a program becomes on a GPU, without one."""

from __future__ import annotations

import functools
import os
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from rocktools.cli.options import table_options
from rocktools.cli.output import TableFormat, TableOutput, emit_findings, emit_table
from rocktools.cli.progress import tell_seconds
from rocktools.errors import EXIT_GOOD, UsageError
from rocktools.units import count_noun, format_si

if TYPE_CHECKING:
    import pandas as pd

    from rocktools.findings import Finding
    from rocktools.frames import FrameSpec
    from rocktools.render.table import Table
    from rocktools.replay.aot_diff import CompiledSide
    from rocktools.replay.aot_environment import PreparedEnvironment
    from rocktools.replay.aot_program import CompiledFolder
    from rocktools.replay.executable import GpuExecutable

_Function = Callable[..., Any]
_OPTIONAL = (
    *("vgpr_count", "workgroup_workitems", "lds_bytes", "grid_workgroups_x", "sgpr_count", "scratch_bytes"),
    *("vgpr_spills_count", "sgpr_spills_count", "agpr_count", "grid_workgroups_y", "grid_workgroups_z", "code_bytes"),
    *("kind", "launch_index", "kernel_name"),
)
_OPTIONAL_OF_CHANGES = (
    *("what", "b_instruction", "a_vgpr_count", "b_vgpr_count", "a_lds_bytes", "b_lds_bytes", "a_code_bytes"),
    *("b_code_bytes", "a_grid_workgroups", "b_grid_workgroups", "a_spills_count", "b_spills_count", "a_kernel_name"),
    *("b_kernel_name", "change_index"),
)
_ENVIRONMENT_OPTIONS = (
    click.option(
        "--plugin",
        metavar="FILE",
        type=click.Path(path_type=Path),
        help="Library of the ROCm plugin of JAX (xla_rocm_plugin.so).  [default: the installed one]",
    ),
    click.option(
        "--timeout",
        "timeout_s",
        metavar="SECONDS",
        type=click.FloatRange(min=0, min_open=True),
        default=1800.0,
        show_default=True,
        help="Longest time for one compilation.",
    ),
    click.option(
        "--cache",
        metavar="DIR",
        type=click.Path(path_type=Path),
        help="Where stand-ins for missing ROCm libraries are kept.  [default: rocktools in the user's cache folder]",
    ),
)


def environment_options(function: _Function) -> _Function:
    """Adds what compiling needs; the function gets it as `prepare`, to be called when everything else is known."""

    @functools.wraps(function)
    def with_environment(
        *arguments: Any, plugin: Path | None, timeout_s: float, cache: Path | None, **options: Any
    ) -> Any:
        prepare = functools.partial(_prepare, plugin=plugin, timeout_s=timeout_s, cache=cache)
        return function(*arguments, prepare=prepare, **options)

    decorated: _Function = with_environment
    for option in reversed(_ENVIRONMENT_OPTIONS):
        decorated = option(decorated)
    return decorated


@click.group("aot")
def command() -> None:
    """What a JAX program becomes on a GPU, without one: compiled ahead of time for gfx950 or gfx942.

    Nothing runs on any device. XLA compiles with its default settings where it would time candidates on a device
    (autotuning), so tiles of matrix products may differ from those of a real run.
    """


@command.command("compile")
@click.argument("program", metavar="SCRIPT:FUNCTION", type=str)
@click.option(
    "--devices",
    "devices_count",
    metavar="N",
    type=click.IntRange(min=1, max=64),
    default=1,
    show_default=True,
    help="Devices of the one host.",
)
@click.option(
    "--target",
    metavar="NAME",
    default="mi355x",
    show_default=True,
    help="Device: mi355x, mi350x, mi300x, a YAML file of yours, or a *.gpu_target_config.pbtxt that XLA dumped.",
)
@click.option("-o", "--output", "folder", metavar="DIR", required=True, type=click.Path(path_type=Path),
              help="Folder to make.")  # fmt: skip
@environment_options
def compile_command(
    program: str,
    devices_count: int,
    target: str,
    folder: Path,
    prepare: Callable[[], PreparedEnvironment],
) -> int:
    """Compile what FUNCTION of the Python file SCRIPT gives back, for devices that are not here.

    FUNCTION is called with the list of devices and returns one of

    \b
        function, arguments              jitted or not; arguments are arrays or jax.ShapeDtypeStruct
        function, arguments, keywords
        jax.jit(function).trace(...)     or .lower(...) of it

    Arguments without a sharding are put on the device, or whole on each of several. For other shardings make a Mesh of
    the devices:

    \b
        def step(devices):
            mesh = jax.sharding.Mesh(numpy.array(devices).reshape(4, 2), ("data", "model"))
            sharding = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec("data"))
            return jax.jit(train), (jax.ShapeDtypeStruct((64, 4096), "bfloat16", sharding=sharding),)

    DIR gets the optimized program as text and proto, thunk sequence, memory reports, the serialized executable, a table
    of kernels, and a manifest. XLA_FLAGS apply; command buffers are off unless they say otherwise, so that each kernel
    has a thunk. Where ROCm is missing, stand-ins for its libraries are made, which takes a C compiler.
    """
    from rocktools.replay.aot_program import ProgramToCompile, compile_program
    from rocktools.replay.aot_target import read_target
    from rocktools.replay.executable import read_executable

    script, colon, function = program.rpartition(":")
    if not colon or not script or not function.isidentifier():
        raise UsageError("bad-program", f"{program!r} is not of the form SCRIPT:FUNCTION", hint="train.py:step")
    wanted = ProgramToCompile(
        script=Path(script), function=function, target=read_target(target), devices_count=devices_count
    )
    prepared = prepare()
    compiled = compile_program(
        wanted,
        folder,
        prepared.environment,
        stand_in_libraries=prepared.stand_in_libraries,
        on_wait=tell_seconds,
    )
    if sys.stderr.isatty():
        click.echo(err=True)
    findings = stand_in_findings(prepared)
    table = _launches_table(read_executable(compiled.executable), compiled)
    emit_table(table, TableOutput(top_count=20), findings=findings)
    emit_findings(findings)
    click.echo(f"wrote {folder}: rocktools aot show {folder} lists every launch", err=True)
    return EXIT_GOOD


@command.command("show")
@click.argument("path", metavar="DIR", type=click.Path(path_type=Path))
@table_options(top_count=40)
def show(path: Path, output: TableOutput) -> int:
    """Every launch of a compiled program, in order, with launch dimensions, registers, spills and shared memory.

    DIR is a folder of `rocktools aot compile`, or a serialized executable: a file that JAX or its compilation cache
    wrote.
    """
    executable, compiled = _open(path)
    emit_table(_launches_table(executable, compiled, is_whole=output.table_format is not TableFormat.TABLE), output,
               findings=())  # fmt: skip
    return EXIT_GOOD


@command.command("diff")
@click.argument("first", metavar="A", type=click.Path(path_type=Path))
@click.argument("second", metavar="B", type=click.Path(path_type=Path))
@click.option("--all", "shows_same", is_flag=True, help="Show launches that are the same too.")
@table_options(top_count=60)
def diff(first: Path, second: Path, shows_same: bool, output: TableOutput) -> int:
    """What changed from A to B, kernel by kernel: added, removed, other launch, registers or code.

    A and B are folders of `rocktools aot compile`, of two versions of jax, two sets of flags, or two states of a
    program; or serialized executables, in which instructions are found again by name and code only.
    """
    from rocktools.replay.aot_diff import AOT_CHANGES, Change, compare_compilations

    opened = [_open(path) for path in (first, second)]
    frame = compare_compilations(*(_side(executable, compiled) for executable, compiled in opened))
    counts = Counter(frame["change"])
    if not shows_same:
        frame = frame[~frame["change"].isin([Change.SAME.value, Change.RENAMED.value])]
    title = ", ".join(f"{counts.get(change.value, 0)} {change}" for change in Change)
    notes = _notes_of_diff(*(compiled for _, compiled in opened))
    table = _table(frame, AOT_CHANGES, title, _OPTIONAL_OF_CHANGES, notes)
    emit_table(table, output, findings=())
    return EXIT_GOOD


def stand_in_findings(prepared: PreparedEnvironment) -> list[Finding]:
    """What to know about an environment in which libraries of ROCm are stood in for."""
    from rocktools.findings import Finding, Severity

    libraries = prepared.stand_in_libraries
    if not libraries:
        return []
    return [
        Finding(
            rule="rocm-stood-in-for",
            severity=Severity.NOTE,
            where=str(prepared.environment.plugin),
            message=f"{len(libraries)} libraries of ROCm are not here and were stood in for: {', '.join(libraries)}",
            numbers={"libraries_count": len(libraries)},
            advice="enough to compile; nothing can run",
        )
    ]


def _prepare(*, plugin: Path | None, timeout_s: float, cache: Path | None) -> PreparedEnvironment:
    from rocktools.replay.aot_environment import prepare_environment

    caches = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return prepare_environment(
        python=Path(sys.executable),
        cache=cache or Path(caches) / "rocktools",
        env=dict(os.environ),
        plugin=plugin,
        compiler=os.environ.get("CC"),
        each_deadline_s=timeout_s,
    )


def _open(path: Path) -> tuple[GpuExecutable, CompiledFolder | None]:
    """The executable at a path, and what is known about it where it is a folder of `aot compile`."""
    from rocktools.replay.aot_program import read_compiled_folder
    from rocktools.replay.executable import read_executable

    if path.is_dir():
        compiled = read_compiled_folder(path)
        return read_executable(compiled.executable), compiled
    return read_executable(path), None


def _side(executable: GpuExecutable, compiled: CompiledFolder | None) -> CompiledSide:
    from rocktools.hlo.dumps import find_dumps, read_program
    from rocktools.hlo.fingerprint import fingerprint_instructions
    from rocktools.replay.aot_diff import CompiledSide
    from rocktools.replay.aot_kernels import launched_thunks

    dumps = find_dumps(compiled.hlo) if compiled is not None else []
    fingerprints = fingerprint_instructions(read_program(dumps[0]).module) if dumps else {}
    return CompiledSide(thunks=launched_thunks(executable), fingerprints=fingerprints)


def _launches_table(executable: GpuExecutable, compiled: CompiledFolder | None, *, is_whole: bool = False) -> Table:
    from rocktools.replay.aot_kernels import AOT_LAUNCHES, build_launches

    frame = build_launches(executable)
    kernels_count = int(frame["kernel_name"].notna().sum())
    others = Counter(frame.loc[frame["kernel_name"].isna(), "kind"])
    texts = [count_noun(kernels_count, "kernel launch") if kernels_count == 1 else f"{kernels_count} kernel launches"]
    texts += [f"{count} {kind}" for kind, count in others.most_common() if count]
    title = f"{executable.module_name or executable.source}, {executable.architecture}: {', '.join(texts)}"
    if not is_whole:  # columns that say nothing here, and one that says nothing to people
        frame = frame.drop(columns="code_sha256")
        frame = frame.drop(columns=[name for name in frame.columns if frame[name].isna().all() and len(frame)])
    notes = () if compiled is None else (_memory_note(compiled),)
    return _table(frame, AOT_LAUNCHES, title, _OPTIONAL, notes)


def _memory_note(compiled: CompiledFolder) -> str:
    memory = compiled.document.get("memory", {})
    parts = [f"{name.removesuffix('_bytes')} {format_si(value, 'B')}" for name, value in memory.items()]
    target, devices = compiled.document["target"]["title"], compiled.document["devices_count"]
    of_what = f"each of {devices} {target}" if devices > 1 else f"one {target}"
    return f"memory of {of_what}: {', '.join(parts)}"


def _notes_of_diff(first: CompiledFolder | None, second: CompiledFolder | None) -> tuple[str, ...]:
    """How the two were made, where that is known and not the same."""
    if first is None or second is None:
        return ("without folders of `rocktools aot compile`, instructions are found again by name and code only",)
    notes = []
    for key in ("versions", "xla_flags", "devices_count", "memory"):
        ours, theirs = first.document.get(key), second.document.get(key)
        if ours != theirs and isinstance(ours, dict) and isinstance(theirs, dict):
            names = [name for name in {**ours, **theirs} if ours.get(name) != theirs.get(name)]
            notes += [f"{name}: {ours.get(name)} in A, {theirs.get(name)} in B" for name in names]
        elif ours != theirs:
            notes.append(f"{key}: {ours} in A, {theirs} in B")
    targets = [side.document["target"]["name"] for side in (first, second)]
    if targets[0] != targets[1]:
        notes.append(f"target: {targets[0]} in A, {targets[1]} in B")
    return tuple(notes)


def _table(
    frame: pd.DataFrame, spec: FrameSpec, title: str, optional_columns: tuple[str, ...], notes: tuple[str, ...]
) -> Table:
    from rocktools.evidence import Evidence
    from rocktools.render.table import table_from_spec

    return table_from_spec(
        frame,
        spec,
        evidence=Evidence.COMPILER_ESTIMATE,
        title=title,
        is_simulated=False,
        notes=notes,
        optional_columns=optional_columns,
    )
