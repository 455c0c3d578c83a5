"""Buckets per device and step: exact sums, unions by brute force, nothing lost."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st
from timeline_rows import make_attributed

from rocktools.attribution.ledger import book_rows, build_ledger
from rocktools.frames import LEDGER

ROWS = st.lists(
    st.builds(
        lambda device, step, activity, phase, component, gradient, start, length, marks: {
            "device": f"gpu{device}",
            "step_index": step,
            "activity": activity,
            "phase": phase,
            "component": component,
            "gradient": gradient,
            "start": start,
            "end": start + length,
            "is_mixed": marks[0],
            "is_inferred": marks[1],
        },
        st.integers(0, 1),
        st.sampled_from([None, 0, 1]),
        st.sampled_from(["compute", "communication"]),
        st.sampled_from(["forward", "backward"]),
        st.sampled_from(["mlp", "attention"]),
        st.sampled_from([None, "wgrad"]),
        st.integers(0, 20),
        st.integers(0, 8),
        st.tuples(st.booleans(), st.booleans()),
    ),
    max_size=15,
)


def _covered(rows) -> int:
    return len({instant for row in rows for instant in range(row["start"], row["end"])})


@settings(max_examples=40)
@given(ROWS)
def test_sums_and_unions_are_those_of_the_rows_of_each_bucket(rows):
    ledger = build_ledger(book_rows(make_attributed(rows or [{}]).iloc[: len(rows)]))
    inside = [row for row in rows if row["step_index"] is not None]
    assert int(ledger["rows_count"].sum()) == len(inside)
    assert int(ledger["sum_ns"].sum()) == sum(row["end"] - row["start"] for row in inside)
    for line in ledger.to_dict("records"):
        mine = [row for row in inside if all(row[name] == line[name] for name in LEDGER.key if name != "run")]
        lengths = [row["end"] - row["start"] for row in mine]
        assert line["rows_count"] == len(mine)
        assert line["sum_ns"] == sum(lengths)
        assert line["union_ns"] == _covered(mine)
        assert line["mixed_ns"] == sum(row["end"] - row["start"] for row in mine if row["is_mixed"])
        assert line["inferred_ns"] == sum(row["end"] - row["start"] for row in mine if row["is_inferred"])


def test_the_whole_trace_is_one_step_where_it_is_asked_for():
    rows = [{"end": 3, "step_index": None}, {"end": 4, "step_index": 7}]
    ledger = build_ledger(book_rows(make_attributed(rows), is_by_step=False))
    assert ledger["sum_ns"].tolist() == [7]
    assert ledger["step_index"].isna().all()


def test_a_row_that_ends_before_it_starts_is_a_finding_and_counts_nothing():
    booked = book_rows(make_attributed([{"start": 5, "end": 3}, {"end": 4}]), is_by_step=False)
    assert [finding.rule for finding in booked.findings] == ["negative-duration"]
    assert build_ledger(booked)["sum_ns"].tolist() == [4]


def test_evidence_is_inferred_where_any_row_is():
    rows = [{"end": 1, "phase": "forward"}, {"end": 1, "phase": "backward", "is_inferred": True}]
    ledger = build_ledger(book_rows(make_attributed(rows), is_by_step=False)).set_index("phase")
    assert ledger["evidence"].to_dict() == {"forward": "measured", "backward": "inferred"}
