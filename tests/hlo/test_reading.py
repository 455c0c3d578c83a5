"""Files of HLO: told apart by their content, and what is something else is called by its name."""

from __future__ import annotations

import gzip
import shutil
from pathlib import Path

import pytest
from hlo_oracle import require_xla

from rocktools.errors import DamagedFile, InputError, UnknownFormat
from rocktools.hlo.reading import is_hlo_text, read_hlo

GALLERY = Path(__file__).with_name("gallery.hlo")


def written(path: Path, content: bytes) -> Path:
    path.write_bytes(content)
    return path


def test_text_is_read_under_any_name(tmp_path):
    module = read_hlo(written(tmp_path / "step.pb", GALLERY.read_bytes()))
    assert (module.name, module.source, module.findings) == ("gallery", str(tmp_path / "step.pb"), ())


def test_packed_text_is_unpacked(tmp_path):
    packed = written(tmp_path / "step.txt.gz", gzip.compress(GALLERY.read_bytes()))
    assert read_hlo(packed).instructions == read_hlo(GALLERY).instructions
    assert is_hlo_text(packed)


def test_a_proto_is_read_under_any_name_and_packed(tmp_path):
    data = require_xla().hlo_module_from_text(GALLERY.read_text()).as_serialized_hlo_module_proto()
    plain, packed = written(tmp_path / "step.txt", data), written(tmp_path / "packed", gzip.compress(data))
    assert read_hlo(plain).instructions == read_hlo(packed).instructions
    assert read_hlo(plain).program_id is not None
    assert not is_hlo_text(plain)


def test_a_program_without_schedule_is_noted(tmp_path):
    text = GALLERY.read_bytes().replace(b", is_scheduled=true", b"")
    module = read_hlo(written(tmp_path / "before.txt", text))
    assert [finding.rule for finding in module.findings] == ["hlo-not-scheduled"]
    assert module.is_complete


OTHERS = {
    "a thunk sequence": (b"001: kCublasLtMatmul [source | next=002 (1)] (no description)\n", "thunk sequence"),
    "thunk metadata": (b'thunk_metadata {\n  thunk_kind: "kCopy"\n}\n', "thunk metadata"),
    "a buffer assignment": (b"BufferAssignment:\nallocation 0: size 8\n", "buffer assignment"),
    "StableHLO": (b"module @jit_f attributes {} {\n}\n", "StableHLO"),
    "other text": (b"hello\n", "HloModule"),
    "a database": (b"SQLite format 3\0" + bytes(100), "SQLite"),
    "a profile": (b"\x0a\x30\x08\x01\x12\x0d/device:GPU:0\x1a\x02\x08\x01" + bytes(30), "JAX profile"),
}


@pytest.mark.parametrize("what", OTHERS)
def test_other_files_are_called_by_their_names(what, tmp_path):
    content, word = OTHERS[what]
    with pytest.raises(UnknownFormat, match=word) as caught:
        read_hlo(written(tmp_path / "file", content))
    assert caught.value.where == str(tmp_path / "file")


DAMAGED = {
    "empty": b"",
    "blank": b" \n\n",
    "half of a packed file": gzip.compress(b"HloModule m\n" * 50)[:30],
    "binary junk": bytes(range(256)) * 4,
}


@pytest.mark.parametrize("what", DAMAGED)
def test_damaged_files_are_one_error(what, tmp_path):
    with pytest.raises(DamagedFile):
        read_hlo(written(tmp_path / "file", DAMAGED[what]))


def test_a_folder_and_a_missing_file_are_input_errors(tmp_path):
    with pytest.raises(InputError, match="folder"):
        read_hlo(tmp_path)
    with pytest.raises(InputError, match="No such file"):
        read_hlo(tmp_path / "nothing")
    assert not is_hlo_text(tmp_path / "nothing")


def test_a_file_with_letters_that_are_no_utf_8_is_read(tmp_path):
    text = GALLERY.read_bytes().replace(b"layer/exp", b"layer\xff/exp")
    assert read_hlo(written(tmp_path / "a.txt", text)).is_complete


def test_reading_leaves_the_file_alone(tmp_path):
    path = Path(shutil.copy(GALLERY, tmp_path / "a.txt"))
    path.chmod(0o444)
    read_hlo(path)
    assert [each.name for each in tmp_path.iterdir()] == ["a.txt"]
