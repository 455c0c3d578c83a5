"""Databases that the tests of the commands read; made once, and checked at the end to be what they were."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from command_line import CommandLine
from rocpd_files import BOOT_NS
from torn_files import kill_while_writing, leave_log, look_of

from rocktools.demo.rocpd_file import WriterOptions
from rocktools.demo.rocpd_trace import TraceShape, write_trace
from rocktools.demo.rocpd_writer import RocpdWriter

COUNTERS = ("SQ_WAVES", "TCC_HIT_sum")
SECRET = "hunter2-Zq7"
TRACE_SHAPE = TraceShape(
    dispatches_count=400,
    kernels_count=7,
    agents_count=2,
    queues_count=2,
    streams_count=3,
    copies_count=9,
    allocations_count=6,
    ranges_count=3,
    pid=101,
)


@dataclass(frozen=True)
class Databases:
    """One file of each kind, in a folder of its own each, so that what lies beside it can be watched."""

    folder: Path
    trace: Path  # two devices, TRACE_SHAPE
    other: Path  # another process
    counters: Path  # a counter pass
    mixed: Path  # what real files have: samples, marks, negative durations, a kernel without a symbol, a secret
    minimal: Path  # of which tables are missing
    killed: Path  # with a hot journal
    logged: Path  # with a write-ahead log
    truncated: Path
    empty: Path
    unfinished: Path  # tables without a row


def write_mixed(path: Path) -> Path:
    with RocpdWriter(path) as writer:
        writer.process(300, environment={"TOKEN": SECRET}, command="python train.py")
        fusion = writer.kernel_symbol("loop_fusion_3", display_name="loop_fusion_3 [clone .kd]")
        now_ns = BOOT_NS
        for number in range(6):
            call = writer.region("hipModuleLaunchKernel", now_ns, now_ns + 5)
            end_ns = now_ns + 20 if number != 3 else now_ns + 5
            writer.dispatch(
                fusion if number < 5 else 77, now_ns + 10, end_ns, call_id=call, grid_size_x=1024 * (1 + number % 2)
            )
            now_ns += 100
        writer.roctx_mark("begin", BOOT_NS)
        track = writer.track("clock")
        for number in range(4):
            writer.sample(track, BOOT_NS + number)
    return path


@pytest.fixture(scope="session")
def databases(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Databases]:
    folder = tmp_path_factory.mktemp("databases")

    def new(name: str) -> Path:
        (folder / name).mkdir()
        return folder / name / f"{name}.db"

    trace, other, counters, mixed, minimal = map(new, ("trace", "other", "counters", "mixed", "minimal"))
    write_trace(trace, TRACE_SHAPE)
    write_trace(other, TraceShape(dispatches_count=50, kernels_count=7, pid=202))
    write_trace(
        counters,
        TraceShape(dispatches_count=24, kernels_count=3, counters=COUNTERS, has_host_calls=False, pid=303),
    )
    write_mixed(mixed)
    options = WriterOptions(left_out_tables=frozenset({"event", "arg", "info_pmc", "pmc_event"}), has_views=False)
    with RocpdWriter(minimal, options=options) as writer:
        writer.dispatch(writer.kernel_symbol("loop_fusion_3"), BOOT_NS, BOOT_NS + 10, event_id=None)
    killed, logged, truncated, empty, unfinished = map(new, ("killed", "logged", "truncated", "empty", "unfinished"))
    write_trace(killed, TraceShape(dispatches_count=60, pid=404))
    kill_while_writing(killed)
    write_trace(logged, TraceShape(dispatches_count=60, pid=505))
    leave_log(logged, 'DELETE FROM "rocpd_kernel_dispatch{_}" WHERE id > 40')
    truncated.write_bytes(trace.read_bytes()[:-5_000])
    empty.touch()
    with RocpdWriter(unfinished):
        pass
    before = look_of(folder)
    yield Databases(folder, trace, other, counters, mixed, minimal, killed, logged, truncated, empty, unfinished)
    assert look_of(folder) == before


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> CommandLine:
    """Runs a command in this process: its exit code, standard output and standard error."""
    monkeypatch.setenv("COLUMNS", "240")
    return CommandLine(capsys)
