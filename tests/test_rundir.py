"""The run directory: nothing is overwritten, nothing half-written looks whole, a damaged manifest says what it is."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
from dataclasses import fields, replace
from pathlib import Path

import pytest

from rocktools import __version__
from rocktools.errors import DamagedFile, InputError, RocktoolsError, UnsupportedVersion, UsageError
from rocktools.rundir import (
    CommandRecord,
    DatabaseRecord,
    Manifest,
    PassRecord,
    create_run_directory,
    hash_file,
    hash_files,
    load_json,
    read_command_records,
    read_manifest,
    read_pass_records,
    write_command_record,
    write_manifest,
    write_pass_record,
)

RECORD = PassRecord(
    name="pmc/waves",
    kind="counters",
    attempt=1,
    folder="pmc/waves",
    argv=("rocprofv3", "--pmc", "SQ_WAVES"),
    environment_added={"XLA_FLAGS": "--x"},
    environment_removed=("LD_PRELOAD",),
    started_utc="2026-09-01T00:00:00+00:00",
    duration_s=1.5,
    exit_code=0,
    signal_number=None,
    outcome="good",
    databases=(
        DatabaseRecord(
            path="pmc/waves/1.db",
            sha256="0" * 64,
            size_bytes=2**40,
            processes=("a", "b"),
            schema_version=None,
            dispatches_count=3,
        ),
    ),
    is_verified=True,
    findings=({"rule": "small-thing", "severity": "note"},),
    facts={"counters": ["SQ_WAVES"]},
)
COMMAND = CommandRecord(
    argv=("rocktools", "trace", "--resume"),
    created_utc="2026-09-02T00:00:00+00:00",
    facts={"host": {"hostname": "h"}},
    findings=({"rule": "small-thing", "severity": "note"},),
)
MANIFEST = Manifest(
    argv=("rocktools", "trace", "--", "python", "train.py"),
    created_utc="2026-09-01T00:00:00+00:00",
    is_simulated=False,
    facts={"seed": 2**62, "name": "Zürich\n", "nested": {"a": [1, None, 0.1]}},
    files={"trace/1.db": "0" * 64},
    passes=(RECORD, replace(RECORD, attempt=2)),
    captures=(COMMAND, replace(COMMAND, findings=())),
)


# The folder


def test_folder_is_made_with_its_parents(tmp_path: Path) -> None:
    assert create_run_directory(tmp_path / "a" / "b" / "run") == tmp_path / "a" / "b" / "run"
    assert (tmp_path / "a" / "b" / "run").is_dir()


def test_empty_folder_is_taken(tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    assert create_run_directory(tmp_path / "run").is_dir()


@pytest.mark.parametrize("name", ["full", "hidden", "file", "dangling", "file/below", "loop"])
def test_whatever_is_there_stays(tmp_path: Path, name: str) -> None:
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "notes.txt").write_text("mine")
    (tmp_path / "hidden").mkdir()
    (tmp_path / "hidden" / ".notes").write_text("mine")
    (tmp_path / "file").write_text("mine")
    (tmp_path / "dangling").symlink_to(tmp_path / "nowhere")
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(UsageError) as caught:
        create_run_directory(tmp_path / name)
    assert caught.value.where == str(tmp_path / name)
    assert sorted(tmp_path.rglob("*")) == before


# Hashes


def test_hashes_are_those_of_an_independent_program(tmp_path: Path) -> None:
    sha256sum = shutil.which("sha256sum")
    if sha256sum is None:
        pytest.skip("there is no sha256sum to compare with")
    (tmp_path / "trace").mkdir()
    contents = {"trace/a b.db": b"", "trace/long.db": os.urandom(3 * 2**20 + 5), "ü.txt": b"\0\n"}
    for name, content in contents.items():
        (tmp_path / name).write_bytes(content)
    (tmp_path / "manifest.json").write_text("{}")
    (tmp_path / "trace" / "manifest.json").write_text("another")
    hashes = hash_files(tmp_path)
    assert sorted(hashes) == sorted([*contents, "trace/manifest.json"])
    for name, digest in hashes.items():
        ran = subprocess.run([sha256sum, "--", name], cwd=tmp_path, capture_output=True, text=True, check=True)
        assert ran.stdout.split()[0].lstrip("\\") == digest


def test_hash_of_a_known_text_is_the_published_one(tmp_path: Path) -> None:
    (tmp_path / "abc").write_bytes(b"abc")
    assert hash_file(tmp_path / "abc") == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
    assert hash_file(tmp_path / "abc") == hashlib.sha256(b"abc").hexdigest()


def test_what_is_no_file_has_no_hash(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "dangling").symlink_to(tmp_path / "nowhere")
    (tmp_path / "folder").mkdir()
    assert hash_files(tmp_path) == {}


# Writing


def test_manifest_reads_back_equal(tmp_path: Path) -> None:
    path = write_manifest(tmp_path, MANIFEST)
    assert read_manifest(tmp_path) == MANIFEST
    assert [entry.name for entry in tmp_path.iterdir()] == ["manifest.json"]
    document = json.loads(path.read_text(encoding="utf-8"))
    assert document["schema"] == "rocktools.run/1"
    assert document["rocktools_version"] == __version__


def test_arguments_that_are_no_utf8_read_back_equal(tmp_path: Path) -> None:
    odd = os.fsdecode(b"caf\xe9.db")
    manifest = replace(MANIFEST, argv=("rocktools", odd), files={odd: "0" * 64}, passes=())
    write_manifest(tmp_path, manifest)
    assert read_manifest(tmp_path) == manifest
    (tmp_path / "manifest.json").read_text(encoding="utf-8")


def test_manifest_is_not_overwritten_unless_that_is_asked_for(tmp_path: Path) -> None:
    write_manifest(tmp_path, MANIFEST)
    before = (tmp_path / "manifest.json").read_bytes()
    other = replace(MANIFEST, is_simulated=True)
    with pytest.raises(UsageError) as caught:
        write_manifest(tmp_path, other)
    assert caught.value.reference == "manifest-exists"
    assert (tmp_path / "manifest.json").read_bytes() == before
    write_manifest(tmp_path, other, replaces=True)
    assert read_manifest(tmp_path) == other


def test_manifest_that_cannot_be_written_to_its_end_leaves_the_old_one(tmp_path: Path) -> None:
    """A limit of the file size stands for a full disk."""
    write_manifest(tmp_path, MANIFEST)
    before = (tmp_path / "manifest.json").read_bytes()
    script = (
        "import resource, signal, sys\n"
        "from pathlib import Path\n"
        "from rocktools.errors import RocktoolsError\n"
        "from rocktools.rundir import Manifest, write_manifest\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (1000, resource.RLIM_INFINITY))\n"
        "manifest = Manifest(argv=('x' * 5000,), created_utc='', is_simulated=True)\n"
        "try:\n"
        "    write_manifest(Path(sys.argv[1]), manifest, replaces=True)\n"
        "except RocktoolsError as error:\n"
        "    print(error.reference, error.where)\n"
    )
    ran = subprocess.run([sys.executable, "-c", script, str(tmp_path)], capture_output=True, text=True, check=True)
    assert ran.stdout == f"output-failed {tmp_path / 'manifest.json'}\n"
    assert [entry.name for entry in tmp_path.iterdir()] == ["manifest.json"]
    assert (tmp_path / "manifest.json").read_bytes() == before


def test_manifest_that_is_interrupted_does_not_appear(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(self: Path, target: Path) -> None:
        assert json.loads(self.read_text(encoding="utf-8"))["schema"] == "rocktools.run/1"
        assert self.parent == target.parent
        raise KeyboardInterrupt

    monkeypatch.setattr(Path, "replace", interrupted)
    with pytest.raises(KeyboardInterrupt):
        write_manifest(tmp_path, MANIFEST)
    assert list(tmp_path.iterdir()) == []


def test_folder_that_is_gone_is_a_plain_error(tmp_path: Path) -> None:
    with pytest.raises(RocktoolsError) as caught:
        write_manifest(tmp_path / "gone", MANIFEST)
    assert caught.value.reference == "output-failed"


# Reading


def test_folder_without_a_manifest_is_a_run_that_did_not_end(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for path in (tmp_path, tmp_path / "gone", tmp_path / "file"):
        with pytest.raises(InputError) as caught:
            read_manifest(path)
        assert caught.value.reference == "no-manifest"
        assert caught.value.where == str(path)


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{",
        b"\xff\xfe",
        b'{"schema": "rocktools.run/1"',
        b"[" * 100_000,
        b"1" * 10_000,
        b'{"schema": "rocktools.run/1"}',
    ],
)
def test_manifest_that_is_no_json_is_damaged(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "manifest.json"
    path.write_bytes(content)
    with pytest.raises((DamagedFile, UnsupportedVersion)) as caught:
        read_manifest(tmp_path)
    assert caught.value.where == str(path)
    assert len(str(caught.value)) < 500


def test_every_prefix_of_a_manifest_is_damaged(tmp_path: Path) -> None:
    path = write_manifest(tmp_path, MANIFEST)
    whole = path.read_bytes()
    for length in range(0, len(whole.rstrip()), 7):
        path.write_bytes(whole[:length])
        with pytest.raises(DamagedFile):
            read_manifest(tmp_path)


@pytest.mark.parametrize("schema", ["rocktools.run/2", "rocktools.pass/1", None, 1])
def test_manifest_of_another_schema_names_both(tmp_path: Path, schema: object) -> None:
    (tmp_path / "manifest.json").write_text(json.dumps({"schema": schema}))
    with pytest.raises(UnsupportedVersion) as caught:
        read_manifest(tmp_path)
    assert str(caught.value) == (
        f"manifest-schema: the schema of the manifest is {schema!r}, not 'rocktools.run/1'\n"
        f"  where: {tmp_path / 'manifest.json'}"
    )


@pytest.mark.parametrize("document", ["[]", "1", "null", '"text"'])
def test_json_that_is_no_object_is_another_schema(tmp_path: Path, document: str) -> None:
    (tmp_path / "manifest.json").write_text(document)
    with pytest.raises(UnsupportedVersion):
        read_manifest(tmp_path)


WRONG = (None, 5, "text", ["text"], {"a": 1})


@pytest.mark.parametrize("name", [item.name for item in fields(Manifest)])
def test_member_that_is_missing_or_of_another_type_is_named(tmp_path: Path, name: str) -> None:
    path = write_manifest(tmp_path, MANIFEST)
    whole = json.loads(path.read_text(encoding="utf-8"))
    for value in WRONG:
        if type(value) is not type(whole[name]):
            path.write_text(json.dumps({**whole, name: value}))
            with pytest.raises(DamagedFile, match=f"the manifest lacks or mangles '{name}': "):
                read_manifest(tmp_path)
    path.write_text(json.dumps({member: value for member, value in whole.items() if member != name}))
    if name in ("passes", "captures"):  # manifests of the first version have none
        assert read_manifest(tmp_path) == replace(MANIFEST, **{name: ()})
    else:
        with pytest.raises(DamagedFile, match=f"the manifest lacks or mangles '{name}'"):
            read_manifest(tmp_path)


def test_members_of_a_later_version_are_passed_over(tmp_path: Path) -> None:
    path = write_manifest(tmp_path, MANIFEST)
    whole = json.loads(path.read_text(encoding="utf-8"))
    path.write_text(json.dumps({**whole, "weather": "fine"}))
    assert read_manifest(tmp_path) == MANIFEST


def test_manifest_that_is_a_folder_is_a_plain_error(tmp_path: Path) -> None:
    (tmp_path / "manifest.json").mkdir()
    with pytest.raises(InputError) as caught:
        read_manifest(tmp_path)
    assert caught.value.reference == "unreadable-file"


# Records of passes


def test_records_read_back_equal_in_the_order_of_time(tmp_path: Path) -> None:
    records = [
        replace(RECORD, attempt=2, started_utc="2026-09-01T00:05:00+00:00"),
        RECORD,
        replace(RECORD, name="trace", exit_code=None, signal_number=9, is_verified=False, databases=()),
    ]
    for record in records:
        write_pass_record(tmp_path, record)
    assert read_pass_records(tmp_path) == (RECORD, records[2], records[0])
    assert sorted(path.name for path in (tmp_path / "passes").iterdir()) == [
        "pmc.waves.1.json",
        "pmc.waves.2.json",
        "trace.1.json",
    ]


def test_no_records_are_none(tmp_path: Path) -> None:
    assert read_pass_records(tmp_path) == ()
    assert read_command_records(tmp_path) == ()


BROKEN = [b"", b"{", b"\xff\xfe", b"[" * 100_000, b"1" * 5_000, b'{"schema": 1' + b"0" * 5_000 + b"}"]


@pytest.mark.parametrize("content", BROKEN)
def test_broken_records_say_which_kind_of_file_they_are(tmp_path: Path, content: bytes) -> None:
    for path, read, reference, kind in (
        (write_pass_record(tmp_path, RECORD), read_pass_records, "pass-record-damaged", "a pass"),
        (write_command_record(tmp_path, COMMAND), read_command_records, "command-record-damaged", "a command"),
    ):
        path.write_bytes(content)
        with pytest.raises(DamagedFile) as caught:
            read(tmp_path)
        assert (caught.value.reference, caught.value.where) == (reference, str(path))
        assert caught.value.what.startswith(f"the record of {kind} is not JSON: ")


@pytest.mark.parametrize("document", ["[]", "1", '{"schema": "rocktools.run/1"}'])
def test_records_of_another_schema_say_which_kind_of_file_they_are(tmp_path: Path, document: str) -> None:
    for path, read, reference in (
        (write_pass_record(tmp_path, RECORD), read_pass_records, "pass-record-schema"),
        (write_command_record(tmp_path, COMMAND), read_command_records, "command-record-schema"),
    ):
        path.write_text(document)
        with pytest.raises(UnsupportedVersion) as caught:
            read(tmp_path)
        assert (caught.value.reference, caught.value.where) == (reference, str(path))


def test_commands_read_back_in_their_order(tmp_path: Path) -> None:
    commands = tuple(replace(COMMAND, argv=(str(number),)) for number in range(11))
    for command in commands:
        write_command_record(tmp_path, command)
    assert read_command_records(tmp_path) == commands


@pytest.mark.parametrize("name", [item.name for item in fields(CommandRecord)])
def test_record_of_a_command_with_a_mangled_member_is_damaged_and_named(tmp_path: Path, name: str) -> None:
    path = write_command_record(tmp_path, COMMAND)
    whole = json.loads(path.read_text(encoding="utf-8"))
    for value in (*WRONG, True):
        if type(value) is not type(whole[name]):
            path.write_text(json.dumps({**whole, name: value}))
            with pytest.raises(DamagedFile, match=f"'{name}'"):
                read_command_records(tmp_path)


def test_record_of_an_attempt_is_not_overwritten(tmp_path: Path) -> None:
    path = write_pass_record(tmp_path, RECORD)
    before = path.read_bytes()
    with pytest.raises(UsageError) as caught:
        write_pass_record(tmp_path, replace(RECORD, exit_code=1))
    assert caught.value.reference == "pass-record-exists"
    assert path.read_bytes() == before


@pytest.mark.parametrize("name", [item.name for item in fields(PassRecord)])
def test_record_with_a_mangled_member_is_damaged_and_named(tmp_path: Path, name: str) -> None:
    path = write_pass_record(tmp_path, RECORD)
    whole = json.loads(path.read_text(encoding="utf-8"))
    for value in ({"a": 1}, ["text"], "text"):
        if type(value) is not type(whole[name]):
            path.write_text(json.dumps({**whole, name: value}))
            with pytest.raises(DamagedFile) as caught:
                read_pass_records(tmp_path)
            assert caught.value.where == str(path)
            assert f"'{name}'" in caught.value.what
    del whole[name]
    path.write_text(json.dumps(whole))
    with pytest.raises(DamagedFile, match=f"'{name}'"):
        read_pass_records(tmp_path)


@pytest.mark.parametrize("database", [5, {}, {"path": 1}, None])
def test_record_with_a_mangled_database_is_damaged(tmp_path: Path, database: object) -> None:
    path = write_pass_record(tmp_path, RECORD)
    whole = json.loads(path.read_text(encoding="utf-8"))
    path.write_text(json.dumps({**whole, "databases": [database]}))
    with pytest.raises(DamagedFile):
        read_pass_records(tmp_path)
    manifest = write_manifest(tmp_path, MANIFEST)
    document = json.loads(manifest.read_text(encoding="utf-8"))
    document["passes"][0]["databases"] = [database]
    manifest.write_text(json.dumps(document))
    with pytest.raises(DamagedFile):
        read_manifest(tmp_path)


@pytest.mark.parametrize("text", ['{"a": "\\ud800"}', '{"\\uDC00": 1}', '["\\ud83d x"]'])
def test_json_with_half_of_a_character_is_refused(tmp_path, text):
    path = tmp_path / "a.json"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(ValueError):  # noqa: PT011 (of json and of unicode alike)
        load_json(path)
    path.write_text('{"a": "\\ud83d\\ude00"}', encoding="utf-8")
    assert load_json(path) == {"a": "\U0001f600"}
