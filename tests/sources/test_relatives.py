"""Files that are not read are known by their names, and others are not taken for them."""

from __future__ import annotations

from pathlib import Path

import pytest

from rocktools.sources.relatives import find_relative, recognise_name

NAMES = {
    "host.xplane.riegeli": "not-rocpd-riegeli",
    "host.trace.json.gz": "not-rocpd-trace-json",
    "perfetto_trace.json.gz": "not-rocpd-trace-json",
    "host.xplane.pb": None,
    "4711_kernel_trace.csv": "not-rocpd-csv",
    "kernel_trace.csv": "not-rocpd-csv",
    "rank_0_4711_hip_api_trace.csv": "not-rocpd-csv",
    "out_memory_copy_trace.csv": "not-rocpd-csv",
    "out_counter_collection.csv": "not-rocpd-csv",
    "out_counter_collection_trace.csv": "not-rocpd-csv",
    "out_regions_trace.csv": "not-rocpd-csv",
    "out_kernel_stats.csv": "not-rocpd-csv",
    "out_agent_info.csv": "not-rocpd-csv",
    "4711_results.json": "not-rocpd-json",
    "4711_results.pftrace": "not-rocpd-timeline",
    "4711_results.otf2": "not-rocpd-timeline",
    "4711_results.db": None,
    "rent.csv": None,
    "my_stats.csv": None,
    "manifest.json": None,
    "model.pb": None,
    "xplane.pb": None,
}


@pytest.mark.parametrize("name, reference", NAMES.items())
def test_names_are_recognised(name: str, reference: str | None) -> None:
    relative = recognise_name(Path("any/folder") / name)
    assert (relative and relative.reference) == reference


def test_first_file_below_a_folder_is_found(tmp_path: Path) -> None:
    assert find_relative(tmp_path) is None
    profile = tmp_path / "plugins/profile/2026_01_01"
    profile.mkdir(parents=True)
    (tmp_path / "a_kernel_trace.csv").mkdir()  # no file
    (profile / "host.xplane.riegeli").touch()
    found = find_relative(tmp_path)
    assert found is not None
    assert (found[0], found[1].reference) == (profile / "host.xplane.riegeli", "not-rocpd-riegeli")
