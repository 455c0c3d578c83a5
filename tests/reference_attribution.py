"""A trace of eight devices that gives the published attribution of one Mixtral-8x22B step on eight MI355X.

The profile itself is not to be had; its totals are (scale-your-amd, ch3-mixtral-8x22b-attribution.json, MIT). So the
rows are made: op_names of the scopes that the study used, 13 for each bucket, one kernel of each on each device, with
durations that add up to the published sums and lie so that they give the published unions.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pandas as pd
from spec_frames import make_agents, make_frame

from rocktools.attribution.attribute import attribute_dispatches
from rocktools.attribution.classify import classify_op_name
from rocktools.attribution.component_map_file import read_shipped_map
from rocktools.frames import DISPATCH_EDGES, DISPATCHES

DEVICES = 8
OPS_PER_BUCKET = 13
_MICRO = "jit(train_step)/while/body/closed_call"
_FORWARD = f"{_MICRO}/jvp()/while/body/closed_call"
_BACKWARD = f"{_MICRO}/transpose(jvp())/while/body/closed_call/checkpoint"
_REPLAY = f"{_BACKWARD}/rematted_computation"


@dataclass(frozen=True, kw_only=True)
class PublishedBucket:
    """One published number: its key in the file, picoseconds per GPU and step, scopes that it is found by."""

    table: str
    key: str
    mean_ps: int
    prefixes: tuple[str, ...]
    collective: str = ""


def _bucket(table: str, key: str, mean_ps: int, *prefixes: str, collective: str = "") -> PublishedBucket:
    return PublishedBucket(table=table, key=key, mean_ps=mean_ps, prefixes=prefixes, collective=collective)


PUBLISHED = (
    _bucket("forward_map_ms", "embedding", 9183540375, f"{_MICRO}/jvp(embedding)"),
    _bucket("forward_map_ms", "attention", 311439758625, f"{_FORWARD}/attention", f"{_FORWARD}/self_attention/query"),
    _bucket("forward_map_ms", "router", 37964183625, f"{_FORWARD}/router_gate", f"{_FORWARD}/router_masks"),
    _bucket("forward_map_ms", "dispatch", 157283367125, f"{_FORWARD}/dispatch"),
    _bucket("forward_map_ms", "expert_mlp", 1541829023625, f"{_FORWARD}/wi_0", f"{_FORWARD}/ffn_act", f"{_FORWARD}/wo"),
    _bucket("forward_map_ms", "combine", 120293463750, f"{_FORWARD}/combine", f"{_FORWARD}/weight_sum"),
    _bucket("forward_map_ms", "scan_and_layout", 135364396500, f"{_MICRO}/jvp()/while/body"),
    _bucket("forward_map_ms", "final_norm", 89365625, f"{_MICRO}/jvp(final_norm)"),
    _bucket("forward_map_ms", "lm_head", 9396977375, f"{_MICRO}/jvp(lm_head)"),
    _bucket("backward_map_ms", "embedding_vjp", 7114073250, f"{_MICRO}/transpose(jvp(embedding))"),
    _bucket("backward_map_ms", "lm_head_vjp", 17911513750, f"{_MICRO}/transpose(jvp(lm_head))"),
    _bucket("backward_map_ms", "final_norm_vjp", 385467625, f"{_MICRO}/transpose(jvp(final_norm))"),
    _bucket("backward_map_ms", "attention_backward", 958170151250, f"{_BACKWARD}/attention"),
    _bucket("backward_map_ms", "layer_norm_vjps", 88235301125, f"{_BACKWARD}/pre_attention_norm",
            f"{_BACKWARD}/post_attention_norm"),
    _bucket("backward_map_ms", "moe_backward", 6065244340500, f"{_BACKWARD}/wi_1", f"{_BACKWARD}/wo",
            f"{_BACKWARD}/combine", f"{_BACKWARD}/dispatch", f"{_BACKWARD}/router_gate"),
    _bucket("backward_map_ms", "scan_and_layout", 150804912500, f"{_MICRO}/transpose(jvp())/while/body"),
    _bucket("remat_map_ms", "attention_replay", 1523102375, f"{_REPLAY}/attention"),
    _bucket("remat_map_ms", "layer_norm_replay", 11797538375, f"{_REPLAY}/pre_attention_norm"),
    _bucket("remat_map_ms", "moe_replay", 2197214386250, f"{_REPLAY}/wi_0", f"{_REPLAY}/dispatch"),
    _bucket("phase_summary_ms", "loss", 953180500, f"{_MICRO}/loss"),
    _bucket("phase_summary_ms", "gradient_accumulation", 21015125, f"{_MICRO}/gradient_accumulation"),
    _bucket("phase_summary_ms", "optimizer", 8533312125, "jit(train_step)/optimizer"),
    _bucket("phase_summary_ms", "unattributed", 297452322625, "jit(train_step)"),
    _bucket("phase_summary_ms", "forward_collective", 4298822804250, f"{_FORWARD}/wi_0", collective="all-gather"),
    _bucket("phase_summary_ms", "backward_collective", 3360329261375, f"{_BACKWARD}/wo", collective="reduce-scatter"),
    _bucket("phase_summary_ms", "remat_collective", 5608803542625, f"{_REPLAY}/wi_0", collective="all-gather"),
    _bucket("phase_summary_ms", "other_collective", 1292874748125, "jit(train_step)", collective="all-reduce"),
)  # fmt: skip

# Of each GPU, ns: compute union, communication union, their intersection, span.
INTERVALS = (
    (12210528812, 14451571688, 5938005397, 20759112418),
    (12096214452, 14629496595, 6002151805, 20759088690),
    (12174467309, 14503977220, 5955033279, 20759100088),
    (12157239185, 14566140033, 5999760760, 20759107402),
    (12109822781, 14545850601, 5933697376, 20759107742),
    (12070277031, 14633788270, 5982604268, 20759155405),
    (12100602061, 14557829619, 5936773291, 20759108156),
    (12106383842, 14597988825, 5982693072, 20759154746),
)


@dataclass(frozen=True, kw_only=True)
class _Operation:
    name: str
    op_name: str
    bucket: PublishedBucket


def operations() -> list[_Operation]:
    """The rows of the table of kernels: more than the 305 of the study."""
    return [
        _Operation(
            name=f"{bucket.table[:3]}_{bucket.key}.{i}",
            op_name=f"{bucket.prefixes[i % len(bucket.prefixes)]}/op{i}",
            bucket=bucket,
        )
        for bucket in PUBLISHED
        for i in range(OPS_PER_BUCKET)
    ]


def attributed() -> pd.DataFrame:
    """ATTRIBUTED of the whole trace, made by the classification itself."""
    component_map = read_shipped_map("maxtext")
    classified = {
        "1": {
            each.name: classify_op_name(each.op_name, component_map, collective=each.bucket.collective)
            for each in operations()
        }
    }
    dispatches, edges = _dispatches()
    agents = make_agents(
        [{"run": "r", "process": "p", "agent_id": i, "device": f"host:gpu{i}", "kind": "GPU"} for i in range(DEVICES)]
    )
    return attribute_dispatches(dispatches, edges, agents, classified)


def _dispatches() -> tuple[pd.DataFrame, pd.DataFrame]:
    rows, links = [], []
    for device in range(DEVICES):
        for number, (each, start, end) in enumerate(_timeline(device)):
            key = {"run": "r", "process": "p", "dispatch_id": device * 1000 + number}
            is_communication = bool(each.bucket.collective)
            rows.append(
                {
                    **key,
                    "agent_id": device,
                    "kernel_name": "ncclDevKernel_Generic_2" if is_communication else each.name,
                    "start_ns": start,
                    "end_ns": end,
                    "stream_id": int(is_communication),
                }
            )
            links.append({**key, "program_id": "1", "instruction": each.name, "method": "annotation"})
    return make_frame(DISPATCHES, rows), make_frame(DISPATCH_EDGES, links)


def _timeline(device: int) -> list[tuple[_Operation, int, int]]:
    """Kernels one after another; the first two compute kernels overlap by what the sum is more than the union."""
    compute_ns, communication_ns, hidden_ns, span_ns = INTERVALS[device]
    placed = []
    compute = [each for each in operations() if not each.bucket.collective]
    communication = [each for each in operations() if each.bucket.collective]
    lengths = _lengths(compute, [row[0] for row in INTERVALS])[:, device]
    end = -int(lengths.sum() - compute_ns)
    for number, (each, length) in enumerate(zip(compute, lengths.tolist(), strict=True)):
        start = 0 if number == 0 else end
        end = start + length - (int(lengths.sum()) - compute_ns if number == 0 else 0)
        placed.append((each, start, start + length))
    lengths = _lengths(communication, [row[1] for row in INTERVALS])[:, device]
    idle_ns = span_ns - (compute_ns + communication_ns - hidden_ns)
    end = compute_ns - hidden_ns
    for number, (each, length) in enumerate(zip(communication, lengths.tolist(), strict=True)):
        start = end + (idle_ns if number == len(communication) - 1 else 0)
        end = start + length
        placed.append((each, start, end))
    return placed


def _lengths(chosen: list[_Operation], of_device: list[int]) -> npt.NDArray[np.int64]:
    """ns of each operation on each device: buckets add up to the published sums, devices to (nearly) their unions."""
    totals = np.array([each.bucket.mean_ps * DEVICES // 1000 for each in chosen]) // OPS_PER_BUCKET
    for i in range(0, len(chosen), OPS_PER_BUCKET):
        totals[i] += chosen[i].bucket.mean_ps * DEVICES // 1000 - int(totals[i : i + OPS_PER_BUCKET].sum())
    lengths = np.outer(totals, np.array(of_device) / sum(of_device)).astype(np.int64)
    lengths[:, -1] += totals - lengths.sum(axis=1)
    # What is left over (as each device has a share of what overlaps) is moved between devices in the largest operation.
    extra = int(totals.sum()) - sum(of_device)
    wanted = np.array(of_device) + extra // DEVICES
    wanted[-1] += extra - extra // DEVICES * DEVICES
    lengths[int(totals.argmax())] += wanted - lengths.sum(axis=0)
    return lengths
