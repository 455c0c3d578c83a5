"""The options of rocprofv3, release by release, as data. Nothing of the code under test imports or feeds it.

Forms: what argparse does with the option.

    flag      no value                              one       exactly one value
    bool      optional value from YES and NO        int       exactly one integer
    some      one or more values                    float     exactly one number
    any       none or more values                   counters  none or more; each use adds a group (see passes.py)

Where the reference gives a date and no release, the release is the first one after that date. `--pmc` is the one
contradiction in it: the release notes count it to 0.5.0, the dumped 0.5.0 lacks it. This table follows
the dump.
"""

from __future__ import annotations

from dataclasses import dataclass

from standins.versions import SdkVersion

YES = ("y", "yes", "t", "true", "on", "1")
NO = ("n", "no", "f", "false", "off", "0")

_FIRST: SdkVersion = (0, 5, 0)
_LAST: SdkVersion = (99, 0, 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Option:
    """One option of some releases.

    Attributes:
        flags: spellings, as argparse takes them.
        form: see the module.
        group: heading in the help text.
        choices: the only values, lower case; empty where any is taken.
        default: value without the option.
        since, before: releases that have it, the second excluded.
        is_hidden: whether the help text leaves it out.
        env: variable it sets; `NAME` takes the value, or 1 for a bool; `NAME=V` is set to V where a bool is true.
    """

    flags: tuple[str, ...]
    form: str
    group: str
    choices: tuple[str, ...] = ()
    default: object = None
    since: SdkVersion = _FIRST
    before: SdkVersion = _LAST
    is_hidden: bool = False
    env: str = ""

    @property
    def dest(self) -> str:
        """Key of its value: the first long spelling with underscores."""
        long = next(flag for flag in self.flags if flag.startswith("--"))
        return long[2:].replace("-", "_")


_LOG_LEVELS = ("fatal", "error", "warning", "info", "trace", "env", "config")
_UNITS = ("hour", "min", "sec", "msec", "usec", "nsec")
_OMPT = ("all", "thread", "parallel", "task", "sync", "mutex", "target", "device", "error")


def _option(flags: str, form: str, group: str, **facts: object) -> Option:
    return Option(flags=tuple(flags.split()), form=form, group=group, **facts)  # type: ignore[arg-type]


_IO = "I/O"
_GENERAL = (
    _option("-v --version", "flag", _IO, since=(1, 0, 0)),
    _option("-i --input", "one", _IO),
    _option("-o --output-file", "one", _IO, env="ROCPROF_OUTPUT_FILE_NAME"),
    _option("-d --output-directory", "one", _IO, env="ROCPROF_OUTPUT_PATH"),
    _option("-f --output-format", "some", _IO, choices=("csv", "json", "pftrace", "otf2"), before=(1, 0, 0)),
    _option("-f --output-format", "some", _IO, choices=("csv", "json", "pftrace", "otf2", "rocpd"), since=(1, 0, 0)),
    _option("--output-config", "bool", _IO, since=(1, 0, 0), env="ROCPROF_OUTPUT_CONFIG_FILE"),
    _option("--log-level", "one", _IO, choices=_LOG_LEVELS),
    _option("-E --extra-counters", "one", _IO, since=(0, 6, 0)),
)

_TRACE = "Tracing"
_AGGREGATE = (
    _option("-r --runtime-trace", "bool", _TRACE),
    _option("-s --sys-trace", "bool", _TRACE),
)


def _trace(flag: str, domain: str = "", **facts: object) -> Option:
    return _option(flag, "bool", _TRACE, env=f"ROCPROF_{domain}_TRACE" if domain else "", **facts)


_TRACES = (
    _trace("--hip-trace"),
    _trace("--marker-trace", "MARKER_API"),
    _trace("--kernel-trace", "KERNEL"),
    _trace("--memory-copy-trace", "MEMORY_COPY"),
    _trace("--memory-allocation-trace", "MEMORY_ALLOCATION", since=(0, 6, 0)),
    _trace("--scratch-memory-trace", "SCRATCH_MEMORY"),
    _trace("--hsa-trace"),
    _trace("--rccl-trace", "RCCL_API"),
    _trace("--kokkos-trace"),
    _trace("--rocdecode-trace", "ROCDECODE_API", since=(1, 0, 0)),
    _trace("--rocjpeg-trace", "ROCJPEG_API", since=(1, 0, 0)),
    _trace("--kfd-trace", since=(1, 2, 0)),
    _trace("--kfd-page-migration-trace", "KFD_PAGE_MIGRATION", since=(1, 2, 0)),
    _trace("--kfd-page-mapping-trace", "KFD_PAGE_MAPPING", since=(1, 2, 0)),
    _trace("--kfd-queue-trace", "KFD_QUEUE", since=(1, 2, 0)),
    _trace("--kfd-dropped-events-trace", "KFD_DROPPED_EVENTS", since=(1, 2, 0)),
    _option("--ompt-trace", "any", _TRACE, choices=_OMPT, since=(1, 3, 2), env="ROCPROF_OMPT_TRACE"),
    _trace("--hip-graph-trace", "HIP_GRAPH", since=(1, 4, 1)),
    _trace("--hip-event-trace", "HIP_EVENT", since=(1, 4, 1)),
    _trace("--rocshmem-trace", "ROCSHMEM_API", since=(1, 4, 1)),
    _trace("--hipfile-trace", "HIPFILE_API", since=(1, 4, 1)),
    _trace("--hip-runtime-trace", "HIP_RUNTIME_API"),
    _trace("--hip-compiler-trace", "HIP_COMPILER_API"),
    _trace("--hsa-core-trace", "HSA_CORE_API"),
    _trace("--hsa-amd-trace", "HSA_AMD_EXT_API"),
    _trace("--hsa-image-trace", "HSA_IMAGE_EXT_API"),
    _trace("--hsa-finalizer-trace", "HSA_FINALIZER_EXT_API"),
)

_COUNT = "Counter collection"
_COUNTERS = (
    _option("--pmc", "any", _COUNT, since=(0, 6, 0), before=(1, 2, 0)),
    _option("--pmc", "counters", _COUNT, since=(1, 2, 0)),
    _option("--replay-mode", "one", _COUNT, choices=("kernel", "application"), default="application", since=(1, 4, 1)),
    _option("--kernel-replay-beta-enabled", "bool", _COUNT, since=(1, 4, 1)),
    _option("--spm-beta-enabled", "bool", _COUNT, since=(1, 3, 2), env="ROCPROF_SPM_BETA_ENABLED"),
    _option("--spm", "any", _COUNT, since=(1, 3, 2), env="ROCPROF_SPM_COUNTERS"),
    _option("--spm-sample-interval", "int", _COUNT, since=(1, 3, 2), env="ROCPROF_SPM_SAMPLE_INTERVAL"),
    _option("--spm-sample-interval-unit", "one", _COUNT, choices=("sclk_cycles",), since=(1, 3, 2)),
    _option("--pc-sampling-beta-enabled", "bool", _COUNT, since=(0, 6, 0)),
    _option("--pc-sampling-unit", "one", _COUNT, choices=("instructions", "cycles", "time"), since=(0, 6, 0)),
    _option("--pc-sampling-method", "one", _COUNT, choices=("stochastic", "host_trap"), since=(0, 6, 0)),
    _option("--pc-sampling-interval", "int", _COUNT, since=(0, 6, 0), env="ROCPROF_PC_SAMPLING_INTERVAL"),
)

_POST = "Post-processing"
_NAMING = (
    _option("--stats", "bool", _POST, env="ROCPROF_STATS"),
    _option("-S --summary", "bool", _POST, env="ROCPROF_STATS_SUMMARY"),
    _option("-D --summary-per-domain", "bool", _POST, env="ROCPROF_STATS_SUMMARY_PER_DOMAIN"),
    _option("--summary-groups", "some", _POST),
    _option("--summary-output-file", "one", _POST, default="stderr"),
    _option("-u --summary-units", "one", _POST, choices=("sec", "msec", "usec", "nsec")),
    _option("-M --mangled-kernels", "bool", _POST, env="ROCPROF_DEMANGLE_KERNELS=0"),
    _option("-T --truncate-kernels", "bool", _POST, env="ROCPROF_TRUNCATE_KERNELS"),
    _option("--kernel-rename", "bool", _POST, env="ROCPROF_KERNEL_RENAME"),
)

_FILTER = "Filtering"
_FILTERS = (
    _option("--kernel-include-regex", "one", _FILTER, env="ROCPROF_KERNEL_FILTER_INCLUDE_REGEX"),
    _option("--kernel-exclude-regex", "one", _FILTER, env="ROCPROF_KERNEL_FILTER_EXCLUDE_REGEX"),
    _option("--kernel-iteration-range", "some", _FILTER, env="ROCPROF_KERNEL_FILTER_RANGE"),
    _option("-p --collection-period", "some", _FILTER, before=(0, 6, 0)),
    _option("-P --collection-period", "some", _FILTER, since=(0, 6, 0)),
    _option("--collection-period-unit", "one", _FILTER, choices=_UNITS, default="sec"),
    _option("--selected-regions", "bool", _FILTER, since=(1, 0, 0), env="ROCPROF_SELECTED_REGIONS"),
    _option("--selected-regions-ref-count", "bool", _FILTER, since=(1, 2, 0), env="ROCPROF_SELECTED_REGIONS_REF_COUNT"),
    _option("--profile-mpi-ranks", "one", _FILTER, since=(1, 2, 0)),
    _option("--mpi-world-rank-variable", "one", _FILTER, since=(1, 2, 0), env="ROCPROF_MPI_RANK_VAR"),
    _option("--mpi-world-size-variable", "one", _FILTER, since=(1, 2, 0), env="ROCPROF_MPI_SIZE_VAR"),
)

_SHOW = "Display"
_DISPLAY = (
    _option("--perfetto-backend", "one", _SHOW, choices=("inprocess", "system"), env="ROCPROF_PERFETTO_BACKEND"),
    _option("--perfetto-buffer-size", "int", _SHOW, env="ROCPROF_PERFETTO_BUFFER_SIZE_KB"),
    # No variable: the launcher reads the value under another name, so it never reaches the tool.
    _option("--perfetto-buffer-fill-policy", "one", _SHOW, choices=("discard", "ring_buffer")),
    _option("--perfetto-shmem-size-hint", "int", _SHOW, env="ROCPROF_PERFETTO_SHMEM_SIZE_HINT_KB"),
    _option("-L --list-metrics", "bool", _SHOW, before=(0, 6, 0)),
    _option("-L --list-avail", "bool", _SHOW, since=(0, 6, 0)),
    _option("--group-by-queue", "bool", _SHOW, since=(1, 0, 0), env="ROCPROF_GROUP_BY_QUEUE"),
)

_MORE = "Advanced"
_BENCHMARKS = (
    "disabled-sdk-contexts",
    "sdk-buffer-overhead",
    "sdk-callback-overhead",
    "tool-runtime-overhead",
    "execution-profile",
)
_AGENT_INDEX = ("absolute", "relative", "type-relative")
_ADVANCED = (
    _option("--preload", "any", _MORE),
    _option("--rocm-root", "one", _MORE, since=(1, 0, 0)),
    _option("--sdk-soversion", "one", _MORE, since=(1, 0, 0)),
    _option("--sdk-version", "one", _MORE, since=(1, 0, 0)),
    _option("-A --agent-index", "one", _MORE, choices=_AGENT_INDEX, since=(1, 0, 0), env="ROCPROF_AGENT_INDEX"),
    _option("--disable-signal-handlers", "bool", _MORE, since=(1, 0, 0), env="ROCPROF_SIGNAL_HANDLERS=0"),
    _option("--process-sync", "bool", _MORE, since=(1, 1, 0), env="ROCPROF_PROCESS_SYNC"),
    _option("--minimum-output-data", "int", _MORE, since=(1, 0, 0)),
    _option("-p --pid --attach", "int", _MORE, since=(1, 0, 0), before=(1, 1, 0), is_hidden=True),
    _option("-p --pid --attach", "int", _MORE, since=(1, 1, 0)),
    _option("--attach-duration-msec", "int", _MORE, since=(1, 1, 0)),
    _option("--attach-children", "bool", _MORE, default=True, since=(1, 3, 2)),
    _option("--attach-sync-output", "bool", _MORE, since=(1, 3, 2)),
    _option("--echo", "flag", _MORE, since=(1, 0, 0), is_hidden=True),
    _option("--benchmark-mode", "one", _MORE, choices=_BENCHMARKS, is_hidden=True, env="ROCPROF_BENCHMARK_MODE"),
    _option("--readlink", "flag", _MORE, since=(1, 0, 0), is_hidden=True),
    _option("--realpath", "flag", _MORE, since=(1, 0, 0), is_hidden=True),
    _option("--suppress-marker-preload", "bool", _MORE, is_hidden=True),
)

_ATT = "Thread trace"
_RESOURCES = ("default", "hsa", "code-object")
_THREAD_TRACE = (
    _option("--att --advanced-thread-trace", "bool", _ATT, since=(1, 0, 0), env="ROCPROF_ADVANCED_THREAD_TRACE"),
    _option("--att-library-path", "some", _ATT, since=(1, 0, 0)),
    _option("--att-target-cu", "one", _ATT, since=(1, 0, 0), env="ROCPROF_ATT_PARAM_TARGET_CU"),
    _option("--att-simd-select", "one", _ATT, since=(1, 0, 0), env="ROCPROF_ATT_PARAM_SIMD_SELECT"),
    _option("--att-buffer-size", "one", _ATT, since=(1, 0, 0), env="ROCPROF_ATT_PARAM_BUFFER_SIZE"),
    _option("--att-shader-engine-mask", "one", _ATT, since=(1, 0, 0), env="ROCPROF_ATT_PARAM_SHADER_ENGINE_MASK"),
    _option("--att-gpu-index", "one", _ATT, since=(1, 0, 0), env="ROCPROF_ATT_PARAM_GPU_INDEX"),
    _option("--att-perfcounters", "one", _ATT, since=(1, 0, 0), env="ROCPROF_ATT_PARAM_PERFCOUNTERS"),
    _option("--att-perfcounter-ctrl", "int", _ATT, since=(1, 0, 0), env="ROCPROF_ATT_PARAM_PERFCOUNTER_CTRL"),
    _option("--att-perfcounter-target-only", "bool", _ATT, default=False, since=(1, 2, 0)),
    _option("--att-activity", "int", _ATT, since=(1, 0, 0)),
    _option("--att-serialize-all", "bool", _ATT, default=False, since=(1, 0, 0)),
    _option("--att-consecutive-kernels", "int", _ATT, since=(1, 1, 0)),
    _option("--att-no-intercept", "bool", _ATT, since=(1, 4, 1)),
    _option("--att-resource-mode", "one", _ATT, choices=_RESOURCES, since=(1, 4, 1)),
    _option("--att-no-detail", "bool", _ATT, since=(1, 4, 1)),
)

ALL_OPTIONS: tuple[Option, ...] = (
    *_GENERAL,
    *_AGGREGATE,
    *_TRACES,
    *_COUNTERS,
    *_NAMING,
    *_FILTERS,
    *_DISPLAY,
    *_ADVANCED,
    *_THREAD_TRACE,
)


def options_of(version: SdkVersion) -> tuple[Option, ...]:
    """The options of one release, in the order of its help text."""
    return tuple(option for option in ALL_OPTIONS if option.since <= version < option.before)
