"""A part and its architecture, as their files say, -> logical devices: peaks from units times rate times clock.

Compute, L2 and LDS go with the XCDs of a partition. Memory goes with the NUMA domains: a device reaches the bandwidth
of its domain, which it shares with the other devices of that domain (in CPX with NPS1, all of them).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from rocktools.devices.device import Bandwidth, Device, Level, Peak, Sparsity, Unit
from rocktools.errors import UsageError
from rocktools.evidence import Evidence


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """One number of a file.

    Attributes:
        value: in the unit that its key names.
        source: title of the document.
        note: what to know about it; "" where there is nothing.
        sparse: factor of 2:4 sparsity, 1 where there is none.
    """

    value: int
    source: str
    note: str = ""
    sparse: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Architecture:
    """What units of an architecture do per cycle.

    Attributes:
        rates: (unit, dtype) -> dense FLOP per compute unit and cycle.
        levels: level -> bytes per cycle, of an L2 channel or of a compute unit.
    """

    name: str
    title: str
    simd_per_cu_count: int
    lds_per_cu_bytes: int
    l2_per_xcd_bytes: int
    l2_channels_per_xcd_count: int
    rates: Mapping[tuple[Unit, str], Figure]
    levels: Mapping[Level, Figure]


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """One product.

    Attributes:
        name, title: short and with the vendor.
        architecture: its name; what is known of it is `rates`.
        rates: None where only whole peaks are published.
        device_ids: PCI device ids.
        xcd_count, cu_per_xcd_count, clock_hz: of the whole package.
        memory_kind, memory_bytes, memory: kind, size and bandwidth of the package's memory.
        fabric_cache_bytes, fabric_cache: size and bandwidth of the memory-side cache; None where there is none, or no
            figure is published.
        peaks: (unit, dtype) -> published peak, where it does not follow from rates.
        partitions: compute partition -> XCDs of a device, the default first.
        memory_partitions: memory partition -> NUMA domains, the default first.
        links: name -> links and bytes per second of each, one direction.
    """

    name: str
    title: str
    architecture: str
    rates: Architecture | None
    device_ids: tuple[int, ...]
    xcd_count: int
    cu_per_xcd_count: int
    clock_hz: int
    memory_kind: str
    memory_bytes: int
    memory: Figure
    fabric_cache_bytes: int | None
    fabric_cache: Figure | None
    peaks: Mapping[tuple[Unit, str], Figure]
    partitions: Mapping[str, int]
    memory_partitions: Mapping[str, int]
    links: Mapping[str, tuple[int, Figure]]

    def device(self, partition: str | None = None, memory_partition: str | None = None) -> Device:
        """The logical device of a partition; None takes the first: the whole package.

        Raises:
            UsageError: the part has no such partition, or not both together.
        """
        compute = _chosen(partition, self.partitions, "partition", self.name)
        memory = _chosen(memory_partition, self.memory_partitions, "memory partition", self.name)
        xcd_count, domains_count = self.partitions[compute], self.memory_partitions[memory]
        devices_count = self.xcd_count // xcd_count
        if domains_count > devices_count:
            raise UsageError(
                "impossible-partition",
                f"{self.name} cannot be {compute} and {memory}: {devices_count} devices, {domains_count} domains",
                hint=f"{compute} with {next(iter(self.memory_partitions))}",
            )
        sharing = devices_count // domains_count
        rates = self.rates
        return Device(
            part=self.name,
            title=self.title,
            architecture=self.architecture,
            partition=compute,
            memory_partition=memory,
            xcd_count=xcd_count,
            cu_count=xcd_count * self.cu_per_xcd_count,
            clock_hz=self.clock_hz,
            simd_per_cu_count=rates.simd_per_cu_count if rates else None,
            l2_channels_count=rates.l2_channels_per_xcd_count * xcd_count if rates else None,
            lds_per_cu_bytes=rates.lds_per_cu_bytes if rates else None,
            l2_bytes=rates.l2_per_xcd_bytes * xcd_count if rates else None,
            memory_bytes=self.memory_bytes // domains_count,
            peaks=tuple(self._peaks(xcd_count)),
            bandwidths=(*self._memory(domains_count, sharing), *self._caches(xcd_count), *self._links(devices_count)),
        )

    def _peaks(self, xcd_count: int) -> Iterator[Peak]:
        """Dense and sparse peaks."""
        cycles = xcd_count * self.cu_per_xcd_count * self.clock_hz
        rates = self.rates.rates if self.rates else {}
        figures = [(key, figure, figure.value * cycles) for key, figure in rates.items()]
        figures += [(key, figure, figure.value * xcd_count // self.xcd_count) for key, figure in self.peaks.items()]
        for (unit, dtype), figure, value in figures:
            for sparsity, factor in ((Sparsity.DENSE, 1), (Sparsity.STRUCTURED, figure.sparse)):
                if sparsity is Sparsity.DENSE or factor > 1:
                    yield Peak(
                        dtype=dtype,
                        unit=unit,
                        sparsity=sparsity,
                        flop_per_s=float(value * factor),
                        evidence=Evidence.DECLARED,
                        source=figure.source,
                        note=figure.note,
                    )

    def _memory(self, domains_count: int, sharing: int) -> Iterator[Bandwidth]:
        shared = f"shared by {sharing} logical devices" if sharing > 1 else ""
        for level, name, figure in (
            (Level.HBM, self.memory_kind, self.memory),
            (Level.FABRIC_CACHE, "memory-side cache", self.fabric_cache),
        ):
            if figure is not None:
                yield Bandwidth(
                    level=level,
                    name=name,
                    bytes_per_s=figure.value / domains_count,
                    evidence=Evidence.DECLARED,
                    source=figure.source,
                    note="; ".join(filter(None, (figure.note, shared))),
                    sharing_count=sharing,
                )

    def _caches(self, xcd_count: int) -> Iterator[Bandwidth]:
        """L2, L1 and LDS at the shader clock."""
        if self.rates is None:
            return
        units = {Level.L2: self.rates.l2_channels_per_xcd_count}
        for level, figure in self.rates.levels.items():
            count = units.get(level, self.cu_per_xcd_count) * xcd_count
            yield Bandwidth(
                level=level,
                name=f"{str(level).upper()}, {count} {'channels' if level in units else 'CUs'}",
                bytes_per_s=float(count * figure.value * self.clock_hz),
                evidence=Evidence.DECLARED,
                source=figure.source,
                note=figure.note,
            )

    def _links(self, devices_count: int) -> Iterator[Bandwidth]:
        """All links of a kind together; the links are the package's, and its devices share them."""
        for name, (count, figure) in self.links.items():
            shared = f"shared by {devices_count} logical devices" if devices_count > 1 else ""
            yield Bandwidth(
                level=Level.NETWORK,
                name=f"{name}, {count} link{'s' if count > 1 else ''}",
                bytes_per_s=float(count * figure.value),
                evidence=Evidence.DECLARED,
                source=figure.source,
                note="; ".join(filter(None, (figure.note, shared))),
                sharing_count=devices_count,
            )


def _chosen(wanted: str | None, known: Mapping[str, int], what: str, part: str) -> str:
    if wanted is None:
        return next(iter(known))
    if wanted.upper() not in known:
        raise UsageError("unknown-partition", f"{part} has no {what} {wanted!r}", hint=f"one of: {', '.join(known)}")
    return wanted.upper()
