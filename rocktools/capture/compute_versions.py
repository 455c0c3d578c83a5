"""Which rocprof-compute it is, and so what its options mean and where its results lie: one row of facts a release.

The same text means different things: `-d 1` is the second launch before 3.5, the first one up to 3.9, and a folder from
3.10 on. So every command line is built from such a row, and a release that has none is refused. Releases by ROCm: 3.3
came with 7.1, 3.4 with 7.2, 3.5 with 7.12, 3.6 with 7.13, 3.7 with 7.14, 3.8 with 10.0, 3.9 with 10.1, 3.10 with 10.2.

3.3 stands for two programs with one number: the sources of August 2025, which were read and run, and the release of
ROCm 7.1, whose `analyze` writes its tables by other options. `ComputeTool.analyze_options` tells them apart.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum

from rocktools.errors import CaptureError
from rocktools.findings import Finding, Severity

_VERSION = re.compile(r"^\s*rocprofiler-compute version:\s*v?(\d+)\.(\d+)(?:\.(\d+))?\S*", re.MULTILINE | re.IGNORECASE)


@dataclass(frozen=True, slots=True, order=True)
class ComputeVersion:
    """Version of rocprof-compute."""

    major: int
    minor: int
    patch: int = 0

    @property
    def release(self) -> tuple[int, int]:
        """What decides its options."""
        return self.major, self.minor

    def __str__(self) -> str:
        return f"{self.major}.{self.minor}.{self.patch}"


class BlockNames(str, Enum):
    """What `--block` names."""

    HARDWARE = "hardware"  # SQ, TCC, ...
    METRICS = "metrics"  # 2, 2.1, 2.1.3
    METRICS_AND_ALIASES = "metrics_and_aliases"

    def __str__(self) -> str:
        return self.value


class OccupiedFolder(str, Enum):
    """What `profile` does with a target folder that is not empty."""

    WIPED = "wiped"  # all of it, before anything else is checked
    REFUSED = "refused"

    def __str__(self) -> str:
        return self.value


class Layout(str, Enum):
    """How the counters of a workload lie in its folder."""

    WIDE = "wide"  # pmc_perf.csv, a column for each counter, joined from the passes
    LONG = "long"  # pmc_perf.csv, a row for each counter
    PASSES = "passes"  # results_pmc_perf_<n>.csv or .csv.gz, one for each pass

    def __str__(self) -> str:
        return self.value


class AnalysisOutput(str, Enum):
    """Machine-readable output of `analyze`."""

    SAVED_FRAMES = "saved_frames"  # --save-dfs: a folder with a CSV file for each table
    TABLES = "tables"  # --output-format csv before 3.7: the same files
    DATABASE = "database"  # --output-format db: all workloads in one SQLite file
    VIEWS = "views"  # --output-format csv since 3.7: a CSV file for each view of that database

    def __str__(self) -> str:
        return self.value


@dataclass(frozen=True, slots=True, kw_only=True)
class ComputeFacts:
    """What is true of one release.

    Attributes:
        release: major and minor number.
        rocm: the ROCm it came with; None where that is not known.
        has_kernel_filter: whether `-k` and the iterations reach the profiler; 3.0 drops both without a word.
        cuts_names_short: whether `-k` may be searched for in names that are cut short (its own tool counts).
        aborts_shell_scripts: whether it was seen to abort if the application is a script of the shell.
        iterations_option: how launches of the kernel are chosen.
        first_iteration: the number of a kernel's first launch there.
        block_names: what `--block` takes.
        has_sets: `--set`.
        has_multiplexing: `--iteration-multiplexing`: one run of the application for all passes.
        has_bench_only: `--bench-only`: peaks without an application.
        occupied_folder: what it does with a target folder that is not empty.
        has_format_option: whether the form of its results can be chosen.
        layout: how the command lines of rocktools make it leave the results.
        analysis: outputs of `analyze`, the one rocktools uses first.
        line_bytes: bytes that its formulas count for an access of L1 and L2 on gfx942 and gfx950.
        backend: value of the variable ROCPROF; None to leave it out, since a named one may turn off what counts.
    """

    release: tuple[int, int]
    rocm: str | None
    has_kernel_filter: bool
    cuts_names_short: bool
    aborts_shell_scripts: bool
    iterations_option: str
    first_iteration: int
    block_names: BlockNames
    has_sets: bool
    has_multiplexing: bool
    has_bench_only: bool
    occupied_folder: OccupiedFolder
    has_format_option: bool
    layout: Layout
    analysis: tuple[AnalysisOutput, ...]
    line_bytes: int
    backend: str | None

    @property
    def name(self) -> str:
        return f"{self.release[0]}.{self.release[1]}"


def _facts(release: tuple[int, int], rocm: str | None, layout: Layout, *analysis: AnalysisOutput) -> ComputeFacts:
    has_aliases = release >= (3, 4)
    has_metrics = release >= (3, 3)
    return ComputeFacts(
        release=release,
        rocm=rocm,
        has_kernel_filter=has_metrics,
        cuts_names_short=release >= (3, 5),
        aborts_shell_scripts=(3, 5) <= release < (3, 7),
        iterations_option="--kernel-iteration-range" if release >= (3, 10) else "--dispatch",
        first_iteration=1 if release >= (3, 5) else 0,
        block_names=(
            BlockNames.METRICS_AND_ALIASES
            if has_aliases
            else BlockNames.METRICS
            if has_metrics
            else BlockNames.HARDWARE
        ),
        has_sets=has_metrics,
        has_multiplexing=release >= (3, 5),
        has_bench_only=release >= (3, 7),
        occupied_folder=OccupiedFolder.REFUSED if release >= (3, 8) else OccupiedFolder.WIPED,
        has_format_option=(3, 3) <= release < (3, 9),
        layout=layout,
        analysis=analysis,
        line_bytes=128 if release >= (3, 7) else 64,
        backend=None if release >= (3, 5) else "rocprofiler-sdk" if has_metrics else "rocprofv3",
    )


_LONG, _PASSES = Layout.LONG, Layout.PASSES
_DATABASE, _VIEWS = AnalysisOutput.DATABASE, AnalysisOutput.VIEWS

RELEASES: tuple[ComputeFacts, ...] = (
    _facts((3, 0), None, Layout.WIDE, AnalysisOutput.SAVED_FRAMES),
    _facts((3, 3), "7.1", _LONG, AnalysisOutput.SAVED_FRAMES, AnalysisOutput.TABLES, _DATABASE),
    # Its database has other views than later ones.
    _facts((3, 4), "7.2", _LONG, AnalysisOutput.TABLES, _DATABASE),
    _facts((3, 5), "7.12", _LONG, _DATABASE, AnalysisOutput.TABLES),
    _facts((3, 6), "7.13", _PASSES, _DATABASE, AnalysisOutput.TABLES),
    _facts((3, 7), "7.14", _PASSES, _DATABASE, _VIEWS),
    _facts((3, 8), "10.0", _PASSES, _DATABASE, _VIEWS),
    _facts((3, 9), "10.1", _PASSES, _DATABASE, _VIEWS),
    _facts((3, 10), "10.2", _PASSES, _DATABASE, _VIEWS),
)
KNOWN_VERSIONS: tuple[str, ...] = tuple(facts.name for facts in RELEASES)


def parse_compute_version(text: str, *, where: str) -> ComputeVersion:
    """The version in what `rocprof-compute --version` prints.

    Args:
        where: the program, for the message.

    Raises:
        CaptureError: there is none in it.
    """
    match = _VERSION.search(text)
    if match is None:
        raise CaptureError(
            "compute-version-unknown",
            f"it does not tell its version; it printed {text.strip()[:120]!r}",
            where=where,
            hint="run it with --version by hand; its own Python may lack its requirements (--compute-python)",
        )
    major, minor, patch = (int(number or 0) for number in match.groups())
    return ComputeVersion(major, minor, patch)


def compute_facts(version: ComputeVersion) -> ComputeFacts:
    """The facts of a version; those of the newest release known for anything newer.

    Raises:
        CaptureError: it is older than all that are known, or a release between them of which nothing is known.
    """
    by_release = {facts.release: facts for facts in RELEASES}
    if version.release in by_release:
        return by_release[version.release]
    if version.release > RELEASES[-1].release:
        return RELEASES[-1]
    what = "older than" if version.release < RELEASES[0].release else "none of"
    raise CaptureError(
        "compute-version-unsupported",
        f"rocprof-compute {version} is {what} the releases whose options are known: {', '.join(KNOWN_VERSIONS)}",
        hint="use rocprof-compute 3.7 (ROCm 7.14) or later; or count the replay with: rocktools replay profile",
    )


def check_compute_version(version: ComputeVersion) -> list[Finding]:
    """Doubts about a version: newer than what is known."""
    newest = RELEASES[-1]
    if version.release <= newest.release:
        return []
    return [
        Finding(
            rule="compute-version-newer",
            severity=Severity.WARNING,
            where="rocprof-compute",
            message=f"version {version} is newer than {newest.name}, the newest one that is known: treated as that",
            numbers={"major": version.major, "minor": version.minor},
            advice="if it refuses an option, use an older rocprof-compute, or a newer rocktools",
        )
    ]
