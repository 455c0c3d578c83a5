"""What one process launches, and when: from a scenario to dispatches with times, and the values of their counters.

Counts of events are equal in every pass; what is made of time (durations, cycles) is not.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from standins.device import Counter
from standins.faults import Faults
from standins.scenario import Kernel, Scenario, Size

_BETWEEN_DISPATCHES_NS = 2_000
_BETWEEN_ROUNDS_NS = 50_000
_LAUNCH_AHEAD_NS = 9_000
_CALL_NS = 5_000
_CYCLES_PER_NS = 2.4
_OUTLIER_TIMES = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Dispatch:
    """One execution of a kernel.

    Attributes:
        number: dispatch id.
        kernel_index: which kernel of the scenario.
        kernel: the kernel itself.
        agent_index: which GPU of the node.
        round: which round it belongs to.
        grid, workgroup: work-items.
        start_ns, end_ns: execution, trace clock.
        call_start_ns, call_end_ns: the call that launched it.
    """

    number: int
    kernel_index: int
    kernel: Kernel
    agent_index: int
    round: int
    grid: Size
    workgroup: Size
    start_ns: int
    end_ns: int
    call_start_ns: int
    call_end_ns: int


def process_agents(scenario: Scenario, process: int) -> list[int]:
    """GPUs that a process uses: all of them, or one in turn where there are several processes."""
    if scenario.processes_count == 1:
        return list(range(scenario.agents_count))
    return [process % scenario.agents_count] if scenario.agents_count else []


def build_dispatches(scenario: Scenario, process: int, *, start_ns: int, seed: int, is_counted: bool) -> list[Dispatch]:
    """Every dispatch of a process, in the order of launch.

    Args:
        start_ns: when the process began, trace clock.
        seed: of what differs from run to run.
        is_counted: whether counters are collected, which makes kernels run one at a time and a little longer.
    """
    agents = process_agents(scenario, process)
    now_ns = dict.fromkeys(agents, start_ns + 1_000_000)
    factor = 1.1 if is_counted else 1.0
    dispatches: list[Dispatch] = []
    for round_number, index, kernel in _launches(scenario, process):
        for agent in agents:
            if index == 0:
                now_ns[agent] += _BETWEEN_ROUNDS_NS
            begin = now_ns[agent] + _BETWEEN_DISPATCHES_NS
            chance = zlib.crc32(f"{kernel.name} {round_number} {agent} {seed}".encode()) % 601 - 300
            end = begin + int(kernel.duration_ns * factor * (1 + chance / 10_000))
            now_ns[agent] = end
            dispatches.append(
                Dispatch(
                    number=len(dispatches) + 1,
                    kernel_index=index,
                    kernel=kernel,
                    agent_index=agent,
                    round=round_number,
                    grid=kernel.grid,
                    workgroup=kernel.workgroup,
                    start_ns=begin,
                    end_ns=end,
                    call_start_ns=begin - _LAUNCH_AHEAD_NS,
                    call_end_ns=begin - _LAUNCH_AHEAD_NS + _CALL_NS,
                )
            )
    return dispatches


def _launches(scenario: Scenario, process: int) -> Iterator[tuple[int, int, Kernel]]:
    """Round, kernel number and kernel, in the order of launch."""
    for round_number in range(max((kernel.count for kernel in scenario.kernels), default=0)):
        for index, kernel in enumerate(scenario.kernels):
            is_used = kernel.processes is None or process in kernel.processes
            if is_used and round_number < kernel.count:
                yield round_number, index, kernel


def damage_sequence(
    dispatches: Sequence[Dispatch], faults: Faults, is_selected: Callable[[Kernel], bool]
) -> list[Dispatch]:
    """The dispatches after the faults that change which there are, or how large."""

    def hits(fault: str, dispatch: Dispatch) -> bool:
        name = faults.argument(fault)
        if name:
            return dispatch.kernel.name.startswith(name)
        first = next((each.kernel_index for each in dispatches if is_selected(each.kernel)), None)
        return dispatch.kernel_index == first

    damaged = list(dispatches)
    if "missing-kernel" in faults:
        damaged = [each for each in damaged if not hits("missing-kernel", each)]
    if "lost-graph-kernels" in faults:
        share = float(faults.argument("lost-graph-kernels", "0.65"))
        damaged = [each for each in damaged if zlib.crc32(str(each.number).encode()) % 1000 >= 1000 * share]
    if "other-geometry" in faults:
        damaged = [
            replace(each, grid=(2 * each.grid[0], *each.grid[1:])) if hits("other-geometry", each) else each
            for each in damaged
        ]
    if "extra-dispatch" in faults:
        extra = [each for each in damaged if hits("extra-dispatch", each)][-1:]
        shift = damaged[-1].end_ns - extra[0].start_ns + _BETWEEN_DISPATCHES_NS if extra else 0
        damaged += [
            replace(each, number=damaged[-1].number + 1, start_ns=each.start_ns + shift, end_ns=each.end_ns + shift)
            for each in extra
        ]
    return damaged


def damage_times(dispatches: Sequence[Dispatch], faults: Faults) -> list[Dispatch]:
    """The dispatches that are written, after the faults that change the times of the middle one."""
    damaged = list(dispatches)
    if damaged:
        middle = len(damaged) // 2
        chosen = damaged[middle]
        if "outlier" in faults:
            long_ns = (chosen.end_ns - chosen.start_ns) * _OUTLIER_TIMES
            damaged[middle] = replace(chosen, end_ns=chosen.start_ns + long_ns)
        if "inverted-timestamps" in faults:
            damaged[middle] = replace(chosen, end_ns=chosen.start_ns - 500)
    return damaged


def dispatch_values(counter: Counter, dispatch: Dispatch, scenario: Scenario, faults: Faults) -> list[float]:
    """What one dispatch leaves of a counter: a value for each hardware instance, one for a derived counter."""
    is_zeroed = "zero-counters" in faults and faults.argument("zero-counters", counter.name) == counter.name
    return instance_values(counter, 0.0 if is_zeroed else counter_total(counter, dispatch, scenario))


def counter_total(counter: Counter, dispatch: Dispatch, scenario: Scenario) -> float:
    """Sum over the instances of a raw counter, or the one value of a derived one."""
    name = counter.made_of[0] if counter.reduction else counter.name
    given = scenario.values.get(dispatch.kernel.name, {})
    for known in (counter.name, name):
        if known in given:
            return float(given[known])
    if name in scenario.zero_counters or counter.name in scenario.zero_counters:
        return 0.0
    return float(_made_up_total(name, dispatch, scenario))


_SUMS = {
    "TCC_EA0_RDREQ": ("TCC_EA0_RDREQ_128B", "TCC_EA0_RDREQ_64B", "TCC_EA0_RDREQ_32B"),
    "TCC_REQ": ("TCC_HIT", "TCC_MISS"),
}


def _made_up_total(name: str, dispatch: Dispatch, scenario: Scenario) -> int:
    kernel = dispatch.kernel
    cycles = max(int((dispatch.end_ns - dispatch.start_ns) * _CYCLES_PER_NS), 1)
    waves = -(-dispatch.grid[0] * dispatch.grid[1] * dispatch.grid[2] // 64)
    if name.startswith("GRBM_"):
        return 8 * cycles
    if name == "SQ_WAVES":
        return waves
    # The level alone means nothing without accumulation, and the request size of MI300 does not exist on MI350.
    if name == "SQ_LEVEL_WAVES" or (name == "TCC_BUBBLE" and scenario.architecture == "gfx950"):
        return 0
    if name in _SUMS:
        return int(sum(counter_total(Counter(name=part), dispatch, scenario) for part in _SUMS[name]))
    if "MFMA" in name and not any(word in kernel.name for word in ("gemm", "Cijk", "dot")):
        return 0
    if "CYCLES" in name or "BUSY" in name or "_ACTIVE" in name:
        return 32 * cycles
    return waves * (1 + zlib.crc32(f"{kernel.name} {name}".encode()) % 16)


def instance_values(counter: Counter, total: float) -> list[float]:
    """`total` shared out over the counter's instances: as equal as whole numbers can be."""
    count = counter.instances_count
    if count == 1:
        return [total]
    whole = int(total)
    return [float(whole // count + (instance < whole % count)) for instance in range(count)]
