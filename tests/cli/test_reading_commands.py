"""What holds for every command that reads files: nothing of the user's changes, nothing is overwritten, errors are
plain, and simulated data say so."""

from __future__ import annotations

import json
import random
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest
from command_line import CommandLine, read_rows
from rocpd_files import edit, write_counter_pass, write_small_trace
from torn_files import PAGE_BYTES, look_of

from rocktools.cli.main import COMMANDS

SECRET = "hunter2-Zq7"

# Commands on traces; the path comes last.
TABLES = (
    ("info",),
    ("info", "--part", "devices"),
    ("kernels",),
    ("kernels", "--by", "device"),
    ("kernels", "--by", "stream"),
    ("kernels", "--by", "shape"),
    ("dispatches",),
    ("frame", "dispatches"),
    ("frame", "host_calls"),
    ("frame", "ranges"),
    ("frame", "copies"),
    ("frame", "allocations"),
    ("frame", "samples"),
    ("frame", "agents"),
    ("frame", "processes"),
    ("frame", "kernel_symbols"),
    ("ledger",),
    ("overlap",),
    ("gaps",),
    ("collectives",),
    ("ranks",),
    ("rules", "check"),
)
COUNTED = (("metrics",), ("dispatches", "--counted"), ("frame", "counted_dispatches"), ("frame", "counter_values"))
COPIES = (("rocpd", "recover"), ("rocpd", "scrub"), ("rocpd", "scrub", "--identity"))
INPUTS = ("trace", "counters", "mixed", "minimal", "killed", "logged", "truncated", "empty", "unfinished")


def _named(arguments: tuple[str, ...]) -> str:
    return " ".join(arguments)


def test_every_command_that_reads_traces_is_here() -> None:
    # These read no trace.
    elsewhere = {"demo", "doctor", "trace", "pmc", "counters", "hlo", "devices", "extract", "capture-operands", "aot"}
    elsewhere |= {"completion"}
    elsewhere |= {"link", "memory", "roofline"}  # they take programs as well: see their own tests
    elsewhere |= {"compare", "track", "history"}  # they take two runs, or a history: see test_compare
    elsewhere |= {"query"}  # it takes a question as well: see test_query
    elsewhere |= {"experiment"}  # it keeps a ledger, and takes two runs: see test_experiment
    elsewhere |= {"worksheet"}  # it takes programs and models as well: see test_worksheet
    elsewhere |= {"report"}  # it takes a summary: see test_report
    elsewhere |= {"publish"}  # it takes a summary: see test_publish
    elsewhere |= {"crosscheck"}  # it takes tables of other tools as well: see test_crosscheck
    elsewhere |= {"bundle"}  # it makes a folder: see test_bundle
    elsewhere |= {"summarize"}  # it writes a document: see test_summarize
    elsewhere |= {"perfetto"}  # it writes no table: see test_perfetto
    elsewhere |= {"explain"}  # it takes a number as well: see test_explain
    elsewhere |= {"replay"}  # it takes a replay: see test_aot
    elsewhere |= {"batch"}  # it takes programs as well: see test_batch
    elsewhere |= {"model"}  # it reads models, and ledgers: see test_model
    assert {arguments[0] for arguments in (*TABLES, *COUNTED, *COPIES)} == set(COMMANDS) - elsewhere


# Nothing of the user's is changed


@pytest.mark.parametrize("name", INPUTS)
@pytest.mark.parametrize("arguments", [*TABLES, *COUNTED], ids=_named)
def test_files_and_their_folder_are_as_before(
    databases, run: CommandLine, arguments: tuple[str, ...], name: str
) -> None:
    source = getattr(databases, name)
    before = look_of(source.parent)
    for path in (source, source.parent):
        run(*arguments, path)
        assert look_of(source.parent) == before


@pytest.mark.parametrize("name", INPUTS)
@pytest.mark.parametrize("arguments", COPIES, ids=_named)
def test_files_that_are_copied_are_as_before(
    databases, run: CommandLine, tmp_path: Path, arguments: tuple[str, ...], name: str
) -> None:
    source = getattr(databases, name)
    before = look_of(source.parent)
    run(*arguments, source, "-o", tmp_path / "copy.db")
    assert look_of(source.parent) == before
    assert {path.name for path in tmp_path.iterdir()} <= {"copy.db"}


# -o never overwrites


@pytest.mark.parametrize("table_format", ["table", "csv", "json", "parquet"])
@pytest.mark.parametrize("arguments", [("info",), ("kernels",), ("dispatches",), ("frame", "copies")], ids=_named)
def test_file_that_is_there_stays(
    databases, run: CommandLine, tmp_path: Path, arguments: tuple[str, ...], table_format: str
) -> None:
    target = tmp_path / f"result.{table_format}"
    target.write_text("mine")
    before = look_of(tmp_path)
    ran = run(*arguments, databases.trace, "--format", table_format, "-o", target)
    assert (ran.code, ran.out) == (2, "")
    assert "output-exists: the file is there already, and results are never overwritten" in ran.err
    assert look_of(tmp_path) == before
    assert run(*arguments, databases.trace, "-o", databases.trace).code == 2


@pytest.mark.parametrize("arguments", [("info",), ("kernels",), ("dispatches",), ("frame", "copies")], ids=_named)
def test_command_that_fails_leaves_no_file(databases, run: CommandLine, tmp_path: Path, arguments) -> None:
    for path in (databases.truncated, databases.empty):
        assert run(*arguments, path, "-o", tmp_path / "result.json").code == 1
    assert list(tmp_path.iterdir()) == []


# Simulated data say so


@pytest.mark.parametrize("arguments", [*TABLES, *COUNTED], ids=_named)
def test_every_table_says_simulated(databases, run: CommandLine, tmp_path: Path, arguments: tuple[str, ...]) -> None:
    source = databases.counters if arguments in COUNTED else databases.mixed
    assert run(*arguments, source).out.startswith("SIMULATED: no hardware produced these numbers\n")
    assert json.loads(run(*arguments, source, "--format", "json").out)["is_simulated"] is True
    run(*arguments, source, "-o", tmp_path / "t.csv")
    assert all(row["is_simulated"] == "True" for row in read_rows(tmp_path / "t.csv"))
    parquet = pytest.importorskip("pyarrow.parquet")
    run(*arguments, source, "-o", tmp_path / "t.parquet")
    head = json.loads(parquet.read_schema(tmp_path / "t.parquet").metadata[b"rocktools.table"])
    assert head["is_simulated"] is True


def test_one_simulated_file_marks_the_table_of_all(databases, run: CommandLine, tmp_path: Path) -> None:
    real = write_small_trace(tmp_path / "real.db")
    edit(real, "DELETE FROM \"rocpd_metadata{_}\" WHERE tag = 'rocktools_simulated'")
    assert "SIMULATED" not in run("kernels", real).out
    assert "SIMULATED" in run("kernels", real, databases.other).out


# The environment of the job is never shown


@pytest.mark.parametrize("arguments", [*TABLES, *COUNTED, *COPIES], ids=_named)
def test_environment_is_in_no_output(databases, run: CommandLine, tmp_path: Path, arguments: tuple[str, ...]) -> None:
    target = ["-o", tmp_path / "copy.db"] if arguments in COPIES else ["--format", "json"]
    ran = run(*arguments, databases.mixed, *target)
    assert SECRET not in ran.out + ran.err


# What cannot be read


def _foreign(folder: Path) -> dict[str, Path]:
    """Look-alikes: reference of the error -> a file that must end in it."""
    tables = {
        "not-rocpd-rpd": ("rocpd_op", "rocpd_api", "rocpd_string", "rocpd_metadata", "rocpd_kernelapi"),
        "not-rocpd-rocprof-v1": ("KERN", "OPS", "HIP", "COPY"),
        "not-rocpd-rocprof-compute": ("compute_metadata", "compute_kernel", "compute_metric"),
        "not-rocpd-nsight": ("StringIds", "TARGET_INFO_GPU", "CUPTI_ACTIVITY_KIND_KERNEL"),
        "not-rocpd": ("notes",),
    }
    files = {}
    for reference, names in tables.items():
        files[reference] = folder / f"{reference}.db"
        with closing(sqlite3.connect(files[reference])) as connection:
            for name in names:
                connection.execute(f'CREATE TABLE "{name}" (id INTEGER PRIMARY KEY, string TEXT)')
            connection.execute(f"INSERT INTO \"{names[0]}\" (string) VALUES ('a')")
            connection.commit()
    files["not-sqlite"] = folder / "text.db"
    files["not-sqlite"].write_text("Kernel_Name,Start_Timestamp\n")
    for reference, tag, value in (
        ("rocpd-version", "schema_version", "4.0.0"),
        ("rocpd-compressed", "compression", "lz4-frame-v1"),
    ):
        files[reference] = write_small_trace(folder / f"{reference}.db")
        edit(files[reference], f"DELETE FROM \"rocpd_metadata{{_}}\" WHERE tag = '{tag}'")
        edit(files[reference], f"INSERT INTO \"rocpd_metadata{{_}}\" (tag, value) VALUES ('{tag}', '{value}')")
    return files


@pytest.mark.parametrize(
    "arguments", [("info",), ("kernels",), ("dispatches",), ("frame", "samples"), *COPIES[:2]], ids=_named
)
def test_files_of_other_tools_are_refused_by_name(run: CommandLine, tmp_path: Path, arguments: tuple[str, ...]) -> None:
    (tmp_path / "files").mkdir()
    for reference, path in _foreign(tmp_path / "files").items():
        target = ["-o", tmp_path / "copy.db"] if arguments in COPIES else []
        ran = run(*arguments, path, *target)
        assert (ran.code, ran.out) == (1, ""), reference
        assert f"rocktools: error: {reference}: " in ran.err
        assert str(path) in ran.err
    assert [path.name for path in tmp_path.iterdir()] == ["files"]


@pytest.mark.parametrize("arguments", [("info",), ("kernels",), ("dispatches",), ("frame", "dispatches")], ids=_named)
@pytest.mark.parametrize("name", ["truncated", "empty"])
def test_broken_file_alone_is_its_own_error_and_a_fault_among_others(
    databases, run: CommandLine, arguments: tuple[str, ...], name: str
) -> None:
    broken = getattr(databases, name)
    alone = run(*arguments, broken)
    assert (alone.code, alone.out) == (1, "")
    assert f"rocktools: error: rocpd-{name}: " in alone.err
    assert f"where: {broken}" in alone.err
    among = run(*arguments, databases.trace, broken, databases.other)
    assert among.code == 1
    assert f"fault [rocpd-{name}] {broken}: left out: " in among.err
    good = run(*arguments, databases.trace, databases.other)
    assert good.code == 0
    assert among.out == good.out


def test_foreign_file_in_a_folder_is_a_remark_and_a_named_one_a_fault(
    databases, run: CommandLine, tmp_path: Path
) -> None:
    foreign = _foreign(tmp_path)["not-rocpd-rocprof-v1"]
    for other in tmp_path.iterdir():
        if other != foreign:
            other.unlink()
    trace = write_small_trace(tmp_path / "1_results.db")
    ran = run("kernels", tmp_path)
    assert ran.code == 0
    assert f"note [not-rocpd-rocprof-v1] {foreign}: left out: this is a results.db of rocprof (version 1" in ran.err
    ran = run("kernels", trace, foreign)
    assert ran.code == 1
    assert f"fault [not-rocpd-rocprof-v1] {foreign}" in ran.err
    assert "loop_fusion_3" in ran.out


@pytest.mark.parametrize("arguments", [("info",), ("kernels",), ("dispatches",), ("frame", "dispatches")], ids=_named)
def test_paths_that_name_nothing_are_plain_errors(run: CommandLine, tmp_path: Path, arguments) -> None:
    (tmp_path / "empty").mkdir()
    for argument, reference in (
        (tmp_path / "gone.db", "no-such-file"),
        (tmp_path / "empty", "no-databases"),
        (tmp_path / "*.db", "no-databases"),
        ("", "no-such-file"),
        ("a\0b", "no-such-file"),
        ("x" * 5_000, "no-such-file"),
    ):
        ran = run(*arguments, argument)
        assert (ran.code, ran.out) == (1, ""), argument
        assert reference in ran.err or "unreadable-file" in ran.err
    assert run(*arguments).code == 2


def test_real_foreign_files_are_refused_by_name(shared: Path, run: CommandLine) -> None:
    folder = shared / "data" / "rocpd"
    for name, what in (
        ("not-rocpd-rpd-matmul.rpd", "not-rocpd-rpd: this is an rpd trace"),
        ("not-rocpd-rocprofv1-kern.db", "not-rocpd-rocprof-v1: this is a results.db of rocprof (version 1"),
        ("rocprof-compute-analysis.db", "not-rocpd-rocprof-compute: this is an analysis database of rocprof-compute"),
    ):
        for command in (["info"], ["kernels"], ["dispatches"], ["frame", "dispatches"]):
            ran = run(*command, folder / name)
            assert (ran.code, ran.out) == (1, "")
            assert f"rocktools: error: {what}" in ran.err
    ran = run("kernels", folder)
    assert ran.code == 0
    assert ran.err.count("note [not-rocpd-") == 3
    assert "14 dispatches" in ran.out


# No traceback, whatever the input


def _mutated(content: bytes, chance: random.Random) -> bytes:
    mutated = bytearray(content)
    pages_count = len(content) // PAGE_BYTES
    kind = chance.randrange(5)
    if kind == 0:
        return bytes(mutated[: chance.randrange(len(mutated))])
    for _ in range(chance.choice((1, 3, 30))):
        if kind == 1:
            mutated[chance.randrange(len(mutated))] = chance.randrange(256)
        elif kind == 2:
            mutated[chance.randrange(16, 8 * PAGE_BYTES)] ^= 1 << chance.randrange(8)
        else:
            at = chance.randrange(1, pages_count) * PAGE_BYTES
            other = chance.randrange(1, pages_count) * PAGE_BYTES
            page = bytes(PAGE_BYTES) if kind == 3 else mutated[other : other + PAGE_BYTES]
            mutated[at : at + PAGE_BYTES] = page
            if chance.random() < 0.7:
                break
    return bytes(mutated)


@pytest.mark.parametrize("seed", range(10))
def test_mutated_databases_end_in_a_table_or_a_plain_error(run: CommandLine, tmp_path: Path, seed: int) -> None:
    """CommandLine checks exit codes, and that there is neither a traceback nor an internal error."""
    chance = random.Random(seed)
    originals = [
        write_small_trace(tmp_path / "trace.db").read_bytes(),
        write_counter_pass(tmp_path / "counters.db").read_bytes(),
    ]
    codes = set()
    for number in range(10):
        path, copy = tmp_path / f"{number}.db", tmp_path / f"{number}-copy.db"
        path.write_bytes(_mutated(originals[number % 2], chance))
        for arguments in (
            ("info", path),
            ("kernels", path),
            ("dispatches", path),
            ("frame", "samples", path),
            ("rocpd", "recover", path, "-o", copy),
        ):
            ran = run(*arguments)
            codes.add(ran.code)
            assert ran.code != 2
            assert ran.code == 0 or ran.err.strip()
        if copy.exists():
            assert "recovered-copy" in run("info", copy).err
    assert codes == {0, 1}


# In processes of their own


def _process(*arguments: object, text: bool = True) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-W", "error", "-m", "rocktools.cli.main", *map(str, arguments)],
        capture_output=True,
        text=text,
        check=False,
    )


@pytest.mark.parametrize("arguments", [("info",), ("kernels",), ("dispatches",), ("frame", "ranges")], ids=_named)
def test_process_of_its_own_says_the_same(databases, run: CommandLine, arguments: tuple[str, ...]) -> None:
    ran = _process(*arguments, databases.mixed, "--format", "json")
    here = run(*arguments, databases.mixed, "--format", "json")
    assert (ran.returncode, ran.stdout, ran.stderr) == (here.code, here.out, here.err)


def test_parquet_goes_through_a_pipe(databases, tmp_path: Path) -> None:
    pytest.importorskip("pyarrow.parquet")
    ran = _process("dispatches", databases.trace, "--format", "parquet", text=False)
    assert (ran.returncode, ran.stderr) == (0, b"")
    (tmp_path / "piped.parquet").write_bytes(ran.stdout)  # type: ignore[arg-type]
    assert len(read_rows(tmp_path / "piped.parquet")) == 400


def test_exit_codes_reach_the_shell(databases, tmp_path: Path) -> None:
    assert _process("kernels", databases.trace).returncode == 0
    assert _process("kernels", databases.truncated).returncode == 1
    assert _process("kernels", databases.trace, "--by", "x").returncode == 2
    assert _process("rocpd", "recover", databases.truncated, "-o", tmp_path / "copy.db").returncode == 0
    assert _process("rocpd", "scrub", databases.truncated, "-o", tmp_path / "other.db").returncode == 1


def test_libraries_that_are_optional_are_not_needed(databases) -> None:
    script = (
        "import sys\n"
        "for name in ('pyarrow', 'adbc_driver_sqlite', 'adbc_driver_manager', 'jsonschema'): sys.modules[name] = None\n"
        "from rocktools.cli.main import main\n"
        "sys.exit(main(sys.argv[1:]))\n"
    )
    for arguments in (("info",), ("kernels",), ("dispatches",), ("frame", "host_calls")):
        ran = subprocess.run(
            [sys.executable, "-c", script, *arguments, str(databases.trace)],
            capture_output=True,
            text=True,
            check=False,
        )
        assert ran.returncode == 0, ran.stderr
