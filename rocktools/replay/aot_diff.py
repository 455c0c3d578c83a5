"""Two compilations of a program -> what the second made of each kernel of the first.

Instructions are the same where they have one name and one fingerprint; then where they have one fingerprint, in order
(another version numbers differently); then where they have one name or, without modules, one machine code. What is left
was added or removed. Names of kernels follow from those of instructions, and are compared last.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum

import pandas as pd

from rocktools.frames import Column, FrameSpec, require_frame
from rocktools.replay.executable import ExecutableThunk


class Change(str, Enum):
    """What became of a launch."""

    SAME = "same"
    RENAMED = "renamed"  # the same code under another name
    CHANGED = "changed"
    ADDED = "added"
    REMOVED = "removed"

    def __str__(self) -> str:
        return self.value


_ONE_SIDE = "one side only, or no kernel of the program's own"
AOT_CHANGES = FrameSpec(
    name="AOT_CHANGES",
    meaning="One row for each launch of either of two compilations of a program.",
    key=("change_index",),
    sort=("change_index",),
    columns=(
        Column("change_index", "int64", "place among the rows: launches of the first in order, then what was added"),
        Column("change", "category", "same, renamed, changed, added or removed"),
        Column("what", "category", "what changed: computation, kind, call, launch, registers, LDS, ...", "nothing did"),
        Column("a_instruction", "category", "HLO instruction in the first", "it was added"),
        Column("b_instruction", "category", "HLO instruction in the second", "it was removed"),
        Column("a_kernel_name", "category", "kernel in the first", _ONE_SIDE),
        Column("b_kernel_name", "category", "kernel in the second", _ONE_SIDE),
        Column("a_grid_workgroups", "Int64", "workgroups in the first, all directions together", _ONE_SIDE),
        Column("b_grid_workgroups", "Int64", "workgroups in the second, all directions together", _ONE_SIDE),
        Column("a_vgpr_count", "Int64", "vector registers in the first", _ONE_SIDE),
        Column("b_vgpr_count", "Int64", "vector registers in the second", _ONE_SIDE),
        Column("a_lds_bytes", "Int64", "shared memory of a workgroup in the first", _ONE_SIDE),
        Column("b_lds_bytes", "Int64", "shared memory of a workgroup in the second", _ONE_SIDE),
        Column("a_spills_count", "Int64", "registers that did not fit, in the first", _ONE_SIDE),
        Column("b_spills_count", "Int64", "registers that did not fit, in the second", _ONE_SIDE),
        Column("a_code_bytes", "Int64", "size of the machine code in the first", _ONE_SIDE),
        Column("b_code_bytes", "Int64", "size of the machine code in the second", _ONE_SIDE),
    ),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class CompiledSide:
    """One compilation.

    Attributes:
        thunks: what it launches, in order.
        fingerprints: instruction -> fingerprint; {} where the module is not known.
    """

    thunks: Sequence[ExecutableThunk]
    fingerprints: Mapping[str, str]


_Key = Callable[[ExecutableThunk], Hashable]


def compare_compilations(first: CompiledSide, second: CompiledSide) -> pd.DataFrame:
    """AOT_CHANGES of two compilations."""
    pairs = _paired(first, second)
    partners = dict(pairs)
    taken = set(partners.values())
    rows = []
    for place, thunk in enumerate(first.thunks):
        partner = second.thunks[partners[place]] if place in partners else None
        rows.append(_row(thunk, partner, is_other_computation=_is_other_computation(first, second, thunk, partner)))
    rows += [_row(None, thunk) for place, thunk in enumerate(second.thunks) if place not in taken]
    frame = pd.DataFrame(rows, columns=[name for name in AOT_CHANGES.names if name != "change_index"])
    frame.insert(0, "change_index", range(len(frame)))
    return require_frame(frame.astype({column.name: column.dtype for column in AOT_CHANGES.columns}), AOT_CHANGES)


def _paired(first: CompiledSide, second: CompiledSide) -> list[tuple[int, int]]:
    """Places of the same launch in both, by one rule after the other."""

    def fingerprint(side: CompiledSide) -> _Key:
        return lambda thunk: side.fingerprints.get(thunk.instruction)

    def named_fingerprint(side: CompiledSide) -> _Key:
        return lambda thunk: (thunk.instruction, found) if (found := fingerprint(side)(thunk)) else None

    def name(_side: CompiledSide) -> _Key:
        return lambda thunk: thunk.instruction or None

    def code(_side: CompiledSide) -> _Key:
        return lambda thunk: (thunk.code.sha256, thunk.grid_workgroups) if thunk.code else None

    pairs: list[tuple[int, int]] = []
    open_first, open_second = list(range(len(first.thunks))), list(range(len(second.thunks)))
    for rule in (named_fingerprint, fingerprint, name, code):
        waiting: dict[Hashable, list[int]] = defaultdict(list)
        key = rule(second)
        for place in open_second:
            waiting[key(second.thunks[place])].append(place)
        key = rule(first)
        for place in list(open_first):
            found = key(first.thunks[place])
            if found is not None and waiting.get(found):
                partner = waiting[found].pop(0)
                pairs.append((place, partner))
                open_first.remove(place)
                open_second.remove(partner)
    return pairs


def _is_other_computation(
    first: CompiledSide, second: CompiledSide, thunk: ExecutableThunk, partner: ExecutableThunk | None
) -> bool:
    """Whether both modules say what the instruction calculates, and it is not the same."""
    if partner is None:
        return False
    ours, theirs = first.fingerprints.get(thunk.instruction), second.fingerprints.get(partner.instruction)
    return ours is not None and theirs is not None and ours != theirs


def _row(
    first: ExecutableThunk | None, second: ExecutableThunk | None, *, is_other_computation: bool = False
) -> dict[str, object]:
    what: tuple[str, ...] = ()
    if first is None or second is None:
        change = Change.REMOVED if second is None else Change.ADDED
    else:
        what = _differences(first, second)
        if what and is_other_computation:  # with the same code it is a matter of scopes
            what = ("computation", *what)
        is_renamed = (first.instruction, first.kernel_name) != (second.instruction, second.kernel_name)
        change = Change.CHANGED if what else Change.RENAMED if is_renamed else Change.SAME
    row: dict[str, object] = {"change": change.value, "what": ", ".join(what) or None}
    for side, thunk in (("a", first), ("b", second)):
        for name, value in _facts(thunk).items():
            row[f"{side}_{name}"] = value
    return row


def _facts(thunk: ExecutableThunk | None) -> dict[str, object]:
    if thunk is None:
        return {}
    facts: dict[str, object] = {"instruction": thunk.instruction, "kernel_name": thunk.kernel_name or None}
    if thunk.grid_workgroups:
        workgroups = 1
        for size in thunk.grid_workgroups:
            workgroups *= size
        facts["grid_workgroups"] = workgroups
    code = thunk.code
    if code is not None:
        facts["vgpr_count"], facts["code_bytes"] = code.vgpr_count, code.code_bytes
        facts["lds_bytes"] = None if code.lds_bytes is None else code.lds_bytes + (thunk.dynamic_lds_bytes or 0)
        facts["spills_count"] = _spills(thunk)
    return facts


def _differences(first: ExecutableThunk, second: ExecutableThunk) -> tuple[str, ...]:
    """What of the two differs, the weightiest first."""
    found = []
    if first.kind != second.kind or first.configuration_sha256 != second.configuration_sha256:
        found.append("kind" if first.kind != second.kind else "call")
    if (first.grid_workgroups, first.workgroup_workitems) != (second.grid_workgroups, second.workgroup_workitems):
        found.append("launch")
    ours, theirs = first.code, second.code
    if ours is None or theirs is None:
        return tuple(found)
    registers = [(each.vgpr_count, each.agpr_count, each.sgpr_count) for each in (ours, theirs)]
    lds = [(code.lds_bytes, thunk.dynamic_lds_bytes) for code, thunk in ((ours, first), (theirs, second))]
    checks = (
        ("registers", registers[0] != registers[1]),
        ("LDS", lds[0] != lds[1]),
        ("scratch", ours.scratch_bytes != theirs.scratch_bytes),
        ("spills", _spills(first) != _spills(second)),
        ("code", ours.sha256 != theirs.sha256),
    )
    return (*found, *(name for name, is_different in checks if is_different))


def _spills(thunk: ExecutableThunk) -> int | None:
    code = thunk.code
    counts = () if code is None else (code.vgpr_spills_count, code.sgpr_spills_count)
    return None if not counts or None in counts else sum(count for count in counts if count is not None)
