"""Which part a GPU is, from what is recorded of it."""

from __future__ import annotations

import json

import pytest

from rocktools.devices.find import AgentFacts, find_device

MHZ = 10**6
GB = 10**9


def _facts(**facts):
    return AgentFacts(**{"arch": "gfx950", "xcc_count": 8, "cu_count": 256, **facts})


FOUND = [
    (_facts(max_engine_hz=2400 * MHZ), "MI355X SPX/NPS1"),
    (_facts(max_engine_hz=2200 * MHZ), "MI350X SPX/NPS1"),
    (_facts(xcc_count=1, cu_count=32, max_engine_hz=2400 * MHZ), "MI355X CPX/NPS1"),
    (_facts(xcc_count=None, cu_count=64, max_engine_hz=2400 * MHZ), "MI355X QPX/NPS1"),
    (_facts(xcc_count=4, cu_count=None, max_engine_hz=2200 * MHZ), "MI350X DPX/NPS1"),
    (_facts(arch="gfx942", cu_count=304, max_engine_hz=2100 * MHZ, memory_bytes=192 * 2**30), "MI300X SPX/NPS1"),
    (_facts(arch="gfx942", cu_count=304, max_engine_hz=2100 * MHZ, memory_bytes=256 * GB), "MI325X SPX/NPS1"),
    (_facts(arch="gfx942", xcc_count=6, cu_count=228, max_engine_hz=2100 * MHZ), "MI300A SPX/NPS1"),
    (_facts(device_id=30115), "MI355X SPX/NPS1"),
]


@pytest.mark.parametrize("facts, label", FOUND)
def test_units_clock_and_memory_tell_the_part_and_its_partition(facts, label):
    found = find_device(facts)
    assert found is not None
    assert found.device is not None
    assert (found.device.label, found.findings) == (label, ())


NOTHING = [
    AgentFacts(),
    AgentFacts(arch="gfx950", product="AMD Instinct MI355X"),  # a name alone is no fact
    _facts(cu_count=80),
    _facts(arch="gfx90a"),
    _facts(xcc_count=8, cu_count=128),
]


@pytest.mark.parametrize("facts", NOTHING)
def test_what_fits_no_part_is_none(facts):
    assert find_device(facts) is None


def test_two_parts_that_fit_are_told_apart_by_nothing():
    found = find_device(_facts())
    assert found is not None
    assert (found.device, found.candidates) == (None, ("MI350X", "MI355X"))
    assert [finding.rule for finding in found.findings] == ["device-ambiguous"]


def test_name_decides_between_parts_that_fit_and_that_is_said():
    found = find_device(_facts(arch="gfx942", cu_count=304, product="AMD Instinct MI325X"))
    assert found is not None
    assert found.device is not None
    assert found.device.part == "MI325X"
    assert [finding.rule for finding in found.findings] == ["device-by-name"]


def test_name_that_contradicts_the_clock_is_told_and_not_followed():
    found = find_device(_facts(max_engine_hz=2400 * MHZ, product="AMD Instinct MI350X"))
    assert found is not None
    assert found.device is not None
    assert found.device.part == "MI355X"
    [finding] = found.findings
    assert finding.rule == "device-name-contradicts"
    assert "2400 MHz" in finding.message
    assert "2200 MHz" in finding.message


def test_limited_clock_is_told():
    found = find_device(_facts(max_engine_hz=1900 * MHZ, product="AMD Instinct MI355X"))
    assert found is not None
    assert found.device is not None
    assert found.device.part == "MI355X"
    assert [finding.rule for finding in found.findings] == ["clock-of-no-part", "device-by-name"]


def test_recorded_agent_is_found(shared):
    """A full record of a real GPU; its name agrees with its clock."""
    path = shared / "data/counters/agents/gfx950_agent_tracelens908.json"
    agent = json.loads(path.read_text(encoding="utf-8"))["agent"]
    found = find_device(
        AgentFacts(
            arch=agent["name"],
            xcc_count=agent["num_xcc"],
            cu_count=agent["cu_count"],
            max_engine_hz=agent["max_engine_clk_fcompute"] * MHZ,
            product=agent["product_name"],
        )
    )
    assert found is not None
    assert found.device is not None
    assert (found.device.label, found.findings) == ("MI350X SPX/NPS1", ())
    assert found.device.lds_per_cu_bytes == agent["lds_size_in_kb"] * 1024
    assert found.device.simd_per_cu_count == agent["simd_per_cu"]
