"""What is measured of parts of a trace and put together is what is measured of the whole."""

from __future__ import annotations

import pandas as pd
from hypothesis import given, settings
from hypothesis import strategies as st
from timeline_rows import make_attributed

from rocktools.analytic.occurrences import parse_workload
from rocktools.attribution.assemble import assemble_measured
from rocktools.attribution.component_map_file import read_shipped_map
from rocktools.attribution.ledger import Place
from rocktools.attribution.ledger_document import ledger_document
from rocktools.attribution.ledger_measures import LedgerMeasures, measure_ledger
from rocktools.attribution.ledger_tables import build_tables
from rocktools.timeline.overlap import reconcile

MAP = read_shipped_map("maxtext")
WORKLOAD = parse_workload(
    """
schema: rocktools.workload/1
name: w
layers: 1
devices: 3
expectations:
  - {title: forward, phase: forward, activity: compute}
  - {title: attention, component: attention, activity: compute}
""",
    source="w.yaml",
)
FRAMES = ("sums", "unions", "buckets", "counted")
# Components with a row, without one, and of an older map, so that lines of the tables depend on who has what.
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
        st.integers(0, 2),
        st.sampled_from([None, 0, 1]),
        st.sampled_from(["compute", "communication", "copy"]),
        st.sampled_from(["forward", "backward", "rematerialized", "optimizer", "unattributed", "input"]),
        st.sampled_from(["attention", "router", "dispatch", "moe", "loss", "unattributed", "old", "older"]),
        st.sampled_from([None, "wgrad", "dgrad"]),
        st.integers(0, 20),
        st.integers(0, 8),
        st.tuples(st.booleans(), st.booleans()),
    ),
    min_size=1,
    max_size=16,
)


def together(parts: list[LedgerMeasures]) -> LedgerMeasures:
    """The parts below one another, labels as text, so that nothing but their content can matter."""
    frames = {
        name: pd.concat(
            [getattr(part, name).astype({"device": object}) for part in parts if len(getattr(part, name))]
            or [getattr(parts[0], name).astype({"device": object})],
            ignore_index=True,
        )
        for name in FRAMES
    }
    labels = {name: frame.select_dtypes(["object", "category"]).columns for name, frame in frames.items()}
    return LedgerMeasures(
        **{name: frame.astype(dict.fromkeys(labels[name], "category")) for name, frame in frames.items()}
    )


def document_of(measures: LedgerMeasures, rows: pd.DataFrame) -> dict[str, object]:
    ledger = assemble_measured(measures, reconcile(rows).frame, MAP, title="t", steps=None, workload=WORKLOAD)
    document = ledger_document(ledger, rocktools_version="0")
    del document["buckets"]  # in the order of the parts
    return document


@settings(max_examples=25, deadline=None)
@given(ROWS)
def test_devices_measured_apart_give_the_ledger_of_all_rows(given_rows):
    rows = make_attributed(given_rows)
    whole = measure_ledger(rows, MAP, workload=WORKLOAD)
    parts = [
        measure_ledger(rows[rows["device"] == device].reset_index(drop=True), MAP, workload=WORKLOAD)
        for device in sorted(rows["device"].unique(), reverse=True)
    ]
    merged = together(parts)
    assert document_of(merged, rows) == document_of(whole, rows)
    keys = ["run", "device", "step_index", "activity", "phase", "component"]
    frames = [part.buckets.astype(str).sort_values(keys, ignore_index=True) for part in (merged, whole)]
    assert frames[0].equals(frames[1])


def test_what_is_chosen_of_the_measures_is_what_is_measured_of_the_choice():
    rows = make_attributed(
        [
            {
                "device": f"gpu{device}",
                "step_index": step,
                "start": 10 * step + device,
                "end": 10 * step + 7,
                "phase": phase,
            }
            for device in range(2)
            for step in range(3)
            for phase in ("forward", "backward")
        ]
    )
    chosen = rows[((rows["device"] == "gpu1") & (rows["step_index"] != 1)).to_numpy()].reset_index(drop=True)
    places = frozenset(Place(run="r", device="gpu1", step_index=step) for step in (0, 2))
    found = measure_ledger(rows, MAP, workload=WORKLOAD).only(places)
    wanted = measure_ledger(chosen, MAP, workload=WORKLOAD)
    for name in FRAMES:
        assert getattr(found, name).astype(str).equals(getattr(wanted, name).astype(str)), name
    assert found.only(frozenset()).sums.empty


def test_measures_of_no_rows_are_empty():
    measures = measure_ledger(make_attributed([{}]).iloc[:0], MAP, workload=WORKLOAD)
    assert all(getattr(measures, name).empty for name in FRAMES)


def test_a_rank_without_a_gradient_counts_in_the_gradients_of_the_others():
    """Which lines a table has is known when all ranks are; what is measured of one must not depend on it."""
    common = {"phase": "backward", "component": "attention", "step_index": 0}
    rows = make_attributed(
        [
            {"device": "gpu0", "start": 0, "end": 5, **common},
            {"device": "gpu1", "start": 0, "end": 7, "gradient": "wgrad", **common},
        ]
    )
    parts = [measure_ledger(rows.iloc[[i]].reset_index(drop=True), MAP) for i in range(2)]
    tables = build_tables(together(parts), MAP).set_index(["table", "row"])
    assert tables.loc[("gradients", "Attention backward: neither, or not told apart"), "union_ns"] == 2.5
    assert tables.loc[("gradients", "Total"), "union_ns"] == 6.0
