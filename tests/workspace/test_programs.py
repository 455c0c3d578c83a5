"""Programs of files and folders: each once, under the id by which profiles call it."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest
from tiny_program import STEM, TINY, build_tiny, hlo_text, kernel, write_tiny_dump
from tiny_run import make_proto, tiny_trace, write_tiny_profile, write_tiny_trace

from rocktools.demo.xspace_writer import SpaceRecord, metadata_plane, write_xspace
from rocktools.errors import DamagedFile, InputError, NothingToRead, UnknownFormat, UsageError
from rocktools.frames import PROGRAMS, require_frame
from rocktools.workspace.programs import FoundPrograms, choose_program, find_programs, list_programs


def ids(found: FoundPrograms) -> list[tuple[str, str]]:
    return [(program.program_id, program.name) for program in found.programs]


def write_profile(path: Path, **protos: bytes) -> Path:
    """Protos by name and id: `jit_a_3` is `jit_a(3)`."""
    named = {f"{name.rpartition('_')[0]}({name.rpartition('_')[2]})": proto for name, proto in protos.items()}
    return write_xspace(path, SpaceRecord(planes=[metadata_plane(named)]))


@pytest.fixture
def dump(tmp_path: Path) -> Path:
    (tmp_path / "dump").mkdir()
    write_tiny_dump(tmp_path / "dump")
    return tmp_path / "dump"


# One place


def test_a_folder_of_a_dump_has_the_program_with_its_thunks(dump: Path) -> None:
    (found,) = find_programs(dump).programs
    assert found.path.name == f"{STEM}_after_optimizations.txt"
    assert found.program.thunks is not None


def test_the_id_that_a_text_lacks_is_in_the_name_of_its_file(dump: Path) -> None:
    assert ids(find_programs(dump)) == [("7", "jit_tiny")]
    assert ids(find_programs(dump / f"{STEM}_after_optimizations.txt")) == [("7", "jit_tiny")]


def test_a_text_by_another_name_has_its_own_name_for_an_id(tmp_path: Path) -> None:
    (tmp_path / "step.txt").write_text(hlo_text(TINY))
    (tmp_path / "step.txt.gz").write_bytes(gzip.compress(hlo_text(TINY).encode()))
    for name in ("step.txt", "step.txt.gz"):
        assert ids(find_programs(tmp_path / name)) == [("jit_tiny", "jit_tiny")]


def test_a_profile_has_its_programs_the_largest_first(tmp_path: Path) -> None:
    path = write_profile(
        tmp_path / "a.xplane.pb", jit_a_3=make_proto("jit_a", 3), jit_b_5=make_proto("jit_b", 5, extra=2)
    )
    assert ids(find_programs(path)) == [("5", "jit_b"), ("3", "jit_a")]
    assert find_programs(path).profiles == (path,)


def test_a_proto_without_an_id_has_that_of_its_entry(tmp_path: Path) -> None:
    path = write_profile(tmp_path / "a.xplane.pb", jit_a_3=make_proto("jit_a"))
    assert ids(find_programs(path)) == [("3", "jit_a")]


def test_a_run_directory_has_what_is_in_hlo_and_in_its_profiles(dump: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    (run / "xspace").mkdir(parents=True)
    dump.rename(run / "hlo")
    write_profile(run / "xspace" / "a.xplane.pb", jit_a_3=make_proto("jit_a", 3))
    (run / "else").mkdir()
    (run / "else" / "module_0009.jit_other.gpu_after_optimizations.txt").write_text(hlo_text([kernel("x.1")]))
    assert ids(find_programs(run)) == [("7", "jit_tiny"), ("3", "jit_a")]


# Each once


def test_every_process_dumps_the_same_program_which_is_one(dump: Path, tmp_path: Path) -> None:
    for rank in range(3):
        folder = tmp_path / "all" / f"rank_{rank}"
        folder.mkdir(parents=True)
        write_tiny_dump(folder)
    assert ids(find_programs(tmp_path / "all")) == [("7", "jit_tiny")]


def test_programs_of_one_name_and_size_that_differ_in_a_shape_are_two(tmp_path: Path) -> None:
    protos = {"jit_a_3": make_proto("jit_a", 3, size=8), "jit_a_4": make_proto("jit_a", 4, size=16)}
    assert ids(find_programs(write_profile(tmp_path / "a.xplane.pb", **protos))) == [("3", "jit_a"), ("4", "jit_a")]


def test_equal_programs_of_two_ids_are_two_since_events_name_the_id(tmp_path: Path) -> None:
    protos = {"jit_a_3": make_proto("jit_a", 3), "jit_a_4": make_proto("jit_a", 4)}
    assert ids(find_programs(write_profile(tmp_path / "a.xplane.pb", **protos))) == [("3", "jit_a"), ("4", "jit_a")]


_TEXT_OF_A = """HloModule jit_a, is_scheduled=true

ENTRY %main (p: f32[8]) -> f32[8] {
  %p = f32[8]{0} parameter(0)
  ROOT %negate.0 = f32[8]{0} negate(%p)
}
"""


def test_a_text_and_the_proto_of_the_same_program_are_one_with_the_id_of_the_proto(tmp_path: Path) -> None:
    (tmp_path / "a.gpu_after_optimizations.txt").write_text(_TEXT_OF_A, encoding="utf-8")
    write_profile(tmp_path / "a.xplane.pb", jit_a_3=make_proto("jit_a", 3))
    (found,) = find_programs(tmp_path).programs
    assert (found.program_id, found.name, found.path.name) == ("3", "jit_a", "a.gpu_after_optimizations.txt")


def test_a_text_that_several_ids_could_mean_stays_a_program_of_its_own(tmp_path: Path) -> None:
    (tmp_path / "a.gpu_after_optimizations.txt").write_text(_TEXT_OF_A, encoding="utf-8")
    write_profile(tmp_path / "a.xplane.pb", jit_a_3=make_proto("jit_a", 3), jit_a_4=make_proto("jit_a", 4))
    assert sorted(ids(find_programs(tmp_path))) == [("3", "jit_a"), ("4", "jit_a"), ("jit_a", "jit_a")]


# What is no program


@pytest.mark.parametrize(
    "content, error", [(b"hello\n", InputError), (b"", DamagedFile), (b"\0\xff" * 32, DamagedFile)]
)
def test_a_file_that_is_no_program_is_one_error(tmp_path: Path, content: bytes, error: type[InputError]) -> None:
    (tmp_path / "x.txt").write_bytes(content)
    with pytest.raises(error, match=r"x\.txt"):
        find_programs(tmp_path / "x.txt")


def test_a_trace_in_the_place_of_a_program_is_told_with_the_place_it_belongs_to(tmp_path: Path) -> None:
    with pytest.raises(UnknownFormat, match=r"a database \(SQLite\), not a compiled program(?s:.*)PATH --hlo \[FILE\]"):
        find_programs(write_tiny_trace(tmp_path / "1_results.db", tiny_trace(steps_count=1)))


def test_nothing_there_and_nothing_in_it_are_two_errors(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no-such-file"):
        find_programs(tmp_path / "none")
    with pytest.raises(NothingToRead, match="no-programs"):
        find_programs(tmp_path)
    profile = write_tiny_profile(tmp_path / "a.xplane.pb", tiny_trace(steps_count=1))
    with pytest.raises(NothingToRead, match="no-programs"):
        find_programs(profile)


def test_a_damaged_file_among_others_is_a_finding(dump: Path) -> None:
    (dump / "module_0008.jit_bad.gfx950_gpu_after_optimizations.hlo.pb").write_bytes(b"\0\xff" * 32)
    (dump / "cut.xplane.pb").write_bytes(
        write_profile(dump / "b.xplane.pb", jit_a_3=make_proto("jit_a", 3)).read_bytes()[:40]
    )
    found = find_programs(dump)
    assert ids(found) == [("7", "jit_tiny"), ("3", "jit_a")]
    assert {Path(finding.where.partition(",")[0]).name for finding in found.findings} == {
        "module_0008.jit_bad.gfx950_gpu_after_optimizations.hlo.pb",
        "cut.xplane.pb",
    }


def test_where_everything_is_damaged_the_first_damage_is_the_error(tmp_path: Path) -> None:
    (tmp_path / "module_0008.jit_bad.gfx950_gpu_after_optimizations.hlo.pb").write_bytes(b"\0\xff" * 32)
    with pytest.raises(DamagedFile, match="jit_bad"):
        find_programs(tmp_path)


# Which one is meant


@pytest.fixture
def several(tmp_path: Path) -> FoundPrograms:
    protos = {
        "jit_step_3": make_proto("jit_step", 3, extra=3),
        "jit_a_4": make_proto("jit_a", 4),
        "jit_a_5": make_proto("jit_a", 5, size=16),
    }
    return find_programs(write_profile(tmp_path / "a.xplane.pb", **protos))


@pytest.mark.parametrize("name, program_id", [("jit_step", "3"), ("3", "3"), ("5", "5")])
def test_a_program_is_chosen_by_name_or_id(several: FoundPrograms, name: str, program_id: str) -> None:
    assert choose_program(several, name, where="f").program_id == program_id


@pytest.mark.parametrize(
    "name, words",
    [
        (None, ["several-programs: there are 3 programs: jit_step (3), jit_a (4), jit_a (5)", "--program"]),
        ("jit_a", ["several-programs: 2 programs are called 'jit_a'", "--program ID: 4, 5"]),
        ("jit_stop", ["unknown-program", "try: jit_step"]),
        ("zzz", ["unknown-program", "try: jit_step, jit_a\n"]),
    ],
)
def test_a_name_that_means_none_or_several_is_a_usage_error(
    several: FoundPrograms, name: str | None, words: list[str]
) -> None:
    with pytest.raises(UsageError) as raised:
        choose_program(several, name, where="f")
    for word in words:
        assert word in f"{raised.value}\n"


def test_programs_of_one_id_are_told_apart_by_their_files(tmp_path: Path) -> None:
    for build in ("one", "two"):
        (tmp_path / build).mkdir()
        write_tiny_dump(tmp_path / build, TINY if build == "one" else [kernel("x.1")])
    with pytest.raises(UsageError, match=r"one of the files: .*one.*, .*two"):
        choose_program(find_programs(tmp_path), "7", where="f")


# PROGRAMS


def test_the_frame_counts_what_the_program_was_made_of(dump: Path) -> None:
    frame = require_frame(list_programs(find_programs(dump).programs, run="r"), PROGRAMS)
    (row,) = frame.to_dict("records")
    text = hlo_text(TINY)
    assert row["instructions_count"] == sum(" = " in line for line in text.splitlines())
    assert row["fusions_count"] == text.count(" fusion(")
    assert row["custom_calls_count"] == 2
    assert row["collectives_count"] == 4  # all-reduce-start.1, all-to-all.1, all-reduce-start.2, all-reduce.3
    # A while has a thunk, a collective that is asynchronous three.
    assert row["thunks_count"] == sum(1 for _ in build_tiny().thunks.walk()) == 30  # type: ignore[union-attr]
    assert (row["run"], row["program_id"], row["hlo_module"], row["is_complete"]) == ("r", "7", "jit_tiny", True)


def test_without_a_thunk_sequence_their_number_is_missing(tmp_path: Path) -> None:
    (tmp_path / "step.txt").write_text(hlo_text(TINY))
    frame = list_programs(find_programs(tmp_path / "step.txt").programs, run="r")
    assert frame["thunks_count"].isna().all()


@pytest.mark.parametrize(
    "place, expected",
    [
        # By the index of the files; the truncated one is not called as XLA calls its dumps.
        ("xplane/mi355_te_fused_attn", 9),
        ("hlo/gfx942", 2),
        ("hlo/gfx950-mixtral-8x22b", 2),
        ("hlo/gfx950", 3),
    ],
)
def test_real_places_hold_as_many_programs_as_they_should(shared: Path, place: str, expected: int) -> None:
    assert len(find_programs(shared / "data" / place).programs) == expected


def test_the_real_dump_and_the_real_proto_of_a_train_step_are_one_program(shared: Path) -> None:
    found = find_programs(shared / "data" / "xplane" / "cpu_moe").programs
    (step,) = [program for program in found if program.name == "jit_train_step"]
    assert (step.program_id, step.path.name) == ("36", "module_0036.jit_train_step.cpu_after_optimizations.txt")


@pytest.mark.parametrize("build, fusions, custom_calls", [("triton", 323, 0), ("blaslt", 266, 49)])
def test_real_mixtral_has_the_fusions_of_the_index(shared: Path, build: str, fusions: int, custom_calls: int) -> None:
    place = shared / "data" / "hlo" / "gfx950-mixtral-8x22b" / build
    (row,) = list_programs(find_programs(place).programs, run="r").to_dict("records")
    assert (row["fusions_count"], row["custom_calls_count"]) == (fusions, custom_calls)
    assert row["is_complete"]
