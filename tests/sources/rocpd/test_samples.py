"""Samples: every instant that is no roctx mark, with its telemetry value where one belongs to it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from rocpd_files import BOOT_NS, as_rows, drop_views, edit, open_process, rules, write_small_trace

from rocktools.demo.rocpd_file import WriterOptions
from rocktools.demo.rocpd_writer import RocpdWriter
from rocktools.findings import Finding, Severity
from rocktools.frames import RANGES, SAMPLES
from rocktools.sources.rocpd.host import read_ranges
from rocktools.sources.rocpd.samples import read_samples

Row = dict[str, Any]


def samples_of(path: Path) -> tuple[list[Row], list[Finding]]:
    with open_process(path) as (reader, process):
        return as_rows(read_samples(reader, process, "run"), SAMPLES), reader.findings


def written(path: Path, write: Callable[[RocpdWriter], object], version: str = "3") -> Path:
    with RocpdWriter(path, options=WriterOptions(has_views=False, version=version)) as writer:
        write(writer)
    return path


def write_telemetry(writer: RocpdWriter) -> None:
    """Two instants of power and temperature, both values of an instant on one event, as rocprof-sys writes them."""
    device = writer.agent()
    power = writer.counter_info("device_power", units="W", agent_id=device)
    heat = writer.counter_info("device_temp", units="", agent_id=device)
    lanes = [writer.track(name, tid=None) for name in ("device_power [0]", "device_temp [0]")]
    for time_ns, watts, degrees in ((BOOT_NS + 1, 250.5, 51.0), (BOOT_NS + 2, 251.5, 65_535.0)):
        event = writer.event("amd_smi")
        for lane, pmc_id, value in ((lanes[0], power, watts), (lanes[1], heat, degrees)):
            writer.sample(lane, time_ns, event_id=event)
            writer.counter_value(pmc_id, value, event_id=event)


def test_values_are_paired_with_samples_in_their_order(tmp_path: Path) -> None:
    rows, findings = samples_of(written(tmp_path / "t.db", write_telemetry))
    assert [tuple(row.values())[1:] for row in rows] == [
        ("device_power [0]", "amd_smi", BOOT_NS + 1, "device_power", 250.5, "W", 0, None),
        ("device_temp [0]", "amd_smi", BOOT_NS + 1, "device_temp", 51.0, None, 0, None),
        ("device_power [0]", "amd_smi", BOOT_NS + 2, "device_power", 251.5, "W", 0, None),
        ("device_temp [0]", "amd_smi", BOOT_NS + 2, "device_temp", None, None, 0, None),
    ]
    assert findings == []


def test_event_with_other_numbers_of_samples_and_values_gives_no_value(tmp_path: Path) -> None:
    path = edit(written(tmp_path / "t.db", write_telemetry), "DELETE FROM rocpd_pmc_event{_} WHERE id = 2")
    rows, findings = samples_of(path)
    assert [row["value"] for row in rows] == [None, None, 251.5, None]
    assert [row["quantity"] for row in rows] == [None, None, "device_power", "device_temp"]
    [finding] = findings
    assert (finding.rule, finding.severity, finding.numbers) == (
        "samples-without-values",
        Severity.WARNING,
        {"samples_count": 2, "events_count": 1},
    )


def test_pairing_follows_ids_and_not_the_order_of_rows(tmp_path: Path) -> None:
    path = written(tmp_path / "t.db", write_telemetry)
    before = samples_of(path)
    edit(
        path,
        "CREATE INDEX i1 ON rocpd_pmc_event{_} (event_id DESC, pmc_id DESC, value, id)",
        "CREATE INDEX i2 ON rocpd_sample{_} (timestamp DESC, track_id DESC, event_id, id)",
        "ANALYZE",
    )
    assert samples_of(path) == before


def test_sample_without_an_event_is_an_event_without_a_value(tmp_path: Path) -> None:
    def write(writer: RocpdWriter) -> None:
        lane = writer.track("numa")
        writer.sample(lane, 5)
        writer.sample(lane, 6, event_id=9_999)
        writer.sample(7_777, 7, event_id=writer.event("page_fault"))

    rows, _ = samples_of(written(tmp_path / "t.db", write))
    assert [(row["track"], row["domain"], row["quantity"], row["value"]) for row in rows] == [
        ("numa", None, None, None),
        ("numa", None, None, None),
        (None, "page_fault", None, None),
    ]
    assert [row["thread_id"] for row in rows] == [4242, 4242, None]


def test_marks_are_ranges_and_no_samples(tmp_path: Path) -> None:
    path = write_small_trace(tmp_path / "t.db")
    assert samples_of(path)[0] == []
    with open_process(path) as (reader, process):
        kinds = [row["kind"] for row in as_rows(read_ranges(reader, process, "run"), RANGES)]
    assert kinds.count("mark") == 1


def test_points_of_streaming_counters_take_no_telemetry_away(tmp_path: Path) -> None:
    """Several points may hang on one sample, which has one row here."""

    def write(writer: RocpdWriter) -> None:
        write_telemetry(writer)
        for number in range(5):
            writer.counter_value(1, float(number), event_id=1, sample_id=1, xcc=number)

    rows, findings = samples_of(written(tmp_path / "t.db", write, "3.0.3"))
    assert [row["value"] for row in rows] == [250.5, 51.0, 251.5, None]
    assert findings == []


def test_value_of_a_counter_without_a_description_has_no_name(tmp_path: Path) -> None:
    path = edit(written(tmp_path / "t.db", write_telemetry), "DELETE FROM rocpd_info_pmc{_} WHERE id = 1")
    rows, _ = samples_of(path)
    assert [(row["quantity"], row["value"]) for row in rows][:2] == [(None, 250.5), ("device_temp", 51.0)]


def test_file_without_the_tables_of_values_gives_bare_samples(tmp_path: Path) -> None:
    path = drop_views(written(tmp_path / "t.db", write_telemetry))
    for base in ("pmc_event", "info_pmc", "track", "event"):
        edit(path, f"DROP TABLE rocpd_{base}{{_}}")
        assert [row["time_ns"] for row in samples_of(path)[0]] == [BOOT_NS + 1, BOOT_NS + 1, BOOT_NS + 2, BOOT_NS + 2]


def test_samples_that_lack_a_time_are_left_out_with_the_values_of_their_event(tmp_path: Path) -> None:
    path = edit(written(tmp_path / "t.db", write_telemetry), "UPDATE rocpd_sample{_} SET timestamp = 0.5 WHERE id = 1")
    rows, findings = samples_of(path)
    assert [(row["sample_id"], row["value"]) for row in rows] == [(2, None), (3, 251.5), (4, None)]
    assert {"rows-without-times-or-ids", "samples-without-values"} <= set(rules(findings))


def test_real_mi350x_trace_shows_880_of_880_samples(shared: Path) -> None:
    """The stock view shows none of them."""
    rows, findings = samples_of(shared / "data/rocpd/rocprofsys-mi350x.db")
    assert len(rows) == 880
    assert findings == []
    assert {row["domain"] for row in rows} == {"amd_smi", "cpu_frequency"}
    for row in rows:  # rocprof-sys names its tracks after what they show: `device_power [3]`
        assert row["track"].split(" [")[0] == row["quantity"]
        if row["track"].endswith("]"):
            assert row["agent_id"] == 3 + int(row["track"].split("[")[1][:-1])
    missing = {row["quantity"] for row in rows if row["value"] is None}
    assert missing == {"device_busy_mm"}
    power = [row["value"] for row in rows if row["quantity"] == "device_power"]
    assert (len(power), min(power), max(power)) == (128, 222.0, 253.0)
