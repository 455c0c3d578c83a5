"""Which devices share a clock: those of one host. Boot-time stamps of two nodes have nothing to do with each other.

A device is labelled `host:gpu0`, and what is in front of the last colon is its host, in traces of either kind. JAX
profiles are stamped since the epoch, but two hosts agree on that to a millisecond or so at best, far worse than what
is compared here: they count as different clocks too.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from rocktools.findings import Finding, Severity


def host_of(device: str) -> str:
    """The host of a device label."""
    return device.rpartition(":")[0] or device


def check_clocks(devices: Iterable[str]) -> tuple[Finding, ...]:
    """A finding where devices are of several hosts: instants are compared within a host only."""
    hosts: Sequence[str] = sorted({host_of(device) for device in devices})
    if len(hosts) < 2:
        return ()
    return (
        Finding(
            rule="clocks-of-several-hosts",
            severity=Severity.NOTE,
            where="devices",
            message=f"devices are on {len(hosts)} hosts ({', '.join(hosts[:4])}{', ...' if len(hosts) > 4 else ''}), "
            "whose clocks cannot be compared: who was late is told within each host only; durations are compared "
            "across all",
            numbers={"hosts_count": len(hosts)},
        ),
    )
