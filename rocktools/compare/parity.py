"""Two summaries -> may they be compared? Facts of the job, the device and the measurement, side by side.

Three kinds of facts. What the *work* is must be the same, or times say nothing about each other. How it was *measured*
must be the same, or the difference may be that of the instruments. What was *changed* is what a comparison is for: it
is listed, and the effects of more than one change at a time cannot be told apart.
"""

from __future__ import annotations

import shlex
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from enum import Enum

from rocktools.summary.document import Fact, Summary, Value


class FactKind(str, Enum):
    """What a difference in a fact means."""

    WORK = "work"  # another amount of work: not comparable
    MEASUREMENT = "measurement"  # other instruments: may mislead
    CHANGE = "change"  # what may have made the difference
    IDENTITY = "identity"  # which run it is

    def __str__(self) -> str:
        return self.value


class ParityState(str, Enum):
    """How two values of a fact stand to each other."""

    SAME = "same"
    DIFFERENT = "different"
    ALLOWED = "allowed"  # different, and the user said that it may be
    UNKNOWN = "unknown"  # not known on both sides, or on one

    def __str__(self) -> str:
        return self.value


class Gate(str, Enum):
    """What follows from all facts."""

    OPEN = "open"
    DOUBTFUL = "doubtful"  # comparable, if what is not known is the same
    CLOSED = "closed"

    def __str__(self) -> str:
        return self.value


_JOB: Mapping[str, FactKind] = {
    **dict.fromkeys(
        (
            *("model_name", "global_batch_sequences_count", "per_device_batch_sequences_count"),
            *("gradient_accumulation_steps_count", "sequence_tokens_count", "tokens_per_step_count", "mesh", "dtype"),
            *("weight_dtype", "optimizer", "dataset"),
        ),
        FactKind.WORK,
    ),
    **dict.fromkeys(("remat_policy", "attention", "config_sha256", "git_sha"), FactKind.CHANGE),
    "profiler": FactKind.MEASUREMENT,
    "run_name": FactKind.IDENTITY,
}
_PROVENANCE: Mapping[str, FactKind] = {
    **dict.fromkeys(
        ("device_product", "device_arch", "compute_partition", "memory_partition", "engine_clock_hz"), FactKind.WORK
    ),
    **dict.fromkeys(
        (
            *("jax_version", "jaxlib_version", "jax_plugin_version", "rocm_version", "driver_version"),
            *("firmware_version", "kernel_version", "python_version", "xla_flags", "container"),
        ),
        FactKind.CHANGE,
    ),
    **dict.fromkeys(
        ("command_buffers", "profiler_options", "rocprofv3_version", "rocktools_version"), FactKind.MEASUREMENT
    ),
    **dict.fromkeys(("host_name", "argv"), FactKind.IDENTITY),
}
_MEASURED = ("source_formats", "component_map")  # what gave the times, and what named the components
FACT_NAMES = (*_JOB, "devices_count", "is_host_only", "is_simulated", *_MEASURED, *_PROVENANCE, "inputs_sha256")
"""Everything that is looked at, in this order."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ParityRow:
    """One fact of both sides.

    Attributes:
        name: of the fact; its unit is in it.
        kind: what a difference means.
        before, after: values; None where nothing is known.
        state: how they stand to each other.
        reason: why a value is not known; "" where both are.
    """

    name: str
    kind: FactKind
    before: Value
    after: Value
    state: ParityState
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Parity:
    """All facts, and what follows.

    Attributes:
        gate: closed where the work differs, or, if it is strict, anything does.
        rows: every fact that is known on one side at least, those that differ first.
        reasons: why the gate is not open, a sentence each.
        changes: names of facts of kind `change` that differ.
        is_same_input: whether both were made from the very same files.
    """

    gate: Gate
    rows: tuple[ParityRow, ...]
    reasons: tuple[str, ...]
    changes: tuple[str, ...]
    is_same_input: bool


def check_parity(before: Summary, after: Summary, *, allowed: Collection[str] = (), is_strict: bool = False) -> Parity:
    """Whether two runs may be compared.

    Args:
        allowed: names of facts that may differ.
        is_strict: any difference closes the gate, and what is not known does, too; identities may differ.
    """
    one, other = _facts(before), _facts(after)
    rows = [_row(name, one[name], other[name], allowed) for name in FACT_NAMES if name in one]
    known = [row for row in rows if row.before is not None or row.after is not None]
    different = [row for row in known if row.state is ParityState.DIFFERENT]
    work = [row for row in different if row.kind is FactKind.WORK]
    measured = [row for row in different if row.kind is FactKind.MEASUREMENT]
    unknown = [row for row in rows if row.state is ParityState.UNKNOWN and row.kind is FactKind.WORK]
    reasons = [f"{row.name} differs: {_shown(row.before)} before, {_shown(row.after)} after" for row in work]
    closed = bool(work)
    if is_strict:
        others = [row for row in different if row.kind is not FactKind.IDENTITY and row not in work]
        reasons += [f"{row.name} differs: {_shown(row.before)} before, {_shown(row.after)} after" for row in others]
        unsure = [row for row in known if row.state is ParityState.UNKNOWN and row.kind is not FactKind.IDENTITY]
        reasons += [f"{row.name} is known on one side only" for row in unsure]
        closed = closed or bool(others) or bool(unsure)
    elif not closed:
        reasons += [
            f"{row.name} differs, so the difference may be that of the measurement: {_shown(row.before)} before, "
            f"{_shown(row.after)} after"
            for row in measured
        ]
        if unknown:
            names = ", ".join(row.name for row in unknown)
            reasons.append(f"not known on both sides, and taken to be the same: {names}")
    gate = Gate.CLOSED if closed else Gate.DOUBTFUL if reasons else Gate.OPEN
    order = {state: place for place, state in enumerate((ParityState.DIFFERENT, ParityState.ALLOWED))}
    changes = tuple(row.name for row in different if row.kind is FactKind.CHANGE)
    hashes = (before.provenance.inputs_sha256, after.provenance.inputs_sha256)
    return Parity(
        gate=gate,
        rows=tuple(sorted(known, key=lambda row: order.get(row.state, len(order)))),
        reasons=tuple(reasons),
        changes=changes,
        is_same_input=hashes[0] is not None and hashes[0] == hashes[1],
    )


def _facts(summary: Summary) -> dict[str, tuple[FactKind, Value, str]]:
    """Name -> kind, value and why there is none."""
    found = {name: _known(kind, summary.metadata.job.get(name)) for name, kind in _JOB.items()}
    count = summary.metadata.devices_count
    found["devices_count"] = (FactKind.WORK, count, "" if count is not None else "nothing ran on a device")
    kinds = ", ".join(sorted(summary.metadata.source_formats))
    found["source_formats"] = (FactKind.MEASUREMENT, kinds or None, "" if kinds else "no file gave times")
    found["component_map"] = (FactKind.MEASUREMENT, summary.metadata.component_map, "")
    found["is_host_only"] = (FactKind.WORK, summary.quality.overview.is_host_only, "")
    found["is_simulated"] = (FactKind.WORK, summary.is_simulated, "")
    found |= {name: _known(kind, summary.provenance.facts.get(name)) for name, kind in _PROVENANCE.items()}
    found["inputs_sha256"] = (FactKind.IDENTITY, summary.provenance.inputs_sha256, "")
    return found


def _known(kind: FactKind, fact: Fact | None) -> tuple[FactKind, Value, str]:
    if fact is None:
        return kind, None, "the summary has no such fact"
    return kind, fact.value, "" if fact.missing is None else fact.missing.reason


def _row(
    name: str, one: tuple[FactKind, Value, str], other: tuple[FactKind, Value, str], allowed: Collection[str]
) -> ParityRow:
    kind, before, why_before = one
    _, after, why_after = other
    if before is None or after is None:
        state = ParityState.UNKNOWN
    elif _comparable(name, before) == _comparable(name, after):
        state = ParityState.SAME
    else:
        state = ParityState.ALLOWED if name in allowed else ParityState.DIFFERENT
    reason = "; ".join(text for text in dict.fromkeys((why_before, why_after)) if text)
    return ParityRow(name=name, kind=kind, before=before, after=after, state=state, reason=reason)


def _comparable(name: str, value: Value) -> object:
    """Flags in another order, and once more, are the same flags: the last of each counts."""
    if name != "xla_flags" or not isinstance(value, str):
        return value
    try:
        words = shlex.split(value)
    except ValueError:
        return value
    return {word.partition("=")[0]: word.partition("=")[2] for word in words}


def _shown(value: Value) -> str:
    return "unknown" if value is None else f"{value!r}" if isinstance(value, str) else f"{value}"
