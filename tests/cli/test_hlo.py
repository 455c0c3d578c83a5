"""`rocktools hlo`: everything it says is in the text of the program; what cannot be read, or is not meant, is told."""

from __future__ import annotations

import gzip
import re
from pathlib import Path
from typing import Any

import pytest
from command_line import CommandLine, assert_formats_agree, read_rows
from tiny_program import STEM, TINY, hlo_text, kernel, write_tiny_dump
from tiny_run import make_proto, tiny_trace, write_tiny_profile, write_tiny_run, write_tiny_trace

from rocktools.demo.xspace_writer import SpaceRecord, metadata_plane, write_xspace
from rocktools.frames import INSTRUCTIONS

TEXT = hlo_text(TINY)
INSTRUCTIONS_COUNT = TEXT.count(" = ")
WIDTHS = (80, 120, 200)


@pytest.fixture
def dump(tmp_path: Path) -> Path:
    folder = tmp_path / "dump"
    folder.mkdir()
    write_tiny_dump(folder)
    return folder


@pytest.fixture
def profile(tmp_path: Path) -> Path:
    """Two programs, one of them called like the other."""
    protos = {"jit_a(3)": make_proto("jit_a", 3), "jit_b(5)": make_proto("jit_b", 5, extra=3)}
    return write_xspace(tmp_path / "a.xplane.pb", SpaceRecord(planes=[metadata_plane(protos)]))


def tables_in(document: dict[str, Any]) -> dict[str, list[dict[str, Any]]]:
    return {table["name"]: table["rows"] for table in document["tables"]}


# Whatever a program comes as


def test_a_program_is_the_same_in_every_wrapping(run: CommandLine, dump: Path, tmp_path: Path) -> None:
    text = dump / f"{STEM}_after_optimizations.txt"
    packed = tmp_path / "packed" / f"{text.name}.gz"
    packed.parent.mkdir()
    packed.write_bytes(gzip.compress(text.read_bytes()))
    in_run = write_tiny_run(tmp_path / "run")
    expected = run.rows("hlo", "list", text, "--all")
    assert len(expected) == INSTRUCTIONS_COUNT
    for path in (
        dump,
        packed,
        packed.parent,
        in_run,
        in_run / "hlo",
        dump / f"{STEM.rpartition('.')[0]}.thunk_sequence.txt",
    ):
        assert run.rows("hlo", "list", path, "--all") == expected


def test_a_proto_on_its_own_or_in_a_profile_is_a_program(run: CommandLine, profile: Path, tmp_path: Path) -> None:
    path = tmp_path / "a.hlo.pb"
    path.write_bytes(make_proto("jit_a", 3))
    rows = run.rows("hlo", "list", path, "--all")
    assert [row["instruction"] for row in rows] == ["p", "negate.0"]
    assert run.rows("hlo", "list", profile, "--all", "--program", "3") == rows


# info


def test_info_of_one_program_has_its_kinds_and_loops(run: CommandLine, dump: Path) -> None:
    tables = tables_in(run.document("hlo", "info", dump))
    (program,) = tables["PROGRAMS"]
    assert (program["program_id"], program["hlo_module"]) == ("7", "jit_tiny")
    assert program["instructions_count"] == INSTRUCTIONS_COUNT
    assert {row["instruction"]: row["trips_count"] for row in tables["LOOPS"]} == {"while.1": 3, "while.2": 5}
    copies = next(row for row in tables["INSTRUCTION_KINDS"] if row["kind"] == "copy")
    assert (copies["instructions_count"], copies["executions_count"]) == (3, 5)


@pytest.mark.parametrize("part, table", [("program", "PROGRAMS"), ("kinds", "INSTRUCTION_KINDS"), ("loops", "LOOPS")])
def test_one_part_is_a_table_of_its_own_in_every_format(
    run: CommandLine, dump: Path, tmp_path: Path, part: str, table: str
) -> None:
    rows = assert_formats_agree(run, tmp_path, "hlo", "info", dump, "--part", part)
    whole = tables_in(run.document("hlo", "info", dump))[table]
    assert rows == whole


def test_csv_of_a_program_is_its_kinds(run: CommandLine, dump: Path, tmp_path: Path) -> None:
    run("hlo", "info", dump, "-o", tmp_path / "t.csv")
    kinds = tables_in(run.document("hlo", "info", dump))["INSTRUCTION_KINDS"]
    assert [row["kind"] for row in read_rows(tmp_path / "t.csv")] == [row["kind"] for row in kinds]


def test_several_programs_are_listed_with_the_way_into_one(run: CommandLine, profile: Path) -> None:
    ran = run("hlo", "info", profile)
    assert ran.out.startswith(f"2 programs in {profile}; --program NAME looks into one\n")
    assert [row["program_id"] for row in run.rows("hlo", "info", profile)] == ["5", "3"]  # the larger one first
    (program,) = tables_in(run.document("hlo", "info", profile, "--program", "jit_b"))["PROGRAMS"]
    assert program["instructions_count"] == 5


def test_tables_that_say_nothing_are_left_out_of_the_text(run: CommandLine, tmp_path: Path) -> None:
    path = tmp_path / "flat.txt"
    path.write_text(hlo_text([kernel("a.1"), kernel("b.2")]))
    out = run("hlo", "info", path).out
    assert "no rows" not in out
    assert "loops" not in out
    for column in ("thunks", "is_complete", "path", "unknown", "program_id", "payload"):
        assert column not in out.replace(str(path), "")
    assert tables_in(run.document("hlo", "info", path))["LOOPS"] == []


def test_a_text_cut_before_its_entry_shows_the_kinds_of_what_was_read(run: CommandLine, tmp_path: Path) -> None:
    path = tmp_path / "cut.txt"
    path.write_text(TEXT[: TEXT.index("ENTRY")])
    ran = run("hlo", "info", path)
    assert ran.code == 0
    assert "how often they run is in the part that is missing" in ran.out
    assert re.search(r"^fusion kLoop +11", ran.out, flags=re.MULTILINE)
    assert re.search(r"^jit_tiny .* no$", ran.out, flags=re.MULTILINE)
    rows = tables_in(run.document("hlo", "info", path))["INSTRUCTION_KINDS"]
    assert {row["executions_count"] for row in rows} == {None}


def test_a_text_cut_inside_says_where_and_is_no_failure(run: CommandLine, tmp_path: Path) -> None:
    path = tmp_path / "cut.txt"
    path.write_text(TEXT[:-200])
    ran = run("hlo", "info", path)
    assert ran.code == 0
    assert "warning [hlo-text-truncated]" in ran.err
    assert f"{path}, line " in ran.err
    document = run.document("hlo", "info", path)
    assert [finding["rule"] for finding in document["findings"]] == ["hlo-text-truncated"]


def test_a_damaged_file_among_others_is_left_out_with_exit_code_1(run: CommandLine, dump: Path) -> None:
    (dump / "module_0008.jit_bad.gfx950_gpu_after_optimizations.hlo.pb").write_bytes(b"\0\xff" * 32)
    ran = run("hlo", "info", dump)
    assert ran.code == 1
    assert "jit_tiny" in ran.out
    assert "fault [hlo-proto-damaged]" in ran.err


# list


def test_list_has_what_may_launch_something(run: CommandLine, dump: Path) -> None:
    """TINY has 26 kernels, copies and library calls, and 2 asynchronous collectives; conditions compare."""
    names = {row["instruction"] for row in run.rows("hlo", "list", dump)}
    assert {"copy.1", "all-reduce-start.1", "custom-call.2", "loop_add_fusion.2", "while.1.more"} <= names
    assert not {"while.1", "p0", "all-reduce-done.1", "negate", "while.1.tuple"} & names


@pytest.mark.parametrize(
    "options, expected",
    [
        (["--opcode", "copy"], {"copy.1", "copy.2", "copy.3"}),
        (["--match", r"^copy\.[12]"], {"copy.1", "copy.2"}),
        (["--match", "cublas"], {"custom-call.1", "custom-call.2"}),
        (["--opcode", "all-reduce", "--computation", "while.1.body"], {"all-reduce.3"}),
        (["--opcode", "copy", "--computation", "%main"], {"copy.1", "copy.3"}),
        (["--opcode", "while", "--all"], {"while.1", "while.2"}),
        (["--computation", "fused"], {"p", "negate"}),
    ],
)
def test_options_choose_instructions(run: CommandLine, dump: Path, options: list[str], expected: set[str]) -> None:
    assert {row["instruction"] for row in run.rows("hlo", "list", dump, *options)} == expected


def test_list_keeps_its_contract_in_every_format(run: CommandLine, dump: Path, tmp_path: Path) -> None:
    rows = assert_formats_agree(run, tmp_path, "hlo", "list", dump)
    assert list(rows[0]) == list(INSTRUCTIONS.names)


@pytest.mark.parametrize(
    "sort, column", [("flop", "compute_flop"), ("bytes", "read_bytes"), ("payload", "payload_bytes")]
)
def test_the_largest_of_all_executions_comes_first(run: CommandLine, dump: Path, sort: str, column: str) -> None:
    rows = run.rows("hlo", "list", dump, "--sort", sort)
    amounts = [-1 if row[column] is None else row[column] * row["calls_count"] for row in rows]
    assert amounts == sorted(amounts, reverse=True)
    assert amounts[0] > 0
    calls = [row["calls_count"] for row in run.rows("hlo", "list", dump, "--sort", "calls")]
    assert calls == sorted(calls, reverse=True)
    assert calls[0] == 15


@pytest.mark.parametrize("width", WIDTHS)
def test_what_is_sorted_by_is_shown_in_any_width(
    run: CommandLine, dump: Path, monkeypatch: pytest.MonkeyPatch, width: int
) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    assert "payload" in run("hlo", "list", dump, "--sort", "payload").out.splitlines()[2]


def test_nothing_found_is_a_warning_with_what_there_is(run: CommandLine, dump: Path) -> None:
    ran = run("hlo", "list", dump, "--opcode", "fusoin")
    assert ran.code == 0
    assert f"none of {INSTRUCTIONS_COUNT} instructions" in ran.err
    assert "opcodes of a similar name: fusion" in ran.err
    assert "all-reduce, all-reduce-done" in run("hlo", "list", dump, "--opcode", "zzz").err
    assert "--all lists the insides of fusions too" in run("hlo", "list", dump, "--match", "zzz").err


# show, grep, callers


def test_show_describes_an_instruction_or_prints_a_computation(run: CommandLine, dump: Path) -> None:
    assert run("hlo", "show", dump, "copy.2").out.startswith("%copy.2 = f32[64,128]{1,0} copy(%loop_add_fusion.1)\n")
    assert run("hlo", "show", dump, "%copy.2").out == run("hlo", "show", dump, "copy.2").out
    printed = run("hlo", "show", dump, "fused").out
    assert printed in TEXT


def test_grep_finds_what_a_search_in_the_text_finds(run: CommandLine, dump: Path) -> None:
    for pattern in (r"kind=kLoop", r"^(ROOT )?%copy", r"known_trip_count", r"f32\[64,128\].*custom-call"):
        expected = sum(bool(re.search(pattern, line.strip())) for line in TEXT.splitlines() if " = " in line)
        assert run("hlo", "grep", dump, pattern, "--count").out == f"{expected}\n"
        assert len(run("hlo", "grep", dump, pattern).out.splitlines()) == expected > 0
    assert run("hlo", "grep", dump, "KNOWN_trip", "-i", "--count").out == "2\n"
    assert run("hlo", "grep", dump, "copy.2 =").out.startswith("while.1.body: %copy.2 = ")


def test_grep_that_finds_nothing_ends_with_1_as_grep_does(run: CommandLine, dump: Path) -> None:
    assert run("hlo", "grep", dump, "zzz") == run("hlo", "grep", dump, "zzz", "-i")
    assert run("hlo", "grep", dump, "zzz").code == 1
    assert run("hlo", "grep", dump, "zzz", "--count").out == "0\n"


def test_callers_lead_up_to_the_entry(run: CommandLine, dump: Path) -> None:
    assert run("hlo", "callers", dump, "%copy.2").out.splitlines() == [
        "%copy.2 = copy in %while.1.body",
        "  body of while (3 trips) %while.1 in %main",
        "    %main is the entry of jit_tiny",
    ]


# What is not meant


@pytest.mark.parametrize(
    "arguments, words",
    [
        (["show", "DUMP", "copy.22"], ["unknown-instruction: the program has no instruction", "'copy.22'", "copy.2"]),
        (["show", "DUMP", "zzz"], ["unknown-instruction", "--all --columns computation"]),
        (["callers", "DUMP", "whlie.1"], ["unknown-instruction", "try: while.1"]),
        (
            ["list", "DUMP", "--computation", "mian"],
            ["unknown-computation: the program has no computation", "try: main"],
        ),
        (["list", "DUMP", "--match", "("], ["bad-regex"]),
        (["grep", "DUMP", "["], ["bad-regex"]),
        (["list", "DUMP", "--columns", "opcod"], ["no column 'opcod'", "opcode"]),
        (["list", "DUMP", "--program", "jit_tin"], ["unknown-program: there is no program 'jit_tin'", "try: jit_tiny"]),
        (["info", "DUMP", "--part", "loop"], ["'loops'"]),
        (["list", "DUMP", "--sort", "size"], ["'payload'"]),
        (["list", "PROFILE"], ["several-programs: there are 2 programs: jit_b (5), jit_a (3)", "--program"]),
        (["info", "PROFILE", "--part", "kinds"], ["several-programs"]),
        (["info"], ["Missing argument 'FILE'", "rocktools hlo info --help"]),
        (["lst", "DUMP"], ["lst"]),
    ],
)
def test_usage_errors_end_with_2_and_what_was_meant(
    run: CommandLine, dump: Path, profile: Path, arguments: list[str], words: list[str]
) -> None:
    given = {"DUMP": dump, "PROFILE": profile}
    ran = run("hlo", *(given.get(argument, argument) for argument in arguments))
    assert (ran.code, ran.out) == (2, "")
    for word in words:
        assert word in ran.err


@pytest.mark.parametrize("command", ["info", "list", "show", "grep", "callers"])
def test_what_is_no_program_is_one_plain_error_with_1(run: CommandLine, tmp_path: Path, command: str) -> None:
    trace = tiny_trace(steps_count=1)
    (tmp_path / "empty").mkdir()
    (tmp_path / "empty.txt").touch()
    (tmp_path / "words.txt").write_text("hello\n")
    (tmp_path / "bytes").write_bytes(b"\0\xff" * 64)
    packed = gzip.compress(TEXT.encode())
    (tmp_path / "cut.txt.gz").write_bytes(packed[: len(packed) // 2])
    cut = write_tiny_profile(tmp_path / "cut.xplane.pb", trace)
    cut.write_bytes(cut.read_bytes()[:500])
    write_tiny_profile(tmp_path / "without.xplane.pb", trace)
    write_tiny_trace(tmp_path / "1_results.db", trace)
    errors = {
        "none": "no-such-file",
        "empty": "no-programs",
        "empty.txt": "hlo-file-empty",
        "words.txt": "hlo-text-without-module",
        "bytes": "hlo-proto-damaged",
        "cut.txt.gz": "hlo-gzip-damaged",
        "cut.xplane.pb": "xspace-damaged",
        "without.xplane.pb": "no-programs",
        "1_results.db": "not-hlo",
    }
    for name, reference in errors.items():
        rest = ["x"] if command in ("show", "grep", "callers") else []
        ran = run("hlo", command, tmp_path / name, *rest)
        assert (ran.code, ran.out) == (1, ""), name
        assert f"error: {reference}: " in ran.err
        assert f"where: {tmp_path / name}" in ran.err


def test_a_file_is_never_overwritten_and_the_dump_stays_as_it_was(run: CommandLine, dump: Path, tmp_path: Path) -> None:
    before = {path: path.read_bytes() for path in dump.iterdir()}
    (tmp_path / "mine.csv").write_text("mine")
    for command in ("info", "list"):
        assert run("hlo", command, dump, "-o", tmp_path / "mine.csv").code == 2
        assert run("hlo", command, dump, "-o", tmp_path / f"{command}.json").code == 0
    assert (tmp_path / "mine.csv").read_text() == "mine"
    assert {path: path.read_bytes() for path in dump.iterdir()} == before


@pytest.mark.parametrize("width", WIDTHS)
def test_tables_fit_the_terminal(
    run: CommandLine, dump: Path, profile: Path, monkeypatch: pytest.MonkeyPatch, width: int
) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    for arguments in (("info", dump), ("list", dump), ("list", dump, "--sort", "bytes"), ("info", profile.parent)):
        lines = run("hlo", *arguments).out.splitlines()
        table = [line for line in lines if not line.startswith(("hidden for", "3 programs in"))]
        assert max(map(len, table)) <= width


# Real programs


@pytest.mark.parametrize("width", WIDTHS)
def test_real_mixtral_fits_the_terminal(
    shared: Path, run: CommandLine, monkeypatch: pytest.MonkeyPatch, width: int
) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    place = shared / "data" / "hlo" / "gfx950-mixtral-8x22b" / "triton"
    for arguments in (("info", place), ("list", place, "--sort", "flop")):
        lines = [line for line in run("hlo", *arguments).out.splitlines() if not line.startswith("hidden for")]
        assert max(map(len, lines)) <= width


def test_real_mixtral_has_the_figures_of_the_index(shared: Path, run: CommandLine) -> None:
    place = shared / "data" / "hlo" / "gfx950-mixtral-8x22b" / "triton"
    tables = tables_in(run.document("hlo", "info", place))
    (program,) = tables["PROGRAMS"]
    assert (program["instructions_count"], program["fusions_count"]) == (3936, 323)
    assert sorted(row["trips_count"] for row in tables["LOOPS"]) == [2, 56, 56]
    assert run("hlo", "grep", place, " fusion\\(", "--count").out == "323\n"


@pytest.mark.parametrize("name", ["tpu/maxtext-llama3-8b.truncated.txt", "gfx950/truncated-toy.txt"])
def test_real_truncated_texts_are_a_result_with_findings(shared: Path, run: CommandLine, name: str) -> None:
    ran = run("hlo", "info", shared / "data" / "hlo" / name)
    assert ran.code == 0
    assert "no rows" not in ran.out
    assert "warning [hlo-text-" in ran.err
