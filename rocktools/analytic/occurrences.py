"""How often something must occur: scanned layers x microsteps x steps, on each device; and whether it did.

A workload file (schema `rocktools.workload/1`) gives the numbers and says what to count; its every key is explained in
docstrings here. A count that misses is no detail: the filter then left out a path, or took in another program.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from rocktools.findings import Finding, Severity
from rocktools.frames import Column, FrameSpec, require_frame
from rocktools.yaml_file import Place, YamlFile, parse_yaml, read_yaml_file

SCHEMA = "rocktools.workload/1"
ROW_COLUMNS = ("run", "device", "activity", "phase", "component", "scope", "name", "collective")
"""The columns of ATTRIBUTED that `count_occurrences` reads; `step_index` too, where rows are of several steps."""

COUNTED_ROWS = FrameSpec(
    name="COUNTED_ROWS",
    meaning="One row per device, step and expectation of a workload: how many kernels and copies it counts there.",
    key=("run", "device", "step_index", "expectation_index"),
    sort=("run", "step_index", "device", "expectation_index"),
    columns=(
        Column("run", "category", "label of the run"),
        Column("device", "category", "label of the device, as in AGENTS"),
        Column("step_index", "Int64", "step, as in STEPS", "the whole trace is one"),
        Column("expectation_index", "int64", "place of the expectation in the workload, from 0"),
        Column("rows_count", "int64", "kernels and copies that it counts"),
    ),
)

_REFERENCE = "workload"
_MOST_EXPECTED = 10**15
_FACTORS = ("layers", "microsteps")
_BY_TEXT = ("phase", "component", "activity", "collective")


@dataclass(frozen=True, slots=True, kw_only=True)
class Expectation:
    """What is counted, and how often it must occur on one device in one step.

    Attributes:
        title: for people.
        phase, component, activity, collective: values of the columns of ATTRIBUTED; "" for any.
        scope: one segment of the scope, exactly: `wi_0`; "" for any.
        kernel: searched for in the kernel's name; None for any. One HLO instruction may run several kernels.
        times: which of `layers` and `microsteps` multiply; () for once a step.
        each: how often in one layer of one microstep.
    """

    title: str
    phase: str = ""
    component: str = ""
    activity: str = ""
    collective: str = ""
    scope: str = ""
    kernel: re.Pattern[str] | None = None
    times: tuple[str, ...] = _FACTORS
    each: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """The shape of a training step, as the user declares it.

    Attributes:
        name: for people.
        layers: scanned layers.
        microsteps: forward and backward passes in one step.
        devices: devices that take part.
        steps: profiled steps; None: those that are found.
        expectations: what to count.
    """

    name: str
    layers: int
    microsteps: int = 1
    devices: int
    steps: int | None = None
    expectations: tuple[Expectation, ...] = ()

    def expected_per_step(self, expectation: Expectation) -> int:
        """How often it must occur on one device in one step."""
        factors = {"layers": self.layers, "microsteps": self.microsteps}
        return math.prod(factors[name] for name in expectation.times) * expectation.each


@dataclass(frozen=True, slots=True, kw_only=True)
class Occurrence:
    """One expectation and what was found.

    Attributes:
        expectation: what was counted.
        expected_per_device_count: on each device, in all steps.
        expected_count: on all devices of the workload.
        found: device -> count, also of devices on which there is none.
        is_met: whether every device has the expected count, and there are as many devices as the workload says.
    """

    expectation: Expectation
    expected_per_device_count: int
    expected_count: int
    found: Mapping[str, int] = field(default_factory=dict)
    is_met: bool

    @property
    def found_count(self) -> int:
        return sum(self.found.values())


def read_workload(path: Path) -> Workload:
    """The workload in a YAML file.

    Raises:
        InputError: the file cannot be read, or an entry is wrong; the entry and its line are named.
        UnsupportedVersion: it keeps another schema.
    """
    return _build(read_yaml_file(path, _REFERENCE))


def parse_workload(text: str, *, source: str) -> Workload:
    """The workload in a YAML text; raises as `read_workload`."""
    return _build(parse_yaml(text, source=source, reference=_REFERENCE))


def _build(file: YamlFile) -> Workload:
    file.require_schema(_REFERENCE, SCHEMA)
    top = file.require_mapping(
        _REFERENCE,
        (),
        file.value,
        required=("schema", "name", "layers", "devices"),
        optional=("microsteps", "steps", "expectations"),
    )
    rows = file.require_list(_REFERENCE, ("expectations",), top.get("expectations", []))
    steps = top.get("steps")
    workload = Workload(
        name=file.require_text(_REFERENCE, ("name",), top["name"]),
        layers=file.require_count(_REFERENCE, ("layers",), top["layers"]),
        microsteps=file.require_count(_REFERENCE, ("microsteps",), top.get("microsteps", 1)),
        devices=file.require_count(_REFERENCE, ("devices",), top["devices"]),
        steps=None if steps is None else file.require_count(_REFERENCE, ("steps",), steps),
        expectations=tuple(_expectation(file, ("expectations", i), row) for i, row in enumerate(rows)),
    )
    most = max((each.each for each in workload.expectations), default=1)
    if workload.layers * workload.microsteps * workload.devices * (workload.steps or 1) * most > _MOST_EXPECTED:
        raise file.complaint(
            _REFERENCE, (), f"more than {_MOST_EXPECTED:,} kernels are expected in all: no job has them"
        )
    return workload


def _expectation(file: YamlFile, place: Place, value: Any) -> Expectation:
    texts = (*_BY_TEXT, "scope")
    given = file.require_mapping(
        _REFERENCE, place, value, required=("title",), optional=(*texts, "kernel", "times", "each")
    )
    if not {*texts, "kernel"} & set(given):
        raise file.complaint(_REFERENCE, place, f"it counts nothing: give one of {', '.join((*texts, 'kernel'))}")
    times: tuple[str, ...] = _FACTORS
    if "times" in given:
        listed = file.require_list(_REFERENCE, (*place, "times"), given["times"])
        times = file.require_texts(_REFERENCE, (*place, "times"), listed, choices=_FACTORS) if listed else ()
    return Expectation(
        title=file.require_text(_REFERENCE, (*place, "title"), given["title"]),
        kernel=_pattern(file, (*place, "kernel"), given["kernel"]) if "kernel" in given else None,
        times=times,
        each=file.require_count(_REFERENCE, (*place, "each"), given.get("each", 1)),
        **{key: file.require_text(_REFERENCE, (*place, key), given[key]) for key in texts if key in given},
    )


def _pattern(file: YamlFile, place: Place, value: Any) -> re.Pattern[str]:
    text = file.require_text(_REFERENCE, place, value)
    try:
        return re.compile(text)
    except re.error as error:
        raise file.complaint(_REFERENCE, place, f"no regular expression: {error}") from error


def count_occurrences(
    rows: pd.DataFrame, workload: Workload, *, steps_count: int | None = None
) -> tuple[Occurrence, ...]:
    """Count what the workload expects.

    Args:
        rows: ATTRIBUTED, at least `ROW_COLUMNS`: the rows of the steps that are looked at, of all devices.
        workload: what to count.
        steps_count: steps that the rows of each device are of; None: as many as they say. What the workload says
            counts more.
    """
    return sum_counts(count_rows(rows, workload), workload, steps_count=steps_count)


def count_rows(rows: pd.DataFrame, workload: Workload) -> pd.DataFrame:
    """COUNTED_ROWS: what there is of each expectation on each device in each step, where that has any row at all.

    Args:
        rows: ATTRIBUTED, at least `ROW_COLUMNS`; rows without a step make one of their own.
        workload: what to count.
    """
    keys = ["run", "device", "step_index"] if "step_index" in rows.columns else ["run", "device"]
    if rows.empty or not workload.expectations:
        return COUNTED_ROWS.empty()
    place = rows.groupby(keys, observed=True, dropna=False).ngroup().to_numpy()
    places_count = int(place.max()) + 1
    example = np.empty(places_count, dtype=np.int64)
    example[place] = np.arange(place.size)
    shown = rows.iloc[example]
    steps = pd.array(shown["step_index"], dtype="Int64") if "step_index" in keys else pd.array([pd.NA] * places_count)
    parts = []
    for index, expectation in enumerate(workload.expectations):
        counts = np.bincount(place[_is_counted(rows, expectation)], minlength=places_count)
        columns = {"step_index": pd.Series(steps, dtype="Int64"), "expectation_index": np.int64(index)}
        labels = {name: shown[name].astype(str).to_numpy() for name in ("run", "device")}
        parts.append(pd.DataFrame({**labels, **columns, "rows_count": counts.astype(np.int64)}))
    frame = pd.concat(parts, ignore_index=True)
    for name in ("run", "device"):
        frame[name] = pd.Categorical(frame[name], categories=pd.Index(sorted(set(frame[name])), dtype="object"))
    return require_frame(
        frame[list(COUNTED_ROWS.names)].sort_values(list(COUNTED_ROWS.sort), ignore_index=True), COUNTED_ROWS
    )


def sum_counts(counts: pd.DataFrame, workload: Workload, *, steps_count: int | None = None) -> tuple[Occurrence, ...]:
    """What was found of each expectation, from COUNTED_ROWS; of several ranks, those of all of them.

    Args:
        counts: COUNTED_ROWS of the steps that are looked at.
        workload: what was counted.
        steps_count: as in `count_occurrences`.
    """
    labels = counts["device"].astype(str).to_numpy()
    devices = sorted(set(labels))
    steps = workload.steps or steps_count or _most_steps(counts)
    expectation_index, rows_count = counts["expectation_index"].to_numpy(), counts["rows_count"].to_numpy()
    occurrences = []
    for index, expectation in enumerate(workload.expectations):
        found = dict.fromkeys(devices, 0)
        mine = expectation_index == index
        for device, count in zip(labels[mine], rows_count[mine].tolist(), strict=True):
            found[device] += count
        occurrences.append(_judge(workload, expectation, found, steps))
    return tuple(occurrences)


def _most_steps(counts: pd.DataFrame) -> int:
    """Steps of the device with most; 1 where rows are in none. Steps of several runs are counted apart."""
    known = counts.loc[counts["step_index"].notna(), ["device", "run", "step_index"]].drop_duplicates()
    return int(known.groupby("device", observed=True).size().max()) if len(known) else 1


def _is_counted(rows: pd.DataFrame, expectation: Expectation) -> npt.NDArray[np.bool_]:
    is_counted = np.ones(len(rows), dtype=np.bool_)
    for name in _BY_TEXT:
        wanted = getattr(expectation, name)
        if wanted:
            is_counted &= _where(rows[name], lambda text, wanted=wanted: text == wanted)
    if expectation.scope:
        is_counted &= _where(rows["scope"], lambda text: expectation.scope in text.split("/"))
    if expectation.kernel is not None:
        pattern = expectation.kernel
        is_counted &= _where(rows["name"], lambda text: pattern.search(text) is not None)
    return is_counted


def _judge(workload: Workload, expectation: Expectation, found: Mapping[str, int], steps: int) -> Occurrence:
    expected = workload.expected_per_step(expectation) * steps
    is_met = len(found) == workload.devices and all(count == expected for count in found.values())
    return Occurrence(
        expectation=expectation,
        expected_per_device_count=expected,
        expected_count=expected * workload.devices,
        found=found,
        is_met=is_met,
    )


def _where(column: pd.Series, is_wanted: Any) -> npt.NDArray[np.bool_]:
    """Rows whose text is wanted; each different text is looked at once."""
    values = column if isinstance(column.dtype, pd.CategoricalDtype) else column.astype("category")
    of_code = np.array([bool(is_wanted(str(text))) for text in values.cat.categories] + [False], dtype=np.bool_)
    found: npt.NDArray[np.bool_] = of_code[values.cat.codes.to_numpy()]
    return found


def check_occurrences(occurrences: Sequence[Occurrence], workload: Workload) -> list[Finding]:
    """A fault for every expectation that is not met."""
    findings = []
    for occurrence in occurrences:
        if occurrence.is_met:
            continue
        expected = occurrence.expected_per_device_count
        wrong = {device: count for device, count in occurrence.found.items() if count != expected}
        shown = ", ".join(f"{device} has {count}" for device, count in sorted(wrong.items())[:4])
        more = f" and {len(wrong) - 4} more" if len(wrong) > 4 else ""
        devices = len(occurrence.found)
        parts = [f"{shown}{more}"] if wrong else []
        if devices != workload.devices:
            parts.append(f"there are {devices} devices, and the workload has {workload.devices}")
        findings.append(
            Finding(
                rule="occurrence-mismatch",
                severity=Severity.FAULT,
                where=f"workload {workload.name}: {occurrence.expectation.title}",
                message=f"{expected} are expected on each device, but {'; '.join(parts)}",
                numbers={
                    "expected_count": occurrence.expected_count,
                    "found_count": occurrence.found_count,
                    "wrong_devices_count": len(wrong),
                },
                advice="the filter leaves out a path or takes in another program, or the workload is another one",
            )
        )
    return findings
