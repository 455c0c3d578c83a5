"""Options -> the environment that the application gets. The library is steered by nothing else.

A variable is written only where its option is on, so what was inherited stays: an old ROCPROF_KERNEL_TRACE=1 traces
kernels although nobody asked. The output format is added to the inherited one.

LD_PRELOAD is not set, because its libraries do not exist here and the loader would complain in every process; what it
would be is in ROCKTOOLS_STANDIN_LD_PRELOAD.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Mapping
from pathlib import Path

from standins.options_table import Option, options_of
from standins.passes import Pass, is_kernel_replay
from standins.versions import SdkVersion

PRELOAD_VARIABLE = "ROCKTOOLS_STANDIN_LD_PRELOAD"

_HIP = ("hip_runtime_trace", "hip_compiler_trace")
_HSA = ("hsa_core_trace", "hsa_amd_trace", "hsa_image_trace", "hsa_finalizer_trace")
_KFD = ("kfd_page_migration_trace", "kfd_page_mapping_trace", "kfd_queue_trace", "kfd_dropped_events_trace")
_BOTH = (
    "marker_trace",
    "kernel_trace",
    "memory_copy_trace",
    "memory_allocation_trace",
    "scratch_memory_trace",
    "rccl_trace",
    "rocdecode_trace",
    "rocjpeg_trace",
    "kfd_trace",
    "ompt_trace",
    "rocshmem_trace",
    "hipfile_trace",
)
# What an option turns on beside itself, unless that was turned off by name.
_IMPLIES: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("sys_trace", (*_BOTH, "hip_trace", "hsa_trace")),
    ("runtime_trace", (*_BOTH, "hip_runtime_trace", "hip_event_trace")),
    ("hip_trace", _HIP),
    ("hsa_trace", _HSA),
    ("kfd_trace", _KFD),
    ("kokkos_trace", ("marker_trace", "kernel_rename")),
    ("hip_runtime_trace", ("hip_graph_trace", "hip_event_trace")),
)
_FORMATS = {True: "rocpd", False: "csv"}


def resolve_options(options: argparse.Namespace) -> dict[str, object]:
    """Option values with all that they imply."""
    values = dict(vars(options))
    for cause, effects in _IMPLIES:
        if values.get(cause):
            for effect in effects:
                if effect in values and values[effect] is None:
                    values[effect] = True
    return values


def is_tracing(values: Mapping[str, object]) -> bool:
    """Whether any trace is on."""
    return any(value not in (None, False) for name, value in values.items() if name.endswith("_trace"))


def build_environment(
    planned: Pass, version: SdkVersion, rocm_root: Path, inherited: Mapping[str, str]
) -> dict[str, str]:
    """The environment of one run."""
    values = resolve_options(planned.options)
    environment = dict(inherited)
    for option in options_of(version):
        _apply(option, values.get(option.dest), environment)
    _apply_output(planned, values, environment)
    _apply_counters(planned, environment)
    _apply_libraries(values, rocm_root, environment)
    return environment


def _apply(option: Option, value: object, environment: dict[str, str]) -> None:
    name, _, fixed = option.env.partition("=")
    if not name or value in (None, False):
        return
    if value is True:
        environment[name] = fixed or "1"
    elif isinstance(value, list):
        environment[name] = ", ".join(value) or "1"
    elif option.dest == "kernel_iteration_range":
        environment[name] = ", ".join([str(value)])
    else:
        environment[name] = str(value)


def _apply_output(planned: Pass, values: Mapping[str, object], environment: dict[str, str]) -> None:
    if planned.folder:
        base = environment.get("ROCPROF_OUTPUT_PATH", "")
        environment["ROCPROF_OUTPUT_PATH"] = str(Path(base) / planned.folder) if base else planned.folder
    formats = values.get("output_format")
    if isinstance(formats, list):
        known = [environment["ROCPROF_OUTPUT_FORMAT"]] if environment.get("ROCPROF_OUTPUT_FORMAT") else []
        environment["ROCPROF_OUTPUT_FORMAT"] = ",".join([*known, *formats])
    level = values.get("log_level")
    if level and level not in ("env", "config"):
        for library in ("ROCPROF", "ROCPROFILER", "ROCTX"):
            environment[f"{library}_LOG_LEVEL"] = str(level)
    extra = values.get("extra_counters")
    if extra:
        environment["ROCPROF_EXTRA_COUNTERS_CONTENTS"] = Path(str(extra)).read_text(encoding="utf-8")
    if (minimum := values.get("minimum_output_data")) is not None:
        environment["ROCPROF_MINIMUM_OUTPUT_BYTES"] = str(int(str(minimum)) * 1024)


def _apply_counters(planned: Pass, environment: dict[str, str]) -> None:
    if planned.counters:
        environment["ROCPROF_COUNTERS"] = "pmc: " + " ".join(planned.counters)
    if planned.groups:
        environment["ROCPROF_COUNTER_GROUPS"] = "\n".join("pmc: " + " ".join(group) for group in planned.groups)
        if is_kernel_replay(planned.options):
            environment["ROCPROF_KERNEL_REPLAY"] = "1"
        else:
            environment["ROCPROF_COUNTER_GROUPS_INTERVAL"] = str(planned.interval or 1)
    if planned.counters or planned.groups:
        environment["ROCPROF_COUNTER_COLLECTION"] = "1"


def _apply_libraries(values: Mapping[str, object], rocm_root: Path, environment: dict[str, str]) -> None:
    libraries = rocm_root / "lib"
    tool = libraries / "rocprofiler-sdk" / "librocprofiler-sdk-tool.so"
    preload = values.get("preload")
    first = preload if isinstance(preload, list) else environment.get("ROCPROF_PRELOAD", "").split(":")
    loaded = [*first, environment.get("LD_PRELOAD", ""), str(tool), str(libraries / "librocprofiler-sdk.so")]
    if values.get("marker_trace") and not values.get("suppress_marker_preload"):
        loaded.append(str(libraries / "librocprofiler-sdk-roctx.so"))
    environment[PRELOAD_VARIABLE] = ":".join(filter(None, loaded))
    paths = [environment.get("LD_LIBRARY_PATH", ""), str(libraries)]
    environment["LD_LIBRARY_PATH"] = os.pathsep.join(filter(None, paths))
    environment["ROCP_TOOL_LIBRARIES"] = str(tool)
    environment["ROCPROFILER_LIBRARY_CTOR"] = "1"
