"""Counter passes of each kind of source to quantities: rocpd, run directories, CSV, and what does not match."""

from __future__ import annotations

import csv
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest
from kernel_model import SHAPES, Device, Kernel, answers, count
from rocpd_files import BOOT_NS, write_counter_pass, write_small_trace
from standins.install import APP, STATE, install_standins

from rocktools.cli.main import main
from rocktools.counters.evaluate import Level
from rocktools.demo.rocpd_writer import RocpdWriter
from rocktools.errors import NothingToRead, UsageError
from rocktools.findings import Severity
from rocktools.workspace.metrics import evaluate_text, keep_kernels, read_metrics

MI355X = Device(architecture="gfx950", dies=8, cu_per_die=32)
COPY = Kernel(
    waves=16_384, cycles_of_wave=4_000, cycles=2_000_000, fabric_reads={128: 65_536, 64: 168, 32: 3},
    hbm_reads={128: 65_000, 64: 168, 32: 0}, fabric_writes={64: 131_072, 32: 5}, l2_reads=65_536, l2_writes=131_072,
    l2_hits=300, l2_misses=700, lookups=524_288, integer=(49_152, 32_768),
)  # fmt: skip
GEMM = Kernel(
    waves=2_048, cycles_of_wave=40_000, cycles=2_000_000, matrix=dict.fromkeys(SHAPES["gfx950"], 1_000),
    busy_simd_cycles=4_000_000, issue_cycles=77_000, vector={("FMA", "F32"): 640}, l2_reads=10, l2_writes=20,
    lookups=500,
    fabric_reads={128: 40, 64: 2, 32: 1}, hbm_reads={128: 40, 64: 0, 32: 0}, lds_cycles=900, conflict_cycles=90,
)  # fmt: skip
PARTS = ("SQ", "TCC", "TCP")


def write_pass(
    path: Path, kernels: Sequence[tuple[str, Kernel]], *, only: Sequence[str] = (), instances: int = 4, grid: int = 256
) -> Path:
    """A rocpd database of a counter pass; each raw counter has so many instances, all of them together as counted.

    Args:
        only: blocks that are counted, GRBM always; (): all.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with RocpdWriter(path) as writer:
        symbols = {name: writer.kernel_symbol(name) for name, _ in kernels}
        infos: dict[str, int] = {}
        for number, (name, kernel) in enumerate(kernels):
            start_ns = BOOT_NS + 10_000_000 * number
            dispatch = writer.dispatch(symbols[name], start_ns, start_ns + 1_000_000, grid_size_x=grid)
            for counter, value in count(kernel, MI355X).items():
                if only and not counter.startswith((*only, "GRBM")):
                    continue
                if counter not in infos:
                    block = counter.split("_")[0]
                    infos[counter] = writer.counter_info(counter, block=block)
                of_block = MI355X.dies if counter.startswith("GRBM") else instances
                for instance in range(of_block):
                    share = value - (of_block - 1) * (value // of_block) if instance == 0 else value // of_block
                    writer.counter_value(infos[counter], share, dispatch_id=dispatch)
    return path


def write_csv(
    path: Path, kernels: Sequence[tuple[str, Kernel]], *, only: Sequence[str] = (), start_ns: int = BOOT_NS
) -> Path:
    """The same as rocprofv3's CSV, with the agents beside."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", encoding="utf-8", newline="") as stream:
        writer = csv.writer(stream, quoting=csv.QUOTE_NONNUMERIC)
        headers = (
            "Dispatch_Id,Agent_Id,Process_Id,Grid_Size,Workgroup_Size,Kernel_Id,Kernel_Name,Counter_Name,Counter_Value"
        )
        writer.writerow([*headers.split(","), "Start_Timestamp", "End_Timestamp"])
        for number, (name, kernel) in enumerate(kernels, start=1):
            times = (start_ns + 10_000_000 * number, start_ns + 10_000_000 * number + 1_000_000)
            for counter, value in count(kernel, MI355X).items():
                if not only or counter.startswith((*only, "GRBM")):
                    writer.writerow([number, "Agent 2", 77, 256, 64, 1, name, counter, value, *times])
    agents = path.with_name(path.name.replace("counter_collection", "agent_info"))
    agents.write_text(
        "Node_Id,Agent_Type,Name,Num_Xcc,Cu_Count,Simd_Per_Cu,Max_Engine_Clk_Fcompute\n"
        f"2,GPU,gfx950,{MI355X.dies},{MI355X.cu},4,2400\n",
        encoding="utf-8",
    )
    return path


def values_of(metrics, kernel: str) -> Mapping[str, float]:
    frame = metrics.frame[metrics.frame["kernel_name"] == kernel]
    return dict(zip(frame["quantity"].astype(str), frame["value"], strict=True))


def check(metrics) -> None:
    """Both kernels have all their answers."""
    for name, kernel in (("copy", COPY), ("gemm", GEMM)):
        found = values_of(metrics, name)
        for quantity, wanted in answers(kernel, MI355X).items():
            assert found[quantity] == pytest.approx(wanted, rel=1e-12), (name, quantity)


KERNELS = [("copy", COPY), ("gemm", GEMM), ("copy", COPY)]


def test_a_database_of_a_counter_pass(tmp_path):
    metrics = read_metrics([write_pass(tmp_path / "a.db", KERNELS)])
    check(metrics)
    assert {str(each.rule) for each in metrics.findings} <= {"counter-misleads", "impossible-quantity"}
    counts = metrics.frame.groupby("kernel_name", observed=True)["dispatches_count"].max()
    assert counts.to_dict() == {"copy": 2, "gemm": 1}


def test_instances_are_put_together_by_rule(tmp_path):
    """Eight dies: elapsed cycles are a mean, and of the longest die."""
    metrics = read_metrics([write_pass(tmp_path / "a.db", KERNELS)])
    assert values_of(metrics, "copy")["elapsed_cycles_longest"] == COPY.cycles


def test_passes_in_files_of_their_own_are_matched(tmp_path):
    folder = tmp_path / "run"
    for part in PARTS:
        write_pass(folder / f"{part}.db", KERNELS, only=[part])
    metrics = read_metrics([folder])
    check(metrics)
    assert metrics.counted.numbered["pass"].nunique() == 3
    assert {each.rule for each in metrics.findings} <= {"counter-misleads", "impossible-quantity"}


def test_passes_of_other_executions_are_faults(tmp_path):
    write_pass(tmp_path / "run" / "a.db", KERNELS, only=["SQ"])
    write_pass(tmp_path / "run" / "b.db", KERNELS[:2], only=["TCC"])
    write_pass(tmp_path / "run" / "c.db", KERNELS, only=["TCP"], grid=512)
    metrics = read_metrics([tmp_path / "run"])
    faults = {each.rule for each in metrics.findings if each.severity is Severity.FAULT}
    assert faults == {"passes-differ-in-executions", "passes-differ-in-geometry"}


def test_runs_are_not_mixed(tmp_path):
    first = write_pass(tmp_path / "one" / "a.db", [("copy", COPY)]).parent
    second = write_pass(tmp_path / "two" / "a.db", [("copy", GEMM)]).parent
    frame = read_metrics([first, second], quantities=["waves"]).frame
    assert frame[["run", "value"]].astype(object).to_numpy().tolist() == [["one", 16_384.0], ["two", 2_048.0]]


def test_a_csv_file_gives_the_same_as_the_database(tmp_path):
    check(read_metrics([write_csv(tmp_path / "x_counter_collection.csv", KERNELS)]))


def test_a_folder_of_csv_files_is_one_run_with_a_pass_in_each(tmp_path):
    for number, part in enumerate(PARTS, start=1):
        path = tmp_path / "out" / f"pass_{number}" / "x_counter_collection.csv"
        write_csv(path, KERNELS, only=[part], start_ns=BOOT_NS + number * 10**12)
    metrics = read_metrics([tmp_path / "out"])
    check(metrics)
    assert sorted(set(metrics.counted.numbered["pass"])) == ["pass_1", "pass_2", "pass_3"]


def test_copies_of_a_csv_file_are_passes_of_one_run(tmp_path):
    for name in ("a", "b"):
        write_csv(tmp_path / "out" / f"{name}_counter_collection.csv", KERNELS)
    metrics = read_metrics([tmp_path / "out"], quantities=["waves"])
    assert metrics.frame["pass_spread_ratio"].tolist() == [0.0, 0.0]
    assert metrics.counted.numbered["process"].nunique() == 2


def test_a_typed_expression(tmp_path):
    path = write_pass(tmp_path / "a.db", KERNELS)
    frame = evaluate_text([path], "64[B/request] * TCP_TCC_WRITE_REQ / waves").frame
    by_kernel = dict(zip(frame["kernel_name"].astype(str), frame["value"], strict=True))
    assert by_kernel == {"copy": 64 * 131_072 / 16_384, "gemm": 64 * 20 / 2_048}
    assert set(frame["unit"]) == {"B/wave"}


def test_rows_of_single_dispatches(tmp_path):
    metrics = read_metrics([write_pass(tmp_path / "a.db", KERNELS)], level=Level.DISPATCH, quantities=["waves"])
    rows = metrics.frame[["kernel_name", "ordinal", "value"]].astype(object).to_numpy().tolist()
    assert rows == [["copy", 1, 16_384.0], ["copy", 2, 16_384.0], ["gemm", 1, 2_048.0]]


def test_an_architecture_that_no_file_tells_can_be_told(tmp_path):
    path = write_csv(tmp_path / "x_counter_collection.csv", KERNELS)
    path.with_name("x_agent_info.csv").unlink()
    without = read_metrics([path], quantities=["waves"])
    assert without.frame.empty
    assert [(each.rule, each.severity) for each in without.findings] == [("architecture-not-covered", Severity.FAULT)]
    assert len(read_metrics([path], quantities=["waves"], architecture="gfx950").frame) == 2


def test_kernels_are_kept_by_name(tmp_path):
    metrics = read_metrics([write_pass(tmp_path / "a.db", KERNELS)], quantities=["waves"])
    assert keep_kernels(metrics, "^ge").frame["kernel_name"].tolist() == ["gemm"]
    with pytest.raises(NothingToRead, match="has a match"):
        keep_kernels(metrics, "Gemm")
    with pytest.raises(UsageError, match="not a regex"):
        keep_kernels(metrics, "(")


def test_a_trace_has_no_counters(tmp_path):
    with pytest.raises(NothingToRead, match="no counter pass"):
        read_metrics([write_small_trace(tmp_path / "t.db")])


def test_a_trace_beside_a_counter_pass_does_no_harm(tmp_path):
    (tmp_path / "run").mkdir()
    write_small_trace(tmp_path / "run" / "t.db")
    write_counter_pass(tmp_path / "run" / "c.db")
    metrics = read_metrics([tmp_path / "run"], quantities=["waves"])
    assert metrics.frame["value"].tolist() == [(1 + 2 + 3 + 4 + 5 + 6 + 7 + 8) / 2]


def test_nothing_named_is_told():
    with pytest.raises(UsageError):
        read_metrics([])


def _captured(place: Path, *more: str) -> Path:
    """A run directory that `rocktools pmc` made with the stand-ins."""
    tools = install_standins(place / "bin", version="1.4.1")
    (place / "state").mkdir()
    counters = "SQ_WAVES,SQ_WAVE_CYCLES,GRBM_GUI_ACTIVE,TCC_HIT,TCC_MISS,TCC_EA0_RDREQ,TCC_EA0_WRREQ,TCC_EA0_WRREQ_64B"
    options = ["--force", "-o", str(place / "run"), "--env", "XLA_PYTHON_CLIENT_PREALLOCATE=false"]
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PATH", f"{tools}{os.pathsep}{os.environ['PATH']}")
        patch.setenv(STATE, str(place / "state"))
        chosen = ["--kernel", "loop_fusion_3", "--counters", counters, *more]
        assert main(["pmc", *options, *chosen, "--", sys.executable, str(APP)]) == 0
    return place / "run"


@pytest.mark.parametrize("more", [(), ("--passes-in-process",)], ids=["runs", "replay"])
def test_a_run_directory_of_ours_gives_quantities_and_knows_what_was_asked_for(tmp_path, more):
    """Passes are runs of the program, or replays of each kernel in one run."""
    metrics = read_metrics([_captured(tmp_path, *more)])
    known = set(metrics.frame.loc[metrics.frame["value"].notna(), "quantity"])
    assert {"waves", "fabric_write_bytes", "elapsed_cycles", "resident_waves"} <= known
    assert {"SQ_WAVES", "TCC_HIT"} <= metrics.counted.table.requested
    assert len({reading.pass_label for found in metrics.counted.table.readings.values() for reading in found}) > 1
