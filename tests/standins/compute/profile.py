"""`profile`: what it refuses, the passes, the application once for each, and the folder that it leaves."""

from __future__ import annotations

import argparse
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import NoReturn

from standins.compute.device import Launch, Scenario, collect_launches, launched_kernels, load_scenario
from standins.compute.faults import Faults
from standins.compute.planning import Pass, plan_passes
from standins.compute.releases import Release
from standins.compute.results import PassRows, write_facts, write_plan, write_results, write_roofline

_RANKS = ("OMPI_COMM_WORLD_RANK", "PMI_RANK", "PMIX_RANK", "SLURM_PROCID", "MV2_COMM_WORLD_RANK", "PALS_RANKID")
_METRIC = re.compile(r"\d+(?:\.\d+){0,2}")
_SETS = {"compute_thruput_util", "compute_thruput_flops", "mem_thruput", "launch_stats"}
_SURVIVING_S = 3600


def console_error(text: str) -> NoReturn:
    """The end that every refusal of the tool has."""
    print(f"ERROR {text}", flush=True)
    sys.exit(1)


def run_profile(options: argparse.Namespace, release: Release, faults: Faults) -> None:
    """Profile an application."""
    if options.name is None and release.needs_name:
        console_error("Either --list-name or --name is required")
    if options.name is not None and "/" in options.name:
        console_error("'/' not permitted in profile name")
    scenario = load_scenario(options.name or "")
    target = _target(options, release, scenario)
    _prepare(target, options, release)
    benches_only = getattr(options, "bench_only", False)
    words = _application(options, release, needs_one=not benches_only)
    patterns = None if release.ignores_filters else options.kernel
    iterations = _iterations(options, release)
    _check_together(options, release, benches_only)
    target.mkdir(parents=True, exist_ok=True)
    config = {name: value for name, value in vars(options).items() if name != "remaining"}
    config |= {"format_rocprof_output": _output_format(options, release), "remaining": list(words)}
    write_facts(target, release, scenario, slug=options.name or "", command=" ".join(words), config=config)
    if not benches_only:
        passes = plan_passes(
            release,
            blocks=_blocks(options, release),
            set_name=getattr(options, "set", None),
            is_roofline=options.roof_only,
            architecture=scenario.gpu_arch,
            most=scenario.passes,
        )
        if not passes:
            console_error("No performance counters to collect, please check the provided profiling filters")
        write_plan(target, passes, release)
        if "says" in faults:
            console_error(faults.argument("says").replace("_", " "))
        if "half-folder" in faults:
            console_error("Profiling execution failed.")
        collected = _collect(passes, words, options, release, scenario, faults, patterns, iterations, target)
        _finish(target, collected, options, release, faults)
    if (options.roof_only or benches_only or not options.no_roof) and "no-roofline" not in faults:
        write_roofline(target)
    if "two-folders" in faults:
        (target.parent / "MI300X").mkdir()
    if "no-folder" in faults:
        shutil.rmtree(target)
    if "exit-code" in faults:
        sys.exit(int(faults.argument("exit-code", "3")))


def _target(options: argparse.Namespace, release: Release, scenario: Scenario) -> Path:
    if getattr(options, "path", None):
        return Path(options.path)
    if getattr(options, "output_directory", None):
        return Path(options.output_directory)
    rank = next((os.environ[name] for name in _RANKS if name in os.environ), None)
    return Path.cwd() / "workloads" / (options.name or "app") / (rank if rank is not None else scenario.gpu_model)


def _prepare(target: Path, options: argparse.Namespace, release: Release) -> None:
    """What happens to a folder that is there, before anything else is looked at."""
    if release.wipes:
        if target.exists():
            shutil.rmtree(target)
    elif target.exists() and any(target.iterdir()):
        if not options.overwrite:
            console_error(f"{target} is not empty. Use --overwrite")
        shutil.rmtree(target)
    if release.refuses_dots and ".." in str(target):
        console_error("Access denied. Cannot access parent directories in path (i.e. ../)")


def _application(options: argparse.Namespace, release: Release, *, needs_one: bool) -> list[str]:
    words: list[str] = options.remaining
    if not words:
        if needs_one:
            console_error("Profiling command required. Pass application executable after -- at the end of options.")
        return []
    # Earlier ones join the words and split them again: quoting is lost.
    words = list(words) if release.keeps_quoting else shlex.split(" ".join(words))
    if shutil.which(words[0]) is None:
        console_error(f"Your command {words[0]} doesn't point to a executable. Please verify.")
    return words


def _check_together(options: argparse.Namespace, release: Release, benches_only: bool) -> None:
    if options.block and getattr(options, "set", None):
        console_error("--block and --set cannot be used together")
    name = getattr(options, "set", None)
    if name is not None and name not in _SETS:
        console_error(f"Unknown set {name}")
    multiplexing = getattr(options, "iteration_multiplexing", None)
    if multiplexing and getattr(options, "no_native_tool", False):
        console_error("--iteration-multiplexing needs the native tool")
    if multiplexing and "ROCPROF" in os.environ:
        console_error("--iteration-multiplexing needs the native tool")
    if benches_only and (options.block or options.roof_only):
        console_error("--bench-only stands alone")


def _blocks(options: argparse.Namespace, release: Release) -> list[str]:
    """The blocks that are known; others are skipped with a warning."""
    known = []
    for block in options.block or []:
        has_aliases = release.number == (3, 0) or release.number >= (3, 4)
        if _METRIC.fullmatch(block) or (has_aliases and block[0].isalpha()):
            known.append(block)
        else:
            print(f"WARNING Skipping unknown block {block}")
    return known


def _iterations(options: argparse.Namespace, release: Release) -> set[int] | None:
    """Which launches of each kernel are counted, from 1; None for all."""
    if release.ignores_filters:
        return None
    if release.number >= (3, 10):
        texts = [part for word in options.kernel_iteration_range or [] for part in word.split(",")]
    else:
        texts = list(options.dispatch or [])
    return read_iterations(texts, release) if texts else None


def read_iterations(texts: Sequence[str], release: Release) -> set[int]:
    """What ranges mean: from 0 the start is moved and the end is not."""
    chosen: set[int] = set()
    for text in texts:
        match = re.fullmatch(r"(\d+)(?:[:-](\d+))?", text)
        if match is None or (release.checks_ranges and int(match[1]) < 1):
            console_error(f"{text} is not a positive integer or range")
        first = int(match[1]) + (1 if release.dispatch_counts_from_zero else 0)
        chosen |= set(range(first, (int(match[2]) if match[2] else first) + 1))
    return chosen


def _output_format(options: argparse.Namespace, release: Release) -> str:
    return getattr(options, "format_rocprof_output", None) or release.default_format


def _collect(
    passes: Sequence[Pass],
    words: Sequence[str],
    options: argparse.Namespace,
    release: Release,
    scenario: Scenario,
    faults: Faults,
    patterns: Sequence[str] | None,
    iterations: set[int] | None,
    target: Path,
) -> PassRows:
    """Run the application, and say what each pass counted."""
    multiplexes = bool(getattr(options, "iteration_multiplexing", None))
    last = len(passes) - 1
    collected: PassRows = []
    output = ""
    for number, each in enumerate(passes):
        if number == 0 or not multiplexes:
            output = _run_application(words, each, number, last, faults, target)
        kernels = launched_kernels(scenario, output, patterns)
        launches = collect_launches(
            kernels,
            each.counters,
            run=0 if multiplexes else number,
            patterns=patterns,
            iterations=iterations,
            searches_short_names=_uses_native_tool(options, release),
        )
        if multiplexes:
            launches = [launch for place, launch in enumerate(launches) if place % len(passes) == number]
        if "extra-kernel" in faults and launches:
            launches.append(
                replace(launches[0], kernel="extra_kernel", dispatch_id=10_000, end_ns=launches[0].start_ns + 9)
            )
        collected.append((each, _spoilt(launches, number, last, faults)))
    return collected


def _uses_native_tool(options: argparse.Namespace, release: Release) -> bool:
    return release.has_native_tool and "ROCPROF" not in os.environ and not options.no_native_tool


def _spoilt(launches: list[Launch], number: int, last: int, faults: Faults) -> list[Launch]:
    if "no-data" in faults or faults.is_at("pass-missing", number, last):
        return []
    wanted = launches[0].kernel if launches else ""
    if faults.is_at("kernel-missing", number, last):
        # Something else has rows in that pass, so it is not empty.
        others = [launch for launch in launches if launch.kernel != wanted]
        return others or [replace(launch, kernel="another_kernel") for launch in launches]
    if faults.is_at("launches-differ", number, last):
        return launches[:-1]
    if faults.is_at("partial-rows", number, last):
        return [replace(launch, dispatch_id=launch.dispatch_id + 1) for launch in launches]
    if faults.is_at("nan-rows", number, last) and launches:
        return [replace(launches[0], values=dict.fromkeys(launches[0].values)), *launches[1:]]
    return launches


def _run_application(words: Sequence[str], each: Pass, number: int, last: int, faults: Faults, target: Path) -> str:
    """Start it as the backend does; its output is the tool's, too."""
    environment = {
        **os.environ,
        "ROCPROF_COUNTERS": f"pmc: {' '.join(each.counters)}",
        "ROCPROF_COUNTER_COLLECTION": "1",
    }
    if "slow" in faults:
        time.sleep(float(faults.argument("slow", "1")))
    if faults.is_at("hang", number, last) or faults.is_at("hang-ignoring-sigint", number, last):
        if "hang-ignoring-sigint" in faults:
            signal.signal(signal.SIGINT, signal.SIG_IGN)
        (target / "out" / "pmc_1").mkdir(parents=True)
        # The real one forwards no signal: what it started lives on where nobody ends the whole group.
        subprocess.run([sys.executable, "-I", "-S", "-c", f"import time; time.sleep({_SURVIVING_S})"], check=False)
    child = subprocess.Popen(list(words), env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    output, _ = child.communicate()
    print(output, end="", flush=True)
    if child.returncode != 0 or faults.is_at("workload-fails", number, last):
        (target / "out" / "pmc_1").mkdir(parents=True, exist_ok=True)
        console_error("Profiling execution failed.")
    return output


def _finish(target: Path, collected: PassRows, options: argparse.Namespace, release: Release, faults: Faults) -> None:
    output_format = _output_format(options, release)
    if not any(rows for _, rows in collected):
        if release.number >= (3, 8):
            print("WARNING No GPU kernel data collected. The workload may not have dispatched any GPU kernels.")
        else:
            print("WARNING Cannot write results for pmc_perf_0.csv due to no counter csv files generated.")
        if output_format != "rocpd" or release.has_result_files:
            return
    written = write_results(
        target,
        collected,
        release,
        output_format,
        is_one_run=bool(getattr(options, "iteration_multiplexing", None)),
    )
    if "cut-off" in faults:
        path = written[-1]
        content = path.read_bytes()
        path.write_bytes(content[: len(content) - 25])
