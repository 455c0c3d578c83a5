"""A connection -> the processes in it, and the tables and columns each of them really has.

One file holds one process, unless several were merged. Every table is `rocpd_<base><suffix>`; unsuffixed names are
views over them. Nothing here or in any reader depends on a view, or on the version text: schema 3 changed under one
name, and two different changes are both called 3.0.4, so columns are probed.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from rocktools.errors import DamagedFile, UnknownFormat, UnsupportedVersion
from rocktools.sources.rocpd.columns import TableReader

# The tables that schema 3 had from the start.
BASE_TABLES = (
    "metadata",
    "string",
    "info_node",
    "info_process",
    "info_thread",
    "info_agent",
    "info_queue",
    "info_stream",
    "info_pmc",
    "info_code_object",
    "info_kernel_symbol",
    "track",
    "event",
    "arg",
    "pmc_event",
    "region",
    "sample",
    "kernel_dispatch",
    "memory_copy",
    "memory_allocate",
)
SIMULATED_TAG = "rocktools_simulated"
RECOVERED_TAG = "rocktools_recovered"

_NAME_PATTERN = re.compile("rocpd_(" + "|".join(sorted(BASE_TABLES, key=len, reverse=True)) + ")(.*)", re.DOTALL)


@dataclass(frozen=True, slots=True, kw_only=True)
class TableColumn:
    """One column of a real table: its declared type and whether the schema lets it be NULL."""

    name: str
    declared_type: str
    is_nullable: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """One real table of one process; `name` is its full name, suffix included."""

    base: str
    name: str
    columns: Mapping[str, TableColumn]

    @property
    def quoted(self) -> str:
        return quote_name(self.name)

    @property
    def in_order(self) -> str:
        """What follows FROM where the order of the rows matters: the columns of one table come from several queries.

        Users add indexes to make queries faster, and SQLite would read a column from its index, in the index's order.
        """
        return f"{self.quoted} NOT INDEXED"


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessTables:
    """What one profiled process left in one database.

    Attributes:
        path: the file.
        suffix: what its table names end in, verbatim.
        label: the suffix as an identifier, unique world-wide.
        metadata: the process's own tag -> value rows (one value per tag: tables are per process).
        tables: base name -> table; only those that exist.
    """

    path: Path
    suffix: str
    label: str
    metadata: Mapping[str, str]
    tables: Mapping[str, Table]

    @property
    def schema_version(self) -> str | None:
        return self.metadata.get("schema_version")

    @property
    def is_simulated(self) -> bool:
        return SIMULATED_TAG in self.metadata

    @property
    def missing_tables(self) -> tuple[str, ...]:
        """Base names of schema 3 that the file lacks."""
        return tuple(base for base in BASE_TABLES if base not in self.tables)

    def has(self, base: str, *columns: str) -> bool:
        """Whether the table exists with all these columns."""
        table = self.tables.get(base)
        return table is not None and all(column in table.columns for column in columns)


@dataclass(frozen=True, slots=True)
class _Foreign:
    """A format that is SQLite but not rocpd: how it is recognised, what it is called, what to do with it."""

    reference: str
    tables: frozenset[str] = field(repr=False)
    what: str
    hint: str


_FOREIGN = (
    _Foreign(
        "not-rocpd-rpd",
        frozenset({"rocpd_op", "rocpd_api"}),
        "this is an rpd trace (rocmProfileData, runTracer.sh), an older format with similar table names",
        "capture again with rocprofv3 --runtime-trace --output-format rocpd, or read it with the rpd tools",
    ),
    _Foreign(
        "not-rocpd-rocprof-v1",
        frozenset({"KERN"}),
        "this is a results.db of rocprof (version 1, ROCm 6 and before)",
        "capture again with rocprofv3 --runtime-trace --output-format rocpd",
    ),
    _Foreign(
        "not-rocpd-rocprof-v1",
        frozenset({"OPS"}),
        "this is a results.db of rocprof (version 1, ROCm 6 and before)",
        "capture again with rocprofv3 --runtime-trace --output-format rocpd",
    ),
    _Foreign(
        "not-rocpd-rocprof-compute",
        frozenset({"compute_metadata"}),
        "this is an analysis database of rocprof-compute (metric values, no dispatch trace)",
        "rocktools batch collect reads it; here, give the rocpd databases of the trace",
    ),
    _Foreign(
        "not-rocpd-nsight",
        frozenset({"StringIds", "TARGET_INFO_GPU"}),
        "this is an SQLite export of Nsight Systems (NVIDIA)",
        "rocktools reads traces of AMD GPUs",
    ),
)


def quote_name(name: str) -> str:
    """An SQL identifier that means exactly `name`."""
    return '"' + name.replace('"', '""') + '"'


def read_processes(reader: TableReader) -> tuple[ProcessTables, ...]:
    """The processes in a database, in the order in which their tables were created.

    Raises:
        UnknownFormat: an SQLite database of another tool; the tool is named where it is known.
        UnsupportedVersion: a rocpd schema of version 4 or later, or compressed.
        DamagedFile: rocpd, but without the tables of any process.
    """
    path = reader.path
    rows = reader.rows("SELECT type, name FROM sqlite_master WHERE type IN ('table', 'view')")
    table_names = [name for kind, name in rows if kind == "table" and not name.startswith("sqlite_")]
    view_names = {name for kind, name in rows if kind == "view"}
    _refuse_foreign(set(table_names), path)
    processes = [_read_process(reader, suffix, table_names) for suffix in _find_suffixes(reader, table_names)]
    for process in processes:
        _refuse_version(process)
    if processes:
        return tuple(processes)
    if any(name.startswith("rocpd_") for name in view_names):
        raise DamagedFile("rocpd-no-tables", "it has rocpd's views but none of its tables", where=str(path))
    if not table_names:
        raise DamagedFile(
            "rocpd-no-tables",
            "an SQLite database without any table: the profiled process died before it wrote its first row",
            where=str(path),
            hint="look into the log of that process; the tool writes its rows at exit",
        )
    raise UnknownFormat(
        "not-rocpd",
        f"an SQLite database, but not of rocpd: its tables are {', '.join(sorted(table_names)[:5])}"
        + (", ..." if len(table_names) > 5 else ""),
        where=str(path),
        hint="give the *_results.db files of rocprofv3 or rocprof-sys",
    )


def split_table_name(name: str) -> tuple[str, str] | None:
    """(base, suffix) of a table of schema 3; None for any other name."""
    match = _NAME_PATTERN.fullmatch(name)
    return None if match is None else (match.group(1), match.group(2))


def _refuse_foreign(table_names: set[str], path: Path) -> None:
    for foreign in _FOREIGN:
        if foreign.tables <= table_names:
            raise UnknownFormat(foreign.reference, foreign.what, where=str(path), hint=foreign.hint)


def _refuse_version(process: ProcessTables) -> None:
    version = process.schema_version or ""
    compression = process.metadata.get("compression")
    if compression or "info_blob_schema" in process.tables:
        raise UnsupportedVersion(
            "rocpd-compressed",
            f"a rocpd database with compressed columns ({compression or 'blob tables'}), never released",
            where=str(process.path),
            hint="capture with a released rocprofv3",
        )
    major = re.match(r"\d+", version)
    dispatch = process.tables.get("kernel_dispatch")
    # 4.x drafts keep queue, stream and agent of a dispatch in rocpd_track, and one forgot to raise its version.
    is_track_based = dispatch is not None and "track_id" in dispatch.columns
    if is_track_based or (major and int(major.group()) != 3):
        shown = version if major and int(major.group()) != 3 else f"{version or 'none given'}, but with the layout of 4"
        raise UnsupportedVersion(
            "rocpd-version",
            f"rocpd schema version {shown}; rocktools reads version 3 (3 to 3.0.5)",
            where=str(process.path),
            hint="update rocktools, or write the trace again with the rocprofv3 of ROCm 7",
        )


def _find_suffixes(reader: TableReader, table_names: list[str]) -> list[str]:
    """Suffixes by order of first table: those that the metadata tables name, and those that the names themselves show.

    A suffix that only one table shows is not believed: `rocpd_event_operation_0191` would give `_operation_0191`.
    """
    shown: dict[str, set[str]] = {}
    for name in table_names:
        match = _NAME_PATTERN.fullmatch(name)
        if match:
            shown.setdefault(match.group(2), set()).add(match.group(1))
    named: set[str] = set()
    for suffix, bases in shown.items():
        if "metadata" in bases:
            uuid = _read_metadata(reader, f"rocpd_metadata{suffix}").get("uuid")
            named.update({uuid or ""} & shown.keys())
    return [
        suffix
        for suffix, bases in shown.items()
        if suffix in named or len(bases) > 1 or bases & {"kernel_dispatch", "metadata"}
    ]


def _read_process(reader: TableReader, suffix: str, table_names: list[str]) -> ProcessTables:
    tables = {}
    for name in table_names:
        if name.startswith("rocpd_") and name.endswith(suffix) and len(name) > len("rocpd_" + suffix):
            base = name[len("rocpd_") : len(name) - len(suffix)]
            match = _NAME_PATTERN.fullmatch(name)
            if suffix == "" and (match is None or match.group(2) != ""):
                continue
            tables[base] = Table(base=base, name=name, columns=_read_columns(reader, name))
    metadata = _read_metadata(reader, tables["metadata"].name) if "metadata" in tables else {}
    label = suffix.lstrip("_").replace("_", "-") or reader.path.stem
    return ProcessTables(path=reader.path, suffix=suffix, label=label, metadata=metadata, tables=tables)


def _read_columns(reader: TableReader, name: str) -> dict[str, TableColumn]:
    return {
        row[1]: TableColumn(name=row[1], declared_type=row[2], is_nullable=not (row[3] or row[5]))
        for row in reader.rows(f"PRAGMA table_info({quote_name(name)})")
    }


def _read_metadata(reader: TableReader, name: str) -> dict[str, str]:
    """Tag -> value; {} where the table has other columns, as in hand-made files."""
    if not {"tag", "value"} <= _read_columns(reader, name).keys():
        return {}
    rows = reader.rows(f"SELECT tag, value FROM {quote_name(name)}")
    return {str(tag): str(value) for tag, value in rows if value is not None}


def parse_extdata(text: object) -> dict[str, object]:
    """The JSON object in an `extdata` column; {} where it is empty or broken, as rocprof-sys writes `''`."""
    if not isinstance(text, str) or not text.startswith("{"):
        return {}
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):  # ValueError: broken, or a number of thousands of digits
        return {}
    return value if isinstance(value, dict) else {}
