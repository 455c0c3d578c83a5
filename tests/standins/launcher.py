"""rocprofv3: parse, check, and run the application once per pass.

One pass: the real launcher becomes the application (exec), so the exit code is the application's and one pid does it
all. Here the launcher stays, writes under its own pid, and ends as the application did. Several passes: each is a
child; the first failure ends in code 1, the other passes do not run, and the application's own code is lost.
"""

from __future__ import annotations

import argparse
import os
import platform
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from standins.application import FAULT_VARIABLE, run_application
from standins.environment import build_environment, is_tracing, resolve_options
from standins.faults import Faults, parse_faults
from standins.filters import parse_ranks
from standins.messages import fatal, warn
from standins.parser import build_parser, split_application
from standins.passes import Pass, build_passes, is_kernel_replay
from standins.session import end_process, log_call
from standins.versions import RELEASES, REPEATED_PMC_IS_PASSES, Release

_SUMMARIES = ("stats", "summary", "summary_per_domain", "summary_groups")
_SAMPLING = ("pc_sampling_unit", "pc_sampling_method", "pc_sampling_interval")
_RANK_VARIABLES = ("OMPI_COMM_WORLD_RANK", "PMI_RANK", "MV2_COMM_WORLD_RANK", "SLURM_PROCID")


def main(arguments: Sequence[str], release: Release, rocm_root: Path) -> None:
    """Run rocprofv3; never returns normally."""
    log_call("rocprofv3", arguments)
    own, command = split_application(arguments)
    options = build_parser(release.number).parse_args(own)
    if getattr(options, "version", False):
        end_process(_print_version(release))
    options = _give_defaults(options)
    if options.list_avail:
        avail = rocm_root / "bin" / ("rocprofv3-avail" if hasattr(options, "version") else "rocprofv3_avail")
        end_process(subprocess.run([str(avail), "info", "--pmc"], check=False).returncode)
    _check_options(options, release, rocm_root)
    if options.pid is not None:
        # A target without ROCP_TOOL_ATTACH=1 in its environment: it looks like success, and there is no file.
        end_process(0)
    if not command:
        fatal(release.number, "No application provided")
    _add_rocpd(options, release)
    passes = build_passes(options, release.number)
    environments = [build_environment(each, release.number, rocm_root, os.environ) for each in passes]
    _print_resolved(options, environments)
    if getattr(options, "echo", False):
        for _ in passes:
            print(f"command: {list(command)}")
        end_process(0)
    _warn_of_nothing(passes, release)
    if not _is_profiled_rank(options):
        environments = [dict(os.environ)]
        passes = passes[:1]
    end_process(_run(passes, environments, command, release))


def _run(passes: list[Pass], environments: list[dict[str, str]], command: list[str], release: Release) -> int:
    if len(passes) == 1:
        _require_program(command[0])
        return run_application(command, environments[0], release, earlier_runs=0, is_exec=True)
    for number, environment in enumerate(environments):
        _require_program(command[0])
        status = run_application(command, environment, release, earlier_runs=number, is_exec=False)
        if status != 0:
            fatal(release.number, str(subprocess.CalledProcessError(status, command)))
    return 0


def _require_program(program: str) -> None:
    """Raises FileNotFoundError, as exec does: a traceback, and code 1."""
    if shutil.which(program) is None:
        raise FileNotFoundError(2, "No such file or directory", program)


def _give_defaults(options: argparse.Namespace) -> argparse.Namespace:
    """The namespace with None for what this release does not have, so that checks need not ask."""
    known = vars(options)
    asked = ("list_avail", "list_metrics", "pid", "pmc", "collection_period", "selected_regions", "spm")
    for name in (*asked, "att_consecutive_kernels", "kernel_replay_beta_enabled", "profile_mpi_ranks", *_SAMPLING):
        known.setdefault(name, None)
    for name in ("pc_sampling_beta_enabled", "mpi_world_rank_variable", "mpi_world_size_variable", "rocm_root"):
        known.setdefault(name, None)
    known.setdefault("sdk_soversion", None)
    known["list_avail"] = known["list_avail"] or known["list_metrics"]
    return argparse.Namespace(**known)


def _check_options(options: argparse.Namespace, release: Release, rocm_root: Path) -> None:
    """What the launcher refuses before anything runs: one line, code 1."""
    version = release.number
    if options.pid is not None and version < (1, 1, 0):
        fatal(version, "-p is reserved for attaching to a process; use -P for the collection period")
    groups = options.pmc if version >= REPEATED_PMC_IS_PASSES and options.pmc else []
    if len(groups) > 1 and (options.pid is not None or options.collection_period):
        fatal(version, "Several passes cannot be collected with --pid or --collection-period")
    if options.selected_regions and version >= REPEATED_PMC_IS_PASSES:
        if options.collection_period:
            fatal(version, "--selected-regions cannot be combined with --collection-period")
        if options.att_consecutive_kernels:
            fatal(version, "--selected-regions cannot be combined with --att-consecutive-kernels")
    if is_kernel_replay(options) and not options.kernel_replay_beta_enabled:
        fatal(version, "Kernel replay needs --kernel-replay-beta-enabled")
    sampling = [getattr(options, name) for name in _SAMPLING]
    if any(value is not None for value in sampling):
        is_allowed = options.pc_sampling_beta_enabled or os.environ.get("ROCPROFILER_PC_SAMPLING_BETA_ENABLED")
        if None in sampling or not is_allowed:
            fatal(version, "PC sampling needs unit, method, interval and --pc-sampling-beta-enabled")
    if options.spm and options.pmc:
        fatal(version, "--spm cannot be combined with --pmc")
    if (options.mpi_world_rank_variable is None) != (options.mpi_world_size_variable is None):
        fatal(version, "--mpi-world-rank-variable and --mpi-world-size-variable must be given together")
    if options.sdk_soversion is not None:
        wanted = Path(options.rocm_root or rocm_root) / "lib" / f"librocprofiler-sdk.so.{options.sdk_soversion}"
        if not wanted.exists():
            fatal(version, f"Failed to resolve path. '{wanted}' does not exist")
    values = resolve_options(options)
    if any(values.get(name) for name in _SUMMARIES) and not is_tracing(values) and not options.input:
        fatal(version, "Statistics need a tracing option")


def _add_rocpd(options: argparse.Namespace, release: Release) -> None:
    """Aggregate traces have records that only rocpd can hold, so later releases add it to the formats."""
    formats = options.output_format
    if release.number < REPEATED_PMC_IS_PASSES or not formats or "rocpd" in formats:
        return
    if options.sys_trace or options.runtime_trace:
        warn(release.number, "the output format rocpd was added, because some of these traces need it")
        options.output_format = [*formats, "rocpd"]


def _warn_of_nothing(passes: list[Pass], release: Release) -> None:
    for each in passes:
        if not is_tracing(resolve_options(each.options)) and not each.counters and not each.groups:
            warn(release.number, "No tracing options were enabled.")


def _is_profiled_rank(options: argparse.Namespace) -> bool:
    """Whether this rank is one of those asked for; other ranks run without the tool."""
    text = options.profile_mpi_ranks or os.environ.get("ROCPROF_MPI_RANKS", "")
    names = (options.mpi_world_rank_variable, *_RANK_VARIABLES)
    rank = next((os.environ[name] for name in names if name and name in os.environ), None)
    return not text or rank is None or int(rank) in parse_ranks(text)


def _print_version(release: Release) -> int:
    faults = Faults(parse_faults(os.environ.get(FAULT_VARIABLE, "")))
    if "version-fails" in faults:
        print("error while loading shared libraries: librocprofiler-sdk.so.1", file=sys.stderr)
        return 1
    release = RELEASES[faults.argument("reports-version", release.sdk)]
    facts = {
        "version": release.sdk,
        "git_revision": release.revision,
        "library_arch": "x86_64-linux-gnu",
        "system_name": platform.system(),
        "system_processor": platform.machine(),
        "system_version": platform.release(),
        "compiler_id": "GNU",
        "compiler_version": "11.4.0",
        "rocm_version": release.rocm,
    }
    for key, value in facts.items():
        print(f"{key:>20}: {value}")
    return 0


def _print_resolved(options: argparse.Namespace, environments: list[dict[str, str]]) -> None:
    """`--log-level env` and `config`: what would be handed over, on stderr."""
    if options.log_level == "env":
        for environment in environments:
            for name in sorted(environment):
                if os.environ.get(name) != environment[name]:
                    print(f"- {name}={environment[name]}", file=sys.stderr)
    if options.log_level == "config":
        for name, value in sorted(vars(options).items()):
            if value not in (None, False):
                print(f"- {name}: {value}", file=sys.stderr)
