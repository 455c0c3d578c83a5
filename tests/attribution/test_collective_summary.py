"""One row per collective: bandwidth by arithmetic, waiting from the arrivals of its devices."""

from __future__ import annotations

import pytest
from timeline_rows import make_attributed

from rocktools.attribution.collective_rates import measure_collectives
from rocktools.attribution.collective_summary import sum_by_kind, summarize_collectives
from rocktools.hlo.text_reader import parse_hlo_text
from rocktools.timeline.skew import match_collectives

MODULE = parse_hlo_text(
    """HloModule m, is_scheduled=true, num_partitions=4

ENTRY %main (p: f32[256]) -> f32[1024] {
  %p = f32[256]{0} parameter(0)
  ROOT %all-gather.1 = f32[1024]{0} all-gather(%p), channel_id=1, replica_groups={{0,1,2,3}}, dimensions={0}
}
""",
    "m",
)
PAYLOAD_BYTES = 1024 * 4


def rows(program_ids=("7",)):
    """Four devices, of which the n-th comes n us late; all end at 10 us."""
    return make_attributed(
        [
            {"device": f"host:gpu{device}", "process": f"p{device}", "step_index": 0, "activity": "communication"}
            | {"instruction": "all-gather.1", "program_id": program_id, "collective": "all-gather"}
            | {"payload_bytes": PAYLOAD_BYTES, "start": 20_000 * place + 1000 * device, "end": 20_000 * place + 10_000}
            for place, program_id in enumerate(program_ids)
            for device in range(4)
        ]
    )


def summary(frame):
    programs = dict.fromkeys(frame["program_id"].astype(str), MODULE)
    return summarize_collectives(measure_collectives(frame, programs), match_collectives(frame).frame)


def test_time_is_waiting_and_transfer_and_each_has_its_bandwidth():
    (row,) = summary(rows()).to_dict("records")
    assert (row["rows_count"], row["devices_count"], row["group_count"]) == (4, 4, 4)
    assert row["sum_ns"] == 10_000 + 9_000 + 8_000 + 7_000
    assert (row["mean_ns"], row["wait_ns"], row["transfer_ns"]) == (8500.0, 1500.0, 7000.0)
    assert row["algorithm_bytes_per_s"] == pytest.approx(PAYLOAD_BYTES * 1e9 / 8500)
    # An all-gather of n sends (n - 1) / n of its payload.
    assert row["bus_bytes_per_s"] == pytest.approx(0.75 * PAYLOAD_BYTES * 1e9 / 8500)
    assert row["transfer_bus_bytes_per_s"] == pytest.approx(0.75 * PAYLOAD_BYTES * 1e9 / 7000)


def test_instruction_of_two_programs_has_no_arrivals_of_its_own():
    found = summary(rows(("7", "8")))
    assert found["program_id"].tolist() == ["7", "8"]
    assert found["wait_ns"].isna().all()
    assert found["bus_bytes_per_s"].notna().all()


def test_kinds_add_up_and_missing_payload_stays_missing():
    frame = rows()
    kinds = sum_by_kind(summary(frame)).to_dict("records")
    assert [(row["collective"], row["moved_bytes"], row["share_ratio"]) for row in kinds] == [
        ("all-gather", 4 * PAYLOAD_BYTES, 1.0)
    ]
    frame["payload_bytes"] = frame["payload_bytes"].where(frame["start_ns"] < 0)
    (row,) = sum_by_kind(summary(frame)).to_dict("records")
    assert row["moved_bytes"] is None or row["moved_bytes"] != row["moved_bytes"] or str(row["moved_bytes"]) == "<NA>"


def test_nothing_communicated_is_an_empty_frame():
    frame = rows().iloc[:0]
    assert summary(frame).empty
    assert sum_by_kind(summary(frame)).empty
