"""Which method a dispatch is linked by."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import pytest
from small_programs import make_flat_module, make_sequence
from spec_frames import make_counted, make_frame

from rocktools.correlate.edges import UNLINKED, Confidence, Link, Method, build_dispatch_edges, build_link
from rocktools.correlate.link import link_dispatches
from rocktools.errors import ContractError
from rocktools.findings import Finding, Severity
from rocktools.frames import DISPATCHES
from rocktools.hlo.program import CompiledProgram
from rocktools.hlo.thunks import Thunk

SCHEDULED = CompiledProgram(
    module=make_flat_module("loop_fusion.3", "loop_fusion.4", program_id="7"),
    thunks=make_sequence(Thunk(thunk_id=1, kind="kKernel")),
)
UNSCHEDULED = CompiledProgram(module=make_flat_module("add.1", "loop_fusion.3", program_id="9"), thunks=None)
DOUBT = Finding(rule="doubt", severity=Severity.NOTE, where="here", message="a doubt")


@dataclass(frozen=True)
class Made:
    """What an aligner would have found."""

    edges: pd.DataFrame
    findings: Sequence[Finding] = (DOUBT,)


def make_dispatches(*kernels: str) -> pd.DataFrame:
    """In the order of launches, which is not that of their ids."""
    rows = [{"run": "r", "process": "p", "kernel_name": name} for name in kernels]
    return make_frame(DISPATCHES, [{**row, "dispatch_id": 10 - i, "start_ns": i} for i, row in enumerate(rows)])


def edges_of(dispatches: pd.DataFrame, links: Mapping[str, Link]) -> pd.DataFrame:
    names = dispatches["kernel_name"]
    found = [*links.values(), UNLINKED]
    places = {name: place for place, name in enumerate(links)}
    return build_dispatch_edges(dispatches, found, np.array([places.get(name, len(links)) for name in names]))


def by_schedule(instruction: str, confidence: Confidence = Confidence.CERTAIN) -> Link:
    return build_link([("7", instruction)], method=Method.SCHEDULE, confidence=confidence)


def by_profile(instruction: str, confidence: Confidence = Confidence.CERTAIN) -> Link:
    return build_link([("7", instruction)], method=Method.ANNOTATION, confidence=confidence)


def link(
    dispatches: pd.DataFrame,
    programs: Sequence[CompiledProgram],
    aligned: Mapping[str, Link] | None = None,
    profiled: Mapping[str, Link] | None = None,
) -> tuple[dict[str, tuple[Any, str, str]], list[str]]:
    """Kernel -> what it is linked with; rules of the findings."""

    def align(rows: pd.DataFrame, scheduled: Sequence[CompiledProgram]) -> Made:
        assert all(program.thunks is not None for program in scheduled)
        assert aligned is not None, "nothing was to be aligned"
        return Made(edges_of(rows, aligned))

    known = None if profiled is None else edges_of(dispatches, profiled)
    links = link_dispatches(dispatches, programs, align=align, profile_edges=known)
    merged = links.edges.merge(dispatches[["dispatch_id", "kernel_name"]], on="dispatch_id")
    found = {
        row["kernel_name"]: (
            None if pd.isna(row["instruction"]) else row["instruction"],
            row["method"],
            row["confidence"],
        )
        for row in merged.to_dict("records")
    }
    return found, [finding.rule for finding in links.findings]


def test_what_the_schedule_places_is_not_asked_for_its_name():
    """The kernel is called after loop_fusion.3; loop_fusion.4 shares it."""
    found, rules = link(make_dispatches("loop_fusion_3"), [SCHEDULED], {"loop_fusion_3": by_schedule("loop_fusion.4")})
    assert found == {"loop_fusion_3": ("loop_fusion.4", "schedule", "certain")}
    assert rules == ["doubt"]


def test_names_of_a_scheduled_program_are_candidates_only():
    found, rules = link(
        make_dispatches("loop_fusion_3", "loop_fusion_4"), [SCHEDULED], {"loop_fusion_3": by_schedule("loop_fusion.3")}
    )
    assert found["loop_fusion_4"] == (None, "name", "ambiguous")
    assert rules == ["doubt", "candidates-by-name"]


def test_names_of_a_program_in_whose_schedule_nothing_found_a_place_say_nothing():
    """The dump of another program: that some kernels are called alike means nothing."""
    found, _ = link(make_dispatches("loop_fusion_3", "loop_fusion_4"), [SCHEDULED], {})
    assert set(found.values()) == {(None, "none", "unlinked")}


def test_names_of_a_program_without_schedule_link():
    found, rules = link(make_dispatches("add_1", "foreign"), [UNSCHEDULED])
    assert found == {"add_1": ("add.1", "name", "likely"), "foreign": (None, "none", "unlinked")}
    assert rules == ["linked-by-name"]


def test_what_the_schedule_leaves_ambiguous_stays_so():
    two = build_link([("7", "a"), ("7", "b")], method=Method.SCHEDULE, confidence=Confidence.LIKELY)
    found, _ = link(make_dispatches("add_1"), [SCHEDULED, UNSCHEDULED], {"add_1": two})
    assert found == {"add_1": (None, "schedule", "ambiguous")}


def test_where_a_profile_is_certain_of_everything_nothing_is_aligned():
    found, rules = link(make_dispatches("k"), [SCHEDULED], None, {"k": by_profile("loop_fusion.4")})
    assert found == {"k": ("loop_fusion.4", "annotation", "certain")}
    assert rules == []


@pytest.mark.parametrize(
    ("profile", "schedule", "method"),
    [
        (Confidence.CERTAIN, Confidence.CERTAIN, "annotation"),
        (Confidence.LIKELY, Confidence.LIKELY, "annotation"),
        (Confidence.LIKELY, Confidence.CERTAIN, "schedule"),
        (Confidence.CERTAIN, Confidence.LIKELY, "annotation"),
    ],
)
def test_the_surer_of_profile_and_schedule_is_taken_and_the_profile_if_they_are_equal(profile, schedule, method):
    found, _ = link(
        make_dispatches("k", "other"),
        [SCHEDULED],
        {"k": by_schedule("loop_fusion.3", schedule)},
        {"k": by_profile("loop_fusion.3", profile)},
    )
    assert found["k"][:2] == ("loop_fusion.3", method)


def test_a_profile_that_disagrees_with_the_schedule_is_a_warning_with_both():
    dispatches = make_dispatches("k", "l", "other")
    profiled = edges_of(dispatches, {"k": by_profile("loop_fusion.3"), "l": by_profile("loop_fusion.3")})
    aligned = edges_of(dispatches, {"k": by_schedule("loop_fusion.4"), "l": by_schedule("loop_fusion.3")})
    links = link_dispatches(dispatches, [SCHEDULED], align=lambda *_: Made(aligned, ()), profile_edges=profiled)
    (finding,) = links.findings
    assert finding.rule == "profile-and-schedule-disagree"
    assert finding.numbers == {"disagreeing_count": 1, "both_count": 2}
    assert "loop_fusion.3 and loop_fusion.4" in finding.message
    assert "dispatch 10 is" in finding.where


def test_without_programs_nothing_is_linked():
    found, rules = link(make_dispatches("k"), [])
    assert (found, rules) == ({"k": (None, "none", "unlinked")}, [])


def test_counted_dispatches_are_handed_to_the_aligner_with_their_order_and_each_once():
    rows = [
        {
            "run": "r",
            "process": "p",
            "dispatch_id": i,
            "replay_pass": replay,
            "kernel_name": "k",
            "pass_start_ns": 9 * i,
        }
        for i in (1, 2)
        for replay in (0, 1)
    ]

    def align(dispatches: pd.DataFrame, _: Sequence[CompiledProgram]) -> Made:
        assert dispatches["start_ns"].tolist() == [9, 18]
        return Made(edges_of(dispatches, {"k": by_schedule("loop_fusion.3")}))

    edges = link_dispatches(make_counted(rows), [SCHEDULED], align=align).edges
    assert edges["dispatch_id"].tolist() == [1, 2]
    assert edges["confidence"].tolist() == ["certain", "certain"]


def test_edges_of_other_dispatches_are_refused():
    with pytest.raises(ContractError, match="edges-of-other-rows"):
        link_dispatches(
            make_dispatches("k", "l"), [SCHEDULED], align=lambda *_: Made(edges_of(make_dispatches("k"), {}))
        )


def test_a_trace_is_linked_by_the_schedule_where_nothing_else_is_said():
    """Ten kernels of their own and, twice a step, one that two instructions share: it has the name of the first."""
    names = [f"wrapped_slice.{i}" for i in range(10)]
    order = [*names[:5], "loop_fusion.3", *names[5:], "loop_fusion.4"]
    extents = {"grid_workgroups": (4, 1, 1), "workgroup_workitems": (256, 1, 1)}
    kernels = {name: name.replace(".", "_") for name in names} | dict.fromkeys(order[5::6], "loop_fusion_3")
    thunks = [
        Thunk(thunk_id=i, kind="kCustomKernel", instruction=name, kernel=kernels[name], **extents)
        for i, name in enumerate(order)
    ]
    program = CompiledProgram(module=make_flat_module(*order), thunks=make_sequence(*thunks))
    launched = [*order * 4, "foreign"]
    sizes = {"grid_workitems_x": 1024, "workgroup_workitems_x": 256}
    sizes |= dict.fromkeys([f"{extent}_workitems_{axis}" for extent in ("grid", "workgroup") for axis in "yz"], 1)
    rows = [
        {"run": "r", "process": "p", "agent_id": 4, "dispatch_id": i, "start_ns": 9 * i, "end_ns": 9 * i + 5, **sizes}
        | {"kernel_name": kernels.get(name, name)}
        for i, name in enumerate(launched)
    ]
    links = link_dispatches(make_frame(DISPATCHES, rows), [program])
    found = links.edges["instruction"].astype("object").tolist()
    assert found[:-1] == launched[:-1]
    assert pd.isna(found[-1])
    assert set(links.edges["method"]) <= {"schedule", "thunk", "none"}
