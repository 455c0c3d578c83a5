"""Kernels and copies in buckets: links, kernel names, steps; nothing twice, nothing lost."""

from __future__ import annotations

import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from spec_frames import make_agents, make_frame
from timeline_rows import make_steps

from rocktools.attribution.attribute import attribute_dispatches
from rocktools.attribution.classify import Bucket, classify_instructions
from rocktools.attribution.component_map_file import read_shipped_map
from rocktools.attribution.phases import BookedPhase
from rocktools.frames import ATTRIBUTED, COPIES, DISPATCH_EDGES, DISPATCHES, INSTRUCTIONS, require_frame
from rocktools.hlo.instructions import build_instructions
from rocktools.hlo.text_reader import parse_hlo_text
from rocktools.timeline.activities import Activity

RCCL = "ncclDevKernel_Generic_2(ncclDevKernelArgsStorage<5120ul>)"
BLIT = "__amd_rocclr_copyBuffer"


def _bucket(phase=BookedPhase.FORWARD, component="mlp", **fields):
    return Bucket(**({"activity": Activity.COMPUTE, "phase": phase, "component": component, "rule": "jvp"} | fields))


CLASSIFIED = {
    "1": {
        "dot.1": _bucket(opcode="fusion", scope="layer/mlp"),
        "dot.2": _bucket(opcode="fusion", scope="layer/mlp", is_mixed=True),
        "dot.3": _bucket(BookedPhase.BACKWARD, opcode="fusion", gradient="wgrad"),
        "copy.4": _bucket(component="loop", opcode="copy"),
        "all-gather-start.5": _bucket(
            activity=Activity.COMMUNICATION, collective="all-gather", opcode="all-gather-start"
        ),
    },
    "2": {"dot.1": _bucket(BookedPhase.OPTIMIZER, "optimizer", opcode="fusion")},
}
AGENTS = [
    {"run": "r", "process": "p", "agent_id": 0, "device": "h:cpu0", "kind": "CPU"},
    {"run": "r", "process": "p", "agent_id": 1, "device": "h:gpu0", "kind": "GPU"},
    {"run": "r", "process": "p", "agent_id": 2, "device": "h:gpu1", "kind": "GPU"},
]


def _attribute(rows, **given):
    """Rows: kernel, program, instruction, and whatever else of a dispatch or link."""
    link_names = {"program_id", "instruction", "candidates", "candidates_count", "method", "confidence"}
    dispatches, edges = [], []
    for number, row in enumerate(rows):
        key = {"run": "r", "process": "p", "dispatch_id": number}
        times = {"start_ns": 10 * number, "end_ns": 10 * number + 5, "agent_id": 1, "kernel_name": "k"}
        dispatches.append(key | times | {name: value for name, value in row.items() if name not in link_names})
        edges.append(key | {name: value for name, value in row.items() if name in link_names})
    frames = make_frame(DISPATCHES, dispatches), make_frame(DISPATCH_EDGES, edges)
    return attribute_dispatches(*frames, make_agents(AGENTS), CLASSIFIED, **given)


def _one(**row):
    return _attribute([row]).to_dict("records")[0]


def test_a_linked_kernel_has_the_bucket_of_its_instruction():
    row = _one(program_id="1", instruction="dot.1")
    assert (row["activity"], row["phase"], row["component"], row["scope"]) == ("compute", "forward", "mlp", "layer/mlp")
    assert (row["device"], row["kind"], row["is_inferred"], row["is_mixed"]) == ("h:gpu0", "dispatch", False, False)


def test_instructions_of_one_name_in_two_programs_are_told_apart():
    assert _one(program_id="2", instruction="dot.1")["component"] == "optimizer"


@pytest.mark.parametrize(
    "kernel, activity, rule",
    [
        (RCCL, "communication", "unlinked; kernel family RCCL"),
        (BLIT, "copy", "unlinked; kernel family blit copy"),
        ("__amd_rocclr_fillBufferAligned", "copy", "unlinked; kernel family blit fill"),
        ("loop_fusion_3", "compute", "unlinked"),
        ("Cijk_Ailk_Bljk_BBS_BH_UserArgs_MT256", "compute", "unlinked"),
    ],
)
def test_an_unlinked_kernel_is_known_by_its_family_only(kernel, activity, rule):
    row = _one(kernel_name=kernel)
    assert (row["activity"], row["phase"], row["component"], row["rule"]) == (
        activity,
        "unattributed",
        "unattributed",
        rule,
    )
    assert row["is_inferred"] == ("family" in rule)


@pytest.mark.parametrize(
    "instruction, kernel, activity",
    [
        ("copy.4", BLIT, "copy"),
        ("copy.4", "wrapped_copy", "compute"),
        ("dot.1", BLIT, "compute"),  # a fill or copy within a custom call is part of it
        ("dot.1", RCCL, "communication"),
        ("all-gather-start.5", "k", "communication"),
        ("all-gather-start.5", BLIT, "communication"),
    ],
)
def test_a_kernel_shows_whether_its_instruction_copies_or_communicates(instruction, kernel, activity):
    row = _one(program_id="1", instruction=instruction, kernel_name=kernel)
    assert (row["activity"], row["phase"]) == (activity, "forward")


def test_candidates_that_agree_are_booked_and_inferred():
    row = _one(program_id="1", candidates="dot.1, dot.2", candidates_count=2)
    assert (row["phase"], row["component"], row["scope"], row["rule"]) == (
        "forward",
        "mlp",
        "layer/mlp",
        "candidates-agree",
    )
    assert row["is_inferred"]
    assert row["is_mixed"]
    assert pd.isna(row["instruction"])


@pytest.mark.parametrize(
    "link",
    [
        {"program_id": "1", "candidates": "dot.1, dot.3", "candidates_count": 2},
        {"program_id": "1", "candidates": "dot.1, dot.2", "candidates_count": 9},  # only eight are ever listed
        {"program_id": "1", "candidates": "dot.1, dot.99", "candidates_count": 2},
        {"candidates": "1/dot.1, 2/dot.1", "candidates_count": 2},
    ],
)
def test_candidates_that_differ_or_are_not_all_known_leave_it_open(link):
    row = _one(**link)
    assert (row["phase"], row["component"], row["rule"]) == ("unattributed", "unattributed", "ambiguous")


def test_an_instruction_that_no_program_has_is_named_and_left_open():
    row = _one(program_id="1", instruction="command_buffer_7")
    assert (row["phase"], row["rule"], row["instruction"]) == (
        "unattributed",
        "instruction-unknown",
        "command_buffer_7",
    )


def test_a_dispatch_without_a_link_row_is_unlinked():
    dispatches = make_frame(DISPATCHES, [{"run": "r", "process": "p", "agent_id": 1, "kernel_name": "k", "end_ns": 3}])
    rows = attribute_dispatches(dispatches, DISPATCH_EDGES.empty(), make_agents(AGENTS), CLASSIFIED)
    assert rows["rule"].tolist() == ["unlinked"]


def test_links_are_found_whatever_order_they_are_in():
    names = ["dot.1", "dot.3", "copy.4"]
    keys = [{"run": "r", "process": "p", "dispatch_id": number} for number in range(3)]
    starts = [{"agent_id": 1, "start_ns": 9 - number, "end_ns": 20} for number in range(3)]
    links = [key | {"program_id": "1", "instruction": name} for key, name in zip(keys, names, strict=True)]
    dispatches = make_frame(DISPATCHES, [key | start for key, start in zip(keys, starts, strict=True)])
    rows = attribute_dispatches(dispatches, make_frame(DISPATCH_EDGES, links[::-1]), make_agents(AGENTS), CLASSIFIED)
    assert dict(zip(rows["event_id"], rows["instruction"], strict=True)) == dict(enumerate(names))


def test_copies_stand_on_the_gpu_that_they_leave_or_reach():
    copies = make_frame(
        COPIES,
        [
            {"run": "r", "process": "p", "copy_id": i, "kind": "X", "start_ns": i, "end_ns": i + 2} | ends
            for i, ends in enumerate(
                [
                    {"src_agent_id": 0, "dst_agent_id": 2},
                    {"src_agent_id": 1, "dst_agent_id": 2},
                    {"src_agent_id": 0, "dst_agent_id": 0},
                ]
            )
        ],
    )
    rows = _attribute([{}], copies=copies)
    moved = rows[rows["kind"] == "copy"].sort_values("event_id")
    assert moved["device"].tolist() == ["h:gpu1", "h:gpu0", "h:cpu0"]
    assert set(moved["activity"]) == {"copy"}
    require_frame(rows, ATTRIBUTED)


def test_a_row_is_in_the_step_in_which_it_starts():
    steps = make_steps(
        [{"device": "h:gpu0", "step_index": i, "start_ns": 10 + 20 * i, "end_ns": 25 + 20 * i} for i in range(2)]
    )
    rows = _attribute([{} for _ in range(6)], steps=steps)
    assert [None if pd.isna(step) else int(step) for step in rows["step_index"]] == [None, 0, 0, 1, 1, None]


def test_payload_comes_from_the_program():
    instructions = make_frame(
        INSTRUCTIONS, [{"program_id": "1", "instruction": "all-gather-start.5", "payload_bytes": 4096}]
    )
    rows = _attribute(
        [{"program_id": "1", "instruction": name} for name in ("all-gather-start.5", "dot.1")],
        instructions=instructions,
    )
    assert [None if pd.isna(value) else int(value) for value in rows["payload_bytes"]] == [4096, None]
    assert rows["gradient"].isna().all()
    assert _one(program_id="1", instruction="dot.3")["gradient"] == "wgrad"


def test_no_dispatches_are_no_rows():
    rows = attribute_dispatches(DISPATCHES.empty(), DISPATCH_EDGES.empty(), make_agents(AGENTS), CLASSIFIED)
    assert rows.empty
    require_frame(rows, ATTRIBUTED)


LINKS = st.sampled_from(
    [
        {},
        {"program_id": "1", "instruction": "dot.1"},
        {"program_id": "1", "instruction": "all-gather-start.5"},
        {"program_id": "1", "instruction": "nowhere"},
        {"program_id": "2", "instruction": "dot.1"},
        {"program_id": "1", "candidates": "dot.1, dot.2", "candidates_count": 2},
    ]
)
ROWS = st.lists(
    st.builds(
        lambda link, kernel, agent, start, length: {
            **link,
            "kernel_name": kernel,
            "agent_id": agent,
            "start_ns": start,
            "end_ns": start + length,
        },
        LINKS,
        st.sampled_from(["k", RCCL, BLIT]),
        st.integers(1, 2),
        st.integers(0, 50),
        st.integers(0, 20),
    ),
    min_size=1,
    max_size=20,
)


@settings(max_examples=25)
@given(ROWS)
def test_every_dispatch_is_there_once_with_its_own_times(rows):
    found = _attribute(rows)
    assert sorted(found["event_id"]) == list(range(len(rows)))
    for row in found.to_dict("records"):
        given_row = rows[row["event_id"]]
        assert (row["start_ns"], row["end_ns"], row["name"]) == tuple(
            given_row[name] for name in ("start_ns", "end_ns", "kernel_name")
        )


WRAPPED = """\
HloModule jit_f, is_scheduled=true, num_partitions=2

%sum (a: f32[], b: f32[]) -> f32[] {
  %a = f32[] parameter(0)
  %b = f32[] parameter(1)
  ROOT %add = f32[] add(%a, %b)
}

%wrapped (p: f32[64]) -> f32[32] {
  %p = f32[64]{0} parameter(0)
  ROOT %reduce-scatter.7 = f32[32]{0} reduce-scatter(%p), replica_groups={{0,1}}, dimensions={0}, to_apply=%sum
}

ENTRY %main (x: f32[64]) -> f32[32] {
  %x = f32[64]{0} parameter(0)
  %start = ((f32[64]{0}), f32[32]{0}, u32[]) async-start(%x), calls=%wrapped
  ROOT %done = f32[32]{0} async-done(%start)
}
"""


def test_what_an_asynchronous_start_wraps_has_its_payload():
    """Thunks are named after the collective; its cost is in the start, so that costs can be added up."""
    module = parse_hlo_text(WRAPPED, "wrapped.txt")
    instructions = build_instructions(module)
    classified = {module.label: classify_instructions(module, read_shipped_map("maxtext"))}
    dispatches = make_frame(
        DISPATCHES, [{"run": "r", "process": "p", "dispatch_id": 1, "agent_id": 1, "start_ns": 1, "end_ns": 9}]
    )
    edges = make_frame(
        DISPATCH_EDGES,
        [{"run": "r", "process": "p", "dispatch_id": 1, "program_id": module.label, "instruction": "reduce-scatter.7"}],
    )
    rows = attribute_dispatches(dispatches, edges, make_agents(AGENTS), classified, instructions=instructions)
    assert rows["collective"].tolist() == ["reduce-scatter"]
    assert rows["payload_bytes"].tolist() == [64 * 4]  # the larger of input and result
