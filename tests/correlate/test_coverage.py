"""How much of dispatches and events is linked, in counts and in time."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from spec_frames import make_counted, make_frame

from rocktools.correlate.coverage import build_coverage
from rocktools.correlate.edges import (
    UNLINKED,
    Confidence,
    Link,
    Method,
    build_dispatch_edges,
    build_event_edges,
    build_link,
)
from rocktools.frames import DEVICE_EVENTS, DISPATCHES, HOST_EVENTS

CERTAIN = build_link([("7", "a")], method=Method.SCHEDULE, confidence=Confidence.CERTAIN)
LIKELY = build_link([("7", "b")], method=Method.NAME, confidence=Confidence.LIKELY)
AMBIGUOUS = build_link([("7", "b"), ("7", "c")], method=Method.NAME, confidence=Confidence.LIKELY)
LINKS = (CERTAIN, LIKELY, AMBIGUOUS, UNLINKED)

Row = tuple[str, int, Link]


def make_dispatches(rows: Sequence[Row], *, start_ns: int = 0) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Edges and dispatches, the latter in another order."""
    dispatches = make_frame(
        DISPATCHES,
        [
            {"run": "r", "process": "p", "dispatch_id": i, "kernel_name": name, "start_ns": start_ns}
            | {"end_ns": start_ns + duration_ns}
            for i, (name, duration_ns, _) in enumerate(rows)
        ],
    )
    of = np.array([LINKS.index(link) for *_, link in rows], dtype=np.int64)
    return build_dispatch_edges(dispatches, LINKS, of), dispatches.iloc[::-1].reset_index(drop=True)


ROWS: list[Row] = [
    ("loop_fusion_3", 60, CERTAIN),
    ("Cijk_Ailk_Bljk_BBS_BH_MT256x128x32", 20, CERTAIN),
    ("wrapped_slice", 10, LIKELY),
    ("loop_add_fusion", 6, AMBIGUOUS),
    ("ncclDevKernel_Generic_2", 3, UNLINKED),
    ("foreign", 1, UNLINKED),
    ("foreign", 0, UNLINKED),
]


def test_rows_are_by_method_and_confidence_the_strongest_first():
    frame = build_coverage(*make_dispatches(ROWS)).frame
    assert list(zip(frame["method"], frame["confidence"], strict=True)) == [
        ("schedule", "certain"),
        ("name", "likely"),
        ("name", "ambiguous"),
        ("none", "unlinked"),
    ]
    assert frame["dispatches_count"].tolist() == [2, 1, 1, 3]
    assert frame["total_ns"].tolist() == [80, 10, 6, 4]
    assert frame["dispatches_ratio"].tolist() == pytest.approx([2 / 7, 1 / 7, 1 / 7, 3 / 7])
    assert frame["time_ratio"].tolist() == pytest.approx([0.8, 0.1, 0.06, 0.04])


def test_linked_is_what_has_an_instruction():
    coverage = build_coverage(*make_dispatches(ROWS))
    assert (coverage.linked_count, coverage.dispatches_count) == (3, 7)
    assert (coverage.linked_ns, coverage.total_ns) == (90, 100)


def test_what_is_not_linked_is_listed_by_kernel_with_the_reason_the_longest_first():
    unlinked = build_coverage(*make_dispatches(ROWS)).unlinked
    assert unlinked["kernel_name"].tolist() == ["loop_add_fusion", "ncclDevKernel_Generic_2", "foreign"]
    assert unlinked["confidence"].tolist() == ["ambiguous", "unlinked", "unlinked"]
    assert unlinked["family"].tolist() == ["unknown", "RCCL", "unknown"]
    assert unlinked["dispatches_count"].tolist() == [1, 1, 2]
    assert unlinked["total_ns"].tolist() == [6, 3, 1]
    assert unlinked["time_ratio"].tolist() == pytest.approx([0.06, 0.03, 0.01])
    assert unlinked["candidates"].astype("object").tolist()[0] == "b, c"
    assert unlinked["candidates"].isna().tolist() == [False, True, True]
    for reason, part in zip(
        unlinked["reason"],
        ("several instructions have its name", "RCCL have no HLO name", "no instruction"),
        strict=True,
    ):
        assert part in reason


@pytest.mark.parametrize(
    ("method", "names", "reason"),
    [
        (Method.SCHEDULE, ("b", "c"), "several instructions may have"),
        (Method.SCHEDULE, ("b",), "place in the program"),
        (Method.NAME, ("b", "c"), "several instructions have its name"),
        (Method.NAME, ("b",), "nothing but its name"),
    ],
)
def test_the_reason_of_an_ambiguous_row_says_what_is_missing(method, names, reason):
    link = build_link([("7", name) for name in names], method=method, confidence=Confidence.AMBIGUOUS)
    _, dispatches = make_dispatches([("k", 1, UNLINKED)])
    unlinked = build_coverage(build_dispatch_edges(dispatches, [link], np.array([0])), dispatches).unlinked
    assert reason in unlinked["reason"].tolist()[0]
    assert unlinked["candidates"].tolist() == [", ".join(names)]


@pytest.mark.parametrize(
    ("kernel", "reason"),
    [("__amd_rocclr_copyBuffer", "copy or fill"), ("RedzoneAllocatorKernelImpl(char*)", "autotuning")],
)
def test_kernels_of_the_runtime_have_reasons_of_their_own(kernel, reason):
    unlinked = build_coverage(*make_dispatches([(kernel, 1, UNLINKED)])).unlinked
    assert reason in unlinked["reason"].tolist()[0]


def test_a_kernel_that_is_linked_sometimes_is_listed_for_the_rest():
    coverage = build_coverage(*make_dispatches([("k", 1, CERTAIN), ("k", 2, AMBIGUOUS), ("k", 4, UNLINKED)]))
    assert coverage.unlinked["total_ns"].tolist() == [4, 2]


def test_times_beyond_float64_are_exact():
    coverage = build_coverage(
        *make_dispatches([("k", 3_000_000_000_000_001, CERTAIN)], start_ns=13_000_000_000_000_001)
    )
    assert coverage.frame["total_ns"].tolist() == [3_000_000_000_000_001]


def test_a_dispatch_that_ends_before_it_starts_counts_and_takes_no_time():
    coverage = build_coverage(*make_dispatches([("k", -5, CERTAIN), ("k", 5, CERTAIN)]))
    assert (coverage.frame["dispatches_count"].tolist(), coverage.total_ns) == ([2], 5)


def test_dispatches_that_take_no_time_have_no_ratio_of_it():
    frame = build_coverage(*make_dispatches([("k", 0, CERTAIN)])).frame
    assert frame["time_ratio"].isna().all()


def test_times_of_a_counter_pass_are_missing():
    counted = make_counted([{"run": "r", "process": "p", "dispatch_id": 4, "kernel_name": "k", "pass_end_ns": 9}])
    coverage = build_coverage(build_dispatch_edges(counted, [UNLINKED], np.array([0])), counted)
    assert (coverage.total_ns, coverage.linked_ns) == (None, None)
    assert coverage.frame["total_ns"].isna().all()
    assert coverage.unlinked["total_ns"].isna().all()


def test_events_are_covered_in_picoseconds_and_those_without_an_edge_left_out():
    place = {"run": "r", "host": "h", "device": "d", "line": "l"}
    rows = [{**place, "event_index": i, "kernel_name": "k", "duration_ps": 1600} for i in range(3)]
    events = make_frame(DEVICE_EVENTS, rows)
    edges = build_event_edges(events[:2], [CERTAIN, UNLINKED], np.array([0, 1]))
    coverage = build_coverage(edges, events)
    assert (coverage.dispatches_count, coverage.total_ns, coverage.linked_ns) == (2, 3, 1)


def test_events_of_hosts_are_listed_by_their_own_name():
    place = {"run": "r", "host": "h", "device": "d", "line": "l", "event_index": 0, "duration_ps": 5000}
    events = make_frame(HOST_EVENTS, [{**place, "event_name": "dot.3"}])
    coverage = build_coverage(build_event_edges(events, [UNLINKED], np.array([0])), events)
    assert coverage.unlinked["kernel_name"].tolist() == ["dot.3"]


def test_nothing_is_covered_by_nothing():
    coverage = build_coverage(*make_dispatches([]))
    assert coverage.frame.empty
    assert coverage.unlinked.empty
    assert (coverage.dispatches_count, coverage.total_ns) == (0, 0)


@given(st.lists(st.tuples(st.sampled_from(["k", "l", "Im3d2Col"]), st.integers(0, 50), st.sampled_from(LINKS))))
def test_parts_add_up_to_the_whole(rows):
    coverage = build_coverage(*make_dispatches(rows))
    assert coverage.frame["dispatches_count"].sum() == len(rows)
    assert coverage.frame["total_ns"].sum() == sum(duration_ns for _, duration_ns, _ in rows)
    assert coverage.linked_count + coverage.unlinked["dispatches_count"].sum() == len(rows)
    assert coverage.linked_ns + coverage.unlinked["total_ns"].sum() == coverage.total_ns
