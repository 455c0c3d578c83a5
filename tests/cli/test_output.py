"""Tables and findings on their way out: the shared options, new files only, and nothing half-written."""

from __future__ import annotations

import inspect
import json
import os
import pty
import subprocess
import sys
from dataclasses import replace

import click
import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner

from rocktools.cli.options import table_options
from rocktools.cli.output import TableFormat, TableOutput, emit_findings, emit_table, emit_tables, new_file
from rocktools.errors import RocktoolsError, UsageError
from rocktools.evidence import Evidence
from rocktools.findings import Finding, Severity
from rocktools.render.table import Table, table_column

LONG_NAME = "Cijk_Ailk_Bljk_BBS_BH_Bias_HA_S_SAV_UserArgs_MT256x256x64_MI16x16x1_SN_LDSB1_AFC1_WG32_8_1"

TRIAL = """
import sys
import numpy as np, pandas as pd
from rocktools.cli.output import TableFormat, TableOutput, emit_table
from rocktools.evidence import Evidence
from rocktools.render.table import Table, table_column
frame = pd.DataFrame({"kernel_name": sys.argv[3], "sum_ns": np.arange(int(sys.argv[2]))})
columns = tuple(table_column(n, "a column", evidence=Evidence.MEASURED, dtype=frame[n].dtype) for n in frame.columns)
table = Table(name="trial", title="a trial", columns=columns, frame=frame, is_simulated=True)
output = TableOutput(table_format=TableFormat(sys.argv[1]))
"""


def _table(rows_count: int = 100) -> Table:
    frame = pd.DataFrame({"kernel_name": LONG_NAME, "sum_ns": np.arange(rows_count)})
    columns = tuple(
        table_column(name, "a column", evidence=Evidence.MEASURED, dtype=frame[name].dtype) for name in frame.columns
    )
    return Table(name="trial", title="a trial", columns=columns, frame=frame, is_simulated=True)


@click.command()
@table_options(top_count=20)
def trial(output: TableOutput) -> None:
    """A trial."""
    emit_table(_table(), output)


def _runner() -> CliRunner:
    """click before 8.2 mixes both streams unless it is told not to; later versions do not know that argument."""
    has_option = "mix_stderr" in inspect.signature(CliRunner).parameters
    return CliRunner(**{"mix_stderr": False} if has_option else {})


@pytest.fixture
def run(tmp_path, monkeypatch):
    """Runs the trial command in an empty folder: exit code, standard output, standard error, the error raised."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("COLUMNS", raising=False)
    return lambda *arguments: _runner().invoke(trial, arguments)


def test_table_is_the_default_and_is_cut(run):
    result = run()
    assert result.stdout.startswith("SIMULATED: no hardware produced these numbers\na trial\n")
    assert "cut: showing 20 of 100 rows; --top 0 shows all" in result.stdout
    assert result.stderr == ""


def test_other_formats_are_whole_unless_cut_on_purpose(run):
    assert len(json.loads(run("--format", "json").stdout)["rows"]) == 100
    assert len(run("--format", "csv").stdout.splitlines()) == 101
    cut = run("--format", "csv", "--top", "3")
    assert len(cut.stdout.splitlines()) == 4
    assert cut.stderr == "cut: 3 of 100 rows written; --top 0 writes all\n"


def test_text_in_a_file_is_whole_unless_cut_on_purpose(run, tmp_path):
    assert run("-o", "whole.txt").exit_code == 0
    whole = (tmp_path / "whole.txt").read_text(encoding="utf-8")
    assert whole.count("WG32_8_1") == 100
    assert "cut:" not in whole
    assert run("-o", "cut.txt", "--top", "3").stderr == "wrote cut.txt: 3 rows\n"
    assert "cut: showing 3 of 100 rows" in (tmp_path / "cut.txt").read_text(encoding="utf-8")


def test_top_0_shows_all(run):
    result = run("--top", "0")
    assert result.stdout.count("WG32_8_1") == 100
    assert "cut:" not in result.stdout


@pytest.mark.parametrize("arguments", [["--top", "-1"], ["--top", "many"], ["--format", "yaml"]])
def test_bad_values_are_usage_errors(run, arguments):
    assert run(*arguments).exit_code == 2


def test_command_without_top_option_shows_all_rows(tmp_path):
    @click.command()
    @table_options()
    def whole(output: TableOutput) -> None:
        emit_table(_table(), output)

    result = CliRunner().invoke(whole, [])
    assert result.stdout.count("WG32_8_1") == 100
    assert CliRunner().invoke(whole, ["--top", "3"]).exit_code == 2


@pytest.mark.parametrize(
    "arguments, first",
    [
        (["-o", "result.txt"], b"SIMULATED"),
        (["-o", "result.csv"], b"kernel_name,sum_ns,evidence,is_simulated\r\n"),
        (["-o", "result.JSON"], b'{\n "schema": "rocktools.table/1"'),
        (["-o", "result.csv", "--format", "json"], b'{\n "schema": "rocktools.table/1"'),
        (["--format", "table", "--output", "result.csv"], b"SIMULATED"),
        (["-o", "result"], b"SIMULATED"),
        (["-o", "result.xlsx", "--format", "csv"], b"kernel_name,sum_ns,evidence,is_simulated\r\n"),
    ],
)
def test_suffix_of_the_file_chooses_the_format_unless_it_is_given(run, tmp_path, arguments, first):
    result = run(*arguments)
    assert (result.exit_code, result.stdout) == (0, "")
    (written,) = tmp_path.iterdir()
    assert result.stderr == f"wrote {written.name}: 100 rows\n"
    assert written.read_bytes().startswith(first)


@pytest.mark.parametrize("name, suffix", [("y.xlsx", "'.xlsx'"), ("w.csv.gz", "'.gz'"), ("w.table", "'.table'")])
def test_suffix_that_names_no_format_is_refused_and_the_others_listed(run, tmp_path, name, suffix):
    result = run("-o", name)
    assert isinstance(result.exception, UsageError)
    assert str(result.exception) == (
        f"unknown-suffix: the suffix {suffix} names no format; known are .txt, .csv, .json, .parquet, .md, and no "
        f"suffix is a text table\n  where: {name}\n  try: another name, or --format table|csv|json|parquet|markdown"
    )
    assert list(tmp_path.iterdir()) == []


def test_several_tables_in_a_file_are_counted(tmp_path, capsys):
    emit_tables([_table(2), _table(3)], TableOutput(path=tmp_path / "result.txt"), schema="trial/1", head={})
    assert capsys.readouterr().err == f"wrote {tmp_path / 'result.txt'}: 2 tables, 5 rows\n"


def test_parquet_goes_to_a_file(run, tmp_path):
    parquet = pytest.importorskip("pyarrow.parquet")
    assert run("-o", "result.parquet").exit_code == 0
    assert parquet.read_table(tmp_path / "result.parquet").num_rows == 100


def test_parquet_goes_to_a_pipe(run):
    pytest.importorskip("pyarrow")
    assert run("--format", "parquet").stdout_bytes.startswith(b"PAR1")


def test_parquet_does_not_go_to_a_terminal(run, monkeypatch):
    monkeypatch.setattr("rocktools.cli.options._is_terminal", lambda: True)
    result = run("--format", "parquet")
    assert isinstance(result.exception, UsageError)
    assert "Parquet is binary" in str(result.exception)


def test_dash_is_standard_output(run, tmp_path):
    assert run("-o", "-").stdout.startswith("SIMULATED")
    assert list(tmp_path.iterdir()) == []


def test_file_that_is_there_is_never_overwritten(run, tmp_path):
    (tmp_path / "result.csv").write_text("precious", encoding="utf-8")
    result = run("-o", "result.csv")
    assert isinstance(result.exception, UsageError)
    assert str(result.exception) == (
        "output-exists: the file is there already, and results are never overwritten\n"
        "  where: result.csv\n"
        "  try: another name, or remove the file first"
    )
    assert (tmp_path / "result.csv").read_text(encoding="utf-8") == "precious"


def test_file_is_refused_before_the_command_reads_anything(tmp_path):
    @click.command()
    @table_options()
    def slow(output: TableOutput) -> None:
        raise AssertionError("it started to work")

    result = CliRunner().invoke(slow, ["-o", str(tmp_path)])
    assert isinstance(result.exception, UsageError)


@pytest.mark.parametrize(
    "name, reference",
    [(".", "output-is-folder"), ("no/such/folder.csv", "output-folder-missing"), ("dangling", "output-exists")],
)
def test_places_where_no_new_file_can_be_made_are_refused(run, tmp_path, name, reference):
    (tmp_path / "dangling").symlink_to("nowhere")
    result = run("-o", name)
    assert isinstance(result.exception, UsageError)
    assert result.exception.reference == reference


def test_device_is_written_to_and_not_replaced(run):
    assert run("-o", os.devnull).exit_code == 0
    assert not os.path.isfile(os.devnull)  # noqa: PTH113


def _write(path, text, then):
    with new_file(path) as partial:
        partial.write_text(text, encoding="utf-8")
        assert partial.parent == path.parent
        then()


def test_file_that_appears_while_the_command_runs_is_not_overwritten(tmp_path):
    path = tmp_path / "result.csv"
    with pytest.raises(UsageError, match="never overwritten"):
        _write(path, "ours", then=lambda: path.write_text("theirs", encoding="utf-8"))
    assert path.read_text(encoding="utf-8") == "theirs"
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("error", [ValueError("oh"), KeyboardInterrupt(), BrokenPipeError()])
def test_nothing_is_left_of_a_file_that_failed_halfway(tmp_path, error):
    def fail():
        raise error

    with pytest.raises(type(error)):
        _write(tmp_path / "result.csv", "half", then=fail)
    assert list(tmp_path.iterdir()) == []


def test_full_disk_is_told_with_the_name_of_the_file(tmp_path):
    path = tmp_path / "result.csv"
    with pytest.raises(RocktoolsError) as caught, new_file(path):
        raise OSError(28, "No space left on device")
    assert str(caught.value) == f"output-failed: could not write: No space left on device\n  where: {path}"


def test_table_that_fails_halfway_leaves_no_file(tmp_path, monkeypatch):
    def fail(table: Table, stream: object) -> None:
        stream.write("half")  # type: ignore[attr-defined]
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("rocktools.render.csv_table.write_csv", fail)
    with pytest.raises(RocktoolsError, match="No space left"):
        emit_table(_table(), TableOutput(table_format=TableFormat.CSV, path=tmp_path / "result.csv"))
    assert list(tmp_path.iterdir()) == []


def test_names_that_are_not_utf8_are_spelled_out(tmp_path):
    table = Table(
        name="trial",
        title="a trial",
        columns=(table_column("path", "a path", evidence=Evidence.DECLARED, dtype="object"),),
        frame=pd.DataFrame({"path": pd.Series(["caf\udce9.db"], dtype=object)}),
        is_simulated=False,
    )
    emit_table(table, TableOutput(table_format=TableFormat.JSON, path=tmp_path / "result.json"))
    assert json.loads((tmp_path / "result.json").read_bytes())["rows"] == [{"path": "caf\udce9.db"}]
    for name in ("csv", "table"):
        emit_table(table, TableOutput(table_format=TableFormat(name), path=tmp_path / name))
        assert b"caf\\udce9.db" in (tmp_path / name).read_bytes()


@pytest.mark.parametrize("environment, width", [({}, 160), ({"COLUMNS": "50"}, 50)])
def test_width_of_a_pipe_is_160_or_columns(environment, width):
    inherited = {name: value for name, value in os.environ.items() if name != "COLUMNS"}
    script = TRIAL + "emit_table(table, output)"
    ran = subprocess.run(
        [sys.executable, "-c", script, "table", "3", LONG_NAME * 2],
        capture_output=True, check=True, env={**inherited, **environment}, encoding="utf-8",
    )  # fmt: skip
    assert max(map(len, ran.stdout.split("\n"))) == width
    assert "\x1b" not in ran.stdout


def test_file_does_not_take_the_width_of_the_terminal(tmp_path, monkeypatch):
    monkeypatch.delenv("COLUMNS", raising=False)
    monkeypatch.setattr("shutil.get_terminal_size", lambda fallback: os.terminal_size((40, 20)))
    emit_table(_table(3), TableOutput(path=tmp_path / "result.txt"))
    assert LONG_NAME in (tmp_path / "result.txt").read_text(encoding="utf-8")


def _optional_table() -> Table:
    return replace(_table(3), optional_columns=("sum_ns",))


@pytest.mark.parametrize("several", [False, True])
def test_columns_are_left_out_where_the_width_is_known_and_never_in_a_file(tmp_path, monkeypatch, capsys, several):
    def emit(output: TableOutput) -> str:
        if several:
            emit_tables([_optional_table()], output, schema="trial/1", head={})
        else:
            emit_table(_optional_table(), output)
        return str(capsys.readouterr().out)

    monkeypatch.setenv("COLUMNS", "20")
    other = "json" if several else "csv"
    assert f"hidden for width 20: sum_ns; --format {other} has all\n" in emit(TableOutput())
    emit(TableOutput(path=tmp_path / "result.txt"))
    assert "hidden" not in (tmp_path / "result.txt").read_text(encoding="utf-8")
    assert "sum_ns" in emit(TableOutput(table_format=TableFormat.JSON))
    monkeypatch.delenv("COLUMNS")
    monkeypatch.setattr("shutil.get_terminal_size", lambda fallback: os.terminal_size((20, 20)))
    assert "hidden" not in emit(TableOutput())


def test_standard_output_that_is_a_file_is_one_too(tmp_path):
    script = TRIAL + (
        "from dataclasses import replace\nemit_table(replace(table, optional_columns=('sum_ns',)), output)"
    )
    with (tmp_path / "shown.txt").open("wb") as stream:
        subprocess.run(
            [sys.executable, "-c", script, "table", "3", LONG_NAME],
            stdout=stream, check=True, env={**os.environ, "COLUMNS": "20"},
        )  # fmt: skip
    assert "hidden" not in (tmp_path / "shown.txt").read_text(encoding="utf-8")


def test_terminal_gets_no_control_codes_either():
    ours, theirs = pty.openpty()
    script = TRIAL + "emit_table(table, output)"
    inherited = {name: value for name, value in os.environ.items() if name != "COLUMNS"}
    with subprocess.Popen(
        [sys.executable, "-c", script, "table", "3", "gemm"], stdout=theirs, env=inherited
    ) as process:
        assert process.wait(timeout=60) == 0
    os.close(theirs)
    shown = os.read(ours, 65536)
    os.close(ours)
    assert b"SIMULATED" in shown
    assert b"\x1b" not in shown


@pytest.mark.parametrize("unbuffered", ["", "1"])
@pytest.mark.parametrize("table_format", ["table", "csv", "json"])
def test_closed_pipe_ends_a_table_quietly(table_format, unbuffered, monkeypatch):
    monkeypatch.setenv("PYTHONUNBUFFERED", unbuffered)
    script = TRIAL + (
        "import types, click\n"
        "from rocktools.cli.main import COMMANDS, main\n"
        "module = types.ModuleType('rocktools.cli.trial')\n"
        "module.command = click.command('trial')(lambda: emit_table(table, output))\n"
        "sys.modules[module.__name__] = module\n"
        "COMMANDS['trial'] = (module.__name__, '')\n"
        "sys.exit(main(['trial']))\n"
    )
    command = [sys.executable, "-c", script, table_format, "20000", LONG_NAME]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.read(10)
        process.stdout.close()
        assert process.stderr.read() == b""
        assert process.wait(timeout=60) == 1


@pytest.mark.parametrize("arguments", [[], ["--format", "csv"], ["--format", "json"]])
def test_closed_standard_output_is_told_before_the_command_reads_anything(run, monkeypatch, arguments):
    @click.command()
    @table_options()
    def slow(output: TableOutput) -> None:
        raise AssertionError("it started to work")

    monkeypatch.setattr("sys.stdout", None)
    with pytest.raises(RocktoolsError, match="output-closed: standard output is closed") as caught:
        slow.main(arguments, standalone_mode=False)
    assert caught.value.exit_code == 1


def test_closed_standard_output_is_told_where_no_option_chose_it(monkeypatch):
    monkeypatch.setattr("sys.stdout", None)
    with pytest.raises(RocktoolsError, match="output-closed"):
        emit_table(_table(), TableOutput(table_format=TableFormat.CSV))


def test_findings_go_into_the_document_heaviest_first(tmp_path):
    findings = [_finding("small-thing", Severity.NOTE), _finding("broken", Severity.FAULT)]
    output = TableOutput(table_format=TableFormat.JSON, path=tmp_path / "result.json")
    emit_table(_table(1), output, findings=findings)
    document = json.loads((tmp_path / "result.json").read_bytes())
    assert [finding["rule"] for finding in document["findings"]] == ["broken", "small-thing"]


def _finding(rule: str, severity: Severity, number: int = 0) -> Finding:
    return Finding(rule=rule, severity=severity, where=f"row {number}", message="it is so", advice="")


def test_findings_are_shown_heaviest_first_and_counted(capsys):
    notes = [_finding("small-thing", Severity.NOTE, number) for number in range(5)]
    emit_findings([*notes, _finding("doubt", Severity.WARNING), _finding("broken", Severity.FAULT)], at_most=2)
    out, err = capsys.readouterr()
    assert out == ""
    assert err.splitlines() == [
        "fault [broken] row 0: it is so",
        "warning [doubt] row 0: it is so",
        "note [small-thing] row 0: it is so",
        "note [small-thing] row 1: it is so",
        "... and 3 more of [small-thing]",
        "findings: 1 fault, 1 warning, 5 notes",
    ]


def test_no_findings_no_words(capsys):
    emit_findings([])
    assert capsys.readouterr() == ("", "")
