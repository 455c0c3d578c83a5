"""A plan as a YAML file (schema rocktools.batch-plan/1, `batch-plan.schema.json` beside this module), and back.

The file is for people to edit: kernels may be removed, moved up from `refused`, or written by hand with the three keys
that a run needs. So every key is checked, and a complaint names it with its line. Paths are relative to the file where
they lie below or near it, so that the folder can be moved.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from rocktools.batch.bundles import Refusal
from rocktools.batch.pick import Order
from rocktools.batch.plan import (
    BatchPlan,
    Estimate,
    Passes,
    PassSelection,
    PlannedKernel,
    RefusedKernel,
    is_workload_name,
)
from rocktools.evidence import Evidence
from rocktools.replay.prove import Level
from rocktools.units import count_noun
from rocktools.yaml_file import Place, YamlFile, parse_yaml, read_yaml_file

SCHEMA = "rocktools.batch-plan/1"
SCHEMA_FILE = Path(__file__).resolve().parent / "batch-plan.schema.json"
_REFERENCE = "batch-plan"
_TOP_KEYS = ("schema", "architecture", "passes", "kernels")
_TOP_OPTIONAL = ("rocktools_version", "source", "refused", "estimate")
_NEVER_WRAPPED = 10_000

_HEAD = """\
# Plan of a batch: kernels that rocprof-compute profiles, each alone, by its replay.
#   look at it:     rocktools batch run {name} -o DIR --dry-run
#   run it:         rocktools batch run {name} -o DIR
# Edit it as you like. A kernel needs name, replay and kernel; what else is said of it is for people and for checks.
# Paths are relative to this file.
"""
_PASSES_HEAD = """
# selection: all, blocks (then `blocks: [2, 4]`), set (then `set: NAME`), or multiplexing: all in one run, from 3.5 on.
# iterations: launches that are counted in each run, behind those of warm_up.
"""
_KERNELS_HEAD = """
# {count}, in the order in which they run.
"""
_REFUSED_HEAD = """
# Not profiled, and why.
"""
_ESTIMATE_HEAD = """
# {cost}: inferred, see the assumptions.
"""


def render_plan(plan: BatchPlan, path: Path) -> str:
    """The text of the file.

    Args:
        path: where it is going to be.
    """
    folder = path.absolute().parent
    estimate = plan.estimate
    parts = [
        _HEAD.format(name=path.name),
        _dump({"schema": SCHEMA, "rocktools_version": plan.rocktools_version, "source": _source(plan, folder)}),
        _dump({"architecture": plan.architecture}),
        _PASSES_HEAD,
        _dump({"passes": _passes(plan.selection)}),
        _KERNELS_HEAD.format(count=count_noun(len(plan.kernels), "kernel")),
        _dump({"kernels": [_kernel(each, folder) for each in plan.kernels]}),
        _REFUSED_HEAD,
        _dump({"refused": [_refused(each, folder) for each in plan.refused]}),
        _ESTIMATE_HEAD.format(cost=f"A{estimate.cost_text[1:]}"),
        _dump({"estimate": _estimate(estimate)}),
    ]
    return "".join(parts)


def read_plan(path: Path) -> BatchPlan:
    """The plan in a file.

    Raises:
        InputError: it cannot be read, or an entry of it is wrong, which is named.
        UnsupportedVersion: it keeps another schema.
    """
    return _parse(read_yaml_file(path, _REFERENCE), path.absolute().parent)


def parse_plan(text: str, path: Path) -> BatchPlan:
    """The plan in a text that stands, or is going to stand, at `path`.

    Raises:
        As `read_plan`.
    """
    return _parse(parse_yaml(text, source=str(path), reference=_REFERENCE), path.absolute().parent)


class _Row(list[Any]):
    """A list that stands on one line."""


class _Dumper(yaml.SafeDumper):
    pass


_Dumper.add_representer(_Row, lambda dumper, row: dumper.represent_sequence("tag:yaml.org,2002:seq", row, True))


def _dump(value: Mapping[str, Any]) -> str:
    text: str = yaml.dump(value, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=_NEVER_WRAPPED)
    return text


def _relative(path: Path, folder: Path) -> str:
    return Path(os.path.relpath(path.absolute(), folder)).as_posix()


def _source(plan: BatchPlan, folder: Path) -> dict[str, Any]:
    return {
        "paths": _Row(_relative(path, folder) for path in plan.sources),
        "programs": _Row(_relative(path, folder) for path in plan.programs),
        "by": None if plan.order is None else plan.order.value,
        "is_simulated": plan.is_simulated,
    }


def _passes(selection: PassSelection) -> dict[str, Any]:
    found: dict[str, Any] = {"selection": selection.passes.value}
    if selection.passes is Passes.BLOCKS:
        found["blocks"] = _Row(selection.blocks)
    if selection.passes is Passes.SET:
        found["set"] = selection.set_name
    return {**found, "iterations": selection.iterations_count, "warm_up": selection.warmups_count}


def _kernel(kernel: PlannedKernel, folder: Path) -> dict[str, Any]:
    found = {
        "name": kernel.name,
        "replay": _relative(kernel.replay, folder),
        "kernel": kernel.kernel,
        "level": kernel.level.value,
        "instruction": kernel.instruction,
        "program_id": kernel.program_id,
        "program_sha256": kernel.program_sha256,
        "component": kernel.component,
        "total_ns": kernel.total_ns,
        "dispatches_count": kernel.dispatches_count,
        "twins": _Row(kernel.twins),
    }
    return {key: value for key, value in found.items() if value not in ("", None, [])}


def _refused(kernel: RefusedKernel, folder: Path) -> dict[str, Any]:
    found = {
        "instruction": kernel.instruction,
        "reason": kernel.refusal.reason,
        "why": kernel.refusal.why,
        "hint": kernel.refusal.hint,
        "kernel": kernel.kernel,
        "program_id": kernel.program_id,
        "component": kernel.component,
        "total_ns": kernel.total_ns,
        "replay": None if kernel.replay is None else _relative(kernel.replay, folder),
    }
    return {key: value for key, value in found.items() if value not in ("", None)}


def _estimate(estimate: Estimate) -> dict[str, Any]:
    return {
        "runs_count": estimate.runs_count,
        "passes_count": estimate.passes_count,
        "duration_s": estimate.duration_s,
        "version": estimate.version,
        "start_up_s": estimate.start_up_s,
        "evidence": estimate.evidence.value,
        "assumptions": list(estimate.assumptions),
    }


def _parse(file: YamlFile, folder: Path) -> BatchPlan:
    file.require_schema(_REFERENCE, SCHEMA)
    top = file.require_mapping(_REFERENCE, (), file.value, required=_TOP_KEYS, optional=_TOP_OPTIONAL)
    source = file.require_mapping(
        _REFERENCE, ("source",), top.get("source") or {}, optional=("paths", "programs", "by", "is_simulated")
    )
    order = source.get("by")
    if order is not None:
        file.require_text(_REFERENCE, ("source", "by"), order, choices=[each.value for each in Order])
    return BatchPlan(
        kernels=_parse_kernels(file, top["kernels"], folder),
        refused=_parse_refused(file, top.get("refused") or [], folder),
        selection=_parse_passes(file, top["passes"]),
        architecture=file.require_text(_REFERENCE, ("architecture",), top["architecture"]),
        estimate=_parse_estimate(file, top.get("estimate")),
        sources=_parse_paths(file, ("source", "paths"), source.get("paths") or [], folder),
        programs=_parse_paths(file, ("source", "programs"), source.get("programs") or [], folder),
        order=None if order is None else Order(order),
        is_simulated=_flag(file, ("source", "is_simulated"), source.get("is_simulated", False)),
        rocktools_version=_text(file, ("rocktools_version",), top.get("rocktools_version")),
    )


def _parse_kernels(file: YamlFile, value: Any, folder: Path) -> tuple[PlannedKernel, ...]:
    kernels: list[PlannedKernel] = []
    for number, each in enumerate(file.require_list(_REFERENCE, ("kernels",), value)):
        kernel = _parse_kernel(file, ("kernels", number), each, folder)
        if any(kernel.name == other.name for other in kernels):
            what = f"the name {kernel.name!r} is there twice, and each workload needs a folder of its own"
            raise file.complaint(_REFERENCE, ("kernels", number, "name"), what)
        kernels.append(kernel)
    return tuple(kernels)


def _parse_kernel(file: YamlFile, place: Place, value: Any, folder: Path) -> PlannedKernel:
    optional = ("level", "instruction", "program_id", "program_sha256", "component", "total_ns", "dispatches_count")
    entry = file.require_mapping(
        _REFERENCE, place, value, required=("name", "replay", "kernel"), optional=(*optional, "twins")
    )
    name = file.require_text(_REFERENCE, (*place, "name"), entry["name"])
    if not is_workload_name(name):
        what = f"{name!r} is no name of a workload: up to 100 letters, digits, _ and -, no - or _ in front; not peaks"
        raise file.complaint(_REFERENCE, (*place, "name"), what)
    level = Level.UNPROVEN.value
    if "level" in entry:
        levels = [each.value for each in Level]
        level = file.require_text(_REFERENCE, (*place, "level"), entry["level"], choices=levels)
    if level == Level.NOT_A_STAND_IN.value:
        what = "a replay that is not a stand-in says nothing about the job"
        raise file.complaint(_REFERENCE, (*place, "level"), what, "remove the kernel, or extract it again")
    texts = {key: _text(file, (*place, key), entry.get(key)) for key in optional[1:5]}
    return PlannedKernel(
        name=name,
        replay=folder / file.require_text(_REFERENCE, (*place, "replay"), entry["replay"]),
        kernel=file.require_text(_REFERENCE, (*place, "kernel"), entry["kernel"]),
        level=Level(level),
        total_ns=_count(file, (*place, "total_ns"), entry.get("total_ns")),
        dispatches_count=_count(file, (*place, "dispatches_count"), entry.get("dispatches_count")),
        twins=tuple(_texts(file, (*place, "twins"), entry.get("twins") or [])),
        **texts,
    )


def _parse_refused(file: YamlFile, value: Any, folder: Path) -> tuple[RefusedKernel, ...]:
    found = []
    for number, each in enumerate(file.require_list(_REFERENCE, ("refused",), value)):
        place = ("refused", number)
        entry = file.require_mapping(
            _REFERENCE,
            place,
            each,
            required=("instruction", "reason", "why"),
            optional=("hint", "kernel", "program_id", "component", "total_ns", "replay"),
        )
        texts = {key: _text(file, (*place, key), entry.get(key)) for key in ("kernel", "program_id", "component")}
        replay = _text(file, (*place, "replay"), entry.get("replay"))
        refusal = Refusal(
            reason=file.require_text(_REFERENCE, (*place, "reason"), entry["reason"]),
            why=file.require_text(_REFERENCE, (*place, "why"), entry["why"]),
            hint=_text(file, (*place, "hint"), entry.get("hint")),
        )
        found.append(
            RefusedKernel(
                instruction=file.require_text(_REFERENCE, (*place, "instruction"), entry["instruction"]),
                refusal=refusal,
                total_ns=_count(file, (*place, "total_ns"), entry.get("total_ns")),
                replay=folder / replay if replay else None,
                **texts,
            )
        )
    return tuple(found)


def _parse_passes(file: YamlFile, value: Any) -> PassSelection:
    place: Place = ("passes",)
    entry = file.require_mapping(
        _REFERENCE, place, value, required=("selection", "iterations"), optional=("warm_up", "blocks", "set")
    )
    names = [each.value for each in Passes]
    passes = Passes(file.require_text(_REFERENCE, (*place, "selection"), entry["selection"], choices=names))
    for key, owner in (("blocks", Passes.BLOCKS), ("set", Passes.SET)):
        if (key in entry) != (passes is owner):
            missing = f"the key {key!r} is missing, which `selection: {passes}` needs"
            what = f"`{key}` goes with `selection: {owner}`, and selection is {passes}" if key in entry else missing
            raise file.complaint(_REFERENCE, (*place, key) if key in entry else place, what)
    blocks: tuple[str, ...] = ()
    if passes is Passes.BLOCKS:
        listed = file.require_list(_REFERENCE, (*place, "blocks"), entry["blocks"])
        blocks = file.require_texts(_REFERENCE, (*place, "blocks"), [_block(each) for each in listed])
    return PassSelection(
        passes=passes,
        blocks=blocks,
        set_name=file.require_text(_REFERENCE, (*place, "set"), entry["set"]) if passes is Passes.SET else None,
        iterations_count=file.require_count(_REFERENCE, (*place, "iterations"), entry["iterations"]),
        warmups_count=file.require_count(_REFERENCE, (*place, "warm_up"), entry.get("warm_up", 0), at_least=0),
    )


def _block(value: Any) -> Any:
    """`blocks: [2, 4.1]` without quotes is meant as texts."""
    return str(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else value


def _parse_estimate(file: YamlFile, value: Any) -> Estimate:
    """As it was written; a run makes its own."""
    place: Place = ("estimate",)
    keys = ("runs_count", "passes_count", "duration_s", "version", "start_up_s", "evidence", "assumptions")
    entry = file.require_mapping(_REFERENCE, place, value or {}, optional=keys)
    counts = {key: _count(file, (*place, key), entry.get(key)) or 0 for key in keys[:2]}
    numbers = {key: _number(file, (*place, key), entry.get(key, 0.0)) for key in ("duration_s", "start_up_s")}
    evidence = file.require_text(
        _REFERENCE,
        (*place, "evidence"),
        entry.get("evidence", Evidence.INFERRED.value),
        choices=[each.value for each in Evidence],
    )
    return Estimate(
        runs_count=counts["runs_count"],
        passes_count=counts["passes_count"],
        duration_s=numbers["duration_s"],
        version=_text(file, (*place, "version"), entry.get("version")),
        start_up_s=numbers["start_up_s"],
        evidence=Evidence(evidence),
        assumptions=tuple(_texts(file, (*place, "assumptions"), entry.get("assumptions") or [])),
    )


def _parse_paths(file: YamlFile, place: Place, value: Any, folder: Path) -> tuple[Path, ...]:
    return tuple(folder / text for text in _texts(file, place, value))


def _texts(file: YamlFile, place: Place, value: Any) -> Sequence[str]:
    return file.require_texts(_REFERENCE, place, value) if file.require_list(_REFERENCE, place, value) else ()


def _text(file: YamlFile, place: Place, value: Any) -> str:
    """A text that may be left out; a number without quotes is one."""
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    return "" if value is None or value == "" else file.require_text(_REFERENCE, place, value)


def _count(file: YamlFile, place: Place, value: Any) -> int | None:
    return None if value is None else file.require_count(_REFERENCE, place, value, at_least=0)


def _number(file: YamlFile, place: Place, value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not value >= 0:
        raise file.complaint(_REFERENCE, place, f"must be a number of at least 0, but is {value!r}")
    return float(value)


def _flag(file: YamlFile, place: Place, value: Any) -> bool:
    if not isinstance(value, bool):
        raise file.complaint(_REFERENCE, place, f"must be true or false, but is {value!r}")
    return value
