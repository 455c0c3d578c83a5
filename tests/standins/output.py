"""What the library does when the application has ended: a set of files for each process, announced on stderr.

No records, no file. An existing file of the same name is overwritten without a word, which is how two processes of one
name lose each other's data.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from standins.messages import log
from standins.paths import output_prefix
from standins.tool import Records, Run


def has_records(run: Run, records: Records) -> bool:
    """Whether there is anything to write."""
    traces = run.config.traces
    if records.dispatches or records.counted:
        return True
    has_calls = bool(records.launched) and bool(traces & {"HIP_RUNTIME_API", "RCCL_API", "HIP_COMPILER_API"})
    has_copies = "MEMORY_COPY" in traces and bool(run.scenario.copies)
    return has_calls or (has_copies and bool(records.launched))


def write_outputs(run: Run, records: Records) -> None:
    """Write the files of one process in every format asked for."""
    prefix = output_prefix(run.facts)
    if run.config.is_on("ROCPROF_OUTPUT_CONFIG_FILE"):
        _write_config(prefix, run)
    if not has_records(run, records):
        return
    prefix.parent.mkdir(parents=True, exist_ok=True)
    for name in run.config.formats:
        _FORMATS.get(name, _write_placeholder(name))(prefix, run, records)


def _announce(run: Run, source: str, path: Path, uuid: str = "") -> None:
    if "unannounced" not in run.faults:
        suffix = f" (UUID={uuid})" if uuid else ""
        log(run.config.environment, "error", source, f"Opened result file: {path}{suffix}")
    if "announced-only" in run.faults:
        path.unlink(missing_ok=True)


def _write_rocpd(prefix: Path, run: Run, records: Records) -> None:
    from standins.database import write_database  # numpy: only where a database is written

    path = prefix.with_name(f"{prefix.name}_results.db")
    write_database(path, run, records)
    _announce(run, "generateRocpd.cpp:1076", path, run.guid)


def _write_json(prefix: Path, run: Run, records: Records) -> None:
    from standins.json_results import write_json

    path = prefix.with_name(f"{prefix.name}_results.json")
    write_json(path, run, records)
    _announce(run, "output_stream.cpp:114", path)


def _write_csv(prefix: Path, run: Run, records: Records) -> None:
    from standins.csv_results import write_csv

    for path in write_csv(prefix, run, records):
        _announce(run, "output_stream.cpp:114", path)


def _write_placeholder(name: str) -> Callable[[Path, Run, Records], None]:
    """pftrace and otf2: the file is there, its content is not that format."""

    def write(prefix: Path, run: Run, records: Records) -> None:
        path = prefix.with_name(f"{prefix.name}_results.{name}")
        path.write_bytes(b"stand-in")
        _announce(run, "output_stream.cpp:114", path)

    return write


def _write_config(prefix: Path, run: Run) -> None:
    """`--output-config`: written by every process, records or not, and with the whole environment in it."""
    import json

    prefix.parent.mkdir(parents=True, exist_ok=True)
    path = prefix.with_name(f"{prefix.name}_config.json")
    settings = {
        "command": list(run.facts.command),
        "environment": dict(run.facts.environment),
        "formats": list(run.config.formats),
        "groups": [list(group) for group in run.config.groups],
    }
    path.write_text(json.dumps({"rocprofv3": {"config": settings}}), encoding="utf-8")


_FORMATS: dict[str, Callable[[Path, Run, Records], None]] = {
    "rocpd": _write_rocpd,
    "json": _write_json,
    "csv": _write_csv,
}
