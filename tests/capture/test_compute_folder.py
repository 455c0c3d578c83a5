"""The folder of a workload: nothing of anybody's is put at risk, and what is known of a run is read back."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rocktools.capture.compute_folder import (
    MARKER_NAME,
    SCHEMA,
    WorkloadMarker,
    changed_files,
    find_results,
    read_marker,
    require_fresh_place,
    write_marker,
)
from rocktools.errors import CaptureError, DamagedFile, InputError, UnsupportedVersion

STARTED = WorkloadMarker(
    slug="k0",
    kernel_name="loop_add_fusion",
    version="3.10.0",
    argv=("/py", "/opt/rocm/bin/rocprof-compute", "profile"),
    started_utc="2026-11-30T03:00:00.000+00:00",
    launches_count=10,
    replay_sha256="ab" * 32,
)
ENDED = replace(STARTED, ended_utc="2026-11-30T03:01:00.000+00:00", exit_code=0)


def make_results(folder: Path, model: str = "MI355X") -> Path:
    results = folder / "workloads" / "k0" / model
    (results / "perfmon").mkdir(parents=True)
    (results / "sysinfo.csv").write_text("a\n1\n", encoding="utf-8")
    (results / "perfmon" / "pmc_perf_0.yaml").write_text("jobs:\n", encoding="utf-8")
    (results / "log.txt").write_text("INFO\n", encoding="utf-8")
    return results


def test_a_folder_that_is_not_there_or_empty_is_fresh(tmp_path):
    require_fresh_place(tmp_path, "k0")
    require_fresh_place(tmp_path / "new", "k0")
    (tmp_path / "workloads" / "k0").mkdir(parents=True)
    require_fresh_place(tmp_path, "k0")


def test_a_folder_with_anything_in_it_is_refused_by_the_name_of_what_is_there(tmp_path):
    make_results(tmp_path)
    with pytest.raises(CaptureError, match="compute-folder-not-empty") as caught:
        require_fresh_place(tmp_path, "k0")
    assert "MI355X" in caught.value.what
    assert caught.value.where == str(tmp_path / "workloads" / "k0")
    require_fresh_place(tmp_path, "k1")


@pytest.mark.parametrize("level", ["workloads", "workloads/k0"])
def test_links_and_files_in_the_place_are_refused(tmp_path, level):
    """Deleting what a link leads to would be worse still."""
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    folder = tmp_path / "run"
    (folder / level).parent.mkdir(parents=True)
    (folder / level).symlink_to(elsewhere)
    with pytest.raises(CaptureError, match="compute-place-taken"):
        require_fresh_place(folder, "k0")
    (folder / level).unlink()
    (folder / level).write_text("", encoding="utf-8")
    with pytest.raises(CaptureError, match="compute-place-taken"):
        require_fresh_place(folder, "k0")


def test_results_are_found_one_folder_deeper(tmp_path):
    assert find_results(tmp_path, "k0") == ()
    results = make_results(tmp_path)
    assert find_results(tmp_path, "k0") == (results,)
    other = make_results(tmp_path, "0")
    assert find_results(tmp_path, "k0") == (other, results)


def test_a_marker_is_read_back_as_it_was_written(tmp_path):
    assert read_marker(tmp_path) is None
    assert write_marker(tmp_path, STARTED) == STARTED
    assert read_marker(tmp_path) == STARTED
    assert json.loads((tmp_path / MARKER_NAME).read_text(encoding="utf-8"))["schema"] == SCHEMA


def test_the_end_puts_a_copy_beside_the_results_with_the_sizes_of_the_files(tmp_path):
    results = make_results(tmp_path)
    written = write_marker(tmp_path, ENDED)
    assert dict(written.files) == {"sysinfo.csv": 4, "perfmon/pmc_perf_0.yaml": 6}
    assert read_marker(tmp_path) == read_marker(results) == written


def test_no_copy_is_made_while_the_run_goes_on(tmp_path):
    results = make_results(tmp_path)
    assert write_marker(tmp_path, STARTED).files == {}
    assert not (results / MARKER_NAME).exists()


def test_files_that_are_gone_or_cut_are_named_and_those_of_analyze_are_not(tmp_path):
    results = make_results(tmp_path)
    marker = write_marker(tmp_path, ENDED)
    for name in ("pmc_kernel_top.csv", "pmc_perf.csv", "log.txt"):
        (results / name).write_text("of analyze\n", encoding="utf-8")
    assert changed_files(results, marker) == ()
    (results / "sysinfo.csv").write_text("a\n", encoding="utf-8")
    (results / "perfmon" / "pmc_perf_0.yaml").unlink()
    assert changed_files(results, marker) == ("perfmon/pmc_perf_0.yaml", "sysinfo.csv")


def test_secrets_of_a_command_line_are_not_written(tmp_path):
    write_marker(tmp_path, replace(STARTED, argv=("/bin/app", "--api-key", "s3cret")))
    assert "s3cret" not in (tmp_path / MARKER_NAME).read_text(encoding="utf-8")


@pytest.mark.parametrize(
    "change",
    [
        {"exit_code": "0"},
        {"argv": "profile"},
        {"argv": [1]},
        {"files": {"a": "1"}},
        {"slug": None},
        {"exit_code": True},
    ],
)
def test_a_marker_with_another_type_is_damaged(tmp_path, change):
    write_marker(tmp_path, ENDED)
    path = tmp_path / MARKER_NAME
    path.write_text(json.dumps({**json.loads(path.read_text(encoding="utf-8")), **change}), encoding="utf-8")
    with pytest.raises(DamagedFile, match="compute-marker-damaged"):
        read_marker(tmp_path)


def test_another_schema_is_refused(tmp_path):
    (tmp_path / MARKER_NAME).write_text('{"schema": "rocktools.compute-workload/2"}', encoding="utf-8")
    with pytest.raises(UnsupportedVersion, match="compute-marker-schema"):
        read_marker(tmp_path)


@given(data=st.data())
def test_a_marker_cut_anywhere_is_no_marker(tmp_path_factory, data):
    folder = tmp_path_factory.mktemp("marker")
    write_marker(folder, ENDED)
    path = folder / MARKER_NAME
    content = path.read_bytes()
    path.write_bytes(content[: data.draw(st.integers(0, len(content) - 3))])
    with pytest.raises(InputError):
        read_marker(folder)
