"""Communication rows of several devices -> collectives matched across them: who came late, and how long each took.

A collective ends for nobody before the last participant has come. So what a device spends in it is two things: waiting
for the last arrival, which is the fault of whoever was late, and the transfer from then on, which is the network's.

    duration = wait (last arrival - own start) + transfer (own end - last arrival)

Rows match that are the n-th execution of one instruction (without a link: of one kernel name) in one step, on devices
that share a clock. Where the rows say their replica group, only members of one group match. Participants that are not
all active at one instant were no common collective (other groups, other clocks): they give neither wait nor transfer.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from rocktools.evidence import Evidence
from rocktools.findings import Finding, Severity
from rocktools.frames import Column, FrameSpec, nullable_int64, require_frame
from rocktools.timeline.activities import (
    Activity,
    labels_column,
    labels_from_codes,
    operation_names,
    require_columns,
    time_rows,
)
from rocktools.timeline.clocks import check_clocks, host_of
from rocktools.timeline.grouping import IntArray, codes_of, group_rows

SKEW_COLUMNS = (
    *("run", "device", "step_index", "program_id", "instruction", "name", "collective", "payload_bytes"),
    *("start_ns", "end_ns", "activity"),
)
"""The columns of ATTRIBUTED that `match_collectives` reads; a column `replica_group` (category) is used where it is."""

_KEY = (
    Column("run", "category", "label of the run"),
    Column("device", "category", "label of the device, as in AGENTS"),
)
_STEP = Column("step_index", "int64", "step, as in STEPS")
_NOT_COMMON = "its participants are not all active at one instant"

COLLECTIVE_ARRIVALS = FrameSpec(
    name="COLLECTIVE_ARRIVALS",
    meaning="One row per collective and device that takes part: when it came, how long it waited, and the transfer.",
    key=("run", "collective_id", "device"),
    sort=("run", "collective_id", "device"),
    columns=(
        *_KEY,
        Column("collective_id", "int64", "number of the collective, in the order of its first arrival"),
        _STEP,
        Column("operation_name", "category", "instruction where it is linked, else the kernel"),
        Column("collective", "category", "all-gather, all-reduce, ...", "its kind is unknown"),
        Column("occurrence_index", "int64", "which execution of the instruction in the step, from 0"),
        Column("payload_bytes", "Int64", "bytes it moves per device", "unknown"),
        Column("start_ns", "int64", "arrival of this device, trace clock"),
        Column("end_ns", "int64", "its end on this device, trace clock"),
        Column("devices_count", "int64", "devices that take part"),
        Column("wait_ns", "Int64", "from the arrival of this device to the last arrival", _NOT_COMMON),
        Column("transfer_ns", "Int64", "from the last arrival to the end on this device", _NOT_COMMON),
        Column("is_last", "bool", "whether the others waited for this device; of equals, for each"),
    ),
)

COLLECTIVE_SKEW = FrameSpec(
    name="COLLECTIVE_SKEW",
    meaning="One row per device and step: its matched collectives added up.",
    key=("run", "device", "step_index"),
    sort=("run", "step_index", "device"),
    columns=(
        *_KEY,
        _STEP,
        Column("collectives_count", "int64", "collectives that were matched with at least one other device"),
        Column("total_ns", "int64", "their durations added up: `wait_ns` and `transfer_ns`"),
        Column("wait_ns", "int64", "time spent waiting for the last arrival"),
        Column("transfer_ns", "int64", "time from the last arrivals on"),
        Column("last_count", "int64", "collectives at which the others waited for this device"),
    ),
)

OPERATION_SKEW = FrameSpec(
    name="OPERATION_SKEW",
    meaning="One row per collective instruction: its executions over all devices and steps, the longest skew first.",
    key=("run", "operation_name"),
    sort=("skew_ns", "run", "operation_name"),
    columns=(
        _KEY[0],
        COLLECTIVE_ARRIVALS.column("operation_name"),
        COLLECTIVE_ARRIVALS.column("collective"),
        Column("collectives_count", "int64", "executions that were matched, each counted once for all its devices"),
        Column("skew_ns", "int64", "last arrival minus first arrival, added up over executions"),
        Column("longest_skew_ns", "int64", "the longest of them"),
        Column("transfer_ns", "int64", "from the last arrival to the first end, added up over executions"),
        Column("last_device", "category", "device that came last most often"),
        Column("last_count", "int64", "executions at which it came last"),
    ),
)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class MatchedCollectives:
    """Collectives across devices: `frame` is COLLECTIVE_ARRIVALS; starts and ends are measured, matching inferred."""

    frame: pd.DataFrame
    findings: tuple[Finding, ...]
    evidence: Evidence = Evidence.INFERRED


def match_collectives(rows: pd.DataFrame) -> MatchedCollectives:
    """COLLECTIVE_ARRIVALS of the communication rows within steps.

    Args:
        rows: ATTRIBUTED, at least `SKEW_COLUMNS`.

    Raises:
        ContractError: a column is missing.
    """
    require_columns(rows, SKEW_COLUMNS)
    is_wanted = (rows["activity"] == str(Activity.COMMUNICATION)) & rows["step_index"].notna()
    timed = time_rows(rows, ("run", "device"), is_wanted=is_wanted.to_numpy())
    chosen = rows.iloc[timed.kept]
    if chosen.empty:
        return MatchedCollectives(frame=COLLECTIVE_ARRIVALS.empty(), findings=timed.findings)
    devices = [str(device) for device in chosen["device"].unique()]
    identity = _identity(chosen)
    occurrence = _occurrences([identity, codes_of(chosen["device"])], timed.start_ns)
    uneven = _uneven(identity, codes_of(chosen["device"]))
    groups = group_rows([identity, occurrence])
    devices_count = np.bincount(groups.of, minlength=len(groups))
    frame = _arrivals(chosen, groups.of, timed.start_ns, timed.end_ns, occurrence)
    kept = ~uneven & (devices_count[groups.of] > 1)
    frame = _numbered(frame[kept])
    findings = (*timed.findings, *check_clocks(devices), *_unmatched(uneven), *_not_common(frame))
    return MatchedCollectives(frame=require_frame(frame, COLLECTIVE_ARRIVALS), findings=findings)


def sum_skew(arrivals: pd.DataFrame) -> pd.DataFrame:
    """COLLECTIVE_SKEW of COLLECTIVE_ARRIVALS; collectives whose participants are never active at once are left out."""
    common = arrivals[arrivals["wait_ns"].notna().to_numpy()]
    if common.empty:
        return COLLECTIVE_SKEW.empty()
    plain = common.astype({"wait_ns": "int64", "transfer_ns": "int64"})
    grouped = plain.groupby(list(COLLECTIVE_SKEW.key), observed=True)
    sums = grouped.agg(
        collectives_count=("wait_ns", "size"),
        wait_ns=("wait_ns", "sum"),
        transfer_ns=("transfer_ns", "sum"),
        last_count=("is_last", "sum"),
    ).reset_index()
    sums = sums.assign(total_ns=sums["wait_ns"] + sums["transfer_ns"])
    sums = sums.astype({column.name: "int64" for column in COLLECTIVE_SKEW.columns if column.dtype == "int64"})
    sums = sums.sort_values(list(COLLECTIVE_SKEW.sort), ignore_index=True)
    return require_frame(sums[list(COLLECTIVE_SKEW.names)], COLLECTIVE_SKEW)


def sum_skew_by_operation(arrivals: pd.DataFrame) -> pd.DataFrame:
    """OPERATION_SKEW of COLLECTIVE_ARRIVALS, the most skew first."""
    common = arrivals[arrivals["wait_ns"].notna().to_numpy()].astype({"wait_ns": "int64", "transfer_ns": "int64"})
    if common.empty:
        return OPERATION_SKEW.empty()
    each = common.groupby(["run", "collective_id"], observed=True).agg(
        operation_name=("operation_name", "first"),
        collective=("collective", "first"),
        skew_ns=("wait_ns", "max"),
        transfer_ns=("transfer_ns", "min"),
    )
    sums = each.reset_index().groupby(["run", "operation_name"], observed=True)
    table = sums.agg(
        collective=("collective", "first"),
        collectives_count=("skew_ns", "size"),
        longest_skew_ns=("skew_ns", "max"),
        skew_ns=("skew_ns", "sum"),
        transfer_ns=("transfer_ns", "sum"),
    ).reset_index()
    last = common[common["is_last"].to_numpy()].groupby(["run", "operation_name", "device"], observed=True).size()
    most = last.rename("last_count").reset_index().sort_values(["last_count", "device"], ascending=[False, True])
    most = most.drop_duplicates(["run", "operation_name"]).rename(columns={"device": "last_device"})
    keys = ["run", "operation_name"]
    table = table.merge(most, on=keys, how="left")
    labels = ("run", "operation_name", "collective", "last_device")
    integers = [column.name for column in OPERATION_SKEW.columns if column.dtype == "int64"]
    table = table.astype(dict.fromkeys(integers, "int64"))
    table = table.assign(**{name: labels_column(table[name].astype("object")) for name in labels})
    ascending = [name != "skew_ns" for name in OPERATION_SKEW.sort]
    table = table.sort_values(list(OPERATION_SKEW.sort), ascending=ascending, ignore_index=True)
    return require_frame(table[list(OPERATION_SKEW.names)], OPERATION_SKEW)


def _identity(rows: pd.DataFrame) -> IntArray:
    """What must be equal for two rows to be of one collective, but for which execution it is."""
    linked = rows["instruction"].notna().to_numpy()
    by_name = np.where(linked, 0, codes_of(rows["name"]))
    devices = rows["device"].cat
    hosts = pd.factorize(np.array([host_of(str(label)) for label in devices.categories], dtype="object"))[0]
    parts = [codes_of(rows[name]) for name in ("run", "step_index", "program_id", "instruction")]
    parts += [by_name, hosts[devices.codes.to_numpy()].astype(np.int64)]
    if "replica_group" in rows.columns:
        parts.append(codes_of(rows["replica_group"]))
    return group_rows(parts).of


def _occurrences(parts: list[IntArray], start_ns: IntArray) -> IntArray:
    """The how-manieth row of its group each is, in the order of start."""
    of = group_rows(parts).of
    order = np.lexsort((start_ns, of))
    ordered = of[order]
    first = np.flatnonzero(np.append(True, ordered[1:] != ordered[:-1]))
    counts = np.diff(np.append(first, ordered.size))
    result = np.empty(of.size, dtype=np.int64)
    result[order] = np.arange(of.size) - np.repeat(first, counts)
    return result


def _uneven(identity: IntArray, device: IntArray) -> npt.NDArray[np.bool_]:
    """Rows whose operation ran more often on one device than on another: which execution is which is not known."""
    pairs = group_rows([identity, device])
    counts = np.bincount(pairs.of, minlength=len(pairs))
    of_pair = identity[pairs.example]
    fewest = np.full(int(identity.max()) + 1, np.iinfo(np.int64).max)
    most = np.zeros(fewest.size, dtype=np.int64)
    np.minimum.at(fewest, of_pair, counts)
    np.maximum.at(most, of_pair, counts)
    is_uneven: npt.NDArray[np.bool_] = (fewest != most)[identity]
    return is_uneven


def _arrivals(
    rows: pd.DataFrame, group: IntArray, start_ns: IntArray, end_ns: IntArray, occurrence: IntArray
) -> pd.DataFrame:
    """The columns of COLLECTIVE_ARRIVALS but its number, with the group in place of that."""
    count = int(group.max()) + 1
    first, last = np.full(count, np.iinfo(np.int64).max), np.full(count, np.iinfo(np.int64).min)
    first_end = first.copy()
    np.minimum.at(first, group, start_ns)
    np.maximum.at(last, group, start_ns)
    np.minimum.at(first_end, group, end_ns)
    is_common = (last < first_end)[group]
    arrival = last[group]
    names = operation_names(rows)
    values: dict[str, Any] = {
        "run": labels_column(rows["run"]),
        "device": labels_column(rows["device"]),
        "collective_id": group,
        "step_index": rows["step_index"].to_numpy(dtype=np.int64),
        "operation_name": labels_from_codes(names.codes, names.texts),
        "collective": labels_column(rows["collective"]),
        "occurrence_index": occurrence,
        "payload_bytes": rows["payload_bytes"].array,
        "start_ns": start_ns,
        "end_ns": end_ns,
        "devices_count": np.bincount(group, minlength=count)[group].astype(np.int64),
        "wait_ns": nullable_int64(np.where(is_common, arrival - start_ns, 0), ~is_common),
        "transfer_ns": nullable_int64(np.where(is_common, end_ns - arrival, 0), ~is_common),
        "is_last": is_common & (start_ns == arrival),
    }
    return pd.DataFrame(values).assign(first_ns=first[group])


def _numbered(frame: pd.DataFrame) -> pd.DataFrame:
    """With collectives numbered by first arrival within their run; hosts, whose clocks differ, one behind the other."""
    if frame.empty:
        return COLLECTIVE_ARRIVALS.empty()
    each = frame[["run", "collective_id", "first_ns", "device"]].drop_duplicates(["run", "collective_id"])
    each = each.assign(host=each["device"].astype(str).map(host_of))
    each = each.sort_values(["run", "host", "first_ns", "collective_id"], kind="stable", ignore_index=True)
    number = each.groupby("run", observed=True).cumcount()
    renumbered = dict(zip(each["collective_id"], number, strict=True))
    frame = frame.assign(collective_id=frame["collective_id"].map(renumbered).astype("int64"))
    frame = frame.assign(
        **{name: labels_column(frame[name]) for name in ("run", "device", "operation_name", "collective")}
    )
    return frame.sort_values(list(COLLECTIVE_ARRIVALS.sort), ignore_index=True)[list(COLLECTIVE_ARRIVALS.names)]


def _unmatched(uneven: npt.NDArray[np.bool_]) -> tuple[Finding, ...]:
    count = int(uneven.sum())
    if count == 0:
        return ()
    return (
        Finding(
            rule="collectives-unmatched",
            severity=Severity.WARNING,
            where="collectives",
            message=f"{count} of {uneven.size} communication rows are of operations that ran more often on one device "
            "than on another in the same step; they are not matched",
            numbers={"unmatched_rows_count": count, "rows_count": int(uneven.size)},
            advice="compare complete steps only",
        ),
    )


def _not_common(frame: pd.DataFrame) -> tuple[Finding, ...]:
    apart = frame[frame["wait_ns"].isna().to_numpy()]
    if apart.empty:
        return ()
    count, total = int(apart["collective_id"].nunique()), int(frame["collective_id"].nunique())
    return (
        Finding(
            rule="collective-without-overlap",
            severity=Severity.NOTE,
            where="collectives",
            message=f"{count} of {total} matched collectives are never active on all their devices at once: they run "
            "in smaller groups, or not together at all; they give no wait and no transfer",
            numbers={"apart_collectives_count": count, "collectives_count": total},
        ),
    )
