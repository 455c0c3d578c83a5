"""Runs commands in this process, and reads back what they wrote in any format."""

from __future__ import annotations

import csv
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from rocktools.cli.main import main

FORMATS = ("csv", "json", "parquet")
Row = dict[str, Any]


@dataclass(frozen=True)
class Ran:
    """A command that has ended."""

    code: int
    out: str
    err: str


class CommandLine:
    """Runs commands; a traceback or an internal error never passes unseen."""

    def __init__(self, capsys: pytest.CaptureFixture[str]) -> None:
        self._capsys = capsys

    def __call__(self, *arguments: object) -> Ran:
        self._capsys.readouterr()
        code = main([str(argument) for argument in arguments])
        out, err = self._capsys.readouterr()
        assert "internal error" not in err, err
        assert "Traceback" not in err, err
        assert code in (0, 1, 2, 3)
        return Ran(code, out, err)

    def rows(self, *arguments: object, code: int = 0) -> list[Row]:
        """The rows that a command prints as JSON."""
        return [dict(row) for row in self.document(*arguments, code=code)["rows"]]

    def document(self, *arguments: object, code: int = 0) -> dict[str, Any]:
        ran = self(*arguments, "--format", "json")
        assert ran.code == code, ran.err
        document: dict[str, Any] = json.loads(ran.out)
        return document


def read_rows(path: Path) -> list[Row]:
    """The rows of a file that a command wrote, as its format gives them."""
    if path.suffix == ".json":
        return list(json.loads(path.read_text(encoding="utf-8"))["rows"])
    if path.suffix == ".csv":
        with path.open(encoding="utf-8", newline="") as stream:
            return list(csv.DictReader(stream))
    parquet = pytest.importorskip("pyarrow.parquet")
    return list(parquet.read_table(path).to_pylist())


def assert_formats_agree(run: CommandLine, folder: Path, *arguments: object) -> list[Row]:
    """Check that CSV, JSON and Parquet of a command hold equal rows. Returns those of JSON."""
    read = {}
    for name in FORMATS:
        ran = run(*arguments, "-o", folder / f"table.{name}")
        assert (ran.code, ran.out) == (0, ""), ran.err
        read[name] = read_rows(folder / f"table.{name}")
    expected: list[Row] = read["json"]
    for name in ("csv", "parquet"):
        assert len(read[name]) == len(expected)
    for row, from_parquet, from_csv in zip(expected, read["parquet"], read["csv"], strict=True):
        assert from_parquet == row
        assert list(from_csv)[: len(row)] == list(row)
        for column, value in row.items():
            text = from_csv[column]
            if isinstance(value, float):
                assert float(text) == value
            else:
                assert text == ("" if value is None else str(value)), column
    return expected
