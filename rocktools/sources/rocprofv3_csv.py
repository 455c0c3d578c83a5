"""Counters in CSV files with a row for each dispatch and counter -> the frames of counter passes.

Several tools write such files, and each has headers of its own:

* rocprofv3's `*_counter_collection.csv`: `Dispatch_Id`, `Agent_Id` ("Agent 1", or a number), `VGPR_Count`;
* `rocpd convert`'s `*_counter_collection_trace.csv`, with `Guid`;
* rocprof-compute's `pmc_perf.csv`, `results_pmc_perf_*.csv` and `*_counter_collection.csv` made from databases:
  `Dispatch_ID`, `GPU_ID`, `Arch_VGPR`, later with `GUID`.

So headers are compared without case and underscores. A value is the sum over all hardware instances; the instances
themselves are lost. `Grid_Size` and `Workgroup_Size` are products of three numbers: they stand in x, and y and z are
missing.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

import pandas as pd

from rocktools.errors import NothingToRead, UnknownFormat
from rocktools.findings import Finding
from rocktools.sources.counted_rows import (
    ROW_COLUMNS,
    CountedFrames,
    build_agents,
    build_counted_frames,
    drop_broken_rows,
    label_passes,
    parse_integers,
    parse_values,
    read_text_table,
    read_whole_rows,
)
from rocktools.sources.packed import read_start
from rocktools.sources.rocpd.columns import exact_integer

# Column of the rows -> headers, without case and underscores; the first that is there is taken.
_HEADERS: Mapping[str, tuple[str, ...]] = {
    "dispatch_id": ("dispatchid",),
    "agent_id": ("agentid", "gpuid"),
    "kernel_id": ("kernelid",),
    "queue_id": ("queueid",),
    "thread_id": ("threadid", "tid"),
    "pass_start_ns": ("starttimestamp", "start"),
    "pass_end_ns": ("endtimestamp", "end"),
    "grid_workitems_x": ("gridsizex", "gridsize"),
    "grid_workitems_y": ("gridsizey",),
    "grid_workitems_z": ("gridsizez",),
    "workgroup_workitems_x": ("workgroupsizex", "workgroupsize"),
    "workgroup_workitems_y": ("workgroupsizey",),
    "workgroup_workitems_z": ("workgroupsizez",),
    "lds_bytes": ("ldsblocksize", "ldsperworkgroup", "ldsblocksizev"),
    "scratch_bytes": ("scratchsize", "scratchperworkitem"),
    "vgpr_count": ("vgprcount", "archvgpr", "archvgprcount"),
    "agpr_count": ("accumvgprcount", "accumvgpr"),
    "sgpr_count": ("sgprcount", "sgpr"),
    "raw_kernel_name": ("kernelname", "name"),
    "counter": ("countername",),
    "value": ("countervalue", "value"),
    "guid": ("guid",),
    "pid": ("processid", "pid"),
}
# What a row has to have, by the name that rocprofv3 has for it.
_NEEDED: Mapping[str, str] = {
    "dispatch_id": "Dispatch_Id",
    "counter": "Counter_Name",
    "value": "Counter_Value",
    "pass_start_ns": "Start_Timestamp",
    "pass_end_ns": "End_Timestamp",
}
_HEADER_BYTES = 65_536
_AGENT_NUMBER = re.compile(r"(?:[A-Za-z]+[ _-]*)?(\d+)")
_AGENT_FACTS: Mapping[str, tuple[str, int]] = {
    "absolute_index": ("nodeid", 1),
    "type_index": ("logicalnodetypeid", 1),
    "xcc_count": ("numxcc", 1),
    "cu_count": ("cucount", 1),
    "simd_per_cu_count": ("simdpercu", 1),
    "wave_workitems": ("wavefrontsize", 1),
    "lds_per_cu_bytes": ("ldssizeinkb", 1024),
    "max_engine_hz": ("maxengineclkfcompute", 1_000_000),
}


def plain_header(name: str) -> str:
    """A header without case, underscores and blanks."""
    return re.sub(r"[\W_]", "", name).lower()


def is_counter_csv(path: Path) -> bool:
    """Whether the first line of a file is a header with counter name and value."""
    try:
        first = read_start(path, _HEADER_BYTES).partition(b"\n")[0].decode("utf-8-sig")
    except UnicodeError:
        return False
    headers = {plain_header(name) for name in first.split(",")}
    return {"countername", "countervalue"} <= headers or {"countername", "value", "dispatchid"} <= headers


def read_counter_csv(path: Path, *, run: str, pass_label: str) -> CountedFrames:
    """The counters of one CSV file in the long form, of any of the tools.

    Args:
        run: label of the run.
        pass_label: label of the pass; several passes in one file get numbers behind it.

    Raises:
        InputError: the file cannot be read.
        DamagedFile: it is no table.
        UnknownFormat: it is a table of something else.
        NothingToRead: it has no whole row.
    """
    rows, pids, findings = read_long_rows(path, pass_label=pass_label)
    processes = sorted(set(rows["process"]))
    agents = build_agents(_read_agents(path, rows), run=run, processes=processes)
    frames = build_counted_frames(rows, run=run, path=path, tool="rocprofv3", agents=agents, pids=pids)
    return CountedFrames(
        counted=frames.counted,
        values=frames.values,
        agents=frames.agents,
        processes=frames.processes,
        findings=(*findings, *frames.findings),
    )


def read_long_rows(path: Path, *, pass_label: str) -> tuple[pd.DataFrame, dict[str, int], list[Finding]]:
    """The rows of a CSV file in the long form, the process ids that it tells, and doubts about it.

    Raises:
        InputError: as `read_counter_csv`.
    """
    table, findings = read_whole_rows(path)
    headers = {plain_header(name): name for name in reversed(list(table.columns))}
    found = {
        column: next((headers[header] for header in options if header in headers), None)
        for column, options in _HEADERS.items()
    }
    if lacking := [name for column, name in _NEEDED.items() if found[column] is None]:
        raise UnknownFormat(
            "not-counter-csv", f"it has no column {', '.join(lacking)}: no CSV of counters", where=str(path)
        )
    rows = pd.DataFrame(index=table.index)
    texts = table.fillna("")  # a line that was cut off lacks its last values
    for column, header in found.items():
        if header is None:
            rows[column] = (
                "" if column in ("raw_kernel_name", "guid") else pd.array([pd.NA] * len(table), dtype="Int64")
            )
        elif column in ("raw_kernel_name", "counter", "guid"):
            rows[column] = texts[header]
        elif column == "value":
            rows[column] = parse_values(texts[header])
        elif column == "agent_id":
            rows[column] = parse_integers(texts[header].str.replace(_AGENT_NUMBER, r"\1", regex=True))
        else:
            rows[column] = parse_integers(texts[header])
    rows, broken = drop_broken_rows(rows, path, list(_NEEDED))
    if rows.empty:
        raise NothingToRead("no-counter-rows", "it has no row of a counter", where=str(path))
    rows["process"] = [
        guid or f"{pass_label}:{0 if pid is pd.NA else pid}"
        for guid, pid in zip(rows["guid"], rows["pid"], strict=True)
    ]
    known = rows[["process", "pid"]].dropna().drop_duplicates("process")
    pids = {str(process): int(pid) for process, pid in zip(known["process"], known["pid"], strict=True)}
    rows["pass"] = label_passes(rows, pass_label)
    return rows[list(ROW_COLUMNS)], pids, [*findings, *broken]


def _read_agents(path: Path, rows: pd.DataFrame) -> list[dict[str, object]]:
    """The agents of `*_agent_info.csv` beside the file; without one, the numbers of those that ran something."""
    stem = re.sub(r"_counter_collection(_trace)?$", "", path.stem)
    beside = path.with_name(f"{stem}_agent_info.csv")
    if not beside.is_file():
        return [{"agent_id": int(agent)} for agent in sorted(rows["agent_id"].dropna().unique())]
    table = read_text_table(beside)
    table.columns = [plain_header(name) for name in table.columns]
    agents: list[dict[str, object]] = []
    for number, record in enumerate(table.to_dict("records")):
        agent: dict[str, object] = {"agent_id": exact_integer(str(record.get("nodeid", number))) or number}
        agent["kind"] = str(record.get("agenttype") or "GPU").upper().rpartition("_")[2]
        agent["arch"], agent["product"] = record.get("name") or None, record.get("productname") or None
        for name, (header, factor) in _AGENT_FACTS.items():
            value = exact_integer(str(record.get(header, "")))
            agent[name] = value * factor if value is not None and (value or name.endswith("_index")) else None
        agents.append(agent)
    return agents
