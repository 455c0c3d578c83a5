"""A trace linked by a profile of the same program, which shares with it nothing but the order of kernels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
import pytest
from real_profiles import read_profile
from spec_frames import make_counted, make_frame

from rocktools.correlate.annotations import link_annotated
from rocktools.correlate.edges import UNLINKED, Confidence, Method, build_event_edges, build_link
from rocktools.correlate.profiles import ProfileMatch, match_profiles
from rocktools.findings import Severity
from rocktools.frames import DEVICE_EVENTS, DISPATCHES, require_frame

GEMM = "Cijk_Ailk_Bljk_BBS_BH_MT256x128x32"
RCCL = "ncclDevKernel_Generic_2(ncclDevKernelArgsStorage<5120ul>)"


@dataclass(frozen=True)
class Launch:
    """One kernel of a step, and the instruction that launches it."""

    kernel: str
    instruction: str | None
    grid: int = 256


def make_layer(number: int) -> list[Launch]:
    """Six kernels; those of all layers are alike, and their instructions are not."""
    return [
        Launch("loop_fusion_1", f"loop_fusion.{number}"),
        Launch(GEMM, f"custom-call.{2 * number}"),
        Launch(GEMM, f"custom-call.{2 * number + 1}", grid=512),
        Launch(RCCL, f"all-reduce-start.{number}"),
        Launch("loop_add_fusion", f"loop_add_fusion.{number}"),
        Launch(f"input_fusion_{number}", f"input_fusion.{number}"),
    ]


STEP = [
    *(Launch(f"wrapped_slice_{i}", f"wrapped_slice.{i}") for i in range(9)),
    *(launch for number in range(4) for launch in make_layer(number)),
    *(Launch(f"wrapped_add_{i}", f"wrapped_add.{i}") for i in range(9)),
]


def make_profile(
    launches: Sequence[Launch], confidence: Confidence = Confidence.CERTAIN
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """DEVICE_EVENTS and EVENT_EDGES."""
    place = {"run": "x", "host": "h", "device": "/device:GPU:0", "line": "Stream #1", "kind": "kernel"}
    rows = [
        {**place, "event_index": i, "start_ns": 10 * i, "kernel_name": launch.kernel, "grid_workitems_x": launch.grid}
        for i, launch in enumerate(launches)
    ]
    events = make_frame(DEVICE_EVENTS, rows)
    links = [
        UNLINKED
        if launch.instruction is None
        else build_link([("7", launch.instruction)], method=Method.ANNOTATION, confidence=confidence)
        for launch in launches
    ]
    return events, build_event_edges(events, links, np.arange(len(launches)))


def make_trace(launches: Sequence[Launch], **place: Any) -> pd.DataFrame:
    """DISPATCHES; ids ascend with time."""
    rows = [
        {
            "run": "r",
            "process": "p",
            "agent_id": 4,
            **place,
            "dispatch_id": i,
            "start_ns": 1_000_000 + 10 * i,
            "kernel_name": launch.kernel,
            "grid_workitems_x": launch.grid,
        }
        for i, launch in enumerate(launches)
    ]
    return make_frame(DISPATCHES, rows)


PROFILE = make_profile(STEP * 2)


def linked(match: ProfileMatch) -> list[str | None]:
    return [None if pd.isna(name) else name for name in match.edges["instruction"]]


def truth_of(launches: Sequence[Launch]) -> list[str | None]:
    return [launch.instruction for launch in launches]


def rules(match: ProfileMatch) -> list[str]:
    return [finding.rule for finding in match.findings]


def test_kernels_that_instructions_share_are_told_apart_by_what_is_around_them():
    launches = STEP * 3
    match = match_profiles(*PROFILE, make_trace(launches))
    assert linked(match) == truth_of(launches)
    assert set(match.edges["method"]) == {"annotation"}
    assert set(match.edges["program_id"]) == {"7"}
    assert rules(match) == []
    assert (match.event_ratio, match.dispatch_ratio, match.order_ratio) == (1.0, 1.0, 1.0)


def test_links_far_from_the_ends_are_certain_and_those_at_the_ends_likely():
    """At the first and last seven rows, and four collectives a step, it is not seen that eight agree on both sides."""
    launches = STEP * 3
    confidences = match_profiles(*PROFILE, make_trace(launches)).edges["confidence"].tolist()
    is_collective = [launch.kernel == RCCL for launch in launches]
    rest = [confidence for confidence, other in zip(confidences, is_collective, strict=True) if not other]
    assert rest[:7] == rest[-7:] == ["likely"] * 7
    assert set(rest[7:-7]) == {"certain"}


def test_a_trace_may_begin_and_end_within_a_step():
    launches = (STEP * 3)[15:-11]
    found = linked(match_profiles(*PROFILE, make_trace(launches)))
    assert [name for name, truth in zip(found, truth_of(launches), strict=True) if name not in (truth, None)] == []
    assert found[6:-6] == truth_of(launches)[6:-6]


def test_a_pass_of_a_few_kernels_is_linked():
    """A counter pass that was filtered has nothing else."""
    launches = [launch for launch in STEP * 3 if launch.kernel in (GEMM, "input_fusion_2")]
    match = match_profiles(*PROFILE, make_trace(launches))
    found = linked(match)
    assert [name for name, truth in zip(found, truth_of(launches), strict=True) if name not in (truth, None)] == []
    assert found[6:18] == truth_of(launches)[6:18]
    assert match.dispatch_ratio == 1.0


def test_kernels_of_nobody_are_unlinked_and_do_not_disturb():
    launches = list(STEP * 2)
    for place in (40, 30, 20):
        launches.insert(place, Launch("RedzoneAllocatorKernelImpl(char*)", None))
    assert linked(match_profiles(*PROFILE, make_trace(launches))) == truth_of(launches)


def test_collectives_may_run_earlier_or_later_than_in_the_profile():
    launches = list(STEP * 2)
    for place in [i for i, launch in enumerate(launches) if launch.kernel == RCCL]:
        launches[place], launches[place + 1] = launches[place + 1], launches[place]
    match = match_profiles(*PROFILE, make_trace(launches))
    rest = [(name, launch) for name, launch in zip(linked(match), launches, strict=True) if launch.kernel != RCCL]
    assert all(name == launch.instruction for name, launch in rest)


def test_devices_and_processes_have_sequences_of_their_own():
    """Their rows are interleaved in time."""
    traces = [make_trace(STEP * 2, process=process, agent_id=agent) for process in "ab" for agent in (4, 5)]
    for number, trace in enumerate(traces):
        trace["dispatch_id"] += 1000 * number
        trace["start_ns"] += number
    parts = [trace.astype({"process": "object"}) for trace in traces]
    dispatches = pd.concat(parts, ignore_index=True).sort_values("start_ns").astype({"process": "category"})
    match = match_profiles(*PROFILE, require_frame(dispatches.reset_index(drop=True), DISPATCHES))
    assert linked(match) == truth_of(STEP * 2) * 4


def test_what_the_profile_does_not_link_stays_unlinked():
    step = [replace(launch, instruction=None) if launch.kernel == "wrapped_slice_3" else launch for launch in STEP]
    match = match_profiles(*make_profile(step * 2), make_trace(STEP))
    assert [name for name in linked(match) if name is None] == [None]


def test_a_link_is_no_surer_than_that_of_its_event():
    match = match_profiles(*make_profile(STEP * 2, Confidence.LIKELY), make_trace(STEP * 2))
    assert set(match.edges["confidence"]) == {"likely"}


def make_pass(launches: Sequence[Launch], replays: Sequence[int | None] = (None,)) -> pd.DataFrame:
    """COUNTED_DISPATCHES."""
    place = {"run": "r", "process": "p", "agent_id": 4, "pass": "pmc_1"}
    rows = [
        {
            **place,
            "dispatch_id": 3 * i,
            "replay_pass": replay,
            "pass_start_ns": 7 * i + (replay or 0),
            "kernel_name": launch.kernel,
            "grid_workitems_x": launch.grid,
        }
        for i, launch in enumerate(launches)
        for replay in replays
    ]
    return make_counted(rows)


def test_counted_dispatches_are_linked_by_their_order():
    assert linked(match_profiles(*PROFILE, make_pass(STEP * 2))) == truth_of(STEP * 2)


def test_replays_of_a_dispatch_do_not_disturb_and_have_one_link():
    assert linked(match_profiles(*PROFILE, make_pass(STEP, (0, 1)))) == truth_of(STEP)


def test_a_profile_of_another_program_links_nothing():
    other = [Launch(f"other_{i}", f"other.{i}") for i in range(30)] + STEP[:5]
    match = match_profiles(*make_profile(other), make_trace(STEP))
    (finding,) = match.findings
    assert (finding.rule, finding.severity) == ("profile-of-another-program", Severity.FAULT)
    assert finding.numbers == {"event_ratio": 5 / 35, "dispatch_ratio": 5 / len(STEP)}
    assert set(match.edges["confidence"]) == {"unlinked"}


def test_kernels_in_another_order_are_candidates_only():
    shuffled = list(STEP)
    np.random.default_rng(0).shuffle(shuffled)  # type: ignore[arg-type]
    match = match_profiles(*PROFILE, make_trace(shuffled))
    assert rules(match) == ["profile-differs-in-order"]
    assert set(match.edges["confidence"]) == {"ambiguous"}
    assert match.edges["candidates"].notna().all()


def test_some_kernels_that_only_one_side_has_are_a_warning():
    extra = [Launch(f"other_{i}", f"other.{i}") for i in range(8)]
    match = match_profiles(
        *make_profile(STEP + extra), make_trace(STEP + [Launch(f"foreign_{i}", None) for i in range(8)])
    )
    assert rules(match) == ["profile-differs-in-kernels"]
    assert linked(match)[: len(STEP)] == truth_of(STEP)


def test_where_the_geometry_of_the_profile_is_not_that_of_the_trace_names_are_compared():
    """A command buffer gives all of its kernels the geometry of the first."""
    match = match_profiles(*make_profile([replace(launch, grid=7) for launch in STEP * 2]), make_trace(STEP * 2))
    assert rules(match) == ["profile-geometry-differs"]
    assert linked(match) == truth_of(STEP * 2)


@pytest.mark.parametrize(("profile", "trace"), [([], STEP), (STEP, []), ([], [])])
def test_nothing_links_nothing(profile, trace):
    match = match_profiles(*make_profile(profile), make_trace(trace))
    assert set(match.edges["confidence"]) <= {"unlinked"}
    assert match.findings == ()


@pytest.mark.parametrize(("seed", "loss_ratio"), [(0, 0.01), (1, 0.02), (2, 0.05)])
def test_certain_links_are_right_whatever_is_lost(seed, loss_ratio):
    launches = [launch for launch in STEP * 20 if launch.instruction]
    kept = np.random.default_rng(seed).random(len(launches)) >= loss_ratio
    left = [launch for launch, is_kept in zip(launches, kept, strict=True) if is_kept]
    match = match_profiles(*PROFILE, make_trace(left))
    pairs = zip(match.edges["confidence"], linked(match), truth_of(left), strict=True)
    assert [pair for pair in pairs if pair[0] == "certain" and pair[1] != pair[2]] == []
    assert match.edges["instruction"].notna().mean() > 0.7


def test_a_real_profile_links_what_its_own_events_would_be_in_a_trace(shared):
    """MI355X: the events as dispatches of another run, the first and the last few not recorded."""
    profile = read_profile(shared, "mi355_te_fused_attn")
    edges, _ = link_annotated(profile.device_events, profile.programs)
    events = profile.device_events.iloc[17:-13].reset_index(drop=True)
    sizes = [name for name in DISPATCHES.names if name.endswith(("_x", "_y", "_z"))]
    rows = events[["kernel_name", "start_ns", "end_ns", *sizes]].to_dict("records")
    place = {"run": "r", "process": "p", "agent_id": 4}
    dispatches = make_frame(DISPATCHES, [{**place, "dispatch_id": i, **row} for i, row in enumerate(rows)])
    match = match_profiles(profile.device_events, edges, dispatches)
    truth = events["hlo_op"].astype(str).tolist()
    assert rules(match) == []
    found = linked(match)
    assert [name for name, wanted in zip(found, truth, strict=True) if name not in (wanted, None)] == []
    assert None not in found[6:-6]
    assert match.edges["confidence"].tolist().count("certain") > 80
