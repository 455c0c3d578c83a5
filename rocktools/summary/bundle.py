"""A run, or two -> a folder from which every table can be made again elsewhere, without a GPU; and the proof of that.

    bundle.json           what is in it, sha256 of each file, the command line of each table (`rocktools.bundle/1`)
    README.md             the same for people
    inputs/<side>/        what commands read of the run
    <side>.summary.json   the summary; <side>.report.md its report
    tables/<side>/*.csv   every table
    compare.json          where there are two sides, `before` and `after`; a single one is called `run`
    track.json            the comparison held against thresholds

Commands are given by whoever calls, as this layer has none: `RunCommand` runs one in a folder. A bundle is proven by
running all of them in a copy of its inputs at another place, and comparing bytes.
"""

from __future__ import annotations

import filecmp
import os
import platform
import shlex
import shutil
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pandas as pd

from rocktools import __version__
from rocktools.errors import DamagedFile, InputError, RocktoolsError, UsageError
from rocktools.rundir import hash_file, require_free
from rocktools.summary.bundle_commands import Command, commands_of_run, comparisons, is_ours, report_of, summary_path
from rocktools.summary.bundle_document import (
    BUNDLE_NAME,
    SCHEMA,
    Bundle,
    BundleFile,
    BundleOutput,
    BundleSide,
    write_bundle,
)
from rocktools.summary.bundle_inputs import Scrub, SideRequest, copy_inputs, sensitive_facts
from rocktools.summary.bundle_readme import render_readme
from rocktools.summary.document import read_summary
from rocktools.workspace.run_directories import RunDirectories

README_NAME = "README.md"
THRESHOLDS_NAME = "thresholds.yaml"


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """How a command ended: its exit code, and what it said in one line where it failed."""

    exit_code: int
    message: str


RunCommand = Callable[[tuple[str, ...], Path], Outcome]
"""Runs rocktools with these arguments in this folder."""

Progress = Callable[[str, int, int], None]
"""Called with a file that is about to be made, its number, and how many there are."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BundleRequest:
    """What to bundle.

    Attributes:
        sides: name -> a run, or the file of a summary: `run`, or `before` and `after`.
        components: name or file of the component map; None: as commands have it.
        device: part and compute partition, where files do not say which it was.
        tables: names of the tables.
        has_traces: whether inputs go into the bundle.
        scrub: what is taken out of databases.
        allowed: facts in which the two sides may differ.
        thresholds: file with limits of `track`; None: its own.
        created_utc: ISO 8601.
    """

    sides: dict[str, SideRequest | Path]
    components: str | None
    device: tuple[str | None, str | None]
    tables: tuple[str, ...]
    has_traces: bool
    scrub: Scrub
    allowed: tuple[str, ...]
    thresholds: Path | None
    created_utc: str


@dataclass(frozen=True, slots=True, kw_only=True)
class BundleCheck:
    """What came of making everything again.

    Attributes:
        made_count: files that were made again and are the same bytes.
        different: files that came out otherwise.
        not_made: files that the bundle has, and whose inputs it has not.
        changed: files that are not as the manifest says, or are missing.
    """

    made_count: int
    different: tuple[str, ...]
    not_made: tuple[str, ...]
    changed: tuple[str, ...]

    @property
    def is_good(self) -> bool:
        return not self.different and not self.changed


def make_bundle(folder: Path, request: BundleRequest, run: RunCommand, on_progress: Progress) -> Bundle:
    """Make a bundle in a new folder. It appears when it is whole; whether it holds what it promises, `verify` tells.

    Raises:
        UsageError: the folder is taken, is the working folder, or lies in a run directory.
        InputError: an input cannot be read, or no summary can be made of it.
        RocktoolsError: a file cannot be written.
    """
    require_free(folder)
    if folder.resolve() == Path.cwd():
        raise UsageError("bundle-here", "a bundle is a new folder, and this is the working folder", where=str(folder))
    if RunDirectories().find(folder / "file") is not None:
        raise UsageError(
            "bundle-in-run", "the bundle would lie in a run directory, whose files it is to hold", where=str(folder)
        )
    partial = folder.with_name(f".{folder.name}.{os.getpid()}.partial")
    try:
        partial.mkdir(parents=True)
        bundle = _fill(partial, request, run, on_progress)
        if folder.exists():
            folder.rmdir()
        partial.replace(folder)
    except OSError as error:
        raise RocktoolsError(
            "output-failed", f"could not write: {error.strerror or error}", where=str(folder)
        ) from error
    finally:
        shutil.rmtree(partial, ignore_errors=True)
    return bundle


def verify_bundle(folder: Path, bundle: Bundle, run: RunCommand, on_progress: Progress) -> BundleCheck:
    """Make everything again from the inputs, in a copy at another place, and compare byte for byte.

    Raises:
        DamagedFile: the manifest has a command that no bundle has; nothing is run then.
        RocktoolsError: the copy cannot be made.
    """
    for output in bundle.outputs:
        if not is_ours(output):
            raise DamagedFile(
                "bundle-command",
                f"the manifest has a command that no bundle has: {shlex.join(output.command)}",
                where=str(folder / BUNDLE_NAME),
            )
    changed = tuple(each.path for each in bundle.files if _is_changed(folder, each))
    outputs = [each for each in bundle.outputs if each.is_regenerable]
    kept = {each.path for each in bundle.outputs if not each.is_regenerable and each.reason is None}
    different: list[str] = []
    with _copy_elsewhere(folder, bundle, kept) as elsewhere:
        for number, output in enumerate(outputs, start=1):
            on_progress(output.path, number, len(outputs))
            (elsewhere / output.path).parent.mkdir(parents=True, exist_ok=True)
            outcome = run(output.command[1:], elsewhere)
            if outcome.exit_code != output.exit_code or not _is_same(folder / output.path, elsewhere / output.path):
                different.append(output.path)
    return BundleCheck(
        made_count=len(outputs) - len(different),
        different=tuple(different),
        not_made=tuple(sorted(kept)),
        changed=changed,
    )


def _fill(folder: Path, request: BundleRequest, run: RunCommand, on_progress: Progress) -> Bundle:
    components = _copy_components(folder, request)
    sensitive: dict[str, None] = {}
    commands: list[Command] = []
    left_out: dict[str, tuple[str, ...]] = {}
    arguments: dict[str, tuple[str, ...]] = {}
    for name, side in request.sides.items():
        if isinstance(side, Path):
            read_summary(side)
            shutil.copyfile(side, folder / summary_path(name))
            commands.append(report_of(name))
            continue
        copied = copy_inputs(side, folder, f"inputs/{name}", request.scrub)
        left_out[name], arguments[name] = tuple(copied.left_out), tuple(copied.paths)
        if request.has_traces:
            sensitive |= dict.fromkeys(sensitive_facts(folder, copied, request.scrub))
        commands += commands_of_run(name, copied, components=components, device=request.device, tables=request.tables)
    if len(request.sides) == 2:
        thresholds = None
        if request.thresholds is not None:
            shutil.copyfile(request.thresholds, folder / THRESHOLDS_NAME)
            thresholds = THRESHOLDS_NAME
        commands += comparisons(request.allowed, thresholds)
    outputs: list[BundleOutput] = []
    for number, command in enumerate(commands, start=1):
        on_progress(command.path, number, len(commands))
        outputs.append(_make(folder, command, run, has_inputs=request.has_traces))
    if not request.has_traces:
        shutil.rmtree(folder / "inputs", ignore_errors=True)
    sides = tuple(
        BundleSide(
            name=name,
            kind="summary" if isinstance(side, Path) else "run",
            title=read_summary(folder / summary_path(name)).title,
            has_inputs=request.has_traces and not isinstance(side, Path),
            arguments=arguments.get(name, ()) if request.has_traces else (),
            left_out=left_out.get(name, ()),
        )
        for name, side in request.sides.items()
    )
    bundle = Bundle(
        schema=SCHEMA,
        rocktools_version=__version__,
        versions=used_versions(),
        created_utc=request.created_utc,
        is_simulated=any(read_summary(folder / summary_path(name)).is_simulated for name in request.sides),
        scrubbed=request.scrub.value,
        sensitive=tuple(sensitive),
        sides=sides,
        outputs=tuple(outputs),
        files=(),
    )
    (folder / README_NAME).write_text(render_readme(bundle), encoding="utf-8")
    bundle = _with_files(folder, bundle)
    write_bundle(folder, bundle)
    return bundle


def _copy_components(folder: Path, request: BundleRequest) -> str | None:
    """The component map as commands in the bundle name it."""
    if request.components is None or not Path(request.components).is_file():
        return request.components
    target = folder / "inputs" / "components.yaml"
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(request.components, target)
    return target.relative_to(folder).as_posix()


def _make(folder: Path, command: Command, run: RunCommand, *, has_inputs: bool) -> BundleOutput:
    """Run a command, and say what came of it.

    Raises:
        InputError: it should have made a summary, and made none.
    """
    (folder / command.path).parent.mkdir(parents=True, exist_ok=True)
    outcome = run(command.arguments, folder)
    is_made = (folder / command.path).is_file()
    if not is_made and command.role == "summary":
        raise InputError("bundle-summary", f"no summary can be made: {outcome.message}", where=command.side)
    return BundleOutput(
        path=command.path,
        side=command.side,
        role=command.role,
        command=("rocktools", *command.arguments),
        exit_code=outcome.exit_code,
        reason=None if is_made else outcome.message or f"the command ended with {outcome.exit_code}",
        is_regenerable=has_inputs or not command.needs_inputs,
    )


def _with_files(folder: Path, bundle: Bundle) -> Bundle:
    """The manifest with every file that is there by now."""
    roles = {summary_path(side.name): "summary" for side in bundle.sides}
    roles |= {output.path: output.role for output in bundle.outputs}
    roles[README_NAME] = "readme"
    files = []
    for path in sorted(path for path in folder.rglob("*") if path.is_file()):
        name = path.relative_to(folder).as_posix()
        role = roles.get(name, "input")
        files.append(BundleFile(path=name, role=role, size_bytes=path.stat().st_size, sha256=hash_file(path)))
    return replace(bundle, files=tuple(files))


def used_versions() -> dict[str, str]:
    """Versions of what numbers are computed with; others may round a last digit differently."""
    return {"python": platform.python_version(), "numpy": np.__version__, "pandas": pd.__version__}


def _is_changed(folder: Path, file: BundleFile) -> bool:
    path = folder / file.path
    return not path.is_file() or path.stat().st_size != file.size_bytes or hash_file(path) != file.sha256


def _is_same(one: Path, other: Path) -> bool:
    """Whether both files are there with the same bytes, or neither is."""
    if not (one.is_file() and other.is_file()):
        return one.is_file() == other.is_file()
    return filecmp.cmp(one, other, shallow=False)


@contextmanager
def _copy_elsewhere(folder: Path, bundle: Bundle, kept: Collection[str]) -> Iterator[Path]:
    """A temporary folder with everything that outputs are made of, and no output that can be made again."""
    made = {output.path for output in bundle.outputs if output.path not in kept}
    with TemporaryDirectory(prefix="rocktools-bundle-") as name:
        elsewhere = Path(name).resolve() / "bundle"
        try:
            for file in bundle.files:
                if file.path not in made and (folder / file.path).is_file():
                    _link_or_copy(folder / file.path, elsewhere / file.path)
            elsewhere.mkdir(exist_ok=True)
        except OSError as error:
            raise RocktoolsError(
                "bundle-copy", f"a copy to check it failed: {error.strerror or error}", where=str(error.filename)
            ) from error
        yield elsewhere


def _link_or_copy(source: Path, target: Path) -> None:
    """A second name for the file where the file system has such, since traces are large; else a copy."""
    target.parent.mkdir(parents=True, exist_ok=True)
    try:
        os.link(source, target)
    except OSError:
        shutil.copy2(source, target)
