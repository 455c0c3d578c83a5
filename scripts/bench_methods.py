"""One measurement of scripts/bench: runs in a process of its own and prints one line of JSON.

    python scripts/bench_methods.py METHOD '{"files": [...], ...}'

Imports and a first small call happen before the clock starts. `extra_bytes` is the highest resident memory of the
process minus what was resident when the clock started. `count` and `total` let the caller see that all methods read the
same.
"""

from __future__ import annotations

import json
import os
import resource
import sqlite3
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

# What the views call them; rocktools' names for the same eight integers and the name follow.
VIEW_COLUMNS = ("dispatch_id", "agent_abs_index", "kernel_id", "queue_id", "stream_id", "tid", "start", "end", "name")
FRAME_COLUMNS = (
    "dispatch_id",
    "agent_id",
    "kernel_id",
    "queue_id",
    "stream_id",
    "thread_id",
    "start_ns",
    "end_ns",
    "kernel_name",
)

# Count and total of a result: rows and sum(end - start), or values and their sum.
Outcome = tuple[int, float]
Method = Callable[[dict[str, Any]], Callable[[], Outcome]]


def _view_of_dispatches(task: dict[str, Any]) -> Callable[[], Outcome]:
    """pandas.read_sql of nine columns of the `kernels` view."""
    import pandas as pd

    wanted = ", ".join(f'"{column}"' for column in VIEW_COLUMNS)
    _warm_pandas()

    def run() -> Outcome:
        with closing(_connect(task["files"][0])) as connection:
            frame = pd.read_sql(f"SELECT {wanted} FROM kernels", connection)
        return len(frame), int((frame["end"] - frame["start"]).sum())

    return run


def _union_views_of_dispatches(task: dict[str, Any]) -> Callable[[], Outcome]:
    """AMD's way with several files: attach them all, union every table, and the data view over the unions."""
    import pandas as pd

    wanted = ", ".join(f'"{column}"' for column in VIEW_COLUMNS)
    _warm_pandas()

    def run() -> Outcome:
        with closing(sqlite3.connect(":memory:")) as connection:
            for number, file in enumerate(task["files"]):
                connection.execute(f"ATTACH DATABASE ? AS db{number}", (file,))
            for table in _pass_throughs(connection):
                parts = (f'SELECT * FROM db{number}."{table}"' for number in range(len(task["files"])))
                connection.execute(f'CREATE TEMPORARY VIEW "{table}" AS {" UNION ALL ".join(parts)}')
            connection.execute(task["kernels_view"].replace("CREATE VIEW", "CREATE TEMPORARY VIEW", 1))
            frame = pd.read_sql(f"SELECT {wanted} FROM kernels", connection)
        return len(frame), int((frame["end"] - frame["start"]).sum())

    return run


def _pass_throughs(connection: sqlite3.Connection) -> list[str]:
    """Names of the views that only give the tables of a file their names without a suffix."""
    found = connection.execute(
        "SELECT name FROM db0.sqlite_master WHERE type = 'view' AND name LIKE 'rocpd~_%' ESCAPE '~'"
    )
    return [name for (name,) in found.fetchall()]


def _view_of_counters(task: dict[str, Any]) -> Callable[[], Outcome]:
    """pandas.read_sql of the fewest columns that say whose value it is."""
    import pandas as pd

    _warm_pandas()

    def run() -> Outcome:
        with closing(_connect(task["files"][0])) as connection:
            frame = pd.read_sql(
                "SELECT dispatch_id, agent_id, counter_name, value FROM counters_collection", connection
            )
        return len(frame), float(frame["value"].sum())

    return run


def _rocktools_dispatches(task: dict[str, Any]) -> Callable[[], Outcome]:
    from rocktools.workspace.workspace import Workspace

    _warm_rocktools(task)

    def run() -> Outcome:
        with Workspace.open(task["files"], accelerate=task["accelerate"]) as workspace:
            frame = workspace.dispatches(FRAME_COLUMNS)
        return len(frame), int((frame["end_ns"] - frame["start_ns"]).sum())

    return run


def _rocktools_counters(task: dict[str, Any]) -> Callable[[], Outcome]:
    from rocktools.workspace.workspace import Workspace

    _warm_rocktools(task)

    def run() -> Outcome:
        with Workspace.open(task["files"], accelerate=task["accelerate"]) as workspace:
            frame = workspace.counter_values()
        return len(frame), float(frame["sum_value"].sum())

    return run


def _rocktools_health(task: dict[str, Any]) -> Callable[[], Outcome]:
    """All health checks; the count is that of the findings."""
    from rocktools.workspace.workspace import Workspace

    _warm_rocktools(task)

    def run() -> Outcome:
        with Workspace.open(task["files"], accelerate=task["accelerate"]) as workspace:
            return len(workspace.check_health()), 0

    return run


def _write_trace(task: dict[str, Any]) -> Callable[[], Outcome]:
    from rocktools.demo.rocpd_trace import TraceShape, write_trace

    shape = TraceShape(**{**task["shape"], "counters": tuple(task["shape"].get("counters", ()))})

    def run() -> Outcome:
        totals = write_trace(task["files"][0], shape)
        return totals.dispatches_count, totals.dispatches_ns

    return run


def _profile_data(task: dict[str, Any]) -> Callable[[], Outcome]:
    """jax.profiler.ProfileData: every event, and a dictionary of its statistics unless only devices are wanted."""
    from jax.profiler import ProfileData

    def run() -> Outcome:
        count = stats_count = 0
        total_ns = 0.0
        for plane in ProfileData.from_file(task["files"][0]).planes:
            if task["is_devices_only"] and not plane.name.startswith("/device:"):
                continue
            for line in plane.lines:
                for event in line.events:
                    count += 1
                    total_ns += event.duration_ns
                    if not task["is_devices_only"]:
                        stats_count += len(dict(event.stats))
        return count, round(total_ns * 1000) + stats_count

    return run


def _rocktools_profile(task: dict[str, Any]) -> Callable[[], Outcome]:
    """Every event of the same lines: its name, and every statistic as integers or as labels."""
    from rocktools.sources.xspace.messages import STAT_REF
    from rocktools.sources.xspace.opening import open_xspace

    _warm_profile_reader(task)

    def run() -> Outcome:
        count = total_ps = stats_count = 0
        with open_xspace(Path(task["files"][0]), accelerate=task["accelerate"]) as profile:
            for plane in profile.planes:
                if task["is_devices_only"] and not plane.name.startswith("/device:"):
                    continue
                for line in plane.lines:
                    events = line.events([] if task["is_devices_only"] else None)
                    events.names()
                    for name in events.stat_names:
                        column = events.stat(name)
                        stats_count += int(column.is_present.sum())
                        (column.labels if (column.kinds == STAT_REF).any() else column.integers)()
                    count += len(events)
                    total_ps += int(events.duration_ps.sum())
        return count, total_ps + stats_count

    return run


def _rocktools_profile_frames(task: dict[str, Any]) -> Callable[[], Outcome]:
    """DEVICE_EVENTS and HOST_EVENTS, all columns, both held at once."""
    from rocktools.sources.xspace.device_events import read_device_events
    from rocktools.sources.xspace.host_events import read_host_events
    from rocktools.sources.xspace.opening import open_xspace

    _warm_profile_reader(task)

    def run() -> Outcome:
        with open_xspace(Path(task["files"][0]), accelerate=task["accelerate"]) as profile:
            frames = [read([profile], run="bench") for read in (read_device_events, read_host_events)]
        return sum(map(len, frames)), sum(int(frame["duration_ps"].sum()) for frame in frames)

    return run


def _write_profile(task: dict[str, Any]) -> Callable[[], Outcome]:
    from rocktools.demo.xspace_bulk import BulkShape, write_bulk_xspace

    def run() -> Outcome:
        totals = write_bulk_xspace(Path(task["files"][0]), BulkShape(**task["shape"]))
        return totals.events_count, totals.sum_ps

    return run


def _timeline(task: dict[str, Any]) -> Callable[[], Outcome]:
    """Steps, overlap and gaps of rows in memory."""
    from bench_timeline import timeline_task

    return timeline_task(task)


def _rank(task: dict[str, Any]) -> Callable[[], Outcome]:
    """What a worker does for the ledger of many ranks (scripts/bench_timeline.py)."""
    from bench_timeline import rank_task

    return rank_task(task)


def _replay(task: dict[str, Any]) -> Callable[[], Outcome]:
    """Kernels of a whole step, taken out and proven (scripts/bench_replay.py)."""
    from bench_replay import replay_task

    return replay_task(task)


def _align(task: dict[str, Any]) -> Callable[[], Outcome]:
    """Schedule alignment of a simulated trace (scripts/bench_align.py)."""
    from bench_align import align_task

    return align_task(task)


METHODS: dict[str, Method] = {
    "view of dispatches": _view_of_dispatches,
    "union views of dispatches": _union_views_of_dispatches,
    "view of counters": _view_of_counters,
    "rocktools dispatches": _rocktools_dispatches,
    "rocktools counters": _rocktools_counters,
    "rocktools health": _rocktools_health,
    "write_trace": _write_trace,
    "profile data": _profile_data,
    "rocktools profile": _rocktools_profile,
    "rocktools profile frames": _rocktools_profile_frames,
    "write_profile": _write_profile,
    "timeline": _timeline,
    "rank": _rank,
    "align": _align,
    "replay": _replay,
}


def _connect(file: str) -> sqlite3.Connection:
    return sqlite3.connect(f"{Path(file).absolute().as_uri()}?mode=ro", uri=True)


def _warm_pandas() -> None:
    """Whatever pandas loads at the first text column it reads."""
    import pandas as pd

    with closing(sqlite3.connect(":memory:")) as connection:
        pd.read_sql("SELECT 1 AS number, 'a' AS text", connection)


def _warm_rocktools(task: dict[str, Any]) -> None:
    """The modules that a first read loads."""
    from rocktools.frames import DISPATCHES

    DISPATCHES.empty()
    if task["accelerate"] is not False:
        import adbc_driver_sqlite.dbapi  # noqa: F401
        import pyarrow  # noqa: F401


def _warm_profile_reader(task: dict[str, Any]) -> None:
    """What a first read loads: protobuf, pandas, and the compiled decoder, which numba keeps on disk between runs."""
    import tempfile

    from rocktools.demo.xspace_bulk import BulkShape, write_bulk_xspace
    from rocktools.sources.xspace.device_events import read_device_events
    from rocktools.sources.xspace.opening import open_xspace

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "small.xplane.pb"
        write_bulk_xspace(path, BulkShape(dispatches_count=100))
        with open_xspace(path, accelerate=task["accelerate"]) as profile:
            read_device_events([profile], run="bench")


def _resident_bytes() -> int:
    """Resident memory now; the highest so far where the system does not say."""
    statm = Path("/proc/self/statm")
    if statm.exists():
        return int(statm.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    return _highest_resident_bytes()


def _highest_resident_bytes() -> int:
    highest = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return highest if sys.platform == "darwin" else highest * 1024


def main(arguments: Sequence[str]) -> None:
    method, task = arguments
    run = METHODS[method](json.loads(task))
    before_bytes = _resident_bytes()
    started = time.perf_counter()
    count, total = run()
    seconds = time.perf_counter() - started
    measured = {
        "seconds": seconds,
        "extra_bytes": max(_highest_resident_bytes() - before_bytes, 0),
        "count": count,
        "total": total,
    }
    print(json.dumps(measured))


if __name__ == "__main__":
    main(sys.argv[1:])
