"""A model and the tokens of an update -> useful FLOPs and useful rates of components in phases."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from rocktools.analytic.component_rates import (
    BACKWARD,
    FLOP_COMPONENTS,
    FORWARD,
    ComponentRate,
    ComponentTime,
    rate_components,
)
from rocktools.analytic.model_file import read_model
from rocktools.analytic.useful_flop import FlopLedger, build_flop_ledger, find_conventions
from rocktools.devices.device import Device
from rocktools.errors import UsageError
from rocktools.summary.document import Fact, Summary
from rocktools.summary.worksheet_document import UsefulBasis
from rocktools.summary.worksheet_facts import ComponentFacts, Key
from rocktools.units import NS_PER_S


@dataclass(frozen=True, slots=True, kw_only=True)
class UsefulRequest:
    """What useful FLOPs are of; None where the summary tells.

    Attributes:
        model: name, or a YAML file.
        tokens_count, sequence_tokens, devices_count: of one update.
        convention: what counts.
        dtype: format of the products.
    """

    model: str
    tokens_count: int | None = None
    sequence_tokens: int | None = None
    devices_count: int | None = None
    convention: str = "maxtext"
    dtype: str = "bf16"


@dataclass(frozen=True, slots=True, kw_only=True)
class Useful:
    """Useful FLOPs.

    Attributes:
        basis: what they are of.
        flop: phase and component -> FLOPs of one update, all devices.
        rates: of those that took time, where the peak is known.
    """

    basis: UsefulBasis
    flop: Mapping[Key, int]
    rates: Mapping[Key, ComponentRate]


def find_useful(
    summary: Summary, facts: Mapping[Key, ComponentFacts], request: UsefulRequest, device: Device | None
) -> Useful:
    """Useful FLOPs of every component that has any.

    Raises:
        UsageError: tokens, their sequences or the devices are not known; no such model or convention.
        InputError: the model's file cannot be read.
    """
    job = summary.metadata.job
    tokens, source = _known(request.tokens_count, job.get("tokens_per_step_count"), "--tokens")
    sequence, _ = _known(request.sequence_tokens, job.get("sequence_tokens_count"), "--sequence")
    devices = request.devices_count or summary.metadata.devices_count
    for value, what, option in (
        (tokens, "how many tokens one update has", "--tokens"),
        (sequence, "how long a sequence is", "--sequence"),
        (devices, "how many devices share an update", "--devices"),
    ):
        if value is None:
            raise UsageError("useful-flop-of-what", f"it is not known {what}", hint=f"{option} N, or --step-log LOG")
    assert tokens is not None
    assert sequence is not None
    assert devices is not None
    ledger = build_flop_ledger(
        read_model(request.model),
        tokens_count=tokens,
        sequence_tokens=sequence,
        conventions=find_conventions(request.convention),
    )
    peak = None if device is None else device.find_peak(request.dtype)
    rates: dict[Key, ComponentRate] = {}
    flop: dict[Key, int] = {}
    for key, each in facts.items():
        value = _flop_of(key, ledger)
        if value is None:
            continue
        flop[key] = value
        compute = each.buckets.get("compute")
        if compute is not None and peak is not None and key[0] in (FORWARD, BACKWARD):
            time = ComponentTime(
                phase=key[0],
                title=key[1],
                components=(key[1],),
                duration_s=compute.sum_per_step_ns / NS_PER_S,
            )
            found = rate_components([time], ledger, devices_count=devices, peak=peak)
            if found:
                rates[key] = found[0]
    basis = UsefulBasis(
        model=ledger.model.name,
        convention=request.convention,
        tokens_count=tokens,
        sequence_tokens=sequence,
        devices_count=devices,
        useful_flop=ledger.useful_flop,
        peak_flop_per_s=None if peak is None else peak.flop_per_s,
        dtype=request.dtype,
        tokens_source=source,
    )
    return Useful(basis=basis, flop=flop, rates=rates)


def _known(given: int | None, fact: Fact | None, option: str) -> tuple[int | None, str]:
    if given is not None:
        return given, option
    value = None if fact is None else fact.value
    if fact is None or not isinstance(value, (int, float)) or isinstance(value, bool):
        return None, ""
    return int(value), fact.source


def _flop_of(key: Key, ledger: FlopLedger) -> int | None:
    """FLOPs of a component in a phase: 0 of what is calculated again, None of what the convention does not count."""
    phase, component = key
    known = {row.component for row in ledger.rows}
    names = [name for name in FLOP_COMPONENTS.get(component, ()) if name in known]
    if not names:
        return None
    row = ledger.row(*names)
    if phase == FORWARD:
        return row.forward_flop
    if phase == BACKWARD:
        return row.backward_flop
    return 0 if phase == "rematerialized" else None
