"""Serialized executables: made ones, and two of a whole training step against their thunk sequences."""

from __future__ import annotations

import contextlib
import hashlib
import zlib
from pathlib import Path

import pytest
from executable_files import make_executable, serialize
from hypothesis import given
from hypothesis import strategies as st

from rocktools.errors import InputError, MissingExtra, UnknownFormat, UnsupportedVersion
from rocktools.hlo.dumps import find_dumps, read_program
from rocktools.replay.executable import parse_executable, read_executable
from rocktools.replay.executable_proto import executable_messages

CODES = {"loop_fusion.1": b"\x01\x02", "sort.2": b"\x03" * 9}


@pytest.mark.parametrize("is_split", [False, True])
@pytest.mark.parametrize("has_ifrt_header", [False, True])
def test_kernels_come_in_launch_order_with_code_and_launch(is_split, has_ifrt_header):
    content = serialize(make_executable(CODES), is_split=is_split, has_ifrt_header=has_ifrt_header)
    read = parse_executable(content, "made")
    assert (read.module_name, read.architecture) == ("jit_step", "gfx950:sramecc+:xnack-")
    assert [thunk.instruction for thunk in read.thunks] == list(CODES)
    first = read.launches[0]
    assert (first.thunk_id, first.kind, first.kernel_name) == (1, "kCustomKernel", "loop_fusion_1")
    assert (first.grid_workgroups, first.workgroup_workitems, first.dynamic_lds_bytes) == ((12, 1, 1), (256, 1, 1), 64)
    assert first.code is not None
    assert first.code.sha256 == hashlib.sha256(CODES["loop_fusion.1"]).hexdigest()
    assert first.code.lds_bytes == 512


@pytest.mark.parametrize("is_split", [False, True])
def test_entry_of_the_compilation_cache_is_unpacked(is_split):
    content = serialize(make_executable(CODES), is_split=is_split, has_ifrt_header=True)
    entry = zlib.compress(b"\0\0\0\x07" + content)
    assert [thunk.instruction for thunk in parse_executable(entry, "cache").thunks] == list(CODES)


def test_entry_that_is_packed_with_zstd_is_read_or_names_what_is_missing():
    content = b"\0\0\0\x07" + serialize(make_executable(CODES))
    zstandard = None
    with contextlib.suppress(ImportError):
        import zstandard
    packed = b"\x28\xb5\x2f\xfd" + bytes(9) if zstandard is None else zstandard.compress(content)
    if zstandard is None:
        with pytest.raises((MissingExtra, InputError)):
            parse_executable(packed, "cache")
    else:
        assert len(parse_executable(packed, "cache").thunks) == 2


def test_nested_thunks_follow_what_they_are_nested_in():
    executable = make_executable({"before.1": b"\x01"})
    loop = executable.thunks.add()
    loop.info.profile_annotation = "while.1"
    made = make_executable({"condition.1": b"\x02", "body.1": b"\x03", "wrapped.1": b"\x04"}).thunks
    condition, body, wrapped = [each.SerializeToString() for each in made]
    loop.kWhile_7.condition.thunks.add().ParseFromString(condition)
    start = loop.kWhile_7.body.thunks.add()
    start.info.profile_annotation = "all-gather-start.1"
    start.kAsyncStart_57.thunks.thunks.add().ParseFromString(wrapped)
    loop.kWhile_7.body.thunks.add().ParseFromString(body)
    done = loop.kWhile_7.body.thunks.add()
    done.kAsyncDone_58 = b""
    read = parse_executable(serialize(executable), "made")
    assert [(thunk.kind, thunk.instruction) for thunk in read.thunks] == [
        ("kCustomKernel", "before.1"),
        ("kWhile", "while.1"),
        ("kCustomKernel", "condition.1"),
        ("kAsyncStart", "all-gather-start.1"),
        ("kCustomKernel", "wrapped.1"),
        ("kCustomKernel", "body.1"),
        ("kAsyncDone", ""),
    ]


def test_library_calls_are_the_same_if_their_problem_is():
    executable = make_executable({}, matmuls=3)
    executable.thunks[2].kCublasLtMatmul_22.algorithm = 5
    first, second, third = parse_executable(serialize(executable), "made").thunks
    assert first.configuration_sha256 == second.configuration_sha256 != third.configuration_sha256
    assert first.kernel_name == ""


def test_executable_of_one_code_object_has_kernels_and_no_launches():
    executable = make_executable(CODES)
    old = executable_messages()["Executable"](
        binary=executable.thunks[0].kCustomKernel_36.kernel.loader.in_memory.content
    )
    read = parse_executable(serialize(old), "old")
    assert (read.thunks, list(read.kernels)) == ((), ["loop_fusion_1"])
    assert [thunk.kernel_name for thunk in read.as_thunks()] == ["loop_fusion_1"]


def test_element_of_a_list_in_a_record_is_refused():
    from riegeli_files import records_chunk, write_riegeli

    messages = executable_messages()
    manifest = messages["Manifest"]()
    manifest.records.add().field.path.add(field_number=13, index=b"\x08\x01")
    content = write_riegeli([records_chunk([manifest.SerializeToString(), b""], is_packed=False)])
    outer = messages["ExecutableAndOptions"](serialized_executable=[content]).SerializeToString()
    with pytest.raises(UnsupportedVersion):
        parse_executable(outer, "made")


@pytest.mark.parametrize("content", [b"\x08\x01", b"HloModule jit_f", bytes(100)])
def test_other_files_are_told(content):
    with pytest.raises(InputError):
        parse_executable(content, "other")


def test_missing_file_is_told(tmp_path):
    with pytest.raises(InputError, match="cannot be read"):
        read_executable(tmp_path / "absent")


@given(data=st.data(), is_split=st.booleans())
def test_every_prefix_ends_in_thunks_or_an_error(data, is_split):
    content = serialize(make_executable({"a.1": b"\x01"}), is_split=is_split, has_ifrt_header=True)
    with contextlib.suppress(InputError):
        parse_executable(content[: data.draw(st.integers(0, len(content)))], "cut")


@pytest.mark.parametrize("build, kernels_count, matmuls_count", [("triton", 312, 0), ("blaslt", 255, 49)])
def test_whole_step_launches_what_its_thunk_sequence_says(shared: Path, build, kernels_count, matmuls_count):
    folder = shared / "data/hlo/gfx950-mixtral-8x22b" / build
    read = read_executable(folder / "executable.serialized")
    program = read_program(find_dumps(folder)[0])
    assert program.thunks is not None
    ours = [
        (t.thunk_id, t.kind, t.instruction, t.kernel_name, t.grid_workgroups, t.workgroup_workitems)
        for t in read.thunks
    ]
    assert ours == [
        (t.thunk_id, t.kind, t.instruction, t.kernel, t.grid_workgroups, t.workgroup_workitems)
        for t in program.thunks.walk()
    ]
    assert len(read.launches) == kernels_count
    assert all(thunk.code is not None and thunk.code.code_bytes > 0 for thunk in read.launches)
    assert sum(thunk.kind == "kCublasLtMatmul" for thunk in read.thunks) == matmuls_count
    assert (read.module_name, read.architecture) == ("jit_step", "gfx950:sramecc+:xnack-")


def test_whole_step_that_is_cut_is_told(shared: Path):
    content = (shared / "data/hlo/gfx950-mixtral-8x22b/triton/executable.serialized").read_bytes()
    for size in (5000, 100_000, len(content) - 1000):
        with pytest.raises(InputError):
            parse_executable(content[:size], "cut")


def test_text_is_no_executable():
    with pytest.raises(UnknownFormat, match="no serialized executable"):
        parse_executable(b"\x0a\x02", "text")
