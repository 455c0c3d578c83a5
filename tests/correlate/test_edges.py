"""Links laid out over rows."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from spec_frames import make_frame

from rocktools.correlate.edges import (
    UNLINKED,
    Confidence,
    Method,
    build_dispatch_edges,
    build_event_edges,
    build_link,
)
from rocktools.frames import DEVICE_EVENTS, DISPATCHES

SURE = build_link([("7", "loop_fusion.3")], method=Method.ANNOTATION, confidence=Confidence.CERTAIN)
TWO = build_link([("7", "add.1"), ("7", "add.2")], method=Method.NAME, confidence=Confidence.LIKELY)


def make_dispatches(count: int) -> pd.DataFrame:
    return make_frame(DISPATCHES, [{"run": "r", "process": "p", "dispatch_id": count - i} for i in range(count)])


def test_one_candidate_is_linked_with_the_confidence_that_was_given():
    assert (SURE.program_id, SURE.instruction, SURE.confidence) == ("7", "loop_fusion.3", Confidence.CERTAIN)
    assert SURE.candidates_text is None


def test_several_candidates_are_ambiguous_whatever_confidence_was_given():
    assert (TWO.program_id, TWO.instruction, TWO.confidence) == ("7", None, Confidence.AMBIGUOUS)
    assert TWO.candidates_text == "add.1, add.2"


def test_candidates_of_several_programs_name_their_program():
    link = build_link([("7", "add"), ("9", "add")], method=Method.NAME, confidence=Confidence.LIKELY)
    assert (link.program_id, link.candidates_text) == (None, "7/add, 9/add")


def test_a_single_candidate_that_is_not_believed_is_listed_and_not_linked():
    link = build_link([("7", "add")], method=Method.NAME, confidence=Confidence.AMBIGUOUS)
    assert (link.instruction, link.candidates_text) == (None, "add")


def test_no_candidate_is_no_link():
    assert build_link([], method=Method.NAME, confidence=Confidence.LIKELY) is UNLINKED
    assert UNLINKED.candidates_text is None


def test_at_most_eight_candidates_are_shown_and_all_are_counted():
    link = build_link([("7", f"a{i}") for i in range(20)], method=Method.NAME, confidence=Confidence.LIKELY)
    edges = build_dispatch_edges(make_dispatches(1), [link], np.array([0]))
    assert edges["candidates"].tolist() == ["a0, a1, a2, a3, a4, a5, a6, a7"]
    assert edges["candidates_count"].tolist() == [20]


def test_each_dispatch_has_its_link_in_the_order_of_the_contract():
    edges = build_dispatch_edges(make_dispatches(4), [SURE, TWO, UNLINKED], np.array([0, 1, 2, 0]))
    assert edges["dispatch_id"].tolist() == [1, 2, 3, 4]
    assert edges["confidence"].tolist() == ["certain", "unlinked", "ambiguous", "certain"]
    assert edges["method"].tolist() == ["annotation", "none", "name", "annotation"]
    assert edges["instruction"].isna().tolist() == [False, True, True, False]
    assert edges["program_id"].isna().tolist() == [False, True, False, False]
    assert edges["candidates_count"].tolist() == [1, 0, 2, 1]


def test_rows_are_sorted_by_label_not_by_the_order_of_categories():
    events = make_frame(DEVICE_EVENTS, [{"run": "r", "line": line, "event_index": 0} for line in ("b", "a")])
    events["line"] = events["line"].cat.set_categories(["b", "a"])
    edges = build_event_edges(events, [SURE, UNLINKED], np.array([0, 1]))
    assert list(zip(edges["line"], edges["confidence"], strict=True)) == [("a", "unlinked"), ("b", "certain")]


@pytest.mark.parametrize("links", [[], [SURE]])
def test_no_rows_give_an_empty_frame(links):
    none = np.array([], dtype=np.int64)
    assert build_dispatch_edges(make_dispatches(0), links, none).empty
    assert build_event_edges(make_frame(DEVICE_EVENTS, []), links, none).empty
