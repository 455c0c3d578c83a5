"""Descriptions of devices: every figure has a source, and what XLA dumped is one too."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from rocktools.devices import files
from rocktools.errors import InputError, UsageError
from rocktools.replay.aot_target import read_target, shipped_targets, targets_of

PARTS = Path(files.__file__).parent / "parts"


def figures(text: str) -> dict[str, str]:
    return dict(line.strip().split(": ", 1) for line in text.splitlines() if ": " in line and "{" not in line)


@pytest.mark.parametrize("name, part", [("mi355x", "MI355X"), ("mi350x", "MI350X"), ("MI300X", "MI300X")])
def test_compute_units_clock_and_bandwidth_are_those_of_the_part(name, part):
    target, known = read_target(name), yaml.safe_load((PARTS / f"{part}.yaml").read_text())
    described = figures(target.configuration)
    assert int(described["core_count"]) == known["xcd_count"] * known["cu_per_xcd_count"]
    assert float(described["clock_rate_ghz"]) == known["clock_hz"] / 1e9
    assert int(described["memory_bandwidth"]) == known["memory"]["bytes_per_s"]
    assert target.architecture == known["architecture"]
    assert f'gcn_arch_name: "{target.architecture}:sramecc+:xnack-"' in target.configuration


@pytest.mark.parametrize("architecture, lds_bytes", [("gfx950", 163_840), ("gfx942", 65_536)])
def test_likeliest_description_has_the_shared_memory_of_the_architecture(architecture, lds_bytes):
    first = targets_of(architecture)[0]
    assert int(figures(first.configuration)["shared_memory_per_block"]) == lds_bytes


def test_every_shipped_target_is_among_those_of_its_architecture():
    names = [target.name for architecture in ("gfx942", "gfx950") for target in targets_of(architecture)]
    assert sorted(names) == sorted(shipped_targets())
    assert targets_of("gfx90a") == ()


def test_unknown_target_names_the_near_ones():
    with pytest.raises(UsageError, match="mi355x"):
        read_target("mi355")


@pytest.mark.parametrize(
    "old, new, what",
    [
        (
            "core_count: {value: 256, source: product-page}",
            "core_count: {value: 0, source: product-page}",
            "at least 1",
        ),
        ("core_count: {value: 256, source: product-page}", "core_count: {value: 256, source: hearsay}", "hearsay"),
        ("core_count:", "cores:", "unknown key"),
        ("gfx950:sramecc", "gfx942:sramecc", "not of the architecture"),
        ("value: 3.5.0", "value: 3.5", "three numbers"),
        ("clock_rate_ghz: {value: 2.4", "clock_rate_ghz: {value: fast", "positive number"),
    ],
)
def test_file_of_the_users_is_checked(tmp_path, old, new, what):
    text = read_target("mi355x").path.read_text()
    assert old in text
    path = tmp_path / "mine.yaml"
    path.write_text(text.replace(old, new))
    with pytest.raises(InputError, match=what):
        read_target(str(path))


def test_file_of_the_users_is_read(tmp_path):
    path = tmp_path / "mine.yaml"
    path.write_text(read_target("mi300x").path.read_text().replace("target: mi300x", "target: mine"))
    assert read_target(str(path)).name == "mine"


def test_description_that_was_dumped_goes_to_xla_as_it_is(tmp_path):
    path = tmp_path / "module_0001.jit_f.gpu_target_config.pbtxt"
    path.write_text(read_target("mi300x").configuration)
    target = read_target(str(path))
    assert (target.architecture, target.configuration) == ("gfx942", path.read_text())
    assert target.title == "AMD Instinct MI300X"


def test_description_of_another_vendor_is_told(tmp_path):
    path = tmp_path / "a.pbtxt"
    path.write_text("gpu_device_info { cuda_compute_capability { major: 9 } }")
    with pytest.raises(InputError, match="no AMD architecture"):
        read_target(str(path))
