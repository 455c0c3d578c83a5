"""Dispatches, links and classified programs -> ATTRIBUTED: every kernel and copy in exactly one bucket.

Buckets are few and rows are many: each different combination of link and kernel name is looked at once, and the answers
are laid out over the rows. Nothing here reads an op_name or a component map.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from rocktools.attribution.classify import Bucket
from rocktools.attribution.components import UNATTRIBUTED
from rocktools.attribution.phases import BookedPhase
from rocktools.correlate.edges import SHOWN_CANDIDATES
from rocktools.correlate.kernel_families import BLIT_FAMILIES, KernelFamily, family_of
from rocktools.frames import ATTRIBUTED, nullable_int64, require_frame
from rocktools.timeline.activities import Activity
from rocktools.timeline.devices import index_devices
from rocktools.timeline.grouping import codes_of, group_rows, match_rows

IntArray = npt.NDArray[np.int64]
Classified = Mapping[str, Mapping[str, Bucket]]
"""Program id -> instruction -> bucket."""

DISPATCH_COLUMNS = ("run", "process", "dispatch_id", "agent_id", "kernel_name", "start_ns", "end_ns", "stream_id")
COPY_COLUMNS = (
    *("run", "process", "copy_id", "kind", "start_ns", "end_ns", "src_agent_id", "dst_agent_id", "stream_id"),
)
_COPY_OPCODES = frozenset({"copy", "copy-start", "async-start"})
_LINK = ("program_id", "instruction", "candidates", "candidates_count")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Answer:
    """The bucket of one combination, and the link that is shown with it."""

    bucket: Bucket
    program_id: str | None = None
    instruction: str | None = None


def attribute_dispatches(
    dispatches: pd.DataFrame,
    edges: pd.DataFrame,
    agents: pd.DataFrame,
    classified: Classified,
    *,
    copies: pd.DataFrame | None = None,
    steps: pd.DataFrame | None = None,
    instructions: pd.DataFrame | None = None,
) -> pd.DataFrame:
    """The class, phase and component of every kernel and copy.

    Args:
        dispatches: DISPATCHES with `DISPATCH_COLUMNS`.
        edges: DISPATCH_EDGES of them; a dispatch without a row is unlinked.
        agents: AGENTS with its key, `device` and `kind`.
        classified: buckets of the instructions of every program.
        copies: COPIES with `COPY_COLUMNS`; None: not recorded.
        steps: STEPS; None: no row is in a step.
        instructions: INSTRUCTIONS, for the payload of collectives; None: unknown.

    Returns:
        ATTRIBUTED.
    """
    parts = [_of_dispatches(dispatches, edges, agents, classified, instructions)]
    if copies is not None and len(copies):
        parts.append(_of_copies(copies, agents))
    frame = _concatenate(parts)
    frame["step_index"] = _steps_of(frame, steps)
    order = _sorted_order(frame)
    if order is not None:
        frame = frame.take(order).reset_index(drop=True)
    return require_frame(frame[list(ATTRIBUTED.names)], ATTRIBUTED)


def _sorted_order(frame: pd.DataFrame) -> IntArray | None:
    """The order of the contract; None where rows are in it. Codes of categories are in the order of their labels.

    By codes, since pandas would look for the distinct values of every key first.
    """
    keys = []
    for name in ATTRIBUTED.sort:
        column = frame[name]
        is_category = isinstance(column.dtype, pd.CategoricalDtype)
        values: npt.NDArray[Any] = column.cat.codes.to_numpy() if is_category else column.to_numpy()
        if values.size and values.min() != values.max():
            keys.append(values)
    if not keys:
        return None
    order: IntArray = np.lexsort(keys[::-1])
    return None if bool((order[1:] > order[:-1]).all()) else order


def _of_dispatches(
    dispatches: pd.DataFrame,
    edges: pd.DataFrame,
    agents: pd.DataFrame,
    classified: Classified,
    instructions: pd.DataFrame | None,
) -> pd.DataFrame:
    links = _links_of(dispatches, edges)
    groups = group_rows([codes_of(links[name]) for name in _LINK] + [codes_of(dispatches["kernel_name"])])
    examples = links.iloc[groups.example]
    names = dispatches["kernel_name"].iloc[groups.example]
    questions = zip(*(examples[name] for name in _LINK), names, strict=True)
    answers = [_answer(classified, *question) for question in questions]
    payloads = _payloads(instructions)
    facts: dict[str, list[str | None]] = {
        "activity": [answer.bucket.activity.value for answer in answers],
        "phase": [answer.bucket.phase.value for answer in answers],
        "component": [answer.bucket.component for answer in answers],
        "instruction": [answer.instruction for answer in answers],
        "program_id": [answer.program_id for answer in answers],
        "scope": [answer.bucket.scope for answer in answers],
        "collective": [answer.bucket.collective for answer in answers],
        "gradient": [answer.bucket.gradient for answer in answers],
        "rule": [answer.bucket.rule for answer in answers],
    }
    paid = [_payload_of(answer, payloads) for answer in answers]
    devices = index_devices(dispatches, agents)
    columns: dict[str, Any] = {
        "run": _plain(dispatches["run"]),
        "process": _plain(dispatches["process"]),
        "kind": _one_text("dispatch", len(dispatches)),
        "event_id": dispatches["dispatch_id"].to_numpy(dtype=np.int64),
        "device": devices.as_column(),
        "stream_id": dispatches["stream_id"].array,
        "name": _plain(dispatches["kernel_name"]),
        "start_ns": dispatches["start_ns"].to_numpy(dtype=np.int64),
        "end_ns": dispatches["end_ns"].to_numpy(dtype=np.int64),
        **{name: _texts(values, groups.of) for name, values in facts.items()},
        "payload_bytes": _integers(paid, groups.of),
        "is_mixed": _flags([answer.bucket.is_mixed for answer in answers], groups.of),
        "is_inferred": _flags([answer.bucket.is_inferred for answer in answers], groups.of),
    }
    return pd.DataFrame(columns)


def _links_of(dispatches: pd.DataFrame, edges: pd.DataFrame) -> pd.DataFrame:
    """The link of each dispatch, in their order; missing where there is none."""
    key = ("run", "process", "dispatch_id")
    place = np.arange(len(edges)) if _is_aligned(dispatches, edges, key) else match_rows(dispatches, edges, key)
    is_missing = place < 0
    links: dict[str, Any] = {}
    for name in _LINK:
        if name == "candidates_count":
            counts = edges[name].to_numpy(dtype=np.int64)
            links[name] = np.where(is_missing, 0, counts[place] if len(counts) else 0)
            continue
        column = edges[name].astype("category")
        codes = np.append(column.cat.codes.to_numpy(), -1)[place]  # place -1 takes the last: missing
        links[name] = pd.Categorical.from_codes(codes, categories=column.cat.categories)
    return pd.DataFrame(links)


def _is_aligned(dispatches: pd.DataFrame, edges: pd.DataFrame, key: Sequence[str]) -> bool:
    """Whether each row has its edge in its own place, as linking leaves them: far faster to see than to match."""
    return len(dispatches) == len(edges) and all(
        bool((dispatches[name].to_numpy() == edges[name].to_numpy()).all())
        if not isinstance(dispatches[name].dtype, pd.CategoricalDtype)
        else _have_equal_labels(dispatches[name], edges[name])
        for name in key
    )


def _have_equal_labels(left: pd.Series, right: pd.Series) -> bool:
    if not isinstance(right.dtype, pd.CategoricalDtype):
        return False
    of = right.cat.categories.get_indexer(left.cat.categories)  # -1 where the other has no such label
    codes = left.cat.codes.to_numpy()
    return bool((codes >= 0).all()) and bool((of[codes] == right.cat.codes.to_numpy()).all())


def _answer(
    classified: Classified, program_id: Any, instruction: Any, candidates: Any, candidates_count: Any, kernel_name: str
) -> _Answer:
    """The bucket of one combination of link and kernel name."""
    family = family_of(str(kernel_name))
    program = None if pd.isna(program_id) else str(program_id)
    buckets = classified.get(program or "", {})
    if not pd.isna(instruction):
        bucket = buckets.get(str(instruction))
        if bucket is None:
            return _Answer(
                bucket=_by_kernel(family, "instruction-unknown"), program_id=program, instruction=str(instruction)
            )
        return _Answer(bucket=_as_run(bucket, family), program_id=program, instruction=str(instruction))
    agreed = _agreed(classified, program, candidates, candidates_count)
    if agreed is not None:
        return _Answer(bucket=_as_run(agreed, family))
    return _Answer(bucket=_by_kernel(family, "unlinked" if pd.isna(candidates) else "ambiguous"))


def _as_run(bucket: Bucket, family: KernelFamily) -> Bucket:
    """The bucket of an instruction, corrected by what its kernel shows.

    A copy that runs as a kernel of the runtime is a copy, one that runs as a kernel of XLA computes. A kernel of RCCL
    communicates, whatever launched it.
    """
    if family is KernelFamily.RCCL and bucket.activity is Activity.COMPUTE:
        return replace(bucket, activity=Activity.COMMUNICATION, rule=f"{bucket.rule}; kernel family {family}")
    if family in BLIT_FAMILIES and bucket.opcode in _COPY_OPCODES and bucket.activity is Activity.COMPUTE:
        return replace(bucket, activity=Activity.COPY, rule=f"{bucket.rule}; kernel of the runtime")
    return bucket


def _by_kernel(family: KernelFamily, why: str) -> Bucket:
    """What the kernel's name says where no instruction is known."""
    activity = Activity.COMPUTE
    if family is KernelFamily.RCCL:
        activity = Activity.COMMUNICATION
    elif family in BLIT_FAMILIES:
        activity = Activity.COPY
    by_name = activity is not Activity.COMPUTE
    return Bucket(
        activity=activity,
        phase=BookedPhase.UNATTRIBUTED,
        component=UNATTRIBUTED,
        rule=f"{why}; kernel family {family}" if by_name else why,
        is_inferred=by_name,
        trail=(f"kernel family {family}, {why}: {activity}",),
    )


def _agreed(classified: Classified, program: str | None, candidates: Any, candidates_count: Any) -> Bucket | None:
    """The bucket that all candidates of an ambiguous link share; None where they differ or are not all listed."""
    if pd.isna(candidates) or int(candidates_count) > SHOWN_CANDIDATES:
        return None
    found = []
    for name in str(candidates).split(", "):
        owner, _, inner = name.rpartition("/") if program is None else (program, "", name)
        bucket = classified.get(owner, {}).get(inner)
        if bucket is None:
            return None
        found.append(bucket)
    first = found[0]
    same = {(each.activity, each.phase, each.component, each.collective) for each in found}
    if len(same) != 1:
        return None
    scopes = {each.scope for each in found}
    return replace(
        first,
        rule="candidates-agree",
        scope=first.scope if len(scopes) == 1 else None,
        gradient=first.gradient if len({each.gradient for each in found}) == 1 else None,
        is_mixed=any(each.is_mixed for each in found),
        is_inferred=True,
    )


def _payload_of(answer: _Answer, payloads: Mapping[tuple[str | None, str | None], int]) -> int | None:
    """Of a collective; what an asynchronous start wraps has its payload in the start."""
    if not answer.bucket.collective:
        return None
    own = payloads.get((answer.program_id, answer.instruction))
    if own is None and answer.bucket.wrapped_by:
        return payloads.get((answer.program_id, answer.bucket.wrapped_by))
    return own


def _payloads(instructions: pd.DataFrame | None) -> dict[tuple[str | None, str | None], int]:
    if instructions is None:
        return {}
    rows = instructions[instructions["payload_bytes"].notna()]
    names = zip(rows["program_id"].astype(str), rows["instruction"].astype(str), strict=True)
    return dict(zip(names, (int(value) for value in rows["payload_bytes"]), strict=True))


def _of_copies(copies: pd.DataFrame, agents: pd.DataFrame) -> pd.DataFrame:
    """Copies, on the device that they leave or reach: the source, if it is a GPU, else the destination."""
    is_gpu = {
        (run, process, agent)
        for run, process, agent, kind in zip(
            *(agents[name] for name in ("run", "process", "agent_id", "kind")), strict=True
        )
        if kind == "GPU"
    }
    ends = zip(*(copies[name] for name in ("run", "process", "src_agent_id", "dst_agent_id")), strict=True)
    chosen = [_device_end(is_gpu, *end) for end in ends]
    placed = copies.assign(agent_id=np.array(chosen, dtype=np.int64))
    count = len(copies)
    columns: dict[str, Any] = {
        "run": _plain(copies["run"]),
        "process": _plain(copies["process"]),
        "kind": _one_text("copy", count),
        "event_id": copies["copy_id"].to_numpy(dtype=np.int64),
        "device": index_devices(placed, agents).as_column(),
        "stream_id": copies["stream_id"].array,
        "name": _plain(copies["kind"]),
        "start_ns": copies["start_ns"].to_numpy(dtype=np.int64),
        "end_ns": copies["end_ns"].to_numpy(dtype=np.int64),
        "activity": _one_text(Activity.COPY.value, count),
        "phase": _one_text(BookedPhase.UNATTRIBUTED.value, count),
        "component": _one_text(UNATTRIBUTED, count),
        **{name: _one_text(None, count) for name in ("instruction", "program_id", "scope", "collective", "gradient")},
        "rule": _one_text("recorded-copy", count),
        "payload_bytes": _integers([None], np.zeros(count, dtype=np.int64)),
        "is_mixed": np.zeros(count, dtype=np.bool_),
        "is_inferred": np.zeros(count, dtype=np.bool_),
    }
    return pd.DataFrame(columns)


def _device_end(is_gpu: set[tuple[Any, Any, Any]], run: Any, process: Any, source: Any, destination: Any) -> int:
    known = [end for end in (source, destination) if not pd.isna(end)]
    for end in known:
        if (run, process, int(end)) in is_gpu:
            return int(end)
    return int(known[0]) if known else -1


def _steps_of(frame: pd.DataFrame, steps: pd.DataFrame | None) -> Any:
    """The step in which each row starts; missing outside of every step."""
    found = np.full(len(frame), -1, dtype=np.int64)
    if steps is not None and len(steps):
        starts = frame["start_ns"].to_numpy()
        for (run, device), rows in steps.groupby(["run", "device"], observed=True):
            here = np.flatnonzero(((frame["run"] == run) & (frame["device"] == device)).to_numpy())
            ordered = rows.sort_values("start_ns")
            place = np.searchsorted(ordered["start_ns"].to_numpy(), starts[here], side="right") - 1
            ends = ordered["end_ns"].to_numpy()
            is_in = (place >= 0) & (starts[here] < ends[np.maximum(place, 0)])
            found[here[is_in]] = ordered["step_index"].to_numpy()[place[is_in]]
    return nullable_int64(np.maximum(found, 0), found < 0)


def _concatenate(parts: list[pd.DataFrame]) -> pd.DataFrame:
    """The parts below one another; a category's labels are united, in alphabetical order."""
    columns: dict[str, Any] = {}
    for name in parts[0].columns:
        pieces = [part[name] for part in parts]
        if isinstance(pieces[0].dtype, pd.CategoricalDtype):
            labels = sorted(set().union(*(piece.cat.categories for piece in pieces)))
            codes = [piece.cat.set_categories(labels).cat.codes.to_numpy() for piece in pieces]
            columns[name] = pd.Categorical.from_codes(np.concatenate(codes), categories=pd.Index(labels, dtype=object))
        else:
            columns[name] = pd.concat(pieces, ignore_index=True).array
    return pd.DataFrame(columns)


def _plain(column: pd.Series) -> Any:
    return column.astype("category").array


def _texts(values: list[str | None], of: IntArray) -> pd.Categorical:
    labels = sorted({value for value in values if value is not None})
    codes = {label: code for code, label in enumerate(labels)}
    of_value = np.array([-1 if value is None else codes[value] for value in values], dtype=np.int64)
    return pd.Categorical.from_codes(of_value[of] if len(values) else of, categories=pd.Index(labels, dtype=object))


def _one_text(value: str | None, count: int) -> pd.Categorical:
    return _texts([value], np.zeros(count, dtype=np.int64))


def _integers(values: list[int | None], of: IntArray) -> Any:
    is_missing = np.array([value is None for value in values], dtype=np.bool_)
    numbers = np.array([value or 0 for value in values], dtype=np.int64)
    return nullable_int64(numbers[of] if values else of, is_missing[of] if values else of.astype(np.bool_))


def _flags(values: list[bool], of: IntArray) -> npt.NDArray[np.bool_]:
    return np.array(values, dtype=np.bool_)[of] if values else of.astype(np.bool_)
