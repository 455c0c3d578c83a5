"""`rocktools roofline` and `rocktools devices`: tables, pictures, explanations, refusals."""

from __future__ import annotations

import csv
import io
import json

import pytest
from command_line import CommandLine
from tiny_run import tiny_trace, write_tiny_run

from rocktools.roofline.points import ROOFLINE


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return write_tiny_run(tmp_path_factory.mktemp("cli") / "run", trace=tiny_trace(steps_count=2))


@pytest.fixture
def rocktools(capsys) -> CommandLine:
    return CommandLine(capsys)


def test_table_says_device_level_ceiling_and_evidence(rocktools, run):
    ran = rocktools("roofline", run, "--all-steps")
    assert ran.code == 0
    assert ran.out.startswith("SIMULATED")
    for said in ("on MI355X SPX/NPS1, level hbm (HBM3E: 8 TB/s, declared)", "compiler_estimate", "time: trace"):
        assert said in ran.out


def test_csv_and_json_have_every_column(rocktools, run):
    out = rocktools("roofline", run, "--all-steps", "--format", "csv").out
    rows = list(csv.DictReader(io.StringIO(out)))
    assert set(ROOFLINE.names) <= set(rows[0])
    document = json.loads(rocktools("roofline", run, "--all-steps", "--format", "json").out)
    assert "compiler_estimate" in json.dumps(document)


@pytest.mark.parametrize("suffix, start", [(".svg", b"<?xml"), (".png", b"\x89PNG")])
def test_picture_is_written_and_never_overwritten(rocktools, run, tmp_path, suffix, start):
    path = tmp_path / f"roof{suffix}"
    assert rocktools("roofline", run, "--all-steps", "-o", path).code == 0
    assert path.read_bytes().startswith(start)
    assert [each.name for each in tmp_path.iterdir()] == [path.name]
    again = rocktools("roofline", run, "-o", path)
    assert (again.code, "output-exists" in again.err) == (2, True)


def test_picture_and_format_exclude_each_other(rocktools, run, tmp_path):
    ran = rocktools("roofline", run, "--format", "csv", "-o", tmp_path / "a.svg")
    assert (ran.code, "picture-and-format" in ran.err) == (2, True)


def test_explain_names_the_numbers(rocktools, run):
    ran = rocktools("roofline", run, "--all-steps", "--explain", "loop_add_fusion_1")
    assert ran.code == 0
    assert ran.out.startswith("SIMULATED")
    for said in ("FLOPs: ", "traffic takes at least", "8 TB/s is the ceiling of HBM3E", "memory roof"):
        assert said in ran.out


def test_measured_ceilings_go_first(rocktools, run, tmp_path):
    path = tmp_path / "mine.yaml"
    path.write_text("schema: rocktools.ceilings/1\nsource: stream\nbytes_per_s: {hbm: 6.2e12}\n", encoding="utf-8")
    ran = rocktools("roofline", run, "--all-steps", "--ceilings", path)
    assert "(hbm: 6.200 TB/s, measured)" in ran.out


REFUSED = [
    (("--level", "lds"), "level-without-bytes"),
    (("--part", "MI300X"), "device-mismatch"),
    (("--part", "MI355"), "unknown-device"),
    (("--dtype", "bf15"), "unknown-dtype"),
    (("--component", "no_such"), "unknown-component"),
    (("--explain", "no_such"), "unknown-point"),
    (("--source", "counters"), "no-counters-for-roofline"),
]


@pytest.mark.parametrize("options, reference", REFUSED)
def test_what_cannot_be_answered_is_refused_by_name(rocktools, run, options, reference):
    ran = rocktools("roofline", run, "--all-steps", *options)
    assert (ran.code, reference in ran.err, ran.out) == (2, True, "")


def test_counter_pass_alone_is_refused_unless_told_to(rocktools, tmp_path):
    run = tmp_path / "demo"
    assert rocktools("demo", "-o", run).code == 0
    counted = next((run / "pmc").iterdir())
    ran = rocktools("roofline", counted)
    assert (ran.code, "pass-times-in-roofline" in ran.err) == (2, True)
    ran = rocktools("roofline", counted, "--pass-times")
    assert ran.code in (0, 1)
    assert "times-of-a-counter-pass" in ran.err


def test_devices_are_listed_with_their_ridge(rocktools):
    out = rocktools("devices", "list").out
    assert "2.517 PFLOP/s" in out
    assert "314.6 FLOP/B" in out


def test_device_is_shown_with_sources_in_a_partition(rocktools):
    rows = list(csv.DictReader(io.StringIO(rocktools("devices", "show", "mi355x", "--format", "csv").out)))
    by_name = {row["figure"]: row for row in rows}
    assert float(by_name["matrix bf16, dense"]["peak_flop_per_s"]) == 2516582400000000.0
    assert "white paper" in by_name["matrix bf16, dense"]["source"]
    out = rocktools("devices", "show", "MI355X", "--partition", "CPX").out
    assert "CPX/NPS1: 1 XCD, 32 CUs" in out
    assert rocktools("devices", "show", "MI355X", "--partition", "TPX").code == 2
