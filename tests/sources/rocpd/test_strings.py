"""The string pool: the strings that are asked for, and no other."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from rocpd_files import drop_views, edit, open_process

from rocktools.demo.rocpd_file import WriterOptions
from rocktools.demo.rocpd_writer import RocpdWriter
from rocktools.sources.rocpd.columns import IntColumn
from rocktools.sources.rocpd.strings import find_string_ids, read_strings


def pool(path: Path, *texts: str) -> Path:
    """A database whose strings are '' (id 1) and these (from id 2)."""
    with RocpdWriter(path, options=WriterOptions(has_views=False)) as writer:
        writer.node()
        for text in texts:
            writer.string(text)
    return path


def test_each_id_gives_its_string_and_the_empty_one_none(tmp_path: Path) -> None:
    ids = IntColumn(np.array([2, 3, 1, 2, 99, 3, -(2**63)]), np.array([False] * 5 + [True, False]))
    with open_process(pool(tmp_path / "t.db", "a", "b")) as (reader, process):
        assert read_strings(reader, process, ids) == {1: None, 2: "a", 3: "b"}


def test_more_ids_than_fit_into_one_query(tmp_path: Path) -> None:
    texts = [f"text {number}" for number in range(12_000)]
    with open_process(pool(tmp_path / "t.db", *texts)) as (reader, process):
        found = read_strings(reader, process, IntColumn(np.arange(2, 12_002)))
    assert list(found.values()) == texts


def test_string_that_is_a_blob_is_none(tmp_path: Path) -> None:
    path = edit(pool(tmp_path / "t.db", "a"), "UPDATE rocpd_string{_} SET string = x'6162' WHERE id = 2")
    with open_process(path) as (reader, process):
        assert read_strings(reader, process, IntColumn(np.array([2]))) == {2: None}


def test_ids_are_found_by_a_part_of_the_string(tmp_path: Path) -> None:
    path = pool(tmp_path / "t.db", "HIP_RUNTIME_API_EXT", "it's", "rocm_hip_api", "100%")
    with open_process(path) as (reader, process):
        assert find_string_ids(reader, process, "hip_runtime") == [2]
        assert find_string_ids(reader, process, "'") == [3]
        assert find_string_ids(reader, process, "nothing") == []


def test_file_without_a_pool_has_no_strings(tmp_path: Path) -> None:
    path = drop_views(pool(tmp_path / "t.db", "a"))
    edit(path, "DROP TABLE rocpd_string{_}")
    with open_process(path) as (reader, process):
        assert read_strings(reader, process, IntColumn(np.array([2]))) == {}
        assert find_string_ids(reader, process, "a") == []
