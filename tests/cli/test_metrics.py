"""`rocktools metrics`, and `rocktools counters show`, `eval` and `check`."""

from __future__ import annotations

from pathlib import Path

import pytest
from command_line import FORMATS, CommandLine

from rocktools.counters.catalog import architectures
from rocktools.counters.formulas import load_formulas
from rocktools.frames import QUANTITIES

HEADER = "Dispatch_Id,Agent_Id,Process_Id,Grid_Size,Workgroup_Size,Kernel_Id,Kernel_Name,Counter_Name,Counter_Value"
AGENTS = "Node_Id,Agent_Type,Name,Num_Xcc,Cu_Count,Simd_Per_Cu,Max_Engine_Clk_Fcompute\n2,GPU,gfx950,8,256,4,2400\n"
COUNTERS = {
    "SQ_WAVES": 100, "GRBM_GUI_ACTIVE": 16_000_000, "TCC_EA0_RDREQ_128B": 1_000, "TCC_EA0_RDREQ_64B": 10,
    "TCC_EA0_RDREQ_32B": 1, "TCC_EA0_RDREQ": 1_011, "TCC_HIT": 30, "TCC_MISS": 10,
}  # fmt: skip
READ_BYTES = 128 * 1_000 + 64 * 10 + 32


def write(folder: Path, counters: dict[str, float], *, times: int = 2) -> Path:
    """A CSV file of rocprofv3: kernel `gemm`, launched so often, a millisecond each."""
    lines = [f"{HEADER},Start_Timestamp,End_Timestamp"]
    for number in range(1, times + 1):
        start = 10_000_000 * number
        for name, value in counters.items():
            lines.append(f"{number},Agent 2,7,256,64,1,gemm,{name},{value},{start},{start + 1_000_000}")
    path = folder / "x_counter_collection.csv"
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    (folder / "x_agent_info.csv").write_text(AGENTS, encoding="utf-8")
    return path


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> CommandLine:
    return CommandLine(capsys)


@pytest.fixture
def counted(tmp_path: Path) -> Path:
    return write(tmp_path, COUNTERS)


# metrics


def test_every_quantity_with_evidence_or_a_reason(run, counted):
    rows = run.rows("metrics", counted)
    assert [row["quantity"] for row in rows] == sorted(load_formulas("gfx950").titles)
    by_name = {row["quantity"]: row for row in rows}
    read = by_name["fabric_read_bytes"]
    assert (read["value"], read["unit"], read["evidence"], read["dispatches_count"]) == (READ_BYTES, "B", "counter", 2)
    assert by_name["total_flop"]["value"] is None
    assert by_name["total_flop"]["absence"] == "not_collected"
    assert "SQ_INSTS_VALU_MFMA_MOPS_BF16" in by_name["total_flop"]["lacking"]


@pytest.mark.parametrize("table_format", FORMATS)
def test_every_format_has_every_column(run, counted, tmp_path, table_format):
    path = tmp_path / f"out.{table_format}"
    assert run("metrics", counted, "-o", path).code == 0
    if table_format == "csv":
        assert path.read_text(encoding="utf-8").splitlines()[0].split(",")[: len(QUANTITIES.names)] == list(
            QUANTITIES.names
        )
    assert path.stat().st_size > 1_000


def test_people_see_values_with_units_and_how_many_are_missing(run, counted):
    text = run("metrics", counted).out
    assert "quantities: 1 kernel, 1 counter pass" in text
    assert "128.7 kB" in text
    assert "75.0 %" in text
    assert "without a value: " in text
    assert "total_flop" not in text
    assert "total_flop" in run("metrics", counted, "--absent", "--top", "0").out


def test_rows_of_dispatches(run, counted):
    rows = run.rows("metrics", counted, "--by", "dispatch", "--quantity", "waves,l2_hit_ratio")
    assert [(row["ordinal"], row["quantity"], row["value"]) for row in rows] == [
        (1, "l2_hit_ratio", 0.75), (1, "waves", 100), (2, "l2_hit_ratio", 0.75), (2, "waves", 100),
    ]  # fmt: skip


def test_kernels_that_are_not_there_are_told(run, counted):
    ran = run("metrics", counted, "--match", "Gemm")
    assert ran.code == 1
    assert "no-kernel-matched" in ran.err


def test_a_quantity_that_is_not_there_is_told_with_the_nearest(run, counted):
    ran = run("metrics", counted, "--quantity", "fabric_reads_bytes")
    assert ran.code == 2
    assert "fabric_read_bytes" in ran.err


def test_an_architecture_can_be_told(run, counted):
    counted.with_name("x_agent_info.csv").unlink()
    assert run.rows("metrics", counted, "--quantity", "waves", code=1) == []
    (row,) = run.rows("metrics", counted, "--quantity", "waves", "--arch", "gfx942")
    assert row["value"] == 100


def test_passes_are_mixed_only_where_that_is_asked_for(run, tmp_path):
    for number, name in enumerate(("TCC_HIT", "TCC_MISS"), start=1):
        (tmp_path / "out" / f"pass_{number}").mkdir(parents=True)
        write(tmp_path / "out" / f"pass_{number}", {name: COUNTERS[name]})
    (strict,) = run.rows("metrics", tmp_path / "out", "--quantity", "l2_hit_ratio")
    (mixed,) = run.rows("metrics", tmp_path / "out", "--quantity", "l2_hit_ratio", "--mix-passes")
    assert (strict["value"], strict["absence"]) == (None, "different_pass")
    assert (mixed["value"], mixed["doubts"], mixed["evidence"]) == (0.75, "different_passes", "inferred")


def test_what_is_no_counter_pass_is_told(run, tmp_path):
    (tmp_path / "a.csv").write_text("a,b\n1,2\n", encoding="utf-8")
    ran = run("metrics", tmp_path / "a.csv")
    assert ran.code == 1
    assert "no counters" in ran.err
    assert run("metrics", tmp_path / "none").code == 1


# counters show


def test_a_quantity_is_explained(run):
    facts = {row["fact"]: row["text"] for row in run.rows("counters", "show", "fabric_read_bytes")}
    assert facts["formula"].startswith("128[B/request] * TCC_EA0_RDREQ_128B")
    assert facts["architectures"] == "gfx950"
    assert facts["unit"] == "B (of one device)"
    assert "-> 8399360 B" in facts["example"]
    assert "2501" in facts["source"]


def test_a_counter_is_explained_with_its_trap(run):
    facts = {row["fact"]: row["text"] for row in run.rows("counters", "show", "TCC_BUBBLE_sum")}
    assert facts["form of"] == "TCC_BUBBLE"
    assert "half of the bytes" in facts["trap"]
    on_gfx942 = {row["fact"]: row["text"] for row in run.rows("counters", "show", "TCC_BUBBLE", "--arch", "gfx942")}
    assert "trap" not in on_gfx942
    assert "fabric_read_bytes" in on_gfx942["quantities"]


def test_a_counter_without_a_known_meaning_has_block_and_event(run):
    facts = {row["fact"]: row["text"] for row in run.rows("counters", "show", "TCC_PROBE")}
    assert facts["block"] == "TCC"
    assert "is" not in facts


@pytest.mark.parametrize("architecture", architectures())
def test_all_quantities_are_listed(run, architecture):
    rows = run.rows("counters", "show", "--arch", architecture)
    assert [row["quantity"] for row in rows] == list(load_formulas(architecture).by_quantity)


@pytest.mark.parametrize("architecture", architectures())
def test_everything_can_be_explained(run, architecture):
    names = list(load_formulas(architecture).by_quantity)
    assert run("counters", "show", *names, "--arch", architecture).code == 0


@pytest.mark.parametrize(
    "name, near", [("fabric_reed_bytes", "fabric_read_bytes"), ("SQ_WAVEZ", "SQ_WAVES"), ("TCC_HITS", "TCC_HIT")]
)
def test_an_unknown_name_is_told_with_the_nearest(run, name, near):
    ran = run("counters", "show", name)
    assert ran.code == 2
    assert near in ran.err


def test_a_quantity_of_another_architecture_says_where_it_is(run):
    assert "gfx950 has it" in run("counters", "show", "l2_sector_bytes", "--arch", "gfx942").err


# counters eval


def test_an_expression_is_computed_for_each_kernel(run, counted):
    (row,) = run.rows("counters", "eval", "128[B/request] * TCC_HIT_sum / waves", counted)
    assert (row["value"], row["unit"], row["kernel_name"]) == (128 * 30 / 100, "B/wave", "gemm")


def test_an_expression_that_lacks_a_counter_says_which(run, counted):
    assert "not_collected: SQ_INSTS" in run("counters", "eval", "SQ_INSTS / SQ_WAVES", counted).out


@pytest.mark.parametrize(
    "text, code, complaint",
    [
        ("TCC_HIT +", 1, "the end at position 9"),
        ("TCC_HIT + SQ_WAVES", 1, "request and wave cannot be added"),
        ("TCC_HITTS", 2, "TCC_HIT"),
        ("__import__('os').getcwd()", 1, "means nothing"),
    ],
)
def test_mistakes_in_an_expression_are_told(run, counted, text, code, complaint):
    ran = run("counters", "eval", text, counted)
    assert ran.code == code
    assert complaint in ran.err


# counters check


def test_worked_examples_agree(run):
    rows = run.rows("counters", "check")
    assert len(rows) > 120
    assert {row["state"] for row in rows} == {"good"}


def test_values_that_can_be_are_good(run, counted):
    rows = {row["quantity"]: row for row in run.rows("counters", "check", counted)}
    assert rows["fabric_read_sizes_ratio"]["state"] == "good"
    assert rows["implied_clock_ratio"]["value"] == "83.3 %"  # 2,000,000 cycles in a millisecond, of 2.4 GHz


def test_an_impossible_value_fails_the_gate(run, tmp_path):
    path = write(tmp_path, {**COUNTERS, "TCC_EA0_RDREQ": 2_000, "TCC_BUBBLE": 0})
    ran = run("counters", "check", path)
    assert ran.code == 3
    assert "impossible-quantity" in ran.err
    assert "counter-misleads" in ran.err
    assert "impossible" in ran.out
