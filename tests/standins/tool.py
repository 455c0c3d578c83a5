"""The library side: from ROCPROF_* variables and a scenario to what a process collects, or how it dies of them.

Only variables steer it, so whatever the launcher failed to scrub has its effect here.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, replace

from standins.device import Counter, fits_one_pass, load_counters
from standins.faults import Faults
from standins.filters import BadRegex, KernelFilter, compile_regex, parse_iterations
from standins.messages import log
from standins.paths import ProcessFacts
from standins.scenario import Kernel, Scenario
from standins.timeline import Dispatch, build_dispatches, damage_sequence, damage_times, process_agents
from standins.versions import REGIONS_GATE_COUNTERS, ROCPD_IS_DEFAULT, Release

_SPECIAL = re.compile(r"[!@#$%&(),*+\-./;<>?{}^`~|\s]")
_CPUS_COUNT = 2
_TRACES = (
    "KERNEL",
    "HIP_RUNTIME_API",
    "HIP_COMPILER_API",
    "HSA_CORE_API",
    "MARKER_API",
    "MEMORY_COPY",
    "RCCL_API",
)
OVER_FULL = (
    "Could not construct profile cfg failed with error code 38: "
    "Request exceeds the capabilities of the hardware to collect"
)


class Aborts(Exception):
    """The library ends the process with SIGABRT; the text is what it says before.

    Args:
        text: that text.
        is_exception: whether it is of an exception that nothing catches, and so without the library's head.
    """

    def __init__(self, text: str, *, is_exception: bool = False) -> None:
        super().__init__(text)
        self.is_exception = is_exception


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolConfig:
    """What the variables ask for.

    Attributes:
        release: of the tool.
        environment: all variables.
        traces: domains that are traced.
        formats: files to write.
        groups: counter groups, as given; more than one only with kernel replay or rotation.
        is_replay: whether each dispatch runs once for each group.
        interval: targeted dispatches before the next group, without replay.
        iterations: executions that are counted; empty for all.
    """

    release: Release
    environment: Mapping[str, str]
    traces: frozenset[str]
    formats: tuple[str, ...]
    groups: tuple[tuple[str, ...], ...]
    is_replay: bool
    interval: int
    iterations: frozenset[int]

    @property
    def is_active(self) -> bool:
        """Whether anything is collected."""
        return bool(self.traces or self.groups)

    @property
    def counters(self) -> tuple[str, ...]:
        """Names of all groups, without the device that a name may carry."""
        return tuple(dict.fromkeys(name.partition(":")[0] for group in self.groups for name in group))

    def is_on(self, name: str, default: str = "0") -> bool:
        """Whether a yes-or-no variable is on."""
        return self.environment.get(name, default) not in ("", "0", "false", "off", "no")

    def format_name(self, kernel: Kernel) -> str:
        """A kernel's name as filters and files show it."""
        if not self.is_on("ROCPROF_DEMANGLE_KERNELS", "1"):
            return f"{kernel.symbol}.kd"
        if self.is_on("ROCPROF_TRUNCATE_KERNELS"):
            return kernel.name.partition("(")[0].partition("<")[0].rpartition(" ")[2]
        return kernel.name


@dataclass(frozen=True, slots=True, kw_only=True)
class Counted:
    """A dispatch with the counters that were read around it.

    Attributes:
        dispatch: the dispatch.
        counters: what was read.
        replay_pass: which repetition by kernel replay, from 0; None without replay.
    """

    dispatch: Dispatch
    counters: tuple[Counter, ...]
    replay_pass: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Records:
    """What a process collected.

    Attributes:
        process: number of the process in the scenario.
        agents: GPUs it uses.
        known: counters of the device, for the description of all of them; empty without counters.
        launched: every dispatch, in the order of launch.
        dispatches: those that get a row.
        counted: counter values to be written.
    """

    process: int
    agents: tuple[int, ...]
    known: Mapping[str, Counter]
    launched: tuple[Dispatch, ...]
    dispatches: tuple[Dispatch, ...]
    counted: tuple[Counted, ...]

    def first_half(self) -> Records:
        """What was there when a signal came in the middle."""
        return Records(
            process=self.process,
            agents=self.agents,
            known=self.known,
            launched=self.launched[: len(self.launched) // 2],
            dispatches=self.dispatches[: len(self.dispatches) // 2],
            counted=self.counted[: len(self.counted) // 2],
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """What a file says beside its records.

    Attributes:
        config: of the tool.
        scenario: what ran.
        faults: of this run.
        facts: of the process that writes.
        start_ns: when it began, trace clock.
        end_ns: when it ended, trace clock.
    """

    config: ToolConfig
    scenario: Scenario
    faults: Faults
    facts: ProcessFacts
    start_ns: int
    end_ns: int

    @property
    def guid(self) -> str:
        """UUID of the process's database."""
        from rocktools.demo.rocpd_file import make_guid  # numpy: only where a database is written

        text = f"{self.facts.pid} {self.facts.ppid} {self.start_ns} {self.end_ns}"
        return make_guid(text, start_ns=self.start_ns)


def read_config(environment: Mapping[str, str], release: Release) -> ToolConfig:
    """The configuration of a process.

    Raises:
        BadRange: the range of iterations is no range.
    """
    counted = environment.get("ROCPROF_COUNTER_COLLECTION", "0") == "1"
    one, several = environment.get("ROCPROF_COUNTERS", ""), environment.get("ROCPROF_COUNTER_GROUPS", "")
    lines = [one] if one else several.splitlines()
    groups = tuple(parsed for line in lines if (parsed := parse_counters(line)))
    default = "rocpd" if release.number >= ROCPD_IS_DEFAULT else "csv"
    formats = environment.get("ROCPROF_OUTPUT_FORMAT") or default
    return ToolConfig(
        release=release,
        environment=environment,
        traces=frozenset(name for name in _TRACES if environment.get(f"ROCPROF_{name}_TRACE", "0") == "1"),
        formats=tuple(dict.fromkeys(formats.replace(",", " ").split())),
        groups=groups if counted else (),
        is_replay=environment.get("ROCPROF_KERNEL_REPLAY", "0") == "1",
        interval=int(environment.get("ROCPROF_COUNTER_GROUPS_INTERVAL", "1")),
        iterations=parse_iterations(environment.get("ROCPROF_KERNEL_FILTER_RANGE", "")),
    )


def parse_counters(line: str) -> tuple[str, ...]:
    """Names of a `pmc:` line. Most punctuation parts them, duplicates and the order are lost."""
    return tuple(sorted(set(_SPECIAL.sub(" ", line.partition("pmc:")[2]).split())))


def collect(
    config: ToolConfig, scenario: Scenario, faults: Faults, *, process: int, start_ns: int, run: int
) -> Records:
    """What a process of the scenario collects.

    Args:
        process: number of the process in the scenario.
        start_ns: when it began, trace clock.
        run: number of the run of the application, from 1.

    Raises:
        Aborts: a pattern that the engine refuses, or a group that does not fit.
    """
    known = load_counters(scenario.architecture) if config.groups else {}
    for name in _unknown_names(config, scenario, faults):
        known.pop(name, None)
    kernel_filter = _build_filter(config)

    def is_selected(kernel: Kernel) -> bool:
        return "no-kernel" not in faults and kernel_filter.selects(config.format_name(kernel))

    launched = build_dispatches(scenario, process, start_ns=start_ns, seed=run, is_counted=bool(config.groups))
    launched = damage_sequence(launched, faults, is_selected)
    if run > 1 and scenario.dispatch_id_offset:
        launched = [replace(each, number=each.number + scenario.dispatch_id_offset) for each in launched]
    gated = _gate(config, scenario, launched)
    countable = gated if config.release.number >= REGIONS_GATE_COUNTERS else launched
    selected = [each for each in launched if is_selected(each.kernel)]
    targeted = _target(config, selected, {each.number for each in countable}, faults)
    counted = _count(config, scenario, faults, known, targeted)
    if "KERNEL" in config.traces:
        rows = [] if "no-kernel" in faults else gated
    else:
        rows = list({each.dispatch.number: each.dispatch for each in counted}.values())
    if "calls-only" in faults:
        rows, counted = [], []
    rows = damage_times(rows, faults)
    changed = {each.number: each for each in rows}
    return Records(
        process=process,
        agents=tuple(process_agents(scenario, process)),
        known=known,
        launched=tuple(gated),
        dispatches=tuple(rows),
        counted=tuple(
            Counted(
                dispatch=changed.get(each.dispatch.number, each.dispatch),
                counters=each.counters,
                replay_pass=each.replay_pass,
            )
            for each in counted
        ),
    )


def _build_filter(config: ToolConfig) -> KernelFilter:
    def pattern(name: str) -> re.Pattern[str] | None:
        text = config.environment.get(f"ROCPROF_KERNEL_FILTER_{name}_REGEX", "")
        return compile_regex(text, config.release.number) if text and config.groups else None

    try:
        return KernelFilter(include=pattern("INCLUDE"), exclude=pattern("EXCLUDE"))
    except BadRegex as error:
        raise Aborts(f"terminate called after throwing an instance of '{error}'", is_exception=True) from error


def _unknown_names(config: ToolConfig, scenario: Scenario, faults: Faults) -> Sequence[str]:
    unknown = list(scenario.unknown_counters)
    if "unknown-counter" in faults and config.counters:
        unknown.append(faults.argument("unknown-counter", config.counters[-1]))
    return unknown


def _gate(config: ToolConfig, scenario: Scenario, launched: list[Dispatch]) -> list[Dispatch]:
    """The dispatches inside the selected regions; all of them where regions are not selected."""
    if not config.is_on("ROCPROF_SELECTED_REGIONS"):
        return launched
    if scenario.selected_rounds is None:
        return []
    first, last = scenario.selected_rounds
    return [each for each in launched if first <= each.round <= last]


def _target(
    config: ToolConfig, selected: list[Dispatch], countable: Set[int], faults: Faults
) -> list[tuple[Dispatch, int, int | None]]:
    """Dispatch, number of its group, and its replay pass, for every execution that is counted.

    Executions are numbered for each kernel on each device, from the start of the process, whatever regions are
    selected. With kernel replay every repetition takes a number of its own, so a range of iterations leaves a dispatch
    with some of its groups.

    Args:
        selected: executions of the kernels that the filters let through.
        countable: ids of those inside the selected regions.
    """
    targeted: list[tuple[Dispatch, int, int | None]] = []
    seen: dict[tuple[int, int], int] = {}
    groups_count = max(len(config.groups), 1)
    passes = range(1 if "replay-once" in faults else groups_count) if config.is_replay else range(1)
    for dispatch in selected if config.groups else ():
        key = (dispatch.kernel_index, dispatch.agent_index)
        for replay_pass in passes:
            seen[key] = seen.get(key, 0) + 1
            if dispatch.number not in countable or (config.iterations and seen[key] not in config.iterations):
                continue
            group = replay_pass if config.is_replay else len(targeted) // config.interval % groups_count
            targeted.append((dispatch, group, replay_pass if config.is_replay else None))
    return targeted


def _count(
    config: ToolConfig,
    scenario: Scenario,
    faults: Faults,
    known: Mapping[str, Counter],
    targeted: list[tuple[Dispatch, int, int | None]],
) -> list[Counted]:
    counted: list[Counted] = []
    profiles: dict[tuple[int, int], tuple[Counter, ...]] = {}
    lost = faults.argument("missing-counter", config.counters[-1]) if "missing-counter" in faults else ""
    for dispatch, group, replay_pass in targeted:
        key = (dispatch.agent_index, group)
        if key not in profiles:
            profiles[key] = _build_profile(config, scenario, faults, known, *key)
        counters = tuple(each for each in profiles[key] if each.name != lost)
        if counters:
            counted.append(Counted(dispatch=dispatch, counters=counters, replay_pass=replay_pass))
    return counted


def _build_profile(
    config: ToolConfig, scenario: Scenario, faults: Faults, known: Mapping[str, Counter], agent: int, group: int
) -> tuple[Counter, ...]:
    """The counters of a group on one device, made at its first counted dispatch.

    Raises:
        Aborts: they do not fit into one pass.
    """
    wanted = []
    for word in config.groups[group]:
        name, _, place = word.partition(":")
        if not place or place == f"device={agent}":
            wanted.append(name)
    found = [name for name in wanted if name in known]
    missing = [name for name in wanted if name not in known]
    if missing:
        log(
            config.environment,
            "warning",
            "tool.cpp:1514",
            f"Unable to find all counters for agent {_CPUS_COUNT + agent} (gpu-{agent}, {scenario.architecture}) "
            f"in [{', '.join(wanted)}]. Found: [{', '.join(found)}]. Missing: [{', '.join(missing)}]",
        )
    if "over-full" in faults or not fits_one_pass(found, known, faults.argument("small-block")):
        raise Aborts(OVER_FULL)
    return tuple(known[name] for name in found)
