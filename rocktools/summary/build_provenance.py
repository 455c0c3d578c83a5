"""Files, manifests and rows -> which files were read, and what has to be the same for two summaries to be compared."""

from __future__ import annotations

import hashlib
import shlex
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from rocktools.errors import RocktoolsError
from rocktools.evidence import Absence, Evidence
from rocktools.rundir import MANIFEST_NAME, hash_file
from rocktools.sources.step_log import StepLogFile
from rocktools.summary.build_metadata import format_of
from rocktools.summary.document import PROVENANCE_FACTS, Fact, InputFile, Missing, Provenance
from rocktools.summary.facts import known, known_or, unknown
from rocktools.summary.gathered import Gathered, SummaryOptions
from rocktools.summary.names import shown_name
from rocktools.summary.recorded import RecordedRun
from rocktools.workspace.paths import SourceKind
from rocktools.workspace.used_device import choose_device

_NO_MANIFEST = "the files are in no run directory whose manifest says so"
_COMMAND_BUFFERS = "--xla_gpu_enable_command_buffer"
_PACKAGES = {"jax_version": ("jax",), "jaxlib_version": ("jaxlib",)}
_PLUGINS = ("jax-rocm7-pjrt", "jax-rocm60-pjrt", "jax-rocm7-plugin", "jax-rocm60-plugin")


@dataclass(frozen=True, slots=True, kw_only=True)
class Origins:
    """What facts are taken from.

    Attributes:
        gathered: rows and files.
        runs: manifests.
        originals: profile that was read -> the trace that it was made of.
        log: of the unprofiled run; None: none. log_name: of its file.
        log_path: the file.
    """

    gathered: Gathered
    runs: tuple[RecordedRun, ...]
    originals: Mapping[Path, Path] = field(default_factory=dict)
    log: StepLogFile | None = None
    log_path: Path | None = None

    @property
    def log_name(self) -> str:
        """Name of the log's file; "" where there is none."""
        return "" if self.log_path is None else self.log_path.name

    def agreed(self, find: Callable[[RecordedRun], Any], reason: str) -> Fact:
        """What the manifests say, where they all say the same."""
        found = [(value, run.source) for run in self.runs if (value := find(run)) not in (None, "", ())]
        texts = {value if isinstance(value, (str, int, float)) else shlex.join(value) for value, _ in found}
        if len(texts) > 1:
            return unknown(f"the runs differ: {', '.join(sorted(map(str, texts)))}", Absence.AMBIGUOUS)
        if not texts:
            return unknown(reason if self.runs else _NO_MANIFEST)
        return known(texts.pop(), Evidence.DECLARED, found[0][1])


def build_provenance(origins: Origins, options: SummaryOptions) -> Provenance:
    """Files with their hashes, and facts of all `PROVENANCE_FACTS`."""
    inputs = tuple(sorted(_inputs(origins, options), key=lambda each: (each.path, each.role)))
    hashes = [each.sha256 for each in inputs]
    joined = "\n".join(sorted(each or "" for each in hashes))
    is_whole = bool(hashes) and all(hashes)
    facts = {**_of_manifests(origins), **_of_devices(origins, options), **_of_files(origins)}
    return Provenance(
        inputs=inputs,
        inputs_sha256=hashlib.sha256(joined.encode()).hexdigest() if is_whole else None,
        facts={name: facts[name] for name in PROVENANCE_FACTS},
    )


def _inputs(origins: Origins, options: SummaryOptions) -> Iterable[InputFile]:
    gathered = origins.gathered
    counted = {str(path) for path in _counted_paths(gathered)}
    for source in gathered.sources:
        path = source.path.resolve()
        if path in origins.originals:
            original = origins.originals[path]
            yield _input(original, original.name, "perfetto_json", "perfetto_json", options)
            continue
        role = "counters" if str(source.path) in counted else "trace"
        role = "profile" if source.kind is SourceKind.PROFILE else role
        yield _input(path, shown_name(source), role, format_of(source), options)
    for run in origins.runs:
        yield _input(run.root / MANIFEST_NAME, f"{run.label}/{MANIFEST_NAME}", "manifest", "rocktools.run/1", options)
    for path, shown in _program_paths(gathered):
        yield _input(path, shown, "program", "hlo", options)
    for place in options.counters:
        for path in _counter_files(Path(place)):
            yield _input(path, path.name, "counters", path.suffix.removeprefix("."), options)
    if origins.log is not None and origins.log_path is not None:
        yield _input(origins.log_path, origins.log_name, "step_log", origins.log.format, options)


def _counter_files(place: Path) -> list[Path]:
    """The files of counter passes that were named besides, or lie in a folder that was."""
    if place.is_dir():
        return sorted(each for each in place.rglob("*") if each.suffix in (".db", ".csv") and each.is_file())
    return [place] if place.is_file() else []


def _counted_paths(gathered: Gathered) -> list[str]:
    frame = gathered.processes
    return [str(path) for path in frame.loc[(frame["content"] == "counters").to_numpy(), "path"]]


def _program_paths(gathered: Gathered) -> list[tuple[Path, str]]:
    """The files of compiled programs that are no profile, each once."""
    if isinstance(gathered.timed, Missing):
        return []
    profiles = {source.path.resolve() for source in gathered.sources}
    found: dict[Path, str] = {}
    for run, programs in gathered.timed.runs.programs.items():
        for each in programs:
            path = each.path.resolve()
            if path not in profiles:
                found.setdefault(path, f"{run}/{path.name}")
    return list(found.items())


def _input(path: Path, shown: str, role: str, file_format: str, options: SummaryOptions) -> InputFile:
    try:
        size = path.stat().st_size
        sha256 = hash_file(path) if options.hashes_inputs else None
    except OSError as error:
        missing = Missing(absence=Absence.NOT_COLLECTED, reason=f"the file cannot be read: {error.strerror}")
        return InputFile(path=shown, role=role, format=file_format, size_bytes=0, sha256=None, missing=missing)
    why = Missing(absence=Absence.NOT_COLLECTED, reason="hashes were not asked for") if sha256 is None else None
    return InputFile(path=shown, role=role, format=file_format, size_bytes=size, sha256=sha256, missing=why)


def _of_manifests(origins: Origins) -> dict[str, Fact]:
    """What captures recorded."""
    agreed, log = origins.agreed, origins.log
    facts = {
        name: agreed(partial(_package, names=names), "the capture found no such package")
        for name, names in (*_PACKAGES.items(), ("jax_plugin_version", _PLUGINS))
    }
    for name, value in (
        ("jax_version", None if log is None else log.jax_version),
        ("jaxlib_version", None if log is None else log.jaxlib_version),
    ):
        if facts[name].value is None and value is not None:
            facts[name] = known(value, Evidence.DECLARED, f"{origins.log_name}: System Information")
    not_told = "the capture did not record it"
    facts |= {
        "rocm_version": agreed(lambda run: run.fact("tool", "rocm_version"), not_told),
        "driver_version": agreed(lambda run: run.fact("host", "driver_version"), not_told),
        "kernel_version": agreed(lambda run: run.fact("host", "kernel_release"), not_told),
        "python_version": agreed(lambda run: _package(run, ("python",)), not_told),
        "rocktools_version": agreed(lambda run: run.manifest.rocktools_version, not_told),
        "rocprofv3_version": agreed(lambda run: run.fact("tool", "version"), not_told),
        "host_name": agreed(lambda run: run.fact("host", "hostname"), not_told),
        "xla_flags": agreed(lambda run: run.variable("XLA_FLAGS"), "no XLA_FLAGS are recorded"),
        "profiler_options": agreed(_profiler_options, not_told),
        "environment_added": agreed(_added, "nothing was added, or it was not recorded"),
        "environment_removed": agreed(_removed, "nothing was removed, or it was not recorded"),
        "argv": agreed(lambda run: run.job_argv, not_told),
        "performance_level": agreed(_performance_levels, not_told),
    }
    for name in ("firmware_version", "container", "engine_clock_hz", "memory_clock_hz"):
        facts[name] = unknown("no capture records it")
    if facts["argv"].value is None:
        commands = {str(each) for each in origins.gathered.processes["command"].dropna().unique()}
        facts["argv"] = _single(commands, Evidence.MEASURED, "trace: command of the process", _NO_MANIFEST)
    return facts


def _of_files(origins: Origins) -> dict[str, Fact]:
    """What traces say."""
    versions = {str(each) for each in origins.gathered.processes["schema_version"].dropna().unique()}
    return {
        "trace_schema_version": _single(versions, Evidence.MEASURED, "trace", "the files have no such version"),
        "command_buffers": _command_buffers(origins),
    }


def _command_buffers(origins: Origins) -> Fact:
    """Whether kernels were launched by graphs, as recorded; else what XLA was told."""
    timed = origins.gathered.timed
    if not isinstance(timed, Missing) and bool(timed.runs.dispatches["graph_exec_id"].notna().any()):
        return known("on", Evidence.MEASURED, "trace: kernels launched by graphs")
    flags = origins.agreed(lambda run: run.variable("XLA_FLAGS"), "")
    for word in str(flags.value or "").split():
        name, equals, value = word.partition("=")
        if name == _COMMAND_BUFFERS and equals:
            is_off = value.strip("'\"") == ""
            return known("off" if is_off else f"on: {value}", Evidence.DECLARED, f"{flags.source}: XLA_FLAGS")
    return unknown("no graph launch is recorded, and XLA was not told; its default differs between versions")


def _of_devices(origins: Origins, options: SummaryOptions) -> dict[str, Fact]:
    gathered = origins.gathered
    used = gathered.agents
    if not isinstance(gathered.timed, Missing):
        labels = {str(device) for device in gathered.timed.rows["device"].unique()}
        used = used[used["device"].astype(str).isin(labels).to_numpy()]
    products = {str(each) for each in used["product"].dropna().unique()}
    archs = {str(each) for each in used["arch"].dropna().unique()}
    facts = {
        "device_product": _single(products, Evidence.MEASURED, "trace: agents", "the files do not say"),
        "device_arch": _single(archs, Evidence.MEASURED, "trace: agents", "the files do not say"),
        "compute_partition": unknown("it cannot be told from XCDs and compute units"),
        "memory_partition": unknown("no capture records it"),
    }
    if isinstance(gathered.timed, Missing):
        return facts
    try:
        device, _ = choose_device(gathered.agents, gathered.timed.devices, options.device)
    except RocktoolsError:
        return facts
    source = f"XCDs and compute units, as those of {device.label}"
    facts["compute_partition"] = known_or(device.partition, Evidence.INFERRED, source, "the part has no partitions")
    if options.device.memory_partition is not None:
        facts["memory_partition"] = known(options.device.memory_partition, Evidence.DECLARED, "--memory-partition")
    return facts


def _single(values: set[str], evidence: Evidence, source: str, reason: str) -> Fact:
    if len(values) > 1:
        return unknown(f"there are several: {', '.join(sorted(values)[:4])}", Absence.AMBIGUOUS)
    return known(values.pop(), evidence, source) if values else unknown(reason)


def _package(run: RecordedRun, names: Sequence[str]) -> str | None:
    packages = run.fact("packages")
    found = [str(packages[name]) for name in names if name in packages] if isinstance(packages, dict) else []
    return found[0] if found else None


def _profiler_options(run: RecordedRun) -> tuple[str, ...]:
    """Command line of the tool, without that of the job and without where it wrote."""
    argv = run.trace_argv
    words = list(argv[1 : argv.index("--")] if "--" in argv else argv[1:])
    kept: list[str] = []
    skips = False
    for word in words:
        if skips:
            skips = False
        elif word in ("--output-directory", "-d", "--output-file", "-o"):
            skips = True
        elif not word.startswith(("--output-directory=", "--output-file=")):
            kept.append(word)
    return tuple(kept)


def _added(run: RecordedRun) -> tuple[str, ...]:
    record = run.trace_pass
    return (
        () if record is None else tuple(f"{name}={value}" for name, value in sorted(record.environment_added.items()))
    )


def _removed(run: RecordedRun) -> tuple[str, ...]:
    record = run.trace_pass
    return () if record is None else tuple(sorted(record.environment_removed))


def _performance_levels(run: RecordedRun) -> str | None:
    """Performance levels of the GPUs: clocks are fixed, or capped, where they are not `auto`."""
    levels = run.fact("host", "performance_levels")
    return ", ".join(sorted({str(level) for level in levels})) if isinstance(levels, list) and levels else None
