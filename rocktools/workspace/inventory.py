"""What is in the files of a workspace: processes, devices, contents, counters, findings (`rocktools info`)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import pandas as pd

from rocktools.errors import InputError, UsageError
from rocktools.findings import Finding, Severity
from rocktools.frames import AGENTS, PROCESSES, Column, FrameSpec, require_frame
from rocktools.sources.rocpd import contents, health
from rocktools.sources.xspace.health import check_profile
from rocktools.timeline.profile_dispatches import EVENT_COLUMNS
from rocktools.workspace.loading import LoadedProcess, unreadable
from rocktools.workspace.profiles import LoadedProfile
from rocktools.workspace.replays import ReplayedProcess
from rocktools.workspace.workspace import Workspace

_KEY = PROCESSES.columns[:2]
_NO_ROWS = "no row of this kind has an exact time"

CONTENTS = FrameSpec(
    name="CONTENTS",
    meaning="One row per kind of row and process: how many there are, and over what time.",
    key=("run", "process", "subject"),
    sort=("run", "process"),
    columns=(
        *_KEY,
        Column("subject", "category", "kind of row; host regions are split by API domain where the file has domains"),
        Column("rows_count", "int64", "rows in the base table"),
        Column("start_ns", "Int64", "earliest start, trace clock", _NO_ROWS),
        Column("end_ns", "Int64", "latest end, trace clock", _NO_ROWS),
        Column("span_ns", "Int64", "from the earliest start to the latest end", _NO_ROWS),
    ),
)

DEVICES = FrameSpec(
    name="DEVICES",
    meaning="One row per GPU, as all processes together saw it.",
    key=("device",),
    sort=("absolute_index", "device"),
    columns=(
        AGENTS.column("device"),
        *(AGENTS.column(name) for name in ("arch", "product", "absolute_index", "xcc_count", "cu_count")),
        *(AGENTS.column(name) for name in ("lds_per_cu_bytes", "max_engine_hz")),
        Column("processes_count", "int64", "processes that saw it"),
        Column("dispatches_count", "int64", "dispatches on it, counter passes included"),
    ),
)

COUNTERS = FrameSpec(
    name="COUNTERS",
    meaning="One row per counter that has values around dispatches.",
    key=("run", "process", "counter"),
    sort=("run", "process", "counter"),
    columns=(
        *_KEY,
        Column("counter", "category", "name of the counter, as the tool gives it"),
        Column("rows_count", "int64", "stored values: one for each dispatch and hardware instance"),
    ),
)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Inventory:
    """What is in the files.

    Attributes:
        processes: PROCESSES.
        devices: DEVICES; only GPUs.
        contents: CONTENTS.
        counters: COUNTERS.
        findings: of opening, of reading and of all health checks.
        is_complete: whether no file broke while it was read.
        is_simulated: whether any file says that no hardware produced it.
    """

    processes: pd.DataFrame
    devices: pd.DataFrame
    contents: pd.DataFrame
    counters: pd.DataFrame
    findings: tuple[Finding, ...]
    is_complete: bool
    is_simulated: bool

    @property
    def is_trustworthy(self) -> bool:
        """Whether at least one process has rows and nothing about its file is a fault."""
        faulty = [finding.where for finding in self.findings if finding.severity is Severity.FAULT]
        paths = dict(zip(self.processes["process"], self.processes["path"], strict=True))
        with_rows = set(self.contents.loc[self.contents["rows_count"] > 0, "process"])
        return any(not any(_is_about(str(paths[process]), where) for where in faulty) for process in with_rows)

    def frame(self, name: str) -> tuple[FrameSpec, pd.DataFrame]:
        """One of the four frames by name, with its spec.

        Raises:
            UsageError: there is no such part.
        """
        parts = {
            "processes": (PROCESSES, self.processes),
            "devices": (DEVICES, self.devices),
            "contents": (CONTENTS, self.contents),
            "counters": (COUNTERS, self.counters),
        }
        if name not in parts:
            raise UsageError("unknown-part", f"there is no part {name!r}", hint=f"parts: {', '.join(parts)}")
        return parts[name]


def _is_about(path: str, where: str) -> bool:
    """Whether a finding's place is this file, or a table of it; not a file whose name only begins like it."""
    return where == path or where.startswith(f"{path}, ")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Rows:
    """Rows of one kind, or of one counter (then without times), in a process."""

    run: str
    process: str
    subject: str
    rows_count: int
    first_ns: int | None = None
    last_ns: int | None = None


@dataclass(slots=True)
class _Taken:
    """What was found so far."""

    contents: list[_Rows] = field(default_factory=list)
    counters: list[_Rows] = field(default_factory=list)
    dispatches: dict[tuple[str, str, int], int] = field(default_factory=dict)
    findings: list[Finding] = field(default_factory=list)


def take_inventory(workspace: Workspace) -> Inventory:
    """Look at everything in the files, health checks included. A file that breaks while it is read costs only itself.

    Raises:
        InputError: every file broke; the error of the first.
    """
    taken = _Taken()
    errors: list[InputError] = []
    for process in workspace.loaded:
        try:
            _take(workspace, process, taken)
        except InputError as error:
            errors.append(error)
            taken.findings.append(_broken(process, error))
    for replayed in workspace.replayed:
        _take_replayed(replayed, taken)
    for profile in workspace.profiles:
        try:
            _take_profile(profile, taken)
        except InputError as error:
            errors.append(error)
            taken.findings.append(unreadable(profile.source, error))
    if errors and len(errors) == len(workspace.sources()):
        raise errors[0]
    processes, agents = workspace.processes(), workspace.agents()
    found = [*workspace.findings, *taken.findings]
    return Inventory(
        processes=processes,
        devices=_devices(agents, taken.dispatches),
        contents=_contents_frame(taken.contents),
        counters=_counters_frame(taken.counters),
        findings=tuple(finding for position, finding in enumerate(found) if finding not in found[:position]),
        is_complete=not errors,
        is_simulated=workspace.is_simulated,
    )


def _take(workspace: Workspace, process: LoadedProcess, taken: _Taken) -> None:
    """Add what one process has, whole or not at all."""
    run, label, tables = process.source.run, process.tables.label, process.tables
    with workspace.reader(process) as reader:
        listed = contents.list_contents(reader, tables)
        domains = contents.count_domains(reader, tables)
        by_agent = contents.count_dispatches_by_agent(reader, tables)
        counted = contents.count_counter_rows(reader, tables) if process.is_counter_pass else {}
        findings = health.check_process(reader, tables, is_counter_pass=process.is_counter_pass)
    for content in listed:
        rows = _Rows(run=run, process=label, subject=content.subject, rows_count=content.rows_count)
        taken.contents.append(replace(rows, first_ns=content.first_ns, last_ns=content.last_ns))
        if content.base == "region":
            taken.contents += [
                _Rows(run=run, process=label, subject=f"  {name}", rows_count=count) for name, count in domains.items()
            ]
    taken.dispatches.update({(run, label, agent): count for agent, count in by_agent.items()})
    taken.counters += [_Rows(run=run, process=label, subject=name, rows_count=count) for name, count in counted.items()]
    taken.findings += findings


def _take_replayed(process: ReplayedProcess, taken: _Taken) -> None:
    """Add what a process has whose kernels were replayed: a dispatch has a row for each pass."""
    run, label, counted = process.source.run, process.label, process.counted
    rows = _Rows(run=run, process=label, subject="kernel dispatches", rows_count=len(counted))
    if len(counted):
        first_ns, last_ns = int(counted["pass_start_ns"].min()), int(counted["pass_end_ns"].max())
        rows = replace(rows, first_ns=first_ns, last_ns=last_ns)
    taken.contents.append(rows)
    taken.dispatches.update(
        {(run, label, int(agent)): int(count) for agent, count in counted["agent_id"].value_counts().items()}
    )
    stored = process.values.groupby("counter", observed=True)["instances_count"].sum()
    taken.counters += [
        _Rows(run=run, process=label, subject=str(name), rows_count=int(count)) for name, count in stored.items()
    ]


def _take_profile(profile: LoadedProfile, taken: _Taken) -> None:
    """Add what a JAX profile has: kernels and other events of devices and hosts, steps, compiled programs.

    Raises:
        DamagedFile: bytes that are no events.
    """
    run, label = profile.source.run, profile.label

    def add(subject: str, frame: pd.DataFrame | None, rows_count: int) -> None:
        rows = _Rows(run=run, process=label, subject=subject, rows_count=rows_count)
        if frame is not None and len(frame):
            rows = replace(rows, first_ns=int(frame["start_ns"].min()), last_ns=int(frame["end_ns"].max()))
        taken.contents.append(rows)

    events, kernels = profile.events(EVENT_COLUMNS), profile.kernels().dispatches
    others = events[events["kind"] != "kernel"]
    add("kernel dispatches", kernels, len(kernels))
    for kind, rows in others.groupby("kind", observed=True):
        add(f"  {kind} events", rows, len(rows))
    add("  with an HLO instruction", None, int(profile.devices()["annotated_count"].sum()))
    host_events = profile.host_events(("start_ns", "end_ns", "hlo_op", "step_number"))
    add("host events", host_events, len(host_events))
    add("  with an HLO instruction", None, int(host_events["hlo_op"].notna().sum()))
    steps = host_events[host_events["step_number"].notna()]
    if len(steps):
        add("  steps", steps, len(steps))
    add("compiled programs", None, len(profile.file.hlo_protos()))
    if not profile.is_beside_trace:
        counts = kernels["agent_id"].value_counts()
        taken.dispatches.update({(run, label, int(agent)): int(count) for agent, count in counts.items()})
    taken.findings += check_profile(profile.file)


def _broken(process: LoadedProcess, error: InputError) -> Finding:
    return Finding(
        rule=error.reference,
        severity=Severity.FAULT,
        where=error.where or str(process.tables.path),
        message=f"left out: {error.what}",
        advice=error.hint or "",
    )


def _contents_frame(found: Sequence[_Rows]) -> pd.DataFrame:
    # Kinds keep the order in which they were listed: API domains stand below the host regions that they are part of.
    ordered = sorted(found, key=lambda rows: (rows.run, rows.process))
    frame = _labelled(ordered, "subject").assign(
        start_ns=pd.array([rows.first_ns for rows in ordered], dtype="Int64"),
        end_ns=pd.array([rows.last_ns for rows in ordered], dtype="Int64"),
    )
    return require_frame(frame.assign(span_ns=frame["end_ns"] - frame["start_ns"]), CONTENTS)


def _counters_frame(found: Sequence[_Rows]) -> pd.DataFrame:
    ordered = sorted(found, key=lambda rows: (rows.run, rows.process, rows.subject))
    return require_frame(_labelled(ordered, "counter"), COUNTERS)


def _labelled(found: Sequence[_Rows], subject: str) -> pd.DataFrame:
    """Labels and counts of the rows, their subject under the name that the frame gives it."""
    return pd.DataFrame(
        {
            "run": pd.Series([rows.run for rows in found], dtype="category"),
            "process": pd.Series([rows.process for rows in found], dtype="category"),
            subject: pd.Series([rows.subject for rows in found], dtype="category"),
            "rows_count": pd.Series([rows.rows_count for rows in found], dtype="int64"),
        }
    )


def _devices(agents: pd.DataFrame, dispatches: dict[tuple[str, str, int], int]) -> pd.DataFrame:
    """The GPUs; what ran on no listed agent is told by a health check, not here."""
    gpus = agents[agents["kind"].isin(["GPU"])]
    if gpus.empty:
        return DEVICES.empty()
    keys = list(zip(gpus["run"], gpus["process"], gpus["agent_id"], strict=True))
    counted = gpus.assign(dispatches_count=[dispatches.get(key, 0) for key in keys], processes_count=1)
    sums = counted.groupby("device", observed=True)[["processes_count", "dispatches_count"]].sum()
    facts = counted.drop_duplicates("device").set_index("device")[list(DEVICES.names[1:-2])]
    frame = facts.join(sums).reset_index()
    frame["device"] = pd.Categorical(frame["device"].astype(str))
    frame = frame.sort_values(["absolute_index", "device"], kind="stable", ignore_index=True)
    return require_frame(frame.astype({"processes_count": "int64", "dispatches_count": "int64"}), DEVICES)
