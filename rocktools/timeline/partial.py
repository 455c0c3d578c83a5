"""One rank's rows -> a small partial result; partial results of many ranks -> one, as if all had been read together.

A job of many ranks leaves a file per rank, far too much to hold at once. What is measured of a device needs that
device's rows only, so each file becomes a few small frames on its own, in whatever process, and those are put one
behind the other. Merging is associative and does not depend on order: rows are ordered by key.

Each rank numbers its steps by itself. `renumber_steps` makes the numbers mean the same step on all ranks, and must come
before anything that compares them. Nothing here reads files or starts processes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd

from rocktools.errors import ContractError
from rocktools.findings import Finding, Severity
from rocktools.frames import ATTRIBUTED, STEPS, Column, FrameSpec, nullable_int64, require_frame
from rocktools.timeline.activities import Activity, labels_column
from rocktools.timeline.device_windows import number_steps, window_frame
from rocktools.timeline.gaps import GAP_TOTALS, find_gaps, total_gaps
from rocktools.timeline.grouping import IntArray, match_rows
from rocktools.timeline.late_rank import BACKWARD_COMPUTE, LateRanks, backward_compute, find_late_ranks
from rocktools.timeline.overlap import RECONCILIATION, reconcile
from rocktools.timeline.ranks import DeviceComparison, compare_devices
from rocktools.timeline.skew import SKEW_COLUMNS, MatchedCollectives, match_collectives, sum_skew
from rocktools.timeline.step_quality import split_classes
from rocktools.timeline.steps import counted_steps

COMMUNICATION_ROWS = FrameSpec(
    name="COMMUNICATION_ROWS",
    meaning="One row per communication kernel in a step: what matching collectives across devices needs.",
    key=("run", "process", "kind", "event_id"),
    sort=("run", "process", "kind", "event_id"),
    columns=(
        *(column for column in ATTRIBUTED.columns if column.name in {*ATTRIBUTED.key, *SKEW_COLUMNS}),
        Column("replica_group", "category", "group of the collective that the device is in", "one group, or unknown"),
    ),
)

_STEP_KEY = ("run", "device", "step_index")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PartialFrame:
    """A frame and its contract; the key says what one row is about."""

    spec: FrameSpec
    frame: pd.DataFrame


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class RankPartial:
    """What is known of some ranks. It can be pickled, and is small: a few rows per device and step, and collectives.

    Attributes:
        labels: the ranks, ascending; a label is what messages call the rank.
        frames: by name of the spec.
        findings: doubts about the ranks, each once.
        is_simulated: whether any of it was made without hardware.
    """

    labels: tuple[str, ...]
    frames: Mapping[str, PartialFrame]
    findings: tuple[Finding, ...] = ()
    is_simulated: bool = False

    def __getitem__(self, spec: FrameSpec) -> pd.DataFrame:
        """The frame of that contract; without a row where no rank has one."""
        held = self.frames.get(spec.name)
        return spec.empty() if held is None else held.frame

    def with_frame(self, spec: FrameSpec, frame: pd.DataFrame) -> RankPartial:
        """The same with one frame more, whose key must tell rows of different ranks apart."""
        return replace(self, frames={**self.frames, spec.name: PartialFrame(spec=spec, frame=frame)})


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class RankComparison:
    """Ranks side by side, over the steps that count.

    Attributes:
        steps: STEPS that count.
        reconciliation: RECONCILIATION of them.
        devices: means and spread.
        collectives: matched across devices.
        skew: COLLECTIVE_SKEW.
        late: who is late, and why.
        findings: of all of them.
    """

    steps: pd.DataFrame
    reconciliation: pd.DataFrame
    devices: DeviceComparison
    collectives: MatchedCollectives
    skew: pd.DataFrame
    late: LateRanks
    findings: tuple[Finding, ...]


def measure_rank(
    label: str,
    rows: pd.DataFrame,
    steps: pd.DataFrame,
    launches: pd.DataFrame | None = None,
    findings: Iterable[Finding] = (),
) -> RankPartial:
    """The partial result of one rank, of all its steps: which of them count is known only when all ranks are.

    Args:
        label: what messages call the rank.
        rows: ATTRIBUTED, with host_call_id where calls were recorded, and replica_group where groups are known.
        steps: STEPS, all that were found.
        launches: LAUNCHES; None: no host calls were recorded.
        findings: what reading and booking raised.
    """
    reconciliation = reconcile(rows, steps)
    gaps = find_gaps(rows, launches)
    is_communication = (rows["activity"] == str(Activity.COMMUNICATION)) & rows["step_index"].notna()
    if "replica_group" not in rows:
        rows = rows.assign(replica_group=pd.Categorical([None] * len(rows), categories=[]))
    communication = rows.loc[is_communication.to_numpy(), list(COMMUNICATION_ROWS.names)]
    measured = (
        (STEPS, steps),
        (RECONCILIATION, reconciliation.frame),
        (GAP_TOTALS, total_gaps(gaps.frame)),
        (COMMUNICATION_ROWS, communication),
        (BACKWARD_COMPUTE, backward_compute(rows)),
    )
    raised = _unique([*findings, *reconciliation.findings, *gaps.findings])
    frames = {spec.name: PartialFrame(spec=spec, frame=_joined([frame], spec)) for spec, frame in measured}
    return RankPartial(labels=(label,), frames=frames, findings=raised)


def relabel_run(partial: RankPartial, run: str) -> RankPartial:
    """The same with all rows in this run: files of one job that were read alone were taken for runs of their own."""
    frames = {}
    for name, held in partial.frames.items():
        label = pd.Categorical([run] * len(held.frame), categories=[run])
        frame = held.frame.assign(run=label) if len(held.frame) and "run" in held.spec.names else held.frame
        frames[name] = replace(held, frame=frame)
    return replace(partial, frames=frames)


def merge_partials(partials: Iterable[RankPartial]) -> RankPartial:
    """All of them as one; in any order, and in any grouping, with the same result.

    Raises:
        ContractError: two frames of one name have different contracts.
    """
    labels: list[str] = []
    findings: list[Finding] = []
    held: dict[str, list[PartialFrame]] = {}
    is_simulated = False
    for partial in partials:
        is_simulated |= partial.is_simulated
        labels += partial.labels
        findings += partial.findings
        for name, frame in partial.frames.items():
            held.setdefault(name, []).append(frame)
    frames = {}
    for name in sorted(held):
        specs = {part.spec for part in held[name]}
        if len(specs) > 1:
            raise ContractError("partial-specs", f"partial results hold {name} with {len(specs)} different contracts")
        spec = held[name][0].spec
        frames[name] = PartialFrame(spec=spec, frame=_joined([part.frame for part in held[name]], spec))
    return RankPartial(
        labels=tuple(sorted(labels)), frames=frames, findings=_unique(findings), is_simulated=is_simulated
    )


def renumber_steps(partial: RankPartial) -> RankPartial:
    """The same with steps numbered alike on all devices, and warm-up and classes judged over all of them."""
    steps = partial[STEPS].drop_duplicates(list(_STEP_KEY), ignore_index=True)
    if steps.empty:
        return partial
    columns = ("run", "device", "device", "step_index", "step_number", "start_ns", "end_ns")
    windows = zip(*(steps[name] for name in columns), ~steps["is_complete"], strict=True)
    numbered = number_steps(window_frame(list(windows)))
    # Within a device neither order nor number of steps changes, so the n-th before is the n-th after.
    old, new = (frame.sort_values(["run", "device", "step_index"], ignore_index=True) for frame in (steps, numbered))
    renumbered = {
        name: PartialFrame(spec=held.spec, frame=_with_new_index(held, old, new["step_index"].to_numpy()))
        for name, held in partial.frames.items()
    }
    judged = _judged_together(renumbered[STEPS.name].frame)
    renumbered[STEPS.name] = PartialFrame(spec=STEPS, frame=_joined([judged], STEPS))
    return replace(partial, frames=renumbered)


def compare_ranks(partial: RankPartial) -> RankComparison:
    """The ranks of a merged and renumbered partial result side by side."""
    steps = counted_steps(partial[STEPS])
    reconciliation, communication, backward = (
        frame[match_rows(frame, steps, _STEP_KEY) >= 0].reset_index(drop=True)
        for frame in (partial[RECONCILIATION], partial[COMMUNICATION_ROWS], partial[BACKWARD_COMPUTE])
    )
    devices = compare_devices(reconciliation)
    collectives = match_collectives(communication)
    skew = sum_skew(collectives.frame)
    late = find_late_ranks(reconciliation, skew, backward)
    raised = [*partial.findings, *check_devices(partial), *devices.findings, *collectives.findings, *late.findings]
    return RankComparison(
        steps=steps,
        reconciliation=reconciliation,
        devices=devices,
        collectives=collectives,
        skew=skew,
        late=late,
        findings=_unique(raised),
    )


def check_devices(partial: RankPartial) -> tuple[Finding, ...]:
    """A fault where several ranks ran on one device: unions of parts are not the union of all."""
    frame = partial[RECONCILIATION]
    twice = frame[frame.duplicated(list(_STEP_KEY), keep=False).to_numpy()]
    if twice.empty:
        return ()
    devices = sorted({str(device) for device in twice["device"]})
    return (
        Finding(
            rule="device-in-several-ranks",
            severity=Severity.FAULT,
            where="ranks",
            message=f"{len(devices)} devices, {devices[0]} among them, are in the files of several ranks: each file "
            "holds a part of what ran there, and parts cannot be put together",
            numbers={"shared_devices_count": len(devices)},
            advice="name the files of one device together, in one process",
        ),
    )


def _with_new_index(held: PartialFrame, old: pd.DataFrame, new_index: IntArray) -> pd.DataFrame:
    """A frame whose step_index is the one of the renumbered steps; what is in no step stays so."""
    frame = held.frame
    if "step_index" not in frame.columns:
        return frame
    at = match_rows(frame, old, _STEP_KEY)
    found = np.where(at < 0, 0, new_index[np.maximum(at, 0)])
    if held.spec.column("step_index").dtype == "int64":
        values: Any = found
    else:
        values = nullable_int64(found, at < 0)
    return _joined([frame.assign(step_index=values)], held.spec)


def _judged_together(steps: pd.DataFrame) -> pd.DataFrame:
    """STEPS with warm-up and class the same on every device of a run."""
    keys = [steps["run"], steps["step_index"]]
    steps = steps.assign(is_warmup=steps["is_warmup"].groupby(keys, observed=True).transform("any").astype("bool"))
    steps = steps.assign(step_class=pd.Categorical([None] * len(steps), categories=[]))
    counted = counted_steps(steps)
    durations = (counted["end_ns"] - counted["start_ns"]).groupby(
        [counted["run"], counted["step_index"]], observed=True
    )
    longest = durations.max().reset_index(name="duration_ns")
    parts = []
    for _, of_run in longest.groupby("run", observed=True):
        is_heavy = split_classes(of_run["duration_ns"].to_numpy(dtype=np.int64))
        if is_heavy is not None:
            parts.append(of_run.assign(step_class=np.where(is_heavy, "heavy", "light")))
    if not parts:
        return steps
    classes = pd.concat(parts, ignore_index=True)
    at = match_rows(steps, classes, ("run", "step_index"))
    texts = [None if place < 0 else classes["step_class"].iloc[place] for place in at]
    return steps.assign(step_class=labels_column(texts))


def _joined(frames: list[pd.DataFrame], spec: FrameSpec) -> pd.DataFrame:
    """The frames one behind the other, ordered by key, whose labels are categories in alphabetical order."""
    filled = [frame for frame in frames if len(frame)]
    if not filled:
        return spec.empty()
    labels = [column.name for column in spec.columns if column.dtype == "category"]
    texts = [frame.astype(dict.fromkeys(labels, "object")) for frame in filled]
    joined = texts[0] if len(texts) == 1 else pd.concat(texts, ignore_index=True)
    joined = joined.assign(**{name: labels_column(joined[name]) for name in labels})
    order = list(dict.fromkeys([*spec.sort, *spec.key, *spec.names]))  # all of them, so that ties cannot tell the order
    return require_frame(joined.sort_values(order, ignore_index=True), spec)


def _unique(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """Each finding once, in an order that does not depend on the order of ranks."""
    return tuple(dict(sorted(((str(finding), finding) for finding in findings), key=lambda pair: pair[0])).values())
