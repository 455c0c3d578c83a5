"""What the files say of the GPUs that ran something -> the device whose peaks they are held against."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from rocktools.devices.ceilings import apply_ceilings, read_ceilings
from rocktools.devices.device import Device
from rocktools.devices.files import read_device
from rocktools.devices.find import AgentFacts, find_device
from rocktools.errors import InputError, UsageError
from rocktools.findings import Finding

_FACTS = ("arch", "xcc_count", "cu_count", "max_engine_hz", "product")


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceOptions:
    """What the user may say of the device.

    Attributes:
        part: its name, or a YAML file; None: by what the files say.
        partition, memory_partition: None: by what the files say, and the default of the part.
        ceilings: files with measured figures.
    """

    part: str | None = None
    partition: str | None = None
    memory_partition: str | None = None
    ceilings: tuple[Path, ...] = ()


def choose_device(
    agents: pd.DataFrame, used: pd.DataFrame, options: DeviceOptions
) -> tuple[Device, tuple[Finding, ...]]:
    """The device that the work ran on, with measured ceilings, and what is doubtful about it.

    Args:
        agents: AGENTS.
        used: run and device of everything that counts.

    Raises:
        InputError: the GPUs are of several kinds, fit no part, or fit several; or a file of ceilings cannot be used.
        UsageError: the part or partition that was named does not exist, or is not what the files say.
    """
    facts = _facts_of(agents, used)
    findings: list[Finding] = []
    if options.part is not None:
        device = read_device(options.part, partition=options.partition, memory_partition=options.memory_partition)
        for each in facts:
            _require_same(device, each)
    else:
        device, doubts = _found(facts, options)
        findings += doubts
    for path in options.ceilings:
        device, doubts = apply_ceilings(device, read_ceilings(path))
        findings += doubts
    return device, tuple(findings)


def _facts_of(agents: pd.DataFrame, used: pd.DataFrame) -> list[AgentFacts]:
    """Facts of the GPUs that were used, each kind once."""
    keys = set(zip(used["run"].astype(str), used["device"].astype(str), strict=True))
    found: dict[tuple[str, ...], AgentFacts] = {}
    for _, row in agents.iterrows():
        if (str(row["run"]), str(row["device"])) in keys and row["kind"] != "CPU":
            facts = AgentFacts(
                arch=_text(row["arch"]),
                xcc_count=_count(row["xcc_count"]),
                cu_count=_count(row["cu_count"]),
                max_engine_hz=_count(row["max_engine_hz"]),
                product=_text(row["product"]),
                where=str(row["device"]),
            )
            found.setdefault(tuple(str(row[name]) for name in _FACTS), facts)
    return list(found.values())


def _text(value: Any) -> str | None:
    return None if pd.isna(value) else str(value)


def _count(value: Any) -> int | None:
    return None if pd.isna(value) else int(value)


def _found(facts: Sequence[AgentFacts], options: DeviceOptions) -> tuple[Device, tuple[Finding, ...]]:
    hint = "--part PART (rocktools devices list), and --partition"
    if not facts:
        raise InputError("device-unknown", "the files do not say which GPU it was", hint=hint)
    matches = [find_device(each) for each in facts]
    labels = {match.device.label if match and match.device else None for match in matches}
    if len(labels) > 1:
        shown = ", ".join(sorted(filter(None, labels)))
        raise InputError(
            "devices-differ", f"the GPUs are of several kinds: {shown}", hint="--part, or --device LABEL for one kind"
        )
    match = matches[0]
    if match is None:
        first = facts[0]
        said = f"{first.arch or 'unknown architecture'}, {first.xcc_count or '?'} XCDs, {first.cu_count or '?'} CUs"
        raise InputError("device-unknown", f"no known part fits what is recorded: {said}", where=first.where, hint=hint)
    if match.device is None:
        raise InputError(
            "device-ambiguous",
            f"what is recorded of the GPU fits {' and '.join(match.candidates)}, whose peaks differ",
            where=facts[0].where,
            hint=f"--part {'|'.join(match.candidates)}",
        )
    found = match.device
    if options.partition is not None and options.partition.upper() != found.partition:
        raise _not_the_same("partition", options.partition, found.partition, facts[0].where)
    device = read_device(found.part, partition=found.partition, memory_partition=options.memory_partition)
    return device, match.findings


def _require_same(device: Device, facts: AgentFacts) -> None:
    """Refuse peaks of another architecture or partition than the one that was recorded.

    Raises:
        UsageError: they are.
    """
    for what, ours, recorded in (
        ("architecture", device.architecture, facts.arch),
        ("number of XCDs", device.xcd_count, facts.xcc_count),
        ("number of CUs", device.cu_count, facts.cu_count),
    ):
        if recorded is not None and recorded != ours:
            raise _not_the_same(what, f"{device.label}: {ours}", recorded, facts.where)


def _not_the_same(what: str, asked: object, recorded: object, where: str) -> UsageError:
    return UsageError(
        "device-mismatch",
        f"the {what} asked for ({asked}) is not the recorded one ({recorded})",
        where=where,
        hint="--partition as it was when the trace was made: SPX, DPX, QPX or CPX",
    )
