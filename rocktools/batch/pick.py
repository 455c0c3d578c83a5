"""What a job ran -> its instructions in the order in which they are worth a look, each kernel once.

By time: the kernel that took most comes first. By component: the first of every component in turn, the component that
took most first, then the second of each, so that no component is left out because another one is large.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from pathlib import Path

import pandas as pd

from rocktools.errors import NothingToRead
from rocktools.findings import Finding
from rocktools.workspace.attributed import AttributionOptions, attribute_workspace
from rocktools.workspace.extraction import rank_instructions
from rocktools.workspace.workspace import Workspace

Key = tuple[str, str]
"""Program id and name of an instruction."""


class Order(str, Enum):
    """What decides which kernels come first."""

    TIME = "time"
    COMPONENT = "component"

    def __str__(self) -> str:
        return self.value


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """An instruction that may be profiled alone.

    Attributes:
        program_id: of its program.
        instruction: name.
        kernel_name: that took most of its time, as the trace calls it; "" where no trace says.
        component: by the component map; "" where none was asked for.
        is_communication: whether most of its time is a collective's, where a component was asked for.
        total_ns: of all dispatches on all devices, those of its twins included; None without a trace.
        dispatches_count: how many; None likewise.
        twins: other instructions that launch the same kernel, and whose time is counted here.
    """

    program_id: str
    instruction: str
    kernel_name: str = ""
    component: str = ""
    is_communication: bool = False
    total_ns: int | None = None
    dispatches_count: int | None = None
    twins: tuple[str, ...] = ()

    @property
    def key(self) -> Key:
        return self.program_id, self.instruction


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidates:
    """Instructions of a job.

    Attributes:
        candidates: the one that took most first.
        is_simulated: whether the trace was made without hardware.
        findings: what reading and linking raised.
    """

    candidates: tuple[Candidate, ...]
    is_simulated: bool = False
    findings: tuple[Finding, ...] = field(default=())


def find_candidates_by_time(paths: Sequence[str], hlo: Sequence[str | Path]) -> Candidates:
    """The instructions of traces or profiles.

    Args:
        paths: traces, profiles, run directories.
        hlo: the compiled programs; () looks for them in the runs.

    Raises:
        InputError: something cannot be read.
        NothingToRead: no dispatch is linked to an instruction.
    """
    ranking = rank_instructions(paths, hlo)
    candidates = tuple(
        Candidate(
            program_id=each.program_id,
            instruction=each.instruction,
            kernel_name=each.kernel_name,
            total_ns=each.total_ns,
            dispatches_count=each.dispatches_count,
        )
        for each in ranking.instructions
    )
    return Candidates(candidates=candidates, is_simulated=ranking.is_simulated, findings=ranking.findings)


def find_candidates_by_component(paths: Sequence[str], options: AttributionOptions) -> Candidates:
    """The instructions of traces or profiles, each with its component.

    Raises:
        InputError: something cannot be read.
        NothingToRead: no dispatch is linked to an instruction.
    """
    with Workspace.open(paths) as workspace:
        runs = attribute_workspace(workspace, options)
        candidates = candidates_of_rows(runs.rows)
        findings = (*workspace.findings, *runs.findings)
        is_simulated = workspace.is_simulated
    if not candidates:
        raise NothingToRead(
            "no-linked-kernels",
            "no kernel is linked to an instruction, so that none can be picked",
            where=", ".join(paths),
            hint="rocktools link says why",
        )
    return Candidates(candidates=candidates, is_simulated=is_simulated, findings=findings)


def candidates_of_rows(rows: pd.DataFrame) -> tuple[Candidate, ...]:
    """The instructions of ATTRIBUTED, the one that took most first; its component is that of most of its time."""
    rows = rows[rows["instruction"].notna() & (rows["kind"] == "dispatch")]
    columns = [rows[name].astype(str) for name in ("program_id", "instruction", "name", "component", "activity")]
    sums: dict[Key, dict[tuple[str, str, str], list[int]]] = {}
    for program_id, instruction, *part, duration_ns in zip(*columns, rows["end_ns"] - rows["start_ns"], strict=True):
        total = sums.setdefault((program_id, instruction), {}).setdefault((part[0], part[1], part[2]), [0, 0])
        total[0] += int(duration_ns)
        total[1] += 1
    found = []
    for (program_id, instruction), parts in sums.items():
        name, component, activity = max(parts, key=lambda part: (parts[part][0], part))
        found.append(
            Candidate(
                program_id=program_id,
                instruction=instruction,
                kernel_name=name,
                component=component,
                is_communication=activity == "communication",
                total_ns=sum(total for total, _ in parts.values()),
                dispatches_count=sum(count for _, count in parts.values()),
            )
        )
    return tuple(sorted(found, key=_by_time))


def fold_twins(candidates: Sequence[Candidate], twins: Mapping[Key, Sequence[str]]) -> tuple[Candidate, ...]:
    """Instructions that launch one kernel become one candidate: the first of them, with the time of all.

    Args:
        twins: instruction -> the others that launch its kernel.
    """
    kept: dict[tuple[str, tuple[str, ...]], Candidate] = {}
    for each in candidates:
        group = (each.program_id, tuple(sorted({each.instruction, *twins.get(each.key, ())})))
        first = kept.get(group)
        if first is None:
            kept[group] = each
            continue
        kept[group] = replace(
            first,
            total_ns=_sum(first.total_ns, each.total_ns),
            dispatches_count=_sum(first.dispatches_count, each.dispatches_count),
            twins=(*first.twins, each.instruction),
        )
    return tuple(sorted(kept.values(), key=_by_time))


def order_candidates(candidates: Sequence[Candidate], order: Order) -> tuple[Candidate, ...]:
    """The candidates in the order in which they are picked."""
    ordered = sorted(candidates, key=_by_time)
    if order is Order.TIME:
        return tuple(ordered)
    groups: dict[str, list[Candidate]] = {}
    for each in ordered:
        groups.setdefault(each.component, []).append(each)
    by_weight = sorted(groups.items(), key=lambda group: (-sum(each.total_ns or 0 for each in group[1]), group[0]))
    ranked = []
    for place, (_, members) in enumerate(by_weight):
        rank = 0
        for each in members:
            ranked.append((rank, place, each))
            rank += not each.is_communication  # a collective is refused later, and takes no turn
    return tuple(each for _, _, each in sorted(ranked, key=lambda entry: entry[:2]))


def _by_time(candidate: Candidate) -> tuple[int, Key]:
    return -(candidate.total_ns or 0), candidate.key


def _sum(first: int | None, second: int | None) -> int | None:
    return None if first is None or second is None else first + second
