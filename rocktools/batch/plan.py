"""Which kernels a batch profiles, how, and what that is going to cost; and which kernels it leaves out, and why.

Paths are absolute here; in the file they are relative to it. What a run costs is an estimate that is made of figures of
others, and says so.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

from rocktools.batch.bundles import Refusal
from rocktools.batch.pick import Order
from rocktools.capture.compute_passes import PassesEstimate, estimate_passes
from rocktools.capture.compute_versions import ComputeVersion, compute_facts
from rocktools.errors import UsageError
from rocktools.evidence import Evidence, weakest
from rocktools.replay.prove import Level
from rocktools.units import NS_PER_S, count_noun

DEFAULT_ARCHITECTURE = "gfx950"
DEFAULT_VERSION = ComputeVersion(3, 10)
DEFAULT_START_UP_S = 20.0
DEFAULT_ITERATIONS = 10
DEFAULT_WARMUPS = 2
MULTIPLEXED_ITERATIONS = 60
_ANALYSIS_S = 15.0
RESERVED_NAMES = ("peaks", "analysis")
"""Names of the jobs of a batch that are no kernels."""
_UNSAFE = re.compile(r"[^A-Za-z0-9_-]+")
_BLOCK = re.compile(r"[A-Za-z0-9_.]+")
_LONGEST_NAME = 100


class Passes(str, Enum):
    """Which counters are asked for, and in how many runs."""

    ALL = "all"  # everything the tool knows of, a run for each pass
    BLOCKS = "blocks"  # panels of the tool, a run for each pass
    SET = "set"  # a set of the tool that fits into one pass
    MULTIPLEXING = "multiplexing"  # everything in one run: each launch counts another pass

    def __str__(self) -> str:
        return self.value


@dataclass(frozen=True, slots=True, kw_only=True)
class PassSelection:
    """What is counted of each kernel.

    Attributes:
        passes: which counters.
        blocks: with BLOCKS: as the tool's `--block` names them.
        set_name: with SET: as its `--set` does.
        iterations_count: launches that are counted in each run.
        warmups_count: launches before them.
    """

    passes: Passes = Passes.ALL
    blocks: tuple[str, ...] = ()
    set_name: str | None = None
    iterations_count: int = DEFAULT_ITERATIONS
    warmups_count: int = DEFAULT_WARMUPS

    @property
    def multiplexes(self) -> bool:
        return self.passes is Passes.MULTIPLEXING

    @property
    def launches_count(self) -> int:
        """Of the kernel in one run."""
        return self.iterations_count + self.warmups_count


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedKernel:
    """A kernel that is profiled.

    Attributes:
        name: of its workload: letters, digits, `_` and `-`.
        replay: folder of its replay.
        kernel: symbol to be counted.
        instruction, program_id, program_sha256: of the replay; "" where nobody wrote them.
        level: of its proof.
        component: by the component map; "" where none was asked for.
        total_ns, dispatches_count: in the job; None where no trace says.
        twins: other instructions of the job that launch it.
    """

    name: str
    replay: Path
    kernel: str
    instruction: str = ""
    program_id: str = ""
    program_sha256: str = ""
    level: Level = Level.UNPROVEN
    component: str = ""
    total_ns: int | None = None
    dispatches_count: int | None = None
    twins: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class RefusedKernel:
    """A kernel that is not profiled.

    Attributes:
        instruction, program_id, kernel, component, total_ns: as of a planned one.
        refusal: why.
        replay: folder of its replay; None where it has none.
    """

    instruction: str
    refusal: Refusal
    program_id: str = ""
    kernel: str = ""
    component: str = ""
    total_ns: int | None = None
    replay: Path | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """What a batch is going to cost.

    Attributes:
        runs_count: starts of an application, peaks included.
        passes_count: groups of counters of one kernel.
        duration_s: all of them one after the other, on one GPU.
        version: of rocprof-compute that it is for.
        start_up_s: assumed: from the start of Python to the first launch.
        evidence: INFERRED.
        assumptions: in sentences.
    """

    runs_count: int
    passes_count: int
    duration_s: float
    version: str
    start_up_s: float
    evidence: Evidence
    assumptions: tuple[str, ...]

    @property
    def cost_text(self) -> str:
        """Runs and time for people."""
        minutes = self.duration_s / 60
        time = f"{minutes:.0f} min" if minutes >= 2 else f"{self.duration_s:.0f} s"
        return f"about {count_noun(self.runs_count, 'run')} and {time} on one GPU"


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchPlan:
    """What a batch does.

    Attributes:
        kernels: in the order in which they are profiled.
        refused: that are not, in the order in which they were looked at.
        selection: what is counted.
        architecture: of the GPU.
        estimate: of its cost.
        sources: traces, profiles, run directories it was made from.
        programs: compiled programs that were named.
        order: how kernels were picked; None where they are all replays of a folder.
        is_simulated: whether the trace was made without hardware.
        rocktools_version: that wrote it; "" where nobody says.
    """

    kernels: tuple[PlannedKernel, ...]
    refused: tuple[RefusedKernel, ...]
    selection: PassSelection
    architecture: str
    estimate: Estimate
    sources: tuple[Path, ...] = ()
    programs: tuple[Path, ...] = ()
    order: Order | None = None
    is_simulated: bool = False
    rocktools_version: str = ""


def parse_passes(text: str, *, iterations_count: int | None = None, warmups_count: int | None = None) -> PassSelection:
    """`all`, `multiplexing`, `blocks:2,4` or `set:NAME`, as typed.

    Args:
        iterations_count, warmups_count: None for the default, which is higher with multiplexing.

    Raises:
        UsageError: it is none of these.
    """
    kind, colon, rest = text.partition(":")
    words = tuple(word for word in re.split(r"[,\s]+", rest) if word)
    wants_words = kind in (Passes.BLOCKS.value, Passes.SET.value)
    is_known = kind in {each.value for each in Passes}
    is_good = is_known and bool(words) == wants_words and bool(colon) == wants_words
    is_good = is_good and all(_BLOCK.fullmatch(word) for word in words) and (kind != "set" or len(words) == 1)
    if not is_good:
        raise UsageError(
            "bad-passes",
            f"{text!r} says nothing about passes",
            hint="all, multiplexing, blocks:2,4 or set:mem_thruput (rocprof-compute profile --list-sets)",
        )
    passes = Passes(kind)
    default = MULTIPLEXED_ITERATIONS if passes is Passes.MULTIPLEXING else DEFAULT_ITERATIONS
    return PassSelection(
        passes=passes,
        blocks=words if passes is Passes.BLOCKS else (),
        set_name=words[0] if passes is Passes.SET else None,
        iterations_count=default if iterations_count is None else iterations_count,
        warmups_count=DEFAULT_WARMUPS if warmups_count is None else warmups_count,
    )


def estimate_batch(
    kernels: Sequence[PlannedKernel],
    selection: PassSelection,
    *,
    version: ComputeVersion = DEFAULT_VERSION,
    architecture: str = DEFAULT_ARCHITECTURE,
    start_up_s: float = DEFAULT_START_UP_S,
) -> Estimate:
    """Runs and time of a batch, on one GPU.

    Args:
        version: of rocprof-compute.
        start_up_s: from the start of Python to the first launch.

    Raises:
        CaptureError: nothing is known of the version, or it has no multiplexing.
    """
    each = estimate_passes(
        version,
        architecture,
        blocks=selection.blocks,
        set_name=selection.set_name,
        multiplexes=selection.multiplexes,
    )
    peaks_runs_count, peaks_text = _peaks(version, architecture)
    times_ns = [_mean_ns(kernel) for kernel in kernels]
    launches_s = sum(time_ns or 0.0 for time_ns in times_ns) * selection.launches_count * each.runs_count / NS_PER_S
    runs_count = len(kernels) * each.runs_count + peaks_runs_count
    duration_s = runs_count * start_up_s + launches_s + len(kernels) * _ANALYSIS_S
    assumptions = [
        f"rocprof-compute {version} on {architecture}: {_runs_text(each)} a kernel ({each.basis})",
        f"{start_up_s:g} s from the start of Python to the first launch, in every run; JAX takes 10 to 30 s",
        f"peaks: {peaks_text}",
        f"{_ANALYSIS_S:g} s a kernel for `rocprof-compute analyze`",
        f"{selection.launches_count} launches a run, each as long as in the job"
        + ("" if all(time_ns is not None for time_ns in times_ns) else "; no time where no trace has one"),
        "one GPU: several of them share the kernels",
    ]
    return Estimate(
        runs_count=runs_count,
        passes_count=each.passes_count,
        duration_s=round(duration_s, 1),
        version=str(version),
        start_up_s=start_up_s,
        evidence=weakest(each.evidence, Evidence.INFERRED),
        assumptions=tuple(assumptions),
    )


def workload_name(text: str, taken: Sequence[str] = ()) -> str:
    """A name for a workload that every release accepts, other than those that are taken."""
    name = _UNSAFE.sub("_", text).strip("_-")[:_LONGEST_NAME] or "kernel"
    found, number = name, 1
    while found in (*taken, *RESERVED_NAMES):
        number += 1
        suffix = f"-{number}"
        found = f"{name[: _LONGEST_NAME - len(suffix)]}{suffix}"
    return found


def is_workload_name(text: str) -> bool:
    """Whether every release accepts it, and it is no option, no path and no other job."""
    return (
        bool(text)
        and text not in RESERVED_NAMES
        and len(text) <= _LONGEST_NAME
        and _UNSAFE.search(text) is None
        and text[0] not in "-_"
    )


def _peaks(version: ComputeVersion, architecture: str) -> tuple[int, str]:
    """Runs of an application that the peaks cost, and in words."""
    if compute_facts(version).has_bench_only:
        return 0, "one run of the tool's own benchmark, without an application; some seconds"
    runs = estimate_passes(version, architecture, is_roofline=True).runs_count
    return runs, f"{runs} runs of the first replay with the tool's own benchmark behind them"


def _mean_ns(kernel: PlannedKernel) -> float | None:
    if kernel.total_ns is None or not kernel.dispatches_count:
        return None
    return kernel.total_ns / kernel.dispatches_count


def _runs_text(passes: PassesEstimate) -> str:
    if passes.runs_count == passes.passes_count:
        return f"{passes.runs_count} runs"
    return f"{passes.runs_count} run for {passes.passes_count} passes"
