"""The views of a rocpd database, in SQL of our own.

Turns a schema into CREATE VIEW text: one pass-through `rocpd_X` per table, and the data views over those. Names,
columns, their order and the rows are those of the stock views, the rows they silently drop included (a conformance test
evaluates both on the same rows); the text is ours. Most views are one row source with look-ups, so they are described,
not written; those that do not fit are in rocpd_view_texts.


    source      "kernel_dispatch K"                      table and alias
    look-ups    "A info_agent K.agent_id"                the row of info_agent whose id is K.agent_id, in the same guid;
                                                         without one the row is dropped
                "?ST info_stream K.stream_id"            the same, but NULL where there is none
                "K kernel_dispatch.event_id X.event_id"  found by another column than id
                "P info_process T.pid *"                 in any guid (two stock views forget to compare it)
    columns     "K.start"  "region=R.string"             the name, where it differs, comes first
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from rocktools.demo.rocpd_schema import Schema
from rocktools.demo.rocpd_view_texts import SAMPLE_VIEWS, SUMMARY_VIEWS

# The look-up of an event's category, in nearly every view.
_CATEGORY = "?CAT string E.category_id"
_STACK = "E.stack_id E.parent_stack_id"


@dataclass(frozen=True, slots=True, kw_only=True)
class _View:
    """A view described as one row source with look-ups; the words are explained at the top of the module."""

    source: str
    look_ups: tuple[str, ...]
    columns: tuple[str, ...]
    where: str = ""
    group_by: str = ""
    order_by: str = ""

    def sql(self) -> str:
        table, alias = self.source.split()
        words = [word for text in self.columns for word in text.split()]
        parts = [f"SELECT {', '.join(map(_column, words))} FROM rocpd_{table} AS {alias}"]
        parts += [_look_up(text) for text in self.look_ups]
        if self.where:
            parts.append(f"WHERE {self.where}")
        if self.group_by:
            parts.append(f"GROUP BY {self.group_by}")
        if self.order_by:
            parts.append(f"ORDER BY {self.order_by}")
        return " ".join(parts)


def _column(word: str) -> str:
    name, _, value = word.rpartition("=") if "=" in word else ("", "", word)
    return f'{value} AS "{name or value.split(".")[-1]}"'


def _look_up(text: str) -> str:
    alias, table, key, *any_guid = text.split()
    kind = "LEFT JOIN" if alias.startswith("?") else "JOIN"
    alias = alias.lstrip("?")
    table, _, by = table.partition(".")
    guid = "" if any_guid else f" AND {alias}.guid = {key.split('.')[0]}.guid"
    return f"{kind} rocpd_{table} AS {alias} ON {alias}.{by or 'id'} = {key}{guid}"


def _agent(alias: str, prefix: str) -> str:
    pairs = (("abs", "absolute_index"), ("log", "logical_index"), ("type", "type_index"))
    return (
        " ".join(f"{prefix}_{short}_index={alias}.{column}" for short, column in pairs) + f" {prefix}_type={alias}.type"
    )


def _json(alias: str, *paths: str) -> str:
    """Columns out of extdata; each path is `name` or `name=path`."""
    pairs = ((path.split("=") * 2)[:2] for path in paths)
    return " ".join(f"{name}=JSON_EXTRACT({alias}.extdata,'$.{path}')" for name, path in pairs)


_DURATION = "duration=(%(a)s.end-%(a)s.start)"
_NODE = "nid=N.id N.machine_id N.system_name N.hostname system_release=N.release system_version=N.version"
_PROCESS_THREAD = ("P info_process {0}.pid", "T info_thread {0}.tid")
_EVENT_TEXTS = "E.extdata E.call_stack E.line_info"

_INFO_VIEWS = {
    "code_objects": _View(
        source="info_code_object CO",
        look_ups=("A info_agent CO.agent_id", "P info_process CO.pid"),
        columns=(
            "CO.id CO.guid CO.nid P.pid agent_abs_index=A.absolute_index CO.uri CO.load_base CO.load_size",
            "CO.load_delta storage_type_str=CO.storage_type",
            _json("CO", "code_object_size=size", "storage_type", "memory_base", "memory_size"),
        ),
    ),
    "kernel_symbols": _View(
        source="info_kernel_symbol KS",
        look_ups=("P info_process KS.pid",),
        columns=(
            "KS.id KS.guid KS.nid P.pid KS.code_object_id KS.kernel_name KS.display_name KS.kernel_object",
            "KS.kernarg_segment_size KS.kernarg_segment_alignment KS.group_segment_size KS.private_segment_size",
            "KS.sgpr_count KS.arch_vgpr_count KS.accum_vgpr_count",
            _json("KS", "kernel_symbol_size=size", "kernel_id", "kernel_code_entry_byte_offset"),
            _json("KS", "formatted_kernel_name", "demangled_kernel_name", "truncated_kernel_name"),
            _json("KS", "kernel_address=kernel_address.handle"),
        ),
    ),
    "processes": _View(
        source="info_process P",
        look_ups=("N info_node P.nid",),
        columns=(_NODE, "P.guid P.ppid P.pid P.init P.start P.end P.fini P.command"),
    ),
    "threads": _View(
        source="info_thread T",
        look_ups=("N info_node T.nid", "P info_process T.pid *"),
        columns=(_NODE, "P.guid P.ppid P.pid T.tid T.start T.end T.name"),
    ),
}

_HOST_VIEWS = {
    "regions": _View(
        source="region R",
        look_ups=(
            "E event R.event_id",
            "S string R.name_id",
            *(text.format("R") for text in _PROCESS_THREAD),
            _CATEGORY,
        ),
        columns=(
            "R.id R.guid category=CAT.string name=S.string R.nid P.pid T.tid R.start R.end",
            _DURATION % {"a": "R"},
            f"R.event_id {_STACK} corr_id=E.correlation_id {_EVENT_TEXTS}",
        ),
    ),
    "region_args": _View(
        source="arg A",
        look_ups=("E event A.event_id", "R region.event_id E.id", "P info_process R.pid"),
        columns=("R.id R.guid R.nid P.pid A.type A.name A.value",),
    ),
    "samples": _View(
        source="sample X",
        look_ups=(
            "K track X.track_id",
            "E event X.event_id",
            *(text.format("K") for text in _PROCESS_THREAD),
            _CATEGORY,
            "?S string K.name_id",
        ),
        columns=(
            "X.id X.guid category=CAT.string name=S.string K.nid P.pid T.tid X.timestamp X.event_id",
            f"{_STACK} corr_id=E.correlation_id {_EVENT_TEXTS}",
        ),
    ),
}

_KERNELS = _View(
    source="kernel_dispatch K",
    look_ups=(
        "A info_agent K.agent_id",
        "E event K.event_id",
        "R string K.region_name_id",
        "S info_kernel_symbol K.kernel_id",
        # The process is that of the queue, so a dispatch without a queue row is dropped; one without a stream is not.
        "Q info_queue K.queue_id",
        "P info_process Q.pid",
        "T info_thread K.tid",
        "?ST info_stream K.stream_id",
        _CATEGORY,
    ),
    columns=(
        "K.id K.guid T.tid category=CAT.string region=R.string name=S.display_name K.nid P.pid",
        _agent("A", "agent"),
        "S.code_object_id K.kernel_id K.dispatch_id K.stream_id K.queue_id queue=Q.name stream=ST.name K.start K.end",
        _DURATION % {"a": "K"},
        " ".join(f"grid_{axis}=K.grid_size_{axis}" for axis in "xyz"),
        " ".join(f"workgroup_{axis}=K.workgroup_size_{axis}" for axis in "xyz"),
        "lds_size=K.group_segment_size scratch_size=K.private_segment_size vgpr_count=S.arch_vgpr_count",
        "S.accum_vgpr_count S.sgpr_count static_lds_size=S.group_segment_size",
        f"static_scratch_size=S.private_segment_size {_STACK} corr_id=E.correlation_id",
    ),
)

_PMC_LOOK_UPS = ("I info_pmc X.pmc_id", "E event X.event_id", "K kernel_dispatch.event_id X.event_id")

_PMC_VIEWS = {
    "pmc_info": _View(
        source="info_pmc I",
        look_ups=("A info_agent I.agent_id", "P info_process I.pid"),
        columns=(
            "I.id I.guid I.nid P.pid agent_abs_index=A.absolute_index I.is_constant I.is_derived I.name I.description",
            "I.block I.expression",
        ),
    ),
    "pmc_events": _View(
        source="pmc_event X",
        look_ups=(*_PMC_LOOK_UPS, "P info_process K.pid", _CATEGORY, "?S info_kernel_symbol K.kernel_id"),
        columns=(
            "X.id X.guid X.pmc_id event_id=E.id category=CAT.string name=S.display_name K.nid P.pid K.dispatch_id",
            "K.start K.end",
            _DURATION % {"a": "K"},
            "counter_name=I.name counter_value=X.value",
        ),
    ),
    "events_args": _View(
        source="event E",
        look_ups=("A arg.event_id E.id", _CATEGORY),
        columns=(
            f"event_id=E.id category=CAT.string {_STACK} E.correlation_id arg_position=A.position arg_type=A.type",
            "arg_name=A.name arg_value=A.value E.call_stack E.line_info A.extdata",
        ),
    ),
    # Nothing writes extdata.stream_id, so this view is empty in every file seen; it is kept because it exists.
    "stream_args": _View(
        source="arg A",
        look_ups=("S info_stream JSON_EXTRACT(A.extdata,'$.stream_id') *", "P info_process S.pid"),
        columns=(
            "argument_id=A.id A.event_id arg_position=A.position arg_type=A.type arg_value=A.value",
            _json("A", "stream_id"),
            "S.nid P.pid stream_name=S.name S.extdata",
        ),
        where="A.name = 'stream' AND S.guid = A.guid",
    ),
}

_MEMORY_LOOK_UPS = ("E event M.event_id", "P info_process M.pid")
_MEMORY_VIEWS = {
    "memory_copies": _View(
        source="memory_copy M",
        look_ups=(
            "S string M.name_id",
            "DST info_agent M.dst_agent_id",
            "SRC info_agent M.src_agent_id",
            *_MEMORY_LOOK_UPS,
            "T info_thread M.tid",
            _CATEGORY,
            "?R string M.region_name_id",
            "?ST info_stream M.stream_id",
            "?Q info_queue M.queue_id",
        ),
        columns=(
            "M.id M.guid category=CAT.string M.nid P.pid T.tid M.start M.end",
            _DURATION % {"a": "M"},
            "name=S.string region_name=R.string M.stream_id M.queue_id stream_name=ST.name queue_name=Q.name M.size",
            f"dst_device=DST.name {_agent('DST', 'dst_agent')} M.dst_address",
            f"src_device=SRC.name {_agent('SRC', 'src_agent')} M.src_address",
            f"{_STACK} corr_id=E.correlation_id",
        ),
    ),
    "memory_allocations": _View(
        source="memory_allocate M",
        look_ups=(
            *_MEMORY_LOOK_UPS,
            "T info_thread M.tid *",
            _CATEGORY,
            "?A info_agent M.agent_id",
            "?Q info_queue M.queue_id",
            "?ST info_stream M.stream_id",
        ),
        columns=(
            "M.id M.guid category=CAT.string M.nid P.pid T.tid M.start M.end",
            _DURATION % {"a": "M"},
            f"M.type M.level agent_name=A.name {_agent('A', 'agent')} M.address M.size M.queue_id queue_name=Q.name",
            f"M.stream_id stream_name=ST.name {_STACK} corr_id=E.correlation_id",
        ),
    ),
    "scratch_memory": _View(
        source="memory_allocate M",
        look_ups=(*_MEMORY_LOOK_UPS, "T info_thread M.tid", _CATEGORY, "?A info_agent M.agent_id"),
        columns=(
            f"M.id M.guid M.nid P.pid operation=M.type agent_name=A.name {_agent('A', 'agent')} M.queue_id T.tid",
            _json("M", "alloc_flags=flags"),
            "M.start M.end",
            _DURATION % {"a": "M"},
            f"M.size M.address E.correlation_id {_STACK} corr_id=E.correlation_id category=CAT.string",
            "event_extdata=E.extdata",
        ),
        where="M.level = 'SCRATCH'",
        order_by="M.start",
    ),
}

_COUNTED = (
    f"K.dispatch_id K.kernel_id event_id=E.id E.correlation_id {_STACK} P.pid T.tid K.agent_id",
    _agent("A", "agent"),
    "K.queue_id K.grid_size_x K.grid_size_y K.grid_size_z grid_size=(K.grid_size_x*K.grid_size_y*K.grid_size_z)",
    "kernel_name=S.display_name kernel_region=R.string K.workgroup_size_x K.workgroup_size_y K.workgroup_size_z",
    "workgroup_size=(K.workgroup_size_x*K.workgroup_size_y*K.workgroup_size_z) lds_block_size=K.group_segment_size",
    "scratch_size=K.private_segment_size vgpr_count=S.arch_vgpr_count S.accum_vgpr_count S.sgpr_count",
    "counter_name=I.name counter_symbol=I.symbol I.component I.description I.block I.expression I.value_type",
    "counter_id=I.id",
)
_COUNTED_LOOK_UPS = (
    *_PMC_LOOK_UPS,
    "A info_agent K.agent_id",
    "S info_kernel_symbol K.kernel_id",
    *(text.format("K") for text in _PROCESS_THREAD),
    _CATEGORY,
    "?R string K.region_name_id",
)


def _counters_collection(schema: Schema) -> _View:
    """One row per dispatch, agent and counter name, summed over instances: eight times too much for a clock counter."""
    return _View(
        source="pmc_event X",
        look_ups=_COUNTED_LOOK_UPS,
        # MIN(X.id) also decides which row the columns outside of aggregates come from.
        columns=(
            "id=MIN(X.id) X.guid",
            *_COUNTED,
            "value=SUM(X.value) K.start K.end I.is_constant I.is_derived",
            _DURATION % {"a": "K"},
            "category=CAT.string K.nid E.extdata S.code_object_id",
        ),
        where="X.sample_id IS NULL" if "spm" in schema.features else "",
        group_by="X.guid, K.dispatch_id, I.name, K.agent_id",
    )


def _spm_counters(schema: Schema) -> _View:
    place = "X.shader_array X.wgp" if "spm_place" in schema.features else ""
    return _View(
        source="pmc_event X",
        look_ups=(*_COUNTED_LOOK_UPS, "SA sample X.sample_id"),
        columns=(
            "X.id X.guid",
            *_COUNTED,
            f"X.xcc X.shader_engine {place} X.instance X.value SA.timestamp I.is_constant I.is_derived",
            "category=CAT.string K.nid E.extdata S.code_object_id",
        ),
    )


# A guess, as the table is; public tests read `name`, `queue_id` and `source_queue_id` from it.
_HIP_EVENTS = _View(
    source="hip_event H",
    look_ups=("E event H.event_id", "S string H.name_id", *(text.format("H") for text in _PROCESS_THREAD), _CATEGORY),
    columns=(
        "H.id H.guid category=CAT.string name=S.string H.nid P.pid T.tid H.agent_id H.queue_id H.stream_id",
        "H.source_queue_id H.start H.end",
        _DURATION % {"a": "H"},
        f"H.hip_event_handle {_STACK} corr_id=E.correlation_id",
    ),
)


def _data_views(schema: Schema) -> Iterator[tuple[str, str]]:
    """Name and SELECT of every data view, in the order of the stock file."""
    for name, view in {**_INFO_VIEWS, **_HOST_VIEWS}.items():
        yield name, view.sql()
    yield from SAMPLE_VIEWS.items()
    yield "kernels", _KERNELS.sql()
    for name, view in {**_PMC_VIEWS, **_MEMORY_VIEWS}.items():
        yield name, view.sql()
    yield "counters_collection", _counters_collection(schema).sql()
    if "spm" in schema.features:
        yield "spm_counters", _spm_counters(schema).sql()
    if "hip_events" in schema.features:
        yield "hip_events", _HIP_EVENTS.sql()
    yield from SUMMARY_VIEWS.items()


def view_statements(schema: Schema, *, left_out_tables: frozenset[str] = frozenset()) -> tuple[str, ...]:
    """CREATE VIEW texts: first one pass-through per table, then the data views, in the order of the stock file.

    Args:
        schema: tables, features and suffix of the file.
        left_out_tables: base names of tables the file lacks: they get no pass-through, and the data views over them are
            created all the same (as in a file whose writer died), so that reading those fails with "no such table".
    """
    present = [base for base in schema.table_names if base not in left_out_tables]
    statements = [f'CREATE VIEW "rocpd_{base}" AS SELECT * FROM {schema.full_name(base)}' for base in present]
    statements += [f'CREATE VIEW "{name}" AS {select}' for name, select in _data_views(schema)]
    return tuple(statements)
