"""Step times that a job printed: the log of MaxText, or a CSV file -> steps, and what the log says of the job.

MaxText prints, for each update, a line `completed step: 9, seconds: 5.667, TFLOP/s/device: 134.924, Tokens/s/device:
8672.758, total_weights: 196608, loss: 10.374`, whatever the logger puts in front of it; before the first, its resolved
configuration (`Config param dtype: bfloat16`), the versions (`System Information: Jax Version: 0.7.2`) and the devices
(`Num_devices: 4, shape (1, 1, 4)`). Several processes may write into one log: a step then lasts as long as with the
process that took longest.

A CSV file has a header with `step` and one column of durations with its unit in the name (`seconds`, `step_time_s`,
`duration_ms`, ...); other columns are taken where they are known. A column `time` without a unit is refused.
"""

from __future__ import annotations

import csv
import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from rocktools.errors import DamagedFile, InputError, NothingToRead, UnknownFormat, nearest_names
from rocktools.findings import Finding, Severity
from rocktools.units import NS_PER_S

_STEP = re.compile(r"completed step: (\d+)((?:, [\w/ ]+: [-+.\w]+)+)")
_PAIR = re.compile(r", ([\w/ ]+): ([-+.\w]+)")
_CONFIG = re.compile(r"Config param (\w+): (.*?)\s*$")
_FACT = re.compile(r"System Information: (Jax Version|Jaxlib Version|Jax Backend): (.*?)\s*$")
_DEVICES = re.compile(r"\bNum_devices: (\d+)")
_FLOP_PER_TFLOP = 10**12
_UNITS_NS = {"s": NS_PER_S, "sec": NS_PER_S, "seconds": NS_PER_S, "ms": 10**6, "us": 10**3, "ns": 1}
_DURATION = re.compile(r"(?:(?:step_?)?(?:time|duration|seconds)_?)?(s|sec|seconds|ms|us|ns)")
_STEP_NAMES = ("step", "step_number", "global_step", "iteration")
_HEADER_CHARACTERS = 4096


@dataclass(frozen=True, slots=True, kw_only=True)
class StepRecord:
    """One step as the job printed it.

    Attributes:
        step_number: the job's own.
        duration_ns: by the host's clock; of several processes the longest.
        flop_per_device_per_s, tokens_per_device_per_s: as printed; None where it was not.
        tokens_count: total weight of the loss: tokens without padding.
        loss: as printed.
        line: in the file, from 1.
        processes_count: lines of this step.
    """

    step_number: int
    duration_ns: int
    flop_per_device_per_s: float | None = None
    tokens_per_device_per_s: float | None = None
    tokens_count: int | None = None
    loss: float | None = None
    line: int = 0
    processes_count: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class StepLogFile:
    """What a log says.

    Attributes:
        format: `maxtext` or `csv`.
        steps: by number, each once.
        config: resolved configuration: name -> value, as printed.
        jax_version, jaxlib_version, backend, devices_count: as printed; None where they were not.
        findings: doubts.
    """

    format: str
    steps: tuple[StepRecord, ...]
    config: Mapping[str, str] = field(default_factory=dict)
    jax_version: str | None = None
    jaxlib_version: str | None = None
    backend: str | None = None
    devices_count: int | None = None
    findings: tuple[Finding, ...] = ()


def read_step_log(path: Path) -> StepLogFile:
    """The steps in a log of MaxText or a CSV file.

    Raises:
        InputError: the file cannot be read.
        UnknownFormat: it is neither; or the unit of its times is not told.
        DamagedFile: a line of CSV is no step.
        NothingToRead: there is no step in it.
    """
    try:
        with path.open("r", encoding="utf-8", errors="replace", newline="") as stream:
            start = stream.read(_HEADER_CHARACTERS)
            if "\0" in start:
                raise UnknownFormat("not-a-step-log", "this is no text, and no log", where=str(path))
            stream.seek(0)
            first = start.partition("\n")[0]
            found = _read_csv(stream, path) if _is_csv(first) else _read_maxtext(stream, path)
    except OSError as error:
        raise InputError("cannot-read", f"the file cannot be read: {error.strerror}", where=str(path)) from error
    if not found.steps:
        raise NothingToRead(
            "no-steps-in-log",
            "there is no step in the log: no line 'completed step: N, seconds: S' of MaxText, and no CSV with a column "
            "step",
            where=str(path),
            hint="a log of MaxText, or a CSV file with the columns step,seconds",
        )
    return found


def _is_csv(header: str) -> bool:
    names = [name.strip().lower() for name in header.split(",")]
    return any(name in _STEP_NAMES for name in names)


def _read_maxtext(lines: Iterable[str], path: Path) -> StepLogFile:
    config: dict[str, str] = {}
    facts: dict[str, str] = {}
    devices: int | None = None
    records: list[StepRecord] = []
    for number, line in enumerate(lines, start=1):
        if match := _STEP.search(line):
            record = _maxtext_step(match, number)
            records += [] if record is None else [record]
        elif match := _CONFIG.search(line):
            config[match[1]] = match[2]
        elif match := _FACT.search(line):
            facts[match[1]] = match[2]
        elif match := _DEVICES.search(line):
            devices = int(match[1])
    steps, findings = _each_once(records, path)
    return StepLogFile(
        format="maxtext",
        steps=steps,
        config=config,
        jax_version=facts.get("Jax Version"),
        jaxlib_version=facts.get("Jaxlib Version"),
        backend=facts.get("Jax Backend"),
        devices_count=devices,
        findings=findings,
    )


def _maxtext_step(match: re.Match[str], line: int) -> StepRecord | None:
    pairs = {name.strip().lower(): _number(text) for name, text in _PAIR.findall(match[2])}
    seconds = pairs.get("seconds")
    if seconds is None or seconds < 0:
        return None
    tflop, weights = pairs.get("tflop/s/device"), pairs.get("total_weights")
    return StepRecord(
        step_number=int(match[1]),
        duration_ns=round(seconds * NS_PER_S),
        flop_per_device_per_s=None if tflop is None else tflop * _FLOP_PER_TFLOP,
        tokens_per_device_per_s=pairs.get("tokens/s/device"),
        tokens_count=None if weights is None else round(weights),
        loss=pairs.get("loss"),
        line=line,
    )


def _number(text: str | None) -> float | None:
    """A finite number; None where there is none."""
    try:
        value = float(text or "")
    except ValueError:
        return None
    return value if math.isfinite(value) else None


def _read_csv(stream: Iterable[str], path: Path) -> StepLogFile:
    rows = csv.reader(stream)
    try:
        header = [name.strip().lower() for name in next(rows, [])]
    except csv.Error as error:
        raise DamagedFile("step-log-line", f"this is no CSV: {error}", where=str(path)) from error
    step_at = next((place for place, name in enumerate(header) if name in _STEP_NAMES), None)
    if step_at is None:
        raise DamagedFile("step-log-line", "the header has no column step", where=f"{path}: line 1")
    time_at, factor = _duration_column(header, path)
    others = {name: place for place, name in enumerate(header)}
    records = list(_csv_steps(rows, (step_at, time_at, factor), others, path))
    steps, findings = _each_once(records, path)
    return StepLogFile(format="csv", steps=steps, findings=findings)


def _csv_steps(
    rows: Iterator[Sequence[str]], at: tuple[int, int, int], others: Mapping[str, int], path: Path
) -> Iterator[StepRecord]:
    step_at, time_at, factor = at
    try:
        for number, row in enumerate(rows, start=2):
            if not any(cell.strip() for cell in row):
                continue

            def value(name: str, row: Sequence[str] = row) -> float | None:
                place = others.get(name)
                return None if place is None or place >= len(row) else _number(row[place])

            step = _number(row[step_at]) if step_at < len(row) else None
            duration = _number(row[time_at]) if time_at < len(row) else None
            if step is None or duration is None or duration < 0 or step < 0 or step != int(step):
                raise DamagedFile(
                    "step-log-line", "a line has no step number and duration", where=f"{path}: line {number}"
                )
            tokens = value("total_weights") or value("tokens_count")
            yield StepRecord(
                step_number=int(step),
                duration_ns=round(duration * factor),
                flop_per_device_per_s=value("flop_per_device_per_s"),
                tokens_per_device_per_s=value("tokens_per_device_per_s") or value("tokens_per_s_per_device"),
                tokens_count=None if tokens is None else round(tokens),
                loss=value("loss"),
                line=number,
            )
    except csv.Error as error:
        raise DamagedFile("step-log-line", f"this is no CSV: {error}", where=str(path)) from error


def _duration_column(header: Sequence[str], path: Path) -> tuple[int, int]:
    """Place of the column of durations, and nanoseconds of its unit.

    Raises:
        UnknownFormat: there is none with a unit, or several.
    """
    matches = {name: match[1] for name in header if (match := _DURATION.fullmatch(name))}
    if len(matches) == 1:
        [(name, unit)] = matches.items()
        return header.index(name), _UNITS_NS[unit]
    listed = ", ".join(matches) or ", ".join(nearest_names("step_time_s", header)) or ", ".join(header)
    what = "several columns are durations" if matches else "no column is a duration with its unit in the name"
    raise UnknownFormat("step-log-unit", f"{what}: {listed}", where=str(path), hint="step,seconds or step,step_time_ms")


def _each_once(records: Sequence[StepRecord], path: Path) -> tuple[tuple[StepRecord, ...], tuple[Finding, ...]]:
    """Steps by number; of a step that several processes printed, the longest."""
    found: dict[int, StepRecord] = {}
    counts: dict[int, int] = {}
    for record in records:
        number = record.step_number
        counts[number] = counts.get(number, 0) + 1
        if number not in found or record.duration_ns > found[number].duration_ns:
            found[number] = record
    most = max(counts.values(), default=0)
    steps = tuple(replace(found[number], processes_count=counts[number]) for number in sorted(found))
    if most < 2:
        return steps, ()
    repeated = sum(count > 1 for count in counts.values())
    return steps, (
        Finding(
            rule="step-logged-several-times",
            severity=Severity.NOTE,
            where=path.name,
            message=f"{repeated} steps are in the log up to {most} times, by several processes or by several runs in "
            "one file: of each the longest is taken",
            numbers={"steps_count": repeated, "most_count": most},
            advice="if the file holds more than one run, name a log of one",
        ),
    )
