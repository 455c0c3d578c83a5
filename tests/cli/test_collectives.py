"""`rocktools collectives`: payload, group and bandwidth by arithmetic; waiting and transfer make up the time."""

from __future__ import annotations

from pathlib import Path

import pytest
from command_line import CommandLine, assert_formats_agree
from late_run import STEPS_COUNT, TRANSFER_NS, WAIT_NS, write_late_trace
from scoped_run import LAYERS, MICROSTEPS, write_scoped_run

PAYLOAD_BYTES = 64 * 128 * 4  # every value of the program is f32[64,128]
STEPS, DEVICES = 3, 2


@pytest.fixture(scope="module")
def run_path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_scoped_run(tmp_path_factory.mktemp("collectives") / "run", devices_count=DEVICES)


@pytest.mark.parametrize("by", ["operation", "kind", "device", "arrival"])
def test_formats_of_each_view_agree(run: CommandLine, run_path: Path, tmp_path: Path, by: str) -> None:
    assert assert_formats_agree(run, tmp_path, "collectives", run_path, "--by", by)


def test_collectives_have_size_group_time_and_bandwidth(run: CommandLine, run_path: Path) -> None:
    rows = {row["instruction"]: row for row in run.rows("collectives", run_path)}
    in_layers = STEPS * DEVICES * MICROSTEPS * LAYERS
    assert {name: row["rows_count"] for name, row in rows.items()} == {
        "all-reduce-start.2": in_layers,
        "all-to-all.1": in_layers,
        "all-reduce.3": STEPS * DEVICES * MICROSTEPS,
        "all-reduce-start.1": STEPS * DEVICES * MICROSTEPS,
    }
    for row in rows.values():
        assert (row["payload_bytes"], row["group_count"], row["devices_count"]) == (PAYLOAD_BYTES, 2, DEVICES)
        assert row["mean_ns"] == pytest.approx(row["sum_ns"] / row["rows_count"])
        assert row["algorithm_bytes_per_s"] == pytest.approx(PAYLOAD_BYTES * 1e9 / row["mean_ns"])
        # Of two devices an all-reduce sends 2 (n - 1) / n = 1 payload, an all-to-all (n - 1) / n = 1/2.
        factor = 1 if row["collective"] == "all-reduce" else 0.5
        assert row["bus_bytes_per_s"] == pytest.approx(row["algorithm_bytes_per_s"] * factor)
    assert rows["all-to-all.1"]["phase"] == "forward"
    assert rows["all-reduce-start.2"]["phase"] == "backward"


def test_time_is_that_of_the_ledger(run: CommandLine, run_path: Path) -> None:
    lines = run.document("ledger", run_path)["tables"]["phases"]
    total_ns = next(line["sum_ns"] for line in lines if line["row"] == "Communication")
    for by in ("operation", "kind", "device"):
        assert sum(row["sum_ns"] for row in run.rows("collectives", run_path, "--by", by)) == total_ns
    kinds = run.rows("collectives", run_path, "--by", "kind")
    assert sum(row["share_ratio"] for row in kinds) == pytest.approx(1)
    assert all(row["moved_bytes"] == PAYLOAD_BYTES * row["rows_count"] for row in kinds)


def test_arrivals_are_waiting_and_transfer(run: CommandLine, tmp_path: Path) -> None:
    trace = write_late_trace(tmp_path / "1_results.db")
    arrivals = run.rows("collectives", trace, "--steps", "whole", "--by", "arrival")
    assert [(row["device"][-4:], row["wait_ns"], row["transfer_ns"], row["is_last"]) for row in arrivals] == [
        ("gpu0", WAIT_NS, TRANSFER_NS, False),
        ("gpu1", 0, TRANSFER_NS, True),
    ] * STEPS_COUNT
    (row,) = run.rows("collectives", trace, "--steps", "whole")
    assert (row["instruction"], row["wait_ns"]) == (None, None)  # kernels without a program are of no one collective


def test_without_a_program_kernels_are_told_by_name_and_have_no_payload(
    run: CommandLine, run_path: Path, tmp_path: Path
) -> None:
    alone = tmp_path / "1_results.db"
    alone.write_bytes(next((run_path / "trace").glob("*.db")).read_bytes())
    ran = run("collectives", alone, "--steps", "whole")
    assert ran.code == 0
    assert "no-program-to-attribute" in ran.err
    assert all(row["payload_bytes"] is None for row in run.rows("collectives", alone, "--steps", "whole"))


def test_trace_without_collectives_has_no_rows(run: CommandLine, shared: Path) -> None:
    ran = run("collectives", shared / "data/xplane/mi355_te_fused_attn")
    assert ran.code == 0
    assert "no rows" in ran.out
