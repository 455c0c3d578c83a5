"""Events of a profile, joined by what the profiler wrote on them."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd
import pytest
from real_profiles import read_profile
from small_programs import make_flat_module
from spec_frames import make_frame

from rocktools.correlate.annotations import link_annotated
from rocktools.findings import Finding, Severity
from rocktools.frames import DEVICE_EVENTS, HOST_EVENTS

PROGRAMS = {
    "7": make_flat_module("loop_fusion.3", "loop_fusion.4", "custom-call.1", "add.clone", "mul", program_id="7"),
    "9": make_flat_module("loop_fusion.3", "sub.2", program_id="9"),
}


def make_events(*rows: Mapping[str, Any]) -> pd.DataFrame:
    """DEVICE_EVENTS one after another; program 7 unless said otherwise."""
    place = {"run": "r", "host": "h", "device": "/device:GPU:0", "line": "Stream #1", "kind": "kernel"}
    filled = []
    for index, row in enumerate(rows):
        times = {"event_index": index, "start_ns": 10 * index, "end_ns": 10 * index + 5, "duration_ps": 5000}
        program_id = None if row.get("hlo_op") is None else "7"
        filled.append({**place, **times, "kernel_name": "k", "program_id": program_id, "hlo_module": "jit_step", **row})
    return make_frame(DEVICE_EVENTS, filled)


def linked(*rows: Mapping[str, Any]) -> list[tuple[Any, Any, str, str]]:
    edges, _ = link_annotated(make_events(*rows), PROGRAMS)
    columns = ("program_id", "instruction", "method", "confidence")
    values = [[None if pd.isna(value) else value for value in edges[name]] for name in columns]
    return list(zip(*values, strict=True))


def findings_of(*rows: Mapping[str, Any]) -> list[Finding]:
    return link_annotated(make_events(*rows), PROGRAMS)[1]


def rules(findings: Sequence[Finding]) -> list[str]:
    return [finding.rule for finding in findings]


def test_the_annotation_decides_not_the_name_of_the_kernel():
    """loop_fusion.4 shares the kernel of loop_fusion.3."""
    rows = [{"hlo_op": "loop_fusion.4", "kernel_name": "loop_fusion_3"}]
    assert linked(*rows) == [("7", "loop_fusion.4", "annotation", "certain")]
    assert findings_of(*rows) == []


def test_instructions_of_one_name_in_two_programs_are_told_by_the_program():
    found = linked({"hlo_op": "loop_fusion.3"}, {"hlo_op": "loop_fusion.3", "program_id": "9"})
    assert [row[:2] for row in found] == [("7", "loop_fusion.3"), ("9", "loop_fusion.3")]


def test_one_row_per_kernel_copy_and_memset_and_none_for_allocations():
    kinds = ("kernel", "copy", "memset", "memory", "other")
    assert len(linked(*({"hlo_op": "mul", "kind": kind} for kind in kinds))) == 3


@pytest.mark.parametrize(
    ("hlo_op", "instruction"),
    [
        ("mul (disabled for profiling)", "mul"),
        ("mul.clone", "mul"),
        ("mul.clone.2", "mul"),
        ("add", "add.clone"),
    ],
)
def test_an_instruction_under_another_name_is_likely_and_counted(hlo_op, instruction):
    rows = [{"hlo_op": hlo_op}, {"hlo_op": "mul"}]
    assert linked(*rows)[0] == ("7", instruction, "annotation", "likely")
    (finding,) = findings_of(*rows)
    assert finding.rule == "annotation-renamed"
    assert finding.numbers == {"events_count": 1, "linked_count": 1, "all_events_count": 2}


@pytest.mark.parametrize(
    "hlo_op", ["command_buffer_12", "command_buffer", "command_buffer_12 (disabled for profiling)"]
)
def test_a_command_buffer_leaves_the_name_within_its_program(hlo_op):
    rows = [
        {"hlo_op": hlo_op, "kernel_name": "loop_fusion_3"},
        {"hlo_op": hlo_op, "kernel_name": "Cijk_Ailk_Bljk_BBS_BH_MT256x128x32"},
        {"hlo_op": hlo_op, "kernel_name": "sub_2"},
    ]
    assert linked(*rows) == [
        ("7", "loop_fusion.3", "name", "likely"),
        (None, None, "none", "unlinked"),
        (None, None, "none", "unlinked"),
    ]
    (finding,) = findings_of(*rows)
    assert (finding.rule, finding.severity) == ("annotation-command-buffer", Severity.WARNING)
    assert finding.numbers == {"events_count": 3, "linked_count": 1, "all_events_count": 3}
    assert "--xla_gpu_enable_command_buffer=" in finding.advice


def test_an_instruction_that_the_program_lacks_leaves_the_name():
    rows = [{"hlo_op": "gone.1", "kernel_name": "loop_fusion_4"}]
    assert linked(*rows) == [("7", "loop_fusion.4", "name", "likely")]
    assert rules(findings_of(*rows)) == ["annotation-not-in-program"]


def test_a_program_without_hlo_leaves_its_events_unlinked_even_where_a_name_would_match():
    rows = [{"hlo_op": "mul", "program_id": "8", "kernel_name": "mul"}]
    assert linked(*rows) == [(None, None, "none", "unlinked")]
    (finding,) = findings_of(*rows)
    assert finding.rule == "program-not-in-profile"
    assert "mul of jit_step" in finding.message


def test_without_a_program_id_the_name_of_the_module_does_if_only_one_has_it():
    rows = [{"hlo_op": "mul", "program_id": None}]
    edges, _ = link_annotated(make_events(*rows), {"7": PROGRAMS["7"]})
    assert edges["confidence"].tolist() == ["likely"]
    assert link_annotated(make_events(*rows), PROGRAMS)[0]["confidence"].tolist() == ["unlinked"]


#   time ->      a7   ?    b9   ?       a: annotated by program 7, b: by program 9
UNANNOTATED = {"hlo_op": None, "kernel_name": "loop_fusion_3"}


def test_an_event_without_annotation_is_looked_for_in_the_program_around_it():
    rows = [{"hlo_op": "mul"}, UNANNOTATED, {"hlo_op": "mul"}]
    assert linked(*rows)[1] == ("7", "loop_fusion.3", "name", "likely")
    (finding,) = findings_of(*rows)
    assert (finding.rule, finding.severity) == ("annotation-missing", Severity.NOTE)
    assert finding.numbers == {"events_count": 1, "linked_count": 1, "all_events_count": 3}


def test_between_two_programs_both_are_looked_at():
    edges, _ = link_annotated(
        make_events({"hlo_op": "sub.2", "program_id": "9"}, UNANNOTATED, {"hlo_op": "mul"}), PROGRAMS
    )
    assert edges["candidates"].tolist()[1] == "9/loop_fusion.3, 7/loop_fusion.3"
    assert edges["confidence"].tolist()[1] == "ambiguous"


def test_the_program_around_an_event_is_that_of_its_own_line():
    found = linked(
        {"hlo_op": "mul", "line": "Stream #1"},
        {**UNANNOTATED, "line": "Stream #2"},
        {"hlo_op": "mul", "line": "Stream #1"},
        {"hlo_op": "sub.2", "program_id": "9", "line": "Stream #2"},
    )
    by_line = sorted(row[0] for row in found)
    assert by_line == ["7", "7", "9", "9"]


def test_a_line_without_annotations_takes_the_program_of_the_device():
    rows = [{"hlo_op": "mul", "line": "Stream #1"}, {**UNANNOTATED, "line": "Stream #2"}]
    assert linked(*rows)[1] == ("7", "loop_fusion.3", "name", "likely")


def test_a_device_without_annotations_has_no_program():
    rows = [{"hlo_op": "mul"}, {**UNANNOTATED, "device": "/device:GPU:1"}]
    assert linked(*rows)[1] == (None, None, "none", "unlinked")


def test_an_event_within_a_program_that_is_not_at_hand_is_not_taken_for_another():
    unknown = {"hlo_op": "mul", "program_id": "8"}
    assert linked({"hlo_op": "mul"}, unknown, UNANNOTATED, unknown, {"hlo_op": "mul"})[2][1] is None


GEMM = "Cijk_Ailk_Bljk_BBS_BH_MT256x128x32"


def test_a_kernel_that_is_annotated_elsewhere_belongs_to_the_same_instruction():
    """A library's kernel, whose name says nothing."""
    rows = [{"hlo_op": "custom-call.1", "kernel_name": GEMM}, {"hlo_op": None, "kernel_name": GEMM}]
    assert linked(*rows)[1] == ("7", "custom-call.1", "name", "likely")


@pytest.mark.parametrize(
    "difference",
    [{"grid_workitems_x": 512}, {"kernel_name": f"{GEMM}x"}, {"hlo_op": "sub.2", "program_id": "9"}],
)
def test_a_kernel_of_another_geometry_name_or_program_says_nothing(difference):
    annotated = {"hlo_op": "custom-call.1", "kernel_name": GEMM, "grid_workitems_x": 256, **difference}
    rows = [annotated, {"hlo_op": "mul"}, {"hlo_op": None, "kernel_name": GEMM, "grid_workitems_x": 256}]
    assert linked(*rows)[2] == (None, None, "none", "unlinked")


def test_a_kernel_that_is_annotated_with_several_instructions_has_them_for_candidates():
    rows = [{"hlo_op": name, "kernel_name": GEMM} for name in ("custom-call.1", "mul", None)]
    edges, _ = link_annotated(make_events(*rows), PROGRAMS)
    assert edges["candidates"].tolist()[2] == "custom-call.1, mul"


@pytest.mark.parametrize(
    "kernel", ["__amd_rocclr_copyBuffer", "ncclDevKernel_Generic_2(ncclDevKernelArgsStorage<5120ul>)"]
)
def test_kernels_that_run_for_anybody_are_not_taken_for_those_of_an_instruction(kernel):
    rows = [{"hlo_op": "custom-call.1", "kernel_name": kernel}, {"hlo_op": None, "kernel_name": kernel}]
    assert linked(*rows)[1] == (None, None, "none", "unlinked")


def test_hlo_on_a_cpu_is_linked_and_other_host_events_are_left_out():
    base = {"run": "r", "host": "h", "device": "/host:CPU", "line": "worker"}
    events = make_frame(
        HOST_EVENTS,
        [
            {**base, "event_index": 0, "event_name": "mul", "program_id": "7", "hlo_op": "mul"},
            {**base, "event_index": 1, "event_name": "$profiler.py:91 trace"},
            {**base, "event_index": 2, "event_name": "gone", "program_id": "7", "hlo_op": "gone"},
        ],
    )
    edges, findings = link_annotated(events, PROGRAMS)
    assert edges["event_index"].tolist() == [0, 2]
    assert edges["confidence"].tolist() == ["certain", "unlinked"]
    assert rules(findings) == ["annotation-not-in-program"]


def test_a_profile_without_events_has_no_edges():
    edges, findings = link_annotated(make_frame(DEVICE_EVENTS, []), PROGRAMS)
    assert edges.empty
    assert findings == []


@pytest.mark.parametrize(
    ("name", "events_count", "annotated_count", "named_count"),
    [("mi355_te_fused_attn", 150, 150, 0), ("jax08_attention", 105, 87, 0), ("jax_conv_minimal_08", 235, 198, 2)],
)
def test_every_annotated_event_of_real_profiles_is_joined(shared, name, events_count, annotated_count, named_count):
    """435 of 490 events of these files are annotated; two kernels more have lost their annotation, one of MIOpen's."""
    profile = read_profile(shared, name)
    events = profile.device_events
    edges, findings = link_annotated(events, profile.programs)
    by_confidence = edges.groupby(["method", "confidence"], observed=True).size().to_dict()
    rest = events_count - annotated_count - named_count
    expected = {("annotation", "certain"): annotated_count, ("name", "likely"): named_count, ("none", "unlinked"): rest}
    assert by_confidence == {key: count for key, count in expected.items() if count}
    assert rules(findings) == (["annotation-missing"] if rest else [])

    merged = events.merge(edges, on=["run", "host", "device", "line", "event_index"], suffixes=("", "_linked"))
    annotated = merged[merged["hlo_op"].notna()]
    assert annotated["instruction"].astype(str).tolist() == annotated["hlo_op"].astype(str).tolist()
    assert annotated["program_id_linked"].astype(str).tolist() == annotated["program_id"].astype(str).tolist()
    unlinked = merged[merged["instruction"].isna()]
    assert set(unlinked["kernel_name"]) <= {"__amd_rocclr_copyBuffer"}


def test_every_annotated_event_of_a_cpu_profile_is_joined(shared):
    profile = read_profile(shared, "cpu_moe")
    edges, findings = link_annotated(profile.host_events, profile.programs)
    assert len(edges) == 10_248
    assert set(edges["confidence"]) == {"certain"}
    assert findings == []

    # The text that XLA dumped of the train step has an independent list of its instructions.
    text = (shared / "data/xplane/cpu_moe/module_0036.jit_train_step.cpu_after_optimizations.txt").read_text()
    dumped = set(re.findall(r"^ +(?:ROOT )?%?(\S+) = ", text, flags=re.MULTILINE))
    (step,) = (program_id for program_id, module in profile.programs.items() if module.name == "jit_train_step")
    own = edges[edges["program_id"] == step]
    assert len(own) > 5_000
    assert set(own["instruction"]) <= dumped
