"""Folders of view files say the same as the database whose views they are."""

from __future__ import annotations

import contextlib
import tempfile
from pathlib import Path

import pytest
from compute_files import Kernel, Workload, write_analysis, write_view_files
from hypothesis import given, settings
from hypothesis import strategies as st

from rocktools.errors import InputError, NothingToRead, UnknownFormat
from rocktools.sources.compute_analysis.database import read_analysis_database
from rocktools.sources.compute_analysis.view_files import is_view_folder, read_view_folder

KERNEL = Kernel(
    name='f<"a", b>(x*)\nwith a line',
    launches_ns=(10, 30),
    values={("2.1.24", "Avg"): 1.25, ("2.1.24", "Peak"): None, ("18.2.3", "Min"): 3},
)
TWO = (
    Workload(name="w", kernels=(KERNEL,), values={("7.1.2", "Avg"): 6}),
    Workload(name="v", kernels=(Kernel(name="g", values={("7.1.2", "Avg"): 4}),)),
)


@pytest.fixture
def both(tmp_path):
    database = write_analysis(tmp_path / "a.db", TWO, version="3.10.0", schema="2.0.0")
    return database, write_view_files(database, tmp_path / "views")


def test_frames_are_those_of_the_database(both):
    database, folder = both
    of_database, of_files = read_analysis_database(database), read_view_folder(folder)
    assert is_view_folder(folder)
    assert len(of_files.metrics) == 5
    for name in ("kernels", "metrics"):
        ours, theirs = (
            frame.astype(object)
            .where(frame.notna(), None)
            .sort_values(list(frame.columns), key=lambda each: each.map(str))
            for frame in (getattr(of_files, name), getattr(of_database, name))
        )
        assert ours.values.tolist() == theirs.values.tolist()


def test_version_is_at_least_that_which_first_wrote_such_folders(both):
    workload = read_view_folder(both[1]).workloads[0]
    assert workload.version.is_since((3, 7)) is True
    assert workload.version.text is None


def test_a_folder_with_the_one_needed_file_is_enough(both):
    _, folder = both
    (folder / "kernel.csv").unlink()
    (folder / "workload_metric.csv").unlink()
    analysis = read_view_folder(folder)
    assert len(analysis.kernels) == 0
    assert len(analysis.metrics) == 4


def test_a_file_without_what_names_its_rows_is_refused(both):
    _, folder = both
    (folder / "kernel_metric.csv").write_text("a,b\n1,2\n", encoding="utf-8")
    with pytest.raises(UnknownFormat, match="no column kernel_name"):
        read_view_folder(folder)


def test_a_file_without_rows_is_nothing_to_read(both):
    _, folder = both
    header = (folder / "kernel_metric.csv").read_text(encoding="utf-8").partition("\n")[0]
    (folder / "kernel_metric.csv").write_text(header + "\n", encoding="utf-8")
    with pytest.raises(NothingToRead):
        read_view_folder(folder)


@settings(max_examples=30, deadline=None)
@given(cut=st.integers(0, 900), junk=st.binary(max_size=9))
def test_a_mutated_file_gives_rows_or_an_input_error(cut, junk):
    with tempfile.TemporaryDirectory() as name:
        folder = write_view_files(write_analysis(Path(name) / "a.db", TWO), Path(name) / "views")
        path = folder / "kernel_metric.csv"
        content = path.read_bytes()
        path.write_bytes(content[:cut] + junk + content[cut + 3 :])
        with contextlib.suppress(InputError):
            read_view_folder(folder)
