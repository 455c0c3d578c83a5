"""Folders of dumps: which files belong together, which of them is read, and what is said where one is missing."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest
from hlo_oracle import require_xla

from rocktools.errors import InputError, NothingToRead
from rocktools.hlo.dumps import find_dump_of, find_dumps, read_program

GALLERY = Path(__file__).with_name("gallery.hlo").read_text(encoding="utf-8")
SEQUENCE = "001: kKernel [source | next=002 (1)] exp_1 grid: [1, 1, 1] threads: [64, 1, 1]  shared_memory: 0 bytes\n"
METADATA = 'thunk_metadata {\n  thunk_info {\n    profile_annotation: "fusion.1"\n    thunk_id: 1\n  }\n  thunk_kind: "kKernel"\n}\n'  # noqa: E501
STEM = "module_0001.jit_step"


@pytest.fixture
def dump(tmp_path: Path) -> Path:
    """A folder with everything XLA writes of one program, but its proto."""
    folder = tmp_path / "hlo"
    folder.mkdir()
    for suffix, text in {
        "gfx950_gpu_after_optimizations.txt": GALLERY,
        "gfx950_gpu_after_optimizations-buffer-assignment.txt": "BufferAssignment:\n",
        "gfx950_gpu_after_optimizations-memory-usage-report.txt": "Total bytes: 8\n",
        "before_optimizations.txt": GALLERY,
        "thunk_sequence.txt": SEQUENCE,
        "thunk_metadata.txt": METADATA,
        "autotune_results.pbtxt": "version: 3\n",
        "0001.pipeline.after_pass.before_other.txt": GALLERY,
    }.items():
        (folder / f"{STEM}.{suffix}").write_text(text, encoding="utf-8")
    return folder


def add_proto(folder: Path) -> Path:
    path = folder / f"{STEM}.gfx950_gpu_after_optimizations.hlo.pb"
    path.write_bytes(require_xla().hlo_module_from_text(GALLERY).as_serialized_hlo_module_proto())
    return path


def test_the_files_of_a_program_are_one_dump(dump):
    (found,) = find_dumps(dump)
    assert found.stem == STEM
    assert found.module_path.name == f"{STEM}.gfx950_gpu_after_optimizations.txt"
    assert found.proto_path is None
    assert found.thunk_sequence_path == dump / f"{STEM}.thunk_sequence.txt"
    assert found.thunk_metadata_path == dump / f"{STEM}.thunk_metadata.txt"
    assert found.buffer_assignment_path.name.endswith("-buffer-assignment.txt")
    assert found.memory_report_path.name.endswith("-memory-usage-report.txt")


def test_the_proto_is_read_rather_than_the_text_since_it_has_the_id(dump):
    proto = add_proto(dump)
    (found,) = find_dumps(dump)
    assert found.module_path == proto
    assert read_program(found).module.program_id is not None


def test_a_program_has_its_thunks(dump):
    program = read_program(dump)
    assert program.module.name == "gallery"
    assert [thunk.instruction for thunk in program.thunks.walk()] == ["fusion.1"]


def test_the_sequence_after_the_thunk_passes_is_the_one_that_runs(dump):
    final = dump / f"{STEM}.thunk_sequence_after_thunk_passes.txt"
    final.write_text(SEQUENCE.replace("exp_1", "exp_2"))
    assert find_dumps(dump)[0].thunk_sequence_path == final


@pytest.mark.parametrize("named", ["thunk_sequence.txt", "thunk_metadata.txt", "gfx950_gpu_after_optimizations.txt"])
def test_naming_one_file_finds_its_siblings(named, dump):
    assert read_program(dump / f"{STEM}.{named}").thunks is not None


def test_who_names_the_text_gets_the_text(dump):
    add_proto(dump)
    text = dump / f"{STEM}.gfx950_gpu_after_optimizations.txt"
    assert read_program(text).module.program_id is None
    assert find_dump_of(text).module_path == text


NAMES = [
    ("module_0036.jit_train_step.cpu_after_optimizations.txt", "module_0036.jit_train_step"),
    ("module_0000.jit_f.sm_9.0_gpu_after_optimizations.txt", "module_0000.jit_f"),
    ("1700000000.module_0002.a.b.gfx942_gpu_after_optimizations.txt", "1700000000.module_0002.a.b"),
    ("train_step.after_optimizations.txt", "train_step"),
    ("x.y.after_optimizations.hlo", "x.y"),
]


@pytest.mark.parametrize("name, stem", NAMES)
def test_names_of_every_backend_and_origin_are_known(name, stem, tmp_path):
    (tmp_path / name).write_text(GALLERY)
    (tmp_path / f"{stem}.thunk_sequence.txt").write_text(SEQUENCE)
    (found,) = find_dumps(tmp_path)
    assert (found.stem, found.thunk_sequence_path is not None) == (stem, True)


def test_packed_files_are_found(tmp_path):
    path = tmp_path / "m.after_optimizations.txt.gz"
    path.write_bytes(gzip.compress(GALLERY.encode()))
    assert read_program(tmp_path).module.name == "gallery"


def test_folders_below_are_looked_into_and_their_files_kept_apart(dump):
    below = dump / "rank1"
    below.mkdir()
    (below / f"{STEM}.gfx950_gpu_after_optimizations.txt").write_text(GALLERY)
    assert [found.thunk_sequence_path is not None for found in find_dumps(dump)] == [True, False]


def test_without_names_of_xla_any_text_with_a_module_counts(tmp_path):
    (tmp_path / "mine.hlo").write_text(GALLERY)
    (tmp_path / "notes.txt").write_text("nothing\n")
    (found,) = find_dumps(tmp_path)
    assert (found.stem, read_program(tmp_path).module.name) == ("mine", "gallery")


def test_several_programs_and_none_are_errors(dump, tmp_path):
    empty = tmp_path / "empty"
    empty.mkdir()
    assert find_dumps(empty) == []
    with pytest.raises(NothingToRead, match="no optimized HLO"):
        read_program(empty)
    (dump / "other.after_optimizations.txt").write_text(GALLERY)
    with pytest.raises(InputError, match="2 programs") as caught:
        read_program(dump)
    assert STEM in caught.value.what


def test_a_sequence_without_its_module_is_told(dump):
    (dump / f"{STEM}.gfx950_gpu_after_optimizations.txt").unlink()
    with pytest.raises(NothingToRead, match="of this module"):
        read_program(dump / f"{STEM}.thunk_sequence.txt")


def test_a_damaged_proto_is_replaced_by_the_text_and_told(dump):
    (dump / f"{STEM}.gfx950_gpu_after_optimizations.hlo.pb").write_bytes(b"\xff" * 50)
    program = read_program(dump)
    assert program.module.name == "gallery"
    assert [finding.rule for finding in program.module.findings] == ["dump-file-unreadable"]
    assert "text was read instead" in program.module.findings[0].message


def test_an_unreadable_thunk_sequence_leaves_the_module(dump):
    (dump / f"{STEM}.thunk_sequence.txt").write_text("")
    program = read_program(dump)
    assert program.thunks is None
    assert [finding.rule for finding in program.module.findings] == ["dump-file-unreadable"]


def test_a_file_of_another_name_is_read_by_itself(tmp_path):
    (tmp_path / "step").write_text(GALLERY)
    assert read_program(tmp_path / "step").module.name == "gallery"
    with pytest.raises(InputError, match="No such file"):
        read_program(tmp_path / "none.after_optimizations.txt")
