"""Rows of counters as CSV files have them (one for each dispatch and counter) -> the frames of counter passes.

Knows nothing of any tool's headers: the readers of CSV files bring their rows into the columns of `ROW_COLUMNS`.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from rocktools.errors import DamagedFile
from rocktools.findings import Finding, Severity
from rocktools.frames import (
    AGENTS,
    COUNTED_DISPATCHES,
    COUNTER_VALUES,
    GRID,
    PROCESSES,
    WORKGROUP,
    FrameSpec,
    nullable_int64,
    require_frame,
)
from rocktools.sources.packed import read_unpacked
from rocktools.sources.rocpd.columns import exact_integer
from rocktools.sources.rocpd.labels import clean_kernel_name
from rocktools.units import count_noun

_TEXTS = ("process", "pass", "raw_kernel_name", "counter")
_REQUIRED = ("dispatch_id", "pass_start_ns", "pass_end_ns")
_OPTIONAL = (
    *("agent_id", "kernel_id", "queue_id", "thread_id", *GRID, *WORKGROUP),
    *("lds_bytes", "scratch_bytes", "vgpr_count", "agpr_count", "sgpr_count"),
)
ROW_COLUMNS = (*_TEXTS, *_REQUIRED, *_OPTIONAL, "value")
"""Columns of the rows that `build_counted_frames` takes."""

_DISPATCH = ["process", "dispatch_id", "pass"]
_MARK = " (.kd)"  # of old versions of rocprof-compute


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class CountedFrames:
    """Frames of the readers' contracts, of all processes in some files.

    Attributes:
        requested: counters that were asked for, where the files say so.
        has_declared_facts: whether facts of the devices come from a table of models, and not from the devices.
        has_pass_times: whether times are those of a pass, and not of several put together.
        findings: doubts about the files.
    """

    counted: pd.DataFrame
    values: pd.DataFrame
    agents: pd.DataFrame
    processes: pd.DataFrame
    requested: frozenset[str] = frozenset()
    has_declared_facts: bool = False
    has_pass_times: bool = True
    findings: tuple[Finding, ...] = ()


def read_text_table(path: Path) -> pd.DataFrame:
    """A CSV file, packed with gzip or not, with every value as text, missing ones as "".

    Raises:
        InputError: the file cannot be read.
        DamagedFile: it is empty, no text, or no table.
    """
    return _parse_table(read_unpacked(path), path)


def read_whole_rows(path: Path) -> tuple[pd.DataFrame, list[Finding]]:
    """The rows of a CSV file that end, as `read_text_table` gives them, and a finding about one that does not.

    A value at the end of a line that was cut off is a number, and a wrong one. A last line without an end that has all
    its columns and ends with a time after its start was not cut off: some editors take the last end of line away.

    Raises:
        InputError, DamagedFile: as `read_text_table`.
    """
    content = read_unpacked(path)
    whole = content[: content.rfind(b"\n") + 1]
    table = _parse_table(whole or content, path)
    if len(whole) == len(content) or not whole:
        return table, []
    if _ends_with_its_time(content[len(whole) :], list(table.columns)):
        return _parse_table(content, path), []
    finding = Finding(
        rule="csv-cut-off",
        severity=Severity.WARNING,
        where=str(path),
        message="its last line has no end, and is left out",
        numbers={"left_out_bytes": len(content) - len(whole)},
        advice="was the program killed, or the disk full? Other rows may be missing too",
    )
    return table, [finding]


def _ends_with_its_time(line: bytes, columns: Sequence[str]) -> bool:
    try:
        cells = next(csv.reader([line.decode("utf-8", errors="replace")]), [])
    except csv.Error:  # a NUL, in older Pythons
        return False
    named = dict(zip((column.lower() for column in columns), cells, strict=False))
    start, end = (_integer(named.get(name, "")) for name in ("start_timestamp", "end_timestamp"))
    is_last = bool(columns) and columns[-1].lower() == "end_timestamp" and len(cells) == len(columns)
    return is_last and start is not None and end is not None and end >= start


def _parse_table(content: bytes, path: Path) -> pd.DataFrame:
    try:
        text = io.StringIO(content.decode("utf-8-sig"))
        return pd.read_csv(text, dtype=str, keep_default_na=False, skipinitialspace=True)
    except (pd.errors.EmptyDataError, pd.errors.ParserError, UnicodeError) as error:
        raise DamagedFile("csv-damaged", f"it is no whole CSV table: {error}", where=str(path)) from error


def parse_integers(texts: pd.Series) -> pd.Series:
    """`Int64` values; <NA> where a text is no integer. A fraction is cut off: the tool made a mean of whole times."""
    known = {text: _integer(text) for text in texts.unique()}
    found = [known[text] for text in texts]
    # Never through float64, as pandas' own conversion of a column with gaps goes: times are beyond 2**53.
    values = np.array([0 if value is None else value for value in found], dtype=np.int64)
    is_missing = np.array([value is None for value in found], dtype=np.bool_)
    return pd.Series(nullable_int64(values, is_missing), index=texts.index)


def _integer(text: str) -> int | None:
    whole, _, fraction = text.partition(".")
    return exact_integer(whole) if not fraction or fraction.isdigit() else None


def parse_values(texts: pd.Series) -> pd.Series:
    """`float64` values; NaN where a text is no finite number."""
    values = pd.to_numeric(texts, errors="coerce").astype("float64")
    return values.where(np.isfinite(values))


def drop_broken_rows(rows: pd.DataFrame, path: Path, columns: Sequence[str]) -> tuple[pd.DataFrame, list[Finding]]:
    """The rows that have all of these, and a finding about the others: a file that was cut off ends in the middle."""
    is_broken = rows[list(columns)].isna().any(axis=1)
    lost = int(is_broken.sum())
    if not lost:
        return rows, []
    finding = Finding(
        rule="csv-rows-broken",
        severity=Severity.WARNING,
        where=str(path),
        message=(
            f"{count_noun(lost, 'row')} of {len(rows):,} left out: one of {', '.join(columns)} is missing or no number"
        ),
        numbers={"lost_rows_count": lost},
        advice="was the file cut off?",
    )
    return rows[~is_broken].reset_index(drop=True), [finding]


def label_passes(rows: pd.DataFrame, label: str) -> pd.Series:
    """The pass of each row: `label`, or `label` and a number where a dispatch ran more than once.

    A dispatch that has several times was counted in several runs of the program, and its rows of one time belong to one
    of them. Runs are told apart by what they counted, since their order in the file means nothing.

    Args:
        rows: process, dispatch_id, pass_start_ns, pass_end_ns, counter.
    """
    times = ["process", "dispatch_id", "pass_start_ns", "pass_end_ns"]
    executions = rows.groupby(times, sort=False, dropna=False)["counter"].agg(frozenset).reset_index()
    if not executions.duplicated(["process", "dispatch_id"]).any():
        return pd.Series([label] * len(rows), index=rows.index, dtype=object)
    executions = executions.sort_values(["pass_start_ns", "pass_end_ns"], kind="stable")
    number_of: dict[frozenset[str], int] = {}
    numbers = [number_of.setdefault(counters, len(number_of)) for counters in executions["counter"]]
    executions["pass"] = [pass_name(label, number) for number in numbers]
    return rows[times].merge(executions[[*times, "pass"]], on=times, how="left")["pass"].set_axis(rows.index)


def pass_name(label: str, number: int) -> str:
    """Label of a numbered pass; the numbers sort like the labels."""
    return f"{label}/{number:02d}"


def build_counted_frames(
    rows: pd.DataFrame, *, run: str, path: Path, tool: str, agents: pd.DataFrame, pids: Mapping[str, int]
) -> CountedFrames:
    """The frames of counter passes.

    Args:
        rows: `ROW_COLUMNS`; integers as Int64, `value` as float64, the rest as text. Empty `raw_kernel_name`: nameless.
        tool: what wrote the file.
        agents: AGENTS of every process.
        pids: process label -> process id, where it is known.
    """
    values, findings = _values(rows, run, path)
    return CountedFrames(
        counted=_counted(rows, run),
        values=values,
        agents=agents,
        processes=_processes(rows, run, path, tool, pids),
        findings=tuple(findings),
    )


def complete_frame(columns: Mapping[str, object], spec: FrameSpec, rows_count: int) -> pd.DataFrame:
    """A frame of the spec from some of its columns; the others are missing in every row."""
    whole = {column.name: columns.get(column.name, [None] * rows_count) for column in spec.columns}
    frame = pd.DataFrame(whole, index=range(rows_count))
    return require_frame(frame.astype({column.name: column.dtype for column in spec.columns}), spec)


def _counted(rows: pd.DataFrame, run: str) -> pd.DataFrame:
    first = rows.drop_duplicates(_DISPATCH).reset_index(drop=True)
    first = first.sort_values(["process", "pass_start_ns", "dispatch_id"], kind="stable", ignore_index=True)
    raw = first["raw_kernel_name"]
    names = [
        clean_kernel_name(name.rstrip().removesuffix(_MARK)) or f"kernel_{kernel_id}"
        for name, kernel_id in zip(raw, first["kernel_id"].fillna(0), strict=True)
    ]
    columns: dict[str, object] = {name: first[name] for name in (*_DISPATCH, *_REQUIRED, *_OPTIONAL)}
    columns |= {
        "run": run,
        "agent_id": first["agent_id"].fillna(0),
        "kernel_id": first["kernel_id"].fillna(0),
        "kernel_name": names,
        "raw_kernel_name": raw.where(raw != "", None),
    }
    return complete_frame(columns, COUNTED_DISPATCHES, len(first))


def _values(rows: pd.DataFrame, run: str, path: Path) -> tuple[pd.DataFrame, list[Finding]]:
    key = [*_DISPATCH, "counter"]
    is_repeated = rows.duplicated(key, keep=False)
    kept = rows.assign(value=rows["value"].mask(is_repeated)).drop_duplicates(key)
    kept = kept.sort_values(["process", "dispatch_id", "counter"], kind="stable", ignore_index=True)
    columns = {**{name: kept[name] for name in key}, "run": run, "sum_value": kept["value"]}
    findings = []
    if is_repeated.any():
        names = sorted(set(rows.loc[is_repeated, "counter"]))
        findings.append(
            Finding(
                rule="replay-overcount",
                severity=Severity.FAULT,
                where=str(path),
                message=(
                    f"{', '.join(names[:3])}{', ...' if len(names) > 3 else ''}: several values for one dispatch, "
                    "as kernel replay writes them; they cannot be told apart and are shown as missing"
                ),
                numbers={"counters_count": len(names)},
                advice="name each counter in one group only, or collect again without kernel replay",
            )
        )
    return complete_frame(columns, COUNTER_VALUES, len(kept)), findings


def _processes(rows: pd.DataFrame, run: str, path: Path, tool: str, pids: Mapping[str, int]) -> pd.DataFrame:
    labels = sorted(set(rows["process"]))
    columns: dict[str, object] = {
        "run": run,
        "process": labels,
        "path": str(path),
        "tool": tool,
        "content": "counters",
        "is_simulated": False,
        "pid": [pids.get(label) for label in labels],
    }
    return complete_frame(columns, PROCESSES, len(labels))


def build_agents(facts: Iterable[Mapping[str, object]], *, run: str, processes: Iterable[str]) -> pd.DataFrame:
    """AGENTS: the same GPUs for every process.

    Args:
        facts: of each agent, columns of AGENTS; `agent_id` at least.
    """
    listed = [
        {"kind": "GPU", **agent, "run": run, "process": process} for process in sorted(processes) for agent in facts
    ]
    names = {name for agent in listed for name in agent}
    columns: dict[str, object] = {name: [agent.get(name) for agent in listed] for name in names}
    columns["device"] = [agent.get("device") or f"node:gpu{agent['agent_id']}" for agent in listed]
    return complete_frame(columns, AGENTS, len(listed))
