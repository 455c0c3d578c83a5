"""Real JAX profiles: every event is in exactly one bucket, the identities hold in integers, phases follow the names."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pandas as pd
import pytest
from real_profiles import read_profile
from spec_frames import make_agents, make_frame

from rocktools.attribution.assemble import assemble_ledger
from rocktools.attribution.attribute import attribute_dispatches
from rocktools.attribution.classify import classify_instructions
from rocktools.attribution.component_map_file import read_shipped_map
from rocktools.correlate.annotations import link_annotated
from rocktools.frames import DISPATCH_EDGES, DISPATCHES
from rocktools.hlo.scopes import inner_phases, op_name_of
from rocktools.hlo.text_reader import parse_hlo_text

GPU = ("mi355_te_fused_attn", "jax08_attention", "jax_conv_minimal_08")


def _attributed(profile) -> pd.DataFrame:
    """ATTRIBUTED of the kernels of a profile, each device an agent."""
    events = profile.device_events[(profile.device_events["kind"] == "kernel").to_numpy()].reset_index(drop=True)
    edges, _ = link_annotated(events, profile.programs)
    merged = events.merge(edges, on=["run", "host", "device", "line", "event_index"], suffixes=("", "_linked"))
    devices = sorted(events["device"].astype(str).unique())
    key = [{"run": "r", "process": "p", "dispatch_id": i} for i in range(len(merged))]
    dispatches, links = [], []
    for place, row in zip(key, merged.to_dict("records"), strict=True):
        times = {"start_ns": row["start_ns"], "end_ns": row["end_ns"]}
        agent = devices.index(row["device"])
        dispatches.append({**place, **times, "agent_id": agent, "kernel_name": row["kernel_name"]})
        names = ("instruction", "method", "confidence", "candidates_count", "candidates")
        link = {name: None if row[name] is pd.NA or row[name] is np.nan else row[name] for name in names}
        links.append({**place, **link, "program_id": row["program_id_linked"]})
    agents = make_agents(
        [{"run": "r", "process": "p", "agent_id": i, "device": name, "kind": "GPU"} for i, name in enumerate(devices)]
    )
    component_map = read_shipped_map("plain_jax")
    classified = {name: classify_instructions(module, component_map) for name, module in profile.programs.items()}
    frame = make_frame(DISPATCHES, dispatches), make_frame(DISPATCH_EDGES, links)
    return attribute_dispatches(*frame, agents, classified)


@pytest.mark.parametrize("name", GPU)
def test_every_kernel_is_in_one_bucket_and_the_identities_hold(shared, name):
    profile = read_profile(shared, name)
    rows = _attributed(profile)
    kernels = profile.device_events[(profile.device_events["kind"] == "kernel").to_numpy()]
    total_ns = int((kernels["end_ns"] - kernels["start_ns"]).sum())
    ledger = assemble_ledger(rows, read_shipped_map("plain_jax"), title=name)
    assert len(rows) == len(kernels) == int(ledger.buckets["rows_count"].sum())
    assert int(ledger.buckets["sum_ns"].sum()) == total_ns
    phases = ledger.tables[ledger.tables["table"] == "phases"]
    assert int(phases["sum_ns"].iloc[:-1].sum()) == int(phases["sum_ns"].iloc[-1]) == total_ns
    for row in ledger.reconciliation.to_dict("records"):
        assert row["busy_ns"] == row["compute_ns"] + row["exposed_communication_ns"] + row["exposed_copy_ns"]
        assert row["communication_ns"] == row["hidden_communication_ns"] + row["exposed_communication_ns"]
        assert row["span_ns"] == row["busy_ns"] + row["idle_ns"]


def test_kernels_of_a_custom_call_follow_its_name(shared):
    """Transformer Engine's attention runs kernels of CK, AITER and its own under one instruction; all are attention."""
    rows = _attributed(read_profile(shared, "mi355_te_fused_attn"))
    calls = rows[rows["instruction"].astype(str).str.startswith("te_fused_attn")]
    phases = {
        "forward" if "forward" in name else "backward": phase
        for name, phase in zip(calls["instruction"].astype(str), calls["phase"], strict=True)
    }
    assert len(calls) > 8
    assert phases == {"forward": "forward", "backward": "backward"}
    assert set(calls["component"]) == {"attention"}


def _cpu_time(shared) -> tuple[dict[str, int], object]:
    """Picoseconds of each instruction of the CPU's train step, and its program as XLA dumped it."""
    events = read_profile(shared, "cpu_moe").host_events
    events = events[events["hlo_op"].notna() & (events["hlo_module"] == "jit_train_step")]
    text = (shared / "data/xplane/cpu_moe/module_0036.jit_train_step.cpu_after_optimizations.txt").read_text("utf-8")
    times = events.groupby(events["hlo_op"].astype(str))["duration_ps"].sum()
    return {str(name): int(value) for name, value in times.items()}, parse_hlo_text(text, "cpu_moe")


def test_phases_of_a_cpu_profile_agree_with_the_tokens_of_their_names(shared):
    times, module = _cpu_time(shared)
    buckets = classify_instructions(module, read_shipped_map("plain_jax"))
    assert sum(times.values()) // 10**9 == 1083
    booked_ps: Counter[str] = Counter()
    for name, duration_ps in times.items():
        own = module.instructions[name].metadata.op_name
        token = next(
            (
                phase
                for text, phase in (
                    ("rematted_computation", "rematerialized"),
                    ("transpose(jvp", "backward"),
                    ("jvp(", "forward"),
                )
                if text in own
            ),
            None,
        )
        bucket = buckets[name]
        assert token is None or bucket.phase.value == token, name
        booked_ps["token" if token else "inferred" if bucket.is_inferred else bucket.phase.value] += duration_ps
    assert booked_ps["token"] > 0.98 * sum(times.values())
    assert booked_ps["unattributed"] < 0.005 * sum(times.values())


def test_mixed_fusions_of_a_cpu_profile_are_reported(shared):
    """6.3 ms of 1,084 in fusions of two named phases; 6.5 ms where a name without a phase counts as one, too."""
    times, module = _cpu_time(shared)
    buckets = classify_instructions(module, read_shipped_map("plain_jax"))
    fusions = {name for name in times if module.instructions[name].opcode == "fusion"}
    mixed_ps = sum(times[name] for name in fusions if buckets[name].is_mixed)
    wider_ps = sum(times[name] for name in fusions if len(inner_phases(module, module.instructions[name])) > 1)
    assert 6.3e9 < mixed_ps <= wider_ps
    assert round(wider_ps / 1e9, 1) == 6.5
    assert all(op_name_of(module, module.instructions[name]) is not None for name in fusions if buckets[name].is_mixed)
