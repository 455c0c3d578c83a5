"""A YAML file in which somebody says what a result is -> claims that the lints hold against numbers and each other.

Schema `rocktools.claims/1`. Every section and every entry may be left out; what is not said is None, and a lint that
needs it cannot say anything. Nothing is computed here.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, TypeVar

from rocktools.yaml_file import Place, YamlFile, parse_yaml, read_yaml_file

SCHEMA = "rocktools.claims/1"
_REFERENCE = "claims"
# YAML 1.1 wants a sign in the exponent, which nobody writes: 2.5e15 is a text to it.
_POWER = re.compile(r"\d+(?:\.\d*)?[eE]\d{1,2}")


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchClaim:
    """The batch of one optimizer update.

    Attributes:
        global_sequences_count: sequences of all devices and microsteps together.
        sequence_tokens_count: tokens of a sequence.
        devices_count: devices that take part.
        chosen_experts_count: experts that each token is sent to.
        tokens_per_update_count: tokens that the result counts for one update.
    """

    global_sequences_count: int | None = None
    sequence_tokens_count: int | None = None
    devices_count: int | None = None
    chosen_experts_count: int | None = None
    tokens_per_update_count: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TimingClaim:
    """The duration of a step, and the throughput that is made of it.

    Attributes:
        step_s: duration of one update.
        tokens_per_s: of all devices.
        statistic: `median`, `mean`, `min` or `single`.
        samples_count: updates that were timed.
        spread_s: of those, in any measure of dispersion.
        first_step_index: the first update that was timed, from 0.
        is_profiled: whether a profiler ran meanwhile.
        is_synchronized: whether the device was waited for at both ends of the timing window.
        includes_compile: whether the window holds compilation or autotuning.
    """

    step_s: float | None = None
    tokens_per_s: float | None = None
    statistic: str | None = None
    samples_count: int | None = None
    spread_s: float | None = None
    first_step_index: int | None = None
    is_profiled: bool | None = None
    is_synchronized: bool | None = None
    includes_compile: bool | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class UtilisationClaim:
    """How much of the machine was used.

    Attributes:
        mfu_ratio: useful FLOPs over the peak.
        busy_ratio: share of time in which the device was busy, as a monitor shows it.
        peak_flop_per_s: peak of one device that it was divided by.
        part: name of the device: `MI355X`.
        dtype: format that the peak is of.
        sparsity: `dense` or `2:4`.
        flop_source: `analytic`, `compiler` or `counters`.
    """

    mfu_ratio: float | None = None
    busy_ratio: float | None = None
    peak_flop_per_s: float | None = None
    part: str | None = None
    dtype: str | None = None
    sparsity: str | None = None
    flop_source: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryClaim:
    """Device memory.

    Attributes:
        used_bytes: the figure.
        over_devices: `max`, `mean` or `sum`.
        kind: `static` (what the compiler reserves) or `observed` (a high-water mark).
        part: name of the device.
    """

    used_bytes: int | None = None
    over_devices: str | None = None
    kind: str | None = None
    part: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CommunicationClaim:
    """Communication.

    Attributes:
        exposed_ratio: share of the step that it is said to cost.
        bandwidth_bytes_per_s: what a lower bound was computed with.
        bandwidth_source: `measured` or `peak`.
    """

    exposed_ratio: float | None = None
    bandwidth_bytes_per_s: float | None = None
    bandwidth_source: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparisonClaim:
    """A comparison of two runs.

    Attributes:
        speedup_ratio: after over before.
        is_about_a_kernel: whether the gain is put down to a kernel.
        changes: what was changed.
        outputs_checked: whether the results of both were compared.
        sequences_before_count, sequences_after_count: global batches before and after.
    """

    speedup_ratio: float | None = None
    is_about_a_kernel: bool | None = None
    changes: tuple[str, ...] | None = None
    outputs_checked: bool | None = None
    sequences_before_count: int | None = None
    sequences_after_count: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CoverageClaim:
    """What was looked at.

    Attributes:
        ranks_count: ranks that were looked at.
        ranks_total_count: ranks of the job.
    """

    ranks_count: int | None = None
    ranks_total_count: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Claims:
    """Declared results; a section that is not there says nothing.

    Attributes:
        name: of the result.
        source: the file, for messages.
    """

    name: str
    source: str
    batch: BatchClaim = BatchClaim()
    timing: TimingClaim = TimingClaim()
    utilisation: UtilisationClaim = UtilisationClaim()
    memory: MemoryClaim = MemoryClaim()
    communication: CommunicationClaim = CommunicationClaim()
    comparison: ComparisonClaim = ComparisonClaim()
    coverage: CoverageClaim = CoverageClaim()


SECTIONS: dict[str, type[Any]] = {
    "batch": BatchClaim,
    "timing": TimingClaim,
    "utilisation": UtilisationClaim,
    "memory": MemoryClaim,
    "communication": CommunicationClaim,
    "comparison": ComparisonClaim,
    "coverage": CoverageClaim,
}
"""Section of the file -> what it may hold."""

_CHOICES = {
    "statistic": ("median", "mean", "min", "single"),
    "sparsity": ("dense", "2:4"),
    "flop_source": ("analytic", "compiler", "counters"),
    "over_devices": ("max", "mean", "sum"),
    "kind": ("static", "observed"),
    "bandwidth_source": ("measured", "peak"),
}
Section = TypeVar("Section")


def read_claims(path: Path) -> Claims:
    """The claims in a YAML file.

    Raises:
        InputError: the file cannot be read, or an entry is wrong; the entry and its line are named.
        UnsupportedVersion: it keeps another schema.
    """
    return _build(read_yaml_file(path, _REFERENCE))


def parse_claims(text: str, *, source: str) -> Claims:
    """The claims in a YAML text; raises as `read_claims`."""
    return _build(parse_yaml(text, source=source, reference=_REFERENCE))


def _build(file: YamlFile) -> Claims:
    file.require_schema(_REFERENCE, SCHEMA)
    top = file.require_mapping(_REFERENCE, (), file.value, required=("schema", "name"), optional=tuple(SECTIONS))
    sections = {name: _section(file, name, of, top[name]) for name, of in SECTIONS.items() if name in top}
    return Claims(name=file.require_text(_REFERENCE, ("name",), top["name"]), source=file.source, **sections)


def _section(file: YamlFile, name: str, of: type[Section], value: Any) -> Section:
    known = {field.name: str(field.type) for field in fields(of)}  # type: ignore[arg-type]
    given = file.require_mapping(_REFERENCE, (name,), value, optional=tuple(known))
    return of(**{key: _entry(file, (name, key), each, known[key]) for key, each in given.items()})


def _entry(file: YamlFile, place: Place, value: Any, kind: str) -> Any:
    if kind.startswith("int"):
        return file.require_count(_REFERENCE, place, value, at_least=0 if str(place[-1]).endswith("_index") else 1)
    if kind.startswith("tuple"):
        return file.require_texts(_REFERENCE, place, value)
    if kind.startswith("str"):
        return file.require_text(_REFERENCE, place, value, choices=_CHOICES.get(str(place[-1]), ()))
    if kind.startswith("float") and isinstance(value, str) and _POWER.fullmatch(value):
        value = float(value)
    wanted: tuple[type, ...] = (bool,) if kind.startswith("bool") else (int, float)
    is_right = isinstance(value, wanted) and (bool in wanted or not isinstance(value, bool))
    if not is_right or (bool not in wanted and not value > 0):
        what = "true or false" if bool in wanted else "a number above 0"
        raise file.complaint(_REFERENCE, place, f"must be {what}, but is {value!r}")
    return value if isinstance(value, bool) else float(value)


def unsaid(claims: Claims, *entries: str) -> str | None:
    """What of these entries (`batch.devices_count`) the claims leave out, as a reason; None where all are there."""
    missing = []
    for entry in entries:
        section, _, name = entry.partition(".")
        if getattr(getattr(claims, section), name) is None:
            missing.append(entry)
    return f"the claims do not say {', '.join(missing)}" if missing else None
