"""What the user names -> the files that are read, and the labels of their rows."""

from __future__ import annotations

from pathlib import Path

import pytest

from rocktools.errors import InputError, NothingToRead
from rocktools.rundir import Manifest, write_manifest
from rocktools.workspace.paths import SourceKind, find_sources, unused_label

MANIFEST = Manifest(argv=(), created_utc="", is_simulated=True)


def touch(root: Path, *names: str) -> Path:
    for name in names:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).touch()
    return root


def found(*arguments: Path | str) -> list[tuple[str, str]]:
    """(file name with its folder, run label) of what is found."""
    return [(f"{each.path.parent.name}/{each.path.name}", each.run) for each in find_sources(arguments)]


# One file, one folder


def test_file_is_its_own_run_whatever_its_name(tmp_path: Path) -> None:
    touch(tmp_path, "out/trace.sqlite-copy")
    [each] = find_sources([tmp_path / "out/trace.sqlite-copy"])
    assert (each.run, each.pass_label, each.is_named) == ("trace", "trace", True)


def test_folder_is_searched_to_the_bottom_for_databases(tmp_path: Path) -> None:
    names = (
        "run/a.db",
        "run/host/2_results.db",
        "run/host/10_results.db",
        "run/b.rpd",
        "run/c.sqlite",
        "run/d.sqlite3",
    )
    touch(tmp_path, *names, "run/a.db-journal", "run/a.db-wal", "run/x.json", "run/.a.db.123.partial", "run/db")
    sources = find_sources([tmp_path / "run"])
    assert [each.path.name for each in sources] == [
        "a.db",
        "b.rpd",
        "c.sqlite",
        "d.sqlite3",
        "2_results.db",
        "10_results.db",
    ]
    assert {each.run for each in sources} == {"run"}
    assert not any(each.is_named for each in sources)


def test_files_are_in_the_order_of_their_numbers(tmp_path: Path) -> None:
    touch(tmp_path, *(f"run/rank_{rank}/t.db" for rank in (10, 2, 1, 100)), "run/rank_²/t.db")
    assert [each.path.parent.name for each in find_sources([tmp_path / "run"])] == [
        "rank_1",
        "rank_2",
        "rank_10",
        "rank_100",
        "rank_²",
    ]


def test_working_folder_has_its_own_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    touch(tmp_path, "run7/a.db")
    monkeypatch.chdir(tmp_path / "run7")
    assert found(".") == [("/a.db", "run7")]
    assert found("a.db") == [("/a.db", "a")]


def test_folders_called_like_databases_are_folders(tmp_path: Path) -> None:
    touch(tmp_path, "run/odd.db/inner.db")
    assert found(tmp_path / "run") == [("odd.db/inner.db", "run")]


# Several arguments


def test_each_file_is_read_once_under_its_first_label(tmp_path: Path) -> None:
    touch(tmp_path, "run/a.db", "run/b.db")
    (tmp_path / "run/c.db").symlink_to(tmp_path / "run/b.db")
    assert found(tmp_path / "run/b.db", tmp_path / "run") == [("run/b.db", "b"), ("run/a.db", "run")]


def test_two_folders_of_one_name_are_two_runs(tmp_path: Path) -> None:
    touch(tmp_path, "old/trace/a.db", "new/trace/b.db", "third/trace/c.db")
    arguments = [tmp_path / name / "trace" for name in ("old", "new", "third")]
    assert found(*arguments) == [("trace/a.db", "trace"), ("trace/b.db", "trace#2"), ("trace/c.db", "trace#3")]


def test_two_files_of_one_name_are_two_runs(tmp_path: Path) -> None:
    touch(tmp_path, "old/t.db", "new/t.db")
    assert found(tmp_path / "old/t.db", tmp_path / "new/t.db") == [("old/t.db", "t"), ("new/t.db", "t#2")]


def test_one_folder_named_twice_is_one_run(tmp_path: Path) -> None:
    touch(tmp_path, "run/a.db", "run/x/b.db")
    assert found(tmp_path / "run", f"{tmp_path}/run/../run/") == [("run/a.db", "run"), ("x/b.db", "run")]


# Patterns


def test_files_of_a_pattern_are_one_run_named_by_where_it_starts(tmp_path: Path) -> None:
    touch(tmp_path, "out/hostA/1_results.db", "out/hostB/1_results.db", "out/hostB/notes.txt")
    assert found(tmp_path / "out/*/*_results.db") == [("hostA/1_results.db", "out"), ("hostB/1_results.db", "out")]
    assert found(tmp_path / "out/**/*.db") == [("hostA/1_results.db", "out"), ("hostB/1_results.db", "out")]


def test_folders_of_a_pattern_are_a_run_each(tmp_path: Path) -> None:
    touch(tmp_path, "runs/base/trace/a.db", "runs/fast/trace/b.db", "runs/empty/notes.txt")
    assert found(tmp_path / "runs/*") == [("trace/a.db", "base"), ("trace/b.db", "fast")]


def test_file_with_a_star_in_its_name_is_no_pattern(tmp_path: Path) -> None:
    touch(tmp_path, "out/[1]*.db", "out/other.db")
    assert found(tmp_path / "out/[1]*.db") == [("out/[1]*.db", "[1]*")]


# Nothing there


@pytest.mark.parametrize(
    "argument, reference, where",
    [
        ("gone.db", "no-such-file", "gone.db"),
        ("gone*.db", "no-databases", "gone*.db"),
        ("empty", "no-databases", "empty"),
        ("emp*", "no-databases", "emp*"),
    ],
)
def test_argument_that_names_nothing_is_an_error_with_its_name(
    tmp_path: Path, argument: str, reference: str, where: str
) -> None:
    touch(tmp_path, "empty/notes.txt")
    with pytest.raises(InputError) as caught:
        find_sources([f"{tmp_path}/{argument}"])
    assert (caught.value.reference, caught.value.where) == (reference, f"{tmp_path}/{where}")


def test_folder_without_a_database_says_when_they_appear(tmp_path: Path) -> None:
    with pytest.raises(NothingToRead) as caught:
        find_sources([tmp_path])
    assert "when that process exits" in str(caught.value.hint)


# AMD's .rpdb folders


def rpdb(folder: Path, index: str | None, *names: str) -> Path:
    touch(folder, "t.rpdb/.keep", *(f"t.rpdb/{name}" for name in names))
    if index is not None:
        (folder / "t.rpdb/index.yaml").write_text(index)
    return folder / "t.rpdb"


def index_of(*names: str) -> str:
    listed = "".join(f"\n      - {name}" for name in names)
    return f"rocprofiler-sdk:\n  rocpd:\n    rocpd_package_version: '1.0'\n    path: /there\n    files:{listed}\n"


def test_index_names_the_files_in_its_order(tmp_path: Path) -> None:
    folder = rpdb(tmp_path, index_of("merged_db_1.db", "merged_db_0.db"), "merged_db_0.db", "merged_db_1.db", "old.db")
    assert found(folder) == [("t.rpdb/merged_db_1.db", "t.rpdb"), ("t.rpdb/merged_db_0.db", "t.rpdb")]


def test_index_may_name_whole_paths_of_another_machine(tmp_path: Path) -> None:
    folder = rpdb(tmp_path, index_of("/scratch/them/t.rpdb/merged_db_0.db"), "merged_db_0.db")
    assert found(folder) == [("t.rpdb/merged_db_0.db", "t.rpdb")]


def test_folder_without_an_index_gives_all_its_databases(tmp_path: Path) -> None:
    assert [name for name, _ in found(rpdb(tmp_path, None, "b.db", "a.db", "c.txt"))] == ["t.rpdb/a.db", "t.rpdb/b.db"]
    with pytest.raises(NothingToRead):
        find_sources([rpdb(tmp_path / "x", None)])


@pytest.mark.parametrize(
    "index",
    [
        "",
        "[]",
        "rocprofiler-sdk: 7",
        "rocprofiler-sdk: {rocpd: {}}",
        "a: [",
        "\x00",
        "rocprofiler-sdk: {rocpd: {files: 5}}",
    ],
)
def test_index_that_is_none_is_an_error_with_its_path(tmp_path: Path, index: str) -> None:
    folder = rpdb(tmp_path, index, "a.db")
    with pytest.raises(InputError) as caught:
        find_sources([folder])
    assert (caught.value.reference, caught.value.where) == ("rpdb-index", str(folder / "index.yaml"))
    assert "name the databases themselves" in str(caught.value.hint)


def test_index_that_names_a_missing_file_says_which(tmp_path: Path) -> None:
    folder = rpdb(tmp_path, index_of("a.db", "gone.db"), "a.db")
    with pytest.raises(InputError) as caught:
        find_sources([folder])
    assert "gone.db" in caught.value.what


# Passes and run directories


@pytest.mark.parametrize(
    "named, name, label",
    [
        ("run", "run/pmc/mem/host/1_results.db", "mem"),
        ("run", "run/pmc/mem/1_results.db", "mem"),
        ("run", "run/pmc/1_results.db", "1_results"),
        ("run", "run/pmc/mem/pmc/host/1_results.db", "mem"),
        (".", "run/pmc/mem/host/1_results.db", "mem"),
        ("run/*/*/*/*.db", "run/pmc/mem/host/1_results.db", "mem"),
        ("out", "out/pass_2/host/1_results.db", "pass_2"),
        ("out/pass_2/host/*", "out/pass_2/host/1_results.db", "pass_2"),
        ("out/pass_2/host/1_results.db", "out/pass_2/host/1_results.db", "pass_2"),
        ("run", "run/pmc/mem/pass_3/1_results.db", "pass_3"),
        ("out", "out/pass_x/1_results.db", "1_results"),
        ("out/1_results.db", "out/1_results.db", "1_results"),
        ("pmc/me/out", "pmc/me/out/x.db", "x"),
        ("pmc/me/out/x.db", "pmc/me/out/x.db", "x"),
        ("pmc/me/out/*.db", "pmc/me/out/x.db", "x"),
        ("pass_1/me/runs/out", "pass_1/me/runs/out/x.db", "x"),
    ],
)
def test_pass_is_named_by_its_folder_in_the_run(tmp_path: Path, named: str, name: str, label: str) -> None:
    touch(tmp_path, name)
    [each] = find_sources([tmp_path / named])
    assert each.pass_label == label


def test_pass_of_a_run_directory_is_named_by_its_folder_however_it_is_found(tmp_path: Path) -> None:
    run = touch(tmp_path / "pmc/me/run", "pmc/mem/host/1_results.db")
    write_manifest(run, MANIFEST)
    path = run / "pmc/mem/host/1_results.db"
    for argument in (run, run / "pmc", path.parent, path, tmp_path, f"{run}/pmc/*/*/*"):
        [each] = find_sources([argument])
        assert (each.pass_label, each.run) == ("mem", "run")


def test_replays_are_no_part_of_the_run_they_lie_in(tmp_path: Path) -> None:
    names = ("trace/1_results.db", "pmc/mem/2_results.db", "replays/fusion_3/pmc/mem/3_results.db")
    write_manifest(touch(tmp_path / "run", *names), MANIFEST)
    assert [each.path.name for each in find_sources([tmp_path / "run"])] == ["2_results.db", "1_results.db"]
    assert found(tmp_path / "run/replays/fusion_3") == [("mem/3_results.db", "fusion_3")]


def test_folder_called_replays_of_somebody_else_is_searched(tmp_path: Path) -> None:
    touch(tmp_path / "out", "replays/3_results.db")
    assert found(tmp_path / "out") == [("replays/3_results.db", "out")]


def test_label_that_is_taken_gets_a_number() -> None:
    assert unused_label("a", []) == "a"
    assert unused_label("a", ["a", "a#2"]) == "a#3"


def test_folder_with_output_of_another_kind_says_what_it_is(tmp_path: Path) -> None:
    profile = tmp_path / "plugins/profile/2026_01_01"
    profile.mkdir(parents=True)
    (profile / "host.xplane.riegeli").touch()
    with pytest.raises(NothingToRead) as caught:
        find_sources([tmp_path])
    assert caught.value.reference == "no-databases"
    assert "plugins/profile/2026_01_01/host.xplane.riegeli: this is a profile in the container" in caught.value.what
    assert "*.xplane.pb" in str(caught.value.hint)


def test_profiles_of_jax_are_found_and_told_apart(tmp_path: Path) -> None:
    touch(tmp_path, "run/trace/1_results.db", "run/xspace/plugins/profile/x/h.xplane.pb", "run/xspace/h.xplane.pb.gz")
    touch(tmp_path, "run/xspace/plugins/profile/x/h.trace.json.gz", "run/xspace/h.hlo.pb")
    kinds = {each.path.name: each.kind for each in find_sources([tmp_path / "run"])}
    assert kinds == {
        "1_results.db": SourceKind.DATABASE,
        "h.xplane.pb": SourceKind.PROFILE,
        "h.xplane.pb.gz": SourceKind.PROFILE,
    }
