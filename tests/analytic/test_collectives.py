"""Bandwidths of collectives, against the arithmetic of the vendors' benchmarks."""

from __future__ import annotations

from fractions import Fraction

import pytest

from rocktools.analytic.collectives import KINDS, bus_factor, collective_bandwidth, sent_bytes
from rocktools.hlo.program_summary import COLLECTIVES

# nccl-tests, doc/PERFORMANCE.md, for n = 8.
FACTORS = [
    ("all-reduce", Fraction(14, 8)),
    ("all-gather", Fraction(7, 8)),
    ("reduce-scatter", Fraction(7, 8)),
    ("all-to-all", Fraction(7, 8)),
    ("collective-permute", Fraction(1)),
    ("collective-broadcast", Fraction(1)),
]


@pytest.mark.parametrize("kind, factor", FACTORS)
def test_bus_factor_of_eight_devices(kind, factor):
    assert bus_factor(kind, 8) == factor


@pytest.mark.parametrize("kind", ["all-reduce", "all-gather", "reduce-scatter", "all-to-all"])
def test_one_device_alone_sends_nothing(kind):
    assert sent_bytes(kind, 1 << 20, 1) == 0


def test_an_all_reduce_sends_as_much_as_a_reduce_scatter_and_an_all_gather():
    for size in range(1, 17):
        both = bus_factor("reduce-scatter", size) + bus_factor("all-gather", size)
        assert bus_factor("all-reduce", size) == both


def test_bandwidth_of_one_gib_in_ten_milliseconds():
    """2**30 B / 0.01 s = 107.37 GB/s; times 14 / 8 = 187.9 GB/s on the bus."""
    found = collective_bandwidth("all-reduce", payload_bytes=1 << 30, duration_ns=10_000_000, group_size=8)
    assert found.algorithm_bytes_per_s == pytest.approx(107.3741824e9)
    assert found.bus_bytes_per_s == pytest.approx(187.9048192e9)
    assert found.evidence == "compiler_estimate"


def test_no_time_or_an_unknown_kind_gives_no_bandwidth():
    assert collective_bandwidth("all-reduce", payload_bytes=1, duration_ns=0, group_size=8) is None
    assert collective_bandwidth("all-shuffle", payload_bytes=1, duration_ns=1, group_size=8) is None


def test_every_collective_of_a_program_has_a_factor():
    assert set(KINDS) >= COLLECTIVES - {"send", "recv"}
    assert all(bus_factor(kind, 8) is not None for kind in COLLECTIVES)
