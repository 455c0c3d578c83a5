"""`rocktools info`: counts of plain SQL, one JSON document, and an exit code that says whether to trust the files."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import referencing
from command_line import CommandLine, assert_formats_agree, read_rows
from rocpd_files import BOOT_NS, edit, read_sql
from tiny_run import HOST, make_proto, tiny_trace, write_tiny_profile, write_tiny_run
from torn_files import leaves_of, zero_pages

from rocktools.findings import Severity

RENDER = Path(__file__).resolve().parents[2] / "rocktools" / "render"
SCHEMA = json.loads((RENDER / "tables.schema.json").read_text(encoding="utf-8"))
TABLE_SCHEMA = json.loads((RENDER / "table.schema.json").read_text(encoding="utf-8"))
REGISTRY = referencing.Registry().with_resources(
    [(schema["$id"], referencing.Resource.from_contents(schema)) for schema in (SCHEMA, TABLE_SCHEMA)]
)


def validate(document: object) -> None:
    jsonschema.Draft202012Validator(SCHEMA, registry=REGISTRY).validate(document)


def tables_in(document: dict[str, Any]) -> dict[str, list[dict[str, Any]]]:
    return {table["name"]: table["rows"] for table in document["tables"]}


def rules_in(document: dict[str, Any]) -> list[str]:
    return [finding["rule"] for finding in document["findings"]]


@pytest.mark.parametrize("names", [["trace"], ["counters"], ["mixed"], ["minimal"], ["trace", "counters", "mixed"]])
def test_document_keeps_its_schema(databases, run: CommandLine, names: list[str]) -> None:
    document = run.document("info", *(getattr(databases, name) for name in names))
    validate(document)
    assert document["schema"] == "rocktools.info/1"
    assert document["is_simulated"] is True
    assert document["is_trustworthy"] is True


def test_schema_refuses_a_document_that_lost_something(databases, run: CommandLine) -> None:
    document = run.document("info", databases.mixed)
    for member in document:
        with pytest.raises(jsonschema.ValidationError):
            validate({name: value for name, value in document.items() if name != member})
    for change in ({"more": 1}, {"schema": "rocktools.info/2"}, {"tables": document["tables"][1:]}, {"findings": [{}]}):
        with pytest.raises(jsonschema.ValidationError):
            validate({**document, **change})
    assert TABLE_SCHEMA["$defs"]["finding"]["properties"]["severity"]["enum"] == [str(each) for each in Severity]


def test_contents_are_those_of_plain_sql(databases, run: CommandLine) -> None:
    path = databases.trace
    contents = {row["subject"]: row for row in tables_in(run.document("info", path))["CONTENTS"]}
    for subject, table, columns in (
        ("kernel dispatches", "kernel_dispatch", '"start", "end"'),
        ("host regions", "region", '"start", "end"'),
        ("memory copies", "memory_copy", '"start", "end"'),
        ("allocations", "memory_allocate", '"start", "end"'),
        ("samples", "sample", "timestamp, timestamp"),
    ):
        first, last = columns.split(", ")
        [(count, start, end)] = read_sql(path, f"SELECT count(*), min({first}), max({last}) FROM rocpd_{table}")
        row = contents[subject]
        assert (row["rows_count"], row["start_ns"], row["end_ns"]) == (count, start, end)
        assert row["span_ns"] == (None if start is None else end - start)
    domains = dict(read_sql(path, "SELECT category, count(*) FROM regions GROUP BY category"))
    assert {name.strip(): row["rows_count"] for name, row in contents.items() if name.startswith("  ")} == domains
    assert sum(domains.values()) == contents["host regions"]["rows_count"]


def test_devices_have_their_facts_and_the_dispatches_of_all_processes(databases, run: CommandLine) -> None:
    document = run.document("info", databases.trace, databases.other, databases.counters)
    devices = {row["device"]: row for row in tables_in(document)["DEVICES"]}
    assert sorted(devices) == ["simulated-node:gpu0", "simulated-node:gpu1"]
    first, second = devices["simulated-node:gpu0"], devices["simulated-node:gpu1"]
    assert (first["arch"], first["product"]) == ("gfx950", "AMD Instinct MI355X")
    assert (first["xcc_count"], first["cu_count"], first["lds_per_cu_bytes"]) == (8, 256, 160 * 1024)
    assert (first["processes_count"], second["processes_count"]) == (3, 1)
    by_agent = dict(read_sql(databases.trace, "SELECT agent_id, count(*) FROM rocpd_kernel_dispatch GROUP BY agent_id"))
    assert second["dispatches_count"] == by_agent[max(by_agent)]
    assert first["dispatches_count"] == by_agent[min(by_agent)] + 50 + 24


def test_counters_are_counted_by_stored_value(databases, run: CommandLine) -> None:
    rows = tables_in(run.document("info", databases.counters, databases.trace))["COUNTERS"]
    assert [(row["counter"], row["rows_count"], row["run"]) for row in rows] == [
        ("SQ_WAVES", 24 * 8, "counters"),
        ("TCC_HIT_sum", 24, "counters"),
    ]


def test_processes_say_what_they_hold(databases, run: CommandLine) -> None:
    rows = tables_in(run.document("info", databases.trace, databases.counters))["PROCESSES"]
    assert {(row["pid"], row["content"], row["schema_version"]) for row in rows} == {
        (101, "trace", "3"),
        (303, "counters", "3"),
    }
    assert {row["path"] for row in rows} == {str(databases.trace), str(databases.counters)}


@pytest.mark.parametrize("part", ["processes", "devices", "contents", "counters"])
def test_each_part_is_a_table_of_its_own_in_every_format(
    databases, run: CommandLine, tmp_path: Path, part: str
) -> None:
    paths = (databases.trace, databases.counters)
    rows = assert_formats_agree(run, tmp_path, "info", "--part", part, *paths)
    whole = tables_in(run.document("info", *paths))
    assert rows == whole[part.upper()]
    assert run("info", "--part", part, *paths).out.startswith(f"SIMULATED: no hardware produced these numbers\n{part}")


@pytest.mark.parametrize("name", ["csv", "parquet"])
def test_formats_of_one_table_hold_the_contents(databases, run: CommandLine, tmp_path: Path, name: str) -> None:
    target = tmp_path / f"info.{name}"
    assert run("info", databases.trace, "-o", target).code == 0
    found = [(row["subject"], int(row["rows_count"])) for row in read_rows(target)]
    expected = tables_in(run.document("info", databases.trace))["CONTENTS"]
    assert found == [(row["subject"], row["rows_count"]) for row in expected]


def test_text_has_all_four_parts_each_marked_simulated(databases, run: CommandLine) -> None:
    out = run("info", databases.counters).out
    assert out.count("SIMULATED: no hardware produced these numbers") == 4
    for title in ("processes", "devices", "contents", "counters"):
        assert f"\n{title}\n" in f"\n{out}"


def test_text_has_no_table_of_counters_where_there_are_none(databases, run: CommandLine) -> None:
    out = run("info", databases.trace).out
    assert "counters" not in out
    assert "no rows" not in out
    assert tables_in(run.document("info", databases.trace))["COUNTERS"] == []


def test_a_profile_has_its_kernels_and_programs(run: CommandLine, tmp_path: Path) -> None:
    trace = tiny_trace(steps_count=1)
    path = write_tiny_profile(tmp_path / "a.xplane.pb", trace, protos={"jit_a(3)": make_proto("jit_a", 3)})
    tables = tables_in(run.document("info", path))
    (process,) = tables["PROCESSES"]
    assert (process["tool"], process["content"], process["host"]) == ("JAX profiler", "profile", HOST)
    contents = [(row["subject"].strip(), row["rows_count"]) for row in tables["CONTENTS"]]
    assert contents[:2] == [("kernel dispatches", 169), ("with an HLO instruction", 169)]
    assert ("compiled programs", 1) in contents
    (device,) = tables["DEVICES"]
    assert (device["device"], device["arch"], device["dispatches_count"]) == (f"{HOST}:gpu0", "gfx950", 169)
    ran = run("info", path)
    assert ran.code == 0
    assert ran.out.count("SIMULATED") == 3


def test_kernels_that_were_traced_and_profiled_are_told_to_be_counted_once(run: CommandLine, tmp_path: Path) -> None:
    trace = tiny_trace(steps_count=1)
    ran = run("info", write_tiny_run(tmp_path / "run", trace=trace, profile=trace))
    assert "note [profile-beside-trace]" in ran.err
    assert ran.code == 0
    document = run.document("info", tmp_path / "run")
    assert sum(row["dispatches_count"] for row in tables_in(document)["DEVICES"]) == len(trace.dispatches)


def test_unknown_part_ends_with_2(databases, run: CommandLine) -> None:
    ran = run("info", databases.trace, "--part", "content")
    assert (ran.code, ran.out) == (2, "")
    assert "'contents'" in ran.err


# Findings


def test_odd_rows_are_found_and_named(databases, run: CommandLine) -> None:
    ran = run("info", databases.mixed)
    assert ran.code == 0
    for rule in ("negative-duration", "kernels-without-symbol", "rows-hidden-by-view", "environment-inside"):
        assert f"[{rule}]" in ran.err
    assert str(databases.mixed) in ran.err
    assert ran.err.splitlines()[-1].startswith("findings: ")
    document = run.document("info", databases.mixed)
    assert {"negative-duration", "kernels-without-symbol"} <= set(rules_in(document))
    [negative] = [finding for finding in document["findings"] if finding["rule"] == "negative-duration"]
    assert negative["numbers"] == {"negative_count": 1, "largest_ns": 5}


def test_tables_that_are_missing_are_named(databases, run: CommandLine) -> None:
    document = run.document("info", databases.minimal)
    [missing] = [finding for finding in document["findings"] if finding["rule"] == "tables-missing"]
    assert missing["numbers"] == {"missing_count": 4}
    for table in ("event", "arg", "info_pmc", "pmc_event"):
        assert table in missing["message"].split(": ")[1].split(", ")


def test_nothing_is_said_of_a_sound_file(databases, run: CommandLine) -> None:
    document = run.document("info", databases.other)
    assert [finding for finding in document["findings"] if finding["severity"] != "note"] == []


# Exit codes


def test_database_without_a_row_cannot_be_trusted(databases, run: CommandLine) -> None:
    ran = run("info", databases.unfinished)
    assert ran.code == 1
    assert "fault [nothing-recorded]" in ran.err
    document = run.document("info", databases.unfinished, code=1)
    validate(document)
    assert document["is_trustworthy"] is False


def test_one_process_that_can_be_trusted_is_enough(databases, run: CommandLine) -> None:
    ran = run("info", databases.unfinished, databases.trace)
    assert ran.code == 0
    assert "fault [nothing-recorded]" in ran.err


@pytest.mark.parametrize(
    "name, reference",
    [("empty", "rocpd-empty"), ("truncated", "rocpd-truncated")],
)
def test_file_that_cannot_be_read_ends_with_1(databases, run: CommandLine, name: str, reference: str) -> None:
    ran = run("info", getattr(databases, name))
    assert (ran.code, ran.out) == (1, "")
    assert f"rocktools: error: {reference}: " in ran.err
    beside = run("info", getattr(databases, name), databases.trace)
    assert beside.code == 1
    assert f"fault [{reference}]" in beside.err
    assert "400" in beside.out


def test_database_without_tables_cannot_be_trusted(run: CommandLine, tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / "1.db")) as connection:
        connection.execute("VACUUM")
    ran = run("info", tmp_path / "1.db")
    assert (ran.code, ran.out) == (1, "")
    assert "rocpd-no-tables" in ran.err or "rocpd-empty" in ran.err


def test_file_that_breaks_while_it_is_read_costs_only_itself(databases, run: CommandLine, tmp_path: Path) -> None:
    broken = tmp_path / "broken.db"
    broken.write_bytes(databases.trace.read_bytes())
    [(name,)] = read_sql(broken, "SELECT name FROM sqlite_master WHERE name LIKE 'rocpd_kernel_dispatch_0%'")
    zero_pages(broken, list(leaves_of(broken, name))[1:2])
    alone = run("info", broken)
    assert (alone.code, alone.out) == (1, "")
    assert "rocpd-malformed" in alone.err
    assert f"rocktools rocpd recover {broken}" in alone.err
    beside = run("info", broken, databases.other)
    assert beside.code == 1
    assert f"fault [rocpd-malformed] {broken}" in beside.err
    document = run.document("info", broken, databases.other, code=1)
    validate(document)
    assert document["is_trustworthy"] is True
    assert {row["run"] for row in tables_in(document)["CONTENTS"]} == {"other"}


def test_fault_of_one_file_is_not_one_of_a_file_whose_name_begins_alike(
    databases, run: CommandLine, tmp_path: Path
) -> None:
    good, bad = tmp_path / "a.db", tmp_path / "a.db.sqlite"
    good.write_bytes(databases.trace.read_bytes())
    bad.write_bytes(databases.unfinished.read_bytes())
    document = run.document("info", good, bad)
    assert document["is_trustworthy"] is True


def test_fraction_among_the_times_cannot_be_trusted(databases, run: CommandLine, tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    path.write_bytes(databases.other.read_bytes())
    edit(path, f'UPDATE "rocpd_kernel_dispatch{{_}}" SET "start" = {BOOT_NS / 2**10 + 0.5} WHERE id = 1')
    ran = run("info", path)
    assert ran.code == 1
    assert "fault [not-integers]" in ran.err


# Real files


@pytest.mark.parametrize("name", ["rocprofv3-mi300x.db", "rocprofsys-mi350x.db", "minimal-handmade-v3.db"])
def test_real_files_give_a_valid_document(shared: Path, run: CommandLine, name: str) -> None:
    document = run.document("info", shared / "data" / "rocpd" / name)
    validate(document)
    assert document["is_trustworthy"] is True
    assert document["is_simulated"] is False


def test_missing_tables_of_the_minimal_real_file_are_named(shared: Path, run: CommandLine) -> None:
    ran = run("info", shared / "data" / "rocpd" / "minimal-handmade-v3.db")
    assert (
        "6 tables of schema 3 are missing: info_pmc, info_code_object, event, arg, pmc_event, memory_allocate"
        in ran.err
    )


def test_samples_that_the_view_hides_are_told(shared: Path, run: CommandLine) -> None:
    ran = run("info", shared / "data" / "rocpd" / "rocprofsys-mi350x.db")
    assert "the view shows 0 of 880 rows: 880 have no thread behind their track" in ran.err
    assert "880" in ran.out


def test_people_see_traces_before_counter_passes_and_ranks_in_order(tmp_path: Path, run: CommandLine) -> None:
    demo = tmp_path / "demo"
    run("demo", "-o", demo, "--ranks", 2, "--steps", 1)
    lines = run("info", demo).out.splitlines()
    processes = [line.split() for line in lines if line.startswith("demo ")]
    assert [next(word for word in words if word in ("trace", "counters")) for words in processes] == [
        *("trace", "trace", "counters", "counters", "counters")
    ]
    pids = ["41000", "41011", "42000", "43000", "44000"]
    assert [next(word for word in words if word in pids) for words in processes] == pids
    assert [line.split()[0] for line in lines if "kernel dispatches" in line] == [words[1] for words in processes]


def test_real_profile_of_an_mi355x(shared: Path, run: CommandLine) -> None:
    tables = tables_in(run.document("info", shared / "data" / "xplane" / "mi355_te_fused_attn"))
    contents = {row["subject"]: row["rows_count"] for row in tables["CONTENTS"]}
    assert (contents["kernel dispatches"], contents["compiled programs"]) == (150, 9)
    assert [row["dispatches_count"] for row in tables["DEVICES"]] == [150, *[0] * 7]


def test_real_damaged_profile_is_one_error(shared: Path, run: CommandLine) -> None:
    ran = run("info", shared / "data" / "xplane" / "corrupt")
    assert (ran.code, ran.out) == (1, "")
    assert "xspace-damaged" in ran.err
    assert "utf8-mangled.xplane.pb" in ran.err
