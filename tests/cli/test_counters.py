"""`rocktools counters list` and `pack`."""

from __future__ import annotations

import json

import pytest

from rocktools.cli.main import main


def _json(capsys) -> dict:
    return json.loads(capsys.readouterr().out)


def test_list_has_every_counter_of_the_architecture(capsys):
    assert main(["counters", "list", "--arch", "gfx942", "--format", "json"]) == 0
    table = _json(capsys)
    assert table["rows_count"] == len(table["rows"]) == 419
    assert table["title"] == "counters of gfx942 (MI300A, MI300X, MI325X): 419 counters"


def test_list_shows_block_event_slots_and_what_is_behind_a_derived_counter(capsys):
    names = "^(SQ_WAVES|MeanOccupancyPerCU|FETCH_SIZE|CU_NUM)$"
    assert main(["counters", "list", "--match", names, "--format", "json"]) == 0
    rows = {row["counter"]: row for row in _json(capsys)["rows"]}
    assert rows["SQ_WAVES"] == {
        "counter": "SQ_WAVES", "kind": "raw", "block": "SQ", "event": 4, "slots_count": 1, "needs": None,
        "unit": "wave", "meaning": "waves launched",
    }  # fmt: skip
    assert rows["MeanOccupancyPerCU"]["needs"] == "GRBM_GUI_ACTIVE + SQ_LEVEL_WAVES + SQ_LEVEL_WAVES (accumulated)"
    assert rows["FETCH_SIZE"]["slots_count"] == 3
    assert (rows["CU_NUM"]["slots_count"], rows["CU_NUM"]["needs"]) == (0, None)


def test_list_of_a_block_has_its_raw_counters_and_those_made_of_them(capsys):
    assert main(["counters", "list", "--block", "TCA", "--format", "csv"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split(",")[0] for line in lines[1:]] == ["TCA_BUSY", "TCA_BUSY_sum", "TCA_CYCLE", "TCA_CYCLE_sum"]


def test_list_tells_that_nothing_matched(capsys):
    assert main(["counters", "list", "--match", "sq_waves"]) == 0
    assert (
        "warning [no-counter-matched] gfx950: none of the names asked for has a match of the regex 'sq_waves', which "
        "is case-sensitive"
    ) in capsys.readouterr().err
    assert main(["counters", "list", "--match", "(?i)sq_waves"]) == 0
    assert capsys.readouterr().err == ""


def test_list_for_people_is_cut_and_says_so(capsys):
    assert main(["counters", "list"]) == 0
    text = capsys.readouterr().out
    assert text.startswith("counters of gfx950 (MI350X, MI355X): 628 counters\n")
    assert "40 of 628" in text


@pytest.mark.parametrize(
    "arguments, message",
    [
        (["list", "--arch", "gfx90a"], "unknown-architecture: the counters of 'gfx90a' are not known"),
        (["list", "--block", "SQS"], "unknown-block: there is no block 'SQS'"),
        (["list", "--block", "SQC"], "try: --block SQ --match ^SQC_"),
        (["list", "--match", "("], "bad-regex: --match '(' is not a regex"),
        (["pack", "SQ_WAVE"], "unknown-counter: gfx950 has no counter 'SQ_WAVE'"),
        (["pack", "--arch", "gfx942", "SPI_CS0_WAVE"], "gfx942 has no counter 'SPI_CS0_WAVE'; gfx950 has it"),
        (["pack", ","], "no-counters: no counter is named"),
        (["pack"], "Missing argument 'NAMES...'"),
    ],
)
def test_what_cannot_be_is_refused(arguments, message, capsys):
    assert main(["counters", *arguments]) == 2
    captured = capsys.readouterr()
    assert message in captured.err
    assert captured.out == ""


def test_pack_shows_passes_with_slots_and_that_no_gpu_was_asked(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "160")
    names = ["TCC_HIT_sum,TCC_MISS_sum", "FETCH_SIZE SQ_WAVES", "MfmaUtil"]
    assert main(["counters", "pack", *names]) == 0
    captured = capsys.readouterr()
    assert captured.out.splitlines() == [
        "5 counters of gfx950 in 2 passes; fewer are impossible",
        "",
        "pass  counters  slots                      ratio_groups  names",
        "────  ────────  ─────────────────────────  ────────────  ────────────────────────────",
        "   1         3  GRBM 1/2, SQ 2/8, TCC 3/4  —             MfmaUtil SQ_WAVES FETCH_SIZE",
        "   2         2  TCC 2/4                    l2-hit-rate   TCC_HIT_sum TCC_MISS_sum",
        "",
        "evidence: declared",
        "note: checked against the table of block capacities only; rocprofv3-avail pmc-check was not asked",
    ]
    assert captured.err == ""


def test_pack_says_on_standard_error_why_it_takes_more_passes(capsys):
    stalls = [f"TCC_EA0_{way}REQ_{kind}_CREDIT_STALL" for way in ("RD", "WR") for kind in ("DRAM", "GMI", "IO")]
    assert main(["counters", "pack", "--arch", "gfx942", "TCC_BUSY", *stalls, "TCC_TAG_STALL", "--format", "json"]) == 0
    captured = capsys.readouterr()
    assert [row["pass"] for row in json.loads(captured.out)["rows"]] == [1, 2, 3]
    assert "note [more-passes-than-capacity] gfx942: 3 passes where the capacities alone would allow 2" in captured.err


def test_pack_writes_every_name_whatever_the_width(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "40")
    names = [f"SQ_INSTS_VALU_{kind}_F{bits}" for kind in ("ADD", "FMA", "MUL", "TRANS") for bits in (16, 32)]
    assert main(["counters", "pack", *names]) == 0
    assert " ".join(sorted(names)) in capsys.readouterr().out
