"""The tables of a rocpd database: a compact description, and the DDL made from it.

Turns a schema version into CREATE TABLE text for one suffix and guid; the views are in rocpd_views. It knows nothing of
rows or files.

Where the facts come from: the tables of version "3" are those of a real rocprofv3 database (ROCm 7.2.1), and a
conformance test compares them column by column. Columns and positions of 3.0.2 and 3.0.3 follow ROCm/rocm-systems
(the frozen 3.0.3 tables and versions.yml there). Three things are guesses, because no public text lists them: the
columns of `rocpd_hip_event` beside `queue_id` and `source_queue_id` (3.0.4), where `shader_array` and `wgp` stand
(3.0.5), and where `replay_pass` stands. Readers must probe columns by name anyway.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from rocktools.errors import UsageError, nearest_names

# One word per column: name[:TYPE][=default][!][@feature]; INTEGER where no type is given, `!` is NOT NULL, `@feature`
# columns exist only with that feature. `id` (and `guid`, except in metadata) come first in every table.
_JSON = 'extdata:JSONB="{}"!'
_SPAN = "start:BIGINT! end:BIGINT!"
_NAMED_PLACE = f"nid! pid! name:TEXT {_JSON}"
_GRAPH = "graph_exec_id=0!@graphs graph_node_id=0!@graphs"

_TABLES: Mapping[str, str] = MappingProxyType(
    {
        "metadata": "tag:TEXT! value:TEXT!",
        "string": "string:TEXT!",
        "info_node": "hash:BIGINT! machine_id:TEXT! system_name:TEXT hostname:TEXT release:TEXT version:TEXT"
        " hardware_name:TEXT domain_name:TEXT",
        "info_process": "nid! ppid pid! init:BIGINT fini:BIGINT start:BIGINT end:BIGINT command:TEXT"
        f' environment:JSONB="{{}}"! {_JSON}',
        "info_thread": f"nid! ppid pid! tid! name:TEXT start:BIGINT end:BIGINT {_JSON}",
        "info_agent": "nid! pid! type:TEXT absolute_index logical_index type_index uuid name:TEXT model_name:TEXT"
        f" vendor_name:TEXT product_name:TEXT user_name:TEXT {_JSON}",
        "info_queue": _NAMED_PLACE,
        "info_stream": _NAMED_PLACE,
        "info_pmc": "nid! pid! agent_id target_arch:TEXT event_code:INT instance_id name:TEXT! symbol:TEXT!"
        ' description:TEXT long_description:TEXT="" component:TEXT units:TEXT="" value_type:TEXT block:TEXT'
        f" expression:TEXT is_constant is_derived spm_support@spm {_JSON}",
        "info_code_object": "nid! pid! agent_id uri:TEXT load_base:BIGINT load_size:BIGINT load_delta:BIGINT"
        f" storage_type:TEXT {_JSON}",
        "info_kernel_symbol": "nid! pid! code_object_id! kernel_name:TEXT display_name:TEXT kernel_object"
        " kernarg_segment_size kernarg_segment_alignment group_segment_size private_segment_size sgpr_count"
        f" arch_vgpr_count accum_vgpr_count {_JSON}",
        "track": f"nid! pid tid name_id {_JSON}",
        "event": 'category_id stack_id parent_stack_id correlation_id call_stack:JSONB="{}"! line_info:JSONB="{}"!'
        f" {_JSON}",
        "arg": f"event_id! position! type:TEXT! name:TEXT! value:TEXT {_JSON}",
        "pmc_event": "event_id sample_id@spm pmc_id! value:REAL=0.0 xcc@spm shader_engine@spm shader_array@spm_place"
        ' wgp@spm_place instance@spm extdata:JSONB="{}"',
        "region": f"nid! pid! tid! {_SPAN} name_id! event_id {_JSON}",
        "sample": f"track_id! timestamp:BIGINT! event_id {_JSON}",
        "kernel_dispatch": f"nid! pid! tid agent_id! kernel_id! dispatch_id! queue_id! stream_id! {_SPAN}"
        " private_segment_size group_segment_size workgroup_size_x! workgroup_size_y! workgroup_size_z! grid_size_x!"
        f" grid_size_y! grid_size_z! {_GRAPH} region_name_id event_id replay_pass@replay {_JSON}",
        "memory_copy": f"nid! pid! tid {_SPAN} name_id! dst_agent_id dst_address src_agent_id src_address size!"
        f" queue_id stream_id {_GRAPH} region_name_id event_id {_JSON}",
        "memory_allocate": f"nid! pid! tid agent_id type:TEXT level:TEXT {_SPAN} address size! queue_id stream_id"
        f" event_id {_JSON}",
        "graph_launch": f"nid! pid! tid agent_id queue_id {_SPAN} graph_exec_id! kernel_dispatch_count=0!"
        f" event_id {_JSON}",
        # A guess, see above: `queue_id` is where the marker ran, `source_queue_id` what a wait waited for.
        "hip_event": f"nid! pid! tid agent_id queue_id stream_id source_queue_id {_SPAN} name_id! hip_event_handle"
        f" event_id {_JSON}",
    }
)

_FEATURE_TABLES = MappingProxyType({"graph_launch": "graphs", "hip_event": "hip_events"})

_REFERENCES = MappingProxyType(
    {
        "nid": "info_node",
        "pid": "info_process",
        "tid": "info_thread",
        "agent_id": "info_agent",
        "dst_agent_id": "info_agent",
        "src_agent_id": "info_agent",
        "queue_id": "info_queue",
        "source_queue_id": "info_queue",
        "stream_id": "info_stream",
        "code_object_id": "info_code_object",
        "kernel_id": "info_kernel_symbol",
        "name_id": "string",
        "category_id": "string",
        "region_name_id": "string",
        "event_id": "event",
        "track_id": "track",
        "sample_id": "sample",
        "pmc_id": "info_pmc",
    }
)
# Where such a column holds the operating system's number instead of a row id.
_NOT_REFERENCES = frozenset({("info_process", "pid"), ("info_thread", "tid")})

_CHOICES = MappingProxyType(
    {
        ("info_agent", "type"): ("CPU", "GPU"),
        ("info_pmc", "target_arch"): ("CPU", "GPU"),
        ("info_pmc", "value_type"): ("ABS", "ACCUM", "RELATIVE"),
        ("info_code_object", "storage_type"): ("FILE", "MEMORY"),
        ("memory_allocate", "type"): ("ALLOC", "FREE", "REALLOC", "RECLAIM"),
        ("memory_allocate", "level"): ("REAL", "VIRTUAL", "SCRATCH"),
    }
)
_TAKES_NIC = frozenset({("info_agent", "type"), ("info_pmc", "target_arch")})

_UNIQUE = frozenset({("string", "string"), ("info_node", "hash"), ("info_node", "machine_id")})

# What each version adds to the one before it.
_ADDED = MappingProxyType(
    {
        "3": (),
        "3.0.0": ("version_rows",),
        "3.0.1": ("nic",),
        "3.0.2": ("graphs",),
        "3.0.3": ("spm",),
        "3.0.4": ("hip_events",),
        "3.0.5": ("spm_place",),
    }
)
VERSIONS = tuple(_ADDED)

_WORD = re.compile(r"(?P<name>\w+)(:(?P<type>\w+))?(=(?P<default>[^!@]+))?(?P<required>!)?(@(?P<feature>\w+))?")


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnSpec:
    """One column of a rocpd table.

    Attributes:
        name: as in the database.
        type: declared type (INTEGER, BIGINT, INT, REAL, TEXT or JSONB).
        default: SQL text of the default, or None.
        is_required: whether NULL is refused.
        choices: the only texts that are accepted; empty where any is.
        is_unique: whether two rows may not hold the same value.
        references: table (without prefix and suffix) whose ids it holds, or None.
    """

    name: str
    type: str
    default: str | None
    is_required: bool
    choices: tuple[str, ...]
    is_unique: bool
    references: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Schema:
    """The tables of one schema version, for one file.

    Attributes:
        version: one of `VERSIONS`, as written into the metadata.
        features: what the version has beyond "3"; see `_ADDED`, and `replay` for the column `replay_pass`.
        suffix: what follows every table name, with its leading underscore.
        guid: default of every guid column.
    """

    version: str
    features: frozenset[str]
    suffix: str
    guid: str

    @property
    def table_names(self) -> tuple[str, ...]:
        """Base names of the tables, without `rocpd_` and suffix, in the order they are created."""
        return tuple(base for base in _TABLES if base not in _FEATURE_TABLES or _FEATURE_TABLES[base] in self.features)

    def columns(self, base: str) -> tuple[ColumnSpec, ...]:
        """Columns of the table `base` without `id` and `guid`, in order.

        Raises:
            UsageError: this version has no such table.
        """
        if base not in self.table_names:
            near = nearest_names(base, self.table_names)
            raise UsageError(
                "rocpd-no-such-table",
                f"rocpd {self.version} has no table {base!r}",
                hint=f"{', '.join(near)}" if near else f"one of {', '.join(self.table_names)}",
            )
        matches = (_WORD.fullmatch(word) for word in _TABLES[base].split())
        words = [match.groupdict() for match in matches if match]
        return tuple(
            self._column(base, word) for word in words if not word["feature"] or word["feature"] in self.features
        )

    def _column(self, base: str, word: Mapping[str, str | None]) -> ColumnSpec:
        name = word["name"] or ""
        place = (base, name)
        nic = ("NIC",) if place in _TAKES_NIC and "nic" in self.features else ()
        return ColumnSpec(
            name=name,
            type=word["type"] or "INTEGER",
            default=word["default"],
            is_required=bool(word["required"]),
            choices=_CHOICES[place] + nic if place in _CHOICES else (),
            is_unique=place in _UNIQUE,
            references=None if place in _NOT_REFERENCES else _REFERENCES.get(name),
        )

    def column_names(self, base: str) -> tuple[str, ...]:
        """All column names of the table `base`, in order. Raises UsageError as `columns` does."""
        names = tuple(column.name for column in self.columns(base))
        return ("id", *names) if base == "metadata" else ("id", "guid", *names)

    def full_name(self, base: str) -> str:
        """The table's name in the file, quoted."""
        return f'"rocpd_{base}{self.suffix}"'

    def table_sql(self, base: str) -> str:
        """CREATE TABLE text of the table `base`. Raises UsageError as `columns` does."""
        columns = self.columns(base)
        parts = ['"id" INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT']
        if base != "metadata":
            # Double quotes: the tool writes its defaults so, and PRAGMA table_info shows it.
            parts.append(f'"guid" TEXT DEFAULT "{self.guid}" NOT NULL')
        parts += [_column_sql(column) for column in columns]
        parts += [
            f'FOREIGN KEY ("{column.name}") REFERENCES {self.full_name(column.references)} ("id") ON UPDATE CASCADE'
            for column in columns
            if column.references
        ]
        return f"CREATE TABLE {self.full_name(base)} ({', '.join(parts)})"


def _column_sql(column: ColumnSpec) -> str:
    text = f'"{column.name}" {column.type}'
    if column.is_required:
        text += " NOT NULL"
    if column.default is not None:
        text += f" DEFAULT {column.default}"
    if column.is_unique:
        text += " UNIQUE"
    if column.choices:
        choices = ", ".join(f"'{choice}'" for choice in column.choices)
        text += f' CHECK ("{column.name}" IN ({choices}))'
    return text


def build_schema(version: str, *, guid: str, suffix: str, has_replay_pass: bool = False) -> Schema:
    """The schema of `version` for one file.

    Args:
        version: one of `VERSIONS`.
        guid: dashed form, default of every guid column.
        suffix: what follows every table name, with its leading underscore.
        has_replay_pass: whether dispatches have the column `replay_pass`. It came by another road than the versions
            (two changes called themselves 3.0.4), so it is chosen independently.

    Raises:
        UsageError: the version is unknown.
    """
    if version not in VERSIONS:
        raise UsageError(
            "rocpd-unknown-version",
            f"no rocpd schema version {version!r}",
            hint=f"versions that can be written: {', '.join(VERSIONS)}",
        )
    known = VERSIONS[: VERSIONS.index(version) + 1]
    features = {feature for each in known for feature in _ADDED[each]}
    if has_replay_pass:
        features.add("replay")
    return Schema(version=version, features=frozenset(features), suffix=suffix, guid=guid)


def metadata_rows(schema: Schema, *, creation_time: str) -> tuple[tuple[str, str], ...]:
    """Tag and value of every metadata row the tool itself would write, in its order.

    Args:
        schema: the file's schema.
        creation_time: UTC, `YYYY-MM-DD HH:MM:SS`; written since 3.0.0, and the only wall-clock time in a file.
    """
    rows = [("schema_version", schema.version), ("uuid", schema.suffix), ("guid", schema.guid)]
    if "version_rows" in schema.features:
        major, minor, patch = schema.version.split(".")
        rows += [
            ("schema_version_major", major),
            ("schema_version_minor", minor),
            ("schema_version_patch", patch),
            ("schema_creation_time", creation_time),
        ]
    return tuple(rows)
