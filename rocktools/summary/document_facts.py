"""The small parts that the blocks of a summary are made of, and what is known about the run itself.

A `Fact` is one value with its origin; a `Missing` stands in the place of a block, or of a value, that is not there.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from rocktools.evidence import Absence, Evidence
from rocktools.findings import Finding

JOB_FACTS = (
    *("run_name", "model_name", "config_sha256", "git_sha", "hardware", "mesh", "dtype", "weight_dtype"),
    *("remat_policy", "attention", "global_batch_sequences_count", "per_device_batch_sequences_count"),
    *("gradient_accumulation_steps_count", "sequence_tokens_count", "tokens_per_step_count", "steps_count"),
    *("optimizer", "dataset", "profiler"),
)
"""Names of `RunMetadata.job`, each of them always there."""

PROVENANCE_FACTS = (
    *("jax_version", "jaxlib_version", "jax_plugin_version", "rocm_version", "driver_version", "firmware_version"),
    *("kernel_version", "rocprofv3_version", "trace_schema_version", "python_version", "rocktools_version"),
    *("xla_flags", "command_buffers", "device_product", "device_arch", "compute_partition", "memory_partition"),
    *("engine_clock_hz", "memory_clock_hz", "performance_level", "profiler_options", "argv", "environment_added"),
    *("environment_removed", "container", "host_name"),
)
"""Names of `Provenance.facts`, each of them always there."""

Value = str | int | float | bool | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Missing:
    """What is not there, and why; in JSON an object with exactly these two members.

    Attributes:
        absence: why, in a word.
        reason: why, in a sentence.
    """

    absence: Absence
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Fact:
    """One value that is not a time, with its origin.

    Attributes:
        value: None where nothing is known; the unit is in the name it stands under.
        evidence: how it was obtained; None where there is no value.
        source: file, line or option it was read from; "" where there is none.
        missing: why there is no value; None where there is one.
    """

    value: Value
    evidence: Evidence | None = None
    source: str = ""
    missing: Missing | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Statistics:
    """What a series of durations is like; quantiles are interpolated linearly, as numpy does.

    Attributes:
        samples_count: how many there are; of one sample every figure is that sample, and the spread says nothing.
        mean_ns, median_ns, min_ns, max_ns: as their names say.
        p25_ns, p75_ns, p90_ns: quantiles.
        iqr_ns: p75 minus p25.
        deviation_ns: standard deviation of the sample; None of fewer than two.
        spread_ratio: `iqr_ns` over `median_ns`; None of fewer than two samples, or where the median is 0.
    """

    samples_count: int
    mean_ns: float
    median_ns: float
    p25_ns: float
    p75_ns: float
    p90_ns: float
    min_ns: float
    max_ns: float
    iqr_ns: float
    deviation_ns: float | None
    spread_ratio: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class InputFile:
    """One file that the summary was made from.

    Attributes:
        path: below the argument that named it; never a path of the machine it lay on.
        role: `trace`, `counters`, `profile`, `program`, `manifest`, `step_log`, `perfetto_json`.
        format: as the reader calls it.
        size_bytes: of the file.
        sha256: of the file; None where it was not computed.
        missing: why there is no hash.
    """

    path: str
    role: str
    format: str
    size_bytes: int
    sha256: str | None
    missing: Missing | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceFacts:
    """One device, as the files describe it; what they do not tell is null.

    Attributes:
        device: label, as in every table.
        kind: GPU or CPU.
        arch, product: as recorded.
        xcc_count, cu_count, max_engine_hz, memory_bytes: as recorded.
        is_used: whether anything ran on it in the steps that count.
    """

    device: str
    kind: str | None
    arch: str | None
    product: str | None
    xcc_count: int | None
    cu_count: int | None
    max_engine_hz: int | None
    memory_bytes: int | None
    is_used: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class RunMetadata:
    """What ran.

    Attributes:
        runs: labels of the runs; one in most summaries.
        source_formats: `rocpd`, `xspace`, `perfetto_json`, `rocprofv3_csv`, ... of the files that gave times.
        hosts_count, processes_count, devices_count: that took part in the steps that count; null where unknown.
        devices: all that were recorded.
        programs: compiled programs that were linked, as `name (id)`.
        component_map: name of the map that components follow.
        job: names of `JOB_FACTS` -> what is known of the job's configuration.
    """

    runs: tuple[str, ...]
    source_formats: tuple[str, ...]
    hosts_count: int | None
    processes_count: int | None
    devices_count: int | None
    devices: tuple[DeviceFacts, ...]
    programs: tuple[str, ...]
    component_map: str
    job: Mapping[str, Fact]


@dataclass(frozen=True, slots=True, kw_only=True)
class Provenance:
    """What has to be the same for two summaries to be compared, and what proves which files were read.

    Attributes:
        inputs: the files.
        inputs_sha256: one hash over the hashes of all of them, in the order of paths; null where one is missing.
        facts: names of `PROVENANCE_FACTS` -> value; lists are one text, joined as a shell would read them.
    """

    inputs: tuple[InputFile, ...]
    inputs_sha256: str | None
    facts: Mapping[str, Fact]


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceOverview:
    """How much was recorded, and whether it is whole.

    Attributes:
        start_ns, end_ns: first start and last end on any device, trace clock; null where nothing ran.
        dispatches_count, copies_count, host_calls_count, events_count: rows of the files; null where a file has none.
        streams_count: streams, or threads of a host, that something ran on.
        linked_ratio: part of kernel time that has an HLO instruction; null without a compiled program.
        attributed_ratio: part of the time of the ledger that has a phase or is communication.
        is_host_only: no device ran anything: nothing here speaks of a GPU.
        is_truncation_suspected: a count of events is at, or close to, a limit at which exporters stop.
        basis: what durations are: `exact_device_duration` for device stamps, `host_thread_duration` for CPU threads.
    """

    start_ns: int | None
    end_ns: int | None
    dispatches_count: int | None
    copies_count: int | None
    host_calls_count: int | None
    events_count: int | None
    streams_count: int | None
    linked_ratio: float | None
    attributed_ratio: float | None
    is_host_only: bool
    is_truncation_suspected: bool
    basis: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkMethod:
    """Kernels that were linked to HLO in one way: by which method, how surely, and how much of all kernel time."""

    method: str
    confidence: str
    dispatches_count: int
    total_ns: int
    time_ratio: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Quality:
    """How far the numbers can be trusted.

    Attributes:
        overview: how much was recorded.
        findings: doubts of reading, linking and measuring, heaviest first.
        links: how kernels were linked to instructions, most time first; () where nothing was linked.
    """

    overview: TraceOverview
    findings: tuple[Finding, ...] = field(default=())
    links: tuple[LinkMethod, ...] = field(default=())
